//! State synchronisation over FigNet (docs/protocol/fignet-sync.md, section 3): the rooms' [`History`](super::History) as each
//! peer needs to hear it.
//!
//! A peer is told what lives within its [`Area`], as differences to the last snapshot that it acknowledged. What does not
//! fit a message is remembered as stale and told later, the most important first, so that a peer that acknowledges
//! anything at all ends up with everything.

mod area;
mod encoder;
mod peer;
mod rate;
mod shared;
#[cfg(test)]
mod tests;

pub use area::{Area, MARGIN_PIXELS};
pub use encoder::{Encoder, ROOM_BYTES_MIN, Request};
pub use peer::PeerView;
pub use rate::{Measured, RATE_MAX_HZ, RATE_MIN_HZ, SnapshotRate};
pub use shared::{Scope, Shared};

use crate::wire::fignet::snapshot::Precision;

/// What pays: straight flight stays predictable to the unit only when positions are exact (`docs/performance.md`).
pub const DEFAULT_PRECISION: Precision = Precision::Exact;
