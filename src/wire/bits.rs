//! Bit streams (Aegis 1.6): bits fill each byte from bit 0 up, a value is written least significant bit first, signed
//! values are two's complement of their width.
//!
//! Both ends work on one unaligned 64-bit word at a time, so up to [`WIDTH_MAX`] bits move in one step. Both fail for good:
//! after the first access past the end every later one fails as well.

use std::mem;

/// Most bits that one read or write moves: a 64-bit word less the 7 bits that may lie before the value.
pub const WIDTH_MAX: u32 = 57;

/// Most bits of a varint: eleven groups of four.
pub const VARINT_BITS_MAX: u32 = 44;

/// Why a bit stream cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BitError {
    /// A value goes past the end.
    Truncated,
    /// A varint longer than it must be, or of a value past 32 bits.
    Varint,
    /// Bytes, or padding bits other than 0, after the last value.
    Trailing,
}

/// Reads values from a bit stream that fills `bytes` exactly, up to zero padding in the last byte.
#[derive(Clone, Copy, Debug)]
pub struct BitReader<'a> {
    bytes: &'a [u8],
    /// The next bit; after a failure past the end of `bytes`, which are none then, so that not even a read of no bits
    /// succeeds and one comparison is all that a read needs.
    at: usize,
    /// The last 8 bytes as a word (all of them, zero-extended, when there are fewer), for reads that begin there.
    tail: u64,
}

/// Writes a bit stream into a slice.
///
/// Bytes of the slice beyond those written may be overwritten with zeros.
#[derive(Debug)]
pub struct BitWriter<'a> {
    out: &'a mut [u8],
    /// Whole bytes written.
    at: usize,
    /// Bits not yet part of a whole byte, at the bottom.
    word: u64,
    /// How many: below 8 between calls.
    pending: u32,
    failed: bool,
}

impl<'a> BitReader<'a> {
    /// A reader of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        let tail = match bytes.last_chunk() {
            Some(last) => u64::from_le_bytes(*last),
            None => bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
        };
        Self { bytes, at: 0, tail }
    }

    /// The next `width` bits.
    ///
    /// # Panics
    /// When `width` is above [`WIDTH_MAX`].
    #[inline]
    pub fn read(&mut self, width: u32) -> Result<u64, BitError> {
        assert!(width <= WIDTH_MAX, "a read of more than 57 bits");
        let word = self.peek();
        self.skip(width)?;
        Ok(word & mask(width))
    }

    /// The next `width` bits as a signed value.
    ///
    /// # Panics
    /// When `width` is 0 or above 32.
    #[inline]
    pub fn read_signed(&mut self, width: u32) -> Result<i32, BitError> {
        assert!(width > 0 && width <= 32, "a signed read of 0 or more than 32 bits");
        let word = self.read(width)?;
        Ok(sign_extend(word, width))
    }

    /// A varint (Aegis 1.6).
    #[inline]
    pub fn varint(&mut self) -> Result<u32, BitError> {
        let word = self.peek();
        if word & 8 == 0 {
            self.skip(4)?;
            return Ok((word & 7) as u32);
        }
        self.long_varint(word)
    }

    /// The next bits without taking them: at least [`WIDTH_MAX`] of the stream, zeros past its end. What is above the
    /// stream's bits in the word is not to be used.
    #[inline]
    pub fn peek(&self) -> u64 {
        let byte = self.at / 8;
        let word = match self.bytes.get(byte..byte + 8) {
            Some(bytes) => u64::from_le_bytes(bytes.try_into().expect("eight bytes")),
            None => {
                let skipped = byte - self.bytes.len().saturating_sub(8);
                self.tail.checked_shr(skipped as u32 * 8).unwrap_or(0)
            }
        };
        word >> (self.at % 8)
    }

    /// Takes `width` bits, which a caller has [peeked](Self::peek) at.
    #[inline]
    pub fn skip(&mut self, width: u32) -> Result<(), BitError> {
        let at = self.at + width as usize;
        if at > self.bytes.len() * 8 {
            return self.fail(BitError::Truncated);
        }
        self.at = at;
        Ok(())
    }

    /// Bits left, padding included.
    #[inline]
    pub fn remaining(&self) -> usize {
        (self.bytes.len() * 8).saturating_sub(self.at)
    }

    /// Checks that only zero padding within the last byte is left.
    #[inline]
    pub fn finish(self) -> Result<(), BitError> {
        if self.at > self.bytes.len() * 8 {
            Err(BitError::Truncated)
        } else if self.remaining() >= 8 || self.peek() & mask(self.remaining() as u32) != 0 {
            Err(BitError::Trailing)
        } else {
            Ok(())
        }
    }

    fn long_varint(&mut self, word: u64) -> Result<u32, BitError> {
        // The first group without its continuation bit is the last one.
        let groups = (!word & CONTINUES).trailing_zeros() / 4 + 1;
        if groups * 4 > VARINT_BITS_MAX {
            return self.fail(BitError::Varint);
        }
        self.skip(groups * 4)?;
        let value = gather(word & mask(groups * 4));
        if value >> ((groups - 1) * 3) == 0 {
            return self.fail(BitError::Varint);
        }
        match u32::try_from(value) {
            Ok(value) => Ok(value),
            Err(_) => self.fail(BitError::Varint),
        }
    }

    #[cold]
    fn fail<T>(&mut self, error: BitError) -> Result<T, BitError> {
        *self = Self { bytes: &[], at: 1, tail: 0 };
        Err(error)
    }
}

impl<'a> BitWriter<'a> {
    /// A writer into `out`.
    #[inline]
    pub const fn new(out: &'a mut [u8]) -> Self {
        Self { out, at: 0, word: 0, pending: 0, failed: false }
    }

    /// Appends the low `width` bits of `value`; none when they do not fit.
    ///
    /// # Panics
    /// When `width` is above [`WIDTH_MAX`]; under debug assertions also when `value` has more bits than that.
    #[inline]
    pub fn put(&mut self, value: u64, width: u32) {
        assert!(width <= WIDTH_MAX, "a write of more than 57 bits");
        debug_assert!(value & !mask(width) == 0, "{value:#x} has more than {width} bits");
        let word = self.word | value << self.pending;
        let bits = self.pending + width;
        // A word holds what is pending and the widest write: where one fits, everything does.
        match self.out.get_mut(self.at..).and_then(|rest| rest.first_chunk_mut()) {
            Some(room) => *room = word.to_le_bytes(),
            None => return self.put_at_end(word, width),
        }
        self.advance(word, bits);
    }

    /// The same within the last bytes.
    #[cold]
    fn put_at_end(&mut self, word: u64, width: u32) {
        if width as usize > self.room() {
            return self.fail();
        }
        let bits = self.pending + width;
        let whole = (bits / 8) as usize;
        self.out[self.at..self.at + whole].copy_from_slice(&word.to_le_bytes()[..whole]);
        self.advance(word, bits);
    }

    #[inline]
    fn advance(&mut self, word: u64, bits: u32) {
        let whole = bits / 8;
        self.at += whole as usize;
        self.word = word.checked_shr(whole * 8).unwrap_or(0);
        self.pending = bits % 8;
    }

    /// Appends a signed value of `width` bits.
    ///
    /// # Panics
    /// When `width` is 0 or above 32; under debug assertions also when `value` is outside the width's range.
    #[inline]
    pub fn put_signed(&mut self, value: i32, width: u32) {
        self.put(signed_bits(value, width), width);
    }

    /// Appends a varint (Aegis 1.6), in its shortest form.
    #[inline]
    pub fn put_varint(&mut self, value: u32) {
        let (code, width) = varint_code(value);
        self.put(code, width);
    }

    /// Appends whole bytes that were encoded already; none when they do not fit.
    ///
    /// # Panics
    /// When the stream does not stand at a byte boundary.
    #[inline]
    pub fn put_bytes(&mut self, bytes: &[u8]) {
        assert!(self.pending == 0, "bytes are appended at a byte boundary only");
        if bytes.len() > self.out.len() - self.at {
            return self.fail();
        }
        self.out[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    /// Sets bits from `at` on that were written as zeros; nothing happens when something did not fit.
    ///
    /// # Panics
    /// When they were not written yet, or `value` has more than [`WIDTH_MAX`] bits.
    pub fn fill_in(&mut self, at: usize, value: u64) {
        if self.failed {
            return;
        }
        assert!(value >> WIDTH_MAX == 0, "a write of more than 57 bits");
        let (first, bytes) = (at / 8, (value << (at % 8)).to_le_bytes());
        for (index, byte) in (first..).zip(bytes).filter(|(_, byte)| *byte != 0) {
            if index == self.at {
                self.word |= u64::from(byte);
            } else {
                self.out[index] |= byte;
            }
        }
    }

    /// Bits written.
    #[inline]
    pub const fn bit_len(&self) -> usize {
        self.at * 8 + self.pending as usize
    }

    /// Bits that still fit.
    #[inline]
    pub const fn room(&self) -> usize {
        (self.out.len() * 8).saturating_sub(self.bit_len())
    }

    /// Whether a write did not fit.
    #[inline]
    pub const fn failed(&self) -> bool {
        self.failed
    }

    /// Pads with zeros to the byte and gives the length in bytes, or `None` when something did not fit.
    #[inline]
    pub fn finish(self) -> Option<usize> {
        if self.failed {
            return None;
        }
        if self.pending > 0 {
            self.out[self.at] = self.word as u8;
        }
        Some(self.at + usize::from(self.pending > 0))
    }

    /// Takes the room away that is left, so that nothing fits any more.
    #[cold]
    fn fail(&mut self) {
        self.failed = true;
        self.out = &mut mem::take(&mut self.out)[..self.at];
    }
}

/// How many bits `value` takes as a varint: 4 to [`VARINT_BITS_MAX`].
#[inline]
pub const fn varint_bits(value: u32) -> u32 {
    let significant = 32 - (value | 1).leading_zeros();
    significant.div_ceil(3) * 4
}

/// `value` as a varint: its bits and how many they are.
#[inline]
pub const fn varint_code(value: u32) -> (u64, u32) {
    if value < 8 {
        return (value as u64, 4);
    }
    let width = varint_bits(value);
    (scatter(value as u64) | CONTINUES & mask(width - 4), width)
}

/// `value` as its `width` low bits, two's complement.
///
/// # Panics
/// When `width` is 0 or above 32; under debug assertions also when `value` is outside the width's range.
#[inline]
pub const fn signed_bits(value: i32, width: u32) -> u64 {
    assert!(width > 0 && width <= 32, "a signed value of 0 or more than 32 bits");
    let bits = value as u64 & mask(width);
    debug_assert!(sign_extend(bits, width) == value, "a signed value outside its width");
    bits
}

/// The signed value in the `width` low bits of `word` (1 to 32); bits above them do not count.
#[inline]
pub const fn sign_extend(word: u64, width: u32) -> i32 {
    let unused = 64 - width;
    ((word << unused) as i64 >> unused) as i32
}

/// A word of `width` ones (0 to 63).
#[inline]
pub const fn mask(width: u32) -> u64 {
    (1 << width) - 1
}

/// The continuation bits of a word of varint groups.
const CONTINUES: u64 = 0x8888_8888_8888_8888;

/// Groups of four bits, three used, to a plain number: halves move together, then halves of halves.
const fn gather(word: u64) -> u64 {
    let word = word & 0x0707_0707_0707_0707 | (word & 0x7070_7070_7070_7070) >> 1;
    let word = word & 0x003F_003F_003F_003F | (word & 0x3F00_3F00_3F00_3F00) >> 2;
    let word = word & 0x0000_0FFF_0000_0FFF | (word & 0x0FFF_0000_0FFF_0000) >> 4;
    word & 0x0000_0000_00FF_FFFF | (word & 0x00FF_FFFF_0000_0000) >> 8
}

/// The way back of [`gather`].
const fn scatter(value: u64) -> u64 {
    let word = value & 0x0000_0000_00FF_FFFF | (value & 0x0000_FFFF_FF00_0000) << 8;
    let word = word & 0x0000_0FFF_0000_0FFF | (word & 0x00FF_F000_00FF_F000) << 4;
    let word = word & 0x003F_003F_003F_003F | (word & 0x0FC0_0FC0_0FC0_0FC0) << 2;
    word & 0x0707_0707_0707_0707 | (word & 0x3838_3838_3838_3838) << 1
}

#[cfg(test)]
mod tests;
