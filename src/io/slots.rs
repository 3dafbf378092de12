//! Fixed slots for stream connections, the same for every backend.
//!
//! A slot is *open* until the core closes its stream or the peer ends it. A stream that the core closed then *lingers*:
//! its last bytes are flushed, our side is shut down, and what still arrives is read and thrown away until the peer
//! closes too, for otherwise the kernel would answer unread bytes with a reset, and the peer would lose our last
//! message. Lingering ends after [`LINGER_MAX`](crate::io::LINGER_MAX), or earlier when a newcomer needs the slot.

use std::ops::{Index, IndexMut};

use crate::io::STREAM_OUTPUT_BYTES;
use crate::seam::StreamId;
use crate::time::Instant;

/// All slots, for connections of type `C`.
#[derive(Debug)]
pub(super) struct Slots<C> {
    slots: Vec<Slot<C>>,
    free: Vec<u32>,
    /// The lingering slots as a list through the slots, oldest first.
    oldest: u32,
    newest: u32,
}

#[derive(Debug)]
pub(super) struct Slot<C> {
    /// The connection, unless the slot is free.
    pub(super) connection: Option<C>,
    generation: u32,
    /// When lingering: until when. Otherwise open.
    lingers_until: Option<Instant>,
    older: u32,
    newer: u32,
    output: [u8; STREAM_OUTPUT_BYTES],
    output_len: usize,
}

const NONE: u32 = u32::MAX;

impl<C> Slot<C> {
    /// Whether the core has closed the stream.
    pub(super) fn is_lingering(&self) -> bool {
        self.lingers_until.is_some()
    }

    /// Bytes that wait to be written.
    pub(super) fn output(&self) -> &[u8] {
        &self.output[..self.output_len]
    }

    /// Keeps `bytes` behind what waits to be written already. Returns whether there was room.
    pub(super) fn keep(&mut self, bytes: &[u8]) -> bool {
        let end = self.output_len + bytes.len();
        let Some(room) = self.output.get_mut(self.output_len..end) else { return false };
        room.copy_from_slice(bytes);
        self.output_len = end;
        true
    }

    /// The first `count` of the waiting bytes were written.
    pub(super) fn consume(&mut self, count: usize) {
        self.output.copy_within(count..self.output_len, 0);
        self.output_len -= count;
    }
}

impl<C> Slots<C> {
    /// Slots for `max` connections.
    pub(super) fn new(max: usize) -> Self {
        assert!(max < NONE as usize, "more stream slots than numbers for them");
        let slot = || Slot {
            connection: None,
            generation: 0,
            lingers_until: None,
            older: NONE,
            newer: NONE,
            output: [0; STREAM_OUTPUT_BYTES],
            output_len: 0,
        };
        Self {
            slots: (0..max).map(|_| slot()).collect(),
            free: (0..max as u32).rev().collect(),
            oldest: NONE,
            newest: NONE,
        }
    }

    /// How many slots are taken, lingering ones included.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The connection of slot `index` as the core knows it.
    pub(super) fn id(&self, index: u32) -> StreamId {
        StreamId { index, generation: self[index].generation }
    }

    /// Whether `id` is the connection that its slot has now.
    pub(super) fn holds(&self, id: StreamId) -> bool {
        let slot = self.slots.get(id.index as usize);
        slot.is_some_and(|slot| slot.generation == id.generation && slot.connection.is_some())
    }

    /// The slot that has lingered longest, and until when it may.
    pub(super) fn oldest_lingering(&self) -> Option<(u32, Instant)> {
        let slot = self.slots.get(self.oldest as usize)?;
        slot.lingers_until.map(|until| (self.oldest, until))
    }

    /// Takes a free slot, if there is one, to be occupied or given back.
    pub(super) fn reserve(&mut self) -> Option<StreamId> {
        self.free.pop().map(|index| self.id(index))
    }

    /// Gives back a reserved slot that was not occupied.
    pub(super) fn unreserve(&mut self, id: StreamId) {
        self.free.push(id.index);
    }

    /// Puts `connection` into the slot reserved for it.
    pub(super) fn occupy(&mut self, id: StreamId, connection: C) {
        let slot = &mut self[id.index];
        let is_reserved = slot.connection.is_none() && slot.generation == id.generation;
        assert!(is_reserved, "occupied a slot that was not reserved");
        slot.connection = Some(connection);
    }

    /// The core has closed the stream in slot `index`: it lingers until `until`, which is never before that of others.
    pub(super) fn linger(&mut self, index: u32, until: Instant) {
        let newest = self.newest;
        let slot = &mut self[index];
        slot.lingers_until = Some(until);
        slot.older = newest;
        slot.newer = NONE;
        match self.slots.get_mut(newest as usize) {
            Some(newest) => newest.newer = index,
            None => self.oldest = index,
        }
        self.newest = index;
    }

    /// Frees slot `index`. Returns the connection that was in it.
    pub(super) fn vacate(&mut self, index: u32) -> C {
        let slot = &mut self[index];
        let connection = slot.connection.take().expect("the connection of a slot that is vacated");
        slot.generation = slot.generation.wrapping_add(1);
        slot.output_len = 0;
        let (older, newer) = (slot.older, slot.newer);
        if slot.lingers_until.take().is_some() {
            match self.slots.get_mut(older as usize) {
                Some(slot) => slot.newer = newer,
                None => self.oldest = newer,
            }
            match self.slots.get_mut(newer as usize) {
                Some(slot) => slot.older = older,
                None => self.newest = older,
            }
        }
        self.free.push(index);
        connection
    }
}

impl<C> Index<u32> for Slots<C> {
    type Output = Slot<C>;

    fn index(&self, index: u32) -> &Slot<C> {
        &self.slots[index as usize]
    }
}

impl<C> IndexMut<u32> for Slots<C> {
    fn index_mut(&mut self, index: u32) -> &mut Slot<C> {
        &mut self.slots[index as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whichever of the lingering goes first, those left are found in their order.
    #[test]
    fn lingering_slots_are_kept_in_order() {
        for gone in 0..3 {
            let mut slots = Slots::new(3);
            let ids: Vec<_> = (0..3)
                .map(|n| {
                    let id = slots.reserve().expect("a free slot");
                    slots.occupy(id, n);
                    slots.linger(id.index, Instant::from_nanos(n));
                    id
                })
                .collect();
            assert_eq!(slots.reserve(), None);
            assert_eq!(slots.vacate(ids[gone].index), gone as u64);
            assert!(!slots.holds(ids[gone]) && slots.len() == 2);
            for n in (0..3).filter(|n| *n != gone) {
                let oldest = (ids[n].index, Instant::from_nanos(n as u64));
                assert_eq!(slots.oldest_lingering(), Some(oldest), "without {gone}");
                slots.vacate(ids[n].index);
            }
            assert_eq!((slots.oldest_lingering(), slots.len()), (None, 0));
        }
    }

    #[test]
    fn output_is_kept_up_to_its_cap() {
        let mut slots = Slots::new(1);
        let id = slots.reserve().expect("a free slot");
        slots.occupy(id, ());
        let slot = &mut slots[id.index];
        assert!(slot.keep(&[1; STREAM_OUTPUT_BYTES - 1]) && !slot.keep(&[2; 2]) && slot.keep(&[3]));
        slot.consume(STREAM_OUTPUT_BYTES - 2);
        assert_eq!(slot.output(), [1, 3]);
        slots.vacate(id.index);
        assert!(slots[id.index].output().is_empty());
    }
}
