//! What a snapshot says, on the side that reads it.

use super::SnapshotError;
use crate::model::{Entity, Kind, PLAYERS_MAX, PlayerState};

/// A decoded snapshot: entities in rising index order, players, tick and input. Its memory is fixed at creation.
///
/// Entities of unknown kinds are kept, since later deltas build on them; whoever shows the table skips them
/// ([`Kind::is_known`]).
///
/// A delta cannot say that a player left, so that a table derived from an older one may hold the standing of somebody who is
/// gone: who is in the match is told by the events PlayerJoined and PlayerLeft.
#[derive(Clone, Debug)]
pub struct Table {
    tick: u32,
    input: u16,
    players: [Option<PlayerState>; PLAYERS_MAX],
    len: usize,
    indices: Box<[u32]>,
    entities: Box<[Entity]>,
}

impl Table {
    /// An empty table of tick 0 for at most `capacity` entities.
    pub fn new(capacity: usize) -> Self {
        Self {
            tick: 0,
            input: 0,
            players: [None; PLAYERS_MAX],
            len: 0,
            indices: vec![0; capacity].into_boxed_slice(),
            entities: vec![Entity::new(Kind(0)); capacity].into_boxed_slice(),
        }
    }

    /// The tick whose state it is.
    pub const fn tick(&self) -> u32 {
        self.tick
    }

    /// Header sequence of the client's last Input applied at that tick, 0 before any.
    pub const fn input(&self) -> u16 {
        self.input
    }

    /// Standing of the players.
    pub const fn players(&self) -> &[Option<PlayerState>; PLAYERS_MAX] {
        &self.players
    }

    /// How many entities it has room for.
    pub const fn capacity(&self) -> usize {
        self.indices.len()
    }

    /// How many entities there are.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no entity.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Indices of the entities, rising.
    pub fn indices(&self) -> &[u32] {
        &self.indices[..self.len]
    }

    /// The entities, in the order of [`Table::indices`].
    pub fn entities(&self) -> &[Entity] {
        &self.entities[..self.len]
    }

    /// Indices and entities, in rising order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Entity)> {
        self.indices().iter().copied().zip(self.entities())
    }

    /// The entity at `index`.
    pub fn get(&self, index: u32) -> Option<&Entity> {
        let at = self.indices().binary_search(&index).ok()?;
        Some(&self.entities[at])
    }

    /// Forgets the entities and begins anew.
    pub(super) fn begin(&mut self, tick: u32, input: u16, players: [Option<PlayerState>; PLAYERS_MAX]) {
        self.tick = tick;
        self.input = input;
        self.players = players;
        self.len = 0;
    }

    pub(super) fn players_mut(&mut self) -> &mut [Option<PlayerState>; PLAYERS_MAX] {
        &mut self.players
    }

    /// Appends an entity; `index` must be above all others.
    #[inline]
    pub(super) fn push(&mut self, index: u32, entity: Entity) -> Result<(), SnapshotError> {
        debug_assert!(self.indices().last().is_none_or(|&last| last < index));
        let (Some(index_slot), Some(entity_slot)) =
            (self.indices.get_mut(self.len), self.entities.get_mut(self.len))
        else {
            return Err(SnapshotError::TooManyEntities);
        };
        *index_slot = index;
        *entity_slot = entity;
        self.len += 1;
        Ok(())
    }

    /// Appends entities as they stand `age` ticks later; `indices` rise and are above all others.
    #[inline]
    pub(super) fn push_predicted(
        &mut self,
        indices: &[u32],
        entities: &[Entity],
        age: u32,
    ) -> Result<(), SnapshotError> {
        let range = self.len..self.len + indices.len();
        let (Some(index_slots), Some(entity_slots)) =
            (self.indices.get_mut(range.clone()), self.entities.get_mut(range))
        else {
            return Err(SnapshotError::TooManyEntities);
        };
        index_slots.copy_from_slice(indices);
        for (slot, entity) in entity_slots.iter_mut().zip(entities) {
            *slot = entity.predicted(age);
        }
        self.len += indices.len();
        Ok(())
    }
}
