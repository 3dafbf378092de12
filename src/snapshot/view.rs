//! One client's knowledge of its room: which snapshot it has, and what in it is known to be wrong.

use crate::time::Tick;

/// What a client is known to hold.
///
/// A snapshot that could not hold every change leaves entities at the client that differ from the server's at that
/// tick. They are *stale* there; whether the client has something at that index at all is its *presence* bit. A later
/// snapshot against that baseline sends them whole.
#[derive(Debug)]
pub struct View {
    baseline: Option<Tick>,
    /// Per sent snapshot, by slot: its tick, and whether anything in it is stale.
    sent: Box<[SentFrame]>,
    /// `words` words of stale bits and as many of presence bits per slot.
    bits: Box<[u64]>,
    words: usize,
    interval: u32,
    /// Per entity index: low half of the tick at which it was last sent.
    sent_at: Box<[u16]>,
}

#[derive(Clone, Copy, Debug)]
struct SentFrame {
    tick: Option<Tick>,
    is_exact: bool,
}

/// The stale and presence bits of one snapshot.
#[derive(Clone, Copy, Debug)]
pub(super) struct StaleSet<'a> {
    stale: &'a [u64],
    present: &'a [u64],
}

impl View {
    /// A client that has nothing, in a room of `entities_max` entities with a snapshot every `interval` ticks.
    pub fn new(entities_max: usize, interval: u32) -> Self {
        let frames = super::frames_for(interval);
        let words = (entities_max + 1).div_ceil(64);
        Self {
            baseline: None,
            sent: vec![SentFrame { tick: None, is_exact: true }; frames].into_boxed_slice(),
            bits: vec![0; frames * words * 2].into_boxed_slice(),
            words,
            interval,
            sent_at: vec![0; entities_max + 1].into_boxed_slice(),
        }
    }

    /// Back to a client that has nothing.
    pub fn reset(&mut self) {
        self.baseline = None;
        self.sent.fill(SentFrame { tick: None, is_exact: true });
        self.sent_at.fill(0);
    }

    /// The client acknowledged the snapshot of `tick`.
    pub fn acknowledged(&mut self, tick: Tick) {
        let is_newer = self.baseline.is_none_or(|before| tick.since(before).wrapping_sub(1) < u32::MAX / 2);
        if is_newer {
            self.baseline = Some(tick);
        }
    }

    /// The newest snapshot that the client acknowledged.
    pub fn baseline(&self) -> Option<Tick> {
        self.baseline
    }

    /// What is stale in the sent snapshot of `tick`; `None` when nothing is.
    pub(super) fn stale(&self, tick: Tick) -> Option<StaleSet<'_>> {
        let slot = self.slot(tick);
        let frame = &self.sent[slot];
        if frame.tick != Some(tick) || frame.is_exact {
            return None;
        }
        let (stale, present) = self.bits[slot * self.words * 2..][..self.words * 2].split_at(self.words);
        Some(StaleSet { stale, present })
    }

    /// Whether the client's state at `tick` is known at all.
    pub(super) fn knows(&self, tick: Tick) -> bool {
        self.sent[self.slot(tick)].tick == Some(tick)
    }

    /// Records that the snapshot of `tick` was sent and holds everything.
    pub fn sent_exact(&mut self, tick: Tick) {
        let slot = self.slot(tick);
        self.sent[slot] = SentFrame { tick: Some(tick), is_exact: true };
    }

    /// Records that the snapshot of `tick` was sent and leaves things stale: `stale` and `present` are bits by index.
    pub(super) fn sent_stale(&mut self, tick: Tick, stale: &[u64], present: &[u64]) {
        let slot = self.slot(tick);
        self.sent[slot] = SentFrame { tick: Some(tick), is_exact: false };
        let (stale_to, present_to) =
            self.bits[slot * self.words * 2..][..self.words * 2].split_at_mut(self.words);
        stale_to.copy_from_slice(stale);
        present_to.copy_from_slice(present);
    }

    /// Ticks since the entity at `index` was last sent, as far as 16 bits tell.
    pub(super) fn unsent_ticks(&self, index: u32, now: Tick) -> u16 {
        (now.0 as u16).wrapping_sub(self.sent_at[index as usize])
    }

    /// Records that the entity at `index` is sent at `now`.
    pub(super) fn mark_sent(&mut self, index: u32, now: Tick) {
        self.sent_at[index as usize] = now.0 as u16;
    }

    fn slot(&self, tick: Tick) -> usize {
        (tick.0 / self.interval) as usize % self.sent.len()
    }
}

impl StaleSet<'_> {
    /// Whether the client has anything at a stale `index`.
    pub(super) fn is_present(&self, index: u32) -> bool {
        self.present[index as usize / 64] >> (index % 64) & 1 == 1
    }

    /// How many words of stale bits there are.
    pub(super) fn words(&self) -> usize {
        self.stale.len()
    }

    /// One word of stale bits: bit b of word w stands for index 64 w + b.
    pub(super) fn word(&self, word: usize) -> u64 {
        self.stale[word]
    }
}
