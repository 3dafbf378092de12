//! What a process used, as the system says it.

use std::fs;
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use tickwire::heap;

use crate::sys;
use crate::work::ServerReport;

/// Where the counters stood at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    at: Instant,
    cpu_ns: u64,
    allocations: u64,
    datagrams: u64,
    wire_bytes: u64,
}

impl Mark {
    /// Now.
    pub fn now() -> Self {
        // Reading files allocates and costs time: the counters of this process come last.
        let (datagrams, wire_bytes) = (udp_datagrams(), loopback_bytes());
        Self {
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
            allocations: allocations - self.allocations,
            datagrams: udp_datagrams() - self.datagrams,
            wire_bytes: loopback_bytes() - self.wire_bytes,
            rss_kib: status_kib("VmRSS:"),
            rss_peak_kib: status_kib("VmHWM:"),
            ..ServerReport::default()
        }
    }
}

/// Processor time of this process, all threads, in user mode and in the kernel.
pub fn process_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Allocations on this thread so far, those of a C library included.
fn allocations() -> u64 {
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
