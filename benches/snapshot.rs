//! The snapshot encoder and decoder over rooms of 16 to 1000 entities, at the baseline ages that a near and a far client
//! have. Figures are per snapshot; the throughput lines are per entity or per record.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

use tickwire::model::{Entity, EntityTable, Kind, PLAYERS_MAX, PlayerId, PlayerState};
use tickwire::rng::Rng;
use tickwire::snapshot::{Encoder, History, Request, View};
use tickwire::time::Tick;
use tickwire::wire::aegis::PAYLOAD_BYTES_MAX;
use tickwire::wire::aegis::snapshot::{Table, decode};

/// Ticks between frames: one a tick, so that every age is there.
const INTERVAL: u32 = 1;

criterion_group!(benches, encode, decode_snapshots);
criterion_main!(benches);

/// A room in which a quarter of the entities turned or were hit in each tick, and the rest fly straight.
struct Room {
    table: EntityTable,
    history: History,
    tick: Tick,
    players: [Option<PlayerState>; PLAYERS_MAX],
}

impl Room {
    fn new(entities: usize) -> Self {
        let mut rng = Rng::new(7);
        let mut table = EntityTable::new(entities);
        for number in 0..entities {
            let kind = if number < PLAYERS_MAX { Kind::SHIP } else { Kind::BYDOS };
            let owner = PlayerId::new(number.min(255) as u8).filter(|_| number < PLAYERS_MAX);
            let (x, y) = (rng.between(0, 120_000), rng.between(0, 69_000));
            let (vx, vy) = (rng.between(-192, 192) as i16, rng.between(-64, 64) as i16);
            table.insert(Entity::new(kind).with_owner(owner).moving(x, y, vx, vy));
        }
        let mut room = Self {
            table,
            history: History::new(entities, INTERVAL),
            tick: Tick(100),
            players: [Some(PlayerState { alive: true, lives: 3, score: 1250 }); PLAYERS_MAX],
        };
        for _ in 0..20 {
            room.step(&mut rng);
        }
        room
    }

    /// Within the last twelve ticks a quarter of the entities changes course once.
    fn step(&mut self, rng: &mut Rng) {
        let indices: Vec<u32> = self.table.indices().collect();
        for index in indices {
            let entity = self.table.get_mut(index).expect("a living index");
            entity.x += i32::from(entity.vx);
            entity.y += i32::from(entity.vy);
            if rng.chance(1, 48) {
                entity.vx = rng.between(-192, 192) as i16;
            }
        }
        self.tick = self.tick.plus(INTERVAL);
        self.history.push(self.tick, &self.players, &self.table);
    }

    fn request(&self, room: u32) -> Request<'_> {
        Request { room, history: &self.history, input: 4660, focus: Some(1) }
    }

    /// A client that has acknowledged the snapshot `age` ticks ago, or none.
    fn view(&self, age: Option<u32>) -> View {
        let mut view = View::new(self.table.capacity(), INTERVAL);
        if let Some(age) = age {
            let tick = Tick(self.tick.0 - age);
            view.sent_exact(tick);
            view.acknowledged(tick);
        }
        view
    }
}

fn encode(c: &mut Criterion) {
    let mut out = [0; PAYLOAD_BYTES_MAX];
    for entities in [16usize, 64, 256, 1000] {
        let room = Room::new(entities);
        let mut encoder = Encoder::new(entities);
        let mut group = c.benchmark_group("encode");
        group.throughput(Throughput::Elements(entities as u64));
        for (name, age) in [("full", None), ("delta_age_3", Some(3)), ("delta_age_12", Some(12))] {
            let mut view = room.view(age);
            let mut number = 0;
            group.bench_function(BenchmarkId::new(name, entities), |b| {
                b.iter(|| {
                    // Another room number each time: nothing is cached.
                    number += 1;
                    black_box(encoder.encode(&room.request(number), &mut view, &mut out))
                });
            });
        }
        let mut view = room.view(Some(3));
        group.bench_function(BenchmarkId::new("cached_age_3", entities), |b| {
            b.iter(|| black_box(encoder.encode(&room.request(0), &mut view, &mut out)));
        });
        group.finish();
    }
}

fn decode_snapshots(c: &mut Criterion) {
    let mut out = [0; PAYLOAD_BYTES_MAX];
    for entities in [16usize, 64] {
        let mut room = Room::new(entities);
        let mut encoder = Encoder::new(entities);
        let mut view = View::new(entities, INTERVAL);
        let mut base = Table::new(entities);
        let len = encoder.encode(&room.request(0), &mut view, &mut out);
        decode(&out[..len], None, &mut base).expect("a full snapshot");
        let full = out[..len].to_vec();
        view.acknowledged(room.tick);
        let mut rng = Rng::new(8);
        (0..12).for_each(|_| room.step(&mut rng));
        let len = encoder.encode(&room.request(0), &mut view, &mut out);
        let delta = out[..len].to_vec();
        let mut table = Table::new(entities);
        let mut group = c.benchmark_group("decode");
        group.throughput(Throughput::Elements(entities as u64));
        group.bench_function(BenchmarkId::new("full", entities), |b| {
            b.iter(|| decode(black_box(&full), None, &mut table).expect("a full snapshot"));
        });
        group.bench_function(BenchmarkId::new("delta_age_12", entities), |b| {
            b.iter(|| decode(black_box(&delta), Some(&base), &mut table).expect("a delta"));
        });
        group.finish();
    }
}
