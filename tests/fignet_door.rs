//! The FigNet door, packet by packet, bytes written by hand: what is dropped is unanswered, counted and changes nothing, and
//! what is not proven is sent little.

mod common;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use common::{ENTITIES, fignet_address, fignet_config, rtype_sim};
use tickwire::client::bot::Bot;
use tickwire::client::fignet::{Phase, Settings};
use tickwire::heap::{Heap, thread_allocations};
use tickwire::seam::Door;
use tickwire::session::drops::DropReason;
use tickwire::sim::{Faults, Sim};
use tickwire::time::Duration;
use tickwire::world::Game as _;
use tickwire::world::rtype::RtypeGame;

#[global_allocator]
static HEAP: Heap = Heap;

const CONNECT: u8 = 0x01;
const PROTOCOL_ID: [u8; 4] = 0x1234_5678_u32.to_le_bytes();

/// A header without an acknowledgement, and what follows it.
fn packet(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = PROTOCOL_ID.to_vec();
    bytes.extend([kind, flags, 7, 0, 0, 0, 0, 0]);
    bytes.extend((payload.len() as u16).to_le_bytes());
    bytes.extend(payload);
    bytes
}

/// Version, nonce, channels, MTU.
fn connect(version: u16, nonce: u32, channels: u8) -> Vec<u8> {
    let mut body = version.to_le_bytes().to_vec();
    body.extend(nonce.to_le_bytes());
    body.push(channels);
    body.extend(1200u16.to_le_bytes());
    packet(CONNECT, 0, &body)
}

/// Two players, and nobody else.
fn two_players() -> Sim<RtypeGame> {
    let mut sim = rtype_sim(4, Faults::default(), 1);
    let settings = Settings { config: fignet_config(), entities_max: ENTITIES, snapshot_interval: 3 };
    for player in 0..2 {
        let bot = Some(Bot::new(player as u64));
        sim.connect_fignet(&settings, fignet_address(player), 40 + player as u32, None, bot);
    }
    sim.run(Duration::from_secs(2), |_, _, _| ());
    assert!(sim.fignet_peers.iter().all(|peer| peer.client.phase() == Phase::Playing));
    sim
}

/// A stranger's packets that are none: each is dropped for its reason, without an answer.
#[test]
fn what_is_no_packet_is_dropped_in_silence() {
    let mut sim = two_players();
    let stranger = fignet_address(100);
    let mut foreign = connect(1, 1, 4);
    foreign[0] ^= 1;
    let mut long = connect(1, 1, 4);
    long.push(0);
    let mut short = connect(1, 1, 4);
    short.pop();
    for (bytes, reason) in [
        (Vec::new(), DropReason::TruncatedHeader),
        (connect(1, 1, 4)[..13].to_vec(), DropReason::TruncatedHeader),
        (foreign, DropReason::BadMagic),
        (packet(0x00, 0, &[]), DropReason::UnknownType),
        (packet(0x07, 0, &[]), DropReason::UnknownType),
        (packet(0x22, 0, &[]), DropReason::UnknownType),
        (packet(CONNECT, 0x20, &[0; 9]), DropReason::MalformedPacket),
        (packet(CONNECT, 0x80, &[0; 9]), DropReason::MalformedPacket),
        (long, DropReason::MalformedPacket),
        (short, DropReason::MalformedPacket),
        (packet(CONNECT, 0, &[1, 0, 1]), DropReason::MalformedPacket),
        (vec![0x78; 1201], DropReason::TooLarge),
        // Not from somebody who is connected.
        (packet(0x05, 0, &[0; 8]), DropReason::Foreign),
        (packet(0x11, 0, &[3, 0, 0, 0]), DropReason::Foreign),
        (packet(0x03, 0, &[0]), DropReason::Foreign),
    ] {
        let (pools, before) = (sim.server.pools(), *sim.server.drops());
        let hash = sim.server.game(0).map(RtypeGame::state_hash);
        sim.datagram_at(Door::Fignet, stranger, &bytes);
        let after = *sim.server.drops();
        assert_eq!(after.get(reason), before.get(reason) + 1, "{bytes:02x?}: {after}");
        assert_eq!(after.total(), before.total() + 1, "{bytes:02x?}: {after}");
        assert_eq!(sim.server.game(0).map(RtypeGame::state_hash), hash);
        sim.run(Duration::from_millis(50), |_, _, _| ());
        assert_eq!(sim.strays, [], "unanswered: {bytes:02x?}");
        assert_eq!(sim.server.pools().peers, pools.peers);
    }
}

/// Refusals are one small packet that says why.
#[test]
fn refusals_say_why() {
    let mut sim = two_players();
    for (number, (bytes, code)) in
        [(connect(2, 1, 4), 0x05), (connect(1, 1, 0), 0x07)].into_iter().enumerate()
    {
        let stranger = fignet_address(100 + number);
        sim.datagram_at(Door::Fignet, stranger, &bytes);
        sim.run(Duration::from_millis(50), |_, _, _| ());
        let (to, answer) = sim.strays.pop().expect("an answer");
        assert_eq!((to, answer[4], *answer.last().expect("a reason")), (stranger, 0x03, code));
        assert!(answer.len() <= bytes.len(), "{} bytes for {}", answer.len(), bytes.len());
        assert_eq!(sim.strays, []);
    }
}

/// Ten thousand forged CONNECTs: nobody is sent three times what came from there, at most eight are half open, none of
/// them holds a place, memory stays as it is, and the players notice nothing.
#[test]
fn forged_connects_harm_nobody() {
    let mut sim = two_players();
    let (mut bytes_in, mut bytes_out) = (BTreeMap::new(), BTreeMap::new());
    let before: Vec<u64> = sim.fignet_peers.iter().map(|peer| peer.client.stats().snapshots).collect();
    for burst in 0..100u32 {
        let bytes = connect(1, burst, 4);
        let allocations = thread_allocations();
        for number in 0..100 {
            let from = SocketAddr::from((Ipv4Addr::from(0x0B00_0000 | burst << 8 | number), 9));
            sim.datagram_at(Door::Fignet, from, &bytes);
        }
        assert_eq!(thread_allocations(), allocations, "a CONNECT takes memory");
        for number in 0..100 {
            let from = SocketAddr::from((Ipv4Addr::from(0x0B00_0000 | burst << 8 | number), 9));
            *bytes_in.entry(from).or_insert(0) += bytes.len();
        }
        sim.run(Duration::from_millis(50), |_, _, _| ());
        let pools = sim.server.pools();
        assert!(pools.peers <= 8 && pools.sessions == 2 && pools.rooms_played == 1, "{pools:?}");
    }
    sim.run(Duration::from_secs(6), |_, _, _| ());
    for (to, answer) in sim.strays.drain(..) {
        *bytes_out.entry(to).or_insert(0) += answer.len();
    }
    assert!(bytes_out.len() > 5, "some were answered");
    for (to, out) in bytes_out {
        assert!(out <= 3 * bytes_in[&to], "{out} bytes to {to} for {}", bytes_in[&to]);
    }
    for (peer, before) in sim.fignet_peers.iter().zip(before) {
        assert_eq!(peer.client.phase(), Phase::Playing);
        assert!(peer.client.stats().snapshots > before + 100, "{:?}", peer.client.stats());
    }
    assert_eq!(sim.server.pools().peers, 2, "half-open connections are forgotten");
}
