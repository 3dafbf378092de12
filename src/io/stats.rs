//! What the I/O layer counts. Errors of single peers are told here and nowhere else: no peer can fill a log.

use crate::seam::Door;
use crate::time::Duration;

/// Counters since the loop was bound. Plain numbers, cheap to copy out.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct IoStats {
    /// Turns of the loop.
    pub turns: u64,
    /// What came and went by each door, indexed by [`Door`].
    pub doors: [DoorStats; Door::COUNT],
    /// Streams.
    pub streams: StreamStats,
    /// System calls made.
    pub calls: CallStats,
    /// Waits that a signal's handling cut short.
    pub waits_interrupted: u64,
    /// What io_uring recovered from.
    pub uring: UringStats,
}

/// Counters of one datagram socket.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct DoorStats {
    /// Datagrams received, empty ones included.
    pub datagrams_in: u64,
    /// Their bytes, each counted up to the receive buffer's 1280.
    pub bytes_in: u64,
    /// Datagrams received that held no byte.
    pub empty_in: u64,
    /// Batches that brought at least one datagram.
    pub batches_in: u64,
    /// Datagrams handed to the kernel.
    pub datagrams_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Of the datagrams handed over, those that went several in a message.
    pub offloaded_out: u64,
    /// Times that sending several in a message was refused: 1 at most, since it is then given up.
    pub offload_refused: u64,
    /// Datagrams that the kernel dropped because the receive buffer was full. Learnt with the next datagram.
    pub kernel_drops: u64,
    /// Errors reported by receiving; the socket lives on.
    pub receive_errors: u64,
    /// Datagrams not sent, by reason, indexed by [`SendError`].
    pub send_errors: [u64; SendError::COUNT],
    /// Datagrams of the core for this door while it was closed.
    pub no_socket: u64,
}

impl DoorStats {
    /// Datagrams not sent for whatever reason.
    pub fn send_errors_total(&self) -> u64 {
        self.send_errors.iter().sum()
    }
}

/// Counters of streams.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct StreamStats {
    /// Connections told to the core.
    pub accepted: u64,
    /// Connections closed at once because every slot was taken.
    pub refused: u64,
    /// Connections that ended, for whatever reason.
    pub closed: u64,
    /// Of those: closed because their peer did not read what was sent to it.
    pub overflowed: u64,
    /// Of those: their peer did not take the last bytes, or did not close, in time or before the slot was needed.
    pub linger_cut: u64,
    /// Bytes read.
    pub bytes_in: u64,
    /// Bytes written.
    pub bytes_out: u64,
    /// Accepts that failed for the one connection.
    pub accept_errors: u64,
    /// Times that accepting paused because the process or the system ran out of descriptors or memory.
    pub accept_pauses: u64,
}

/// System calls made by the loop.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct CallStats {
    /// Waits.
    pub epoll_wait: u64,
    /// Changes of what is waited for.
    pub epoll_ctl: u64,
    /// Settings of the timer.
    pub timerfd_settime: u64,
    /// Batches asked for.
    pub recvmmsg: u64,
    /// Batches sent.
    pub sendmmsg: u64,
    /// Accepts, the ones that found nobody included.
    pub accept: u64,
    /// Stream reads, the ones that found nothing included.
    pub read: u64,
    /// Stream writes.
    pub write: u64,
    /// Entries into io_uring that may sleep.
    pub uring_wait: u64,
    /// Other entries into io_uring: to drain the doors, and to submit.
    pub uring_enter: u64,
}

impl CallStats {
    /// Waits, whatever the backend waits with.
    pub fn waits(&self) -> u64 {
        self.epoll_wait + self.uring_wait
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        let waiting = self.epoll_wait + self.epoll_ctl + self.timerfd_settime;
        let datagrams = self.recvmmsg + self.sendmmsg;
        let streams = self.accept + self.read + self.write;
        waiting + datagrams + streams + self.uring_wait + self.uring_enter
    }
}

/// What io_uring recovered from; nothing is lost by it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct UringStats {
    /// Requests that go on and on, ended by the kernel and made again.
    pub rearms: u64,
    /// Receives that found every provided buffer in use.
    pub no_buffers: u64,
    /// Times that completions did not fit their queue and were held back.
    pub overflows: u64,
}

/// Why a datagram was not sent. It is dropped; those behind it are not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum SendError {
    /// The peer's port is closed (ECONNREFUSED).
    Refused = 0,
    /// No way to the peer (EHOSTUNREACH, ENETUNREACH, ENETDOWN).
    Unreachable = 1,
    /// A firewall or the system forbids it (EPERM, EACCES).
    NotPermitted = 2,
    /// The kernel or the device is short of buffers (ENOBUFS, ENOMEM).
    NoBuffers = 3,
    /// The socket's send buffer is full (EAGAIN).
    WouldBlock = 4,
    /// Longer than the path takes (EMSGSIZE).
    TooLong = 5,
    /// An address that cannot be sent to (EINVAL, EAFNOSUPPORT, EADDRNOTAVAIL).
    Invalid = 6,
    /// Anything else.
    Other = 7,
}

impl SendError {
    /// How many reasons there are.
    pub const COUNT: usize = 8;

    /// The reason behind an `errno`.
    pub(crate) fn of(errno: i32) -> Self {
        match errno {
            libc::ECONNREFUSED => Self::Refused,
            libc::EHOSTUNREACH | libc::ENETUNREACH | libc::ENETDOWN => Self::Unreachable,
            libc::EPERM | libc::EACCES => Self::NotPermitted,
            libc::ENOBUFS | libc::ENOMEM => Self::NoBuffers,
            libc::EAGAIN => Self::WouldBlock,
            libc::EMSGSIZE => Self::TooLong,
            libc::EINVAL | libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL => Self::Invalid,
            _ => Self::Other,
        }
    }
}

/// What a kernel or a device says that cannot cut a message into datagrams, but also others with other worries.
pub(crate) fn may_be_for_offload(errno: i32) -> bool {
    matches!(errno, libc::EIO | libc::EINVAL | libc::EMSGSIZE | libc::EOPNOTSUPP)
}

/// How long turns took in microseconds, in fixed buckets: exact below 8 µs, and eight buckets to every doubling above,
/// so that a value read from it is at most an eighth too high.
#[derive(Clone, Debug)]
pub struct WorkHistogram {
    counts: [u64; BUCKETS],
    total: u64,
    max_us: u64,
}

/// Buckets to a doubling, as a power of two.
const STEPS_LOG2: u32 = 3;
const STEPS: usize = 1 << STEPS_LOG2;

/// Where buckets end: 2²⁴ µs are 16 s. What takes longer counts in the last one.
const VALUE_BITS: u32 = 24;
const BUCKETS: usize = STEPS * (VALUE_BITS - STEPS_LOG2 + 1) as usize;

impl WorkHistogram {
    /// Nothing recorded.
    pub const fn new() -> Self {
        Self { counts: [0; BUCKETS], total: 0, max_us: 0 }
    }

    /// Counts a turn that took `spent`, rounded down to microseconds.
    pub fn record(&mut self, spent: Duration) {
        let us = spent.as_micros();
        self.counts[bucket(us)] += 1;
        self.total += 1;
        self.max_us = self.max_us.max(us);
    }

    /// Turns counted.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// The longest, in microseconds; 0 when nothing was counted.
    pub const fn max_us(&self) -> u64 {
        self.max_us
    }

    /// How long at least `per_mille` of 1000 turns took at most, in microseconds: the upper end of the bucket in which
    /// that turn is, or the longest turn where that is less. 0 when nothing was counted.
    ///
    /// # Panics
    /// When `per_mille` is above 1000.
    pub fn quantile_us(&self, per_mille: u32) -> u64 {
        assert!(per_mille <= 1000, "a quantile above the whole");
        let wanted = (u128::from(self.total) * u128::from(per_mille)).div_ceil(1000);
        let mut below = 0;
        for (bucket, &count) in self.counts.iter().enumerate() {
            below += u128::from(count);
            if below >= wanted && below > 0 {
                return if bucket + 1 == BUCKETS { self.max_us } else { highest_us(bucket).min(self.max_us) };
            }
        }
        self.max_us
    }
}

impl Default for WorkHistogram {
    fn default() -> Self {
        Self::new()
    }
}

/// The bucket of `us`: its highest set bit chooses the doubling, the three bits below that the step in it.
fn bucket(us: u64) -> usize {
    let us = us.min((1 << VALUE_BITS) - 1);
    let Some(doubling) = us.max(1).ilog2().checked_sub(STEPS_LOG2) else { return us as usize };
    (doubling as usize + 1) * STEPS + (us >> doubling) as usize - STEPS
}

/// The highest value of `bucket`.
fn highest_us(bucket: usize) -> u64 {
    let Some(doubling) = (bucket / STEPS).checked_sub(1) else { return bucket as u64 };
    (((bucket % STEPS + STEPS + 1) as u64) << doubling) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every value falls into the bucket that ends at or after it, and whose predecessor ends before it.
    #[test]
    fn buckets_meet_without_gaps() {
        for us in (0..5000).chain((12..VALUE_BITS).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1]))
        {
            let found = bucket(us);
            assert!(us <= highest_us(found), "{us} in {found}");
            assert!(found == 0 || us > highest_us(found - 1), "{us} in {found}");
        }
        assert_eq!(bucket((1 << VALUE_BITS) - 1), BUCKETS - 1);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn a_bucket_is_at_most_an_eighth_wide() {
        for found in STEPS..BUCKETS {
            let (lowest, highest) = (highest_us(found - 1) + 1, highest_us(found));
            assert!((highest - lowest) * 8 <= lowest, "{lowest} to {highest}");
        }
    }

    #[test]
    fn quantiles_are_those_of_the_values() {
        let mut work = WorkHistogram::new();
        assert_eq!((work.quantile_us(999), work.total()), (0, 0));
        (1..=999).for_each(|_| work.record(Duration::from_micros(7)));
        work.record(Duration::from_nanos(5_000_999));
        assert_eq!([0, 500, 999, 1000].map(|q| work.quantile_us(q)), [7, 7, 7, 5000]);
        assert_eq!((work.total(), work.max_us()), (1000, 5000));
        work.record(Duration::from_micros(100));
        // 1001 turns: the 1000th from the shortest is the one of 100 µs, whose bucket goes to 103.
        assert_eq!(work.quantile_us(999), 103);
        work.record(Duration::from_secs(100));
        assert_eq!(work.quantile_us(1000), 100_000_000);
    }
}
