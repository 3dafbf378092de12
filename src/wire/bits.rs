//! Bit streams: bits fill each byte from bit 0 up, values are least significant bit first. Implements Aegis 1.6.

/// Most bits that one read or write takes at a time.
pub const BITS_MAX: u32 = 56;

/// Groups of the longest varint: 11 × 3 bits hold a u32.
const VARINT_GROUPS_MAX: u32 = 11;

/// Reads bits. The first read past the end or invalid varint fails, and so does every later read.
#[derive(Clone, Copy, Debug)]
pub struct BitReader<'a> {
    bytes: &'a [u8],
    /// Bits read so far.
    at: usize,
    error: Option<BitError>,
}

/// Why bits could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BitError {
    /// Past the end.
    PastEnd,
    /// Not the shortest encoding, or past 32 bits.
    Varint,
    /// Bits other than 0, or whole bytes, after the last value.
    Trailing,
}

impl<'a> BitReader<'a> {
    /// Reads `bytes` from their first bit.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, error: None }
    }

    /// The next `width` bits, 1 to [`BITS_MAX`]; 0 once a read failed.
    #[inline]
    pub fn bits(&mut self, width: u32) -> u64 {
        debug_assert!((1..=BITS_MAX).contains(&width), "width out of range");
        let (byte, shift) = (self.at / 8, self.at % 8);
        let word = match self.bytes.get(byte..byte + 8) {
            // The common case, far from the end: one load has them all, since shift + width is at most 63.
            Some(chunk) => u64::from_le_bytes(chunk.try_into().unwrap_or([0; 8])),
            None => {
                if self.at + width as usize > self.bytes.len() * 8 {
                    self.fail(BitError::PastEnd);
                }
                self.tail(byte)
            }
        };
        if self.error.is_some() {
            return 0;
        }
        self.at += width as usize;
        word >> shift & ((1 << width) - 1)
    }

    /// The next `width` bits as a two's complement number; 0 once a read failed.
    #[inline]
    pub fn signed(&mut self, width: u32) -> i32 {
        sign_extend(self.bits(width), width)
    }

    /// The next bit.
    #[inline]
    pub fn bit(&mut self) -> bool {
        self.bits(1) == 1
    }

    /// The next varint; 0 once a read failed.
    #[inline]
    pub fn varint(&mut self) -> u32 {
        // Nearly all values in snapshots are gaps below 8.
        let first = self.bits(4);
        if first < 8 { first as u32 } else { self.varint_rest(first & 7) }
    }

    /// Bits read so far.
    pub const fn position(&self) -> usize {
        self.at
    }

    /// Whether every read so far succeeded.
    pub const fn check(&self) -> Result<(), BitError> {
        match self.error {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }

    /// Checks that every read succeeded and that only the zero bits that fill the last byte are left.
    pub fn finish(mut self) -> Result<(), BitError> {
        self.check()?;
        let left = self.bytes.len() * 8 - self.at;
        if left >= 8 || left > 0 && self.bits(left as u32) != 0 { Err(BitError::Trailing) } else { Ok(()) }
    }

    fn varint_rest(&mut self, low: u64) -> u32 {
        let mut value = low;
        for group in 1..VARINT_GROUPS_MAX {
            let bits = self.bits(4);
            value |= (bits & 7) << (3 * group);
            if bits < 8 {
                // The shortest encoding has no empty last group.
                if bits == 0 || value > u64::from(u32::MAX) {
                    self.fail(BitError::Varint);
                    return 0;
                }
                return value as u32;
            }
        }
        self.fail(BitError::Varint);
        0
    }

    /// The bytes from `byte` on, as far as there are any, as one word.
    #[cold]
    fn tail(&self, byte: usize) -> u64 {
        let rest = self.bytes.get(byte..).unwrap_or(&[]);
        rest.iter().take(8).rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
    }

    #[cold]
    fn fail(&mut self, error: BitError) {
        self.error = self.error.or(Some(error));
    }
}

/// The number whose two's complement in `width` bits is `bits`.
#[inline]
pub const fn sign_extend(bits: u64, width: u32) -> i32 {
    let unused = 64 - width;
    ((bits << unused) as i64 >> unused) as i32
}

/// Writes bits into a slice. Writing past its end fails for good.
#[derive(Debug)]
pub struct BitWriter<'a> {
    buffer: &'a mut [u8],
    /// Whole bytes written.
    len: usize,
    /// Bits not yet written, lowest first; fewer than 8.
    pending: u64,
    pending_len: u32,
    is_sound: bool,
}

impl<'a> BitWriter<'a> {
    /// Writes into `buffer` from its first bit.
    pub const fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, len: 0, pending: 0, pending_len: 0, is_sound: true }
    }

    /// Appends the low `width` bits of `value`, 0 to [`BITS_MAX`]; the others must be 0.
    #[inline]
    pub fn put(&mut self, value: u64, width: u32) {
        debug_assert!(
            width <= BITS_MAX && (width == 64 || value >> width == 0),
            "value wider than its field"
        );
        self.pending |= value << self.pending_len;
        self.pending_len += width;
        let whole = (self.pending_len / 8) as usize;
        match self.buffer.get_mut(self.len..self.len + 8) {
            // The common case: store the whole word; what is not yet complete is stored again with the next.
            Some(place) => place.copy_from_slice(&self.pending.to_le_bytes()),
            None => self.put_tail(whole),
        }
        self.len += whole;
        // `whole` is at most 7: 56 bits and 7 pending ones.
        self.pending >>= whole * 8;
        self.pending_len %= 8;
    }

    /// Bits written so far, those that did not fit included.
    pub const fn bit_len(&self) -> usize {
        self.len * 8 + self.pending_len as usize
    }

    /// Fills the last byte with zero bits. Returns how many bytes were written, if all of them fitted.
    pub fn finish(mut self) -> Option<usize> {
        if self.pending_len > 0 {
            self.put(0, 8 - self.pending_len);
        }
        self.is_sound.then_some(self.len)
    }

    #[cold]
    fn put_tail(&mut self, whole: usize) {
        let bytes = self.pending.to_le_bytes();
        match self.buffer.get_mut(self.len..self.len + whole) {
            Some(place) => place.copy_from_slice(&bytes[..whole]),
            None => self.is_sound = false,
        }
    }
}

/// Appends a varint.
#[inline]
pub fn put_varint(bits: &mut BitWriter<'_>, value: u32) {
    let (code, width) = varint_code(value);
    bits.put(code, width);
}

/// The bits of a varint and how many they are.
#[inline]
pub const fn varint_code(value: u32) -> (u64, u32) {
    if value < 8 {
        return (value as u64, 4);
    }
    let mut rest = value as u64;
    let mut code = 0;
    let mut width = 0;
    loop {
        let group = rest & 7;
        rest >>= 3;
        let more = (rest != 0) as u64;
        code |= (group | more << 3) << width;
        width += 4;
        if more == 0 {
            return (code, width);
        }
    }
}

/// How many bits the varint of `value` has.
#[inline]
pub const fn varint_bits(value: u32) -> u32 {
    let significant = 32 - value.leading_zeros();
    if significant <= 3 { 4 } else { significant.div_ceil(3) * 4 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Values with their bits and bytes, from an independent encoder.
    #[test]
    fn varint_examples() {
        let examples: [(u32, u32, &[u8]); 7] = [
            (0, 4, &[0x00]),
            (7, 4, &[0x07]),
            (8, 8, &[0x18]),
            (41, 8, &[0x59]),
            (511, 12, &[0xFF, 0x07]),
            (512, 16, &[0x88, 0x18]),
            (u32::MAX, 44, &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x03]),
        ];
        for (value, width, bytes) in examples {
            let mut buffer = [0; 8];
            let mut writer = BitWriter::new(&mut buffer);
            put_varint(&mut writer, value);
            assert_eq!((writer.bit_len(), varint_bits(value)), (width as usize, width), "{value}");
            assert_eq!(writer.finish(), Some(bytes.len()));
            assert_eq!(&buffer[..bytes.len()], bytes, "{value}");
            let mut reader = BitReader::new(bytes);
            assert_eq!((reader.varint(), reader.position()), (value, width as usize));
            assert_eq!(reader.finish(), Ok(()));
        }
    }

    #[test]
    fn only_the_shortest_varint_is_valid() {
        // 7 with an empty second group; 2³² and beyond; twelve groups.
        for bytes in
            [&[0x0F][..], &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x07], &[0x88, 0x88, 0x88, 0x88, 0x88, 0x88, 0x01]]
        {
            let mut reader = BitReader::new(bytes);
            reader.varint();
            assert_eq!(reader.check(), Err(BitError::Varint), "{bytes:02x?}");
            assert_eq!(reader.bits(1), 0, "failed for good");
        }
    }

    /// Reads in the last 7 bytes of an exact buffer (field case 24).
    #[test]
    fn case_24_the_end_of_an_exact_buffer() {
        for len in 0..12usize {
            let bytes: Vec<u8> = (0..len).map(|byte| byte as u8 | 0x80).collect();
            for width in 1..=BITS_MAX {
                let mut reader = BitReader::new(&bytes);
                let mut read = 0;
                while read + width as usize <= len * 8 {
                    let expected = (0..width as usize)
                        .map(|bit| u64::from(bytes[(read + bit) / 8] >> ((read + bit) % 8) & 1) << bit)
                        .sum::<u64>();
                    assert_eq!(reader.bits(width), expected, "{len} bytes, width {width}, at {read}");
                    read += width as usize;
                }
                assert_eq!(reader.check(), Ok(()));
                assert_eq!(reader.bits(width), 0);
                assert_eq!(reader.check(), Err(BitError::PastEnd));
            }
        }
    }

    #[test]
    fn trailing_bits_and_bytes_are_told() {
        for (bytes, verdict) in [
            (&[0x01][..], Ok(())),
            (&[0x03], Err(BitError::Trailing)),
            (&[0x81], Err(BitError::Trailing)),
            (&[0x01, 0x00], Err(BitError::Trailing)),
        ] {
            let mut reader = BitReader::new(bytes);
            reader.bit();
            assert_eq!(reader.finish(), verdict, "{bytes:02x?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(fields in prop::collection::vec((any::<u64>(), 1..=BITS_MAX), 0..60), slack in 0..9usize) {
            let total = fields.iter().map(|(_, width)| *width as usize).sum::<usize>();
            let mut buffer = vec![0xEE; total.div_ceil(8) + slack];
            let mut writer = BitWriter::new(&mut buffer);
            for &(value, width) in &fields {
                writer.put(value & ((1 << width) - 1), width);
            }
            prop_assert_eq!(writer.bit_len(), total);
            prop_assert_eq!(writer.finish(), Some(total.div_ceil(8)));
            let mut reader = BitReader::new(&buffer[..total.div_ceil(8)]);
            for &(value, width) in &fields {
                prop_assert_eq!(reader.bits(width), value & ((1 << width) - 1));
            }
            prop_assert_eq!(reader.finish(), Ok(()));
            // One byte less, and it does not fit.
            if total > 0 {
                let mut writer = BitWriter::new(&mut buffer[..total.div_ceil(8) - 1]);
                fields.iter().for_each(|&(value, width)| writer.put(value & ((1 << width) - 1), width));
                prop_assert_eq!(writer.finish(), None);
            }
        }

        #[test]
        fn varints_round_trip(value in any::<u32>(), shift in 0..32u32) {
            let value = value >> shift;
            let (code, width) = varint_code(value);
            prop_assert_eq!(width, varint_bits(value));
            let bytes = code.to_le_bytes();
            let mut reader = BitReader::new(&bytes[..width.div_ceil(8) as usize]);
            prop_assert_eq!(reader.varint(), value);
            prop_assert_eq!(reader.position(), width as usize);
        }

        #[test]
        fn signed_values_round_trip(value in -(1i32 << 19)..1 << 19) {
            prop_assert_eq!(sign_extend(value as u64 & 0xF_FFFF, 20), value);
        }
    }
}
