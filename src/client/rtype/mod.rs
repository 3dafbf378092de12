//! An R-Type client: says Hello, plays, and knows what is in the room. Implements the client's side of
//! docs/protocol/rtype.md.
//!
//! The caller owns the socket. It exchanges datagrams with the server's address and port only ([`Client::datagram`],
//! [`Client::transmit`]). Everything is allocated at creation.

mod known;
mod own;

use self::known::{Known, Learned};
use self::own::OwnShip;
use crate::model::{Controls, Entity, EntityId, PlayerId};
use crate::session::reliable::Carried;
use crate::session::rtt::Rtt;
use crate::session::rtype::{HELLO_INTERVAL, HELLO_TIMEOUT, IDLE_TIMEOUT, Link};
use crate::time::{Duration, Instant};
use crate::wire::rtype::blueprint::Blueprint;
use crate::wire::rtype::handshake::{Handshake, HandshakeError};
use crate::wire::rtype::message::{
    CreateEntity, DestroyEntity, Disconnect, DisconnectReason, Input, MessageError, Ping, QueryEntity,
    ServerMessage,
};
use crate::wire::rtype::snapshot::Snapshot;
use crate::wire::rtype::{Header, Packet, PacketError, PacketWriter, framed_bytes};

pub use known::KnownEntity;

/// From one Input to the next: a frame.
const FRAME: Duration = Duration::from_nanos(1_000_000_000 / 60);

/// From one Ping to the next.
const PING_INTERVAL: Duration = Duration::from_secs(1);

/// What a client is told at creation.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Entities of one room that it can hold.
    pub entities_max: usize,
}

/// Where a client stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Says Hello until it is answered.
    Connecting,
    /// In the match.
    Playing,
    /// Out of it, for good.
    Over(Over),
}

/// Why it is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Over {
    /// The server refused.
    Rejected,
    /// Nobody answered the Hello.
    NoAnswer,
    /// Nothing valid came for too long.
    TimedOut,
    /// The client left.
    Left,
}

/// Why a datagram was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ignored {
    /// No valid answer to the Hello.
    Handshake(HandshakeError),
    /// Its size or its framing.
    Packet(PacketError),
    /// Of another connection, or a handshake datagram that only servers take.
    Foreign,
    /// Seen before, or too old to tell.
    Stale,
    /// The client is done.
    Over,
}

/// What happened so far.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct ClientStats {
    /// Datagrams received.
    pub datagrams_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Datagrams sent.
    pub datagrams_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Snapshots taken in.
    pub snapshots: u64,
    /// Entities created.
    pub creates: u64,
    /// CreateEntity messages for what was known already, or gone.
    pub creates_repeated: u64,
    /// Entities that found no room.
    pub creates_lost: u64,
    /// Entities destroyed.
    pub destroys: u64,
    /// DestroyEntity messages for what was not known.
    pub destroys_repeated: u64,
    /// Entities asked for.
    pub queries: u64,
    /// Pings answered.
    pub pongs: u64,
    /// Messages dropped because they were malformed.
    pub messages_malformed: u64,
    /// Messages of unknown types.
    pub messages_unknown: u64,
    /// Datagrams dropped for their size, their framing or their connection.
    pub dropped: u64,
    /// Datagrams seen before, or too old.
    pub stale: u64,
}

/// A client of one connection.
#[derive(Debug)]
pub struct Client {
    phase: Phase,
    link: Link,
    known: Known,
    own_ship: OwnShip,
    rtt: Rtt,
    controls: Controls,
    input_sequence: u32,
    client_tick: u32,
    server_tick: Option<u32>,
    snapshot_tick: Option<u32>,
    /// When it began to say Hello; the first call of [`Client::transmit`] tells.
    started_at: Option<Instant>,
    hello_at: Instant,
    heard_at: Instant,
    input_at: Instant,
    ping_at: Instant,
    /// Timestamp and time of the Ping that waits for its Pong.
    ping: Option<(u32, Instant)>,
    farewell: Option<DisconnectReason>,
    stats: ClientStats,
}

impl Client {
    /// A client that is about to say Hello.
    pub fn new(settings: &Settings) -> Self {
        Self {
            phase: Phase::Connecting,
            link: Link::new(),
            known: Known::new(settings.entities_max),
            own_ship: OwnShip::new(),
            rtt: Rtt::new(),
            controls: Controls::RELEASED,
            input_sequence: 0,
            client_tick: 0,
            server_tick: None,
            snapshot_tick: None,
            started_at: None,
            hello_at: Instant::ZERO,
            heard_at: Instant::ZERO,
            input_at: Instant::ZERO,
            ping_at: Instant::ZERO,
            ping: None,
            farewell: None,
            stats: ClientStats::default(),
        }
    }

    /// Where it stands.
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether it is over.
    pub const fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over(_))
    }

    /// The connection's id, 0 before Welcome.
    pub const fn connection(&self) -> u32 {
        self.link.connection()
    }

    /// The client's own slot, as far as its ship follows the controls: the server does not say.
    pub fn player(&self) -> Option<PlayerId> {
        self.own_ship.player()
    }

    /// Takes in a datagram from the server's address and port that arrived `at`.
    pub fn datagram(&mut self, now: Instant, at: Instant, bytes: &[u8]) -> Result<(), Ignored> {
        self.stats.datagrams_in += 1;
        self.stats.bytes_in += bytes.len() as u64;
        let read = match self.phase {
            Phase::Connecting => self.read_handshake(now, bytes),
            Phase::Playing => self.read_packet(now, at, bytes),
            Phase::Over(_) => Err(Ignored::Over),
        };
        match read {
            Ok(()) => {}
            Err(Ignored::Stale) => self.stats.stale += 1,
            Err(_) => self.stats.dropped += 1,
        }
        read
    }

    /// Sets the controls that go out with every Input from now on.
    pub fn set_controls(&mut self, controls: Controls) {
        self.controls = controls;
    }

    /// Leaves: what [`Client::transmit`] then still gives is to be sent.
    pub fn leave(&mut self) {
        if self.phase == Phase::Playing {
            self.farewell = Some(DisconnectReason::Quit);
        }
        if !self.is_over() {
            self.phase = Phase::Over(Over::Left);
        }
    }

    /// Writes the next datagram due at `now` into `buffer`, of which 548 bytes are used at most, and returns its length;
    /// `None` when none is due. To be called until then.
    ///
    /// # Panics
    /// When `buffer` has no room for a handshake datagram or a header.
    pub fn transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.run_timers(now);
        let len = match self.phase {
            Phase::Connecting if now >= self.hello_at => {
                self.hello_at = now + HELLO_INTERVAL;
                Handshake::Hello.emit(buffer)
            }
            Phase::Playing if super::is_beat(self.input_at, FRAME, now) => {
                // One Input a frame: a caller that comes late sends the newest controls, not a burst of old ones.
                self.input_at = super::next_beat(self.input_at, FRAME, now);
                self.write_frame(now, buffer)
            }
            Phase::Over(_) => {
                let reason = self.farewell.take()?;
                self.write_farewell(now, buffer, reason)
            }
            _ => return None,
        };
        self.stats.datagrams_out += 1;
        self.stats.bytes_out += len as u64;
        Some(len)
    }

    /// When [`Client::transmit`] next has something to do.
    pub fn next_deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Connecting => Some(self.hello_at),
            Phase::Playing => Some(self.input_at.min(self.heard_at + IDLE_TIMEOUT)),
            Phase::Over(_) => self.farewell.map(|_| Instant::ZERO),
        }
    }

    /// Everything known: created and not destroyed.
    pub fn known(&self) -> impl Iterator<Item = &KnownEntity> {
        self.known.iter()
    }

    /// How many entities are known.
    pub fn known_count(&self) -> usize {
        self.known.len()
    }

    /// What is known of one entity.
    pub fn entity(&self, id: EntityId) -> Option<&KnownEntity> {
        self.known.get(id)
    }

    /// What is to be shown: the known entities of a known blueprint.
    pub fn visible(&self) -> impl Iterator<Item = (EntityId, &Entity)> {
        self.known.iter().filter(|known| known.blueprint.is_some()).map(|known| (known.id, &known.entity))
    }

    /// The newest tick that the server spoke of.
    pub const fn server_tick(&self) -> Option<u32> {
        self.server_tick
    }

    /// The tick of the Snapshot that came last.
    pub const fn snapshot_tick(&self) -> Option<u32> {
        self.snapshot_tick
    }

    /// The round-trip time that Pongs show.
    pub const fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// Sequences and acknowledgements.
    pub const fn link(&self) -> &Link {
        &self.link
    }

    /// Counters so far.
    pub const fn stats(&self) -> &ClientStats {
        &self.stats
    }

    fn run_timers(&mut self, now: Instant) {
        match self.phase {
            Phase::Connecting => {
                let started_at = *self.started_at.get_or_insert(now);
                if now >= started_at + HELLO_TIMEOUT {
                    self.phase = Phase::Over(Over::NoAnswer);
                }
            }
            Phase::Playing if now >= self.heard_at + IDLE_TIMEOUT => {
                self.farewell = Some(DisconnectReason::Timeout);
                self.phase = Phase::Over(Over::TimedOut);
            }
            Phase::Playing | Phase::Over(_) => {}
        }
    }

    /// Before Welcome every datagram is a handshake datagram (3).
    fn read_handshake(&mut self, now: Instant, bytes: &[u8]) -> Result<(), Ignored> {
        match Handshake::parse(bytes).map_err(Ignored::Handshake)? {
            Handshake::Hello => return Err(Ignored::Foreign),
            Handshake::Rejected => self.phase = Phase::Over(Over::Rejected),
            Handshake::Welcome { connection } => {
                self.link.reset(connection);
                self.phase = Phase::Playing;
                self.heard_at = now;
                self.input_at = now;
                self.ping_at = now;
            }
        }
        Ok(())
    }

    /// And after it a connected packet.
    fn read_packet(&mut self, now: Instant, at: Instant, bytes: &[u8]) -> Result<(), Ignored> {
        let header = Header::parse(bytes).map_err(Ignored::Packet)?;
        if header.connection != self.link.connection() {
            return Err(Ignored::Foreign);
        }
        let packet = Packet::parse(bytes).map_err(Ignored::Packet)?;
        if !self.link.receipts().classify(header.sequence).is_fresh() {
            return Err(Ignored::Stale);
        }
        self.heard_at = now;
        self.link.receive(&header, at, |_| ());
        for message in packet.messages() {
            match ServerMessage::parse(&message) {
                Ok(ServerMessage::Snapshot(snapshot)) => self.take_snapshot(now, &snapshot),
                Ok(ServerMessage::CreateEntity(create)) => self.take_create(&create),
                Ok(ServerMessage::DestroyEntity(destroy)) => self.take_destroy(&destroy),
                Ok(ServerMessage::Pong(pong)) => self.take_pong(at, pong.timestamp),
                Err(MessageError::UnknownKind) => self.stats.messages_unknown += 1,
                Err(_) => self.stats.messages_malformed += 1,
            }
        }
        Ok(())
    }

    fn take_snapshot(&mut self, now: Instant, snapshot: &Snapshot<'_>) {
        self.stats.snapshots += 1;
        self.snapshot_tick = Some(snapshot.tick);
        self.note_tick(snapshot.tick);
        for state in snapshot.iter() {
            let before = self.known.place(snapshot.tick, &state);
            let after = self.known.get(state.id);
            if let (Some(before), Some(after)) = (before, after)
                && let Some(Blueprint::Player(player)) = after.blueprint
                && after.tick != before.tick
            {
                self.own_ship.moved(now, player, &before.entity, &after.entity);
            }
        }
    }

    fn take_create(&mut self, create: &CreateEntity) {
        self.note_tick(create.tick);
        match self.known.create(create) {
            Learned::News => {
                self.stats.creates += 1;
                if let Some(Blueprint::Player(player)) = Blueprint::from_archetype(create.archetype) {
                    self.own_ship.forget(player);
                }
            }
            Learned::Stale => self.stats.creates_repeated += 1,
            Learned::Full => self.stats.creates_lost += 1,
        }
    }

    fn take_destroy(&mut self, destroy: &DestroyEntity) {
        self.note_tick(destroy.tick);
        match self.known.destroy(destroy) {
            Learned::News => self.stats.destroys += 1,
            Learned::Stale | Learned::Full => self.stats.destroys_repeated += 1,
        }
    }

    fn take_pong(&mut self, at: Instant, timestamp: u32) {
        let Some((sent, sent_at)) = self.ping else { return };
        if sent == timestamp {
            self.ping = None;
            self.rtt.sample(at.since(sent_at));
            self.stats.pongs += 1;
        }
    }

    fn note_tick(&mut self, tick: u32) {
        if self.server_tick.is_none_or(|before| (tick.wrapping_sub(before) as i32) > 0) {
            self.server_tick = Some(tick);
        }
    }

    /// One frame's packet: the Input, a Ping now and then, and what there is to ask for.
    fn write_frame(&mut self, now: Instant, buffer: &mut [u8]) -> usize {
        self.input_sequence = self.input_sequence.wrapping_add(1);
        self.client_tick = self.client_tick.wrapping_add(1);
        self.own_ship.steer(now, self.controls);
        let input =
            Input { sequence: self.input_sequence, client_tick: self.client_tick, controls: self.controls };
        let ping = (now >= self.ping_at).then(|| Ping { timestamp: (now.as_nanos() / 1_000_000) as u32 });
        if let Some(Ping { timestamp }) = ping {
            self.ping_at = now + PING_INTERVAL;
            self.ping = Some((timestamp, now));
        }
        let Self { known, stats, .. } = self;
        let header = self.link.next_header();
        let mut writer = PacketWriter::new(&header, buffer);
        writer.push(&input);
        if let Some(ping) = ping {
            writer.push(&ping);
        }
        while writer.room() >= framed_bytes::<QueryEntity>()
            && let Some(id) = known.next_query()
        {
            writer.push(&QueryEntity { id });
            stats.queries += 1;
        }
        self.finish(now, writer)
    }

    fn write_farewell(&mut self, now: Instant, buffer: &mut [u8], reason: DisconnectReason) -> usize {
        let mut writer = PacketWriter::new(&self.link.next_header(), buffer);
        writer.push(&Disconnect { reason });
        self.finish(now, writer)
    }

    fn finish(&mut self, now: Instant, writer: PacketWriter<'_>) -> usize {
        self.link.sent(now, &Carried::NONE);
        writer.finish()
    }
}

#[cfg(test)]
mod tests;
