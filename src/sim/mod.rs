//! A server and its clients in one deterministic process: simulated clock, network and faults, and the checks that hold
//! whatever the network does. The server is the real one; only the sockets are not.

mod fignet;
mod network;
mod rtype;

pub use fignet::FignetPeer;
pub use network::{Faults, NetworkStats};
pub use rtype::RtypePeer;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use self::network::{Network, Packet};
use crate::client::aegis::{Client, Settings as ClientSettings};
use crate::model::{Entity, PLAYERS_MAX, PlayerState};
use crate::seam::{Core, DATAGRAM_BYTES_MAX, Door, Input, Outbox, StreamId};
use crate::server::Server;
use crate::time::{Duration, Instant, Tick};
use crate::world::Game;

/// How far time moves between two looks at everybody.
const STEP: Duration = Duration::from_millis(1);

/// A room's past is kept this long, to compare clients with.
const TRUTH_TICKS: usize = 200;

/// A room at one tick.
#[derive(Clone, Debug)]
pub struct Truth {
    /// Who was in, and how they stood.
    pub players: [Option<PlayerState>; PLAYERS_MAX],
    /// What lived, in rising index order.
    pub entities: Vec<(u32, Entity)>,
    /// The game's state hash.
    pub hash: u64,
}

/// A client with its place in the network.
#[derive(Debug)]
pub struct Peer {
    /// The client.
    pub client: Client,
    /// Where its datagrams come from.
    pub address: SocketAddr,
    stream: StreamId,
    is_stream_open: bool,
    /// Snapshots already compared with the truth.
    compared: u64,
}

/// A server, its clients, and the network between them.
#[derive(Debug)]
pub struct Sim<G> {
    /// The server.
    pub server: Server<G>,
    /// The clients, in the order they were added.
    pub peers: Vec<Peer>,
    /// The R-Type clients, in the order they were added.
    pub rtype_peers: Vec<RtypePeer>,
    /// The FigNet clients, in the order they were added.
    pub fignet_peers: Vec<FignetPeer>,
    /// Datagrams that the server sent to addresses that no client has.
    pub strays: Vec<(SocketAddr, Vec<u8>)>,
    /// When set, every datagram that the server sends is kept here, too.
    pub tap: Option<Vec<(SocketAddr, Vec<u8>)>>,
    /// What the server wrote to streams that no client has, and whether it closed them.
    pub stray_streams: BTreeMap<u32, (Vec<u8>, bool)>,
    now: Instant,
    outbox: Outbox,
    network: Network,
    generations: Vec<u32>,
    used_streams: Vec<bool>,
    truth: BTreeMap<(usize, u32), Truth>,
    comparisons: u64,
}

impl<G: Game> Sim<G> {
    /// A network with `faults`, all chance from `seed`.
    pub fn new(server: Server<G>, streams_max: usize, faults: Faults, seed: u64) -> Self {
        Self {
            server,
            peers: Vec::new(),
            rtype_peers: Vec::new(),
            fignet_peers: Vec::new(),
            strays: Vec::new(),
            tap: None,
            stray_streams: BTreeMap::new(),
            now: Instant::from_millis(1000),
            outbox: Outbox::new(16, 16),
            network: Network::new(faults, seed),
            generations: vec![0; streams_max],
            used_streams: vec![false; streams_max],
            truth: BTreeMap::new(),
            comparisons: 0,
        }
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// What the network did.
    pub fn network_stats(&self) -> NetworkStats {
        self.network.stats()
    }

    /// How many snapshots were found equal to the server's room at their tick.
    pub fn comparisons(&self) -> u64 {
        self.comparisons
    }

    /// Changes the network's faults from now on.
    pub fn set_faults(&mut self, faults: Faults) {
        self.network.set_faults(faults);
    }

    /// A client connects from `address`. Returns its place in [`Sim::peers`].
    pub fn connect(&mut self, settings: &ClientSettings, address: SocketAddr) -> usize {
        let stream = self.open_stream(address);
        let client = Client::new(settings);
        self.peers.push(Peer { client, address, stream, is_stream_open: true, compared: 0 });
        self.peers.len() - 1
    }

    /// Opens a stream that belongs to no client; the test says what it says.
    pub fn open_stream(&mut self, peer: SocketAddr) -> StreamId {
        let index = self.used_streams.iter().position(|used| !used).expect("a free stream");
        self.used_streams[index] = true;
        self.generations[index] += 1;
        let stream = StreamId { index: index as u32, generation: self.generations[index] };
        self.stray_streams.remove(&stream.index);
        self.server.handle(self.now, Input::StreamOpened { stream, peer });
        stream
    }

    /// Bytes arrive on a stream.
    pub fn stream_bytes(&mut self, stream: StreamId, bytes: &[u8]) {
        self.server.handle(self.now, Input::StreamBytes { stream, bytes });
        self.flush();
    }

    /// A stream's peer closes it.
    pub fn close_stream(&mut self, stream: StreamId) {
        self.used_streams[stream.index as usize] = false;
        self.server.handle(self.now, Input::StreamClosed { stream });
        self.flush();
    }

    /// The stream of a client is cut.
    pub fn cut_stream(&mut self, peer: usize) {
        let stream = self.peers[peer].stream;
        if std::mem::replace(&mut self.peers[peer].is_stream_open, false) {
            self.peers[peer].client.stream_closed();
            self.close_stream(stream);
        }
    }

    /// A datagram arrives at the Aegis door, as it is and at once.
    pub fn datagram(&mut self, from: SocketAddr, bytes: &[u8]) {
        self.datagram_at(Door::Aegis, from, bytes);
    }

    /// A datagram arrives at a door, as it is and at once.
    pub fn datagram_at(&mut self, door: Door, from: SocketAddr, bytes: &[u8]) {
        let now = self.now;
        self.server.handle(now, Input::Datagram { door, from, at: now, bytes });
    }

    /// Lets time pass. `drive` is called for every client at every step.
    pub fn run(&mut self, span: Duration, mut drive: impl FnMut(usize, &mut Client, Instant)) {
        let end = self.now + span;
        while self.now < end {
            self.now = self.now + STEP;
            self.step(&mut drive);
        }
    }

    /// Lets time pass until `is_done`, for at most `span`. Returns whether it was.
    pub fn run_until(&mut self, span: Duration, mut is_done: impl FnMut(&Self) -> bool) -> bool {
        let end = self.now + span;
        while self.now < end {
            if is_done(self) {
                return true;
            }
            self.now = self.now + STEP;
            self.step(&mut |_, _, _| ());
        }
        is_done(self)
    }

    /// Everything stands still for `span`, as on a machine that has other things to do: what is due meanwhile is late.
    pub fn stall(&mut self, span: Duration) {
        self.now = self.now + span;
    }

    /// The server's room `room` at `tick`, as long as it is kept.
    pub fn truth(&self, room: usize, tick: u32) -> Option<&Truth> {
        self.truth.get(&(room, tick))
    }

    fn step(&mut self, drive: &mut impl FnMut(usize, &mut Client, Instant)) {
        self.deliver();
        for (index, peer) in self.peers.iter_mut().enumerate() {
            drive(index, &mut peer.client, self.now);
        }
        self.send_for_clients();
        self.send_for_rtype_clients();
        self.send_for_fignet_clients();
        if self.server.next_deadline().is_some_and(|due| due <= self.now) {
            self.server.advance(self.now);
            self.record_truth();
        }
        self.flush();
    }

    /// Hands over the datagrams whose time has come.
    fn deliver(&mut self) {
        let now = self.now;
        while let Some(packet) = self.network.take_due(now) {
            match packet {
                Packet::ToServer { door, from, bytes } => {
                    self.server.handle(now, Input::Datagram { door, from, at: now, bytes: &bytes });
                }
                Packet::ToClient { to, bytes } => {
                    if let Some(index) = self.peers.iter().position(|peer| peer.address == to) {
                        let _ = self.peers[index].client.datagram(now, now, &bytes);
                        self.compare(index);
                    } else if !self.deliver_rtype(to, &bytes) && !self.deliver_fignet(to, &bytes) {
                        self.strays.push((to, bytes));
                    }
                }
            }
        }
    }

    fn send_for_clients(&mut self) {
        for index in 0..self.peers.len() {
            let peer = &mut self.peers[index];
            let (stream, from) = (peer.stream, peer.address);
            let mut said = Vec::new();
            while let Some(byte) = peer.client.stream_output() {
                said.push(byte);
            }
            let mut buffer = [0; DATAGRAM_BYTES_MAX];
            let is_due = |client: &Client| client.next_deadline().is_some_and(|due| due <= self.now);
            while is_due(&peer.client)
                && let Some(len) = peer.client.transmit(self.now, &mut buffer)
            {
                self.network.send(
                    self.now,
                    Packet::ToServer { door: Door::Aegis, from, bytes: buffer[..len].to_vec() },
                );
            }
            let is_over = peer.client.is_over();
            if peer.is_stream_open && !said.is_empty() {
                self.server.handle(self.now, Input::StreamBytes { stream, bytes: &said });
            }
            if self.peers[index].is_stream_open && is_over {
                self.peers[index].is_stream_open = false;
                self.flush();
                if self.used_streams[stream.index as usize] {
                    self.used_streams[stream.index as usize] = false;
                    self.server.handle(self.now, Input::StreamClosed { stream });
                }
            }
        }
    }

    /// Moves what the server has to say to the network and the streams.
    fn flush(&mut self) {
        loop {
            let is_more = self.server.transmit(self.now, &mut self.outbox);
            for (index, datagram) in self.outbox.datagrams().iter().enumerate() {
                let bytes = self.outbox.datagram_bytes(index).to_vec();
                if let Some(tap) = &mut self.tap {
                    tap.push((datagram.to, bytes.clone()));
                }
                self.network.send(self.now, Packet::ToClient { to: datagram.to, bytes });
            }
            for op in self.outbox.streams() {
                if op.close {
                    self.used_streams[op.stream.index as usize] = false;
                }
                match self.peers.iter_mut().find(|peer| peer.is_stream_open && peer.stream == op.stream) {
                    Some(peer) => {
                        peer.client.stream_bytes(self.now, op.bytes());
                        if op.close {
                            peer.is_stream_open = false;
                            peer.client.stream_closed();
                        }
                    }
                    None => {
                        let stray = self.stray_streams.entry(op.stream.index).or_default();
                        stray.0.extend_from_slice(op.bytes());
                        stray.1 |= op.close;
                    }
                }
            }
            self.outbox.clear();
            if !is_more {
                break;
            }
        }
    }

    fn record_truth(&mut self) {
        for room in 0.. {
            let Some(game) = self.server.game(room) else { break };
            let Some(Tick(tick)) = self.server.room_tick(room) else { continue };
            let entities = game.entities().iter().map(|(index, entity)| (index, *entity)).collect();
            let truth = Truth { players: *game.players(), entities, hash: game.state_hash() };
            // As it was right after the tick: who joins before the next one is not in its snapshot.
            self.truth.entry((room, tick)).or_insert(truth);
            self.truth.remove(&(room, tick.wrapping_sub(TRUTH_TICKS as u32)));
        }
    }

    /// A client that applied a snapshot holds exactly what the server had at that tick, if the snapshot could say
    /// everything.
    fn compare(&mut self, index: usize) {
        let peer = &mut self.peers[index];
        let applied = peer.client.stats().snapshots;
        if applied == peer.compared {
            return;
        }
        peer.compared = applied;
        let Some(table) = peer.client.last_applied() else { return };
        let found = (0..).map_while(|room| self.server.game(room).map(|_| room)).any(|room| {
            self.truth.get(&(room, table.tick())).is_some_and(|truth| {
                let there = table.iter().map(|(index, entity)| (index, *entity));
                there.eq(truth.entities.iter().copied())
            })
        });
        self.comparisons += u64::from(found);
    }
}
