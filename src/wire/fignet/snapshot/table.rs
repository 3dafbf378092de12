//! What a snapshot says, on the side that reads it.

use super::SnapshotError;
use crate::model::{Entity, EntityId, Kind, PLAYERS_MAX, PlayerState};

/// A decoded snapshot: entities in rising index order, and the players' standing. Its memory is fixed at creation.
///
/// Entities of unknown kinds are kept, since later deltas build on them; whoever shows the table skips them
/// ([`Kind::is_known`]).
#[derive(Clone, Debug)]
pub struct Table {
    sequence: u16,
    timestamp_us: u64,
    pub(super) players: [Option<PlayerState>; PLAYERS_MAX],
    len: usize,
    indices: Box<[u32]>,
    entities: Box<[Entity]>,
}

impl Table {
    /// An empty table of sequence 0 for at most `capacity` entities.
    pub fn new(capacity: usize) -> Self {
        Self {
            sequence: 0,
            timestamp_us: 0,
            players: [None; PLAYERS_MAX],
            len: 0,
            indices: vec![0; capacity].into_boxed_slice(),
            entities: vec![Entity::new(Kind(0)); capacity].into_boxed_slice(),
        }
    }

    /// Low half of the server's tick whose state it is.
    pub const fn sequence(&self) -> u16 {
        self.sequence
    }

    /// The server's time at that tick, in µs.
    pub const fn timestamp_us(&self) -> u64 {
        self.timestamp_us
    }

    /// Standing of the players who are in.
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

    /// Ids and entities, in rising index order.
    pub fn iter(&self) -> impl Iterator<Item = (EntityId, &Entity)> {
        let ids = self.indices().iter().zip(self.entities());
        ids.map(|(&index, entity)| (EntityId::new(index, entity.generation), entity))
    }

    /// The entity at `index`.
    pub fn get(&self, index: u32) -> Option<&Entity> {
        let at = self.indices().binary_search(&index).ok()?;
        Some(&self.entities[at])
    }

    /// Forgets the entities and begins anew.
    pub(super) fn begin(
        &mut self,
        sequence: u16,
        timestamp_us: u64,
        players: [Option<PlayerState>; PLAYERS_MAX],
    ) {
        self.sequence = sequence;
        self.timestamp_us = timestamp_us;
        self.players = players;
        self.len = 0;
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
}
