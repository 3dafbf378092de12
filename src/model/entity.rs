//! Entities and the table that holds a room's: sixteen bytes each, in rising index order.

use std::fmt;

use super::player::PlayerId;
use super::{ENTITY_INDEX_MAX, POSITION_MAX, POSITION_MIN};

/// Name of an entity: `generation` in bits 24-31, `index` in bits 0-23 (Aegis 4.1). 0 names nobody.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityId(pub u32);

/// What an entity is (3 bits; Aegis 4.1). Values other than the constants are reserved and skipped by clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kind(pub u8);

/// One entity's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, align(16))]
pub struct Entity {
    /// Position, 1/64 pixel.
    pub x: i32,
    /// Position, 1/64 pixel, growing downwards.
    pub y: i32,
    /// Velocity, 1/64 pixel per tick.
    pub vx: i16,
    /// Velocity, 1/64 pixel per tick.
    pub vy: i16,
    /// Hit points left.
    pub health: u8,
    /// Which use of its index this is.
    pub generation: u8,
    /// What it is.
    pub kind: Kind,
    /// Owner in bits 0-2 (0-3, or 7 for nobody), variant in bits 4-7.
    look: u8,
}

const _: () = assert!(size_of::<Entity>() == 16);

const OWNER_NOBODY: u8 = 7;

impl EntityId {
    /// The id of `index` in its `generation`.
    ///
    /// # Panics
    /// When `index` is 0 or above [`ENTITY_INDEX_MAX`].
    pub fn new(index: u32, generation: u8) -> Self {
        assert!(index != 0 && index <= ENTITY_INDEX_MAX, "entity index out of range");
        Self(u32::from(generation) << 24 | index)
    }

    /// Bits 0-23.
    pub const fn index(self) -> u32 {
        self.0 & ENTITY_INDEX_MAX
    }

    /// Bits 24-31.
    pub const fn generation(self) -> u8 {
        (self.0 >> 24) as u8
    }
}

impl fmt::Debug for EntityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.index(), self.generation())
    }
}

impl Kind {
    /// A player's ship.
    pub const SHIP: Self = Self(1);
    /// An enemy.
    pub const BYDOS: Self = Self(2);
    /// A player's missile.
    pub const MISSILE: Self = Self(3);
    /// A piece of the stage: an obstacle.
    pub const TILE: Self = Self(4);

    /// Whether this version knows the kind.
    pub const fn is_known(self) -> bool {
        self.0 >= 1 && self.0 <= 4
    }
}

impl Entity {
    /// An entity at rest at the origin, nobody's, of generation 0.
    pub const fn new(kind: Kind) -> Self {
        Self { x: 0, y: 0, vx: 0, vy: 0, health: 1, generation: 0, kind, look: OWNER_NOBODY }
    }

    /// The player it belongs to, if any.
    pub const fn owner(&self) -> Option<PlayerId> {
        PlayerId::new(self.look & 7)
    }

    /// Appearance, 0 to 15.
    pub const fn variant(&self) -> u8 {
        self.look >> 4
    }

    /// The same entity with another owner.
    pub const fn with_owner(mut self, owner: Option<PlayerId>) -> Self {
        let bits = match owner {
            Some(player) => player.get(),
            None => OWNER_NOBODY,
        };
        self.look = self.look & 0xF0 | bits;
        self
    }

    /// The same entity with another appearance.
    ///
    /// # Panics
    /// When `variant` is above 15.
    pub const fn with_variant(mut self, variant: u8) -> Self {
        assert!(variant < 16, "variant has four bits");
        self.look = self.look & 0x0F | variant << 4;
        self
    }

    /// The same entity at a place with a velocity.
    pub const fn moving(mut self, x: i32, y: i32, vx: i16, vy: i16) -> Self {
        self.x = x;
        self.y = y;
        self.vx = vx;
        self.vy = vy;
        self
    }

    /// Whether both are the same use of an index: they differ, if at all, in position, velocity and health.
    #[inline]
    pub fn is_same_thing(&self, other: &Self) -> bool {
        self.generation == other.generation && self.kind == other.kind && self.look == other.look
    }

    /// As [`Entity::predicted`], for as few ticks as snapshots look back: at most 1,024.
    #[inline]
    pub fn predicted_soon(mut self, ticks: u32) -> Self {
        debug_assert!(ticks <= 1024 && self.x.abs() <= 1 << 24 && self.y.abs() <= 1 << 24, "beyond 32 bits");
        let at = |p: i32, v: i16| (p + i32::from(v) * ticks as i32).clamp(POSITION_MIN, POSITION_MAX);
        self.x = at(self.x, self.vx);
        self.y = at(self.y, self.vy);
        self
    }

    /// Where straight flight brings it after `ticks`: position + velocity × ticks, saturating at the 20-bit range;
    /// all else unchanged (Aegis 4.3, prediction).
    #[inline]
    pub fn predicted(mut self, ticks: u32) -> Self {
        // 64 ticks × 2047 fits an i32 with room to spare, but a foreign baseline age can be anything: i64.
        let ticks = i64::from(ticks);
        let at = |p: i32, v: i16| {
            (i64::from(p) + i64::from(v) * ticks).clamp(i64::from(POSITION_MIN), i64::from(POSITION_MAX))
                as i32
        };
        self.x = at(self.x, self.vx);
        self.y = at(self.y, self.vy);
        self
    }
}

/// A room's entities: a fixed number of indexed slots. Index 0 is never used; a freed index is used again lowest
/// first (so that indices stay small and close together) with the next generation.
#[derive(Clone, Debug)]
pub struct EntityTable {
    slots: Box<[Entity]>,
    /// One bit a slot; bit 0 of word 0 (index 0) is never set.
    live: Box<[u64]>,
    len: u32,
}

impl EntityTable {
    /// An empty table for `capacity` entities, indices 1 to `capacity`.
    ///
    /// # Panics
    /// When `capacity` is 0 or above [`ENTITY_INDEX_MAX`].
    pub fn new(capacity: usize) -> Self {
        assert!(capacity > 0 && capacity <= ENTITY_INDEX_MAX as usize, "entity capacity out of range");
        Self {
            slots: vec![Entity::new(Kind(0)); capacity + 1].into_boxed_slice(),
            live: vec![0; (capacity + 1).div_ceil(64)].into_boxed_slice(),
            len: 0,
        }
    }

    /// How many entities it can hold.
    pub fn capacity(&self) -> usize {
        self.slots.len() - 1
    }

    /// How many entities live.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether nobody lives.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts `entity` at the lowest free index; its generation is set to the slot's next one. `None` when full.
    pub fn insert(&mut self, entity: Entity) -> Option<EntityId> {
        let index = self.lowest_free()?;
        let slot = &mut self.slots[index];
        let generation = slot.generation;
        *slot = Entity { generation, ..entity };
        self.live[index / 64] |= 1 << (index % 64);
        self.len += 1;
        Some(EntityId::new(index as u32, generation))
    }

    /// Takes out the entity at `index`, if one lives there, and gives its last state.
    pub fn remove(&mut self, index: u32) -> Option<Entity> {
        let entity = *self.get(index)?;
        let at = index as usize;
        self.live[at / 64] &= !(1 << (at % 64));
        self.slots[at].generation = entity.generation.wrapping_add(1);
        self.len -= 1;
        Some(entity)
    }

    /// The entity at `index`, if one lives there.
    pub fn get(&self, index: u32) -> Option<&Entity> {
        if self.is_live(index) { self.slots.get(index as usize) } else { None }
    }

    /// The entity at `index`, if one lives there. Its generation must not be changed.
    pub fn get_mut(&mut self, index: u32) -> Option<&mut Entity> {
        if self.is_live(index) { self.slots.get_mut(index as usize) } else { None }
    }

    /// Whether an entity lives at `index`; any index may be asked.
    pub fn is_live(&self, index: u32) -> bool {
        let at = index as usize;
        self.live.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// The id of the entity living at `index`.
    pub fn id(&self, index: u32) -> Option<EntityId> {
        self.get(index).map(|entity| EntityId::new(index, entity.generation))
    }

    /// The living, in rising index order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Entity)> {
        self.indices().map(|index| (index, &self.slots[index as usize]))
    }

    /// The indices of the living, in rising order.
    pub fn indices(&self) -> impl Iterator<Item = u32> {
        self.live
            .iter()
            .enumerate()
            .flat_map(|(word_index, &word)| Bits(word).map(move |bit| word_index as u32 * 64 + bit))
    }

    /// The first living index at or above `index`. Lets a caller walk the table while changing it.
    pub fn next_live(&self, index: u32) -> Option<u32> {
        let at = index as usize;
        let first = self.live.get(at / 64)? & (u64::MAX << (at % 64));
        let (word_index, word) = if first != 0 {
            (at / 64, first)
        } else {
            let skip = at / 64 + 1;
            let found = self.live.iter().skip(skip).position(|&word| word != 0)? + skip;
            (found, self.live[found])
        };
        Some(word_index as u32 * 64 + word.trailing_zeros())
    }

    /// Removes everyone and forgets generations, as when the room is new.
    pub fn reset(&mut self) {
        self.slots.fill(Entity::new(Kind(0)));
        self.live.fill(0);
        self.len = 0;
    }

    fn lowest_free(&self) -> Option<usize> {
        for (word_index, &word) in self.live.iter().enumerate() {
            // Index 0 counts as taken.
            let taken = if word_index == 0 { word | 1 } else { word };
            if taken != u64::MAX {
                let index = word_index * 64 + taken.trailing_ones() as usize;
                return (index < self.slots.len()).then_some(index);
            }
        }
        None
    }
}

/// The set bits of a word, lowest first.
struct Bits(u64);

impl Iterator for Bits {
    type Item = u32;
    fn next(&mut self) -> Option<u32> {
        if self.0 == 0 {
            return None;
        }
        let bit = self.0.trailing_zeros();
        self.0 &= self.0 - 1;
        Some(bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_indices_come_back_lowest_first_with_the_next_generation() {
        let mut table = EntityTable::new(70);
        let ids: Vec<_> = (0..70).map(|_| table.insert(Entity::new(Kind::BYDOS)).unwrap()).collect();
        assert_eq!((ids[0].index(), ids[69].index()), (1, 70));
        assert!(table.insert(Entity::new(Kind::BYDOS)).is_none(), "a full table refuses");
        table.remove(66);
        table.remove(3);
        assert!(table.remove(3).is_none());
        let again = table.insert(Entity::new(Kind::TILE)).unwrap();
        assert_eq!((again.index(), again.generation()), (3, 1));
        assert_eq!(table.len(), 69);
        assert_eq!(table.next_live(64), Some(64));
        assert_eq!(table.next_live(66), Some(67));
        assert_eq!(table.next_live(71), None);
        assert_eq!(table.indices().count(), 69);
        assert!(table.indices().is_sorted());
        assert!(!table.is_live(0) && !table.is_live(u32::MAX));
    }

    #[test]
    fn look_packs_owner_and_variant() {
        let entity = Entity::new(Kind::SHIP).with_owner(PlayerId::new(2)).with_variant(9);
        assert_eq!((entity.owner().map(PlayerId::get), entity.variant()), (Some(2), 9));
        assert_eq!(entity.with_owner(None).owner(), None);
    }

    #[test]
    fn prediction_saturates() {
        let entity = Entity::new(Kind::MISSILE).moving(POSITION_MAX - 5, 0, 10, -10);
        assert_eq!(entity.predicted(3).x, POSITION_MAX);
        assert_eq!(entity.predicted(3).y, -30);
        assert_eq!(entity.predicted(u32::MAX).y, POSITION_MIN);
        for ticks in [0, 1, 3, 64, 1024] {
            assert_eq!(entity.predicted_soon(ticks), entity.predicted(ticks));
        }
    }
}
