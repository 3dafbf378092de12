//! The processes of a run: a server on one processor, all its clients on another.

use std::env;
use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::goodput::{Flow, ReceiverReport, Run, SenderReport};
use crate::work::{ClientReport, Job, ServerReport, TICK};

/// Where a run takes place.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub server_core: u32,
    pub client_core: u32,
    /// Whether to go before all ordinary processes.
    pub goes_first: bool,
    /// Whether to stay in the network namespace that there is.
    pub shares_net: bool,
}

/// Set in a process that has a network namespace of its own.
const OWN_NET: &str = "TICKWIRE_PEERS_OWN_NET";

/// What a shell does in a new network namespace before it becomes the program.
const UP: &str = "ip link set lo up && exec \"$0\" \"$@\"";

/// Starts this program over in a network namespace of its own, where the loopback device carries nothing but what is
/// measured. Returns whether that was done: then there is nothing left to do.
pub fn go_apart(place: &Place) -> Result<bool, String> {
    if place.shares_net || env::var_os(OWN_NET).is_some() {
        return Ok(false);
    }
    let status = Command::new("unshare")
        .args(["--net", "--", "sh", "-c", UP])
        .arg(program()?)
        .args(env::args_os().skip(1))
        .env(OWN_NET, "1")
        .status();
    match status {
        Ok(status) if status.success() => Ok(true),
        Ok(_) => {
            Err("failed; if a network namespace is not to be had (that takes root), try --shared-net"
                .to_owned())
        }
        Err(error) => Err(format!("unshare: {error}; try --shared-net")),
    }
}

/// One server and its clients, from start to end.
pub fn run(place: &Place, peer: &str, job: &Job) -> Result<(ServerReport, ClientReport), String> {
    let mut pair = Pair::start(place, peer, job, false)?;
    let told = pair.server.line();
    // Closing its input tells the clients that it is over.
    drop(pair.play.child.stdin.take());
    let server = told.and_then(|line| ServerReport::from_line(&line).ok_or(line))?;
    let play = pair.play.line().and_then(|line| ClientReport::from_line(&line).ok_or(line))?;
    Ok((server, play))
}

/// One sender and its receiver, from start to end.
pub fn run_flow(place: &Place, peer: &str, flow: &Flow) -> Result<Run, String> {
    let window_ms = flow.window.as_millis().to_string();
    let start = |role: &[&str], core: u32| {
        let mut command = Command::new(program()?);
        command.args(role).args([peer, "--window-ms", &window_ms, "--core", &core.to_string()]);
        if place.goes_first {
            command.arg("--go-first");
        }
        Process::spawn(&mut command)
    };
    let mut sender = start(&["send"], place.server_core)?;
    let port = sender.port()?;
    let mut receiver = start(&["receive", "--port", &port], place.client_core)?;
    let said = receiver.line()?;
    let receiver = ReceiverReport::from_line(&said).ok_or(said)?;
    let said = sender.line()?;
    let sender = SenderReport::from_line(&said).ok_or(said)?;
    Ok(Run { sender, receiver })
}

/// A floor program of always the same size that works beside everyone who is measured: what the machine does at the
/// time, it does to both.
pub struct Yardstick {
    pair: Pair,
}

/// Clients of the yardstick.
const YARDSTICK_CLIENTS: usize = 128;

impl Yardstick {
    pub fn start(place: &Place) -> Result<Self, String> {
        let ticks = u64::from(u32::MAX);
        let clients = YARDSTICK_CLIENTS;
        let job = Job { clients, ticks, snapshot_interval: 1, phase: Duration::ZERO, beside_pid: 0 };
        Pair::start(place, "floor", &job, !place.shares_net).map(|pair| Self { pair })
    }

    pub fn pid(&self) -> u32 {
        self.pair.server.child.id()
    }
}

/// A server and its clients. The server's tick begins at the job's phase, the clients' a quarter later.
struct Pair {
    server: Process,
    play: Process,
}

impl Pair {
    /// Starts both, `apart` in a network namespace of their own.
    fn start(place: &Place, peer: &str, job: &Job, apart: bool) -> Result<Self, String> {
        let mut command = match apart {
            true => {
                let mut command = Command::new("unshare");
                command.args(["--net", "--", "sh", "-c", UP]).arg(program()?);
                command
            }
            false => Command::new(program()?),
        };
        let mut server = Process::start(&mut command, place, &["serve"], peer, job)?;
        let port = server.port()?;
        let mut command = match apart {
            true => {
                let mut command = Command::new("nsenter");
                command.arg(format!("--net=/proc/{}/ns/net", server.child.id())).arg("--").arg(program()?);
                command
            }
            false => Command::new(program()?),
        };
        let job = Job { phase: job.phase + TICK / 4, ..*job };
        let play = Process::start(&mut command, place, &["play", "--port", &port], peer, &job)?;
        Ok(Self { server, play })
    }
}

fn program() -> Result<std::path::PathBuf, String> {
    env::current_exe().map_err(|error| error.to_string())
}

/// A child that is gone when this is.
struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(
        command: &mut Command,
        place: &Place,
        role: &[&str],
        peer: &str,
        job: &Job,
    ) -> Result<Self, String> {
        let core = if role[0] == "serve" { place.server_core } else { place.client_core };
        command
            .args(role)
            .args([peer, "--clients", &job.clients.to_string(), "--ticks", &job.ticks.to_string()])
            .args(["--snapshot-interval", &job.snapshot_interval.to_string()])
            .args(["--phase-us", &job.phase.as_micros().to_string()])
            .args(["--beside", &job.beside_pid.to_string(), "--core", &core.to_string()]);
        if place.goes_first {
            command.arg("--go-first");
        }
        Self::spawn(command)
    }

    fn spawn(command: &mut Command) -> Result<Self, String> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start: {error}"))?;
        let stdout = child.stdout.take().ok_or("no output to read")?;
        Ok(Self { child, lines: BufReader::new(stdout).lines() })
    }

    /// The port that it says its peers may come to.
    fn port(&mut self) -> Result<String, String> {
        let ready = self.line()?;
        let port = ready.strip_prefix("ready ").map(str::to_owned);
        port.ok_or_else(|| format!("the server said {ready:?}"))
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
