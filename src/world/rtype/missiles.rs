//! Missiles: one for every release of the trigger, straight to the right until they hit or leave.

use super::RtypeGame;
use super::round::Phase;
use super::rules::{FIELD_WIDTH, MISSILE, MISSILE_SPEED, MISSILES_MAX, SHIP};
use crate::model::{DestroyReason, Entity, Kind, PLAYERS_MAX, PlayerId, PlayerInput};
use crate::world::Events;

impl RtypeGame {
    /// Moves every missile; those still in the playfield are entered into the grid.
    pub(super) fn fly_missiles(&mut self) {
        for player in PlayerId::all() {
            // By number, not by slice: leaving the playfield takes a missile out of the list.
            let mut number = 0;
            while let Some(&index) = self.pilots[player.index()].missiles().get(number) {
                let Some((missile, _)) = self.population.get_mut(index) else {
                    unreachable!("a pilot's missiles are in the table");
                };
                missile.x += i32::from(missile.vx);
                if missile.x < FIELD_WIDTH {
                    self.grid.enter(index, missile, player, false);
                    number += 1;
                } else {
                    self.lose_missile(player, index, DestroyReason::OutOfBounds);
                }
            }
        }
    }

    /// Takes the missile at `index` out of the game; its owner may fire another.
    pub(super) fn lose_missile(&mut self, player: PlayerId, index: u32, reason: DestroyReason) {
        self.pilots[player.index()].forget_missile(index);
        self.population.doom(index, reason);
    }

    /// A missile from the nose of every ship whose trigger was let go, unless the player has enough in the air.
    pub(super) fn fire_missiles(&mut self, inputs: &[PlayerInput; PLAYERS_MAX], events: &mut Events) {
        if self.phase == Phase::Clearing {
            return;
        }
        for player in PlayerId::all().filter(|player| inputs[player.index()].fire) {
            let pilot = &mut self.pilots[player.index()];
            let Some(ship) = pilot.ship() else { continue };
            // The second limit only binds when so much ends at once that burials are late.
            if pilot.missiles().len() >= usize::from(self.rules.missiles_per_player)
                || self.population.missiles() as usize >= MISSILES_MAX
            {
                continue;
            }
            let Some((&mut Entity { x, y, .. }, _)) = self.population.get_mut(ship) else { continue };
            let missile = Entity::new(Kind::MISSILE).with_owner(Some(player)).moving(
                x + SHIP.width,
                y + (SHIP.height - MISSILE.height) / 2,
                MISSILE_SPEED,
                0,
            );
            let index = self.population.spawn_player_entity(missile, events);
            pilot.add_missile(index);
        }
    }
}
