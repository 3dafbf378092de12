//! Every count and size of the server, each the sum of who holds what. Pools are made from these once, at start.

use crate::model::PLAYERS_MAX;

/// Simulation steps per second.
pub const TICK_RATE_HZ: u32 = 60;

/// Ticks that a late loop catches up with at once; time beyond is dropped and counted.
pub const CATCH_UP_TICKS_MAX: u32 = 4;

/// Most rooms that a server can be given.
pub const ROOMS_MAX: usize = 4096;

/// Most entities that a room can be given.
pub const ENTITIES_MAX: usize = 65_535;

/// Most events on their way to one client: the span between the oldest one not done and the newest (Aegis 5.3). One
/// more, and the session is lost.
pub const EVENTS_IN_FLIGHT_MAX: usize = 256;

/// Most events that one step of a room's game may give. What would be more waits for the next step.
pub const EVENTS_PER_STEP_MAX: usize = 64;

/// Spawn events of what a newcomer finds that may be on their way to it at once. Together with a step's events they
/// stay well below what may be in flight.
pub const SYNC_IN_FLIGHT_MAX: usize = 64;

/// Connections beyond the players' own that may be open, to log in or be refused.
pub const CONNECTIONS_SPARE: usize = 64;

/// Connections of one address, beyond its sessions, that may be open.
pub const CONNECTIONS_SPARE_PER_ADDRESS: usize = 16;

/// Datagrams written between two flushes: a batch that one system call takes and a cache holds.
pub const OUTBOX_DATAGRAMS: usize = 64;

/// Stream operations written between two flushes.
pub const OUTBOX_STREAM_OPS: usize = 64;

/// Event slots of a room:
pub const EVENTS_PER_ROOM: usize = EVENTS_IN_FLIGHT_MAX // the room's own events: whoever is further behind is lost
    + PLAYERS_MAX * (SYNC_IN_FLIGHT_MAX + PLAYERS_MAX); // what newcomers are told of those already there

const _: () = {
    assert!(
        SYNC_IN_FLIGHT_MAX + EVENTS_PER_STEP_MAX < EVENTS_IN_FLIGHT_MAX,
        "a newcomer survives its welcome"
    );
    assert!(ENTITIES_MAX <= u16::MAX as usize, "a room's history keeps indices in 16 bits");
    assert!(EVENTS_PER_ROOM <= u16::MAX as usize, "event slots have 16-bit names");
};

/// The sizes of one server's pools.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Rooms.
    pub rooms: usize,
    /// Entity slots per room.
    pub entities: usize,
    /// Aegis sessions: every player of every room.
    pub sessions: usize,
    /// R-Type connections: as many, or none where that door is closed.
    pub rtype: usize,
    /// Stream connections: one per Aegis session, and [`CONNECTIONS_SPARE`].
    pub streams: usize,
}

impl Limits {
    /// The pools of a server with `rooms` rooms of `entities` entity slots that speaks Aegis.
    ///
    /// # Panics
    /// When either is 0 or above its maximum.
    pub fn new(rooms: usize, entities: usize) -> Self {
        assert!((1..=ROOMS_MAX).contains(&rooms), "rooms out of range");
        assert!((1..=ENTITIES_MAX).contains(&entities), "entities out of range");
        let sessions = rooms * PLAYERS_MAX;
        Self { rooms, entities, sessions, rtype: 0, streams: sessions + CONNECTIONS_SPARE }
    }

    /// The same with the pools of the R-Type door.
    pub const fn with_rtype(self) -> Self {
        Self { rtype: self.sessions, ..self }
    }
}
