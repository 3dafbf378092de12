//! Bits → [`Table`], in one pass that merges the baseline with the records.

use super::{
    ADDED, CHANGE_BITS, FIELDS_BITS, HEALTH, HEALTH_BITS, OFFSET_BITS, OWNER_NOBODY, POSITION, POSITION_BITS,
    REMOVED, SnapshotError, Table, UPDATED, VELOCITY, VELOCITY_BITS,
};
use crate::model::{
    ENTITY_INDEX_MAX, Entity, Kind, PLAYERS_MAX, POSITION_MAX, POSITION_MIN, PlayerId, PlayerState,
};
use crate::wire::bits::{BitReader, mask, sign_extend};

/// The fields that say what a snapshot is, and which baseline it needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SnapshotHeader {
    /// The tick whose state it is.
    pub tick: u32,
    /// Header sequence of the client's last Input applied at that tick, 0 before any.
    pub input: u16,
    /// How many ticks before `tick` the baseline is, 1 to `tick`; `None` for a full snapshot.
    pub baseline_age: Option<u32>,
}

impl SnapshotHeader {
    /// The header of `payload`, whose remainder is not looked at.
    pub fn parse(payload: &[u8]) -> Result<Self, SnapshotError> {
        Self::read(&mut BitReader::new(payload))
    }

    /// The tick of the baseline; `None` for a full snapshot.
    pub fn baseline_tick(&self) -> Option<u32> {
        self.baseline_age.map(|age| self.tick - age)
    }

    #[inline]
    fn read(bits: &mut BitReader<'_>) -> Result<Self, SnapshotError> {
        let word = bits.read(32 + 16 + 1)?;
        let (tick, input, is_delta) = (word as u32, (word >> 32) as u16, word >> 48 != 0);
        let baseline_age = if is_delta {
            let age = bits.varint()?;
            if age == 0 || age > tick {
                return Err(SnapshotError::BaselineAge);
            }
            Some(age)
        } else {
            None
        };
        Ok(Self { tick, input, baseline_age })
    }
}

/// Decodes `payload` into `out`, whose former content is lost. A delta needs the table of its
/// [baseline](SnapshotHeader::baseline_tick) and builds on it; a full snapshot ignores `baseline`.
///
/// After an error `out` holds nothing of meaning, and is to be discarded.
pub fn decode(payload: &[u8], baseline: Option<&Table>, out: &mut Table) -> Result<(), SnapshotError> {
    let mut bits = BitReader::new(payload);
    let header = SnapshotHeader::read(&mut bits)?;
    let mut old = Old::of(&header, baseline)?;
    out.begin(header.tick, header.input, old.players);
    read_players(&mut bits, out.players_mut())?;
    let record_count = bits.varint()?;
    let mut next = 0u32;
    // A record has six bits or more: the loop ends with the payload, whatever the count claims.
    for _ in 0..record_count {
        // A saturated sum is past 24 bits as well.
        let index = next.saturating_add(bits.varint()?);
        if index == 0 || index > ENTITY_INDEX_MAX {
            return Err(SnapshotError::Index);
        }
        next = index + 1;
        old.carry_below(index, out)?;
        match bits.read(CHANGE_BITS)? {
            ADDED => {
                old.take(index);
                out.push(index, read_added(&mut bits)?)?;
            }
            UPDATED => {
                let mut entity = old.take_known(index)?.predicted(old.age);
                read_updated(&mut bits, &mut entity)?;
                out.push(index, entity)?;
            }
            REMOVED => {
                old.take_known(index)?;
            }
            _ => return Err(SnapshotError::Change),
        }
    }
    old.carry_rest(out)?;
    Ok(bits.finish()?)
}

/// What is left of the baseline; nothing at all for a full snapshot.
struct Old<'a> {
    indices: &'a [u32],
    entities: &'a [Entity],
    players: [Option<PlayerState>; PLAYERS_MAX],
    /// Ticks from the baseline to the snapshot; 0 without a baseline.
    age: u32,
}

impl<'a> Old<'a> {
    fn of(header: &SnapshotHeader, baseline: Option<&'a Table>) -> Result<Self, SnapshotError> {
        let Some(age) = header.baseline_age else {
            return Ok(Self { indices: &[], entities: &[], players: [None; PLAYERS_MAX], age: 0 });
        };
        let table = baseline
            .filter(|table| Some(table.tick()) == header.baseline_tick())
            .ok_or(SnapshotError::MissingBaseline)?;
        let (indices, entities, players) = (table.indices(), table.entities(), *table.players());
        Ok(Self { indices, entities, players, age })
    }

    /// Moves what is below `index` to `out`, as predicted.
    #[inline]
    fn carry_below(&mut self, index: u32, out: &mut Table) -> Result<(), SnapshotError> {
        let run = self.indices.iter().take_while(|&&old| old < index).count();
        self.carry(run, out)
    }

    fn carry_rest(&mut self, out: &mut Table) -> Result<(), SnapshotError> {
        self.carry(self.indices.len(), out)
    }

    #[inline]
    fn carry(&mut self, run: usize, out: &mut Table) -> Result<(), SnapshotError> {
        let (indices, indices_left) = self.indices.split_at(run);
        let (entities, entities_left) = self.entities.split_at(run);
        (self.indices, self.entities) = (indices_left, entities_left);
        out.push_predicted(indices, entities, self.age)
    }

    /// Takes the entity at `index`, if there is one; all below it were taken before.
    #[inline]
    fn take(&mut self, index: u32) -> Option<&'a Entity> {
        if self.indices.first() != Some(&index) {
            return None;
        }
        let (entity, entities_left) = self.entities.split_first()?;
        (self.indices, self.entities) = (&self.indices[1..], entities_left);
        Some(entity)
    }

    /// Takes the entity at `index`, which a record refers to.
    #[inline]
    fn take_known(&mut self, index: u32) -> Result<&'a Entity, SnapshotError> {
        // A delta's age is at least 1.
        let missing = if self.age == 0 { SnapshotError::DeltaInFull } else { SnapshotError::UnknownIndex };
        self.take(index).ok_or(missing)
    }
}

fn read_players(
    bits: &mut BitReader<'_>,
    players: &mut [Option<PlayerState>; PLAYERS_MAX],
) -> Result<(), SnapshotError> {
    let count = bits.read(3)?;
    if count > PLAYERS_MAX as u64 {
        return Err(SnapshotError::PlayerCount);
    }
    let mut seen = 0u8;
    for _ in 0..count {
        let word = bits.read(3 + 1 + 4)?;
        let player = PlayerId::new((word & 7) as u8).ok_or(SnapshotError::Player)?;
        if seen >> player.get() & 1 == 1 {
            return Err(SnapshotError::PlayerTwice);
        }
        seen |= 1 << player.get();
        let (alive, lives, score) = (word >> 3 & 1 == 1, (word >> 4) as u8, bits.varint()?);
        players[player.index()] = Some(PlayerState { alive, lives, score });
    }
    Ok(())
}

#[inline]
fn read_added(bits: &mut BitReader<'_>) -> Result<Entity, SnapshotError> {
    let looks = bits.read(8 + 3 + 3 + 4 + POSITION_BITS)?;
    let rest = bits.read(POSITION_BITS + 2 * VELOCITY_BITS + HEALTH_BITS)?;
    let owner = match (looks >> 11 & 7) as u8 {
        OWNER_NOBODY => None,
        player => Some(PlayerId::new(player).ok_or(SnapshotError::Owner)?),
    };
    let mut entity = Entity::new(Kind((looks >> 8 & 7) as u8))
        .with_owner(owner)
        .with_variant((looks >> 14 & 15) as u8)
        .moving(
            sign_extend(looks >> 18, POSITION_BITS),
            sign_extend(rest, POSITION_BITS),
            sign_extend(rest >> POSITION_BITS, VELOCITY_BITS) as i16,
            sign_extend(rest >> (POSITION_BITS + VELOCITY_BITS), VELOCITY_BITS) as i16,
        );
    entity.generation = looks as u8;
    entity.health = (rest >> (POSITION_BITS + 2 * VELOCITY_BITS)) as u8;
    Ok(entity)
}

/// Applies the fields of an updated record to the predicted entity.
#[inline]
fn read_updated(bits: &mut BitReader<'_>, entity: &mut Entity) -> Result<(), SnapshotError> {
    let fields = bits.read(FIELDS_BITS)?;
    if fields == 0 {
        return Err(SnapshotError::Fields);
    }
    // A narrow record is one word: 1 + 2 × 8 + 2 × 12 + 8 bits. A wide position is a word of its own.
    let mut word = bits.peek();
    let mut used = 0;
    if fields & POSITION != 0 {
        if word & 1 == 0 {
            entity.x += sign_extend(word >> 1, OFFSET_BITS);
            entity.y += sign_extend(word >> (1 + OFFSET_BITS), OFFSET_BITS);
            used = 1 + 2 * OFFSET_BITS;
            word >>= used;
        } else {
            entity.x = sign_extend(word >> 1, POSITION_BITS);
            entity.y = sign_extend(word >> (1 + POSITION_BITS), POSITION_BITS);
            bits.skip(1 + 2 * POSITION_BITS)?;
            word = bits.peek();
        }
    }
    if fields & VELOCITY != 0 {
        entity.vx = sign_extend(word, VELOCITY_BITS) as i16;
        entity.vy = sign_extend(word >> VELOCITY_BITS, VELOCITY_BITS) as i16;
        used += 2 * VELOCITY_BITS;
        word >>= 2 * VELOCITY_BITS;
    }
    if fields & HEALTH != 0 {
        entity.health = (word & mask(HEALTH_BITS)) as u8;
        used += HEALTH_BITS;
    }
    bits.skip(used)?;
    let range = POSITION_MIN..=POSITION_MAX;
    if range.contains(&entity.x) && range.contains(&entity.y) { Ok(()) } else { Err(SnapshotError::Position) }
}
