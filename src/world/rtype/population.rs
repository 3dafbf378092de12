//! Who lives in a room: the entity table, what the rules know about each entity beyond what clients see, and the only
//! ways in and out. Every appearance and disappearance gives its event here.
//!
//! Something that hits its end is *doomed* first: it takes no further part in the game and stands still. It is
//! *buried* (taken out of the table) in the same tick when its event fits, or in a later one.

use super::digest::Digest;
use super::level::Weave;
use super::rules::{ENTITIES_RESERVED, EVENTS_RESERVED, Extent};
use crate::model::{DestroyReason, Entity, EntityId, EntityTable, GameEvent, Kind};
use crate::world::Events;

/// The living and the doomed.
#[derive(Clone, Debug)]
pub(super) struct Population {
    table: EntityTable,
    /// By entity index.
    notes: Box<[Note]>,
    doomed: Doomed,
    bydos: u32,
    tiles: u32,
    missiles: u32,
    /// Highest index used since the reset: hashing looks no further.
    index_max: u32,
    spawns_skipped: u64,
}

/// What clients do not see of an entity.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Note {
    pub(super) weave: Weave,
    /// Ticks until the next turn of a weave.
    pub(super) turn_in: u16,
    /// Points for its end.
    pub(super) score: u16,
    /// Leg of the weave, 0 to 3.
    pub(super) leg: u8,
    pub(super) doomed: bool,
    /// Generation that a free slot gives next; unused while somebody lives there.
    pub(super) generation: u8,
}

impl Population {
    /// Nobody, with room for `capacity`.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            table: EntityTable::new(capacity),
            notes: vec![Note::default(); capacity + 1].into_boxed_slice(),
            doomed: Doomed::new(capacity),
            bydos: 0,
            tiles: 0,
            missiles: 0,
            index_max: 0,
            spawns_skipped: 0,
        }
    }

    /// As new, except for the count of skipped spawns.
    pub(super) fn reset(&mut self) {
        self.table.reset();
        self.notes.fill(Note::default());
        self.doomed.clear();
        self.bydos = 0;
        self.tiles = 0;
        self.missiles = 0;
        self.index_max = 0;
    }

    pub(super) fn table(&self) -> &EntityTable {
        &self.table
    }

    /// Enemies in the table.
    pub(super) fn bydos(&self) -> u32 {
        self.bydos
    }

    /// Missiles in the table, those hit but not buried yet included.
    pub(super) fn missiles(&self) -> u32 {
        self.missiles
    }

    /// Enemies and tiles that found no place since the game was made.
    pub(super) fn spawns_skipped(&self) -> u64 {
        self.spawns_skipped
    }

    /// The entity living at `index` and its note.
    #[inline]
    pub(super) fn get_mut(&mut self, index: u32) -> Option<(&mut Entity, &mut Note)> {
        let entity = self.table.get_mut(index)?;
        Some((entity, &mut self.notes[index as usize]))
    }

    /// Brings in a ship or missile, for which there is always a place: a player has at most one ship, and the caller
    /// asks [`Population::missiles`] first.
    pub(super) fn spawn_player_entity(&mut self, entity: Entity, events: &mut Events) -> u32 {
        self.missiles += u32::from(entity.kind == Kind::MISSILE);
        self.insert(entity, Note::default(), events).expect("places are kept for ships and missiles")
    }

    /// Brings in an enemy or tile; skipped, and counted, when only the places kept for players are left, or when it
    /// is past the left edge.
    pub(super) fn spawn(&mut self, entity: Entity, note: Note, events: &mut Events) {
        let free = self.table.capacity() - ENTITIES_RESERVED - (self.bydos + self.tiles) as usize;
        // A tile so late that the stage has carried it away already does not come at all: its place may be anywhere.
        let is_gone = entity.x + Extent::of(&entity).width <= 0;
        if is_gone || free == 0 || self.insert(entity, note, events).is_none() {
            self.spawns_skipped += 1;
            return;
        }
        match entity.kind {
            Kind::BYDOS => self.bydos += 1,
            _ => self.tiles += 1,
        }
    }

    fn insert(&mut self, entity: Entity, note: Note, events: &mut Events) -> Option<u32> {
        let id = self.table.insert(entity)?;
        let Entity { kind, x, y, vx, vy, .. } = entity;
        self.notes[id.index() as usize] = note;
        self.index_max = self.index_max.max(id.index());
        events.push(GameEvent::Spawn { id, kind, owner: entity.owner(), x, y, vx, vy });
        Some(id.index())
    }

    /// Takes the entity at `index` out of the game. A missile is also taken off its owner's list, by the caller.
    pub(super) fn doom(&mut self, index: u32, reason: DestroyReason) {
        let note = &mut self.notes[index as usize];
        debug_assert!(self.table.is_live(index) && !note.doomed);
        note.doomed = true;
        self.doomed.push((index, reason));
    }

    /// Buries the doomed, those who wait longest first, as far as their events fit.
    pub(super) fn bury(&mut self, events: &mut Events) {
        while events.room() > EVENTS_RESERVED {
            let Some((index, reason)) = self.doomed.pop() else { return };
            self.destroy(index, reason, events);
        }
    }

    /// Takes the entity at `index`, which is not doomed, out of the table at once.
    pub(super) fn destroy(&mut self, index: u32, reason: DestroyReason, events: &mut Events) {
        let Some(entity) = self.table.remove(index) else {
            unreachable!("only the living are destroyed");
        };
        self.notes[index as usize] =
            Note { generation: entity.generation.wrapping_add(1), ..Note::default() };
        match entity.kind {
            Kind::BYDOS => self.bydos -= 1,
            Kind::TILE => self.tiles -= 1,
            Kind::MISSILE => self.missiles -= 1,
            _ => {}
        }
        let id = EntityId::new(index, entity.generation);
        events.push(GameEvent::Destroy { id, reason, x: entity.x, y: entity.y });
    }

    /// Adds everything to `digest`, the generations of free slots included. Counts follow from the table.
    pub(super) fn digest(&self, digest: &mut Digest) {
        digest.add(u64::from(self.index_max));
        for index in 1..=self.index_max {
            let note = &self.notes[index as usize];
            match self.table.get(index) {
                Some(entity) => {
                    digest.add(pack(entity.x as u32, entity.y as u32));
                    digest.add(entity_word(entity));
                    digest.add(note.word());
                }
                None => digest.add(u64::from(note.generation)),
            }
        }
        for (index, reason) in self.doomed.iter() {
            digest.add(pack(index, reason as u32));
        }
    }
}

/// Who waits for burial, first come first served. Each entity is in it at most once, so that room for as many as the
/// table holds is enough; a clone has the same room, which one of a `VecDeque` would not.
#[derive(Clone, Debug)]
struct Doomed {
    ring: Box<[(u32, DestroyReason)]>,
    first: usize,
    len: usize,
}

impl Doomed {
    fn new(capacity: usize) -> Self {
        Self { ring: vec![(0, DestroyReason::Killed); capacity].into_boxed_slice(), first: 0, len: 0 }
    }

    fn push(&mut self, entry: (u32, DestroyReason)) {
        assert!(self.len < self.ring.len(), "an entity was doomed twice");
        self.ring[(self.first + self.len) % self.ring.len()] = entry;
        self.len += 1;
    }

    fn pop(&mut self) -> Option<(u32, DestroyReason)> {
        if self.len == 0 {
            return None;
        }
        let entry = self.ring[self.first];
        self.first = (self.first + 1) % self.ring.len();
        self.len -= 1;
        Some(entry)
    }

    fn iter(&self) -> impl Iterator<Item = (u32, DestroyReason)> {
        (0..self.len).map(|n| self.ring[(self.first + n) % self.ring.len()])
    }

    fn clear(&mut self) {
        self.len = 0;
    }
}

impl Note {
    fn word(&self) -> u64 {
        u64::from(self.weave.climb as u16)
            | u64::from(self.weave.turn_ticks) << 16
            | u64::from(self.turn_in) << 32
            | u64::from(self.score) << 48
            // The fields above fill the word; these few bits are spread over it by the multiplication.
            ^ (u64::from(self.leg) | u64::from(self.doomed) << 2).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

fn entity_word(entity: &Entity) -> u64 {
    let owner = entity.owner().map_or(7, |player| player.get());
    u64::from(entity.vx as u16)
        | u64::from(entity.vy as u16) << 16
        | u64::from(entity.health) << 32
        | u64::from(entity.generation) << 40
        | u64::from(entity.kind.0 << 4 | entity.variant()) << 48
        | u64::from(owner) << 56
}

fn pack(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}
