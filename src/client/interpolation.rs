//! Smooth motion out of FigNet's snapshots (docs/protocol/fignet-sync.md, section 5): a buffer that holds a few of them back, and
//! shows the room between two that have arrived.
//!
//! Rendering lags the server by three send intervals and a jitter buffer ([`Playout`]). Positions run along cubic
//! Hermite curves through the snapshots' positions and velocities. Fixed memory; `f32`, since nothing here goes back into
//! the game.

mod playout;

pub use playout::{DELAY_MAX, DELAY_MIN, Playout};

use crate::model::{Entity, EntityId, Kind, UNITS_PER_PIXEL};
use crate::time::{Duration, Instant};
use crate::wire::fignet::snapshot::Table;

/// Most snapshots that wait to be reached, beside the one that was reached last.
pub const AHEAD_MAX: usize = 4;

/// The one reached last, and those ahead.
const SLOTS: usize = 1 + AHEAD_MAX;

/// How far entities fly on beyond the newest snapshot, before they stand still.
pub const EXTRAPOLATION_MAX: Duration = Duration::from_millis(100);

/// A move that is longer than this, and than flight explains, is a jump: nothing is shown between. In pixels.
const JUMP_PIXELS: f32 = 96.0;

/// Where and what an entity is at the time shown.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pose {
    /// Which one.
    pub id: EntityId,
    /// Its state at the snapshot before: all but position and velocity is to be taken from here.
    pub entity: Entity,
    /// Position in pixels.
    pub x: f32,
    /// Position in pixels, growing downwards.
    pub y: f32,
}

/// What became of a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pushed {
    /// It will be shown.
    Taken,
    /// It came too soon after the one before to be needed.
    Skipped,
    /// It is older than what is there.
    Late,
}

/// The interpolation buffer of one connection.
#[derive(Debug)]
pub struct Interpolation {
    playout: Playout,
    /// In rising order of their times; the first `len` count.
    held: [Held; SLOTS],
    len: usize,
    /// From units per tick to pixels per second.
    pixels_per_second: f32,
}

#[derive(Debug)]
struct Held {
    timestamp_us: u64,
    len: usize,
    entities: Box<[(EntityId, Entity)]>,
}

impl Interpolation {
    /// An empty buffer for rooms of `entities_max` entities in a world of `tick_rate_hz`, with a first guess of the time
    /// between snapshots.
    ///
    /// # Panics
    /// When `tick_rate_hz` is 0.
    pub fn new(entities_max: usize, tick_rate_hz: u32, interval: Duration) -> Self {
        assert!(tick_rate_hz > 0, "a world without ticks");
        let filler = (EntityId(0), Entity::new(Kind(0)));
        Self {
            playout: Playout::new(interval),
            held: std::array::from_fn(|_| Held {
                timestamp_us: 0,
                len: 0,
                entities: vec![filler; entities_max].into_boxed_slice(),
            }),
            len: 0,
            pixels_per_second: tick_rate_hz as f32 / UNITS_PER_PIXEL as f32,
        }
    }

    /// Takes in a decoded snapshot that arrived at `arrival`.
    ///
    /// # Panics
    /// When it has more entities than the buffer was made for.
    pub fn push(&mut self, arrival: Instant, snapshot: &Table) -> Pushed {
        let timestamp_us = snapshot.timestamp_us();
        if self.playout.arrived(arrival, timestamp_us) {
            // The server's clock is another one: what is held means nothing any more.
            self.len = 0;
        }
        let newest = self.held[..self.len].last().map(|held| held.timestamp_us);
        if newest.is_some_and(|newest| timestamp_us <= newest) {
            return Pushed::Late;
        }
        if newest.is_some_and(|newest| timestamp_us - newest < self.spacing_us()) {
            return Pushed::Skipped;
        }
        self.forget_passed();
        if self.len == SLOTS {
            // All are still needed but the newest, which this one stands for.
            self.len -= 1;
        }
        let slot = &mut self.held[self.len];
        slot.timestamp_us = timestamp_us;
        slot.len = snapshot.len();
        assert!(slot.len <= slot.entities.len(), "a snapshot larger than the buffer");
        slot.entities
            .iter_mut()
            .zip(snapshot.iter())
            .for_each(|(place, (id, entity))| *place = (id, *entity));
        self.len += 1;
        Pushed::Taken
    }

    /// Moves the time shown to what it is at `now`: never back.
    pub fn advance(&mut self, now: Instant) {
        self.playout.advance(now);
        self.forget_passed();
    }

    /// Everyone at the time shown, in rising index order; nobody before the first snapshot's time.
    pub fn poses(&self) -> impl Iterator<Item = Pose> {
        let time_us = self.playout.shown_us();
        let held = &self.held[..self.len];
        let reached = held.iter().rposition(|held| held.timestamp_us as i64 <= time_us);
        let from = reached.map(|at| &held[at]);
        let to = reached.and_then(|at| held.get(at + 1));
        let left = to.map_or(&[][..], Held::entities);
        let mut next = left;
        from.map_or(&[][..], Held::entities).iter().map(move |&(id, entity)| {
            while next.first().is_some_and(|(other, _)| other.index() < id.index()) {
                next = &next[1..];
            }
            let target = next.first().filter(|(other, _)| *other == id).map(|(_, entity)| entity);
            let from_us = from.map_or(0, |held| held.timestamp_us);
            let passed_us = time_us.saturating_sub(from_us as i64).max(0);
            let (x, y) = match (to, target) {
                (Some(to), Some(target)) => {
                    let span_us = (to.timestamp_us - from_us) as f32;
                    self.between(&entity, target, span_us / 1e6, passed_us as f32 / span_us)
                }
                // It will be gone, and flies on until then.
                (Some(_), None) => self.straight(&entity, passed_us as f32 / 1e6),
                (None, _) => {
                    let most = EXTRAPOLATION_MAX.as_micros() as i64;
                    self.straight(&entity, passed_us.min(most) as f32 / 1e6)
                }
            };
            Pose { id, entity, x, y }
        })
    }

    /// The clock of what is shown.
    pub const fn playout(&self) -> &Playout {
        &self.playout
    }

    /// How many snapshots are held.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether none is held.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Snapshots closer than this would fill the buffer before the delay is over.
    fn spacing_us(&self) -> u64 {
        const ROUNDING_US: u64 = 1000;
        self.playout.delay().as_micros() / AHEAD_MAX as u64 - ROUNDING_US
    }

    /// Drops what lies before the snapshot that was reached last.
    fn forget_passed(&mut self) {
        let time_us = self.playout.shown_us();
        let is_reached = |held: &Held| held.timestamp_us as i64 <= time_us;
        let Some(reached) = self.held[..self.len].iter().rposition(is_reached) else { return };
        self.held[..self.len].rotate_left(reached);
        self.len -= reached;
    }

    /// Where an entity is that was at `a`, and will be at `b` after `span_s` seconds, when the `part` of them is over.
    fn between(&self, a: &Entity, b: &Entity, span_s: f32, part: f32) -> (f32, f32) {
        let axis = |p0: i32, p1: i32, v0: i16, v1: i16| {
            let (p0, p1) = (pixels(p0), pixels(p1));
            let (m0, m1) = (self.speed(v0) * span_s, self.speed(v1) * span_s);
            (p0, p1, m0, m1)
        };
        let (x, y) = (axis(a.x, b.x, a.vx, b.vx), axis(a.y, b.y, a.vy, b.vy));
        let is_jump =
            |(p0, p1, m0, m1): (f32, f32, f32, f32)| (p1 - p0).abs() > JUMP_PIXELS + m0.abs() + m1.abs();
        if is_jump(x) || is_jump(y) {
            return self.straight(a, span_s * part);
        }
        (hermite(x, part), hermite(y, part))
    }

    fn straight(&self, entity: &Entity, seconds: f32) -> (f32, f32) {
        (
            pixels(entity.x) + self.speed(entity.vx) * seconds,
            pixels(entity.y) + self.speed(entity.vy) * seconds,
        )
    }

    fn speed(&self, velocity: i16) -> f32 {
        f32::from(velocity) * self.pixels_per_second
    }
}

impl Held {
    fn entities(&self) -> &[(EntityId, Entity)] {
        &self.entities[..self.len]
    }
}

fn pixels(units: i32) -> f32 {
    units as f32 / UNITS_PER_PIXEL as f32
}

/// The cubic from `p0` with slope `m0` to `p1` with slope `m1`, at `s` between 0 and 1.
fn hermite((p0, p1, m0, m1): (f32, f32, f32, f32), s: f32) -> f32 {
    let (s2, s3) = (s * s, s * s * s);
    let travelled = (p1 - p0) * (3.0 * s2 - 2.0 * s3);
    p0 + travelled + m0 * (s3 - 2.0 * s2 + s) + m1 * (s3 - s2)
}

#[cfg(test)]
mod tests;
