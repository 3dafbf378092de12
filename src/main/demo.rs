//! `tickwire demo`: a server on loopback, bots on a second thread that play it over real sockets, and a report.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::thread;

use tickwire::config::{Effective, Options, Origin};
use tickwire::io::{AEGIS_TCP, DoorStats, door_name};
use tickwire::seam::Door;
use tickwire::server::Pools;
use tickwire::session::drops::DropCounts;
use tickwire::{heap, io, logger};

use crate::assemble::{Assembled, address_of, assemble, fignet_settings};
use crate::bots::{self, Account, Addresses, Outcome, Plan, Protocol};
use crate::cli::Demo;
use crate::{print, report};

/// Players in a room.
const PLAYERS_PER_ROOM: u32 = tickwire::model::PLAYERS_MAX as u32;

/// Of the snapshots that should have come, at most this share may be missing.
const MISSED_PERCENT_MAX: f64 = 5.0;

/// Nothing is divided by less.
const SECONDS_MIN: f64 = 0.001;

/// Plays `demo` with a server of its own, as far as `effective` applies: the game and the process, not the addresses.
pub fn run(effective: &Effective, demo: Demo) -> ExitCode {
    let options = options(effective, demo);
    if let Err(error) = logger::init(options.log).map_err(|error| error.to_string()).and_then(|()| {
        // Before the bots' thread starts, so that it never sees one.
        io::block_signals().map_err(|error| error.to_string())
    }) {
        report(error);
        return ExitCode::FAILURE;
    }
    let mut assembled = match assemble(&options) {
        Ok(assembled) => assembled,
        Err(what) => {
            report(what);
            return ExitCode::FAILURE;
        }
    };
    let Some(tcp) = address_of(&assembled.io, AEGIS_TCP) else {
        report("the server has no address");
        return ExitCode::FAILURE;
    };
    let mut doors = [None; Door::COUNT];
    for protocol in Protocol::ALL {
        doors[protocol.door() as usize] = address_of(&assembled.io, door_name(protocol.door()));
    }
    let addresses = Addresses { tcp, doors };
    let fignet = match fignet_settings(&options) {
        Ok(settings) => settings.config,
        Err(what) => {
            report(what);
            return ExitCode::FAILURE;
        }
    };
    let plan = Plan {
        addresses,
        players: demo.players as usize,
        protocols: demo.protocols,
        seconds: demo.duration_s.into(),
        entities_max: assembled.entities,
        snapshot_interval: options.snapshot_interval.into(),
        fignet,
        stop: assembled.io.stop_handle(),
        ends_early: std::sync::Arc::default(),
    };
    print(format_args!(
        "{} for {} s against {}\n",
        counted(demo.players.into(), "bot"),
        demo.duration_s,
        fronts(&plan)
    ));
    let players = thread::Builder::new().name("bots".to_owned()).spawn({
        let plan = plan.clone();
        move || bots::play(&plan)
    });
    let players = match players {
        Ok(players) => players,
        Err(error) => {
            report(format_args!("cannot start the bots: {error}"));
            return ExitCode::FAILURE;
        }
    };
    if options.verify {
        heap::install_panic_hook();
        heap::seal(heap::OnAlloc::Abort);
    }
    let served = serve(&mut assembled, &plan);
    heap::unseal();
    match served {
        Ok(true) => {}
        Ok(false) => {
            report("stopped by a second signal, without a report");
            return ExitCode::FAILURE;
        }
        Err(error) => {
            report(format_args!("the loop failed: {error}"));
            return ExitCode::FAILURE;
        }
    }
    match players.join() {
        Ok(Ok(outcome)) => conclude(&assembled, &outcome, demo, &options),
        Ok(Err(what)) => {
            report(what);
            ExitCode::FAILURE
        }
        Err(_) => {
            report("the bots' thread failed");
            ExitCode::FAILURE
        }
    }
}

/// What the operator asked for, on loopback, with a room for every four bots.
fn options(effective: &Effective, demo: Demo) -> Options {
    let mut options = effective.options.clone();
    // Who asks for the default by name gets it.
    let is_unset = |name| effective.get(name).origin == Origin::Default;
    let loopback = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    options.aegis_tcp = loopback;
    options.aegis_udp = loopback;
    options.rtype_udp = demo.protocols.contains(&Protocol::Rtype).then_some(loopback);
    options.fignet_udp = demo.protocols.contains(&Protocol::Fignet).then_some(loopback);
    // All bots come from one address.
    options.fignet_connection_attempts_per_minute = 0;
    options.fignet_max_peers = options.fignet_max_peers.max(demo.players as u16);
    options.rooms = demo.players.div_ceil(PLAYERS_PER_ROOM);
    if is_unset("log") {
        options.log = log::LevelFilter::Warn;
    }
    if is_unset("round_start_players") {
        // The last room may hold fewer than the others; its round should not wait for anybody either.
        let in_last_room = (demo.players - 1) % PLAYERS_PER_ROOM + 1;
        options.round_start_players = in_last_room as u8;
    }
    options
}

/// Where the bots go, with their protocols if there are several.
fn fronts(plan: &Plan) -> String {
    let mut text = String::new();
    for (place, protocol) in plan.protocols.iter().enumerate() {
        let Some(address) = protocol.front(&plan.addresses) else { continue };
        let joint = if place == 0 { "" } else { ", " };
        // A String takes everything.
        let _ = match plan.protocols.len() {
            1 => write!(text, "{address}"),
            _ => write!(text, "{joint}{address} ({})", protocol.name()),
        };
    }
    text
}

/// Runs the loop until the bots are done, which a signal makes them early. A second signal ends it at once: then this is
/// false.
fn serve(assembled: &mut Assembled, plan: &Plan) -> std::io::Result<bool> {
    let Assembled { io, server, .. } = assembled;
    let mut signals = 0;
    loop {
        let turn = io.run_turn(server)?;
        signals += turn.signals;
        match signals {
            0 => {}
            1 => plan.end_early(),
            _ => return Ok(false),
        }
        if turn.stopped {
            return Ok(true);
        }
    }
}

/// Prints the report. Success only if everything held.
fn conclude(assembled: &Assembled, outcome: &Outcome, demo: Demo, options: &Options) -> ExitCode {
    let server = assembled.server.stats();
    let pools = assembled.server.pools();
    // Connections of FigNet that ended answer late words for a while.
    let is_empty =
        pools == Pools { rooms_open: options.rooms as usize, peers: pools.peers, ..Pools::default() };
    let of_each = |line: &dyn Fn(&Account) -> String| each(&outcome.accounts, line);
    print(format_args!(
        "
players          {players} in {rooms}, {seconds:.1} s{early}{shares}
ticks            {ticks}, {late} late ({late_percent:.1}%), {dropped} dropped, {lateness:.2} ms late at most
datagrams        {datagrams}
bytes            {bytes}
snapshots        {snapshots}
events           {events}
compared         {agreed}
known            {known}
rounds           {rounds}
round trip       {round_trip}
drops            {drops}
kernel drops     {kernel_drops}
pools empty      {pools_empty}
",
        players = demo.players,
        rooms = counted(options.rooms.into(), "room"),
        seconds = outcome.seconds,
        early = if outcome.ended_early { ", ended early" } else { "" },
        shares = shares(&outcome.accounts),
        ticks = server.ticks,
        late = server.late_ticks,
        late_percent = percent(server.late_ticks, server.ticks),
        dropped = server.dropped_ticks,
        lateness = server.lateness_max.as_micros() as f64 / 1000.0,
        datagrams = of_each(&|account| datagrams(assembled, account, outcome.seconds)),
        bytes = of_each(&|account| bytes(assembled, account, outcome.seconds)),
        snapshots = of_each(&|account| snapshots(account, outcome.seconds)),
        events = of_each(&|account| account.protocol.events(&account.counts)),
        agreed = agreed(outcome),
        known = known(outcome),
        rounds = outcome.rounds.map_or("not told of".to_owned(), |rounds| format!("{rounds} ended")),
        round_trip = of_each(&round_trip),
        drops = drops(assembled.server.drops()),
        kernel_drops = assembled.io.stats().doors.iter().map(|door| door.kernel_drops).sum::<u64>(),
        pools_empty = if is_empty { "yes" } else { "NO" },
    ));
    let mut failures = outcome.failures.clone();
    for account in &outcome.accounts {
        failures.extend(shortcomings(account));
    }
    if !is_empty {
        failures.push(format!("not everything is back in its pool: {pools:?}"));
    }
    failures.iter().for_each(report);
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What the bots of a protocol had too little of.
fn shortcomings(account: &Account) -> impl Iterator<Item = String> {
    let name = account.protocol.name();
    let lost = account.counts.lost;
    let missed_percent = percent(account.snapshots_missed, account.snapshots_expected);
    let lost = (lost > 0).then(|| format!("{lost} events were lost ({name})"));
    let missed = (missed_percent > MISSED_PERCENT_MAX)
        .then(|| format!("{missed_percent:.1}% of the snapshots were missed ({name})"));
    lost.into_iter().chain(missed)
}

/// A line for each protocol that has bots; with its name if there are several.
fn each(accounts: &[Account], line: &dyn Fn(&Account) -> String) -> String {
    let mut accounts = accounts.iter().filter(|account| account.players > 0).peekable();
    let Some(first) = accounts.next() else { return String::new() };
    if accounts.peek().is_none() {
        return line(first);
    }
    let lines = std::iter::once(first).chain(accounts);
    let lines = lines.map(|account| format!("{:<6} {}", account.protocol.name(), line(account)));
    lines.collect::<Vec<_>>().join("\n                 ")
}

/// `: 4 aegis, 4 rtype` if there are several protocols.
fn shares(accounts: &[Account]) -> String {
    let shares = accounts.iter().map(|account| format!("{} {}", account.players, account.protocol.name()));
    match accounts.len() {
        0 | 1 => String::new(),
        _ => format!(": {}", shares.collect::<Vec<_>>().join(", ")),
    }
}

/// What went through the door of a protocol.
fn door<'a>(assembled: &'a Assembled, account: &Account) -> &'a DoorStats {
    &assembled.io.stats().doors[account.protocol.door() as usize]
}

/// What the server counted, from the first word to the last; the rate is the bots', of the match alone.
fn datagrams(assembled: &Assembled, account: &Account, seconds: f64) -> String {
    let (door, counts) = (door(assembled, account), &account.counts);
    let rate = |count: u64| count as f64 / seconds.max(SECONDS_MIN);
    format!(
        "{} in, {} out ({:.0} and {:.0} a second)",
        door.datagrams_in,
        door.datagrams_out,
        rate(counts.datagrams_out),
        rate(counts.datagrams_in)
    )
}

/// The same of their bytes.
fn bytes(assembled: &Assembled, account: &Account, seconds: f64) -> String {
    let (door, counts) = (door(assembled, account), &account.counts);
    let kbits = |bytes: u64| bytes as f64 * 8.0 / 1000.0 / seconds.max(SECONDS_MIN) / account.players as f64;
    format!(
        "{} in, {} out ({:.1} and {:.1} kbit/s per player, UDP payload)",
        door.bytes_in,
        door.bytes_out,
        kbits(counts.bytes_out),
        kbits(counts.bytes_in)
    )
}

fn snapshots(account: &Account, seconds: f64) -> String {
    let count = account.counts.snapshots;
    format!(
        "{count} applied ({}{:.1} a second per player), {} missed",
        account.protocol.snapshot_kinds(&account.counts),
        count as f64 / seconds.max(SECONDS_MIN) / account.players as f64,
        account.snapshots_missed
    )
}

fn round_trip(account: &Account) -> String {
    format!(
        "{:.1} ms median, {:.1} ms at the 99th percentile (waits for both sides' ticks included)",
        account.rtt_ms(50),
        account.rtt_ms(99)
    )
}

/// What the comparison of events found the same; what it did not is told as a failure.
fn agreed(outcome: &Outcome) -> String {
    match outcome.agreed {
        0 if outcome.accounts.iter().all(|account| !account.protocol.has_events()) => {
            "no events: none are told".to_owned()
        }
        0 => "no events: the play was too short".to_owned(),
        agreed => format!("{} that everyone in the room was told of once", counted(agreed, "event")),
    }
}

/// And what that of the entities did.
fn known(outcome: &Outcome) -> String {
    let Outcome { alike, under_way, .. } = outcome;
    let what = if *alike == 1 { "entity" } else { "entities" };
    format!("{alike} {what} at the end, by everyone in the room; {under_way} more on their way")
}

/// `1 room`, `2 rooms`
fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// "none", or counts by reason.
fn drops(counts: &DropCounts) -> String {
    if counts.total() == 0 { "none".to_owned() } else { counts.to_string() }
}

#[cfg(test)]
mod tests {
    use tickwire::config::{self, Sources};

    use super::*;

    fn options_for(players: u32, flags: &[(&str, &str)]) -> Options {
        options_of(players, "aegis", flags)
    }

    fn options_of(players: u32, protocol: &str, flags: &[(&str, &str)]) -> Options {
        let flag = |key: &config::Key| {
            flags.iter().find(|(name, _)| *name == key.name).map(|(_, value)| (*value).to_owned())
        };
        let sources = Sources { file: None, variable: &|_| None, flag: &flag };
        let effective = config::load(&sources).expect("sound options");
        let protocols = Protocol::choose(protocol).expect("a protocol");
        options(&effective, Demo { players, protocols, duration_s: 1 })
    }

    /// Of every possible number of bots: all find a place, and every room has enough to start at once.
    #[test]
    fn everyone_has_a_room_and_a_round() {
        for players in 1..=256 {
            let options = options_for(players, &[]);
            assert!(
                options.rooms * PLAYERS_PER_ROOM >= players
                    && (options.rooms - 1) * PLAYERS_PER_ROOM < players
            );
            let in_last_room = players - (options.rooms - 1) * PLAYERS_PER_ROOM;
            assert!((1..=in_last_room).contains(&options.round_start_players.into()), "{players}");
        }
    }

    #[test]
    fn what_is_set_is_kept() {
        let options = options_for(4, &[("log", "info"), ("round_start_players", "3")]);
        assert_eq!((options.log, options.round_start_players), (log::LevelFilter::Info, 3));
        let options = options_for(4, &[]);
        assert_eq!((options.log, options.aegis_tcp.port()), (log::LevelFilter::Warn, 0));
    }

    /// A door that nobody needs stays shut, whatever the configuration says of it.
    #[test]
    fn doors_are_open_to_those_who_come() {
        let cases = [
            ("aegis", [false, false]),
            ("rtype", [true, false]),
            ("fignet", [false, true]),
            ("mixed", [true, true]),
        ];
        for (protocol, are_open) in cases {
            let flags = [("rtype_udp", "0.0.0.0:4242"), ("fignet_udp", "0.0.0.0:4244")];
            let options = options_of(100, protocol, &flags);
            let doors = [options.rtype_udp, options.fignet_udp];
            assert_eq!(doors.map(|door| door.is_some()), are_open, "{protocol}");
            assert!(
                doors.iter().flatten().all(|door| door.ip().is_loopback() && door.port() == 0),
                "{protocol}"
            );
            assert!(options.fignet_max_peers >= 100, "{protocol}");
        }
    }
}
