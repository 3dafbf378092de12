//! Bounds on how often something may happen.

use crate::time::{Duration, Instant};

/// Tells when something happened `N` times within a span: exact, since it remembers the last `N` times.
#[derive(Clone, Copy, Debug)]
pub struct Burst<const N: usize> {
    /// Milliseconds since the origin, modulo 2³².
    times_ms: [u32; N],
    next: u16,
    count: u32,
}

impl<const N: usize> Burst<N> {
    /// Nothing has happened.
    pub const fn new() -> Self {
        assert!(N > 0 && N < 1 << 16);
        Self { times_ms: [0; N], next: 0, count: 0 }
    }

    /// It happened at `now`: whether this is at least the `N`th time within the last `span`.
    pub fn hit(&mut self, now: Instant, span: Duration) -> bool {
        let now_ms = (now.as_nanos() / 1_000_000) as u32;
        let slot = usize::from(self.next);
        self.times_ms[slot] = now_ms;
        self.next = ((slot + 1) % N) as u16;
        self.count = self.count.saturating_add(1);
        // The slot to be overwritten next holds the time N hits ago, this one included.
        let first_ms = self.times_ms[usize::from(self.next)];
        self.count as usize >= N && u64::from(now_ms.wrapping_sub(first_ms)) <= span.as_millis()
    }

    /// How often it happened in all.
    pub const fn count(&self) -> u32 {
        self.count
    }
}

impl<const N: usize> Default for Burst<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// A token bucket: `burst` at once, then one every `interval`.
#[derive(Clone, Copy, Debug)]
pub struct Limiter {
    burst: u64,
    interval: Duration,
    /// The bucket is full from here on: time stands for tokens.
    full_at: Instant,
}

impl Limiter {
    /// A full bucket.
    pub const fn new(burst: u32, interval: Duration) -> Self {
        assert!(burst > 0, "a bucket of nothing never lets anything pass");
        Self { burst: burst as u64, interval, full_at: Instant::ZERO }
    }

    /// Whether one more may pass now; if so it has.
    pub fn pass(&mut self, now: Instant) -> bool {
        let taken_until = self.full_at.max(now) + self.interval;
        if taken_until.since(now) > self.interval.times(self.burst) {
            return false;
        }
        self.full_at = taken_until;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_exact_at_its_edges() {
        let span = Duration::from_secs(5);
        let mut burst = Burst::<100>::new();
        for hit in 0..99 {
            assert!(!burst.hit(Instant::from_millis(hit * 50), span));
        }
        assert!(burst.hit(Instant::from_millis(5000), span), "the 100th in exactly 5 s");
        let mut burst = Burst::<100>::new();
        for hit in 0..1000 {
            assert!(!burst.hit(Instant::from_millis(hit * 51), span), "one every 51 ms never is 100 in 5 s");
        }
        assert_eq!(burst.count(), 1000);
    }

    #[test]
    fn a_limiter_lets_its_burst_pass_and_then_its_rate() {
        let mut limiter = Limiter::new(3, Duration::from_millis(10));
        let passed =
            |limiter: &mut Limiter, ms| (0..5).filter(|_| limiter.pass(Instant::from_millis(ms))).count();
        assert_eq!(passed(&mut limiter, 1000), 3);
        assert_eq!(passed(&mut limiter, 1009), 0);
        assert_eq!(passed(&mut limiter, 1010), 1);
        assert_eq!(passed(&mut limiter, 1025), 1);
        assert_eq!(passed(&mut limiter, 9000), 3);
    }
}
