//! Judges sequences, acknowledgements and events on its own, apart from the client that plays: what was sent and is to
//! be acknowledged, when snapshots come, and for Aegis 16-bit sequences, an acknowledgement of the newest and a mask of
//! the 32 before it.

use tickwire::limits::TICK_RATE_HZ;
use tickwire::time::{Duration, Instant, Tick};

use crate::tally::{Fault, Tally};

/// Datagrams remembered: more than two seconds of them, and a power of two, so that wrapping does no harm.
const SENT_KEPT: usize = 256;

/// Events remembered, to find the ones that come again.
const EVENTS_KEPT: usize = 256;

/// A datagram that was sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Instant,
    /// Counted in `inputs_sent`.
    is_measured: bool,
    is_acked: bool,
}

/// What was sent, by index from 0, until it is acknowledged.
#[derive(Debug)]
pub(super) struct SentWindow {
    sent: Box<[Sent; SENT_KEPT]>,
    count: u64,
}

impl SentWindow {
    pub(super) fn new() -> Self {
        let sent = Sent { at: Instant::ZERO, is_measured: false, is_acked: true };
        Self { sent: Box::new([sent; SENT_KEPT]), count: 0 }
    }

    /// Datagrams sent so far, which is the index of the next one.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// A datagram goes out at `now`.
    pub(super) fn push(&mut self, now: Instant, is_input: bool, tally: &mut Tally) {
        let is_measured = is_input && tally.is_measuring;
        self.sent[self.count as usize % SENT_KEPT] = Sent { at: now, is_measured, is_acked: false };
        self.count += 1;
        tally.counters.inputs_sent += u64::from(is_measured);
    }

    /// Marks the datagram `newest`, which was sent, and those before it that `bits` name as acknowledged. Says when
    /// the newest was sent, if its acknowledgement is news.
    pub(super) fn acknowledge(&mut self, newest: u64, bits: u32, tally: &mut Tally) -> Option<Instant> {
        let at = self.settle(newest, tally);
        for bit in (0..32).filter(|bit| bits >> bit & 1 == 1) {
            match newest.checked_sub(bit + 1) {
                Some(index) => _ = self.settle(index, tally),
                None => {
                    tally.fault(Fault::AckUnsent);
                    break;
                }
            }
        }
        at
    }

    /// Marks a datagram as acknowledged, and says when it was sent if that is news.
    fn settle(&mut self, index: u64, tally: &mut Tally) -> Option<Instant> {
        if self.count - index > SENT_KEPT as u64 {
            return None;
        }
        let sent = &mut self.sent[index as usize % SENT_KEPT];
        if sent.is_acked {
            return None;
        }
        sent.is_acked = true;
        tally.counters.inputs_acked += u64::from(sent.is_measured);
        Some(sent.at)
    }
}

/// When snapshots come, and how many of them.
#[derive(Debug, Default)]
pub(super) struct Cadence {
    /// Tick and time of the newest snapshot.
    newest: Option<(Tick, Instant)>,
}

impl Cadence {
    /// The snapshot of `tick` came at `now`; there is one every `interval_ticks`.
    pub(super) fn snapshot(&mut self, now: Instant, tick: Tick, interval_ticks: u32, tally: &mut Tally) {
        let Some((before, before_at)) = self.newest else {
            self.newest = Some((tick, now));
            return;
        };
        let counted = u64::from(tally.is_measuring);
        tally.counters.snapshots_received += counted;
        let ticks = tick.since(before);
        if ticks == 0 || ticks >= 1 << 31 {
            // Overtaken on its way: it was expected already when the newer one came.
            return;
        }
        tally.counters.snapshots_expected += counted * u64::from(ticks.div_ceil(interval_ticks));
        let expected = Duration::from_secs(u64::from(ticks)).per(u64::from(TICK_RATE_HZ));
        tally.interval(now.since(before_at), expected);
        self.newest = Some((tick, now));
    }
}

/// The checks of one Aegis session.
#[derive(Debug)]
pub(super) struct Checks {
    /// The sequence of a datagram is the low 16 bits of its index.
    sent: SentWindow,
    /// Sequence and acknowledgement of the newest datagram received.
    newest: Option<(u16, u16)>,
    events: Box<[u64; EVENTS_KEPT]>,
    events_count: usize,
}

impl Checks {
    pub(super) fn new() -> Self {
        let events = Box::new([0; EVENTS_KEPT]);
        Self { sent: SentWindow::new(), newest: None, events, events_count: 0 }
    }

    /// A datagram goes out at `now`.
    pub(super) fn sent(&mut self, now: Instant, is_input: bool, tally: &mut Tally) {
        self.sent.push(now, is_input, tally);
    }

    /// A sound datagram of this session came at `now`.
    pub(super) fn received(&mut self, now: Instant, sequence: u16, ack: u16, bits: u32, tally: &mut Tally) {
        if let Some((newest, newest_ack)) = self.newest {
            let ahead = sequence.wrapping_sub(newest);
            if ahead == 0 || ahead >= 1 << 15 {
                // What comes twice is counted by the client, which knows it.
                if ahead != 0 {
                    tally.fault(Fault::Reordered);
                }
                return;
            }
            tally.faults.add(Fault::Lost, u64::from(ahead - 1));
            let has_ack_before = newest_ack != u16::MAX || self.sent.count() > 1 << 15;
            if has_ack_before && ack.wrapping_sub(newest_ack) >= 1 << 15 {
                tally.fault(Fault::AckBackwards);
            }
        }
        self.newest = Some((sequence, ack));
        self.acknowledged(now, ack, bits, tally);
    }

    /// The newest acknowledged gives the round trip; those of the mask may have been known for long.
    fn acknowledged(&mut self, now: Instant, ack: u16, bits: u32, tally: &mut Tally) {
        let count = self.sent.count();
        if ack == u16::MAX && count <= u64::from(u16::MAX) {
            // Nothing received yet, says the server.
            return;
        }
        let behind = u64::from((count as u16).wrapping_sub(1).wrapping_sub(ack));
        if behind >= count || behind >= 1 << 15 {
            tally.fault(Fault::AckUnsent);
            return;
        }
        if let Some(at) = self.sent.acknowledge(count - 1 - behind, bits, tally) {
            tally.rtt(now.since(at));
        }
    }

    /// An event was handed over. `print` is a number that no other event of the session has.
    pub(super) fn event(&mut self, print: u64, tally: &mut Tally) {
        let known = self.events_count.min(EVENTS_KEPT);
        if self.events[..known].contains(&print) {
            tally.fault(Fault::EventRepeated);
        }
        self.events[self.events_count % EVENTS_KEPT] = print;
        self.events_count += 1;
        tally.counters.events += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * MS)
    }

    fn measuring() -> Tally {
        Tally { is_measuring: true, ..Tally::new() }
    }

    #[test]
    fn an_ack_and_its_mask_settle_each_input_once() {
        let (mut checks, mut tally) = (Checks::new(), measuring());
        (0..5).for_each(|n| checks.sent(at(n), true, &mut tally));
        checks.received(at(10), 0, 2, 0b01, &mut tally);
        checks.received(at(11), 1, 2, 0b11, &mut tally);
        checks.received(at(12), 2, 4, 0b1111, &mut tally);
        assert_eq!((tally.counters.inputs_sent, tally.counters.inputs_acked), (5, 5));
        assert_eq!(tally.rtt_us.len(), 2, "one for each acknowledgement that was news");
        assert_eq!((tally.rtt_us.min() / 1000, tally.rtt_us.max() / 1000), (8, 8));
        assert_eq!(tally.faults.total(), 0);
    }

    #[test]
    fn acks_of_what_was_never_sent_are_faults() {
        let (mut checks, mut tally) = (Checks::new(), measuring());
        checks.received(at(0), 0, u16::MAX, 0, &mut tally);
        assert_eq!(tally.faults.total(), 0, "65535 says that nothing was received");
        checks.sent(at(0), true, &mut tally);
        checks.received(at(1), 1, 1, 0, &mut tally);
        checks.received(at(2), 2, 0, 1, &mut tally);
        assert_eq!(tally.faults.count(Fault::AckUnsent), 2);
    }

    #[test]
    fn gaps_reorders_and_acks_that_fall_are_told_apart() {
        let (mut checks, mut tally) = (Checks::new(), measuring());
        (0..9).for_each(|n| checks.sent(at(n), true, &mut tally));
        checks.received(at(10), 65_534, 5, 0, &mut tally);
        checks.received(at(10), 1, 6, 0, &mut tally);
        assert_eq!(tally.faults.count(Fault::Lost), 2, "65535 and 0");
        checks.received(at(10), 0, 6, 0, &mut tally);
        assert_eq!(tally.faults.count(Fault::Reordered), 1);
        checks.received(at(10), 2, 4, 0, &mut tally);
        assert_eq!(tally.faults.count(Fault::AckBackwards), 1);
        assert_eq!(tally.faults.total(), 4);
    }

    /// Sequences wrap after 65536 datagrams, where 65535 is an acknowledgement like any other.
    #[test]
    fn sequences_wrap() {
        let (mut checks, mut tally) = (Checks::new(), measuring());
        for n in 0..70_000 {
            checks.sent(at(n), true, &mut tally);
            let bits = ((1u64 << n.min(32)) - 1) as u32;
            checks.received(at(n), n as u16, n as u16, bits, &mut tally);
        }
        assert_eq!(tally.faults.total(), 0);
        assert_eq!(tally.counters.inputs_acked, 70_000);
    }

    #[test]
    fn an_event_that_comes_again_is_a_fault() {
        let (mut checks, mut tally) = (Checks::new(), measuring());
        [1, 2, 3, 2].iter().for_each(|&print| checks.event(print, &mut tally));
        assert_eq!((tally.faults.count(Fault::EventRepeated), tally.counters.events), (1, 4));
    }
}
