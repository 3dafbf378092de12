//! One channel's messages on their way out: queued, in flight, lost, or in fragments (section 5).

use super::config::ChannelMode;
use super::pools::{Buffers, Chain};
use crate::storage::Ring;

/// Messages of an ordered channel that may be ahead of the oldest unconfirmed one: what a receiver has to hold.
pub const AHEAD_MAX: usize = 64;

/// Where a message stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Never sent.
    Queued,
    /// In a packet under way.
    InFlight,
    /// Its packet is lost.
    Lost,
    /// In fragments, of which the [`super::parts_out::PartsOut`] take care.
    InParts,
    /// Confirmed.
    Done,
}

/// A message that waits.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its bytes, sequence first.
    pub chain: Chain,
    /// Where it stands.
    pub stage: Stage,
    /// How often it was sent again.
    pub retries: u8,
    /// To be told when the packet with it is acknowledged.
    pub token: Option<u32>,
}

/// The sending side of a channel.
#[derive(Debug)]
pub struct Outgoing {
    mode: ChannelMode,
    ring: Ring<Entry>,
    /// Sequence of the ring's oldest.
    first: u16,
    /// How many of the ring's oldest were sent.
    sent: u16,
    lost: u16,
    /// Messages confirmed, and their bytes with their sequences.
    confirmed: (u64, u64),
    /// The fragments of the newest of those sent are not all sent yet.
    pub in_parts: bool,
}

/// A message was lost once too often.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooManyRetries;

impl Outgoing {
    /// An empty queue of `queue_len` messages.
    pub fn new(mode: ChannelMode, queue_len: usize) -> Self {
        let filler = Entry { chain: Chain::EMPTY, stage: Stage::Done, retries: 0, token: None };
        Self {
            mode,
            ring: Ring::new(queue_len, filler),
            first: 0,
            sent: 0,
            lost: 0,
            confirmed: (0, 0),
            in_parts: false,
        }
    }

    /// What the channel promises.
    pub const fn mode(&self) -> ChannelMode {
        self.mode
    }

    /// Forgets everything; `release` is given the bytes of each message still held.
    pub fn reset(&mut self, first: u16, mut release: impl FnMut(Chain)) {
        self.ring.iter().filter(|entry| entry.stage != Stage::Done).for_each(|entry| release(entry.chain));
        self.ring.clear();
        self.first = first;
        (self.sent, self.lost) = (0, 0);
        self.confirmed = (0, 0);
        self.in_parts = false;
    }

    /// The sequence that the next message will have.
    pub fn next_sequence(&self) -> u16 {
        self.first.wrapping_add(self.ring.len() as u16)
    }

    /// Whether no more messages fit.
    pub fn is_full(&self) -> bool {
        self.ring.len() == self.ring.capacity()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty() && !self.in_parts
    }

    /// How many messages wait or are unconfirmed.
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// Messages confirmed, and their bytes with their sequences.
    pub const fn confirmed(&self) -> (u64, u64) {
        self.confirmed
    }

    /// Adds a message.
    ///
    /// # Panics
    /// When the queue is full.
    pub fn push(&mut self, chain: Chain, token: Option<u32>) {
        let entry = Entry { chain, stage: Stage::Queued, retries: 0, token };
        self.ring.push(entry).expect("the caller looked whether there is room");
    }

    /// Takes the oldest message of an unreliable channel out, to make room.
    pub fn drop_oldest(&mut self) -> Option<Chain> {
        let entry = self.ring.pop()?;
        self.first = self.first.wrapping_add(1);
        Some(entry.chain)
    }

    /// Whether a lost message is to be sent again.
    pub const fn has_lost(&self) -> bool {
        self.lost > 0
    }

    /// Whether a message may be sent for the first time.
    pub fn has_queued(&self) -> bool {
        let sent = usize::from(self.sent);
        sent < self.ring.len() && (self.mode != ChannelMode::ReliableOrdered || sent < AHEAD_MAX)
    }

    /// The oldest lost message that is at most `len_max` long: its sequence and itself.
    pub fn lost(&self, len_max: usize) -> Option<(u16, Entry)> {
        let mut lost = self.ring.iter().take(usize::from(self.sent)).enumerate();
        lost.find(|(_, entry)| entry.stage == Stage::Lost && entry.chain.len() <= len_max)
            .map(|(index, entry)| (self.first.wrapping_add(index as u16), *entry))
    }

    /// The next message to be sent for the first time: its sequence and itself.
    pub fn queued(&self) -> Option<(u16, Entry)> {
        let entry = self.ring.get(usize::from(self.sent))?;
        Some((self.first.wrapping_add(self.sent), *entry))
    }

    /// The message of [`Outgoing::lost`] or [`Outgoing::queued`] is sent as `stage`. One of an unreliable channel is
    /// forgotten with that: its bytes are the caller's.
    pub fn mark(&mut self, sequence: u16, stage: Stage) {
        if !self.mode.is_reliable() {
            self.drop_oldest();
            return;
        }
        let index = usize::from(sequence.wrapping_sub(self.first));
        if let Some(entry) = self.ring.get_mut(index) {
            self.lost -= u16::from(entry.stage == Stage::Lost);
            self.sent += u16::from(entry.stage == Stage::Queued);
            entry.stage = stage;
        }
    }

    /// The packet with a message is acknowledged, or all its fragments are: its bytes are given to `release`, and
    /// `pop` is told of each message that leaves the queue, whether it went in fragments.
    pub fn confirm(&mut self, sequence: u16, buffers: &mut Buffers) {
        let index = usize::from(sequence.wrapping_sub(self.first));
        let Some(entry) = self.ring.get_mut(index) else { return };
        if matches!(entry.stage, Stage::Queued | Stage::Done) {
            return;
        }
        self.lost -= u16::from(entry.stage == Stage::Lost);
        self.confirmed = (self.confirmed.0 + 1, self.confirmed.1 + entry.chain.len() as u64);
        entry.stage = Stage::Done;
        buffers.release(entry.chain);
        while self.ring.get(0).is_some_and(|entry| entry.stage == Stage::Done) {
            self.ring.pop();
            self.first = self.first.wrapping_add(1);
            self.sent -= 1;
        }
    }

    /// Whether `sequence` left the queue: it and all before it are confirmed.
    pub fn is_past(&self, sequence: u16) -> bool {
        usize::from(sequence.wrapping_sub(self.first)) >= self.ring.len()
    }

    /// The packet with a message is lost: it is to be sent again, unless that was done `retries_max` times.
    pub fn lose(&mut self, sequence: u16, retries_max: u8) -> Result<(), TooManyRetries> {
        let index = usize::from(sequence.wrapping_sub(self.first));
        let Some(entry) = self.ring.get_mut(index) else { return Ok(()) };
        if entry.stage != Stage::InFlight {
            return Ok(());
        }
        if entry.retries >= retries_max {
            return Err(TooManyRetries);
        }
        entry.retries += 1;
        entry.stage = Stage::Lost;
        self.lost += 1;
        Ok(())
    }
}
