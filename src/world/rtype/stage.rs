//! What the level sends: tiles and enemies of a script as the stage scrolls, or the crowd of a stress level.

use super::RtypeGame;
use super::enemies;
use super::level::{Course, Script, TileSpawn};
use super::population::Note;
use super::round::Phase;
use super::rules::{FIELD_WIDTH, SPAWNS_PER_TICK_MAX, TILE_HEALTH};
use crate::model::{Entity, Kind};
use crate::world::Events;

impl RtypeGame {
    /// Brings in what is due, as far as events and the pace allow; the rest waits its turn.
    pub(super) fn send_more(&mut self, events: &mut Events) {
        let Phase::Play { tick } = self.phase else { return };
        match &self.level.course {
            Course::Script(script) => {
                let scrolled = scrolled(script, tick);
                for _ in 0..SPAWNS_PER_TICK_MAX.min(events.room()) {
                    let tile = script.tiles.get(self.progress.tiles as usize);
                    let Some(tile) = tile.filter(|tile| tile.x <= scrolled) else { break };
                    self.population.spawn(
                        stand(tile, scrolled, script.scroll_speed),
                        Note::default(),
                        events,
                    );
                    self.progress.tiles += 1;
                }
                for _ in 0..SPAWNS_PER_TICK_MAX.min(events.room()) {
                    let spawn = script.enemies.get(self.progress.enemies as usize);
                    let Some(spawn) = spawn.filter(|spawn| spawn.tick <= tick) else { break };
                    let (entity, note) = enemies::scripted(spawn, &mut self.rng);
                    self.population.spawn(entity, note, events);
                    self.progress.enemies += 1;
                }
            }
            Course::Stress(stress) => {
                let missing = stress.entities.saturating_sub(self.population.bydos()) as usize;
                for _ in 0..missing.min(SPAWNS_PER_TICK_MAX).min(events.room()) {
                    let (entity, note) = enemies::crowded(stress, &mut self.rng);
                    self.population.spawn(entity, note, events);
                }
            }
        }
    }
}

/// How far the stage has come, in units.
fn scrolled(script: &Script, tick: u32) -> i32 {
    // At most LENGTH_TICKS_MAX × 512.
    tick as i32 * i32::from(script.scroll_speed)
}

/// `tile` at its place on the stage, exactly, also when it comes a few ticks late: neighbours stay flush.
fn stand(tile: &TileSpawn, scrolled: i32, scroll_speed: i16) -> Entity {
    let mut entity = Entity::new(Kind::TILE).with_variant(tile.variant).moving(
        FIELD_WIDTH + tile.x - scrolled,
        tile.y,
        -scroll_speed,
        0,
    );
    entity.health = TILE_HEALTH;
    entity
}
