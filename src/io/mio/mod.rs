//! The readiness loop: `epoll` through mio, with a timer descriptor for deadlines and datagrams in batches.
//!
//! A busy turn at a tick costs one wait, one setting of the timer, one `recvmmsg` more than there are full batches for
//! each door, and one `sendmmsg` for each batch. The kernel takes nearly all of the processor time (about 3 µs for a
//! datagram in and out on loopback); what is ours is around a hundredth of it.
//!
//! Everything in the poll set is edge-triggered: whoever is told of keeps a place in a ready list until it has been
//! read dry.

mod accept;
mod datagrams;
mod streams;
mod timer;

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Registry, Token};

use self::accept::Listener;
use self::datagrams::{BATCH_DATAGRAMS, Doors};
use self::streams::Streams;
use self::timer::Timer;
use crate::io::sys::SignalFd;
use crate::io::{
    AEGIS_TCP, BUSY_POLL_MAX, BindError, Clock, IoOptions, IoStats, StopHandle, Turn, Wake, WorkHistogram,
    clock, core_deadline, sockets,
};
use crate::seam::{Core, Door, Outbox};
use crate::time::{Duration, Instant};

/// Events taken from the poll set in one turn; more stay there.
const EVENTS_PER_TURN: usize = 256;

/// Stream operations that the core can queue between flushes.
const STREAM_OPS: usize = 64;

// Stream slots are tokens from 0 up; all else is up here.
const LISTENER: Token = Token(usize::MAX - 1);
const TIMER: Token = Token(usize::MAX - 2);
const SIGNALS: Token = Token(usize::MAX - 3);
const STOP: Token = Token(usize::MAX - 4);
const FIRST_DOOR: Token = Token(usize::MAX - 16);
const LAST_DOOR: Token = Token(FIRST_DOOR.0 + Door::COUNT - 1);

/// Sockets, timer and signals around a core, on one thread.
#[derive(Debug)]
pub struct MioLoop {
    poll: Poll,
    events: Events,
    clock: Clock,
    timer: Timer,
    signals: Option<SignalFd>,
    stop: StopHandle,
    listener: Option<Listener>,
    streams: Streams,
    doors: Doors,
    outbox: Outbox,
    flushes_per_turn: usize,
    /// The core had more to send than one turn allows.
    unsent: bool,
    wake: Wake,
    /// What the core was last advanced to.
    advanced_to: Instant,
    busy_poll: Duration,
    stats: IoStats,
    tick_work: WorkHistogram,
}

/// What the parts of the loop need in a turn.
#[derive(Debug)]
struct Turning<'a> {
    now: Instant,
    registry: &'a Registry,
    stats: &'a mut IoStats,
}

impl MioLoop {
    /// Opens everything and allocates everything; after this the loop's thread allocates no more.
    ///
    /// # Errors
    /// [`BindError`] names the listener that could not be opened, or what else was lacking.
    pub fn bind(options: &IoOptions) -> Result<Self, BindError> {
        let setup = |what| move |source| BindError::Setup { what, source };
        let clock = Clock::new();
        let poll = Poll::new().map_err(setup("the poll set"))?;
        let registry = poll.registry();
        let watch = |fd, token| registry.register(&mut SourceFd(&fd), token, Interest::READABLE);

        let stop = StopHandle::new().map_err(setup("the stop handle"))?;
        watch(stop.as_raw_fd(), STOP).map_err(setup("the stop handle"))?;
        let timer = Timer::new().map_err(setup("the timer"))?;
        watch(timer.as_raw_fd(), TIMER).map_err(setup("the timer"))?;
        let signals = if options.signals {
            let signals = SignalFd::new().map_err(setup("the signal descriptor"))?;
            watch(signals.as_raw_fd(), SIGNALS).map_err(setup("the signal descriptor"))?;
            Some(signals)
        } else {
            None
        };
        let listener = match options.aegis_tcp {
            Some(address) => {
                let mut socket = mio::net::TcpListener::from_std(sockets::listen(address)?);
                let watched = registry.register(&mut socket, LISTENER, Interest::READABLE);
                watched.map_err(|source| BindError::Listen { listener: AEGIS_TCP, address, source })?;
                Some(Listener::new(socket))
            }
            None => None,
        };
        let doors = Doors::open(options, clock.now())?;
        Ok(Self {
            poll,
            events: Events::with_capacity(EVENTS_PER_TURN),
            clock,
            timer,
            signals,
            stop,
            listener,
            streams: Streams::new(options.streams_max),
            doors,
            outbox: Outbox::new(BATCH_DATAGRAMS, STREAM_OPS),
            // Room for an answer to everything that a turn can bring, and for a snapshot to everyone.
            flushes_per_turn: 4
                + (options.datagrams_per_turn.saturating_add(2 * options.sessions_max))
                    .div_ceil(BATCH_DATAGRAMS)
                + options.streams_max.div_ceil(STREAM_OPS),
            unsent: false,
            wake: options.wake,
            advanced_to: clock.now(),
            busy_poll: options.busy_poll.min(BUSY_POLL_MAX),
            stats: IoStats::default(),
            tick_work: WorkHistogram::new(),
        })
    }

    /// The name and the real address of everything that is listened on.
    pub fn local_addrs(&self) -> impl Iterator<Item = (&'static str, SocketAddr)> {
        let listener = self.listener.iter().filter_map(|socket| Some((AEGIS_TCP, socket.local_addr().ok()?)));
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
        self.stop.clone()
    }

    /// Turns the loop until `is_over`, asked after each turn, says so, or a [`StopHandle`] is used.
    ///
    /// # Errors
    /// As for [`MioLoop::run_turn`].
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
    /// Only when the poll set or the timer itself fails, which no peer can cause; the loop is of no further use then.
    pub fn run_turn(&mut self, core: &mut impl Core) -> io::Result<Turn> {
        self.wait(core)?;

        let mut turning =
            Turning { now: self.clock.now(), registry: self.poll.registry(), stats: &mut self.stats };
        turning.stats.turns += 1;
        let mut signals = 0;
        for event in &self.events {
            match event.token() {
                TIMER | STOP => {}
                SIGNALS => signals += self.signals.as_mut().map_or(0, SignalFd::take),
                LISTENER => self.listener.iter_mut().for_each(Listener::set_ready),
                token if (FIRST_DOOR..=LAST_DOOR).contains(&token) => {
                    self.doors.set_readable(token.0 - FIRST_DOOR.0);
                }
                Token(index) => self.streams.on_event(index, event.is_writable(), core, &mut turning),
            }
        }
        if let Some(listener) = &mut self.listener {
            listener.accept(&mut self.streams, core, &mut turning)?;
        }
        self.streams.read_ready(core, &mut turning);
        self.streams.cut_lingering(&mut turning);
        self.doors.drain(core, &mut self.clock, &mut turning);

        // Not read from the clock again: a tick that came due since the doors were drained, or were found not to be
        // due, has its datagrams still in the sockets.
        let now = turning.now;
        let ticks = core.next_tick().is_some_and(|due| due <= now);
        core.advance(now);
        self.advanced_to = now;
        self.transmit(core, now);
        if ticks {
            // From when the loop woke: taking the tick's datagrams in is part of its work.
            self.tick_work.record(self.clock.now().since(now));
        }
        Ok(Turn { now, signals, stopped: self.stop.is_stopped() })
    }

    /// Sleeps until a deadline or an event, or not at all when the last turn left something to do.
    fn wait(&mut self, core: &impl Core) -> io::Result<()> {
        let now = self.clock.now();
        let next_tick = core.next_tick();
        let mut turning = Turning { now, registry: self.poll.registry(), stats: &mut self.stats };
        self.doors.watch(next_tick, &mut turning)?;
        if let Some(listener) = &mut self.listener {
            listener.resume(&mut turning)?;
        }
        let deadline = [
            core_deadline(core, self.wake, self.advanced_to),
            self.streams.next_deadline(),
            self.doors.next_deadline(next_tick),
            self.listener.as_ref().and_then(Listener::next_deadline),
        ];
        let deadline = deadline.into_iter().flatten().min();
        let wake = deadline.map(|deadline| clock::earlier(deadline, self.busy_poll));
        let has_work = self.unsent
            || self.streams.has_work()
            || self.doors.has_work()
            || self.listener.as_ref().is_some_and(Listener::has_work);
        let timeout = if has_work || wake.is_some_and(|wake| wake <= now) {
            Some(time::Duration::ZERO)
        } else {
            self.stats.calls.timerfd_settime += u64::from(self.timer.set(wake)?);
            None
        };
        self.stats.calls.epoll_wait += 1;
        match self.poll.poll(&mut self.events, timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                // Nothing was told, and the timer goes on: the turn finds out what is due.
                self.stats.waits_interrupted += 1;
                Ok(())
            }
            result => {
                if !has_work {
                    self.clock.spin_until(deadline, self.busy_poll);
                }
                result
            }
        }
    }

    /// Sends what the core has to say, within the turn's bounds.
    fn transmit(&mut self, core: &mut impl Core, now: Instant) {
        self.unsent = false;
        for _ in 0..self.flushes_per_turn {
            let mut goes_on = core.transmit(now, &mut self.outbox);
            self.doors.send(&self.outbox, &mut self.stats);
            let mut turning = Turning { now, registry: self.poll.registry(), stats: &mut self.stats };
            for op in self.outbox.streams() {
                // A stream that ended here was told to the core, which may have something to say about it.
                goes_on |= self.streams.apply(op, core, &mut turning);
            }
            self.outbox.clear();
            if !goes_on {
                return;
            }
        }
        self.unsent = true;
    }
}
