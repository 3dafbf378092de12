//! Which packets were received: the newest and the 31 before it, as the header says it (section 2.3).

use crate::session::acks::Receipt;
use crate::storage::is_newer;

/// The packets received from a peer.
#[derive(Clone, Copy, Default, Debug)]
pub struct Receipts {
    newest: u16,
    /// Bit 31 − n: `newest` − n was received. 0: nothing was.
    bits: u32,
}

impl Receipts {
    /// Nothing received.
    pub const fn new() -> Self {
        Self { newest: 0, bits: 0 }
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

    /// Records `sequence`, which was judged new.
    pub const fn record(&mut self, sequence: u16) {
        if self.bits == 0 || is_newer(sequence, self.newest) {
            let ahead = sequence.wrapping_sub(self.newest);
            let moved = if ahead > 31 { 0 } else { self.bits >> ahead };
            *self = Self { newest: sequence, bits: moved | 1 << 31 };
            return;
        }
        let behind = self.newest.wrapping_sub(sequence);
        if behind <= 31 {
            self.bits |= 1 << (31 - behind);
        }
    }

    /// The `ack` field and the bitfield; no bitfield until something was received.
    pub const fn header(&self) -> (u16, Option<u32>) {
        if self.bits == 0 { (0, None) } else { (self.newest, Some(self.bits)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn bit_31_is_ack_itself() {
        let mut receipts = Receipts::new();
        assert_eq!(receipts.header(), (0, None));
        receipts.record(40_000);
        assert_eq!(receipts.header(), (40_000, Some(1 << 31)));
        receipts.record(40_031);
        assert_eq!(receipts.header(), (40_031, Some(1 << 31 | 1)), "bit 0 is ack - 31");
        receipts.record(40_030);
        assert_eq!(receipts.header(), (40_031, Some(0b11 << 30 | 1)));
        receipts.record(40_032);
        assert_eq!(receipts.header(), (40_032, Some(0b111 << 29)));
    }

    /// Random arrivals over several wraps against the set of everything received.
    #[test]
    fn receipts_agree_with_a_set() {
        let mut rng = Rng::new(21);
        let (mut receipts, mut received) = (Receipts::new(), std::collections::BTreeSet::new());
        let mut newest = 65_500i64;
        receipts.record(newest as u16);
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
                receipts.record(at as u16);
                received.insert(at);
                newest = newest.max(at);
            }
            let (ack, bits) = receipts.header();
            assert_eq!(ack, newest as u16);
            (0..32).for_each(|n| {
                assert_eq!(bits.unwrap() >> (31 - n) & 1 == 1, received.contains(&(newest - n)))
            });
        }
        assert!(counts.iter().all(|&count| count > 1000), "{counts:?}");
    }
}
