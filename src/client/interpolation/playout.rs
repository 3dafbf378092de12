//! Which of the server's moments is shown when.

use crate::time::{Duration, Instant};

/// Least delay behind the server.
pub const DELAY_MIN: Duration = Duration::from_millis(150);

/// Most delay behind the server.
pub const DELAY_MAX: Duration = Duration::from_millis(350);

/// Send intervals of delay.
const INTERVALS: u64 = 3;

/// Mean deviations of arrival times in the jitter buffer.
const JITTER_FACTOR: u64 = 2;

/// A clock that differs this much from what was expected is another clock.
const CLOCK_JUMP_US: i64 = 1_000_000;

/// Longest time between two snapshots that counts as their interval.
const INTERVAL_MAX_US: u64 = 200_000;

/// The clock of what is shown: the server's time less the delay, never going back.
///
/// The delay is three send intervals and twice the jitter, 150 to 350 ms. Interval and jitter are measured: the one from
/// the snapshots' times, the other from how unevenly they arrive (as in RFC 3550, section 6.4.1).
#[derive(Clone, Debug)]
pub struct Playout {
    /// Smoothed time between snapshots.
    interval_us: u64,
    /// Smoothed deviation of the transit times, × 16.
    jitter_us_16: u64,
    sync: Option<Sync>,
    shown_us: i64,
}

/// The server's clock against ours.
#[derive(Clone, Copy, Debug)]
struct Sync {
    /// Smoothed difference of a snapshot's time and its arrival, × 16.
    offset_us_16: i64,
    /// The last one's.
    last_offset_us: i64,
    /// The newest snapshot's time.
    newest_us: u64,
}

impl Playout {
    /// A clock that has heard nothing, with a first guess of the interval.
    pub const fn new(interval: Duration) -> Self {
        Self { interval_us: interval.as_micros(), jitter_us_16: 0, sync: None, shown_us: i64::MIN }
    }

    /// Takes in the arrival of a snapshot of `timestamp_us`. Returns whether the server's clock jumped, so that all
    /// earlier snapshots are of another one.
    pub fn arrived(&mut self, arrival: Instant, timestamp_us: u64) -> bool {
        let offset_us = (timestamp_us as i64).wrapping_sub(micros(arrival));
        let fresh = Sync {
            offset_us_16: offset_us.saturating_mul(16),
            last_offset_us: offset_us,
            newest_us: timestamp_us,
        };
        let Some(sync) = &mut self.sync else {
            self.sync = Some(fresh);
            return false;
        };
        if offset_us.saturating_sub(sync.offset_us_16 / 16).saturating_abs() > CLOCK_JUMP_US {
            (self.sync, self.shown_us) = (Some(fresh), i64::MIN);
            return true;
        }
        let deviation_us = offset_us.abs_diff(sync.last_offset_us);
        self.jitter_us_16 = self.jitter_us_16 - self.jitter_us_16 / 16 + deviation_us;
        sync.offset_us_16 = sync.offset_us_16.saturating_add(offset_us - sync.offset_us_16 / 16);
        sync.last_offset_us = offset_us;
        if timestamp_us > sync.newest_us {
            let interval_us = (timestamp_us - sync.newest_us).min(INTERVAL_MAX_US);
            self.interval_us = (self.interval_us * 7 + interval_us) / 8;
            sync.newest_us = timestamp_us;
        }
        false
    }

    /// Moves the time shown to what it is at `now`.
    pub fn advance(&mut self, now: Instant) {
        let Some(sync) = &self.sync else { return };
        let time_us = micros(now).saturating_add(sync.offset_us_16 / 16);
        self.shown_us = self.shown_us.max(time_us.saturating_sub(self.delay().as_micros() as i64));
    }

    /// The time shown, on the server's clock, in µs; before everything until [`Playout::advance`] was called.
    pub const fn shown_us(&self) -> i64 {
        self.shown_us
    }

    /// How far behind the server that is, transit aside.
    pub fn delay(&self) -> Duration {
        let wanted =
            Duration::from_micros(self.interval_us).times(INTERVALS) + self.jitter().times(JITTER_FACTOR);
        wanted.clamp(DELAY_MIN, DELAY_MAX)
    }

    /// The measured time between snapshots.
    pub const fn interval(&self) -> Duration {
        Duration::from_micros(self.interval_us)
    }

    /// The measured mean deviation of their transit times.
    pub const fn jitter(&self) -> Duration {
        Duration::from_micros(self.jitter_us_16 / 16)
    }
}

fn micros(instant: Instant) -> i64 {
    (instant.as_nanos() / 1000) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    const MS: u64 = 1000;

    /// Snapshots every `interval_ms` with up to `jitter_ms` of extra transit, for ten seconds.
    fn heard(interval_ms: u64, jitter_ms: u32) -> Playout {
        let mut rng = Rng::new(5);
        let mut playout = Playout::new(Duration::from_millis(interval_ms));
        for number in 0..10_000 / interval_ms {
            let late_ms = if jitter_ms > 0 { rng.below(jitter_ms).into() } else { 0 };
            let arrival = Instant::from_millis(40 + number * interval_ms + late_ms);
            assert!(!playout.arrived(arrival, number * interval_ms * MS));
        }
        playout
    }

    #[test]
    fn the_delay_is_three_intervals_and_jitter_within_its_limits() {
        assert_eq!(heard(100, 0).delay(), Duration::from_millis(300), "ten per second");
        assert_eq!(heard(50, 0).delay(), Duration::from_millis(150));
        assert_eq!(heard(16, 0).delay(), DELAY_MIN);
        assert_eq!(heard(200, 0).delay(), DELAY_MAX);
        let shaky = heard(50, 60);
        assert!(shaky.jitter() > Duration::from_millis(10) && shaky.jitter() < Duration::from_millis(35));
        assert_eq!(shaky.delay(), Duration::from_millis(150) + shaky.jitter().times(2));
        assert_eq!(heard(100, 90).delay(), DELAY_MAX);
    }

    #[test]
    fn a_lost_snapshot_hardly_changes_the_interval_and_a_new_rate_is_learned() {
        let mut playout = heard(50, 0);
        let at = |number: u64| (Instant::from_millis(40 + number * 50), number * 50 * MS);
        let (arrival, timestamp_us) = at(201);
        playout.arrived(arrival, timestamp_us);
        assert!(playout.interval() < Duration::from_millis(57));
        for number in (202..300).step_by(2) {
            let (arrival, timestamp_us) = at(number);
            playout.arrived(arrival, timestamp_us);
        }
        assert!(playout.interval() > Duration::from_millis(95));
    }

    #[test]
    fn the_time_shown_never_goes_back() {
        let mut rng = Rng::new(6);
        let mut playout = Playout::new(Duration::from_millis(50));
        let mut shown = i64::MIN;
        for ms in 0..20_000u64 {
            if ms % 50 == 0 {
                let late = u64::from(rng.below(if ms > 5000 { 120 } else { 5 }));
                playout.arrived(Instant::from_millis(ms + 30), (ms - ms.min(late)) * MS);
            }
            playout.advance(Instant::from_millis(ms + 30));
            assert!(playout.shown_us() >= shown);
            shown = playout.shown_us();
        }
        let behind_us = 20_000_000 - shown;
        assert!((150_000..500_000).contains(&behind_us), "{behind_us} µs behind");
    }

    #[test]
    fn another_clock_is_followed_at_once() {
        let mut playout = heard(50, 0);
        playout.advance(Instant::from_millis(10_000));
        assert!(playout.arrived(Instant::from_millis(10_040), 77), "a server that began anew");
        playout.advance(Instant::from_millis(10_040));
        assert_eq!(playout.shown_us(), 77 - 150_000);
    }

    /// Whatever a server says, and whenever it arrives: no overflow.
    #[test]
    fn absurd_times_do_no_harm() {
        let mut playout = Playout::new(Duration::from_millis(50));
        for timestamp_us in [0, u64::MAX, 1, i64::MAX as u64, 1 << 63, u64::MAX / 2 - 5, 3] {
            for arrival in [Instant::ZERO, Instant::MAX, Instant::from_millis(5)] {
                playout.arrived(arrival, timestamp_us);
                playout.advance(arrival);
                assert!((DELAY_MIN..=DELAY_MAX).contains(&playout.delay()));
            }
        }
    }
}
