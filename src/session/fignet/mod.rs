//! FigNet over time.

pub mod keys;
pub mod replay;
pub mod seal;
