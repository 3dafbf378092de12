use super::*;
use crate::model::Kind;
use crate::wire::rtype::message::{ClientMessage, DestroyReason, Message, Pong};
use crate::wire::rtype::snapshot::EntityState;
use crate::wire::rtype::value::{Pos16, Rot16};

mod link;

const ID: u32 = 7;
const WELCOME: [u8; 10] = *b"RTYP\x01\x02\x00\x00\x00\x07";

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn client() -> Client {
    Client::new(&Settings { entities_max: 64 })
}

/// A client that was welcomed at 1000 ms.
fn playing() -> Client {
    let mut client = client();
    assert_eq!(hear(&mut client, 1000, &WELCOME), Ok(()));
    client
}

fn hear(client: &mut Client, ms: u64, bytes: &[u8]) -> Result<(), Ignored> {
    client.datagram(at(ms), at(ms), bytes)
}

/// A server's packet.
fn packet(sequence: u32, write: impl FnOnce(&mut PacketWriter<'_>)) -> Vec<u8> {
    let mut out = [0; 548];
    let header = Header { connection: ID, sequence, ack: 0, ack_bits: 0 };
    let mut writer = PacketWriter::new(&header, &mut out);
    write(&mut writer);
    let len = writer.finish();
    out[..len].to_vec()
}

fn say<M: Message>(client: &mut Client, sequence: u32, message: &M) {
    let bytes = packet(sequence, |writer| assert!(writer.push(message)));
    assert_eq!(hear(client, 1000, &bytes), Ok(()));
}

fn create(tick: u32, id: u32, blueprint: Blueprint) -> CreateEntity {
    let (x, y) = (Pos16::from_pixels(100.0), Pos16::from_pixels(50.0));
    CreateEntity { tick, id: EntityId(id), archetype: blueprint.archetype(), x, y, rotation: Rot16(0) }
}

fn destroy(tick: u32, id: u32) -> DestroyEntity {
    DestroyEntity { tick, id: EntityId(id), reason: DestroyReason::Gameplay }
}

/// A Snapshot with entities at these places, in pixels.
fn snapshot(client: &mut Client, ms: u64, sequence: u32, tick: u32, places: &[(u32, i32, i32)]) {
    let mut states = places.iter().map(|&(id, x, y)| EntityState {
        id: EntityId(id),
        archetype_low: 0,
        x: Pos16::from_units(x * 64),
        y: Pos16::from_units(y * 64),
        rotation: Rot16(9),
    });
    let bytes = packet(sequence, |writer| {
        writer.snapshot(tick, &mut states).unwrap();
    });
    assert_eq!(hear(client, ms, &bytes), Ok(()));
}

fn place(client: &Client, id: u32) -> Option<(i32, i32)> {
    client.entity(EntityId(id)).map(|known| (known.entity.x / 64, known.entity.y / 64))
}

/// What the client has to say now.
fn said(client: &mut Client, ms: u64) -> Vec<(Header, Vec<ClientMessage>)> {
    let mut buffer = [0; 548];
    let mut said = Vec::new();
    while let Some(len) = client.transmit(at(ms), &mut buffer) {
        let packet = Packet::parse(&buffer[..len]).unwrap();
        let messages = packet.messages().map(|raw| ClientMessage::parse(&raw).unwrap()).collect();
        said.push((*packet.header(), messages));
        assert!(said.len() < 10, "it never ends");
    }
    said
}

/// The ids that the client asks for.
fn asked(client: &mut Client, ms: u64) -> Vec<u32> {
    said(client, ms)
        .into_iter()
        .flat_map(|(_, messages)| messages)
        .filter_map(|message| match message {
            ClientMessage::QueryEntity(query) => Some(query.id.0),
            _ => None,
        })
        .collect()
}

/// 4.2: a Hello every second, for ten seconds.
#[test]
fn rtype_4_2_hello_every_second_for_ten_seconds() {
    let mut client = client();
    let mut buffer = [0; 548];
    let mut times = Vec::new();
    for ms in 500..20_000 {
        if let Some(len) = client.transmit(at(ms), &mut buffer) {
            assert_eq!(buffer[..len], *b"RTYP\x01\x01");
            times.push(ms);
        }
    }
    assert!(times.into_iter().eq((0..10).map(|second| 500 + second * 1000)));
    assert_eq!((client.phase(), client.next_deadline()), (Phase::Over(Over::NoAnswer), None));
    assert_eq!(hear(&mut client, 20_000, &WELCOME), Err(Ignored::Over));
}

/// 4.3, 4.4: everything but an exact Welcome or Rejected is ignored.
#[test]
fn rtype_4_3_and_4_4_other_answers_are_ignored() {
    let mut client = client();
    for (bytes, error) in [
        (&WELCOME[..9], HandshakeError::Truncated),
        (b"RTYP\x01\x02\x00\x00\x00\x07\x00", HandshakeError::Trailing),
        (b"RTYP\x01\x02\x00\x00\x00\x00", HandshakeError::Connection),
        (b"RTYP\x01\x03\x00", HandshakeError::Trailing),
        (b"RTYQ\x01\x03", HandshakeError::Magic),
        (b"RTYP\x02\x03", HandshakeError::Version),
        (b"RTYP\x01\x00", HandshakeError::Kind),
    ] {
        assert_eq!(hear(&mut client, 1000, bytes), Err(Ignored::Handshake(error)));
        assert_eq!(client.phase(), Phase::Connecting);
    }
    assert_eq!(hear(&mut client, 1000, b"RTYP\x01\x01"), Err(Ignored::Foreign));
    // A connected packet is not one before Welcome (3).
    assert!(hear(&mut client, 1000, &packet(1, |_| ())).is_err());
    assert_eq!(hear(&mut client, 1000, &WELCOME), Ok(()));
    assert_eq!((client.phase(), client.connection()), (Phase::Playing, 7));
}

/// 4.4: Rejected ends it.
#[test]
fn rtype_4_4_rejected_stops_the_attempt() {
    let mut client = client();
    assert_eq!(hear(&mut client, 1000, b"RTYP\x01\x03"), Ok(()));
    assert_eq!(client.phase(), Phase::Over(Over::Rejected));
    assert_eq!(client.transmit(at(9000), &mut [0; 548]), None);
}

/// 3: after Welcome a handshake datagram is no packet, so a repeated Welcome changes nothing.
#[test]
fn rtype_3_after_welcome_everything_is_a_packet() {
    let mut client = playing();
    for bytes in [&WELCOME[..], b"RTYP\x01\x03"] {
        assert_eq!(hear(&mut client, 1000, bytes), Err(Ignored::Packet(PacketError::Truncated)));
    }
    assert_eq!(client.phase(), Phase::Playing);
}

/// 2.2, 5.2, 5.3, 5.4: size, sequence, framing, connection.
#[test]
fn rtype_5_4_packets_that_are_dropped() {
    let mut client = playing();
    let good = packet(5, |writer| assert!(writer.push(&create(1, 1, Blueprint::Bydos))));
    let mut foreign = good.clone();
    foreign[3] ^= 1;
    assert_eq!(hear(&mut client, 1000, &foreign), Err(Ignored::Foreign));
    assert_eq!(hear(&mut client, 1000, &good[..15]), Err(Ignored::Packet(PacketError::Truncated)));
    assert_eq!(hear(&mut client, 1000, &good[..18]), Err(Ignored::Packet(PacketError::MessageHeader)));
    assert_eq!(hear(&mut client, 1000, &good[..30]), Err(Ignored::Packet(PacketError::MessageSize)));
    assert_eq!(hear(&mut client, 1000, &[0; 549]), Err(Ignored::Packet(PacketError::TooLarge)));
    assert_eq!((client.known_count(), client.link().receipts().ack()), (0, 0));
    assert_eq!(hear(&mut client, 1000, &good), Ok(()));
    assert_eq!(hear(&mut client, 1000, &good), Err(Ignored::Stale));
    assert_eq!((client.known_count(), client.stats().dropped, client.stats().stale), (1, 5, 1));
}

/// 7.1, 5.1, 5.2: an Input each frame, also with nothing held, numbered from 1 in packets numbered from 1.
#[test]
fn rtype_7_1_an_input_every_frame() {
    let mut client = playing();
    hear(&mut client, 1000, &packet(3, |_| ())).unwrap();
    hear(&mut client, 1000, &packet(1, |_| ())).unwrap();
    let mut frames = 0;
    for ms in 1000..2000 {
        for (header, messages) in said(&mut client, ms) {
            frames += 1;
            assert_eq!(header, Header { connection: ID, sequence: frames, ack: 3, ack_bits: 0b10 });
            let ClientMessage::Input(input) = messages[0] else { panic!("an Input: {messages:?}") };
            assert_eq!(
                (input.sequence, input.client_tick, input.controls),
                (frames, frames, Controls::RELEASED)
            );
        }
    }
    assert!((58..=61).contains(&frames), "{frames}");
    // Who comes late sends the newest controls once.
    client.set_controls(Controls::from_bits(0x19).unwrap());
    let late = said(&mut client, 5000);
    let ClientMessage::Input(input) = late[0].1[0] else { panic!("an Input") };
    assert_eq!((late.len(), input.controls.bits()), (1, 0x19));
}

/// 7.2, 8.4: the time from a Ping to its Pong, and nothing from a Pong to no Ping.
#[test]
fn rtype_7_2_the_round_trip_is_measured() {
    let mut client = playing();
    let mut ping = None;
    for (_, messages) in said(&mut client, 1000) {
        for message in messages {
            if let ClientMessage::Ping(Ping { timestamp }) = message {
                ping = Some(timestamp);
            }
        }
    }
    let timestamp = ping.expect("a Ping in the first frame");
    for (ms, sequence, timestamp) in [(1010, 1, timestamp + 1), (1035, 2, timestamp), (1400, 3, timestamp)] {
        let bytes = packet(sequence, |writer| assert!(writer.push(&Pong { timestamp })));
        assert_eq!(hear(&mut client, ms, &bytes), Ok(()));
    }
    assert_eq!((client.rtt().smoothed(), client.stats().pongs), (Some(Duration::from_millis(35)), 1));
}

/// 8.1: the positions of known entities, and a question, once, about each unknown one.
#[test]
fn rtype_8_1_and_7_4_a_snapshot_places_the_known_and_asks_for_the_unknown() {
    let mut client = playing();
    say(&mut client, 1, &create(10, 1, Blueprint::Bydos));
    assert_eq!(place(&client, 1), Some((100, 50)));
    snapshot(&mut client, 1000, 2, 11, &[(1, 90, 60), (2, 5, 5), (3, 6, 6)]);
    snapshot(&mut client, 1000, 3, 14, &[(1, 80, 70), (2, 5, 5), (3, 6, 6)]);
    assert_eq!((place(&client, 1), place(&client, 2)), (Some((80, 70)), None));
    assert_eq!(client.entity(EntityId(1)).unwrap().rotation, Rot16(9));
    assert_eq!(asked(&mut client, 1000), [2, 3]);
    snapshot(&mut client, 1000, 4, 17, &[(2, 5, 5), (3, 6, 6)]);
    assert!(asked(&mut client, 1100).is_empty());
    say(&mut client, 5, &create(18, 2, Blueprint::Tile(3)));
    snapshot(&mut client, 1000, 6, 20, &[(2, 7, 7)]);
    assert_eq!((place(&client, 2), client.stats().queries), (Some((7, 7)), 2));
}

/// A question that was answered before it was asked is not asked.
#[test]
fn nobody_asks_for_what_came_meanwhile() {
    let mut client = playing();
    snapshot(&mut client, 1000, 1, 11, &[(2, 5, 5)]);
    say(&mut client, 2, &create(12, 2, Blueprint::Bydos));
    assert!(asked(&mut client, 1000).is_empty());
}

/// A Snapshot that was overtaken on its way moves nothing back.
#[test]
fn an_overtaken_snapshot_moves_nothing_back() {
    let mut client = playing();
    say(&mut client, 1, &create(10, 1, Blueprint::Bydos));
    snapshot(&mut client, 1000, 3, 14, &[(1, 80, 70)]);
    snapshot(&mut client, 1000, 2, 11, &[(1, 90, 60)]);
    assert_eq!(place(&client, 1), Some((80, 70)));
}

/// 8.1: malformed ones change nothing, whatever good states they hold.
#[test]
fn rtype_8_1_malformed_snapshots_are_dropped() {
    let mut client = playing();
    say(&mut client, 1, &create(10, 1, Blueprint::Bydos));
    let good = {
        let mut states = (1..=3).map(|id| EntityState {
            id: EntityId(id),
            archetype_low: 0,
            x: Pos16(0),
            y: Pos16(0),
            rotation: Rot16(0),
        });
        packet(2, |writer| {
            writer.snapshot(11, &mut states).unwrap();
        })
    };
    let broken: [fn(&mut Vec<u8>); 4] = [
        |bytes| bytes[25] = 48,
        |bytes| bytes[25] = 2,
        |bytes| bytes[26 + 22..26 + 26].fill(0),
        |bytes| bytes[26 + 22 + 3] = 1,
    ];
    for (sequence, break_it) in (2..).zip(broken) {
        let mut bytes = good.clone();
        bytes[7] = sequence;
        break_it(&mut bytes);
        assert_eq!(hear(&mut client, 1000, &bytes), Ok(()), "the packet counts");
    }
    assert_eq!(
        (place(&client, 1), client.stats().snapshots, client.stats().messages_malformed),
        (Some((100, 50)), 0, 4)
    );
    assert!(asked(&mut client, 1000).is_empty());
}

/// 8.2: an entity that exists is not created again.
#[test]
fn rtype_8_2_a_repeated_creation_is_ignored() {
    let mut client = playing();
    say(&mut client, 1, &create(10, 1, Blueprint::Bydos));
    snapshot(&mut client, 1000, 2, 11, &[(1, 90, 60)]);
    say(&mut client, 3, &create(12, 1, Blueprint::Bullet));
    assert_eq!((place(&client, 1), client.known_count()), (Some((90, 60)), 1));
    assert_eq!(client.entity(EntityId(1)).unwrap().blueprint, Some(Blueprint::Bydos));
    assert_eq!((client.stats().creates, client.stats().creates_repeated), (1, 1));
}

/// 8.2, 8.3, 8.4: wrong sizes, id 0 and reasons above 4 are dropped, with the rest of the packet processed.
#[test]
fn rtype_8_2_and_8_3_malformed_messages_are_dropped() {
    let mut client = playing();
    say(&mut client, 1, &create(10, 1, Blueprint::Bydos));
    let mut bytes = packet(2, |_| ());
    for (kind, payload) in [
        (0x84u16, vec![1; 15]),
        (0x84, vec![1; 17]),
        (0x84, vec![0; 16]),
        (0x85, vec![0, 0, 0, 1, 0, 0, 0, 1]),
        (0x85, vec![0, 0, 0, 1, 0, 0, 0, 1, 1, 1]),
        (0x85, vec![0, 0, 0, 1, 0, 0, 0, 0, 1]),
        (0x85, vec![0, 0, 0, 99, 0, 0, 0, 1, 5]),
        (0x86, vec![0; 3]),
        (0, vec![]),
    ] {
        bytes.extend(kind.to_be_bytes());
        bytes.extend((payload.len() as u16).to_be_bytes());
        bytes.extend(payload);
    }
    // And two that no client knows.
    bytes.extend([0x00, 0x02, 0, 0, 0x01, 0x84, 0, 0]);
    bytes.extend(&packet(2, |writer| assert!(writer.push(&create(11, 5, Blueprint::Bullet))))[16..]);
    assert_eq!(hear(&mut client, 1000, &bytes), Ok(()));
    assert_eq!((client.stats().messages_malformed, client.stats().messages_unknown), (9, 2));
    assert_eq!((place(&client, 1), place(&client, 5)), (Some((100, 50)), Some((100, 50))));
}

/// 8.3: the destroyed are not asked for again, and no late message brings them back.
#[test]
fn rtype_8_3_the_destroyed_are_remembered() {
    let mut client = playing();
    say(&mut client, 1, &create(10, 1, Blueprint::Bydos));
    say(&mut client, 3, &destroy(12, 1));
    say(&mut client, 4, &destroy(12, 2));
    snapshot(&mut client, 1000, 2, 11, &[(1, 90, 60), (2, 5, 5)]);
    say(&mut client, 5, &create(12, 1, Blueprint::Bydos));
    assert_eq!((client.known_count(), asked(&mut client, 1000)), (0, vec![]));
    assert_eq!((client.stats().destroys, client.stats().destroys_repeated), (1, 1));
    // Ids come again in the end: what is newer than the end of the one before is another one.
    say(&mut client, 6, &create(900, 1, Blueprint::Bullet));
    say(&mut client, 7, &destroy(12, 1));
    assert_eq!(client.known_count(), 1);
    say(&mut client, 8, &destroy(901, 1));
    assert_eq!(client.known_count(), 0);
}

/// 9.3: an entity of an unknown archetype is not shown; it is known, so nobody asks for it.
#[test]
fn rtype_9_3_unknown_archetypes_are_ignored() {
    let mut client = playing();
    say(&mut client, 1, &CreateEntity { archetype: 0x1234, ..create(10, 1, Blueprint::Bydos) });
    say(&mut client, 2, &create(10, 2, Blueprint::Tile(5)));
    snapshot(&mut client, 1000, 3, 11, &[(1, 90, 60), (2, 5, 6)]);
    let visible: Vec<_> =
        client.visible().map(|(id, entity)| (id.0, entity.kind, entity.variant())).collect();
    assert_eq!((visible, asked(&mut client, 1000)), (vec![(2, Kind::TILE, 5)], vec![]));
}

/// What the client remembers is bounded, whatever the server says.
#[test]
fn what_does_not_fit_is_counted() {
    let mut client = playing();
    (1..=100).for_each(|id| say(&mut client, id, &create(10, id, Blueprint::Bydos)));
    assert_eq!((client.known_count(), client.stats().creates_lost), (64, 36));
    for (sequence, from) in (101..).zip((1000..9000).step_by(47)) {
        let places: Vec<_> = (from..from + 47).map(|id| (id, 0, 0)).collect();
        snapshot(&mut client, 1000, sequence, 11, &places);
    }
    let mut total = 0;
    for frame in 0..20 {
        total += asked(&mut client, 1000 + frame * 17).len();
    }
    assert_eq!(total, 188);
}

/// 7.3: a Disconnect with reason 1 when the player quits, once and for good.
#[test]
fn rtype_7_3_who_leaves_says_so() {
    let mut client = playing();
    client.leave();
    assert_eq!(client.next_deadline(), Some(Instant::ZERO));
    let said = said(&mut client, 1000);
    assert_eq!(said[0].1, [ClientMessage::Disconnect(Disconnect { reason: DisconnectReason::Quit })]);
    assert_eq!((said.len(), client.phase()), (1, Phase::Over(Over::Left)));
    assert_eq!(hear(&mut client, 1000, &packet(1, |_| ())), Err(Ignored::Over));
    let mut nobody = super::tests::client();
    nobody.leave();
    assert_eq!((nobody.transmit(at(1), &mut [0; 548]), nobody.phase()), (None, Phase::Over(Over::Left)));
}

/// A server that falls silent is told so, in case only one way is dead.
#[test]
fn a_silent_server_is_left() {
    let mut client = playing();
    assert_eq!(hear(&mut client, 5000, &packet(1, |_| ())), Ok(()));
    said(&mut client, 14_999);
    assert_eq!(client.phase(), Phase::Playing);
    let said = said(&mut client, 15_000);
    assert_eq!(said[0].1, [ClientMessage::Disconnect(Disconnect { reason: DisconnectReason::Timeout })]);
    assert_eq!(client.phase(), Phase::Over(Over::TimedOut));
}
