//! How often a peer is sent a snapshot: 10 to 60 times a second, as its connection allows.

/// Fewest snapshots per second.
pub const RATE_MIN_HZ: u32 = 10;

/// Most snapshots per second.
pub const RATE_MAX_HZ: u32 = 60;

/// Where a connection begins, in snapshots per second.
const RATE_START_HZ: u32 = 20;

/// Loss from which snapshots become rarer, in thousandths.
const LOSS_HIGH_PERMILLE: u32 = 20;

/// Loss below which snapshots may become more frequent, in thousandths.
const LOSS_LOW_PERMILLE: u32 = 10;

/// Measurements in a row that must be good before the rate rises by a step.
const GOOD_MEASUREMENTS: u32 = 3;

/// What was measured of a connection over the last second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measured {
    /// Packets per second that congestion control grants.
    pub packets_per_second: u32,
    /// Bytes per second that it grants.
    pub bytes_per_second: u32,
    /// Packets lost, in thousandths of those sent.
    pub loss_permille: u32,
    /// Mean size of a packet with a snapshot, in bytes.
    pub snapshot_bytes: u32,
}

/// The rate of one peer's snapshots, as whole ticks between them.
///
/// A quarter of what congestion control grants is left to everything that is no snapshot; the recommended minimum is sent
/// even beyond that. The rate falls at once and rises slowly, one step after three good seconds.
#[derive(Clone, Debug)]
pub struct SnapshotRate {
    tick_rate_hz: u32,
    history_interval: u32,
    interval: u32,
    good: u32,
}

impl SnapshotRate {
    /// The rate of a new connection, for a world of `tick_rate_hz` whose history has a frame every `history_interval`
    /// ticks.
    ///
    /// # Panics
    /// When either is 0.
    pub fn new(tick_rate_hz: u32, history_interval: u32) -> Self {
        assert!(tick_rate_hz > 0 && history_interval > 0, "a rate of nothing");
        let mut rate = Self { tick_rate_hz, history_interval, interval: 0, good: 0 };
        rate.interval = rate.interval_for(RATE_START_HZ);
        rate
    }

    /// Ticks from one snapshot to the next: a multiple of the history's.
    pub const fn interval_ticks(&self) -> u32 {
        self.interval
    }

    /// Whether a snapshot is due at a tick, `since_last` ticks after the one before.
    pub const fn is_due(&self, since_last: u32) -> bool {
        since_last >= self.interval
    }

    /// Takes in what was measured; called once a second.
    pub fn update(&mut self, measured: &Measured) {
        let by_packets = measured.packets_per_second * 3 / 4;
        let by_bytes = measured.bytes_per_second / 4 * 3 / measured.snapshot_bytes.max(1);
        let fastest = self.interval_for(by_packets.min(by_bytes));
        let slowest = self.interval_for(RATE_MIN_HZ);
        if self.interval < fastest {
            (self.interval, self.good) = (fastest, 0);
        } else if measured.loss_permille > LOSS_HIGH_PERMILLE {
            (self.interval, self.good) = ((self.interval + self.history_interval).min(slowest), 0);
        } else if measured.loss_permille >= LOSS_LOW_PERMILLE {
            self.good = 0;
        } else {
            self.good += 1;
            if self.good >= GOOD_MEASUREMENTS {
                let next = self.interval.saturating_sub(self.history_interval).max(self.history_interval);
                (self.interval, self.good) = (next.max(fastest), 0);
            }
        }
    }

    /// The shortest interval that is no faster than `rate_hz`, within the limits of the protocol.
    fn interval_for(&self, rate_hz: u32) -> u32 {
        let rate_hz = rate_hz.clamp(RATE_MIN_HZ, RATE_MAX_HZ);
        let up_to_multiple = |ticks: u32| ticks.next_multiple_of(self.history_interval);
        let slowest =
            (self.tick_rate_hz / RATE_MIN_HZ / self.history_interval).max(1) * self.history_interval;
        up_to_multiple(self.tick_rate_hz.div_ceil(rate_hz).max(1)).min(slowest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Measured = Measured {
        packets_per_second: 100,
        bytes_per_second: 256 << 10,
        loss_permille: 0,
        snapshot_bytes: 300,
    };

    fn after(rate: &mut SnapshotRate, measured: Measured, seconds: u32) -> u32 {
        (0..seconds).for_each(|_| rate.update(&measured));
        rate.interval_ticks()
    }

    #[test]
    fn it_begins_at_20_and_climbs_a_step_every_three_good_seconds() {
        let mut rate = SnapshotRate::new(60, 1);
        assert_eq!(rate.interval_ticks(), 3);
        assert_eq!(after(&mut rate, GOOD, 2), 3);
        assert_eq!(after(&mut rate, GOOD, 1), 2);
        assert_eq!(after(&mut rate, GOOD, 3), 1);
        assert_eq!(after(&mut rate, GOOD, 100), 1, "60 per second at most");
        assert!(rate.is_due(1) && !rate.is_due(0));
    }

    #[test]
    fn loss_slows_down_at_once_and_to_ten_at_least() {
        let mut rate = SnapshotRate::new(60, 1);
        let lossy = Measured { loss_permille: 21, ..GOOD };
        assert_eq!(after(&mut rate, lossy, 1), 4);
        assert_eq!(after(&mut rate, lossy, 100), 6);
        let between = Measured { loss_permille: 15, ..GOOD };
        assert_eq!(after(&mut rate, between, 100), 6, "between 1 and 2% nothing changes");
        assert_eq!(after(&mut rate, Measured { loss_permille: 10, ..GOOD }, 100), 6);
        assert_eq!(after(&mut rate, GOOD, 3), 5);
    }

    #[test]
    fn one_bad_second_starts_the_count_anew() {
        let mut rate = SnapshotRate::new(60, 1);
        after(&mut rate, GOOD, 2);
        after(&mut rate, Measured { loss_permille: 12, ..GOOD }, 1);
        assert_eq!(after(&mut rate, GOOD, 2), 3);
        assert_eq!(after(&mut rate, GOOD, 1), 2);
    }

    #[test]
    fn three_quarters_of_what_is_granted_are_the_most() {
        for (packets_per_second, interval) in [(0, 6), (13, 6), (20, 4), (30, 3), (40, 2), (80, 1), (1000, 1)]
        {
            let mut rate = SnapshotRate::new(60, 1);
            let measured = Measured { packets_per_second, ..GOOD };
            assert_eq!(after(&mut rate, measured, 60), interval, "{packets_per_second} packets per second");
        }
        let mut rate = SnapshotRate::new(60, 1);
        let narrow = Measured { bytes_per_second: 20_000, snapshot_bytes: 1000, ..GOOD };
        assert_eq!(after(&mut rate, narrow, 1), 4, "15 per second of 1000 bytes each");
        assert_eq!(after(&mut rate, Measured { snapshot_bytes: 0, ..narrow }, 60), 1);
    }

    /// Other worlds: slower ones, and histories that do not have every tick.
    #[test]
    fn intervals_are_multiples_of_the_historys() {
        for (tick_rate_hz, history_interval, start, fastest, slowest) in [
            (60, 3, 3, 3, 6),
            (60, 2, 4, 2, 6),
            (30, 1, 2, 1, 3),
            (128, 1, 7, 3, 12),
            (5, 1, 1, 1, 1),
            (60, 7, 7, 7, 7),
        ] {
            let mut rate = SnapshotRate::new(tick_rate_hz, history_interval);
            assert_eq!(rate.interval_ticks(), start, "{tick_rate_hz} Hz, {history_interval}");
            assert_eq!(after(&mut rate, GOOD, 60), fastest, "{tick_rate_hz} Hz, {history_interval}");
            let lossy = Measured { loss_permille: 500, ..GOOD };
            assert_eq!(after(&mut rate, lossy, 60), slowest, "{tick_rate_hz} Hz, {history_interval}");
        }
    }
}
