//! With the R-Type and FigNet doors busy the loop's thread does not allocate either: over real sockets and both backends,
//! players who join, play, chat, leave and come back, plain and encrypted, and junk from strangers, on a heap that aborts
//! the process on an allocation; for 64 FigNet peers and for 1,024.

mod common;

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use log::LevelFilter;

use tickwire::client::bot::Bot;
use tickwire::client::{fignet, rtype};
use tickwire::heap::{self, Heap, OnAlloc};
use tickwire::io::{Backend, Clock, IoOptions, Loop, StopHandle};
use tickwire::limits::Limits;
use tickwire::model::PLAYERS_MAX;
use tickwire::rng::TokenSource;
use tickwire::seam::{DATAGRAM_BYTES_MAX, Door};
use tickwire::server::{FignetSettings, Pools, Server, Settings, Stats};
use tickwire::session::drops::{DropCounts, DropReason};
use tickwire::session::fignet::keys::Key;
use tickwire::session::fignet::{DEFAULT_CONFIG, NetworkConfig};
use tickwire::time;
use tickwire::world::rtype::{Level, RtypeGame, Rules};

#[global_allocator]
static HEAP: Heap = Heap;

/// Players of each protocol, and rooms with a place more than they take.
const RTYPE: usize = 12;
const FIGNET: usize = 12;
const ROOMS: usize = (RTYPE + FIGNET) / PLAYERS_MAX + 1;

/// FigNet players with a nonce below this have keys.
const KEYS: u32 = 100;

#[test]
fn no_door_allocates() {
    tickwire::logger::init(LevelFilter::Info).expect("the first logger");
    for (backend, max_peers) in [(Backend::Mio, 64), (Backend::IoUring, 64), (Backend::Mio, 1024)] {
        play_over(backend, max_peers);
    }
}

struct Report {
    stats: Stats,
    drops: DropCounts,
    pools: Pools,
    allocations: u64,
}

fn play_over(backend: Backend, max_peers: u16) {
    let (to_test, from_loop) = mpsc::channel();
    let server = thread::spawn(move || serve(backend, max_peers, &to_test));
    let (doors, stop) = from_loop.recv().expect("the loop's addresses");
    let mut players: Vec<Player> = (0..RTYPE).map(|number| Player::rtype(doors, number)).collect();
    players.extend((0..FIGNET).map(|number| Player::fignet(doors, number as u32 + 1)));
    play(&mut players, 60);
    assert!(players.iter().all(Player::is_playing), "everyone plays over {backend:?}");
    let mut nonce = KEYS / 2;
    for second in 0..4 {
        junk(doors);
        for player in &mut players {
            if let Client::Fignet(client) = &mut player.client {
                let _ = client.say("is anybody there?");
            }
        }
        play(&mut players, 60);
        // One of each protocol leaves and is replaced, FigNet's in clear and encrypted in turn.
        for at in [second, RTYPE + second] {
            players[at].leave();
            play(&mut players, 2);
            players[at] = match players[at].client {
                Client::Rtype(_) => Player::rtype(doors, 100 + second),
                Client::Fignet(_) => {
                    nonce += if second % 2 == 0 { 1 } else { KEYS };
                    Player::fignet(doors, nonce)
                }
            };
        }
    }
    play(&mut players, 60);
    assert!(players.iter().all(Player::is_playing), "everyone plays over {backend:?}");
    let snapshots: u64 = players.iter().map(Player::snapshots).sum();
    let chats: u64 = players.iter().map(Player::chats).sum();
    players.iter_mut().for_each(Player::leave);
    play(&mut players, 30);
    stop.stop().expect("the loop is there");
    let Report { stats, drops, pools, allocations } = server.join().expect("the loop's thread");
    assert_eq!(allocations, 0);
    assert!(snapshots > 1000 && chats > 30, "{snapshots} snapshots, {chats} lines of chat");
    assert!(stats.sessions_bound as usize >= RTYPE + FIGNET + 8, "{stats:?}");
    assert!(drops.get(DropReason::BadMagic) >= 100 && drops.get(DropReason::TooLarge) >= 8, "{drops}");
    assert_eq!((pools.sessions, pools.endpoints, pools.unproven, pools.addresses), (0, 0, 0, 0));
    // Connections that ended answer late words for a while.
    assert_eq!((pools.rooms_open, pools.rooms_played, pools.ready, pools.events), (ROOMS, 0, 0, 0));
}

fn serve(backend: Backend, max_peers: u16, to_test: &mpsc::Sender<([SocketAddr; 2], StopHandle)>) -> Report {
    let limits = Limits::new(ROOMS, common::ENTITIES).with_rtype();
    let any = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let mut options = IoOptions::new(limits.streams, limits.sessions);
    options.aegis_tcp = any;
    options.doors = [any; Door::COUNT];
    options.backend = backend;
    let mut io = Loop::bind(&options).expect("sockets");
    let addresses: Vec<SocketAddr> = io.local_addrs().map(|(_, address)| address).collect();
    let config = NetworkConfig { max_peers, ..config() };
    let settings = Settings { fignet: Some(FignetSettings { config, epoch: 1 }), ..Settings::new(limits) };
    let level = Arc::new(Level::builtin("level1").expect("the first level"));
    let make = |_| RtypeGame::new(Arc::clone(&level), Rules::default(), common::ENTITIES);
    let mut server = Server::new(settings, TokenSource::Os, make);
    for nonce in 1..KEYS {
        server.add_fignet_key(nonce, &key(nonce), time::Instant::MAX).expect("room for keys");
    }
    to_test.send(([addresses[2], addresses[3]], io.stop_handle())).expect("the test waits");
    heap::seal(OnAlloc::Abort);
    let before = heap::thread_allocations();
    while !io.run_turn(&mut server).expect("a turn").stopped {}
    let allocations = heap::thread_allocations() - before;
    heap::unseal();
    Report { stats: *server.stats(), drops: *server.drops(), pools: server.pools(), allocations }
}

/// All come from one address, more often than three times a minute.
fn config() -> NetworkConfig {
    NetworkConfig { connection_attempts_per_minute: 0, max_pending: 32, ..DEFAULT_CONFIG }
}

fn key(nonce: u32) -> Key {
    Key::new([nonce as u8; 32])
}

enum Client {
    Rtype(Box<rtype::Client>),
    Fignet(Box<fignet::Client>),
}

struct Player {
    client: Client,
    socket: UdpSocket,
    bot: Bot,
    clock: Clock,
}

impl Player {
    fn rtype([to, _]: [SocketAddr; 2], number: usize) -> Self {
        let client = rtype::Client::new(&rtype::Settings { entities_max: common::ENTITIES });
        Self::new(Client::Rtype(Box::new(client)), to, number as u64)
    }

    fn fignet([_, to]: [SocketAddr; 2], nonce: u32) -> Self {
        let settings =
            fignet::Settings { config: config(), entities_max: common::ENTITIES, snapshot_interval: 3 };
        let key = (nonce < KEYS).then(|| key(nonce));
        let now = Clock::new().now();
        let client = fignet::Client::new(now, &settings, nonce, key.as_ref().map(|key| (key, 1)));
        Self::new(Client::Fignet(Box::new(client)), to, u64::from(nonce))
    }

    fn new(client: Client, to: SocketAddr, seed: u64) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.connect(to).expect("loopback");
        socket.set_nonblocking(true).expect("a socket option");
        Self { client, socket, bot: Bot::new(seed), clock: Clock::new() }
    }

    /// Takes in what came, plays, and sends what is due.
    fn exchange(&mut self) {
        let now = self.clock.now();
        let mut buffer = [0; DATAGRAM_BYTES_MAX];
        while let Ok(len) = self.socket.recv(&mut buffer) {
            match &mut self.client {
                Client::Rtype(client) => client.datagram(now, now, &buffer[..len]).is_ok(),
                Client::Fignet(client) => client.datagram(now, now, &buffer[..len]).is_ok(),
            };
        }
        match &mut self.client {
            Client::Rtype(client) => self.bot.play(client.as_mut()),
            Client::Fignet(client) => self.bot.play(client.as_mut()),
        }
        loop {
            let written = match &mut self.client {
                Client::Rtype(client) => client.transmit(now, &mut buffer),
                Client::Fignet(client) => client.transmit(now, &mut buffer),
            };
            let Some(len) = written else { break };
            let _ = self.socket.send(&buffer[..len]);
        }
    }

    fn is_playing(&self) -> bool {
        match &self.client {
            Client::Rtype(client) => client.phase() == rtype::Phase::Playing,
            Client::Fignet(client) => client.phase() == fignet::Phase::Playing,
        }
    }

    fn snapshots(&self) -> u64 {
        match &self.client {
            Client::Rtype(client) => client.stats().snapshots,
            Client::Fignet(client) => client.stats().snapshots,
        }
    }

    fn chats(&self) -> u64 {
        match &self.client {
            Client::Rtype(_) => 0,
            Client::Fignet(client) => client.stats().chats,
        }
    }

    fn leave(&mut self) {
        match &mut self.client {
            Client::Rtype(client) => client.leave(),
            Client::Fignet(client) => client.leave(self.clock.now()),
        }
        self.exchange();
    }
}

fn play(players: &mut [Player], frames: u32) {
    for _ in 0..frames {
        players.iter_mut().for_each(Player::exchange);
        thread::sleep(Duration::from_micros(16_667));
    }
}

/// What strangers send to both doors.
fn junk(doors: [SocketAddr; 2]) {
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for door in doors {
        for len in 0..50 {
            let _ = stranger.send_to(&vec![0x53; len * 26], door);
        }
        let _ = stranger.send_to(b"RTYP\x01\x03", door);
        let _ = stranger.send_to(b"\x78\x56\x34\x12\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00", door);
    }
}
