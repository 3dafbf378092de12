//! What entities are: blueprints and the archetype ids that name them (R-Type 9.3).

use crate::model::{Entity, Kind, PlayerId};

/// A blueprint of the game.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blueprint {
    /// The ship of a slot.
    Player(PlayerId),
    /// A player's missile.
    Bullet,
    /// A Bydos.
    Bydos,
    /// A piece of the stage, by its variant: 0 to 5.
    Tile(u8),
}

/// Names of the ships, by slot.
const PLAYERS: [&str; 4] = ["player_blue", "player_green", "player_pink", "player_red"];

/// Names of the tiles, by variant.
const TILES: [&str; 6] = ["low_ground", "medium_ground", "high_ground", "ramp", "reactor", "gate"];

const BULLET: &str = "bullet";
const BYDOS: &str = "enemyBidos";

const PLAYER_IDS: [u16; 4] = ids(PLAYERS);
const TILE_IDS: [u16; 6] = ids(TILES);
const BULLET_ID: u16 = archetype_id(BULLET);
const BYDOS_ID: u16 = archetype_id(BYDOS);

/// The archetype id of a blueprint's name: its 32-bit FNV-1a hash, folded to 16 bits.
pub const fn archetype_id(name: &str) -> u16 {
    let bytes = name.as_bytes();
    let mut hash: u32 = 2_166_136_261;
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u32).wrapping_mul(16_777_619);
        at += 1;
    }
    (hash >> 16) as u16 ^ hash as u16
}

const fn ids<const N: usize>(names: [&str; N]) -> [u16; N] {
    let mut ids = [0; N];
    let mut at = 0;
    while at < N {
        ids[at] = archetype_id(names[at]);
        at += 1;
    }
    ids
}

impl Blueprint {
    /// The blueprint of an entity. `None` for a kind that this version does not know, and a ship without an owner.
    #[inline]
    pub const fn of(entity: &Entity) -> Option<Self> {
        Some(match entity.kind {
            Kind::SHIP => match entity.owner() {
                Some(player) => Self::Player(player),
                None => return None,
            },
            Kind::MISSILE => Self::Bullet,
            Kind::BYDOS => Self::Bydos,
            Kind::TILE => Self::Tile(entity.variant() % TILES.len() as u8),
            _ => return None,
        })
    }

    /// The blueprint that an archetype id names, if this version has it.
    pub fn from_archetype(id: u16) -> Option<Self> {
        Self::all().find(|blueprint| blueprint.archetype() == id)
    }

    /// Every blueprint.
    pub fn all() -> impl Iterator<Item = Self> {
        let tiles = (0..TILES.len() as u8).map(Self::Tile);
        PlayerId::all().map(Self::Player).chain([Self::Bullet, Self::Bydos]).chain(tiles)
    }

    /// Its name.
    ///
    /// # Panics
    /// When it is a tile of a variant above 5.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Player(player) => PLAYERS[player.index()],
            Self::Bullet => BULLET,
            Self::Bydos => BYDOS,
            Self::Tile(variant) => TILES[variant as usize],
        }
    }

    /// Its archetype id.
    ///
    /// # Panics
    /// When it is a tile of a variant above 5.
    #[inline]
    pub const fn archetype(self) -> u16 {
        match self {
            Self::Player(player) => PLAYER_IDS[player.index()],
            Self::Bullet => BULLET_ID,
            Self::Bydos => BYDOS_ID,
            Self::Tile(variant) => TILE_IDS[variant as usize],
        }
    }

    /// An entity built from it, at rest at the origin.
    pub const fn entity(self) -> Entity {
        match self {
            Self::Player(player) => {
                Entity::new(Kind::SHIP).with_owner(Some(player)).with_variant(player.get())
            }
            Self::Bullet => Entity::new(Kind::MISSILE),
            Self::Bydos => Entity::new(Kind::BYDOS),
            Self::Tile(variant) => Entity::new(Kind::TILE).with_variant(variant),
        }
    }
}
