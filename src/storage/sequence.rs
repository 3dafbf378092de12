//! Wrapping 16-bit sequences: their order, and a buffer that remembers the most recent ones.

/// Whether sequence `a` is more recent than `b`: 1 to 32,767 steps ahead, modulo 65,536 (RFC 1982). Of two sequences
/// exactly 32,768 apart neither is.
pub const fn is_newer(a: u16, b: u16) -> bool {
    let ahead = a.wrapping_sub(b);
    ahead != 0 && ahead < 0x8000
}

/// Values by sequence: slot = sequence modulo capacity, with the sequence stored in it, so that a value is found as
/// long as no later one took its slot.
#[derive(Debug)]
pub struct SequenceBuffer<T> {
    slots: Box<[Slot<T>]>,
}

#[derive(Clone, Copy, Debug)]
struct Slot<T> {
    sequence: u16,
    used: bool,
    value: T,
}

impl<T: Copy> SequenceBuffer<T> {
    /// An empty buffer of `capacity` slots, free ones holding `filler`.
    ///
    /// # Panics
    /// When `capacity` is not a power of two of at most 65,536: otherwise slots would jump where sequences wrap.
    pub fn new(capacity: usize, filler: T) -> Self {
        assert!(capacity.is_power_of_two() && capacity <= 1 << 16, "sequence buffers have 2^n slots");
        Self { slots: vec![Slot { sequence: 0, used: false, value: filler }; capacity].into_boxed_slice() }
    }

    /// Stores `value` under `sequence`, in place of whatever held the slot.
    pub fn insert(&mut self, sequence: u16, value: T) {
        let at = self.slot(sequence);
        self.slots[at] = Slot { sequence, used: true, value };
    }

    /// The value of `sequence`, if it is still here.
    pub fn get(&self, sequence: u16) -> Option<&T> {
        let slot = &self.slots[self.slot(sequence)];
        (slot.used && slot.sequence == sequence).then_some(&slot.value)
    }

    /// The value of `sequence`, if it is still here.
    pub fn get_mut(&mut self, sequence: u16) -> Option<&mut T> {
        let at = self.slot(sequence);
        let slot = &mut self.slots[at];
        (slot.used && slot.sequence == sequence).then_some(&mut slot.value)
    }

    /// Takes out the value of `sequence`.
    pub fn remove(&mut self, sequence: u16) -> Option<T> {
        let at = self.slot(sequence);
        let slot = &mut self.slots[at];
        if !slot.used || slot.sequence != sequence {
            return None;
        }
        slot.used = false;
        Some(slot.value)
    }

    /// How many slots there are.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.used = false);
    }

    fn slot(&self, sequence: u16) -> usize {
        usize::from(sequence) & (self.slots.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gaps of exactly 32,767 and 32,768 (field case 2), and the examples 0 over 65535 and 10 over 40000.
    #[test]
    fn case_02_serial_order() {
        for base in [0u16, 1, 32_767, 32_768, 65_535] {
            assert!(is_newer(base.wrapping_add(32_767), base));
            assert!(!is_newer(base, base.wrapping_add(32_767)));
            assert!(!is_newer(base.wrapping_add(32_768), base));
            assert!(!is_newer(base, base.wrapping_add(32_768)));
            assert!(!is_newer(base, base));
        }
        assert!(is_newer(0, 65_535) && is_newer(10, 40_000));
        assert!(!is_newer(65_535, 0) && !is_newer(40_000, 10));
    }

    #[test]
    fn a_later_sequence_takes_the_slot() {
        let mut buffer = SequenceBuffer::new(8, 0u32);
        buffer.insert(65_535, 1);
        buffer.insert(0, 2);
        assert_eq!((buffer.get(65_535), buffer.get(0), buffer.get(8)), (Some(&1), Some(&2), None));
        buffer.insert(7, 3);
        assert_eq!(buffer.get(65_535), None);
        assert_eq!(buffer.remove(7), Some(3));
        assert_eq!(buffer.remove(7), None);
        *buffer.get_mut(0).unwrap() = 9;
        buffer.clear();
        assert_eq!(buffer.get(0), None);
    }
}
