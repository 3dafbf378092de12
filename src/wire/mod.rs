//! Bytes ↔ values, without any state: what a protocol's bytes say, and how to say it in bytes.
//!
//! - [`cursor`]: whole bytes, little-endian; [`bits`]: bit streams. Both fail for good: after the first read past the end
//!   every later one fails too, so that a parser may check once.
//! - [`aegis`]: the bytes of the Aegis protocol, version 1 (docs/protocol/aegis.md).
//! - [`rtype`]: those of the R-Type protocol, version 1 (docs/protocol/rtype.md), which are big-endian.
//! - [`fignet`]: the bytes of the FigNet protocol, version 1 (docs/protocol/fignet.md).
//!
//! Every parser takes any bytes at all without a panic, allocates nothing, and checks everything before it gives a
//! value. Its errors are small `Copy` enums, one case per way to be wrong. Emitters take values from our own code:
//! those assert.

pub mod aegis;
pub mod bits;
pub mod cursor;
pub mod fignet;
pub mod rtype;
