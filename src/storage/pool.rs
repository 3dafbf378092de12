//! A slab whose values are all made at start and used again and again, behind generational handles.

/// Name of a claimed slot. It goes stale when the slot is released: a stale handle finds nobody.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Handle {
    index: u32,
    generation: u32,
}

/// A fixed number of values, each free or claimed. Claiming and releasing take constant time; the slot released last
/// is claimed next, so that the memory in use stays small and warm.
#[derive(Debug)]
pub struct Pool<T> {
    slots: Box<[Slot<T>]>,
    free: u32,
    len: u32,
}

#[derive(Debug)]
struct Slot<T> {
    /// Odd while claimed, even while free.
    generation: u32,
    next_free: u32,
    value: T,
}

const NONE: u32 = u32::MAX;

impl Handle {
    /// The slot's index, below the pool's capacity: for tables that run beside the pool.
    pub const fn index(self) -> usize {
        self.index as usize
    }
}

impl<T> Pool<T> {
    /// A pool of `capacity` values made by `make`, all free.
    ///
    /// # Panics
    /// When `capacity` does not fit in 32 bits.
    pub fn new(capacity: usize, mut make: impl FnMut(usize) -> T) -> Self {
        assert!(capacity < NONE as usize, "pool capacity out of range");
        let slots: Box<[Slot<T>]> = (0..capacity)
            .map(|index| Slot {
                generation: 0,
                next_free: if index + 1 < capacity { index as u32 + 1 } else { NONE },
                value: make(index),
            })
            .collect();
        Self { slots, free: if capacity == 0 { NONE } else { 0 }, len: 0 }
    }

    /// Claims a free slot. Its value is as its last holder left it: the caller makes it new. `None` when all are
    /// claimed.
    pub fn claim(&mut self) -> Option<Handle> {
        let index = self.free;
        let slot = self.slots.get_mut(index as usize)?;
        self.free = slot.next_free;
        slot.generation = slot.generation.wrapping_add(1);
        self.len += 1;
        Some(Handle { index, generation: slot.generation })
    }

    /// Gives a slot back. Returns whether it was claimed under this handle.
    pub fn release(&mut self, handle: Handle) -> bool {
        let Some(slot) = self.slots.get_mut(handle.index()) else { return false };
        if slot.generation != handle.generation || !is_claimed(slot.generation) {
            return false;
        }
        slot.generation = slot.generation.wrapping_add(1);
        slot.next_free = self.free;
        self.free = handle.index;
        self.len -= 1;
        true
    }

    /// The value of a claimed slot; `None` for a stale handle.
    pub fn get(&self, handle: Handle) -> Option<&T> {
        self.slots
            .get(handle.index())
            .filter(|slot| slot.generation == handle.generation)
            .map(|slot| &slot.value)
    }

    /// The value of a claimed slot; `None` for a stale handle.
    pub fn get_mut(&mut self, handle: Handle) -> Option<&mut T> {
        self.slots
            .get_mut(handle.index())
            .filter(|slot| slot.generation == handle.generation)
            .map(|slot| &mut slot.value)
    }

    /// The value of slot `index`, claimed or not: for lists of indices that outlast their holders.
    ///
    /// # Panics
    /// When `index` is not below the capacity.
    pub fn slot_mut(&mut self, index: usize) -> &mut T {
        &mut self.slots[index].value
    }

    /// The handle under which slot `index` is claimed now, if it is.
    pub fn handle_at(&self, index: usize) -> Option<Handle> {
        let slot = self.slots.get(index)?;
        is_claimed(slot.generation).then_some(Handle { index: index as u32, generation: slot.generation })
    }

    /// How many slots are claimed.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether no slot is claimed.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many slots there are.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }
}

const fn is_claimed(generation: u32) -> bool {
    generation % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_handle_finds_nobody() {
        let mut pool = Pool::new(2, |index| index * 10);
        let first = pool.claim().unwrap();
        let second = pool.claim().unwrap();
        assert!(pool.claim().is_none(), "an exhausted pool refuses");
        assert_eq!((pool.get(first), pool.get(second)), (Some(&0), Some(&10)));
        assert!(pool.release(first));
        assert!(!pool.release(first), "releasing twice does nothing");
        assert_eq!(pool.get(first), None);
        let again = pool.claim().unwrap();
        assert_eq!(again.index(), first.index());
        assert_ne!(again, first);
        assert_eq!(pool.get(first), None);
        assert_eq!(pool.handle_at(again.index()), Some(again));
        assert_eq!(pool.len(), 2);
    }

    #[test]
    fn everything_claimed_and_released_leaves_it_empty() {
        let mut pool = Pool::new(5, |_| ());
        for _ in 0..3 {
            let handles: Vec<_> = std::iter::from_fn(|| pool.claim()).collect();
            assert_eq!(handles.len(), 5);
            handles.into_iter().for_each(|handle| assert!(pool.release(handle)));
            assert!(pool.is_empty());
        }
        assert_eq!(pool.handle_at(0), None);
        assert!(Pool::new(0, |_| ()).claim().is_none());
    }
}
