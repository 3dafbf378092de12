//! The pump: joins sessions, rooms and snapshots. It knows no socket; a driver brings it bytes and time through
//! [`crate::seam::Core`].
//!
//! Everything is allocated by [`Server::new`]. What comes in is handled at once, what goes out waits in two ready lists
//! (sessions and streams, each entry once) until the driver asks for it: no list of everyone is ever walked.

mod addresses;
mod aegis;
mod clock;
mod events;
mod fignet;
mod guests;
mod room;
mod rtype;
mod seats;
mod stats;
mod streams;
mod transmit;

pub use fignet::FignetSettings;
pub use stats::{Pools, Stats};

use std::net::SocketAddr;

use self::addresses::Addresses;
use self::clock::TickClock;
use self::fignet::Fignet;
use self::room::Room;
use self::seats::{Guest, RtypeSeat, Seat, Seats, Wants};
use self::streams::Stream;
use self::transmit::Farewell;
use crate::limits::{CATCH_UP_TICKS_MAX, Limits, TICK_RATE_HZ};
use crate::lz4::Compressor;
use crate::rng::{Rng, TokenSource};
use crate::seam::{Core, Door, Input, Outbox};
use crate::session::aegis::Ended;
use crate::session::drops::{DropCounts, Sources};
use crate::session::rtype::EndpointKey;
use crate::snapshot::Encoder;
use crate::storage::{BitSet, Deadlines, Handle, Index, Pool, Ring};
use crate::time::{Duration, Instant, Tick};
use crate::wire::aegis::PAYLOAD_BYTES_MAX;
use crate::world::{Events, Game};

/// What a server is told at start.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Pool sizes.
    pub limits: Limits,
    /// Ticks from one snapshot of a room to its next, 1 to 255.
    pub snapshot_interval: u8,
    /// The UDP port that clients are told to play on.
    pub aegis_udp_port: u16,
    /// Connections that one address may play over, 0 for any number. Loopback addresses are free of it.
    pub sessions_per_address: usize,
    /// An R-Type connection ends when nothing valid comes for so long; zero for never.
    pub rtype_idle_timeout: Duration,
    /// The FigNet door; `None` without one.
    pub fignet: Option<FignetSettings>,
    /// Seed of the rooms' games.
    pub seed: u64,
}

impl Settings {
    /// A snapshot every 3 ticks, Aegis on its usual port, any number of connections per address, R-Type connections
    /// that end after 10 s of silence, seed 1.
    pub const fn new(limits: Limits) -> Self {
        Self {
            limits,
            snapshot_interval: 3,
            aegis_udp_port: 4243,
            sessions_per_address: 0,
            rtype_idle_timeout: crate::session::rtype::IDLE_TIMEOUT,
            fignet: None,
            seed: 1,
        }
    }
}

/// The server of one game.
#[derive(Debug)]
pub struct Server<G> {
    settings: Settings,
    clock: TickClock,
    tokens: TokenSource,
    seeds: Rng,
    rooms: Box<[Room<G>]>,
    /// Rooms with a free slot.
    open_rooms: BitSet,
    /// Rooms that tick.
    played_rooms: BitSet,
    seats: Seats,
    /// Session token → seat.
    by_token: Index,
    /// Endpoint of an R-Type connection → its seat.
    by_endpoint: Index<EndpointKey>,
    /// The last id that an R-Type connection got.
    connection_id: u32,
    /// R-Type connections that have not proved themselves.
    unproven: usize,
    /// Endpoints to be told Rejected.
    refusals: Ring<SocketAddr>,
    streams: Box<[Stream]>,
    addresses: Addresses,
    sources: Sources,
    /// Seats first, then streams.
    deadlines: Deadlines,
    ready_seats: Ring<u32>,
    ready_streams: Ring<u32>,
    farewells: Ring<Farewell>,
    encoder: Encoder,
    compressor: Compressor,
    events: Events,
    scratch: Box<[u8; PAYLOAD_BYTES_MAX]>,
    stats: Stats,
    is_shutting_down: bool,
}

impl<G: Game> Server<G> {
    /// A server whose rooms play the games that `make` makes, one each.
    pub fn new(settings: Settings, mut tokens: TokenSource, mut make: impl FnMut(usize) -> G) -> Self {
        let Limits { rooms, entities, sessions, rtype, streams } = settings.limits;
        let interval = u32::from(settings.snapshot_interval);
        let fignet = settings.fignet.map(|fignet| Fignet::new(&fignet, tokens.fork(), entities, interval));
        let peers = settings.fignet.map_or(0, |fignet| usize::from(fignet.config.max_peers));
        let mut secret = || [tokens.next_u64(), tokens.next_u64()];
        let (by_token, by_endpoint) = (Index::new(sessions, secret()), Index::new(rtype, secret()));
        let (addresses, sources) =
            (Addresses::new(streams + rtype + peers, secret()), Sources::new(secret()));
        Self {
            clock: TickClock::stopped(),
            tokens,
            seeds: Rng::new(settings.seed),
            rooms: (0..rooms).map(|index| Room::new(make(index), index, entities, interval)).collect(),
            open_rooms: BitSet::full(rooms),
            played_rooms: BitSet::new(rooms),
            seats: Seats {
                aegis: Pool::new(sessions, |_| Seat::new(entities, interval)),
                rtype: Pool::new(rtype, |_| RtypeSeat::new()),
                fignet,
            },
            by_token,
            by_endpoint,
            connection_id: 0,
            unproven: 0,
            refusals: Ring::new(
                if rtype > 0 { rtype::REFUSALS_MAX } else { 0 },
                SocketAddr::from(([0, 0, 0, 0], 0)),
            ),
            streams: (0..streams).map(|_| Stream::free()).collect(),
            addresses,
            sources,
            deadlines: Deadlines::new(sessions + rtype + peers + streams),
            ready_seats: Ring::new(sessions + rtype + peers, 0),
            ready_streams: Ring::new(streams, 0),
            farewells: Ring::new(sessions, Farewell::FILLER),
            encoder: Encoder::new(entities),
            compressor: Compressor::new(),
            events: Events::new(),
            scratch: Box::new([0; PAYLOAD_BYTES_MAX]),
            stats: Stats::default(),
            is_shutting_down: false,
            settings,
        }
    }

    /// Ends every session (Logout ServerShutdown, Disconnect) and refuses all newcomers. What it takes to tell them is
    /// in the next [`Core::transmit`].
    pub fn shut_down(&mut self, now: Instant) {
        self.is_shutting_down = true;
        for number in 0..self.seats.capacity() {
            if let Some(guest) = self.seats.guest(number) {
                self.end_guest(now, guest, Ended::ServerShutdown);
            }
        }
        self.close_logins();
    }

    /// Counters since the start.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Datagrams dropped since the start, by reason.
    pub fn drops(&self) -> &DropCounts {
        self.sources.totals()
    }

    /// What the snapshot encoder did since the start.
    pub fn encoder_stats(&self) -> crate::snapshot::EncoderStats {
        self.encoder.stats()
    }

    /// How much of each pool is in use.
    pub fn pools(&self) -> Pools {
        Pools {
            sessions: self.seats.len(),
            tokens: self.by_token.len(),
            endpoints: self.by_endpoint.len(),
            peers: self.seats.fignet.as_ref().map_or(0, Fignet::peers),
            unproven: self.unproven,
            streams: self.streams.iter().filter(|stream| stream.is_open()).count(),
            addresses: self.addresses.len(),
            deadlines: self.deadlines.len(),
            events: self.rooms.iter().map(|room| room.store.len()).sum(),
            rooms_played: self.played_rooms.len(),
            rooms_open: self.open_rooms.len(),
            ready: self.ready_seats.len()
                + self.ready_streams.len()
                + self.farewells.len()
                + self.refusals.len(),
        }
    }

    /// The game of room `index`, to look at.
    pub fn game(&self, index: usize) -> Option<&G> {
        self.rooms.get(index).map(|room| &room.game)
    }

    /// Whether something waits to be transmitted.
    fn has_output(&self) -> bool {
        !(self.ready_seats.is_empty()
            && self.ready_streams.is_empty()
            && self.farewells.is_empty()
            && self.refusals.is_empty()
            && !self.seats.fignet.as_ref().is_some_and(Fignet::has_output))
    }

    /// The tick of room `index`: how many steps it made since somebody first joined. `None` while nobody plays there.
    pub fn room_tick(&self, index: usize) -> Option<Tick> {
        self.rooms.get(index).filter(|room| room.is_played()).map(|room| room.tick)
    }

    /// Marks what a guest's session has to send, and puts it in the ready list.
    fn want(&mut self, guest: Guest, wants: Wants) {
        let number = self.seats.number(guest);
        let Some(queued) = self.seats.queued(guest) else { return };
        queued.wants = queued.wants.and(wants);
        if !std::mem::replace(&mut queued.is_listed, true) {
            let pushed = self.ready_seats.push(number as u32);
            assert!(pushed.is_ok(), "each seat is in the ready list at most once");
        }
    }

    /// Ends a guest's session and tells everyone whom it concerns.
    fn end_guest(&mut self, now: Instant, guest: Guest, why: Ended) {
        match guest {
            Guest::Aegis(handle) => self.end_session(now, handle, why),
            Guest::Rtype(handle) => self.end_connection(now, handle, why),
            Guest::Fignet(handle) => self.end_fignet(now, handle, why),
        }
    }

    /// Runs the timers due at `now`.
    fn run_timers(&mut self, now: Instant) {
        self.sources.advance(now);
        while let Some(key) = self.deadlines.pop_due(now) {
            if key < self.seats.capacity() {
                self.run_seat_timer(now, key);
            } else {
                self.login_timed_out(now, key - self.seats.capacity());
            }
        }
    }

    fn run_seat_timer(&mut self, now: Instant, key: usize) {
        match self.seats.guest(key) {
            Some(Guest::Aegis(handle)) => self.run_aegis_timer(now, key, handle),
            Some(Guest::Rtype(handle)) => self.run_rtype_timer(now, key, handle),
            // Its door keeps its deadlines.
            Some(Guest::Fignet(_)) | None => {}
        }
    }

    /// A seat's deadline may be earlier than anything due: whatever moved since is looked at only here.
    fn run_aegis_timer(&mut self, now: Instant, key: usize, handle: Handle) {
        let Some(seat) = self.seats.aegis.get_mut(handle) else { return };
        if seat.session.is_timed_out(now) {
            self.end_session(now, handle, Ended::TimedOut);
            return;
        }
        let mut wants = Wants::NOTHING;
        if seat.session.is_resend_due(now) {
            wants = wants.and(Wants::EVENTS);
        }
        if seat.session.is_heartbeat_due(now) {
            wants = wants.and(Wants::HEARTBEAT);
        }
        if wants == Wants::NOTHING {
            self.deadlines.set(key, seat.session.next_deadline());
        } else {
            // The deadline is set again once that is sent.
            self.want(Guest::Aegis(handle), wants);
        }
    }

    /// Runs the ticks due at `now`.
    fn run_ticks(&mut self, now: Instant) {
        for _ in 0..CATCH_UP_TICKS_MAX {
            let Some(due) = self.clock.take(now) else { return };
            let lateness = now.since(due);
            self.stats.ticks += 1;
            self.stats.late_ticks += u64::from(lateness >= TICK_INTERVAL);
            self.stats.lateness_max = self.stats.lateness_max.max(lateness);
            self.run_tick(now);
        }
        self.stats.dropped_ticks += self.clock.drop_due(now);
    }

    fn run_tick(&mut self, now: Instant) {
        let mut from = 0;
        while let Some(index) = self.played_rooms.next_from(from) {
            from = index + 1;
            let mut ready = [None; crate::model::PLAYERS_MAX];
            let mut ready_len = 0;
            self.rooms[index].step(&mut self.seats, &mut self.events, |guest, wants| {
                ready[ready_len] = Some((guest, wants));
                ready_len += 1;
            });
            for (guest, wants) in ready.into_iter().flatten() {
                self.want(guest, wants);
            }
            while let Some(guest) = self.rooms[index].lost_guest() {
                self.end_guest(now, guest, Ended::TooSlow);
            }
        }
    }
}

/// One tick.
const TICK_INTERVAL: Duration = Duration::from_nanos(1_000_000_000 / TICK_RATE_HZ as u64);

impl<G: Game> Core for Server<G> {
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        match input {
            Input::Datagram { door: Door::Aegis, from, at, bytes } => {
                self.aegis_datagram(now, from, at, bytes)
            }
            Input::Datagram { door: Door::Rtype, from, at, bytes } => {
                self.rtype_datagram(now, from, at, bytes)
            }
            Input::Datagram { door: Door::Fignet, from, at, bytes } => {
                self.fignet_datagram(now, from, at, bytes)
            }
            Input::StreamOpened { stream, peer } => self.stream_opened(now, stream, peer),
            Input::StreamBytes { stream, bytes } => self.stream_bytes(now, stream, bytes),
            Input::StreamClosed { stream } => self.stream_closed(now, stream),
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        if self.has_output() {
            return Some(Instant::ZERO);
        }
        let fignet = self.seats.fignet.as_ref().and_then(Fignet::next_deadline);
        [self.clock.next(), self.deadlines.next(), self.sources.next_deadline(), fignet]
            .into_iter()
            .flatten()
            .min()
    }

    fn next_tick(&self) -> Option<Instant> {
        self.clock.next()
    }

    fn advance(&mut self, now: Instant) {
        self.run_timers(now);
        self.run_fignet(now);
        self.run_ticks(now);
    }

    fn transmit(&mut self, now: Instant, out: &mut Outbox) -> bool {
        self.transmit_ready(now, out)
    }
}
