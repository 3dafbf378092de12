//! The numbers of the game: what an operator may set ([`Rules`]), and what is fixed, in world units.

use crate::model::{Entity, Kind, PLAYERS_MAX, PlayerId, UNITS_PER_PIXEL};
use crate::world::EVENTS_PER_STEP_MAX;

/// What an operator may set. The default is the R-Type game as its clients know it, at 60 ticks a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// A round starts as soon as this many players are in, 1 to 4.
    pub round_start_players: u8,
    /// A round also starts this many ticks after someone came to the lobby, 0 for the next tick.
    pub round_start_wait_ticks: u32,
    /// Lives a player has in a round, the first ship included, 1 to 15.
    pub lives: u8,
    /// Missiles a player may have in the air, 1 to [`MISSILES_PER_PLAYER_MAX`].
    pub missiles_per_player: u8,
    /// From the loss of a ship to the next one.
    pub respawn_ticks: u32,
    /// How long a new ship cannot be hurt.
    pub invulnerable_ticks: u32,
    /// From the end of a round to the clearing of the stage.
    pub game_over_ticks: u32,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            round_start_players: 2,
            round_start_wait_ticks: 1800,
            lives: 3,
            missiles_per_player: 8,
            respawn_ticks: 120,
            invulnerable_ticks: 120,
            game_over_ticks: 300,
        }
    }
}

impl Rules {
    /// Asserts the ranges that the fields' documentation gives.
    pub(super) fn check(&self) {
        assert!((1..=PLAYERS_MAX as u8).contains(&self.round_start_players), "round_start_players: 1 to 4");
        assert!((1..=15).contains(&self.lives), "lives: 1 to 15, they have four bits");
        let missiles = usize::from(self.missiles_per_player);
        assert!((1..=MISSILES_PER_PLAYER_MAX).contains(&missiles), "missiles_per_player: 1 to 8");
    }
}

/// Most missiles that [`Rules::missiles_per_player`] can allow.
pub const MISSILES_PER_PLAYER_MAX: usize = 8;

/// Most missiles of all players.
pub(super) const MISSILES_MAX: usize = PLAYERS_MAX * MISSILES_PER_PLAYER_MAX;

/// Entities that are kept free for the players: their ships and their missiles always fit.
pub const ENTITIES_RESERVED: usize = PLAYERS_MAX + MISSILES_MAX;

/// Events that every step keeps back from burials: a player loses a ship (destroyed, died) or gets one and fires,
/// which is two either way, and the round can end.
pub(super) const EVENTS_RESERVED: usize = PLAYERS_MAX * 2 + 1;

/// Most enemies, and most tiles, that appear in one tick.
pub(super) const SPAWNS_PER_TICK_MAX: usize = 8;

/// Most entities that the clearing of the stage takes away in one tick.
pub(super) const CLEARED_PER_TICK_MAX: usize = 16;

// What a tick of clearing dooms is buried in the same tick.
const _: () = assert!(EVENTS_RESERVED + CLEARED_PER_TICK_MAX < EVENTS_PER_STEP_MAX);

/// Width of the playfield.
pub const FIELD_WIDTH: i32 = 1920 * UNITS_PER_PIXEL;
/// Height of the playfield.
pub const FIELD_HEIGHT: i32 = 1080 * UNITS_PER_PIXEL;

/// Speed of a ship along one axis.
pub const SHIP_SPEED: i32 = 4 * UNITS_PER_PIXEL;
/// Its speed along each axis when it flies diagonally: 0.7071 of [`SHIP_SPEED`] (R-Type 7.1).
pub const SHIP_SPEED_DIAGONAL: i32 = SHIP_SPEED * 7071 / 10_000;
/// Speed of a missile, to the right.
pub const MISSILE_SPEED: i16 = 16 * UNITS_PER_PIXEL as i16;
/// Health of a tile; nothing lowers it.
pub const TILE_HEALTH: u8 = 255;

/// Width and height of something, from its position (its top left corner) to the right and down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Width.
    pub width: i32,
    /// Height.
    pub height: i32,
}

/// A ship.
pub const SHIP: Extent = Extent::pixels(64, 32);
/// A missile.
pub const MISSILE: Extent = Extent::pixels(32, 8);
/// An enemy.
pub const BYDOS: Extent = Extent::pixels(64, 64);
/// Tiles by variant: low_ground, medium_ground, high_ground, ramp, reactor, gate.
pub const TILES: [Extent; 6] = [
    Extent::pixels(128, 64),
    Extent::pixels(128, 128),
    Extent::pixels(128, 192),
    Extent::pixels(128, 96),
    Extent::pixels(192, 160),
    Extent::pixels(64, 288),
];

impl Extent {
    const fn pixels(width: i32, height: i32) -> Self {
        Self { width: width * UNITS_PER_PIXEL, height: height * UNITS_PER_PIXEL }
    }

    /// What `entity` covers.
    #[inline]
    pub fn of(entity: &Entity) -> Self {
        match entity.kind {
            Kind::SHIP => SHIP,
            Kind::MISSILE => MISSILE,
            Kind::TILE => TILES[usize::from(entity.variant()) % TILES.len()],
            _ => BYDOS,
        }
    }
}

/// Where the ship of `player` appears: x = 150, y = 150 + 100 × slot, in pixels (R-Type 10).
pub fn spawn_place(player: PlayerId) -> (i32, i32) {
    (150 * UNITS_PER_PIXEL, (150 + 100 * i32::from(player.get())) * UNITS_PER_PIXEL)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-Type 7.1: the diagonal speed is the straight one scaled by 0.7071.
    #[test]
    fn rtype_7_1_diagonal_speed() {
        assert_eq!((SHIP_SPEED, SHIP_SPEED_DIAGONAL), (256, 181));
    }

    /// R-Type 10: the spawn position of slot n is x = 150, y = 150 + 100 n.
    #[test]
    fn rtype_10_spawn_places() {
        let places: Vec<_> = PlayerId::all().map(spawn_place).collect();
        assert_eq!(places, [(9600, 9600), (9600, 16_000), (9600, 22_400), (9600, 28_800)]);
    }

    #[test]
    #[should_panic(expected = "lives")]
    fn sixteen_lives_do_not_fit_four_bits() {
        Rules { lives: 16, ..Rules::default() }.check();
    }
}
