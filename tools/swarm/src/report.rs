//! Figures of a run, for people and for programs.

use std::fmt;

use hdrhistogram::Histogram;

use crate::json;
use crate::player::Protocol;
use crate::server::{Exit, Usage};
use crate::swarm::{Outcome, Share};
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

/// What some of the players did.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Players asked for.
    pub players: usize,
    /// In the match when measuring began.
    pub playing_first: usize,
    /// And when it ended.
    pub playing_last: usize,
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
    /// Events that came again, and were not.
    pub events_again: u64,
    /// From an Input to its acknowledgement, or from a Ping to its Pong.
    pub rtt: Quantiles,
    /// From one snapshot to the next.
    pub interval: Quantiles,
    /// How far that is from what it should be.
    pub jitter: Quantiles,
    /// What went wrong, from the first login to the last word.
    pub faults: Faults,
}

impl Figures {
    /// Those of a share that was measured for so many seconds.
    pub fn new(share: &Share, seconds: f64) -> Self {
        let (measured, tally) = (&share.measured, &share.tally);
        let per_s = |count: u64| count as f64 / seconds;
        Self {
            players: share.players,
            playing_first: share.playing_first,
            playing_last: share.playing_last,
            datagrams_in_per_s: per_s(measured.datagrams_in),
            datagrams_out_per_s: per_s(measured.datagrams_out),
            bytes_in_per_s: per_s(measured.bytes_in),
            bytes_out_per_s: per_s(measured.bytes_out),
            inputs_sent: measured.inputs_sent,
            inputs_acked: measured.inputs_acked,
            snapshots_expected: measured.snapshots_expected,
            snapshots_received: measured.snapshots_received,
            events: measured.events,
            events_again: measured.events_again,
            rtt: Quantiles::of(&tally.rtt_us),
            interval: Quantiles::of(&tally.interval_us),
            jitter: Quantiles::of(&tally.jitter_us),
            faults: tally.faults,
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

    fn members_to_json(&self, it: &mut json::Object<'_>) {
        it.integer("players", self.players as u64);
        it.integer("playing_first", self.playing_first as u64);
        it.integer("playing_last", self.playing_last as u64);
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
        it.integer("events_again", self.events_again);
        for (name, quantiles) in
            [("rtt", self.rtt), ("snapshot_interval", self.interval), ("snapshot_jitter", self.jitter)]
        {
            it.object(name, |it| quantiles_json(it, &quantiles));
        }
        it.object("faults", |it| self.faults.iter().for_each(|(kind, count)| it.integer(kind.name(), count)));
    }

    fn players_text(&self) -> String {
        let Self { players, playing_first, playing_last, .. } = self;
        format!("{playing_first} of {players} at first, {playing_last} at last")
    }

    fn traffic_text(&self) -> String {
        format!(
            "{:.0} datagrams/s sent ({:.0} kB/s), {:.0} received ({:.0} kB/s)",
            self.datagrams_out_per_s,
            self.bytes_out_per_s / 1000.0,
            self.datagrams_in_per_s,
            self.bytes_in_per_s / 1000.0
        )
    }

    fn inputs_text(&self) -> String {
        let percent = self.inputs_percent();
        format!("{} of {} acknowledged ({percent:.3} %)", self.inputs_acked, self.inputs_sent)
    }

    fn snapshots_text(&self) -> String {
        format!(
            "{} of {} received ({:.3} %), {} events",
            self.snapshots_received,
            self.snapshots_expected,
            self.snapshots_percent(),
            self.events
        )
    }

    fn faults_text(&self) -> String {
        let kinds = self.faults.iter().map(|(kind, count)| format!(", {} {count}", kind.name()));
        format!("{}{}", self.faults.total(), kinds.collect::<String>())
    }
}

/// Everything that is told of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// What all players did.
    pub total: Figures,
    /// And those of each protocol.
    pub protocols: Vec<(Protocol, Figures)>,
    /// How long was measured, in seconds.
    pub seconds: f64,
    /// How late the swarm itself sent.
    pub pacing: Quantiles,
    /// Ticks that the swarm left out.
    pub ticks_missed: u64,
    /// What the swarm itself used: share of one core, in percent.
    pub swarm_core_percent: f64,
    /// What the server used, when it could be told.
    pub server: Option<ServerFigures>,
    /// What the server said at its end, when the swarm had started it.
    pub exit: Option<Exit>,
}

impl Report {
    /// The figures of a run; `usage` is the server's while it was measured.
    pub fn new(outcome: &Outcome, usage: Option<&Usage>, exit: Option<Exit>) -> Self {
        let total = outcome.total();
        let seconds = outcome.measured_for.as_nanos() as f64 / 1e9;
        let datagrams = total.measured.datagrams_in + total.measured.datagrams_out;
        let shares = outcome.shares.iter();
        Self {
            total: Figures::new(&total, seconds),
            protocols: shares.map(|(protocol, share)| (*protocol, Figures::new(share, seconds))).collect(),
            seconds,
            pacing: Quantiles::of(&total.tally.pacing_us),
            ticks_missed: outcome.ticks_missed,
            swarm_core_percent: outcome.cpu_ns as f64 / seconds / 1e7,
            server: usage.map(|usage| ServerFigures::new(usage, datagrams, total.playing_last, seconds)),
            exit,
        }
    }

    /// Whether everyone played from the first moment to the last, and nothing went wrong.
    pub fn is_clean(&self) -> bool {
        let Figures { players, playing_first, playing_last, faults, .. } = &self.total;
        playing_first == players && playing_last == players && faults.total() == 0
    }

    /// The report as a JSON object, on one line.
    pub fn to_json(&self) -> String {
        json::object(|it| {
            self.total.members_to_json(it);
            it.decimal("seconds", self.seconds);
            it.object("swarm_lateness", |it| quantiles_json(it, &self.pacing));
            it.integer("swarm_ticks_missed", self.ticks_missed);
            it.decimal("swarm_core_percent", self.swarm_core_percent);
            it.boolean("is_clean", self.is_clean());
            it.object("protocols", |it| {
                for (protocol, figures) in &self.protocols {
                    it.object(protocol.name(), |it| figures.members_to_json(it));
                }
            });
            if let Some(server) = &self.server {
                it.object("server", |it| server_json(it, server));
            }
            if let Some(exit) = &self.exit {
                it.object("server_exit", |it| exit.to_json(it));
            }
        })
    }

    /// A line about all players, and where there are several protocols one for each.
    fn write_each(
        &self,
        f: &mut fmt::Formatter<'_>,
        topic: &str,
        text: impl Fn(&Figures) -> String,
    ) -> fmt::Result {
        let mut topic = topic;
        if let [_] = self.protocols.as_slice() {
            return writeln!(f, "{topic:<12} {}", text(&self.total));
        }
        for (protocol, figures) in &self.protocols {
            writeln!(f, "{topic:<12} {:<6} {}", protocol.name(), text(figures))?;
            topic = "";
        }
        Ok(())
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
        self.write_each(f, "players", |of| format!("{}, {:.1} s", of.players_text(), self.seconds))?;
        self.write_each(f, "traffic", Figures::traffic_text)?;
        self.write_each(f, "inputs", Figures::inputs_text)?;
        self.write_each(f, "snapshots", Figures::snapshots_text)?;
        self.write_each(f, "round trip", |of| of.rtt.to_string())?;
        self.write_each(f, "interval", |of| of.interval.to_string())?;
        self.write_each(f, "jitter", |of| of.jitter.to_string())?;
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
        self.write_each(f, "faults", Figures::faults_text)
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

    fn share() -> Share {
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
        Share { players: 20, tally, measured, playing_first: 20, playing_last: 20 }
    }

    fn outcome_of(shares: Vec<(Protocol, Share)>) -> Outcome {
        Outcome { shares, ticks_missed: 0, measured_for: Duration::from_secs(2), cpu_ns: 500_000_000 }
    }

    fn outcome() -> Outcome {
        outcome_of(vec![(Protocol::Aegis, share())])
    }

    #[test]
    fn figures_of_a_run() {
        let usage = Usage { cpu_ns: 10_000_000, resident_bytes: 7, resident_bytes_max: 9 };
        let report = Report::new(&outcome(), Some(&usage), None);
        let total = &report.total;
        assert_eq!((total.datagrams_in_per_s, total.datagrams_out_per_s), (400.0, 600.0));
        assert_eq!(total.bytes_in_per_s, 40_000.0);
        assert_eq!((total.inputs_percent(), total.snapshots_percent()), (99.9, 100.0));
        let server = report.server.as_ref().expect("its usage is known");
        assert_eq!(server.core_percent, 0.5, "10 ms in 2 s");
        assert_eq!(server.cpu_us_per_datagram, 5.0, "10 ms for 2000");
        assert_eq!(server.cpu_us_per_player_s, 250.0, "10 ms for 20 players in 2 s");
        assert_eq!(server.datagrams_per_s_core, 200_000.0);
        assert_eq!(report.swarm_core_percent, 25.0, "half a second of two");
        assert!(report.is_clean());
    }

    #[test]
    fn quantiles_of_a_known_distribution() {
        let quantiles = Report::new(&outcome(), None, None).total.rtt;
        // Three digits are kept, and a bucket's highest value is told.
        assert_eq!(
            [quantiles.p50_us, quantiles.p99_us, quantiles.p999_us].map(|us| us / 1000),
            [500, 990, 999]
        );
        assert!((1_000_000..1_001_000).contains(&quantiles.max_us));
    }

    #[test]
    fn a_fault_or_a_missing_player_is_not_clean() {
        let is_clean =
            |share| Report::new(&outcome_of(vec![(Protocol::Aegis, share)]), None, None).is_clean();
        assert!(is_clean(share()));
        let mut faulty = share();
        faulty.tally.fault(Fault::Lost);
        assert!(!is_clean(faulty));
        assert!(!is_clean(Share { players: 21, ..share() }));
        assert!(!is_clean(Share { playing_first: 19, ..share() }));
    }

    /// Two protocols: the sum, each of them, and in the text a line for each.
    #[test]
    fn protocols_are_told_apart() {
        let mut faulty = share();
        faulty.tally.fault(Fault::Lost);
        let outcome = outcome_of(vec![(Protocol::Aegis, share()), (Protocol::Rtype, faulty)]);
        let report = Report::new(&outcome, None, None);
        assert_eq!((report.total.players, report.total.inputs_acked), (40, 1998));
        assert!(!report.is_clean());
        let json = report.to_json();
        assert!(json.contains(r#""protocols":{"aegis":{"players":20,"#), "{json}");
        assert!(
            json.contains(r#""faults":{"lost":1}}},"#) || json.ends_with(r#""faults":{"lost":1}}}}"#),
            "{json}"
        );
        let text = report.to_string();
        for line in [
            "inputs       aegis  999 of 1000 acknowledged (99.900 %)",
            "             rtype  999 of 1000 acknowledged (99.900 %)",
            "faults       aegis  0",
            "             rtype  1, lost 1",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}\n{text}");
        }
    }

    /// A run in which nothing happened gives figures, and JSON that can be read.
    #[test]
    fn nothing_at_all_is_reported_too() {
        let empty = outcome_of(vec![(Protocol::Aegis, Share { players: 1, ..Share::default() })]);
        let usage = Usage { cpu_ns: 0, resident_bytes: 0, resident_bytes_max: 0 };
        let report =
            Report::new(&empty, Some(&usage), Exit::parse("ticks 5 late 4 dropped 3 work_p999_us 2"));
        assert_eq!((report.total.inputs_percent(), report.total.rtt), (100.0, Quantiles::default()));
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
