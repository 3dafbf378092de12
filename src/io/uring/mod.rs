//! The completion loop: two rings of io_uring.
//!
//! The *control* ring is what the loop sleeps on: accepts, streams, signals, and the deadline as the wait's own absolute
//! timeout. The *doors'* ring holds the datagrams, and the loop never sleeps on it. Completions of either are worked
//! out only when their ring is entered, so that datagrams that arrive between ticks disturb nobody, while one byte
//! on a stream ends the sleep: a single ring could wait for a number of completions, but not for certain ones.
//!
//! A busy turn at a tick enters the kernel three times: to sleep, to receive everything, and to send everything (of at
//! most [`BATCH_MAX`] datagrams; more go in further entries).
//!
//! A ring belongs to one thread. The loop may be bound by one thread and turned by another, but then always by that.

mod doors;
mod streams;
mod tag;
#[cfg(test)]
mod tests;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsRawFd;

use self::doors::Doors;
use self::streams::Streams;
use self::tag::Tag;
use crate::io::sockets::is_exhaustion;
use crate::io::sys::{Completion, Ring, SignalFd, Waited};
use crate::io::{
    ACCEPT_PAUSE, AEGIS_TCP, BUSY_POLL_MAX, BindError, Clock, IoOptions, IoStats, StopHandle, Turn, Wake,
    WorkHistogram, clock, core_deadline, sockets,
};
use crate::seam::{Core, DATAGRAM_BYTES_MAX, Door, Outbox};
use crate::time::{Duration, Instant};

/// Completions of the control ring handled in one turn; the others keep their place.
const COMPLETIONS_PER_TURN: usize = 256;

/// Requests that the control ring queues before it has to submit.
const CONTROL_SUBMISSIONS: u32 = 512;

/// Datagrams that the core can queue between flushes, and so the most that go in one entry: two for each session, which
/// is a snapshot and something beside it.
const BATCH_MAX: usize = 2048;
const BATCH_MIN: usize = 128;

/// Bytes for them, on average: snapshots are no longer than this as a rule, and what goes beside them is far shorter.
const BATCH_DATAGRAM_BYTES: usize = 500;
const _: () = assert!(BATCH_MIN * BATCH_DATAGRAM_BYTES >= DATAGRAM_BYTES_MAX);

/// Buffers of a door: the kernel's bound, and fewer than that are never worth it.
const BUFFERS_MAX: usize = 1 << 15;
const BUFFERS_MIN: usize = 256;

/// The kernel's bound of a completion queue.
const COMPLETIONS_MAX: usize = 1 << 16;

/// Stream operations that the core can queue between flushes.
const STREAM_OPS: usize = 64;

/// Two rings around a core, on one thread.
#[derive(Debug)]
pub struct UringLoop {
    // The rings go before what they use is closed.
    control: Ring,
    doors: Doors,
    streams: Streams,
    clock: Clock,
    signals: Option<Watched<SignalFd>>,
    stop: Watched<StopHandle>,
    listener: Option<Listener>,
    outbox: Outbox,
    flushes_per_turn: usize,
    /// The core had more to send than one turn allows.
    unsent: bool,
    wake: Wake,
    /// What the core was last advanced to.
    advanced_to: Instant,
    busy_poll: Duration,
    /// The rings belong to a thread.
    enabled: bool,
    stats: IoStats,
    tick_work: WorkHistogram,
}

/// Something that is polled, once at a time.
#[derive(Debug)]
struct Watched<T> {
    source: T,
    file: u32,
    polling: bool,
}

#[derive(Debug)]
struct Listener {
    socket: TcpListener,
    file: u32,
    /// An accept is under way.
    accepting: bool,
    /// It was before: the next one is a repetition.
    has_accepted: bool,
    paused_until: Option<Instant>,
}

/// How much the doors' ring holds.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    /// Buffers of each door.
    buffers: u16,
    /// Completions.
    completions: usize,
    /// Datagrams sent in one entry.
    batch: usize,
}

impl Sizes {
    fn of(options: &IoOptions) -> Self {
        // What a turn takes, and never less than twice the sessions: with too few the kernel stops receiving.
        let datagrams = options.datagrams_per_turn.max(options.sessions_max.saturating_mul(2));
        let buffers = datagrams.clamp(BUFFERS_MIN, BUFFERS_MAX).next_power_of_two();
        let batch = options.sessions_max.saturating_mul(2).clamp(BATCH_MIN, BATCH_MAX);
        // Every buffer, every failed sending, and the ends of receives.
        let completions = (Door::COUNT * buffers + batch + 16).next_power_of_two().min(COMPLETIONS_MAX);
        Self { buffers: buffers as u16, completions, batch }
    }
}

/// The kernel has no io_uring, or forbids it.
fn refused(source: io::Error) -> BindError {
    BindError::Refused { backend: "io_uring", source }
}

/// What the parts of the loop need in a turn.
#[derive(Debug)]
struct Turning<'a> {
    now: Instant,
    /// The control ring.
    ring: &'a mut Ring,
    stats: &'a mut IoStats,
}

impl UringLoop {
    /// Opens everything and allocates everything; after this the loop's thread allocates no more.
    ///
    /// # Errors
    /// [`BindError`] names the listener that could not be opened, or what else was lacking. A kernel that has no
    /// io_uring, forbids it, or is older than 6.12 says so in [`BindError::Refused`].
    pub fn bind(options: &IoOptions) -> Result<Self, BindError> {
        Self::bind_sized(options, Sizes::of(options))
    }

    fn bind_sized(options: &IoOptions, sizes: Sizes) -> Result<Self, BindError> {
        let setup = |what| move |source| BindError::Setup { what, source };
        let clock = Clock::new();
        Ring::probe().map_err(refused)?;
        let completions = (2 * options.streams_max + 1024).next_power_of_two().min(COMPLETIONS_MAX);
        let mut control = Ring::new(CONTROL_SUBMISSIONS, completions as u32).map_err(refused)?;
        let doors = Doors::open(options, sizes, clock.now())?;
        let streams = Streams::new(options.streams_max, &mut control).map_err(refused)?;

        // The doors' numbers are the same in both rings.
        let mut files: Vec<_> = doors.files().collect();
        let mut number = |file| {
            files.push(file);
            files.len() as u32 - 1
        };
        let stop = StopHandle::new().map_err(setup("the stop handle"))?;
        let stop = Watched { file: number(stop.as_raw_fd()), source: stop, polling: false };
        let signals = if options.signals {
            let source = SignalFd::new().map_err(setup("the signal descriptor"))?;
            Some(Watched { file: number(source.as_raw_fd()), source, polling: false })
        } else {
            None
        };
        let listener = match options.aegis_tcp {
            Some(address) => {
                let socket = sockets::listen(address)?;
                let file = number(socket.as_raw_fd());
                Some(Listener { socket, file, accepting: false, has_accepted: false, paused_until: None })
            }
            None => None,
        };
        control.register_files(&files).map_err(refused)?;
        Ok(Self {
            control,
            doors,
            streams,
            clock,
            signals,
            stop,
            listener,
            outbox: Outbox::with_bytes(
                sizes.batch,
                (sizes.batch * BATCH_DATAGRAM_BYTES).max(DATAGRAM_BYTES_MAX),
                STREAM_OPS,
            ),
            // Room for an answer to everything that a turn can bring, and for a snapshot to everyone.
            flushes_per_turn: 4
                + (options.datagrams_per_turn.saturating_add(2 * options.sessions_max))
                    .div_ceil(sizes.batch * BATCH_DATAGRAM_BYTES / DATAGRAM_BYTES_MAX + 1)
                + options.streams_max.div_ceil(STREAM_OPS),
            unsent: false,
            wake: options.wake,
            advanced_to: clock.now(),
            busy_poll: options.busy_poll.min(BUSY_POLL_MAX),
            enabled: false,
            stats: IoStats::default(),
            tick_work: WorkHistogram::new(),
        })
    }

    /// The name and the real address of everything that is listened on.
    pub fn local_addrs(&self) -> impl Iterator<Item = (&'static str, SocketAddr)> {
        let listener = self.listener.iter();
        let listener = listener.filter_map(|it| Some((AEGIS_TCP, it.socket.local_addr().ok()?)));
        listener.chain(self.doors.local_addrs())
    }

    /// What was counted since `bind`.
    pub fn stats(&self) -> &IoStats {
        &self.stats
    }

    /// How long the turns took in which ticks were due, from waking up until everything was sent.
    pub fn tick_work(&self) -> &WorkHistogram {
        &self.tick_work
    }

    /// Connections at the moment, those included that the core has closed and whose peer has not.
    pub fn streams_len(&self) -> usize {
        self.streams.len()
    }

    /// The clock that the core's times come from.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// A handle for another thread to stop this loop with.
    pub fn stop_handle(&self) -> StopHandle {
        self.stop.source.clone()
    }

    /// Turns the loop until `is_over`, asked after each turn, says so, or a [`StopHandle`] is used.
    ///
    /// # Errors
    /// As for [`UringLoop::run_turn`].
    pub fn run<C: Core>(
        &mut self,
        core: &mut C,
        mut is_over: impl FnMut(&mut C, &Turn) -> bool,
    ) -> io::Result<()> {
        loop {
            let turn = self.run_turn(core)?;
            if is_over(core, &turn) || turn.stopped {
                return Ok(());
            }
        }
    }

    /// One turn: waits until something is due, takes in what arrived, advances the core, and sends what it has to say.
    ///
    /// # Errors
    /// Only when a ring itself fails, which no peer can cause, or when another thread turned the loop before; it is of
    /// no further use then.
    pub fn run_turn(&mut self, core: &mut impl Core) -> io::Result<Turn> {
        if !self.enabled {
            self.control.enable()?;
            self.doors.enable()?;
            self.enabled = true;
        }
        self.wait(core)?;

        let mut turning = Turning { now: self.clock.now(), ring: &mut self.control, stats: &mut self.stats };
        turning.stats.turns += 1;
        turning.stats.uring.overflows += u64::from(turning.ring.has_overflowed());
        let mut signals = 0;
        for _ in 0..COMPLETIONS_PER_TURN {
            let Some(completion) = turning.ring.next() else { break };
            match Tag::unpack(completion.user_data) {
                Some(Tag::Accept) => {
                    if let Some(listener) = &mut self.listener {
                        listener.on_accepted(completion, &mut self.streams, core, &mut turning)?;
                    }
                }
                Some(Tag::Signals) => {
                    if let Some(watched) = &mut self.signals {
                        watched.polling = false;
                        signals += watched.source.take();
                    }
                }
                // Not watched again: it stays stopped.
                Some(Tag::Stop) => {}
                Some(Tag::DoorReadable(door)) => self.doors.on_poll(door, &completion),
                Some(Tag::StreamBytes(id)) => self.streams.on_bytes(id, &completion, core, &mut turning)?,
                Some(Tag::StreamWritable(id)) => self.streams.on_writable(id, core, &mut turning)?,
                Some(Tag::Receive(_) | Tag::Send(_)) | None => {}
            }
        }
        self.streams.cut_lingering(&mut turning)?;
        self.doors.drain(core, &mut self.clock, &mut turning)?;

        // Not read from the clock again: a tick that came due since the doors were drained, or were found not to be
        // due, has its datagrams still in the sockets.
        let now = turning.now;
        let ticks = core.next_tick().is_some_and(|due| due <= now);
        core.advance(now);
        self.advanced_to = now;
        self.transmit(core, now)?;
        if ticks {
            // From when the loop woke: taking the tick's datagrams in is part of its work.
            self.tick_work.record(self.clock.now().since(now));
        }
        Ok(Turn { now, signals, stopped: self.stop.source.is_stopped() })
    }

    /// Sleeps until a deadline or a completion, or not at all when the last turn left something to do.
    fn wait(&mut self, core: &impl Core) -> io::Result<()> {
        let now = self.clock.now();
        let next_tick = core.next_tick();
        let mut turning = Turning { now, ring: &mut self.control, stats: &mut self.stats };
        self.doors.watch(next_tick, &mut turning)?;
        self.stop.watch(Tag::Stop, &mut turning)?;
        if let Some(signals) = &mut self.signals {
            signals.watch(Tag::Signals, &mut turning)?;
        }
        if let Some(listener) = &mut self.listener {
            listener.accept(&mut turning)?;
        }
        let deadline = [
            core_deadline(core, self.wake, self.advanced_to),
            self.streams.next_deadline(),
            self.doors.next_deadline(next_tick),
            self.listener.as_ref().and_then(|listener| listener.paused_until),
        ];
        let deadline = deadline.into_iter().flatten().min();
        let wake = deadline.map(|deadline| clock::earlier(deadline, self.busy_poll));
        let has_work = self.unsent || self.doors.has_work() || self.control.has_completions();
        // A deadline that is past is as good as not sleeping, and the kernel still works out what has completed.
        let wake = if has_work { Some(Instant::ZERO) } else { wake };
        self.stats.calls.uring_wait += 1;
        if self.control.wait(1, wake)? == Waited::Interrupted {
            // The turn finds out what is due.
            self.stats.waits_interrupted += 1;
        }
        if !has_work {
            self.clock.spin_until(deadline, self.busy_poll);
        }
        Ok(())
    }

    /// Sends what the core has to say, within the turn's bounds.
    fn transmit(&mut self, core: &mut impl Core, now: Instant) -> io::Result<()> {
        self.unsent = false;
        for _ in 0..self.flushes_per_turn {
            let mut goes_on = core.transmit(now, &mut self.outbox);
            if !self.outbox.datagrams().is_empty() {
                self.doors.send(&self.outbox, &mut self.stats)?;
            }
            let mut turning = Turning { now, ring: &mut self.control, stats: &mut self.stats };
            for op in self.outbox.streams() {
                // A stream that ended here was told to the core, which may have something to say about it.
                goes_on |= self.streams.apply(op, core, &mut turning)?;
            }
            self.outbox.clear();
            if !goes_on {
                return Ok(());
            }
        }
        self.unsent = true;
        Ok(())
    }
}

impl<T> Watched<T> {
    fn watch(&mut self, tag: Tag, turning: &mut Turning<'_>) -> io::Result<()> {
        if !self.polling {
            self.polling = true;
            turning.ring.poll_readable(self.file, tag.pack())?;
        }
        Ok(())
    }
}

impl Listener {
    /// Accepts from now on, unless that is under way or pauses.
    fn accept(&mut self, turning: &mut Turning<'_>) -> io::Result<()> {
        if self.paused_until.is_some_and(|until| turning.now >= until) {
            self.paused_until = None;
        }
        if self.accepting || self.paused_until.is_some() {
            return Ok(());
        }
        turning.stats.uring.rearms += u64::from(self.has_accepted);
        self.accepting = true;
        self.has_accepted = true;
        turning.ring.accept(self.file, Tag::Accept.pack())
    }

    fn on_accepted(
        &mut self,
        completion: Completion,
        streams: &mut Streams,
        core: &mut impl Core,
        turning: &mut Turning<'_>,
    ) -> io::Result<()> {
        self.accepting &= completion.more;
        match (completion.accepted, completion.result) {
            (Some(accepted), _) => streams.admit(accepted, core, turning),
            (None, Err(errno)) if is_exhaustion(errno) => {
                turning.stats.streams.accept_pauses += 1;
                self.paused_until = Some(turning.now + ACCEPT_PAUSE);
                Ok(())
            }
            // The one connection failed before we got to it: aborted, forbidden, or the network is down.
            (None, _) => {
                turning.stats.streams.accept_errors += 1;
                Ok(())
            }
        }
    }
}
