//! Fixed memory: containers whose capacity is given once, at creation, and which never grow. They know nothing of
//! what they hold.

mod deadlines;
mod lru;
mod pool;
mod ring;
mod sequence;

pub use deadlines::Deadlines;
pub use lru::Lru;
pub use pool::{Handle, Pool};
pub use ring::Ring;
pub use sequence::{SequenceBuffer, is_newer};
