//! **tickwire**: a single-threaded game server with fixed memory, as a crate.
//!
//! One event loop carries TCP logins and UDP play into rooms of a deterministic 60 Hz world, without
//! allocating after start. The crate is layered, and a test (`tests/arrows.rs`) holds the arrows:
//!
//! | layer | modules | may import |
//! |---|---|---|
//! | ground | [`time`], [`rng`], [`heap`], [`storage`], [`model`], [`limits`], [`seam`] | each other, downwards |
//! | bytes | [`wire`], [`lz4`] | ground |
//! | state machines | [`session`], [`world`], [`snapshot`] | bytes and ground (`world` never sees `wire`) |
//! | pump | [`server`] | everything above this line |
//! | edges | [`io`], [`client`], [`config`], [`logger`] | `io` sees only the seam; `client` never sees the server |
//!
//! The core is sans-IO: [`seam::Core`] takes datagrams, stream bytes and the time, and writes its output into a
//! [`seam::Outbox`]. It never reads a clock, a socket or an environment, so the same bytes and times always give
//! the same bytes out.

pub mod client;
pub mod config;
pub mod heap;
pub mod io;
pub mod limits;
pub mod logger;
pub mod lz4;
pub mod model;
pub mod rng;
pub mod seam;
pub mod server;
pub mod session;
#[cfg(feature = "sim")]
pub mod sim;
pub mod snapshot;
pub mod storage;
pub mod time;
pub mod wire;
pub mod world;
