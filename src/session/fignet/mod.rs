//! FigNet over time.

pub mod coder;
pub mod keys;
pub mod replay;
pub mod seal;
