//! A hash index of fixed size from 128-bit keys that strangers choose (addresses, tokens) to slot numbers.

/// Open addressing with linear probing at a load of at most one half. The hash is keyed, so that nobody who does not
/// know the key can make entries collide.
#[derive(Debug)]
pub struct Index {
    places: Box<[Place]>,
    secret: [u64; 2],
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    key: u128,
    /// Slot number, or [`NONE`].
    slot: u32,
}

const NONE: u32 = u32::MAX;

impl Index {
    /// An empty index for at most `capacity` keys, hashed with `secret`.
    pub fn new(capacity: usize, secret: [u64; 2]) -> Self {
        let places = (capacity.max(1) * 2).next_power_of_two();
        Self { places: vec![Place { key: 0, slot: NONE }; places].into_boxed_slice(), secret, len: 0 }
    }

    /// The slot of `key`.
    pub fn get(&self, key: u128) -> Option<u32> {
        self.find(key).ok().map(|at| self.places[at].slot)
    }

    /// Sets the slot of `key`.
    ///
    /// # Panics
    /// When more keys are in than the index was made for, or `slot` is `u32::MAX`.
    pub fn insert(&mut self, key: u128, slot: u32) {
        assert!(slot != NONE, "slot number out of range");
        match self.find(key) {
            Ok(at) => self.places[at].slot = slot,
            Err(at) => {
                assert!(self.len < self.places.len() / 2, "an index over its capacity");
                self.places[at] = Place { key, slot };
                self.len += 1;
            }
        }
    }

    /// Takes `key` out and returns its slot.
    pub fn remove(&mut self, key: u128) -> Option<u32> {
        let mut hole = self.find(key).ok()?;
        let slot = self.places[hole].slot;
        let mask = self.places.len() - 1;
        let mut at = hole;
        // Entries that probed past the hole move back, so that they are still found.
        loop {
            at = (at + 1) & mask;
            if self.places[at].slot == NONE {
                break;
            }
            // One may move back only if its home is not between the hole (exclusive) and its place.
            let home = self.home(self.places[at].key);
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.places[hole] = self.places[at];
                hole = at;
            }
        }
        self.places[hole].slot = NONE;
        self.len -= 1;
        Some(slot)
    }

    /// How many keys are in.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none is in.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Place of `key`, or the free place where it belongs.
    fn find(&self, key: u128) -> Result<usize, usize> {
        let mask = self.places.len() - 1;
        let mut at = self.home(key);
        loop {
            let place = &self.places[at];
            if place.slot == NONE {
                return Err(at);
            }
            if place.key == key {
                return Ok(at);
            }
            at = (at + 1) & mask;
        }
    }

    fn home(&self, key: u128) -> usize {
        let fold = |a: u64, b: u64| {
            let product = u128::from(a) * u128::from(b);
            (product >> 64) as u64 ^ product as u64
        };
        let mixed = fold(key as u64 ^ self.secret[0], (key >> 64) as u64 ^ self.secret[1]);
        fold(mixed ^ self.secret[1], 0x9E37_79B9_7F4A_7C15) as usize & (self.places.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// Against a sorted map, with few distinct keys so that everything collides, leaves and returns.
    #[test]
    fn agrees_with_a_map() {
        let mut rng = Rng::new(8);
        let mut index = Index::new(16, [3, 4]);
        let mut model = std::collections::BTreeMap::new();
        for step in 0..50_000 {
            let key = u128::from(rng.below(24)) << 100;
            assert_eq!(index.get(key), model.get(&key).copied());
            if rng.chance(1, 2) && model.len() < 16 {
                index.insert(key, step);
                model.insert(key, step);
            } else {
                assert_eq!(index.remove(key), model.remove(&key));
            }
            assert_eq!(index.len(), model.len());
        }
    }
}
