use proptest::prelude::*;

use super::*;

/// One value with everything that both ends must know of it.
#[derive(Clone, Debug)]
enum Field {
    Bits(u32, u32),
    Bool(bool),
    Integer(i32, i32, i32),
    Whole(f32),
    Text(String, usize),
}

impl Field {
    fn put(&self, writer: &mut BitWriter<'_>) {
        match self {
            Self::Bits(value, width) => writer.put_bits(*value, *width),
            Self::Bool(value) => writer.put_bool(*value),
            Self::Integer(value, min, max) => writer.put_integer(*value, *min, *max),
            Self::Whole(value) => writer.put_float(*value, f32::MIN, f32::MAX, FLOAT_WHOLE),
            Self::Text(text, bytes_max) => writer.put_string(text, *bytes_max),
        }
    }

    /// Reads a field of the same shape.
    fn read(&self, reader: &mut BitReader<'_>) -> Result<Self, ReadError> {
        Ok(match *self {
            Self::Bits(_, width) => Self::Bits(reader.read_bits(width)?, width),
            Self::Bool(_) => Self::Bool(reader.read_bool()?),
            Self::Integer(_, min, max) => Self::Integer(reader.read_integer(min, max)?, min, max),
            Self::Whole(_) => Self::Whole(reader.read_float(f32::MIN, f32::MAX, FLOAT_WHOLE)?),
            Self::Text(_, bytes_max) => Self::Text(reader.read_string(bytes_max)?.to_owned(), bytes_max),
        })
    }
}

fn field() -> impl Strategy<Value = Field> {
    prop_oneof![
        (any::<u32>(), 1..=32u32).prop_map(|(value, width)| Field::Bits(value >> (32 - width), width)),
        any::<bool>().prop_map(Field::Bool),
        (any::<i32>(), any::<i32>(), any::<i32>()).prop_map(|(a, b, c)| {
            let mut sorted = [a, b, c];
            sorted.sort_unstable();
            Field::Integer(sorted[1], sorted[0], sorted[2])
        }),
        (f32::MIN..=f32::MAX).prop_map(Field::Whole),
        (".{0,12}", 0..40usize).prop_map(|(text, spare)| {
            let bytes_max = text.len() + spare;
            Field::Text(text, bytes_max)
        }),
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read(fields in prop::collection::vec(field(), 0..40)) {
        let mut out = [0xFF; 4096];
        let mut writer = BitWriter::new(&mut out);
        fields.iter().for_each(|field| field.put(&mut writer));
        let len = writer.finish().unwrap();
        let mut reader = BitReader::new(&out[..len]);
        for field in &fields {
            prop_assert_eq!(format!("{:?}", field.read(&mut reader)), format!("Ok({field:?})"));
        }
        prop_assert_eq!(reader.finish(), Ok(()));
    }

    /// Any bytes, read as anything: no panic, values in range, and after the first error only that one.
    #[test]
    fn any_bytes_fail_for_good(
        bytes in prop::collection::vec(any::<u8>(), 0..64),
        shapes in prop::collection::vec(field(), 1..40),
    ) {
        let mut reader = BitReader::new(&bytes);
        let mut failed = None;
        for shape in &shapes {
            let result = shape.read(&mut reader);
            if let Some(error) = failed {
                prop_assert_eq!(result.as_ref().err(), Some(&error));
                prop_assert_eq!(reader.remaining(), 0);
            }
            match result {
                Ok(Field::Integer(value, min, max)) => prop_assert!((min..=max).contains(&value)),
                Ok(Field::Text(text, bytes_max)) => prop_assert!(text.len() <= bytes_max),
                Ok(Field::Whole(value)) => prop_assert!(value.is_finite()),
                Ok(_) => {}
                Err(error) => failed = Some(error),
            }
        }
        prop_assert_eq!(reader.error(), failed);
        if let Some(error) = failed {
            prop_assert_eq!(reader.finish(), Err(error));
        }
    }

    /// A quantised float is off by half a step at most, and quantised again it is the same.
    #[test]
    fn floats_come_back_within_half_a_step(
        low in -1000f32..1000.0, span in 1f32..4000.0, part in 0f32..=1.0, width in 1..=16u32,
    ) {
        let high = low + span;
        let value = (low + span * part).clamp(low, high);
        let read = |value: f32| {
            let mut out = [0; 4];
            let mut writer = BitWriter::new(&mut out);
            writer.put_float(value, low, high, width);
            let len = writer.finish().unwrap();
            BitReader::new(&out[..len]).read_float(low, high, width).unwrap()
        };
        let step = (high - low) / (u32::MAX >> (32 - width)) as f32;
        let back = read(value);
        prop_assert!((back - value).abs() <= step * 0.501 + 0.001, "{value} came back as {back}");
        prop_assert!((low..=high).contains(&back));
        prop_assert_eq!(read(back), back);
    }

    /// Exactly the bits counted are needed: one byte less, and nothing comes out.
    #[test]
    fn a_write_that_does_not_fit_fails_for_good(fields in prop::collection::vec(field(), 1..20)) {
        let mut out = [0; 4096];
        let mut writer = BitWriter::new(&mut out);
        fields.iter().for_each(|field| field.put(&mut writer));
        let bits = writer.bit_len();
        let len = writer.finish().unwrap();
        prop_assert_eq!(len, bits.div_ceil(8));
        if len > 0 {
            let mut writer = BitWriter::new(&mut out[..len - 1]);
            fields.iter().for_each(|field| field.put(&mut writer));
            prop_assert!(writer.failed());
            prop_assert_eq!(writer.finish(), None);
        }
    }
}

#[test]
fn integers_take_the_least_bits() {
    for (min, max, bits) in [
        (5, 5, 0),
        (0, 1, 1),
        (-1, 1, 2),
        (0, 255, 8),
        (0, 256, 9),
        (i32::MIN, i32::MAX, 32),
        (-1, i32::MAX, 32),
    ] {
        assert_eq!(integer_bits(min, max), bits, "{min} to {max}");
    }
}

#[test]
fn an_integer_out_of_its_range_fails_for_good() {
    let mut reader = BitReader::new(&[0b0000_0110, 0xFF]);
    assert_eq!(reader.read_integer(-3, 3), Ok(3));
    assert_eq!(reader.read_integer(0, 0), Ok(0), "no bits");
    let mut reader = BitReader::new(&[0b0000_0111, 0xFF]);
    assert_eq!(reader.read_integer(-3, 3), Err(ReadError::Range));
    assert_eq!(reader.read_bool(), Err(ReadError::Range), "bits are left, but the reader has failed");
    assert_eq!(reader.read_integer(0, 0), Err(ReadError::Range), "even a read of no bits");
    assert_eq!(reader.read_string(0), Err(ReadError::Range));
    assert_eq!(reader.read_float(0.0, 1.0, 8), Err(ReadError::Range));
    assert_eq!(reader.finish(), Err(ReadError::Range));
}

#[test]
fn a_float_that_is_no_number_or_out_of_range_fails() {
    for word in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.5, -0.5].map(f32::to_bits) {
        let bytes = word.to_le_bytes();
        assert_eq!(BitReader::new(&bytes).read_float(0.0, 1.0, FLOAT_WHOLE), Err(ReadError::Range));
    }
    assert_eq!(BitReader::new(&1f32.to_le_bytes()).read_float(0.0, 1.0, FLOAT_WHOLE), Ok(1.0));
}

#[test]
fn a_quantised_float_reaches_both_ends_exactly() {
    for width in 1..32 {
        let mut out = [0; 8];
        let mut writer = BitWriter::new(&mut out);
        writer.put_float(-9.0, -3.3, 7.7, width);
        writer.put_float(9.0, -3.3, 7.7, width);
        assert_eq!(writer.finish(), Some((2 * width).div_ceil(8) as usize));
        let mut reader = BitReader::new(&out);
        assert_eq!(reader.read_float(-3.3, 7.7, width), Ok(-3.3));
        assert_eq!(reader.read_float(-3.3, 7.7, width), Ok(7.7));
    }
}

/// The layout of the example in docs/protocol/fignet-sync.md, section 1.
#[test]
fn the_example_of_the_documentation() {
    let mut out = [0; 8];
    let mut writer = BitWriter::new(&mut out);
    writer.put_bool(true);
    writer.put_integer(-2, -10, 10);
    writer.put_float(0.5, 0.0, 1.0, 4);
    writer.put_string("né", 15);
    let len = writer.finish().unwrap();
    assert_eq!(out[..len], [0x11, 0x0E, 0x6E, 0xC3, 0xA9]);
    let mut reader = BitReader::new(&out[..len]);
    assert_eq!(reader.read_bool(), Ok(true));
    assert_eq!(reader.read_integer(-10, 10), Ok(-2));
    assert_eq!(reader.read_float(0.0, 1.0, 4), Ok(8.0 / 15.0));
    assert_eq!(reader.read_string(15), Ok("né"));
    assert_eq!(reader.finish(), Ok(()));
}

#[test]
fn text_is_checked_without_a_panic() {
    let read = |bytes: &[u8], bytes_max| BitReader::new(bytes).read_string(bytes_max).map(str::len);
    assert_eq!(read(&[2, b'h', b'i'], 200), Ok(2));
    assert_eq!(read(&[3, b'h', b'i'], 200), Err(ReadError::Truncated));
    assert_eq!(read(&[201; 220], 200), Err(ReadError::TooLong));
    assert_eq!(read(&[2, 0xC3, 0x28], 200), Err(ReadError::Encoding));
    assert_eq!(read(&[1, 0xC3, 0xA9], 200), Err(ReadError::Encoding), "a character cut in half");
    assert_eq!(read(&[0b1000_0010, b'h', b'i'], 3), Err(ReadError::Trailing), "padding that is not 0");
    assert_eq!(read(&[], 200), Err(ReadError::Truncated));
}

#[test]
#[should_panic(expected = "not within")]
fn an_integer_out_of_range_is_the_callers_mistake() {
    BitWriter::new(&mut [0; 4]).put_integer(4, 0, 3);
}

#[test]
#[should_panic(expected = "no number")]
fn a_float_that_is_no_number_is_the_callers_mistake() {
    BitWriter::new(&mut [0; 4]).put_float(f32::NAN, 0.0, 1.0, 8);
}
