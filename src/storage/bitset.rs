//! A fixed set of small numbers.

/// A set of the numbers 0 to capacity − 1, one bit each.
#[derive(Clone, Debug)]
pub struct BitSet {
    words: Box<[u64]>,
    capacity: usize,
}

impl BitSet {
    /// The empty set.
    pub fn new(capacity: usize) -> Self {
        Self { words: vec![0; capacity.div_ceil(64)].into_boxed_slice(), capacity }
    }

    /// The set of everything below `capacity`.
    pub fn full(capacity: usize) -> Self {
        let mut set = Self::new(capacity);
        (0..capacity).for_each(|number| set.insert(number));
        set
    }

    /// Puts `number` in.
    ///
    /// # Panics
    /// When `number` is not below the capacity.
    pub fn insert(&mut self, number: usize) {
        assert!(number < self.capacity, "number out of range");
        self.words[number / 64] |= 1 << (number % 64);
    }

    /// Takes `number` out.
    ///
    /// # Panics
    /// When `number` is not below the capacity.
    pub fn remove(&mut self, number: usize) {
        assert!(number < self.capacity, "number out of range");
        self.words[number / 64] &= !(1 << (number % 64));
    }

    /// Whether `number` is in.
    pub fn contains(&self, number: usize) -> bool {
        self.words.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// The smallest number in the set that is at least `from`. Lets a caller walk the set while changing it.
    pub fn next_from(&self, from: usize) -> Option<usize> {
        let first = self.words.get(from / 64)? & (u64::MAX << (from % 64));
        if first != 0 {
            return Some(from / 64 * 64 + first.trailing_zeros() as usize);
        }
        let skip = from / 64 + 1;
        let found = self.words[skip..].iter().position(|&word| word != 0)? + skip;
        Some(found * 64 + self.words[found].trailing_zeros() as usize)
    }

    /// Whether nothing is in.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// How many numbers are in.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_in_order() {
        let mut set = BitSet::new(200);
        [3, 64, 65, 199].into_iter().for_each(|number| set.insert(number));
        set.remove(65);
        let mut walked = Vec::new();
        let mut from = 0;
        while let Some(number) = set.next_from(from) {
            walked.push(number);
            from = number + 1;
        }
        assert_eq!(walked, [3, 64, 199]);
        assert!(set.contains(64) && !set.contains(65) && !set.contains(10_000));
        assert_eq!((set.len(), BitSet::full(70).len(), BitSet::new(64).next_from(64)), (3, 70, None));
    }
}
