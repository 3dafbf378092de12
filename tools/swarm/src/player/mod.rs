//! What the swarm needs of a protocol's client.

pub mod aegis;
mod checks;
mod hand;
pub mod rtype;

use std::fmt;
use std::net::SocketAddr;

use tickwire::seam::DATAGRAM_BYTES_MAX;
use tickwire::time::Instant;

use self::aegis::AegisPlayer;
use self::rtype::RtypePlayer;
use crate::tally::Tally;

/// Whose players come. All that the swarm has to know of a protocol is named here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// docs/protocol/aegis.md
    Aegis,
    /// docs/protocol/rtype.md
    Rtype,
}

/// The word for all protocols at once.
const MIXED: &str = "mixed";

impl Protocol {
    /// Every protocol, in the order in which mixed players take turns.
    pub const ALL: &'static [Self] = &[Self::Aegis, Self::Rtype];

    /// The words that [`Protocol::choose`] knows.
    pub fn words() -> impl Iterator<Item = &'static str> {
        Self::ALL.iter().map(|protocol| protocol.name()).chain([MIXED])
    }

    /// The protocols that `word` asks for: the one of this name, or all.
    pub fn choose(word: &str) -> Option<&'static [Self]> {
        if word == MIXED {
            return Some(Self::ALL);
        }
        let index = Self::ALL.iter().position(|protocol| protocol.name() == word)?;
        Some(&Self::ALL[index..=index])
    }

    /// Its name in options and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aegis => "aegis",
            Self::Rtype => "rtype",
        }
    }

    /// The server's flag for where its players go first, and the name of that listener in what the server prints.
    pub const fn listener(self) -> &'static str {
        match self {
            Self::Aegis => "aegis-tcp",
            Self::Rtype => "rtype-udp",
        }
    }

    /// Whether its players log in over a stream, and are told there where to play.
    pub const fn has_stream(self) -> bool {
        match self {
            Self::Aegis => true,
            Self::Rtype => false,
        }
    }

    /// What tells its players' datagrams apart on a shared socket. `None` from a protocol in which a socket is a player.
    pub fn key_of(self, bytes: &[u8]) -> Option<u32> {
        match self {
            Self::Aegis => aegis::key_of(bytes),
            Self::Rtype => None,
        }
    }

    /// Whether its players can share sockets.
    pub const fn can_share_sockets(self) -> bool {
        match self {
            Self::Aegis => true,
            Self::Rtype => false,
        }
    }

    /// A new player, the `index`th of the swarm.
    pub fn player(self, index: usize, settings: &Settings) -> Box<dyn Player> {
        match self {
            Self::Aegis => Box::new(AegisPlayer::new(index, settings)),
            Self::Rtype => Box::new(RtypePlayer::new(index, settings)),
        }
    }
}

/// Where the players of each protocol go first, by [`Protocol`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Servers([Option<SocketAddr>; Protocol::ALL.len()]);

impl Servers {
    /// Nowhere.
    pub const NONE: Self = Self([None; Protocol::ALL.len()]);

    /// The same, with `address` for `protocol`.
    pub fn with(mut self, protocol: Protocol, address: SocketAddr) -> Self {
        self.0[protocol as usize] = Some(address);
        self
    }

    /// That of `protocol`.
    pub fn of(&self, protocol: Protocol) -> Option<SocketAddr> {
        self.0[protocol as usize]
    }
}

/// Where a player stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Logging in, or binding.
    Joining,
    /// In the match.
    Playing,
    /// Out of it, for good. Why was counted as a fault, unless the player left.
    Over,
}

/// One player of a protocol: a sans-IO client that plays, and judges what it gets. The swarm owns its sockets. What a
/// player finds wrong it counts in the tally itself.
pub trait Player: fmt::Debug {
    /// Where it stands.
    fn state(&self) -> State;

    /// Takes the next byte to send on the stream, if there is one.
    fn stream_output(&mut self) -> Option<u8>;

    /// Bytes came over the stream.
    fn stream_bytes(&mut self, now: Instant, bytes: &[u8], tally: &mut Tally);

    /// The stream ended from outside, or could not be made.
    fn stream_closed(&mut self, tally: &mut Tally);

    /// Where to play, once known; `server` is where its protocol begins.
    fn udp(&self, server: SocketAddr) -> Option<SocketAddr>;

    /// A datagram arrived.
    fn datagram(&mut self, now: Instant, bytes: &[u8], tally: &mut Tally);

    /// Writes the next datagram of the turn that was `due` and runs at `now` into `buffer`, and returns its length;
    /// `None` when the turn has no more.
    fn transmit(
        &mut self,
        due: Instant,
        now: Instant,
        buffer: &mut [u8; DATAGRAM_BYTES_MAX],
        tally: &mut Tally,
    ) -> Option<usize>;

    /// Leaves: what is still to be sent says so.
    fn leave(&mut self);

    /// What tells this player's datagrams from others' on the same socket ([`Protocol::key_of`]), once known.
    fn session_key(&self) -> Option<u32>;
}

/// What all players are told.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Entities of one room that a player can hold.
    pub entities_max: usize,
    /// Snapshots that it keeps as baselines.
    pub snapshots_kept: usize,
    /// Ticks from one snapshot to the next, for those who are not told.
    pub snapshot_interval: u32,
    /// Seed of how they play.
    pub seed: u64,
}
