//! What loss costs: bytes to a client over loss and delay, as a table that is kept in the repository. Everything in it is
//! counted, so it only changes when the protocol's behaviour does. `UPDATE_GOLDEN=1 cargo test --test loss_table` writes
//! it anew.

mod common;

use std::fmt::Write as _;
use std::path::Path;

use tickwire::sim::Faults;
use tickwire::time::Duration;

const SECONDS: u64 = 20;
const PLAYERS: usize = 4;

#[test]
fn bytes_over_loss_and_delay() {
    let mut table = String::from(
        "| loss | one way | datagrams/s | bytes/s | snapshots applied/s | full | events/s | sent again |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for loss_per_mille in [0, 10, 50, 100, 300] {
        for delay_ms in [5, 50] {
            row(&mut table, loss_per_mille, delay_ms);
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/loss.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &table).expect("the golden table");
    }
    let golden = std::fs::read_to_string(&path).expect("the golden table");
    assert!(table == golden, "the behaviour under loss has changed:\n{table}\nwas\n{golden}");
}

/// Four players for a while; per client and second, server to client, UDP payloads.
fn row(table: &mut String, loss_per_mille: u32, delay_ms: u32) {
    let repeat_per_mille = loss_per_mille / 2;
    let faults = Faults { loss_per_mille, repeat_per_mille, delay_ms, jitter_ms: delay_ms / 2 };
    let mut sim = common::rtype_sim(1, faults, 5);
    for player in 0..PLAYERS {
        sim.connect(&common::settings("bot"), common::address(player));
    }
    sim.run(Duration::from_secs(5), common::bots());
    let (network, server) = (sim.network_stats(), *sim.server.stats());
    let (full, comparisons) = (sim.server.encoder_stats().full, sim.comparisons());
    let events: u64 = sim.peers.iter().map(|peer| peer.client.stats().events).sum();
    sim.run(Duration::from_secs(SECONDS), common::bots());
    let per_second = |count: u64| count as f64 / (SECONDS * PLAYERS as u64) as f64;
    let bytes = sim.network_stats().bytes_to_clients - network.bytes_to_clients;
    let datagrams = sim.network_stats().datagrams_to_clients - network.datagrams_to_clients;
    let events = sim.peers.iter().map(|peer| peer.client.stats().events).sum::<u64>() - events;
    let again = (sim.server.stats().events_out - server.events_out).saturating_sub(events);
    let applied = sim.comparisons() - comparisons;
    let all: u64 = sim.peers.iter().map(|peer| peer.client.stats().snapshots).sum();
    assert_eq!(sim.comparisons(), all, "every snapshot applied shows the server's room exactly");
    writeln!(
        table,
        "| {}.{}% | {delay_ms}-{} ms | {:.1} | {:.0} | {:.1} | {} | {:.1} | {:.1} |",
        loss_per_mille / 10,
        loss_per_mille % 10,
        delay_ms + delay_ms / 2,
        per_second(datagrams),
        per_second(bytes),
        per_second(applied),
        sim.server.encoder_stats().full - full,
        per_second(events),
        per_second(again),
    )
    .expect("a string takes text");
}
