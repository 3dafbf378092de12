//! How many bytes of reliable messages go from a server to one client when nothing but the two holds them back, and
//! what each end pays for it.

mod fignet;
#[cfg(feature = "libenet")]
mod libenet;
mod table;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::page;
use crate::process::{self, Place};
use crate::usage::{allocations, process_cpu_ns};
use crate::work::{line, mix};

/// Bytes of a message.
pub const MESSAGE_BYTES: usize = 1000;

/// Messages that the sender has under way or waiting at most: enough that it always has more to send.
const WAITING_MAX: usize = 1024;

/// Time from the first message to the window that is measured.
const WARM_UP: Duration = Duration::from_millis(300);

/// How long the sender goes on after its own window, so that the receiver's ends within the traffic.
const TAIL: Duration = Duration::from_millis(500);

/// How long anything may take to begin.
const START_MAX: Duration = Duration::from_secs(10);

/// Who was built in.
pub const NAMES: &[&str] = &[
    "tickwire-fignet",
    "tickwire-fignet-uring",
    #[cfg(feature = "libenet")]
    "libenet",
    #[cfg(feature = "libenet")]
    "libenet-spinning",
];

/// What to compare.
#[derive(Clone, Debug)]
pub struct Plan {
    pub place: Place,
    pub peers: Vec<String>,
    pub rounds: usize,
    pub flow: Flow,
    /// The page that holds the table.
    pub page: Option<PathBuf>,
}

/// What one run does.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// Length of the window.
    pub window: Duration,
}

/// What one end used in its window.
#[derive(Clone, Copy, Default, Debug)]
pub struct SenderReport {
    pub cpu_ns: u64,
    pub wall_ns: u64,
    pub allocations: u64,
}

/// What came to the receiver in its window, and what it used.
#[derive(Clone, Copy, Default, Debug)]
pub struct ReceiverReport {
    pub messages: u64,
    pub bytes: u64,
    /// Messages that were not the next one, or not what was sent.
    pub faults: u64,
    pub cpu_ns: u64,
    pub wall_ns: u64,
    pub allocations: u64,
}

line!(SenderReport { cpu_ns: cpu_ns, wall_ns: wall_ns, allocations: allocations });
line!(ReceiverReport {
    messages: messages,
    bytes: bytes,
    faults: faults,
    cpu_ns: cpu_ns,
    wall_ns: wall_ns,
    allocations: allocations,
});

/// One run of one peer.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub sender: SenderReport,
    pub receiver: ReceiverReport,
}

/// All runs of one peer.
#[derive(Clone, Debug)]
pub struct Entry {
    pub peer: String,
    /// By round; `None` where a run failed.
    pub runs: Vec<Option<Run>>,
}

/// Runs the plan and prints the table.
pub fn compare(plan: &Plan) -> Result<(), String> {
    if process::go_apart(&plan.place)? {
        return Ok(());
    }
    let new = |peer: &String| Entry { peer: peer.clone(), runs: Vec::new() };
    let mut entries: Vec<Entry> = plan.peers.iter().map(new).collect();
    for round in 1..=plan.rounds {
        for entry in &mut entries {
            eprint!("round {round} of {}, {:<22} ", plan.rounds, entry.peer);
            let run = process::run_flow(&plan.place, &entry.peer, &plan.flow);
            match &run {
                Ok(run) => eprintln!("{}", table::brief(run)),
                Err(error) => eprintln!("failed: {error}"),
            }
            entry.runs.push(run.ok());
        }
    }
    let text = table::markdown(&entries);
    print!("{text}");
    if let Some(path) = &plan.page {
        page::replace(path, "goodput", &format!("{}\n{text}", page::circumstances()))?;
    }
    if entries.iter().all(|entry| entry.runs.iter().all(Option::is_none)) {
        return Err("no run came to its end".to_owned());
    }
    Ok(())
}

/// Sends as peer `name` on the calling thread.
pub fn send(name: &str, flow: &Flow) -> Result<SenderReport, String> {
    use tickwire::io::Backend;

    match name {
        "tickwire-fignet" => fignet::send(flow, Backend::Mio),
        "tickwire-fignet-uring" => fignet::send(flow, Backend::IoUring),
        #[cfg(feature = "libenet")]
        "libenet" => libenet::send(flow, libenet::WAIT_MS),
        #[cfg(feature = "libenet")]
        "libenet-spinning" => libenet::send(flow, 0),
        _ => Err(format!("there is no peer {name} in this build")),
    }
}

/// Receives as peer `name` on the calling thread.
pub fn receive(name: &str, flow: &Flow, port: u16) -> Result<ReceiverReport, String> {
    use tickwire::io::Backend;

    match name {
        "tickwire-fignet" => fignet::receive(flow, Backend::Mio, port),
        "tickwire-fignet-uring" => fignet::receive(flow, Backend::IoUring, port),
        #[cfg(feature = "libenet")]
        "libenet" => libenet::receive(flow, libenet::WAIT_MS, port),
        #[cfg(feature = "libenet")]
        "libenet-spinning" => libenet::receive(flow, 0, port),
        _ => Err(format!("there is no peer {name} in this build")),
    }
}

/// The messages of a flow: each its number, and bytes that nothing compresses.
#[derive(Debug)]
pub struct Messages {
    bytes: [u8; MESSAGE_BYTES],
    next: u64,
}

impl Messages {
    pub fn new() -> Self {
        let mut bytes = [0; MESSAGE_BYTES];
        for (index, chunk) in bytes.chunks_exact_mut(8).enumerate() {
            chunk.copy_from_slice(&mix(index as u64).to_le_bytes());
        }
        Self { bytes, next: 0 }
    }

    /// The next one.
    pub fn peek(&mut self) -> &[u8; MESSAGE_BYTES] {
        self.bytes[..8].copy_from_slice(&self.next.to_le_bytes());
        &self.bytes
    }

    /// It was taken.
    pub const fn advance(&mut self) {
        self.next += 1;
    }

    /// Takes `bytes` for the next one; returns whether they are. After another number it goes on from there.
    pub fn is_next(&mut self, bytes: &[u8]) -> bool {
        let is_next = *self.peek() == *bytes;
        let number = bytes.first_chunk().map_or(self.next, |number| u64::from_le_bytes(*number));
        self.next = number.wrapping_add(1);
        is_next
    }
}

/// Where a run is.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Before,
    WarmUp { until: Instant },
    Window { until: Instant },
    After { until: Instant },
}

/// The window of one end, by the clock.
#[derive(Debug)]
struct Window {
    length: Duration,
    made_at: Instant,
    stage: Stage,
    began_at: Instant,
    cpu_ns: u64,
    allocations: u64,
    report: SenderReport,
}

impl Window {
    fn new(flow: &Flow) -> Self {
        let now = Instant::now();
        Self {
            length: flow.window,
            made_at: now,
            stage: Stage::Before,
            began_at: now,
            cpu_ns: 0,
            allocations: 0,
            report: SenderReport::default(),
        }
    }

    /// Whether what happens now counts.
    const fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Window { .. })
    }

    /// Looks at the clock; `has_begun` once messages travel. Returns whether the run is over.
    fn look(&mut self, has_begun: bool) -> Result<bool, String> {
        let now = Instant::now();
        match self.stage {
            Stage::Before if has_begun => self.stage = Stage::WarmUp { until: now + WARM_UP },
            Stage::Before if now - self.made_at > START_MAX => return Err("it never began".to_owned()),
            Stage::WarmUp { until } if now >= until => {
                self.stage = Stage::Window { until: now + self.length };
                self.began_at = now;
                (self.cpu_ns, self.allocations) = (process_cpu_ns(), allocations());
            }
            Stage::Window { until } if now >= until => {
                self.report = SenderReport {
                    cpu_ns: process_cpu_ns() - self.cpu_ns,
                    wall_ns: (now - self.began_at).as_nanos() as u64,
                    allocations: allocations() - self.allocations,
                };
                self.stage = Stage::After { until: now + TAIL };
            }
            Stage::After { until } => return Ok(now >= until),
            _ => {}
        }
        Ok(false)
    }
}

/// The receiver's count, kept by whoever hears.
#[derive(Debug)]
struct Sink {
    window: Window,
    expected: Messages,
    has_begun: bool,
    report: ReceiverReport,
}

impl Sink {
    fn new(flow: &Flow) -> Self {
        Self {
            window: Window::new(flow),
            expected: Messages::new(),
            has_begun: false,
            report: ReceiverReport::default(),
        }
    }

    fn note(&mut self, bytes: &[u8]) {
        self.has_begun = true;
        let is_next = self.expected.is_next(bytes);
        if self.window.is_open() {
            self.report.messages += 1;
            self.report.bytes += bytes.len() as u64;
        }
        self.report.faults += u64::from(!is_next);
    }

    /// To be called now and then. Returns whether the window is over.
    fn is_over(&mut self) -> Result<bool, String> {
        self.window.look(self.has_begun)?;
        Ok(matches!(self.window.stage, Stage::After { .. }))
    }

    fn report(&self) -> ReceiverReport {
        let SenderReport { cpu_ns, wall_ns, allocations } = self.window.report;
        ReceiverReport { cpu_ns, wall_ns, allocations, ..self.report }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_out_of_turn_or_changed_are_faults() {
        let (mut sent, mut expected) = (Messages::new(), Messages::new());
        let mut next = || {
            let message = *sent.peek();
            sent.advance();
            message
        };
        let messages: Vec<_> = (0..4).map(|_| next()).collect();
        assert!(expected.is_next(&messages[0]) && expected.is_next(&messages[1]));
        assert!(!expected.is_next(&messages[1]), "twice");
        assert!(!expected.is_next(&messages[3]), "one is missing");
        let mut changed = next();
        changed[500] ^= 1;
        assert!(!expected.is_next(&changed) && !expected.is_next(&changed[..9]));
    }
}
