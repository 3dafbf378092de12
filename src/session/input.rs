//! The newest controls of a player, between two ticks. Implements Aegis 4.2 and R-Type 7.1.

use crate::model::{Controls, PlayerInput};

/// Ticks for which the last input is repeated when no new one comes; then the controls read as released.
pub const REPEAT_TICKS_MAX: u8 = 30;

/// Collects a player's inputs and gives them out tick by tick.
///
/// A release of the trigger between two ticks fires even when it was pressed again in the same tick: several inputs
/// often arrive together, and no shot may be lost to that.
#[derive(Clone, Copy, Default, Debug)]
pub struct InputBuffer {
    held: Controls,
    fire: bool,
    /// Ticks given out since the last input.
    age_ticks: u8,
}

impl InputBuffer {
    /// Nothing held.
    pub const fn new() -> Self {
        Self { held: Controls::RELEASED, fire: false, age_ticks: 0 }
    }

    /// Takes in an input newer than all before it (the caller knows by its sequence).
    pub fn push(&mut self, controls: Controls) {
        self.fire |= self.held.shoot() && !controls.shoot();
        self.held = controls;
        self.age_ticks = 0;
    }

    /// What the player does in the coming tick.
    pub fn take(&mut self) -> PlayerInput {
        if self.age_ticks >= REPEAT_TICKS_MAX {
            self.push(Controls::RELEASED);
            self.age_ticks = REPEAT_TICKS_MAX;
        } else {
            self.age_ticks += 1;
        }
        PlayerInput { held: self.held, fire: std::mem::take(&mut self.fire) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn controls(bits: u8) -> Controls {
        Controls::from_bits(bits).unwrap()
    }

    #[test]
    fn fires_when_the_trigger_is_let_go() {
        let mut buffer = InputBuffer::new();
        let mut shots = Vec::new();
        for bits in [0, Controls::SHOOT, Controls::SHOOT, 0, 0] {
            buffer.push(controls(bits));
            shots.push(buffer.take().fire);
        }
        assert_eq!(shots, [false, false, false, true, false]);
    }

    #[test]
    fn a_release_within_one_tick_is_not_lost() {
        let mut buffer = InputBuffer::new();
        for bits in [Controls::SHOOT, 0, Controls::SHOOT] {
            buffer.push(controls(bits));
        }
        assert_eq!(buffer.take(), PlayerInput { held: controls(Controls::SHOOT), fire: true });
        assert!(!buffer.take().fire);
    }

    #[test]
    fn repeats_for_thirty_ticks_then_lets_go() {
        let mut buffer = InputBuffer::new();
        buffer.push(controls(Controls::UP | Controls::SHOOT));
        for tick in 0..30 {
            assert_eq!(buffer.take().held, controls(Controls::UP | Controls::SHOOT), "tick {tick}");
        }
        assert_eq!(buffer.take(), PlayerInput { held: Controls::RELEASED, fire: true });
        for _ in 0..300 {
            assert_eq!(buffer.take(), PlayerInput::default());
        }
        buffer.push(controls(Controls::LEFT));
        assert_eq!(buffer.take().held, controls(Controls::LEFT));
    }
}
