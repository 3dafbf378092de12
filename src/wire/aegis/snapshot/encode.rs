//! The parts of a snapshot → bits. Each record is one or two writes of up to 57 bits.

use super::{
    ADDED, CHANGE_BITS, FIELDS_BITS, HEALTH, HEALTH_BITS, OFFSET_BITS, OWNER_NOBODY, POSITION, POSITION_BITS,
    PREFIX_BYTES, REMOVED, UPDATED, VELOCITY, VELOCITY_BITS,
};
use crate::model::{Entity, PLAYERS_MAX, PlayerId, PlayerState};
use crate::wire::bits::{BitWriter, WIDTH_MAX, signed_bits, varint_bits, varint_code};

/// Writes the first [`PREFIX_BYTES`] bytes of a snapshot, the only ones that differ between clients with the same baseline:
/// the tick, and the header sequence of the client's last Input applied at it (0 before any).
///
/// # Panics
/// When `out` is shorter than that.
#[inline]
pub fn put_prefix(out: &mut [u8], tick: u32, input: u16) {
    out[..4].copy_from_slice(&tick.to_le_bytes());
    out[4..PREFIX_BYTES].copy_from_slice(&input.to_le_bytes());
}

/// Whether the snapshot that `payload` begins with has a baseline.
///
/// # Panics
/// When `payload` has no byte behind the prefix.
#[inline]
pub fn is_delta(payload: &[u8]) -> bool {
    payload[PREFIX_BYTES] & 1 == 1
}

/// How many ticks ago the baseline was, 1 to the tick; `None` for a full snapshot.
///
/// # Panics
/// When the age is 0.
#[inline]
pub fn put_baseline(bits: &mut BitWriter<'_>, age: Option<u32>) {
    match age {
        None => bits.put(0, 1),
        Some(age) => {
            assert!(age != 0, "a snapshot that is its own baseline");
            let (code, width) = varint_code(age);
            bits.put(1 | code << 1, 1 + width);
        }
    }
}

/// The players: everyone in the match for a full snapshot, those whose standing changed for a delta.
///
/// # Panics
/// When a player has more than 15 lives.
pub fn put_players(bits: &mut BitWriter<'_>, players: &[Option<PlayerState>; PLAYERS_MAX]) {
    bits.put(players.iter().flatten().count() as u64, 3);
    for (player, state) in (0..).zip(players) {
        let Some(state) = state else { continue };
        assert!(state.lives < 16, "lives have four bits");
        let (score, score_width) = varint_code(state.score);
        let head = player | u64::from(state.alive) << 3 | u64::from(state.lives) << 4;
        bits.put(head | score << 8, 8 + score_width);
    }
}

/// How many records follow.
#[inline]
pub fn put_record_count(bits: &mut BitWriter<'_>, count: u32) {
    bits.put_varint(count);
}

/// The record of an entity that is new at its index. `gap` is the index less that of the record before, less 1; for the
/// first record the index itself.
#[inline]
pub fn put_added(bits: &mut BitWriter<'_>, gap: u32, entity: &Entity) {
    let owner = entity.owner().map_or(OWNER_NOBODY, PlayerId::get);
    let mut looks = Part::default();
    looks.push(u64::from(entity.generation), 8);
    looks.push(u64::from(entity.kind.0), 3);
    looks.push(u64::from(owner), 3);
    looks.push(u64::from(entity.variant()), 4);
    looks.push(signed_bits(entity.x, POSITION_BITS), POSITION_BITS);
    put_record(bits, gap, ADDED, looks);
    let mut rest = Part::default();
    rest.push(signed_bits(entity.y, POSITION_BITS), POSITION_BITS);
    rest.push(signed_bits(entity.vx.into(), VELOCITY_BITS), VELOCITY_BITS);
    rest.push(signed_bits(entity.vy.into(), VELOCITY_BITS), VELOCITY_BITS);
    rest.push(u64::from(entity.health), HEALTH_BITS);
    bits.put(rest.bits, rest.width);
}

/// The record of an entity that is not where the baseline's client `predicted` it: exactly what differs. For `gap` see
/// [`put_added`].
///
/// # Panics
/// When nothing differs; under debug assertions also when generation, kind, owner or variant do (that is what
/// [`put_added`] is for).
#[inline]
pub fn put_updated(bits: &mut BitWriter<'_>, gap: u32, predicted: &Entity, entity: &Entity) {
    debug_assert!(is_same_thing(predicted, entity), "an updated record cannot change what an entity is");
    let difference = Difference::of(predicted, entity);
    assert!(difference.fields != 0, "an updated record of what did not change");
    let mut part = Part::default();
    part.push(difference.fields, FIELDS_BITS);
    if difference.fields & POSITION != 0 {
        if difference.is_narrow {
            part.push(0, 1);
            part.push(signed_bits(entity.x - predicted.x, OFFSET_BITS), OFFSET_BITS);
            part.push(signed_bits(entity.y - predicted.y, OFFSET_BITS), OFFSET_BITS);
        } else {
            part.push(1, 1);
            part.push(signed_bits(entity.x, POSITION_BITS), POSITION_BITS);
            part.push(signed_bits(entity.y, POSITION_BITS), POSITION_BITS);
        }
    }
    let mut rest = Part::default();
    if difference.fields & VELOCITY != 0 {
        rest.push(signed_bits(entity.vx.into(), VELOCITY_BITS), VELOCITY_BITS);
        rest.push(signed_bits(entity.vy.into(), VELOCITY_BITS), VELOCITY_BITS);
    }
    if difference.fields & HEALTH != 0 {
        rest.push(u64::from(entity.health), HEALTH_BITS);
    }
    put_record(bits, gap, UPDATED, part);
    bits.put(rest.bits, rest.width);
}

/// The record of an entity that is gone. For `gap` see [`put_added`].
#[inline]
pub fn put_removed(bits: &mut BitWriter<'_>, gap: u32) {
    put_record(bits, gap, REMOVED, Part::default());
}

/// Bits that [`put_added`] writes.
#[inline]
pub const fn added_bits(gap: u32) -> u32 {
    let entity_bits = 8 + 3 + 3 + 4 + 2 * POSITION_BITS + 2 * VELOCITY_BITS + HEALTH_BITS;
    varint_bits(gap) + CHANGE_BITS + entity_bits
}

/// Bits that [`put_updated`] writes.
#[inline]
pub fn updated_bits(gap: u32, predicted: &Entity, entity: &Entity) -> u32 {
    let difference = Difference::of(predicted, entity);
    let position_bits = match difference.fields & POSITION != 0 {
        false => 0,
        true if difference.is_narrow => 1 + 2 * OFFSET_BITS,
        true => 1 + 2 * POSITION_BITS,
    };
    let velocity_bits = if difference.fields & VELOCITY != 0 { 2 * VELOCITY_BITS } else { 0 };
    let health_bits = if difference.fields & HEALTH != 0 { HEALTH_BITS } else { 0 };
    varint_bits(gap) + CHANGE_BITS + FIELDS_BITS + position_bits + velocity_bits + health_bits
}

/// Bits that [`put_removed`] writes.
#[inline]
pub const fn removed_bits(gap: u32) -> u32 {
    varint_bits(gap) + CHANGE_BITS
}

/// What an updated record has to say.
struct Difference {
    fields: u64,
    /// The position's offsets fit their eight bits.
    is_narrow: bool,
}

impl Difference {
    #[inline]
    fn of(predicted: &Entity, entity: &Entity) -> Self {
        let (dx, dy) = (entity.x - predicted.x, entity.y - predicted.y);
        let moved = dx | dy != 0;
        let turned = (entity.vx, entity.vy) != (predicted.vx, predicted.vy);
        let hurt = entity.health != predicted.health;
        let field = |differs: bool, field: u64| if differs { field } else { 0 };
        let fields = field(moved, POSITION) | field(turned, VELOCITY) | field(hurt, HEALTH);
        let is_narrow = i8::try_from(dx).is_ok() && i8::try_from(dy).is_ok();
        Self { fields, is_narrow }
    }
}

/// Whether both are the same but for position, velocity and health.
fn is_same_thing(a: &Entity, b: &Entity) -> bool {
    (a.generation, a.kind, a.owner(), a.variant()) == (b.generation, b.kind, b.owner(), b.variant())
}

/// Fields put together before they are written.
#[derive(Clone, Copy, Default)]
struct Part {
    bits: u64,
    width: u32,
}

impl Part {
    #[inline]
    fn push(&mut self, value: u64, width: u32) {
        self.bits |= value << self.width;
        self.width += width;
    }
}

/// The gap, the change, and the fields of `body`: in one write where that is possible, as nearly always.
#[inline]
fn put_record(bits: &mut BitWriter<'_>, gap: u32, change: u64, body: Part) {
    let (code, width) = varint_code(gap);
    let mut head = Part { bits: code, width };
    head.push(change, CHANGE_BITS);
    if head.width + body.width <= WIDTH_MAX {
        head.push(body.bits, body.width);
        bits.put(head.bits, head.width);
    } else {
        bits.put(head.bits, head.width);
        bits.put(body.bits, body.width);
    }
}
