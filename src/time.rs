//! Instants, durations and ticks as plain integers. This layer never reads a clock: an [`Instant`] comes from
//! whoever drives the core (`io::clock` on a real machine, the simulator in tests).
//!
//! All arithmetic saturates: a receive time later than "now", or an early instant minus a long duration, gives the
//! nearest representable value, never a panic or a wrapped one.

use std::fmt;
use std::ops::{Add, Sub};

/// A point in monotonic time: nanoseconds since an origin that the driver chose.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

/// A span of time in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration(u64);

/// The number of a simulation step. It wraps after 2³² steps (2.2 years at 60 Hz).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Tick(pub u32);

impl Instant {
    /// The origin.
    pub const ZERO: Self = Self(0);
    /// Later than every deadline.
    pub const MAX: Self = Self(u64::MAX);

    /// The instant `ns` nanoseconds after the origin.
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }

    /// The instant `ms` milliseconds after the origin.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to `self`; zero when `earlier` is the later one.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Duration {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// `s` seconds.
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(1_000_000_000))
    }

    /// `ms` milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }

    /// `us` microseconds.
    pub const fn from_micros(us: u64) -> Self {
        Self(us.saturating_mul(1_000))
    }

    /// `ns` nanoseconds.
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }

    /// Whole nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole microseconds, rounded down.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Whole milliseconds, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// `self` × `factor`, saturating.
    pub const fn times(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }

    /// `self` ÷ `divisor`, rounded down.
    ///
    /// # Panics
    /// When `divisor` is 0.
    pub const fn per(self, divisor: u64) -> Self {
        Self(self.0 / divisor)
    }
}

impl Tick {
    /// The tick `steps` later, wrapping.
    pub const fn plus(self, steps: u32) -> Self {
        Self(self.0.wrapping_add(steps))
    }

    /// Steps from `earlier` to `self`, wrapping: meaningful when they are less than 2³¹ apart.
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

impl Add for Duration {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Duration {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}s", self.0 / 1_000_000_000, self.0 / 1_000 % 1_000_000)
    }
}

impl fmt::Debug for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}ms", self.0 / 1_000_000, self.0 / 1_000 % 1_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A receive time later than now, and an early instant minus a duration, saturate (field case 64).
    #[test]
    fn case_64_saturates() {
        let early = Instant::from_nanos(5);
        assert_eq!(early.since(Instant::from_nanos(9)), Duration::ZERO);
        assert_eq!(early - Duration::from_secs(1), Instant::ZERO);
        assert_eq!(Instant::MAX + Duration::from_secs(1), Instant::MAX);
        assert_eq!(Duration::from_secs(u64::MAX).as_nanos(), u64::MAX);
    }

    #[test]
    fn ticks_wrap() {
        assert_eq!(Tick(u32::MAX).plus(3), Tick(2));
        assert_eq!(Tick(2).since(Tick(u32::MAX)), 3);
    }
}
