//! The parts of a plain snapshot message → bytes.

use super::{
    ALIVE, Coder, FLAGS_AT, HEALTH, Head, LIVES, LOOK, NEAR, OWNER_NOBODY, POSITION_MAX, POSITION_MIN,
    Precision, RECORD_BYTES_MIN, SCORE, TYPE_REMOVED, TYPE_STANDING, VX, VY, WHOLE, X, Y, default_entity,
};
use crate::model::{Entity, EntityId, Kind, PlayerId, PlayerState, VELOCITY_MAX, VELOCITY_MIN};
use crate::wire::cursor::Writer;

/// The head.
pub fn put_head(out: &mut Writer<'_>, head: &Head) {
    out.u16(head.sequence);
    out.u64(head.timestamp_us);
    out.u16(head.count);
    out.u8(head.flags());
    if let Some(age) = head.baseline_age {
        assert!(age != 0, "a snapshot that is its own baseline");
        out.u8(age);
    }
}

/// Says in the head that `message` begins with how its records are coded.
///
/// # Panics
/// When `message` is shorter than a head.
pub fn set_coder(message: &mut [u8], coder: Coder) {
    let flags = &mut message[FLAGS_AT];
    *flags = *flags & !super::CODER_MASK | coder as u8;
}

/// The record of an entity, whatever the receiver has at its index.
///
/// # Panics
/// When the entity has a position without a code, or a kind that is no entity's.
pub fn put_whole(out: &mut Writer<'_>, precision: Precision, index: u32, entity: &Entity) {
    let fields = WHOLE | differences(precision, &default_entity(entity), entity);
    put_record(out, precision, index, fields, None, entity);
}

/// Bytes that [`put_whole`] writes.
pub fn whole_bytes(precision: Precision, entity: &Entity) -> usize {
    record_bytes(precision, WHOLE | differences(precision, &default_entity(entity), entity))
}

/// The record of an entity that is not what the receiver [expects](Precision::expected): exactly what differs.
///
/// # Panics
/// When nothing differs, when it is another entity than the expected one, or as [`put_whole`].
pub fn put_changed(
    out: &mut Writer<'_>,
    precision: Precision,
    index: u32,
    expected: &Entity,
    entity: &Entity,
) {
    let fields = changed_fields(precision, expected, entity);
    put_record(out, precision, index, fields, Some(expected), entity);
}

/// Bytes that [`put_changed`] writes; `None` when nothing differs.
pub fn changed_bytes(precision: Precision, expected: &Entity, entity: &Entity) -> Option<usize> {
    let fields = differences(precision, expected, entity);
    (fields != 0).then(|| record_bytes(precision, fields | nearness(precision, fields, expected, entity)))
}

/// The record that nothing lives at `index` any more. Takes [`RECORD_BYTES_MIN`].
pub fn put_removed(out: &mut Writer<'_>, index: u32) {
    out.u32(index);
    out.u8(TYPE_REMOVED);
    out.u8(0);
}

/// The record of a player's standing: all of it without a `before`, what changed since then with one.
///
/// # Panics
/// When a player has more than 15 lives, or nothing changed.
pub fn put_standing(
    out: &mut Writer<'_>,
    player: PlayerId,
    before: Option<&PlayerState>,
    state: &PlayerState,
) {
    assert!(state.lives < 16, "lives have four bits");
    let fields = standing_fields(before, state);
    assert!(fields != 0, "a record of a standing that did not change");
    out.u32(player.get().into());
    out.u8(TYPE_STANDING);
    out.u8(fields);
    if fields & LIVES != 0 {
        out.u8(state.lives | if state.alive { ALIVE } else { 0 });
    }
    if fields & SCORE != 0 {
        out.u32(state.score);
    }
}

/// Bytes that [`put_standing`] writes; `None` when nothing changed.
pub fn standing_bytes(before: Option<&PlayerState>, state: &PlayerState) -> Option<usize> {
    let fields = standing_fields(before, state);
    let lives = usize::from(fields & LIVES != 0);
    let score = usize::from(fields & SCORE != 0) * 4;
    (fields != 0).then_some(RECORD_BYTES_MIN + lives + score)
}

/// The record that a player is no longer in. Takes [`RECORD_BYTES_MIN`].
pub fn put_player_left(out: &mut Writer<'_>, player: PlayerId) {
    out.u32(player.get().into());
    out.u8(TYPE_STANDING);
    out.u8(0);
}

fn standing_fields(before: Option<&PlayerState>, state: &PlayerState) -> u8 {
    let Some(before) = before else { return WHOLE | LIVES | SCORE };
    let lives = if (before.alive, before.lives) != (state.alive, state.lives) { LIVES } else { 0 };
    lives | if before.score != state.score { SCORE } else { 0 }
}

/// The fields in which a receiver's entity would differ from `entity`; `base` is as it was told.
#[inline]
fn differences(precision: Precision, base: &Entity, entity: &Entity) -> u8 {
    let field = |differs: bool, bit: u8| if differs { bit } else { 0 };
    field(precision.code(base.x) != precision.code(entity.x), X)
        | field(precision.code(base.y) != precision.code(entity.y), Y)
        | field(base.vx != entity.vx, VX)
        | field(base.vy != entity.vy, VY)
        | field(base.health != entity.health, HEALTH)
        | field(look(base) != look(entity), LOOK)
}

#[inline]
fn changed_fields(precision: Precision, expected: &Entity, entity: &Entity) -> u8 {
    assert!(
        expected.generation == entity.generation && expected.kind == entity.kind,
        "a changed entity is still the same one"
    );
    let fields = differences(precision, expected, entity);
    assert!(fields != 0, "a record of what did not change");
    fields | nearness(precision, fields, expected, entity)
}

/// [`NEAR`], when all changed positions are within a byte of the expected ones.
#[inline]
fn nearness(precision: Precision, fields: u8, expected: &Entity, entity: &Entity) -> u8 {
    let is_near = |expected, position| i8::try_from(offset(precision, expected, position)).is_ok();
    let moved = fields & (X | Y) != 0;
    let near = is_near(expected.x, entity.x) && is_near(expected.y, entity.y);
    if moved && near { NEAR } else { 0 }
}

/// From the expected position to this one, in codes.
#[inline]
fn offset(precision: Precision, expected: i32, position: i32) -> i32 {
    precision.code(position) as i32 - precision.code(expected) as i32
}

fn look(entity: &Entity) -> u8 {
    entity.owner().map_or(OWNER_NOBODY, PlayerId::get) | entity.variant() << 4
}

#[inline]
fn record_bytes(precision: Precision, fields: u8) -> usize {
    let position_bytes = if fields & NEAR != 0 { 1 } else { precision.position_bytes() };
    RECORD_BYTES_MIN
        + (fields & (X | Y)).count_ones() as usize * position_bytes
        + (fields & (VX | VY)).count_ones() as usize * 2
        + (fields & (HEALTH | LOOK)).count_ones() as usize
}

/// A record with these `fields`; `expected` is there when the receiver expects something.
fn put_record(
    out: &mut Writer<'_>,
    precision: Precision,
    index: u32,
    fields: u8,
    expected: Option<&Entity>,
    entity: &Entity,
) {
    let Kind(kind) = entity.kind;
    assert!(kind != TYPE_REMOVED && kind < TYPE_STANDING, "a kind that is no entity's");
    let codable = POSITION_MIN..=POSITION_MAX;
    assert!(codable.contains(&entity.x) && codable.contains(&entity.y), "a position without a code");
    let speeds = VELOCITY_MIN..=VELOCITY_MAX;
    assert!(speeds.contains(&entity.vx) && speeds.contains(&entity.vy), "a velocity beyond 12 bits");
    out.u32(EntityId::new(index, entity.generation).0);
    out.u8(kind);
    out.u8(fields);
    let mut position = |bit: u8, expected: Option<i32>, position: i32| match expected {
        _ if fields & bit == 0 => {}
        Some(expected) if fields & NEAR != 0 => out.u8(offset(precision, expected, position) as u8),
        _ => out.bytes(&precision.code(position).to_le_bytes()[..precision.position_bytes()]),
    };
    position(X, expected.map(|expected| expected.x), entity.x);
    position(Y, expected.map(|expected| expected.y), entity.y);
    if fields & VX != 0 {
        out.i16(entity.vx);
    }
    if fields & VY != 0 {
        out.i16(entity.vy);
    }
    if fields & HEALTH != 0 {
        out.u8(entity.health);
    }
    if fields & LOOK != 0 {
        out.u8(look(entity));
    }
}
