//! A fixed Huffman code for the bytes of snapshot records (docs/protocol/fignet-sync.md, section 4.2).
//!
//! The code is canonical: its lengths say everything. Codes go into a bit stream ([`crate::wire::bits`]) from their most
//! significant bit on; the last byte is filled up with ones, which begin the longest code and end none.

mod lengths;

pub use lengths::LENGTHS;

use crate::wire::bits::{BitReader, BitWriter, mask};

/// Longest code, in bits.
pub const CODE_BITS_MAX: usize = 15;

/// Codes up to this long are found in one step.
const STEP_BITS: u32 = 12;

/// Why coded bytes are dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HuffmanError {
    /// Ends within a code, or is filled up with other bits than ones.
    Truncated,
    /// More than there is room for.
    TooLong,
}

/// Writes the coded form of `bytes` to the front of `out` and returns its length; `None` when it does not fit.
pub fn compress(bytes: &[u8], out: &mut [u8]) -> Option<usize> {
    let mut writer = BitWriter::new(out);
    for three in bytes.chunks(3) {
        let (mut word, mut width) = (0, 0);
        for &byte in three {
            let code = CODES[byte as usize];
            word |= u64::from(code.bits) << width;
            width += u32::from(code.len);
        }
        writer.put(word, width);
    }
    let padding = (writer.bit_len().next_multiple_of(8) - writer.bit_len()) as u32;
    writer.put(mask(padding), padding);
    writer.finish()
}

/// Writes the original of the coded `bytes` to the front of `out` and returns its length.
pub fn decompress(bytes: &[u8], out: &mut [u8]) -> Result<usize, HuffmanError> {
    let mut reader = BitReader::new(bytes);
    let mut len = 0;
    // Three codes fit a word, whatever they are: as long as whole words are left, there is nothing else to ask.
    while reader.remaining() > 64 && len + 3 <= out.len() {
        let mut word = reader.peek();
        let mut taken = 0;
        for place in &mut out[len..len + 3] {
            let (symbol, width) = symbol(word);
            *place = symbol;
            word >>= width;
            taken += width;
        }
        reader.skip(taken).map_err(|_| HuffmanError::Truncated)?;
        len += 3;
    }
    loop {
        let left = reader.remaining() as u32;
        let word = reader.peek();
        if left < 8 && word & mask(left) == mask(left) {
            return Ok(len);
        }
        let (symbol, width) = symbol(word);
        reader.skip(width).map_err(|_| HuffmanError::Truncated)?;
        *out.get_mut(len).ok_or(HuffmanError::TooLong)? = symbol;
        len += 1;
    }
}

/// The symbol whose code `word` begins with, and the code's length.
#[inline]
fn symbol(word: u64) -> (u8, u32) {
    let [symbol, width] = STEP[(word & mask(STEP_BITS)) as usize];
    if width != 0 {
        return (symbol, width.into());
    }
    long_symbol(word)
}

fn long_symbol(word: u64) -> (u8, u32) {
    let (mut code, mut first, mut place) = (0u32, 0u32, 0u32);
    for (width, &count) in COUNTS.iter().enumerate().skip(1) {
        code = code << 1 | (word >> (width - 1) & 1) as u32;
        first <<= 1;
        let count = u32::from(count);
        if code - first < count {
            return (SYMBOLS[(place + code - first) as usize], width as u32);
        }
        first += count;
        place += count;
    }
    unreachable!("a complete code has no bits that begin none")
}

#[derive(Clone, Copy)]
struct Code {
    /// The code's first bit at the bottom.
    bits: u16,
    len: u8,
}

/// How many codes there are of each length.
const COUNTS: [u16; CODE_BITS_MAX + 1] = {
    let mut counts = [0; CODE_BITS_MAX + 1];
    let mut symbol = 0;
    while symbol < 256 {
        counts[LENGTHS[symbol] as usize] += 1;
        symbol += 1;
    }
    counts
};

/// The symbols by rising code: by length, and by value within one.
const SYMBOLS: [u8; 256] = {
    let mut symbols = [0; 256];
    let mut place = 0;
    let mut width = 1;
    while width <= CODE_BITS_MAX {
        let mut symbol = 0;
        while symbol < 256 {
            if LENGTHS[symbol] as usize == width {
                symbols[place] = symbol as u8;
                place += 1;
            }
            symbol += 1;
        }
        width += 1;
    }
    symbols
};

static CODES: [Code; 256] = {
    let mut codes = [Code { bits: 0, len: 0 }; 256];
    let (mut next, mut width, mut place) = (0u16, 0, 0);
    while place < 256 {
        let symbol = SYMBOLS[place] as usize;
        let len = LENGTHS[symbol];
        next <<= len - width;
        width = len;
        codes[symbol] = Code { bits: next.reverse_bits() >> (16 - len as u32), len };
        next = next.wrapping_add(1);
        place += 1;
    }
    codes
};

/// Symbol and length by the next [`STEP_BITS`] bits; length 0 where the code is longer.
static STEP: [[u8; 2]; 1 << STEP_BITS] = {
    let mut step = [[0; 2]; 1 << STEP_BITS];
    let mut symbol = 0;
    while symbol < 256 {
        let Code { bits, len } = CODES[symbol];
        if len as u32 <= STEP_BITS {
            let mut at = bits as usize;
            while at < step.len() {
                step[at] = [symbol as u8, len];
                at += 1 << len;
            }
        }
        symbol += 1;
    }
    step
};

const _: () = assert!(3 * CODE_BITS_MAX as u32 <= crate::wire::bits::WIDTH_MAX, "three codes fit a word");

// Every length is in range, the code is complete, and its last word is longer than any padding.
const _: () = {
    assert!(COUNTS[0] == 0, "every byte has a code");
    let (mut sum, mut width, mut longest) = (0u32, 1, 0);
    while width <= CODE_BITS_MAX {
        sum += (COUNTS[width] as u32) << (CODE_BITS_MAX - width);
        if COUNTS[width] > 0 {
            longest = width;
        }
        width += 1;
    }
    assert!(sum == 1 << CODE_BITS_MAX, "the code is complete");
    assert!(longest >= 8, "padding is no code");
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_prefix(short: Code, long: Code) -> bool {
        short.len <= long.len && u64::from(long.bits) & mask(short.len.into()) == u64::from(short.bits)
    }

    #[test]
    fn no_code_begins_another() {
        for (a, short) in CODES.iter().enumerate() {
            for (b, long) in CODES.iter().enumerate().filter(|&(b, _)| b != a) {
                assert!(!is_prefix(*short, *long), "{a} begins {b}");
            }
        }
    }

    #[test]
    fn every_code_is_found_again() {
        for symbol in 0..=255u8 {
            let Code { bits, len } = CODES[usize::from(symbol)];
            let garbage = 0xDEAD_BEEF_u64 << len;
            for word in [u64::from(bits), u64::from(bits) | garbage] {
                assert_eq!(super::symbol(word), (symbol, len.into()));
                assert_eq!(long_symbol(word), (symbol, len.into()));
            }
        }
    }

    #[test]
    fn padding_other_than_ones_is_refused() {
        let mut coded = [0; 8];
        let mut out = [0; 8];
        // A code that leaves one bit of padding.
        let symbol = (0..=255u8).find(|&symbol| LENGTHS[usize::from(symbol)] == 7).expect("a code of 7 bits");
        assert_eq!(compress(&[symbol], &mut coded), Some(1));
        assert_eq!(decompress(&coded[..1], &mut out), Ok(1));
        coded[0] &= 0x7F;
        assert_eq!(decompress(&coded[..1], &mut out), Err(HuffmanError::Truncated));
        assert_eq!(decompress(&[], &mut out), Ok(0));
        assert_eq!(decompress(&[0xFF], &mut out), Err(HuffmanError::Truncated), "a whole byte of padding");
    }

    proptest! {
        #[test]
        fn what_is_compressed_comes_back(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut coded = [0; 600];
            let len = compress(&bytes, &mut coded).unwrap();
            let mut back = vec![0; bytes.len()];
            prop_assert_eq!(decompress(&coded[..len], &mut back), Ok(bytes.len()));
            prop_assert_eq!(&back, &bytes);
            if !bytes.is_empty() {
                prop_assert_eq!(decompress(&coded[..len], &mut back[1..]), Err(HuffmanError::TooLong));
                prop_assert_eq!(compress(&bytes, &mut coded[..len - 1]), None);
            }
        }

        /// Any bytes: no panic, and whatever is accepted has exactly this one coded form.
        #[test]
        fn any_bytes_are_refused_or_the_one_form(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut out = [0; 600];
            if let Ok(len) = decompress(&bytes, &mut out) {
                let mut again = [0; 64];
                prop_assert_eq!(compress(&out[..len], &mut again), Some(bytes.len()));
                prop_assert_eq!(&again[..bytes.len()], &bytes[..]);
            }
        }
    }
}
