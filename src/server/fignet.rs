//! The door of FigNet: its connections play in the same rooms, over the channels of docs/protocol/fignet.md, section 12.

use std::net::SocketAddr;

use log::{info, warn};

use super::Server;
use super::seats::{Guest, Queued, Wants};
use crate::limits::TICK_RATE_HZ;
use crate::model::{Name, PlayerId};
use crate::rng::TokenSource;
use crate::seam::{Door, Outbox};
use crate::session::aegis::Ended;
use crate::session::drops::DropReason;
use crate::session::fignet::coder::{DEFAULT_CODER, Packer};
use crate::session::fignet::keys::{Key, KeyError, KeyStore, Keys as _};
use crate::session::fignet::seal::{self, Seal};
use crate::session::fignet::{Delivery, Event, HearError, Host, NetworkConfig, PeerId, PeerStats};
use crate::session::input::InputBuffer;
use crate::session::rate::{Burst, Limiter};
use crate::snapshot::fignet::{
    Area, DEFAULT_PRECISION, Encoder, Measured, PeerView, Request, Scope, Shared, SnapshotRate,
};
use crate::storage::{Handle, Pool, Ring};
use crate::time::{Duration, Instant, Tick};
use crate::wire::fignet::game::{
    CHANNEL_CHAT, CHANNEL_EVENTS, CHANNEL_INPUT, CHANNEL_SNAPSHOTS, CHAT_BYTES_MAX, Input, Seated, chat,
};
use crate::wire::fignet::snapshot::MESSAGE_BYTES_MAX;
use crate::wire::fignet::{ErrorCode, HeaderError};
use crate::world::Game;

/// How the FigNet door is opened.
#[derive(Clone, Copy, Debug)]
pub struct FignetSettings {
    /// The protocol's settings.
    pub config: NetworkConfig,
    /// A number that no earlier start of this server had, the seconds since 1970 for instance: encryption counts on from
    /// it.
    pub epoch: u32,
}

/// Keys that may wait for their connections.
const KEYS_MAX: usize = 1024;

/// A broken client: this many malformed packets or messages within [`MALFORMED_SPAN`] end its connection.
const MALFORMED_MAX: usize = 100;
const MALFORMED_SPAN: Duration = Duration::from_secs(5);

/// Lines of chat that one player may say at once, and then one every [`CHAT_INTERVAL`].
const CHATS_BURST: u32 = 5;
const CHAT_INTERVAL: Duration = Duration::from_secs(1);

/// Lines of chat that one packet can bring on their way.
const CHATS_MAX: usize = 8;

/// Of a connection without a limit, what its snapshots reckon with.
const UNLIMITED_PACKETS_PER_SECOND: u32 = 1000;
const UNLIMITED_BYTES_PER_SECOND: u32 = 1 << 24;

/// The door.
#[derive(Debug)]
pub(super) struct Fignet {
    host: Host<Seal>,
    keys: KeyStore,
    epoch: u32,
    pub(super) seats: Pool<FignetSeat>,
    /// By number of the peer.
    by_peer: Box<[Option<Handle>]>,
    encoder: Encoder,
    packer: Packer,
    shared: Shared,
    message: Box<[u8; MESSAGE_BYTES_MAX]>,
    chats: Ring<Chat>,
}

/// A FigNet connection with what the server keeps for it.
#[derive(Debug)]
pub(super) struct FignetSeat {
    peer: PeerId,
    room: u32,
    player: PlayerId,
    pub(super) input: InputBuffer,
    view: PeerView,
    rate: SnapshotRate,
    snapshot_at: Option<Tick>,
    measured_at: Instant,
    measured: PeerStats,
    /// Mean size of its snapshots, in bytes.
    snapshot_bytes: u32,
    chat: Limiter,
    malformed: Burst<MALFORMED_MAX>,
    pub(super) queued: Queued,
}

/// A line that somebody said.
#[derive(Clone, Copy, Debug)]
struct Chat {
    by: Option<Handle>,
    len: u8,
    text: [u8; CHAT_BYTES_MAX],
}

impl Fignet {
    /// # Panics
    /// When the settings make no sense ([`NetworkConfig::validate`]).
    pub(super) fn new(
        settings: &FignetSettings,
        tokens: TokenSource,
        entities_max: usize,
        snapshot_interval: u32,
    ) -> Self {
        let peers = usize::from(settings.config.max_peers);
        Self {
            host: Host::new(&settings.config, tokens),
            keys: KeyStore::new(KEYS_MAX),
            epoch: settings.epoch,
            seats: Pool::new(peers, |_| FignetSeat::new(entities_max, snapshot_interval)),
            by_peer: vec![None; peers].into_boxed_slice(),
            encoder: Encoder::new(entities_max, DEFAULT_PRECISION),
            packer: Packer::new(),
            shared: Shared::new(),
            message: Box::new([0; MESSAGE_BYTES_MAX]),
            chats: Ring::new(CHATS_MAX, Chat { by: None, len: 0, text: [0; CHAT_BYTES_MAX] }),
        }
    }

    /// When something is next due.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        [self.host.next_deadline(), self.keys.next_deadline()].into_iter().flatten().min()
    }

    /// Whether something waits to be sent.
    pub(super) fn has_output(&self) -> bool {
        self.host.has_output()
    }

    /// How many connections there are, half-open ones and those that just ended included.
    pub(super) fn peers(&self) -> usize {
        self.host.peers()
    }

    /// Tells a guest of an event; false when too much waits already.
    pub(super) fn push_event(&mut self, handle: Handle, content: &[u8]) -> bool {
        let Some(seat) = self.seats.get(handle) else { return true };
        self.host.send(seat.peer, CHANNEL_EVENTS, content).is_ok()
    }

    /// Events on their way to a guest.
    pub(super) fn events_pending(&self, handle: Handle) -> usize {
        let peer = self.seats.get(handle).and_then(|seat| self.host.peer(seat.peer));
        peer.map_or(0, |peer| peer.waiting(CHANNEL_EVENTS))
    }

    /// Takes in a packet. What it brings to the game is in the seats and in `chats` afterwards; returns whether a
    /// message of it was malformed.
    fn hear(&mut self, now: Instant, at: Instant, from: SocketAddr, bytes: &[u8]) -> Result<bool, HearError> {
        let Self { host, keys, epoch, seats, by_peer, chats, .. } = self;
        let key_of = |nonce| keys.take(nonce).map(|key| Seal::new(&key, seal::End::Server, *epoch));
        let mut is_malformed = false;
        host.hear(now, at, from, bytes, key_of, |peer, delivery| {
            let Some(handle) = by_peer[usize::from(peer.0)] else { return };
            let Some(seat) = seats.get_mut(handle) else { return };
            match delivery {
                Delivery::Message { channel: CHANNEL_INPUT, bytes } => match Input::parse(bytes) {
                    Some(input) => seat.input.push(input.controls),
                    None => is_malformed = true,
                },
                Delivery::Message { channel: CHANNEL_CHAT, bytes } => match chat(bytes) {
                    Some(text) if seat.chat.pass(now) => {
                        let mut line =
                            Chat { by: Some(handle), len: text.len() as u8, text: [0; CHAT_BYTES_MAX] };
                        line.text[..text.len()].copy_from_slice(text.as_bytes());
                        // One packet holds few lines; what finds no room was too much.
                        let _ = chats.push(line);
                    }
                    Some(_) => {}
                    None => is_malformed = true,
                },
                Delivery::Acked(token) => seat.view.acknowledged(Tick(token)),
                // There are no commands yet, and clients send no snapshots.
                Delivery::Message { .. } | Delivery::Block(_) | Delivery::Farewell { .. } => {}
            }
        })?;
        Ok(is_malformed)
    }
}

impl FignetSeat {
    fn new(entities_max: usize, snapshot_interval: u32) -> Self {
        Self {
            peer: PeerId(0),
            room: 0,
            player: PlayerId::all().next().expect("there is a first player"),
            input: InputBuffer::new(),
            view: PeerView::new(entities_max, snapshot_interval),
            rate: SnapshotRate::new(TICK_RATE_HZ, snapshot_interval),
            snapshot_at: None,
            measured_at: Instant::ZERO,
            measured: PeerStats::default(),
            snapshot_bytes: 0,
            chat: Limiter::new(CHATS_BURST, CHAT_INTERVAL),
            malformed: Burst::new(),
            queued: Queued::NOTHING,
        }
    }

    /// Once a second: how often snapshots go from now on.
    fn measure(&mut self, now: Instant, stats: &PeerStats, packets_per_second: u32, bytes_per_second: u32) {
        if now.since(self.measured_at) < Duration::from_secs(1) {
            return;
        }
        let sent = stats.data_packets_sent - self.measured.data_packets_sent;
        let lost = stats.packets_lost - self.measured.packets_lost;
        self.measured_at = now;
        self.measured = *stats;
        self.rate.update(&Measured {
            packets_per_second,
            bytes_per_second,
            loss_permille: (lost * 1000 / sent.max(1)).min(1000) as u32,
            snapshot_bytes: self.snapshot_bytes,
        });
    }
}

/// What makes the messages with snapshots.
struct Maker<'a> {
    encoder: &'a mut Encoder,
    packer: &'a mut Packer,
    shared: &'a mut Shared,
    message: &'a mut [u8; MESSAGE_BYTES_MAX],
}

impl Maker<'_> {
    /// The message of at most `len_max` bytes for a peer of room `room`: most of the time one that was made for another
    /// one in the room.
    fn message(&mut self, room: u32, request: &Request<'_>, view: &mut PeerView, len_max: usize) -> &[u8] {
        let tick = request.history.newest().expect("a snapshot of a room that has a frame").tick;
        let scope = Scope::of(request, view);
        let kept = scope.and_then(|scope| self.shared.find(room, &scope));
        if let Some(kept) = kept.filter(|&kept| self.shared.message(kept).len() <= len_max) {
            view.sent_exact(tick, request.area);
            return self.shared.message(kept);
        }
        let plain = self.encoder.encode(request, view, &mut self.message[..len_max]);
        let len = self.packer.pack(DEFAULT_CODER, &mut self.message[..plain]);
        if let Some(scope) = scope.filter(|_| view.is_exact(tick)) {
            self.shared.keep(room, scope, &self.message[..len]);
        }
        &self.message[..len]
    }
}

/// How a packet that was not taken is accounted for.
const fn drop_reason(error: HearError) -> DropReason {
    match error {
        HearError::TooLarge => DropReason::TooLarge,
        HearError::Header(HeaderError::Truncated) => DropReason::TruncatedHeader,
        HearError::Header(HeaderError::ProtocolId) => DropReason::BadMagic,
        HearError::Header(HeaderError::Kind) => DropReason::UnknownType,
        HearError::Header(HeaderError::Flags | HeaderError::Length) | HearError::Malformed => {
            DropReason::MalformedPacket
        }
        HearError::Seal | HearError::Unexpected => DropReason::Foreign,
        HearError::Duplicate | HearError::TooOld => DropReason::Stale,
        HearError::RateLimited | HearError::NoRoom => DropReason::Flood,
    }
}

/// The name under which the others know a player of this protocol, which has no names.
fn player_name(player: PlayerId) -> Name {
    let mut name = *b"FigNet 0";
    name[7] += 1 + player.get();
    Name::new(&name).expect("a short name")
}

impl<G: Game> Server<G> {
    /// Hands over the key for the FigNet connection whose CONNECT will have `client_nonce`: it must come before
    /// `expires`, and encrypt everything after it.
    ///
    /// # Errors
    /// When the table is full, the nonce has a key, or the key was used before.
    ///
    /// # Panics
    /// When there is no such door.
    pub fn add_fignet_key(&mut self, client_nonce: u32, key: &Key, expires: Instant) -> Result<(), KeyError> {
        let door = self.seats.fignet.as_mut().expect("a server with a FigNet door");
        door.keys.insert(client_nonce, key, expires)
    }

    pub(super) fn fignet_datagram(&mut self, now: Instant, from: SocketAddr, at: Instant, bytes: &[u8]) {
        self.stats.datagrams_in += 1;
        self.stats.bytes_in += bytes.len() as u64;
        if let Err(reason) = self.read_fignet_datagram(now, from, at, bytes) {
            self.sources.dropped(now, from, reason, bytes);
        }
    }

    fn read_fignet_datagram(
        &mut self,
        now: Instant,
        from: SocketAddr,
        at: Instant,
        bytes: &[u8],
    ) -> Result<(), DropReason> {
        let Some(door) = &mut self.seats.fignet else { return Ok(()) };
        let known = door.host.peer_at(from);
        // Addresses that flood are ignored (6.6), but never a connection for what others send from its address.
        if known.is_none() && self.sources.ignores(now, from.ip()) {
            return Err(DropReason::Flood);
        }
        let heard = door.hear(now, at, from, bytes).map_err(drop_reason);
        let handle = known.and_then(|peer| door.by_peer[usize::from(peer.0)]);
        self.relay_chat();
        match (heard, handle) {
            (Ok(false), _) => {}
            (Ok(true), Some(handle)) => {
                // The packet counts, the message does not.
                self.sources.dropped(now, from, DropReason::MalformedPacket, bytes);
                self.account_malformed_fignet(now, from, handle);
            }
            (Ok(true), None) => {}
            (Err(reason), handle) => {
                if let Some(handle) = handle
                    && reason.is_malformed()
                {
                    self.account_malformed_fignet(now, from, handle);
                }
                return Err(reason);
            }
        }
        Ok(())
    }

    /// Something malformed came from a connection: once too often ends it.
    fn account_malformed_fignet(&mut self, now: Instant, from: SocketAddr, handle: Handle) {
        let Some(door) = &mut self.seats.fignet else { return };
        let Some(seat) = door.seats.get_mut(handle) else { return };
        if !seat.malformed.hit(now, MALFORMED_SPAN) {
            return;
        }
        let (player, count) = (seat.player, seat.malformed.count());
        if self.sources.may_warn(now) {
            warn!("ended the connection of player {} from {from}: {count} malformed packets", player.get());
        }
        self.end_fignet(now, handle, Ended::ProtocolError);
    }

    /// Hands the lines of chat that just came to everyone in the room who speaks FigNet, the speaker too.
    fn relay_chat(&mut self) {
        let Some(door) = &mut self.seats.fignet else { return };
        while let Some(Chat { by, len, text }) = door.chats.pop() {
            let Some(speaker) = by.and_then(|by| door.seats.get(by)) else { continue };
            let mut line = [0; 1 + CHAT_BYTES_MAX];
            line[0] = speaker.player.get();
            line[1..].copy_from_slice(&text);
            for guest in self.rooms[speaker.room as usize].guests() {
                if let Guest::Fignet(handle) = guest
                    && let Some(seat) = door.seats.get(handle)
                {
                    // Who does not keep up misses what was said.
                    let _ = door.host.send(seat.peer, CHANNEL_CHAT, &line[..1 + usize::from(len)]);
                }
            }
        }
    }

    /// Runs what is due of the connections, and lets their players come and go.
    pub(super) fn run_fignet(&mut self, now: Instant) {
        loop {
            let Some(door) = &mut self.seats.fignet else { return };
            door.keys.expire(now);
            let Some((peer, event)) = door.host.advance(now) else { return };
            let handle = door.by_peer[usize::from(peer.0)];
            match (event, handle) {
                (Event::Connected, _) => self.seat_fignet(now, peer),
                (Event::Disconnected { reason, by_peer }, Some(handle)) => {
                    let why = match reason {
                        _ if by_peer => Ended::Left,
                        ErrorCode::Timeout => Ended::TimedOut,
                        ErrorCode::RateLimitExceeded => Ended::ProtocolError,
                        _ => Ended::Left,
                    };
                    self.unseat_fignet(now, handle, why);
                }
                (Event::Disconnected { .. } | Event::Failed(_) | Event::FragmentError { .. }, _) => {}
            }
        }
    }

    /// A connection came about: its player joins, if there is a place.
    fn seat_fignet(&mut self, now: Instant, peer: PeerId) {
        let Some(door) = &mut self.seats.fignet else { return };
        let from = door.host.address(peer).expect("a peer that just connected");
        let handle = if self.is_shutting_down
            || (self.settings.sessions_per_address > 0
                && !from.ip().to_canonical().is_loopback()
                && self.addresses.count(from.ip()) >= self.settings.sessions_per_address)
        {
            None
        } else {
            door.seats.claim()
        };
        let slot = handle.and_then(|handle| self.reserve_slot(Guest::Fignet(handle), player_name));
        let door = self.seats.fignet.as_mut().expect("the door is open");
        let (Some(handle), Some((room, player))) = (handle, slot) else {
            if let Some(handle) = handle {
                door.seats.release(handle);
            }
            self.stats.logins_refused += 1;
            door.host.with(peer, |peer, pools| {
                peer.disconnect(now, pools, ErrorCode::PeerLimitReached, b"");
            });
            if self.sources.may_log(now) {
                info!("refused the connection of {from}: no place");
            }
            return;
        };
        let seat = door.seats.get_mut(handle).expect("the seat was just claimed");
        seat.peer = peer;
        seat.room = room;
        seat.player = player;
        seat.input = InputBuffer::new();
        seat.view.reset();
        seat.rate = SnapshotRate::new(TICK_RATE_HZ, u32::from(self.settings.snapshot_interval));
        seat.snapshot_at = None;
        seat.measured_at = now;
        seat.measured = PeerStats::default();
        seat.snapshot_bytes = 0;
        seat.chat = Limiter::new(CHATS_BURST, CHAT_INTERVAL);
        seat.malformed = Burst::new();
        seat.queued.wants = Wants::NOTHING;
        door.by_peer[usize::from(peer.0)] = Some(handle);
        let seated = Seated { player, tick_rate_hz: TICK_RATE_HZ as u8 };
        let sent = door.host.send(peer, CHANNEL_EVENTS, &seated.to_bytes());
        assert!(sent.is_ok(), "a new connection has room for its first message");
        self.addresses.add(from.ip());
        self.stats.logins_accepted += 1;
        self.stats.sessions_bound += 1;
        self.clock.start(now);
        self.join_room(room, player);
        if self.sources.may_log(now) {
            info!("player {} of room {room} joined from {from}: peer {}", player.get(), peer.0);
        }
    }

    /// Ends a guest's connection and tells its client why.
    pub(super) fn end_fignet(&mut self, now: Instant, handle: Handle, why: Ended) {
        let Some(door) = &mut self.seats.fignet else { return };
        let Some(seat) = door.seats.get(handle) else { return };
        let reason = match why {
            Ended::Left | Ended::Disconnected | Ended::ServerShutdown => ErrorCode::Success,
            Ended::TimedOut => ErrorCode::Timeout,
            Ended::ProtocolError => ErrorCode::InvalidPacket,
            Ended::TooSlow => ErrorCode::BufferOverflow,
        };
        let peer = seat.peer;
        door.host.with(peer, |peer, pools| peer.disconnect(now, pools, reason, b""));
        self.unseat_fignet(now, handle, why);
    }

    fn unseat_fignet(&mut self, now: Instant, handle: Handle, why: Ended) {
        let Some(door) = &mut self.seats.fignet else { return };
        let Some(seat) = door.seats.get(handle) else { return };
        let (peer, room, player) = (seat.peer, seat.room, seat.player);
        let address = door.host.address(peer);
        door.by_peer[usize::from(peer.0)] = None;
        self.leave_room(now, Guest::Fignet(handle), room, player, why);
        if let Some(door) = &mut self.seats.fignet {
            door.seats.release(handle);
        }
        if let Some(address) = address {
            self.addresses.remove(address.ip());
        }
        self.rest_if_empty();
    }

    /// Queues the snapshot that a guest wants, if one is due.
    pub(super) fn transmit_fignet(&mut self, now: Instant, handle: Handle) {
        let Some(door) = &mut self.seats.fignet else { return };
        let seat = door.seats.get_mut(handle).expect("the guest was just found");
        seat.queued = Queued::NOTHING;
        let room = &self.rooms[seat.room as usize];
        let Some(newest) = room.history.newest() else { return };
        let tick = newest.tick;
        if seat.snapshot_at.is_some_and(|before| !seat.rate.is_due(tick.since(before))) {
            return;
        }
        let Some(peer) = door.host.peer(seat.peer).filter(|peer| peer.state().is_open()) else { return };
        let packets_per_second =
            peer.packet_rate_milli().map_or(UNLIMITED_PACKETS_PER_SECOND, |milli| (milli / 1000) as u32);
        let bytes_per_second = match self.settings.fignet {
            Some(FignetSettings { config, .. }) if config.bandwidth_limit_bytes_per_sec > 0 => {
                config.bandwidth_limit_bytes_per_sec
            }
            _ => UNLIMITED_BYTES_PER_SECOND,
        };
        seat.measure(now, &peer.stats(), packets_per_second, bytes_per_second);
        let len_max = peer.whole_message_bytes().min(MESSAGE_BYTES_MAX);
        let [width, height] = room.game.playfield();
        let request = Request {
            history: &room.history,
            timestamp_us: now.as_nanos() / 1000,
            area: Area::around(0, 0, width, height),
            focus: room.game.focus(seat.player),
        };
        let Fignet { encoder, packer, shared, message, .. } = door;
        let mut maker = Maker { encoder, packer, shared, message };
        let message = maker.message(seat.room, &request, &mut seat.view, len_max);
        seat.snapshot_bytes = (seat.snapshot_bytes * 7 + message.len() as u32) / 8;
        seat.snapshot_at = Some(tick);
        let sent = door
            .host
            .with(seat.peer, |peer, pools| peer.send_noted(pools, CHANNEL_SNAPSHOTS, message, tick.0));
        if sent.is_some_and(|sent| sent.is_ok()) {
            self.stats.snapshots_out += 1;
        }
    }

    /// Writes the packets that are to be sent, as far as the outbox has room.
    pub(super) fn transmit_fignet_packets(&mut self, now: Instant, out: &mut Outbox) {
        self.run_fignet(now);
        let Some(door) = &mut self.seats.fignet else { return };
        while out.has_datagram_room() {
            let mut len = 0;
            let is_sent = out.datagram_to_whom(Door::Fignet, |buffer| {
                let (to, written) = door.host.transmit(now, buffer)?;
                len = written;
                Some((to, written))
            });
            if !is_sent {
                break;
            }
            self.stats.datagrams_out += 1;
            self.stats.bytes_out += len as u64;
        }
    }
}
