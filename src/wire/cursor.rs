//! Cursors over whole bytes: little-endian, packed, unaligned (Aegis 1.2). [`Reader`] and [`Writer`] fail for good: after
//! the first access past the end every later one fails as well.

/// Reads values from the front of a slice.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    failed: bool,
}

/// Writes values to the front of a slice.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut [u8],
    len: usize,
    failed: bool,
}

impl<'a> Reader<'a> {
    /// A reader of `bytes`.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, failed: false }
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    /// Two bytes.
    #[inline]
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes.
    #[inline]
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes.
    #[inline]
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Two bytes, two's complement.
    #[inline]
    pub fn i16(&mut self) -> Option<i16> {
        self.array().map(i16::from_le_bytes)
    }

    /// Four bytes, two's complement.
    #[inline]
    pub fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_le_bytes)
    }

    /// Four bytes, IEEE 754; any of its values, also those that are not finite.
    #[inline]
    pub fn f32(&mut self) -> Option<f32> {
        self.array().map(f32::from_le_bytes)
    }

    /// A byte that must be 0 or 1; another one fails the reader (Aegis 1.4).
    #[inline]
    pub fn bool(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => self.fail(),
        }
    }

    /// The next `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        match self.bytes.split_first_chunk() {
            Some((head, tail)) if !self.failed => {
                self.bytes = tail;
                Some(*head)
            }
            _ => self.fail(),
        }
    }

    /// The next `len` bytes. Nothing is read or allocated when there are fewer.
    #[inline]
    pub fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        match self.bytes.split_at_checked(len) {
            Some((head, tail)) if !self.failed => {
                self.bytes = tail;
                Some(head)
            }
            _ => self.fail(),
        }
    }

    /// What is left, without taking it; nothing after a failure.
    #[inline]
    pub const fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether every read succeeded and nothing is left.
    #[inline]
    pub const fn at_end(&self) -> bool {
        !self.failed && self.bytes.is_empty()
    }

    /// Whether a read failed.
    #[inline]
    pub const fn failed(&self) -> bool {
        self.failed
    }

    #[cold]
    fn fail<T>(&mut self) -> Option<T> {
        self.failed = true;
        self.bytes = &[];
        None
    }
}

impl<'a> Writer<'a> {
    /// A writer into `out`.
    #[inline]
    pub const fn new(out: &'a mut [u8]) -> Self {
        Self { out, len: 0, failed: false }
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self, value: u8) {
        self.bytes(&[value]);
    }

    /// Two bytes.
    #[inline]
    pub fn u16(&mut self, value: u16) {
        self.bytes(&value.to_le_bytes());
    }

    /// Four bytes.
    #[inline]
    pub fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    /// Eight bytes.
    #[inline]
    pub fn u64(&mut self, value: u64) {
        self.bytes(&value.to_le_bytes());
    }

    /// Two bytes, two's complement.
    #[inline]
    pub fn i16(&mut self, value: i16) {
        self.bytes(&value.to_le_bytes());
    }

    /// Four bytes, two's complement.
    #[inline]
    pub fn i32(&mut self, value: i32) {
        self.bytes(&value.to_le_bytes());
    }

    /// Four bytes, IEEE 754.
    #[inline]
    pub fn f32(&mut self, value: f32) {
        self.bytes(&value.to_le_bytes());
    }

    /// One byte, 0 or 1.
    #[inline]
    pub fn bool(&mut self, value: bool) {
        self.u8(u8::from(value));
    }

    /// `bytes` as they are; all of them or, when they do not fit, none.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        match self.out.get_mut(self.len..self.len + bytes.len()) {
            Some(room) if !self.failed => {
                room.copy_from_slice(bytes);
                self.len += bytes.len();
            }
            _ => self.failed = true,
        }
    }

    /// Bytes written so far, those before a failure included.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a length written, not a collection")]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether a write did not fit.
    #[inline]
    pub const fn failed(&self) -> bool {
        self.failed
    }

    /// The length written, or `None` when something did not fit.
    #[inline]
    pub const fn finish(self) -> Option<usize> {
        if self.failed { None } else { Some(self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_little_endian() {
        let mut buffer = [0; 64];
        let mut writer = Writer::new(&mut buffer);
        writer.u8(0xAB);
        writer.u16(0x1234);
        writer.u32(0xDEAD_BEEF);
        writer.u64(0x0123_4567_89AB_CDEF);
        writer.i16(-2);
        writer.i32(-3);
        writer.f32(1.5);
        writer.bool(true);
        writer.bytes(b"xyz");
        assert_eq!(writer.len(), 29);
        let len = writer.finish().unwrap();
        assert_eq!(buffer[..7], [0xAB, 0x34, 0x12, 0xEF, 0xBE, 0xAD, 0xDE]);

        let mut reader = Reader::new(&buffer[..len]);
        assert_eq!(reader.u8(), Some(0xAB));
        assert_eq!(reader.u16(), Some(0x1234));
        assert_eq!(reader.u32(), Some(0xDEAD_BEEF));
        assert_eq!(reader.u64(), Some(0x0123_4567_89AB_CDEF));
        assert_eq!(reader.i16(), Some(-2));
        assert_eq!(reader.i32(), Some(-3));
        assert_eq!(reader.f32(), Some(1.5));
        assert_eq!(reader.bool(), Some(true));
        assert!(!reader.at_end());
        assert_eq!(reader.rest(), b"xyz");
        assert_eq!(reader.bytes(3), Some(&b"xyz"[..]));
        assert!(reader.at_end());
    }

    #[test]
    fn the_first_failed_read_fails_all_later_ones() {
        let mut reader = Reader::new(&[1, 2, 3]);
        assert_eq!(reader.u32(), None);
        assert_eq!(reader.u8(), None, "three bytes are there, but the reader has failed");
        assert_eq!(reader.bytes(0), None);
        assert!(reader.failed() && !reader.at_end() && reader.rest().is_empty());
    }

    /// Aegis 1.4: a bool is 0 or 1.
    #[test]
    fn a_bool_of_two_fails() {
        for byte in 2..=255 {
            let bytes = [byte, 0];
            let mut reader = Reader::new(&bytes);
            assert_eq!(reader.bool(), None);
            assert_eq!(reader.u8(), None);
        }
    }

    #[test]
    fn a_length_past_the_end_fails_without_reading() {
        let mut reader = Reader::new(&[0; 30]);
        assert_eq!(reader.bytes(60_000), None);
        assert_eq!(reader.bytes(usize::MAX), None);
    }

    #[test]
    fn the_first_failed_write_fails_all_later_ones() {
        let mut buffer = [0xEE; 3];
        let mut writer = Writer::new(&mut buffer);
        writer.u8(1);
        writer.u32(2);
        writer.u8(3);
        assert!(writer.failed());
        assert_eq!(writer.len(), 1);
        assert_eq!(writer.finish(), None);
        assert_eq!(buffer, [1, 0xEE, 0xEE]);
    }
}
