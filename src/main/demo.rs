//! `tickwire demo`: a server on loopback, bots on a second thread that play it over real sockets, and a report.

use std::process::ExitCode;
use std::thread;

use tickwire::config::{Effective, Options, Origin};
use tickwire::server::Pools;
use tickwire::session::drops::DropCounts;
use tickwire::{heap, io, logger};

use crate::assemble::{Assembled, address_of, assemble};
use crate::bots::{self, Outcome, Plan};
use crate::cli::Demo;
use crate::{print, report};

/// Players in a room.
const PLAYERS_PER_ROOM: u32 = tickwire::model::PLAYERS_MAX as u32;

/// Of the snapshots that should have come, at most this share may be missing.
const MISSED_PERCENT_MAX: f64 = 5.0;

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
    let (Some(tcp), Some(udp)) =
        (address_of(&assembled.io, "aegis-tcp"), address_of(&assembled.io, "aegis-udp"))
    else {
        report("the server has no address");
        return ExitCode::FAILURE;
    };
    print(format_args!("{} for {} s against {tcp}\n", counted(demo.players.into(), "bot"), demo.duration_s));
    let plan = Plan::new(
        tcp,
        udp,
        demo.players as usize,
        demo.duration_s.into(),
        assembled.entities,
        assembled.io.stop_handle(),
    );
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
    let (server, io) = (assembled.server.stats(), assembled.io.stats());
    let door = io.doors[tickwire::seam::Door::Aegis as usize];
    let seconds = outcome.seconds.max(0.001);
    let missed_percent = percent(outcome.snapshots_missed, outcome.snapshots_expected);
    let pools = assembled.server.pools();
    let is_empty = pools == Pools { rooms_open: options.rooms as usize, ..Pools::default() };
    let rate = |count: u64| count as f64 / seconds;
    let each = |count: u64| rate(count) / f64::from(demo.players);
    let kbits = |bytes: u64| each(bytes) * 8.0 / 1000.0;
    print(format_args!(
        "
players          {players} in {rooms}, {seconds:.1} s{early}
ticks            {ticks}, {late} late ({late_percent:.1}%), {dropped} dropped, {lateness:.2} ms late at most
datagrams        {dgrams_in} in, {dgrams_out} out ({rate_in:.0} and {rate_out:.0} a second)
bytes            {bytes_in} in, {bytes_out} out ({kbits_in:.1} and {kbits_out:.1} kbit/s per player, UDP payload)
snapshots        {snapshots} applied ({full} full, {deltas} deltas; {each:.1} a second per player), {missed} missed
events           {events} handed over, {again} came again, {lost} lost, {ignored} ignored
compared         {compared}
rounds           {rounds} ended
round trip       {rtt_50:.1} ms median, {rtt_99:.1} ms at the 99th percentile (waits for both sides' ticks included)
drops            {drops}
kernel drops     {kernel_drops}
pools empty      {pools_empty}
",
        players = demo.players,
        rooms = counted(options.rooms.into(), "room"),
        early = if outcome.ended_early { ", ended early" } else { "" },
        ticks = server.ticks,
        late = server.late_ticks,
        late_percent = percent(server.late_ticks, server.ticks),
        dropped = server.dropped_ticks,
        lateness = server.lateness_max.as_micros() as f64 / 1000.0,
        dgrams_in = door.datagrams_in,
        dgrams_out = door.datagrams_out,
        rate_in = rate(door.datagrams_in),
        rate_out = rate(door.datagrams_out),
        bytes_in = door.bytes_in,
        bytes_out = door.bytes_out,
        kbits_in = kbits(door.bytes_in),
        kbits_out = kbits(door.bytes_out),
        snapshots = outcome.snapshots,
        full = outcome.snapshots - outcome.deltas,
        deltas = outcome.deltas,
        each = each(outcome.snapshots),
        missed = outcome.snapshots_missed,
        events = outcome.events,
        again = outcome.events_again,
        lost = outcome.events_lost,
        ignored = outcome.events_ignored,
        compared = compared(outcome.agreed),
        rounds = outcome.rounds,
        rtt_50 = outcome.rtt_ms(50),
        rtt_99 = outcome.rtt_ms(99),
        drops = drops(assembled.server.drops()),
        kernel_drops = door.kernel_drops,
        pools_empty = if is_empty { "yes" } else { "NO" },
    ));
    let mut failures = outcome.failures.clone();
    if outcome.events_lost > 0 {
        failures.push(format!("{} events were lost", outcome.events_lost));
    }
    if missed_percent > MISSED_PERCENT_MAX {
        failures.push(format!("{missed_percent:.1}% of the snapshots were missed"));
    }
    if !is_empty {
        failures.push(format!("not everything is back in its pool: {pools:?}"));
    }
    failures.iter().for_each(report);
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What the comparison found the same; what it did not is told as a failure.
fn compared(agreed: u64) -> String {
    match agreed {
        0 => "no events: the play was too short".to_owned(),
        _ => format!("{} that everyone in the room was told of once", counted(agreed, "event")),
    }
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
        let flag = |key: &config::Key| {
            flags.iter().find(|(name, _)| *name == key.name).map(|(_, value)| (*value).to_owned())
        };
        let sources = Sources { file: None, variable: &|_| None, flag: &flag };
        let effective = config::load(&sources).expect("sound options");
        options(&effective, Demo { players, duration_s: 1 })
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
}
