//! Players: their number in the room, name, controls and standing.

use std::fmt;

/// A player's slot in a room, 0 to 3.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PlayerId(u8);

impl PlayerId {
    /// The player of slot `value`, or `None` above 3.
    pub const fn new(value: u8) -> Option<Self> {
        if value < super::PLAYERS_MAX as u8 { Some(Self(value)) } else { None }
    }

    /// The slot number.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The slot number as an array index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Every slot, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..super::PLAYERS_MAX as u8).map(Self)
    }
}

/// The state of a player's controls: up, down, left, right, shoot in bits 0 to 4 (Aegis 4.2, R-Type 7.1).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Controls(u8);

impl Controls {
    /// Nothing held.
    pub const RELEASED: Self = Self(0);
    /// Bit 0.
    pub const UP: u8 = 1;
    /// Bit 1.
    pub const DOWN: u8 = 2;
    /// Bit 2.
    pub const LEFT: u8 = 4;
    /// Bit 3.
    pub const RIGHT: u8 = 8;
    /// Bit 4.
    pub const SHOOT: u8 = 16;

    /// The controls of a wire byte; `None` when one of bits 5 to 7 is set.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        if bits < 32 { Some(Self(bits)) } else { None }
    }

    /// The wire byte.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Horizontal direction: −1, 0 or 1. Right wins over left.
    pub const fn horizontal(self) -> i32 {
        if self.0 & Self::RIGHT != 0 {
            1
        } else if self.0 & Self::LEFT != 0 {
            -1
        } else {
            0
        }
    }

    /// Vertical direction, down being 1: −1, 0 or 1. Down wins over up.
    pub const fn vertical(self) -> i32 {
        if self.0 & Self::DOWN != 0 {
            1
        } else if self.0 & Self::UP != 0 {
            -1
        } else {
            0
        }
    }

    /// Whether the trigger is held.
    pub const fn shoot(self) -> bool {
        self.0 & Self::SHOOT != 0
    }
}

/// What one player does in one tick.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PlayerInput {
    /// The newest controls.
    pub held: Controls,
    /// The trigger was let go since the last tick, even if it is held again by now: fire.
    pub fire: bool,
}

/// A player's standing in the match.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PlayerState {
    /// Whether a ship of theirs flies.
    pub alive: bool,
    /// Lives left, at most 15.
    pub lives: u8,
    /// Points.
    pub score: u32,
}

/// A player's name: 1 to 16 bytes of UTF-8 without control characters (Aegis 3.2).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name {
    len: u8,
    bytes: [u8; Name::BYTES_MAX],
}

/// Why bytes are no name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameError {
    /// No byte at all.
    Empty,
    /// More than [`Name::BYTES_MAX`] bytes.
    TooLong,
    /// Not UTF-8.
    Encoding,
    /// A control character (Unicode category Cc).
    Control,
}

impl Name {
    /// Longest name, in bytes.
    pub const BYTES_MAX: usize = 16;

    /// The name of `bytes`, checked.
    pub fn new(bytes: &[u8]) -> Result<Self, NameError> {
        if bytes.is_empty() {
            return Err(NameError::Empty);
        }
        if bytes.len() > Self::BYTES_MAX {
            return Err(NameError::TooLong);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| NameError::Encoding)?;
        if text.chars().any(char::is_control) {
            return Err(NameError::Control);
        }
        let mut name = Self { len: bytes.len() as u8, bytes: [0; Self::BYTES_MAX] };
        name.bytes[..bytes.len()].copy_from_slice(bytes);
        Ok(name)
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or("?")
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Invalid UTF-8, a multibyte character cut at the limit, control characters, and lengths (field case 25).
    #[test]
    fn case_25_names_are_checked_without_a_panic() {
        assert_eq!(Name::new(b""), Err(NameError::Empty));
        assert_eq!(Name::new(b"seventeen bytes!!"), Err(NameError::TooLong));
        assert!(Name::new(b"sixteen bytes!!!").is_ok());
        assert_eq!(Name::new(b"\xff\xfe"), Err(NameError::Encoding));
        assert_eq!(Name::new(&"fifteen bytes..é".as_bytes()[..16]), Err(NameError::Encoding));
        for control in ["a\n", "\u{0}", "\u{7f}", "x\u{85}"] {
            assert_eq!(Name::new(control.as_bytes()), Err(NameError::Control), "{control:?}");
        }
        assert_eq!(Name::new("Zoé!".as_bytes()).unwrap().as_str(), "Zoé!");
    }

    #[test]
    fn down_and_right_win() {
        let all = Controls::from_bits(31).unwrap();
        assert_eq!((all.horizontal(), all.vertical(), all.shoot()), (1, 1, true));
        assert_eq!(
            Controls::from_bits(Controls::LEFT | Controls::UP).map(|c| (c.horizontal(), c.vertical())),
            Some((-1, -1))
        );
        assert!((32..=255).all(|bits| Controls::from_bits(bits).is_none()));
    }
}
