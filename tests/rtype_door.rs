//! The R-Type door, packet by packet, bytes written by hand: what is dropped is unanswered, counted under its reason,
//! changes nothing and is not acknowledged. And the session flow of section 10 as a client sees it.

mod common;

use std::net::SocketAddr;

use common::{ENTITIES, rtype_address, rtype_sim, server_with, settings};
use tickwire::client::rtype::Settings as RtypeSettings;
use tickwire::limits::Limits;
use tickwire::model::Kind;
use tickwire::seam::Door;
use tickwire::session::drops::DropReason;
use tickwire::sim::{Faults, Sim};
use tickwire::time::Duration;
use tickwire::wire::rtype::blueprint::Blueprint;
use tickwire::wire::rtype::snapshot::Snapshot;
use tickwire::wire::rtype::{DATAGRAM_BYTES_MAX, Packet};
use tickwire::world::Game as _;
use tickwire::world::rtype::{Level, RtypeGame};

const RTYPE: RtypeSettings = RtypeSettings { entities_max: ENTITIES };
const HELLO: &[u8] = b"RTYP\x01\x01";

/// A server, and a connection made by hand whose packets the test writes.
struct Hand {
    sim: Sim<RtypeGame>,
    at: SocketAddr,
    connection: u32,
    sequence: u32,
}

impl Hand {
    /// Connected and proven: packet 1 was empty.
    fn playing() -> Self {
        let mut hand = Self::welcomed();
        hand.send(&[]);
        hand.rest(100);
        assert_eq!(hand.sim.server.pools().unproven, 0);
        hand
    }

    /// Welcomed, and silent since.
    fn welcomed() -> Self {
        let mut sim = rtype_sim(1, Faults::default(), 1);
        let at = rtype_address(200);
        sim.datagram_at(Door::Rtype, at, HELLO);
        sim.run(Duration::from_millis(50), |_, _, _| ());
        let (to, welcome) = sim.strays.pop().expect("an answer");
        assert_eq!((to, &welcome[..6], sim.strays.len()), (at, &b"RTYP\x01\x02"[..], 0));
        let connection = u32::from_be_bytes(welcome[6..].try_into().expect("an id"));
        assert_eq!(connection, 1, "ids begin with 1");
        Self { sim, at, connection, sequence: 0 }
    }

    fn packet(&mut self, messages: &[u8]) -> Vec<u8> {
        self.sequence += 1;
        let mut packet = Vec::new();
        for field in [self.connection, self.sequence, 0, 0] {
            packet.extend(field.to_be_bytes());
        }
        packet.extend(messages);
        packet
    }

    fn send(&mut self, messages: &[u8]) {
        let packet = self.packet(messages);
        self.sim.datagram_at(Door::Rtype, self.at, &packet);
    }

    fn rest(&mut self, ms: u64) {
        self.sim.run(Duration::from_millis(ms), |_, _, _| ());
    }

    /// The newest `ack` that the server sent.
    fn acked(&mut self) -> u32 {
        self.sim.strays.clear();
        self.rest(100);
        let (_, packet) = self.sim.strays.last().expect("a packet every 50 ms");
        u32::from_be_bytes(packet[8..12].try_into().expect("a header"))
    }

    /// Messages that the server sent lately, by type.
    fn heard(&mut self, kind: u16) -> usize {
        let packets = self.sim.strays.iter();
        packets
            .filter_map(|(_, bytes)| Packet::parse(bytes).ok())
            .map(|packet| packet.messages().filter(|message| message.kind == kind).count())
            .sum()
    }

    /// Sends bytes as they are, from `from`: nothing may come of it but a drop for `reason`.
    fn drops(&mut self, from: SocketAddr, bytes: &[u8], reason: DropReason) {
        let (pools, acked) = (self.sim.server.pools(), self.acked());
        let before = *self.sim.server.drops();
        let hash = self.sim.server.game(0).map(RtypeGame::state_hash);
        self.sim.strays.clear();
        self.sim.datagram_at(Door::Rtype, from, bytes);
        let after = *self.sim.server.drops();
        let told = format!("{bytes:02x?} from {from}: {after}");
        assert_eq!(after.get(reason), before.get(reason) + 1, "{told}");
        assert_eq!(after.total(), before.total() + 1, "{told}");
        assert_eq!(self.sim.server.game(0).map(RtypeGame::state_hash), hash, "{told}");
        self.rest(100);
        assert!(self.sim.strays.iter().all(|(to, _)| *to == self.at || *to != from), "unanswered: {told}");
        assert_eq!((self.sim.server.pools(), self.acked()), (pools, acked), "{told}");
    }
}

fn message(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = [kind.to_be_bytes(), (payload.len() as u16).to_be_bytes()].concat();
    bytes.extend(payload);
    bytes
}

fn input(sequence: u32, actions: u8) -> Vec<u8> {
    let mut payload = [sequence.to_be_bytes(), [0; 4]].concat();
    payload.push(actions);
    message(2, &payload)
}

#[test]
fn a_hello_that_is_none_is_dropped() {
    let stranger = rtype_address(9);
    let mut hand = Hand::playing();
    for (bytes, reason) in [
        (&b"RTYQ\x01\x01"[..], DropReason::BadMagic),
        (b"RTYP\x02\x01", DropReason::BadVersion),
        (b"RTYP\x00\x01", DropReason::BadVersion),
        (b"RTYP\x01\x00", DropReason::UnknownType),
        (b"RTYP\x01\x04", DropReason::UnknownType),
        (b"RTYP\x01\x02", DropReason::TruncatedHeader),
        (b"RTYP\x01\x02\x00\x00\x00\x01", DropReason::Foreign),
        (b"RTYP\x01\x03", DropReason::Foreign),
        (b"RTYP\x01\x01\x00", DropReason::MalformedHello),
        (b"RTYP\x01", DropReason::TruncatedHeader),
        (b"", DropReason::TruncatedHeader),
        (&[0x52; DATAGRAM_BYTES_MAX + 1], DropReason::TooLarge),
    ] {
        hand.drops(stranger, bytes, reason);
    }
}

#[test]
fn a_packet_that_is_none_is_dropped_whole() {
    let mut hand = Hand::playing();
    let at = hand.at;
    let valid = hand.packet(&[]);
    hand.drops(at, &valid[..15], DropReason::TruncatedHeader);
    hand.drops(rtype_address(9), &valid, DropReason::BadMagic);
    let mut other = valid.clone();
    other[3] = 2;
    hand.drops(at, &other, DropReason::Foreign);
    for messages in [
        &[0, 3, 0][..],
        &[0, 3, 0, 4, 1, 2, 3],
        &[0, 3, 0, 4, 1, 2, 3, 4, 0],
        &[0, 3, 0xFF, 0xFF],
        &[0, 3, 0, 4, 1, 2, 3, 4, 0, 3, 0, 5, 1, 2, 3, 4],
    ] {
        let packet = hand.packet(messages);
        hand.drops(at, &packet, DropReason::MalformedPacket);
        assert_eq!(hand.heard(0x86), 0, "no Pong for a whole message of a bad packet");
    }
    let long = hand.packet(&[0; DATAGRAM_BYTES_MAX]);
    hand.drops(at, &long, DropReason::TooLarge);
}

#[test]
fn duplicates_and_old_packets_are_dropped_and_late_ones_are_not() {
    let mut hand = Hand::playing();
    let at = hand.at;
    hand.sequence = 99;
    hand.send(&[]);
    assert_eq!(hand.acked(), 100);
    let at_sequence = |hand: &mut Hand, sequence: u32| {
        hand.sequence = sequence - 1;
        hand.packet(&message(3, &[1, 2, 3, 4]))
    };
    let duplicate = at_sequence(&mut hand, 100);
    hand.drops(at, &duplicate, DropReason::Stale);
    let old = at_sequence(&mut hand, 67);
    hand.drops(at, &old, DropReason::Stale);
    for sequence in [68, 99] {
        let late = at_sequence(&mut hand, sequence);
        hand.sim.strays.clear();
        hand.sim.datagram_at(Door::Rtype, at, &late);
        hand.rest(50);
        assert_eq!(hand.heard(0x86), 1, "{sequence} is late, not lost");
        hand.drops(at, &late, DropReason::Stale);
    }
}

/// One bad message is dropped alone: the Ping behind it is answered, and the packet is acknowledged.
#[test]
fn a_bad_message_is_dropped_alone() {
    let mut hand = Hand::playing();
    for (bad, reason) in [
        (message(2, &[0; 8]), Some(DropReason::MalformedInput)),
        (message(2, &[0; 10]), Some(DropReason::MalformedInput)),
        (input(1, 0x20), Some(DropReason::MalformedInput)),
        (message(3, &[0; 3]), Some(DropReason::MalformedPing)),
        (message(3, &[0; 5]), Some(DropReason::MalformedPing)),
        (message(4, &[]), Some(DropReason::MalformedDisconnect)),
        (message(4, &[0]), Some(DropReason::MalformedDisconnect)),
        (message(4, &[5]), Some(DropReason::MalformedDisconnect)),
        (message(4, &[1, 1]), Some(DropReason::MalformedDisconnect)),
        (message(0x13, &[0; 3]), Some(DropReason::MalformedQuery)),
        (message(0x13, &[0; 4]), Some(DropReason::MalformedQuery)),
        (message(0, &[]), Some(DropReason::MalformedPacket)),
        // Not known, or not for servers: ignored.
        (message(0x42, &[1]), None),
        (message(0x83, &[0; 6]), None),
        (message(0x86, &[0; 4]), None),
        (message(0xFFFF, &[]), None),
    ] {
        let before = *hand.sim.server.drops();
        hand.sim.strays.clear();
        let mut messages = bad.clone();
        messages.extend(message(3, &[9, 9, 9, 9]));
        hand.send(&messages);
        let after = *hand.sim.server.drops();
        assert_eq!(after.total() - before.total(), u64::from(reason.is_some()), "{bad:02x?}: {after}");
        assert!(
            reason.is_none_or(|reason| after.get(reason) == before.get(reason) + 1),
            "{bad:02x?}: {after}"
        );
        hand.rest(50);
        assert_eq!(hand.heard(0x86), 1, "{bad:02x?}");
        let sequence = hand.sequence;
        assert_eq!(hand.acked(), sequence, "{bad:02x?}");
    }
    assert_eq!(hand.sim.server.pools().sessions, 1);
}

/// Inputs that are not newer change nothing; the counter wraps.
#[test]
fn old_inputs_are_dropped_and_the_counter_wraps() {
    let mut hand = Hand::playing();
    let y = |hand: &Hand| {
        let game = hand.sim.server.game(0).expect("the room");
        let ship = game.entities().iter().find(|(_, entity)| entity.kind == Kind::SHIP).expect("a ship");
        ship.1.y
    };
    let start = y(&hand);
    hand.send(&input(u32::MAX, 0x01));
    hand.rest(100);
    let up = y(&hand);
    assert!(up < start, "up is towards 0");
    hand.send(&input(0, 0x02));
    hand.rest(100);
    assert!(y(&hand) > up, "0 follows the largest number");
    hand.send(&input(u32::MAX - 5, 0x01));
    hand.send(&input(0, 0x01));
    let down = y(&hand);
    hand.rest(100);
    assert!(y(&hand) > down, "older inputs, and the same one, change nothing");
    // Both at once: down and right win. Released: at rest.
    hand.send(&input(1, 0x0F));
    hand.rest(50);
    let game = hand.sim.server.game(0).expect("the room");
    let ship = *game.entities().iter().find(|(_, entity)| entity.kind == Kind::SHIP).expect("a ship").1;
    assert!(ship.vx > 0 && ship.vx == ship.vy, "{ship:?}");
}

/// Shoot fires when it is let go, once.
#[test]
fn letting_go_fires() {
    let mut hand = Hand::playing();
    let missiles = |hand: &Hand| {
        let game = hand.sim.server.game(0).expect("the room");
        game.entities().iter().filter(|(_, entity)| entity.kind == Kind::MISSILE).count()
    };
    hand.send(&input(1, 0x10));
    hand.rest(100);
    assert_eq!(missiles(&hand), 0);
    hand.send(&input(2, 0x00));
    hand.rest(50);
    assert_eq!(missiles(&hand), 1);
    hand.send(&input(3, 0x00));
    hand.rest(100);
    assert_eq!(missiles(&hand), 1);
}

/// A lost Welcome comes again, the same, at most every 500 ms, until a packet proved the connection. Until then nothing else
/// is sent, and after five seconds it is forgotten.
#[test]
fn an_unproven_connection_gets_its_welcome_and_nothing_else() {
    let mut hand = Hand::welcomed();
    let mut bytes_out = 10;
    for _ in 0..40 {
        hand.sim.datagram_at(Door::Rtype, hand.at, HELLO);
        hand.rest(50);
        for (_, answer) in hand.sim.strays.drain(..) {
            assert_eq!(answer, b"RTYP\x01\x02\x00\x00\x00\x01");
            bytes_out += answer.len();
        }
    }
    assert_eq!(bytes_out, 10 + 4 * 10, "one in every 500 ms");
    assert_eq!(hand.sim.server.pools().rooms_played, 0, "no ship before the first packet");
    hand.rest(2900);
    assert_eq!(hand.sim.server.pools().unproven, 1);
    hand.rest(200);
    assert_eq!((hand.sim.server.pools().unproven, hand.sim.server.pools().endpoints), (0, 0));
    assert!(hand.sim.strays.is_empty());
    // The next connection has the next id.
    hand.sim.datagram_at(Door::Rtype, hand.at, HELLO);
    hand.rest(50);
    assert_eq!(hand.sim.strays.pop().expect("an answer").1, b"RTYP\x01\x02\x00\x00\x00\x02");
    hand.connection = 2;
    hand.send(&[]);
    let at = hand.at;
    hand.drops(at, HELLO, DropReason::TruncatedHeader);
}

/// Queries: one answer for what is there, none for what is not.
#[test]
fn a_query_is_answered_if_the_entity_exists() {
    let mut hand = Hand::playing();
    hand.sim.strays.clear();
    let ship = {
        let game = hand.sim.server.game(0).expect("the room");
        let index = game.entities().indices().next().expect("the ship");
        game.entities().id(index).expect("the ship").0
    };
    hand.send(&message(0x13, &ship.to_be_bytes()));
    hand.rest(40);
    assert_eq!(hand.heard(0x84), 1);
    hand.sim.strays.clear();
    hand.send(&message(0x13, &0x00FF_0001_u32.to_be_bytes()));
    hand.rest(40);
    assert_eq!(hand.heard(0x84), 0);
}

/// A hundred malformed packets within five seconds end the connection.
#[test]
fn a_broken_client_is_sent_away() {
    let mut hand = Hand::playing();
    for count in 1..=100 {
        assert_eq!(hand.sim.server.pools().sessions, 1, "after {count}");
        hand.send(&[0, 3, 0]);
        hand.rest(10);
    }
    assert_eq!((hand.sim.server.pools().sessions, hand.sim.server.stats().sessions_broken), (0, 1));
}

/// Section 10: ships in the colours and at the places of their slots; the round begins with the second player; when
/// everyone has left, the room is a new one.
#[test]
fn the_session_flow() {
    let mut sim = rtype_sim(1, Faults::default(), 1);
    for player in 0..4 {
        sim.connect_rtype(&RTYPE, rtype_address(player), None);
        sim.run(Duration::from_millis(100), |_, _, _| ());
    }
    sim.run(Duration::from_millis(200), |_, _, _| ());
    for peer in &sim.rtype_peers {
        for (slot, colour) in ["player_blue", "player_green", "player_pink", "player_red"].iter().enumerate()
        {
            let ship =
                peer.client.known().find(|known| known.blueprint.map(Blueprint::name) == Some(*colour));
            let ship = ship.expect("a ship in the colour of its slot").entity;
            assert_eq!((ship.x / 64, ship.y / 64), (150, 150 + 100 * slot as i32), "{colour}");
        }
    }
    let enemies = |sim: &Sim<RtypeGame>| {
        let known = sim.rtype_peers[0].client.known();
        known.filter(|known| known.blueprint == Some(Blueprint::Bydos)).count()
    };
    assert!(sim.run_until(Duration::from_secs(20), |sim| enemies(sim) > 0), "the round began at once");
    sim.rtype_peers.iter_mut().for_each(|peer| peer.client.leave());
    sim.run(Duration::from_millis(200), |_, _, _| ());
    assert_eq!(sim.server.pools().rooms_played, 0);
    // Alone, nothing comes for 30 seconds; then it does.
    sim.rtype_peers.clear();
    sim.connect_rtype(&RTYPE, rtype_address(7), None);
    sim.run(Duration::from_secs(29), |_, _, _| ());
    assert_eq!((enemies(&sim), sim.server.pools().rooms_played), (0, 1), "the lobby");
    assert!(sim.run_until(Duration::from_secs(20), |sim| enemies(sim) > 0), "30 s after the first player");
}

/// A crowd: Snapshots of at most 47 in packets of their own, each tick's together showing everyone once; 20 a second; no
/// datagram above 548 bytes.
#[test]
fn snapshots_of_a_crowd_are_split() {
    let level = Level::builtin("stress").and_then(|level| level.with_entities(150).ok()).expect("the crowd");
    let server = server_with(1, 200, 3, level, 1);
    let mut sim = Sim::new(server, Limits::new(1, 200).streams, Faults::default(), 1);
    sim.connect(&settings("aegis"), common::address(0));
    sim.connect_rtype(&RtypeSettings { entities_max: 200 }, rtype_address(0), None);
    sim.run(Duration::from_secs(3), |_, _, _| ());
    sim.tap = Some(Vec::new());
    sim.run(Duration::from_secs(3), |_, _, _| ());
    let tap = sim.tap.take().expect("the tap");
    let mut ticks: std::collections::BTreeMap<u32, Vec<u32>> = std::collections::BTreeMap::new();
    for (_, bytes) in tap.iter().filter(|(to, _)| *to == rtype_address(0)) {
        assert!(bytes.len() <= DATAGRAM_BYTES_MAX, "{} bytes", bytes.len());
        let packet = Packet::parse(bytes).expect("a packet");
        let kinds: Vec<u16> = packet.messages().map(|message| message.kind).collect();
        if !kinds.contains(&Snapshot::KIND) {
            continue;
        }
        assert_eq!(kinds, [Snapshot::KIND], "in a packet of its own");
        let snapshot = Snapshot::parse(packet.messages().next().expect("one").payload).expect("valid");
        ticks.entry(snapshot.tick).or_default().extend(snapshot.iter().map(|state| state.id.0));
    }
    assert!((59..=61).contains(&ticks.len()), "{} ticks in 3 s", ticks.len());
    for (tick, ids) in &ticks {
        let truth = sim.truth(0, *tick).map(|truth| truth.entities.len());
        let mut once = ids.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), ids.len(), "nobody twice");
        assert!(
            ids.len() > 147 && truth.is_none_or(|truth| truth == ids.len()),
            "{} of {truth:?}",
            ids.len()
        );
    }
}
