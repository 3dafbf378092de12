//! Bytes and values, without state: a cursor, a bit stream, and one module per protocol.

pub mod aegis;
pub mod bits;
pub mod cursor;
