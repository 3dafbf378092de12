//! The server under load: what a process used, and one of the swarm's own.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::json;
use crate::player::{Protocol, Servers};

/// What a process has used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Processor time of all its threads, in nanoseconds.
    pub cpu_ns: u64,
    /// Resident memory, in bytes.
    pub resident_bytes: u64,
    /// The most that it ever was.
    pub resident_bytes_max: u64,
}

impl Usage {
    /// What process `pid` has used so far.
    ///
    /// # Errors
    /// When there is no such process, or the system does not tell (`CONFIG_SCHED_INFO`).
    pub fn of(pid: u32) -> io::Result<Self> {
        let directory = PathBuf::from(format!("/proc/{pid}"));
        let status = fs::read_to_string(directory.join("status"))?;
        let mut cpu_ns = 0;
        for thread in fs::read_dir(directory.join("task"))? {
            cpu_ns +=
                cpu_ns_of(&fs::read_to_string(thread?.path().join("schedstat"))?).ok_or_else(unreadable)?;
        }
        let kilobytes = |name| kilobytes_of(&status, name).ok_or_else(unreadable);
        Ok(Self {
            cpu_ns,
            resident_bytes: kilobytes("VmRSS:")? * 1024,
            resident_bytes_max: kilobytes("VmHWM:")? * 1024,
        })
    }

    /// The processor time since `before`, and the memory as it is.
    pub fn since(&self, before: &Self) -> Self {
        // The time of a thread that ended is gone from the sum.
        Self { cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns), ..*self }
    }
}

fn unreadable() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "/proc is not as expected")
}

/// The first number of `schedstat`: nanoseconds on a processor.
fn cpu_ns_of(schedstat: &str) -> Option<u64> {
    schedstat.split_ascii_whitespace().next()?.parse().ok()
}

/// The number in a line of `status`.
fn kilobytes_of(status: &str, name: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix(name))?.split_ascii_whitespace().next()?.parse().ok()
}

/// What a server says at its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exit {
    /// Ticks run.
    pub ticks: u64,
    /// Of these, begun a tick or more after they were due.
    pub late: u64,
    /// Ticks never run.
    pub dropped: u64,
    /// 99.9th percentile of a tick's work, in microseconds.
    pub work_p999_us: u64,
}

impl Exit {
    /// The last `ticks N late N dropped N work_p999_us N` of a log.
    pub fn parse(log: &str) -> Option<Self> {
        log.lines().rev().find_map(|line| {
            let mut words = line[line.find("ticks ")?..].split_ascii_whitespace();
            let mut number = |name| {
                words.next().filter(|&word| word == name)?;
                words.next()?.parse().ok()
            };
            Some(Self {
                ticks: number("ticks")?,
                late: number("late")?,
                dropped: number("dropped")?,
                work_p999_us: number("work_p999_us")?,
            })
        })
    }

    /// The members of its JSON object.
    pub fn to_json(&self, it: &mut json::Object<'_>) {
        it.integer("ticks", self.ticks);
        it.integer("late", self.late);
        it.integer("dropped", self.dropped);
        it.integer("work_p999_us", self.work_p999_us);
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ticks, late, dropped, work_p999_us } = self;
        write!(f, "{ticks} ticks, {late} late, {dropped} dropped, p99.9 of a tick's work {work_p999_us} µs")
    }
}

/// How to start a server.
#[derive(Clone, Debug)]
pub struct Spawn {
    /// The program.
    pub program: PathBuf,
    /// Its flags. Those about addresses and rooms are added unless they are among these.
    pub flags: Vec<String>,
    /// The core to keep it on.
    pub core: Option<usize>,
}

/// A server of the swarm's own. It is stopped when dropped.
#[derive(Debug)]
pub struct Spawned {
    child: Child,
    servers: Servers,
    log: PathBuf,
}

/// Goodbyes take at most as long as a stream may linger, which is 2 s.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// Players of a room.
const PLAYERS_PER_ROOM: usize = tickwire::model::PLAYERS_MAX;

impl Spawn {
    /// Starts a server with rooms for `players` of `protocols` on free ports, and waits until it is ready.
    ///
    /// # Errors
    /// When it cannot be started, or ends before it is ready; its log is then in the text.
    pub fn start(&self, players: usize, protocols: &[Protocol]) -> Result<Spawned, String> {
        // A file, not a pipe: nobody has to read along, and a server must not be stopped by its log.
        let log = std::env::temp_dir().join(format!("tickwire-swarm-{}.log", std::process::id()));
        let failed = |error: io::Error| format!("cannot start {}: {error}", self.program.display());
        let file = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        let child = Command::new(&self.program)
            .args(self.arguments(players, protocols))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(file)
            .spawn()
            .map_err(failed)?;
        let mut spawned = Spawned { child, servers: Servers::NONE, log };
        if let Some(core) = self.core {
            pin(Pid::from_child(&spawned.child).into(), core).map_err(failed)?;
        }
        spawned.await_ready(protocols)?;
        Ok(spawned)
    }

    fn arguments(&self, players: usize, protocols: &[Protocol]) -> Vec<String> {
        let rooms = players.div_ceil(PLAYERS_PER_ROOM).to_string();
        // The doors of Aegis cannot be shut.
        let doors = protocols.iter().filter(|protocol| **protocol != Protocol::Aegis);
        let doors = doors.map(|protocol| format!("--{}", protocol.listener()));
        let local = "127.0.0.1:0".to_owned();
        let own = ["--aegis-tcp", "--aegis-udp"].map(str::to_owned).into_iter().chain(doors);
        let own = own
            .map(|door| (door, local.clone()))
            .chain([("--rooms".to_owned(), rooms), ("--log".to_owned(), "info".to_owned())]);
        let is_given = |name: &str| {
            self.flags.iter().any(|flag| {
                flag.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
            })
        };
        let own = own.filter(|(name, _)| !is_given(name));
        own.flat_map(|(name, value)| [name, value]).chain(self.flags.iter().cloned()).collect()
    }
}

impl Spawned {
    /// Where players go first.
    pub fn servers(&self) -> Servers {
        self.servers
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Stops it, and gives what it said at its end.
    ///
    /// # Errors
    /// When it ended badly, or did not say how it went.
    pub fn stop(mut self) -> Result<Exit, String> {
        let status = self.end().map_err(|error| error.to_string())?;
        let log = read_log(&self.log);
        if !status.success() {
            return Err(format!("the server ended with {status}:\n{log}"));
        }
        Exit::parse(&log).ok_or_else(|| format!("the server did not say how it went:\n{log}"))
    }

    fn await_ready(&mut self, protocols: &[Protocol]) -> Result<(), String> {
        let stdout = self.child.stdout.take().ok_or("the server has no output")?;
        let mut is_ready = false;
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if let Some((name, address)) = line.strip_prefix("listening ").and_then(|of| of.split_once(' ')) {
                self.note_listener(name, address)?;
            }
            if line == "ready" {
                is_ready = true;
                break;
            }
        }
        let has_door = |&protocol: &Protocol| self.servers.of(protocol).is_some();
        match protocols.iter().find(|protocol| !has_door(protocol)) {
            _ if !is_ready => Err(format!("the server did not get ready:\n{}", read_log(&self.log))),
            Some(protocol) => Err(format!("the server does not listen on {}", protocol.listener())),
            None => Ok(()),
        }
    }

    /// Remembers where the players of a protocol go, if it is theirs.
    fn note_listener(&mut self, name: &str, address: &str) -> Result<(), String> {
        let Some(&protocol) = Protocol::ALL.iter().find(|protocol| protocol.listener() == name) else {
            return Ok(());
        };
        let mut address: SocketAddr = address.parse().map_err(|_| format!("not an address: {address}"))?;
        if address.ip().is_unspecified() {
            address.set_ip([127, 0, 0, 1].into());
        }
        self.servers = self.servers.with(protocol, address);
        Ok(())
    }

    /// Asks it to stop, and does not ask for ever.
    fn end(&mut self) -> io::Result<ExitStatus> {
        // One that was waited for has no process any more, and its number may be another's.
        if let Some(status) = self.child.try_wait()? {
            return Ok(status);
        }
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let asked = Instant::now();
        while asked.elapsed() < STOP_PATIENCE {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            thread::sleep(Duration::from_millis(10));
        }
        self.child.kill()?;
        self.child.wait()
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        // Nobody is left to be told.
        let _ = self.end();
        let _ = fs::remove_file(&self.log);
    }
}

fn read_log(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Keeps a process, or this thread, on a core.
///
/// # Errors
/// When there is no such core.
pub fn pin(pid: Option<Pid>, core: usize) -> io::Result<()> {
    if core >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(core);
    Ok(sched_setaffinity(pid, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_found_in_a_log() {
        let log = "2026-12-01T00:00:00.000Z INFO  stopped after 9 ticks (0 late)\n\
                   2026-12-01T00:00:00.000Z INFO  ticks 9 late 1 dropped 2 work_p999_us 415\n";
        let exit = Exit { ticks: 9, late: 1, dropped: 2, work_p999_us: 415 };
        assert_eq!(Exit::parse(log), Some(exit));
        assert_eq!(Exit::parse("ticks 9 late x"), None);
        assert_eq!(Exit::parse(""), None);
    }

    #[test]
    fn numbers_of_proc() {
        assert_eq!(cpu_ns_of("496391 42003 1\n"), Some(496_391));
        assert_eq!(kilobytes_of("Name:\tx\nVmHWM:\t    2140 kB\nVmRSS:\t  2000 kB\n", "VmRSS:"), Some(2000));
        assert_eq!(kilobytes_of("", "VmRSS:"), None);
        let own = Usage::of(std::process::id()).expect("this process");
        assert!(own.cpu_ns > 0 && own.resident_bytes_max >= own.resident_bytes && own.resident_bytes > 0);
        let later = Usage { cpu_ns: own.cpu_ns + 5, ..own };
        assert_eq!(later.since(&own).cpu_ns, 5);
    }

    #[test]
    fn flags_that_are_given_are_not_added() {
        let flags = ["--rooms=9", "--aegis-tcp", "[::1]:0"].map(str::to_owned).to_vec();
        let spawn = Spawn { program: PathBuf::new(), flags: flags.clone(), core: None };
        let added = ["--aegis-udp", "127.0.0.1:0", "--log", "info"].map(str::to_owned).to_vec();
        assert_eq!(spawn.arguments(5, &[Protocol::Aegis]), [added, flags].concat());
        let none = Spawn { program: PathBuf::new(), flags: Vec::new(), core: None };
        assert_eq!(none.arguments(5, &[Protocol::Aegis])[4..6], ["--rooms", "2"]);
        assert_eq!(none.arguments(5, Protocol::ALL)[4..8], ["--rtype-udp", "127.0.0.1:0", "--rooms", "2"]);
    }

    #[test]
    fn a_server_that_does_not_start_is_told_of() {
        let spawn = Spawn { program: "/nonexistent".into(), flags: Vec::new(), core: None };
        assert!(
            spawn
                .start(1, &[Protocol::Aegis])
                .expect_err("no such program")
                .contains("cannot start /nonexistent")
        );
        let spawn = Spawn { program: "/bin/false".into(), ..spawn };
        assert!(
            spawn.start(1, &[Protocol::Aegis]).expect_err("it ends at once").contains("did not get ready")
        );
    }
}
