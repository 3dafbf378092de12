//! The corpus of recorded rooms in `benches/corpus`: it is whole, small, and recorded from real matches between the
//! server and four bots. `RECORD_CORPUS=1 cargo test --test corpus` records it anew.

mod common;
#[path = "../benches/support/corpus.rs"]
mod corpus;

use std::path::{Path, PathBuf};

use tickwire::limits::Limits;
use tickwire::model::PlayerId;
use tickwire::sim::{Faults, Sim};
use tickwire::snapshot::{Encoder, Request, View};
use tickwire::time::Duration;
use tickwire::wire::aegis::PAYLOAD_BYTES_MAX;
use tickwire::wire::aegis::snapshot::{Table, decode};
use tickwire::world::rtype::{ENTITIES_RESERVED, Level};

const INTERVAL: u8 = 3;
const CORPUS_BYTES_MAX: u64 = 2 << 20;

#[test]
fn the_corpus_is_whole_and_small() {
    if std::env::var_os("RECORD_CORPUS").is_some() {
        record("level1", Level::builtin("level1").expect("the first level"), 128, 90, 20);
        let crowd =
            Level::builtin("stress").and_then(|level| level.with_entities(100).ok()).expect("a crowd");
        record("stress", crowd, 100 + ENTITIES_RESERVED, 15, 5);
        return;
    }
    let bytes: u64 = ["level1", "stress"]
        .iter()
        .map(|name| std::fs::metadata(path(name)).expect("a recording").len())
        .sum();
    assert!(bytes <= CORPUS_BYTES_MAX, "{bytes} bytes");
    for recording in [corpus::level1(), corpus::stress()] {
        assert!(recording.frames.len() >= 290, "{} frames", recording.frames.len());
        assert!(recording.frames.iter().all(|frame| frame.entities.is_sorted_by_key(|(index, _)| *index)));
        assert!(recording.frames.iter().all(|frame| frame.players.iter().flatten().count() == 4));
    }
}

/// Every frame of the corpus reaches a client exactly, as a delta against the one before the last.
#[test]
fn the_corpus_survives_its_snapshots() {
    for recording in [corpus::level1(), corpus::stress()] {
        let mut encoder = Encoder::new(recording.entities_max);
        let mut view = View::new(recording.entities_max, recording.interval);
        let mut tables: Vec<Table> = Vec::new();
        let mut out = [0; PAYLOAD_BYTES_MAX];
        recording.play(|frame, history| {
            let request = Request { room: 0, history, input: 1, focus: None };
            let len = encoder.encode(&request, &mut view, &mut out);
            let baseline =
                view.baseline().and_then(|tick| tables.iter().find(|table| table.tick() == tick.0));
            let mut table = Table::new(recording.entities_max);
            decode(&out[..len], baseline, &mut table).expect("what is encoded can be decoded");
            if let Some(before) = tables.last() {
                view.acknowledged(tickwire::time::Tick(before.tick()));
            }
            tables.push(table);
            assert_eq!(tables.last().map(Table::tick), Some(frame.tick.0));
        });
        // The crowd's first frames do not fit whole; by the end everything is there.
        let (table, frame) = (tables.last().expect("frames"), recording.frames.last().expect("frames"));
        assert!(table.iter().eq(frame.entities.iter().map(|(index, entity)| (*index, entity))));
    }
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("benches/corpus/{name}.rooms"))
}

/// Plays a match of `seconds`, after it has run for `before` seconds, and writes down the room at every snapshot.
fn record(name: &str, level: Level, entities: usize, seconds: u32, before: u64) {
    let server = common::server_with(1, entities, INTERVAL, level, 11);
    let mut sim =
        Sim::new(server, Limits::new(1, entities).streams, Faults { delay_ms: 10, ..Faults::default() }, 11);
    for player in 0..4 {
        sim.connect(&common::settings("bot"), common::address(player));
    }
    sim.run(Duration::from_secs(before), common::bots());
    let mut bytes = b"TWRC\x01".to_vec();
    bytes.push(INTERVAL);
    let mut last = sim.server.room_tick(0).expect("a match").0 / u32::from(INTERVAL) * u32::from(INTERVAL);
    let mut bots = common::bots();
    while last < (before as u32 + seconds) * 60 {
        sim.run(Duration::from_millis(1), &mut bots);
        let next = last + u32::from(INTERVAL);
        let Some(truth) = sim.truth(0, next) else { continue };
        last = next;
        bytes.extend(next.to_le_bytes());
        bytes.push(truth.players.iter().flatten().count() as u8);
        for (number, state) in truth.players.iter().enumerate() {
            let Some(state) = state else { continue };
            bytes.extend([number as u8, u8::from(state.alive), state.lives]);
            bytes.extend(state.score.to_le_bytes());
        }
        bytes.extend((truth.entities.len() as u16).to_le_bytes());
        for (index, entity) in &truth.entities {
            bytes.extend(index.to_le_bytes());
            let owner = entity.owner().map_or(7, PlayerId::get);
            bytes.extend([entity.generation, entity.kind.0, owner, entity.variant()]);
            bytes.extend(entity.x.to_le_bytes());
            bytes.extend(entity.y.to_le_bytes());
            bytes.extend(entity.vx.to_le_bytes());
            bytes.extend(entity.vy.to_le_bytes());
            bytes.push(entity.health);
        }
    }
    std::fs::write(path(name), bytes).expect("a recording");
}
