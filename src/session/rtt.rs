//! Round-trip time: smoothed value and variance with the weights of RFC 6298, in integers.

use crate::time::Duration;

/// An estimate of the round-trip time.
#[derive(Clone, Copy, Default, Debug)]
pub struct Rtt {
    smoothed_ns: u64,
    variance_ns: u64,
    measured: bool,
}

/// Longest sample that counts: whatever took longer is no measurement of the path.
const SAMPLE_MAX: Duration = Duration::from_secs(10);

impl Rtt {
    /// No estimate yet.
    pub const fn new() -> Self {
        Self { smoothed_ns: 0, variance_ns: 0, measured: false }
    }

    /// Takes in one measurement.
    pub fn sample(&mut self, rtt: Duration) {
        let sample = rtt.min(SAMPLE_MAX).as_nanos();
        if !self.measured {
            *self = Self { smoothed_ns: sample, variance_ns: sample / 2, measured: true };
            return;
        }
        let error = self.smoothed_ns.abs_diff(sample);
        self.variance_ns = (3 * self.variance_ns + error) / 4;
        self.smoothed_ns = (7 * self.smoothed_ns + sample) / 8;
    }

    /// The smoothed round-trip time, once measured.
    pub fn smoothed(&self) -> Option<Duration> {
        self.measured.then(|| Duration::from_nanos(self.smoothed_ns))
    }

    /// Its variance, once measured.
    pub fn variance(&self) -> Option<Duration> {
        self.measured.then(|| Duration::from_nanos(self.variance_ns))
    }

    /// Smoothed RTT + 4 × variance, kept within `least` and `most`; `most` until measured.
    pub fn timeout(&self, least: Duration, most: Duration) -> Duration {
        if !self.measured {
            return most;
        }
        Duration::from_nanos(self.smoothed_ns + 4 * self.variance_ns).clamp(least, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_rfc_6298() {
        let (least, most) = (Duration::from_millis(50), Duration::from_millis(1000));
        let mut rtt = Rtt::new();
        assert_eq!((rtt.smoothed(), rtt.timeout(least, most)), (None, most));
        rtt.sample(Duration::from_millis(100));
        assert_eq!(
            (rtt.smoothed(), rtt.variance()),
            (Some(Duration::from_millis(100)), Some(Duration::from_millis(50)))
        );
        assert_eq!(rtt.timeout(least, most), Duration::from_millis(300));
        rtt.sample(Duration::from_millis(180));
        assert_eq!(rtt.smoothed(), Some(Duration::from_millis(110)));
        assert_eq!(rtt.variance(), Some(Duration::from_nanos(57_500_000)));
        for _ in 0..200 {
            rtt.sample(Duration::from_millis(2));
        }
        assert_eq!(rtt.timeout(least, most), least);
        rtt.sample(Duration::from_secs(u64::MAX));
        assert_eq!(rtt.timeout(least, most), most);
    }
}
