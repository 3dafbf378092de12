//! Which packet counters were seen already (docs/protocol/fignet-sync.md, section 2.3).

/// How far behind the newest counter one may be and still be taken.
pub const WINDOW: u64 = 1024;

const WORD_BITS: u64 = u64::BITS as u64;
const WORDS: usize = (WINDOW / WORD_BITS) as usize;

/// The last [`WINDOW`] counters: the newest one, and which of those before it were seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayWindow {
    newest: Option<u64>,
    /// Bit `counter` modulo [`WINDOW`], for the counters of the window only.
    seen: [u64; WORDS],
}

impl ReplayWindow {
    /// A window that saw nothing: it takes any counter first.
    pub const fn new() -> Self {
        Self { newest: None, seen: [0; WORDS] }
    }

    /// Whether `counter` was not seen yet and is not too far behind. Changes nothing.
    pub fn is_fresh(&self, counter: u64) -> bool {
        let Some(newest) = self.newest else { return true };
        match newest.checked_sub(counter) {
            None => true,
            Some(behind) => behind < WINDOW && !self.has(counter),
        }
    }

    /// Records `counter` as seen. Only for what proved to be genuine: a forged counter would push the window ahead.
    ///
    /// # Panics
    /// When `counter` is not [fresh](Self::is_fresh).
    pub fn record(&mut self, counter: u64) {
        assert!(self.is_fresh(counter), "a counter was recorded twice");
        match self.newest {
            Some(newest) if counter > newest => {
                self.forget(newest, counter);
                self.newest = Some(counter);
            }
            None => self.newest = Some(counter),
            Some(_) => {}
        }
        let (word, bit) = place(counter);
        self.seen[word] |= bit;
    }

    /// The newest counter seen.
    pub const fn newest(&self) -> Option<u64> {
        self.newest
    }

    fn has(&self, counter: u64) -> bool {
        let (word, bit) = place(counter);
        self.seen[word] & bit != 0
    }

    /// Makes room for the counters after `newest` up to `counter`: their places held ones that leave the window.
    fn forget(&mut self, newest: u64, counter: u64) {
        if counter - newest >= WINDOW {
            self.seen = [0; WORDS];
            return;
        }
        for passed in newest + 1..=counter {
            let (word, bit) = place(passed);
            self.seen[word] &= !bit;
        }
    }
}

impl Default for ReplayWindow {
    fn default() -> Self {
        Self::new()
    }
}

fn place(counter: u64) -> (usize, u64) {
    let at = counter % WINDOW;
    ((at / WORD_BITS) as usize, 1 << (at % WORD_BITS))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::rng::Rng;

    #[test]
    fn the_window_is_1024_wide_to_the_bit() {
        for newest in [1023, 1024, 5000, u64::MAX - 1, u64::MAX] {
            let mut window = ReplayWindow::new();
            window.record(newest);
            assert!(!window.is_fresh(newest));
            assert!(window.is_fresh(newest - 1));
            assert!(window.is_fresh(newest - 1023), "the oldest inside");
            if newest >= 1024 {
                assert!(!window.is_fresh(newest - 1024), "the first outside");
                assert!(!window.is_fresh(0));
            }
            window.record(newest - 1023);
            assert!(!window.is_fresh(newest - 1023));
            assert_eq!(window.newest(), Some(newest));
        }
    }

    #[test]
    fn a_jump_forgets_exactly_what_leaves_the_window() {
        for jump in [1, 63, 64, 65, 1022, 1023, 1024, 1025, 1 << 40] {
            let mut window = ReplayWindow::new();
            (0..1024).for_each(|counter| window.record(counter));
            let newest = 1023 + jump;
            window.record(newest);
            for counter in 0..1024 {
                assert!(
                    !window.is_fresh(counter),
                    "{counter} was seen, or is too old, after a jump of {jump}"
                );
            }
            for counter in (1024..newest).rev().take(1023) {
                assert!(window.is_fresh(counter), "{counter} was never seen, after a jump of {jump}");
            }
            assert!(window.is_fresh(newest + 1));
        }
    }

    /// Against a set that remembers everything.
    #[test]
    fn a_random_story_agrees_with_a_plain_set() {
        let mut rng = Rng::new(11);
        let mut window = ReplayWindow::new();
        let mut seen = BTreeSet::new();
        let mut newest = 0u64;
        let mut refused = 0;
        for _ in 0..200_000 {
            let counter = match rng.below(100) {
                0 => newest + u64::from(rng.below(3000)),
                1..=50 => newest + 1,
                _ => newest.saturating_sub(u64::from(rng.below(1100))),
            };
            let is_fresh = seen.is_empty() || !seen.contains(&counter) && counter + WINDOW > newest;
            assert_eq!(window.is_fresh(counter), is_fresh, "{counter} with {newest} the newest");
            if is_fresh {
                window.record(counter);
                seen.insert(counter);
                newest = newest.max(counter);
            } else {
                refused += 1;
            }
        }
        assert!(refused > 1000);
    }

    #[test]
    #[should_panic(expected = "recorded twice")]
    fn recording_twice_is_the_callers_mistake() {
        let mut window = ReplayWindow::new();
        window.record(7);
        window.record(7);
    }
}
