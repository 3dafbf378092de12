//! `tickwire-swarm`: puts players on a server and tells how it went.

use std::io::Write as _;
use std::process::ExitCode;

use tickwire_swarm::capacity::{Search, judge};
use tickwire_swarm::report::Report;
use tickwire_swarm::server::{Exit, Spawn, Usage, pin};
use tickwire_swarm::swarm::{self, News, Options, Stage};

use crate::cli::{Capacity, Invocation, Target};

mod cli;

fn main() -> ExitCode {
    let invocation = cli::parse();
    match run(&invocation) {
        Ok(true) => ExitCode::SUCCESS,
        // The report says what was not in order.
        Ok(false) => ExitCode::FAILURE,
        Err(what) => {
            eprintln!("error: {what}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether everything was as it should be.
fn run(invocation: &Invocation) -> Result<bool, String> {
    if let Some(core) = invocation.core {
        pin(None, core).map_err(|error| format!("--core {core}: {error}"))?;
    }
    match (&invocation.capacity, &invocation.target) {
        (Some(capacity), Target::Spawn(spawn)) => find_capacity(invocation, capacity, spawn),
        (None, target) => {
            let (report, _) = measure(invocation, target, invocation.swarm.players)?;
            show(invocation, &report);
            Ok(report.is_clean())
        }
        (Some(_), Target::Running { .. }) => Err("--find-capacity needs --spawn".to_owned()),
    }
}

fn show(invocation: &Invocation, report: &Report) {
    let text = if invocation.json { report.to_json() + "\n" } else { report.to_string() };
    // A reader who went away is no reason to fail.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

/// A fresh server for every number of players: none begins with what another left.
fn find_capacity(invocation: &Invocation, capacity: &Capacity, spawn: &Spawn) -> Result<bool, String> {
    let mut search = Search::new(capacity.first, capacity.most, capacity.step);
    let mut best = None;
    let target = Target::Spawn(spawn.clone());
    while let Some(players) = search.next() {
        let mut carried = None;
        for _ in 0..capacity.tries {
            carried = try_capacity(invocation, &target, players)?;
            if carried.is_some() {
                break;
            }
        }
        search.tell(players, carried.is_some());
        best = carried.or(best);
    }
    if let Some(report) = &best {
        show(invocation, report);
    }
    eprintln!("capacity: {} players", search.carried());
    Ok(best.is_some())
}

/// One run of the search. Gives its report when the server carried so many.
fn try_capacity(invocation: &Invocation, target: &Target, players: usize) -> Result<Option<Report>, String> {
    let (report, exit) = measure(invocation, target, players)?;
    let exit = exit.ok_or("the server did not say how it went")?;
    let limit = judge(&report, &exit);
    let verdict = limit.map_or("carried", |limit| limit.describe());
    eprintln!("{players} players: {verdict} ({exit}; {} faults)", report.total.faults.total());
    Ok(limit.is_none().then_some(report))
}

/// One run with so many players. Gives what the server said at its end too, if the swarm had started it.
fn measure(
    invocation: &Invocation,
    target: &Target,
    players: usize,
) -> Result<(Report, Option<Exit>), String> {
    let (spawned, servers, pid) = match target {
        Target::Spawn(spawn) => {
            let spawned = spawn.start(players, invocation.swarm.protocols)?;
            let (servers, pid) = (spawned.servers(), spawned.pid());
            (Some(spawned), servers, Some(pid))
        }
        Target::Running { servers, pid } => (None, *servers, *pid),
    };
    let options = Options { servers, players, ..invocation.swarm.clone() };
    let mut usages = Vec::with_capacity(2);
    let mut listener = |news: News| match news {
        News::Stage(Stage::Measuring | Stage::Draining) => usages.extend(pid.map(Usage::of)),
        News::Second { .. } if !invocation.quiet => progress(&news, players),
        News::Stage(_) | News::Second { .. } => {}
    };
    let outcome =
        swarm::run(&options, &mut listener).map_err(|error| format!("the swarm failed: {error}"))?;
    let usage = match usages.into_iter().collect::<std::io::Result<Vec<_>>>() {
        Ok(usages) => usages.first().zip(usages.get(1)).map(|(first, last)| last.since(first)),
        Err(error) => {
            eprintln!("warning: no figures of the server: {error}");
            None
        }
    };
    let exit = spawned.map(|spawned| spawned.stop()).transpose()?;
    Ok((Report::new(&outcome, usage.as_ref(), exit), exit))
}

fn progress(news: &News, players: usize) {
    let News::Second { stage, playing, counters, faults } = news else { return };
    let stage = match stage {
        Stage::Joining => "joining",
        Stage::WarmingUp => "warming up",
        Stage::Measuring => "measuring",
        Stage::Draining | Stage::Leaving => "leaving",
    };
    eprintln!(
        "{stage:<10} {playing}/{players} playing, {} datagrams sent, {} received, {faults} faults",
        counters.datagrams_out, counters.datagrams_in
    );
}
