//! A table of fixed size keyed by 128-bit values that strangers choose (addresses): when it is full, the entry least
//! recently touched makes way.

use super::index::Index;

/// Values by key, the least recently used one evicted. Look-ups take constant time on average.
#[derive(Debug)]
pub struct Lru<T> {
    entries: Box<[Entry<T>]>,
    index: Index,
    len: u32,
    newest: u32,
    oldest: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    key: u128,
    newer: u32,
    older: u32,
    value: T,
}

const NONE: u32 = u32::MAX;

impl<T: Copy> Lru<T> {
    /// An empty table for `capacity` entries, hashed with `secret`.
    ///
    /// # Panics
    /// When `capacity` is 0.
    pub fn new(capacity: usize, secret: [u64; 2], filler: T) -> Self {
        assert!(capacity > 0, "an empty table has nobody to evict");
        Self {
            entries: vec![Entry { key: 0, newer: NONE, older: NONE, value: filler }; capacity]
                .into_boxed_slice(),
            index: Index::new(capacity, secret),
            len: 0,
            newest: NONE,
            oldest: NONE,
        }
    }

    /// The slot and value of `key`, without touching its age.
    pub fn peek(&self, key: u128) -> Option<(usize, &T)> {
        let slot = self.index.get(key)? as usize;
        Some((slot, &self.entries[slot].value))
    }

    /// The slot and value of `key`, now the most recently used. A new key starts from `fresh`; when the table is full
    /// it takes the slot of the least recently used entry, whose value comes back as the third item.
    pub fn touch(&mut self, key: u128, fresh: T) -> (usize, &mut T, Option<T>) {
        if let Some(slot) = self.index.get(key) {
            self.unlink(slot);
            self.link_newest(slot);
            return (slot as usize, &mut self.entries[slot as usize].value, None);
        }
        let (slot, evicted) = if (self.len as usize) < self.entries.len() {
            self.len += 1;
            (self.len - 1, None)
        } else {
            let slot = self.oldest;
            self.unlink(slot);
            self.index.remove(self.entries[slot as usize].key);
            (slot, Some(self.entries[slot as usize].value))
        };
        self.entries[slot as usize] = Entry { key, newer: NONE, older: NONE, value: fresh };
        self.index.insert(key, slot);
        self.link_newest(slot);
        (slot as usize, &mut self.entries[slot as usize].value, evicted)
    }

    /// Key and value of an occupied slot.
    pub fn slot(&self, slot: usize) -> Option<(u128, &T)> {
        (slot < self.len as usize).then(|| (self.entries[slot].key, &self.entries[slot].value))
    }

    /// Value of an occupied slot.
    pub fn slot_mut(&mut self, slot: usize) -> Option<&mut T> {
        if slot < self.len as usize { Some(&mut self.entries[slot].value) } else { None }
    }

    /// How many entries it holds.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many entries it can hold.
    pub fn capacity(&self) -> usize {
        self.entries.len()
    }

    fn unlink(&mut self, slot: u32) {
        let Entry { newer, older, .. } = self.entries[slot as usize];
        match self.entries.get_mut(newer as usize) {
            Some(entry) => entry.older = older,
            None => self.newest = older,
        }
        match self.entries.get_mut(older as usize) {
            Some(entry) => entry.newer = newer,
            None => self.oldest = newer,
        }
    }

    fn link_newest(&mut self, slot: u32) {
        let before = self.newest;
        let entry = &mut self.entries[slot as usize];
        entry.newer = NONE;
        entry.older = before;
        match self.entries.get_mut(before as usize) {
            Some(entry) => entry.newer = slot,
            None => self.oldest = slot,
        }
        self.newest = slot;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// Against a plain list ordered by use, with few distinct keys so that everything collides and returns.
    #[test]
    fn agrees_with_a_list() {
        let mut rng = Rng::new(5);
        let mut lru = Lru::new(8, [1, 2], 0u32);
        let mut model: Vec<(u128, u32)> = Vec::new();
        for step in 1..20_000u32 {
            let key = u128::from(rng.below(20)) << 64;
            assert_eq!(lru.peek(key).map(|(_, &v)| v), model.iter().find(|e| e.0 == key).map(|e| e.1));
            let evicted_by_model = match model.iter().position(|e| e.0 == key) {
                Some(at) => {
                    let mut entry = model.remove(at);
                    entry.1 += 1;
                    model.push(entry);
                    None
                }
                None => {
                    let evicted = (model.len() == 8).then(|| model.remove(0).1);
                    model.push((key, step + 1));
                    evicted
                }
            };
            let (slot, value, evicted) = lru.touch(key, step);
            *value += 1;
            assert_eq!(evicted, evicted_by_model);
            assert_eq!(lru.slot(slot).map(|(k, _)| k), Some(key));
            assert_eq!(lru.len(), model.len());
        }
        assert_eq!(lru.slot(8), None);
    }
}
