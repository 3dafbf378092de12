//! Positions, rotations and blueprints (section 9).

use std::f64::consts::PI;

use super::super::blueprint::{Blueprint, archetype_id};
use super::*;
use crate::model::{Entity, Kind, POSITION_MAX, POSITION_MIN, PlayerId};

#[test]
fn rtype_9_1_positions_are_quarter_pixels_from_minus_8192() {
    assert_eq!(Pos16::from_pixels(2000.0), Pos16(0x9F40));
    assert_eq!(Pos16::from_units(2000 * 64), Pos16(0x9F40));
    for (pixels, encoded) in [(-8192.0, 0), (0.0, 32_768), (0.25, 32_769), (8191.75, 65_535)] {
        assert_eq!(Pos16::from_pixels(pixels), Pos16(encoded));
        assert_eq!(Pos16(encoded).to_pixels(), pixels);
        assert_eq!(Pos16(encoded).to_units(), (pixels * 64.0) as i32);
    }
}

#[test]
fn rtype_9_1_positions_are_clamped() {
    for pixels in [8191.8, 8192.0, 1e9, f64::MAX] {
        assert_eq!(
            (Pos16::from_pixels(pixels), Pos16::from_pixels(-pixels - 1.0)),
            (Pos16(65_535), Pos16(0))
        );
    }
    for units in [8192 * 64, i32::MAX] {
        assert_eq!((Pos16::from_units(units), Pos16::from_units(-units - 1)), (Pos16(65_535), Pos16(0)));
    }
}

#[test]
fn rtype_9_1_and_9_2_what_is_not_finite_is_encoded_as_0() {
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!((Pos16::from_pixels(value), Rot16::from_radians(value)), (Pos16(0x8000), Rot16(0)));
    }
}

/// Integers and floats agree on every position that the world has, halves and clamps included.
#[test]
fn rtype_9_1_integers_round_as_the_formula_does() {
    for units in POSITION_MIN - 100..=POSITION_MAX + 100 {
        let pixels = f64::from(units) / 64.0;
        assert_eq!(Pos16::from_units(units), Pos16::from_pixels(pixels), "{units}");
    }
    for encoded in 0..=u16::MAX {
        assert_eq!(Pos16::from_units(Pos16(encoded).to_units()), Pos16(encoded));
        assert_eq!(Pos16::from_pixels(Pos16(encoded).to_pixels()), Pos16(encoded));
    }
}

#[test]
fn rtype_9_2_rotations_are_fractions_of_a_turn() {
    for (radians, encoded) in [
        (0.0, 0),
        (PI / 2.0, 16_384),
        (PI, 32_768),
        (-PI / 2.0, 49_152),
        (2.0 * PI, 0),
        (5.0 * PI, 32_768),
        // Just below a turn rounds up to one, which is none.
        (2.0 * PI - 1e-9, 0),
        (-1e-9, 0),
    ] {
        assert_eq!(Rot16::from_radians(radians), Rot16(encoded), "{radians}");
    }
    for encoded in 0..=u16::MAX {
        assert_eq!(Rot16::from_radians(Rot16(encoded).to_radians()), Rot16(encoded));
    }
}

/// The table of 9.3.
#[test]
fn rtype_9_3_archetype_ids() {
    let table = [
        ("player_blue", 0xBD3E),
        ("player_green", 0x54EE),
        ("player_pink", 0x8F7A),
        ("player_red", 0xFAD4),
        ("bullet", 0x4BED),
        ("enemyBidos", 0x87FF),
        ("low_ground", 0x7EAF),
        ("medium_ground", 0xA6A3),
        ("high_ground", 0x189D),
        ("ramp", 0xBE70),
        ("reactor", 0x6C78),
        ("gate", 0xFD72),
    ];
    let ours: Vec<(&str, u16)> = Blueprint::all().map(|b| (b.name(), b.archetype())).collect();
    assert_eq!(ours, table);
    for (name, id) in table {
        assert_eq!(archetype_id(name), id);
        assert_eq!(Blueprint::from_archetype(id).map(Blueprint::name), Some(name));
    }
    assert_eq!(Blueprint::from_archetype(0x1234), None);
}

#[test]
fn every_entity_of_the_world_has_its_blueprint() {
    let name = |entity: Entity| Blueprint::of(&entity).map(Blueprint::name);
    let ship = |slot| Entity::new(Kind::SHIP).with_owner(PlayerId::new(slot)).with_variant(slot);
    assert_eq!(
        [0, 1, 2, 3].map(|slot| name(ship(slot)).unwrap()),
        ["player_blue", "player_green", "player_pink", "player_red"]
    );
    assert_eq!(name(Entity::new(Kind::MISSILE).with_owner(PlayerId::new(2))), Some("bullet"));
    // A Bydos that weaves is a Bydos.
    assert_eq!(name(Entity::new(Kind::BYDOS).with_variant(1)), Some("enemyBidos"));
    let tiles: Vec<_> =
        (0..6).filter_map(|variant| name(Entity::new(Kind::TILE).with_variant(variant))).collect();
    assert_eq!(tiles, ["low_ground", "medium_ground", "high_ground", "ramp", "reactor", "gate"]);
    assert_eq!((name(Entity::new(Kind(7))), name(Entity::new(Kind::SHIP))), (None, None));
    for blueprint in Blueprint::all() {
        assert_eq!(Blueprint::of(&blueprint.entity()), Some(blueprint));
    }
}
