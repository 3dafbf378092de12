//! The broad phase. What hits (ships and missiles, at most 36 of them) is entered into a grid as one bit each, in a
//! word per column and a word per row; what is hit asks for the bits of its columns and rows. Cost is proportional to
//! what moves, whatever the crowd.

use super::rules::{ENTITIES_RESERVED, Extent};
use crate::model::{Entity, PlayerId};

/// A cell is 64 pixels wide and high.
const CELL_SHIFT: i32 = 12;
/// Cells along each axis; what lies outside counts as in the cells at the edge.
const CELLS: usize = 32;
const STRIKERS_MAX: usize = 64;

const _: () = assert!(ENTITIES_RESERVED <= STRIKERS_MAX);

/// Scratch for one tick: nothing in it outlives a step.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    columns: [u64; CELLS],
    rows: [u64; CELLS],
    strikers: [Striker; STRIKERS_MAX],
    len: usize,
    /// Those who have not hit anything yet.
    armed: u64,
}

/// Somebody who can hit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Striker {
    area: Area,
    /// Entity index.
    pub(super) index: u32,
    pub(super) player: PlayerId,
    pub(super) is_ship: bool,
}

/// A box in world units; the right and bottom edges are outside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    left: i32,
    top: i32,
    right: i32,
    bottom: i32,
}

impl Area {
    #[inline]
    pub(super) fn of(entity: &Entity) -> Self {
        let Extent { width, height } = Extent::of(entity);
        Self { left: entity.x, top: entity.y, right: entity.x + width, bottom: entity.y + height }
    }

    #[inline]
    fn overlaps(&self, other: &Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }
}

impl Grid {
    pub(super) fn new() -> Self {
        let nobody = Striker {
            area: Area { left: 0, top: 0, right: 0, bottom: 0 },
            index: 0,
            player: PlayerId::new(0).expect("slot 0 exists"),
            is_ship: false,
        };
        Self { columns: [0; CELLS], rows: [0; CELLS], strikers: [nobody; STRIKERS_MAX], len: 0, armed: 0 }
    }

    pub(super) fn clear(&mut self) {
        self.columns = [0; CELLS];
        self.rows = [0; CELLS];
        self.len = 0;
        self.armed = 0;
    }

    /// Enters `entity`, the ship or a missile of `player`.
    pub(super) fn enter(&mut self, index: u32, entity: &Entity, player: PlayerId, is_ship: bool) {
        let area = Area::of(entity);
        let bit = 1 << self.len;
        self.strikers[self.len] = Striker { area, index, player, is_ship };
        self.len += 1;
        self.armed |= bit;
        for column in cell(area.left)..=cell(area.right - 1) {
            self.columns[column] |= bit;
        }
        for row in cell(area.top)..=cell(area.bottom - 1) {
            self.rows[row] |= bit;
        }
    }

    /// Those who hit `area` and have not hit anything else in this tick, one after the other in the order of their
    /// entry; each is spent by this.
    #[inline]
    pub(super) fn strike(&mut self, area: &Area) -> Option<Striker> {
        let mut columns = 0;
        for column in cell(area.left)..=cell(area.right - 1) {
            columns |= self.columns[column];
        }
        let mut near = columns & self.armed;
        if near == 0 {
            return None;
        }
        let mut rows = 0;
        for row in cell(area.top)..=cell(area.bottom - 1) {
            rows |= self.rows[row];
        }
        near &= rows;
        while near != 0 {
            let striker = &self.strikers[near.trailing_zeros() as usize];
            if striker.area.overlaps(area) {
                self.armed &= !(1 << near.trailing_zeros());
                return Some(*striker);
            }
            near &= near - 1;
        }
        None
    }
}

#[inline]
fn cell(at: i32) -> usize {
    (at >> CELL_SHIFT).clamp(0, CELLS as i32 - 1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Kind;
    use crate::rng::Rng;

    /// The grid finds exactly whom a look at every pair finds, also beyond the edges of the playfield.
    #[test]
    fn grid_agrees_with_every_pair() {
        let mut rng = Rng::new(11);
        let mut grid = Grid::new();
        let mut hits = 0;
        for _ in 0..400 {
            grid.clear();
            let anywhere = |rng: &mut Rng, kind| {
                Entity::new(kind).moving(rng.between(-9000, 130_000), rng.between(-9000, 75_000), 0, 0)
            };
            let strikers: Vec<Entity> = (0..36)
                .map(|n| anywhere(&mut rng, if n % 9 == 0 { Kind::SHIP } else { Kind::MISSILE }))
                .collect();
            for (index, entity) in strikers.iter().enumerate() {
                grid.enter(index as u32, entity, PlayerId::new(0).unwrap(), entity.kind == Kind::SHIP);
            }
            let mut spent = [false; 36];
            for _ in 0..30 {
                let variant = rng.below(6) as u8;
                let kind = if rng.chance(1, 2) { Kind::TILE } else { Kind::BYDOS };
                let area = Area::of(&anywhere(&mut rng, kind).with_variant(variant));
                let expected: Vec<u32> = (0..36)
                    .filter(|&n| !spent[n] && Area::of(&strikers[n]).overlaps(&area))
                    .map(|n| n as u32)
                    .collect();
                let found: Vec<u32> = std::iter::from_fn(|| grid.strike(&area)).map(|s| s.index).collect();
                assert_eq!(found, expected);
                found.iter().for_each(|&n| spent[n as usize] = true);
                hits += found.len();
            }
        }
        assert!(hits > 100, "{hits} hits test something");
    }

    #[test]
    fn boxes_that_touch_do_not_overlap() {
        let tile = Area::of(&Entity::new(Kind::TILE));
        let beside = Area::of(&Entity::new(Kind::SHIP).moving(128 * 64, 0, 0, 0));
        let inside = Area::of(&Entity::new(Kind::SHIP).moving(128 * 64 - 1, 64 * 64 - 1, 0, 0));
        assert!(!tile.overlaps(&beside) && !beside.overlaps(&tile));
        assert!(tile.overlaps(&inside) && inside.overlaps(&tile));
    }
}
