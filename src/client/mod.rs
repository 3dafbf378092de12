//! Sans-IO clients: what bots, tools, tests and other people's games build on. They share the wire and the session
//! parts with the server, and know nothing of it.

pub mod aegis;
pub mod bot;
pub mod fignet;
pub mod interpolation;
pub mod received;
pub mod rtype;

use crate::time::{Duration, Instant};

/// The first beat after `now` of those that come every `interval` from `due` on: who comes late leaves out what was missed
/// and stays in step.
fn next_beat(due: Instant, interval: Duration, now: Instant) -> Instant {
    let missed = now.since(due).as_nanos() / interval.as_nanos().max(1);
    due + interval.times(missed + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beats_that_were_missed_are_left_out() {
        let (at, interval) = (Instant::from_millis, Duration::from_millis(10));
        for (now, next) in [(100, 110), (105, 110), (109, 110), (110, 120), (111, 120), (199, 200), (50, 110)]
        {
            assert_eq!(next_beat(at(100), interval, at(now)), at(next), "{now}");
        }
    }
}
