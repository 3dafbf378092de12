//! The round: lobby, play, the end, the clearing, and the lobby again.

use super::RtypeGame;
use super::digest::Digest;
use super::level::Course;
use super::rules::CLEARED_PER_TICK_MAX;
use crate::model::{DestroyReason, GameEvent, Kind, PlayerId, Score, Scores};
use crate::world::Events;

/// Where a round stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Ships fly, nobody comes. The round waits for players.
    Lobby {
        /// Ticks since somebody is here.
        waited: u32,
    },
    /// The level runs.
    Play {
        /// Ticks since its start.
        tick: u32,
    },
    /// It is over, and still to be seen: nobody is hurt, nothing counts, nothing new comes.
    Over {
        /// Ticks until the stage is cleared.
        left: u32,
    },
    /// Everything but ships is taken away.
    Clearing,
}

/// How much of the script has come already.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Progress {
    pub(super) tiles: u32,
    pub(super) enemies: u32,
}

impl Default for Phase {
    fn default() -> Self {
        Self::Lobby { waited: 0 }
    }
}

impl Phase {
    pub(super) fn digest(&self, digest: &mut Digest) {
        let (phase, timer) = match *self {
            Self::Lobby { waited } => (0, waited),
            Self::Play { tick } => (1, tick),
            Self::Over { left } => (2, left),
            Self::Clearing => (3, 0),
        };
        digest.add(phase | u64::from(timer) << 32);
    }
}

impl Progress {
    pub(super) fn digest(&self, digest: &mut Digest) {
        digest.add(u64::from(self.tiles) | u64::from(self.enemies) << 32);
    }
}

impl RtypeGame {
    /// The round's clock, at the start of a tick.
    pub(super) fn run_round(&mut self) {
        let players = self.players.iter().flatten().count();
        self.phase = match self.phase {
            Phase::Lobby { .. } if players == 0 => Phase::Lobby { waited: 0 },
            Phase::Lobby { waited }
                if players >= usize::from(self.rules.round_start_players)
                    || waited >= self.rules.round_start_wait_ticks =>
            {
                self.progress = Progress::default();
                Phase::Play { tick: 0 }
            }
            Phase::Lobby { waited } => Phase::Lobby { waited: waited + 1 },
            // Nobody is left to see the end.
            Phase::Play { .. } | Phase::Over { .. } if players == 0 => Phase::Clearing,
            Phase::Play { tick } => Phase::Play { tick: tick.saturating_add(1) },
            Phase::Over { left: 0 } => Phase::Clearing,
            Phase::Over { left } => Phase::Over { left: left - 1 },
            Phase::Clearing => Phase::Clearing,
        };
        if self.phase == Phase::Clearing {
            self.clear_some();
        }
    }

    /// Dooms up to [`CLEARED_PER_TICK_MAX`] of those who are not ships.
    fn clear_some(&mut self) {
        let mut left = CLEARED_PER_TICK_MAX;
        let mut next = self.population.table().next_live(1);
        while left > 0
            && let Some(index) = next
        {
            next = self.population.table().next_live(index + 1);
            let Some((entity, note)) = self.population.get_mut(index) else { continue };
            if entity.kind == Kind::SHIP || note.doomed {
                continue;
            }
            left -= 1;
            match entity.owner() {
                Some(player) => self.lose_missile(player, index, DestroyReason::Reset),
                None => self.population.doom(index, DestroyReason::Reset),
            }
        }
    }

    /// Whether ships can be lost now.
    pub(super) fn is_dangerous(&self) -> bool {
        matches!(self.phase, Phase::Play { .. }) && matches!(self.level.course, Course::Script(_))
    }

    /// Ends the round when every player is out of ships and lives, or the level is through.
    pub(super) fn judge_round(&mut self, events: &mut Events) {
        let Phase::Play { tick } = self.phase else { return };
        let Course::Script(script) = &self.level.course else { return };
        let all_out = self.players.iter().flatten().all(|state| !state.alive && state.lives == 0);
        let all_sent = self.progress.enemies as usize == script.enemies.len();
        // A level without enemies is played to its length.
        let all_gone = all_sent && !script.enemies.is_empty() && self.population.bydos() == 0;
        if all_out || all_gone || tick >= script.length_ticks {
            self.phase = Phase::Over { left: self.rules.game_over_ticks };
            events.push(GameEvent::GameOver { scores: self.scores() });
        }
    }

    fn scores(&self) -> Scores {
        let result =
            |player: PlayerId| self.players[player.index()].map(|state| Score { player, score: state.score });
        PlayerId::all().filter_map(result).collect()
    }

    /// Back to the lobby, once nothing but ships is left: all lives again, no points, a ship for everyone.
    pub(super) fn finish_clearing(&mut self, events: &mut Events) {
        let ships = self.pilots.iter().filter(|pilot| pilot.ship().is_some()).count();
        if self.phase != Phase::Clearing || self.population.table().len() > ships {
            return;
        }
        self.phase = Phase::Lobby { waited: 0 };
        for player in PlayerId::all() {
            let Some(state) = &mut self.players[player.index()] else { continue };
            state.lives = self.rules.lives;
            state.score = 0;
            if !state.alive {
                self.launch_ship(player, events);
            }
        }
    }
}
