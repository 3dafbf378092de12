//! Moves the core's bytes: sockets, timers and clocks on one side, [`Core`] on the other.
//!
//! There are two backends: [`MioLoop`], a readiness loop over `epoll`, and [`UringLoop`], a completion loop over
//! io_uring. [`Loop`] is whichever of them [`IoOptions::backend`] asks for. What they share is here and in the files
//! beside them: the options, the counters, the opening of sockets, the stream slots, the clock.
//!
//! What holds for every backend:
//! - **Wake for what is due.** With [`Wake::Tick`], while somebody plays, arriving datagrams wake nobody: they wait in
//!   the socket for [`next_tick`](crate::seam::Core::next_tick), and are then drained in batches. Timers wait for it too
//!   when it is less than [`IDLE_INTERVAL`] away; streams wake the loop in between. While nobody plays a datagram does wake it, but at most once per [`IDLE_INTERVAL`], so
//!   that a flood at an empty server costs no more than play would.
//! - **Bounded work per turn**, of every kind; the rest waits for the next turn, and nothing is scanned.
//! - **No peer can stop the loop.** Errors that concern one datagram or one stream are counted ([`IoStats`]), and only
//!   that datagram or stream suffers.
//! - **No allocation after `bind`**, and no logging either: what happens later is told by counters.
//! - Addresses are canonical: an IPv4 peer of a dual-stack socket is an IPv4 peer, both ways.

mod clock;
mod either;
mod mio;
mod slots;
mod sockets;
mod stats;
mod stop;
mod sys;
mod uring;

use std::fmt;
use std::io;
use std::net::SocketAddr;

use crate::seam::{Core, DATAGRAM_BYTES_MAX, Door};
use crate::time::{Duration, Instant};

pub use self::clock::Clock;
pub use self::either::Loop;
pub use self::mio::MioLoop;
pub use self::stats::{CallStats, DoorStats, IoStats, SendError, StreamStats, UringStats, WorkHistogram};
pub use self::stop::StopHandle;
pub use self::sys::{block_signals, pin_thread, raise_priority};
pub use self::uring::UringLoop;

/// Bytes of a receive buffer: more than any door takes, so that a longer datagram is seen to be one.
pub const RECEIVE_BUFFER_BYTES: usize = 1280;

/// How long datagrams may wait while nobody plays: a tick at 60 Hz.
pub const IDLE_INTERVAL: Duration = Duration::from_nanos(16_666_667);

/// How long a stream that the core closed may take to read its last bytes and close its side.
pub const LINGER_MAX: Duration = Duration::from_secs(2);

/// How long accepting pauses when descriptors ran out.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The longest time to spin before a deadline.
pub const BUSY_POLL_MAX: Duration = Duration::from_millis(1);

/// Bytes of output that a stream holds for a peer that does not read. One that needs more is closed.
pub const STREAM_OUTPUT_BYTES: usize = 64;

/// Bytes read from one stream in one turn.
pub const STREAM_READ_BYTES_PER_TURN: usize = 4096;

const _: () = assert!(RECEIVE_BUFFER_BYTES > DATAGRAM_BYTES_MAX);
const _: () = assert!(STREAM_OUTPUT_BYTES >= 2 * crate::seam::STREAM_OP_BYTES_MAX);

/// When datagrams are taken in.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Wake {
    /// When the tick is due that they take effect at; the cheap way.
    #[default]
    Tick,
    /// As they arrive; several times the processor time per datagram, for the least latency.
    Event,
}

/// What moves the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Backend {
    /// Whatever costs least. That is `epoll`: io_uring saved nothing where measured, and fewer systems allow it.
    #[default]
    Auto,
    /// `epoll`, through mio.
    Mio,
    /// io_uring, or `epoll` where the system refuses it.
    IoUring,
}

/// What to listen on, and how much to hold. Everything is allocated by `bind`.
#[derive(Clone, Debug)]
pub struct IoOptions {
    /// Where Aegis logins are accepted (TCP), if anywhere.
    pub aegis_tcp: Option<SocketAddr>,
    /// Where each door's datagrams are received (UDP), indexed by [`Door`]. An IPv6 address takes IPv4 peers too.
    pub doors: [Option<SocketAddr>; Door::COUNT],
    /// Stream slots: connections at one time.
    pub streams_max: usize,
    /// Sessions that the core can hold over all doors: sizes the sockets' buffers.
    pub sessions_max: usize,
    /// What moves the bytes: read by [`Loop::bind`] only.
    pub backend: Backend,
    /// When datagrams are taken in.
    pub wake: Wake,
    /// How long before a deadline to wake and spin until it, and how long the kernel may spin in a device's driver:
    /// processor time for punctual ticks. At most [`BUSY_POLL_MAX`].
    pub busy_poll: Duration,
    /// Datagrams taken from each door in one turn, before the core may answer. The default for [`IoOptions::new`] is a
    /// tick's worth of every session, four times over. With [`Wake::Event`] fewer let a sender go on before all that it
    /// sent was taken in.
    pub datagrams_per_turn: usize,
    /// Bytes to ask for as a door's receive buffer, instead of what `sessions_max` needs.
    pub receive_buffer_bytes: Option<usize>,
    /// Whether SIGINT and SIGTERM are told in [`Turn::signals`]. They must be blocked: see [`block_signals`].
    pub signals: bool,
}

impl IoOptions {
    /// Nothing to listen on yet; the rest as usual for these capacities.
    pub fn new(streams_max: usize, sessions_max: usize) -> Self {
        Self {
            aegis_tcp: None,
            doors: [None; Door::COUNT],
            streams_max,
            sessions_max,
            backend: Backend::Auto,
            wake: Wake::Tick,
            busy_poll: Duration::ZERO,
            datagrams_per_turn: sessions_max.saturating_mul(DATAGRAMS_PER_SESSION_AND_TICK).max(256),
            receive_buffer_bytes: None,
            signals: false,
        }
    }
}

/// What happened in a turn of the loop, beside what the core was told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    /// The time that the core was advanced to.
    pub now: Instant,
    /// SIGINTs and SIGTERMs that arrived.
    pub signals: u32,
    /// Whether a [`StopHandle`] was used, in this turn or before.
    pub stopped: bool,
}

/// Why `bind` failed.
#[derive(Debug)]
pub enum BindError {
    /// A listener could not be opened.
    Listen {
        /// Which one: `aegis-tcp`, `aegis-udp`, `rtype-udp` or `fignet-udp`.
        listener: &'static str,
        /// Where it should have listened.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// Something that the loop itself needs could not be had.
    Setup {
        /// What it is.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// This system does not have what the backend is made of, or does not allow it. Another backend may do.
    Refused {
        /// The backend.
        backend: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen { listener, address, source } => {
                write!(f, "cannot listen on {listener} {address}: ")?;
                match source.kind() {
                    io::ErrorKind::AddrInUse => f.write_str("address in use"),
                    io::ErrorKind::AddrNotAvailable => f.write_str("this machine does not have that address"),
                    io::ErrorKind::PermissionDenied => {
                        f.write_str("permission denied (ports below 1024 need CAP_NET_BIND_SERVICE)")
                    }
                    _ => source.fmt(f),
                }
            }
            Self::Setup { what, source } => write!(f, "cannot create {what}: {source}"),
            Self::Refused { backend, source } => write!(f, "this system refuses {backend}: {source}"),
        }
    }
}

impl std::error::Error for BindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Listen { source, .. } | Self::Setup { source, .. } | Self::Refused { source, .. } => {
                Some(source)
            }
        }
    }
}

/// The name of the Aegis login listener in errors, logs and `local_addrs`.
pub const AEGIS_TCP: &str = "aegis-tcp";

/// The name of `door`'s socket in errors, logs and `local_addrs`.
pub const fn door_name(door: Door) -> &'static str {
    match door {
        Door::Aegis => "aegis-udp",
        Door::Rtype => "rtype-udp",
        Door::Fignet => "fignet-udp",
    }
}

/// When `core`, last advanced to `advanced_to`, next wants to be: at a tick or another deadline.
///
/// What a thousand sessions' timers send while they play takes effect at a tick, and each would wake the loop at a moment
/// of its own: with [`Wake::Tick`] they wait for a tick that is near.
fn core_deadline(core: &impl Core, wake: Wake, advanced_to: Instant) -> Option<Instant> {
    let (next_tick, next_timer) = (core.next_tick(), core.next_deadline());
    let tick_is_near = next_tick.is_some_and(|tick| tick <= advanced_to + IDLE_INTERVAL);
    // What was due already, at the last turn, does not wait: that is how the core says that it has more to send.
    let may_wait = wake == Wake::Tick && tick_is_near;
    let next_timer = next_timer.filter(|timer| !may_wait || *timer <= advanced_to);
    next_tick.into_iter().chain(next_timer).min()
}

const DOORS: [Door; Door::COUNT] = [Door::Aegis, Door::Rtype, Door::Fignet];

/// What the buffers are sized for: every client sends once a tick, and a tick may come three ticks late.
const DATAGRAMS_PER_SESSION_AND_TICK: usize = 4;
