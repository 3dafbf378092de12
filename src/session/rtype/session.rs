//! The server's side of one R-Type connection, from its Welcome to its end.

use std::net::SocketAddr;
use std::ops::Range;

use super::notices::{Notice, Notices};
use super::{Link, PROOF_TIMEOUT, WELCOME_INTERVAL, drop_reason};
use crate::model::{EntityId, EntityTable, PlayerId, PlayerInput};
use crate::session::drops::DropReason;
use crate::session::input::InputBuffer;
use crate::session::rate::Burst;
use crate::session::reliable::{Carried, TooManyInFlight};
use crate::storage::Ring;
use crate::time::{Duration, Instant, Tick};
use crate::wire::rtype::handshake::Handshake;
use crate::wire::rtype::message::{
    ClientMessage, Disconnect, Input, Message, MessageError, Ping, Pong, QueryEntity,
};
use crate::wire::rtype::snapshot::EntityState;
use crate::wire::rtype::{Header, Packet, PacketWriter};

/// A broken client: this many malformed packets or messages within 5 s end its connection.
pub const MALFORMED_MAX: usize = 100;
const MALFORMED_SPAN: Duration = Duration::from_secs(5);

/// Datagrams that one connection may send in a second: four times what a client with a 60 Hz input has to say. What goes
/// beyond is dropped unread, so that one spammer costs the others nothing.
pub const DATAGRAMS_PER_SECOND_MAX: u32 = 240;

/// Entities asked for that wait for an answer; more are not answered.
pub const QUERIES_MAX: usize = 64;

/// Pings that wait for an answer; more are not answered.
const PINGS_MAX: usize = 4;

/// A connection as its Hello opened it.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    /// Its id, never 0.
    pub id: u32,
    /// Where its client is.
    pub endpoint: SocketAddr,
    /// The room it plays in.
    pub room: u32,
    /// Its slot there.
    pub player: PlayerId,
}

/// What a datagram brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heard {
    /// Nothing that the server must act on.
    Nothing,
    /// The same, but for a message that was dropped for this reason, the first of its packet.
    Malformed(DropReason),
    /// The client did not get its Welcome: send the same once more.
    WantsWelcome,
    /// The client leaves.
    Leaves,
}

/// One client's connection. Slots of a pool: made once, used again through [`Session::reset`].
#[derive(Debug)]
pub struct Session {
    connection: Connection,
    link: Link,
    notices: Notices,
    input: InputBuffer,
    /// Sequence of the newest Input.
    input_sequence: Option<u32>,
    /// Timestamps of Pings to answer.
    pings: Ring<u32>,
    /// Entities asked for.
    queries: Ring<u32>,
    malformed: Burst<MALFORMED_MAX>,
    idle_timeout: Duration,
    /// A valid packet came: whoever is there got Welcome.
    is_proven: bool,
    opened_at: Instant,
    welcomed_at: Instant,
    heard_at: Instant,
    second_start: Instant,
    heard_this_second: u32,
}

impl Session {
    /// A free slot for a Hello to fill.
    pub fn new() -> Self {
        Self {
            connection: Connection {
                id: 0,
                endpoint: SocketAddr::from(([0, 0, 0, 0], 0)),
                room: 0,
                player: PlayerId::all().next().expect("there is a first player"),
            },
            link: Link::new(),
            notices: Notices::new(),
            input: InputBuffer::new(),
            input_sequence: None,
            pings: Ring::new(PINGS_MAX, 0),
            queries: Ring::new(QUERIES_MAX, 0),
            malformed: Burst::new(),
            idle_timeout: Duration::ZERO,
            is_proven: false,
            opened_at: Instant::ZERO,
            welcomed_at: Instant::ZERO,
            heard_at: Instant::ZERO,
            second_start: Instant::ZERO,
            heard_this_second: 0,
        }
    }

    /// Opens a connection, whose Welcome is to be sent now. It ends when nothing valid comes for `idle_timeout`, zero
    /// for never.
    ///
    /// # Panics
    /// When its id is 0.
    pub fn reset(&mut self, now: Instant, connection: Connection, idle_timeout: Duration) {
        assert!(connection.id != 0, "connection 0");
        self.connection = connection;
        self.link.reset(connection.id);
        self.notices.reset();
        self.input = InputBuffer::new();
        self.input_sequence = None;
        self.pings.clear();
        self.queries.clear();
        self.malformed = Burst::new();
        self.idle_timeout = idle_timeout;
        self.is_proven = false;
        self.opened_at = now;
        self.welcomed_at = now;
        self.heard_at = now;
        self.second_start = now;
        self.heard_this_second = 0;
    }

    /// Who it is.
    pub const fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Sequences, acknowledgements and round-trip time.
    pub const fn link(&self) -> &Link {
        &self.link
    }

    /// Whether a valid packet has come yet. Until then the client may be a forged address.
    pub const fn is_proven(&self) -> bool {
        self.is_proven
    }

    /// Whether one more datagram may be read in this second.
    pub fn may_hear(&mut self, now: Instant) -> bool {
        if now.since(self.second_start) >= Duration::from_secs(1) {
            self.second_start = now;
            self.heard_this_second = 0;
        }
        self.heard_this_second = self.heard_this_second.saturating_add(1);
        self.heard_this_second <= DATAGRAMS_PER_SECOND_MAX
    }

    /// Takes in a datagram from the connection's endpoint, which arrived `at`. It is checked whole (2.2, 5.2 to 5.4)
    /// before anything changes; then each message counts or is dropped on its own.
    pub fn hear(&mut self, now: Instant, at: Instant, bytes: &[u8]) -> Result<Heard, DropReason> {
        if !self.is_proven && Handshake::parse(bytes) == Ok(Handshake::Hello) {
            return Ok(self.hear_hello(now));
        }
        let header = Header::parse(bytes).map_err(drop_reason)?;
        if header.connection != self.connection.id {
            return Err(DropReason::Foreign);
        }
        let packet = Packet::parse(bytes).map_err(drop_reason)?;
        if !self.link.receipts().classify(header.sequence).is_fresh() {
            return Err(DropReason::Stale);
        }
        self.is_proven = true;
        self.heard_at = now;
        let notices = &mut self.notices;
        self.link.receive(&header, at, |carried| notices.settle(carried));
        self.notices.heard(self.link.newest_acked());
        let mut heard = Heard::Nothing;
        for message in packet.messages() {
            match ClientMessage::parse(&message) {
                // It is over: what follows says nothing to anybody.
                Ok(ClientMessage::Disconnect(_)) => return Ok(Heard::Leaves),
                Ok(message) => self.take_message(message),
                Err(MessageError::UnknownKind) => {}
                Err(_) if heard == Heard::Nothing => heard = Heard::Malformed(malformed(message.kind)),
                Err(_) => {}
            }
        }
        Ok(heard)
    }

    fn hear_hello(&mut self, now: Instant) -> Heard {
        if now.since(self.welcomed_at) < WELCOME_INTERVAL {
            return Heard::Nothing;
        }
        self.welcomed_at = now;
        Heard::WantsWelcome
    }

    fn take_message(&mut self, message: ClientMessage) {
        match message {
            ClientMessage::Input(Input { sequence, controls, .. }) => {
                if self.input_sequence.is_none_or(|before| is_newer(sequence, before)) {
                    self.input_sequence = Some(sequence);
                    self.input.push(controls);
                }
            }
            // Whoever asks more often than it can be answered is not answered more often.
            ClientMessage::Ping(Ping { timestamp }) => {
                let _ = self.pings.push(timestamp);
            }
            ClientMessage::QueryEntity(QueryEntity { id }) => {
                if self.queries.iter().all(|&waiting| waiting != id.0) {
                    let _ = self.queries.push(id.0);
                }
            }
            ClientMessage::Disconnect(_) => {}
        }
    }

    /// A packet or message of this connection was malformed: whether that is once too often.
    pub fn is_broken_by_malformed(&mut self, now: Instant) -> bool {
        self.malformed.hit(now, MALFORMED_SPAN)
    }

    /// Malformed packets and messages so far.
    pub const fn malformed_count(&self) -> u32 {
        self.malformed.count()
    }

    /// What the player does in the coming tick.
    pub fn take_input(&mut self) -> PlayerInput {
        self.input.take()
    }

    /// Puts a notice on its way to the client: it goes with the next [`Session::write_notices`]. Refused when too many
    /// are in flight to a client that acknowledges, and so keeps them waiting.
    pub fn push_notice(&mut self, notice: Notice) -> Result<(), TooManyInFlight> {
        self.notices.push(notice)
    }

    /// Whether a notice of what a newcomer finds may be put on its way: one after the other, so that they never crowd
    /// out what happens meanwhile.
    pub fn has_room_for_sync(&self) -> bool {
        self.notices.has_room_for_sync()
    }

    /// Notices not known to have arrived.
    pub fn notices_pending(&self) -> usize {
        self.notices.pending()
    }

    /// Whether [`Session::write_notices`] has something that was never sent: notices, Pongs or answers to queries.
    pub fn has_unsent(&self) -> bool {
        self.notices.has_unsent() || self.has_answers()
    }

    /// Whether Pings or queries wait for their answers.
    pub fn has_answers(&self) -> bool {
        !self.pings.is_empty() || !self.queries.is_empty()
    }

    /// Whether notices are to be sent again at `now`.
    pub fn is_resend_due(&self, now: Instant) -> bool {
        self.notices.next_resend().is_some_and(|due| due <= now)
    }

    /// Writes one packet of Pongs, notices and answers to queries that are due at `now` into `out` (548 bytes are used
    /// at most) and returns its length; `None` when nothing is to be sent. To be called until then. `tick` and
    /// `entities` are those of the room.
    pub fn write_notices(
        &mut self,
        now: Instant,
        tick: Tick,
        entities: &EntityTable,
        out: &mut [u8],
    ) -> Option<usize> {
        self.answer_queries();
        let mut writer = PacketWriter::new(&self.link.next_header(), out);
        while let Some(timestamp) = self.pings.pop() {
            let is_written = writer.push(&Pong { timestamp });
            debug_assert!(is_written, "the few Pongs fit in front of everything else");
        }
        let carried = self.notices.write(now, tick, entities, &self.link, &mut writer);
        if writer.is_empty() {
            self.notices.nothing_written(&carried);
            return None;
        }
        self.link.sent(now, &carried);
        Some(writer.finish())
    }

    /// An answer to a query is a notice like any other: sent again when it is lost.
    fn answer_queries(&mut self) {
        while let Some(&id) = self.queries.get(0) {
            if !self.notices.answer(EntityId(id)) {
                break;
            }
            self.queries.pop();
        }
    }

    /// Writes one packet with a Snapshot of those of the room's entities whose indices are in `range`, as many as fit,
    /// and returns its length and the index from which the next packet goes on; `None` when this was the last. Without
    /// entities it is an empty Snapshot.
    pub fn write_snapshot(
        &mut self,
        now: Instant,
        tick: Tick,
        entities: &EntityTable,
        range: Range<u32>,
        out: &mut [u8],
    ) -> (usize, Option<u32>) {
        let mut next = range.start;
        let next_of = |index| entities.next_live(index).filter(|index| *index < range.end);
        let mut states = std::iter::from_fn(|| {
            while let Some(index) = next_of(next) {
                next = index + 1;
                let (id, entity) = (entities.id(index)?, entities.get(index)?);
                if let Some(state) = EntityState::of(id, entity) {
                    return Some(state);
                }
            }
            None
        });
        let mut writer = PacketWriter::new(&self.link.next_header(), out);
        writer.snapshot(tick.0, &mut states).expect("an empty packet holds a Snapshot");
        self.link.sent(now, &Carried::NONE);
        (writer.finish(), next_of(next))
    }

    /// Whether the connection's time is over at `now`: nobody proved to be there in time, or nothing came for too long.
    pub fn is_timed_out(&self, now: Instant) -> bool {
        self.timeout_at().is_some_and(|timeout| now >= timeout)
    }

    /// When something is next due: the end, or a notice to be sent again. New ones go when their room says.
    pub fn next_deadline(&self) -> Option<Instant> {
        [self.timeout_at(), self.notices.next_resend()].into_iter().flatten().min()
    }

    fn timeout_at(&self) -> Option<Instant> {
        if !self.is_proven {
            return Some(self.opened_at + PROOF_TIMEOUT);
        }
        (self.idle_timeout != Duration::ZERO).then(|| self.heard_at + self.idle_timeout)
    }
}

impl Default for Session {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether Input `a` is newer than `b` (7.1): a signed difference, so that the counter may wrap.
const fn is_newer(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

/// How a malformed message of type `kind` is accounted for.
const fn malformed(kind: u16) -> DropReason {
    match kind {
        Input::KIND => DropReason::MalformedInput,
        Ping::KIND => DropReason::MalformedPing,
        Disconnect::KIND => DropReason::MalformedDisconnect,
        QueryEntity::KIND => DropReason::MalformedQuery,
        _ => DropReason::MalformedPacket,
    }
}
