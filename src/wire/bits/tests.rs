use proptest::prelude::*;

use super::*;

/// The bits of a stream, one by one: what every reader must agree with.
fn bit(bytes: &[u8], at: usize) -> u64 {
    u64::from(bytes[at / 8] >> (at % 8) & 1)
}

fn bits_at(bytes: &[u8], at: usize, width: u32) -> u64 {
    (0..width as usize).map(|n| bit(bytes, at + n) << n).sum()
}

/// Reads of every width from every place of buffers of every length, the last bytes of an exact buffer included: right up
/// to the last bit, and a clean failure past it (field case 24).
#[test]
fn case_24_reads_near_the_end_of_an_exact_buffer() {
    let bytes: Vec<u8> = (0..24u8).map(|n| n.wrapping_mul(151) ^ 0xA5).collect();
    for len in 0..=bytes.len() {
        let bytes = &bytes[..len];
        for at in 0..=len * 8 {
            for width in 0..=WIDTH_MAX {
                let mut reader = BitReader::new(bytes);
                let mut left = at as u32;
                while left > 0 {
                    let step = left.min(WIDTH_MAX);
                    reader.skip(step).unwrap();
                    left -= step;
                }
                if at + width as usize <= len * 8 {
                    assert_eq!(
                        reader.read(width),
                        Ok(bits_at(bytes, at, width)),
                        "{width} bits at {at} of {len} bytes"
                    );
                } else {
                    assert_eq!(reader.read(width), Err(BitError::Truncated));
                    assert_eq!(reader.read(1), Err(BitError::Truncated), "failed for good");
                    assert_eq!(reader.read(0), Err(BitError::Truncated), "failed for good");
                    assert_eq!(reader.varint(), Err(BitError::Truncated), "failed for good");
                    assert_eq!(reader.finish(), Err(BitError::Truncated), "failed for good");
                }
            }
        }
    }
}

#[test]
fn bit_0_comes_first() {
    let mut reader = BitReader::new(&[0b0000_0101, 0b1000_0000]);
    assert_eq!(reader.read(1), Ok(1));
    assert_eq!(reader.read(2), Ok(0b10));
    assert_eq!(reader.read(13), Ok(0b1_0000_0000_0000));
    assert_eq!(reader.finish(), Ok(()));
}

#[test]
fn signed_values_are_twos_complement_of_their_width() {
    for (value, width, bits) in [
        (-1, 1, 1),
        (-128, 8, 0x80),
        (127, 8, 0x7F),
        (-1, 12, 0xFFF),
        (-524_288, 20, 0x8_0000),
        (i32::MIN, 32, 1 << 31),
    ] {
        let mut out = [0; 8];
        let mut writer = BitWriter::new(&mut out);
        writer.put_signed(value, width);
        let len = writer.finish().unwrap();
        assert_eq!(u64::from_le_bytes(out), bits, "{value} in {width} bits");
        assert_eq!(BitReader::new(&out[..len]).read_signed(width), Ok(value));
    }
}

#[test]
fn padding_must_be_zero_and_nothing_may_follow_it() {
    let three_bits = |bytes: &[u8]| {
        let mut reader = BitReader::new(bytes);
        reader.read(3).unwrap();
        reader.finish()
    };
    assert_eq!(three_bits(&[0b0000_0111]), Ok(()));
    for padding in 3..8 {
        assert_eq!(three_bits(&[0b0000_0111 | 1 << padding]), Err(BitError::Trailing));
    }
    assert_eq!(three_bits(&[0b0000_0111, 0]), Err(BitError::Trailing));
    let mut whole = BitReader::new(&[0xFF]);
    whole.read(8).unwrap();
    assert_eq!(whole.finish(), Ok(()));
    assert_eq!(BitReader::new(&[]).finish(), Ok(()));
    assert_eq!(BitReader::new(&[0]).finish(), Err(BitError::Trailing));
}

/// A stream of varint groups, with what is to be read from it.
fn read_groups(groups: &[u8]) -> Result<u32, BitError> {
    let mut out = [0; 16];
    let mut writer = BitWriter::new(&mut out);
    groups.iter().for_each(|&group| writer.put(group.into(), 4));
    let len = writer.finish().unwrap();
    let mut reader = BitReader::new(&out[..len]);
    let value = reader.varint();
    if value.is_err() {
        assert_eq!(reader.read(1), Err(BitError::Truncated), "failed for good");
    }
    value
}

/// Zeros filled in later read as if they had been written so, wherever they lie.
#[test]
fn what_is_filled_in_later_reads_the_same() {
    for before in 0..20 {
        for after in [0, 1, 7, 30, 57] {
            let (mut filled, mut written) = ([0u8; 16], [0u8; 16]);
            let mut writer = BitWriter::new(&mut filled);
            writer.put(0x5_5555 & mask(before), before);
            let at = writer.bit_len();
            writer.put(0, 12);
            writer.put(mask(after), after);
            writer.fill_in(at, 0xABC);
            let len = writer.finish();
            let mut writer = BitWriter::new(&mut written);
            writer.put(0x5_5555 & mask(before), before);
            writer.put(0xABC, 12);
            writer.put(mask(after), after);
            assert_eq!((writer.finish(), written), (len, filled), "{before} before, {after} after");
        }
    }
}

#[test]
fn a_varint_longer_than_it_must_be_is_malformed() {
    for groups in [&[8, 0][..], &[15, 0], &[8, 8, 0], &[8, 9, 8, 0], &[8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 0]] {
        assert_eq!(read_groups(groups), Err(BitError::Varint), "{groups:?}");
    }
    assert_eq!(read_groups(&[8, 1]), Ok(8));
    assert_eq!(read_groups(&[0]), Ok(0));
}

#[test]
fn a_varint_past_32_bits_is_malformed() {
    let mut groups = [15; 11];
    groups[10] = 3;
    assert_eq!(read_groups(&groups), Ok(u32::MAX));
    groups[10] = 4;
    assert_eq!(read_groups(&groups), Err(BitError::Varint));
    groups[10] = 7;
    assert_eq!(read_groups(&groups), Err(BitError::Varint));
    assert_eq!(read_groups(&[15; 12]), Err(BitError::Varint));
    assert_eq!(read_groups(&[8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 1]), Err(BitError::Varint));
}

#[test]
fn a_varint_past_the_end_is_truncated() {
    for len in 0..5 {
        assert_eq!(BitReader::new(&[0x88; 5][..len]).varint(), Err(BitError::Truncated), "{len} bytes");
    }
    let mut reader = BitReader::new(&[0x07]);
    reader.skip(5).unwrap();
    assert_eq!(reader.varint(), Err(BitError::Truncated), "three bits are left");
}

#[test]
fn a_full_writer_fails_for_good_and_writes_nothing_past_its_end() {
    for len in 0..20usize {
        let mut out = [0xEE; 24];
        let mut writer = BitWriter::new(&mut out[..len]);
        let mut fitting = 0;
        while fitting + 7 <= len * 8 {
            writer.put(0x55, 7);
            fitting += 7;
            assert!(!writer.failed());
        }
        assert_eq!(writer.room(), len * 8 - fitting);
        writer.put(0x55, 7);
        assert!(writer.failed());
        assert_eq!(writer.bit_len(), fitting);
        writer.put(0, 0);
        writer.put_varint(0);
        assert_eq!(writer.bit_len(), fitting);
        assert_eq!(writer.finish(), None);
        assert!(out[len..].iter().all(|&byte| byte == 0xEE));
    }
}

#[test]
fn bytes_are_appended_at_a_byte_boundary() {
    let mut out = [0; 5];
    let mut writer = BitWriter::new(&mut out);
    writer.put(0x0A, 4);
    writer.put(0x0B, 4);
    writer.put_bytes(&[1, 2, 3]);
    writer.put(1, 1);
    assert_eq!(writer.finish(), Some(5));
    assert_eq!(out, [0xBA, 1, 2, 3, 1]);

    let mut writer = BitWriter::new(&mut out);
    writer.put_bytes(&[0; 6]);
    assert!(writer.failed());
    assert_eq!(writer.finish(), None);
}

#[test]
#[should_panic(expected = "byte boundary")]
fn bytes_within_a_byte_assert() {
    let mut out = [0; 5];
    let mut writer = BitWriter::new(&mut out);
    writer.put(1, 1);
    writer.put_bytes(&[1]);
}

proptest! {
    #[test]
    fn what_is_written_is_read(values in prop::collection::vec((any::<u64>(), 0..=WIDTH_MAX), 0..60)) {
        let total = values.iter().map(|(_, width)| *width as usize).sum::<usize>();
        let mut out = vec![0xEE; total.div_ceil(8)];
        let mut writer = BitWriter::new(&mut out);
        for (value, width) in &values {
            writer.put(value & mask(*width), *width);
        }
        prop_assert_eq!(writer.bit_len(), total);
        prop_assert_eq!(writer.finish(), Some(out.len()));
        let mut reader = BitReader::new(&out);
        for (value, width) in &values {
            prop_assert_eq!(reader.read(*width), Ok(value & mask(*width)));
        }
        prop_assert_eq!(reader.finish(), Ok(()));
    }

    #[test]
    fn varints_are_read_as_written(values in prop::collection::vec((any::<u32>(), 0..32u32), 1..20)) {
        let mut out = [0; 20 * 6];
        let mut writer = BitWriter::new(&mut out);
        let mut bits = 0;
        for (value, shift) in &values {
            writer.put_varint(value >> shift);
            bits += varint_bits(value >> shift) as usize;
            prop_assert_eq!(writer.bit_len(), bits);
        }
        let len = writer.finish().unwrap();
        let mut reader = BitReader::new(&out[..len]);
        for (value, shift) in &values {
            prop_assert_eq!(reader.varint(), Ok(value >> shift));
        }
        prop_assert_eq!(reader.finish(), Ok(()));
    }

    /// Whatever reads as a varint is what a writer makes of its value: one legal encoding.
    #[test]
    fn a_varint_has_one_encoding(bytes in any::<[u8; 6]>()) {
        let mut reader = BitReader::new(&bytes);
        if let Ok(value) = reader.varint() {
            let width = 48 - reader.remaining() as u32;
            prop_assert_eq!(varint_code(value), (bits_at(&bytes, 0, width), width));
            prop_assert_eq!(varint_bits(value), width);
        }
    }

    #[test]
    fn random_reads_of_random_bytes_agree_with_single_bits(
        bytes in prop::collection::vec(any::<u8>(), 0..40),
        widths in prop::collection::vec(0..=WIDTH_MAX, 0..40),
    ) {
        let mut reader = BitReader::new(&bytes);
        let mut at = 0;
        for width in widths {
            if at + width as usize > bytes.len() * 8 {
                prop_assert_eq!(reader.read(width), Err(BitError::Truncated));
                break;
            }
            prop_assert_eq!(reader.read(width), Ok(bits_at(&bytes, at, width)));
            at += width as usize;
        }
    }
}
