//! When ticks are due: at a fixed rate from an anchor, so that rounding never adds up.

use crate::limits::TICK_RATE_HZ;
use crate::time::Instant;

/// The tick clock. It stands still while nobody is there.
#[derive(Clone, Copy, Debug)]
pub struct TickClock {
    anchor: Option<Instant>,
    /// Ticks since the anchor.
    count: u64,
}

impl TickClock {
    /// A clock at rest.
    pub const fn stopped() -> Self {
        Self { anchor: None, count: 0 }
    }

    /// Starts ticking: the first tick is due one interval after `now`. Nothing happens when it runs already.
    pub fn start(&mut self, now: Instant) {
        if self.anchor.is_none() {
            *self = Self { anchor: Some(now), count: 0 };
        }
    }

    /// Stops.
    pub fn stop(&mut self) {
        *self = Self::stopped();
    }

    /// When the next tick is due.
    pub fn next(&self) -> Option<Instant> {
        self.anchor.map(|anchor| after(anchor, self.count + 1))
    }

    /// Takes one tick due at `now`, and returns when it was due.
    pub fn take(&mut self, now: Instant) -> Option<Instant> {
        let due = self.next().filter(|&due| due <= now)?;
        self.count += 1;
        Some(due)
    }

    /// Drops every tick due at `now`, and returns how many.
    pub fn drop_due(&mut self, now: Instant) -> u64 {
        let Some(anchor) = self.anchor else { return 0 };
        let elapsed = u128::from(now.since(anchor).as_nanos()) * u128::from(TICK_RATE_HZ) / 1_000_000_000;
        let dropped = (elapsed as u64).saturating_sub(self.count);
        self.count += dropped;
        dropped
    }
}

fn after(anchor: Instant, ticks: u64) -> Instant {
    let ns = (u128::from(ticks) * 1_000_000_000).div_ceil(u128::from(TICK_RATE_HZ));
    anchor + crate::time::Duration::from_nanos(ns as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixty_ticks_are_a_second_however_long_it_runs() {
        let mut clock = TickClock::stopped();
        assert_eq!(clock.next(), None);
        clock.start(Instant::from_millis(500));
        let mut last = None;
        for _ in 0..60 * 1000 {
            last = clock.take(Instant::MAX);
        }
        assert_eq!(last, Some(Instant::from_millis(1_000_500)));
        clock.start(Instant::MAX);
        assert!(clock.next() < Some(Instant::from_millis(1_000_517)));
    }

    #[test]
    fn drops_exactly_what_is_due() {
        let mut clock = TickClock::stopped();
        clock.start(Instant::ZERO);
        assert_eq!(clock.take(Instant::from_millis(16)), None);
        assert!(clock.take(Instant::from_millis(17)).is_some());
        assert_eq!(clock.drop_due(Instant::from_millis(1000)), 59);
        assert_eq!(
            (clock.take(Instant::from_millis(1000)), clock.drop_due(Instant::from_millis(1000))),
            (None, 0)
        );
        assert!(clock.take(Instant::from_millis(1017)).is_some());
    }
}
