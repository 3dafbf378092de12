//! The bots of `tickwire demo`: clients over real sockets on one thread, and what they saw.

mod aegis;
mod fignet;
mod guest;
mod progress;
mod protocol;
mod rtype;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time;

use tickwire::io::{Clock, StopHandle};
use tickwire::limits::TICK_RATE_HZ;
use tickwire::model::{EntityId, PLAYERS_MAX};
use tickwire::seam::Door;
use tickwire::session::fignet::NetworkConfig;
use tickwire::time::Instant;
use tickwire::wire::aegis::event::Event;

use self::guest::{Counts, Guest, Standing};
use self::progress::Progress;
use crate::census::{AGREE_TICKS, Census};
use crate::ledger::Ledger;

pub use self::protocol::Protocol;

/// The bots' tick.
const TICK: time::Duration = time::Duration::from_nanos(16_666_667);

/// How long the bots of a room may take from their connection to their slots.
const JOIN_MAX: time::Duration = time::Duration::from_secs(5);

/// How long after the play the last datagrams and goodbyes may be on their way.
const FAREWELL: time::Duration = time::Duration::from_millis(500);

/// Ticks that an event may take until everyone in the room has it, at the end of a match and during it. During it there
/// is more patience: a machine may stumble.
const EVENT_TICKS_AT_END: u32 = 60;
const EVENT_TICKS: u32 = 300;

/// The bots' ticks from one count of what everyone knows to the next.
const CENSUS_INTERVAL_TICKS: u64 = 15;

/// What the bots are to do.
#[derive(Clone)]
pub struct Plan {
    /// Where the server listens.
    pub addresses: Addresses,
    /// How many they are.
    pub players: usize,
    /// What they speak, in turns.
    pub protocols: &'static [Protocol],
    /// How long they play.
    pub seconds: u64,
    /// Entities that a room holds.
    pub entities_max: usize,
    /// Ticks from one snapshot to the next, for those who are not told.
    pub snapshot_interval: u32,
    /// FigNet's settings, at both ends.
    pub fignet: NetworkConfig,
    /// Stops the server's loop: used at the end.
    pub stop: StopHandle,
    /// Set once they are to leave before their time.
    pub ends_early: Arc<AtomicBool>,
}

/// Where a server listens.
#[derive(Clone, Copy)]
pub struct Addresses {
    /// For logins.
    pub tcp: SocketAddr,
    /// For datagrams, by door.
    pub doors: [Option<SocketAddr>; Door::COUNT],
}

/// What the bots saw.
#[derive(Default)]
pub struct Outcome {
    /// Time played, in seconds.
    pub seconds: f64,
    /// Whether that is less than planned.
    pub ended_early: bool,
    /// What those of each protocol saw.
    pub accounts: Vec<Account>,
    /// Events found the same for everyone in their room.
    pub agreed: u64,
    /// Entities that everyone in their room knew at the end, and those on their way to somebody.
    pub alike: u64,
    /// The latter.
    pub under_way: u64,
    /// Rounds that ended, if anybody was told of rounds.
    pub rounds: Option<usize>,
    /// What did not hold, a line each.
    pub failures: Vec<String>,
}

/// What the bots of one protocol saw.
pub struct Account {
    /// The protocol.
    pub protocol: Protocol,
    /// How many they were.
    pub players: usize,
    /// What they counted.
    pub counts: Counts,
    /// Snapshots that should have come, at the rate that the server said.
    pub snapshots_expected: u64,
    /// Of these, the ones that did not.
    pub snapshots_missed: u64,
    /// Smoothed round-trip times of everyone in every second of play, in microseconds; in the end sorted.
    rtts_us: Vec<u32>,
}

impl Plan {
    /// Makes the bots leave now.
    pub fn end_early(&self) {
        self.ends_early.store(true, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.ends_early.load(Ordering::Relaxed)
    }
}

impl Addresses {
    /// Where the datagrams of `protocol` go.
    pub fn udp(&self, protocol: Protocol) -> Option<SocketAddr> {
        self.doors[protocol.door() as usize]
    }
}

impl Account {
    fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            players: 0,
            counts: Counts::default(),
            snapshots_expected: 0,
            snapshots_missed: 0,
            rtts_us: Vec::new(),
        }
    }

    /// The round-trip time, in milliseconds, that `percent` of the samples do not exceed.
    pub fn rtt_ms(&self, percent: usize) -> f64 {
        let last = self.rtts_us.len().saturating_sub(1);
        self.rtts_us.get(last * percent / 100).map_or(0.0, |&us| f64::from(us) / 1000.0)
    }
}

/// One bot.
struct Player {
    guest: Box<dyn Guest>,
    /// Index of its protocol's account.
    account: usize,
    /// Its place in the ledger of its room, if it is handed events.
    member: Option<usize>,
    /// What was counted before the match.
    before: Counts,
    playing_since: Option<time::Instant>,
}

/// Everyone, by rooms of four.
struct Match {
    clock: Clock,
    players: Vec<Player>,
    ledgers: Vec<Ledger>,
    censuses: Vec<Census>,
    /// What each member of a room knows; kept for its memory.
    known: Vec<Vec<EntityId>>,
    accounts: Vec<Account>,
    rounds: Option<usize>,
    /// When the next tick is due while bots are still let in, and how many there were.
    tick_at: time::Instant,
    ticks: u64,
}

/// Plays the plan. Whatever happens, the server's loop is stopped in the end.
pub fn play(plan: &Plan) -> Result<Outcome, String> {
    let played = try_play(plan);
    // Only fails when the loop is gone already.
    let _ = plan.stop.stop();
    played
}

fn try_play(plan: &Plan) -> Result<Outcome, String> {
    let mut game = Match::gather(plan)?;
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
    /// Brings everyone in, one room after the other, so that they are filled in this order.
    fn gather(plan: &Plan) -> Result<Self, String> {
        let accounts = plan.protocols.iter().copied().map(Account::new).collect();
        let mut game = Self {
            clock: Clock::new(),
            players: Vec::with_capacity(plan.players),
            ledgers: Vec::new(),
            censuses: Vec::new(),
            known: Vec::new(),
            accounts,
            rounds: None,
            tick_at: time::Instant::now(),
            ticks: 0,
        };
        for first in (0..plan.players).step_by(PLAYERS_MAX) {
            game.fill_room(plan, first..plan.players.min(first + PLAYERS_MAX))?;
        }
        // What was said while the others were let in is no part of the match.
        for player in &mut game.players {
            player.before = player.guest.counts();
            player.playing_since = None;
        }
        Ok(game)
    }

    /// The bots of these `numbers` take the slots of a room, while those of the others play already.
    fn fill_room(&mut self, plan: &Plan, numbers: std::ops::Range<usize>) -> Result<(), String> {
        let first = numbers.start;
        let mut listeners = 0;
        for number in numbers {
            let account = number % plan.protocols.len();
            let protocol = plan.protocols[account];
            let guest = protocol.connect(plan, number).map_err(|error| format!("bot {number}: {error}"))?;
            let member = protocol.has_events().then_some(listeners);
            listeners += usize::from(member.is_some());
            self.accounts[account].players += 1;
            let before = Counts::default();
            self.players.push(Player { guest, account, member, before, playing_since: None });
        }
        self.ledgers.push(Ledger::new(listeners));
        self.censuses.push(Census::default());
        let deadline = time::Instant::now() + JOIN_MAX;
        loop {
            if time::Instant::now() >= self.tick_at {
                self.tick_at += TICK;
                self.tick();
            }
            let now = self.clock.now();
            let mut outside = None;
            for (number, player) in self.players.iter_mut().enumerate().skip(first) {
                match player.let_in(now) {
                    Standing::Outside => outside = Some(number),
                    Standing::Seated | Standing::Playing => {}
                    Standing::Over(why) => return Err(format!("bot {number}: not let in: {why}")),
                }
            }
            let Some(number) = outside else { return Ok(()) };
            if plan.is_over() {
                return Err(format!("bot {number}: ended before everyone was in"));
            }
            if time::Instant::now() > deadline {
                return Err(format!("bot {number}: no answer to the login"));
            }
            thread::sleep(time::Duration::from_micros(200));
        }
    }

    fn tick(&mut self) {
        let now = self.clock.now();
        self.ticks += 1;
        for (number, player) in self.players.iter_mut().enumerate() {
            player.tick(now);
            let Some(member) = player.member else { continue };
            self.rounds.get_or_insert(0);
            while let Some(event) = player.guest.poll_event() {
                self.ledgers[number / PLAYERS_MAX].note(member, player.guest.player(), &event);
                if let Some(rounds) = &mut self.rounds {
                    *rounds += usize::from(member == 0 && matches!(event, Event::GameOver { .. }));
                }
            }
        }
        if self.ticks.is_multiple_of(CENSUS_INTERVAL_TICKS) {
            self.count_known();
        }
    }

    /// Takes the samples of a second, and closes the accounts of what is long past.
    fn look(&mut self) {
        for player in &self.players {
            if let Some(rtt) = player.guest.rtt() {
                let us = u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX);
                self.accounts[player.account].rtts_us.push(us);
            }
        }
        self.compare_events(EVENT_TICKS);
    }

    /// Compares the events that are at least `age_ticks` old.
    fn compare_events(&mut self, age_ticks: u32) {
        for (ledger, members) in self.ledgers.iter_mut().zip(self.players.chunks(PLAYERS_MAX)) {
            let listeners = members.iter().filter(|member| member.member.is_some());
            let seen = listeners.map(|member| member.guest.tick().unwrap_or(0));
            ledger.compare(seen.min().unwrap_or(0).saturating_sub(age_ticks));
        }
    }

    /// Compares what everyone knows, of those who still play.
    fn count_known(&mut self) {
        for (census, members) in self.censuses.iter_mut().zip(self.players.chunks(PLAYERS_MAX)) {
            let playing: Vec<_> =
                members.iter().filter(|member| member.guest.standing() == Standing::Playing).collect();
            let ticks = playing.iter().map(|member| member.guest.tick().unwrap_or(0));
            let (Some(oldest), Some(newest)) = (ticks.clone().min(), ticks.max()) else { continue };
            self.known.resize_with(playing.len(), Vec::new);
            for (known, member) in self.known.iter_mut().zip(&playing) {
                known.clear();
                member.guest.add_known(known);
            }
            census.count(oldest, newest, &mut self.known);
        }
    }

    /// What everyone saw, and whether it agrees.
    fn look_back(&mut self, seconds: f64) -> Outcome {
        self.look();
        self.compare_events(EVENT_TICKS_AT_END);
        self.count_known();
        let mut accounts = std::mem::take(&mut self.accounts);
        accounts.iter_mut().for_each(|account| account.rtts_us.sort_unstable());
        let mut outcome = Outcome { seconds, rounds: self.rounds, accounts, ..Outcome::default() };
        for (number, player) in self.players.iter().enumerate() {
            player.add_to(number, &mut outcome);
        }
        for (room, (ledger, census)) in self.ledgers.iter().zip(&self.censuses).enumerate() {
            outcome.agreed += ledger.agreed;
            outcome.alike += census.alike;
            outcome.under_way += census.under_way;
            for (count, what) in [
                (ledger.twice, "events came twice"),
                (ledger.missed, "events never came to somebody"),
                (ledger.late, "events came long after their tick"),
            ] {
                if count > 0 {
                    outcome.failures.push(format!("room {room}: {count} {what}"));
                }
            }
            if census.differed > 0 {
                outcome.failures.push(format!(
                    "room {room}: entities that some knew and others did not, for more than {AGREE_TICKS} ticks: {}",
                    census.differed
                ));
            }
        }
        outcome
    }

    /// Everyone says goodbye, once what they sent before is there, and waits until the server has heard.
    fn leave(&mut self) {
        thread::sleep(3 * TICK);
        self.players.iter_mut().for_each(|player| player.guest.leave());
        let deadline = time::Instant::now() + FAREWELL;
        while time::Instant::now() < deadline {
            let now = self.clock.now();
            self.players.iter_mut().for_each(|player| player.exchange(now));
            thread::sleep(TICK);
        }
    }
}

impl Player {
    /// Does what it takes to be let in.
    fn let_in(&mut self, now: Instant) -> Standing {
        if self.guest.standing() == Standing::Outside {
            self.exchange(now);
        }
        self.guest.standing()
    }

    fn tick(&mut self, now: Instant) {
        self.guest.play();
        self.exchange(now);
        if self.playing_since.is_none() && self.guest.counts().snapshots > self.before.snapshots {
            self.playing_since = Some(time::Instant::now());
        }
    }

    /// Moves bytes both ways.
    fn exchange(&mut self, now: Instant) {
        self.guest.receive(now);
        self.guest.transmit(now);
    }

    /// Adds what this player saw.
    fn add_to(&self, number: usize, outcome: &mut Outcome) {
        let counts = self.guest.counts().since_start(&self.before);
        let seconds = self.playing_since.map_or(0.0, |since| since.elapsed().as_secs_f64());
        let interval = f64::from(self.guest.snapshot_interval().max(1));
        // Rounded down: the next one is not missed yet.
        let expected = (seconds * f64::from(TICK_RATE_HZ) / interval) as u64;
        let account = &mut outcome.accounts[self.account];
        account.counts += counts;
        account.snapshots_expected += expected;
        account.snapshots_missed += expected.saturating_sub(counts.snapshots);
        let name = account.protocol.name();
        match self.guest.standing() {
            Standing::Playing if counts.snapshots > 0 => {}
            Standing::Playing => outcome.failures.push(format!("bot {number} ({name}) saw nothing")),
            Standing::Over(why) => {
                outcome.failures.push(format!("bot {number} ({name}) does not play any more: {why}"));
            }
            Standing::Outside | Standing::Seated => {
                outcome.failures.push(format!("bot {number} ({name}) never played"));
            }
        }
    }
}
