//! Random worlds, deltas between them, corrupted ones, and noise.

use proptest::prelude::*;

use super::*;

fn entities() -> impl Strategy<Value = Entity> {
    let position = || prop_oneof![Just(POSITION_MIN), Just(POSITION_MAX), POSITION_MIN..=POSITION_MAX];
    let velocity = || prop_oneof![Just(0), Just(-2048), Just(2047), -2048..=2047i16];
    (
        (position(), position(), velocity(), velocity()),
        (any::<u8>(), any::<u8>(), 0..8u8, 0..16u8, prop::option::of(0..4u8)),
    )
        .prop_map(|((x, y, vx, vy), (health, generation, kind, variant, owner))| {
            let owner = owner.and_then(PlayerId::new);
            let mut entity =
                Entity::new(Kind(kind)).with_owner(owner).with_variant(variant).moving(x, y, vx, vy);
            (entity.health, entity.generation) = (health, generation);
            entity
        })
}

fn indices() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 1..40u32, 1 => 1..2000u32, 1 => 1..=0xFF_FFFFu32]
}

fn players() -> impl Strategy<Value = [Option<PlayerState>; PLAYERS_MAX]> {
    let state = (any::<bool>(), 0..16u8, any::<u32>(), 0..32u32)
        .prop_map(|(alive, lives, score, shift)| PlayerState { alive, lives, score: score >> shift });
    prop::array::uniform4(prop::option::of(state))
}

fn worlds() -> impl Strategy<Value = World> {
    (0..=u32::MAX - 1000, any::<u16>(), players(), prop::collection::btree_map(indices(), entities(), 0..40))
        .prop_map(|(tick, input, players, entities)| World { tick, input, players, entities })
}

/// What becomes of an entity between two snapshots.
#[derive(Clone, Debug)]
enum Fate {
    FliesOn,
    Shifts(i32, i32),
    Turns(i16, i16),
    IsHit(u8),
    Becomes(Entity),
    IsGone,
}

fn fates() -> impl Strategy<Value = Fate> {
    prop_oneof![
        3 => Just(Fate::FliesOn),
        2 => (-140..140i32, -140..140i32).prop_map(|(dx, dy)| Fate::Shifts(dx, dy)),
        1 => (-2048..=2047i16, -2048..=2047i16).prop_map(|(vx, vy)| Fate::Turns(vx, vy)),
        1 => any::<u8>().prop_map(Fate::IsHit),
        1 => entities().prop_map(Fate::Becomes),
        1 => Just(Fate::IsGone),
    ]
}

/// A world and a later one.
fn histories() -> impl Strategy<Value = (World, World)> {
    let later = (
        prop_oneof![4 => 1..=64u32, 1 => 1..=1000u32],
        players(),
        prop::collection::vec((fates(), fates()), 40),
        prop::collection::btree_map(indices(), entities(), 0..20),
    );
    (worlds(), later).prop_map(|(old, (age, players, fates, newcomers))| {
        let mut entities = newcomers;
        for ((&index, entity), (first, second)) in old.entities.iter().zip(fates) {
            let mut now = Some(entity.predicted(age));
            for fate in [first, second] {
                let Some(entity) = &mut now else { break };
                let clamp = |value: i32| value.clamp(POSITION_MIN, POSITION_MAX);
                match fate {
                    Fate::FliesOn => {}
                    Fate::Shifts(dx, dy) => {
                        (entity.x, entity.y) = (clamp(entity.x + dx), clamp(entity.y + dy))
                    }
                    Fate::Turns(vx, vy) => (entity.vx, entity.vy) = (vx, vy),
                    Fate::IsHit(health) => entity.health = health,
                    Fate::Becomes(other) => now = Some(other),
                    Fate::IsGone => now = None,
                }
            }
            match now {
                Some(entity) => entities.insert(index, entity),
                None => entities.remove(&index),
            };
        }
        // Nobody leaves by way of a delta.
        let players = std::array::from_fn(|slot| players[slot].or(old.players[slot]));
        let new = World { tick: old.tick + age, input: old.input.wrapping_add(1), players, entities };
        (old, new)
    })
}

proptest! {
    #[test]
    fn a_full_snapshot_is_read_as_written(world in worlds()) {
        let bytes = full(&world);
        let table = decoded(&bytes, None).unwrap();
        assert_shows(&table, &world);
    }

    #[test]
    fn a_delta_is_read_as_written((old, new) in histories()) {
        let baseline = decoded(&full(&old), None).unwrap();
        let bytes = delta(&old, &new);
        prop_assert_eq!(SnapshotHeader::parse(&bytes).unwrap().baseline_tick(), Some(old.tick));
        assert_shows(&decoded(&bytes, Some(&baseline)).unwrap(), &new);
    }

    #[test]
    fn a_cut_delta_is_truncated((old, new) in histories(), at in any::<prop::sample::Index>()) {
        let baseline = decoded(&full(&old), None).unwrap();
        let bytes = delta(&old, &new);
        let cut = decoded(&bytes[..at.index(bytes.len())], Some(&baseline));
        prop_assert_eq!(cut.err(), Some(SnapshotError::Truncated));
    }

    /// One wrong byte: dropped, or read whole. What is read of a full snapshot is written as the same bits, if its players
    /// came in order.
    #[test]
    fn a_corrupted_full_snapshot_is_read_whole_or_not_at_all(
        world_before in worlds(),
        at in any::<prop::sample::Index>(),
        xor in 1..=255u8,
    ) {
        let mut bytes = full(&world_before);
        let at = at.index(bytes.len());
        bytes[at] ^= xor;
        if let Ok(table) = decoded(&bytes, None) {
            // Players stand in the first byte after the prefix and some that follow it; those may be out of order.
            let rewritten = full(&world(&table));
            prop_assert_eq!(rewritten.len(), bytes.len());
            let player_bits = 4 + table.players().iter().flatten().count() * (8 + 44);
            if at < PREFIX_BYTES || (at - PREFIX_BYTES) * 8 > player_bits {
                prop_assert_eq!(rewritten, bytes);
            }
        }
    }

    #[test]
    fn a_corrupted_delta_is_read_whole_or_not_at_all(
        (old, new) in histories(),
        at in any::<prop::sample::Index>(),
        xor in 1..=255u8,
    ) {
        let baseline = decoded(&full(&old), None).unwrap();
        let mut bytes = delta(&old, &new);
        let at = at.index(bytes.len());
        bytes[at] ^= xor;
        if let Ok(table) = decoded(&bytes, Some(&baseline)) {
            prop_assert!(table.indices().is_sorted_by(|a, b| a < b));
            // What was read can be said in turn, and is understood.
            let read = world(&table);
            if read.tick > old.tick {
                assert_shows(&decoded(&delta(&old, &read), Some(&baseline)).unwrap(), &read);
            }
        }
    }

    #[test]
    fn random_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200), is_near in any::<bool>()) {
        let baseline = decoded(&full(&example()), None).unwrap();
        let mut bytes = bytes;
        if is_near {
            // The beginning of a delta that has its baseline, so that the rest is looked at.
            let head = payload(110, 0, |bits| put_baseline(bits, Some(10)));
            bytes.iter_mut().zip(head).for_each(|(byte, head)| *byte = head);
        }
        let _ = SnapshotHeader::parse(&bytes);
        if let Ok(table) = decoded(&bytes, Some(&baseline)) {
            prop_assert!(table.indices().is_sorted_by(|a, b| a < b));
        }
    }
}
