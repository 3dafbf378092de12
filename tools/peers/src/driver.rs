//! Runs everyone in turn, each run in fresh processes, beside a yardstick that never stops.

use std::fs;
use std::path::PathBuf;

use crate::process::{self, Place, Yardstick};
use crate::work::{ClientReport, Job, ServerReport, TICK};
use crate::{page, table};

/// What to compare.
#[derive(Clone, Debug)]
pub struct Plan {
    pub place: Place,
    pub peers: Vec<String>,
    pub clients: Vec<usize>,
    pub rounds: usize,
    /// Ticks of each window.
    pub ticks: u64,
    /// Where to write the chart.
    pub svg: Option<PathBuf>,
    /// The page that holds the table.
    pub page: Option<PathBuf>,
}

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub round: usize,
    pub job: Job,
    pub server: ServerReport,
    pub play: ClientReport,
}

/// All runs of one peer with one number of clients.
#[derive(Clone, Debug)]
pub struct Entry {
    pub peer: String,
    pub clients: usize,
    pub runs: Vec<Run>,
    /// What the first run that failed said.
    pub failure: Option<String>,
}

/// Runs the plan and prints the table.
pub fn compare(plan: &Plan) -> Result<(), String> {
    if process::go_apart(&plan.place)? {
        return Ok(());
    }
    let mut entries = Vec::new();
    for &clients in &plan.clients {
        // One for all rounds: whatever is particular to its process is in every ratio, and so in none.
        let yardstick = Yardstick::start(&plan.place)?;
        let mut group: Vec<Entry> = plan
            .peers
            .iter()
            .map(|peer| Entry { peer: peer.clone(), clients, runs: Vec::new(), failure: None })
            .collect();
        for round in 1..=plan.rounds {
            for entry in &mut group {
                eprint!("{clients} clients, round {round} of {}, {:<15} ", plan.rounds, entry.peer);
                match run(plan, &entry.peer, clients, round, &yardstick) {
                    Ok(run) => {
                        eprintln!("{}", table::brief(&run));
                        entry.runs.push(run);
                    }
                    Err(error) => {
                        eprintln!("failed: {error}");
                        entry.failure.get_or_insert(error);
                    }
                }
            }
        }
        entries.extend(group);
    }
    let text = table::markdown(&entries, plan);
    print!("{text}");
    if let Some(path) = &plan.svg {
        fs::write(path, table::svg(&entries)).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if let Some(path) = &plan.page {
        let chart = plan.svg.as_ref().and_then(|svg| svg.file_name()).map_or(String::new(), |name| {
            format!("\n![Processor time per message, of the floor's]({})\n", name.to_string_lossy())
        });
        page::replace(path, "peers", &format!("{}\n{text}{chart}", page::circumstances()))?;
    }
    if entries.iter().all(|entry| entry.runs.is_empty()) {
        return Err("no run came to its end".to_owned());
    }
    Ok(())
}

fn run(plan: &Plan, peer: &str, clients: usize, round: usize, yardstick: &Yardstick) -> Result<Run, String> {
    // Half a tick away from the yardstick.
    let phase = TICK / 2;
    let job = Job { clients, ticks: plan.ticks, snapshot_interval: 1, phase, beside_pid: yardstick.pid() };
    let (server, play) = process::run(&plan.place, peer, &job)?;
    Ok(Run { round, job, server, play })
}
