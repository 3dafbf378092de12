//! The cost of a packet: header, bit streams, snapshots, event lists, compression. Elements are records or entities.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tickwire::lz4::{self, Compressor};
use tickwire::model::{Entity, EntityId, GameEvent, Kind, PLAYERS_MAX, PlayerId, PlayerState};
use tickwire::rng::Rng;
use tickwire::wire::aegis::event::{Event, EventList, EventListWriter};
use tickwire::wire::aegis::snapshot::{
    PREFIX_BYTES, Table, decode, put_added, put_baseline, put_players, put_prefix, put_record_count,
    put_updated,
};
use tickwire::wire::aegis::{HEADER_BYTES, Header, PAYLOAD_BYTES_MAX, PacketKind};
use tickwire::wire::bits::{BitReader, BitWriter};

const ENTITIES: u32 = 64;
const RECORDS: u32 = 16;
const AGE: u32 = 3;

criterion_group!(benches, header, varints, snapshot_full, snapshot_delta, events, compression);
criterion_main!(benches);

fn header(c: &mut Criterion) {
    let header = Header {
        kind: PacketKind::Snapshot,
        compressed: false,
        sequence: 0x1234,
        ack: 0xABCD,
        ack_bits: 0x8000_0001,
        session: 0xDEAD_BEEF,
    };
    let mut bytes = [0; HEADER_BYTES];
    header.emit(&mut bytes);
    let mut group = c.benchmark_group("header");
    group.bench_function("parse", |b| b.iter(|| Header::parse(black_box(&bytes))));
    group.bench_function("emit", |b| b.iter(|| black_box(&header).emit(black_box(&mut bytes))));
    group.finish();
}

fn varints(c: &mut Criterion) {
    let mut group = c.benchmark_group("varint");
    for bits in [3, 9, 32] {
        let mut rng = Rng::new(1);
        let values: Vec<u32> = (0..100).map(|_| rng.next_u32() >> (32 - bits)).collect();
        let mut bytes = [0; 600];
        let mut writer = BitWriter::new(&mut bytes);
        values.iter().for_each(|&value| writer.put_varint(value));
        let len = writer.finish().expect("room");
        group.throughput(Throughput::Elements(values.len() as u64));
        group.bench_with_input(BenchmarkId::new("read", bits), &bytes[..len], |b, bytes| {
            b.iter(|| {
                let mut reader = BitReader::new(black_box(bytes));
                (0..100).fold(0, |sum, _| sum ^ reader.varint().unwrap_or(0))
            });
        });
        let mut out = [0; 600];
        group.bench_with_input(BenchmarkId::new("write", bits), &values, |b, values| {
            b.iter(|| {
                let mut writer = BitWriter::new(black_box(&mut out));
                values.iter().for_each(|&value| writer.put_varint(value));
                writer.finish()
            });
        });
    }
    group.finish();
}

fn snapshot_full(c: &mut Criterion) {
    let world = world();
    let mut out = [0; PAYLOAD_BYTES_MAX];
    let len = encode_full(&world, &mut out);
    let payload = &out[..len];
    let mut group = c.benchmark_group("snapshot full, 64 entities");
    group.throughput(Throughput::Elements(ENTITIES.into()));
    let mut table = Table::new(ENTITIES as usize);
    decode(payload, None, &mut table).expect("our own snapshot");
    group.bench_function("decode", |b| b.iter(|| decode(black_box(payload), None, &mut table)));
    let mut out = [0; PAYLOAD_BYTES_MAX];
    group.bench_function("encode", |b| b.iter(|| encode_full(black_box(&world), &mut out)));
    group.finish();
}

fn snapshot_delta(c: &mut Criterion) {
    let old = world();
    let mut out = [0; PAYLOAD_BYTES_MAX];
    let len = encode_full(&old, &mut out);
    let mut baseline = Table::new(ENTITIES as usize);
    decode(&out[..len], None, &mut baseline).expect("our own snapshot");
    let changes = changes(&baseline);
    let len = encode_delta(&changes, &mut out);
    let payload = &out[..len];
    let mut group = c.benchmark_group("snapshot delta, 64 entities, 16 records");
    group.throughput(Throughput::Elements(RECORDS.into()));
    let mut table = Table::new(ENTITIES as usize);
    decode(payload, Some(&baseline), &mut table).expect("our own snapshot");
    group.bench_function("decode", |b| b.iter(|| decode(black_box(payload), Some(&baseline), &mut table)));
    let mut out = [0; PAYLOAD_BYTES_MAX];
    group.bench_function("encode", |b| b.iter(|| encode_delta(black_box(&changes), &mut out)));
    group.finish();
}

fn events(c: &mut Criterion) {
    let spawn = GameEvent::Spawn {
        id: EntityId::new(9, 4),
        kind: Kind::BYDOS,
        owner: None,
        x: 122_880,
        y: 19_200,
        vx: -192,
        vy: 0,
    };
    let mut out = [0; PAYLOAD_BYTES_MAX];
    let write = |out: &mut [u8]| {
        let mut list = EventListWriter::new(out);
        let event = Event::from_game(600, black_box(&spawn));
        for id in 0..16 {
            list.push(id, |content| event.emit(content));
        }
        list.finish()
    };
    let len = write(&mut out).expect("events");
    let payload = out[..len].to_vec();
    let mut group = c.benchmark_group("event list, 16 spawns");
    group.throughput(Throughput::Elements(16));
    group.bench_function("parse framing", |b| b.iter(|| EventList::parse(black_box(&payload)).is_ok()));
    group.bench_function("parse all", |b| {
        b.iter(|| {
            let list = EventList::parse(black_box(&payload)).expect("our own list");
            list.iter().filter(|(_, content)| black_box(Event::parse(content)).is_ok()).count()
        });
    });
    group.bench_function("write", |b| b.iter(|| write(black_box(&mut out))));
    group.finish();
}

fn compression(c: &mut Criterion) {
    let mut compressor = Compressor::new();
    for (name, typical) in [("lz4 typical", true), ("lz4 incompressible", false)] {
        let mut group = c.benchmark_group(name);
        for len in [64, 256, 600, PAYLOAD_BYTES_MAX] {
            let original = if typical { event_like(len) } else { noise(len) };
            let mut out = [0; PAYLOAD_BYTES_MAX];
            group.throughput(Throughput::Bytes(len as u64));
            group.bench_with_input(BenchmarkId::new("compress", len), &original, |b, original| {
                b.iter(|| compressor.compress(black_box(original), &mut out));
            });
            let Some(compressed_len) = compressor.compress(&original, &mut out) else { continue };
            let mut back = [0; PAYLOAD_BYTES_MAX];
            group.bench_with_input(
                BenchmarkId::new("decompress", len),
                &out[..compressed_len],
                |b, bytes| {
                    b.iter(|| lz4::decompress(black_box(bytes), &mut back));
                },
            );
        }
        group.finish();
    }
}

/// Entities as a stage in full swing has them.
fn world() -> Vec<(u32, Entity)> {
    let mut rng = Rng::new(7);
    let mut index = 0;
    (0..ENTITIES)
        .map(|_| {
            index += 1 + rng.below(4) / 3;
            let kind = Kind(1 + rng.below(4) as u8);
            let entity = Entity::new(kind).with_owner(PlayerId::new(rng.below(8) as u8)).moving(
                rng.between(0, 122_880),
                rng.between(0, 69_120),
                rng.between(-256, 1024) as i16,
                rng.between(-256, 256) as i16,
            );
            (index, entity)
        })
        .collect()
}

/// Every fourth entity of the baseline, with a turn, a hit, or a small or large step off its course.
fn changes(baseline: &Table) -> Vec<(u32, Entity, Entity)> {
    let mut rng = Rng::new(8);
    let change = |(index, entity): (u32, &Entity)| {
        let predicted = entity.predicted(AGE);
        let mut now = predicted;
        now.x += rng.between(1, 100);
        match rng.below(4) {
            0 => now.vx = -now.vx.max(1),
            1 => now.health += 1,
            2 => now.y += 500,
            _ => now.y -= 1,
        }
        (index, predicted, now)
    };
    baseline.iter().step_by((ENTITIES / RECORDS) as usize).map(change).collect()
}

const PLAYERS: [Option<PlayerState>; PLAYERS_MAX] =
    [Some(PlayerState { alive: true, lives: 3, score: 12_500 }); PLAYERS_MAX];

fn encode_full(world: &[(u32, Entity)], out: &mut [u8]) -> usize {
    put_prefix(out, 600, 41);
    let mut bits = BitWriter::new(&mut out[PREFIX_BYTES..]);
    put_baseline(&mut bits, None);
    put_players(&mut bits, &PLAYERS);
    put_record_count(&mut bits, world.len() as u32);
    let mut next = 0;
    for (index, entity) in world {
        put_added(&mut bits, index - next, entity);
        next = index + 1;
    }
    PREFIX_BYTES + bits.finish().expect("room")
}

fn encode_delta(changes: &[(u32, Entity, Entity)], out: &mut [u8]) -> usize {
    put_prefix(out, 600 + AGE, 44);
    let mut bits = BitWriter::new(&mut out[PREFIX_BYTES..]);
    put_baseline(&mut bits, Some(AGE));
    put_players(&mut bits, &[None; PLAYERS_MAX]);
    put_record_count(&mut bits, changes.len() as u32);
    let mut next = 0;
    for (index, predicted, now) in changes {
        put_updated(&mut bits, index - next, predicted, now);
        next = index + 1;
    }
    PREFIX_BYTES + bits.finish().expect("room")
}

/// The payload of an Event datagram full of spawns, cut to `len` bytes.
fn event_like(len: usize) -> Vec<u8> {
    let mut rng = Rng::new(9);
    let mut bytes = Vec::with_capacity(len + 31);
    let mut id = 0u16;
    while bytes.len() < len {
        let game = GameEvent::Spawn {
            id: EntityId::new(u32::from(id) + 1, 0),
            kind: Kind::BYDOS,
            owner: None,
            x: 122_880,
            y: rng.between(0, 1080) * 64,
            vx: -192,
            vy: 0,
        };
        let mut content = [0; 27];
        let content_len = Event::from_game(600, &game).emit(&mut content);
        bytes.extend(id.to_le_bytes());
        bytes.extend((content_len as u16).to_le_bytes());
        bytes.extend(content);
        id += 1;
    }
    bytes.truncate(len);
    bytes
}

fn noise(len: usize) -> Vec<u8> {
    let mut rng = Rng::new(10);
    (0..len).map(|_| rng.next_u32() as u8).collect()
}
