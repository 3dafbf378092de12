//! A first-in, first-out queue of fixed capacity.

/// A queue that holds at most as many values as it was made for.
#[derive(Debug)]
pub struct Ring<T> {
    slots: Box<[T]>,
    /// Index of the oldest value.
    head: usize,
    len: usize,
}

impl<T: Copy> Ring<T> {
    /// An empty queue for `capacity` values; `filler` is what free slots hold.
    pub fn new(capacity: usize, filler: T) -> Self {
        Self { slots: vec![filler; capacity].into_boxed_slice(), head: 0, len: 0 }
    }

    /// Adds `value` at the end. When there is no room it comes back.
    pub fn push(&mut self, value: T) -> Result<(), T> {
        if self.len == self.slots.len() {
            return Err(value);
        }
        let at = self.slot(self.len);
        self.slots[at] = value;
        self.len += 1;
        Ok(())
    }

    /// Takes the oldest value.
    pub fn pop(&mut self) -> Option<T> {
        if self.len == 0 {
            return None;
        }
        let value = self.slots[self.head];
        self.head = self.slot(1);
        self.len -= 1;
        Some(value)
    }

    /// The value `index` places behind the oldest.
    pub fn get(&self, index: usize) -> Option<&T> {
        if index < self.len { Some(&self.slots[self.slot(index)]) } else { None }
    }

    /// The value `index` places behind the oldest.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        if index < self.len {
            let at = self.slot(index);
            Some(&mut self.slots[at])
        } else {
            None
        }
    }

    /// The values, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.len).map(|index| &self.slots[self.slot(index)])
    }

    /// How many values it holds.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many values it can hold.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.head = 0;
        self.len = 0;
    }

    fn slot(&self, index: usize) -> usize {
        let at = self.head + index;
        if at >= self.slots.len() { at - self.slots.len() } else { at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_and_refuses_when_full() {
        let mut ring = Ring::new(3, 0);
        for round in 0..10 {
            assert_eq!(ring.push(round), Ok(()));
            assert_eq!(ring.push(round + 100), Ok(()));
            assert_eq!(ring.pop(), Some(round));
            assert_eq!(ring.pop(), Some(round + 100));
        }
        (0..3).for_each(|value| ring.push(value).unwrap());
        assert_eq!(ring.push(9), Err(9));
        assert_eq!(ring.iter().copied().collect::<Vec<_>>(), [0, 1, 2]);
        *ring.get_mut(1).unwrap() = 7;
        assert_eq!((ring.get(1), ring.get(3)), (Some(&7), None));
        ring.clear();
        assert!(ring.is_empty() && ring.pop().is_none());
    }
}
