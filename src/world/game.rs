//! The game behind the server: whatever implements [`Game`] is played over every protocol.

pub use crate::limits::EVENTS_PER_STEP_MAX;
use crate::model::{
    EntityTable, GameEvent, PLAYERS_MAX, PlayerId, PlayerInput, PlayerState, UNITS_PER_PIXEL,
};

/// One room's game: deterministic, in integers, without allocation after it was made.
///
/// The same calls in the same order give the same entities, players, events and [`Game::state_hash`], on every
/// machine. A server makes one per room at start and uses it again and again through [`Game::reset`].
pub trait Game {
    /// Returns to the state of a new room: nobody, lobby, no entities, indices from 1 in generation 0. All later
    /// chance comes from `seed`.
    fn reset(&mut self, seed: u64);

    /// `player` joins (never one who is in already). Entities that appear are told through `events`.
    fn join(&mut self, player: PlayerId, events: &mut Events);

    /// `player` is gone (never one who is not in). Entities that disappear are told through `events`.
    fn leave(&mut self, player: PlayerId, events: &mut Events);

    /// One tick. `inputs` of players who are not in are at rest. Every appearance and disappearance in
    /// [`Game::entities`] is told through `events`: one [`GameEvent::Spawn`] or [`GameEvent::Destroy`] each.
    fn step(&mut self, inputs: &[PlayerInput; PLAYERS_MAX], events: &mut Events);

    /// Standing of the players who are in.
    fn players(&self) -> &[Option<PlayerState>; PLAYERS_MAX];

    /// What lives now.
    fn entities(&self) -> &EntityTable;

    /// Index of the entity that matters most to `player`, their ship, if there is one: snapshots that cannot hold
    /// everything hold it and what is near it first.
    fn focus(&self, player: PlayerId) -> Option<u32>;

    /// Width and height of what players see, in the world's units, from the origin on: what is far outside may be left
    /// untold.
    fn playfield(&self) -> [i32; 2] {
        [1920 * UNITS_PER_PIXEL, 1080 * UNITS_PER_PIXEL]
    }

    /// A digest of everything that the future depends on.
    fn state_hash(&self) -> u64;
}

/// The events of one call: a list of fixed capacity ([`EVENTS_PER_STEP_MAX`]).
#[derive(Debug)]
pub struct Events {
    list: Vec<GameEvent>,
}

impl Events {
    /// An empty list.
    pub fn new() -> Self {
        Self { list: Vec::with_capacity(EVENTS_PER_STEP_MAX) }
    }

    /// Adds an event.
    ///
    /// # Panics
    /// When the list is full: a game asks [`Events::room`] before it lets more happen.
    pub fn push(&mut self, event: GameEvent) {
        assert!(self.room() > 0, "a game gave more events than a step may");
        self.list.push(event);
    }

    /// How many more fit.
    pub fn room(&self) -> usize {
        EVENTS_PER_STEP_MAX - self.list.len()
    }

    /// The events so far.
    pub fn as_slice(&self) -> &[GameEvent] {
        &self.list
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.list.clear();
    }
}

impl Default for Events {
    fn default() -> Self {
        Self::new()
    }
}
