//! What a client knows of the room: entities created and not destroyed, what was destroyed lately, and what it asked
//! for. Implements R-Type 7.4 and 8.1 to 8.3.

use crate::model::{Entity, EntityId};
use crate::storage::{Index, Lru, Ring};
use crate::wire::rtype::blueprint::Blueprint;
use crate::wire::rtype::message::{CreateEntity, DestroyEntity};
use crate::wire::rtype::snapshot::{EntityState, STATES_MAX};
use crate::wire::rtype::value::{Pos16, Rot16};

/// Destroyed ids remembered, so that nobody asks for them and no late CreateEntity brings them back.
const DESTROYED_MAX: usize = 1024;

/// Ids asked for that are remembered, so that each is asked for once.
const ASKED_MAX: usize = 1024;

/// Ids to be asked for.
const QUERIES_MAX: usize = 4 * STATES_MAX;

/// One entity as the client knows it.
#[derive(Clone, Copy, Debug)]
pub struct KnownEntity {
    /// Its id.
    pub id: EntityId,
    /// What it is; `None` for an archetype that this version does not know: not to be shown.
    pub blueprint: Option<Blueprint>,
    /// The same with its position. Its velocity and health are not told.
    pub entity: Entity,
    /// Rotation.
    pub rotation: Rot16,
    /// Server's tick of its creation, as it was told.
    created_at: u32,
    /// Server's tick of its position.
    pub tick: u32,
}

/// What became of a message about an entity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Learned {
    /// Something new.
    News,
    /// Known already, or overtaken by later news.
    Stale,
    /// There is no room for another entity.
    Full,
}

#[derive(Debug)]
pub(super) struct Known {
    index: Index,
    slots: Box<[Option<KnownEntity>]>,
    free: Vec<u32>,
    /// Id → tick of its DestroyEntity.
    destroyed: Lru<u32>,
    asked: Lru<()>,
    queries: Ring<EntityId>,
}

impl Known {
    pub(super) fn new(entities_max: usize) -> Self {
        // The ids come from the server that the client chose to play on: no secret is needed.
        let secret = [1, 2];
        Self {
            index: Index::new(entities_max, secret),
            slots: vec![None; entities_max].into_boxed_slice(),
            free: (0..entities_max as u32).rev().collect(),
            destroyed: Lru::new(DESTROYED_MAX, secret, 0),
            asked: Lru::new(ASKED_MAX, secret, ()),
            queries: Ring::new(QUERIES_MAX, EntityId(0)),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &KnownEntity> {
        self.slots.iter().flatten()
    }

    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    pub(super) fn get(&self, id: EntityId) -> Option<&KnownEntity> {
        self.slots[self.index.get(key(id))? as usize].as_ref()
    }

    pub(super) fn create(&mut self, message: &CreateEntity) -> Learned {
        let key = key(message.id);
        let is_gone = self.destroyed.peek(key).is_some_and(|(_, &at)| !is_after(message.tick, at));
        if is_gone || self.index.get(key).is_some() {
            return Learned::Stale;
        }
        let Some(slot) = self.free.pop() else { return Learned::Full };
        let blueprint = Blueprint::from_archetype(message.archetype);
        let mut known = KnownEntity {
            id: message.id,
            blueprint,
            entity: blueprint.map_or(Entity::new(crate::model::Kind(0)), Blueprint::entity),
            rotation: message.rotation,
            created_at: message.tick,
            tick: message.tick,
        };
        known.move_to(message.x, message.y);
        self.slots[slot as usize] = Some(known);
        self.index.insert(key, slot);
        Learned::News
    }

    pub(super) fn destroy(&mut self, message: &DestroyEntity) -> Learned {
        let key = key(message.id);
        // Ids come again after many uses: an old word about one is not about the entity that has it now.
        if self.get(message.id).is_some_and(|known| is_after(known.created_at, message.tick)) {
            return Learned::Stale;
        }
        *self.destroyed.touch(key, message.tick).1 = message.tick;
        let Some(slot) = self.index.remove(key) else { return Learned::Stale };
        self.slots[slot as usize] = None;
        self.free.push(slot);
        Learned::News
    }

    /// Takes in a state of a Snapshot: the position of an entity that is known, or one to ask for. Returns what was
    /// known of the entity before.
    pub(super) fn place(&mut self, tick: u32, state: &EntityState) -> Option<KnownEntity> {
        let key = key(state.id);
        let Some(slot) = self.index.get(key) else {
            self.ask_for(state.id);
            return None;
        };
        let known = self.slots[slot as usize].as_mut()?;
        let before = *known;
        // A Snapshot that was overtaken on its way would move everything back.
        if !is_after(known.tick, tick) {
            known.tick = tick;
            known.rotation = state.rotation;
            known.move_to(state.x, state.y);
        }
        Some(before)
    }

    fn ask_for(&mut self, id: EntityId) {
        let key = key(id);
        if self.destroyed.peek(key).is_some() || self.asked.peek(key).is_some() {
            return;
        }
        // An id that finds no room now is still mentioned by the next Snapshot.
        if self.queries.push(id).is_ok() {
            self.asked.touch(key, ());
        }
    }

    /// The next id to ask for.
    pub(super) fn next_query(&mut self) -> Option<EntityId> {
        while let Some(id) = self.queries.pop() {
            if self.index.get(key(id)).is_none() {
                return Some(id);
            }
        }
        None
    }
}

impl KnownEntity {
    fn move_to(&mut self, x: Pos16, y: Pos16) {
        self.entity.x = x.to_units();
        self.entity.y = y.to_units();
    }
}

fn key(id: EntityId) -> u128 {
    u128::from(id.0)
}

/// Whether tick `a` is later than `b`.
const fn is_after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}
