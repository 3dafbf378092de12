//! Bytes → [`Table`], in one pass that merges the baseline with the records.

use super::{
    ALIVE, Coder, HEALTH, Head, LIVES, LOOK, NEAR, OWNER_NOBODY, Precision, SCORE, SnapshotError,
    TYPE_REMOVED, TYPE_STANDING, Table, VX, VY, WHOLE, X, Y, default_entity,
};
use crate::model::{
    ENTITY_INDEX_MAX, Entity, EntityId, Kind, PLAYERS_MAX, PlayerId, PlayerState, VELOCITY_MAX, VELOCITY_MIN,
};
use crate::wire::cursor::Reader;

/// Decodes a plain `message` into `out`, whose former content is lost. A delta needs the table of its
/// [baseline](Head::baseline) and builds on it; a full snapshot ignores `baseline`.
///
/// After an error `out` holds nothing of meaning, and is to be discarded.
pub fn decode(message: &[u8], baseline: Option<&Table>, out: &mut Table) -> Result<(), SnapshotError> {
    let mut reader = Reader::new(message);
    let head = Head::read(&mut reader).ok_or(SnapshotError::Truncated)??;
    if head.coder != Coder::Plain {
        return Err(SnapshotError::Coded);
    }
    let mut old = Old::of(&head, baseline)?;
    out.begin(head.sequence, head.timestamp_us, old.players);
    // The records of players come first, each list in rising order.
    let (mut next_player, mut next_index) = (0, 1);
    // A record has six bytes or more: the loop ends with the message, whatever the count claims.
    for _ in 0..head.count {
        let (id, kind, fields) = record_head(&mut reader).ok_or(SnapshotError::Truncated)?;
        if kind == TYPE_STANDING {
            let player = u8::try_from(id).ok().and_then(PlayerId::new).ok_or(SnapshotError::Id)?;
            if player.get() < next_player || next_index != 1 {
                return Err(SnapshotError::Id);
            }
            next_player = player.get() + 1;
            read_standing(&mut reader, fields, &mut out.players[player.index()])?;
            continue;
        }
        let id = EntityId(id);
        let index = id.index();
        if index < next_index {
            return Err(SnapshotError::Id);
        }
        next_index = index + 1;
        old.carry_below(index, out)?;
        let before = old.take(index);
        match kind {
            TYPE_REMOVED if id.generation() != 0 => return Err(SnapshotError::Id),
            TYPE_REMOVED if fields != 0 => return Err(SnapshotError::Fields),
            TYPE_REMOVED => before.map(|_| ()).ok_or(SnapshotError::Unknown)?,
            _ if kind > TYPE_STANDING => return Err(SnapshotError::Type),
            _ => {
                let mut named = Entity::new(Kind(kind));
                named.generation = id.generation();
                let mut entity = base(&named, before, fields)?;
                read_fields(&mut reader, head.precision, fields, &mut entity)?;
                out.push(index, entity)?;
            }
        }
    }
    old.carry_below(ENTITY_INDEX_MAX + 1, out)?;
    if reader.at_end() { Ok(()) } else { Err(SnapshotError::Trailing) }
}

/// What is left of the baseline; nothing at all for a full snapshot.
struct Old<'a> {
    indices: &'a [u32],
    entities: &'a [Entity],
    players: [Option<PlayerState>; PLAYERS_MAX],
    age: u32,
    precision: Precision,
}

impl<'a> Old<'a> {
    fn of(head: &Head, baseline: Option<&'a Table>) -> Result<Self, SnapshotError> {
        let precision = head.precision;
        let Some(age) = head.baseline_age else {
            return Ok(Self { indices: &[], entities: &[], players: [None; PLAYERS_MAX], age: 0, precision });
        };
        let table = baseline
            .filter(|table| Some(table.sequence()) == head.baseline())
            .ok_or(SnapshotError::MissingBaseline)?;
        let (indices, entities, players) = (table.indices(), table.entities(), *table.players());
        Ok(Self { indices, entities, players, age: age.into(), precision })
    }

    /// Moves what is below `index` to `out`, as expected.
    fn carry_below(&mut self, index: u32, out: &mut Table) -> Result<(), SnapshotError> {
        while self.indices.first().is_some_and(|&old| old < index) {
            let old = self.indices[0];
            let entity = self.pop();
            out.push(old, entity)?;
        }
        Ok(())
    }

    /// Takes the entity at `index`, as expected, if there is one; all below it were taken before.
    fn take(&mut self, index: u32) -> Option<Entity> {
        (self.indices.first() == Some(&index)).then(|| self.pop())
    }

    fn pop(&mut self) -> Entity {
        let entity = self.precision.expected(&self.entities[0], self.age);
        (self.indices, self.entities) = (&self.indices[1..], &self.entities[1..]);
        entity
    }
}

fn record_head(reader: &mut Reader<'_>) -> Option<(u32, u8, u8)> {
    Some((reader.u32()?, reader.u8()?, reader.u8()?))
}

/// What the fields of a record are changes of. `named` has the record's generation and kind.
fn base(named: &Entity, before: Option<Entity>, fields: u8) -> Result<Entity, SnapshotError> {
    if fields & WHOLE != 0 {
        return if fields & NEAR == 0 { Ok(default_entity(named)) } else { Err(SnapshotError::Fields) };
    }
    let is_near_what = fields & NEAR != 0 && fields & (X | Y) == 0;
    if fields == 0 || is_near_what {
        return Err(SnapshotError::Fields);
    }
    before
        .filter(|before| before.generation == named.generation && before.kind == named.kind)
        .ok_or(SnapshotError::Unknown)
}

fn read_standing(
    reader: &mut Reader<'_>,
    fields: u8,
    standing: &mut Option<PlayerState>,
) -> Result<(), SnapshotError> {
    if fields == 0 {
        return standing.take().map(|_| ()).ok_or(SnapshotError::Unknown);
    }
    let mut state = match *standing {
        _ if fields & !(WHOLE | LIVES | SCORE) != 0 => return Err(SnapshotError::Fields),
        _ if fields & WHOLE != 0 => PlayerState::default(),
        Some(state) => state,
        None => return Err(SnapshotError::Unknown),
    };
    if fields & LIVES != 0 {
        let byte = reader.u8().ok_or(SnapshotError::Truncated)?;
        (state.alive, state.lives) = (byte & ALIVE != 0, byte & !ALIVE);
        if state.lives > 15 {
            return Err(SnapshotError::Lives);
        }
    }
    if fields & SCORE != 0 {
        state.score = reader.u32().ok_or(SnapshotError::Truncated)?;
    }
    *standing = Some(state);
    Ok(())
}

/// Applies the fields of a record to what they are changes of.
fn read_fields(
    reader: &mut Reader<'_>,
    precision: Precision,
    fields: u8,
    entity: &mut Entity,
) -> Result<(), SnapshotError> {
    if fields & X != 0 {
        entity.x = read_position(reader, precision, fields, entity.x)?;
    }
    if fields & Y != 0 {
        entity.y = read_position(reader, precision, fields, entity.y)?;
    }
    if fields & VX != 0 {
        entity.vx = read_velocity(reader)?;
    }
    if fields & VY != 0 {
        entity.vy = read_velocity(reader)?;
    }
    if fields & HEALTH != 0 {
        entity.health = reader.u8().ok_or(SnapshotError::Truncated)?;
    }
    if fields & LOOK != 0 {
        let look = reader.u8().ok_or(SnapshotError::Truncated)?;
        let owner = match look & 15 {
            OWNER_NOBODY => None,
            player => Some(PlayerId::new(player).ok_or(SnapshotError::Owner)?),
        };
        *entity = entity.with_owner(owner).with_variant(look >> 4);
    }
    Ok(())
}

fn read_position(
    reader: &mut Reader<'_>,
    precision: Precision,
    fields: u8,
    expected: i32,
) -> Result<i32, SnapshotError> {
    let code = if fields & NEAR != 0 {
        let offset = reader.u8().ok_or(SnapshotError::Truncated)? as i8;
        precision.code(expected).wrapping_add_signed(offset.into())
    } else {
        let mut code = [0; 4];
        let bytes = reader.bytes(precision.position_bytes()).ok_or(SnapshotError::Truncated)?;
        code[..bytes.len()].copy_from_slice(bytes);
        u32::from_le_bytes(code)
    };
    if code <= precision.code_max() { Ok(precision.position(code)) } else { Err(SnapshotError::Position) }
}

fn read_velocity(reader: &mut Reader<'_>) -> Result<i16, SnapshotError> {
    let velocity = reader.i16().ok_or(SnapshotError::Truncated)?;
    let range = VELOCITY_MIN..=VELOCITY_MAX;
    if range.contains(&velocity) { Ok(velocity) } else { Err(SnapshotError::Velocity) }
}
