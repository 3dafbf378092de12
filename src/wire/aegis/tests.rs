use proptest::prelude::*;

use super::*;

const HEADER: Header = Header {
    kind: PacketKind::Snapshot,
    compressed: false,
    sequence: 0x1234,
    ack: 0xABCD,
    ack_bits: 0x8000_0001,
    session: 0xDEAD_BEEF,
};

fn emitted(header: &Header) -> [u8; HEADER_BYTES] {
    let mut out = [0xEE; HEADER_BYTES];
    header.emit(&mut out);
    out
}

/// The example of section 2.5, to the byte.
#[test]
fn the_example_header() {
    let bytes = [
        0x52, 0x54, 0x59, 0x50, 0x01, 0x04, 0x34, 0x12, 0xCD, 0xAB, 0x01, 0x00, 0x00, 0x80, 0xEF, 0xBE, 0xAD,
        0xDE,
    ];
    assert_eq!(emitted(&HEADER), bytes);
    assert_eq!(Header::parse(&bytes), Ok(HEADER));
}

#[test]
fn every_truncation_of_a_header_is_told_first() {
    // Also of a header in which everything is wrong: the size comes first (2.4).
    for bytes in [emitted(&HEADER), [0xFF; HEADER_BYTES]] {
        for len in 0..HEADER_BYTES {
            assert_eq!(Header::parse(&bytes[..len]), Err(HeaderError::Truncated), "{len} bytes");
        }
    }
}

#[test]
fn the_checks_come_in_order() {
    let mut bytes = [0xFF; HEADER_BYTES];
    assert_eq!(Header::parse(&bytes), Err(HeaderError::Magic));
    bytes[..4].copy_from_slice(&MAGIC);
    assert_eq!(Header::parse(&bytes), Err(HeaderError::Version));
    bytes[4] = VERSION;
    assert_eq!(Header::parse(&bytes), Err(HeaderError::Kind));
    bytes[5] = 1;
    assert!(Header::parse(&bytes).is_ok());
}

#[test]
fn every_bit_of_the_magic_counts() {
    for bit in 0..32 {
        let mut bytes = emitted(&HEADER);
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Header::parse(&bytes), Err(HeaderError::Magic), "bit {bit}");
    }
}

#[test]
fn every_other_version_is_told() {
    for version in (0..=255).filter(|&version| version != VERSION) {
        let mut bytes = emitted(&HEADER);
        bytes[4] = version;
        assert_eq!(Header::parse(&bytes), Err(HeaderError::Version));
    }
}

/// Types 0 and 8 to 127 are reserved, compressed or not (2.3).
#[test]
fn every_reserved_type_is_told() {
    for kind in 0..=255u8 {
        let mut bytes = emitted(&HEADER);
        bytes[5] = kind;
        let parsed = Header::parse(&bytes);
        match kind & 0x7F {
            1..=7 => {
                assert_eq!(parsed.map(|h| (h.kind as u8, h.compressed)), Ok((kind & 0x7F, kind & 0x80 != 0)))
            }
            _ => assert_eq!(parsed, Err(HeaderError::Kind)),
        }
    }
}

#[test]
fn the_payload_is_not_looked_at() {
    let mut bytes = emitted(&HEADER).to_vec();
    bytes.extend([0xFF; 100]);
    assert_eq!(Header::parse(&bytes), Ok(HEADER));
}

/// The directions of section 2.3.
#[test]
fn directions() {
    use PacketKind::{Accept, Connect, Disconnect, Event, Heartbeat, Input, Snapshot};
    let to_server: Vec<_> = PacketKind::ALL.into_iter().filter(|kind| kind.to_server()).collect();
    let to_client: Vec<_> = PacketKind::ALL.into_iter().filter(|kind| kind.to_client()).collect();
    assert_eq!(to_server, [Connect, Input, Event, Heartbeat, Disconnect]);
    assert_eq!(to_client, [Accept, Snapshot, Event, Heartbeat, Disconnect]);
}

/// An Input is one byte with bits 5 to 7 clear (4.2, 6.3).
#[test]
fn inputs() {
    assert_eq!(parse_input(&[]), Err(InputError::Size));
    assert_eq!(parse_input(&[1, 0]), Err(InputError::Size));
    for bits in 0..=255 {
        match bits {
            0..32 => assert_eq!(parse_input(&[bits]).map(Controls::bits), Ok(bits)),
            _ => assert_eq!(parse_input(&[bits]), Err(InputError::Bits)),
        }
    }
}

proptest! {
    #[test]
    fn a_header_is_read_as_written(
        kind in prop::sample::select(&PacketKind::ALL[..]),
        compressed in any::<bool>(),
        sequence in any::<u16>(),
        ack in any::<u16>(),
        ack_bits in any::<u32>(),
        session in any::<u32>(),
    ) {
        let header = Header { kind, compressed, sequence, ack, ack_bits, session };
        prop_assert_eq!(Header::parse(&emitted(&header)), Ok(header));
    }

    /// Whatever is read is written as the same bytes.
    #[test]
    fn a_header_has_one_encoding(mut bytes in any::<[u8; HEADER_BYTES]>(), kind in any::<u8>()) {
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = kind;
        if let Ok(header) = Header::parse(&bytes) {
            prop_assert_eq!(emitted(&header), bytes);
        }
    }

    #[test]
    fn random_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let _ = Header::parse(&bytes);
        let _ = parse_input(&bytes);
    }
}
