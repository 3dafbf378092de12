//! What a session costs in memory, every pool counted: the server's, and its loop's.

mod common;

use std::net::SocketAddr;

use tickwire::heap::{Heap, live_bytes};
use tickwire::io::{IoOptions, MioLoop};
use tickwire::limits::Limits;
use tickwire::model::PLAYERS_MAX;
use tickwire::seam::Door;

#[global_allocator]
static HEAP: Heap = Heap;

const BYTES_PER_SESSION_MAX: usize = 32 * 1024;

#[test]
fn a_session_takes_at_most_32_kib() {
    let (few, many) = (bytes_of(16), bytes_of(144));
    let each = (many - few) / (128 * PLAYERS_MAX);
    println!("{few} bytes for 64 sessions, {each} for each one more");
    assert!(each <= BYTES_PER_SESSION_MAX, "{each} bytes");
}

/// Everything that a server with `rooms` rooms allocates at start.
fn bytes_of(rooms: usize) -> usize {
    let before = live_bytes();
    let limits = Limits::new(rooms, common::ENTITIES);
    let mut options = IoOptions::new(limits.streams, limits.sessions);
    options.aegis_tcp = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    options.doors[Door::Aegis as usize] = options.aegis_tcp;
    let io = MioLoop::bind(&options).expect("sockets");
    let server = common::rtype_server(rooms, 1);
    let bytes = live_bytes() - before;
    drop((io, server));
    bytes
}
