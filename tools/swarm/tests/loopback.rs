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
use tickwire_swarm::player::{self, Protocol, Servers};
use tickwire_swarm::report::Report;
use tickwire_swarm::swarm::{self, News, Options, Outcome, Spread, Stage};
use tickwire_swarm::tally::Fault;

const ENTITIES: usize = 128;
const PLAYERS: usize = 32;
const SNAPSHOT_INTERVAL: u8 = 3;

struct Running {
    servers: Servers,
    stop: StopHandle,
    thread: thread::JoinHandle<Server<RtypeGame>>,
}

/// A server with rooms for `players`, on free ports, in a thread.
fn start(players: usize) -> Running {
    let limits = Limits::new(players.div_ceil(4), ENTITIES).with_rtype();
    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut options = IoOptions::new(limits.streams, limits.sessions);
    options.aegis_tcp = Some(local);
    options.doors[Door::Aegis as usize] = Some(local);
    options.doors[Door::Rtype as usize] = Some(local);
    let mut io = MioLoop::bind(&options).expect("free ports");
    let listening = |wanted: &str| io.local_addrs().find(|(name, _)| *name == wanted).expect("it listens").1;
    let udp = listening(door_name(Door::Aegis));
    let servers = Servers::NONE
        .with(Protocol::Aegis, listening(AEGIS_TCP))
        .with(Protocol::Rtype, listening(door_name(Door::Rtype)));
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
    Running { servers, stop, thread }
}

impl Running {
    fn stop(self) -> Server<RtypeGame> {
        self.stop.stop().expect("it can be woken");
        self.thread.join().expect("it did not panic")
    }
}

fn options(servers: Servers, protocol: &str) -> Options {
    Options {
        servers,
        protocols: Protocol::choose(protocol).expect("a protocol"),
        players: PLAYERS,
        sockets: None,
        spread: Spread::Even(16),
        ramp_per_s: 200,
        warm_up: Duration::from_millis(300),
        measure: Duration::from_secs(2),
        player: player::Settings {
            entities_max: ENTITIES,
            snapshots_kept: 23,
            snapshot_interval: SNAPSHOT_INTERVAL.into(),
            seed: 1,
        },
    }
}

fn check(outcome: &Outcome) {
    let report = Report::new(outcome, None, None);
    assert_eq!(report.total.players, PLAYERS);
    for (_, of) in &report.protocols {
        assert_eq!((of.playing_first, of.playing_last), (of.players, of.players), "\n{report}");
        assert_eq!(of.faults.total(), 0, "\n{report}");
        assert!(of.inputs_percent() > 99.0, "\n{report}");
        assert!(of.snapshots_percent() > 99.0, "\n{report}");
        assert!(of.inputs_sent > 0 && of.snapshots_received > 0 && of.events > 0, "\n{report}");
        assert!(of.rtt.max_us > 0 && of.interval.p50_us > 0, "\n{report}");
    }
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
    let outcome = swarm::run(&options(server.servers, "aegis"), &mut listener).expect("a run");
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
    let options = Options { sockets: Some(3), spread: Spread::Bunched, ..options(server.servers, "aegis") };
    let outcome = swarm::run(&options, &mut |_| ()).expect("a run");
    check(&outcome);
    server.stop();
}

/// R-Type players alone: what was created and destroyed is the same by two counts, and the server forgets them all.
#[test]
fn rtype_players_play_without_a_fault() {
    let server = start(PLAYERS);
    let outcome = swarm::run(&options(server.servers, "rtype"), &mut |_| ()).expect("a run");
    check(&outcome);
    let ended = server.stop();
    assert_eq!(
        (ended.stats().sessions_bound, ended.stats().sessions_ended),
        (PLAYERS as u64, PLAYERS as u64)
    );
    assert_eq!(
        (ended.pools().endpoints, ended.pools().sessions, ended.stats().sessions_timed_out),
        (0, 0, 0)
    );
}

/// Both protocols in turns, each counted by itself; those who can share sockets do.
#[test]
fn mixed_players_play_without_a_fault() {
    let server = start(PLAYERS);
    let options = Options { sockets: Some(3), ..options(server.servers, "mixed") };
    let outcome = swarm::run(&options, &mut |_| ()).expect("a run");
    check(&outcome);
    let players = outcome.shares.iter().map(|(protocol, share)| (*protocol, share.playing_last));
    let half = PLAYERS / 2;
    assert_eq!(players.collect::<Vec<_>>(), [(Protocol::Aegis, half), (Protocol::Rtype, half)]);
    let ended = server.stop();
    assert_eq!((ended.pools().endpoints, ended.pools().sessions), (0, 0));
}

/// Those for whom there is no room are counted, and the others play on.
#[test]
fn who_is_refused_is_counted() {
    let server = start(PLAYERS / 2);
    let options = Options { measure: Duration::from_millis(200), ..options(server.servers, "rtype") };
    let outcome = swarm::run(&options, &mut |_| ()).expect("a run");
    assert_eq!(outcome.total().tally.faults.count(Fault::Rejected), PLAYERS as u64 / 2);
    assert_eq!(outcome.total().tally.faults.total(), PLAYERS as u64 / 2);
    assert_eq!((outcome.total().playing_first, outcome.total().playing_last), (PLAYERS / 2, PLAYERS / 2));
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
        ..options(Servers::NONE.with(Protocol::Aegis, address.expect("a port that is free again")), "aegis")
    };
    let outcome = swarm::run(&options, &mut |_| ()).expect("a run");
    assert_eq!(outcome.total().tally.faults.count(Fault::Connection), 4);
    assert_eq!(outcome.total().playing_first, 0);
}
