//! What the game says over FigNet's channels (docs/protocol/fignet.md, section 12).
//!
//! | channel | from the client | from the server |
//! |---|---|---|
//! | 0, reliable and ordered | | [`Seated`], then the contents of Aegis events |
//! | 1, unreliable | | snapshots (docs/protocol/fignet-sync.md) |
//! | 2, reliable | chat: text | chat: the speaker's slot, and text |
//! | 3, unreliable and ordered | [`Input`] | |

use crate::model::{Controls, PlayerId};

/// The channel of what must be known, in order.
pub const CHANNEL_EVENTS: u8 = 0;
/// The channel of snapshots.
pub const CHANNEL_SNAPSHOTS: u8 = 1;
/// The channel of chat.
pub const CHANNEL_CHAT: u8 = 2;
/// The channel of inputs.
pub const CHANNEL_INPUT: u8 = 3;

/// How many channels the game needs.
pub const CHANNELS: u8 = 4;

/// Longest line of chat, in bytes of UTF-8.
pub const CHAT_BYTES_MAX: usize = 200;

/// What a player holds (channel 3): the input byte of Aegis 4.2, and the client's frame counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Input {
    /// What is held.
    pub controls: Controls,
    /// The client's frame counter; the server passes over it.
    pub client_tick: u32,
}

/// The first message on channel 0: who the client is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seated {
    /// Its slot.
    pub player: PlayerId,
    /// Ticks per second.
    pub tick_rate_hz: u8,
}

impl Input {
    /// Bytes of an input.
    pub const BYTES: usize = 5;

    /// The input that `bytes` are; `None` when they are another number, or reserved bits are set.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let &[controls, t0, t1, t2, t3] = bytes else { return None };
        let controls = Controls::from_bits(controls)?;
        Some(Self { controls, client_tick: u32::from_le_bytes([t0, t1, t2, t3]) })
    }

    /// Its bytes.
    pub const fn to_bytes(self) -> [u8; Self::BYTES] {
        let [t0, t1, t2, t3] = self.client_tick.to_le_bytes();
        [self.controls.bits(), t0, t1, t2, t3]
    }
}

impl Seated {
    /// Bytes of it.
    pub const BYTES: usize = 3;

    /// What tells it from the contents of events, which begin with their type.
    const KIND: u8 = 0x80;

    /// What `bytes` say; `None` when it is something else.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let &[Self::KIND, player, tick_rate_hz @ 1..=255] = bytes else { return None };
        Some(Self { player: PlayerId::new(player)?, tick_rate_hz })
    }

    /// Its bytes.
    pub const fn to_bytes(self) -> [u8; Self::BYTES] {
        [Self::KIND, self.player.get(), self.tick_rate_hz]
    }
}

/// The line of chat that `bytes` are: 1 to [`CHAT_BYTES_MAX`] bytes of UTF-8 without control characters.
pub fn chat(bytes: &[u8]) -> Option<&str> {
    if !(1..=CHAT_BYTES_MAX).contains(&bytes.len()) {
        return None;
    }
    std::str::from_utf8(bytes).ok().filter(|text| !text.chars().any(char::is_control))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_five_bytes_without_reserved_bits() {
        let input = Input { controls: Controls::from_bits(0x11).unwrap(), client_tick: 0x0403_0201 };
        assert_eq!(input.to_bytes(), [0x11, 1, 2, 3, 4]);
        assert_eq!(Input::parse(&input.to_bytes()), Some(input));
        for bad in [&[0x11u8, 1, 2, 3][..], &[0x11, 1, 2, 3, 4, 5], &[0x20, 1, 2, 3, 4], &[]] {
            assert_eq!(Input::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn who_the_client_is() {
        let seated = Seated { player: PlayerId::new(2).unwrap(), tick_rate_hz: 60 };
        assert_eq!(seated.to_bytes(), [0x80, 2, 60]);
        assert_eq!(Seated::parse(&seated.to_bytes()), Some(seated));
        for bad in [&[0x80u8, 4, 60][..], &[0x80, 2, 0], &[0x81, 2, 60], &[0x80, 2], &[0x80, 2, 60, 0]] {
            assert_eq!(Seated::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn chat_is_a_line_of_text() {
        assert_eq!(chat("gg, Zoé".as_bytes()), Some("gg, Zoé"));
        assert!(chat(&[b'a'; 200]).is_some());
        for bad in [&b""[..], &[b'a'; 201], b"\xff", b"a\nb", b"a\x1b[2J"] {
            assert_eq!(chat(bad), None);
        }
    }
}
