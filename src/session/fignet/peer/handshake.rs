//! How a connection begins and ends (section 3).

use super::{Owed, Peer, PeerStats, Ping, Retry, Side};
use crate::session::acks::Receipt;
use crate::session::fignet::pace::{Allowance, Pace};
use crate::session::fignet::receipts::Receipts;
use crate::session::fignet::{Delivery, Event, HearError, PeerState, Pools, Seal};
use crate::session::rtt::Rtt;
use crate::time::Instant;
use crate::wire::fignet::handshake::{Connect, ConnectAck, Disconnect, FAREWELL_BYTES_MAX};
use crate::wire::fignet::{ErrorCode, Header, PacketKind, VERSION};

impl<S: Seal> Peer<S> {
    /// Begins a connection as the client. `nonce` is a random number; with a `seal`, the key that belongs to it, all
    /// but CONNECT is encrypted.
    ///
    /// # Panics
    /// When there is a connection already.
    pub fn connect(&mut self, now: Instant, nonce: u32, seal: Option<S>) {
        self.begin(now, Side::Client, nonce, nonce, seal);
        self.state = PeerState::Connecting;
        self.terms = ConnectAck {
            version: VERSION,
            nonce: 0,
            peer_id: 0,
            channels: self.config.max_channels,
            mtu: self.config.offered_mtu(),
            server_time_ms: 0,
        };
    }

    /// Begins a connection as the server, with the client that sent this CONNECT of a version that is ours and at
    /// least one channel. `server_nonce` must be unguessable: where the packet numbers begin depends on it, and that
    /// the client knows them proves its address.
    ///
    /// # Panics
    /// When there is a connection already.
    pub fn accept(
        &mut self,
        now: Instant,
        header: &Header,
        connect: &Connect,
        peer_id: u16,
        server_nonce: u32,
        seal: Option<S>,
    ) {
        assert!(connect.channels > 0, "a connection without channels");
        self.begin(now, Side::Server, connect.nonce, server_nonce, seal);
        self.state = PeerState::ConnectionPending;
        self.receipts.record(header.sequence, false);
        self.terms = ConnectAck {
            version: VERSION,
            nonce: server_nonce,
            peer_id,
            channels: connect.channels.min(self.config.max_channels),
            mtu: connect.mtu.min(self.config.offered_mtu()),
            server_time_ms: now.as_nanos() / 1_000_000,
        };
        self.owed.connect_ack = true;
        self.open_channels();
    }

    /// Ends the connection at once: what waits is forgotten, the peer is told, and the end comes when it says so or
    /// does not answer. `data` are words for the peer's application, at most 255 bytes.
    ///
    /// # Panics
    /// When `data` is longer.
    pub fn disconnect(&mut self, now: Instant, pools: &mut Pools, reason: ErrorCode, data: &[u8]) {
        self.set_farewell(reason, data);
        match self.state {
            PeerState::Connecting | PeerState::AcknowledgingConnect | PeerState::ConnectionPending => {
                self.fail(reason, pools);
            }
            state if state.is_open() => self.begin_disconnect(now, pools),
            _ => {}
        }
    }

    /// Ends the connection as soon as everything has arrived that was sent on reliable channels. Nothing more can be
    /// sent, but what arrives is still delivered.
    ///
    /// # Panics
    /// When `data` is longer than 255 bytes.
    pub fn disconnect_later(&mut self, now: Instant, pools: &mut Pools, reason: ErrorCode, data: &[u8]) {
        if matches!(self.state, PeerState::ConnectionSucceeded | PeerState::Connected) {
            self.set_farewell(reason, data);
            self.state = PeerState::DisconnectLater;
        } else {
            self.disconnect(now, pools, reason, data);
        }
    }

    /// Forgets the connection without a word to anyone.
    pub fn reset(&mut self, pools: &mut Pools) {
        self.release(pools);
        self.events.clear();
        self.owed = Owed::default();
        self.state = PeerState::Disconnected;
    }

    /// A packet of the kinds that open and close connections.
    pub(super) fn hear_handshake(
        &mut self,
        now: Instant,
        pools: &mut Pools,
        header: &Header,
        payload: &[u8],
        deliver: &mut impl FnMut(Delivery<'_>),
    ) -> Result<(), HearError> {
        match header.kind {
            PacketKind::Connect => {
                let connect = Connect::parse(payload).ok_or(HearError::Malformed)?;
                let known = self.side == Side::Server && connect.nonce == self.nonce;
                if !known || !(self.state == PeerState::ConnectionPending || self.state.is_open()) {
                    return Err(HearError::Unexpected);
                }
                if self.receipts.judge(header.sequence) == Receipt::New {
                    self.receipts.record(header.sequence, false);
                }
                self.owed.connect_ack = true;
                Ok(())
            }
            PacketKind::ConnectAck => {
                let terms = ConnectAck::parse(payload).ok_or(HearError::Malformed)?;
                self.hear_connect_ack(now, pools, header, &terms)
            }
            PacketKind::Disconnect => {
                let words = Disconnect::parse(payload).ok_or(HearError::Malformed)?;
                self.hear_disconnect(now, pools, header, &words, deliver)
            }
            PacketKind::DisconnectAck => {
                if !payload.is_empty() {
                    return Err(HearError::Malformed);
                }
                if self.state != PeerState::AcknowledgingDisconnect || !self.is_answer(header) {
                    return Err(HearError::Unexpected);
                }
                self.end(now, ErrorCode::from_bits(self.farewell.reason), false, pools);
                Ok(())
            }
            _ => Err(HearError::Unexpected),
        }
    }

    /// The first packet that shows that the other end knows of the connection.
    pub(super) fn become_connected(&mut self, now: Instant) {
        self.state = PeerState::Connected;
        // The client's PINGs that proved it are still to be answered.
        if self.ping.sent_us.is_none() {
            self.ping.due = now;
        }
        self.tell(Event::Connected);
    }

    pub(super) fn begin_disconnect(&mut self, now: Instant, pools: &mut Pools) {
        self.release(pools);
        self.state = PeerState::Disconnecting;
        self.closed_at = now;
        self.retry = Retry { at: now, count: 0 };
    }

    pub(super) fn set_farewell(&mut self, reason: ErrorCode, data: &[u8]) {
        assert!(data.len() <= FAREWELL_BYTES_MAX, "a farewell too long");
        self.farewell.reason = reason as u8;
        self.farewell.len = data.len() as u8;
        self.farewell.data[..data.len()].copy_from_slice(data);
    }

    /// The connection never came to be.
    pub(super) fn fail(&mut self, reason: ErrorCode, pools: &mut Pools) {
        self.release(pools);
        self.state = match self.side {
            Side::Client => PeerState::ConnectionFailed,
            Side::Server => PeerState::Disconnected,
        };
        self.events.clear();
        self.tell(Event::Failed(reason));
    }

    /// The connection is over.
    pub(super) fn end(&mut self, now: Instant, reason: ErrorCode, by_peer: bool, pools: &mut Pools) {
        self.release(pools);
        self.state = PeerState::Zombie;
        self.closed_at = now;
        self.ended_by_peer = by_peer;
        // What was told before is of no use any more, and the end must be told.
        self.events.clear();
        self.tell(Event::Disconnected { reason, by_peer });
    }

    /// The peer does not answer any more. It is told once, for the case that it hears all the same.
    pub(super) fn lose_connection(&mut self, now: Instant, pools: &mut Pools) {
        self.set_farewell(ErrorCode::Timeout, &[]);
        self.end(now, ErrorCode::Timeout, false, pools);
        self.owed.disconnect = true;
    }

    fn begin(&mut self, now: Instant, side: Side, nonce: u32, own_nonce: u32, seal: Option<S>) {
        assert!(self.state.is_over(), "a peer that has a connection");
        self.side = side;
        self.seal = seal;
        self.nonce = nonce;
        self.receipts = Receipts::new();
        self.flights.reset((own_nonce >> 16 ^ own_nonce) as u16);
        self.rtt = Rtt::new();
        self.pace = Pace::new(now, &self.config);
        self.allowance = Allowance::new(now, &self.config);
        self.block = None;
        self.owed = Owed::default();
        self.retry = Retry { at: now, count: 0 };
        self.ping = Ping { due: now, sent_us: None };
        (self.opened_at, self.heard_at, self.closed_at) = (now, now, now);
        self.ended_by_peer = false;
        self.events.clear();
        self.stalled = false;
        self.stats = PeerStats::default();
        self.set_farewell(ErrorCode::Success, &[]);
    }

    fn open_channels(&mut self) {
        let payload_bytes = self.payload_bytes();
        self.outbox.open(self.terms.channels, payload_bytes);
        self.inbox.open(self.terms.channels, payload_bytes);
    }

    fn release(&mut self, pools: &mut Pools) {
        self.outbox.reset(&mut pools.send);
        self.inbox.reset(&mut pools.receive, &mut pools.fragments);
        self.block = None;
        self.flights.forget();
        self.owed.ack = false;
        self.owed.pong = None;
        self.owed.connect_ack = false;
    }

    fn hear_connect_ack(
        &mut self,
        now: Instant,
        pools: &mut Pools,
        header: &Header,
        terms: &ConnectAck,
    ) -> Result<(), HearError> {
        if self.side == Side::Server || !self.is_answer(header) {
            return Err(HearError::Unexpected);
        }
        if self.state != PeerState::AcknowledgingConnect {
            // Another copy. It is heard, so that it may be acknowledged.
            return if self.state.is_open() && *terms == self.terms {
                if self.receipts.judge(header.sequence) == Receipt::New {
                    self.receipts.record(header.sequence, false);
                }
                self.owed.ack = true;
                Ok(())
            } else {
                Err(HearError::Unexpected)
            };
        }
        if terms.version != VERSION {
            self.fail(ErrorCode::ProtocolMismatch, pools);
            return Ok(());
        }
        if terms.channels > self.config.max_channels || terms.mtu > self.config.offered_mtu() {
            return Err(HearError::Malformed);
        }
        self.terms = *terms;
        self.open_channels();
        self.receipts.record(header.sequence, false);
        self.state = PeerState::ConnectionSucceeded;
        self.heard_at = now;
        self.retry = Retry { at: now, count: 0 };
        Ok(())
    }

    fn hear_disconnect(
        &mut self,
        now: Instant,
        pools: &mut Pools,
        header: &Header,
        words: &Disconnect<'_>,
        deliver: &mut impl FnMut(Delivery<'_>),
    ) -> Result<(), HearError> {
        // Whoever did not see our packets cannot end the connection.
        if !self.is_answer(header) {
            return Err(HearError::Unexpected);
        }
        let reason = ErrorCode::from_bits(words.reason);
        match self.state {
            PeerState::AcknowledgingConnect => {
                deliver(Delivery::Farewell { reason: words.reason, data: words.data });
                self.fail(reason, pools);
            }
            PeerState::ConnectionPending => self.fail(reason, pools),
            PeerState::Zombie => self.owed.disconnect_ack = self.ended_by_peer,
            PeerState::Disconnected | PeerState::Connecting | PeerState::ConnectionFailed => {
                return Err(HearError::Unexpected);
            }
            _ => {
                if self.receipts.judge(header.sequence) == Receipt::New {
                    self.receipts.record(header.sequence, false);
                }
                deliver(Delivery::Farewell { reason: words.reason, data: words.data });
                self.end(now, reason, true, pools);
                self.owed.disconnect_ack = true;
            }
        }
        Ok(())
    }

    /// Whether a packet acknowledges one of ours, which only who gets our packets can do.
    pub(super) fn is_answer(&self, header: &Header) -> bool {
        let few = matches!(
            self.state,
            PeerState::AcknowledgingConnect | PeerState::ConnectionPending | PeerState::ConnectionSucceeded
        );
        let ack_is_ours =
            if few { self.flights.is_since_first(header.ack) } else { self.flights.is_plausible(header.ack) };
        header.ack_bits.is_some() && ack_is_ours
    }
}
