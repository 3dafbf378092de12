//! Which ship is the client's own: the protocol does not say, so it is the one that goes where the controls point.

use crate::model::{Controls, Entity, PLAYERS_MAX, PlayerId};
use crate::time::{Duration, Instant};

/// The controls must be held for so long before the way of a ship says anything.
const HELD_FOR: Duration = Duration::from_millis(250);

/// Marks that a ship needs to be taken for one's own, and how many it can have.
const SCORE_OWN: i8 = 3;
const SCORE_MAX: i8 = 12;

/// Marks for each slot's ship.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnShip {
    scores: [i8; PLAYERS_MAX],
    controls: Controls,
    held_since: Instant,
}

impl OwnShip {
    pub(super) const fn new() -> Self {
        Self { scores: [0; PLAYERS_MAX], controls: Controls::RELEASED, held_since: Instant::ZERO }
    }

    /// These controls are sent at `now`.
    pub(super) fn steer(&mut self, now: Instant, controls: Controls) {
        if direction(controls) != direction(self.controls) {
            self.held_since = now;
        }
        self.controls = controls;
    }

    /// The ship of `player` went from `before` to `after`.
    pub(super) fn moved(&mut self, now: Instant, player: PlayerId, before: &Entity, after: &Entity) {
        if now.since(self.held_since) < HELD_FOR {
            return;
        }
        let (held_x, held_y) = direction(self.controls);
        let (way_x, way_y) = ((after.x - before.x).signum(), (after.y - before.y).signum());
        let mark = mark(way_x, held_x) + mark(way_y, held_y);
        let score = &mut self.scores[player.index()];
        *score = (*score + mark).clamp(-SCORE_MAX, SCORE_MAX);
    }

    /// The ship of `player` is another one now.
    pub(super) fn forget(&mut self, player: PlayerId) {
        self.scores[player.index()] = self.scores[player.index()].min(SCORE_OWN);
    }

    /// The slot whose ship follows the controls, if one clearly does.
    pub(super) fn player(&self) -> Option<PlayerId> {
        let best = PlayerId::all().max_by_key(|player| self.scores[player.index()])?;
        let score = self.scores[best.index()];
        let is_clear = PlayerId::all()
            .filter(|&player| player != best)
            .all(|player| self.scores[player.index()] < score);
        (score >= SCORE_OWN && is_clear).then_some(best)
    }
}

/// What the way along one axis says. Standing still says nothing: there are edges and walls.
const fn mark(way: i32, held: i32) -> i8 {
    if way == 0 {
        0
    } else if way == held {
        1
    } else {
        -2
    }
}

const fn direction(controls: Controls) -> (i32, i32) {
    (controls.horizontal(), controls.vertical())
}
