//! `tickwire demo`: a server on loopback, bots on a second thread that play it over real sockets, and a report.

use std::process::ExitCode;
use std::thread;

use tickwire::config::{Effective, Options};
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

/// Of the ticks, at most this share may be late.
const LATE_PERCENT_MAX: f64 = 0.1;

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
    print(format_args!("{} bots for {} s against {tcp}\n", demo.players, demo.duration_s));
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
    if let Err(error) = served {
        report(format_args!("the loop failed: {error}"));
        return ExitCode::FAILURE;
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
    let loopback = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    options.aegis_tcp = loopback;
    options.aegis_udp = loopback;
    options.rooms = demo.players.div_ceil(PLAYERS_PER_ROOM);
    if effective.is_default("log") {
        options.log = log::LevelFilter::Warn;
    }
    if effective.is_default("round_start_players") {
        options.round_start_players = options.round_start_players.min(demo.players as u8);
    }
    options
}

/// Runs the loop until the bots are done, or a signal ends the play early; then until everything is back in its pool.
fn serve(assembled: &mut Assembled, plan: &Plan) -> std::io::Result<()> {
    let Assembled { io, server, .. } = assembled;
    loop {
        let turn = io.run_turn(server)?;
        if turn.signals > 0 {
            plan.end_early();
        }
        if turn.stopped {
            return Ok(());
        }
    }
}

/// Prints the report. Success only if everything held.
fn conclude(assembled: &Assembled, outcome: &Outcome, demo: Demo, options: &Options) -> ExitCode {
    let (server, io) = (assembled.server.stats(), assembled.io.stats());
    let door = io.doors[tickwire::seam::Door::Aegis as usize];
    let seconds = outcome.seconds.max(0.001);
    let late_percent = percent(server.late_ticks, server.ticks);
    let expected = outcome.snapshots_expected(options.snapshot_interval);
    let missed_percent = 100.0 * (1.0 - outcome.snapshots as f64 / expected).max(0.0);
    let pools = assembled.server.pools();
    let is_empty = pools.sessions + pools.tokens + pools.events + pools.deadlines + pools.rooms_played == 0;
    let rate = |count: u64| count as f64 / seconds;
    let kbits = |bytes: u64| rate(bytes) * 8.0 / 1000.0 / f64::from(demo.players);
    print(format_args!(
        "
players          {players} in {rooms} rooms, {seconds:.1} s
ticks            {ticks}, {late} late ({late_percent:.3}%), {dropped} dropped, {lateness:.2} ms late at most
datagrams        {dgrams_in} in, {dgrams_out} out ({rate_in:.0} and {rate_out:.0} a second)
bytes            {bytes_in} in, {bytes_out} out ({kbits_in:.1} and {kbits_out:.1} kbit/s per player, UDP payload)
snapshots        {snapshots} applied, {deltas} of them deltas; {missed_percent:.1}% missed
events           {events} handed over, each once; {again} came again, {ignored} were ignored
compared         {compared} events in {compared_rooms} rooms: the same for everyone
rounds           {rounds} ended
round trip       {rtt_median:.1} ms median, {rtt_worst:.1} ms at most (smoothed; waits for both sides' ticks included)
drops            {drops}
kernel drops     {kernel_drops}
pools            {pools}
",
        players = demo.players,
        rooms = options.rooms,
        ticks = server.ticks,
        late = server.late_ticks,
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
        deltas = outcome.deltas,
        events = outcome.events,
        again = outcome.events_again,
        ignored = outcome.events_ignored,
        compared = outcome.compared,
        compared_rooms = outcome.compared_rooms,
        rounds = outcome.rounds,
        rtt_median = outcome.rtt_median_ms,
        rtt_worst = outcome.rtt_worst_ms,
        drops = drops(assembled.server.drops()),
        kernel_drops = door.kernel_drops,
        pools = if is_empty { "empty again" } else { "NOT EMPTY" },
    ));
    let mut failures = outcome.failures.clone();
    if late_percent > LATE_PERCENT_MAX {
        failures.push(format!("{late_percent:.3}% of the ticks were late, more than {LATE_PERCENT_MAX}%"));
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

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// "none", or counts by reason.
fn drops(counts: &DropCounts) -> String {
    if counts.total() == 0 { "none".to_owned() } else { counts.to_string() }
}
