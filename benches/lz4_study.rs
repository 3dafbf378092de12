//! Where LZ4 pays: the recorded rooms of `benches/corpus` as every kind of payload that a server sends, compressed one by
//! one. Prints a table; `docs/performance.md` keeps it. Beside the wire's LZ4 stand two coders that the wire does not
//! have: LZ4 with the payload before as a dictionary, and the bound of a static order-0 coder trained on the same kind of
//! payload, which no range coder of that sort can beat.

#[path = "support/corpus.rs"]
mod corpus;

use std::hint::black_box;
use std::time::Instant;

use tickwire::lz4::Compressor;
use tickwire::model::GameEvent;
use tickwire::snapshot::{Encoder, Request, View};
use tickwire::time::Tick;
use tickwire::wire::aegis::PAYLOAD_BYTES_MAX;
use tickwire::wire::aegis::event::{Event, EventListWriter};

fn main() {
    println!(
        "| payload | count | bytes | LZ4 smaller | saved by LZ4 | saved with dictionary | order-0 bound | compress | decompress |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for (name, recording) in [("level1", corpus::level1()), ("stress", corpus::stress())] {
        row(&format!("{name}, full"), &snapshots(&recording, None));
        for age in [3, 12, 30] {
            row(&format!("{name}, delta of age {age}"), &snapshots(&recording, Some(age)));
        }
        row(&format!("{name}, events of a tick"), &events(&recording, 1));
        row(&format!("{name}, events of a newcomer"), &events(&recording, 30));
    }
}

/// Every frame as a snapshot, full or against the baseline `age` ticks older.
fn snapshots(recording: &corpus::Recording, age: Option<u32>) -> Vec<Vec<u8>> {
    let mut encoder = Encoder::new(recording.entities_max);
    let mut out = [0; PAYLOAD_BYTES_MAX];
    let mut payloads = Vec::new();
    let mut number = 0;
    recording.play(|frame, history| {
        let mut view = View::new(recording.entities_max, recording.interval);
        if let Some(age) = age {
            let tick = Tick(frame.tick.0.wrapping_sub(age));
            if history.frame(tick).is_none() {
                return;
            }
            view.sent_exact(tick);
            view.acknowledged(tick);
        }
        number += 1;
        let request = Request { room: number, history, input: frame.tick.0 as u16, focus: None };
        let len = encoder.encode(&request, &mut view, &mut out);
        payloads.push(out[..len].to_vec());
    });
    payloads
}

/// What appears in a frame as an Event datagram: `at_least` Spawns, from the entities of the frame.
fn events(recording: &corpus::Recording, at_least: usize) -> Vec<Vec<u8>> {
    let mut payloads = Vec::new();
    let mut id = 0u16;
    for pair in recording.frames.windows(2) {
        let is_new = |(index, entity): &&(u32, tickwire::model::Entity)| {
            !pair[0].entities.iter().any(|(at, before)| at == index && before.generation == entity.generation)
        };
        let appeared: Vec<_> = if at_least > 1 {
            pair[1].entities.iter().collect()
        } else {
            pair[1].entities.iter().filter(is_new).collect()
        };
        if appeared.len() < at_least {
            continue;
        }
        let mut buffer = [0; PAYLOAD_BYTES_MAX];
        let mut list = EventListWriter::new(&mut buffer);
        for (index, entity) in appeared {
            let tickwire::model::Entity { x, y, vx, vy, kind, .. } = *entity;
            let spawn = GameEvent::Spawn {
                id: tickwire::model::EntityId::new(*index, entity.generation),
                kind,
                owner: entity.owner(),
                x,
                y,
                vx,
                vy,
            };
            id = id.wrapping_add(1);
            list.push(id, |content| Event::from_game(pair[1].tick.0, &spawn).emit(content));
        }
        if let Some(len) = list.finish() {
            payloads.push(buffer[..len].to_vec());
        }
    }
    payloads
}

fn row(name: &str, payloads: &[Vec<u8>]) {
    let total: usize = payloads.iter().map(Vec::len).sum();
    if payloads.is_empty() {
        return;
    }
    let share = |saved: f64| format!("{:.1}%", 100.0 * saved / total as f64);
    let (mut smaller, mut saved, mut with_dictionary) = (0, 0, 0);
    for (number, payload) in payloads.iter().enumerate() {
        // The size takes two bytes.
        let block = lz4_flex::block::compress(payload).len() + 2;
        smaller += usize::from(block < payload.len());
        saved += payload.len().saturating_sub(block);
        let before: &[u8] = if number > 0 { &payloads[number - 1] } else { &[] };
        let block = lz4_flex::block::compress_with_dict(payload, before).len() + 2;
        with_dictionary += payload.len().saturating_sub(block);
    }
    let bound = order_0_bytes(payloads);
    let (compress_ns, decompress_ns) = times(payloads);
    println!(
        "| {name} | {} | {:.0} | {:.0}% | {} | {} | {} | {compress_ns} | {decompress_ns} |",
        payloads.len(),
        total as f64 / payloads.len() as f64,
        100.0 * smaller as f64 / payloads.len() as f64,
        share(saved as f64),
        share(with_dictionary as f64),
        share(total as f64 - bound),
    );
}

/// Bytes that the payloads would take if every byte cost its order-0 entropy over all of them.
fn order_0_bytes(payloads: &[Vec<u8>]) -> f64 {
    let mut counts = [0u64; 256];
    payloads.iter().flatten().for_each(|&byte| counts[usize::from(byte)] += 1);
    let total: u64 = counts.iter().sum();
    let bits: f64 = counts
        .iter()
        .filter(|&&count| count > 0)
        .map(|&count| count as f64 * (total as f64 / count as f64).log2())
        .sum();
    bits / 8.0
}

/// Nanoseconds per payload, where the wire's compressor takes it at all.
fn times(payloads: &[Vec<u8>]) -> (String, String) {
    let mut compressor = Compressor::new();
    let mut out = [0; PAYLOAD_BYTES_MAX];
    let rounds = 20;
    let start = Instant::now();
    for payload in payloads.iter().cycle().take(payloads.len() * rounds) {
        black_box(compressor.compress(black_box(payload), &mut out));
    }
    let compress = start.elapsed().as_nanos() / (payloads.len() * rounds) as u128;
    let compressed: Vec<Vec<u8>> = payloads
        .iter()
        .filter_map(|payload| compressor.compress(payload, &mut out).map(|len| out[..len].to_vec()))
        .collect();
    if compressed.is_empty() {
        return (format!("{compress} ns"), "never compressed".to_owned());
    }
    let start = Instant::now();
    for block in compressed.iter().cycle().take(compressed.len() * rounds) {
        black_box(tickwire::lz4::decompress(black_box(block), &mut out)).expect("a block of ours");
    }
    let decompress = start.elapsed().as_nanos() / (compressed.len() * rounds) as u128;
    (format!("{compress} ns"), format!("{decompress} ns"))
}
