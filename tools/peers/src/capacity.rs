//! How many clients fit on one processor: the same search for the floor and for tickwire.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::page;
use crate::process::{self, Place};
use crate::work::{ClientReport, Job, ServerReport, TICK};

/// Who is asked.
pub const NAMES: &[&str] = &[
    "floor",
    #[cfg(feature = "tickwire")]
    "tickwire",
    #[cfg(feature = "tickwire")]
    "tickwire-uring",
];

/// What to find out.
#[derive(Clone, Debug)]
pub struct Plan {
    pub place: Place,
    pub peers: Vec<String>,
    /// Ticks of each try.
    pub ticks: u64,
    /// How precisely, in clients.
    pub step: usize,
    /// The page that holds the table.
    pub page: Option<PathBuf>,
}

/// Ticks from snapshot to snapshot: 60 and 20 a second.
const SNAPSHOT_INTERVALS: [u64; 2] = [1, 3];

/// Where the search begins and where it ends.
const CLIENTS_FIRST: usize = 1024;
const CLIENTS_MAX: usize = 4096;

/// Of so many tries, so many may not fail: a hypervisor takes the processor away now and then.
const TRIES: usize = 3;
const FAILURES: usize = 2;

/// A server carries its clients while no more than one tick in a thousand is late, and the work of as many takes half of
/// a tick at most.
const LATE_TICKS_IN: u64 = 1000;
const WORK_NS_MAX: u64 = TICK.as_nanos() as u64 / 2;

/// Messages that must come, in percent, and how busy the clients' processor may be.
const DELIVERY_PERCENT_MIN: f64 = 99.0;
const CLIENTS_BUSY_PERCENT_MAX: f64 = 90.0;

/// Searches for everyone and prints the table.
pub fn find(plan: &Plan) -> Result<(), String> {
    if process::go_apart(&plan.place)? {
        return Ok(());
    }
    let mut text = String::from(
        "| snapshots per s | server | clients | of the floor's, % | CPU, % of a core | p99.9 of a tick's work, ms | clients' core busy, % | what ended it |\n\
         |---:|---|---:|---:|---:|---:|---:|---|\n",
    );
    for interval in SNAPSHOT_INTERVALS {
        let mut floor = None;
        for peer in &plan.peers {
            let found = search(plan, peer, interval)?;
            if peer == "floor" {
                floor = Some(found.carried.clients);
            }
            let share = floor.map_or("–".to_owned(), |floor| {
                format!("{:.0}", 100.0 * found.carried.clients as f64 / floor.max(1) as f64)
            });
            let Try { clients, server, play } = &found.carried;
            let _ = writeln!(
                text,
                "| {} | {peer} | {clients} | {share} | {:.0} | {:.2} | {:.0} | {} |",
                60 / interval,
                100.0 * server.cpu_ns as f64 / server.wall_ns.max(1) as f64,
                server.work_p999_ns as f64 / 1e6,
                play.busy_percent(),
                found.end,
            );
        }
    }
    print!("{text}");
    if let Some(path) = &plan.page {
        page::replace(path, "capacity", &format!("{}\n{text}", page::circumstances()))?;
    }
    Ok(())
}

/// The most that was carried, and what was in the way of more.
struct Found {
    carried: Try,
    end: String,
}

#[derive(Clone, Copy, Default)]
struct Try {
    clients: usize,
    server: ServerReport,
    play: ClientReport,
}

/// Doubles until it does not fit, then halves the gap.
fn search(plan: &Plan, peer: &str, interval: u64) -> Result<Found, String> {
    let mut carried = Try::default();
    let mut end = format!("the search ends at {CLIENTS_MAX}");
    let mut too_many = CLIENTS_MAX + plan.step;
    while let Some(clients) = next(carried.clients, too_many, plan.step) {
        match carries(plan, peer, interval, clients)? {
            Ok(tried) => carried = tried,
            Err(why) => (too_many, end) = (clients, why),
        }
    }
    Ok(Found { carried, end })
}

/// What to try after `carried` clients fit and `too_many` do not, if that is not precise enough.
fn next(carried: usize, too_many: usize, step: usize) -> Option<usize> {
    let gap = too_many - carried;
    let doubled = if carried == 0 { CLIENTS_FIRST } else { 2 * carried };
    let half = (gap / 2 / step * step).max(step);
    (gap > step).then(|| doubled.min(carried + half))
}

/// Whether a server carries so many, with the last try, or what is in the way.
fn carries(plan: &Plan, peer: &str, interval: u64, clients: usize) -> Result<Result<Try, String>, String> {
    let mut failures = 0;
    for number in 1..=TRIES {
        let (ticks, phase) = (plan.ticks, TICK / 2);
        let job = Job { clients, ticks, snapshot_interval: interval, phase, beside_pid: 0 };
        let (server, play) = process::run(&plan.place, peer, &job)?;
        let tried = Try { clients, server, play };
        let verdict = obstacle(&job, &tried);
        eprintln!(
            "{peer}, {} snapshots/s, {clients} clients, try {number}: {:.2} ms p99.9, {} late, {:.2} us a message, clients {:.0} % busy: {}",
            60 / interval,
            server.work_p999_ns as f64 / 1e6,
            server.late_ticks,
            server.cpu_ns as f64 / 1e3 / (server.inputs + server.snapshots + server.events).max(1) as f64,
            play.busy_percent(),
            verdict.as_deref().unwrap_or("carried"),
        );
        match verdict {
            None if number - failures > TRIES - FAILURES => return Ok(Ok(tried)),
            None => {}
            Some(why) => {
                failures += 1;
                if failures == FAILURES {
                    return Ok(Err(why));
                }
            }
        }
    }
    Err("no verdict".to_owned())
}

/// Why a server does not carry its clients, if it does not.
fn obstacle(job: &Job, tried: &Try) -> Option<String> {
    let Try { server, play, .. } = tried;
    let due = job.clients as f64 * server.ticks as f64;
    let inputs = 100.0 * server.inputs as f64 / due.max(1.0);
    let snapshots = 100.0 * play.tally.snapshots as f64 * job.snapshot_interval as f64 / due.max(1.0);
    let is_late = server.late_ticks * LATE_TICKS_IN > server.ticks;
    let is_long = server.work_p999_ns > WORK_NS_MAX;
    let is_short = inputs.min(snapshots) < DELIVERY_PERCENT_MIN;
    // Clients that are full themselves send late and lose: it is not for the server to say how many it carries.
    if (is_late || is_short) && !is_long && play.busy_percent() > CLIENTS_BUSY_PERCENT_MAX {
        return Some(format!("the clients' core, {:.0} % busy", play.busy_percent()));
    }
    if is_late {
        return Some(format!("{} of {} ticks late", server.late_ticks, server.ticks));
    }
    if is_long {
        return Some(format!("p99.9 of a tick's work, {:.1} ms", server.work_p999_ns as f64 / 1e6));
    }
    is_short.then(|| format!("delivery of {inputs:.1} % of inputs, {snapshots:.1} % of snapshots"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(late_ticks: u64, work_p999_ns: u64, inputs: u64) -> Try {
        let server =
            ServerReport { ticks: 1000, late_ticks, work_p999_ns, inputs, ..ServerReport::default() };
        let mut play = ClientReport { cpu_ns: 5, wall_ns: 10, ..ClientReport::default() };
        play.tally.snapshots = 10_000;
        Try { clients: 10, server, play }
    }

    #[test]
    fn the_search_ends_within_a_step_of_any_capacity() {
        for (capacity, step) in
            [(0, 64), (1, 64), (63, 64), (1000, 64), (1024, 128), (3333, 1), (4096, 64), (9999, 64)]
        {
            let (mut carried, mut too_many, mut tries) = (0, CLIENTS_MAX + step, 0);
            while let Some(clients) = next(carried, too_many, step) {
                assert!(clients > carried && clients < too_many && clients <= CLIENTS_MAX, "{clients}");
                if clients <= capacity {
                    carried = clients
                } else {
                    too_many = clients
                }
                tries += 1;
            }
            let known = capacity.min(CLIENTS_MAX);
            assert!(carried <= known && known - carried < step.max(2), "{capacity}: {carried}");
            assert!(tries <= 14, "{tries} tries");
        }
    }

    #[test]
    fn a_server_carries_what_is_neither_late_nor_long_nor_lost() {
        let job = Job { clients: 10, ticks: 1000, snapshot_interval: 1, phase: TICK / 2, beside_pid: 0 };
        assert_eq!(obstacle(&job, &tried(1, WORK_NS_MAX, 10_000)), None);
        assert!(obstacle(&job, &tried(2, 1, 10_000)).unwrap().contains("late"));
        assert!(obstacle(&job, &tried(0, WORK_NS_MAX + 1, 10_000)).unwrap().contains("p99.9"));
        assert!(obstacle(&job, &tried(0, 1, 9_800)).unwrap().contains("98.0 % of inputs"));
        let mut full = tried(0, 1, 9_800);
        full.play.cpu_ns = 10;
        assert!(obstacle(&job, &full).unwrap().contains("the clients' core"));
    }
}
