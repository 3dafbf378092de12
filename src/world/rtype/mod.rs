//! The R-Type game: four ships against what the level sends, in integers of 1/64 pixel. `docs/game.md` gives its
//! rules to operators and authors of clients.
//!
//! A step, in order: the round's clock; ships, then missiles, then everything else moves; what touches is judged;
//! lost ships go; the dead are buried; the round may end; ships come back, triggers fire, the level sends more.
//! What appears in a step therefore lives at least until the next one.
//!
//! What flies straight moves by exactly its velocity every tick, and what turns changes its velocity *after* the
//! move: snapshots predict both, and straight flight costs them nothing.
//!
//! Contract: nothing allocates after [`RtypeGame::new`]. A step gives at most
//! [`EVENTS_PER_STEP_MAX`](crate::world::EVENTS_PER_STEP_MAX) events into a list that was empty, a join 1, a leave at
//! most 9. Panics only for a caller's mistake: wrong rules, a table too small, joining twice, leaving without having
//! joined.

mod collision;
mod digest;
mod enemies;
mod level;
mod missiles;
mod population;
mod round;
pub mod rules;
mod ships;
mod stage;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::model::{EntityTable, PLAYERS_MAX, PlayerId, PlayerInput, PlayerState};
use crate::rng::Rng;
use crate::world::{Events, Game};

use self::collision::Grid;
use self::digest::Digest;
use self::population::Population;
use self::round::Progress;
use self::ships::Pilot;

pub use self::level::{
    LENGTH_TICKS_MAX, Level, LevelError, SPAWNS_MAX, STAGE_PIXELS_MAX, STRESS_ENTITIES_MAX,
};
pub use self::round::Phase;
pub use self::rules::{ENTITIES_RESERVED, Rules};

/// A room's game.
#[derive(Clone, Debug)]
pub struct RtypeGame {
    level: Arc<Level>,
    rules: Rules,
    rng: Rng,
    population: Population,
    players: [Option<PlayerState>; PLAYERS_MAX],
    pilots: [Pilot; PLAYERS_MAX],
    phase: Phase,
    progress: Progress,
    grid: Grid,
}

impl RtypeGame {
    /// A new room on `level`, with places for `entities_max` entities, of which [`ENTITIES_RESERVED`] are kept for
    /// ships and missiles. Its chance comes from seed 0 until the first [`Game::reset`].
    ///
    /// # Panics
    /// When `entities_max` leaves no place besides those of the players, or not enough for the crowd of a stress
    /// level; when a rule is out of its range.
    pub fn new(level: Arc<Level>, rules: Rules, entities_max: usize) -> Self {
        rules.check();
        let needed = ENTITIES_RESERVED + level.entities().unwrap_or(1) as usize;
        assert!(entities_max >= needed, "this level needs room for at least {needed} entities");
        Self {
            level,
            rules,
            rng: Rng::new(0),
            population: Population::new(entities_max),
            players: [None; PLAYERS_MAX],
            pilots: [Pilot::default(); PLAYERS_MAX],
            phase: Phase::default(),
            progress: Progress::default(),
            grid: Grid::new(),
        }
    }

    /// Where the round stands.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Enemies and tiles that found no place in the table since the game was made.
    pub fn spawns_skipped(&self) -> u64 {
        self.population.spawns_skipped()
    }
}

impl Game for RtypeGame {
    fn reset(&mut self, seed: u64) {
        self.rng = Rng::new(seed);
        self.population.reset();
        self.players = [None; PLAYERS_MAX];
        self.pilots = [Pilot::default(); PLAYERS_MAX];
        self.phase = Phase::default();
        self.progress = Progress::default();
    }

    /// Gives `player` all lives and a ship, in any phase: one Spawn.
    fn join(&mut self, player: PlayerId, events: &mut Events) {
        assert!(self.players[player.index()].is_none(), "a player joined twice");
        self.players[player.index()] = Some(PlayerState { alive: false, lives: self.rules.lives, score: 0 });
        self.launch_ship(player, events);
    }

    /// Takes the ship of `player` and their missiles away (OwnerLeft): at most 9 Destroys.
    fn leave(&mut self, player: PlayerId, events: &mut Events) {
        assert!(self.players[player.index()].is_some(), "a player left without having joined");
        self.withdraw(player, events);
        self.players[player.index()] = None;
    }

    fn step(&mut self, inputs: &[PlayerInput; PLAYERS_MAX], events: &mut Events) {
        self.run_round();
        self.grid.clear();
        self.fly_ships(inputs);
        self.fly_missiles();
        let crashed = self.drift_and_collide();
        self.lose_ships(crashed, events);
        self.population.bury(events);
        self.judge_round(events);
        self.finish_clearing(events);
        self.relaunch_ships(events);
        self.fire_missiles(inputs, events);
        self.send_more(events);
    }

    fn players(&self) -> &[Option<PlayerState>; PLAYERS_MAX] {
        &self.players
    }

    fn entities(&self) -> &EntityTable {
        self.population.table()
    }

    fn focus(&self, player: PlayerId) -> Option<u32> {
        self.pilots[player.index()].ship()
    }

    fn playfield(&self) -> [i32; 2] {
        [rules::FIELD_WIDTH, rules::FIELD_HEIGHT]
    }

    fn state_hash(&self) -> u64 {
        let mut digest = Digest::new();
        self.population.digest(&mut digest);
        for (state, pilot) in self.players.iter().zip(&self.pilots) {
            let standing = state.map_or(u64::MAX, |state| {
                u64::from(state.score) | u64::from(state.lives) << 32 | u64::from(state.alive) << 40
            });
            digest.add(standing);
            pilot.digest(&mut digest);
        }
        self.phase.digest(&mut digest);
        self.progress.digest(&mut digest);
        digest.add(self.rng.state_hash());
        digest.finish()
    }
}
