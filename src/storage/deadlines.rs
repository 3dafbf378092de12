//! At most one deadline per key, the earliest always at hand: an indexed binary heap.

use crate::time::Instant;

/// Deadlines of the keys 0 to capacity − 1. Setting, clearing and taking one costs O(log of how many are set); nothing
/// is ever scanned, and no deadline is early, late or lost, however far off.
#[derive(Debug)]
pub struct Deadlines {
    heap: Vec<(Instant, u32)>,
    /// Place of each key in the heap, or [`NOWHERE`].
    places: Box<[u32]>,
}

const NOWHERE: u32 = u32::MAX;

impl Deadlines {
    /// No deadlines, for `capacity` keys.
    pub fn new(capacity: usize) -> Self {
        Self { heap: Vec::with_capacity(capacity), places: vec![NOWHERE; capacity].into_boxed_slice() }
    }

    /// Sets the deadline of `key`, in place of the one it had.
    ///
    /// # Panics
    /// When `key` is not below the capacity.
    pub fn set(&mut self, key: usize, at: Instant) {
        let place = self.places[key];
        if place == NOWHERE {
            self.heap.push((at, key as u32));
            self.rise(self.heap.len() - 1);
        } else {
            let before = std::mem::replace(&mut self.heap[place as usize].0, at);
            if at < before {
                self.rise(place as usize);
            } else {
                self.sink(place as usize);
            }
        }
    }

    /// Clears the deadline of `key`, if it has one.
    ///
    /// # Panics
    /// When `key` is not below the capacity.
    pub fn clear(&mut self, key: usize) {
        let place = self.places[key];
        if place != NOWHERE {
            self.take(place as usize);
        }
    }

    /// The earliest deadline.
    pub fn next(&self) -> Option<Instant> {
        self.heap.first().map(|&(at, _)| at)
    }

    /// Takes the key of the earliest deadline that is not after `now`.
    pub fn pop_due(&mut self, now: Instant) -> Option<usize> {
        let &(at, key) = self.heap.first()?;
        if at > now {
            return None;
        }
        self.take(0);
        Some(key as usize)
    }

    /// The deadline of `key`, if it has one.
    pub fn get(&self, key: usize) -> Option<Instant> {
        let place = *self.places.get(key)?;
        (place != NOWHERE).then(|| self.heap[place as usize].0)
    }

    /// How many keys have a deadline.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether no key has one.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    fn take(&mut self, place: usize) {
        let (_, key) = self.heap.swap_remove(place);
        self.places[key as usize] = NOWHERE;
        if place < self.heap.len() {
            self.places[self.heap[place].1 as usize] = place as u32;
            self.sink(place);
            self.rise(place);
        }
    }

    fn rise(&mut self, mut place: usize) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.heap[parent].0 <= self.heap[place].0 {
                break;
            }
            self.swap(place, parent);
            place = parent;
        }
        self.places[self.heap[place].1 as usize] = place as u32;
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let left = 2 * place + 1;
            let Some(&(left_at, _)) = self.heap.get(left) else { break };
            let right_at = self.heap.get(left + 1).map_or(Instant::MAX, |&(at, _)| at);
            let child = if right_at < left_at { left + 1 } else { left };
            if self.heap[place].0 <= self.heap[child].0 {
                break;
            }
            self.swap(place, child);
            place = child;
        }
        self.places[self.heap[place].1 as usize] = place as u32;
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.places[self.heap[a].1 as usize] = a as u32;
        self.places[self.heap[b].1 as usize] = b as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// Random sets, clears and takes against a sorted list: never early, never late, never lost (field case 66).
    #[test]
    fn case_66_agrees_with_a_sorted_list() {
        let mut rng = Rng::new(66);
        let mut deadlines = Deadlines::new(40);
        let mut model: Vec<Option<u64>> = vec![None; 40];
        for _ in 0..20_000 {
            let key = rng.below(40) as usize;
            match rng.below(4) {
                0 | 1 => {
                    // Far ahead, at once, and everything between.
                    let at = rng.next_u64() >> rng.below(64);
                    deadlines.set(key, Instant::from_nanos(at));
                    model[key] = Some(at);
                }
                2 => {
                    deadlines.clear(key);
                    model[key] = None;
                }
                _ => {
                    let earliest = model.iter().flatten().min().copied();
                    assert_eq!(deadlines.next(), earliest.map(Instant::from_nanos));
                    if let Some(at) = earliest {
                        if at > 0 {
                            assert_eq!(deadlines.pop_due(Instant::from_nanos(at - 1)), None);
                        }
                        let due = deadlines.pop_due(Instant::from_nanos(at)).expect("due at its instant");
                        assert_eq!(model[due].take(), Some(at));
                    }
                }
            }
            assert_eq!(deadlines.len(), model.iter().flatten().count());
            assert_eq!(deadlines.get(key), model[key].map(Instant::from_nanos));
        }
    }
}
