//! A hash index of fixed size from keys that strangers choose (addresses, tokens) to slot numbers.

/// What an [`Index`] finds things by.
pub trait Key: Copy + Eq {
    /// What free places hold.
    const FILLER: Self;

    /// A hash that nobody can foretell who does not know `secret`.
    fn hash(self, secret: [u64; 2]) -> u64;
}

/// Open addressing with linear probing at a load of at most one half. The hash is keyed, so that nobody who does not
/// know the key can make entries collide.
#[derive(Debug)]
pub struct Index<K = u128> {
    places: Box<[Place<K>]>,
    secret: [u64; 2],
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Place<K> {
    key: K,
    /// Slot number, or [`NONE`].
    slot: u32,
}

const NONE: u32 = u32::MAX;

impl<K: Key> Index<K> {
    /// An empty index for at most `capacity` keys, hashed with `secret`.
    pub fn new(capacity: usize, secret: [u64; 2]) -> Self {
        let places = (capacity.max(1) * 2).next_power_of_two();
        Self { places: vec![Place { key: K::FILLER, slot: NONE }; places].into_boxed_slice(), secret, len: 0 }
    }

    /// The slot of `key`.
    pub fn get(&self, key: K) -> Option<u32> {
        self.find(key).ok().map(|at| self.places[at].slot)
    }

    /// Sets the slot of `key`.
    ///
    /// # Panics
    /// When more keys are in than the index was made for, or `slot` is `u32::MAX`.
    pub fn insert(&mut self, key: K, slot: u32) {
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
    pub fn remove(&mut self, key: K) -> Option<u32> {
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
    fn find(&self, key: K) -> Result<usize, usize> {
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

    fn home(&self, key: K) -> usize {
        key.hash(self.secret) as usize & (self.places.len() - 1)
    }
}

impl Key for u128 {
    const FILLER: Self = 0;

    fn hash(self, secret: [u64; 2]) -> u64 {
        let mixed = fold(self as u64 ^ secret[0], (self >> 64) as u64 ^ secret[1]);
        fold(mixed ^ secret[1], SPREAD)
    }
}

/// A key with something more: an address and its port.
impl Key for (u128, u64) {
    const FILLER: Self = (0, 0);

    fn hash(self, secret: [u64; 2]) -> u64 {
        fold(self.0.hash(secret) ^ self.1 ^ secret[0], SPREAD ^ secret[1])
    }
}

/// An odd number without a pattern: 2⁶⁴ divided by the golden ratio.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    (product >> 64) as u64 ^ product as u64
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

    /// Keys that differ in their second part only are different keys, and spread.
    #[test]
    fn both_parts_of_a_key_count() {
        let mut index = Index::new(1000, [3, 4]);
        for part in 0..1000u32 {
            index.insert((7, u64::from(part)), part);
        }
        assert!((0..1000u32).all(|part| index.get((7, u64::from(part))) == Some(part)));
        assert_eq!((index.get((8, 1)), index.get((7, 1000)), index.len()), (None, None, 1000));
        let homes: std::collections::BTreeSet<usize> = (0..1000).map(|part| index.home((7, part))).collect();
        assert!(homes.len() > 600, "{}", homes.len());
    }
}
