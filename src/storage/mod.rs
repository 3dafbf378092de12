//! Fixed memory: containers whose capacity is given once, at creation, and which never grow. They know nothing of
//! what they hold.

mod bitset;
mod deadlines;
mod index;
mod lru;
mod pool;
mod ring;
mod sequence;

pub use bitset::BitSet;
pub use deadlines::Deadlines;
pub use index::{Index, Key};
pub use lru::Lru;
pub use pool::{Handle, Pool};
pub use ring::Ring;
pub use sequence::{SequenceBuffer, is_newer};
