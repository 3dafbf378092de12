//! Whole matches over the simulated network: what must hold whatever the network does.

mod common;

use common::{bots, rtype_sim, settings};
use tickwire::client::aegis::Phase;
use tickwire::server::Pools;
use tickwire::session::drops::DropReason;
use tickwire::sim::Faults;
use tickwire::time::Duration;

#[test]
fn four_players_play_and_leave_and_every_pool_is_empty() {
    let mut sim = rtype_sim(2, Faults::default(), 1);
    let empty = sim.server.pools();
    assert_eq!(empty, Pools { rooms_open: 2, ..Pools::default() });
    for player in 0..4 {
        sim.connect(&settings("bot"), common::address(player));
    }
    sim.run(Duration::from_secs(20), bots());
    for peer in &sim.peers {
        assert_eq!(peer.client.phase(), Phase::Playing);
        let stats = peer.client.stats();
        assert!(stats.snapshots >= 20 * 20 - 5, "{stats:?}");
        assert!(stats.snapshots_delta >= stats.snapshots - 5, "{stats:?}");
        assert_eq!((stats.events_repeated, stats.dropped, stats.stale), (0, 0, 0), "{stats:?}");
        assert!(peer.client.visible().count() > 4);
    }
    let snapshots: u64 = sim.peers.iter().map(|peer| peer.client.stats().snapshots).sum();
    assert_eq!(sim.comparisons(), snapshots, "every snapshot shows the server's room");
    let pools = sim.server.pools();
    assert_eq!((pools.sessions, pools.streams, pools.rooms_played), (4, 4, 1));
    sim.peers.iter_mut().for_each(|peer| peer.client.leave());
    sim.run(Duration::from_secs(1), |_, _, _| ());
    assert_eq!(sim.server.pools(), empty);
    assert_eq!(sim.server.stats().sessions_ended, 4);
    // Who leaves says so over both transports; the session is over with the first word.
    let drops = sim.server.drops();
    assert_eq!((drops.total(), drops.get(DropReason::Foreign)), (12, 12));
}

#[test]
fn faults_neither_lose_nor_repeat_events_nor_break_a_snapshot() {
    for (seed, loss_per_mille) in [(1, 10), (2, 50), (3, 100), (4, 300)] {
        let faults = Faults { loss_per_mille, repeat_per_mille: 50, delay_ms: 20, jitter_ms: 40 };
        let mut sim = rtype_sim(1, faults, seed);
        for player in 0..4 {
            sim.connect(&settings("bot"), common::address(player));
        }
        sim.run(Duration::from_secs(60), bots());
        let stats = sim.network_stats();
        assert!(
            stats.lost > 50 && stats.repeated > 50 && stats.overtaken > 50,
            "the faults happened: {stats:?}"
        );
        let snapshots: u64 = sim.peers.iter().map(|peer| peer.client.stats().snapshots).sum();
        assert!(snapshots > 1500, "{snapshots}");
        assert_eq!(sim.comparisons(), snapshots, "seed {seed}: every snapshot shows the server's room");
        // With a quiet network everything pending arrives, and all players were told the same since the last joined.
        sim.set_faults(Faults::default());
        sim.run(Duration::from_secs(3), |_, _, _| ());
        for peer in &sim.peers {
            assert_eq!(peer.client.phase(), Phase::Playing, "seed {seed}");
            let table = peer.client.table().expect("a snapshot");
            let ids: Vec<_> = peer.client.visible().map(|(id, _)| id.index()).collect();
            let all: Vec<_> = table.iter().map(|(index, _)| index).collect();
            // What appeared in the newest snapshot may still be untold of; nothing older may.
            assert!(all.len() - ids.len() <= 2, "seed {seed}: shown {ids:?} of {all:?}");
        }
    }
}

/// A client that was not served for a while sends its newest controls once, not what it missed.
#[test]
fn a_client_that_comes_late_sends_one_input() {
    let mut sim = rtype_sim(1, Faults::default(), 1);
    let peer = sim.connect(&settings("bot"), common::address(0));
    sim.run(Duration::from_secs(1), |_, _, _| ());
    let late = sim.now() + Duration::from_millis(200);
    let client = &mut sim.peers[peer].client;
    let mut buffer = [0; 1200];
    let sent = std::iter::from_fn(|| client.transmit(late, &mut buffer)).count();
    assert_eq!(sent, 1);
    assert!(client.transmit(late + Duration::from_millis(17), &mut buffer).is_some());
}
