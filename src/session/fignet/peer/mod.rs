//! One end of a connection.

mod emit;
mod handshake;
mod receive;

use super::block::{BlockOutbox, BlockProgress};
use super::config::NetworkConfig;
use super::flights::{Cargo, Flights};
use super::inbox::Inbox;
use super::outbox::Outbox;
use super::pace::{Allowance, Pace};
use super::pools::Pools;
use super::receipts::Receipts;
use super::sealing::{NoSeal, SEAL_BYTES};
use super::{Event, PeerState, SendError};
use crate::session::rtt::Rtt;
use crate::storage::Ring;
use crate::time::{Duration, Instant};
use crate::wire::fignet::block::BlockHeader;
use crate::wire::fignet::handshake::{ConnectAck, FAREWELL_BYTES_MAX};
use crate::wire::fignet::header::HEADER_BYTES;
use crate::wire::fignet::{ErrorCode, MTU_MAX};

/// Least retransmission time once a round trip was measured.
const RTO_MIN: Duration = Duration::from_millis(50);

/// Time between two PINGs until a round trip was measured.
const PING_INTERVAL_FIRST: Duration = Duration::from_millis(500);

/// How long a connection that the peer ended still answers it.
const ZOMBIE_TIME: Duration = Duration::from_secs(2);

/// Events that wait for the application at most.
const EVENTS_MAX: usize = 16;

/// Which end this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    Client,
    Server,
}

/// What went over a connection, and what did not.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PeerStats {
    /// Packets sent.
    pub packets_sent: u64,
    /// Bytes sent.
    pub bytes_sent: u64,
    /// Packets sent with messages or fragments.
    pub data_packets_sent: u64,
    /// Of those, declared lost.
    pub packets_lost: u64,
    /// Packets received and taken.
    pub packets_received: u64,
    /// Bytes received and taken.
    pub bytes_received: u64,
    /// Packets received before.
    pub duplicates: u64,
    /// Packets dropped because they break the protocol.
    pub malformed: u64,
    /// Packets dropped because they were too many.
    pub rate_limited: u64,
    /// Packets not taken, and not acknowledged, because there was no room.
    pub refused: u64,
    /// Unreliable messages that made way for later ones before they were sent.
    pub overtaken: u64,
    /// Events that nobody asked for in time.
    pub events_dropped: u64,
}

/// What is to be sent as soon as possible.
#[derive(Clone, Copy, Default, Debug)]
struct Owed {
    ack: bool,
    pong: Option<u64>,
    connect_ack: bool,
    disconnect: bool,
    disconnect_ack: bool,
}

/// Repetitions of what opens and closes a connection.
#[derive(Clone, Copy, Debug)]
struct Retry {
    at: Instant,
    count: u8,
}

#[derive(Clone, Copy, Debug)]
struct Ping {
    due: Instant,
    /// The timestamp whose echo is awaited.
    sent_us: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Farewell {
    reason: u8,
    len: u8,
    data: [u8; FAREWELL_BYTES_MAX],
}

/// One end of a connection: made once, then used for one connection after another.
///
/// Give it what arrives ([`Peer::hear`]); call [`Peer::advance`] until it has no more to tell and [`Peer::transmit`]
/// until it has no more to send, at [`Peer::next_deadline`] at the latest. Always with the same pools.
#[derive(Debug)]
pub struct Peer<S = NoSeal> {
    config: NetworkConfig,
    side: Side,
    state: PeerState,
    seal: Option<S>,
    /// The client's nonce.
    nonce: u32,
    /// What was agreed, in the words of the CONNECT_ACK.
    terms: ConnectAck,
    receipts: Receipts,
    flights: Flights,
    rtt: Rtt,
    pace: Pace,
    allowance: Allowance,
    outbox: Outbox,
    inbox: Inbox,
    block: Option<BlockOutbox>,
    owed: Owed,
    retry: Retry,
    ping: Ping,
    opened_at: Instant,
    heard_at: Instant,
    closed_at: Instant,
    ended_by_peer: bool,
    farewell: Farewell,
    events: Ring<Event>,
    /// Nothing of what waits can be sent before something changes.
    stalled: bool,
    stats: PeerStats,
}

impl<S: super::Seal> Peer<S> {
    /// A peer without a connection.
    ///
    /// # Panics
    /// When the settings make no sense ([`NetworkConfig::validate`]).
    pub fn new(config: &NetworkConfig) -> Self {
        if let Err(error) = config.validate() {
            panic!("{error}");
        }
        Self {
            config: *config,
            side: Side::Client,
            state: PeerState::Disconnected,
            seal: None,
            nonce: 0,
            terms: ConnectAck { version: 0, nonce: 0, peer_id: 0, channels: 0, mtu: 0, server_time_ms: 0 },
            receipts: Receipts::new(),
            flights: Flights::new(0),
            rtt: Rtt::new(),
            pace: Pace::new(Instant::ZERO, config),
            allowance: Allowance::new(Instant::ZERO, config),
            outbox: Outbox::new(config),
            inbox: Inbox::new(config),
            block: None,
            owed: Owed::default(),
            retry: Retry { at: Instant::ZERO, count: 0 },
            ping: Ping { due: Instant::ZERO, sent_us: None },
            opened_at: Instant::ZERO,
            heard_at: Instant::ZERO,
            closed_at: Instant::ZERO,
            ended_by_peer: false,
            farewell: Farewell { reason: 0, len: 0, data: [0; FAREWELL_BYTES_MAX] },
            events: Ring::new(EVENTS_MAX, Event::Connected),
            stalled: false,
            stats: PeerStats::default(),
        }
    }

    /// Queues a message on a channel. Messages of unreliable channels make way for later ones where there is no room.
    pub fn send(&mut self, pools: &mut Pools, channel: u8, bytes: &[u8]) -> Result<(), SendError> {
        self.send_with(pools, channel, bytes, None)
    }

    /// The same for a message of an unreliable channel, with a word when its packet is acknowledged
    /// ([`super::Delivery::Acked`]). No word when it is not, or when it went in fragments.
    pub fn send_noted(
        &mut self,
        pools: &mut Pools,
        channel: u8,
        bytes: &[u8],
        token: u32,
    ) -> Result<(), SendError> {
        self.send_with(pools, channel, bytes, Some(token))
    }

    /// Begins to send a block over the channel of blocks, once the one before is queued whole. What it says is asked
    /// for by [`Peer::feed_block`].
    pub fn send_block(&mut self, header: BlockHeader) -> Result<(), SendError> {
        let channel = self.block_channel()?;
        if self.block.is_some_and(|block| !block.progress(self.outbox.confirmed(channel)).is_done()) {
            return Err(SendError::NoRoom);
        }
        self.block = Some(BlockOutbox::new(header, self.outbox.confirmed(channel))?);
        Ok(())
    }

    /// Reads as much of the block as can be queued: `read` fills a buffer with what is at an offset, and may be asked
    /// for the same again. To be called again and again until the block is done.
    pub fn feed_block(
        &mut self,
        pools: &mut Pools,
        read: impl FnMut(u32, &mut [u8]),
    ) -> Result<BlockProgress, SendError> {
        let channel = self.block_channel()?;
        let payload_bytes = self.payload_bytes();
        let block = self.block.as_mut().ok_or(SendError::NoSuchChannel)?;
        block.feed(channel, payload_bytes, &mut self.outbox, &mut pools.send, read)?;
        self.stalled = false;
        Ok(block.progress(self.outbox.confirmed(channel)))
    }

    /// When [`Peer::advance`] or [`Peer::transmit`] next have something to do, if ever; [`Instant::ZERO`] is at once.
    pub fn next_deadline(&self) -> Option<Instant> {
        if !self.events.is_empty() {
            return Some(Instant::ZERO);
        }
        let handshake_end = self.opened_at + NetworkConfig::ms(self.config.connection_timeout_ms);
        let at_once = |owed: bool| if owed { Instant::ZERO } else { Instant::MAX };
        Some(match self.state {
            PeerState::Disconnected | PeerState::ConnectionFailed => return None,
            PeerState::Connecting | PeerState::AcknowledgingConnect => handshake_end.min(self.retry.at),
            PeerState::ConnectionPending => handshake_end.min(at_once(self.owed.connect_ack)),
            PeerState::ConnectionSucceeded => handshake_end.min(self.next_traffic()),
            PeerState::Connected | PeerState::DisconnectLater => self.next_traffic(),
            PeerState::Disconnecting | PeerState::AcknowledgingDisconnect => {
                let end = self.closed_at + NetworkConfig::ms(self.config.disconnect_timeout_ms);
                end.min(self.retry.at).min(at_once(self.owed.disconnect_ack))
            }
            PeerState::Zombie => {
                let owed = self.owed.disconnect_ack || self.owed.disconnect;
                if owed { Instant::ZERO } else { self.zombie_end() }
            }
        })
    }

    /// Does what is due, and tells of one thing that happened. To be called until it tells of nothing.
    pub fn advance(&mut self, now: Instant, pools: &mut Pools) -> Option<Event> {
        self.run_timers(now, pools);
        self.events.pop()
    }

    /// Where the connection stands.
    pub const fn state(&self) -> PeerState {
        self.state
    }

    /// The number that the server gave the client.
    pub const fn peer_id(&self) -> u16 {
        self.terms.peer_id
    }

    /// The client's nonce, by which a key is found.
    pub const fn client_nonce(&self) -> u32 {
        self.nonce
    }

    /// The server's clock when it answered, in milliseconds.
    pub const fn server_time_ms(&self) -> u64 {
        self.terms.server_time_ms
    }

    /// The channels of the connection.
    pub const fn channels(&self) -> u8 {
        self.terms.channels
    }

    /// The largest packet of the connection, in bytes.
    pub const fn mtu(&self) -> u16 {
        self.terms.mtu
    }

    /// The largest message that goes in one packet, in bytes.
    pub fn whole_message_bytes(&self) -> usize {
        self.payload_bytes() - crate::wire::fignet::MESSAGE_SEQUENCE_BYTES
    }

    /// The smoothed round-trip time, once measured.
    pub fn rtt(&self) -> Option<Duration> {
        self.rtt.smoothed()
    }

    /// Packets with data that may be sent in a second, × 1000; `None` without a limit.
    pub const fn packet_rate_milli(&self) -> Option<u64> {
        self.pace.rate_milli()
    }

    /// Packets in flight, and how many may be.
    pub fn window(&self) -> (usize, usize) {
        (self.flights.in_flight(), self.window_len())
    }

    /// How many messages wait or are unconfirmed on a channel.
    pub fn waiting(&self, channel: u8) -> usize {
        self.outbox.waiting(channel)
    }

    /// What went over the connection.
    pub fn stats(&self) -> PeerStats {
        PeerStats { overtaken: self.outbox.overtaken(), ..self.stats }
    }

    /// Both directions of every channel begin at `sequence`, so that a test sees them wrap. Only at both ends at
    /// once, right after the connection.
    #[cfg(any(test, feature = "sim"))]
    pub fn set_message_sequences(&mut self, sequence: u16) {
        self.outbox.set_sequences(sequence);
        self.inbox.set_sequences(sequence);
    }

    fn send_with(
        &mut self,
        pools: &mut Pools,
        channel: u8,
        bytes: &[u8],
        token: Option<u32>,
    ) -> Result<(), SendError> {
        if !matches!(self.state, PeerState::ConnectionSucceeded | PeerState::Connected) {
            return Err(SendError::NotConnected);
        }
        if self.config.block_channel == Some(channel) {
            return Err(SendError::NoSuchChannel);
        }
        self.stalled = false;
        self.outbox.push(&mut pools.send, channel, bytes, token)
    }

    fn block_channel(&self) -> Result<u8, SendError> {
        if !self.state.is_open() {
            return Err(SendError::NotConnected);
        }
        let channel = self.config.block_channel.filter(|&channel| channel < self.terms.channels);
        channel.ok_or(SendError::NoSuchChannel)
    }

    fn run_timers(&mut self, now: Instant, pools: &mut Pools) {
        let handshake_end = self.opened_at + NetworkConfig::ms(self.config.connection_timeout_ms);
        match self.state {
            PeerState::Disconnected | PeerState::ConnectionFailed => {}
            PeerState::Connecting | PeerState::AcknowledgingConnect | PeerState::ConnectionPending => {
                if now >= handshake_end {
                    self.fail(ErrorCode::Timeout, pools);
                }
            }
            PeerState::ConnectionSucceeded if now >= handshake_end => self.fail(ErrorCode::Timeout, pools),
            PeerState::ConnectionSucceeded | PeerState::Connected | PeerState::DisconnectLater => {
                self.run_traffic_timers(now, pools);
            }
            PeerState::Disconnecting | PeerState::AcknowledgingDisconnect => {
                let end = self.closed_at + NetworkConfig::ms(self.config.disconnect_timeout_ms);
                let given_up = self.retry.count > self.config.max_retransmissions && now >= self.retry.at;
                if now >= end || given_up {
                    self.end(now, ErrorCode::from_bits(self.farewell.reason), false, pools);
                }
            }
            PeerState::Zombie => {
                let has_said_all = !self.owed.disconnect && !self.owed.disconnect_ack;
                if now >= self.zombie_end() && has_said_all {
                    self.state = PeerState::Disconnected;
                }
            }
        }
    }

    fn run_traffic_timers(&mut self, now: Instant, pools: &mut Pools) {
        if now >= self.heard_at + NetworkConfig::ms(self.config.disconnect_timeout_ms) {
            self.lose_connection(now, pools);
            return;
        }
        self.notice_losses(now, pools);
        if !self.state.is_open() {
            return;
        }
        while let Some(channel) = self.inbox.give_up_parts(now, &mut pools.fragments) {
            self.tell(Event::FragmentError { channel, outgoing: false });
        }
        if self.state == PeerState::DisconnectLater && self.outbox.is_drained() && self.block_is_queued() {
            self.begin_disconnect(now, pools);
        }
    }

    /// Takes back what lost packets carried.
    fn notice_losses(&mut self, now: Instant, pools: &mut Pools) {
        while let Some(cargo) = self.flights.take_lost(now) {
            if !self.take_back(cargo) {
                self.lose_connection(now, pools);
                return;
            }
        }
        if let Some(cargo) = self.flights.overrun()
            && !self.take_back(cargo)
        {
            self.lose_connection(now, pools);
        }
    }

    /// Whether the connection survives.
    fn take_back(&mut self, mut cargo: Cargo) -> bool {
        self.pace.lost();
        self.stats.packets_lost += 1;
        self.stalled = false;
        let mut survives = true;
        while let Some(carried) = self.flights.unload(&mut cargo) {
            survives &= self.outbox.lose(carried).is_ok();
        }
        survives
    }

    fn next_traffic(&self) -> Instant {
        let owed = self.owed.ack || self.owed.pong.is_some() || self.owed.connect_ack;
        if owed || self.inbox.part_ack().is_some() {
            return Instant::ZERO;
        }
        let silence = self.heard_at + NetworkConfig::ms(self.config.disconnect_timeout_ms);
        let mut next = silence.min(self.next_ping());
        if let Some(loss) = self.flights.next_loss() {
            next = next.min(loss);
        }
        if let Some(give_up) = self.inbox.next_give_up() {
            next = next.min(give_up);
        }
        if self.may_send_data() {
            next = next.min(self.pace.ready_at(usize::from(self.terms.mtu)));
        }
        if self.state == PeerState::DisconnectLater && self.outbox.is_drained() && self.block_is_queued() {
            next = Instant::ZERO;
        }
        next
    }

    /// Until the server is known to know, PINGs are the client's repetitions.
    fn next_ping(&self) -> Instant {
        if self.state == PeerState::ConnectionSucceeded { self.retry.at } else { self.ping.due }
    }

    fn may_send_data(&self) -> bool {
        let waits = self.outbox.is_ready() && !self.stalled;
        waits && self.flights.in_flight() < self.window_len() && self.flights.has_room()
    }

    fn block_is_queued(&self) -> bool {
        self.block.is_none_or(|block| block.is_queued())
    }

    fn window_len(&self) -> usize {
        let rtt = self.rtt.smoothed().unwrap_or(NetworkConfig::ms(self.config.initial_rto_ms));
        self.pace.window(rtt, usize::from(self.terms.mtu).max(1))
    }

    /// Retransmission time of something that was sent again `retries` times already.
    fn rto(&self, retries: u8) -> Duration {
        let most = NetworkConfig::ms(self.config.max_rto_ms);
        let mut rto = match self.rtt.smoothed() {
            Some(_) => self.rtt.timeout(RTO_MIN, most),
            None => NetworkConfig::ms(self.config.initial_rto_ms),
        };
        for _ in 0..retries.min(32) {
            rto = rto.times(3).per(2).min(most);
        }
        rto
    }

    /// Bytes of the largest payload before encryption.
    fn payload_bytes(&self) -> usize {
        let sealed = if self.seal.is_some() { SEAL_BYTES } else { 0 };
        usize::from(self.terms.mtu).clamp(HEADER_BYTES + SEAL_BYTES, MTU_MAX) - HEADER_BYTES - sealed
    }

    fn zombie_end(&self) -> Instant {
        if self.ended_by_peer { self.closed_at + ZOMBIE_TIME } else { self.closed_at }
    }

    fn tell(&mut self, event: Event) {
        if self.events.push(event).is_err() {
            self.stats.events_dropped += 1;
        }
    }
}
