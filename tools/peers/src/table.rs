//! The table and the chart.

use std::fmt::Write as _;

use crate::driver::{Entry, Plan, Run};
use crate::stats::{Median, median};
use crate::work::EVENT_INTERVAL;

/// The peer that the others are compared with.
const FLOOR: &str = "floor";

/// The table's columns.
const HEADINGS: [&str; 12] = [
    "clients",
    "peer",
    "CPU per message, µs",
    "of the floor's (95 %)",
    "CPU per client, % of a core",
    "ticks per s",
    "allocations per tick",
    "peak memory, MiB",
    "delivery of inputs / snapshots / events, %",
    "datagrams per client and tick",
    "bytes per client and tick",
    "clients' core busy, %",
];

/// Figures of one run.
impl Run {
    /// Processor time per message, in and out, in microseconds.
    fn cpu_us_per_message(&self) -> f64 {
        let messages = self.server.inputs + self.server.snapshots + self.server.events;
        self.server.cpu_ns as f64 / 1000.0 / messages.max(1) as f64
    }

    /// The same in terms of what the yardstick took of the processor meanwhile.
    fn relative_cpu(&self) -> f64 {
        let yardstick = self.server.beside_ns as f64 / self.server.wall_ns.max(1) as f64;
        self.cpu_us_per_message() / yardstick.max(1e-9)
    }

    /// Whether one of the processors was so full that the yardstick cannot have done all of its work: it is none then.
    fn is_crowded(&self) -> bool {
        self.tick_rate_hz() < 59.0 || self.play.busy_percent() > 80.0
    }

    /// Share of one processor per client, in percent.
    fn cpu_percent_per_client(&self) -> f64 {
        100.0 * self.server.cpu_ns as f64 / self.server.wall_ns.max(1) as f64 / self.job.clients as f64
    }

    fn allocations_per_tick(&self) -> f64 {
        self.server.allocations as f64 / self.server.ticks.max(1) as f64
    }

    fn memory_mib(&self) -> f64 {
        self.server.rss_peak_kib as f64 / 1024.0
    }

    /// Share of what should have come, in percent: inputs, snapshots, events. More than 100 is told as it is: messages
    /// that came twice; of inputs, which come by the clients' clock, also ticks of the server that were late.
    fn delivery_percent(&self) -> [f64; 3] {
        let due = self.job.clients as f64 * self.server.ticks as f64;
        let percent = |came: u64, due: f64| 100.0 * came as f64 / due.max(1.0);
        let tally = &self.play.tally;
        [
            percent(self.server.inputs, due),
            percent(tally.snapshots, due / self.job.snapshot_interval as f64),
            percent(tally.events, due / EVENT_INTERVAL as f64),
        ]
    }

    /// Bytes over the wire per client and tick, both ways, headers included.
    fn wire_bytes_per_tick(&self) -> f64 {
        self.server.wire_bytes as f64 / self.job.clients as f64 / self.server.ticks.max(1) as f64
    }

    /// Datagrams per client and tick, both ways.
    fn datagrams_per_tick(&self) -> f64 {
        self.server.datagrams as f64 / self.job.clients as f64 / self.server.ticks.max(1) as f64
    }

    /// Ticks in a second: below 60, the server's processor is full.
    fn tick_rate_hz(&self) -> f64 {
        self.server.ticks as f64 * 1e9 / self.server.wall_ns.max(1) as f64
    }
}

/// One run in one line.
pub fn brief(run: &Run) -> String {
    let [inputs, snapshots, events] = run.delivery_percent();
    format!(
        "{:.2} us a message, delivery {inputs:.1} / {snapshots:.1} / {events:.1} %, {:.0} B a snapshot, clients {:.0} % busy",
        run.cpu_us_per_message(),
        run.play.tally.snapshot_bytes as f64 / run.play.tally.snapshots.max(1) as f64,
        run.play.busy_percent(),
    )
}

/// The table, in Markdown.
pub fn markdown(entries: &[Entry], plan: &Plan) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "| {} |", HEADINGS.join(" | "));
    let _ = writeln!(text, "|---:|---|{}", "---:|".repeat(HEADINGS.len() - 2));
    for entry in entries {
        if entry.runs.is_empty() {
            let why = entry.failure.as_deref().unwrap_or("not run");
            let _ = writeln!(text, "| {} | {} | failed: {why} |", entry.clients, entry.peer);
            continue;
        }
        let of = |figure: fn(&Run) -> f64| {
            let mut figures: Vec<f64> = entry.runs.iter().map(figure).collect();
            median(&mut figures).unwrap_or(0.0)
        };
        let ratio = ratio_to_floor(entries, entry).map_or("–".to_owned(), |ratio| {
            format!("{:.2} ({:.2} to {:.2})", ratio.value, ratio.low, ratio.high)
        });
        let cells = [
            entry.clients.to_string(),
            entry.peer.clone(),
            format!("{:.2}", of(Run::cpu_us_per_message)),
            ratio,
            format!("{:.3}", of(Run::cpu_percent_per_client)),
            format!("{:.1}", of(Run::tick_rate_hz)),
            format!("{:.1}", of(Run::allocations_per_tick)),
            format!("{:.1}", of(Run::memory_mib)),
            format!(
                "{:.1} / {:.1} / {:.1}",
                of(|run| run.delivery_percent()[0]),
                of(|run| run.delivery_percent()[1]),
                of(|run| run.delivery_percent()[2]),
            ),
            format!("{:.2}", of(Run::datagrams_per_tick)),
            format!("{:.0}", of(Run::wire_bytes_per_tick)),
            format!("{:.0}", of(|run| run.play.busy_percent())),
        ];
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    let failed: usize = entries.iter().map(|entry| plan.rounds - entry.runs.len()).sum();
    let _ = writeln!(
        text,
        "\nMedians of {} rounds of {} s each; {failed} runs failed.",
        plan.rounds,
        plan.ticks / 60
    );
    text
}

/// The ratio to the floor's run of the same round, each against the yardstick that ran beside it, if there is a floor.
fn ratio_to_floor(entries: &[Entry], entry: &Entry) -> Option<Median> {
    let floor = entries.iter().find(|other| other.peer == FLOOR && other.clients == entry.clients)?;
    let ratio = |run: &Run| {
        let same_round = floor.runs.iter().find(|other| other.round == run.round)?;
        match run.is_crowded() {
            true => Some(run.cpu_us_per_message() / same_round.cpu_us_per_message()),
            false => Some(run.relative_cpu() / same_round.relative_cpu()),
        }
    };
    Median::of(entry.runs.iter().filter_map(ratio))
}

/// A bar for everyone, in groups by the number of clients.
pub fn svg(entries: &[Entry]) -> String {
    const ROW: usize = 22;
    const LEFT: usize = 190;
    const BARS: f64 = 400.0;
    let ratio = |entry| Some((entry, ratio_to_floor(entries, entry)?));
    let bars: Vec<(&Entry, Median)> = entries.iter().filter_map(ratio).collect();
    let most = bars.iter().map(|(_, ratio)| ratio.high).fold(1e-9, f64::max);
    let (width, height) = (LEFT + BARS as usize + 80, 40 + ROW * bars.len());
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n\
         <text x=\"8\" y=\"20\" font-size=\"14\">Processor time of the server per message, of the floor's: median, 95 % interval</text>\n",
    );
    for (row, (entry, ratio)) in bars.iter().enumerate() {
        let y = 34 + row * ROW;
        let at = |value: f64| LEFT as f64 + BARS * value / most;
        let colour = match entry.peer.as_str() {
            FLOOR => "#888",
            name if name.starts_with("tickwire") => "#2a7",
            _ => "#58b",
        };
        let (text_y, line_y) = (y + 13, y + 9);
        let _ = writeln!(
            text,
            "<text x=\"{}\" y=\"{text_y}\" text-anchor=\"end\">{} × {}</text>\
             <rect x=\"{LEFT}\" y=\"{y}\" width=\"{:.1}\" height=\"18\" fill=\"{colour}\"/>\
             <path d=\"M{:.1} {line_y}H{:.1}\" stroke=\"#000\"/>\
             <text x=\"{:.1}\" y=\"{text_y}\">{:.2}</text>",
            LEFT - 6,
            entry.peer,
            entry.clients,
            at(ratio.value) - LEFT as f64,
            at(ratio.low),
            at(ratio.high),
            at(ratio.high) + 6.0,
            ratio.value,
        );
    }
    text + "</svg>\n"
}
