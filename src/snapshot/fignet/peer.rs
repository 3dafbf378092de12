//! One peer's knowledge of its room.

use super::area::Area;
use crate::snapshot::{View, frames_for};
use crate::time::Tick;

/// What a peer is known to hold: which snapshots it was sent, what is stale in each, and what part of the room they
/// were of. Fixed memory: slots for the ticks up to [`BASELINE_AGE_MAX`](crate::snapshot::BASELINE_AGE_MAX) old.
#[derive(Debug)]
pub struct PeerView {
    pub(super) view: View,
    areas: Box<[Area]>,
    interval: u32,
}

impl PeerView {
    /// A peer that has nothing, in a room of `entities_max` entities whose history has a frame every `interval` ticks.
    /// Snapshots may be sent at any of these.
    pub fn new(entities_max: usize, interval: u32) -> Self {
        let areas = vec![Area::EVERYTHING; frames_for(interval)].into_boxed_slice();
        Self { view: View::new(entities_max, interval), areas, interval }
    }

    /// Back to a peer that has nothing.
    pub fn reset(&mut self) {
        self.view.reset();
    }

    /// The peer acknowledged the packet with the snapshot of `tick`.
    pub fn acknowledged(&mut self, tick: Tick) {
        self.view.acknowledged(tick);
    }

    /// Records that the peer was sent all of `area` at `tick`, as [`Encoder::encode`](super::Encoder::encode) does when
    /// everything fits: for a message made for another peer ([`Shared`](super::Shared)).
    pub fn sent_exact(&mut self, tick: Tick, area: Area) {
        self.set_area(tick, area);
        self.view.sent_exact(tick);
    }

    /// Whether the snapshot of `tick`, one that was sent, said everything.
    pub fn is_exact(&self, tick: Tick) -> bool {
        self.view.stale(tick).is_none()
    }

    /// The newest snapshot that the peer acknowledged.
    pub fn baseline(&self) -> Option<Tick> {
        self.view.baseline()
    }

    /// The part of the room that the snapshot of `tick` was of.
    pub(super) fn area(&self, tick: Tick) -> Area {
        self.areas[self.slot(tick)]
    }

    pub(super) fn set_area(&mut self, tick: Tick, area: Area) {
        self.areas[self.slot(tick)] = area;
    }

    fn slot(&self, tick: Tick) -> usize {
        (tick.0 / self.interval) as usize % self.areas.len()
    }
}
