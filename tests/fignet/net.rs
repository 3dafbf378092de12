//! A host and its clients over a network that loses, repeats and reorders, by seed.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use tickwire::rng::{Rng, TokenSource};
use tickwire::session::fignet::{
    DEFAULT_CONFIG, Delivery, Event, Host, HostEvent, NetworkConfig, NoSeal, Peer, PeerId, PeerState, Pools,
};
use tickwire::time::{Duration, Instant};
use tickwire::wire::fignet::MTU_MAX;

#[derive(Clone, Copy, Default, Debug)]
pub struct Faults {
    pub loss_percent: u32,
    pub repeat_percent: u32,
    pub delay_ms: u32,
    pub jitter_ms: u32,
}

pub struct Client {
    pub peer: Peer,
    pub pools: Pools,
    pub address: SocketAddr,
    pub heard: Vec<(u8, Vec<u8>)>,
    pub events: Vec<Event>,
}

/// Who gets a packet: the host, or a client by number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum To {
    Host,
    Client(usize),
}

type Filter = Box<dyn FnMut(To, &[u8]) -> bool>;

pub struct Net {
    pub now: Instant,
    pub rng: Rng,
    pub faults: Faults,
    pub host: Host,
    pub clients: Vec<Client>,
    pub host_heard: Vec<(PeerId, u8, Vec<u8>)>,
    pub host_events: Vec<HostEvent>,
    /// Packets for which it says no are lost.
    pub filter: Option<Filter>,
    /// A byte of every CONNECT's body to replace, and by what.
    pub patch_connect: Option<(usize, u8)>,
    under_way: BTreeMap<(Instant, u64), (To, SocketAddr, Vec<u8>)>,
    sent: u64,
    pub lost: u64,
    pub repeated: u64,
    pub bytes_to_host: u64,
}

/// No limits on what a peer may send or receive but those of the window.
pub fn unlimited() -> NetworkConfig {
    NetworkConfig {
        packet_rate_per_sec: 0,
        bandwidth_limit_bytes_per_sec: 0,
        receive_packets_per_sec: 0,
        receive_bytes_per_sec: 0,
        connection_attempts_per_minute: 0,
        ..DEFAULT_CONFIG
    }
}

impl Net {
    pub fn new(config: &NetworkConfig, clients: usize, faults: Faults, seed: u64) -> Self {
        Self::with_configs(config, config, clients, faults, seed)
    }

    pub fn with_configs(
        host: &NetworkConfig,
        client: &NetworkConfig,
        clients: usize,
        faults: Faults,
        seed: u64,
    ) -> Self {
        let make = |number: usize| Client {
            peer: Peer::new(client),
            pools: Pools::new(client, 1),
            address: SocketAddr::from(([10, 0, (number / 200) as u8, (number % 200) as u8], 5000)),
            heard: Vec::new(),
            events: Vec::new(),
        };
        Self {
            now: Instant::from_millis(10_000),
            rng: Rng::new(seed),
            faults,
            host: Host::new(host, TokenSource::Seeded(Rng::new(seed ^ 0xF00D))),
            clients: (0..clients).map(make).collect(),
            host_heard: Vec::new(),
            host_events: Vec::new(),
            filter: None,
            patch_connect: None,
            under_way: BTreeMap::new(),
            sent: 0,
            lost: 0,
            repeated: 0,
            bytes_to_host: 0,
        }
    }

    /// All clients connected.
    pub fn connected(config: &NetworkConfig, clients: usize, faults: Faults, seed: u64) -> Self {
        let mut net = Self::new(config, clients, faults, seed);
        net.connect_all();
        net
    }

    pub fn connect_all(&mut self) {
        for number in 0..self.clients.len() {
            let nonce = self.rng.next_u32();
            self.clients[number].peer.connect(self.now, nonce, None);
            // Not all at once: only so many may be half open.
            if number % 8 == 7 {
                self.run(1000);
            }
        }
        self.run(4000);
        for client in &self.clients {
            assert_eq!(client.peer.state(), PeerState::Connected, "{:?}", client.events);
        }
        let ready = self.host_events.iter().filter(|(_, event)| *event == Event::Connected).count();
        assert_eq!((ready, self.host.pending()), (self.clients.len(), 0));
        self.host_events.clear();
        self.clients.iter_mut().for_each(|client| client.events.clear());
    }

    /// The only client's number at the host.
    pub fn id(&self, client: usize) -> PeerId {
        self.host.peer_at(self.clients[client].address).expect("a connection")
    }

    pub fn send_to_host(&mut self, client: usize, channel: u8, bytes: &[u8]) -> bool {
        let Client { peer, pools, .. } = &mut self.clients[client];
        peer.send(pools, channel, bytes).is_ok()
    }

    pub fn run(&mut self, ms: u64) {
        for _ in 0..ms {
            self.step(1);
        }
    }

    pub fn step(&mut self, ms: u64) {
        self.now = self.now + Duration::from_millis(ms);
        let now = self.now;
        while let Some(entry) = self.under_way.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let (at, (to, from, bytes)) = (entry.key().0, entry.remove());
            self.arrive(at, to, from, &bytes);
        }
        let mut buffer = [0; MTU_MAX];
        while let Some(event) = self.host.advance(now) {
            self.host_events.push(event);
        }
        while let Some((to, len)) = self.host.transmit(now, &mut buffer) {
            if let Some(client) = self.clients.iter().position(|client| client.address == to) {
                self.submit(To::Client(client), to, &buffer[..len]);
            }
        }
        let next = self.host.next_deadline();
        assert!(next.is_none_or(|at| at > now || at == Instant::ZERO), "the host would spin");
        for number in 0..self.clients.len() {
            let Client { peer, pools, events, .. } = &mut self.clients[number];
            while let Some(event) = peer.advance(now, pools) {
                events.push(event);
            }
            loop {
                let Client { peer, pools, address, .. } = &mut self.clients[number];
                let from = *address;
                let Some(len) = peer.transmit(now, pools, &mut buffer) else { break };
                self.submit(To::Host, from, &buffer[..len]);
            }
        }
    }

    fn arrive(&mut self, at: Instant, to: To, from: SocketAddr, bytes: &[u8]) {
        match to {
            To::Host => {
                self.bytes_to_host += bytes.len() as u64;
                let heard = &mut self.host_heard;
                let _ = self.host.hear(
                    self.now,
                    at,
                    from,
                    bytes,
                    |_| None::<NoSeal>,
                    |id, delivery| match delivery {
                        Delivery::Message { channel, bytes } => heard.push((id, channel, bytes.to_vec())),
                        Delivery::Block(part) => heard.push((id, 254, part.data.to_vec())),
                        Delivery::Acked(_) | Delivery::Farewell { .. } => {}
                    },
                );
            }
            To::Client(number) => {
                let Client { peer, pools, heard, .. } = &mut self.clients[number];
                let _ = peer.hear(self.now, at, pools, bytes, |delivery| match delivery {
                    Delivery::Message { channel, bytes } => heard.push((channel, bytes.to_vec())),
                    Delivery::Block(part) => heard.push((254, part.data.to_vec())),
                    Delivery::Acked(_) | Delivery::Farewell { .. } => {}
                });
            }
        }
    }

    fn submit(&mut self, to: To, from: SocketAddr, bytes: &[u8]) {
        let wanted = self.filter.as_mut().is_none_or(|filter| filter(to, bytes));
        if !wanted || self.rng.chance(self.faults.loss_percent, 100) {
            self.lost += 1;
            return;
        }
        let copies = if self.rng.chance(self.faults.repeat_percent, 100) { 2 } else { 1 };
        self.repeated += copies - 1;
        for _ in 0..copies {
            let delay = self.faults.delay_ms + self.rng.below(self.faults.jitter_ms + 1);
            let at = self.now + Duration::from_millis(u64::from(delay));
            let mut bytes = bytes.to_vec();
            if let Some((at, byte)) = self.patch_connect
                && bytes[4] == 1
            {
                bytes[14 + at] = byte;
            }
            self.under_way.insert((at, self.sent), (to, from, bytes));
            self.sent += 1;
        }
    }
}
