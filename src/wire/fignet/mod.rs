//! The bytes of the FigNet protocol, version 1.

pub mod bits;
