//! The bots of `tickwire demo`: clients over real sockets on one thread, and what they saw.

use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time;

use indicatif::{ProgressBar, ProgressStyle};

use tickwire::client::aegis::{Client, Phase, Settings};
use tickwire::client::bot::Bot;
use tickwire::io::{Clock, StopHandle};
use tickwire::limits::TICK_RATE_HZ;
use tickwire::model::{Name, PLAYERS_MAX};
use tickwire::seam::DATAGRAM_BYTES_MAX;
use tickwire::time::Instant;
use tickwire::wire::aegis::event::Event;

use crate::ledger::Ledger;

/// The bots' tick.
const TICK: time::Duration = time::Duration::from_nanos(16_666_667);

/// How long a bot may take from its connection to its first snapshot.
const JOIN_MAX: time::Duration = time::Duration::from_secs(5);

/// How long after the play the last datagrams and goodbyes may be on their way.
const FAREWELL: time::Duration = time::Duration::from_millis(500);

/// Ticks that an event may take until everyone in the room has it, at the end of a match and during it. During it there
/// is more patience: a machine may stumble.
const EVENT_TICKS_AT_END: u32 = 60;
const EVENT_TICKS: u32 = 300;

/// Seconds between two progress lines where there is no terminal.
const PROGRESS_INTERVAL_S: u64 = 5;

/// What the bots are to do.
#[derive(Clone)]
pub struct Plan {
    tcp: SocketAddr,
    udp: SocketAddr,
    players: usize,
    seconds: u64,
    entities_max: usize,
    stop: StopHandle,
    ends_early: Arc<AtomicBool>,
}

/// What the bots saw.
#[derive(Default)]
pub struct Outcome {
    /// Time played, in seconds.
    pub seconds: f64,
    /// Whether that is less than planned.
    pub ended_early: bool,
    /// Snapshots that should have come, at the rate that the server said.
    pub snapshots_expected: u64,
    /// Of these, the ones that did not.
    pub snapshots_missed: u64,
    /// Snapshots applied.
    pub snapshots: u64,
    /// Of these, against a baseline.
    pub deltas: u64,
    /// Events handed over.
    pub events: u64,
    /// Events that came again and were not.
    pub events_again: u64,
    /// Events lost because the bot did not take them in time.
    pub events_lost: u64,
    /// Events of unknown type or with malformed content.
    pub events_ignored: u64,
    /// Events found the same for everyone in their room.
    pub agreed: u64,
    /// Rounds that ended.
    pub rounds: usize,
    /// Smoothed round-trip times of everyone in every second of play, in microseconds, sorted.
    pub rtts_us: Vec<u32>,
    /// What did not hold, a line each.
    pub failures: Vec<String>,
}

impl Plan {
    /// `players` bots for `seconds` against the server at these addresses, whose rooms hold `entities_max` entities; at
    /// the end `stop` is used.
    pub fn new(
        tcp: SocketAddr,
        udp: SocketAddr,
        players: usize,
        seconds: u64,
        entities_max: usize,
        stop: StopHandle,
    ) -> Self {
        Self { tcp, udp, players, seconds, entities_max, stop, ends_early: Arc::default() }
    }

    /// Makes the bots leave now.
    pub fn end_early(&self) {
        self.ends_early.store(true, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.ends_early.load(Ordering::Relaxed)
    }
}

impl Outcome {
    /// The round-trip time, in milliseconds, that `percent` of the samples do not exceed.
    pub fn rtt_ms(&self, percent: usize) -> f64 {
        let last = self.rtts_us.len().saturating_sub(1);
        self.rtts_us.get(last * percent / 100).map_or(0.0, |&us| f64::from(us) / 1000.0)
    }
}

/// One bot with its sockets.
struct Player {
    client: Client,
    bot: Bot,
    stream: TcpStream,
    socket: UdpSocket,
    playing_since: Option<time::Instant>,
}

/// Everyone, by rooms of four.
struct Match {
    clock: Clock,
    players: Vec<Player>,
    ledgers: Vec<Ledger>,
    rounds: usize,
    rtts_us: Vec<u32>,
}

/// Plays the plan. Whatever happens, the server's loop is stopped in the end.
pub fn play(plan: &Plan) -> Result<Outcome, String> {
    let played = try_play(plan);
    // Only fails when the loop is gone already.
    let _ = plan.stop.stop();
    played
}

fn try_play(plan: &Plan) -> Result<Outcome, String> {
    let mut game = Match::log_in(plan)?;
    let start = time::Instant::now();
    let end = start + time::Duration::from_secs(plan.seconds);
    let mut progress = Progress::new(plan.seconds);
    let mut next = start;
    while time::Instant::now() < end && !plan.is_over() {
        next += TICK;
        thread::sleep(next.saturating_duration_since(time::Instant::now()));
        game.tick();
        if progress.is_second_over(start.elapsed()) {
            game.look();
            progress.show(&game);
        }
    }
    progress.finish();
    let mut outcome = game.look_back(start.elapsed().as_secs_f64());
    outcome.ended_early = plan.is_over();
    game.leave();
    Ok(outcome)
}

impl Match {
    fn log_in(plan: &Plan) -> Result<Self, String> {
        let clock = Clock::new();
        let mut players = Vec::with_capacity(plan.players);
        for number in 0..plan.players {
            // One after the other, so that the rooms are filled in this order.
            let player = Player::log_in(plan, number, &clock);
            players.push(player.map_err(|error| format!("bot {number}: {error}"))?);
        }
        let ledgers = players.chunks(PLAYERS_MAX).map(|members| Ledger::new(members.len())).collect();
        Ok(Self { clock, players, ledgers, rounds: 0, rtts_us: Vec::new() })
    }

    fn tick(&mut self) {
        let now = self.clock.now();
        for (number, player) in self.players.iter_mut().enumerate() {
            player.tick(now);
            let (room, member) = (number / PLAYERS_MAX, number % PLAYERS_MAX);
            while let Some(event) = player.client.poll_event() {
                self.ledgers[room].note(member, player.client.player(), &event);
                self.rounds += usize::from(member == 0 && matches!(event, Event::GameOver { .. }));
            }
        }
    }

    /// Takes the samples of a second, and closes the accounts of what is long past.
    fn look(&mut self) {
        let rtts = self.players.iter().filter_map(|player| player.client.link().rtt().smoothed());
        self.rtts_us.extend(rtts.map(|rtt| u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX)));
        self.compare_events(EVENT_TICKS);
    }

    /// Compares what is at least `age_ticks` old.
    fn compare_events(&mut self, age_ticks: u32) {
        for (ledger, members) in self.ledgers.iter_mut().zip(self.players.chunks(PLAYERS_MAX)) {
            let seen = members.iter().map(|member| member.client.table().map_or(0, |table| table.tick()));
            ledger.compare(seen.min().unwrap_or(0).saturating_sub(age_ticks));
        }
    }

    /// What everyone saw, and whether it agrees.
    fn look_back(&mut self, seconds: f64) -> Outcome {
        self.look();
        self.compare_events(EVENT_TICKS_AT_END);
        self.rtts_us.sort_unstable();
        let rtts_us = std::mem::take(&mut self.rtts_us);
        let mut outcome = Outcome { seconds, rounds: self.rounds, rtts_us, ..Outcome::default() };
        for (number, player) in self.players.iter().enumerate() {
            player.add_to(number, &mut outcome);
        }
        for (room, ledger) in self.ledgers.iter().enumerate() {
            outcome.agreed += ledger.agreed;
            for (count, what) in [
                (ledger.twice, "came twice"),
                (ledger.missed, "never came to somebody"),
                (ledger.late, "came long after their tick"),
            ] {
                if count > 0 {
                    outcome.failures.push(format!("room {room}: {count} events {what}"));
                }
            }
        }
        outcome
    }

    /// Everyone says goodbye, once what they sent before is there, and waits until the server has heard.
    fn leave(&mut self) {
        thread::sleep(3 * TICK);
        self.players.iter_mut().for_each(|player| player.client.log_out());
        let deadline = time::Instant::now() + FAREWELL;
        while time::Instant::now() < deadline {
            let now = self.clock.now();
            self.players.iter_mut().for_each(|player| player.exchange(now));
            thread::sleep(TICK);
        }
    }
}

impl Player {
    fn log_in(plan: &Plan, number: usize, clock: &Clock) -> Result<Self, String> {
        let text = |error: io::Error| error.to_string();
        let stream = TcpStream::connect(plan.tcp).map_err(text)?;
        stream.set_nodelay(true).map_err(text)?;
        stream.set_nonblocking(true).map_err(text)?;
        let socket = UdpSocket::bind((plan.tcp.ip(), 0)).map_err(text)?;
        socket.connect(plan.udp).map_err(text)?;
        socket.set_nonblocking(true).map_err(text)?;
        let name = Name::new(format!("bot {number}").as_bytes()).map_err(|error| format!("{error:?}"))?;
        let settings = Settings { name, entities_max: plan.entities_max, snapshots_kept: 65 };
        let client = Client::new(&settings);
        let bot = Bot::new(number as u64);
        let mut player = Self { client, bot, stream, socket, playing_since: None };
        let deadline = time::Instant::now() + JOIN_MAX;
        while player.client.phase() == Phase::LoggingIn {
            if plan.is_over() {
                return Err("ended before everyone was in".to_owned());
            }
            if time::Instant::now() > deadline {
                return Err("no answer to the login".to_owned());
            }
            player.exchange(clock.now());
            thread::sleep(time::Duration::from_micros(200));
        }
        match player.client.phase() {
            Phase::Over(over) => Err(format!("not let in: {over:?}")),
            _ => Ok(player),
        }
    }

    fn tick(&mut self, now: Instant) {
        self.bot.play(&mut self.client);
        self.exchange(now);
        if self.playing_since.is_none() && self.client.stats().snapshots > 0 {
            self.playing_since = Some(time::Instant::now());
        }
    }

    /// Moves bytes both ways. What a socket refuses is lost, as on any network.
    fn exchange(&mut self, now: Instant) {
        let mut buffer = [0; DATAGRAM_BYTES_MAX];
        while let Ok(len) = self.socket.recv(&mut buffer) {
            let _ = self.client.datagram(now, now, &buffer[..len]);
        }
        match self.stream.read(&mut buffer) {
            Ok(0) => self.client.stream_closed(),
            Ok(len) => self.client.stream_bytes(now, &buffer[..len]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.client.stream_closed(),
        }
        let said: Vec<u8> = std::iter::from_fn(|| self.client.stream_output()).collect();
        if !said.is_empty() && self.stream.write_all(&said).is_err() {
            self.client.stream_closed();
        }
        while let Some(len) = self.client.transmit(now, &mut buffer) {
            let _ = self.socket.send(&buffer[..len]);
        }
    }

    /// Adds what this player saw.
    fn add_to(&self, number: usize, outcome: &mut Outcome) {
        let (stats, phase) = (self.client.stats(), self.client.phase());
        outcome.snapshots += stats.snapshots;
        outcome.deltas += stats.snapshots_delta;
        outcome.events += stats.events;
        outcome.events_again += stats.events_repeated;
        outcome.events_lost += stats.events_lost;
        outcome.events_ignored += stats.events_ignored;
        let seconds = self.playing_since.map_or(0.0, |since| since.elapsed().as_secs_f64());
        let interval = f64::from(self.client.snapshot_interval().max(1));
        // Rounded down: the next one is not missed yet.
        let expected = (seconds * f64::from(TICK_RATE_HZ) / interval) as u64;
        outcome.snapshots_expected += expected;
        outcome.snapshots_missed += expected.saturating_sub(stats.snapshots);
        if phase != Phase::Playing {
            outcome.failures.push(format!("bot {number} does not play any more: {phase:?}"));
        } else if stats.snapshots == 0 {
            outcome.failures.push(format!("bot {number} saw nothing"));
        }
    }
}

/// The live line: a bar on a terminal, a line every few seconds elsewhere.
struct Progress {
    bar: Option<ProgressBar>,
    second: u64,
    shown: Totals,
}

/// What was counted up to a second of play.
#[derive(Clone, Copy, Default)]
struct Totals {
    second: u64,
    datagrams: u64,
    snapshots: u64,
}

impl Progress {
    fn new(seconds: u64) -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(seconds);
            if let Ok(style) = ProgressStyle::with_template("{bar:20} {pos:>3}/{len} s  {wide_msg}") {
                bar.set_style(style);
            }
            bar
        });
        Self { bar, second: 0, shown: Totals::default() }
    }

    /// Whether another second is over since this was asked.
    fn is_second_over(&mut self, elapsed: time::Duration) -> bool {
        std::mem::replace(&mut self.second, elapsed.as_secs()) != self.second
    }

    /// Shows the second that is over, if it is one to be shown.
    fn show(&mut self, game: &Match) {
        if self.bar.is_none() && !self.second.is_multiple_of(PROGRESS_INTERVAL_S) {
            return;
        }
        let clients = || game.players.iter().map(|player| &player.client);
        let totals = Totals {
            second: self.second,
            datagrams: clients()
                .map(|client| client.stats().datagrams_in + client.stats().datagrams_out)
                .sum(),
            snapshots: clients().map(|client| client.stats().snapshots).sum(),
        };
        let seconds = (totals.second - self.shown.second).max(1);
        let playing = clients().filter(|client| client.phase() == Phase::Playing).count();
        let tick = clients().filter_map(|client| client.table()).map(|table| table.tick()).max();
        let rtts = clients().filter_map(|client| client.link().rtt().smoothed());
        let message = format!(
            "{playing} playing, tick {}, {} datagrams/s, {} snapshots/s, RTT {:.0} ms",
            tick.unwrap_or(0),
            (totals.datagrams - self.shown.datagrams) / seconds,
            (totals.snapshots - self.shown.snapshots) / seconds,
            rtts.max().map_or(0.0, |rtt| rtt.as_micros() as f64 / 1000.0),
        );
        self.shown = totals;
        match &self.bar {
            Some(bar) => {
                bar.set_message(message);
                bar.set_position(self.second);
            }
            None => eprintln!("{:>3} s  {message}", self.second),
        }
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
