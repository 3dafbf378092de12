//! Clients by hand: they write every byte themselves, from the protocol's document, and look at every byte that comes
//! back. Nothing here uses the code under test to say or understand anything.
#![allow(dead_code, reason = "each test uses its part")]

use std::net::SocketAddr;

use tickwire::seam::StreamId;
use tickwire::server::{Pools, Stats};
use tickwire::session::drops::{DropCounts, DropReason};
use tickwire::sim::Sim;
use tickwire::time::{Duration, Instant};
use tickwire::world::Game;
use tickwire::world::rtype::RtypeGame;

pub type World = Sim<RtypeGame>;

pub const CONNECT: u8 = 1;
pub const ACCEPT: u8 = 2;
pub const INPUT: u8 = 3;
pub const SNAPSHOT: u8 = 4;
pub const EVENT: u8 = 5;
pub const HEARTBEAT: u8 = 6;
pub const DISCONNECT: u8 = 7;
pub const COMPRESSED: u8 = 0x80;

pub const PLAYER_LEFT: u8 = 5;

/// Whole milliseconds.
pub const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A datagram, field by field (2.1).
pub fn datagram(kind: u8, sequence: u16, ack: u16, bits: u32, token: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x52, 0x54, 0x59, 0x50, 1, kind];
    bytes.extend(sequence.to_le_bytes());
    bytes.extend(ack.to_le_bytes());
    bytes.extend(bits.to_le_bytes());
    bytes.extend(token.to_le_bytes());
    bytes.extend(payload);
    bytes
}

/// A stream message (1.3).
pub fn message(body: &[u8]) -> Vec<u8> {
    let mut bytes = (body.len() as u16).to_le_bytes().to_vec();
    bytes.extend(body);
    bytes
}

/// A LoginRequest (3).
pub fn login_request(version: u8, name: &[u8]) -> Vec<u8> {
    let mut body = vec![1, version];
    body.extend((name.len() as u16).to_le_bytes());
    body.extend(name);
    message(&body)
}

/// An Event payload of events that have these ids and contents (5.2).
pub fn event_list(events: &[(u16, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![events.len() as u8];
    for (id, content) in events {
        bytes.extend(id.to_le_bytes());
        bytes.extend((content.len() as u16).to_le_bytes());
        bytes.extend(*content);
    }
    bytes
}

/// A datagram's header, taken apart.
#[derive(Clone, Debug)]
pub struct Heard {
    pub kind: u8,
    pub sequence: u16,
    pub ack: u16,
    pub bits: u32,
    pub token: u32,
    /// Decompressed.
    pub payload: Vec<u8>,
}

impl Heard {
    pub fn read(bytes: &[u8]) -> Self {
        assert!(bytes.len() >= 18 && bytes.len() <= 1200, "a datagram of {} bytes", bytes.len());
        assert_eq!(&bytes[..5], b"RTYP\x01");
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
        let mut payload = bytes[18..].to_vec();
        if bytes[5] & COMPRESSED != 0 {
            let mut whole = vec![0; usize::from(u16_at(18))];
            let len = lz4_flex::block::decompress_into(&bytes[20..], &mut whole).expect("a valid block");
            assert_eq!(len, whole.len());
            payload = whole;
        }
        Self {
            kind: bytes[5] & !COMPRESSED,
            sequence: u16_at(6),
            ack: u16_at(8),
            bits: u32_at(10),
            token: u32_at(14),
            payload,
        }
    }

    /// The ids and contents of an Event datagram.
    pub fn events(&self) -> Vec<(u16, Vec<u8>)> {
        let mut rest = &self.payload[1..];
        let events = (0..self.payload[0]).map(|_| {
            let len = usize::from(u16::from_le_bytes([rest[2], rest[3]]));
            let event = (u16::from_le_bytes([rest[0], rest[1]]), rest[4..4 + len].to_vec());
            rest = &rest[4 + len..];
            event
        });
        let events = events.collect();
        assert!(rest.is_empty());
        events
    }
}

/// A client by hand.
#[derive(Clone, Debug)]
pub struct Raw {
    pub address: SocketAddr,
    pub stream: StreamId,
    pub token: u32,
    pub player: u8,
    /// The next datagram's sequence.
    pub sequence: u16,
    /// What it acknowledges.
    pub ack: u16,
    pub bits: u32,
}

impl Raw {
    /// Logs in, unbound.
    pub fn login(sim: &mut World, address: SocketAddr) -> Self {
        let stream = sim.open_stream(address);
        sim.stream_bytes(stream, &login_request(1, b"raw"));
        let (said, is_closed) = said(sim, stream);
        assert_eq!((said.len(), said[2], is_closed), (12, 2, false), "LoginAccepted: {said:?}");
        assert_eq!(&said[..2], &10u16.to_le_bytes());
        let token = u32::from_le_bytes([said[3], said[4], said[5], said[6]]);
        assert_ne!(token, 0);
        assert_eq!(&said[7..9], &4243u16.to_le_bytes());
        assert_eq!(said[10], 60);
        Self { address, stream, token, player: said[9], sequence: 0, ack: u16::MAX, bits: 0 }
    }

    /// Logs in and binds.
    pub fn play(sim: &mut World, address: SocketAddr) -> Self {
        let mut raw = Self::login(sim, address);
        raw.send(sim, CONNECT, &[]);
        let heard = raw.run(sim, 2);
        assert_eq!(heard.first().map(|first| first.kind), Some(ACCEPT));
        raw
    }

    /// The bytes of a datagram with the next sequence, which is not used up.
    pub fn bytes(&self, kind: u8, payload: &[u8]) -> Vec<u8> {
        datagram(kind, self.sequence, self.ack, self.bits, self.token, payload)
    }

    /// Sends a datagram.
    pub fn send(&mut self, sim: &mut World, kind: u8, payload: &[u8]) {
        let bytes = self.bytes(kind, payload);
        self.sequence = self.sequence.wrapping_add(1);
        sim.datagram(self.address, &bytes);
    }

    /// Lets time pass in silence and takes what came; it will be acknowledged.
    pub fn run(&mut self, sim: &mut World, span_ms: u64) -> Vec<Heard> {
        sim.run(ms(span_ms), |_, _, _| ());
        self.take(sim)
    }

    /// Lets time pass with an Input every tick or so, everything acknowledged.
    pub fn fly(&mut self, sim: &mut World, span_ms: u64) -> Vec<Heard> {
        let mut heard = Vec::new();
        for step in 0..span_ms {
            if step % 16 == 0 {
                self.send(sim, INPUT, &[0]);
            }
            heard.extend(self.run(sim, 1));
        }
        heard
    }

    /// Takes what came.
    pub fn take(&mut self, sim: &mut World) -> Vec<Heard> {
        let heard: Vec<Heard> = took(sim, self.address).iter().map(|bytes| Heard::read(bytes)).collect();
        for datagram in &heard {
            assert_eq!(datagram.token, self.token, "another session's datagram");
            self.received(datagram.sequence);
        }
        heard
    }

    fn received(&mut self, sequence: u16) {
        let ahead = sequence.wrapping_sub(self.ack);
        assert!((1..33).contains(&ahead), "the network keeps the order: {sequence} after {}", self.ack);
        let before = if self.ack == u16::MAX && self.bits == 0 { 0 } else { 1u32 << (ahead - 1) };
        self.bits = self.bits.checked_shl(u32::from(ahead)).unwrap_or(0) | before;
        self.ack = sequence;
    }
}

/// Takes the datagrams that the server sent to `address`, which has no client.
pub fn took(sim: &mut World, address: SocketAddr) -> Vec<Vec<u8>> {
    let strays = std::mem::take(&mut sim.strays);
    let (taken, kept) = strays.into_iter().partition(|(to, _)| *to == address);
    sim.strays = kept;
    taken.into_iter().map(|(_, bytes): (_, Vec<u8>)| bytes).collect()
}

/// What was said on a stream so far, and whether it was closed.
pub fn said(sim: &World, stream: StreamId) -> (Vec<u8>, bool) {
    sim.stray_streams.get(&stream.index).cloned().unwrap_or_default()
}

/// What the session's stream was told since its LoginAccepted; it must be closed.
#[track_caller]
pub fn last_words(sim: &World, raw: &Raw) -> Vec<u8> {
    let (bytes, is_closed) = said(sim, raw.stream);
    assert!(is_closed, "the stream is closed");
    bytes[12..].to_vec()
}

/// The PlayerLeft events in what was heard: player and reason.
pub fn left(heard: &[Heard]) -> Vec<(u8, u8)> {
    let mut ids = Vec::new();
    let mut left = Vec::new();
    for (id, content) in heard.iter().filter(|datagram| datagram.kind == EVENT).flat_map(Heard::events) {
        if content[0] == PLAYER_LEFT && !ids.contains(&id) {
            ids.push(id);
            left.push((content[5], content[6]));
        }
    }
    left
}

/// Everything about a server that a dropped datagram must leave as it was.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State {
    pools: Pools,
    hash: Option<u64>,
    stats: Stats,
    next_tick: Option<Instant>,
}

impl State {
    pub fn of(sim: &World) -> Self {
        use tickwire::seam::Core;
        let stats = Stats { datagrams_in: 0, bytes_in: 0, ..*sim.server.stats() };
        Self {
            pools: sim.server.pools(),
            hash: sim.server.game(0).map(RtypeGame::state_hash),
            stats,
            next_tick: sim.server.next_tick(),
        }
    }
}

/// The datagram is dropped: counted once, under `reason`, with nothing changed and nothing to be sent.
#[track_caller]
pub fn assert_dropped(sim: &mut World, from: SocketAddr, bytes: &[u8], reason: DropReason) {
    let (state, drops) = (State::of(sim), *sim.server.drops());
    sim.datagram(from, bytes);
    assert_eq!(dropped_since(sim, &drops), [(reason, 1)], "{:02x?}", &bytes[..bytes.len().min(40)]);
    assert_eq!(State::of(sim), state, "{:02x?}", &bytes[..bytes.len().min(40)]);
}

/// The datagram is valid: it is not counted as dropped.
#[track_caller]
pub fn assert_valid(sim: &mut World, from: SocketAddr, bytes: &[u8]) {
    let drops = *sim.server.drops();
    sim.datagram(from, bytes);
    assert_eq!(dropped_since(sim, &drops), []);
}

/// What was dropped since, by reason.
pub fn dropped_since(sim: &World, before: &DropCounts) -> Vec<(DropReason, u64)> {
    let counts = DropReason::ALL.into_iter().map(|reason| {
        let count = sim.server.drops().get(reason) - before.get(reason);
        (reason, count)
    });
    counts.filter(|(_, count)| *count > 0).collect()
}

/// Nobody but `addresses` was sent anything.
#[track_caller]
pub fn assert_only_told(sim: &World, addresses: &[SocketAddr]) {
    let stranger = sim.strays.iter().find(|(to, _)| !addresses.contains(to));
    assert_eq!(stranger, None, "the server spoke to a stranger");
}
