//! What is shown while the bots play.

use std::io::{self, IsTerminal as _};
use std::time;

use indicatif::{ProgressBar, ProgressStyle};

use super::Match;
use super::guest::{Counts, Standing};

/// Seconds between two progress lines where there is no terminal.
const PROGRESS_INTERVAL_S: u64 = 5;

/// The live line: a bar on a terminal, a line every few seconds elsewhere.
pub struct Progress {
    bar: Option<ProgressBar>,
    second: u64,
    shown: Totals,
}

/// What was counted up to a second of play.
#[derive(Clone, Copy, Default)]
struct Totals {
    second: u64,
    datagrams: u64,
    snapshots: u64,
}

impl Progress {
    /// A line for a play of so many seconds.
    pub fn new(seconds: u64) -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(seconds);
            if let Ok(style) = ProgressStyle::with_template("{bar:20} {pos:>3}/{len} s  {wide_msg}") {
                bar.set_style(style);
            }
            bar
        });
        Self { bar, second: 0, shown: Totals::default() }
    }

    /// Whether another second is over since this was asked.
    pub fn is_second_over(&mut self, elapsed: time::Duration) -> bool {
        std::mem::replace(&mut self.second, elapsed.as_secs()) != self.second
    }

    /// Shows the second that is over, if it is one to be shown.
    pub fn show(&mut self, game: &Match) {
        if self.bar.is_none() && !self.second.is_multiple_of(PROGRESS_INTERVAL_S) {
            return;
        }
        let guests = || game.players.iter().map(|player| &player.guest);
        let mut counts = Counts::default();
        game.players.iter().for_each(|player| counts += player.guest.counts().since_start(&player.before));
        let totals = Totals {
            second: self.second,
            datagrams: counts.datagrams_in + counts.datagrams_out,
            snapshots: counts.snapshots,
        };
        let seconds = (totals.second - self.shown.second).max(1);
        let playing = guests().filter(|guest| guest.standing() == Standing::Playing).count();
        let tick = guests().filter_map(|guest| guest.tick()).max();
        let rtts = guests().filter_map(|guest| guest.rtt());
        let message = format!(
            "{playing} playing, tick {}, {} datagrams/s, {} snapshots/s, RTT {:.0} ms",
            tick.unwrap_or(0),
            (totals.datagrams - self.shown.datagrams) / seconds,
            (totals.snapshots - self.shown.snapshots) / seconds,
            rtts.max().map_or(0.0, |rtt| rtt.as_micros() as f64 / 1000.0),
        );
        self.shown = totals;
        match &self.bar {
            Some(bar) => {
                bar.set_message(message);
                bar.set_position(self.second);
            }
            None => eprintln!("{:>3} s  {message}", self.second),
        }
    }

    /// Takes the line away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
