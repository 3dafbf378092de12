//! Little-endian reading and writing within a slice. The first access past the end fails, and so does every later one:
//! a parser reads all its fields and asks once.

/// Reads from a slice.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    is_sound: bool,
}

/// A read went past the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PastEnd;

impl<'a> Reader<'a> {
    /// Reads `bytes` from their beginning.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, is_sound: true }
    }

    /// The next `len` bytes; none once a read failed.
    pub fn bytes(&mut self, len: usize) -> &'a [u8] {
        match self.rest.split_at_checked(len) {
            Some((taken, rest)) if self.is_sound => {
                self.rest = rest;
                taken
            }
            _ => {
                self.is_sound = false;
                &[]
            }
        }
    }

    /// The next byte; 0 once a read failed.
    pub fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.array())
    }

    /// The next two bytes; 0 once a read failed.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    /// The next four bytes; 0 once a read failed.
    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    /// The next four bytes as IEEE 754; 0 once a read failed.
    pub fn f32(&mut self) -> f32 {
        f32::from_le_bytes(self.array())
    }

    /// A string: its length in two bytes, then its bytes. Empty once a read failed.
    pub fn string(&mut self) -> &'a [u8] {
        let len = self.u16();
        self.bytes(usize::from(len))
    }

    /// What was not read yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether every read was within the bytes and nothing is left.
    pub const fn is_finished(&self) -> bool {
        self.is_sound && self.rest.is_empty()
    }

    /// Whether every read so far was within the bytes.
    pub const fn check(&self) -> Result<(), PastEnd> {
        if self.is_sound { Ok(()) } else { Err(PastEnd) }
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        self.bytes(N).try_into().unwrap_or([0; N])
    }
}

/// Writes into a slice.
#[derive(Debug)]
pub struct Writer<'a> {
    buffer: &'a mut [u8],
    len: usize,
    is_sound: bool,
}

impl<'a> Writer<'a> {
    /// Writes into `buffer` from its beginning.
    pub const fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, len: 0, is_sound: true }
    }

    /// Appends bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        match self.buffer.get_mut(self.len..end) {
            Some(place) if self.is_sound => {
                place.copy_from_slice(bytes);
                self.len = end;
            }
            _ => self.is_sound = false,
        }
    }

    /// Appends a byte.
    pub fn u8(&mut self, value: u8) {
        self.bytes(&[value]);
    }

    /// Appends two bytes.
    pub fn u16(&mut self, value: u16) {
        self.bytes(&value.to_le_bytes());
    }

    /// Appends four bytes.
    pub fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    /// Appends four bytes of IEEE 754.
    pub fn f32(&mut self, value: f32) {
        self.bytes(&value.to_le_bytes());
    }

    /// How many bytes were written, if all of them fitted.
    pub const fn finish(self) -> Option<usize> {
        if self.is_sound { Some(self.len) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_fails_all_later_reads() {
        let mut reader = Reader::new(&[1, 2, 3]);
        assert_eq!(reader.u16(), 0x0201);
        assert_eq!(reader.u32(), 0);
        assert_eq!(reader.u8(), 0, "a byte is left, but it is not given any more");
        assert_eq!(reader.check(), Err(PastEnd));
        assert!(!reader.is_finished());
    }

    #[test]
    fn a_string_longer_than_the_rest_fails() {
        let mut reader = Reader::new(&[0x60, 0xEA, b'x']);
        assert_eq!(reader.string(), b"");
        assert_eq!(reader.check(), Err(PastEnd));
    }

    #[test]
    fn a_full_buffer_fails_for_good() {
        let mut buffer = [0; 3];
        let mut writer = Writer::new(&mut buffer);
        writer.u16(0x0201);
        writer.u16(7);
        writer.u8(3);
        assert_eq!(writer.finish(), None);
        let mut writer = Writer::new(&mut buffer);
        writer.u16(0x0201);
        writer.u8(3);
        assert_eq!((writer.finish(), buffer), (Some(3), [1, 2, 3]));
    }
}
