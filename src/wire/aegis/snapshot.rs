//! Snapshots: the table that a client decodes into, and the pieces that an encoder writes. Implements Aegis 4.1 and 4.3.

use crate::model::{ENTITY_INDEX_MAX, Entity, Kind, PLAYERS_MAX, PlayerId, PlayerState};
use crate::wire::bits::{BitError, BitReader, BitWriter, put_varint, sign_extend, varint_bits, varint_code};

/// Bytes in front of what all clients of a baseline share: tick and input.
pub const PREFIX_BYTES: usize = 6;

const ADDED: u64 = 0;
const UPDATED: u64 = 1;
const REMOVED: u64 = 2;

const POSITION: u64 = 1;
const VELOCITY: u64 = 2;
const HEALTH: u64 = 4;

const POSITION_WIDTH: u32 = 20;
const VELOCITY_WIDTH: u32 = 12;
const OWNER_NOBODY: u64 = 7;

/// Why a snapshot is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SnapshotError {
    /// A field goes past the end.
    Truncated,
    /// Bits other than 0, or bytes, after the last record.
    Trailing,
    /// A varint that is not the shortest, or past 32 bits.
    Varint,
    /// A baseline age of 0, or above the tick.
    BaselineAge,
    /// More players than there can be.
    PlayerCount,
    /// A player's number out of range, or a player twice.
    Player,
    /// An entity index of 0 or past 24 bits.
    Index,
    /// A change that does not exist.
    Change,
    /// An update of nothing.
    Fields,
    /// An owner that does not exist.
    Owner,
    /// A full snapshot with an updated or removed record.
    DeltaInFull,
    /// The baseline is not here.
    MissingBaseline,
    /// An updated or removed record of an index that the baseline does not have.
    UnknownIndex,
    /// More entities than the table holds.
    TooManyEntities,
}

/// What a snapshot begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SnapshotHeader {
    /// The tick that it shows.
    pub tick: u32,
    /// Header sequence of the receiver's last Input applied at that tick, 0 before any.
    pub input: u16,
    /// How old its baseline is in ticks; `None` in a full snapshot.
    pub baseline_age: Option<u32>,
}

impl SnapshotHeader {
    /// Reads the beginning of a snapshot, to find its baseline.
    pub fn parse(payload: &[u8]) -> Result<Self, SnapshotError> {
        Self::read(&mut BitReader::new(payload))
    }

    fn read(bits: &mut BitReader<'_>) -> Result<Self, SnapshotError> {
        let (tick, input) = (bits.bits(32) as u32, bits.bits(16) as u16);
        let baseline_age = if bits.bit() { Some(bits.varint()) } else { None };
        bits.check()?;
        match baseline_age {
            Some(age) if age == 0 || age > tick => Err(SnapshotError::BaselineAge),
            _ => Ok(Self { tick, input, baseline_age }),
        }
    }
}

/// A room as one client sees it: entities in rising index order, at most as many as the table was made for.
#[derive(Clone, Debug)]
pub struct Table {
    tick: u32,
    input: u16,
    players: [Option<PlayerState>; PLAYERS_MAX],
    indices: Vec<u32>,
    entities: Vec<Entity>,
    capacity: usize,
}

impl Table {
    /// An empty table for `capacity` entities.
    pub fn new(capacity: usize) -> Self {
        Self {
            tick: 0,
            input: 0,
            players: [None; PLAYERS_MAX],
            indices: Vec::with_capacity(capacity),
            entities: Vec::with_capacity(capacity),
            capacity,
        }
    }

    /// The tick that it shows.
    pub const fn tick(&self) -> u32 {
        self.tick
    }

    /// Header sequence of the last Input applied at that tick, 0 before any.
    pub const fn input(&self) -> u16 {
        self.input
    }

    /// Standing of the players, as far as snapshots told. A delta cannot take a player out: that is what the
    /// PlayerLeft event says.
    pub const fn players(&self) -> &[Option<PlayerState>; PLAYERS_MAX] {
        &self.players
    }

    /// Indices and entities in rising index order, those of unknown kinds included.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Entity)> {
        self.indices.iter().copied().zip(&self.entities)
    }

    /// The entity at `index`.
    pub fn get(&self, index: u32) -> Option<&Entity> {
        self.indices.binary_search(&index).ok().map(|at| &self.entities[at])
    }

    /// How many entities it holds.
    pub fn len(&self) -> usize {
        self.indices.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }

    fn push(&mut self, index: u32, entity: Entity) -> Result<(), SnapshotError> {
        if self.indices.len() == self.capacity {
            return Err(SnapshotError::TooManyEntities);
        }
        self.indices.push(index);
        self.entities.push(entity);
        Ok(())
    }
}

/// Decodes a snapshot into `out`, whose content is lost in any case and meaningless after an error. A delta needs the
/// table of its baseline.
pub fn decode(payload: &[u8], baseline: Option<&Table>, out: &mut Table) -> Result<(), SnapshotError> {
    let mut bits = BitReader::new(payload);
    let header = SnapshotHeader::read(&mut bits)?;
    let base = match header.baseline_age {
        None => Base { indices: &[], entities: &[], age: 0 },
        Some(age) => {
            let table = baseline.filter(|table| table.tick == header.tick.wrapping_sub(age));
            let table = table.ok_or(SnapshotError::MissingBaseline)?;
            out.players = table.players;
            Base { indices: &table.indices, entities: &table.entities, age }
        }
    };
    let is_full = header.baseline_age.is_none();
    if is_full {
        out.players = [None; PLAYERS_MAX];
    }
    out.tick = header.tick;
    out.input = header.input;
    out.indices.clear();
    out.entities.clear();
    read_players(&mut bits, &mut out.players)?;
    read_records(&mut bits, is_full, base, out)?;
    Ok(bits.finish()?)
}

/// What of the baseline has not been gone past yet.
#[derive(Clone, Copy)]
struct Base<'a> {
    indices: &'a [u32],
    entities: &'a [Entity],
    age: u32,
}

impl Base<'_> {
    /// Predicts everything below `index` into `out`, and takes what stands at `index`.
    fn advance(&mut self, index: u32, out: &mut Table) -> Result<Option<Entity>, SnapshotError> {
        while let (Some((&at, indices)), Some((entity, entities))) =
            (self.indices.split_first(), self.entities.split_first())
        {
            if at > index {
                break;
            }
            self.indices = indices;
            self.entities = entities;
            let predicted = entity.predicted(self.age);
            if at == index {
                return Ok(Some(predicted));
            }
            out.push(at, predicted)?;
        }
        Ok(None)
    }
}

fn read_players(
    bits: &mut BitReader<'_>,
    players: &mut [Option<PlayerState>; PLAYERS_MAX],
) -> Result<(), SnapshotError> {
    let count = bits.bits(3) as usize;
    if count > PLAYERS_MAX {
        return Err(SnapshotError::PlayerCount);
    }
    let mut told = 0u8;
    for _ in 0..count {
        let number = bits.bits(3) as u8;
        let (alive, lives) = (bits.bit(), bits.bits(4) as u8);
        let score = bits.varint();
        bits.check()?;
        let player = PlayerId::new(number).ok_or(SnapshotError::Player)?;
        if told >> number & 1 == 1 {
            return Err(SnapshotError::Player);
        }
        told |= 1 << number;
        players[player.index()] = Some(PlayerState { alive, lives, score });
    }
    Ok(bits.check()?)
}

fn read_records(
    bits: &mut BitReader<'_>,
    is_full: bool,
    mut base: Base<'_>,
    out: &mut Table,
) -> Result<(), SnapshotError> {
    let count = bits.varint();
    let mut next = 0u64;
    for _ in 0..count {
        let index = next + u64::from(bits.varint());
        let change = bits.bits(2);
        // Also what bounds the loop: a count without records behind it ends here.
        bits.check()?;
        if index == 0 || index > u64::from(ENTITY_INDEX_MAX) {
            return Err(SnapshotError::Index);
        }
        next = index + 1;
        let index = index as u32;
        let before = base.advance(index, out)?;
        match change {
            ADDED => out.push(index, read_added(bits)?)?,
            UPDATED | REMOVED if is_full => return Err(SnapshotError::DeltaInFull),
            UPDATED => {
                let mut entity = before.ok_or(SnapshotError::UnknownIndex)?;
                read_updated(bits, &mut entity)?;
                out.push(index, entity)?;
            }
            REMOVED => {
                before.ok_or(SnapshotError::UnknownIndex)?;
            }
            _ => return Err(SnapshotError::Change),
        }
    }
    bits.check()?;
    let rest = base.advance(u32::MAX, out)?;
    debug_assert!(rest.is_none(), "no index is that large");
    Ok(())
}

fn read_added(bits: &mut BitReader<'_>) -> Result<Entity, SnapshotError> {
    let look = bits.bits(18);
    let place = bits.bits(2 * POSITION_WIDTH);
    let motion = bits.bits(2 * VELOCITY_WIDTH + 8);
    bits.check()?;
    let owner = match look >> 11 & 7 {
        OWNER_NOBODY => None,
        number => Some(PlayerId::new(number as u8).ok_or(SnapshotError::Owner)?),
    };
    let mut entity =
        Entity::new(Kind((look >> 8 & 7) as u8)).with_owner(owner).with_variant((look >> 14) as u8).moving(
            sign_extend(place, POSITION_WIDTH),
            sign_extend(place >> POSITION_WIDTH, POSITION_WIDTH),
            sign_extend(motion, VELOCITY_WIDTH) as i16,
            sign_extend(motion >> VELOCITY_WIDTH, VELOCITY_WIDTH) as i16,
        );
    entity.generation = look as u8;
    entity.health = (motion >> (2 * VELOCITY_WIDTH)) as u8;
    Ok(entity)
}

/// `entity` is as predicted.
fn read_updated(bits: &mut BitReader<'_>, entity: &mut Entity) -> Result<(), SnapshotError> {
    let fields = bits.bits(3);
    if fields & POSITION != 0 {
        if bits.bit() {
            let place = bits.bits(2 * POSITION_WIDTH);
            entity.x = sign_extend(place, POSITION_WIDTH);
            entity.y = sign_extend(place >> POSITION_WIDTH, POSITION_WIDTH);
        } else {
            let offset = bits.bits(16);
            // Predictions stay within 20 bits; an offset from their edge must as well.
            entity.x = clamp_position(entity.x + sign_extend(offset, 8));
            entity.y = clamp_position(entity.y + sign_extend(offset >> 8, 8));
        }
    }
    if fields & VELOCITY != 0 {
        let velocity = bits.bits(2 * VELOCITY_WIDTH);
        entity.vx = sign_extend(velocity, VELOCITY_WIDTH) as i16;
        entity.vy = sign_extend(velocity >> VELOCITY_WIDTH, VELOCITY_WIDTH) as i16;
    }
    if fields & HEALTH != 0 {
        entity.health = bits.bits(8) as u8;
    }
    bits.check()?;
    if fields == 0 { Err(SnapshotError::Fields) } else { Ok(()) }
}

fn clamp_position(position: i32) -> i32 {
    position.clamp(crate::model::POSITION_MIN, crate::model::POSITION_MAX)
}

impl From<BitError> for SnapshotError {
    fn from(error: BitError) -> Self {
        match error {
            BitError::PastEnd => Self::Truncated,
            BitError::Varint => Self::Varint,
            BitError::Trailing => Self::Trailing,
        }
    }
}

/// Writes tick and input: the bytes that differ from client to client.
///
/// # Panics
/// When `out` is shorter than [`PREFIX_BYTES`].
pub fn put_prefix(out: &mut [u8], tick: u32, input: u16) {
    out[..4].copy_from_slice(&tick.to_le_bytes());
    out[4..PREFIX_BYTES].copy_from_slice(&input.to_le_bytes());
}

/// Writes whether there is a baseline, and how old it is.
pub fn put_baseline(bits: &mut BitWriter<'_>, age: Option<u32>) {
    bits.put(u64::from(age.is_some()), 1);
    if let Some(age) = age {
        put_varint(bits, age);
    }
}

/// Writes the players given.
pub fn put_players(bits: &mut BitWriter<'_>, players: &[Option<PlayerState>; PLAYERS_MAX]) {
    bits.put(players.iter().flatten().count() as u64, 3);
    for (number, state) in players.iter().enumerate() {
        let Some(state) = state else { continue };
        let lives = u64::from(state.lives.min(15));
        bits.put(number as u64 | u64::from(state.alive) << 3 | lives << 4, 8);
        put_varint(bits, state.score);
    }
}

/// Writes an added record: an entity that was not there, or another one than was.
#[inline]
pub fn put_added(bits: &mut BitWriter<'_>, gap: u32, entity: &Entity) {
    put_varint(bits, gap);
    let owner = entity.owner().map_or(OWNER_NOBODY, |player| u64::from(player.get()));
    let look = u64::from(entity.generation)
        | u64::from(entity.kind.0) << 8
        | owner << 11
        | u64::from(entity.variant()) << 14;
    bits.put(ADDED | look << 2, 20);
    bits.put(position(entity), 2 * POSITION_WIDTH);
    bits.put(velocity(entity) | u64::from(entity.health) << (2 * VELOCITY_WIDTH), 2 * VELOCITY_WIDTH + 8);
}

/// Writes an updated record: what differs between the entity as predicted and as it is.
#[inline]
pub fn put_updated(bits: &mut BitWriter<'_>, gap: u32, predicted: &Entity, entity: &Entity) {
    let (code, gap_width) = varint_code(gap);
    let fields = changed_fields(predicted, entity);
    bits.put(code | UPDATED << gap_width | fields << (gap_width + 2), gap_width + 5);
    if fields & POSITION != 0 {
        match narrow_offset(predicted, entity) {
            Some(offset) => bits.put(offset << 1, 17),
            None => bits.put(1 | position(entity) << 1, 1 + 2 * POSITION_WIDTH),
        }
    }
    if fields & VELOCITY != 0 {
        bits.put(velocity(entity), 2 * VELOCITY_WIDTH);
    }
    if fields & HEALTH != 0 {
        bits.put(u64::from(entity.health), 8);
    }
}

/// Writes a removed record.
#[inline]
pub fn put_removed(bits: &mut BitWriter<'_>, gap: u32) {
    let (code, gap_width) = varint_code(gap);
    bits.put(code | REMOVED << gap_width, gap_width + 2);
}

/// Bits of an added record.
pub const fn added_bits(gap: u32) -> u32 {
    varint_bits(gap) + 20 + 2 * POSITION_WIDTH + 2 * VELOCITY_WIDTH + 8
}

/// Bits of an updated record.
pub fn updated_bits(gap: u32, predicted: &Entity, entity: &Entity) -> u32 {
    let fields = changed_fields(predicted, entity);
    let mut bits = varint_bits(gap) + 5;
    if fields & POSITION != 0 {
        bits += if narrow_offset(predicted, entity).is_some() { 17 } else { 1 + 2 * POSITION_WIDTH };
    }
    if fields & VELOCITY != 0 {
        bits += 2 * VELOCITY_WIDTH;
    }
    bits + if fields & HEALTH != 0 { 8 } else { 0 }
}

/// Bits of a removed record.
pub const fn removed_bits(gap: u32) -> u32 {
    varint_bits(gap) + 2
}

fn changed_fields(predicted: &Entity, entity: &Entity) -> u64 {
    let moved = predicted.x != entity.x || predicted.y != entity.y;
    let turned = predicted.vx != entity.vx || predicted.vy != entity.vy;
    let hurt = predicted.health != entity.health;
    let position = if moved { POSITION } else { 0 };
    let velocity = if turned { VELOCITY } else { 0 };
    position | velocity | if hurt { HEALTH } else { 0 }
}

/// The position as an offset from the predicted one, 8 bits each, if it is that near.
fn narrow_offset(predicted: &Entity, entity: &Entity) -> Option<u64> {
    let (dx, dy) = (entity.x - predicted.x, entity.y - predicted.y);
    let is_narrow = (-128..128).contains(&dx) && (-128..128).contains(&dy);
    is_narrow.then_some(u64::from(dx as u8) | u64::from(dy as u8) << 8)
}

fn position(entity: &Entity) -> u64 {
    let mask = (1 << POSITION_WIDTH) - 1;
    (entity.x as u64 & mask) | (entity.y as u64 & mask) << POSITION_WIDTH
}

fn velocity(entity: &Entity) -> u64 {
    let mask = (1 << VELOCITY_WIDTH) - 1;
    (entity.vx as u64 & mask) | (entity.vy as u64 & mask) << VELOCITY_WIDTH
}
