//! Sans-IO clients: what bots, tools, tests and other people's games build on. They share the wire and the session
//! parts with the server, and know nothing of it.

pub mod aegis;
pub mod bot;
pub mod fignet;
pub mod interpolation;
pub mod received;
pub mod rtype;

use crate::time::{Duration, Instant};

/// Whether the beat of `due` may come at `now`: up to half an interval early, so that a caller who comes every frame, now a
/// little early and now a little late, meets every beat once.
fn is_beat(due: Instant, interval: Duration, now: Instant) -> bool {
    now + interval.per(2) >= due
}

/// The beat that follows the one of `due`, which came at `now`, of those that come every `interval`: who comes late leaves out
/// what was missed and stays in step.
fn next_beat(due: Instant, interval: Duration, now: Instant) -> Instant {
    let missed = (now.since(due) + interval.per(2)).as_nanos() / interval.as_nanos().max(1);
    due + interval.times(missed + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(10);

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn beats_that_were_missed_are_left_out() {
        for (now, next) in [(95, 110), (100, 110), (104, 110), (105, 120), (114, 120), (115, 130), (199, 210)]
        {
            assert!(is_beat(at(100), INTERVAL, at(now)));
            assert_eq!(next_beat(at(100), INTERVAL, at(now)), at(next), "{now}");
            assert!(!is_beat(at(next), INTERVAL, at(now)), "one at a time");
        }
        assert!(!is_beat(at(100), INTERVAL, at(94)));
    }

    /// Frames that come up to 4 ms early or late meet every beat once.
    #[test]
    fn every_frame_is_a_beat() {
        let mut due = at(1000);
        for frame in 0..1000u64 {
            let now =
                at(1000 + frame * 10 + [0, 4, 1, 3][frame as usize % 4] - [4, 0, 2, 1][frame as usize % 4]);
            assert!(is_beat(due, INTERVAL, now), "frame {frame}");
            due = next_beat(due, INTERVAL, now);
        }
        assert_eq!(due, at(1000 + 10_000));
    }
}
