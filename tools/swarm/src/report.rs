//! Figures of a run, for people and for programs.

use std::fmt;

use hdrhistogram::Histogram;

use crate::json;
use crate::server::{Exit, Usage};
use crate::swarm::Outcome;
use crate::tally::Faults;

/// Four points of a distribution, in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Quantiles {
    /// The median.
    pub p50_us: u64,
    /// 99 in 100 are no more.
    pub p99_us: u64,
    /// 999 in 1000 are no more.
    pub p999_us: u64,
    /// The most.
    pub max_us: u64,
}

impl Quantiles {
    /// Those of a histogram of microseconds.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| histogram.value_at_quantile(quantile);
        Self { p50_us: at(0.5), p99_us: at(0.99), p999_us: at(0.999), max_us: histogram.max() }
    }
}

impl fmt::Display for Quantiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |us| us as f64 / 1000.0;
        let [p50, p99, p999, max] = [self.p50_us, self.p99_us, self.p999_us, self.max_us].map(ms);
        write!(f, "p50 {p50:.3}  p99 {p99:.3}  p99.9 {p999:.3}  max {max:.3} ms")
    }
}

/// What the server used, per thing that it did.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ServerFigures {
    /// Share of one core, in percent.
    pub core_percent: f64,
    /// Microseconds of processor for a datagram, either way.
    pub cpu_us_per_datagram: f64,
    /// Microseconds of processor in a second, for a player.
    pub cpu_us_per_player_s: f64,
    /// Datagrams, either way, that a whole core would carry in a second at that price.
    pub datagrams_per_s_core: f64,
    /// Resident memory at the end, in bytes.
    pub resident_bytes: u64,
    /// Its most.
    pub resident_bytes_max: u64,
}

impl ServerFigures {
    /// From what was used while `players` exchanged `datagrams` in `seconds`.
    pub fn new(usage: &Usage, datagrams: u64, players: usize, seconds: f64) -> Self {
        let cpu_us = usage.cpu_ns as f64 / 1000.0;
        let cpu_us_per_datagram = cpu_us / datagrams as f64;
        Self {
            core_percent: cpu_us / seconds / 10_000.0,
            cpu_us_per_datagram,
            cpu_us_per_player_s: cpu_us / seconds / players as f64,
            datagrams_per_s_core: 1_000_000.0 / cpu_us_per_datagram,
            resident_bytes: usage.resident_bytes,
            resident_bytes_max: usage.resident_bytes_max,
        }
    }
}

/// Everything that is told of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// Players asked for.
    pub players: usize,
    /// In the match when measuring began.
    pub playing_first: usize,
    /// And when it ended.
    pub playing_last: usize,
    /// How long was measured, in seconds.
    pub seconds: f64,
    /// Datagrams that the players received in a second.
    pub datagrams_in_per_s: f64,
    /// Datagrams that they sent in a second.
    pub datagrams_out_per_s: f64,
    /// Bytes of the former.
    pub bytes_in_per_s: f64,
    /// Bytes of the latter.
    pub bytes_out_per_s: f64,
    /// Inputs sent.
    pub inputs_sent: u64,
    /// Of these, acknowledged.
    pub inputs_acked: u64,
    /// Snapshots that should have come.
    pub snapshots_expected: u64,
    /// Snapshots that came and were applied.
    pub snapshots_received: u64,
    /// Events handed over.
    pub events: u64,
    /// From an Input to its acknowledgement.
    pub rtt: Quantiles,
    /// From one snapshot to the next.
    pub interval: Quantiles,
    /// How far that is from what it should be.
    pub jitter: Quantiles,
    /// How late the swarm itself sent.
    pub pacing: Quantiles,
    /// Ticks that the swarm left out.
    pub ticks_missed: u64,
    /// What the swarm itself used: share of one core, in percent.
    pub swarm_core_percent: f64,
    /// What went wrong, from the first login to the last word.
    pub faults: Faults,
    /// What the server used, when it could be told.
    pub server: Option<ServerFigures>,
    /// What the server said at its end, when the swarm had started it.
    pub exit: Option<Exit>,
}

impl Report {
    /// The figures of a run; `usage` is the server's while it was measured.
    pub fn new(players: usize, outcome: &Outcome, usage: Option<&Usage>, exit: Option<Exit>) -> Self {
        let measured = &outcome.measured;
        let seconds = outcome.measured_for.as_nanos() as f64 / 1e9;
        let per_s = |count: u64| count as f64 / seconds;
        let datagrams = measured.datagrams_in + measured.datagrams_out;
        Self {
            players,
            playing_first: outcome.playing_first,
            playing_last: outcome.playing_last,
            seconds,
            datagrams_in_per_s: per_s(measured.datagrams_in),
            datagrams_out_per_s: per_s(measured.datagrams_out),
            bytes_in_per_s: per_s(measured.bytes_in),
            bytes_out_per_s: per_s(measured.bytes_out),
            inputs_sent: measured.inputs_sent,
            inputs_acked: measured.inputs_acked,
            snapshots_expected: measured.snapshots_expected,
            snapshots_received: measured.snapshots_received,
            events: measured.events,
            rtt: Quantiles::of(&outcome.tally.rtt_us),
            interval: Quantiles::of(&outcome.tally.interval_us),
            jitter: Quantiles::of(&outcome.tally.jitter_us),
            pacing: Quantiles::of(&outcome.tally.pacing_us),
            ticks_missed: measured.ticks_missed,
            swarm_core_percent: outcome.cpu_ns as f64 / seconds / 1e7,
            faults: outcome.tally.faults,
            server: usage.map(|usage| ServerFigures::new(usage, datagrams, outcome.playing_last, seconds)),
            exit,
        }
    }

    /// Inputs acknowledged, in percent of those sent.
    pub fn inputs_percent(&self) -> f64 {
        percent(self.inputs_acked, self.inputs_sent)
    }

    /// Snapshots received, in percent of those expected.
    pub fn snapshots_percent(&self) -> f64 {
        percent(self.snapshots_received, self.snapshots_expected)
    }

    /// Whether everyone played from the first moment to the last, and nothing went wrong.
    pub fn is_clean(&self) -> bool {
        self.playing_first == self.players && self.playing_last == self.players && self.faults.total() == 0
    }

    /// The report as a JSON object, on one line.
    pub fn to_json(&self) -> String {
        json::object(|it| {
            it.integer("players", self.players as u64);
            it.integer("playing_first", self.playing_first as u64);
            it.integer("playing_last", self.playing_last as u64);
            it.decimal("seconds", self.seconds);
            it.decimal("datagrams_in_per_s", self.datagrams_in_per_s);
            it.decimal("datagrams_out_per_s", self.datagrams_out_per_s);
            it.decimal("bytes_in_per_s", self.bytes_in_per_s);
            it.decimal("bytes_out_per_s", self.bytes_out_per_s);
            it.integer("inputs_sent", self.inputs_sent);
            it.integer("inputs_acked", self.inputs_acked);
            it.decimal("inputs_percent", self.inputs_percent());
            it.integer("snapshots_expected", self.snapshots_expected);
            it.integer("snapshots_received", self.snapshots_received);
            it.decimal("snapshots_percent", self.snapshots_percent());
            it.integer("events", self.events);
            for (name, quantiles) in [
                ("rtt", self.rtt),
                ("snapshot_interval", self.interval),
                ("snapshot_jitter", self.jitter),
                ("swarm_lateness", self.pacing),
            ] {
                it.object(name, |it| quantiles_json(it, &quantiles));
            }
            it.integer("swarm_ticks_missed", self.ticks_missed);
            it.decimal("swarm_core_percent", self.swarm_core_percent);
            it.object("faults", |it| {
                self.faults.iter().for_each(|(kind, count)| it.integer(kind.name(), count))
            });
            it.boolean("is_clean", self.is_clean());
            if let Some(server) = &self.server {
                it.object("server", |it| server_json(it, server));
            }
            if let Some(exit) = &self.exit {
                it.object("server_exit", |it| exit.to_json(it));
            }
        })
    }
}

fn quantiles_json(it: &mut json::Object<'_>, quantiles: &Quantiles) {
    it.integer("p50_us", quantiles.p50_us);
    it.integer("p99_us", quantiles.p99_us);
    it.integer("p999_us", quantiles.p999_us);
    it.integer("max_us", quantiles.max_us);
}

fn server_json(it: &mut json::Object<'_>, server: &ServerFigures) {
    it.decimal("core_percent", server.core_percent);
    it.decimal("cpu_us_per_datagram", server.cpu_us_per_datagram);
    it.decimal("cpu_us_per_player_s", server.cpu_us_per_player_s);
    it.decimal("datagrams_per_s_core", server.datagrams_per_s_core);
    it.integer("resident_bytes", server.resident_bytes);
    it.integer("resident_bytes_max", server.resident_bytes_max);
}

/// `part` of `whole`; all of it when there was nothing.
fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 100.0 } else { part as f64 * 100.0 / whole as f64 }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { players, playing_first, playing_last, seconds, .. } = self;
        writeln!(
            f,
            "players      {playing_first} of {players} at first, {playing_last} at last, {seconds:.1} s"
        )?;
        writeln!(
            f,
            "traffic      {:.0} datagrams/s sent ({:.0} kB/s), {:.0} received ({:.0} kB/s)",
            self.datagrams_out_per_s,
            self.bytes_out_per_s / 1000.0,
            self.datagrams_in_per_s,
            self.bytes_in_per_s / 1000.0
        )?;
        writeln!(
            f,
            "inputs       {} of {} acknowledged ({:.3} %)",
            self.inputs_acked,
            self.inputs_sent,
            self.inputs_percent()
        )?;
        writeln!(
            f,
            "snapshots    {} of {} received ({:.3} %), {} events",
            self.snapshots_received,
            self.snapshots_expected,
            self.snapshots_percent(),
            self.events
        )?;
        writeln!(f, "round trip   {}", self.rtt)?;
        writeln!(f, "interval     {}", self.interval)?;
        writeln!(f, "jitter       {}", self.jitter)?;
        writeln!(f, "swarm late   {}", self.pacing)?;
        writeln!(
            f,
            "swarm        {:.1} % of a core, {} ticks missed",
            self.swarm_core_percent, self.ticks_missed
        )?;
        if let Some(server) = &self.server {
            write_server(f, server)?;
        }
        if let Some(exit) = &self.exit {
            writeln!(f, "server said  {exit}")?;
        }
        write!(f, "faults       {}", self.faults.total())?;
        self.faults.iter().try_for_each(|(kind, count)| write!(f, ", {} {count}", kind.name()))?;
        writeln!(f)
    }
}

fn write_server(f: &mut fmt::Formatter<'_>, server: &ServerFigures) -> fmt::Result {
    writeln!(
        f,
        "server       {:.1} % of a core: {:.2} µs a datagram, {:.0} µs a player and second",
        server.core_percent, server.cpu_us_per_datagram, server.cpu_us_per_player_s
    )?;
    writeln!(
        f,
        "             {:.0} datagrams/s a core; {:.1} MB resident, {:.1} at most",
        server.datagrams_per_s_core,
        server.resident_bytes as f64 / 1e6,
        server.resident_bytes_max as f64 / 1e6
    )
}

#[cfg(test)]
mod tests {
    use tickwire::time::Duration;

    use super::*;
    use crate::tally::{Counters, Fault, Tally};

    fn outcome() -> Outcome {
        let mut tally = Tally { is_measuring: true, ..Tally::new() };
        (1..=1000).for_each(|ms| tally.rtt(Duration::from_millis(ms)));
        let measured = Counters {
            datagrams_in: 800,
            datagrams_out: 1200,
            bytes_in: 80_000,
            inputs_sent: 1000,
            inputs_acked: 999,
            snapshots_expected: 400,
            snapshots_received: 400,
            ..Counters::default()
        };
        Outcome {
            tally,
            measured,
            measured_for: Duration::from_secs(2),
            cpu_ns: 500_000_000,
            playing_first: 20,
            playing_last: 20,
        }
    }

    #[test]
    fn figures_of_a_run() {
        let usage = Usage { cpu_ns: 10_000_000, resident_bytes: 7, resident_bytes_max: 9 };
        let report = Report::new(20, &outcome(), Some(&usage), None);
        assert_eq!((report.datagrams_in_per_s, report.datagrams_out_per_s), (400.0, 600.0));
        assert_eq!(report.bytes_in_per_s, 40_000.0);
        assert_eq!((report.inputs_percent(), report.snapshots_percent()), (99.9, 100.0));
        let server = report.server.expect("its usage is known");
        assert_eq!(server.core_percent, 0.5, "10 ms in 2 s");
        assert_eq!(server.cpu_us_per_datagram, 5.0, "10 ms for 2000");
        assert_eq!(server.cpu_us_per_player_s, 250.0, "10 ms for 20 players in 2 s");
        assert_eq!(server.datagrams_per_s_core, 200_000.0);
        assert_eq!(report.swarm_core_percent, 25.0, "half a second of two");
        assert!(report.is_clean());
    }

    #[test]
    fn quantiles_of_a_known_distribution() {
        let quantiles = Report::new(20, &outcome(), None, None).rtt;
        // Three digits are kept, and a bucket's highest value is told.
        assert_eq!(
            [quantiles.p50_us, quantiles.p99_us, quantiles.p999_us].map(|us| us / 1000),
            [500, 990, 999]
        );
        assert!((1_000_000..1_001_000).contains(&quantiles.max_us));
    }

    #[test]
    fn a_fault_or_a_missing_player_is_not_clean() {
        let mut faulty = outcome();
        faulty.tally.fault(Fault::Lost);
        assert!(!Report::new(20, &faulty, None, None).is_clean());
        assert!(!Report::new(21, &outcome(), None, None).is_clean());
        let late = Outcome { playing_first: 19, ..outcome() };
        assert!(!Report::new(20, &late, None, None).is_clean());
    }

    /// A run in which nothing happened gives figures, and JSON that can be read.
    #[test]
    fn nothing_at_all_is_reported_too() {
        let empty = Outcome { tally: Tally::new(), measured: Counters::default(), ..outcome() };
        let usage = Usage { cpu_ns: 0, resident_bytes: 0, resident_bytes_max: 0 };
        let report =
            Report::new(1, &empty, Some(&usage), Exit::parse("ticks 5 late 4 dropped 3 work_p999_us 2"));
        assert_eq!((report.inputs_percent(), report.rtt), (100.0, Quantiles::default()));
        let text = report.to_json();
        assert!(text.contains(r#""cpu_us_per_datagram":null"#), "{text}");
        assert!(text.contains(r#""faults":{}"#), "{text}");
        assert!(
            text.contains(r#""server_exit":{"ticks":5,"late":4,"dropped":3,"work_p999_us":2}"#),
            "{text}"
        );
        assert!(report.to_string().contains("faults       0\n"));
    }
}
