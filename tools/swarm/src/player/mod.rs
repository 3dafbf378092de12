//! What the swarm needs of a protocol's client.

pub mod aegis;
mod checks;

use tickwire::seam::DATAGRAM_BYTES_MAX;
use tickwire::time::Instant;

use crate::tally::Tally;

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
pub trait Player {
    /// A new player, the `index`th of the swarm.
    fn new(index: usize, settings: &Settings) -> Self;

    /// Where it stands.
    fn state(&self) -> State;

    /// Takes the next byte to send on the stream, if there is one.
    fn stream_output(&mut self) -> Option<u8>;

    /// Bytes came over the stream.
    fn stream_bytes(&mut self, now: Instant, bytes: &[u8], tally: &mut Tally);

    /// The stream ended from outside, or could not be made.
    fn stream_closed(&mut self, tally: &mut Tally);

    /// The port of the server to play on, once known.
    fn udp_port(&self) -> Option<u16>;

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

    /// What tells this player's datagrams from others' on the same socket, once known.
    fn session_key(&self) -> Option<u32>;

    /// That key, in a datagram that arrived.
    fn key_of(bytes: &[u8]) -> Option<u32>;
}

/// What all players are told.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Entities of one room that a player can hold.
    pub entities_max: usize,
    /// Snapshots that it keeps as baselines.
    pub snapshots_kept: usize,
    /// Seed of how they play.
    pub seed: u64,
}
