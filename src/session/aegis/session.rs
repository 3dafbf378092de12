//! The server's side of one Aegis session, from its login to its end.

use std::net::SocketAddr;

use super::link::{Carried, Link};
use super::{BIND_TIMEOUT, ClientPayload, HEARTBEAT_INTERVAL, IDLE_TIMEOUT, REBIND_SILENCE};
use crate::model::{LeaveReason, Name, PlayerId, PlayerInput};
use crate::seam::StreamId;
use crate::session::acks::Receipt;
use crate::session::input::InputBuffer;
use crate::session::rate::Burst;
use crate::session::reliable::{EventSender, TooManyInFlight};
use crate::storage::is_newer;
use crate::time::{Duration, Instant, Tick};
use crate::wire::aegis::stream::LogoutReason;
use crate::wire::aegis::{Header, PacketKind};

/// A broken client: this many malformed datagrams within [`MALFORMED_SPAN`] end its session (6.6).
pub const MALFORMED_MAX: usize = 100;
const MALFORMED_SPAN: Duration = Duration::from_secs(5);

/// Datagrams that one session may send in a second: four times what a client with a 60 Hz input has to say. What goes
/// beyond is dropped unread, so that one spammer costs the others nothing.
pub const DATAGRAMS_PER_SECOND_MAX: u32 = 240;

/// A session as its login describes it.
#[derive(Clone, Copy, Debug)]
pub struct Login {
    /// The session's token.
    pub token: u32,
    /// Its TCP connection.
    pub stream: StreamId,
    /// The peer of that connection.
    pub peer: SocketAddr,
    /// The room it plays in.
    pub room: u32,
    /// Its slot there.
    pub player: PlayerId,
    /// Its name.
    pub name: Name,
}

/// What a valid datagram brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heard {
    /// Nothing that the server must act on.
    Nothing,
    /// The client asks to be told again that it is bound.
    WantsAccept,
    /// The client leaves.
    Leaves,
}

/// Why a session ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// The client closed its connection, or said Logout.
    Left,
    /// The client said Disconnect.
    Disconnected,
    /// Nothing valid came for too long, or it never bound.
    TimedOut,
    /// Too many malformed datagrams.
    ProtocolError,
    /// More events in flight than the client keeps up with.
    TooSlow,
    /// The server stops.
    ServerShutdown,
}

impl Ended {
    /// What the client is told over TCP.
    pub const fn logout(self) -> LogoutReason {
        match self {
            Self::Left | Self::Disconnected => LogoutReason::Quit,
            Self::TimedOut | Self::TooSlow => LogoutReason::Timeout,
            Self::ProtocolError => LogoutReason::ProtocolError,
            Self::ServerShutdown => LogoutReason::ServerShutdown,
        }
    }

    /// What the other players are told.
    pub const fn leave(self) -> LeaveReason {
        match self {
            Self::Left | Self::Disconnected | Self::ServerShutdown => LeaveReason::Left,
            Self::TimedOut | Self::TooSlow => LeaveReason::Timeout,
            Self::ProtocolError => LeaveReason::Kicked,
        }
    }
}

/// One client's session. Slots of a pool: made once, used again through [`Session::reset`].
#[derive(Debug)]
pub struct Session {
    login: Login,
    link: Link,
    endpoint: Option<SocketAddr>,
    events: EventSender<u16>,
    input: InputBuffer,
    /// Header sequence of the newest input, and whether it was given to a tick yet.
    input_sequence: Option<u16>,
    input_applied: u16,
    malformed: Burst<MALFORMED_MAX>,
    logged_in_at: Instant,
    heard_at: Instant,
    spoke_at: Instant,
    second_start: Instant,
    heard_this_second: u32,
}

impl Session {
    /// A free slot for a login to fill.
    pub fn new() -> Self {
        Self {
            login: Login {
                token: 0,
                stream: StreamId { index: 0, generation: 0 },
                peer: SocketAddr::from(([0, 0, 0, 0], 0)),
                room: 0,
                player: PlayerId::all().next().expect("there is a first player"),
                name: Name::new(b"-").expect("a name"),
            },
            link: Link::new(),
            endpoint: None,
            events: EventSender::new(0),
            input: InputBuffer::new(),
            input_sequence: None,
            input_applied: 0,
            malformed: Burst::new(),
            logged_in_at: Instant::ZERO,
            heard_at: Instant::ZERO,
            spoke_at: Instant::ZERO,
            second_start: Instant::ZERO,
            heard_this_second: 0,
        }
    }

    /// Starts a session. The events of the one before must have been released.
    pub fn reset(&mut self, now: Instant, login: Login) {
        assert!(self.events.pending() == 0, "a session was reused with events in flight");
        self.login = login;
        self.link.reset(login.token);
        self.endpoint = None;
        self.events.reset(|_| ());
        self.input = InputBuffer::new();
        self.input_sequence = None;
        self.input_applied = 0;
        self.malformed = Burst::new();
        self.logged_in_at = now;
        self.heard_at = now;
        self.spoke_at = now;
        self.second_start = now;
        self.heard_this_second = 0;
    }

    /// Who it is.
    pub const fn login(&self) -> &Login {
        &self.login
    }

    /// Where it plays from, once bound.
    pub const fn endpoint(&self) -> Option<SocketAddr> {
        self.endpoint
    }

    /// Sequences, acknowledgements and round-trip time.
    pub const fn link(&self) -> &Link {
        &self.link
    }

    /// Whether one more datagram may be read in this second.
    pub fn may_hear(&mut self, now: Instant) -> bool {
        if now.since(self.second_start) >= Duration::from_secs(1) {
            self.second_start = now;
            self.heard_this_second = 0;
        }
        self.heard_this_second += 1;
        self.heard_this_second <= DATAGRAMS_PER_SECOND_MAX
    }

    /// Binds or rebinds the session to the source of a Connect with its token, if 3.4 allows: the same address as the
    /// TCP peer (the caller checked), and when another endpoint is bound, one silent for a second. A Connect that was
    /// seen before never moves a session. Returns whether it is bound to `from` now.
    pub fn bind(&mut self, now: Instant, from: SocketAddr, header: &Header) -> bool {
        match self.endpoint {
            Some(bound) if bound == from => true,
            Some(_) if now.since(self.heard_at) < REBIND_SILENCE => false,
            _ if !self.link.is_newest(header.sequence) => false,
            _ => {
                self.endpoint = Some(from);
                true
            }
        }
    }

    /// Takes in a datagram that passed every check of 6.3 up to its payload. `settled` is called with what each newly
    /// acknowledged datagram carried; `release` with each event that is done.
    pub fn hear(
        &mut self,
        now: Instant,
        at: Instant,
        header: &Header,
        payload: ClientPayload,
        mut snapshot_acked: impl FnMut(Tick),
        mut release: impl FnMut(u16),
    ) -> Heard {
        self.heard_at = now;
        let events = &mut self.events;
        let receipt = self.link.receive(header, at, |carried| {
            if let Some(tick) = carried.snapshot {
                snapshot_acked(tick);
            }
            events.settle(&carried.events, &mut release);
        });
        if let Some(newest) = self.link.newest_acked() {
            self.events.overtake(newest);
        }
        match payload {
            // Its own rule of 3.4: answered again, since an Accept can be lost.
            ClientPayload::Connect => return Heard::WantsAccept,
            _ if receipt != Receipt::New => {}
            ClientPayload::Input(controls) => {
                // The newest datagram of all holds the newest input, however long ago the one before was.
                let is_newest = header.sequence == self.link.newest_received()
                    || self.input_sequence.is_none_or(|before| is_newer(header.sequence, before));
                if is_newest {
                    self.input_sequence = Some(header.sequence);
                    self.input.push(controls);
                }
            }
            ClientPayload::Disconnect => return Heard::Leaves,
            ClientPayload::Event | ClientPayload::Heartbeat => {}
        }
        Heard::Nothing
    }

    /// A datagram of this session was malformed: whether that is once too often.
    pub fn is_broken_by_malformed(&mut self, now: Instant) -> bool {
        self.malformed.hit(now, MALFORMED_SPAN)
    }

    /// Malformed datagrams so far.
    pub const fn malformed_count(&self) -> u32 {
        self.malformed.count()
    }

    /// What the player does in the coming tick.
    pub fn take_input(&mut self) -> PlayerInput {
        self.input_applied = self.input_sequence.unwrap_or(0);
        self.input.take()
    }

    /// Header sequence of the last input given to a tick, 0 before any: the `input` of snapshots.
    pub const fn input_applied(&self) -> u16 {
        self.input_applied
    }

    /// Puts an event on its way to the client.
    pub fn push_event(&mut self, reference: u16) -> Result<(), TooManyInFlight> {
        self.events.push(reference)
    }

    /// Events not acknowledged yet.
    pub fn events_pending(&self) -> usize {
        self.events.pending()
    }

    /// Whether events wait to be sent for the first time.
    pub fn has_unsent_events(&self) -> bool {
        self.events.has_unsent()
    }

    /// Whether events are to be resent at `now`.
    pub fn is_resend_due(&self, now: Instant) -> bool {
        self.events.next_resend().is_some_and(|due| due <= now)
    }

    /// Writes the events due at `now`, as [`EventSender::write_due`], for the next datagram.
    pub fn write_events(&mut self, now: Instant, write: impl FnMut(u16, u16) -> bool) -> Carried {
        let (sequence, resend) = (self.link.next_sequence(), self.link.resend_time());
        Carried::events(self.events.write_due(now, sequence, resend, write))
    }

    /// Gives up every event in flight.
    pub fn release_events(&mut self, release: impl FnMut(u16)) {
        self.events.reset(release);
    }

    /// The header of the next datagram.
    pub fn next_header(&self, kind: PacketKind) -> Header {
        self.link.next_header(kind)
    }

    /// Records that the datagram of [`Session::next_header`] is sent.
    pub fn spoke(&mut self, now: Instant, carried: Carried) {
        self.link.sent(now, carried);
        self.spoke_at = now;
    }

    /// Whether the session's time is over at `now`: it was not bound in time, or nothing came for too long.
    pub fn is_timed_out(&self, now: Instant) -> bool {
        now >= self.timeout_at()
    }

    /// Whether a Heartbeat is due at `now`.
    pub fn is_heartbeat_due(&self, now: Instant) -> bool {
        self.endpoint.is_some() && now >= self.spoke_at + HEARTBEAT_INTERVAL
    }

    /// When something is next due: the end, a heartbeat, or an event to be resent. New events go when their room says.
    pub fn next_deadline(&self) -> Instant {
        let mut deadline = self.timeout_at();
        if self.endpoint.is_some() {
            deadline = deadline.min(self.spoke_at + HEARTBEAT_INTERVAL);
            if let Some(due) = self.events.next_resend() {
                deadline = deadline.min(due);
            }
        }
        deadline
    }

    fn timeout_at(&self) -> Instant {
        match self.endpoint {
            Some(_) => self.heard_at + IDLE_TIMEOUT,
            None => self.logged_in_at + BIND_TIMEOUT,
        }
    }
}

impl Default for Session {
    fn default() -> Self {
        Self::new()
    }
}
