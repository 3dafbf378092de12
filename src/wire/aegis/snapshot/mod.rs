//! Snapshots (Aegis 4.3): the state of the world as one bit stream, whole or against a baseline.
//!
//! A client decodes into a [`Table`] ([`decode`]); who sends writes the parts of the stream one after the other:
//! [`put_prefix`], [`put_baseline`], [`put_players`], [`put_record_count`], then the records in rising index order
//! ([`put_added`], [`put_updated`], [`put_removed`]). The prefix is the only part that differs between clients with the
//! same baseline, and it ends at a byte boundary: what follows may be encoded once and copied.
//!
//! A position that fits both the narrow and the wide form is always written narrow, and read in either form; every other
//! value has exactly one encoding.

mod decode;
mod encode;
mod table;

pub use decode::{SnapshotHeader, decode};
pub use encode::{
    added_bits, is_delta, put_added, put_baseline, put_players, put_prefix, put_record_count, put_removed,
    put_updated, removed_bits, updated_bits,
};
pub use table::Table;

use crate::wire::bits::BitError;

/// Bytes of `tick` and `input`, in front of everything else.
pub const PREFIX_BYTES: usize = 6;

/// Why a snapshot is dropped, unacknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SnapshotError {
    /// A field or a record goes past the end.
    Truncated,
    /// Bytes, or padding bits other than 0, after the last record.
    Trailing,
    /// A varint longer than it must be, or of a value past 32 bits.
    Varint,
    /// A baseline age of 0, or above the tick.
    BaselineAge,
    /// More than four players.
    PlayerCount,
    /// A player above 3.
    Player,
    /// The same player twice.
    PlayerTwice,
    /// An entity index of 0, or past 24 bits.
    Index,
    /// A change of 3.
    Change,
    /// An updated record without fields.
    Fields,
    /// An owner of 4 to 6.
    Owner,
    /// A position that its offset moves out of the 20-bit range.
    Position,
    /// An updated or removed record in a full snapshot.
    DeltaInFull,
    /// A delta whose baseline was not given; not malformed (4.8).
    MissingBaseline,
    /// An updated or removed record of an index that the baseline does not have; not malformed (4.8).
    UnknownIndex,
    /// More entities than the table has room for; not malformed.
    TooManyEntities,
}

impl SnapshotError {
    /// Whether the bytes are wrong in themselves (6.3), whatever the receiver has.
    pub const fn is_malformed(self) -> bool {
        !matches!(self, Self::MissingBaseline | Self::UnknownIndex | Self::TooManyEntities)
    }
}

impl From<BitError> for SnapshotError {
    fn from(error: BitError) -> Self {
        match error {
            BitError::Truncated => Self::Truncated,
            BitError::Varint => Self::Varint,
            BitError::Trailing => Self::Trailing,
        }
    }
}

// A record's `change`.
const ADDED: u64 = 0;
const UPDATED: u64 = 1;
const REMOVED: u64 = 2;
const CHANGE_BITS: u32 = 2;

// Bits of an updated record's `fields`.
const POSITION: u64 = 1;
const VELOCITY: u64 = 2;
const HEALTH: u64 = 4;
const FIELDS_BITS: u32 = 3;

// Widths of an entity's fields.
const POSITION_BITS: u32 = 20;
const OFFSET_BITS: u32 = 8;
const VELOCITY_BITS: u32 = 12;
const HEALTH_BITS: u32 = 8;

/// Owner of what belongs to nobody.
const OWNER_NOBODY: u8 = 7;

#[cfg(test)]
mod tests;
