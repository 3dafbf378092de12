//! Players' ships: flight, loss, return.

use super::RtypeGame;
use super::digest::Digest;
use super::round::Phase;
use super::rules::{
    FIELD_HEIGHT, FIELD_WIDTH, MISSILES_PER_PLAYER_MAX, SHIP, SHIP_SPEED, SHIP_SPEED_DIAGONAL, spawn_place,
};
use crate::model::{Controls, DestroyReason, Entity, GameEvent, Kind, PLAYERS_MAX, PlayerId, PlayerInput};
use crate::world::Events;

/// What a player has in the air.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Pilot {
    /// Entity index, 0 for none.
    ship: u32,
    /// Ticks until the next ship, when there is none and lives are left.
    relaunch_in: u32,
    /// Ticks for which the ship cannot be hurt.
    pub(super) invulnerable: u32,
    /// Entity indices; the first `missiles_len` count.
    missiles: [u32; MISSILES_PER_PLAYER_MAX],
    missiles_len: u8,
}

impl Pilot {
    pub(super) fn ship(&self) -> Option<u32> {
        (self.ship != 0).then_some(self.ship)
    }

    pub(super) fn missiles(&self) -> &[u32] {
        &self.missiles[..usize::from(self.missiles_len)]
    }

    pub(super) fn add_missile(&mut self, index: u32) {
        self.missiles[usize::from(self.missiles_len)] = index;
        self.missiles_len += 1;
    }

    pub(super) fn forget_missile(&mut self, index: u32) {
        let len = usize::from(self.missiles_len);
        let at = self.missiles().iter().position(|&missile| missile == index);
        let at = at.expect("a missile in the air is in its owner's list");
        // The order of fire is kept: the grid is entered in it.
        self.missiles.copy_within(at + 1..len, at);
        self.missiles_len -= 1;
    }

    pub(super) fn digest(&self, digest: &mut Digest) {
        digest.add(u64::from(self.ship) | u64::from(self.missiles_len) << 32);
        digest.add(u64::from(self.relaunch_in) | u64::from(self.invulnerable) << 32);
        self.missiles().iter().for_each(|&missile| digest.add(u64::from(missile)));
    }
}

impl RtypeGame {
    /// A ship for `player`, who has none, at their place.
    pub(super) fn launch_ship(&mut self, player: PlayerId, events: &mut Events) {
        let (x, y) = spawn_place(player);
        let ship =
            Entity::new(Kind::SHIP).with_owner(Some(player)).with_variant(player.get()).moving(x, y, 0, 0);
        let index = self.population.spawn_player_entity(ship, events);
        let pilot = &mut self.pilots[player.index()];
        pilot.ship = index;
        pilot.relaunch_in = 0;
        pilot.invulnerable = self.rules.invulnerable_ticks;
        if let Some(state) = &mut self.players[player.index()] {
            state.alive = true;
        }
    }

    /// Moves every ship by its controls, and enters those who can be hurt into the grid.
    pub(super) fn fly_ships(&mut self, inputs: &[PlayerInput; PLAYERS_MAX]) {
        let dangerous = self.is_dangerous();
        for player in PlayerId::all() {
            let pilot = &mut self.pilots[player.index()];
            let Some(index) = pilot.ship() else { continue };
            let Some((ship, _)) = self.population.get_mut(index) else { continue };
            fly(ship, inputs[player.index()].held);
            if pilot.invulnerable > 0 {
                pilot.invulnerable -= 1;
            } else if dangerous {
                self.grid.enter(index, ship, player, true);
            }
        }
    }

    /// Takes away the ships of those marked in `crashed`, each with a life.
    pub(super) fn lose_ships(&mut self, crashed: [bool; PLAYERS_MAX], events: &mut Events) {
        for player in PlayerId::all().filter(|player| crashed[player.index()]) {
            let pilot = &mut self.pilots[player.index()];
            let (Some(index), Some(state)) = (pilot.ship(), &mut self.players[player.index()]) else {
                unreachable!("only ships of players crash");
            };
            pilot.ship = 0;
            pilot.relaunch_in = self.rules.respawn_ticks;
            state.alive = false;
            state.lives = state.lives.saturating_sub(1);
            let lives = state.lives;
            let Some((&mut Entity { x, y, .. }, _)) = self.population.get_mut(index) else {
                unreachable!("a pilot's ship is in the table");
            };
            self.population.destroy(index, DestroyReason::Killed, events);
            events.push(GameEvent::Death { player, lives, x, y });
        }
    }

    /// Brings back the ships whose time has come, while a round is on.
    pub(super) fn relaunch_ships(&mut self, events: &mut Events) {
        if !matches!(self.phase, Phase::Play { .. }) {
            return;
        }
        for player in PlayerId::all() {
            let pilot = &mut self.pilots[player.index()];
            let waits = self.players[player.index()].is_some_and(|state| !state.alive && state.lives > 0);
            if !waits {
                continue;
            }
            if pilot.relaunch_in > 0 {
                pilot.relaunch_in -= 1;
            } else {
                self.launch_ship(player, events);
            }
        }
    }

    /// Takes away the ship and the missiles of `player`, who leaves.
    pub(super) fn withdraw(&mut self, player: PlayerId, events: &mut Events) {
        let pilot = std::mem::take(&mut self.pilots[player.index()]);
        if let Some(index) = pilot.ship() {
            self.population.destroy(index, DestroyReason::OwnerLeft, events);
        }
        for &index in pilot.missiles() {
            self.population.destroy(index, DestroyReason::OwnerLeft, events);
        }
    }
}

/// One tick of flight. At the edge of the playfield the ship stops, and so does its velocity: what it does next is
/// what a snapshot predicts.
fn fly(ship: &mut Entity, held: Controls) {
    let (horizontal, vertical) = (held.horizontal(), held.vertical());
    let speed = if horizontal != 0 && vertical != 0 { SHIP_SPEED_DIAGONAL } else { SHIP_SPEED };
    (ship.x, ship.vx) = advance(ship.x, horizontal * speed, FIELD_WIDTH - SHIP.width);
    (ship.y, ship.vy) = advance(ship.y, vertical * speed, FIELD_HEIGHT - SHIP.height);
}

fn advance(at: i32, velocity: i32, max: i32) -> (i32, i16) {
    let to = at + velocity;
    if (0..=max).contains(&to) { (to, velocity as i16) } else { (to.clamp(0, max), 0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(bits: u8) -> Controls {
        Controls::from_bits(bits).unwrap()
    }

    /// R-Type 7.1: the direction bits set the velocity; Down and Right win; diagonals are scaled.
    #[test]
    fn rtype_7_1_controls_set_the_velocity() {
        let mut ship = Entity::new(Kind::SHIP).moving(64_000, 32_000, 0, 0);
        fly(&mut ship, held(Controls::UP));
        assert_eq!((ship.x, ship.y, ship.vx, ship.vy), (64_000, 31_744, 0, -256));
        fly(&mut ship, held(Controls::UP | Controls::DOWN | Controls::LEFT | Controls::RIGHT));
        assert_eq!((ship.x, ship.y, ship.vx, ship.vy), (64_181, 31_925, 181, 181));
        fly(&mut ship, Controls::RELEASED);
        assert_eq!((ship.x, ship.y, ship.vx, ship.vy), (64_181, 31_925, 0, 0));
    }

    #[test]
    fn ships_stop_at_the_edges() {
        let mut ship = Entity::new(Kind::SHIP).moving(100, 256, 0, 0);
        fly(&mut ship, held(Controls::LEFT | Controls::UP));
        assert_eq!((ship.x, ship.y, ship.vx, ship.vy), (0, 75, 0, -181));
        fly(&mut ship, held(Controls::LEFT | Controls::UP));
        assert_eq!((ship.x, ship.y, ship.vx, ship.vy), (0, 0, 0, 0));
        let (right, bottom) = (FIELD_WIDTH - SHIP.width, FIELD_HEIGHT - SHIP.height);
        let mut ship = Entity::new(Kind::SHIP).moving(right - 256, bottom - 1, 0, 0);
        fly(&mut ship, held(Controls::RIGHT));
        assert_eq!((ship.x, ship.vx), (right, 256), "exactly at the edge is still inside");
        fly(&mut ship, held(Controls::RIGHT | Controls::DOWN));
        assert_eq!((ship.x, ship.y, ship.vx, ship.vy), (right, bottom, 0, 0));
    }
}
