//! Positions and rotations in sixteen bits (R-Type 9.1, 9.2).
//!
//! The server's own values are integers and so are their conversions. Those from and to floats are for clients, which
//! draw in pixels and radians.

use std::f64::consts::TAU;

use crate::model::UNITS_PER_PIXEL;

/// A coordinate: quarter pixels from −8192 (0) to 8191.75 (65535).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Pos16(pub u16);

/// A rotation: 1/65536 turns.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Rot16(pub u16);

/// The encoding of coordinate 0.
const ZERO: i32 = 8192 * 4;

/// The world's units in one step of the encoding.
const STEP: i32 = UNITS_PER_PIXEL / 4;

const _: () = assert!(STEP * 4 == UNITS_PER_PIXEL && STEP % 2 == 0);

impl Pos16 {
    /// Coordinate 0.
    pub const ORIGIN: Self = Self(ZERO as u16);

    /// The encoding of a coordinate of the world (1/64 pixel): to the nearest step, and of two equally near ones the
    /// greater, since encodings are not negative and halves round away from zero. Beyond the range, its nearest end.
    #[inline]
    pub const fn from_units(units: i32) -> Self {
        let steps = units.saturating_add(STEP / 2).div_euclid(STEP) + ZERO;
        Self(if steps < 0 {
            0
        } else if steps > u16::MAX as i32 {
            u16::MAX
        } else {
            steps as u16
        })
    }

    /// The coordinate in the world's units.
    #[inline]
    pub const fn to_units(self) -> i32 {
        (self.0 as i32 - ZERO) * STEP
    }

    /// The encoding of a coordinate in pixels, clamped to the range; of one that is not finite, that of 0.
    pub fn from_pixels(pixels: f64) -> Self {
        if !pixels.is_finite() {
            return Self::ORIGIN;
        }
        // A cast from float to integer saturates.
        Self(((pixels + 8192.0) * 4.0).round() as u16)
    }

    /// The coordinate in pixels.
    pub fn to_pixels(self) -> f64 {
        f64::from(self.0) / 4.0 - 8192.0
    }
}

impl Rot16 {
    /// The encoding of an angle in radians: full turns do not count, negative angles come out positive, and an angle
    /// that is not finite is 0.
    pub fn from_radians(radians: f64) -> Self {
        if !radians.is_finite() {
            return Self(0);
        }
        let turns = (radians / TAU).rem_euclid(1.0);
        // What rounds up to a whole turn is 0 again.
        Self((turns * 65_536.0).round() as u32 as u16)
    }

    /// The angle in radians, from 0 to just below a whole turn.
    pub fn to_radians(self) -> f64 {
        f64::from(self.0) / 65_536.0 * TAU
    }
}
