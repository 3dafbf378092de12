//! The world: the [`Game`] trait that every room plays through, and the R-Type game that ships.

pub mod game;
pub mod rtype;

pub use game::{EVENTS_PER_STEP_MAX, Events, Game};
