//! The vocabulary that the world, the wire and the snapshots share: entities, players, controls, events. Plain values
//! without behaviour of their own, in the world's integer units:
//!
//! - positions in 1/64 pixel, origin top left, y down, 20 bits signed ([`POSITION_MIN`] to [`POSITION_MAX`]);
//! - velocities in 1/64 pixel per tick, 12 bits signed ([`VELOCITY_MIN`] to [`VELOCITY_MAX`]).

pub mod entity;
pub mod event;
pub mod player;

pub use entity::{Entity, EntityId, EntityTable, Kind};
pub use event::{DestroyReason, GameEvent, LeaveReason, Score, Scores};
pub use player::{Controls, Name, NameError, PlayerId, PlayerInput, PlayerState};

/// Players in a room.
pub const PLAYERS_MAX: usize = 4;

/// Sub-pixel units in a pixel.
pub const UNITS_PER_PIXEL: i32 = 64;

/// Smallest position.
pub const POSITION_MIN: i32 = -(1 << 19);
/// Largest position.
pub const POSITION_MAX: i32 = (1 << 19) - 1;
/// Smallest velocity.
pub const VELOCITY_MIN: i16 = -(1 << 11);
/// Largest velocity.
pub const VELOCITY_MAX: i16 = (1 << 11) - 1;

/// Entity indices are below this (24 bits), and index 0 is never used.
pub const ENTITY_INDEX_MAX: u32 = (1 << 24) - 1;
