use proptest::prelude::*;

use super::batch::BATCH_MESSAGES_MAX;
use super::block::{BLOCK_BYTES_MAX, BlockHeader};
use super::handshake::{FAREWELL_BYTES_MAX, parse_timestamp};
use super::header::{Flags, HEADER_BYTES, HEADER_BYTES_SHORT};
use super::*;
use crate::wire::cursor::Writer;

const ID: u32 = PROTOCOL_ID_DEFAULT;

fn header(kind: PacketKind) -> Header {
    let flags = Flags { fragments: kind == PacketKind::Fragment, ..Flags::default() };
    Header { protocol_id: ID, kind, flags, sequence: 42, ack: 38, ack_bits: Some(u32::MAX), channel: 0 }
}

fn packet(header: &Header, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    let len = header.emit(payload.len(), &mut bytes);
    bytes.truncate(len);
    bytes.extend_from_slice(payload);
    bytes
}

fn body(emit: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut bytes = vec![0; 512];
    let mut writer = Writer::new(&mut bytes);
    emit(&mut writer);
    let len = writer.finish().unwrap();
    bytes.truncate(len);
    bytes
}

/// Section 9, example 1: a reliable ordered message of 64 bytes, its sequence included.
#[test]
fn example_of_a_reliable_ordered_packet() {
    let mut payload = [0xAB; 64];
    payload[..2].copy_from_slice(&[7, 0]);
    let bytes = packet(&header(PacketKind::ReliableOrdered), &payload);
    let expected = [
        0x78, 0x56, 0x34, 0x12, 0x12, 0x01, 0x2A, 0, 0x26, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0x40, 0, 7, 0,
        0xAB,
    ];
    assert_eq!(bytes[..21], expected);
    assert_eq!(bytes.len(), 82);
    let (read, rest) = Header::parse(&bytes, ID).unwrap();
    assert_eq!((read, rest), (header(PacketKind::ReliableOrdered), &payload[..]));
    let messages: Vec<_> = Messages::parse(&read, rest).unwrap().collect();
    let kind = PacketKind::ReliableOrdered;
    assert_eq!(messages, [Message::Whole { kind, channel: 0, sequence: 7, bytes: &[0xAB; 62] }]);
}

/// Section 9, example 2: fragment 2 of 5, full.
#[test]
fn example_of_a_fragment_packet() {
    let mut payload = body(|writer| Fragment::emit_header(1234, 2, 5, 1174, writer));
    payload.resize(8 + 1174, 0xCD);
    let bytes = packet(&Header { sequence: 100, ack: 95, ..header(PacketKind::Fragment) }, &payload);
    let expected = [
        0x78, 0x56, 0x34, 0x12, 0x20, 0x03, 0x64, 0, 0x5F, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0x9E, 0x04, 0xD2,
        0x04, 2, 0, 5, 0, 0x96, 0x04, 0xCD,
    ];
    assert_eq!(bytes[..27], expected);
    assert_eq!(bytes.len(), MTU_MAX);
    let (read, rest) = Header::parse(&bytes, ID).unwrap();
    let fragment = Fragment { id: 1234, index: 2, total: 5, data: &[0xCD; 1174] };
    let messages: Vec<_> = Messages::parse(&read, rest).unwrap().collect();
    assert_eq!(messages, [Message::Part { channel: 0, fragment }]);
}

#[test]
fn a_header_without_the_bitfield_has_14_bytes() {
    let bytes = packet(&Header { ack: 0, ack_bits: None, ..header(PacketKind::Connect) }, &[]);
    assert_eq!(bytes, [0x78, 0x56, 0x34, 0x12, 1, 0, 0x2A, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes.len(), HEADER_BYTES_SHORT);
}

#[test]
fn headers_fail_in_the_order_of_the_checks() {
    let good = packet(&header(PacketKind::Ping), &[0; 8]);
    for len in 0..HEADER_BYTES {
        assert_eq!(Header::parse(&good[..len], ID), Err(HeaderError::Truncated), "{len}");
    }
    assert_eq!(Header::parse(&good, ID + 1), Err(HeaderError::ProtocolId));
    for byte in 0..=255u8 {
        let mut bytes = good.clone();
        bytes[4] = byte;
        let known = PacketKind::ALL.iter().any(|&kind| kind as u8 == byte);
        assert_eq!(Header::parse(&bytes, ID) == Err(HeaderError::Kind), !known, "type {byte}");
        let mut bytes = good.clone();
        bytes[5] = byte;
        if byte & 0b1110_0000 != 0 {
            assert_eq!(Header::parse(&bytes, ID), Err(HeaderError::Flags), "flags {byte}");
        }
    }
    assert_eq!(Header::parse(&good[..good.len() - 1], ID), Err(HeaderError::Length));
    let mut longer = good.clone();
    longer.push(0);
    assert_eq!(Header::parse(&longer, ID), Err(HeaderError::Length));
}

#[test]
fn the_reserved_byte_is_sent_0_and_ignored() {
    let mut bytes = packet(&header(PacketKind::Ping), &[0; 8]);
    assert_eq!(bytes[15], 0);
    bytes[15] = 0xEE;
    assert!(Header::parse(&bytes, ID).is_ok());
}

#[test]
fn flags_must_go_with_the_type() {
    let with = |kind, flags| Header::parse(&packet(&Header { flags, ..header(kind) }, &[]), ID).is_ok();
    let none = Flags::default();
    for kind in
        [PacketKind::Connect, PacketKind::ConnectAck, PacketKind::Disconnect, PacketKind::DisconnectAck]
    {
        assert!(with(kind, none) && with(kind, Flags { encrypted: true, ..none }));
        assert!(
            !with(kind, Flags { batched: true, ..none }) && !with(kind, Flags { compressed: true, ..none })
        );
    }
    assert!(!with(PacketKind::Fragment, none), "a fragment without its flag");
    assert!(!with(PacketKind::Reliable, Flags { fragments: true, ..none }), "the flag without a fragment");
}

#[test]
fn handshake_bodies_are_exact() {
    let connect = Connect { version: 1, nonce: 0xA1B2_C3D4, channels: 4, mtu: 1200 };
    let bytes = body(|writer| connect.emit(writer));
    assert_eq!(bytes, [1, 0, 0xD4, 0xC3, 0xB2, 0xA1, 4, 0xB0, 0x04]);
    assert_eq!(bytes.len(), Connect::BYTES);
    assert_eq!(Connect::parse(&bytes), Some(connect));
    let ack = ConnectAck { version: 1, nonce: 2, peer_id: 3, channels: 4, mtu: 576, server_time_ms: 5 };
    let bytes = body(|writer| ack.emit(writer));
    assert_eq!(bytes.len(), ConnectAck::BYTES);
    assert_eq!(ConnectAck::parse(&bytes), Some(ack));
    for cut in 0..bytes.len() {
        assert_eq!((Connect::parse(&bytes[..cut.min(8)]), ConnectAck::parse(&bytes[..cut])), (None, None));
    }
    let small = body(|writer| Connect { mtu: 575, ..connect }.emit(writer));
    assert_eq!(Connect::parse(&small), None, "an MTU below 576");
    let none = body(|writer| ConnectAck { channels: 0, ..ack }.emit(writer));
    assert_eq!(ConnectAck::parse(&none), None, "no channels");
    assert_eq!(Disconnect::parse(&[]), None);
    assert_eq!(Disconnect::parse(&[6, b'x']), Some(Disconnect { reason: 6, data: b"x" }));
    assert!(Disconnect::parse(&[0; 1 + FAREWELL_BYTES_MAX]).is_some());
    assert!(Disconnect::parse(&[0; 2 + FAREWELL_BYTES_MAX]).is_none());
    assert_eq!(parse_timestamp(&[1, 0, 0, 0, 0, 0, 0, 1]), Some(1 | 1 << 56));
    assert!(parse_timestamp(&[0; 7]).is_none() && parse_timestamp(&[0; 9]).is_none());
}

#[test]
fn malformed_fragments_are_told() {
    let make = |index, total, size, len: usize| {
        let mut bytes = body(|writer| {
            writer.u16(1);
            writer.u16(index);
            writer.u16(total);
            writer.u16(size);
        });
        bytes.resize(8 + len, 0);
        Fragment::parse(&bytes).is_some()
    };
    assert!(make(0, 2, 3, 3) && make(63, 64, 1, 1));
    assert!(!make(0, 1, 3, 3) && !make(0, 65, 3, 3) && !make(0, 0, 3, 3), "2 to 64 in all");
    assert!(!make(2, 2, 3, 3) && !make(256, 2, 3, 3), "an index below the total");
    assert!(!make(0, 2, 3, 2) && !make(0, 2, 3, 4) && !make(0, 2, 0, 0), "a size that is what follows");
    assert!(FragmentAck::parse(&[0; 9]).is_none() && FragmentAck::parse(&[0; 11]).is_none());
}

#[test]
fn blocks_have_a_size_and_data() {
    let header = BlockHeader { id: 9, size: BLOCK_BYTES_MAX, kind: 3, compression: 1 };
    let mut bytes = body(|writer| header.emit(writer));
    assert_eq!(bytes, [9, 0, 0, 0, 0, 0, 0, 1, 3, 1]);
    assert_eq!(BlockHeader::parse(&bytes), None, "no data");
    bytes.push(5);
    assert_eq!(BlockHeader::parse(&bytes), Some((header, &[5][..])));
    bytes[4] = 1;
    assert_eq!(BlockHeader::parse(&bytes), None, "larger than 16 MiB");
    assert_eq!(
        BlockHeader::parse(&[0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 2]),
        None,
        "more data than the block has"
    );
}

#[test]
fn batches_must_add_up() {
    let of = |payload: &[u8], kind, fragments| {
        let flags = Flags { batched: true, fragments, ..Flags::default() };
        Messages::parse(&Header { flags, ..header(kind) }, payload).map(Iterator::count)
    };
    let two = [2, 0x10, 0, 2, 0, 1, 0, 0x05, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(of(&two, PacketKind::Reliable, false), Ok(2));
    assert_eq!(of(&two, PacketKind::Ping, false), Err(PayloadError::Batch), "the header tells the first");
    assert_eq!(of(&two, PacketKind::Reliable, true), Err(PayloadError::Flags));
    for cut in 0..two.len() {
        assert_eq!(of(&two[..cut], PacketKind::Reliable, false), Err(PayloadError::Batch), "{cut}");
    }
    assert_eq!(of(&[1, 0x10, 0, 2, 0, 1, 0], PacketKind::Reliable, false), Err(PayloadError::Batch));
    assert_eq!(of(&[0], PacketKind::Reliable, false), Err(PayloadError::Batch));
    let handshake = [2, 0x10, 0, 2, 0, 1, 0, 0x04, 0, 0, 0];
    assert_eq!(of(&handshake, PacketKind::Reliable, false), Err(PayloadError::Kind));
    let short = [2, 0x10, 0, 2, 0, 1, 0, 0x11, 0, 0, 0];
    assert_eq!(
        of(&short, PacketKind::Reliable, false),
        Err(PayloadError::Body),
        "a message without sequence"
    );
}

#[test]
fn nothing_but_acknowledgements() {
    let batch = BatchWriter::new(&mut [0; 64], 32).finish();
    assert_eq!((batch.kind, batch.batched, batch.end - batch.start), (PacketKind::Unreliable, false, 0));
    assert!(Messages::parse(&header(batch.kind), &[]).unwrap().is_empty());
    assert!(Messages::parse(&header(PacketKind::Reliable), &[]).is_err());
}

#[test]
fn a_lone_message_may_fill_the_payload() {
    let mut out = [0; 37];
    let mut writer = BatchWriter::new(&mut out, 32);
    assert!(writer.fits(32) && !writer.fits(33));
    writer.push(PacketKind::Reliable, 3, 32, |body| body.fill(9));
    assert!(!writer.fits(1));
    let batch = writer.finish();
    assert_eq!(out[batch.start..batch.end], [9; 32]);
    let mut out = [0; 2048];
    let mut writer = BatchWriter::new(&mut out, 2000);
    (0..BATCH_MESSAGES_MAX).for_each(|_| writer.push(PacketKind::Reliable, 0, 2, |_| {}));
    assert!(!writer.fits(2), "a count of one byte");
}

#[test]
fn codes_and_kinds_have_their_values() {
    for (value, code) in ErrorCode::ALL.into_iter().enumerate() {
        assert_eq!((code as usize, ErrorCode::from_bits(value as u8)), (value, code));
    }
    assert_eq!(ErrorCode::from_bits(0x0A), ErrorCode::ConnectionFailed);
    assert_eq!(ErrorCode::RateLimitExceeded as u8, 0x09);
    let values: Vec<u8> = PacketKind::ALL.iter().map(|&kind| kind as u8).collect();
    assert_eq!(values, [1, 2, 3, 4, 5, 6, 0x10, 0x11, 0x12, 0x13, 0x20, 0x21]);
    assert_eq!((0..=255).filter_map(PacketKind::from_bits).collect::<Vec<_>>(), PacketKind::ALL);
}

proptest! {
    #[test]
    fn headers_come_back(
        kind in 0usize..12, flags in any::<[bool; 4]>(), numbers in any::<(u16, u16, Option<u32>, u8)>(),
        payload in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let kind = PacketKind::ALL[kind];
        let [fragments, compressed, encrypted, batched] = flags;
        let (sequence, ack, ack_bits, channel) = numbers;
        let flags = Flags { fragments, compressed, encrypted, batched };
        let header = Header { protocol_id: ID, kind, flags, sequence, ack, ack_bits, channel };
        let bytes = packet(&header, &payload);
        match Header::parse(&bytes, ID) {
            Ok((read, rest)) => {
                prop_assert_eq!((read, rest), (header, &payload[..]));
                prop_assert_eq!(packet(&read, rest), bytes);
            }
            Err(error) => prop_assert_eq!(error, HeaderError::Flags),
        }
    }

    #[test]
    fn batches_come_back(
        messages in proptest::collection::vec((0usize..4, any::<u8>(), any::<u16>(), 0usize..40), 1..20),
    ) {
        let kinds = [
            PacketKind::Reliable, PacketKind::Unreliable, PacketKind::ReliableOrdered,
            PacketKind::UnreliableOrdered,
        ];
        let mut out = [0; 1205];
        let mut writer = BatchWriter::new(&mut out, 1200);
        let mut expected = Vec::new();
        for &(kind, channel, sequence, len) in &messages {
            writer.push(kinds[kind], channel, 2 + len, |body| {
                body[..2].copy_from_slice(&sequence.to_le_bytes());
                body[2..].fill(len as u8);
            });
            expected.push((kinds[kind], channel, sequence, len));
        }
        let batch = writer.finish();
        let flags = Flags { batched: batch.batched, ..Flags::default() };
        let header = Header { channel: batch.channel, flags, ..header(batch.kind) };
        let read: Vec<_> = Messages::parse(&header, &out[batch.start..batch.end]).unwrap().map(|message| {
            let Message::Whole { kind, channel, sequence, bytes } = message else { panic!("{message:?}") };
            assert!(bytes.iter().all(|&byte| usize::from(byte) == bytes.len()));
            (kind, channel, sequence, bytes.len())
        }).collect();
        prop_assert_eq!(read, expected);
    }

    #[test]
    fn any_bytes_at_all(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), aimed in any::<bool>()) {
        if aimed && bytes.len() >= HEADER_BYTES {
            // A header that passes, so that the payload is reached.
            bytes[..4].copy_from_slice(&ID.to_le_bytes());
            bytes[4] = PacketKind::ALL[usize::from(bytes[4]) % 12] as u8;
            bytes[5] &= 0x1F;
            let at = if bytes[5] & 1 == 1 { 16 } else { 12 };
            let len = (bytes.len() - at - 2) as u16;
            bytes[at..at + 2].copy_from_slice(&len.to_le_bytes());
        }
        if let Ok((header, payload)) = Header::parse(&bytes, ID) {
            let _ = (Connect::parse(payload), ConnectAck::parse(payload), Disconnect::parse(payload));
            let _ = BlockHeader::parse(payload);
            if let Ok(messages) = Messages::parse(&header, payload) {
                let expected = messages.len();
                prop_assert_eq!(messages.count(), expected);
            }
        }
    }
}
