//! The world's tick: one full room in the middle of a wave, 64 such rooms one after the other, crowds, and the hash.
//! Every figure is per tick (of a room, or of all 64).

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};

use tickwire::model::{Controls, PLAYERS_MAX, PlayerId, PlayerInput};
use tickwire::rng::Rng;
use tickwire::world::rtype::{Level, RtypeGame, Rules};
use tickwire::world::{Events, Game};

/// Ticks that one clone of a prepared room plays, before the next clone starts from the same state.
const STRETCH_TICKS: u64 = 32;

criterion_group!(benches, rooms, crowds, hashes);
criterion_main!(benches);

fn rooms(c: &mut Criterion) {
    let busy = busy_room();
    let len = busy.entities().len();
    assert!((60..=70).contains(&len), "a room of about 64 entities, not {len}");
    c.bench_function("tick/room_64_entities", |b| {
        b.iter_custom(|ticks| time_stretches(ticks, std::slice::from_ref(&busy)));
    });
    let many: Vec<_> = (0..64).map(|_| busy.clone()).collect();
    c.bench_function("tick/64_rooms", |b| b.iter_custom(|ticks| time_stretches(ticks, &many)));
}

fn crowds(c: &mut Criterion) {
    for entities in [256, 1000, 2000] {
        let crowd = crowded_room(entities);
        c.bench_function(&format!("tick/stress_{entities}"), |b| {
            b.iter_custom(|ticks| time_stretches(ticks, std::slice::from_ref(&crowd)));
        });
    }
}

fn hashes(c: &mut Criterion) {
    let busy = busy_room();
    c.bench_function("state_hash/room_64_entities", |b| b.iter(|| black_box(&busy).state_hash()));
    let crowd = crowded_room(2000);
    c.bench_function("state_hash/stress_2000", |b| b.iter(|| black_box(&crowd).state_hash()));
}

/// Time that `rooms` need for `ticks` ticks each, in stretches from the prepared state; the cloning is not counted.
fn time_stretches(ticks: u64, rooms: &[RtypeGame]) -> Duration {
    let mut scratch = rooms.to_vec();
    let mut events = Events::new();
    let mut spent = Duration::ZERO;
    let mut left = ticks;
    while left > 0 {
        let stretch = left.min(STRETCH_TICKS);
        scratch.clone_from_slice(rooms);
        let mut hands = Hands::new(5);
        let inputs: Vec<_> = (0..stretch).map(|_| hands.next()).collect();
        let start = Instant::now();
        for input in &inputs {
            for room in &mut scratch {
                events.clear();
                room.step(input, &mut events);
                black_box(events.as_slice());
            }
        }
        spent += start.elapsed();
        left -= stretch;
    }
    spent
}

/// Level 1 with four players, at the tick of its first 64 entities.
fn busy_room() -> RtypeGame {
    let level = Arc::new(Level::builtin("level1").expect("built in"));
    let rules = Rules { lives: 15, ..Rules::default() };
    let mut room = RtypeGame::new(level, rules, 256);
    join_all(&mut room);
    let (mut hands, mut events) = (Hands::new(1), Events::new());
    for _ in 0..9000 {
        if room.entities().len() >= 64 {
            break;
        }
        events.clear();
        room.step(&hands.next(), &mut events);
    }
    room
}

fn crowded_room(entities: u32) -> RtypeGame {
    let level = Level::builtin("stress").and_then(|level| level.with_entities(entities).ok());
    let mut room = RtypeGame::new(Arc::new(level.expect("built in")), Rules::default(), 4096);
    join_all(&mut room);
    let (mut hands, mut events) = (Hands::new(1), Events::new());
    for _ in 0..entities.div_ceil(8) + 120 {
        events.clear();
        room.step(&hands.next(), &mut events);
    }
    room
}

fn join_all(room: &mut RtypeGame) {
    room.reset(7);
    let mut events = Events::new();
    PlayerId::all().for_each(|player| room.join(player, &mut events));
}

/// Four players who change direction every so often and let go of the trigger six times a second.
struct Hands {
    rng: Rng,
    inputs: [PlayerInput; PLAYERS_MAX],
}

impl Hands {
    fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed), inputs: Default::default() }
    }

    fn next(&mut self) -> [PlayerInput; PLAYERS_MAX] {
        for input in &mut self.inputs {
            if self.rng.chance(1, 20) {
                input.held = Controls::from_bits(self.rng.below(16) as u8).expect("four bits");
            }
            input.fire = self.rng.chance(1, 10);
        }
        self.inputs
    }
}
