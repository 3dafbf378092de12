//! FigNet's snapshots of the recorded rooms: how many bytes each coder makes of them, and what that takes. The bytes are
//! printed as the table of docs/performance.md; times are per message.

#[path = "support/corpus.rs"]
mod corpus;
#[path = "support/fignet.rs"]
mod fignet;

use std::cell::Cell;
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

use corpus::Recording;
use tickwire::session::fignet::coder::{Packer, SCRATCH_BYTES, unpack};
use tickwire::session::fignet::keys::{KEY_BYTES, Key};
use tickwire::session::fignet::seal::{ENVELOPE_BYTES, End, Seal};
use tickwire::snapshot::History;
use tickwire::snapshot::fignet::{Area, Encoder, PeerView, Request};
use tickwire::time::Tick;
use tickwire::wire::fignet::snapshot::{Coder, MESSAGE_BYTES_MAX, Precision, Table, decode};

const CODERS: [(&str, Coder); 4] =
    [("plain", Coder::Plain), ("runs", Coder::Runs), ("huffman", Coder::Huffman), ("lz4", Coder::Lz4)];

/// Baseline ages in ticks: full snapshots, and deltas to near and far peers.
const AGES: [Option<u32>; 4] = [None, Some(3), Some(12), Some(30)];

criterion_group!(benches, bytes, encode, coders, seal);
criterion_main!(benches);

fn bytes(_: &mut Criterion) {
    println!("\n| room | precision | baseline | messages | plain | runs | Huffman | LZ4 |");
    println!("|---|---|---|---|---|---|---|---|");
    for (room, recording) in rooms() {
        for precision in [Precision::Exact, Precision::Coarse] {
            for age in AGES {
                let messages = fignet::messages(&recording, precision, age);
                let mut packer = Packer::new();
                let means = CODERS.map(|(_, coder)| {
                    let total: usize =
                        messages.iter().map(|message| packer.pack(coder, &mut message.clone())).sum();
                    format!("{:.1}", total as f64 / messages.len() as f64)
                });
                let age = age.map_or("none".to_owned(), |age| format!("{age} ticks"));
                let (count, means) = (messages.len(), means.join(" | "));
                println!("| {room} | {precision:?} | {age} | {count} | {means} |");
            }
        }
    }
}

fn encode(c: &mut Criterion) {
    for (room, recording) in rooms() {
        let mut history = History::new(recording.entities_max, recording.interval);
        let last = recording.frames.len().min(100);
        for frame in &recording.frames[..last] {
            let entities = frame.entities.iter().map(|(index, entity)| (*index, entity));
            history.push_frame(frame.tick, &frame.players, frame.entities.len(), entities);
        }
        let newest = &recording.frames[last - 1];
        let request = Request { history: &history, timestamp_us: 0, area: view(), focus: Some(1) };
        let mut group = c.benchmark_group(format!("fignet encode {room}"));
        group.throughput(Throughput::Elements(newest.entities.len() as u64));
        for age in AGES {
            let mut encoder = Encoder::new(recording.entities_max, Precision::Exact);
            let mut out = [0; MESSAGE_BYTES_MAX];
            let mut peer = PeerView::new(recording.entities_max, recording.interval);
            if let Some(age) = age {
                peer.sent_exact(Tick(newest.tick.0 - age), view());
                peer.acknowledged(Tick(newest.tick.0 - age));
            }
            let name = age.map_or("full".to_owned(), |age| format!("delta over {age} ticks"));
            group.bench_function(name, |b| {
                b.iter(|| black_box(encoder.encode(&request, &mut peer, &mut out)));
            });
        }
        group.finish();
    }
}

fn coders(c: &mut Criterion) {
    for (room, recording) in rooms() {
        for age in [None, Some(12)] {
            let messages = fignet::messages(&recording, Precision::Exact, age);
            let what = age.map_or("full".to_owned(), |age| format!("delta over {age} ticks"));
            let mut group = c.benchmark_group(format!("fignet {room}, {what}"));
            for (name, coder) in CODERS {
                let mut packer = Packer::new();
                let turn = Cell::new(0);
                let next = || {
                    turn.set((turn.get() + 1) % messages.len());
                    turn.get()
                };
                let mut buffer = [0; MESSAGE_BYTES_MAX];
                group.bench_function(BenchmarkId::new("pack", name), |b| {
                    b.iter(|| {
                        let plain = &messages[next()];
                        buffer[..plain.len()].copy_from_slice(plain);
                        black_box(packer.pack(coder, &mut buffer[..plain.len()]))
                    });
                });
                let packed: Vec<Vec<u8>> = messages
                    .iter()
                    .map(|message| {
                        let mut packed = message.clone();
                        let len = packer.pack(coder, &mut packed);
                        packed.truncate(len);
                        packed
                    })
                    .collect();
                let mut scratch = [0; SCRATCH_BYTES];
                group.bench_function(BenchmarkId::new("unpack", name), |b| {
                    b.iter(|| unpack(black_box(&packed[next()]), &mut scratch).map(<[u8]>::len));
                });
            }
            if age.is_none() {
                let mut table = Table::new(recording.entities_max);
                let full = &messages[messages.len() / 2];
                group.bench_function("decode", |b| b.iter(|| decode(black_box(full), None, &mut table)));
            }
            group.finish();
        }
    }
}

fn seal(c: &mut Criterion) {
    let mut group = c.benchmark_group("fignet seal");
    for bytes in [64usize, 256, 1100] {
        group.throughput(Throughput::Bytes(bytes as u64));
        let key = Key::new([7; KEY_BYTES]);
        let mut server = Seal::new(&key, End::Server, 1);
        let mut envelope = vec![0x55; bytes + ENVELOPE_BYTES];
        group.bench_function(BenchmarkId::new("seal", bytes), |b| {
            b.iter(|| server.seal_in_place(black_box(&[1; 18]), &mut envelope));
        });
        group.bench_function(BenchmarkId::new("seal and open", bytes), |b| {
            let mut client = Seal::new(&key, End::Client, 1);
            b.iter(|| {
                server.seal_in_place(&[1; 18], &mut envelope).expect("counters are left");
                client.open_in_place(&[1; 18], &mut envelope).map(|text| text.len())
            });
        });
    }
    group.finish();
}

fn rooms() -> [(&'static str, Recording); 2] {
    [("level1", corpus::level1()), ("stress", corpus::stress())]
}

fn view() -> Area {
    Area::around(0, 0, 1920 * 64, 1080 * 64)
}
