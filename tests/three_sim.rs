//! Matches in which players of all three protocols meet, over the simulated network; and what is FigNet's own.

mod common;

use common::{bots, fignet_address, fignet_config, rtype_address, rtype_sim, settings};
use tickwire::client::bot::Bot;
use tickwire::client::fignet::{Over, Phase, Settings as FignetSettings};
use tickwire::client::rtype::Settings as RtypeSettings;
use tickwire::model::Kind;
use tickwire::server::Pools;
use tickwire::session::fignet::keys::Key;
use tickwire::sim::{Faults, Sim};
use tickwire::time::Duration;
use tickwire::wire::aegis::event::Event;
use tickwire::wire::fignet::ErrorCode;
use tickwire::world::rtype::RtypeGame;

const RTYPE: RtypeSettings = RtypeSettings { entities_max: common::ENTITIES };

fn fignet() -> FignetSettings {
    FignetSettings { config: fignet_config(), entities_max: common::ENTITIES, snapshot_interval: 3 }
}

/// One player of each protocol, and a second one of FigNet.
fn mixed_room(faults: Faults, seed: u64) -> Sim<RtypeGame> {
    let mut sim = rtype_sim(1, faults, seed);
    sim.connect(&settings("aegis"), common::address(0));
    sim.connect_rtype(&RTYPE, rtype_address(0), Some(Bot::new(7)));
    for player in 0..2 {
        let bot = Bot::new(17 + player as u64);
        sim.connect_fignet(&fignet(), fignet_address(player), 40 + player as u32, None, Some(bot));
    }
    sim
}

#[test]
fn three_protocols_play_in_one_room() {
    let mut sim = mixed_room(Faults::default(), 1);
    let mut bots = bots();
    let (mut spawns, mut deaths, mut joined) = (0, 0, 0);
    for _ in 0..90 {
        sim.run(Duration::from_secs(1), &mut bots);
        for peer in &mut sim.fignet_peers {
            let mut tick = 0;
            while let Some(event) = peer.client.poll_event() {
                assert!(event.tick() >= tick, "events come in their order");
                tick = event.tick();
                match event {
                    Event::Spawn { .. } => spawns += 1,
                    Event::Death { .. } => deaths += 1,
                    Event::PlayerJoined { .. } => joined += 1,
                    _ => {}
                }
            }
        }
    }
    assert!(spawns > 100 && deaths > 0 && joined == 8, "{spawns} {deaths} {joined}");
    for peer in &sim.fignet_peers {
        assert_eq!(peer.client.phase(), Phase::Playing);
        let stats = peer.client.stats();
        assert!(stats.snapshots > 500, "{stats:?}");
        assert!(stats.snapshots_delta > stats.snapshots - 20, "{stats:?}");
        assert_eq!((stats.snapshots_dropped, stats.dropped, stats.events_ignored), (0, 0, 0), "{stats:?}");
        assert_eq!(peer.entities_wrong, 0, "{} right", peer.entities_right);
        assert!(peer.entities_right > 5000);
    }
    for peer in &sim.rtype_peers {
        assert_eq!((peer.positions_wrong, peer.client.stats().queries), (0, 0));
    }
    let snapshots: u64 = sim.peers.iter().map(|peer| peer.client.stats().snapshots).sum();
    assert_eq!(sim.comparisons(), snapshots, "every Aegis snapshot shows the server's room");
    let together = sim.run_until(Duration::from_secs(20), |sim| {
        let ships =
            |entities: &mut dyn Iterator<Item = Kind>| entities.filter(|kind| *kind == Kind::SHIP).count();
        sim.peers.iter().all(|peer| ships(&mut peer.client.visible().map(|(_, entity)| entity.kind)) == 4)
            && sim
                .rtype_peers
                .iter()
                .all(|p| ships(&mut p.client.visible().map(|(_, entity)| entity.kind)) == 4)
            && sim
                .fignet_peers
                .iter()
                .all(|p| ships(&mut p.client.visible().map(|(_, entity)| entity.kind)) == 4)
    });
    assert!(together, "all four ships are seen by all four");
    let now = sim.now();
    sim.peers.iter_mut().for_each(|peer| peer.client.leave());
    sim.rtype_peers.iter_mut().for_each(|peer| peer.client.leave());
    sim.fignet_peers.iter_mut().for_each(|peer| peer.client.leave(now));
    // A connection that ended answers late words for a while.
    sim.run(Duration::from_secs(12), |_, _, _| ());
    assert_eq!(sim.server.pools(), Pools { rooms_open: 1, ..Pools::default() });
}

/// Whatever the network does: everything in a FigNet snapshot is as it was, everything reliable comes once and in order,
/// and when the network is quiet everyone has the whole room.
#[test]
fn faults_leave_fignet_players_with_the_room() {
    for (seed, loss_per_mille) in [(1, 10), (2, 50), (3, 100)] {
        let faults = Faults { loss_per_mille, repeat_per_mille: 50, delay_ms: 20, jitter_ms: 30 };
        let mut sim = mixed_room(faults, seed);
        let mut bots = bots();
        let mut told: Vec<Vec<Event>> = vec![Vec::new(); 2];
        for _ in 0..30 {
            sim.run(Duration::from_secs(1), &mut bots);
            for (told, peer) in told.iter_mut().zip(&mut sim.fignet_peers) {
                told.extend(std::iter::from_fn(|| peer.client.poll_event()));
            }
        }
        for (told, peer) in told.iter().zip(&sim.fignet_peers) {
            let stats = peer.client.stats();
            assert_eq!(peer.client.phase(), Phase::Playing, "seed {seed}: {stats:?}");
            assert_eq!((peer.entities_wrong, stats.snapshots_dropped), (0, 0), "seed {seed}: {stats:?}");
            assert!(told.windows(2).all(|pair| pair[0].tick() <= pair[1].tick()), "in order");
            let twice = told.windows(2).filter(|pair| pair[0] == pair[1]).count();
            assert_eq!(twice, 0, "seed {seed}: nothing comes twice");
        }
        sim.set_faults(Faults::default());
        sim.fignet_peers.iter_mut().for_each(|peer| peer.bot = None);
        sim.run(Duration::from_secs(3), |_, _, _| ());
        for peer in &sim.fignet_peers {
            let table = peer.client.table().expect("a snapshot");
            let truth = (0..200).find_map(|back| {
                let tick = sim.server.room_tick(0)?.0 - back;
                (tick as u16 == table.sequence()).then(|| sim.truth(0, tick)).flatten()
            });
            let truth = truth.expect("the room at that tick");
            let field = |(_, entity): &&(u32, tickwire::model::Entity)| {
                (-256 * 64..=(1920 + 256) * 64).contains(&entity.x)
                    && (-256 * 64..=(1080 + 256) * 64).contains(&entity.y)
            };
            assert_eq!(table.len(), truth.entities.iter().filter(field).count(), "seed {seed}");
        }
    }
}

#[test]
fn chat_goes_to_the_room() {
    let mut sim = mixed_room(Faults { loss_per_mille: 100, delay_ms: 10, ..Faults::default() }, 3);
    sim.run(Duration::from_secs(2), bots());
    sim.fignet_peers[0].client.say("hello, Zoé").expect("a line");
    sim.run(Duration::from_secs(2), bots());
    let speaker = sim.fignet_peers[0].client.player();
    for peer in &mut sim.fignet_peers {
        let line = peer.client.poll_chat().expect("the line");
        assert_eq!((Some(line.by), line.text()), (speaker, "hello, Zoé"));
        assert!(peer.client.poll_chat().is_none(), "once");
    }
}

/// With a key that the control plane handed to both, everything after CONNECT is encrypted; with another one nobody
/// comes in.
#[test]
fn a_key_encrypts_the_connection() {
    let mut sim = rtype_sim(1, Faults { loss_per_mille: 50, delay_ms: 10, ..Faults::default() }, 1);
    let (key, other) = (Key::new([7; 32]), Key::new([8; 32]));
    let expires = sim.now() + Duration::from_secs(60);
    sim.server.add_fignet_key(1, &key, expires).expect("room");
    sim.server.add_fignet_key(2, &other, expires).expect("room");
    sim.tap = Some(Vec::new());
    sim.connect_fignet(&fignet(), fignet_address(0), 1, Some((&key, 5)), Some(Bot::new(1)));
    let wrong = sim.connect_fignet(&fignet(), fignet_address(1), 2, Some((&key, 5)), None);
    let plain = sim.connect_fignet(&fignet(), fignet_address(2), 9, None, None);
    sim.run(Duration::from_secs(6), |_, _, _| ());
    assert_eq!(sim.fignet_peers[0].client.phase(), Phase::Playing);
    assert_eq!(sim.fignet_peers[plain].client.phase(), Phase::Playing, "encryption is not required here");
    assert!(matches!(sim.fignet_peers[wrong].client.phase(), Phase::Over(Over::Failed(ErrorCode::Timeout))));
    let tap = sim.tap.take().expect("the tap");
    let to = |player: usize| tap.iter().filter(move |(to, _)| *to == fignet_address(player));
    assert!(to(0).count() > 20 && to(0).all(|(_, bytes)| bytes[5] & 8 != 0), "every packet is encrypted");
    assert!(to(2).count() > 20 && to(2).all(|(_, bytes)| bytes[5] & 8 == 0));
    assert_eq!(sim.fignet_peers[0].entities_wrong, 0);
    assert!(sim.fignet_peers[0].entities_right > 100);
}

#[test]
fn a_full_room_and_a_stopping_server_say_so() {
    let mut sim = mixed_room(Faults::default(), 1);
    sim.run(Duration::from_secs(1), |_, _, _| ());
    let fifth = sim.connect_fignet(&fignet(), fignet_address(5), 5, None, None);
    sim.run(Duration::from_secs(1), |_, _, _| ());
    let full = Phase::Over(Over::Disconnected(ErrorCode::PeerLimitReached));
    assert_eq!(sim.fignet_peers[fifth].client.phase(), full);
    let now = sim.now();
    sim.server.shut_down(now);
    sim.run(Duration::from_secs(1), |_, _, _| ());
    for peer in &sim.fignet_peers[..2] {
        assert_eq!(peer.client.phase(), Phase::Over(Over::Disconnected(ErrorCode::Success)));
    }
    let pools = sim.server.pools();
    assert_eq!((pools.sessions, pools.addresses, pools.rooms_played), (0, 0, 0));
}

/// A client that falls silent is gone after the time that says so, and its ship with it.
#[test]
fn a_silent_client_times_out() {
    let mut sim = mixed_room(Faults::default(), 1);
    sim.run(Duration::from_secs(1), |_, _, _| ());
    assert_eq!(sim.server.pools().sessions, 4);
    sim.fignet_peers.truncate(1);
    sim.run(Duration::from_secs(12), |_, _, _| ());
    assert_eq!((sim.server.pools().sessions, sim.server.stats().sessions_timed_out), (3, 1));
}
