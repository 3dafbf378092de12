//! One run: players on real sockets, driven by one thread.
//!
//! Time is cut into slots: a tick, or an equal part of one ([`Spread`]). At the start of its slot every player
//! sends what is due; a timer descriptor set to absolute times wakes the thread, so that lateness never adds up. In
//! between, whatever arrives wakes it at once, so that times of arrival are exact while the thread keeps up; how well
//! it did is measured too ([`Tally::pacing_us`]).

mod sockets;

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};

use rustix::event::epoll;

use tickwire::io::{Clock, RECEIVE_BUFFER_BYTES};
use tickwire::limits::TICK_RATE_HZ;
use tickwire::seam::DATAGRAM_BYTES_MAX;
use tickwire::time::{Duration, Instant};

use self::sockets::{Source, Stream, Timer, Watch, open_datagrams};
use crate::player::{self, Player, Protocol, Servers, State};
use crate::tally::{Counters, Fault, Tally};

/// Most players of one swarm.
pub const PLAYERS_MAX: usize = 4096;

/// When players send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spread {
    /// Over so many equal parts of the tick, as strangers do. Those of one part send together, and wake a server that
    /// takes datagrams as they come once.
    Even(u32),
    /// All at once: the worst case for the socket's buffer.
    Bunched,
}

/// What to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where players of each protocol go first.
    pub servers: Servers,
    /// Their protocols, in turns.
    pub protocols: &'static [Protocol],
    /// How many come: 1 to [`PLAYERS_MAX`].
    pub players: usize,
    /// Datagram sockets that they share, those who can; `None` gives each its own, as on the real network.
    pub sockets: Option<usize>,
    /// When they send.
    pub spread: Spread,
    /// Logins begun in a second.
    pub ramp_per_s: u32,
    /// Time to play before measuring, after the last login.
    pub warm_up: Duration,
    /// Time to measure.
    pub measure: Duration,
    /// What the players are told.
    pub player: player::Settings,
}

/// What a run is at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// Players log in.
    Joining,
    /// All that could are there, and nothing is measured yet.
    WarmingUp,
    /// The figures are taken.
    Measuring,
    /// Nobody sends any more; what is on its way arrives.
    Draining,
    /// Everyone says goodbye.
    Leaving,
}

/// What a run tells while it goes on.
#[derive(Clone, Copy, Debug)]
pub enum News {
    /// A second has passed.
    Second {
        /// What it is at.
        stage: Stage,
        /// Players in the match.
        playing: usize,
        /// Since the last word.
        counters: Counters,
        /// Faults so far.
        faults: u64,
    },
    /// The measuring began, or ended.
    Stage(Stage),
}

/// What a run gave.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What the players of each protocol did, in the order of [`Options::protocols`].
    pub shares: Vec<(Protocol, Share)>,
    /// Ticks that the swarm itself could not send in while measuring, having fallen behind.
    pub ticks_missed: u64,
    /// How long was measured.
    pub measured_for: Duration,
    /// Processor time that this thread used meanwhile, in nanoseconds.
    pub cpu_ns: u64,
}

/// What some of the players did.
#[derive(Clone, Default, Debug)]
pub struct Share {
    /// How many were to come.
    pub players: usize,
    /// Counters and histograms.
    pub tally: Tally,
    /// What was counted while measuring.
    pub measured: Counters,
    /// Players in the match when it began.
    pub playing_first: usize,
    /// And when it ended.
    pub playing_last: usize,
}

impl Outcome {
    /// What all players did together.
    pub fn total(&self) -> Share {
        let mut total = Share::default();
        for (_, share) in &self.shares {
            total.players += share.players;
            total.tally.add(&share.tally);
            total.measured += share.measured;
            total.playing_first += share.playing_first;
            total.playing_last += share.playing_last;
        }
        total
    }
}

/// Most parts of a tick.
pub const SLOTS_MAX: u32 = 1024;

/// How long after the last login began everyone should be there.
const JOIN_PATIENCE: Duration = Duration::from_secs(10);

/// Enough for several snapshots, with the acknowledgements that they bring.
const DRAIN: Duration = Duration::from_millis(300);
const LEAVE: Duration = Duration::from_millis(100);

/// A swarm this late leaves slots out, and counts that.
const BEHIND_MAX: Duration = Duration::from_millis(50);

/// Events taken in one wait.
const EVENTS_PER_WAIT: usize = 512;

/// Datagrams taken from a shared socket in one go; there may be more, and then the next wait says so.
const RECEIVES_PER_EVENT: usize = 64;

/// Runs `options` to the end, and tells `listener` of it.
///
/// # Errors
/// When the system refuses what the swarm itself needs. What goes wrong with the server or single players is counted.
///
/// # Panics
/// When `options` has no players, more than [`PLAYERS_MAX`], no protocols or one without a server, no sockets, no ramp,
/// or no slots or more than [`SLOTS_MAX`].
pub fn run(options: &Options, listener: &mut dyn FnMut(News)) -> io::Result<Outcome> {
    assert!((1..=PLAYERS_MAX).contains(&options.players), "players out of range");
    assert!(
        !matches!(options.spread, Spread::Even(slots) if !(1..=SLOTS_MAX).contains(&slots)),
        "slots out of range"
    );
    assert!(
        !options.protocols.is_empty()
            && options.protocols.iter().all(|&protocol| options.servers.of(protocol).is_some()),
        "a protocol has no server"
    );
    assert!(options.sockets != Some(0) && options.ramp_per_s > 0, "nobody could come");
    sockets::raise_descriptor_limit(2 * options.players as u64 + 64)?;
    let mut swarm = Swarm::new(options)?;
    swarm.run(listener)?;
    Ok(swarm.outcome)
}

/// A player and its sockets.
#[derive(Debug)]
struct Seat {
    player: Box<dyn Player>,
    /// Index of its protocol's share.
    share: usize,
    stream: Option<Stream>,
    /// Index of its datagram socket.
    socket: Option<usize>,
}

/// A datagram socket.
#[derive(Debug)]
struct Socket {
    socket: UdpSocket,
    /// Index of the share of its players.
    share: usize,
    /// Its only player. Where there is none, what a datagram names tells whose it is.
    owner: Option<usize>,
}

#[derive(Debug)]
struct Swarm<'a> {
    options: &'a Options,
    clock: Clock,
    watch: Watch,
    timer: Timer,
    seats: Vec<Seat>,
    sockets: Vec<Socket>,
    /// Indices of those that are shared, once open.
    shared: Vec<Option<usize>>,
    /// Whose datagrams they are, on shared sockets.
    keys: BTreeMap<u32, usize>,
    outcome: Outcome,
    start: Instant,
    slots: u64,
    /// Number of the next slot since the start.
    slot: u64,
    ticks_missed: u64,
    stage: Stage,
    stage_since: Instant,
    counters_before: Counters,
}

impl<'a> Swarm<'a> {
    fn new(options: &'a Options) -> io::Result<Self> {
        let clock = Clock::new();
        let watch = Watch::new()?;
        let timer = Timer::new()?;
        watch.add(&timer, Source::Timer, epoll::EventFlags::IN)?;
        let start = clock.now() + Duration::from_millis(1);
        let turns = options.protocols.len();
        let players_of = |turn: usize| (options.players + turns - 1 - turn) / turns;
        let shares = options
            .protocols
            .iter()
            .enumerate()
            .map(|(turn, &protocol)| (protocol, Share { players: players_of(turn), ..Share::default() }));
        Ok(Self {
            options,
            clock,
            watch,
            timer,
            seats: Vec::with_capacity(options.players),
            sockets: Vec::new(),
            shared: vec![None; options.sockets.unwrap_or(0)],
            keys: BTreeMap::new(),
            outcome: Outcome {
                shares: shares.collect(),
                ticks_missed: 0,
                measured_for: Duration::ZERO,
                cpu_ns: 0,
            },
            start,
            slots: match options.spread {
                Spread::Even(slots) => u64::from(slots),
                Spread::Bunched => 1,
            },
            slot: 0,
            ticks_missed: 0,
            stage: Stage::Joining,
            stage_since: start,
            counters_before: Counters::default(),
        })
    }

    fn run(&mut self, listener: &mut dyn FnMut(News)) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS_PER_WAIT);
        let mut told_at = self.start;
        loop {
            self.timer.set(self.slot_at(self.slot))?;
            self.watch.wait(&mut events)?;
            for event in &events {
                match Source::of(event.data) {
                    Source::Timer => {}
                    Source::Stream(seat) => self.read_stream(seat)?,
                    Source::Datagrams(socket) => self.receive(socket),
                }
            }
            let now = self.clock.now();
            if now >= self.slot_at(self.slot) {
                self.run_slot()?;
                if self.next_stage(self.clock.now(), listener) {
                    return Ok(());
                }
            }
            if now >= told_at + Duration::from_secs(1) {
                told_at = now;
                self.tell(listener);
            }
        }
    }

    /// When a slot begins. Computed from the start each time: rounding never adds up.
    fn slot_at(&self, slot: u64) -> Instant {
        let per_s = u128::from(self.slots) * u128::from(TICK_RATE_HZ);
        self.start + Duration::from_nanos((u128::from(slot) * 1_000_000_000 / per_s) as u64)
    }

    /// The sends of the next slot, and the logins that are due.
    fn run_slot(&mut self) -> io::Result<()> {
        let now = self.clock.now();
        if now.since(self.slot_at(self.slot)) > BEHIND_MAX {
            let before = self.slot;
            while self.slot_at(self.slot + 1) <= now {
                self.slot += 1;
            }
            self.ticks_missed += (self.slot - before).div_ceil(self.slots);
        }
        let slot = self.slot;
        self.slot += 1;
        if self.stage == Stage::Joining {
            self.begin_logins(now)?;
        }
        if self.stage == Stage::Draining {
            return Ok(());
        }
        let due = self.slot_at(slot);
        for seat in ((slot % self.slots) as usize..self.seats.len()).step_by(self.slots as usize) {
            self.send(seat, due);
        }
        Ok(())
    }

    fn begin_logins(&mut self, now: Instant) -> io::Result<()> {
        let elapsed = u128::from(now.since(self.start).as_nanos());
        let due = elapsed * u128::from(self.options.ramp_per_s) / 1_000_000_000 + 1;
        while self.seats.len() < self.options.players && (self.seats.len() as u128) < due {
            let index = self.seats.len();
            let share = index % self.options.protocols.len();
            let protocol = self.options.protocols[share];
            let player = protocol.player(index, &self.options.player);
            self.seats.push(Seat { player, share, stream: None, socket: None });
            if protocol.has_stream() {
                self.open_stream(index)?;
            } else {
                self.open_socket(index)?;
            }
        }
        Ok(())
    }

    /// Where the protocol of a player begins.
    fn server_of(&self, index: usize) -> SocketAddr {
        let (protocol, _) = self.outcome.shares[self.seats[index].share];
        self.options.servers.of(protocol).expect("every protocol has a server")
    }

    fn open_stream(&mut self, index: usize) -> io::Result<()> {
        let stream = Stream::connect(self.server_of(index));
        let seat = &mut self.seats[index];
        match stream {
            Ok(stream) => {
                let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT;
                self.watch.add(&stream, Source::Stream(index), flags)?;
                seat.stream = Some(stream);
            }
            Err(_) => seat.player.stream_closed(&mut self.outcome.shares[seat.share].1.tally),
        }
        Ok(())
    }

    /// Sends what a player has to send in the slot that was `due`.
    fn send(&mut self, index: usize, due: Instant) {
        let seat = &mut self.seats[index];
        let Some(socket) = seat.socket.map(|socket| &self.sockets[socket].socket) else { return };
        let tally = &mut self.outcome.shares[seat.share].1.tally;
        let now = self.clock.now();
        let mut buffer = [0; DATAGRAM_BYTES_MAX];
        let mut sent = 0;
        while let Some(len) = seat.player.transmit(due, now, &mut buffer, tally) {
            match socket.send(&buffer[..len]) {
                Ok(_) => {
                    tally.counters.datagrams_out += 1;
                    tally.counters.bytes_out += len as u64;
                }
                Err(_) => tally.fault(Fault::Send),
            }
            sent += 1;
        }
        if sent > 0 {
            tally.pacing(now.since(due));
        }
    }

    /// A stream connected, brought bytes, or ended.
    fn read_stream(&mut self, index: usize) -> io::Result<()> {
        let seat = &mut self.seats[index];
        let Some(stream) = &mut seat.stream else { return Ok(()) };
        let tally = &mut self.outcome.shares[seat.share].1.tally;
        let now = self.clock.now();
        let mut is_open = true;
        if !stream.is_greeted() {
            is_open = stream.greet(|| seat.player.stream_output());
            self.watch.modify(&*stream, Source::Stream(index), epoll::EventFlags::IN)?;
        }
        let mut buffer = [0; 256];
        match stream.read(&mut buffer) {
            _ if !is_open => {}
            Ok(0) => is_open = false,
            Ok(len) => seat.player.stream_bytes(now, &buffer[..len], tally),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => is_open = false,
        }
        if !is_open {
            // Closing takes it out of the set that is waited for.
            seat.stream = None;
            seat.player.stream_closed(tally);
        }
        if seat.socket.is_none() {
            self.open_socket(index)?;
        }
        Ok(())
    }

    /// Gives a player that knows where to play a socket.
    fn open_socket(&mut self, index: usize) -> io::Result<()> {
        let server = self.server_of(index);
        let seat = &self.seats[index];
        let Some(peer) = seat.player.udp(server) else { return Ok(()) };
        let share = seat.share;
        let key = seat.player.session_key();
        let is_shared = !self.shared.is_empty() && self.outcome.shares[share].0.can_share_sockets();
        let socket = if is_shared {
            let place = index % self.shared.len();
            if let Some(key) = key {
                self.keys.insert(key, index);
            }
            match self.shared[place] {
                Some(socket) => socket,
                None => {
                    let players = self.options.players.div_ceil(self.shared.len());
                    let socket = self.add_socket(open_datagrams(peer, players)?, share, None)?;
                    self.shared[place] = Some(socket);
                    socket
                }
            }
        } else {
            self.add_socket(open_datagrams(peer, 1)?, share, Some(index))?
        };
        self.seats[index].socket = Some(socket);
        Ok(())
    }

    fn add_socket(&mut self, socket: UdpSocket, share: usize, owner: Option<usize>) -> io::Result<usize> {
        let index = self.sockets.len();
        self.watch.add(&socket, Source::Datagrams(index), epoll::EventFlags::IN)?;
        self.sockets.push(Socket { socket, share, owner });
        Ok(index)
    }

    /// Takes in what waits at a socket; what is beyond a bound comes with the next wait.
    fn receive(&mut self, socket: usize) {
        let Socket { socket, share, owner } = &self.sockets[socket];
        let (protocol, share) = &mut self.outcome.shares[*share];
        let tally = &mut share.tally;
        // A socket of one player's own seldom holds more than one: a second call would find it empty.
        let receives = if owner.is_some() { 1 } else { RECEIVES_PER_EVENT };
        let mut buffer = [0; RECEIVE_BUFFER_BYTES];
        for _ in 0..receives {
            let len = match socket.recv(&mut buffer) {
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => return tally.fault(Fault::Receive),
            };
            tally.counters.datagrams_in += 1;
            tally.counters.bytes_in += len as u64;
            let bytes = &buffer[..len];
            let named = || protocol.key_of(bytes).and_then(|key| self.keys.get(&key).copied());
            match owner.or_else(named) {
                Some(seat) => self.seats[seat].player.datagram(self.clock.now(), bytes, tally),
                None => tally.fault(Fault::Foreign),
            }
        }
    }

    /// Goes to the next stage when this one is over. Returns whether that was the last.
    fn next_stage(&mut self, now: Instant, listener: &mut dyn FnMut(News)) -> bool {
        let is_past = |span: Duration| now >= self.stage_since + span;
        let next = match self.stage {
            Stage::Joining => {
                let is_joining = |seat: &Seat| seat.player.state() == State::Joining;
                let ramp =
                    Duration::from_secs(self.options.players as u64).per(self.options.ramp_per_s.into());
                let is_complete = self.seats.len() == self.options.players;
                let is_settled = is_complete && !self.seats.iter().any(is_joining);
                (is_settled || is_past(ramp + JOIN_PATIENCE)).then_some(Stage::WarmingUp)
            }
            Stage::WarmingUp => is_past(self.options.warm_up).then_some(Stage::Measuring),
            Stage::Measuring => is_past(self.options.measure).then_some(Stage::Draining),
            Stage::Draining => is_past(DRAIN).then_some(Stage::Leaving),
            Stage::Leaving if is_past(LEAVE) => return true,
            Stage::Leaving => None,
        };
        let Some(next) = next else { return false };
        match next {
            Stage::Measuring => {
                self.outcome.ticks_missed = self.ticks_missed;
                self.outcome.cpu_ns = sockets::thread_cpu_ns();
                for (index, (_, share)) in self.outcome.shares.iter_mut().enumerate() {
                    share.playing_first = playing(&self.seats, index);
                    share.measured = share.tally.counters;
                }
            }
            Stage::Draining => {
                self.outcome.ticks_missed = self.ticks_missed - self.outcome.ticks_missed;
                self.outcome.measured_for = now.since(self.stage_since);
                self.outcome.cpu_ns = sockets::thread_cpu_ns() - self.outcome.cpu_ns;
                for (index, (_, share)) in self.outcome.shares.iter_mut().enumerate() {
                    share.playing_last = playing(&self.seats, index);
                    share.measured = share.tally.counters.since(&share.measured);
                }
            }
            Stage::Leaving => {
                // Acknowledgements of what was sent while measuring came until now.
                for (_, share) in &mut self.outcome.shares {
                    share.measured.inputs_acked = share.tally.counters.inputs_acked;
                }
                self.leave();
            }
            Stage::Joining | Stage::WarmingUp => {}
        }
        for (_, share) in &mut self.outcome.shares {
            share.tally.is_measuring = next == Stage::Measuring;
        }
        (self.stage, self.stage_since) = (next, now);
        listener(News::Stage(next));
        false
    }

    fn leave(&mut self) {
        for seat in &mut self.seats {
            seat.player.leave();
            if let Some(stream) = &mut seat.stream {
                // A server that is gone, or does not read, misses nothing by it.
                let _ = stream.write(|| seat.player.stream_output());
            }
        }
    }

    fn tell(&mut self, listener: &mut dyn FnMut(News)) {
        let (mut counters, mut faults) = (Counters::default(), 0);
        for (_, share) in &self.outcome.shares {
            counters += share.tally.counters;
            faults += share.tally.faults.total();
        }
        listener(News::Second {
            stage: self.stage,
            playing: (0..self.outcome.shares.len()).map(|share| playing(&self.seats, share)).sum(),
            counters: counters.since(&self.counters_before),
            faults,
        });
        self.counters_before = counters;
    }
}

/// Players of a share that are in the match.
fn playing(seats: &[Seat], share: usize) -> usize {
    let is_playing = |seat: &&Seat| seat.share == share && seat.player.state() == State::Playing;
    seats.iter().filter(is_playing).count()
}
