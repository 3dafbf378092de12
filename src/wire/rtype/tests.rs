use super::handshake::{Handshake, HandshakeError};
use super::message::*;
use super::snapshot::{EntityState, STATES_MAX, Snapshot};
use super::value::{Pos16, Rot16};
use super::*;
use crate::model::{Controls, EntityId};

mod messages;
mod random;
mod values;

const HEADER: Header = Header { connection: 1, sequence: 5, ack: 120, ack_bits: u32::MAX };

/// The bytes of a hexadecimal text.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// A packet of what `write` writes.
fn packet(write: impl FnOnce(&mut PacketWriter<'_>)) -> Vec<u8> {
    let mut out = [0xEE; 600];
    let mut writer = PacketWriter::new(&HEADER, &mut out);
    write(&mut writer);
    let len = writer.finish();
    out[..len].to_vec()
}

/// The messages of a packet.
fn messages(bytes: &[u8]) -> Vec<RawMessage<'_>> {
    Packet::parse(bytes).unwrap().messages().collect()
}

fn framed(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = frame(kind, payload.len()).to_vec();
    bytes.extend(payload);
    bytes
}

fn with_header(messages: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = packet(|_| ());
    bytes.extend(messages.concat());
    bytes
}

/// Section 11.1 and 11.2, to the byte.
#[test]
fn rtype_11_1_and_11_2_the_example_handshakes() {
    let mut out = [0; 10];
    assert_eq!((Handshake::Hello.emit(&mut out), &out[..6]), (6, &b"RTYP\x01\x01"[..]));
    assert_eq!(Handshake::Welcome { connection: 1 }.emit(&mut out), 10);
    assert_eq!(out.to_vec(), hex("52 54 59 50 01 02 00 00 00 01"));
    assert_eq!(Handshake::parse(b"RTYP\x01\x01"), Ok(Handshake::Hello));
    assert_eq!(Handshake::parse(&out), Ok(Handshake::Welcome { connection: 1 }));
}

/// Section 11.3, to the byte.
#[test]
fn rtype_11_3_the_example_input() {
    let bytes = hex("00000001 00000005 00000078 FFFFFFFF 0002 0009 0000002A 0000012C 11");
    assert_eq!(bytes.len(), 29);
    let controls = Controls::from_bits(Controls::UP | Controls::SHOOT).unwrap();
    let input = Input { sequence: 42, client_tick: 300, controls };
    assert_eq!(packet(|writer| assert!(writer.push(&input))), bytes);
    let parsed = Packet::parse(&bytes).unwrap();
    assert_eq!(*parsed.header(), HEADER);
    let [message] = messages(&bytes)[..] else { panic!("one message") };
    assert_eq!(ClientMessage::parse(&message), Ok(ClientMessage::Input(input)));
}

/// Section 11.4, to the byte.
#[test]
fn rtype_11_4_the_example_create_entity() {
    let bytes = hex("0084 0010 00000258 000003ED 87FF 9F40 84B0 0000");
    let create = CreateEntity {
        tick: 600,
        id: EntityId(1005),
        archetype: blueprint::Blueprint::Bydos.archetype(),
        x: Pos16::from_pixels(2000.0),
        y: Pos16::from_units(300 * 64),
        rotation: Rot16(0),
    };
    assert_eq!(packet(|writer| assert!(writer.push(&create)))[HEADER_BYTES..], bytes);
}

/// 4.1, 4.2: magic, version and type, in this order, and a Hello has nothing else.
#[test]
fn rtype_4_1_invalid_handshakes_are_told() {
    for bit in 0..32 {
        let mut bytes = *b"RTYP\x01\x01";
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Handshake::parse(&bytes), Err(HandshakeError::Magic), "bit {bit}");
    }
    for value in (0..=255u8).filter(|&value| value != 1) {
        assert_eq!(Handshake::parse(&[b'R', b'T', b'Y', b'P', value, 1]), Err(HandshakeError::Version));
    }
    for kind in (0..=255u8).filter(|kind| !(1..=3).contains(kind)) {
        assert_eq!(Handshake::parse(&[b'R', b'T', b'Y', b'P', 1, kind]), Err(HandshakeError::Kind));
    }
    for len in 0..6 {
        assert_eq!(Handshake::parse(&b"RTYP\x01\x01"[..len]), Err(HandshakeError::Truncated));
        assert_eq!(Handshake::parse(&vec![0xFF; len]), Err(HandshakeError::Truncated));
    }
    assert_eq!(Handshake::parse(b"RTYP\x01\x01\x00"), Err(HandshakeError::Trailing));
}

/// 4.3: exactly 10 bytes and an id that is not 0. 4.4: a Rejected has no extra bytes.
#[test]
fn rtype_4_3_and_4_4_welcome_and_rejected_are_exact() {
    let welcome = b"RTYP\x01\x02\x00\x00\x00\x07\x00";
    for len in 6..10 {
        assert_eq!(Handshake::parse(&welcome[..len]), Err(HandshakeError::Truncated), "{len} bytes");
    }
    assert_eq!(Handshake::parse(&welcome[..10]), Ok(Handshake::Welcome { connection: 7 }));
    assert_eq!(Handshake::parse(welcome), Err(HandshakeError::Trailing));
    assert_eq!(Handshake::parse(b"RTYP\x01\x02\x00\x00\x00\x00"), Err(HandshakeError::Connection));
    assert_eq!(Handshake::parse(b"RTYP\x01\x03"), Ok(Handshake::Rejected));
    assert_eq!(Handshake::parse(b"RTYP\x01\x03\x00"), Err(HandshakeError::Trailing));
    let mut out = [0; 10];
    assert_eq!((Handshake::Rejected.emit(&mut out), &out[..6]), (6, &b"RTYP\x01\x03"[..]));
}

#[test]
#[should_panic(expected = "connection 0")]
fn a_welcome_to_connection_0_asserts() {
    Handshake::Welcome { connection: 0 }.emit(&mut [0; 10]);
}

/// 2.2: no datagram above 548 bytes, received or sent.
#[test]
fn rtype_2_2_datagrams_have_at_most_548_bytes() {
    let longest = with_header(&[framed(0x7777, &[0; PAYLOAD_BYTES_MAX])]);
    assert_eq!(longest.len(), 548);
    assert_eq!(messages(&longest).len(), 1);
    let longer = with_header(&[framed(0x7777, &[0; PAYLOAD_BYTES_MAX + 1])]);
    assert_eq!(Packet::parse(&longer).map(|_| ()), Err(PacketError::TooLarge));
    // The writer's buffer has 600 bytes.
    let full = packet(|writer| while writer.push(&Ping { timestamp: 1 }) {});
    assert_eq!(full.len(), HEADER_BYTES + 532 / 8 * 8);
    assert_eq!(messages(&full).len(), 66);
}

/// 5.4: shorter than 16 bytes.
#[test]
fn rtype_5_4_a_packet_has_a_header() {
    let bytes = packet(|_| ());
    for len in 0..HEADER_BYTES {
        assert_eq!(Packet::parse(&bytes[..len]).map(|_| ()), Err(PacketError::Truncated), "{len} bytes");
    }
    assert!(messages(&bytes).is_empty(), "a packet without a message is valid");
}

/// 5.3: a truncated message header, a size beyond the rest, bytes after the last message: the whole packet is bad,
/// wherever that is.
#[test]
fn rtype_5_3_bad_framing_is_told_for_the_whole_packet() {
    let whole = with_header(&[framed(3, &[1, 2, 3, 4]), framed(0x0102, &[]), framed(4, &[1])]);
    let ends = [HEADER_BYTES, HEADER_BYTES + 8, HEADER_BYTES + 12, HEADER_BYTES + 17];
    for len in HEADER_BYTES..=whole.len() {
        let parsed = Packet::parse(&whole[..len]).map(|packet| packet.messages().count());
        let begun = ends.iter().rposition(|&end| end <= len).unwrap();
        let expected = match len - ends[begun] {
            0 => Ok(begun),
            1..=3 => Err(PacketError::MessageHeader),
            _ => Err(PacketError::MessageSize),
        };
        assert_eq!(parsed, expected, "{len} bytes");
    }
    for size in 2..=u16::MAX {
        let mut bytes = with_header(&[framed(4, &[1])]);
        bytes[HEADER_BYTES + 2..HEADER_BYTES + 4].copy_from_slice(&size.to_be_bytes());
        assert_eq!(Packet::parse(&bytes).map(|_| ()), Err(PacketError::MessageSize), "size {size}");
    }
}

/// 5.3: several messages in one packet, in their order.
#[test]
fn rtype_5_3_a_packet_holds_several_messages() {
    let bytes = packet(|writer| {
        assert!(writer.push(&Ping { timestamp: 9 }));
        assert!(writer.push(&QueryEntity { id: EntityId(8) }));
        assert!(writer.push(&Disconnect { reason: DisconnectReason::Quit }));
    });
    let parsed: Vec<_> = messages(&bytes).iter().map(ClientMessage::parse).collect();
    assert_eq!(
        parsed,
        [
            Ok(ClientMessage::Ping(Ping { timestamp: 9 })),
            Ok(ClientMessage::QueryEntity(QueryEntity { id: EntityId(8) })),
            Ok(ClientMessage::Disconnect(Disconnect { reason: DisconnectReason::Quit })),
        ]
    );
}

#[test]
fn a_message_that_does_not_fit_changes_nothing() {
    let mut out = [0xEE; HEADER_BYTES + 12];
    let mut writer = PacketWriter::new(&HEADER, &mut out);
    assert!(writer.push(&Pong { timestamp: 1 }));
    assert_eq!(writer.room(), 4);
    assert!(!writer.push(&Pong { timestamp: 2 }));
    assert_eq!(writer.snapshot(1, &mut std::iter::empty()), None);
    assert_eq!(writer.finish(), HEADER_BYTES + 8);
    assert_eq!(out[HEADER_BYTES + 8..], [0xEE; 4]);
}
