//! The bytes of the FigNet protocol, version 1.

pub mod bits;
pub mod huffman;
pub mod runs;
pub mod snapshot;
