//! What the demonstration needs of a protocol's bot.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::ops::AddAssign;

use tickwire::model::{EntityId, PlayerId};
use tickwire::time::{Duration, Instant};
use tickwire::wire::aegis::event::Event;

/// One bot of a protocol, with sockets of its own. What a socket refuses is lost, as on any network.
pub trait Guest {
    /// Where it stands.
    fn standing(&self) -> Standing;

    /// Has the bot set its controls: once a tick.
    fn play(&mut self);

    /// Takes in what came.
    fn receive(&mut self, now: Instant);

    /// Sends what is due.
    fn transmit(&mut self, now: Instant);

    /// Says goodbye: with the next [`Guest::transmit`].
    fn leave(&mut self);

    /// Its own slot, if the protocol tells.
    fn player(&self) -> Option<PlayerId>;

    /// The next event that it was handed, if its protocol has events.
    fn poll_event(&mut self) -> Option<Event>;

    /// The newest tick of the server that it has heard of.
    fn tick(&self) -> Option<u32>;

    /// Adds the entities that it knows of, in any order.
    fn add_known(&self, known: &mut Vec<EntityId>);

    /// The smoothed round-trip time, once measured.
    fn rtt(&self) -> Option<Duration>;

    /// Ticks from one snapshot to the next.
    fn snapshot_interval(&self) -> u32;

    /// What it counted so far.
    fn counts(&self) -> Counts;
}

/// Where a bot stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Not let in yet.
    Outside,
    /// It has a slot, and the server is still to hear from it there.
    Seated,
    /// In the match.
    Playing,
    /// Out of it, and why.
    Over(String),
}

/// What bots count. What a protocol does not have stays 0.
#[derive(Clone, Copy, Default, Debug)]
pub struct Counts {
    /// Datagrams sent.
    pub datagrams_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Datagrams received.
    pub datagrams_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Snapshots taken in; one in several datagrams counts once.
    pub snapshots: u64,
    /// Of these, against a baseline.
    pub deltas: u64,
    /// Events handed over.
    pub events: u64,
    /// Entities created and destroyed, where these are messages of their own.
    pub creates: u64,
    /// The latter.
    pub destroys: u64,
    /// Events, or messages about entities, that came again.
    pub again: u64,
    /// Those that were lost because the bot could not keep them.
    pub lost: u64,
    /// Those that were unknown or malformed.
    pub ignored: u64,
    /// Entities that the bot had to ask for.
    pub asked: u64,
}

impl Counts {
    /// These, with only those datagrams and snapshots that came since `start`.
    pub fn since_start(self, start: &Self) -> Self {
        Self {
            datagrams_out: self.datagrams_out - start.datagrams_out,
            bytes_out: self.bytes_out - start.bytes_out,
            datagrams_in: self.datagrams_in - start.datagrams_in,
            bytes_in: self.bytes_in - start.bytes_in,
            snapshots: self.snapshots - start.snapshots,
            deltas: self.deltas - start.deltas,
            ..self
        }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, more: Self) {
        self.datagrams_out += more.datagrams_out;
        self.bytes_out += more.bytes_out;
        self.datagrams_in += more.datagrams_in;
        self.bytes_in += more.bytes_in;
        self.snapshots += more.snapshots;
        self.deltas += more.deltas;
        self.events += more.events;
        self.creates += more.creates;
        self.destroys += more.destroys;
        self.again += more.again;
        self.lost += more.lost;
        self.ignored += more.ignored;
        self.asked += more.asked;
    }
}

/// A datagram socket on this machine that talks with `server` only and never waits.
pub fn open_datagrams(server: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((server.ip(), 0))?;
    socket.connect(server)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}
