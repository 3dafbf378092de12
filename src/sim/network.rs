//! A network that loses, repeats, delays and reorders, by seed.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::rng::Rng;
use crate::seam::Door;
use crate::time::{Duration, Instant};

/// What the network does to datagrams, in both directions.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Faults {
    /// Datagrams lost, per thousand.
    pub loss_per_mille: u32,
    /// Datagrams that arrive twice, per thousand.
    pub repeat_per_mille: u32,
    /// Least time on the way, in milliseconds.
    pub delay_ms: u32,
    /// Time that may be added by chance, in milliseconds: later datagrams overtake earlier ones.
    pub jitter_ms: u32,
}

/// What the network did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct NetworkStats {
    /// Datagrams given to it.
    pub sent: u64,
    /// Lost.
    pub lost: u64,
    /// Delivered twice.
    pub repeated: u64,
    /// Delivered after one that was sent later.
    pub overtaken: u64,
    /// Bytes to clients, headers of lower layers not counted.
    pub bytes_to_clients: u64,
    /// Datagrams to clients.
    pub datagrams_to_clients: u64,
}

#[derive(Debug)]
pub(super) enum Packet {
    ToServer { door: Door, from: SocketAddr, bytes: Vec<u8> },
    ToClient { to: SocketAddr, bytes: Vec<u8> },
}

#[derive(Debug)]
pub(super) struct Network {
    faults: Faults,
    rng: Rng,
    /// By arrival, then by order of sending.
    under_way: BTreeMap<(Instant, u64), Packet>,
    enqueued: u64,
    newest_delivered: u64,
    stats: NetworkStats,
}

impl Network {
    pub(super) fn new(faults: Faults, seed: u64) -> Self {
        Self {
            faults,
            rng: Rng::new(seed),
            under_way: BTreeMap::new(),
            enqueued: 0,
            newest_delivered: 0,
            stats: NetworkStats::default(),
        }
    }

    pub(super) fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
    }

    pub(super) fn stats(&self) -> NetworkStats {
        self.stats
    }

    pub(super) fn send(&mut self, now: Instant, packet: Packet) {
        self.stats.sent += 1;
        if let Packet::ToClient { bytes, .. } = &packet {
            self.stats.bytes_to_clients += bytes.len() as u64;
            self.stats.datagrams_to_clients += 1;
        }
        if self.rng.chance(self.faults.loss_per_mille, 1000) {
            self.stats.lost += 1;
            return;
        }
        if self.rng.chance(self.faults.repeat_per_mille, 1000) {
            self.stats.repeated += 1;
            let copy = match &packet {
                Packet::ToServer { door, from, bytes } => {
                    Packet::ToServer { door: *door, from: *from, bytes: bytes.clone() }
                }
                Packet::ToClient { to, bytes } => Packet::ToClient { to: *to, bytes: bytes.clone() },
            };
            self.enqueue(now, copy);
        }
        self.enqueue(now, packet);
    }

    pub(super) fn take_due(&mut self, now: Instant) -> Option<Packet> {
        let entry = self.under_way.first_entry()?;
        let &(at, number) = entry.key();
        if at > now {
            return None;
        }
        self.stats.overtaken += u64::from(number < self.newest_delivered);
        self.newest_delivered = self.newest_delivered.max(number);
        Some(entry.remove())
    }

    fn enqueue(&mut self, now: Instant, packet: Packet) {
        let delay_ms = self.faults.delay_ms + self.rng.below(self.faults.jitter_ms + 1);
        let at = now + Duration::from_millis(u64::from(delay_ms));
        self.under_way.insert((at, self.enqueued), packet);
        self.enqueued += 1;
    }
}
