//! Runs everyone in turn, each run in two fresh processes: the server on one processor, all clients on another.

use std::io::{BufRead as _, BufReader, Lines};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::{env, fs};

use crate::table;
use crate::work::{ClientReport, Job, ServerReport};

/// What to compare.
#[derive(Clone, Debug)]
pub struct Plan {
    pub peers: Vec<String>,
    pub clients: Vec<usize>,
    pub rounds: usize,
    /// Ticks of each window.
    pub ticks: u64,
    pub server_core: u32,
    pub client_core: u32,
    /// Where to write the chart.
    pub svg: Option<PathBuf>,
    /// Whether to stay in the network namespace that there is.
    pub shares_net: bool,
}

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub round: usize,
    pub clients: usize,
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

/// Set in a process that has a network namespace of its own.
const OWN_NET: &str = "TICKWIRE_PEERS_OWN_NET";

/// Runs the plan and prints the table.
pub fn compare(plan: &Plan) -> Result<(), String> {
    if !plan.shares_net && env::var_os(OWN_NET).is_none() {
        return compare_apart();
    }
    let mut entries = Vec::new();
    for &clients in &plan.clients {
        let mut group: Vec<Entry> = plan
            .peers
            .iter()
            .map(|peer| Entry { peer: peer.clone(), clients, runs: Vec::new(), failure: None })
            .collect();
        for round in 1..=plan.rounds {
            for entry in &mut group {
                eprint!("{clients} clients, round {round} of {}, {:<15} ", plan.rounds, entry.peer);
                match run(plan, &entry.peer, clients, round) {
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
    print!("{}", table::markdown(&entries, plan));
    if let Some(path) = &plan.svg {
        fs::write(path, table::svg(&entries)).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if entries.iter().all(|entry| entry.runs.is_empty()) {
        return Err("no run came to its end".to_owned());
    }
    Ok(())
}

/// Starts over in a network namespace of its own, where the loopback device carries nothing but what is measured.
fn compare_apart() -> Result<(), String> {
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let status = Command::new("unshare")
        .args(["--net", "--", "sh", "-c", "ip link set lo up && exec \"$0\" \"$@\""])
        .arg(program)
        .args(env::args_os().skip(1))
        .env(OWN_NET, "1")
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => {
            Err("failed; if a network namespace is not to be had (that takes root), try --shared-net"
                .to_owned())
        }
        Err(error) => Err(format!("unshare: {error}; try --shared-net")),
    }
}

/// One server and its clients.
fn run(plan: &Plan, peer: &str, clients: usize, round: usize) -> Result<Run, String> {
    let job = Job { clients, ticks: plan.ticks };
    let mut server = Process::start("serve", peer, &job, plan.server_core, &[])?;
    let ready = server.line()?;
    let port = ready.strip_prefix("ready ").ok_or_else(|| format!("the server said {ready:?}"))?.to_owned();
    let mut play = Process::start("play", peer, &job, plan.client_core, &["--port", &port])?;
    let told = server.line();
    // Closing its input tells the clients that it is over.
    drop(play.child.stdin.take());
    let server = told.and_then(|line| ServerReport::from_line(&line).ok_or(line))?;
    let play = play.line().and_then(|line| ClientReport::from_line(&line).ok_or(line))?;
    Ok(Run { round, clients, server, play })
}

/// A child that is gone when this is.
struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(role: &str, peer: &str, job: &Job, core: u32, more: &[&str]) -> Result<Self, String> {
        let program = env::current_exe().map_err(|error| error.to_string())?;
        let mut child = Command::new(program)
            .args([role, peer, "--clients", &job.clients.to_string(), "--ticks", &job.ticks.to_string()])
            .args(["--core", &core.to_string()])
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start: {error}"))?;
        let stdout = child.stdout.take().ok_or("no output to read")?;
        Ok(Self { child, lines: BufReader::new(stdout).lines() })
    }

    /// Its next line.
    fn line(&mut self) -> Result<String, String> {
        match self.lines.next() {
            Some(line) => line.map_err(|error| error.to_string()),
            None => Err("it ended without a report".to_owned()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
