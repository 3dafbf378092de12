//! What a session costs in memory, every pool counted: the server's, and its loop's.

mod common;

use std::net::SocketAddr;
use std::sync::Arc;

use tickwire::heap::{Heap, live_bytes};
use tickwire::io::{IoOptions, MioLoop};
use tickwire::limits::Limits;
use tickwire::model::PLAYERS_MAX;
use tickwire::rng::{Rng, TokenSource};
use tickwire::seam::Door;
use tickwire::server::{Server, Settings};
use tickwire::world::rtype::{Level, RtypeGame, Rules};

#[global_allocator]
static HEAP: Heap = Heap;

/// What one more Aegis session may take, with its share of its room; and what one more place at the R-Type door adds.
const SESSION_BYTES_MAX: usize = 32 * 1024;
const CONNECTION_BYTES_MAX: usize = 12 * 1024;

#[test]
fn a_session_takes_at_most_32_kib() {
    let each = |limits: fn(usize) -> Limits| {
        let (few, many) = (bytes_of(limits(16)), bytes_of(limits(144)));
        (few, (many - few) / (128 * PLAYERS_MAX))
    };
    let (few, session) = each(|rooms| Limits::new(rooms, common::ENTITIES));
    let (_, both) = each(|rooms| Limits::new(rooms, common::ENTITIES).with_rtype());
    let connection = both - session;
    println!(
        "{few} bytes for 64 sessions, {session} for each one more, and {connection} for an R-Type place"
    );
    assert!(session <= SESSION_BYTES_MAX, "{session} bytes");
    assert!(connection <= CONNECTION_BYTES_MAX, "{connection} bytes");
}

/// Everything that a server with these pools allocates at start.
fn bytes_of(limits: Limits) -> usize {
    let before = live_bytes();
    let mut options = IoOptions::new(limits.streams, limits.sessions);
    options.aegis_tcp = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    options.doors[Door::Aegis as usize] = options.aegis_tcp;
    if limits.rtype > 0 {
        options.doors[Door::Rtype as usize] = options.aegis_tcp;
    }
    let io = MioLoop::bind(&options).expect("sockets");
    let level = Arc::new(Level::builtin("level1").expect("the first level"));
    let make = |_| RtypeGame::new(Arc::clone(&level), Rules::default(), common::ENTITIES);
    let server = Server::new(Settings::new(limits), TokenSource::Seeded(Rng::new(1)), make);
    let bytes = live_bytes() - before;
    drop((io, server));
    bytes
}
