//! The work, the same for everyone: what is sent, how often, and how it is counted.

use std::time::Duration;

/// One tick at 60 Hz.
pub const TICK: Duration = Duration::from_nanos(16_666_667);

/// Bytes of the snapshot that every client is sent in every tick, unreliably.
pub const SNAPSHOT_BYTES: usize = 160;

/// Bytes of the event that every client is sent every [`EVENT_INTERVAL`] ticks, reliably.
pub const EVENT_BYTES: usize = 27;

/// Ticks from one event to the next.
pub const EVENT_INTERVAL: u64 = 12;

/// Ticks of play before the window that is measured, and after it: what was sent last may still arrive.
pub const WARM_UP_TICKS: u64 = 60;
pub const TAIL_TICKS: u64 = 30;

/// How long everybody may take to join.
pub const JOIN_MAX: Duration = Duration::from_secs(30);

/// What one run does.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    pub clients: usize,
    /// Ticks of the window.
    pub ticks: u64,
    /// Ticks from one snapshot of a client to its next. Only the floor and tickwire know others than 1.
    pub snapshot_interval: u64,
    /// Where in a tick by the system's clock this process begins its own.
    pub phase: Duration,
    /// The server that runs beside this one to be compared with, by its process, or 0.
    pub beside_pid: u32,
}

/// Clients that get their snapshots in the same tick, as a room's players do.
const ROOM: u64 = 4;

impl Job {
    /// Whether client `number` gets a snapshot in tick `tick`: rooms take turns.
    pub fn is_snapshot_due(&self, number: usize, tick: u64) -> bool {
        (number as u64 / ROOM + tick).is_multiple_of(self.snapshot_interval)
    }

    /// Snapshots of one tick, in the mean of an interval.
    pub fn snapshots_per_tick(&self) -> f64 {
        self.clients as f64 / self.snapshot_interval as f64
    }
}

/// Where a message belongs: its first byte. Only those of the window are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    Outside = 0,
    Window = 1,
}

/// What the server counted in the window.
#[derive(Clone, Copy, Default, Debug)]
pub struct ServerReport {
    /// Processor time of the whole process, all threads.
    pub cpu_ns: u64,
    pub wall_ns: u64,
    /// Processor time of the server beside.
    pub beside_ns: u64,
    pub ticks: u64,
    /// Ticks that began a whole tick late.
    pub late_ticks: u64,
    /// Processor time of a tick, receiving included: the 99.9th percentile.
    pub work_p999_ns: u64,
    pub inputs: u64,
    pub snapshots: u64,
    pub events: u64,
    /// Allocations on the thread that serves.
    pub allocations: u64,
    /// Datagrams and bytes over the loopback device, all headers included, both ways.
    pub datagrams: u64,
    pub wire_bytes: u64,
    pub rss_kib: u64,
    pub rss_peak_kib: u64,
}

/// What all clients together counted.
#[derive(Clone, Copy, Default, Debug)]
pub struct ClientReport {
    pub tally: Tally,
    /// Processor time from first to last.
    pub cpu_ns: u64,
    pub wall_ns: u64,
}

impl ClientReport {
    /// How busy the clients' processor was, in percent: near 100 they and not the server are measured.
    pub fn busy_percent(&self) -> f64 {
        100.0 * self.cpu_ns as f64 / self.wall_ns.max(1) as f64
    }
}

/// Messages of the window that came to the clients.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tally {
    pub snapshots: u64,
    pub snapshot_bytes: u64,
    pub events: u64,
}

impl Tally {
    /// Counts a message by its length and its first byte.
    pub fn note(&mut self, message: &[u8]) {
        if message.first() != Some(&(Part::Window as u8)) {
            return;
        }
        match message.len() {
            SNAPSHOT_BYTES => {
                self.snapshots += 1;
                self.snapshot_bytes += SNAPSHOT_BYTES as u64;
            }
            EVENT_BYTES => self.events += 1,
            _ => {}
        }
    }

    #[cfg(feature = "quinn")]
    /// Adds what another counted.
    pub fn add(&mut self, other: Self) {
        self.snapshots += other.snapshots;
        self.snapshot_bytes += other.snapshot_bytes;
        self.events += other.events;
    }
}

/// Chance without state of its own worth hiding: splitmix64.
pub fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

/// Fills a message of tick `tick`: nothing that compresses.
pub fn fill(message: &mut [u8], tick: u64, part: Part) {
    for (index, chunk) in message.chunks_mut(8).enumerate() {
        let bytes = mix(tick << 8 | index as u64).to_le_bytes();
        chunk.copy_from_slice(&bytes[..chunk.len()]);
    }
    message[0] = part as u8;
}

/// Reports as lines of `name=value`, for the process that asked.
macro_rules! line {
    ($type:ty { $($name:ident : $($field:ident).+),+ $(,)? }) => {
        impl $type {
            pub fn to_line(self) -> String {
                let mut line = String::from("report");
                $(line += &format!(concat!(" ", stringify!($name), "={}"), self.$($field).+);)+
                line
            }

            pub fn from_line(line: &str) -> Option<Self> {
                let mut report = Self::default();
                for pair in line.strip_prefix("report ")?.split(' ') {
                    let (name, value) = pair.split_once('=')?;
                    let value = value.parse().ok()?;
                    match name {
                        $(stringify!($name) => report.$($field).+ = value,)+
                        _ => return None,
                    }
                }
                Some(report)
            }
        }
    };
}

pub(crate) use line;

line!(ServerReport {
    cpu_ns: cpu_ns,
    wall_ns: wall_ns,
    beside_ns: beside_ns,
    ticks: ticks,
    late_ticks: late_ticks,
    work_p999_ns: work_p999_ns,
    inputs: inputs,
    snapshots: snapshots,
    events: events,
    allocations: allocations,
    datagrams: datagrams,
    wire_bytes: wire_bytes,
    rss_kib: rss_kib,
    rss_peak_kib: rss_peak_kib,
});
line!(ClientReport {
    snapshots: tally.snapshots,
    snapshot_bytes: tally.snapshot_bytes,
    events: tally.events,
    cpu_ns: cpu_ns,
    wall_ns: wall_ns,
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_survive_their_line() {
        let report = ServerReport { cpu_ns: 7, events: 9, rss_peak_kib: 11, ..ServerReport::default() };
        let line = report.to_line();
        assert_eq!(ServerReport::from_line(&line).unwrap().to_line(), line);
        assert!(line.contains("events=9"), "{line}");
        let tally = Tally { snapshots: 3, snapshot_bytes: 480, events: 1 };
        let line = ClientReport { tally, cpu_ns: 5, wall_ns: 6 }.to_line();
        assert_eq!(ClientReport::from_line(&line).unwrap().to_line(), line);
        assert!(ClientReport::from_line("report what=1").is_none());
    }

    #[test]
    fn everyone_gets_one_snapshot_in_an_interval() {
        let job = Job { clients: 10, ticks: 1, snapshot_interval: 3, phase: Duration::ZERO, beside_pid: 0 };
        for number in 0..job.clients {
            let due = (0..3).filter(|&tick| job.is_snapshot_due(number, tick)).count();
            assert_eq!(due, 1, "client {number}");
        }
        assert!(job.is_snapshot_due(0, 0) && job.is_snapshot_due(3, 0) && !job.is_snapshot_due(4, 0));
    }

    #[test]
    fn only_messages_of_the_window_count() {
        let mut tally = Tally::default();
        let mut message = [0; SNAPSHOT_BYTES];
        for part in [Part::Outside, Part::Window, Part::Outside] {
            fill(&mut message, 5, part);
            tally.note(&message);
            tally.note(&message[..EVENT_BYTES]);
            tally.note(&message[..1]);
        }
        assert_eq!((tally.snapshots, tally.snapshot_bytes, tally.events), (1, 160, 1));
    }
}
