//! The part of a room that a peer sees.

use crate::model::{Entity, UNITS_PER_PIXEL};
use crate::wire::fignet::snapshot::{POSITION_MAX, POSITION_MIN};

/// A rectangle of positions, its edges included, in 1/64 pixel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Area {
    x_min: i32,
    y_min: i32,
    x_max: i32,
    y_max: i32,
}

/// How far beyond the playfield entities are told, in pixels: what comes in is there before it is seen.
pub const MARGIN_PIXELS: i32 = 256;

impl Area {
    /// Every position that can be told at all.
    pub const EVERYTHING: Self =
        Self { x_min: POSITION_MIN, y_min: POSITION_MIN, x_max: POSITION_MAX, y_max: POSITION_MAX };

    /// What a receiver sees whose view is `width` × `height` at (`x`, `y`), all in 1/64 pixel, and [`MARGIN_PIXELS`] around
    /// it, as far as positions can be told.
    ///
    /// # Panics
    /// When `width` or `height` is negative.
    pub fn around(x: i32, y: i32, width: i32, height: i32) -> Self {
        assert!(width >= 0 && height >= 0, "a view of less than nothing");
        let margin = MARGIN_PIXELS * UNITS_PER_PIXEL;
        let low = |at: i32| at.saturating_sub(margin).clamp(POSITION_MIN, POSITION_MAX);
        let high = |at: i32, size: i32| {
            at.saturating_add(size).saturating_add(margin).clamp(POSITION_MIN, POSITION_MAX)
        };
        Self { x_min: low(x), y_min: low(y), x_max: high(x, width), y_max: high(y, height) }
    }

    /// Whether an entity's position is inside.
    #[inline]
    pub const fn contains(&self, entity: &Entity) -> bool {
        self.x_min <= entity.x && entity.x <= self.x_max && self.y_min <= entity.y && entity.y <= self.y_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Kind;

    #[test]
    fn the_margin_is_in_and_what_is_beyond_is_not() {
        let area = Area::around(0, 0, 1920 * 64, 1080 * 64);
        let at = |x, y| Entity::new(Kind::BYDOS).moving(x, y, 0, 0);
        assert!(area.contains(&at(-256 * 64, -256 * 64)));
        assert!(area.contains(&at((1920 + 256) * 64, (1080 + 256) * 64)));
        assert!(!area.contains(&at(-256 * 64 - 1, 0)));
        assert!(!area.contains(&at(0, (1080 + 256) * 64 + 1)));
        assert_eq!(Area::around(i32::MIN, i32::MIN, i32::MAX, i32::MAX).x_min, POSITION_MIN);
        assert_eq!(Area::around(-1 << 20, -1 << 20, 1 << 21, 1 << 21), Area::EVERYTHING);
    }
}
