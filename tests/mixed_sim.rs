//! Matches in which Aegis and R-Type players meet, over the simulated network.

mod common;

use common::{bots, rtype_address, rtype_sim, settings};
use tickwire::client::aegis::Phase as AegisPhase;
use tickwire::client::bot::Bot;
use tickwire::client::rtype::{Client as RtypeClient, Over, Phase as RtypePhase, Settings as RtypeSettings};
use tickwire::heap::{Heap, thread_allocations};
use tickwire::model::{Kind, PlayerId};
use tickwire::server::Pools;
use tickwire::sim::{Faults, Sim};
use tickwire::time::Duration;
use tickwire::wire::aegis::event::Event;
use tickwire::wire::rtype::blueprint::Blueprint;
use tickwire::world::rtype::RtypeGame;

#[global_allocator]
static HEAP: Heap = Heap;

const RTYPE: RtypeSettings = RtypeSettings { entities_max: common::ENTITIES };

/// Two of each protocol in one room.
fn mixed_room(faults: Faults, seed: u64) -> Sim<RtypeGame> {
    let mut sim = rtype_sim(1, faults, seed);
    for player in 0..2 {
        sim.connect(&settings("aegis"), common::address(player));
        sim.connect_rtype(&RTYPE, rtype_address(player), Some(Bot::new(7 + player as u64)));
    }
    sim
}

fn ships(client: &RtypeClient) -> Vec<PlayerId> {
    let mut ships: Vec<_> = client
        .known()
        .filter_map(|known| match known.blueprint? {
            Blueprint::Player(player) => Some(player),
            _ => None,
        })
        .collect();
    ships.sort();
    ships
}

/// Everyone sees everyone: ships in the colours of their slots, missiles, deaths; positions agree to an eighth of a
/// pixel at the same tick.
#[test]
fn both_protocols_play_in_one_room() {
    let mut sim = mixed_room(Faults::default(), 1);
    let mut bots = bots();
    let (mut rtype_missiles, mut aegis_missiles, mut deaths, mut destroys) = (0, 0, 0, 0);
    for _ in 0..40 {
        sim.run(Duration::from_secs(1), &mut bots);
        // The server never says whose a missile is over R-Type; over Aegis it does.
        let seen = |client: &RtypeClient| {
            client.known().filter(|known| known.blueprint == Some(Blueprint::Bullet)).count()
        };
        rtype_missiles += sim.rtype_peers.iter().map(|peer| seen(&peer.client)).sum::<usize>();
        for peer in &mut sim.peers {
            while let Some(event) = peer.client.poll_event() {
                match event {
                    Event::Spawn { kind: Kind::MISSILE, owner: Some(_), .. } => aegis_missiles += 1,
                    Event::Death { .. } => deaths += 1,
                    Event::Destroy { .. } => destroys += 1,
                    _ => {}
                }
            }
        }
    }
    let everyone: Vec<PlayerId> = PlayerId::all().collect();
    for peer in &sim.rtype_peers {
        assert_eq!(peer.client.phase(), RtypePhase::Playing);
        let stats = peer.client.stats();
        assert!(stats.snapshots >= 20 * 40 - 10, "{stats:?}");
        assert_eq!(
            (stats.dropped, stats.stale, stats.messages_malformed, stats.messages_unknown),
            (0, 0, 0, 0)
        );
        assert_eq!(stats.creates_lost, 0);
        assert_eq!(stats.queries, 0, "nothing is in a snapshot that was not created before: {stats:?}");
        assert_eq!(peer.positions_wrong, 0, "{} right", peer.positions_right);
        assert!(peer.positions_right > 5000, "{}", peer.positions_right);
        assert!(stats.destroys > 50 && destroys >= stats.destroys, "{stats:?}, Aegis saw {destroys}");
    }
    let snapshots: u64 = sim.peers.iter().map(|peer| peer.client.stats().snapshots).sum();
    assert_eq!(sim.comparisons(), snapshots, "every Aegis snapshot shows the server's room");
    assert!(
        rtype_missiles > 10 && aegis_missiles > 10 && deaths > 0,
        "{rtype_missiles} {aegis_missiles} {deaths}"
    );
    // A moment in which nobody is dead or about to come back: everyone has every ship.
    let together = sim.run_until(Duration::from_secs(20), |sim| {
        sim.rtype_peers.iter().all(|peer| ships(&peer.client) == everyone)
            && sim.peers.iter().all(|peer| {
                peer.client.visible().filter(|(_, entity)| entity.kind == Kind::SHIP).count() == 4
            })
    });
    assert!(together, "all four ships are seen by all four");
    sim.peers.iter_mut().for_each(|peer| peer.client.leave());
    sim.rtype_peers.iter_mut().for_each(|peer| peer.client.leave());
    sim.run(Duration::from_secs(1), |_, _, _| ());
    assert_eq!(sim.server.pools(), Pools { rooms_open: 1, ..Pools::default() });
}

/// A server that is late runs several ticks before it sends: also then no Snapshot shows what nobody was told of.
#[test]
fn a_late_server_tells_of_entities_before_it_shows_them() {
    let mut sim = mixed_room(Faults::default(), 1);
    let mut bots = bots();
    for _ in 0..400 {
        sim.run(Duration::from_millis(100), &mut bots);
        sim.stall(Duration::from_millis(40));
    }
    assert!(sim.server.stats().late_ticks > 400, "{:?}", sim.server.stats());
    for peer in &sim.rtype_peers {
        let stats = peer.client.stats();
        assert!(stats.creates > 100, "{stats:?}");
        assert_eq!(stats.queries, 0, "{stats:?}");
    }
}

/// Whatever the network does to both protocols: once it is quiet, everyone knows the same entities.
#[test]
fn faults_leave_everyone_with_the_same_room() {
    for (seed, loss_per_mille) in [(1, 10), (2, 50), (3, 100), (4, 300)] {
        let faults = Faults { loss_per_mille, repeat_per_mille: 50, delay_ms: 20, jitter_ms: 40 };
        let mut sim = mixed_room(faults, seed);
        sim.run(Duration::from_secs(40), bots());
        for peer in &sim.rtype_peers {
            assert_eq!(peer.positions_wrong, 0, "seed {seed}");
            assert!(peer.client.stats().stale > 10, "repeats happened: {:?}", peer.client.stats());
        }
        sim.set_faults(Faults::default());
        sim.rtype_peers.iter_mut().for_each(|peer| peer.bot = None);
        sim.run(Duration::from_secs(3), |_, _, _| ());
        let truth: Vec<_> = {
            let game = sim.server.game(0).expect("the room");
            let table = tickwire::world::Game::entities(game);
            table.indices().filter_map(|index| table.id(index)).collect()
        };
        for peer in &sim.rtype_peers {
            assert_eq!(peer.client.phase(), RtypePhase::Playing, "seed {seed}");
            let known: Vec<_> = peer.client.known().map(|known| known.id).collect();
            let ghosts = known.iter().filter(|id| !truth.contains(id)).count();
            let missing = truth.iter().filter(|id| !known.contains(id)).count();
            // What happened since the last snapshot is not told of yet.
            assert!(
                ghosts <= 2 && missing <= 2,
                "seed {seed}: {ghosts} ghosts, {missing} missing of {}",
                truth.len()
            );
        }
    }
}

/// A client that says nothing is gone after ten seconds: the others are told that its player left.
#[test]
fn a_silent_connection_ends_and_its_ship_with_it() {
    let mut sim = mixed_room(Faults::default(), 1);
    sim.run(Duration::from_secs(2), bots());
    assert_eq!(sim.server.pools().sessions, 4);
    let gone = sim.rtype_peers.remove(1);
    sim.run(Duration::from_millis(9_900), bots());
    assert_eq!(sim.server.pools().sessions, 4);
    sim.run(Duration::from_millis(300), bots());
    assert_eq!((sim.server.pools().sessions, sim.server.stats().sessions_timed_out), (3, 1));
    sim.run(Duration::from_secs(1), bots());
    let player = gone.client.player();
    let left = sim.peers[0].client.player();
    assert!(left.is_some());
    if let Some(player) = player {
        assert!(!ships(&sim.rtype_peers[0].client).contains(&player));
    }
}

/// Four slots in one room: the fifth, of whatever protocol, is refused.
#[test]
fn a_full_server_rejects_and_forgets_the_address() {
    let mut sim = mixed_room(Faults::default(), 1);
    sim.run(Duration::from_secs(1), |_, _, _| ());
    let fifth = sim.connect_rtype(&RTYPE, rtype_address(9), None);
    sim.run(Duration::from_millis(200), |_, _, _| ());
    assert_eq!(sim.rtype_peers[fifth].client.phase(), RtypePhase::Over(Over::Rejected));
    assert_eq!((sim.server.pools().endpoints, sim.server.pools().sessions), (2, 4));
    // And lets it in once there is room.
    sim.peers[0].client.leave();
    sim.run(Duration::from_millis(200), |_, _, _| ());
    sim.rtype_peers.truncate(fifth);
    sim.connect_rtype(&RTYPE, rtype_address(9), None);
    sim.run(Duration::from_millis(200), |_, _, _| ());
    assert_eq!(sim.rtype_peers[fifth].client.phase(), RtypePhase::Playing);
}

/// A server that stops says Rejected to who comes.
#[test]
fn a_stopping_server_rejects() {
    let mut sim = mixed_room(Faults::default(), 1);
    sim.run(Duration::from_secs(1), |_, _, _| ());
    let now = sim.now();
    sim.server.shut_down(now);
    sim.rtype_peers.clear();
    sim.connect_rtype(&RTYPE, rtype_address(5), None);
    sim.run(Duration::from_millis(200), |_, _, _| ());
    assert_eq!(sim.rtype_peers[0].client.phase(), RtypePhase::Over(Over::Rejected));
    assert_eq!(sim.server.pools().endpoints, 0);
}

/// A hundred thousand Hellos from as many endpoints: no more memory, those who play notice nothing, and what never
/// proves itself is forgotten.
#[test]
fn a_flood_of_hellos_harms_nobody() {
    const HELLOS: u32 = 100_000;
    let mut sim = rtype_sim(4, Faults::default(), 1);
    for player in 0..2 {
        sim.connect(&settings("aegis"), common::address(player));
        sim.connect_rtype(&RTYPE, rtype_address(player), Some(Bot::new(7 + player as u64)));
    }
    let mut bots = bots();
    sim.run(Duration::from_secs(2), &mut bots);
    let before: Vec<u64> = sim.rtype_peers.iter().map(|peer| peer.client.stats().snapshots).collect();
    let (mut welcomed, mut rejected, mut bytes_out, mut newcomer) = (0, 0, 0, None);
    for burst in 0..HELLOS / 1000 {
        let allocations = thread_allocations();
        for number in burst * 1000..(burst + 1) * 1000 {
            let ip = std::net::Ipv4Addr::from(0x7F00_0000 | number >> 2);
            let from = std::net::SocketAddr::from((ip, 1024 + (number % 60_000) as u16));
            sim.datagram_at(tickwire::seam::Door::Rtype, from, b"RTYP\x01\x01");
        }
        assert_eq!(thread_allocations(), allocations, "a Hello takes memory");
        sim.run(Duration::from_millis(50), &mut bots);
        for (_, answer) in sim.strays.drain(..) {
            bytes_out += answer.len();
            match answer.len() {
                10 => welcomed += 1,
                6 => rejected += 1,
                len => panic!("{len} bytes to a stranger"),
            }
        }
        let pools = sim.server.pools();
        assert!(pools.unproven <= 12 && pools.sessions <= 17, "{pools:?}");
        // Players of other protocols come in all the while.
        if burst == 50 {
            newcomer = Some(sim.connect(&settings("late"), common::address(9)));
        }
    }
    assert!(welcomed >= 4 && rejected > 1000, "{welcomed} welcomed, {rejected} rejected");
    assert!(bytes_out <= HELLOS as usize * 10);
    for (peer, before) in sim.rtype_peers.iter().zip(before) {
        let stats = peer.client.stats();
        assert!(stats.snapshots - before >= 20 * 5 - 2, "{stats:?}");
        assert_eq!((peer.client.phase(), peer.positions_wrong), (RtypePhase::Playing, 0));
    }
    sim.run(Duration::from_secs(6), &mut bots);
    let pools = sim.server.pools();
    assert_eq!((pools.unproven, pools.endpoints, pools.sessions), (0, 2, 5));
    let newcomer = &sim.peers[newcomer.expect("somebody came")];
    assert_eq!(newcomer.client.phase(), AegisPhase::Playing);
    // And friends find room again.
    let friend = sim.connect_rtype(&RTYPE, rtype_address(7), None);
    sim.run(Duration::from_millis(200), &mut bots);
    assert_eq!(sim.rtype_peers[friend].client.phase(), RtypePhase::Playing);
}
