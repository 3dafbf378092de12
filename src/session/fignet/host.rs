//! The end that has many connections: who is behind which address, who may come in, and whose turn it is.
//! Implements section 3.2 of docs/protocol/fignet.md.

use std::net::SocketAddr;

use super::config::NetworkConfig;
use super::pools::{Claimed, Pools};
use super::sealing::NoSeal;
use super::{Delivery, Event, HearError, Peer, PeerState, Seal, SendError};
use crate::rng::TokenSource;
use crate::session::drops::{SOURCES_MAX, key};
use crate::session::rate::Limiter;
use crate::storage::{BitSet, Deadlines, Index, Lru, Ring};
use crate::time::{Duration, Instant};
use crate::wire::cursor::Writer;
use crate::wire::fignet::handshake::{Connect, Disconnect};
use crate::wire::fignet::header::Flags;
use crate::wire::fignet::{ErrorCode, Header, MTU_MAX, PacketKind, VERSION};

/// Refusals that wait to be sent at most; who gets none asks again.
const REFUSALS_MAX: usize = 8;

/// A connection of a host: a slot, used again after the connection's end was told.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PeerId(pub u16);

/// Something that happened to a connection of a host.
pub type HostEvent = (PeerId, Event);

/// Many connections over one socket.
#[derive(Debug)]
pub struct Host<S = NoSeal> {
    config: NetworkConfig,
    pools: Pools,
    slots: Box<[Slot<S>]>,
    index: Index,
    /// Makes keys of endpoints that nobody can make collide.
    mix: [u128; 2],
    free: BitSet,
    zombies: BitSet,
    /// Peers with something to tell, and those with something to send.
    active: BitSet,
    ready: BitSet,
    deadlines: Deadlines,
    pending: u16,
    attempts: Option<Lru<Limiter>>,
    limiter: Limiter,
    refusals: Ring<Refusal>,
    tokens: TokenSource,
    sent_last: usize,
    refused: u64,
}

#[derive(Debug)]
struct Slot<S> {
    peer: Peer<S>,
    address: SocketAddr,
    is_pending: bool,
}

#[derive(Clone, Copy, Debug)]
struct Refusal {
    to: SocketAddr,
    /// The sequence of the CONNECT.
    ack: u16,
    reason: ErrorCode,
}

impl<S: Seal> Host<S> {
    /// A host without connections. All its memory is made here.
    ///
    /// # Panics
    /// When the settings make no sense ([`NetworkConfig::validate`]).
    pub fn new(config: &NetworkConfig, mut tokens: TokenSource) -> Self {
        let peers = usize::from(config.max_peers);
        let nobody = SocketAddr::from(([0, 0, 0, 0], 0));
        let attempts = config.connection_attempts_per_minute;
        let limiter = Limiter::new(attempts.max(1), Duration::from_secs(60).per(u64::from(attempts.max(1))));
        let mut secret = || [tokens.next_u64(), tokens.next_u64()];
        let mut number = || secret().into_iter().fold(0, |number, half| number << 64 | u128::from(half));
        let mix = [number() | 1, number()];
        Self {
            config: *config,
            pools: Pools::new(config, peers),
            slots: (0..peers)
                .map(|_| Slot { peer: Peer::new(config), address: nobody, is_pending: false })
                .collect(),
            index: Index::new(peers, secret()),
            mix,
            free: BitSet::full(peers),
            zombies: BitSet::new(peers),
            active: BitSet::new(peers),
            ready: BitSet::new(peers),
            deadlines: Deadlines::new(peers),
            pending: 0,
            attempts: (attempts > 0).then(|| Lru::new(SOURCES_MAX, secret(), limiter)),
            limiter,
            refusals: Ring::new(REFUSALS_MAX, Refusal { to: nobody, ack: 0, reason: ErrorCode::Success }),
            tokens,
            sent_last: 0,
            refused: 0,
        }
    }

    /// Takes in a packet that came `from` somewhere, `at` a time not later than `now`. `key_of` gives the key that
    /// belongs to a client's nonce; it is asked for new connections only.
    pub fn hear(
        &mut self,
        now: Instant,
        at: Instant,
        from: SocketAddr,
        bytes: &[u8],
        key_of: impl FnOnce(u32) -> Option<S>,
        mut deliver: impl FnMut(PeerId, Delivery<'_>),
    ) -> Result<(), HearError> {
        let known = self.find(from);
        let Some(index) = known.filter(|&index| !self.makes_way(index, bytes)) else {
            return self.hear_stranger(now, from, bytes, key_of);
        };
        let id = PeerId(index as u16);
        let Self { slots, pools, .. } = self;
        let result = slots[index].peer.hear(now, at, pools, bytes, |delivery| deliver(id, delivery));
        self.touched(index);
        result
    }

    /// When [`Host::advance`] or [`Host::transmit`] next have something to do; [`Instant::ZERO`] is at once.
    pub fn next_deadline(&self) -> Option<Instant> {
        if !self.active.is_empty() || !self.ready.is_empty() || !self.refusals.is_empty() {
            return Some(Instant::ZERO);
        }
        self.deadlines.next()
    }

    /// Does what is due, and tells of one thing that happened. To be called until it tells of nothing.
    pub fn advance(&mut self, now: Instant) -> Option<HostEvent> {
        while let Some(index) = self.deadlines.pop_due(now) {
            self.active.insert(index);
        }
        while let Some(index) = self.active.next_from(0) {
            let event = self.slots[index].peer.advance(now, &mut self.pools);
            self.account(index);
            if let Some(event) = event {
                return Some((PeerId(index as u16), event));
            }
            self.active.remove(index);
            if self.slots[index].peer.state().is_over() {
                self.vacate(index);
            } else {
                self.ready.insert(index);
            }
        }
        None
    }

    /// Writes the next packet that is to be sent now; returns where to and its length. To be called until there is
    /// none.
    pub fn transmit(&mut self, now: Instant, buffer: &mut [u8; MTU_MAX]) -> Option<(SocketAddr, usize)> {
        if let Some(refusal) = self.refusals.pop() {
            return Some((refusal.to, self.emit_refusal(&refusal, buffer)));
        }
        // In turn, so that nobody is always the last.
        while let Some(index) = self.ready.next_from(self.sent_last).or_else(|| self.ready.next_from(0)) {
            self.sent_last = index + 1;
            let slot = &mut self.slots[index];
            if let Some(len) = slot.peer.transmit(now, &mut self.pools, buffer) {
                let address = slot.address;
                self.account(index);
                return Some((address, len));
            }
            self.ready.remove(index);
            self.account(index);
            match self.slots[index].peer.next_deadline() {
                Some(at) => self.deadlines.set(index, at),
                None if self.free.contains(index) => {}
                None => self.active.insert(index),
            }
        }
        None
    }

    /// Whether [`Host::transmit`] may have something to send.
    pub fn has_output(&self) -> bool {
        !self.ready.is_empty() || !self.refusals.is_empty()
    }

    /// Queues a message for a peer.
    pub fn send(&mut self, id: PeerId, channel: u8, bytes: &[u8]) -> Result<(), SendError> {
        self.with(id, |peer, pools| peer.send(pools, channel, bytes)).unwrap_or(Err(SendError::NotConnected))
    }

    /// Does something with a peer that has a connection; `None` when it has none.
    pub fn with<R>(&mut self, id: PeerId, run: impl FnOnce(&mut Peer<S>, &mut Pools) -> R) -> Option<R> {
        let index = usize::from(id.0);
        self.peer(id)?;
        let result = run(&mut self.slots[index].peer, &mut self.pools);
        self.touched(index);
        Some(result)
    }

    /// A peer that has a connection.
    pub fn peer(&self, id: PeerId) -> Option<&Peer<S>> {
        let index = usize::from(id.0);
        let is_there = index < self.slots.len() && !self.free.contains(index);
        is_there.then(|| &self.slots[index].peer)
    }

    /// Where a peer is.
    pub fn address(&self, id: PeerId) -> Option<SocketAddr> {
        self.peer(id).map(|_| self.slots[usize::from(id.0)].address)
    }

    /// Who is there, if a connection is.
    pub fn peer_at(&self, address: SocketAddr) -> Option<PeerId> {
        self.find(address).map(|index| PeerId(index as u16))
    }

    /// How many slots are taken, half-open connections and those that just ended included.
    pub fn peers(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// How many connections are half open.
    pub const fn pending(&self) -> u16 {
        self.pending
    }

    /// How many were refused so far.
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    /// What of the pools is claimed.
    pub fn claimed(&self) -> Claimed {
        self.pools.claimed()
    }

    fn hear_stranger(
        &mut self,
        now: Instant,
        from: SocketAddr,
        bytes: &[u8],
        key_of: impl FnOnce(u32) -> Option<S>,
    ) -> Result<(), HearError> {
        if bytes.len() > MTU_MAX {
            return Err(HearError::TooLarge);
        }
        let (header, payload) = Header::parse(bytes, self.config.protocol_id).map_err(HearError::Header)?;
        if header.kind != PacketKind::Connect || header.flags.encrypted {
            return Err(HearError::Unexpected);
        }
        let connect = Connect::parse(payload).ok_or(HearError::Malformed)?;
        if connect.version != VERSION {
            return self.refuse(from, &header, ErrorCode::ProtocolMismatch);
        }
        if connect.channels == 0 {
            return self.refuse(from, &header, ErrorCode::ChannelLimitReached);
        }
        if let Some(attempts) = &mut self.attempts
            && !attempts.touch(key(from.ip()), self.limiter).1.pass(now)
        {
            return self.refuse(from, &header, ErrorCode::RateLimitExceeded);
        }
        // No refusal: it asks again, and by then there may be room.
        if self.pending >= self.config.max_pending {
            return Err(HearError::NoRoom);
        }
        let Some(index) = self.free_slot() else {
            return self.refuse(from, &header, ErrorCode::PeerLimitReached);
        };
        // A key is handed out once: only to a connection that comes about.
        let seal = key_of(connect.nonce);
        if seal.is_none() && self.config.require_encryption {
            return self.refuse(from, &header, ErrorCode::ConnectionFailed);
        }
        let nonce = self.tokens.next_token();
        let endpoint = self.key(from);
        let slot = &mut self.slots[index];
        slot.address = from;
        slot.peer.accept(now, &header, &connect, index as u16, nonce, seal);
        self.free.remove(index);
        self.index.insert(endpoint, index as u32);
        self.account(index);
        self.touched(index);
        Ok(())
    }

    /// Whether a connection that is over makes way for a new one of the same endpoint; if so it has.
    fn makes_way(&mut self, index: usize, bytes: &[u8]) -> bool {
        let is_over = self.zombies.contains(index) && !self.active.contains(index);
        let asks = || Header::parse(bytes, self.config.protocol_id).map(|(header, _)| header.kind);
        if !is_over || asks() != Ok(PacketKind::Connect) {
            return false;
        }
        self.slots[index].peer.reset(&mut self.pools);
        self.account(index);
        self.vacate(index);
        true
    }

    /// A free slot, or else that of a connection which only waits for late words.
    fn free_slot(&mut self) -> Option<usize> {
        let free = self.free.next_from(0);
        free.or_else(|| {
            let quiet = |index: &usize| !self.active.contains(*index);
            let index = self.zombies.next_from(0).filter(quiet)?;
            self.slots[index].peer.reset(&mut self.pools);
            self.account(index);
            self.vacate(index);
            Some(index)
        })
    }

    fn refuse(&mut self, to: SocketAddr, header: &Header, reason: ErrorCode) -> Result<(), HearError> {
        self.refused += 1;
        let _ = self.refusals.push(Refusal { to, ack: header.sequence, reason });
        Err(HearError::Unexpected)
    }

    fn emit_refusal(&mut self, refusal: &Refusal, buffer: &mut [u8; MTU_MAX]) -> usize {
        let header = Header {
            protocol_id: self.config.protocol_id,
            kind: PacketKind::Disconnect,
            flags: Flags::default(),
            sequence: self.tokens.next_u64() as u16,
            ack: refusal.ack,
            ack_bits: Some(1 << 31),
            channel: 0,
        };
        let body_len = 1;
        let header_len = header.emit(body_len, buffer);
        let mut writer = Writer::new(&mut buffer[header_len..]);
        Disconnect { reason: refusal.reason as u8, data: &[] }.emit(&mut writer);
        header_len + body_len
    }

    /// Something about a peer changed: it may have something to tell or to send.
    fn touched(&mut self, index: usize) {
        self.active.insert(index);
    }

    /// Keeps the counts that depend on a peer's state.
    fn account(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let state = slot.peer.state();
        let is_pending = state == PeerState::ConnectionPending;
        self.pending = self.pending + u16::from(is_pending) - u16::from(slot.is_pending);
        slot.is_pending = is_pending;
        if state == PeerState::Zombie {
            self.zombies.insert(index);
        } else {
            self.zombies.remove(index);
        }
    }

    fn vacate(&mut self, index: usize) {
        let endpoint = self.key(self.slots[index].address);
        self.index.remove(endpoint);
        self.free.insert(index);
        self.ready.remove(index);
        self.deadlines.clear(index);
    }

    fn find(&self, address: SocketAddr) -> Option<usize> {
        let index = self.index.get(self.key(address))? as usize;
        (self.slots[index].address == address).then_some(index)
    }

    fn key(&self, address: SocketAddr) -> u128 {
        let [a, b] = self.mix;
        key(address.ip()).wrapping_mul(a).wrapping_add(u128::from(address.port()).wrapping_mul(b))
    }
}
