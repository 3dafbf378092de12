//! Looks for the most players that a server carries: doubles until it does not, then halves the gap.

use crate::report::Report;
use crate::server::Exit;

/// A tick's time at 60 Hz, in microseconds.
pub const BUDGET_US: u64 = 16_667;

/// Ticks that may be late, in 100 000: 0.1 %.
const LATE_PER_100_000: u64 = 100;

/// Why a number of players is too many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// The server's ticks began late, or were dropped.
    LateTicks,
    /// The work of a tick takes more than half of its time.
    TickWork,
    /// Players were lost, or something else went wrong.
    Faults,
    /// The swarm itself could not keep up: this is no word about the server.
    Swarm,
}

impl Limit {
    /// In a few words.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::LateTicks => "late ticks",
            Self::TickWork => "tick work above half of the budget",
            Self::Faults => "players or datagrams lost",
            Self::Swarm => "the swarm could not keep up",
        }
    }
}

/// Why a run shows that there were too many players; `None` when the server carried them.
pub fn judge(report: &Report, exit: &Exit) -> Option<Limit> {
    if exit.dropped > 0 || exit.late * 100_000 > exit.ticks * LATE_PER_100_000 {
        Some(Limit::LateTicks)
    } else if exit.work_p999_us > BUDGET_US / 2 {
        Some(Limit::TickWork)
    } else if report.ticks_missed > 0 {
        Some(Limit::Swarm)
    } else if !report.is_clean() {
        Some(Limit::Faults)
    } else {
        None
    }
}

/// The search: asks for numbers of players until the answer is close enough.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Search {
    /// The most that were carried.
    carried: usize,
    /// The fewest that were not.
    failed: Option<usize>,
    first: usize,
    most: usize,
    step: usize,
}

impl Search {
    /// Begins at `first`, ends at `most`, and is content when the answer is known to within `step`.
    ///
    /// # Panics
    /// When `first` is 0 or above `most`, or `step` is 0.
    pub fn new(first: usize, most: usize, step: usize) -> Self {
        assert!((1..=most).contains(&first) && step > 0, "nothing to search");
        Self { carried: 0, failed: None, first, most, step }
    }

    /// How many to try next, or `None` when it is over.
    pub fn next(&self) -> Option<usize> {
        match self.failed {
            None if self.carried == 0 => Some(self.first),
            None => (self.carried < self.most).then(|| (self.carried * 2).min(self.most)),
            Some(failed) => {
                let middle = usize::midpoint(self.carried, failed);
                (failed - self.carried > self.step && middle > self.carried).then_some(middle)
            }
        }
    }

    /// The answer to [`Search::next`].
    pub fn tell(&mut self, players: usize, is_carried: bool) {
        if is_carried {
            self.carried = self.carried.max(players);
        } else {
            self.failed = Some(self.failed.map_or(players, |failed| failed.min(players)));
        }
    }

    /// The most players that were carried; 0 when none were.
    pub fn carried(&self) -> usize {
        self.carried
    }
}

#[cfg(test)]
mod tests {
    use tickwire::time::Duration;

    use super::*;
    use crate::player::Protocol;
    use crate::swarm::{Outcome, Share};
    use crate::tally::Fault;

    const FINE: Exit = Exit { ticks: 1000, late: 1, dropped: 0, work_p999_us: 8333 };

    fn share() -> Share {
        Share { players: 4, playing_first: 4, playing_last: 4, ..Share::default() }
    }

    fn outcome_of(share: Share) -> Outcome {
        let measured_for = Duration::from_secs(1);
        Outcome { shares: vec![(Protocol::Aegis, share)], ticks_missed: 0, measured_for, cpu_ns: 0 }
    }

    fn judged(outcome: &Outcome, exit: Exit) -> Option<Limit> {
        judge(&Report::new(outcome, None, Some(exit)), &exit)
    }

    #[test]
    fn each_limit_is_told_and_the_last_that_passes_passes() {
        assert_eq!(judged(&outcome_of(share()), FINE), None, "0.1 % late, and half of the budget");
        assert_eq!(judged(&outcome_of(share()), Exit { ticks: 999, ..FINE }), Some(Limit::LateTicks));
        assert_eq!(judged(&outcome_of(share()), Exit { dropped: 1, ..FINE }), Some(Limit::LateTicks));
        assert_eq!(judged(&outcome_of(share()), Exit { work_p999_us: 8334, ..FINE }), Some(Limit::TickWork));
        assert_eq!(judged(&outcome_of(Share { playing_last: 3, ..share() }), FINE), Some(Limit::Faults));
        let mut faulty = share();
        faulty.tally.fault(Fault::Lost);
        let mut faulty = outcome_of(faulty);
        assert_eq!(judged(&faulty, FINE), Some(Limit::Faults));
        faulty.ticks_missed = 1;
        assert_eq!(judged(&faulty, FINE), Some(Limit::Swarm), "whose fault it is cannot be told");
    }

    fn search(first: usize, most: usize, step: usize, capacity: usize) -> (usize, Vec<usize>) {
        let (mut search, mut tried) = (Search::new(first, most, step), Vec::new());
        while let Some(players) = search.next() {
            tried.push(players);
            search.tell(players, players <= capacity);
        }
        (search.carried(), tried)
    }

    #[test]
    fn doubles_and_then_halves_the_gap() {
        assert_eq!(search(64, 4096, 32, 300), (288, vec![64, 128, 256, 512, 384, 320, 288]));
        assert_eq!(search(64, 4096, 32, 5000), (4096, vec![64, 128, 256, 512, 1024, 2048, 4096]));
        assert_eq!(search(64, 100, 1, 70).0, 70);
    }

    #[test]
    fn fewer_than_the_first_are_found_too() {
        assert_eq!(search(64, 4096, 4, 10).0, 8);
        assert_eq!(search(64, 4096, 1, 0).0, 0);
    }

    /// However the numbers lie, it ends, within the step of the truth.
    #[test]
    fn ends_close_to_the_truth() {
        for capacity in 0..600 {
            let (found, tried) = search(50, 500, 10, capacity);
            assert!(tried.len() < 20, "{tried:?}");
            assert!(found <= capacity && found + 10 >= capacity.min(500), "{found} of {capacity}");
        }
    }
}
