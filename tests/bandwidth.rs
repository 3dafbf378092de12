//! What a client's link carries, counted in bits: every datagram from the server with 28 bytes of IP and UDP headers.

mod common;
#[path = "../benches/support/corpus.rs"]
mod corpus;

use tickwire::limits::Limits;
use tickwire::sim::{Faults, NetworkStats, Sim};
use tickwire::snapshot::{Encoder, Request, View};
use tickwire::time::{Duration, Tick};
use tickwire::wire::aegis::PAYLOAD_BYTES_MAX;
use tickwire::world::Game;
use tickwire::world::rtype::{ENTITIES_RESERVED, Level};

/// Bytes of IPv4 and UDP headers.
const LOWER_HEADERS_BYTES: u64 = 28;

#[test]
fn level_1_with_four_bots_takes_16_kbits_per_client() {
    let faults = Faults { delay_ms: 10, ..Faults::default() };
    let mut sim = common::rtype_sim(1, faults, 1);
    for player in 0..4 {
        sim.connect(&common::settings("bot"), common::address(player));
    }
    let mut bots = common::bots();
    sim.run(Duration::from_secs(5), &mut bots);
    let before = sim.network_stats();
    sim.run(Duration::from_secs(180), &mut bots);
    let kbits = kbits_per_client(&sim, before, 180);
    println!("level 1, four bots, 20 snapshots a second: {kbits:.2} kbit/s per client");
    assert!(kbits <= 16.0, "{kbits:.2} kbit/s");
}

/// A hundred entities, half of which change course three times a second, and four players among them.
#[test]
fn a_hundred_entities_at_60_snapshots_take_40_kbits_per_client() {
    let level = Level::builtin("stress").and_then(|level| level.with_entities(100).ok()).expect("a crowd");
    let entities = 100 + ENTITIES_RESERVED;
    let server = common::server_with(1, entities, 1, level, 3);
    let faults = Faults { delay_ms: 5, ..Faults::default() };
    let mut sim = Sim::new(server, Limits::new(1, entities).streams, faults, 3);
    for player in 0..4 {
        let settings = common::settings("bot");
        sim.connect(
            &tickwire::client::aegis::Settings { entities_max: entities, snapshots_kept: 65, ..settings },
            common::address(player),
        );
    }
    let mut bots = common::bots();
    sim.run(Duration::from_secs(5), &mut bots);
    let before = sim.network_stats();
    sim.run(Duration::from_secs(60), &mut bots);
    let kbits = kbits_per_client(&sim, before, 60);
    println!("100 entities, 60 snapshots a second: {kbits:.2} kbit/s per client");
    assert!(kbits <= 40.0, "{kbits:.2} kbit/s");
}

/// Over the recorded rooms, against the snapshot before: bits of all records, by entities whose state is not what it was.
#[test]
fn a_changed_entity_costs_24_bits() {
    for (name, recording) in [("level1", corpus::level1()), ("stress", corpus::stress())] {
        let mut encoder = Encoder::new(recording.entities_max);
        let mut out = [0; PAYLOAD_BYTES_MAX];
        let (mut bits, mut changed, mut told, mut number) = (0, 0, 0, 0);
        recording.play(|frame, history| {
            let Some(before) = history.frame(Tick(frame.tick.0 - recording.interval)) else { return };
            let mut view = View::new(recording.entities_max, recording.interval);
            view.sent_exact(before.tick);
            view.acknowledged(before.tick);
            number += 1;
            let len = encoder.encode(
                &Request { room: number, history, input: 0, focus: None },
                &mut view,
                &mut out,
            );
            bits += (len - 6) * 8;
            let old = |index: &u32| {
                before.indices.binary_search(&(*index as u16)).ok().map(|at| before.entities[at])
            };
            changed += frame.entities.iter().filter(|(index, entity)| old(index) != Some(*entity)).count();
            let is_foreseen = |(index, entity): &&(u32, tickwire::model::Entity)| {
                old(index).is_some_and(|old| old.predicted(recording.interval) == *entity)
            };
            told += frame.entities.iter().filter(|entity| !is_foreseen(entity)).count();
            let is_gone = |index: &&u16| !frame.entities.iter().any(|(at, _)| *at == u32::from(**index));
            let gone = before.indices.iter().filter(is_gone).count();
            changed += gone;
            told += gone;
        });
        let each = bits as f64 / f64::from(changed as u32);
        let record = bits as f64 / f64::from(told as u32);
        println!(
            "{name}: {each:.1} bits per changed entity, {record:.1} per record; all behind the first six bytes counted"
        );
        assert!(each <= 24.0, "{name}: {each:.1} bits");
    }
}

fn kbits_per_client(sim: &Sim<impl Game>, before: NetworkStats, seconds: u64) -> f64 {
    let stats = sim.network_stats();
    let bytes = stats.bytes_to_clients - before.bytes_to_clients
        + (stats.datagrams_to_clients - before.datagrams_to_clients) * LOWER_HEADERS_BYTES;
    bytes as f64 * 8.0 / 1000.0 / seconds as f64 / sim.peers.len() as f64
}
