//! The bots of `tickwire demo`: clients over real sockets on one thread, and what they saw.

use std::collections::{BTreeMap, BTreeSet};
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
use tickwire::model::{Name, PLAYERS_MAX};
use tickwire::seam::DATAGRAM_BYTES_MAX;
use tickwire::time::Instant;
use tickwire::wire::aegis::event::{CONTENT_BYTES_MAX, Event};

/// The bots' tick.
const TICK: time::Duration = time::Duration::from_nanos(16_666_667);

/// How long a bot may take from its connection to its first snapshot.
const JOIN_MAX: time::Duration = time::Duration::from_secs(5);

/// How long after the play the last datagrams and goodbyes may be on their way.
const FAREWELL: time::Duration = time::Duration::from_millis(500);

/// Ticks at both ends of a match in which events are not compared: newcomers are still being told, or the last ones are
/// on their way.
const MARGIN_TICKS: u32 = 60;

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
    /// Player-seconds during which snapshots were to come.
    player_seconds: f64,
    /// Snapshots applied.
    pub snapshots: u64,
    /// Of these, against a baseline.
    pub deltas: u64,
    /// Events handed over.
    pub events: u64,
    /// Events that came again and were not.
    pub events_again: u64,
    /// Events of unknown type or with malformed content.
    pub events_ignored: u64,
    /// Events found the same for everyone in their room.
    pub compared: usize,
    /// Rooms in which they were compared.
    pub compared_rooms: usize,
    /// Rounds that ended.
    pub rounds: usize,
    /// Median of the players' smoothed round-trip times.
    pub rtt_median_ms: f64,
    /// The longest of them.
    pub rtt_worst_ms: f64,
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
}

impl Outcome {
    /// Snapshots that should have come at one every `interval` ticks.
    pub fn snapshots_expected(&self, interval: u8) -> f64 {
        self.player_seconds * 60.0 / f64::from(interval)
    }
}

/// One bot with its sockets.
struct Player {
    client: Client,
    bot: Bot,
    stream: TcpStream,
    socket: UdpSocket,
    events: Vec<Event>,
    playing_since: Option<time::Instant>,
}

/// Plays the plan. Whatever happens, the server's loop is stopped in the end.
pub fn play(plan: &Plan) -> Result<Outcome, String> {
    let played = try_play(plan);
    // Only fails when the loop is gone already.
    let _ = plan.stop.stop();
    played
}

fn try_play(plan: &Plan) -> Result<Outcome, String> {
    let clock = Clock::new();
    let mut players = Vec::new();
    for number in 0..plan.players {
        // One after the other, so that the rooms are filled in this order.
        let player = Player::log_in(plan, number, &clock);
        players.push(player.map_err(|error| format!("bot {number}: {error}"))?);
    }
    let start = time::Instant::now();
    let end = start + time::Duration::from_secs(plan.seconds);
    let mut progress = Progress::new(plan.seconds);
    let mut next = start;
    while time::Instant::now() < end && !plan.ends_early.load(Ordering::Relaxed) {
        next += TICK;
        thread::sleep(next.saturating_duration_since(time::Instant::now()));
        for player in &mut players {
            player.tick(clock.now());
        }
        progress.show(start.elapsed(), &players);
    }
    progress.finish();
    let outcome = look_back(start.elapsed().as_secs_f64(), &players);
    leave(&mut players, &clock);
    Ok(outcome)
}

/// Everyone says goodbye, once what they sent before is there, and waits until the server has heard.
fn leave(players: &mut [Player], clock: &Clock) {
    thread::sleep(3 * TICK);
    players.iter_mut().for_each(|player| player.client.log_out());
    let deadline = time::Instant::now() + FAREWELL;
    while time::Instant::now() < deadline {
        players.iter_mut().for_each(|player| player.exchange(clock.now()));
        thread::sleep(TICK);
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
        let mut player = Self { client, bot, stream, socket, events: Vec::new(), playing_since: None };
        let deadline = time::Instant::now() + JOIN_MAX;
        while player.client.phase() == Phase::LoggingIn {
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
        self.events.extend(std::iter::from_fn(|| self.client.poll_event()));
    }
}

/// What everyone saw, and whether it agrees.
fn look_back(seconds: f64, players: &[Player]) -> Outcome {
    let mut outcome = Outcome { seconds, ..Outcome::default() };
    for (number, player) in players.iter().enumerate() {
        let stats = player.client.stats();
        outcome.snapshots += stats.snapshots;
        outcome.deltas += stats.snapshots_delta;
        outcome.events += stats.events;
        outcome.events_again += stats.events_repeated;
        outcome.events_ignored += stats.events_ignored;
        outcome.player_seconds += player.playing_since.map_or(0.0, |since| since.elapsed().as_secs_f64());
        if player.client.phase() != Phase::Playing {
            outcome
                .failures
                .push(format!("bot {number} does not play any more: {:?}", player.client.phase()));
        }
        if stats.events_lost > 0 {
            outcome.failures.push(format!("bot {number} lost {} events", stats.events_lost));
        }
    }
    for (room, members) in players.chunks(PLAYERS_MAX).enumerate() {
        compare_events(room, members, &mut outcome);
    }
    let mut rtts: Vec<f64> = players
        .iter()
        .filter_map(|player| player.client.link().rtt().smoothed())
        .map(|rtt| rtt.as_micros() as f64 / 1000.0)
        .collect();
    rtts.sort_by(f64::total_cmp);
    outcome.rtt_median_ms = rtts.get(rtts.len() / 2).copied().unwrap_or_default();
    outcome.rtt_worst_ms = rtts.last().copied().unwrap_or_default();
    outcome
}

/// Everyone in a room was told of the same events, each once.
fn compare_events(room: usize, members: &[Player], outcome: &mut Outcome) {
    // From when the last one joined, up to where everyone has heard everything.
    let joined = members.iter().filter_map(|member| {
        let own = |event: &&Event| {
            matches!(event, Event::PlayerJoined { player, .. } if Some(*player) == member.client.player())
        };
        member.events.iter().find(own).map(Event::tick)
    });
    let heard = members.iter().filter_map(|member| member.client.table().map(|table| table.tick()));
    let (Some(joined), Some(heard)) = (joined.max(), heard.min()) else { return };
    let window = joined + MARGIN_TICKS..heard.saturating_sub(MARGIN_TICKS);
    let told: Vec<BTreeMap<Vec<u8>, usize>> = members
        .iter()
        .map(|member| {
            let mut counts = BTreeMap::new();
            for event in member.events.iter().filter(|event| window.contains(&event.tick())) {
                let mut content = [0; CONTENT_BYTES_MAX];
                let len = event.emit(&mut content);
                *counts.entry(content[..len].to_vec()).or_default() += 1;
            }
            counts
        })
        .collect();
    let all: BTreeSet<&Vec<u8>> = told.iter().flat_map(BTreeMap::keys).collect();
    for (slot, counts) in told.iter().enumerate() {
        let twice = counts.values().filter(|&&count| count > 1).count();
        let missed = all.len() - counts.len();
        if twice > 0 || missed > 0 {
            outcome.failures.push(format!(
                "room {room}, player {slot}: {twice} events came twice and {missed} never, of {}",
                all.len()
            ));
        }
    }
    let is_end = |event: &&Event| matches!(event, Event::GameOver { .. });
    outcome.rounds += members.first().map_or(0, |member| member.events.iter().filter(is_end).count());
    outcome.compared += all.len();
    outcome.compared_rooms += 1;
}

/// The live line: a bar on a terminal, a line every few seconds elsewhere.
struct Progress {
    bar: Option<ProgressBar>,
    shown_s: u64,
    datagrams: u64,
}

impl Progress {
    fn new(seconds: u64) -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(seconds);
            if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos:>3}/{len} s  {msg}") {
                bar.set_style(style);
            }
            bar
        });
        Self { bar, shown_s: 0, datagrams: 0 }
    }

    fn show(&mut self, elapsed: time::Duration, players: &[Player]) {
        if elapsed.as_secs() == self.shown_s {
            return;
        }
        let is_line_due = elapsed.as_secs().is_multiple_of(PROGRESS_INTERVAL_S);
        if self.bar.is_none() && !is_line_due {
            self.shown_s = elapsed.as_secs();
            return;
        }
        let seconds = if self.bar.is_some() { 1 } else { PROGRESS_INTERVAL_S };
        self.shown_s = elapsed.as_secs();
        let sum = |of: fn(&Player) -> u64| players.iter().map(of).sum::<u64>();
        let datagrams = sum(|player| player.client.stats().datagrams_in);
        let playing = players.iter().filter(|player| player.client.phase() == Phase::Playing).count();
        let entities = sum(|player| player.client.table().map_or(0, |table| table.len() as u64));
        let points = sum(|player| {
            let own = player.client.player().zip(player.client.table());
            own.and_then(|(slot, table)| table.players()[slot.index()]).map_or(0, |state| state.score.into())
        });
        let message = format!(
            "{playing} playing, {} datagrams/s, {} snapshots, {} events, {} entities in view, {points} points",
            (datagrams - self.datagrams) / seconds,
            sum(|player| player.client.stats().snapshots),
            sum(|player| player.client.stats().events),
            entities / players.len().max(1) as u64,
        );
        self.datagrams = datagrams;
        match &self.bar {
            Some(bar) => {
                bar.set_position(self.shown_s);
                bar.set_message(message);
            }
            None => eprintln!("{:>3} s  {message}", self.shown_s),
        }
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
