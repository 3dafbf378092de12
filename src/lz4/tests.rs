use proptest::prelude::*;

use super::*;

fn compressed(payload: &[u8]) -> Option<Vec<u8>> {
    let mut out = [0; PAYLOAD_BYTES_MAX];
    Compressor::new().compress(payload, &mut out).map(|len| out[..len].to_vec())
}

fn decompressed(bytes: &[u8]) -> Result<Vec<u8>, Lz4Error> {
    let mut out = [0xEE; PAYLOAD_BYTES_MAX];
    let len = decompress(bytes, &mut out)?;
    assert!(out[len..].iter().all(|&byte| byte == 0xEE), "written past the announced size");
    Ok(out[..len].to_vec())
}

/// A compressed payload of the size and the block given.
fn payload(size: u16, block: &[u8]) -> Vec<u8> {
    [&size.to_le_bytes()[..], block].concat()
}

/// A block of literals only: up to 14 of them.
fn literals(bytes: &[u8]) -> Vec<u8> {
    assert!(bytes.len() < 15);
    [&[(bytes.len() as u8) << 4], bytes].concat()
}

#[test]
fn payloads_below_the_threshold_are_left_alone() {
    assert_eq!(compressed(&[7; THRESHOLD_BYTES - 1]), None);
    assert!(compressed(&[7; THRESHOLD_BYTES]).is_some());
    assert_eq!(compressed(&[]), None);
}

/// What does not come out smaller, its size included, is sent as it is.
#[test]
fn incompressible_payloads_are_left_alone() {
    let mut state = 1u32;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    })
    .take(PAYLOAD_BYTES_MAX)
    .collect();
    assert_eq!(compressed(&noise), None);
}

#[test]
fn an_output_too_small_is_a_no() {
    let mut compressor = Compressor::new();
    let mut out = [0; 64];
    let len = compressor.compress(&[7; 1000], &mut out).unwrap();
    assert_eq!(compressor.compress(&[7; 1000], &mut out[..len - 1]), None);
}

/// The table is used again: what was compressed before must not show.
#[test]
fn a_used_compressor_gives_the_same_bytes() {
    let text: Vec<u8> = b"ships and missiles, ".repeat(40);
    let mut compressor = Compressor::new();
    let mut out = [0; PAYLOAD_BYTES_MAX];
    compressor.compress(&b"something else ".repeat(60), &mut out);
    let len = compressor.compress(&text, &mut out).unwrap();
    assert_eq!(Some(out[..len].to_vec()), compressed(&text));
    assert_eq!(decompressed(&out[..len]), Ok(text));
}

#[test]
fn a_payload_without_a_whole_size_is_truncated() {
    assert_eq!(decompressed(&[]), Err(Lz4Error::Truncated));
    assert_eq!(decompressed(&[1]), Err(Lz4Error::Truncated));
}

/// A size of 0 or above 1182 is refused before the block is looked at (field case 21).
#[test]
fn case_21_sizes_out_of_range_are_refused() {
    for size in [0, 1183, 0x8000, u16::MAX] {
        assert_eq!(decompressed(&payload(size, &literals(b"abc"))), Err(Lz4Error::Size), "size {size}");
    }
    assert_eq!(decompressed(&payload(3, &literals(b"abc"))), Ok(b"abc".to_vec()));
}

/// A real bomb: a block that fits a datagram and stands for 280 KB writes no more than its size says (field case 21).
#[test]
fn case_21_a_bomb_stops_at_the_announced_size() {
    let mut block = vec![0x1F, b'x', 1, 0];
    block.extend([0xFF; 1100]);
    block.extend([0, 0x50]);
    block.extend(b"xxxxx");
    assert_eq!(decompressed(&payload(1182, &block)), Err(Lz4Error::Block));
}

#[test]
fn a_block_that_gives_another_size_is_refused() {
    assert_eq!(decompressed(&payload(4, &literals(b"abc"))), Err(Lz4Error::Short));
    assert_eq!(decompressed(&payload(2, &literals(b"abc"))), Err(Lz4Error::Block));
    assert_eq!(decompressed(&payload(1, &[])), Err(Lz4Error::Block));
}

#[test]
fn invalid_blocks_are_refused() {
    // An offset of 0, an offset before the beginning, a match without an offset, lengths without end.
    for block in [
        &[0x10, b'x', 0, 0, 0x10, b'y'][..],
        &[0x10, b'x', 2, 0, 0x10, b'y'],
        &[0x10, b'x', 1],
        &[0xF0, 0xFF, 0xFF, 0xFF],
        &[0x1F, b'x', 1, 0, 0xFF, 0xFF],
        &[0xF0],
        &[0x20, b'x'],
    ] {
        assert_eq!(decompressed(&payload(100, block)), Err(Lz4Error::Block), "{block:02x?}");
    }
}

#[test]
fn every_truncation_of_a_compressed_payload_is_refused() {
    let original = b"an event, and another event, and then another one; ".repeat(12);
    let bytes = compressed(&original).unwrap();
    for len in 0..bytes.len() {
        assert!(decompressed(&bytes[..len]).is_err(), "{len} bytes");
    }
}

proptest! {
    #[test]
    fn originals_come_back(seed in prop::collection::vec(any::<u8>(), 1..200), len in THRESHOLD_BYTES..=PAYLOAD_BYTES_MAX) {
        let original: Vec<u8> = seed.iter().copied().cycle().take(len).collect();
        if let Some(bytes) = compressed(&original) {
            prop_assert!(bytes.len() < original.len());
            prop_assert_eq!(decompressed(&bytes), Ok(original));
        }
    }

    #[test]
    fn corruptions_do_no_harm(seed in prop::collection::vec(any::<u8>(), 1..60), at in any::<prop::sample::Index>(), xor in 1..=255u8) {
        let original: Vec<u8> = seed.iter().copied().cycle().take(600).collect();
        if let Some(mut bytes) = compressed(&original) {
            let at = at.index(bytes.len());
            bytes[at] ^= xor;
            let _ = decompressed(&bytes);
        }
    }

    #[test]
    fn random_blocks_do_no_harm(size in 1..=1182u16, block in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(original) = decompressed(&payload(size, &block)) {
            prop_assert_eq!(original.len(), usize::from(size));
        }
    }
}
