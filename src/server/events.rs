//! A room's events until everyone has them: each content once, however many sessions still carry it.

use crate::model::GameEvent;
use crate::time::Tick;

/// Fixed slots of events with the number of sessions that refer to each.
#[derive(Debug)]
pub(super) struct EventStore {
    slots: Box<[Slot]>,
    free: Vec<u16>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    tick: Tick,
    references: u8,
    event: Option<GameEvent>,
}

impl EventStore {
    pub(super) fn new(capacity: usize) -> Self {
        assert!(capacity <= usize::from(u16::MAX), "event slots have 16-bit names");
        Self {
            slots: vec![Slot { tick: Tick(0), references: 0, event: None }; capacity].into_boxed_slice(),
            free: (0..capacity as u16).rev().collect(),
        }
    }

    /// Keeps an event with one reference, the caller's. `None` when the store is full.
    pub(super) fn put(&mut self, tick: Tick, event: GameEvent) -> Option<u16> {
        let slot = self.free.pop()?;
        self.slots[usize::from(slot)] = Slot { tick, references: 1, event: Some(event) };
        Some(slot)
    }

    /// Adds a reference.
    pub(super) fn retain(&mut self, slot: u16) {
        let entry = &mut self.slots[usize::from(slot)];
        assert!(entry.references > 0, "a reference to an event that nobody holds");
        entry.references += 1;
    }

    /// Gives up a reference; with the last one the slot is free.
    pub(super) fn release(&mut self, slot: u16) {
        let entry = &mut self.slots[usize::from(slot)];
        assert!(entry.references > 0, "an event released more often than held");
        entry.references -= 1;
        if entry.references == 0 {
            entry.event = None;
            self.free.push(slot);
        }
    }

    /// An event that is held.
    pub(super) fn get(&self, slot: u16) -> Option<(Tick, &GameEvent)> {
        let entry = &self.slots[usize::from(slot)];
        entry.event.as_ref().map(|event| (entry.tick, event))
    }

    /// Whether no more can be kept.
    pub(super) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// How many are held.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{LeaveReason, PlayerId};

    #[test]
    fn the_last_reference_frees_the_slot() {
        let event = GameEvent::PlayerLeft { player: PlayerId::new(1).unwrap(), reason: LeaveReason::Left };
        let mut store = EventStore::new(2);
        let first = store.put(Tick(7), event).unwrap();
        store.retain(first);
        assert!(store.put(Tick(8), event).is_some());
        assert_eq!(store.put(Tick(9), event), None);
        store.release(first);
        assert_eq!(store.get(first), Some((Tick(7), &event)));
        store.release(first);
        assert_eq!((store.get(first), store.len()), (None, 1));
        assert_eq!(store.put(Tick(9), event), Some(first));
    }
}
