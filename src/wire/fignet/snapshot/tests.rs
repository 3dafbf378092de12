use proptest::prelude::*;

use super::*;
use crate::model::{Kind, PlayerId, PlayerState, VELOCITY_MAX, VELOCITY_MIN};
use crate::wire::cursor::Writer;

const HEAD: Head = Head {
    sequence: 600,
    timestamp_us: 10_000_000,
    count: 0,
    coder: Coder::Plain,
    precision: Precision::Exact,
    baseline_age: None,
};

fn message(head: Head, records: &[&[u8]]) -> Vec<u8> {
    let mut out = [0; MESSAGE_BYTES_MAX];
    let mut writer = Writer::new(&mut out);
    put_head(&mut writer, &Head { count: records.len() as u16, ..head });
    records.iter().for_each(|record| writer.bytes(record));
    let len = writer.finish().unwrap();
    out[..len].to_vec()
}

fn written(write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut out = [0; 64];
    let mut writer = Writer::new(&mut out);
    write(&mut writer);
    let len = writer.finish().unwrap();
    out[..len].to_vec()
}

fn ship() -> Entity {
    let mut ship =
        Entity::new(Kind::SHIP).with_owner(PlayerId::new(2)).with_variant(5).moving(6400, 32_000, 0, -256);
    ship.generation = 3;
    ship
}

/// A full snapshot of a player's standing and a ship, as decoded by hand from the documentation.
#[test]
fn the_full_example_of_the_documentation() {
    let standing = PlayerState { alive: true, lives: 3, score: 1250 };
    let player = PlayerId::new(2).unwrap();
    let records = [
        written(|out| put_standing(out, player, None, &standing)),
        written(|out| put_whole(out, Precision::Exact, 7, &ship())),
    ];
    let bytes = message(HEAD, &[&records[0], &records[1]]);
    let expected = [
        0x58, 0x02, 0x80, 0x96, 0x98, 0, 0, 0, 0, 0, 2, 0, 0x00, // sequence, time, count, flags
        2, 0, 0, 0, 0x80, 0x83, 0x83, 0xE2, 0x04, 0, 0, // standing: alive, 3 lives, 1250 points
        7, 0, 0, 3, 1, 0xAB, 0x00, 0x19, 0x01, 0x00, 0x7D, 0x01, 0x00, 0xFF, 0x52, // the ship
    ];
    assert_eq!(bytes, expected);
    let mut table = Table::new(4);
    assert_eq!(decode(&bytes, None, &mut table), Ok(()));
    assert_eq!(table.get(7), Some(&ship()));
    assert_eq!(table.players()[2], Some(standing));
    assert_eq!((table.sequence(), table.timestamp_us(), table.len()), (600, 10_000_000, 1));

    // Six ticks on, the ship flew up as expected but one unit to the right, and its player scored.
    let mut moved = ship().predicted(6);
    moved.x += 1;
    let scored = PlayerState { score: 1350, ..standing };
    let records = [
        written(|out| put_standing(out, player, Some(&standing), &scored)),
        written(|out| {
            put_changed(out, Precision::Exact, 7, &Precision::Exact.expected(&ship(), 6), &moved);
        }),
    ];
    let head = Head { sequence: 606, timestamp_us: 10_100_000, baseline_age: Some(6), ..HEAD };
    let delta = message(head, &[&records[0], &records[1]]);
    let expected = [
        0x5E, 0x02, 0x20, 0x1D, 0x9A, 0, 0, 0, 0, 0, 2, 0, 0x04, 6, // a delta over six ticks
        2, 0, 0, 0, 0x80, 0x02, 0x46, 0x05, 0, 0, // 1350 points
        7, 0, 0, 3, 1, 0x41, 1, // near: x + 1
    ];
    assert_eq!(delta, expected);
    let mut after = Table::new(4);
    assert_eq!(decode(&delta, Some(&table), &mut after), Ok(()));
    assert_eq!((after.get(7), after.players()[2]), (Some(&moved), Some(scored)));
}

#[test]
fn coarse_positions_are_off_by_two_units_at_most() {
    for precision in [Precision::Exact, Precision::Coarse] {
        for x in (POSITION_MIN..=POSITION_MAX).step_by(7).chain([POSITION_MAX]) {
            let told = precision.told(&Entity::new(Kind::BYDOS).moving(x, 0, 0, 0));
            let off = told.x.abs_diff(x);
            let most = match precision {
                Precision::Exact => 0,
                // The last half step has no code above it.
                Precision::Coarse if x > POSITION_MAX - 3 => 3,
                Precision::Coarse => 2,
            };
            assert!(off <= most, "{x} is told as {}", told.x);
            assert_eq!(precision.told(&told), told);
        }
    }
}

#[test]
fn what_is_malformed_is_named() {
    use SnapshotError as E;
    let ship_record = written(|out| put_whole(out, Precision::Exact, 7, &ship()));
    let mut base = Table::new(4);
    decode(&message(HEAD, &[&ship_record]), None, &mut base).unwrap();
    let delta = Head { sequence: 603, baseline_age: Some(3), ..HEAD };
    let cases: &[(E, Head, &[&[u8]])] = &[
        (E::MissingBaseline, Head { sequence: 604, ..delta }, &[]),
        (E::Coded, Head { coder: Coder::Huffman, ..HEAD }, &[]),
        (E::Id, HEAD, &[&[0, 0, 0, 0, 1, 0x80]]),
        (E::Id, HEAD, &[&ship_record, &ship_record]),
        (E::Id, HEAD, &[&ship_record, &[0, 0, 0, 0, 0x80, 0x80]]),
        (E::Id, HEAD, &[&[1, 0, 0, 0, 0x80, 0x80], &[1, 0, 0, 0, 0x80, 0x80]]),
        (E::Id, HEAD, &[&[4, 0, 0, 0, 0x80, 0x80]]),
        (E::Id, delta, &[&[7, 0, 0, 3, 0, 0]]),
        (E::Type, HEAD, &[&[7, 0, 0, 3, 0x81, 0x80]]),
        (E::Fields, delta, &[&[7, 0, 0, 0, 0, 1]]),
        (E::Fields, delta, &[&[7, 0, 0, 3, 1, 0]]),
        (E::Fields, delta, &[&[7, 0, 0, 3, 1, 0x40]]),
        (E::Fields, delta, &[&[7, 0, 0, 3, 1, 0xC1, 0]]),
        (E::Fields, HEAD, &[&[1, 0, 0, 0, 0x80, 0x84]]),
        (E::Unknown, delta, &[&[8, 0, 0, 0, 0, 0]]),
        (E::Unknown, HEAD, &[&[7, 0, 0, 0, 0, 0]]),
        (E::Unknown, HEAD, &[&[7, 0, 0, 3, 1, 0x10, 9]]),
        (E::Unknown, delta, &[&[7, 0, 0, 4, 1, 0x10, 9]]),
        (E::Unknown, delta, &[&[7, 0, 0, 3, 2, 0x10, 9]]),
        (E::Unknown, delta, &[&[1, 0, 0, 0, 0x80, 0x01, 0x83]]),
        (E::Unknown, delta, &[&[1, 0, 0, 0, 0x80, 0]]),
        (E::Position, HEAD, &[&[7, 0, 0, 3, 1, 0x81, 0, 0, 4]]),
        (E::Velocity, HEAD, &[&[7, 0, 0, 3, 1, 0x84, 0, 8]]),
        (E::Owner, HEAD, &[&[7, 0, 0, 3, 1, 0xA0, 4]]),
        (E::Lives, HEAD, &[&[1, 0, 0, 0, 0x80, 0x81, 0x10]]),
        (E::Truncated, HEAD, &[&[7, 0, 0, 3, 1, 0x81, 0, 0]]),
        (E::Truncated, HEAD, &[&[7, 0, 0, 3, 1]]),
        (E::Trailing, HEAD, &[&[7, 0, 0, 3, 1, 0x80, 0]]),
    ];
    let mut out = Table::new(4);
    for (at, (error, head, records)) in cases.iter().enumerate() {
        assert_eq!(decode(&message(*head, records), Some(&base), &mut out), Err(*error), "case {at}");
    }
    let mut flags = message(HEAD, &[]);
    flags[FLAGS_AT] = 0x10;
    assert_eq!(Head::parse(&flags), Err(E::Flags));
    flags[FLAGS_AT] = DELTA;
    flags.push(0);
    assert_eq!(Head::parse(&flags), Err(E::BaselineAge));
    assert_eq!(Head::parse(&flags[..HEAD_BYTES_MIN]), Err(E::Truncated));
    let mut small = Table::new(0);
    assert_eq!(decode(&message(HEAD, &[&ship_record]), None, &mut small), Err(E::TooManyEntities));
    assert_eq!(decode(&message(delta, &[]), Some(&base), &mut small), Err(E::TooManyEntities));
}

fn entities(kinds: std::ops::Range<u8>) -> impl Strategy<Value = Vec<(u32, Entity)>> {
    let place = (POSITION_MIN..=POSITION_MAX, POSITION_MIN..=POSITION_MAX);
    let speed = (VELOCITY_MIN..=VELOCITY_MAX, VELOCITY_MIN..=VELOCITY_MAX);
    let look = (kinds, 0..5u8, 0..16u8, any::<u8>(), any::<u8>());
    let entity =
        (place, speed, look).prop_map(|((x, y), (vx, vy), (kind, owner, variant, health, generation))| {
            let mut entity = Entity::new(Kind(kind))
                .with_owner(PlayerId::new(owner))
                .with_variant(variant)
                .moving(x, y, vx, vy);
            (entity.health, entity.generation) = (health, generation);
            entity
        });
    prop::collection::btree_map(1..2000u32, entity, 0..30).prop_map(|map| map.into_iter().collect())
}

/// A full snapshot of `entities`, decoded.
fn full(precision: Precision, entities: &[(u32, Entity)]) -> Table {
    let records: Vec<Vec<u8>> = entities
        .iter()
        .map(|(index, entity)| {
            let record = written(|out| put_whole(out, precision, *index, entity));
            assert_eq!(record.len(), whole_bytes(precision, entity));
            record
        })
        .collect();
    let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
    let mut table = Table::new(64);
    decode(&message(Head { precision, ..HEAD }, &records), None, &mut table).unwrap();
    table
}

proptest! {
    #[test]
    fn what_is_told_whole_comes_back(entities in entities(1..128), coarse in any::<bool>()) {
        let precision = if coarse { Precision::Coarse } else { Precision::Exact };
        let table = full(precision, &entities);
        let told = table.indices().iter().copied().zip(table.entities().iter().copied());
        let expected = entities.iter().map(|(index, entity)| (*index, precision.told(entity)));
        prop_assert!(told.eq(expected));
    }

    /// Any change of an entity that stays the same one, over any age.
    #[test]
    fn what_changed_comes_back(
        entities in entities(1..128), other in entities(1..128), age in 1..=255u8, coarse in any::<bool>(),
        near in (-300..300i32, -300..300i32),
    ) {
        let precision = if coarse { Precision::Coarse } else { Precision::Exact };
        let base = full(precision, &entities);
        let mut records = Vec::new();
        let mut expected_table = Vec::new();
        for (at, (index, before)) in entities.iter().enumerate() {
            let expected = precision.expected(before, age.into());
            let mut entity = match other.get(at) {
                Some((_, other)) => *other,
                None => expected,
            };
            (entity.generation, entity.kind) = (before.generation, before.kind);
            if at % 2 == 0 {
                (entity.x, entity.y) = (expected.x + near.0, expected.y + near.1);
            }
            entity.x = entity.x.clamp(POSITION_MIN, POSITION_MAX);
            entity.y = entity.y.clamp(POSITION_MIN, POSITION_MAX);
            expected_table.push((*index, precision.told(&entity)));
            if let Some(bytes) = changed_bytes(precision, &expected, &entity) {
                records.push(written(|out| put_changed(out, precision, *index, &expected, &entity)));
                prop_assert_eq!(records.last().unwrap().len(), bytes);
            }
        }
        let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
        let sequence = HEAD.sequence + u16::from(age);
        let head = Head { sequence, precision, baseline_age: Some(age), ..HEAD };
        let mut table = Table::new(64);
        prop_assert_eq!(decode(&message(head, &records), Some(&base), &mut table), Ok(()));
        let told = table.indices().iter().copied().zip(table.entities().iter().copied());
        prop_assert!(told.eq(expected_table));
    }

    /// A message with a few bytes changed: no panic, and what still decodes has only legal values.
    #[test]
    fn damaged_messages_do_not_panic(
        entities in entities(1..128), at in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(), age in 0..3u8,
    ) {
        let records: Vec<Vec<u8>> = entities
            .iter()
            .map(|(index, entity)| written(|out| put_whole(out, Precision::Exact, *index, entity)))
            .collect();
        let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
        let base = full(Precision::Exact, &entities);
        let baseline_age = (age > 0).then_some(age);
        let sequence = HEAD.sequence + u16::from(age);
        let mut bytes = message(Head { sequence, baseline_age, ..HEAD }, &records);
        for (at, byte) in &at {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        bytes.truncate(HEAD_BYTES_MIN.max(cut.index(bytes.len() * 2)));
        let mut table = Table::new(64);
        if decode(&bytes, Some(&base), &mut table).is_ok() {
            prop_assert!(table.indices().is_sorted());
            for (id, entity) in table.iter() {
                prop_assert!(id.index() > 0 && entity.kind.0 > 0 && entity.kind.0 < 128);
                prop_assert!((POSITION_MIN..=POSITION_MAX).contains(&entity.x));
                prop_assert!((POSITION_MIN..=POSITION_MAX).contains(&entity.y));
            }
        }
    }

    #[test]
    fn any_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let mut table = Table::new(8);
        let _ = decode(&bytes, None, &mut table);
        let base = Table::new(8);
        let _ = decode(&bytes, Some(&base), &mut table);
    }
}
