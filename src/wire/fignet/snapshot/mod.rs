//! Snapshot messages (docs/protocol/fignet-sync.md, section 3): a head, then a record for each object that is not what the
//! receiver expects.
//!
//! Everything here is about *plain* messages. How the records may be coded further is said by the head
//! ([`Coder`]), and undone before [`decode`].

mod decode;
mod encode;
mod table;

pub use decode::decode;
pub use encode::{
    changed_bytes, put_changed, put_head, put_player_left, put_removed, put_standing, put_whole, set_coder,
    standing_bytes, whole_bytes,
};
pub use table::Table;

use crate::model::{Entity, UNITS_PER_PIXEL};
use crate::wire::cursor::Reader;

/// Most bytes of a plain message, and of a coded one.
pub const MESSAGE_BYTES_MAX: usize = 1100;

/// Oldest baseline that a message can name, in ticks.
pub const BASELINE_AGE_MAX: u32 = 255;

/// Bytes of a head without a baseline's age.
pub const HEAD_BYTES_MIN: usize = 2 + 8 + 2 + 1;

/// Bytes of a head with a baseline's age.
pub const HEAD_BYTES_MAX: usize = HEAD_BYTES_MIN + 1;

/// Bytes of a record without fields.
pub const RECORD_BYTES_MIN: usize = 4 + 1 + 1;

/// Smallest position that has a code, in 1/64 pixel.
pub const POSITION_MIN: i32 = -1024 * UNITS_PER_PIXEL;

/// Largest position that has a code: 4096 pixels further.
pub const POSITION_MAX: i32 = POSITION_MIN + (1 << POSITION_BITS) - 1;

const POSITION_BITS: u32 = 18;

/// Where the flags are in a head.
const FLAGS_AT: usize = HEAD_BYTES_MIN - 1;

const CODER_MASK: u8 = 0b11;
const DELTA: u8 = 1 << 2;
const COARSE: u8 = 1 << 3;
const FLAGS_RESERVED: u8 = !(CODER_MASK | DELTA | COARSE);

/// Type of a record that says that nothing lives at the index any more.
const TYPE_REMOVED: u8 = 0;
/// Type of a record of a player's standing. All below it are entities' kinds.
const TYPE_STANDING: u8 = 0x80;

// The changed fields of an entity.
const X: u8 = 1;
const Y: u8 = 1 << 1;
const VX: u8 = 1 << 2;
const VY: u8 = 1 << 3;
const HEALTH: u8 = 1 << 4;
const LOOK: u8 = 1 << 5;
/// The positions are offsets from the expected ones.
const NEAR: u8 = 1 << 6;
/// Not changes of what the receiver has: fields that are not there have their defaults.
const WHOLE: u8 = 1 << 7;

// The changed fields of a player's standing, which has WHOLE as well.
const LIVES: u8 = 1;
const SCORE: u8 = 1 << 1;
/// Bit of the lives byte.
const ALIVE: u8 = 1 << 7;

/// Owner of an entity that is nobody's.
const OWNER_NOBODY: u8 = 7;

/// How the records are coded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Coder {
    /// As they are.
    Plain = 0,
    /// Runs of zeros shortened ([`crate::wire::fignet::runs`]).
    Runs = 1,
    /// A fixed Huffman code ([`crate::wire::fignet::huffman`]).
    Huffman = 2,
    /// One LZ4 block after the size of the original ([`crate::lz4`]).
    Lz4 = 3,
}

/// How finely positions are told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Precision {
    /// To the world's unit, 1/64 pixel, in three bytes.
    Exact,
    /// To 1/16 pixel, in two bytes.
    Coarse,
}

/// What a snapshot message begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// Low half of the server's tick whose state it is.
    pub sequence: u16,
    /// The server's time at that tick, in µs.
    pub timestamp_us: u64,
    /// How many records there are.
    pub count: u16,
    /// How they are coded.
    pub coder: Coder,
    /// How finely positions are told.
    pub precision: Precision,
    /// How many ticks before `sequence` the baseline is, at least 1; `None` for a full snapshot.
    pub baseline_age: Option<u8>,
}

/// Why a plain snapshot message is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SnapshotError {
    /// Ends within a head or a record.
    Truncated,
    /// Bytes after the last record.
    Trailing,
    /// A flag that has no meaning.
    Flags,
    /// A baseline that is the snapshot itself.
    BaselineAge,
    /// A delta whose baseline is not here.
    MissingBaseline,
    /// Records that are still coded.
    Coded,
    /// Records out of order, an index out of range, or a removed one with a generation.
    Id,
    /// A type without a meaning.
    Type,
    /// Changed fields that cannot be, or that say nothing.
    Fields,
    /// A change, or the end, of what the baseline does not have.
    Unknown,
    /// A position without a code.
    Position,
    /// A velocity beyond 12 bits.
    Velocity,
    /// An owner that is neither a player nor nobody.
    Owner,
    /// A standing with lives beyond 15.
    Lives,
    /// More entities than the table has room for.
    TooManyEntities,
}

impl Head {
    /// The head that `message` begins with.
    pub fn parse(message: &[u8]) -> Result<Self, SnapshotError> {
        Self::read(&mut Reader::new(message)).ok_or(SnapshotError::Truncated)?
    }

    /// How many bytes it takes.
    pub const fn byte_len(&self) -> usize {
        HEAD_BYTES_MIN + self.baseline_age.is_some() as usize
    }

    /// The sequence of the baseline; `None` for a full snapshot.
    pub fn baseline(&self) -> Option<u16> {
        self.baseline_age.map(|age| self.sequence.wrapping_sub(age.into()))
    }

    fn read(reader: &mut Reader<'_>) -> Option<Result<Self, SnapshotError>> {
        let (sequence, timestamp_us, count) = (reader.u16()?, reader.u64()?, reader.u16()?);
        let flags = reader.u8()?;
        if flags & FLAGS_RESERVED != 0 {
            return Some(Err(SnapshotError::Flags));
        }
        let baseline_age = if flags & DELTA != 0 { Some(reader.u8()?) } else { None };
        if baseline_age == Some(0) {
            return Some(Err(SnapshotError::BaselineAge));
        }
        let coder = match flags & CODER_MASK {
            0 => Coder::Plain,
            1 => Coder::Runs,
            2 => Coder::Huffman,
            _ => Coder::Lz4,
        };
        let precision = if flags & COARSE != 0 { Precision::Coarse } else { Precision::Exact };
        Some(Ok(Self { sequence, timestamp_us, count, coder, precision, baseline_age }))
    }

    const fn flags(&self) -> u8 {
        let delta = if self.baseline_age.is_some() { DELTA } else { 0 };
        let coarse = match self.precision {
            Precision::Exact => 0,
            Precision::Coarse => COARSE,
        };
        self.coder as u8 | delta | coarse
    }
}

impl Precision {
    /// `entity` as a receiver holds it that was told of it.
    #[inline]
    pub fn told(self, entity: &Entity) -> Entity {
        let mut told = *entity;
        told.x = self.position(self.code(entity.x));
        told.y = self.position(self.code(entity.y));
        told
    }

    /// What a receiver who was told `entity`, `age` ticks ago, expects it to be now: straight flight, to the precision.
    #[inline]
    pub fn expected(self, entity: &Entity, age: u32) -> Entity {
        self.told(&self.told(entity).predicted(age))
    }

    /// Bytes of a position.
    const fn position_bytes(self) -> usize {
        match self {
            Self::Exact => 3,
            Self::Coarse => 2,
        }
    }

    /// The code nearest to `position`.
    #[inline]
    const fn code(self, position: i32) -> u32 {
        let offset = position.saturating_sub(POSITION_MIN);
        let code = (offset.saturating_add(self.half()) >> self.shift()) as i64;
        let last = ((1i64 << POSITION_BITS) - 1) >> self.shift();
        (if code < 0 {
            0
        } else if code > last {
            last
        } else {
            code
        }) as u32
    }

    #[inline]
    const fn position(self, code: u32) -> i32 {
        POSITION_MIN + ((code << self.shift()) as i32)
    }

    const fn code_max(self) -> u32 {
        ((1 << POSITION_BITS) - 1) >> self.shift()
    }

    const fn shift(self) -> u32 {
        match self {
            Self::Exact => 0,
            Self::Coarse => 2,
        }
    }

    const fn half(self) -> i32 {
        match self {
            Self::Exact => 0,
            Self::Coarse => 2,
        }
    }
}

/// An entity of which nothing but generation and kind was told.
const fn default_entity(like: &Entity) -> Entity {
    let mut entity = Entity::new(like.kind);
    entity.generation = like.generation;
    entity.x = POSITION_MIN;
    entity.y = POSITION_MIN;
    entity
}

#[cfg(test)]
mod tests;
