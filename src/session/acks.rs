//! Both halves of 16-bit acknowledgement: what was received ([`Receipts`]) and what was sent ([`SentLog`]).
//! Implements Aegis 2.2 and 5.1.

use crate::storage::{SequenceBuffer, is_newer};
use crate::time::Instant;

/// How a received sequence relates to those before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Receipt {
    /// Not seen before: now recorded.
    New,
    /// Seen before.
    Duplicate,
    /// More than 32 behind the newest: nobody can tell.
    TooOld,
}

/// The sequences received from a peer: the newest and the 32 before it.
#[derive(Clone, Copy, Debug)]
pub struct Receipts {
    ack: u16,
    bits: u32,
    any: bool,
}

impl Receipts {
    /// Nothing received: `ack` is 65535, `ack_bits` 0.
    pub const fn new() -> Self {
        Self { ack: u16::MAX, bits: 0, any: false }
    }

    /// Records `sequence`, once its datagram passed every check.
    pub fn record(&mut self, sequence: u16) -> Receipt {
        if is_newer(sequence, self.ack) {
            let ahead = u32::from(sequence.wrapping_sub(self.ack));
            let moved = self.bits.checked_shl(ahead).unwrap_or(0);
            // The sequence that was the newest becomes a bit; the 65535 of the beginning never arrived.
            let before = if self.any && ahead <= 32 { 1 << (ahead - 1) } else { 0 };
            *self = Self { ack: sequence, bits: moved | before, any: true };
            return Receipt::New;
        }
        let behind = u32::from(self.ack.wrapping_sub(sequence));
        if !self.any || behind > 32 {
            return Receipt::TooOld;
        }
        if behind == 0 || self.bits & 1 << (behind - 1) != 0 {
            return Receipt::Duplicate;
        }
        self.bits |= 1 << (behind - 1);
        Receipt::New
    }

    /// Whether `sequence` would be new, and newer than everything received.
    pub fn is_newest(&self, sequence: u16) -> bool {
        is_newer(sequence, self.ack)
    }

    /// The newest sequence received, for the `ack` field.
    pub const fn ack(&self) -> u16 {
        self.ack
    }

    /// The `ack_bits` field.
    pub const fn bits(&self) -> u32 {
        self.bits
    }
}

impl Default for Receipts {
    fn default() -> Self {
        Self::new()
    }
}

/// A datagram that was sent.
#[derive(Clone, Copy, Debug)]
pub struct Sent<T> {
    /// When.
    pub at: Instant,
    /// What it carried, to be settled when it is acknowledged.
    pub carried: T,
    acked: bool,
}

/// The datagrams sent to a peer, by sequence, until acknowledged or overtaken by [`SENT_LOG_LEN`] later ones.
#[derive(Debug)]
pub struct SentLog<T> {
    next: u16,
    log: SequenceBuffer<Sent<T>>,
    newest_acked: Option<u16>,
    /// The last acknowledgement read, so that the next one is read for its news only.
    read: Option<(u16, u32)>,
}

/// How many sent datagrams are remembered: 2 s at a datagram a tick.
pub const SENT_LOG_LEN: usize = 128;

impl<T: Copy> SentLog<T> {
    /// Nothing sent; the first datagram gets sequence 0.
    pub fn new(filler: T) -> Self {
        let filler = Sent { at: Instant::ZERO, carried: filler, acked: true };
        Self { next: 0, log: SequenceBuffer::new(SENT_LOG_LEN, filler), newest_acked: None, read: None }
    }

    /// Forgets everything: as new.
    pub fn reset(&mut self) {
        self.next = 0;
        self.log.clear();
        self.newest_acked = None;
        self.read = None;
    }

    /// The sequence that the next datagram will have.
    pub const fn next_sequence(&self) -> u16 {
        self.next
    }

    /// Records that the next datagram was sent, and returns its sequence.
    pub fn record(&mut self, at: Instant, carried: T) -> u16 {
        let sequence = self.next;
        self.log.insert(sequence, Sent { at, carried, acked: false });
        self.next = sequence.wrapping_add(1);
        sequence
    }

    /// Reads an acknowledgement; `settle` is called once for each datagram that it newly acknowledges. An `ack` more
    /// recent than the last sequence sent is ignored with its bits, and so is a bit of a sequence never sent.
    pub fn acknowledge(&mut self, ack: u16, bits: u32, mut settle: impl FnMut(u16, &Sent<T>)) {
        let behind_last = self.next.wrapping_sub(1).wrapping_sub(ack);
        if behind_last >= 0x8000 {
            return;
        }
        let mut news = bits;
        if let Some((read_ack, read_bits)) = self.read {
            let ahead = u32::from(ack.wrapping_sub(read_ack));
            if ahead < 0x8000 {
                let mut known = read_bits.checked_shl(ahead).unwrap_or(0);
                if (1..=32).contains(&ahead) {
                    known |= 1 << (ahead - 1);
                }
                news &= !known;
                self.read = Some((ack, bits | known));
            }
        } else {
            self.read = Some((ack, bits));
        }
        self.settle_one(ack, &mut settle);
        while news != 0 {
            let bit = news.trailing_zeros() as u16;
            news &= news - 1;
            self.settle_one(ack.wrapping_sub(1 + bit), &mut settle);
        }
    }

    /// The most recent sequence that was acknowledged.
    pub const fn newest_acked(&self) -> Option<u16> {
        self.newest_acked
    }

    fn settle_one(&mut self, sequence: u16, settle: &mut impl FnMut(u16, &Sent<T>)) {
        let Some(sent) = self.log.get_mut(sequence) else { return };
        if sent.acked {
            return;
        }
        sent.acked = true;
        if self.newest_acked.is_none_or(|newest| is_newer(sequence, newest)) {
            self.newest_acked = Some(sequence);
        }
        settle(sequence, sent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn before_anything_was_received() {
        let receipts = Receipts::new();
        assert_eq!((receipts.ack(), receipts.bits()), (65_535, 0));
        for sequence in [65_535, 65_534, 40_000, 32_767] {
            assert_eq!(Receipts::new().record(sequence), Receipt::TooOld, "{sequence}");
        }
        let mut receipts = Receipts::new();
        assert_eq!(receipts.record(0), Receipt::New);
        assert_eq!((receipts.ack(), receipts.bits()), (0, 0), "65535 was never received");
    }

    /// Gaps of 32,767 and 32,768 (field case 2): the first is newer, the second neither.
    #[test]
    fn case_02_far_gaps() {
        let mut receipts = Receipts::new();
        receipts.record(0);
        assert_eq!(receipts.record(32_768), Receipt::TooOld);
        assert_eq!(receipts.record(32_767), Receipt::New);
        assert_eq!((receipts.ack(), receipts.bits()), (32_767, 0));
    }

    /// Three wraps of the sequence (field case 1).
    #[test]
    fn case_01_three_wraps() {
        let mut receipts = Receipts::new();
        let mut sequence = 0u16;
        for step in 0..200_000u32 {
            assert_eq!(receipts.record(sequence), Receipt::New, "step {step}");
            assert_eq!(receipts.record(sequence), Receipt::Duplicate);
            sequence = sequence.wrapping_add(1);
        }
        assert_eq!(receipts.bits(), u32::MAX);
    }

    /// Random arrivals against the set of everything ever received.
    #[test]
    fn receipts_agree_with_a_set() {
        let mut rng = Rng::new(11);
        let mut receipts = Receipts::new();
        let mut received = std::collections::BTreeSet::new();
        let (mut newest, mut counts) = (-1i64, [0u32; 3]);
        for _ in 0..100_000 {
            let at = (newest + i64::from(rng.between(-40, 12))).max(0);
            let expected = if newest - at > 32 {
                Receipt::TooOld
            } else if received.contains(&at) {
                Receipt::Duplicate
            } else {
                Receipt::New
            };
            let receipt = receipts.record(at as u16);
            assert_eq!(receipt, expected, "{at} at newest {newest}");
            counts[receipt as usize] += 1;
            if receipt == Receipt::New {
                received.insert(at);
                newest = newest.max(at);
            }
            assert_eq!(receipts.ack(), newest as u16);
            for bit in 0..32 {
                let there = received.contains(&(newest - 1 - bit));
                assert_eq!(receipts.bits() >> bit & 1 == 1, there);
            }
        }
        assert!(counts.iter().all(|&count| count > 1000), "{counts:?}");
    }

    /// Exactly the named datagrams are settled, once each, whatever the order of acknowledgements (field case 9).
    #[test]
    fn case_09_exactly_the_named_datagrams() {
        let mut rng = Rng::new(9);
        let mut log = SentLog::new(0u64);
        let mut sent = 0u64;
        let mut settled = std::collections::BTreeSet::new();
        for round in 0..30_000 {
            for _ in 0..rng.below(4) {
                assert_eq!(log.record(Instant::ZERO, sent), sent as u16);
                sent += 1;
            }
            if sent == 0 {
                continue;
            }
            let ack = sent - 1 - u64::from(rng.below(60)).min(sent - 1);
            let bits = rng.next_u32() & rng.next_u32();
            let mut named: Vec<u64> = vec![ack];
            named.extend(
                (0..32).filter(|bit| bits >> bit & 1 == 1).filter_map(|bit| (ack).checked_sub(1 + bit)),
            );
            named.retain(|number| sent - number <= SENT_LOG_LEN as u64);
            let mut news = Vec::new();
            log.acknowledge(ack as u16, bits, |sequence, entry| {
                assert_eq!(sequence, entry.carried as u16);
                news.push(entry.carried);
            });
            for number in &news {
                assert!(named.contains(number), "{number} was not named in round {round}");
                assert!(settled.insert(*number), "{number} settled twice");
            }
            assert!(
                named.iter().all(|number| settled.contains(number)),
                "a named one was missed in round {round}"
            );
        }
        assert!(sent > 40_000 && settled.len() > 20_000);
    }

    /// An acknowledgement of what was never sent changes nothing (field cases 4 and 6).
    #[test]
    fn case_04_ack_beyond_the_last_sent() {
        let mut log = SentLog::new(());
        log.acknowledge(0, u32::MAX, |_, _| panic!("nothing was sent"));
        log.acknowledge(65_535, u32::MAX, |_, _| panic!("nothing was sent"));
        for _ in 0..5 {
            log.record(Instant::ZERO, ());
        }
        for ack in [5, 6, 32_771, 32_772, 40_000] {
            log.acknowledge(ack, u32::MAX, |_, _| panic!("{ack} was never sent"));
        }
        let mut settled = Vec::new();
        log.acknowledge(2, u32::MAX, |sequence, _| settled.push(sequence));
        assert_eq!(settled, [2, 1, 0], "bits before the first datagram are ignored");
        assert_eq!(log.newest_acked(), Some(2));
    }
}
