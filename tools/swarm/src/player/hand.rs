//! How players play.

use tickwire::model::Controls;
use tickwire::rng::Rng;
use tickwire::time::{Duration, Instant};

/// Flies about and shoots by chance, as people do: another course a few times in a second, and the trigger once or
/// twice.
#[derive(Debug)]
pub(super) struct Hand {
    rng: Rng,
    course: u8,
    is_pressed: bool,
    turn_at: Instant,
    trigger_at: Instant,
}

impl Hand {
    pub(super) fn new(seed: u64) -> Self {
        let rng = Rng::new(seed);
        Self { rng, course: 0, is_pressed: false, turn_at: Instant::ZERO, trigger_at: Instant::ZERO }
    }

    /// What is held at `now`.
    pub(super) fn controls(&mut self, now: Instant) -> Controls {
        if now >= self.turn_at {
            self.turn_at = now + Duration::from_millis(150 + u64::from(self.rng.below(500)));
            self.course = self.rng.below(16) as u8;
        }
        if now >= self.trigger_at {
            self.is_pressed = !self.is_pressed;
            let pause_ms = if self.is_pressed { 100 } else { 300 + self.rng.below(500) };
            self.trigger_at = now + Duration::from_millis(u64::from(pause_ms));
        }
        let trigger = if self.is_pressed { Controls::SHOOT } else { 0 };
        Controls::from_bits(self.course | trigger).expect("five bits")
    }
}
