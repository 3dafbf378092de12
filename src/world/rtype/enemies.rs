//! Everything that is nobody's: enemies and tiles move, and are hit.

use super::RtypeGame;
use super::collision::Area;
use super::level::{Course, EnemySpawn, Stress, Weave};
use super::population::Note;
use super::round::Phase;
use super::rules::{BYDOS, Extent, FIELD_HEIGHT, FIELD_WIDTH};
use crate::model::{DestroyReason, Entity, Kind, PLAYERS_MAX};
use crate::rng::Rng;

impl RtypeGame {
    /// Moves enemies and tiles, each once, and settles at once what ships and missiles hit. Gives the players whose
    /// ships are lost. A ram is a hit like a missile's.
    pub(super) fn drift_and_collide(&mut self) -> [bool; PLAYERS_MAX] {
        let bounces = matches!(self.level.course, Course::Stress(_));
        let scores = matches!(self.phase, Phase::Play { .. });
        let mut crashed = [false; PLAYERS_MAX];
        let mut next = self.population.table().next_live(1);
        while let Some(index) = next {
            next = self.population.table().next_live(index + 1);
            let Some((entity, note)) = self.population.get_mut(index) else { continue };
            let is_bydos = entity.kind == Kind::BYDOS;
            if !(is_bydos || entity.kind == Kind::TILE) || note.doomed {
                continue;
            }
            entity.x += i32::from(entity.vx);
            entity.y += i32::from(entity.vy);
            if is_bydos {
                turn(entity, note);
            }
            if bounces {
                bounce(entity);
            } else if entity.x + Extent::of(entity).width <= 0 {
                self.population.doom(index, DestroyReason::OutOfBounds);
                continue;
            }
            let area = Area::of(entity);
            let mut health = entity.health;
            while health > 0
                && let Some(striker) = self.grid.strike(&area)
            {
                if striker.is_ship {
                    crashed[striker.player.index()] = true;
                } else {
                    self.lose_missile(striker.player, striker.index, DestroyReason::Killed);
                }
                if is_bydos {
                    health -= 1;
                    self.wound(index, health, scores, striker.player.index());
                }
            }
        }
        crashed
    }

    fn wound(&mut self, index: u32, health: u8, scores: bool, player: usize) {
        let Some((entity, note)) = self.population.get_mut(index) else { return };
        entity.health = health;
        let score = u32::from(note.score);
        if health > 0 {
            return;
        }
        self.population.doom(index, DestroyReason::Killed);
        if let Some(state) = &mut self.players[player]
            && scores
        {
            state.score = state.score.saturating_add(score);
        }
    }
}

/// An enemy as the script wants it, entering at the right edge.
pub(super) fn scripted(spawn: &EnemySpawn, rng: &mut Rng) -> (Entity, Note) {
    let scatter = if spawn.scatter > 0 { rng.between(-spawn.scatter, spawn.scatter) } else { 0 };
    enemy(FIELD_WIDTH, spawn.y + scatter, spawn.vx, 0, spawn.weave, spawn.health, spawn.score)
}

/// One of the crowd of a stress level, anywhere.
pub(super) fn crowded(stress: &Stress, rng: &mut Rng) -> (Entity, Note) {
    let x = rng.between(0, FIELD_WIDTH - BYDOS.width);
    let y = rng.between(0, FIELD_HEIGHT - BYDOS.height);
    let speed = i32::from(stress.speed);
    let mut velocity = |low| {
        let speed = rng.between(low, speed) as i16;
        if rng.chance(1, 2) { -speed } else { speed }
    };
    let (vx, vy) = (velocity(1), velocity(0));
    let weaves = vy != 0 && rng.chance(u32::from(stress.weave_percent), 100);
    let weave = if weaves { Weave { climb: vy, turn_ticks: stress.turn_ticks } } else { Weave::default() };
    enemy(x, y, vx, vy, weave, stress.health, stress.score)
}

fn enemy(x: i32, y: i32, vx: i16, vy: i16, weave: Weave, health: u8, score: u16) -> (Entity, Note) {
    let weaves = weave.turn_ticks > 0;
    let mut entity = Entity::new(Kind::BYDOS).with_variant(u8::from(weaves)).moving(
        x,
        y,
        vx,
        if weaves { weave.climb } else { vy },
    );
    entity.health = health;
    (entity, Note { weave, turn_in: weave.turn_ticks, score, ..Note::default() })
}

/// The next leg of a weave, when it is time: climb, level, back, level.
#[inline]
fn turn(entity: &mut Entity, note: &mut Note) {
    if note.turn_in == 0 {
        return;
    }
    note.turn_in -= 1;
    if note.turn_in > 0 {
        return;
    }
    note.turn_in = note.weave.turn_ticks;
    note.leg = (note.leg + 1) % 4;
    entity.vy = match note.leg {
        0 => note.weave.climb,
        2 => -note.weave.climb,
        _ => 0,
    };
}

/// Turns back, before the next move, what it would bring out of the playfield.
#[inline]
fn bounce(entity: &mut Entity) {
    if !(0..=FIELD_WIDTH - BYDOS.width).contains(&(entity.x + i32::from(entity.vx))) {
        entity.vx = -entity.vx;
    }
    if !(0..=FIELD_HEIGHT - BYDOS.height).contains(&(entity.y + i32::from(entity.vy))) {
        entity.vy = -entity.vy;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weave_comes_back_to_where_it_began_and_turns_rarely() {
        let weave = Weave { climb: -96, turn_ticks: 15 };
        let (mut entity, mut note) = enemy(FIELD_WIDTH, 20_000, -160, 0, weave, 1, 0);
        let (mut turns, mut top) = (0, entity.y);
        for _ in 0..60 {
            let before = entity;
            entity.x += i32::from(entity.vx);
            entity.y += i32::from(entity.vy);
            turn(&mut entity, &mut note);
            turns += u32::from(entity.vy != before.vy);
            assert_eq!((entity.x, entity.y), (before.predicted(1).x, before.predicted(1).y));
            top = top.min(entity.y);
        }
        assert_eq!((entity.y, top, turns, note.leg), (20_000, 20_000 - 96 * 15, 4, 0));
    }

    #[test]
    fn a_crowd_never_leaves_the_playfield() {
        let stress =
            Stress { entities: 1, speed: 1024, weave_percent: 50, turn_ticks: 7, health: 1, score: 0 };
        let mut rng = Rng::new(3);
        for _ in 0..50 {
            let (mut entity, mut note) = crowded(&stress, &mut rng);
            for _ in 0..500 {
                bounce(&mut entity);
                entity.x += i32::from(entity.vx);
                entity.y += i32::from(entity.vy);
                turn(&mut entity, &mut note);
                assert!((0..=FIELD_WIDTH - BYDOS.width).contains(&entity.x), "{entity:?}");
                assert!((0..=FIELD_HEIGHT - BYDOS.height).contains(&entity.y), "{entity:?}");
            }
        }
    }
}
