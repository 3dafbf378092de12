//! The table of goodput.

use std::fmt::Write as _;

use super::{Entry, Run};
use crate::stats::Median;

/// The peer that the others are compared with, where it is there.
const REFERENCE: &str = "libenet";

impl Run {
    /// Bytes of messages that arrived, in MB (10⁶ bytes) per second.
    fn goodput_mb_per_s(&self) -> f64 {
        self.receiver.bytes as f64 * 1000.0 / self.receiver.wall_ns.max(1) as f64
    }

    /// Share of a processor that each end took.
    fn busy(&self) -> [f64; 2] {
        let share = |cpu_ns: u64, wall_ns: u64| cpu_ns as f64 / wall_ns.max(1) as f64;
        [share(self.sender.cpu_ns, self.sender.wall_ns), share(self.receiver.cpu_ns, self.receiver.wall_ns)]
    }

    /// Processor time per byte that arrived, in nanoseconds, of each end.
    fn cpu_ns_per_byte(&self) -> [f64; 2] {
        self.busy().map(|busy| busy * 1000.0 / self.goodput_mb_per_s().max(1e-9))
    }

    fn cpu_ns_per_byte_together(&self) -> f64 {
        self.cpu_ns_per_byte().into_iter().sum()
    }

    fn allocations_per_message(&self) -> f64 {
        let of_sender = self.sender.allocations as f64 / self.sender.wall_ns.max(1) as f64;
        let of_receiver = self.receiver.allocations as f64 / self.receiver.wall_ns.max(1) as f64;
        (of_sender + of_receiver) * self.receiver.wall_ns as f64 / self.receiver.messages.max(1) as f64
    }
}

/// A run in few words.
pub fn brief(run: &Run) -> String {
    let [sender, receiver] = run.cpu_ns_per_byte();
    format!(
        "{:6.1} MB/s, {sender:.2} + {receiver:.2} ns per byte, {} faults",
        run.goodput_mb_per_s(),
        run.receiver.faults
    )
}

/// Medians over the rounds, and ratios to the reference within each round.
pub fn markdown(entries: &[Entry]) -> String {
    let mut text = String::from(
        "| peer | goodput, MB/s | of libenet's (95 %) | CPU per byte, ns: sender / receiver | both, of libenet's (95 %) \
         | allocations per message | faults |\n|---|---|---|---|---|---|---|\n",
    );
    let reference = entries.iter().find(|entry| entry.peer == REFERENCE);
    for entry in entries {
        let median = |value: &dyn Fn(&Run) -> f64| {
            Median::of(entry.runs.iter().flatten().map(value)).map_or(f64::NAN, |median| median.value)
        };
        let ratio = |value: &dyn Fn(&Run) -> f64| {
            let pairs = entry.runs.iter().zip(reference.map_or(&[][..], |reference| &reference.runs));
            let ratios = pairs.filter_map(|(run, other)| Some(value(run.as_ref()?) / value(other.as_ref()?)));
            Median::of(ratios).map_or("-".to_owned(), |median| {
                format!("{:.2} ({:.2} to {:.2})", median.value, median.low, median.high)
            })
        };
        let faults: u64 = entry.runs.iter().flatten().map(|run| run.receiver.faults).sum();
        let _ = writeln!(
            text,
            "| {} | {:.0} | {} | {:.2} / {:.2} | {} | {:.2} | {faults} |",
            entry.peer,
            median(&Run::goodput_mb_per_s),
            ratio(&Run::goodput_mb_per_s),
            median(&|run: &Run| run.cpu_ns_per_byte()[0]),
            median(&|run: &Run| run.cpu_ns_per_byte()[1]),
            ratio(&Run::cpu_ns_per_byte_together),
            median(&Run::allocations_per_message),
        );
    }
    text
}
