//! Which packets were received: the newest and the 31 before it, as the header says it (section 2.3). When more come
//! before anything is sent, what no header said yet is kept until headers of their own have.

use crate::session::acks::Receipt;
use crate::storage::is_newer;

/// Headers that are kept: those of all packets that a sender may have in flight, however they are out of order.
const KEPT_MAX: usize = 4;

/// The packets received from a peer.
#[derive(Clone, Copy, Default, Debug)]
pub struct Receipts {
    newest: u16,
    /// Bit 31 − n: `newest` − n was received. 0: nothing was.
    bits: u32,
    /// Those of them that wait for their acknowledgement: no header said so yet.
    untold: u32,
    /// Headers that still are to be sent before the current one, the oldest first.
    kept: [(u16, u32); KEPT_MAX],
    kept_len: u8,
}

impl Receipts {
    /// Nothing received.
    pub const fn new() -> Self {
        Self { newest: 0, bits: 0, untold: 0, kept: [(0, 0); KEPT_MAX], kept_len: 0 }
    }

    /// How `sequence` relates to those recorded. Of the first one there is nothing to say but that it is new.
    pub const fn judge(&self, sequence: u16) -> Receipt {
        if self.bits == 0 || is_newer(sequence, self.newest) {
            return Receipt::New;
        }
        let behind = self.newest.wrapping_sub(sequence);
        if behind > 31 {
            Receipt::TooOld
        } else if self.bits >> (31 - behind) & 1 == 1 {
            Receipt::Duplicate
        } else {
            Receipt::New
        }
    }

    /// Records `sequence`, which was judged new; `waits` when its sender waits for the acknowledgement.
    pub const fn record(&mut self, sequence: u16, waits: bool) {
        if self.bits == 0 || is_newer(sequence, self.newest) {
            self.move_on(sequence);
        }
        let behind = self.newest.wrapping_sub(sequence);
        if behind <= 31 {
            let bit = 1 << (31 - behind);
            self.bits |= bit;
            self.untold |= if waits { bit } else { 0 };
        }
    }

    /// The `ack` field and the bitfield of a packet that is sent now; no bitfield until something was received.
    pub const fn take_header(&mut self) -> (u16, Option<u32>) {
        if self.kept_len > 0 {
            let (newest, bits) = self.kept[0];
            self.drop_oldest();
            return (newest, Some(bits));
        }
        self.untold = 0;
        if self.bits == 0 { (0, None) } else { (self.newest, Some(self.bits)) }
    }

    /// Whether somebody waits for what no header said yet.
    pub const fn owes(&self) -> bool {
        self.kept_len > 0 || self.untold != 0
    }

    const fn move_on(&mut self, newest: u16) {
        let ahead = newest.wrapping_sub(self.newest);
        let (bits, untold) = if ahead > 31 { (0, 0) } else { (self.bits >> ahead, self.untold >> ahead) };
        if untold.count_ones() < self.untold.count_ones() {
            if self.kept_len as usize == KEPT_MAX {
                self.drop_oldest();
            }
            self.kept[self.kept_len as usize] = (self.newest, self.bits);
            self.kept_len += 1;
            self.untold = 0;
        } else {
            self.untold = untold;
        }
        (self.newest, self.bits) = (newest, bits);
    }

    const fn drop_oldest(&mut self) {
        let [_, b, c, d] = self.kept;
        self.kept = [b, c, d, d];
        self.kept_len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn bit_31_is_ack_itself() {
        let mut receipts = Receipts::new();
        assert_eq!(receipts.take_header(), (0, None));
        receipts.record(40_000, true);
        assert_eq!(receipts.take_header(), (40_000, Some(1 << 31)));
        receipts.record(40_031, true);
        assert_eq!(receipts.take_header(), (40_031, Some(1 << 31 | 1)), "bit 0 is ack - 31");
        receipts.record(40_030, true);
        assert_eq!(receipts.take_header(), (40_031, Some(0b11 << 30 | 1)));
        receipts.record(40_032, true);
        assert_eq!(receipts.take_header(), (40_032, Some(0b111 << 29)));
    }

    /// Random arrivals over several wraps against the set of everything received.
    #[test]
    fn receipts_agree_with_a_set() {
        let mut rng = Rng::new(21);
        let (mut receipts, mut received) = (Receipts::new(), std::collections::BTreeSet::new());
        let mut newest = 65_500i64;
        receipts.record(newest as u16, true);
        received.insert(newest);
        let mut counts = [0u32; 3];
        for _ in 0..200_000 {
            let at = newest + i64::from(rng.between(-40, 12));
            let expected = if newest - at > 31 {
                Receipt::TooOld
            } else if received.contains(&at) {
                Receipt::Duplicate
            } else {
                Receipt::New
            };
            assert_eq!(receipts.judge(at as u16), expected);
            counts[expected as usize] += 1;
            if expected == Receipt::New {
                receipts.record(at as u16, true);
                received.insert(at);
                newest = newest.max(at);
            }
            let (ack, bits) = receipts.take_header();
            assert_eq!(ack, newest as u16);
            (0..32).for_each(|n| {
                assert_eq!(bits.unwrap() >> (31 - n) & 1 == 1, received.contains(&(newest - n)))
            });
        }
        assert!(counts.iter().all(|&count| count > 1000), "{counts:?}");
    }

    /// However many come before a header is sent: headers are sent until all were told, up to what is kept.
    #[test]
    fn what_was_not_told_is_told_before_it_is_forgotten() {
        let mut receipts = Receipts::new();
        let acked = |receipts: &mut Receipts| {
            let mut acked = Vec::new();
            while receipts.owes() {
                let (ack, bits) = receipts.take_header();
                let bits = bits.unwrap();
                acked
                    .extend((0..32).rev().filter(|n| bits >> (31 - n) & 1 == 1).map(|n| ack.wrapping_sub(n)));
            }
            acked.sort_unstable();
            acked.dedup();
            acked
        };
        (0..64).for_each(|sequence| receipts.record(sequence, true));
        assert!(acked(&mut receipts).into_iter().eq(0..64));
        assert!(!receipts.owes() && acked(&mut receipts).is_empty());
        // Told already, or nobody waits: nothing is kept.
        receipts.record(64, true);
        let _ = receipts.take_header();
        (65..200).for_each(|sequence| receipts.record(sequence, false));
        assert!(!receipts.owes());
        // A jump, and more than is kept: the newest are told.
        receipts.record(1000, true);
        receipts.record(2000, true);
        assert_eq!(acked(&mut receipts), [1000, 2000]);
        (3000..3400).for_each(|sequence| receipts.record(sequence, true));
        let told = acked(&mut receipts);
        assert_eq!(told, (3400 - 32 * (KEPT_MAX as u16) - 16..3400).collect::<Vec<_>>());
    }
}
