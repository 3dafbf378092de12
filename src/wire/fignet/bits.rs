//! FigNet's bit packing: integers, floats and text in no more bits than their ranges need
//! (docs/protocol/fignet-sync.md, section 1).
//!
//! Built upon [`crate::wire::bits`], with its order of bits. Both ends fail for good: after the first read that goes past
//! the end, or gives a value outside its range, every later one fails with the same error; after the first write that
//! does not fit, [`BitWriter::finish`] gives nothing. Over the caller's slices, without an allocation.

use crate::wire::bits;

/// Most bits of one integer or float.
pub const WIDTH_MAX: u32 = 32;

/// The width at which a float is sent whole, as IEEE 754, and not quantised.
pub const FLOAT_WHOLE: u32 = 32;

/// Why a bit stream cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadError {
    /// A value goes past the end.
    Truncated,
    /// A value outside the range that both ends agreed on, a float that is no number included.
    Range,
    /// Text longer than its maximum.
    TooLong,
    /// Text that is not UTF-8.
    Encoding,
    /// Padding bits other than 0, or something after the last value.
    Trailing,
}

/// Reads values from a bit stream that fills `bytes` exactly, up to zero padding in the last byte.
#[derive(Clone, Copy, Debug)]
pub struct BitReader<'a> {
    inner: bits::BitReader<'a>,
    bytes: &'a [u8],
    error: Option<ReadError>,
}

/// Writes a bit stream into a slice.
#[derive(Debug)]
pub struct BitWriter<'a> {
    inner: bits::BitWriter<'a>,
}

impl<'a> BitReader<'a> {
    /// A reader of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { inner: bits::BitReader::new(bytes), bytes, error: None }
    }

    /// The next `width` bits.
    ///
    /// # Panics
    /// When `width` is not 1 to [`WIDTH_MAX`].
    #[inline]
    pub fn read_bits(&mut self, width: u32) -> Result<u32, ReadError> {
        assert!((1..=WIDTH_MAX).contains(&width), "a read of 0 or more than 32 bits");
        self.raw(width)
    }

    /// One bit.
    #[inline]
    pub fn read_bool(&mut self) -> Result<bool, ReadError> {
        Ok(self.raw(1)? == 1)
    }

    /// An integer from `min` to `max`, both included, in [`integer_bits`] bits.
    ///
    /// # Panics
    /// When `min` is above `max`.
    #[inline]
    pub fn read_integer(&mut self, min: i32, max: i32) -> Result<i32, ReadError> {
        let offset = self.raw(integer_bits(min, max))?;
        if offset > max.wrapping_sub(min) as u32 {
            return self.fail(ReadError::Range);
        }
        Ok(min.wrapping_add_unsigned(offset))
    }

    /// A float from `min` to `max`, both included: one of 2^`width` equidistant values, or any with [`FLOAT_WHOLE`].
    ///
    /// # Panics
    /// When `width` is not 1 to 32, or `min` to `max` is no range of finite numbers.
    pub fn read_float(&mut self, min: f32, max: f32, width: u32) -> Result<f32, ReadError> {
        check_float_range(min, max, width);
        let word = self.raw(width)?;
        if width < FLOAT_WHOLE {
            return Ok(dequantised(word, min, max, width));
        }
        let value = f32::from_bits(word);
        if (min..=max).contains(&value) { Ok(value) } else { self.fail(ReadError::Range) }
    }

    /// Text of at most `bytes_max` bytes: its length as an integer from 0 to that, zeros to the next whole byte, its
    /// bytes.
    ///
    /// # Panics
    /// When `bytes_max` is above `i32::MAX`.
    pub fn read_string(&mut self, bytes_max: usize) -> Result<&'a str, ReadError> {
        let len = self.raw(length_bits(bytes_max))? as usize;
        if len > bytes_max {
            return self.fail(ReadError::TooLong);
        }
        let padding = self.inner.remaining() % 8;
        if self.raw(padding as u32)? != 0 {
            return self.fail(ReadError::Trailing);
        }
        let start = self.bytes.len() - self.inner.remaining() / 8;
        let Some(bytes) = self.bytes[start..].get(..len) else { return self.fail(ReadError::Truncated) };
        match std::str::from_utf8(bytes) {
            Ok(text) => {
                self.inner = bits::BitReader::new(&self.bytes[start + len..]);
                Ok(text)
            }
            Err(_) => self.fail(ReadError::Encoding),
        }
    }

    /// Bits left, padding included; none after a failure.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.inner.remaining()
    }

    /// The error that all reads end with from now on.
    pub const fn error(&self) -> Option<ReadError> {
        self.error
    }

    /// Checks that nothing failed, and that only zero padding within the last byte is left.
    pub fn finish(self) -> Result<(), ReadError> {
        match self.error {
            Some(error) => Err(error),
            None => self.inner.finish().map_err(|_| ReadError::Trailing),
        }
    }

    /// The next `width` bits, perhaps none.
    #[inline]
    fn raw(&mut self, width: u32) -> Result<u32, ReadError> {
        match self.inner.read(width) {
            Ok(word) => Ok(word as u32),
            Err(_) => self.fail(ReadError::Truncated),
        }
    }

    /// Keeps the first error, and leaves nothing to read.
    #[cold]
    fn fail<T>(&mut self, error: ReadError) -> Result<T, ReadError> {
        let first = *self.error.get_or_insert(error);
        self.bytes = &[];
        self.inner = bits::BitReader::new(&[]);
        // From here on even a read of no bits fails.
        let _ = self.inner.skip(1);
        Err(first)
    }
}

impl<'a> BitWriter<'a> {
    /// A writer into `out`.
    #[inline]
    pub const fn new(out: &'a mut [u8]) -> Self {
        Self { inner: bits::BitWriter::new(out) }
    }

    /// Appends the low `width` bits of `value`.
    ///
    /// # Panics
    /// When `width` is not 1 to [`WIDTH_MAX`], or `value` has more bits.
    #[inline]
    pub fn put_bits(&mut self, value: u32, width: u32) {
        assert!((1..=WIDTH_MAX).contains(&width), "a write of 0 or more than 32 bits");
        assert!(u64::from(value) >> width == 0, "{value:#x} has more than {width} bits");
        self.inner.put(value.into(), width);
    }

    /// Appends one bit.
    #[inline]
    pub fn put_bool(&mut self, value: bool) {
        self.inner.put(value.into(), 1);
    }

    /// Appends an integer from `min` to `max`, both included, in [`integer_bits`] bits.
    ///
    /// # Panics
    /// When `min` is above `max`, or `value` outside.
    #[inline]
    pub fn put_integer(&mut self, value: i32, min: i32, max: i32) {
        let width = integer_bits(min, max);
        assert!((min..=max).contains(&value), "{value} is not within {min} to {max}");
        self.inner.put((value.wrapping_sub(min) as u32).into(), width);
    }

    /// Appends a float as the nearest of 2^`width` equidistant values from `min` to `max`, or as it is with
    /// [`FLOAT_WHOLE`]. What lies outside is brought to the nearer end.
    ///
    /// # Panics
    /// When `width` is not 1 to 32, `min` to `max` is no range of finite numbers, or `value` is no number.
    pub fn put_float(&mut self, value: f32, min: f32, max: f32, width: u32) {
        check_float_range(min, max, width);
        assert!(!value.is_nan(), "a float that is no number");
        let value = value.clamp(min, max);
        let word = if width < FLOAT_WHOLE { quantised(value, min, max, width) } else { value.to_bits() };
        self.inner.put(word.into(), width);
    }

    /// Appends text of at most `bytes_max` bytes (see [`BitReader::read_string`]).
    ///
    /// # Panics
    /// When `text` is longer, or `bytes_max` above `i32::MAX`.
    pub fn put_string(&mut self, text: &str, bytes_max: usize) {
        let width = length_bits(bytes_max);
        assert!(text.len() <= bytes_max, "text of more than {bytes_max} bytes");
        self.inner.put(text.len() as u64, width);
        if self.inner.failed() {
            return;
        }
        let padding = self.inner.bit_len().next_multiple_of(8) - self.inner.bit_len();
        self.inner.put(0, padding as u32);
        self.inner.put_bytes(text.as_bytes());
    }

    /// Bits written.
    #[inline]
    pub const fn bit_len(&self) -> usize {
        self.inner.bit_len()
    }

    /// Whether a write did not fit.
    #[inline]
    pub const fn failed(&self) -> bool {
        self.inner.failed()
    }

    /// Pads with zeros to the byte and gives the length in bytes, or `None` when something did not fit.
    #[inline]
    pub fn finish(self) -> Option<usize> {
        self.inner.finish()
    }
}

/// Bits of an integer from `min` to `max`: 0 to 32.
///
/// # Panics
/// When `min` is above `max`.
#[inline]
pub const fn integer_bits(min: i32, max: i32) -> u32 {
    assert!(min <= max, "an empty range of integers");
    32 - (max.wrapping_sub(min) as u32).leading_zeros()
}

fn length_bits(bytes_max: usize) -> u32 {
    integer_bits(0, i32::try_from(bytes_max).expect("text of less than 2 GiB"))
}

fn check_float_range(min: f32, max: f32, width: u32) {
    assert!((1..=WIDTH_MAX).contains(&width), "a float of 0 or more than 32 bits");
    assert!(min.is_finite() && max.is_finite() && min < max, "no range of floats");
}

/// Which of the 2^`width` values from `min` to `max` is nearest to `value`, which lies between.
fn quantised(value: f32, min: f32, max: f32, width: u32) -> u32 {
    let (value, min, max) = (f64::from(value), f64::from(min), f64::from(max));
    ((value - min) / (max - min) * last_step(width)).round() as u32
}

fn dequantised(step: u32, min: f32, max: f32, width: u32) -> f32 {
    let (low, high) = (f64::from(min), f64::from(max));
    let value = low + (high - low) * (f64::from(step) / last_step(width));
    (value as f32).clamp(min, max)
}

fn last_step(width: u32) -> f64 {
    f64::from(u32::MAX >> (32 - width))
}

#[cfg(test)]
mod tests;
