//! Parts of a message that is larger than a packet (section 6).

use crate::wire::cursor::{Reader, Writer};

/// Bytes of a fragment before its data.
pub const FRAGMENT_HEADER_BYTES: usize = 8;

/// Bytes of a FRAGMENT_ACK.
pub const FRAGMENT_ACK_BYTES: usize = 10;

/// Most fragments of a message.
pub const FRAGMENTS_MAX: usize = 64;

/// A FRAGMENT: `total` is 2 to 64, `index` below it, and there is data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fragment<'a> {
    /// The message it is of.
    pub id: u16,
    /// Which part.
    pub index: u8,
    /// Of how many.
    pub total: u8,
    /// The part.
    pub data: &'a [u8],
}

/// A FRAGMENT_ACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FragmentAck {
    /// The message.
    pub id: u16,
    /// Bit n: part n arrived. 0: all of it was given up.
    pub received: u64,
}

impl<'a> Fragment<'a> {
    /// Reads a body; `None` for a malformed one.
    pub fn parse(payload: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(payload);
        let (id, index, total, size) = (reader.u16()?, reader.u16()?, reader.u16()?, reader.u16()?);
        let data = reader.rest();
        let fits = (2..=FRAGMENTS_MAX as u16).contains(&total) && index < total;
        let whole = size > 0 && usize::from(size) == data.len();
        (fits && whole).then_some(Self { id, index: index as u8, total: total as u8, data })
    }

    /// Writes what comes before the data: `size` bytes of it are to follow.
    pub fn emit_header(id: u16, index: u8, total: u8, size: u16, writer: &mut Writer<'_>) {
        writer.u16(id);
        writer.u16(u16::from(index));
        writer.u16(u16::from(total));
        writer.u16(size);
    }

    /// Whether it is the last part.
    pub const fn is_last(&self) -> bool {
        self.index + 1 == self.total
    }
}

impl FragmentAck {
    /// Reads a body; `None` for a malformed one.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(payload);
        let ack = Self { id: reader.u16()?, received: reader.u64()? };
        reader.at_end().then_some(ack)
    }

    /// Writes the body.
    pub fn emit(&self, writer: &mut Writer<'_>) {
        writer.u16(self.id);
        writer.u64(self.received);
    }
}
