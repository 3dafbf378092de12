//! Judges sequences, acknowledgements and events on its own, apart from the client that plays: 16-bit sequences, an
//! acknowledgement of the newest and a mask of the 32 before it.

use tickwire::time::Instant;

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

/// The checks of one session.
#[derive(Debug)]
pub(super) struct Checks {
    sent: Box<[Sent; SENT_KEPT]>,
    /// Datagrams sent so far; the next one's sequence is its low 16 bits.
    sent_count: u64,
    /// Sequence and acknowledgement of the newest datagram received.
    newest: Option<(u16, u16)>,
    events: Box<[u64; EVENTS_KEPT]>,
    events_count: usize,
}

impl Checks {
    pub(super) fn new() -> Self {
        let sent = Sent { at: Instant::ZERO, is_measured: false, is_acked: true };
        Self {
            sent: Box::new([sent; SENT_KEPT]),
            sent_count: 0,
            newest: None,
            events: Box::new([0; EVENTS_KEPT]),
            events_count: 0,
        }
    }

    /// A datagram goes out at `now`.
    pub(super) fn sent(&mut self, now: Instant, is_input: bool, tally: &mut Tally) {
        let is_measured = is_input && tally.is_measuring;
        self.sent[self.sent_count as usize % SENT_KEPT] = Sent { at: now, is_measured, is_acked: false };
        self.sent_count += 1;
        tally.counters.inputs_sent += u64::from(is_measured);
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
            let has_ack_before = newest_ack != u16::MAX || self.sent_count > 1 << 15;
            if has_ack_before && ack.wrapping_sub(newest_ack) >= 1 << 15 {
                tally.fault(Fault::AckBackwards);
            }
        }
        self.newest = Some((sequence, ack));
        self.acknowledged(now, ack, bits, tally);
    }

    /// The newest acknowledged gives the round trip; those of the mask may have been known for long.
    fn acknowledged(&mut self, now: Instant, ack: u16, bits: u32, tally: &mut Tally) {
        if ack == u16::MAX && self.sent_count <= u64::from(u16::MAX) {
            // Nothing received yet, says the server.
            return;
        }
        let behind = u64::from((self.sent_count as u16).wrapping_sub(1).wrapping_sub(ack));
        if behind >= self.sent_count || behind >= 1 << 15 {
            tally.fault(Fault::AckUnsent);
            return;
        }
        let newest = self.sent_count - 1 - behind;
        if let Some(at) = self.settle(newest, tally) {
            tally.rtt(now.since(at));
        }
        for bit in (0..32).filter(|bit| bits >> bit & 1 == 1) {
            match newest.checked_sub(bit + 1) {
                Some(index) => _ = self.settle(index, tally),
                None => return tally.fault(Fault::AckUnsent),
            }
        }
    }

    /// Marks a datagram as acknowledged, and says when it was sent if that is news.
    fn settle(&mut self, index: u64, tally: &mut Tally) -> Option<Instant> {
        if self.sent_count - index > SENT_KEPT as u64 {
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
