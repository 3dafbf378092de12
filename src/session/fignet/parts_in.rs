//! Messages that come in fragments (section 6). The buffers of a whole message are claimed with its first fragment,
//! and a peer has at most [`FRAGMENT_SETS_MAX`] such messages under way.

use super::pools::{FRAGMENT_SETS_MAX, FragmentBuffers};
use crate::session::fignet::parts_out::mask_of;
use crate::storage::is_newer;
use crate::time::{Duration, Instant};
use crate::wire::fignet::MESSAGE_SEQUENCE_BYTES;
use crate::wire::fignet::fragment::{FRAGMENTS_MAX, Fragment, FragmentAck};

/// What is to become of a fragment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PartVerdict {
    /// It disagrees with those before it.
    Malformed,
    /// Its message was given up.
    GivenUp,
    /// It was had before, or its message was.
    Had,
    /// It begins a message.
    Begin,
    /// It goes on with one.
    Store,
    /// It is the last that was missing.
    Complete,
}

#[derive(Clone, Copy, Debug)]
struct PartsIn {
    id: u16,
    channel: u8,
    total: u8,
    received: u64,
    touched: Instant,
    places: [u32; FRAGMENTS_MAX],
}

/// The messages of a peer that come in fragments.
#[derive(Debug)]
pub struct PartsInTable {
    slots: Box<[Option<PartsIn>; FRAGMENT_SETS_MAX]>,
    timeout: Duration,
    /// The newest number seen, if any was.
    newest: Option<u16>,
    /// Bit n: number `newest` − n is over: whole, or given up.
    whole: u64,
    given_up: u64,
    /// FRAGMENT_ACKs to be sent, oldest first.
    acks: [FragmentAck; ACKS_MAX],
    acks_len: u8,
}

/// FRAGMENT_ACKs that wait at most; what is beyond is told by the acknowledgement of its packet.
const ACKS_MAX: usize = 8;

impl PartsInTable {
    /// None.
    pub fn new(timeout: Duration) -> Self {
        Self {
            slots: Box::new([None; FRAGMENT_SETS_MAX]),
            timeout,
            newest: None,
            whole: 0,
            given_up: 0,
            acks: [FragmentAck { id: 0, received: 0 }; ACKS_MAX],
            acks_len: 0,
        }
    }

    /// Forgets all, and gives it back.
    pub fn reset(&mut self, fragments: &mut FragmentBuffers) {
        for parts in self.slots.iter_mut().filter_map(Option::take) {
            fragments.release(&parts.places[..usize::from(parts.total)]);
        }
        self.newest = None;
        (self.whole, self.given_up) = (0, 0);
        self.acks_len = 0;
    }

    /// How many more messages may begin.
    pub fn free(&self) -> usize {
        self.slots.iter().filter(|slot| slot.is_none()).count()
    }

    /// What is to become of a fragment. Nothing changes.
    pub fn judge(&self, channel: u8, fragment: &Fragment<'_>) -> PartVerdict {
        let bit = 1 << fragment.index;
        if let Some(parts) = self.slots.iter().flatten().find(|parts| parts.id == fragment.id) {
            return if (parts.channel, parts.total) != (channel, fragment.total) {
                PartVerdict::Malformed
            } else if parts.received & bit != 0 {
                PartVerdict::Had
            } else if parts.received | bit == mask_of(parts.total) {
                PartVerdict::Complete
            } else {
                PartVerdict::Store
            };
        }
        let Some(newest) = self.newest else { return PartVerdict::Begin };
        if is_newer(fragment.id, newest) {
            return PartVerdict::Begin;
        }
        let behind = newest.wrapping_sub(fragment.id);
        if behind >= 64 || self.whole >> behind & 1 == 1 {
            PartVerdict::Had
        } else if self.given_up >> behind & 1 == 1 {
            PartVerdict::GivenUp
        } else {
            PartVerdict::Begin
        }
    }

    /// The sequence that the message will have which `fragment` completes; `None` when it is too short for one.
    pub fn sequence(&self, fragment: &Fragment<'_>, fragments: &FragmentBuffers) -> Option<u16> {
        let first = if fragment.index == 0 {
            fragment.data
        } else {
            let parts = self.slots.iter().flatten().find(|parts| parts.id == fragment.id)?;
            fragments.data(parts.places[0])
        };
        first.first_chunk::<MESSAGE_SEQUENCE_BYTES>().map(|&bytes| u16::from_le_bytes(bytes))
    }

    /// Stores a fragment that was judged to be stored, or had. Returns the slot of a message that is now whole.
    pub fn store(
        &mut self,
        now: Instant,
        channel: u8,
        fragment: &Fragment<'_>,
        fragments: &mut FragmentBuffers,
    ) -> Option<u8> {
        let verdict = self.judge(channel, fragment);
        let slot = match verdict {
            PartVerdict::Malformed | PartVerdict::GivenUp => return None,
            PartVerdict::Had => {
                let known = self.slots.iter().flatten().find(|parts| parts.id == fragment.id);
                let received = known.map_or(mask_of(fragment.total), |parts| parts.received);
                self.owe(FragmentAck { id: fragment.id, received });
                return None;
            }
            PartVerdict::Begin => self.begin(channel, fragment, fragments)?,
            PartVerdict::Store | PartVerdict::Complete => {
                let is_it =
                    |slot: &Option<PartsIn>| slot.as_ref().is_some_and(|parts| parts.id == fragment.id);
                self.slots.iter().position(is_it)?
            }
        };
        let parts = self.slots[slot].as_mut()?;
        fragments.store(parts.places[usize::from(fragment.index)], fragment.data);
        parts.received |= 1 << fragment.index;
        parts.touched = now;
        let ack = FragmentAck { id: parts.id, received: parts.received };
        let is_whole = parts.received == mask_of(parts.total);
        self.owe(ack);
        if is_whole {
            self.whole |= self.bit_of(fragment.id);
        }
        is_whole.then_some(slot as u8)
    }

    /// Puts a whole message together in `out`: its sequence, and its length without it.
    ///
    /// # Panics
    /// When there is none in `slot`.
    pub fn assemble(&self, slot: u8, fragments: &FragmentBuffers, out: &mut [u8]) -> (u16, usize) {
        let parts = self.slots[usize::from(slot)].as_ref().expect("a slot in use");
        let mut sequence = 0;
        let mut len = 0;
        for (index, &place) in parts.places[..usize::from(parts.total)].iter().enumerate() {
            let mut data = fragments.data(place);
            if index == 0
                && let Some((&head, tail)) = data.split_first_chunk::<MESSAGE_SEQUENCE_BYTES>()
            {
                sequence = u16::from_le_bytes(head);
                data = tail;
            }
            out[len..len + data.len()].copy_from_slice(data);
            len += data.len();
        }
        (sequence, len)
    }

    /// Forgets a message, and gives it back.
    pub fn release(&mut self, slot: u8, fragments: &mut FragmentBuffers) {
        if let Some(parts) = self.slots[usize::from(slot)].take() {
            fragments.release(&parts.places[..usize::from(parts.total)]);
        }
    }

    /// Gives up a message of which nothing new came for too long; returns its channel.
    pub fn give_up(&mut self, now: Instant, fragments: &mut FragmentBuffers) -> Option<u8> {
        let timeout = self.timeout;
        let is_late = |parts: &PartsIn| !parts.is_whole() && parts.touched + timeout <= now;
        let slot = self.slots.iter().position(|slot| slot.as_ref().is_some_and(is_late))?;
        let (id, channel) = self.slots[slot].as_ref().map(|parts| (parts.id, parts.channel))?;
        self.release(slot as u8, fragments);
        self.given_up |= self.bit_of(id);
        self.say_given_up(id);
        Some(channel)
    }

    /// When a message is next given up.
    pub fn next_give_up(&self) -> Option<Instant> {
        let open = self.slots.iter().flatten().filter(|parts| !parts.is_whole());
        open.map(|parts| parts.touched + self.timeout).min()
    }

    /// The sender is to be told that `id` was given up.
    pub fn say_given_up(&mut self, id: u16) {
        self.owe(FragmentAck { id, received: 0 });
    }

    /// The next FRAGMENT_ACK to be sent.
    pub fn ack(&self) -> Option<FragmentAck> {
        (self.acks_len > 0).then(|| self.acks[0])
    }

    /// It is sent.
    pub fn ack_sent(&mut self) {
        self.acks[..usize::from(self.acks_len)].rotate_left(1);
        self.acks_len -= 1;
    }

    fn owe(&mut self, ack: FragmentAck) {
        let len = usize::from(self.acks_len);
        if let Some(owed) = self.acks[..len].iter_mut().find(|owed| owed.id == ack.id) {
            *owed = ack;
        } else if len < ACKS_MAX {
            self.acks[len] = ack;
            self.acks_len += 1;
        }
    }

    fn begin(
        &mut self,
        channel: u8,
        fragment: &Fragment<'_>,
        fragments: &mut FragmentBuffers,
    ) -> Option<usize> {
        let slot = self.slots.iter().position(Option::is_none)?;
        let total = usize::from(fragment.total);
        if total > fragments.free() {
            return None;
        }
        let mut places = [0; FRAGMENTS_MAX];
        fragments.claim(&mut places[..total]);
        let (id, total) = (fragment.id, fragment.total);
        self.slots[slot] = Some(PartsIn { id, channel, total, received: 0, touched: Instant::ZERO, places });
        match self.newest {
            Some(newest) if !is_newer(id, newest) => {}
            Some(newest) => {
                let ahead = u32::from(id.wrapping_sub(newest));
                self.whole = self.whole.checked_shl(ahead).unwrap_or(0);
                self.given_up = self.given_up.checked_shl(ahead).unwrap_or(0);
                self.newest = Some(id);
            }
            None => self.newest = Some(id),
        }
        Some(slot)
    }

    fn bit_of(&self, id: u16) -> u64 {
        let behind = self.newest.map_or(0, |newest| newest.wrapping_sub(id));
        1u64.checked_shl(u32::from(behind)).unwrap_or(0)
    }
}

impl PartsIn {
    fn is_whole(&self) -> bool {
        self.received == mask_of(self.total)
    }
}
