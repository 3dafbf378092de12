//! What a swarm counts, over all of its players.

use std::ops::AddAssign;

use hdrhistogram::Histogram;

use tickwire::time::Duration;

/// What can go wrong. On loopback none of these should ever happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Fault {
    /// The login's connection could not be made, or broke before the end.
    Connection,
    /// The login was refused.
    Rejected,
    /// The server ended the session: Logout or Disconnect.
    Dismissed,
    /// What came over the stream is not the protocol.
    BadStream,
    /// The session heard nothing for too long.
    TimedOut,
    /// A datagram whose header is not the protocol's.
    BadHeader,
    /// A datagram of a session that nobody here has, or of a kind that is not due.
    Foreign,
    /// A datagram whose payload is malformed.
    Malformed,
    /// A snapshot that cannot be decoded, though its baseline is here.
    BadSnapshot,
    /// A snapshot against a baseline that is not here.
    MissingBaseline,
    /// A sequence that never came, or has not come yet.
    Lost,
    /// A sequence below one that came before.
    Reordered,
    /// A sequence that came twice, or so late that nobody can tell.
    Repeated,
    /// An acknowledgement of something that was never sent.
    AckUnsent,
    /// An acknowledgement below one that came before, in a datagram that is newer.
    AckBackwards,
    /// An event that was handed over a second time.
    EventRepeated,
    /// An event whose content is malformed or unknown.
    EventIgnored,
    /// An entity in a snapshot that was never told of.
    UnknownEntity,
    /// An entity for which the player had no room.
    NoRoom,
    /// The kernel refused to send: its buffer was full, or the server's port is closed.
    Send,
    /// Receiving failed.
    Receive,
}

impl Fault {
    /// Every fault, in the order of their values.
    pub const ALL: [Self; 21] = [
        Self::Connection,
        Self::Rejected,
        Self::Dismissed,
        Self::BadStream,
        Self::TimedOut,
        Self::BadHeader,
        Self::Foreign,
        Self::Malformed,
        Self::BadSnapshot,
        Self::MissingBaseline,
        Self::Lost,
        Self::Reordered,
        Self::Repeated,
        Self::AckUnsent,
        Self::AckBackwards,
        Self::EventRepeated,
        Self::EventIgnored,
        Self::UnknownEntity,
        Self::NoRoom,
        Self::Send,
        Self::Receive,
    ];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::Rejected => "rejected",
            Self::Dismissed => "dismissed",
            Self::BadStream => "bad_stream",
            Self::TimedOut => "timed_out",
            Self::BadHeader => "bad_header",
            Self::Foreign => "foreign",
            Self::Malformed => "malformed",
            Self::BadSnapshot => "bad_snapshot",
            Self::MissingBaseline => "missing_baseline",
            Self::Lost => "lost",
            Self::Reordered => "reordered",
            Self::Repeated => "repeated",
            Self::AckUnsent => "ack_unsent",
            Self::AckBackwards => "ack_backwards",
            Self::EventRepeated => "event_repeated",
            Self::EventIgnored => "event_ignored",
            Self::UnknownEntity => "unknown_entity",
            Self::NoRoom => "no_room",
            Self::Send => "send",
            Self::Receive => "receive",
        }
    }
}

/// Faults by kind.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Faults([u64; Fault::ALL.len()]);

impl Faults {
    /// Counts `count` more of a kind.
    pub fn add(&mut self, fault: Fault, count: u64) {
        self.0[fault as usize] += count;
    }

    /// How many of a kind.
    pub fn count(&self, fault: Fault) -> u64 {
        self.0[fault as usize]
    }

    /// How many of all kinds.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Each kind that happened, with its count.
    pub fn iter(&self) -> impl Iterator<Item = (Fault, u64)> {
        Fault::ALL.into_iter().map(|fault| (fault, self.count(fault))).filter(|&(_, count)| count > 0)
    }
}

/// Plain counters. All but those marked run from the start to the end; differences of two copies are those of the time
/// between.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counters {
    /// Datagrams received.
    pub datagrams_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Datagrams sent.
    pub datagrams_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Events handed over, each once.
    pub events: u64,
    /// Events that came again and were not: sent a second time because an acknowledgement took long.
    pub events_again: u64,
    /// Inputs sent (while measuring).
    pub inputs_sent: u64,
    /// Of those, acknowledged, whenever that was.
    pub inputs_acked: u64,
    /// Snapshots that should have come, by the ticks of those that did (while measuring).
    pub snapshots_expected: u64,
    /// Snapshots applied (while measuring).
    pub snapshots_received: u64,
}

impl Counters {
    /// What was counted since `before`.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            datagrams_in: self.datagrams_in - before.datagrams_in,
            bytes_in: self.bytes_in - before.bytes_in,
            datagrams_out: self.datagrams_out - before.datagrams_out,
            bytes_out: self.bytes_out - before.bytes_out,
            events: self.events - before.events,
            events_again: self.events_again - before.events_again,
            inputs_sent: self.inputs_sent - before.inputs_sent,
            inputs_acked: self.inputs_acked - before.inputs_acked,
            snapshots_expected: self.snapshots_expected - before.snapshots_expected,
            snapshots_received: self.snapshots_received - before.snapshots_received,
        }
    }
}

impl AddAssign for Counters {
    fn add_assign(&mut self, more: Self) {
        self.datagrams_in += more.datagrams_in;
        self.bytes_in += more.bytes_in;
        self.datagrams_out += more.datagrams_out;
        self.bytes_out += more.bytes_out;
        self.events += more.events;
        self.events_again += more.events_again;
        self.inputs_sent += more.inputs_sent;
        self.inputs_acked += more.inputs_acked;
        self.snapshots_expected += more.snapshots_expected;
        self.snapshots_received += more.snapshots_received;
    }
}

/// Everything that is counted.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Whether the figures marked "while measuring" are taken.
    pub is_measuring: bool,
    /// Counters.
    pub counters: Counters,
    /// Faults.
    pub faults: Faults,
    /// From sending an Input to its acknowledgement, in microseconds (while measuring).
    pub rtt_us: Histogram<u64>,
    /// From one snapshot to the next, in microseconds (while measuring).
    pub interval_us: Histogram<u64>,
    /// How far that is from what it should be, either way, in microseconds (while measuring).
    pub jitter_us: Histogram<u64>,
    /// How late the swarm itself sent, in microseconds (while measuring).
    pub pacing_us: Histogram<u64>,
}

/// The longest that a histogram tells apart: a minute.
const VALUE_US_MAX: u64 = 60_000_000;

/// Digits that a histogram keeps.
const DIGITS: u8 = 3;

impl Tally {
    /// Nothing counted, and not measuring.
    pub fn new() -> Self {
        let empty = || Histogram::new_with_max(VALUE_US_MAX, DIGITS).expect("sound bounds");
        Self {
            is_measuring: false,
            counters: Counters::default(),
            faults: Faults::default(),
            rtt_us: empty(),
            interval_us: empty(),
            jitter_us: empty(),
            pacing_us: empty(),
        }
    }

    /// Adds what another counted.
    pub fn add(&mut self, more: &Self) {
        self.counters += more.counters;
        for (fault, count) in more.faults.iter() {
            self.faults.add(fault, count);
        }
        for (sum, part) in [
            (&mut self.rtt_us, &more.rtt_us),
            (&mut self.interval_us, &more.interval_us),
            (&mut self.jitter_us, &more.jitter_us),
            (&mut self.pacing_us, &more.pacing_us),
        ] {
            sum.add(part).expect("the same bounds");
        }
    }

    /// Counts a fault.
    pub fn fault(&mut self, fault: Fault) {
        self.faults.add(fault, 1);
    }

    /// Records an acknowledgement's round trip.
    pub fn rtt(&mut self, rtt: Duration) {
        record(self.is_measuring, &mut self.rtt_us, rtt);
    }

    /// Records the time since the last snapshot, where it should have been `expected`.
    pub fn interval(&mut self, interval: Duration, expected: Duration) {
        let off = interval.as_nanos().abs_diff(expected.as_nanos());
        record(self.is_measuring, &mut self.interval_us, interval);
        record(self.is_measuring, &mut self.jitter_us, Duration::from_nanos(off));
    }

    /// Records how late a client's turn to send came.
    pub fn pacing(&mut self, late: Duration) {
        record(self.is_measuring, &mut self.pacing_us, late);
    }
}

impl Default for Tally {
    fn default() -> Self {
        Self::new()
    }
}

fn record(is_measuring: bool, histogram: &mut Histogram<u64>, value: Duration) {
    if is_measuring {
        histogram.saturating_record(value.as_micros());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_have_their_own_names_and_places() {
        let mut faults = Faults::default();
        for (index, fault) in Fault::ALL.into_iter().enumerate() {
            assert_eq!(fault as usize, index);
            faults.add(fault, index as u64);
        }
        assert_eq!(faults.total(), (0..Fault::ALL.len() as u64).sum());
        assert_eq!(faults.iter().count(), Fault::ALL.len() - 1, "the one with no count is left out");
        let mut names = Fault::ALL.map(Fault::name);
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn tallies_add_up() {
        let mut one = Tally { is_measuring: true, ..Tally::new() };
        one.rtt(Duration::from_millis(1));
        one.fault(Fault::Lost);
        one.counters = Counters { events: 2, bytes_in: 5, ..Counters::default() };
        let mut sum = one.clone();
        sum.add(&one);
        assert_eq!((sum.rtt_us.len(), sum.faults.count(Fault::Lost), sum.faults.total()), (2, 2, 2));
        assert_eq!(sum.counters, Counters { events: 4, bytes_in: 10, ..Counters::default() });
    }

    #[test]
    fn histograms_take_what_is_measured_only() {
        let mut tally = Tally::new();
        tally.rtt(Duration::from_millis(1));
        assert_eq!(tally.rtt_us.len(), 0);
        tally.is_measuring = true;
        tally.interval(Duration::from_millis(48), Duration::from_millis(50));
        tally.interval(Duration::from_millis(53), Duration::from_millis(50));
        assert_eq!((tally.jitter_us.min(), tally.jitter_us.max()), (2000, 3001));
        tally.rtt(Duration::from_secs(3600));
        assert!(tally.rtt_us.max() >= VALUE_US_MAX, "longer than a minute counts as a minute");
    }
}
