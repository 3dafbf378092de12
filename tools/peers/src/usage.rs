//! What a process used, as the system says it.

use std::fs;
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use tickwire::heap;

use crate::sys;
use crate::work::{Job, ServerReport};

/// Where the counters stood at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    at: Instant,
    cpu_ns: u64,
    allocations: u64,
    datagrams: u64,
    wire_bytes: u64,
    beside_pid: u32,
    beside_ns: u64,
}

impl Mark {
    /// Now. The server beside is asked for as well.
    pub fn now(job: &Job) -> Self {
        // Reading files allocates and costs time: the counters of this process come last.
        let (datagrams, wire_bytes) = (udp_datagrams(), loopback_bytes());
        let beside_ns = cpu_ns_of(job.beside_pid);
        Self {
            beside_pid: job.beside_pid,
            beside_ns,
            at: Instant::now(),
            cpu_ns: process_cpu_ns(),
            allocations: allocations(),
            datagrams,
            wire_bytes,
        }
    }

    /// What was used since: everything of a report but the messages.
    pub fn report(&self) -> ServerReport {
        // The other way round: the counters of this process first.
        let (cpu_ns, allocations) = (process_cpu_ns(), allocations());
        ServerReport {
            cpu_ns: cpu_ns - self.cpu_ns,
            wall_ns: self.at.elapsed().as_nanos() as u64,
            beside_ns: cpu_ns_of(self.beside_pid).saturating_sub(self.beside_ns),
            allocations: allocations - self.allocations,
            datagrams: udp_datagrams() - self.datagrams,
            wire_bytes: loopback_bytes() - self.wire_bytes,
            rss_kib: status_kib("VmRSS:"),
            rss_peak_kib: status_kib("VmHWM:"),
            ..ServerReport::default()
        }
    }
}

/// Processor time of the first thread of process `pid`, which shares this one's processor and so is not running now.
fn cpu_ns_of(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    text.split(' ').next().and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// What each tick of the window took.
#[derive(Debug)]
pub struct Works {
    cpu_ns: Vec<u64>,
    last_ns: u64,
}

/// Ticks that are remembered: a quarter of an hour of them.
const WORKS_MAX: u64 = 1 << 16;

impl Works {
    pub fn new(job: &Job) -> Self {
        Self { cpu_ns: Vec::with_capacity(job.ticks.min(WORKS_MAX) as usize), last_ns: 0 }
    }

    /// A tick is done, of the window or not.
    pub fn note(&mut self, is_of_window: bool) {
        let now_ns = cpu_ns(ClockId::ThreadCPUTime);
        if is_of_window && self.cpu_ns.len() < self.cpu_ns.capacity() {
            self.cpu_ns.push(now_ns - self.last_ns);
        }
        self.last_ns = now_ns;
    }

    /// What one of a thousand ticks exceeds; of fewer, the longest.
    pub fn p999_ns(&mut self) -> u64 {
        self.cpu_ns.sort_unstable();
        let above = self.cpu_ns.len() / 1000;
        self.cpu_ns.iter().rev().nth(above).copied().unwrap_or(0)
    }
}

/// Processor time of this process, all threads, in user mode and in the kernel.
pub fn process_cpu_ns() -> u64 {
    cpu_ns(ClockId::ProcessCPUTime)
}

fn cpu_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Allocations on this thread so far, those of a C library included.
pub fn allocations() -> u64 {
    heap::thread_allocations() + sys::foreign_allocations()
}

/// Datagrams that any socket of this network namespace received.
fn udp_datagrams() -> u64 {
    let text = fs::read_to_string("/proc/self/net/snmp").unwrap_or_default();
    let values = text.lines().filter(|line| line.starts_with("Udp:")).nth(1);
    values.and_then(|line| line.split(' ').nth(1)?.parse().ok()).unwrap_or(0)
}

/// Bytes over this network namespace's loopback device, link headers included.
fn loopback_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    let values = text.lines().find_map(|line| line.trim_start().strip_prefix("lo:"));
    values.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn status_kib(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    value.and_then(|value| value.trim().split(' ').next()?.parse().ok()).unwrap_or(0)
}
