//! A swarm against a server in this process, over real loopback sockets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;

use tickwire::io::{AEGIS_TCP, IoOptions, MioLoop, StopHandle, door_name};
use tickwire::limits::Limits;
use tickwire::rng::{Rng, TokenSource};
use tickwire::seam::Door;
use tickwire::server::{Server, Settings};
use tickwire::time::Duration;
use tickwire::world::rtype::{Level, RtypeGame, Rules};
use tickwire_swarm::player;
use tickwire_swarm::player::aegis::AegisPlayer;
use tickwire_swarm::report::Report;
use tickwire_swarm::swarm::{self, News, Options, Outcome, Spread, Stage};
use tickwire_swarm::tally::Fault;

const ENTITIES: usize = 128;
const PLAYERS: usize = 32;
const SNAPSHOT_INTERVAL: u8 = 3;

struct Running {
    address: SocketAddr,
    stop: StopHandle,
    thread: thread::JoinHandle<Server<RtypeGame>>,
}

/// A server with rooms for `players`, on free ports, in a thread.
fn start(players: usize) -> Running {
    let limits = Limits::new(players.div_ceil(4), ENTITIES);
    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut options = IoOptions::new(limits.streams, limits.sessions);
    options.aegis_tcp = Some(local);
    options.doors[Door::Aegis as usize] = Some(local);
    let mut io = MioLoop::bind(&options).expect("free ports");
    let listening = |wanted: &str| io.local_addrs().find(|(name, _)| *name == wanted).expect("it listens").1;
    let (address, udp) = (listening(AEGIS_TCP), listening(door_name(Door::Aegis)));
    let stop = io.stop_handle();
    let settings = Settings {
        snapshot_interval: SNAPSHOT_INTERVAL,
        aegis_udp_port: udp.port(),
        sessions_per_address: 16,
        ..Settings::new(limits)
    };
    let level = Arc::new(Level::builtin("level1").expect("the first level"));
    let thread = thread::spawn(move || {
        let game = |_| RtypeGame::new(Arc::clone(&level), Rules::default(), ENTITIES);
        let mut server = Server::new(settings, TokenSource::Seeded(Rng::new(1)), game);
        io.run(&mut server, |_, _| false).expect("the loop works");
        server
    });
    Running { address, stop, thread }
}

impl Running {
    fn stop(self) -> Server<RtypeGame> {
        self.stop.stop().expect("it can be woken");
        self.thread.join().expect("it did not panic")
    }
}

fn options(server: SocketAddr) -> Options {
    Options {
        server,
        players: PLAYERS,
        sockets: None,
        spread: Spread::Even(16),
        ramp_per_s: 200,
        warm_up: Duration::from_millis(300),
        measure: Duration::from_secs(2),
        player: player::Settings { entities_max: ENTITIES, snapshots_kept: 23, seed: 1 },
    }
}

fn check(outcome: &Outcome) {
    let report = Report::new(PLAYERS, outcome, None, None);
    assert_eq!((report.playing_first, report.playing_last), (PLAYERS, PLAYERS), "\n{report}");
    assert_eq!(report.faults.total(), 0, "\n{report}");
    assert!(report.inputs_percent() > 99.0, "\n{report}");
    assert!(report.snapshots_percent() > 99.0, "\n{report}");
    assert!(report.inputs_sent > 0 && report.snapshots_received > 0 && report.events > 0, "\n{report}");
    assert!(report.is_clean());
}

/// Thirty-two players on sockets of their own: all that they send is acknowledged, all that they get is sound, and they
/// leave nothing behind.
#[test]
fn thirty_two_players_play_without_a_fault() {
    let server = start(PLAYERS);
    let mut stages = Vec::new();
    let mut listener = |news: News| {
        if let News::Stage(stage) = news {
            stages.push(stage);
        }
    };
    let outcome = swarm::run::<AegisPlayer>(&options(server.address), &mut listener).expect("a run");
    check(&outcome);
    assert_eq!(stages, [Stage::WarmingUp, Stage::Measuring, Stage::Draining, Stage::Leaving]);
    let stats = *server.stop().stats();
    assert_eq!((stats.sessions_bound, stats.sessions_ended), (PLAYERS as u64, PLAYERS as u64));
    assert_eq!((stats.sessions_timed_out, stats.sessions_rebound), (0, 0));
}

/// On three sockets, tokens tell whose datagrams are whose.
#[test]
fn players_may_share_sockets_and_send_at_once() {
    let server = start(PLAYERS);
    let options = Options { sockets: Some(3), spread: Spread::Bunched, ..options(server.address) };
    let outcome = swarm::run::<AegisPlayer>(&options, &mut |_| ()).expect("a run");
    check(&outcome);
    server.stop();
}

/// Those for whom there is no room are counted, and the others play on.
#[test]
fn who_is_refused_is_counted() {
    let server = start(PLAYERS / 2);
    let options = Options { measure: Duration::from_millis(200), ..options(server.address) };
    let outcome = swarm::run::<AegisPlayer>(&options, &mut |_| ()).expect("a run");
    assert_eq!(outcome.tally.faults.count(Fault::Rejected), PLAYERS as u64 / 2);
    assert_eq!(outcome.tally.faults.total(), PLAYERS as u64 / 2);
    assert_eq!((outcome.playing_first, outcome.playing_last), (PLAYERS / 2, PLAYERS / 2));
    server.stop();
}

/// A port at which nobody listens: a fault for each who tried, and an end.
#[test]
fn nobody_there_is_counted() {
    let address = std::net::TcpListener::bind(("127.0.0.1", 0)).and_then(|socket| socket.local_addr());
    let options = Options {
        players: 4,
        warm_up: Duration::ZERO,
        measure: Duration::from_millis(50),
        ..options(address.expect("a port that is free again"))
    };
    let outcome = swarm::run::<AegisPlayer>(&options, &mut |_| ()).expect("a run");
    assert_eq!(outcome.tally.faults.count(Fault::Connection), 4);
    assert_eq!(outcome.playing_first, 0);
}
