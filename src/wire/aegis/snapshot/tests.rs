use std::collections::BTreeMap;

use super::*;
use crate::model::{Entity, Kind, PLAYERS_MAX, POSITION_MAX, POSITION_MIN, PlayerId, PlayerState};
use crate::wire::bits::BitWriter;

mod random;

/// What a snapshot is to say.
#[derive(Clone, Debug)]
struct World {
    tick: u32,
    input: u16,
    players: [Option<PlayerState>; PLAYERS_MAX],
    entities: BTreeMap<u32, Entity>,
}

const CAPACITY: usize = 96;

/// Writes a payload: the prefix, and the bits that `write` appends.
fn payload(tick: u32, input: u16, write: impl FnOnce(&mut BitWriter<'_>)) -> Vec<u8> {
    let mut out = vec![0xEE; 8192];
    put_prefix(&mut out, tick, input);
    let mut bits = BitWriter::new(&mut out[PREFIX_BYTES..]);
    write(&mut bits);
    let len = bits.finish().expect("room");
    out.truncate(PREFIX_BYTES + len);
    out
}

fn full(world: &World) -> Vec<u8> {
    payload(world.tick, world.input, |bits| {
        put_baseline(bits, None);
        put_players(bits, &world.players);
        put_record_count(bits, world.entities.len() as u32);
        let mut next = 0;
        for (&index, entity) in &world.entities {
            let start = bits.bit_len();
            put_added(bits, index - next, entity);
            assert_eq!(bits.bit_len() - start, added_bits(index - next) as usize);
            next = index + 1;
        }
    })
}

enum Change<'a> {
    Added(&'a Entity),
    Updated(Entity, &'a Entity),
    Removed,
}

fn delta(baseline: &World, world: &World) -> Vec<u8> {
    let age = world.tick - baseline.tick;
    let mut changes = BTreeMap::new();
    for (&index, entity) in &world.entities {
        let predicted = baseline.entities.get(&index).map(|old| old.predicted(age));
        match predicted {
            Some(predicted) if predicted == *entity => {}
            Some(predicted) if is_same_thing(&predicted, entity) => {
                changes.insert(index, Change::Updated(predicted, entity));
            }
            _ => {
                changes.insert(index, Change::Added(entity));
            }
        }
    }
    for index in baseline.entities.keys().filter(|index| !world.entities.contains_key(index)) {
        changes.insert(*index, Change::Removed);
    }
    let mut players = world.players;
    for (player, old) in players.iter_mut().zip(&baseline.players) {
        if player == old {
            *player = None;
        }
    }
    payload(world.tick, world.input, |bits| {
        put_baseline(bits, Some(age));
        put_players(bits, &players);
        put_record_count(bits, changes.len() as u32);
        let mut next = 0;
        for (index, change) in changes {
            let gap = index - next;
            let start = bits.bit_len();
            let cost = match change {
                Change::Added(entity) => {
                    put_added(bits, gap, entity);
                    added_bits(gap)
                }
                Change::Updated(predicted, entity) => {
                    put_updated(bits, gap, &predicted, entity);
                    updated_bits(gap, &predicted, entity)
                }
                Change::Removed => {
                    put_removed(bits, gap);
                    removed_bits(gap)
                }
            };
            assert_eq!(bits.bit_len() - start, cost as usize);
            next = index + 1;
        }
    })
}

fn is_same_thing(a: &Entity, b: &Entity) -> bool {
    (a.generation, a.kind, a.owner(), a.variant()) == (b.generation, b.kind, b.owner(), b.variant())
}

fn decoded(payload: &[u8], baseline: Option<&Table>) -> Result<Table, SnapshotError> {
    let mut table = Table::new(CAPACITY);
    decode(payload, baseline, &mut table).map(|()| table)
}

/// The world that a table shows.
fn world(table: &Table) -> World {
    World {
        tick: table.tick(),
        input: table.input(),
        players: *table.players(),
        entities: table.iter().map(|(index, entity)| (index, *entity)).collect(),
    }
}

fn assert_shows(table: &Table, expected: &World) {
    assert_eq!((table.tick(), table.input()), (expected.tick, expected.input));
    assert_eq!(*table.players(), expected.players);
    assert!(table.iter().eq(expected.entities.iter().map(|(&index, entity)| (index, entity))));
    for (index, entity) in &expected.entities {
        assert_eq!(table.get(*index), Some(entity));
    }
    assert_eq!(table.get(0), None);
}

/// A small world at tick 100: one player, entities 1, 5 and 300.
fn example() -> World {
    let ship = Entity::new(Kind::SHIP).with_owner(PlayerId::new(0)).moving(6400, 6400, 0, 0);
    let bydos = Entity::new(Kind::BYDOS).with_variant(3).moving(100_000, 20_000, -192, 7);
    World {
        tick: 100,
        input: 9,
        players: [Some(PlayerState { alive: true, lives: 3, score: 1000 }), None, None, None],
        entities: BTreeMap::from([(1, ship), (5, bydos), (300, bydos)]),
    }
}

/// A snapshot of tick 110 made of raw parts: with the example as baseline, or full.
fn raw(is_delta: bool, write: impl FnOnce(&mut BitWriter<'_>)) -> Result<Table, SnapshotError> {
    let bytes = payload(110, 0, |bits| {
        put_baseline(bits, is_delta.then_some(10));
        write(bits);
    });
    let baseline = decoded(&full(&example()), None).unwrap();
    decoded(&bytes, Some(&baseline))
}

/// A snapshot without players and with one record, made of raw parts.
fn raw_record(is_delta: bool, write: impl FnOnce(&mut BitWriter<'_>)) -> Result<Table, SnapshotError> {
    raw(is_delta, |bits| {
        put_players(bits, &[None; PLAYERS_MAX]);
        put_record_count(bits, 1);
        write(bits);
    })
}

/// The bits of an added record with an owner as given.
fn put_raw_added(bits: &mut BitWriter<'_>, gap: u32, owner: u64) {
    bits.put_varint(gap);
    bits.put(ADDED, CHANGE_BITS);
    bits.put(1 << 8 | owner << 11, 18);
    bits.put(0, 40);
    bits.put(0, 32);
}

#[test]
fn an_empty_world() {
    let empty = World { tick: 0, input: 0, players: [None; PLAYERS_MAX], entities: BTreeMap::new() };
    let bytes = full(&empty);
    // 48 bits, then delta, player count and record count: 8 bits.
    assert_eq!(bytes, [0; 7]);
    assert_shows(&decoded(&bytes, None).unwrap(), &empty);
}

#[test]
fn every_truncation_is_dropped() {
    let old = example();
    let mut new = old.clone();
    new.tick = 106;
    new.entities.get_mut(&1).unwrap().x += 5;
    new.entities.get_mut(&5).unwrap().x += 5000;
    new.entities.remove(&300);
    new.entities.insert(7, Entity::new(Kind::MISSILE));
    let baseline = decoded(&full(&old), None).unwrap();
    for bytes in [full(&old), delta(&old, &new)] {
        assert!(decoded(&bytes, Some(&baseline)).is_ok());
        for len in 0..bytes.len() {
            let error = decoded(&bytes[..len], Some(&baseline)).unwrap_err();
            assert_eq!(error, SnapshotError::Truncated, "{len} of {} bytes", bytes.len());
        }
    }
}

#[test]
fn bytes_after_the_last_record_are_malformed() {
    let mut bytes = full(&example());
    bytes.push(0);
    assert_eq!(decoded(&bytes, None).err(), Some(SnapshotError::Trailing));
}

#[test]
fn padding_bits_other_than_0_are_malformed() {
    let mut world = example();
    let bydos = world.entities.remove(&300).unwrap();
    world.entities.insert(15, bydos);
    let bytes = full(&world);
    // Prefix, delta, player count, one player (a varint of four groups), record count, records.
    let used = 48 + 1 + 3 + 8 + 16 + 4 + added_bits(1) + added_bits(3) + added_bits(9);
    assert_eq!(bytes.len() * 8 - used as usize, 4);
    assert!(decoded(&bytes, None).is_ok());
    for bit in 4..8 {
        let mut bytes = bytes.clone();
        *bytes.last_mut().unwrap() |= 1 << bit;
        assert_eq!(decoded(&bytes, None).err(), Some(SnapshotError::Trailing), "bit {bit}");
    }
}

#[test]
fn more_than_four_players_are_malformed() {
    for count in 5..8 {
        assert_eq!(raw(false, |bits| bits.put(count, 3)).err(), Some(SnapshotError::PlayerCount));
    }
}

#[test]
fn a_player_above_3_is_malformed() {
    for player in 4..8 {
        let result = raw(false, |bits| {
            bits.put(1, 3);
            bits.put(player, 8);
            bits.put_varint(0);
            put_record_count(bits, 0);
        });
        assert_eq!(result.err(), Some(SnapshotError::Player));
    }
}

#[test]
fn the_same_player_twice_is_malformed() {
    let result = raw(false, |bits| {
        bits.put(2, 3);
        for _ in 0..2 {
            bits.put(2, 8);
            bits.put_varint(0);
        }
        put_record_count(bits, 0);
    });
    assert_eq!(result.err(), Some(SnapshotError::PlayerTwice));
}

/// Any varint: of the baseline age, of a score, of the record count, of a gap.
#[test]
fn a_varint_longer_than_it_must_be_is_malformed() {
    let long_one = |bits: &mut BitWriter<'_>| bits.put(0x09, 8);
    let malformed = Some(SnapshotError::Varint);
    let age = payload(110, 0, |bits| {
        bits.put(1, 1);
        long_one(bits);
    });
    assert_eq!(decoded(&age, None).err(), malformed);
    assert_eq!(SnapshotHeader::parse(&age), Err(SnapshotError::Varint));
    let score = raw(false, |bits| {
        bits.put(1, 3);
        bits.put(0, 8);
        long_one(bits);
    });
    assert_eq!(score.err(), malformed);
    let record_count = raw(false, |bits| {
        bits.put(0, 3);
        long_one(bits);
    });
    assert_eq!(record_count.err(), malformed);
    assert_eq!(raw_record(false, long_one).err(), malformed);
    let past_32_bits = raw_record(false, |bits| bits.put(0x7FF_FFFF_FFFF, 44));
    assert_eq!(past_32_bits.err(), malformed);
}

#[test]
fn an_index_past_24_bits_is_malformed() {
    assert!(raw_record(false, |bits| put_raw_added(bits, (1 << 24) - 1, 0)).is_ok());
    for gap in [1 << 24, 1 << 31, u32::MAX] {
        let result = raw_record(false, |bits| put_raw_added(bits, gap, 0));
        assert_eq!(result.err(), Some(SnapshotError::Index), "gap {gap}");
    }
    for gap in [0, 5, u32::MAX] {
        let result = raw(false, |bits| {
            bits.put(0, 3);
            put_record_count(bits, 2);
            put_raw_added(bits, (1 << 24) - 1, 0);
            put_raw_added(bits, gap, 0);
        });
        assert_eq!(result.err(), Some(SnapshotError::Index), "gap {gap} after the last index");
    }
}

#[test]
fn index_0_is_malformed() {
    let result = raw_record(false, |bits| put_raw_added(bits, 0, 0));
    assert_eq!(result.err(), Some(SnapshotError::Index));
}

#[test]
fn a_baseline_age_of_0_or_above_the_tick_is_malformed() {
    for (tick, age) in [(10, 0), (10, 11), (0, 0), (0, 1), (5, u32::MAX)] {
        let bytes = payload(tick, 0, |bits| {
            bits.put(1, 1);
            bits.put_varint(age);
            bits.put(0, 7);
        });
        assert_eq!(decoded(&bytes, None).err(), Some(SnapshotError::BaselineAge), "age {age} at tick {tick}");
        assert_eq!(SnapshotHeader::parse(&bytes), Err(SnapshotError::BaselineAge));
    }
    let oldest = payload(10, 0, |bits| put_baseline(bits, Some(10)));
    assert_eq!(SnapshotHeader::parse(&oldest).map(|header| header.baseline_tick()), Ok(Some(0)));
}

#[test]
fn a_change_of_3_is_malformed() {
    for is_delta in [false, true] {
        let result = raw_record(is_delta, |bits| {
            bits.put_varint(1);
            bits.put(3, CHANGE_BITS);
            bits.put(0, 40);
        });
        assert_eq!(result.err(), Some(SnapshotError::Change));
    }
}

#[test]
fn an_update_of_no_fields_is_malformed() {
    let result = raw_record(true, |bits| {
        bits.put_varint(1);
        bits.put(UPDATED, CHANGE_BITS);
        bits.put(0, FIELDS_BITS);
    });
    assert_eq!(result.err(), Some(SnapshotError::Fields));
}

#[test]
fn an_owner_of_4_to_6_is_malformed() {
    for owner in 0..8 {
        let result = raw_record(false, |bits| put_raw_added(bits, 1, owner));
        match owner {
            4..=6 => assert_eq!(result.err(), Some(SnapshotError::Owner)),
            _ => assert_eq!(result.unwrap().get(1).unwrap().owner(), PlayerId::new(owner as u8)),
        }
    }
}

#[test]
fn an_update_or_removal_in_a_full_snapshot_is_malformed() {
    let updated = raw_record(false, |bits| {
        bits.put_varint(1);
        bits.put(UPDATED, CHANGE_BITS);
        bits.put(HEALTH, FIELDS_BITS);
        bits.put(9, HEALTH_BITS);
    });
    assert_eq!(updated.err(), Some(SnapshotError::DeltaInFull));
    assert_eq!(raw_record(false, |bits| put_removed(bits, 1)).err(), Some(SnapshotError::DeltaInFull));
}

/// Not malformed, but dropped all the same (4.8).
#[test]
fn an_update_or_removal_of_an_index_that_the_baseline_lacks() {
    for index in [2, 4, 6, 301] {
        let updated = raw_record(true, |bits| {
            bits.put_varint(index);
            bits.put(UPDATED, CHANGE_BITS);
            bits.put(HEALTH, FIELDS_BITS);
            bits.put(9, HEALTH_BITS);
        });
        assert_eq!(updated.err(), Some(SnapshotError::UnknownIndex), "index {index}");
        let removed = raw_record(true, |bits| put_removed(bits, index));
        assert_eq!(removed.err(), Some(SnapshotError::UnknownIndex), "index {index}");
    }
    assert!(!SnapshotError::UnknownIndex.is_malformed());
}

#[test]
fn a_delta_without_its_baseline_is_told() {
    let bytes = payload(110, 0, |bits| {
        put_baseline(bits, Some(10));
        bits.put(0, 7);
    });
    assert_eq!(decoded(&bytes, None).err(), Some(SnapshotError::MissingBaseline));
    // A table of another tick is not the baseline.
    let other = decoded(&full(&World { tick: 99, ..example() }), None).unwrap();
    assert_eq!(decoded(&bytes, Some(&other)).err(), Some(SnapshotError::MissingBaseline));
    assert!(!SnapshotError::MissingBaseline.is_malformed());
    assert!(SnapshotError::Truncated.is_malformed());
}

#[test]
fn more_entities_than_the_table_holds_are_told() {
    let bytes = full(&example());
    let mut small = Table::new(2);
    assert_eq!(decode(&bytes, None, &mut small), Err(SnapshotError::TooManyEntities));
    let mut exact = Table::new(3);
    assert_eq!(decode(&bytes, None, &mut exact), Ok(()));
    assert_eq!((exact.len(), exact.capacity()), (3, 3));
    // Carried over from a larger baseline.
    let still = payload(101, 0, |bits| {
        put_baseline(bits, Some(1));
        bits.put(0, 7);
    });
    assert_eq!(decode(&still, Some(&exact), &mut small), Err(SnapshotError::TooManyEntities));
    assert!(!SnapshotError::TooManyEntities.is_malformed());
}

/// The count may claim anything: what is read ends with the payload (field case 5).
#[test]
fn case_05_a_record_count_of_4_billion_ends_with_the_payload() {
    let result = raw(false, |bits| {
        bits.put(0, 3);
        put_record_count(bits, u32::MAX);
        put_raw_added(bits, 1, 0);
    });
    assert_eq!(result.err(), Some(SnapshotError::Truncated));
}

/// Kinds 0 and 5 to 7 are reserved: they decode, and later deltas may build on them (4.1).
#[test]
fn unknown_kinds_stay_in_the_table() {
    let mut world = example();
    for kind in 0..8 {
        world.entities.insert(10 + u32::from(kind), Entity::new(Kind(kind)).moving(0, 0, 64, 0));
    }
    let baseline = decoded(&full(&world), None).unwrap();
    assert_shows(&baseline, &world);
    let mut next = World { tick: 103, ..world.clone() };
    next.entities.values_mut().for_each(|entity| *entity = entity.predicted(3));
    next.entities.get_mut(&16).unwrap().health = 77;
    let table = decoded(&delta(&world, &next), Some(&baseline)).unwrap();
    assert_shows(&table, &next);
    assert_eq!(table.get(16).map(|entity| (entity.kind.is_known(), entity.x)), Some((false, 192)));
}

#[test]
fn straight_flight_costs_no_record() {
    let world = example();
    let baseline = decoded(&full(&world), None).unwrap();
    let still = payload(164, 9, |bits| {
        put_baseline(bits, Some(64));
        bits.put(0, 7);
    });
    let table = decoded(&still, Some(&baseline)).unwrap();
    let mut expected = World { tick: 164, ..world };
    expected.entities.values_mut().for_each(|entity| *entity = entity.predicted(64));
    assert_shows(&table, &expected);
    assert_eq!(table.get(5).map(|entity| (entity.x, entity.y)), Some((100_000 - 192 * 64, 20_000 + 7 * 64)));
}

/// An added record replaces what stood at its index.
#[test]
fn an_added_record_replaces() {
    let old = example();
    let mut new = World { tick: 101, ..old.clone() };
    new.entities.values_mut().for_each(|entity| *entity = entity.predicted(1));
    let mut other = Entity::new(Kind::TILE);
    other.generation = 1;
    new.entities.insert(5, other);
    let baseline = decoded(&full(&old), None).unwrap();
    assert_shows(&decoded(&delta(&old, &new), Some(&baseline)).unwrap(), &new);
}

/// Offsets of eight bits go narrow, all others wide; both ends of the range.
#[test]
fn the_narrow_form_is_used_where_it_fits() {
    let predicted = example().entities[&1];
    for (dx, dy, is_narrow) in [
        (127, -128, true),
        (-128, 127, true),
        (128, 0, false),
        (0, -129, false),
        (1, 0, true),
        (0, 128, false),
    ] {
        let moved = predicted.moving(predicted.x + dx, predicted.y + dy, 0, 0);
        let bits = updated_bits(0, &predicted, &moved);
        assert_eq!(bits, 4 + 2 + 3 + if is_narrow { 17 } else { 41 }, "{dx} {dy}");
    }
}

/// The wide form of what fits the narrow one is not ours, but it is not malformed either.
#[test]
fn a_wide_position_that_would_fit_narrow_is_read() {
    let wide = raw_record(true, |bits| {
        bits.put_varint(1);
        bits.put(UPDATED, CHANGE_BITS);
        bits.put(POSITION, FIELDS_BITS);
        bits.put(1, 1);
        bits.put_signed(6401, POSITION_BITS);
        bits.put_signed(6400, POSITION_BITS);
    });
    assert_eq!(wide.unwrap().get(1).map(|entity| (entity.x, entity.y)), Some((6401, 6400)));
}

#[test]
fn an_offset_out_of_the_position_range_is_malformed() {
    for (x, dx, is_valid) in [
        (POSITION_MAX, 1, false),
        (POSITION_MAX, -1, true),
        (POSITION_MIN, -1, false),
        (POSITION_MIN, 1, true),
    ] {
        let mut world = example();
        world.entities.insert(1, Entity::new(Kind::SHIP).moving(x, 0, 0, 0));
        let baseline = decoded(&full(&world), None).unwrap();
        let bytes = payload(110, 0, |bits| {
            put_baseline(bits, Some(10));
            put_players(bits, &[None; PLAYERS_MAX]);
            put_record_count(bits, 1);
            bits.put_varint(1);
            bits.put(UPDATED, CHANGE_BITS);
            bits.put(POSITION, FIELDS_BITS);
            bits.put(0, 1);
            bits.put_signed(dx, OFFSET_BITS);
            bits.put_signed(0, OFFSET_BITS);
        });
        let result = decoded(&bytes, Some(&baseline)).map(|table| table.get(1).unwrap().x);
        assert_eq!(result, if is_valid { Ok(x + dx) } else { Err(SnapshotError::Position) });
    }
}

/// A full snapshot lists everyone in the match: who is absent from it is not in it. A delta keeps who is absent.
#[test]
fn absent_players_are_gone_from_a_full_snapshot_and_kept_by_a_delta() {
    let player = |score| Some(PlayerState { alive: false, lives: 15, score });
    let old = World { players: [player(1), player(2), None, None], ..example() };
    let baseline = decoded(&full(&old), None).unwrap();
    let bytes = payload(101, 0, |bits| {
        put_baseline(bits, Some(1));
        put_players(bits, &[None, player(9), None, player(u32::MAX)]);
        put_record_count(bits, 0);
    });
    let table = decoded(&bytes, Some(&baseline)).unwrap();
    assert_eq!(*table.players(), [player(1), player(9), None, player(u32::MAX)]);
    let mut reused = table;
    decode(&full(&example()), Some(&baseline), &mut reused).unwrap();
    assert_shows(&reused, &example());
}

/// What follows the prefix is the same wherever it is written: it may be encoded once for many clients.
#[test]
fn the_part_after_the_prefix_can_be_shared() {
    let [mine, yours] =
        [World { input: 1, ..example() }, World { input: 0xFFFF, ..example() }].map(|w| full(&w));
    assert_eq!(mine[PREFIX_BYTES..], yours[PREFIX_BYTES..]);
    let mut out = [0; 1182];
    put_prefix(&mut out, 100, 0xFFFF);
    let mut bits = BitWriter::new(&mut out[PREFIX_BYTES..]);
    bits.put_bytes(&mine[PREFIX_BYTES..]);
    let len = bits.finish().unwrap();
    assert_eq!(out[..PREFIX_BYTES + len], yours);
}

#[test]
#[should_panic(expected = "did not change")]
fn an_update_of_nothing_asserts() {
    let entity = Entity::new(Kind::SHIP);
    put_updated(&mut BitWriter::new(&mut [0; 20]), 0, &entity, &entity);
}
