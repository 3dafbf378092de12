//! An Aegis client: logs in over a stream, binds and plays over datagrams. Implements the client's side of Aegis 3 to 6.
//!
//! The caller owns the sockets. It connects a stream to the server, moves bytes between it and the client
//! ([`Client::stream_output`], [`Client::stream_bytes`]), and once [`Client::udp_port`] is known exchanges datagrams with
//! that port of the same address only ([`Client::datagram`], [`Client::transmit`]). Everything is allocated at creation.

mod known;
mod snapshots;

use self::known::Known;
use self::snapshots::Snapshots;
use crate::lz4::{self, Compressor};
use crate::model::{Controls, Entity, EntityId, Name, PLAYERS_MAX, PlayerId};
use crate::session::acks::Receipt;
use crate::session::aegis::{
    CONNECT_INTERVAL, Carried, DISCONNECT_COPIES, HEARTBEAT_INTERVAL, IDLE_TIMEOUT, Link, Payload, compose,
};
use crate::session::reliable::EventReceiver;
use crate::storage::Ring;
use crate::time::{Duration, Instant};
use crate::wire::aegis::event::{Event, EventList};
use crate::wire::aegis::snapshot::{SnapshotError, Table};
use crate::wire::aegis::stream::{
    ClientMessage, FrameReader, LogoutReason, RejectReason, ServerMessage, StreamError,
};
use crate::wire::aegis::{DATAGRAM_BYTES_MAX, HEADER_BYTES, Header, PAYLOAD_BYTES_MAX, PacketKind, VERSION};

/// Events that wait to be taken; when the caller lets more than these pile up, the newest are lost and counted.
const EVENTS_WAITING_MAX: usize = 512;

/// Longest stream message of a client: length, kind, version, and a name with its length.
const STREAM_OUT_MAX: usize = 64;

/// What a client is told at creation.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The player's name.
    pub name: Name,
    /// Entities of one room that it can hold.
    pub entities_max: usize,
    /// Snapshots kept as baselines. 64 ÷ the server's snapshot interval + 1 never misses one.
    pub snapshots_kept: usize,
}

/// Where a client stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Said LoginRequest, or is about to.
    LoggingIn,
    /// Has a session, and says Connect until it is accepted.
    Binding,
    /// In the match.
    Playing,
    /// Out of it, for good.
    Over(Over),
}

/// Why it is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Over {
    /// The login was refused.
    Rejected(RejectReason),
    /// The server said Logout.
    LoggedOut(LogoutReason),
    /// The server said Disconnect.
    Disconnected,
    /// The stream was closed without a word.
    Closed,
    /// The server's stream did not follow the protocol.
    BadStream(StreamError),
    /// Nothing valid came for too long.
    TimedOut,
    /// The client left.
    Left,
}

/// Why a datagram was dropped, or its content ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ignored {
    /// Size, magic, version or type.
    Header,
    /// Not for this session, the wrong direction, or before the first Accept.
    Foreign,
    /// The payload is malformed.
    Malformed,
    /// A snapshot that cannot be applied.
    Snapshot(SnapshotError),
    /// Seen before, or too old to tell.
    Stale,
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
    /// Snapshots applied.
    pub snapshots: u64,
    /// Of these, against a baseline.
    pub snapshots_delta: u64,
    /// Snapshots dropped for a baseline that is not here.
    pub snapshots_missing_baseline: u64,
    /// Events handed over, each once.
    pub events: u64,
    /// Events that came again.
    pub events_repeated: u64,
    /// Events whose content was malformed or unknown.
    pub events_ignored: u64,
    /// Events lost because the caller did not take them.
    pub events_lost: u64,
    /// Datagrams dropped for their header or payload, or foreign ones.
    pub dropped: u64,
    /// Datagrams seen before, or too old.
    pub stale: u64,
}

/// A client of one session.
#[derive(Debug)]
pub struct Client {
    phase: Phase,
    frame: FrameReader,
    stream_out: Ring<u8>,
    session: Session,
    link: Link,
    events: EventReceiver,
    events_waiting: Ring<Option<Event>>,
    snapshots: Snapshots,
    known: Known,
    compressor: Compressor,
    controls: Controls,
    heard_at: Instant,
    spoke_at: Instant,
    connect_at: Instant,
    input_at: Instant,
    disconnects_left: usize,
    stats: ClientStats,
}

/// What the login gave.
#[derive(Clone, Copy, Default, Debug)]
struct Session {
    udp_port: u16,
    player: Option<PlayerId>,
    tick_rate: u8,
    snapshot_interval: u8,
}

impl Client {
    /// A client that is about to log in: its LoginRequest is in [`Client::stream_output`].
    pub fn new(settings: &Settings) -> Self {
        let mut client = Self {
            phase: Phase::LoggingIn,
            frame: FrameReader::new(),
            stream_out: Ring::new(STREAM_OUT_MAX, 0),
            session: Session::default(),
            link: Link::new(),
            events: EventReceiver::new(),
            events_waiting: Ring::new(EVENTS_WAITING_MAX, None),
            snapshots: Snapshots::new(settings.entities_max, settings.snapshots_kept),
            known: Known::new(settings.entities_max),
            compressor: Compressor::new(),
            controls: Controls::RELEASED,
            heard_at: Instant::ZERO,
            spoke_at: Instant::ZERO,
            connect_at: Instant::ZERO,
            input_at: Instant::ZERO,
            disconnects_left: 0,
            stats: ClientStats::default(),
        };
        client.say(&ClientMessage::LoginRequest { version: VERSION, name: Ok(settings.name) });
        client
    }

    /// Where it stands.
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// The port to play on, once logged in.
    pub fn udp_port(&self) -> Option<u16> {
        self.session.player.map(|_| self.session.udp_port)
    }

    /// The client's own slot, once logged in.
    pub const fn player(&self) -> Option<PlayerId> {
        self.session.player
    }

    /// Ticks from one snapshot to the next, as the server said at login.
    pub const fn snapshot_interval(&self) -> u8 {
        self.session.snapshot_interval
    }

    /// Takes the next byte to send on the stream, if there is one.
    pub fn stream_output(&mut self) -> Option<u8> {
        self.stream_out.pop()
    }

    /// Takes in bytes from the stream.
    pub fn stream_bytes(&mut self, now: Instant, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() && !self.is_over() {
            let message = match self.frame.push(&mut rest) {
                Some(Ok(frame)) => frame.server_message(),
                Some(Err(error)) => Err(error),
                None => return,
            };
            match (message, self.phase) {
                (
                    Ok(ServerMessage::LoginAccepted {
                        session,
                        udp_port,
                        player,
                        tick_rate,
                        snapshot_interval,
                    }),
                    Phase::LoggingIn,
                ) => {
                    self.session = Session { udp_port, player: Some(player), tick_rate, snapshot_interval };
                    self.link.reset(session);
                    self.phase = Phase::Binding;
                    self.heard_at = now;
                    self.connect_at = now;
                }
                (Ok(ServerMessage::LoginRejected(reason)), Phase::LoggingIn) => {
                    self.end(Over::Rejected(reason))
                }
                (Ok(ServerMessage::Logout(reason)), _) => self.end(Over::LoggedOut(reason)),
                (Ok(message), _) => self.end(Over::BadStream(StreamError::Unexpected(message.kind()))),
                (Err(error), _) => self.end(Over::BadStream(error)),
            }
        }
    }

    /// The stream was closed by the server, or failed.
    pub fn stream_closed(&mut self) {
        if !self.is_over() {
            self.end(Over::Closed);
        }
    }

    /// Leaves, and says so on both ways, in case one is dead: what [`Client::transmit`] and [`Client::stream_output`]
    /// then still give is to be sent.
    pub fn leave(&mut self) {
        if self.phase == Phase::Playing {
            self.disconnects_left = DISCONNECT_COPIES;
        }
        self.log_out();
    }

    /// Leaves, and says so on the stream only: enough while it works, and the last thing that the server hears.
    pub fn log_out(&mut self) {
        if self.is_over() {
            return;
        }
        self.say(&ClientMessage::Logout(LogoutReason::Quit));
        self.end(Over::Left);
    }

    /// Takes in a datagram from the server's port that arrived `at`.
    pub fn datagram(&mut self, now: Instant, at: Instant, bytes: &[u8]) -> Result<(), Ignored> {
        self.stats.datagrams_in += 1;
        self.stats.bytes_in += bytes.len() as u64;
        let read = self.read_datagram(now, at, bytes);
        match read {
            Ok(()) => {}
            Err(Ignored::Stale) => self.stats.stale += 1,
            Err(Ignored::Snapshot(SnapshotError::MissingBaseline)) => {
                self.stats.snapshots_missing_baseline += 1
            }
            Err(_) => self.stats.dropped += 1,
        }
        read
    }

    /// Sets the controls that go out with every Input from now on.
    pub fn set_controls(&mut self, controls: Controls) {
        self.controls = controls;
    }

    /// Writes the next datagram due at `now` into `buffer` and returns its length; `None` when none is due. To be
    /// called until then.
    pub fn transmit(&mut self, now: Instant, buffer: &mut [u8; DATAGRAM_BYTES_MAX]) -> Option<usize> {
        if !self.is_over() && self.session.player.is_some() && now >= self.heard_at + IDLE_TIMEOUT {
            self.end(Over::TimedOut);
        }
        match self.phase {
            Phase::Binding if now >= self.connect_at => {
                self.connect_at = now + CONNECT_INTERVAL;
                self.send(now, buffer, PacketKind::Connect, &[])
            }
            Phase::Playing if super::is_beat(self.input_at, self.interval(), now) => {
                // One Input a tick: who comes late sends the newest controls, not a burst of old ones.
                self.input_at = super::next_beat(self.input_at, self.interval(), now);
                let controls = self.controls.bits();
                self.send(now, buffer, PacketKind::Input, &[controls])
            }
            Phase::Playing if now >= self.spoke_at + HEARTBEAT_INTERVAL => {
                self.send(now, buffer, PacketKind::Heartbeat, &[])
            }
            Phase::Over(_) if self.disconnects_left > 0 => {
                self.disconnects_left -= 1;
                self.send(now, buffer, PacketKind::Disconnect, &[])
            }
            _ => None,
        }
    }

    /// When [`Client::transmit`] next has something to do.
    pub fn next_deadline(&self) -> Option<Instant> {
        let timeout = self.heard_at + IDLE_TIMEOUT;
        match self.phase {
            Phase::LoggingIn => None,
            Phase::Binding => Some(self.connect_at.min(timeout)),
            Phase::Playing => Some(self.input_at.min(timeout)),
            Phase::Over(_) => (self.disconnects_left > 0).then_some(Instant::ZERO),
        }
    }

    /// Takes the next event, in the order of arrival.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events_waiting.pop().flatten()
    }

    /// The newest snapshot applied: everything in it, whether to be shown or not.
    pub fn table(&self) -> Option<&Table> {
        self.snapshots.newest()
    }

    /// The snapshot applied last: not the newest one when it was overtaken on its way.
    pub fn last_applied(&self) -> Option<&Table> {
        self.snapshots.last_applied()
    }

    /// What is to be shown of the newest snapshot: entities of a known kind that were told of by a Spawn and not
    /// destroyed since.
    pub fn visible(&self) -> impl Iterator<Item = (EntityId, &Entity)> {
        let entities = self.snapshots.newest().into_iter().flat_map(Table::iter);
        entities.filter(|(_, entity)| entity.kind.is_known()).filter_map(|(index, entity)| {
            let id = EntityId::new(index, entity.generation);
            self.known.is_alive(id).then_some((id, entity))
        })
    }

    /// Names of the players in the match.
    pub fn names(&self) -> &[Option<Name>; PLAYERS_MAX] {
        self.known.names()
    }

    /// Sequences, acknowledgements and round-trip time.
    pub const fn link(&self) -> &Link {
        &self.link
    }

    /// Counters so far.
    pub const fn stats(&self) -> &ClientStats {
        &self.stats
    }

    /// Whether it is over.
    pub const fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over(_))
    }

    /// The checks of 6.3 in their order, then what the datagram says.
    fn read_datagram(&mut self, now: Instant, at: Instant, bytes: &[u8]) -> Result<(), Ignored> {
        if bytes.len() > DATAGRAM_BYTES_MAX {
            return Err(Ignored::Header);
        }
        let header = Header::parse(bytes).map_err(|_| Ignored::Header)?;
        let is_expected = match self.phase {
            Phase::Binding => header.kind == PacketKind::Accept,
            Phase::Playing => header.kind.to_client(),
            Phase::LoggingIn | Phase::Over(_) => false,
        };
        if !is_expected || header.session != self.link.token() {
            return Err(Ignored::Foreign);
        }
        self.read_payload(now, at, &header, &bytes[HEADER_BYTES..])
    }

    fn read_payload(
        &mut self,
        now: Instant,
        at: Instant,
        header: &Header,
        payload: &[u8],
    ) -> Result<(), Ignored> {
        let mut scratch;
        let payload = if header.compressed {
            scratch = [0; PAYLOAD_BYTES_MAX];
            let len = lz4::decompress(payload, &mut scratch).map_err(|_| Ignored::Malformed)?;
            &scratch[..len]
        } else {
            payload
        };
        match header.kind {
            PacketKind::Snapshot => {
                self.snapshots.decode(payload).map_err(Ignored::Snapshot)?;
                self.hear(now, at, header)?;
                let was_delta = self.snapshots.commit();
                self.stats.snapshots += 1;
                self.stats.snapshots_delta += u64::from(was_delta);
            }
            PacketKind::Event => {
                let list = EventList::parse(payload).map_err(|_| Ignored::Malformed)?;
                // A datagram seen before still hands over the events that were not (5.1).
                let heard = self.hear(now, at, header);
                list.iter().for_each(|(id, content)| self.take_event(id, content));
                heard?;
            }
            _ if !payload.is_empty() => return Err(Ignored::Malformed),
            PacketKind::Accept => {
                self.hear(now, at, header)?;
                if self.phase == Phase::Binding {
                    self.phase = Phase::Playing;
                    self.input_at = now;
                }
            }
            PacketKind::Disconnect => {
                self.hear(now, at, header)?;
                self.end(Over::Disconnected);
            }
            _ => self.hear(now, at, header)?,
        }
        Ok(())
    }

    /// Step 6 of 6.3.
    fn hear(&mut self, now: Instant, at: Instant, header: &Header) -> Result<(), Ignored> {
        self.heard_at = now;
        match self.link.receive(header, at, |_| ()) {
            Receipt::New => Ok(()),
            Receipt::Duplicate | Receipt::TooOld => Err(Ignored::Stale),
        }
    }

    fn take_event(&mut self, id: u16, content: &[u8]) {
        if !self.events.accept(id) {
            self.stats.events_repeated += 1;
            return;
        }
        let event = match Event::parse(content) {
            Ok(event) if is_known(&event) => event,
            _ => {
                self.stats.events_ignored += 1;
                return;
            }
        };
        self.known.learn(&event);
        self.stats.events += 1;
        if self.events_waiting.push(Some(event)).is_err() {
            self.stats.events_lost += 1;
        }
    }

    /// From one Input to the next.
    fn interval(&self) -> Duration {
        Duration::from_secs(1).per(u64::from(self.session.tick_rate.max(1)))
    }

    fn send(
        &mut self,
        now: Instant,
        buffer: &mut [u8; DATAGRAM_BYTES_MAX],
        kind: PacketKind,
        payload: &[u8],
    ) -> Option<usize> {
        let header = self.link.next_header(kind);
        let len = compose(&header, &mut self.compressor, buffer, |out| {
            out[..payload.len()].copy_from_slice(payload);
            Some(Payload { len: payload.len(), shrinks: false })
        })?;
        self.link.sent(now, Carried::NOTHING);
        self.spoke_at = now;
        self.stats.datagrams_out += 1;
        self.stats.bytes_out += len as u64;
        Some(len)
    }

    fn say(&mut self, message: &ClientMessage) {
        let mut bytes = [0; STREAM_OUT_MAX];
        let len = message.emit(&mut bytes);
        // At most a LoginRequest and a Logout are ever said.
        bytes[..len].iter().for_each(|&byte| self.stream_out.push(byte).expect("room for two messages"));
    }

    fn end(&mut self, over: Over) {
        self.phase = Phase::Over(over);
    }
}

/// Whether an event is about a kind of entity that this version has (4.1).
const fn is_known(event: &Event) -> bool {
    match event {
        Event::Spawn { kind, .. } => kind.is_known(),
        _ => true,
    }
}
