//! Counters of the server, for reports and tests.

use crate::time::Duration;

/// What happened since the start.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Stats {
    /// Ticks run.
    pub ticks: u64,
    /// Of these, begun a whole tick or more after they were due.
    pub late_ticks: u64,
    /// Ticks never run, because the loop was further behind than it catches up.
    pub dropped_ticks: u64,
    /// The longest that a tick began after it was due.
    pub lateness_max: Duration,
    /// Connections taken.
    pub streams_opened: u64,
    /// Connections closed at once, the pool or the address's share being exhausted.
    pub streams_refused: u64,
    /// Connections closed for a bad message, or for saying nothing.
    pub streams_failed: u64,
    /// Logins accepted.
    pub logins_accepted: u64,
    /// Logins refused.
    pub logins_refused: u64,
    /// Sessions bound for the first time.
    pub sessions_bound: u64,
    /// Sessions that moved to another port.
    pub sessions_rebound: u64,
    /// Sessions ended.
    pub sessions_ended: u64,
    /// Of these, for silence.
    pub sessions_timed_out: u64,
    /// Of these, for malformed datagrams.
    pub sessions_broken: u64,
    /// Of these, for falling too far behind in their events.
    pub sessions_too_slow: u64,
    /// Datagrams that came.
    pub datagrams_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Datagrams sent.
    pub datagrams_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Of these, snapshots.
    pub snapshots_out: u64,
    /// Of these, with events.
    pub event_datagrams_out: u64,
    /// Events in them, resent ones included.
    pub events_out: u64,
    /// Of these, heartbeats.
    pub heartbeats_out: u64,
}

/// How much of each pool is in use. After everyone left, all but `rooms_open` are 0.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Pools {
    /// Sessions.
    pub sessions: usize,
    /// Tokens that open a session.
    pub tokens: usize,
    /// Endpoints of R-Type connections.
    pub endpoints: usize,
    /// R-Type connections that have not proved themselves.
    pub unproven: usize,
    /// FigNet connections, half-open ones and those that just ended included.
    pub peers: usize,
    /// Stream connections.
    pub streams: usize,
    /// Addresses with connections.
    pub addresses: usize,
    /// Deadlines set.
    pub deadlines: usize,
    /// Events that somebody has not acknowledged.
    pub events: usize,
    /// Rooms that tick.
    pub rooms_played: usize,
    /// Rooms with a free slot.
    pub rooms_open: usize,
    /// Entries of the ready lists.
    pub ready: usize,
}
