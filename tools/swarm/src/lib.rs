//! A load generator for tickwire: thousands of players on real sockets, from one thread.
//!
//! [`swarm::run`] is one run against one server: players come ([`swarm::Options::ramp_per_s`]), play at the tick rate,
//! and are measured for a while. What a protocol's player does is behind [`player::Player`]; what is counted is in
//! [`tally`]; [`report`] makes figures of it. [`server`] starts a server to measure and reads what it used, and
//! [`capacity`] looks for the most sessions that it carries. `docs/swarm.md` says what the figures mean.

pub mod capacity;
pub mod json;
pub mod player;
pub mod report;
pub mod server;
pub mod swarm;
pub mod tally;
