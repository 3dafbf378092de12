//! What clients know of a room, and the fewest bits that tell them what changed.
//!
//! A room keeps its entity table at the ticks it sent ([`History`]); a client's acknowledgements say which of those it
//! has ([`View`]); the [`Encoder`] writes the difference. Implements Aegis 4.3 and 4.8; [`fignet`] does the same for FigNet.

mod budget;
mod encoder;
pub mod fignet;
mod history;
#[cfg(test)]
mod tests;
mod view;

pub use encoder::{Encoder, EncoderStats, Request};
pub use history::{Frame, History};
pub use view::View;

/// Oldest baseline that a snapshot may refer to, in ticks.
pub const BASELINE_AGE_MAX: u32 = 64;

/// How many snapshots are remembered at one every `interval` ticks: those up to [`BASELINE_AGE_MAX`] old, and the
/// newest.
pub const fn frames_for(interval: u32) -> usize {
    (BASELINE_AGE_MAX / interval) as usize + 1
}
