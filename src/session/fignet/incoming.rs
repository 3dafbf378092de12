//! One channel's messages on their way in: which were had, which are held until their turn (section 5).

use super::config::ChannelMode;
use super::outgoing::AHEAD_MAX;
use super::pools::Chain;
use crate::storage::is_newer;

/// Messages ahead of the next one that are looked at, at most.
pub const WINDOW: u16 = 1024;

/// Messages held until their turn, at most.
pub const HELD_MAX: usize = AHEAD_MAX;

/// What is to become of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is to be delivered.
    Deliver,
    /// It is to be held until its turn.
    Hold,
    /// It was had before, or came too late.
    Drop,
    /// There is no room for it now.
    Refuse,
}

/// Where a held message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Held {
    /// In buffers.
    Whole(Chain),
    /// In the fragments of a slot.
    Parts(u8),
}

/// The receiving side of a channel.
#[derive(Debug)]
pub struct Incoming {
    mode: ChannelMode,
    /// Reliable: the lowest sequence not had. Unreliable ordered: the one after the newest.
    next: u16,
    /// Reliable unordered: which of the window were had, by sequence modulo the window.
    had: Box<[u64]>,
    held: Box<[(u16, Held)]>,
    held_len: u8,
    /// What [`Incoming::probe`] found so far, in the round of that number.
    probe: Probe,
}

#[derive(Clone, Copy, Default, Debug)]
struct Probe {
    round: u32,
    next: u16,
    held_len: u8,
}

impl Incoming {
    /// Nothing received.
    pub fn new(mode: ChannelMode) -> Self {
        let had = if mode == ChannelMode::Reliable { usize::from(WINDOW) / 64 } else { 0 };
        let held = if mode == ChannelMode::ReliableOrdered { HELD_MAX } else { 0 };
        Self {
            mode,
            next: 0,
            had: vec![0; had].into_boxed_slice(),
            held: vec![(0, Held::Parts(0)); held].into_boxed_slice(),
            held_len: 0,
            probe: Probe::default(),
        }
    }

    /// What the channel promises.
    pub const fn mode(&self) -> ChannelMode {
        self.mode
    }

    /// Forgets everything; `release` is given each held message.
    pub fn reset(&mut self, next: u16, mut release: impl FnMut(Held)) {
        self.held[..usize::from(self.held_len)].iter().for_each(|&(_, held)| release(held));
        self.held_len = 0;
        self.next = next;
        self.had.fill(0);
        self.probe = Probe::default();
    }

    /// What would become of a message if all those probed in this round were taken before it; a round begins with a
    /// number that was never used. Nothing changes that anyone else sees.
    pub fn probe(&mut self, round: u32, sequence: u16) -> Verdict {
        if self.mode != ChannelMode::ReliableOrdered {
            return self.judge(sequence);
        }
        if self.probe.round != round {
            self.probe = Probe { round, next: self.next, held_len: self.held_len };
        }
        let ahead = sequence.wrapping_sub(self.probe.next);
        if ahead == 0 {
            self.probe.next = sequence.wrapping_add(1);
            while self.find(self.probe.next).is_some() {
                self.probe.next = self.probe.next.wrapping_add(1);
                self.probe.held_len -= 1;
            }
            Verdict::Deliver
        } else if ahead >= 0x8000 || self.find(sequence).is_some() {
            Verdict::Drop
        } else if ahead >= WINDOW || usize::from(self.probe.held_len) >= HELD_MAX {
            Verdict::Refuse
        } else {
            self.probe.held_len += 1;
            Verdict::Hold
        }
    }

    /// What becomes of a message.
    pub fn judge(&self, sequence: u16) -> Verdict {
        let ahead = sequence.wrapping_sub(self.next);
        match self.mode {
            ChannelMode::Unreliable => Verdict::Deliver,
            ChannelMode::UnreliableOrdered if ahead < 0x8000 => Verdict::Deliver,
            ChannelMode::UnreliableOrdered => Verdict::Drop,
            ChannelMode::Reliable if ahead >= 0x8000 || (ahead < WINDOW && self.was_had(sequence)) => {
                Verdict::Drop
            }
            ChannelMode::Reliable if ahead < WINDOW => Verdict::Deliver,
            ChannelMode::Reliable => Verdict::Refuse,
            ChannelMode::ReliableOrdered if ahead == 0 => Verdict::Deliver,
            ChannelMode::ReliableOrdered if ahead >= 0x8000 || self.find(sequence).is_some() => Verdict::Drop,
            ChannelMode::ReliableOrdered if ahead >= WINDOW || usize::from(self.held_len) >= HELD_MAX => {
                Verdict::Refuse
            }
            ChannelMode::ReliableOrdered => Verdict::Hold,
        }
    }

    /// A message was judged to be delivered, and is.
    pub fn delivered(&mut self, sequence: u16) {
        match self.mode {
            ChannelMode::Unreliable => {}
            ChannelMode::UnreliableOrdered | ChannelMode::ReliableOrdered => {
                self.next = sequence.wrapping_add(1)
            }
            ChannelMode::Reliable => {
                self.set_had(sequence, true);
                while self.was_had(self.next) {
                    self.set_had(self.next, false);
                    self.next = self.next.wrapping_add(1);
                }
            }
        }
    }

    /// Holds a message that was judged to be held.
    pub fn hold(&mut self, sequence: u16, held: Held) {
        self.held[usize::from(self.held_len)] = (sequence, held);
        self.held_len += 1;
    }

    /// Takes the held message whose turn it is; it counts as delivered.
    pub fn take_next(&mut self) -> Option<(u16, Held)> {
        let at = self.find(self.next)?;
        let taken = self.held[at];
        self.held_len -= 1;
        self.held[at] = self.held[usize::from(self.held_len)];
        self.next = self.next.wrapping_add(1);
        Some(taken)
    }

    fn find(&self, sequence: u16) -> Option<usize> {
        self.held[..usize::from(self.held_len)].iter().position(|&(held, _)| held == sequence)
    }

    fn was_had(&self, sequence: u16) -> bool {
        let bit = usize::from(sequence % WINDOW);
        self.had[bit / 64] >> (bit % 64) & 1 == 1
    }

    fn set_had(&mut self, sequence: u16, had: bool) {
        let bit = usize::from(sequence % WINDOW);
        let word = &mut self.had[bit / 64];
        *word = *word & !(1 << (bit % 64)) | u64::from(had) << (bit % 64);
    }
}

const _: () = assert!(is_newer(WINDOW, 0) && (1 << 16) % WINDOW as u32 == 0);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// Over several wraps, in windows shuffled at random: everything once.
    #[test]
    fn reliable_takes_everything_once() {
        let mut rng = Rng::new(5);
        let mut channel = Incoming::new(ChannelMode::Reliable);
        let (mut base, mut had) = (0u64, std::collections::BTreeSet::new());
        for _ in 0..600_000 {
            let at = base + u64::from(rng.below(1100));
            let before = rng.chance(1, 20) && base > 2000;
            let at = if before { base - 1 - u64::from(rng.below(1000)) } else { at };
            let expected = if before || had.contains(&at) {
                Verdict::Drop
            } else if at >= base + 1024 {
                Verdict::Refuse
            } else {
                Verdict::Deliver
            };
            assert_eq!(channel.judge(at as u16), expected, "{at} at {base}");
            assert_eq!(channel.probe(1, at as u16), expected);
            if expected == Verdict::Deliver {
                channel.delivered(at as u16);
                had.insert(at);
                while had.remove(&base) {
                    base += 1;
                }
            }
        }
        assert!(base > 70_000, "{base}");
    }

    #[test]
    fn ordered_holds_64_and_refuses_the_rest() {
        let mut channel = Incoming::new(ChannelMode::ReliableOrdered);
        channel.reset(65_500, |_| {});
        assert_eq!(channel.judge(65_499), Verdict::Drop);
        for ahead in 1..=64u16 {
            let sequence = 65_500u16.wrapping_add(ahead * 10);
            assert_eq!(channel.judge(sequence), Verdict::Hold);
            channel.hold(sequence, Held::Parts(0));
            assert_eq!(channel.judge(sequence), Verdict::Drop);
        }
        assert_eq!(channel.judge(65_501), Verdict::Refuse);
        assert_eq!(channel.judge(65_500), Verdict::Deliver);
        assert_eq!(channel.probe(7, 65_501), Verdict::Refuse);
        assert_eq!(channel.probe(7, 65_500), Verdict::Deliver);
        assert_eq!(channel.probe(7, 65_501), Verdict::Deliver, "after that one");
        channel.delivered(65_500);
        assert_eq!(channel.take_next(), None);
        let far = Incoming::new(ChannelMode::ReliableOrdered);
        assert_eq!((far.judge(1023), far.judge(1024)), (Verdict::Hold, Verdict::Refuse));
    }

    #[test]
    fn a_probe_counts_what_the_packet_itself_frees_and_takes() {
        let mut channel = Incoming::new(ChannelMode::ReliableOrdered);
        (2..=65).for_each(|sequence| channel.hold(sequence, Held::Parts(0)));
        assert_eq!(channel.probe(1, 70), Verdict::Refuse);
        assert_eq!(channel.probe(2, 0), Verdict::Deliver);
        assert_eq!(channel.probe(2, 1), Verdict::Deliver);
        (0..64).for_each(|ahead| assert_eq!(channel.probe(2, 70 + ahead), Verdict::Hold));
        assert_eq!(channel.probe(2, 140), Verdict::Refuse);
        assert_eq!(channel.judge(0), Verdict::Deliver, "a probe changes nothing");
    }

    #[test]
    fn unreliable_ordered_never_goes_back() {
        let mut channel = Incoming::new(ChannelMode::UnreliableOrdered);
        let taken: Vec<u16> = [0, 1, 5, 3, 5, 6, 40_000, 2]
            .into_iter()
            .filter(|&sequence| {
                let taken = channel.judge(sequence) == Verdict::Deliver;
                if taken {
                    channel.delivered(sequence);
                }
                taken
            })
            .collect();
        assert_eq!(taken, [0, 1, 5, 6]);
    }
}
