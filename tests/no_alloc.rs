//! After start the loop's thread does not allocate: 600 ticks with 64 clients who join, play, lose datagrams, leave and
//! come back, and with junk from strangers, over real sockets, on a heap that aborts the process on an allocation.
//! An allocation put in on purpose shows that it does.

mod common;
#[path = "common/net.rs"]
mod net;

use std::hint::black_box;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use log::LevelFilter;

use net::{Player, play, play_until};
use tickwire::client::aegis::{Over, Phase};
use tickwire::heap::{self, Heap, OnAlloc};
use tickwire::io::{Backend, IoOptions, Loop};
use tickwire::limits::Limits;
use tickwire::model::{EntityTable, PLAYERS_MAX, PlayerId, PlayerInput, PlayerState};
use tickwire::rng::TokenSource;
use tickwire::seam::Door;
use tickwire::server::{Pools, Server, Settings, Stats};
use tickwire::session::drops::DropCounts;
use tickwire::wire::aegis::stream::RejectReason;
use tickwire::world::rtype::{Level, RtypeGame, Rules};
use tickwire::world::{Events, Game};

#[global_allocator]
static HEAP: Heap = Heap;

const CLIENTS: usize = 64;
/// One more than the clients fill: who comes back may be there before the server has seen them leave.
const ROOMS: usize = CLIENTS / PLAYERS_MAX + 1;
/// With this variable set, a room's game allocates once in its 300th step.
const SPOILED: &str = "TICKWIRE_TEST_ALLOCATES";
const SIGABRT: i32 = 6;

/// What the loop's thread tells when it is over.
struct Report {
    stats: Stats,
    drops: DropCounts,
    pools: Pools,
    allocations: u64,
}

/// Over both backends, one after the other: together they would compete for the processors.
#[test]
fn the_loop_does_not_allocate() {
    tickwire::logger::init(LevelFilter::Info).expect("the first logger");
    play_over(Backend::Mio);
    play_over(Backend::IoUring);
}

/// Ten seconds over `backend`; where the kernel refuses it, over the other one.
fn play_over(backend: Backend) {
    let is_spoiled = std::env::var_os(SPOILED).is_some();
    let (to_test, from_loop) = mpsc::channel();
    let server = thread::spawn(move || serve(backend, is_spoiled, &to_test));
    let (tcp, udp, stop) = from_loop.recv().expect("the loop's addresses");

    let mut players: Vec<Player> = (0..CLIENTS).map(|number| player(tcp, udp, number)).collect();
    play_until(&mut players, |players| players.iter().all(|player| player.client.stats().snapshots > 0));
    let mut came_back = 0;
    for second in 0..10 {
        junk(tcp, udp, &players);
        play(&mut players, Duration::from_secs(1), |_, _| ());
        // One leaves with a word, one vanishes; both come back.
        for (number, with_a_word) in [(second * 6, true), (second * 6 + 3, false)] {
            let mut gone = players.remove(number);
            if with_a_word {
                gone.client.leave();
                gone.exchange();
            }
            drop(gone);
            come_back(&mut players, number, tcp, udp);
            came_back += 1;
        }
    }
    play_until(&mut players, |players| players.iter().all(|player| player.client.stats().snapshots > 0));
    players.iter_mut().for_each(|player| player.client.leave());
    players.iter_mut().for_each(Player::exchange);
    drop(players);
    thread::sleep(Duration::from_millis(500));
    stop.stop().expect("the loop is there");
    let Report { stats, drops, pools, allocations } = server.join().expect("the loop's thread");
    assert_eq!(allocations, 0);
    assert!(stats.ticks >= 600, "{stats:?}");
    assert!(stats.logins_accepted as usize >= CLIENTS + came_back, "{stats:?}");
    assert!(stats.streams_failed >= 10 && drops.total() >= 500, "the junk came: {stats:?}, {drops}");
    assert!(stats.events_out > 1000 && stats.snapshots_out > 10_000, "{stats:?}");
    assert_eq!(pools, Pools { rooms_open: ROOMS, ..Pools::default() });
    assert!(!is_spoiled, "an allocation on the loop's thread went unseen");
}

/// The same, with an allocation on the loop's thread: the process is aborted.
#[test]
fn an_allocation_is_seen() {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program)
        .args(["--exact", "the_loop_does_not_allocate", "--nocapture"])
        .env(SPOILED, "1")
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(SIGABRT), "{said}");
    assert!(said.contains("sealed"), "{said}");
}

fn serve(
    backend: Backend,
    is_spoiled: bool,
    to_test: &mpsc::Sender<(SocketAddr, SocketAddr, tickwire::io::StopHandle)>,
) -> Report {
    let limits = Limits::new(ROOMS, common::ENTITIES);
    let mut options = IoOptions::new(limits.streams, limits.sessions);
    options.aegis_tcp = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    options.doors[Door::Aegis as usize] = options.aegis_tcp;
    options.backend = backend;
    let mut io = Loop::bind(&options).expect("sockets");
    let addresses: Vec<SocketAddr> = io.local_addrs().map(|(_, address)| address).collect();
    let settings =
        Settings { aegis_udp_port: addresses[1].port(), sessions_per_address: 16, ..Settings::new(limits) };
    let level = Arc::new(Level::builtin("level1").expect("the first level"));
    let mut server = Server::new(settings, TokenSource::Os, |_| Spoiled {
        game: RtypeGame::new(Arc::clone(&level), Rules::default(), common::ENTITIES),
        allocates_in: if is_spoiled { 300 } else { u32::MAX },
    });
    to_test.send((addresses[0], addresses[1], io.stop_handle())).expect("the test waits");
    heap::seal(OnAlloc::Abort);
    let before = heap::thread_allocations();
    while !io.run_turn(&mut server).expect("a turn").stopped {}
    let allocations = heap::thread_allocations() - before;
    heap::unseal();
    Report { stats: *server.stats(), drops: *server.drops(), pools: server.pools(), allocations }
}

fn player(tcp: SocketAddr, udp: SocketAddr, number: usize) -> Player {
    let mut player = Player::connect(tcp, udp, &common::settings("bot"), number as u64);
    player.loss_per_mille = 50;
    player.exchange();
    player
}

/// Player `number` connects again. The one place is free as soon as the server has seen that it was left; until then it
/// refuses.
fn come_back(players: &mut Vec<Player>, number: usize, tcp: SocketAddr, udp: SocketAddr) {
    for _ in 0..100 {
        play(players, Duration::from_millis(20), |_, _| ());
        players.insert(number, player(tcp, udp, CLIENTS + number));
        play_until(players, |players| players[number].client.phase() != Phase::LoggingIn);
        if players[number].client.phase() != Phase::Over(Over::Rejected(RejectReason::ServerFull)) {
            return;
        }
        players.remove(number);
    }
    panic!("player {number} is not let in again");
}

/// What strangers and broken clients send.
fn junk(tcp: SocketAddr, udp: SocketAddr, players: &[Player]) {
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for len in 0..50 {
        let _ = stranger.send_to(&vec![0x52; len * 26], udp);
    }
    // A client whose datagrams are malformed now and then.
    players[1].send_raw(b"RTYP\x01\x03 not a header, but long enough");
    for said in [&b"\x00\x00"[..], b"\xff\xff", b"\x02\x00\x04\x00", b"\x07\x00\x01\x01\x02\x00xyz"] {
        let mut stream = TcpStream::connect(tcp).expect("a connection");
        let _ = stream.write_all(said);
    }
}

/// The game, but for one allocation if told so.
struct Spoiled {
    game: RtypeGame,
    allocates_in: u32,
}

impl Game for Spoiled {
    fn reset(&mut self, seed: u64) {
        self.game.reset(seed);
    }

    fn join(&mut self, player: PlayerId, events: &mut Events) {
        self.game.join(player, events);
    }

    fn leave(&mut self, player: PlayerId, events: &mut Events) {
        self.game.leave(player, events);
    }

    fn step(&mut self, inputs: &[PlayerInput; PLAYERS_MAX], events: &mut Events) {
        self.allocates_in = self.allocates_in.saturating_sub(1);
        if self.allocates_in == 0 {
            black_box(Box::new(inputs[0]));
        }
        self.game.step(inputs, events);
    }

    fn players(&self) -> &[Option<PlayerState>; PLAYERS_MAX] {
        self.game.players()
    }

    fn entities(&self) -> &EntityTable {
        self.game.entities()
    }

    fn focus(&self, player: PlayerId) -> Option<u32> {
        self.game.focus(player)
    }

    fn state_hash(&self) -> u64 {
        self.game.state_hash()
    }
}
