//! The one place that reads clocks.
//!
//! All times inside are `CLOCK_MONOTONIC` in nanoseconds: the timer descriptor takes the same numbers, and a wall
//! clock that jumps moves none of them. The wall clock is read for one purpose only: the kernel stamps received
//! datagrams with it.

use crate::io::sys;
use crate::time::{Duration, Instant};

/// `by` before `at`.
pub(super) fn earlier(at: Instant, by: Duration) -> Instant {
    Instant::from_nanos(at.as_nanos().saturating_sub(by.as_nanos()))
}

/// Reads the time. It never goes back.
#[derive(Clone, Copy, Default, Debug)]
pub struct Clock {
    /// Wall clock minus monotonic clock when last sampled, in nanoseconds.
    wall_offset_ns: i64,
}

impl Clock {
    /// A clock that knows the wall clock as it is now.
    pub fn new() -> Self {
        let mut clock = Self::default();
        clock.sample_wall();
        clock
    }

    /// Now. No system call on the usual machine (the vDSO answers).
    pub fn now(&self) -> Instant {
        Instant::from_nanos(sys::clock_ns(sys::MONOTONIC))
    }

    /// Seconds since 1970 by the wall clock, modulo 2³²: a number that no earlier start of a program had, unless that clock
    /// was set back.
    pub fn seconds_since_1970(&self) -> u32 {
        (sys::clock_ns(sys::REALTIME) / 1_000_000_000) as u32
    }

    /// Spins until `deadline` when that is at most `longest` ahead.
    pub(super) fn spin_until(&self, deadline: Option<Instant>, longest: Duration) {
        let Some(deadline) = deadline else { return };
        if longest == Duration::ZERO || self.now() + longest < deadline {
            return;
        }
        while self.now() < deadline {
            std::hint::spin_loop();
        }
    }

    /// Compares the wall clock with the monotonic one again; done before receive stamps are converted, so that a jump
    /// of the wall clock is soon over.
    pub fn sample_wall(&mut self) {
        let wall_ns = sys::clock_ns(sys::REALTIME);
        let monotonic_ns = sys::clock_ns(sys::MONOTONIC);
        self.wall_offset_ns = wall_ns.wrapping_sub(monotonic_ns) as i64;
    }

    /// The instant of a kernel's receive stamp (`wall_ns` nanoseconds since the epoch), held within
    /// `earliest..=latest`. Those bounds are what makes a jump of the wall clock harmless: a datagram cannot have come
    /// before its socket was last found empty, nor after now.
    pub fn received_at(&self, wall_ns: u64, earliest: Instant, latest: Instant) -> Instant {
        let monotonic_ns = (wall_ns as i64).saturating_sub(self.wall_offset_ns).max(0);
        // Not `clamp`: it would panic on swapped bounds, and no clock is worth that.
        Instant::from_nanos(monotonic_ns as u64).max(earliest).min(latest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn now_never_goes_back() {
        let clock = Clock::new();
        let mut last = clock.now();
        for _ in 0..1000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn a_stamp_becomes_its_instant() {
        let clock = Clock { wall_offset_ns: 1_700_000_000 * S as i64 };
        let at = clock.received_at(
            1_700_000_000 * S + 5 * S + 123,
            Instant::from_nanos(5 * S),
            Instant::from_nanos(6 * S),
        );
        assert_eq!(at, Instant::from_nanos(5 * S + 123));
    }

    /// A wall clock that jumps by 10 seconds or a day, either way, moves a receive time no further than between the
    /// last drain and now (field case 62).
    #[test]
    fn case_62_wall_clock_jumps_stay_within_the_drain() {
        let clock = Clock { wall_offset_ns: 1_700_000_000 * S as i64 };
        let (last_drain, now) = (Instant::from_nanos(100 * S), Instant::from_nanos(100 * S + 16_000_000));
        for jump_ns in [10 * S, 86_400 * S] {
            let late = clock.received_at(1_700_000_100 * S + jump_ns, last_drain, now);
            assert_eq!(late, now);
            let early = clock.received_at(1_700_000_100 * S - jump_ns, last_drain, now);
            assert_eq!(early, last_drain);
        }
        for absurd in [0, u64::MAX, i64::MAX as u64, i64::MIN as u64] {
            let at = clock.received_at(absurd, last_drain, now);
            assert!((last_drain..=now).contains(&at), "{at:?}");
        }
    }

    #[test]
    fn a_wall_clock_before_the_monotonic_one_is_survived() {
        let clock = Clock { wall_offset_ns: -50 };
        let at = clock.received_at(10, Instant::ZERO, Instant::from_nanos(100));
        assert_eq!(at, Instant::from_nanos(60));
    }
}
