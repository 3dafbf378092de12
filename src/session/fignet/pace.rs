//! How fast to send (section 8): packets per second, adapted to loss; bytes per second; packets in flight. And the
//! other side of it: what a peer may send to us.

use super::config::NetworkConfig;
use crate::time::{Duration, Instant};

/// Packets in flight at most.
pub const WINDOW_MAX: u64 = 64;

/// How often the rate is adapted.
const ADAPT_INTERVAL: Duration = Duration::from_secs(1);

/// Time whose worth of bytes may go at once.
const BURST: Duration = Duration::from_millis(125);

/// A token bucket of bytes or packets, told as time: full at `full_at`.
#[derive(Clone, Copy, Default, Debug)]
struct Bucket {
    full_at: Instant,
}

impl Bucket {
    /// When something that takes `cost` may pass a bucket that holds `burst`.
    fn ready_at(&self, cost: Duration, burst: Duration) -> Instant {
        (self.full_at + cost) - burst
    }

    fn take(&mut self, now: Instant, cost: Duration) {
        self.full_at = self.full_at.max(now) + cost;
    }
}

/// The pace of one sender.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Packets per second × 1000.
    rate_milli: u64,
    rate_milli_min: u64,
    /// 0: no limit.
    rate_milli_max: u64,
    /// Bytes per second; 0: no limit.
    bytes_per_sec: u64,
    packets: Bucket,
    bytes: Bucket,
    adapted_at: Instant,
    /// Watched packets since then,
    sent: u32,
    /// and how many were declared lost.
    lost: u32,
}

impl Pace {
    /// A pace that begins with the least rate.
    pub fn new(now: Instant, config: &NetworkConfig) -> Self {
        let rate_milli_min = u64::from(config.packet_rate_min_per_sec) * 1000;
        Self {
            rate_milli: rate_milli_min,
            rate_milli_min,
            rate_milli_max: u64::from(config.packet_rate_per_sec) * 1000,
            bytes_per_sec: u64::from(config.bandwidth_limit_bytes_per_sec),
            packets: Bucket::default(),
            bytes: Bucket::default(),
            adapted_at: now,
            sent: 0,
            lost: 0,
        }
    }

    /// Packets per second × 1000; `None` without a limit.
    pub const fn rate_milli(&self) -> Option<u64> {
        if self.rate_milli_max == 0 { None } else { Some(self.rate_milli) }
    }

    /// When a packet of `bytes` with data may next be sent.
    pub fn ready_at(&self, bytes: usize) -> Instant {
        let packets = match self.packet_cost() {
            Some(cost) => self.packets.ready_at(cost, cost.times(2 + self.rate_milli / 32_000)),
            None => Instant::ZERO,
        };
        match self.byte_cost(bytes) {
            Some(cost) => self.bytes.ready_at(cost, BURST.max(cost.times(2))).max(packets),
            None => packets,
        }
    }

    /// A packet of `bytes` is sent, with data or without: what carries none waits for nothing, but counts.
    pub fn sent(&mut self, now: Instant, bytes: usize, with_data: bool) {
        if let Some(cost) = self.byte_cost(bytes) {
            self.bytes.take(now, cost);
        }
        if with_data {
            if let Some(cost) = self.packet_cost() {
                self.packets.take(now, cost);
            }
            self.sent += 1;
        }
    }

    /// A packet with data was lost.
    pub const fn lost(&mut self) {
        self.lost += 1;
    }

    /// Once per second in which something was sent: a tenth more below 1% of loss, a tenth less above 2%.
    pub fn adapt(&mut self, now: Instant) {
        if now.since(self.adapted_at) < ADAPT_INTERVAL {
            return;
        }
        let (sent, lost) = (u64::from(self.sent), u64::from(self.lost));
        self.adapted_at = now;
        if sent == 0 && lost == 0 {
            return;
        }
        (self.sent, self.lost) = (0, 0);
        if lost * 100 < sent {
            self.rate_milli = (self.rate_milli * 11 / 10).min(self.rate_milli_max);
        } else if lost * 100 > 2 * sent {
            self.rate_milli = (self.rate_milli * 9 / 10).max(self.rate_milli_min);
        }
    }

    /// How many packets of `packet_bytes` may be in flight over a round trip of `rtt`: rounded up, so that the window
    /// never holds the bandwidth below its limit.
    pub fn window(&self, rtt: Duration, packet_bytes: usize) -> usize {
        if self.bytes_per_sec == 0 {
            return WINDOW_MAX as usize;
        }
        let bytes = u128::from(self.bytes_per_sec) * u128::from(rtt.as_nanos()) / 1_000_000_000;
        (bytes as u64).div_ceil(packet_bytes as u64).clamp(1, WINDOW_MAX) as usize
    }

    fn packet_cost(&self) -> Option<Duration> {
        self.rate_milli().map(|rate_milli| Duration::from_nanos(1_000_000_000_000 / rate_milli))
    }

    fn byte_cost(&self, bytes: usize) -> Option<Duration> {
        (self.bytes_per_sec > 0)
            .then(|| Duration::from_nanos(bytes as u64 * 1_000_000_000 / self.bytes_per_sec))
    }
}

/// What a peer may send to us.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    packets_per_sec: u64,
    bytes_per_sec: u64,
    excess_max_secs: u32,
    packets: Bucket,
    bytes: Bucket,
    second: Instant,
    /// Packets refused in this second,
    refused: u32,
    /// and how many seconds before it had too many.
    excess_secs: u32,
}

/// A packet that is one too many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooMany {
    /// It has been so for too long.
    pub sustained: bool,
}

impl Allowance {
    /// Everything is still allowed.
    pub fn new(now: Instant, config: &NetworkConfig) -> Self {
        Self {
            packets_per_sec: u64::from(config.receive_packets_per_sec),
            bytes_per_sec: u64::from(config.receive_bytes_per_sec),
            excess_max_secs: config.rate_excess_timeout_ms.div_ceil(1000),
            packets: Bucket::default(),
            bytes: Bucket::default(),
            second: now,
            refused: 0,
            excess_secs: 0,
        }
    }

    /// A packet of `bytes` came: whether it may pass. A second is one of excess when more than a tenth of what is
    /// allowed had to be refused in it.
    pub fn pass(&mut self, now: Instant, bytes: usize) -> Result<(), TooMany> {
        self.turn_second(now);
        let second = Duration::from_secs(1);
        let cost = |amount: u64, limit: u64| {
            Duration::from_nanos((amount * 1_000_000_000).checked_div(limit).unwrap_or(0))
        };
        let packet_cost = cost(1, self.packets_per_sec);
        let byte_cost = cost(bytes as u64, self.bytes_per_sec);
        let ready = self.packets.ready_at(packet_cost, second.max(packet_cost));
        if now >= ready && now >= self.bytes.ready_at(byte_cost, second.max(byte_cost)) {
            self.packets.take(now, packet_cost);
            self.bytes.take(now, byte_cost);
            return Ok(());
        }
        self.refused += 1;
        Err(TooMany { sustained: self.excess_secs >= self.excess_max_secs })
    }

    fn turn_second(&mut self, now: Instant) {
        let passed = now.since(self.second);
        if passed < Duration::from_secs(1) {
            return;
        }
        let tenth = u32::try_from(self.packets_per_sec / 10).unwrap_or(u32::MAX);
        let in_a_row = passed < Duration::from_secs(2);
        self.excess_secs = if self.refused > tenth && in_a_row { self.excess_secs + 1 } else { 0 };
        self.refused = 0;
        self.second = if in_a_row { self.second + Duration::from_secs(1) } else { now };
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::DEFAULT_CONFIG;
    use super::*;

    fn packets_in_a_second(pace: &mut Pace, from_ms: u64, bytes: usize) -> usize {
        let mut count = 0;
        for ms in from_ms..from_ms + 1000 {
            let now = Instant::from_millis(ms);
            while pace.ready_at(bytes) <= now {
                pace.sent(now, bytes, true);
                count += 1;
            }
        }
        count
    }

    /// Section 8.1 to the letter: ×1.1 below 1%, ×0.9 above 2%, between the least and the greatest rate.
    #[test]
    fn the_rate_follows_the_loss() {
        let mut pace = Pace::new(Instant::ZERO, &DEFAULT_CONFIG);
        assert_eq!(pace.rate_milli(), Some(10_000));
        let mut second = 0;
        let mut step = |pace: &mut Pace, sent, lost| {
            (pace.sent, pace.lost) = (sent, lost);
            second += 1;
            pace.adapt(Instant::from_millis(second * 1000));
            pace.rate_milli().unwrap()
        };
        assert_eq!(step(&mut pace, 1000, 9), 11_000);
        assert_eq!(step(&mut pace, 1000, 10), 11_000, "1% is where it should be");
        assert_eq!(step(&mut pace, 1000, 20), 11_000, "and 2% too");
        assert_eq!(step(&mut pace, 1000, 21), 10_000, "never below the least");
        assert_eq!(step(&mut pace, 0, 0), 10_000, "nothing sent, nothing learnt");
        (0..20).for_each(|_| _ = step(&mut pace, 100, 0));
        assert_eq!(pace.rate_milli(), Some(30_000), "never above the greatest");
        assert_eq!(step(&mut pace, 100, 3), 27_000);
    }

    #[test]
    fn packets_and_bytes_are_paced() {
        let mut pace = Pace::new(Instant::ZERO, &DEFAULT_CONFIG);
        assert_eq!(packets_in_a_second(&mut pace, 0, 100), 2 + 9, "10 a second and what was saved");
        assert_eq!(packets_in_a_second(&mut pace, 1000, 100), 10);
        let config =
            NetworkConfig { packet_rate_per_sec: 0, bandwidth_limit_bytes_per_sec: 12_000, ..DEFAULT_CONFIG };
        let mut pace = Pace::new(Instant::ZERO, &config);
        assert_eq!(pace.rate_milli(), None);
        packets_in_a_second(&mut pace, 0, 1200);
        assert_eq!(packets_in_a_second(&mut pace, 1000, 1200), 10);
        let config = NetworkConfig { bandwidth_limit_bytes_per_sec: 0, ..config };
        assert_eq!(Pace::new(Instant::ZERO, &config).ready_at(1200), Instant::ZERO);
    }

    #[test]
    fn the_window_is_bandwidth_times_round_trip() {
        let pace = Pace::new(Instant::ZERO, &DEFAULT_CONFIG);
        assert_eq!(pace.window(Duration::from_millis(100), 1200), 22);
        assert_eq!(pace.window(Duration::ZERO, 1200), 1);
        assert_eq!(pace.window(Duration::from_secs(9), 1200), 64);
    }

    #[test]
    fn an_excess_is_refused_and_in_the_end_sustained() {
        let mut allowance = Allowance::new(Instant::ZERO, &DEFAULT_CONFIG);
        let (mut passed, mut first_sustained) = (0, None);
        for ms in (0..10_000).step_by(5) {
            match allowance.pass(Instant::from_millis(ms), 100) {
                Ok(()) => passed += 1,
                Err(TooMany { sustained: true }) => {
                    first_sustained.get_or_insert(ms);
                }
                Err(_) => {}
            }
        }
        assert_eq!(passed, 60 + 600 - 1);
        assert_eq!(first_sustained, Some(5005));
        let mut allowance = Allowance::new(Instant::ZERO, &DEFAULT_CONFIG);
        (0..600).for_each(|step| allowance.pass(Instant::from_millis(step * 17), 100).unwrap());
        let off = NetworkConfig { receive_packets_per_sec: 0, receive_bytes_per_sec: 0, ..DEFAULT_CONFIG };
        let mut allowance = Allowance::new(Instant::ZERO, &off);
        (0..10_000).for_each(|_| allowance.pass(Instant::ZERO, 1200).unwrap());
    }
}
