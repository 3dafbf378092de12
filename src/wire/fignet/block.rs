//! Parts of a large block (section 7): each message of the channel of blocks is one, in order.

use crate::wire::cursor::{Reader, Writer};

/// Bytes of a part before its data.
pub const BLOCK_HEADER_BYTES: usize = 10;

/// Largest block: 16 MiB.
pub const BLOCK_BYTES_MAX: u32 = 16 << 20;

/// What a block is: the same in each of its parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockHeader {
    /// Its number.
    pub id: u32,
    /// Its size in bytes, 1 to [`BLOCK_BYTES_MAX`].
    pub size: u32,
    /// What it is to the application.
    pub kind: u8,
    /// How the application compressed it; 0: not at all.
    pub compression: u8,
}

impl BlockHeader {
    /// Reads a part: its header and its data, at least one byte. `None` for a malformed one.
    pub fn parse(message: &[u8]) -> Option<(Self, &[u8])> {
        let mut reader = Reader::new(message);
        let header =
            Self { id: reader.u32()?, size: reader.u32()?, kind: reader.u8()?, compression: reader.u8()? };
        let data = reader.rest();
        let fits =
            (1..=BLOCK_BYTES_MAX).contains(&header.size) && data.len() as u64 <= u64::from(header.size);
        (fits && !data.is_empty()).then_some((header, data))
    }

    /// Writes the header; the data is to follow.
    pub fn emit(&self, writer: &mut Writer<'_>) {
        writer.u32(self.id);
        writer.u32(self.size);
        writer.u8(self.kind);
        writer.u8(self.compression);
    }
}
