//! Events that must arrive: in flight until a datagram that carried them is acknowledged, and handed over once each.
//! Implements Aegis 5.3.

use crate::limits::EVENTS_IN_FLIGHT_MAX as IN_FLIGHT_MAX;
use crate::storage::{Ring, is_newer};
use crate::time::{Duration, Instant};

/// An event is resent when a datagram sent this many later than its last carrier is acknowledged and it is not.
const OVERTAKEN_BY: u16 = 3;

/// Resend times double at most this often.
const BACKOFF_MAX: u8 = 3;

/// The events that one datagram carried.
#[derive(Clone, Copy, Default, Debug)]
pub struct Carried {
    /// The id that bit 0 of the mask stands for.
    first: u16,
    mask: [u64; IN_FLIGHT_MAX / 64],
}

impl Carried {
    /// No events.
    pub const NONE: Self = Self { first: 0, mask: [0; IN_FLIGHT_MAX / 64] };

    /// Whether it carried none.
    pub fn is_empty(&self) -> bool {
        self.mask == [0; IN_FLIGHT_MAX / 64]
    }

    fn add(&mut self, id: u16) {
        let offset = usize::from(id.wrapping_sub(self.first));
        self.mask[offset / 64] |= 1 << (offset % 64);
    }
}

/// More than [`EVENTS_IN_FLIGHT_MAX`](IN_FLIGHT_MAX) events in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooManyInFlight;

/// The sender of events to one peer. `R` refers to an event's content, wherever that is kept.
#[derive(Debug)]
pub struct EventSender<R> {
    ring: Ring<InFlight<R>>,
    /// Id of the ring's oldest.
    first: u16,
    /// No event is to be resent before this.
    resend_due: Instant,
    pending: u16,
    /// Of the pending ones, those never sent.
    unsent: u16,
}

#[derive(Clone, Copy, Debug)]
struct InFlight<R> {
    reference: R,
    due: Instant,
    carrier: u16,
    sends: u8,
    done: bool,
}

impl<R: Copy> EventSender<R> {
    /// Nothing in flight; the first event gets id 0.
    pub fn new(filler: R) -> Self {
        let filler = InFlight { reference: filler, due: Instant::ZERO, carrier: 0, sends: 0, done: true };
        Self {
            ring: Ring::new(IN_FLIGHT_MAX, filler),
            first: 0,
            resend_due: Instant::MAX,
            pending: 0,
            unsent: 0,
        }
    }

    /// Forgets everything: as new. `release` is given each reference still held.
    pub fn reset(&mut self, mut release: impl FnMut(R)) {
        self.ring.iter().filter(|event| !event.done).for_each(|event| release(event.reference));
        self.ring.clear();
        self.first = 0;
        self.resend_due = Instant::MAX;
        self.pending = 0;
        self.unsent = 0;
    }

    /// Puts an event on its way: it goes with the next [`EventSender::write_due`].
    pub fn push(&mut self, reference: R) -> Result<(), TooManyInFlight> {
        let event = InFlight { reference, due: Instant::ZERO, carrier: 0, sends: 0, done: false };
        self.ring.push(event).map_err(|_| TooManyInFlight)?;
        self.pending += 1;
        self.unsent += 1;
        Ok(())
    }

    /// How many events are not done.
    pub fn pending(&self) -> usize {
        usize::from(self.pending)
    }

    /// How many more events may be pushed.
    pub fn room(&self) -> usize {
        IN_FLIGHT_MAX - self.ring.len()
    }

    /// How many of these were never sent.
    pub fn unsent(&self) -> usize {
        usize::from(self.unsent)
    }

    /// Whether events wait to be sent for the first time.
    pub fn has_unsent(&self) -> bool {
        self.unsent > 0
    }

    /// When an event is next to be resent, if any was sent and is pending. Never late; early at most once per event.
    pub fn next_resend(&self) -> Option<Instant> {
        (self.pending > self.unsent).then_some(self.resend_due)
    }

    /// Offers each event due at `now` to `write`, oldest first, until `write` has no room for one (returns false).
    /// Those written travel in the datagram of `sequence` and are next due after `resend`, doubled for every earlier
    /// send. Returns what the datagram carries.
    pub fn write_due(
        &mut self,
        now: Instant,
        sequence: u16,
        resend: Duration,
        write: impl FnMut(u16, R) -> bool,
    ) -> Carried {
        self.write(now, sequence, resend, false, write)
    }

    /// As [`EventSender::write_due`], but only those that were never sent, due or not.
    pub fn write_unsent(
        &mut self,
        now: Instant,
        sequence: u16,
        resend: Duration,
        write: impl FnMut(u16, R) -> bool,
    ) -> Carried {
        self.write(now, sequence, resend, true, write)
    }

    fn write(
        &mut self,
        now: Instant,
        sequence: u16,
        resend: Duration,
        only_unsent: bool,
        mut write: impl FnMut(u16, R) -> bool,
    ) -> Carried {
        let mut carried = Carried { first: self.first, ..Carried::NONE };
        let mut resend_due = Instant::MAX;
        let mut is_full = false;
        for index in 0..self.ring.len() {
            let id = self.first.wrapping_add(index as u16);
            let Some(event) = self.ring.get_mut(index) else { break };
            if event.done {
                continue;
            }
            let is_wanted = event.due <= now && (event.sends == 0 || !only_unsent);
            if !is_full && is_wanted {
                is_full = !write(id, event.reference);
                if !is_full {
                    self.unsent -= u16::from(event.sends == 0);
                    event.due = now + resend.times(1 << event.sends.min(BACKOFF_MAX));
                    event.sends = event.sends.saturating_add(1);
                    event.carrier = sequence;
                    carried.add(id);
                }
            }
            if event.sends > 0 {
                resend_due = resend_due.min(event.due);
            }
        }
        self.resend_due = resend_due;
        carried
    }

    /// Settles the events of an acknowledged datagram; `release` is given each reference that is done with.
    pub fn settle(&mut self, carried: &Carried, mut release: impl FnMut(R)) {
        for (word_index, &word) in carried.mask.iter().enumerate() {
            let mut word = word;
            while word != 0 {
                let offset = word_index as u16 * 64 + word.trailing_zeros() as u16;
                word &= word - 1;
                let index = carried.first.wrapping_add(offset).wrapping_sub(self.first);
                let Some(event) = self.ring.get_mut(usize::from(index)) else { continue };
                if !event.done {
                    event.done = true;
                    self.pending -= 1;
                    release(event.reference);
                }
            }
        }
        self.drop_done();
    }

    /// Gives up every event that was sent, acknowledged or not: for peers that do not say what arrives.
    pub fn give_up_sent(&mut self, mut release: impl FnMut(R)) {
        for index in 0..self.ring.len() {
            let Some(event) = self.ring.get_mut(index) else { break };
            if !event.done && event.sends > 0 {
                event.done = true;
                self.pending -= 1;
                release(event.reference);
            }
        }
        self.drop_done();
    }

    fn drop_done(&mut self) {
        while self.ring.get(0).is_some_and(|event| event.done) {
            self.ring.pop();
            self.first = self.first.wrapping_add(1);
        }
    }

    /// Makes due the events whose last carrier was overtaken: a datagram sent three or more later is acknowledged.
    pub fn overtake(&mut self, newest_acked: u16) {
        if self.pending == 0 {
            return;
        }
        for index in 0..self.ring.len() {
            let Some(event) = self.ring.get_mut(index) else { break };
            let overtaken = is_newer(newest_acked, event.carrier.wrapping_add(OVERTAKEN_BY - 1));
            if !event.done && event.sends > 0 && overtaken {
                event.due = Instant::ZERO;
                self.resend_due = Instant::ZERO;
            }
        }
    }
}

/// The receiver of a peer's events: which ids were handed over already.
#[derive(Clone, Copy, Debug)]
pub struct EventReceiver {
    newest: u16,
    any: bool,
    /// Bit n: id `newest` − n was received.
    seen: [u64; IN_FLIGHT_MAX / 64],
}

impl EventReceiver {
    /// Nothing received; ids start at 0.
    pub const fn new() -> Self {
        Self { newest: u16::MAX, any: false, seen: [0; IN_FLIGHT_MAX / 64] }
    }

    /// Whether the event of this id is to be handed over now: true once per id, false for one 256 or more behind the
    /// newest.
    pub fn accept(&mut self, id: u16) -> bool {
        if is_newer(id, self.newest) {
            self.shift(usize::from(id.wrapping_sub(self.newest)));
            self.newest = id;
            self.any = true;
            self.seen[0] |= 1;
            return true;
        }
        let behind = usize::from(self.newest.wrapping_sub(id));
        if !self.any || behind >= IN_FLIGHT_MAX {
            return false;
        }
        let bit = 1 << (behind % 64);
        let is_first = self.seen[behind / 64] & bit == 0;
        self.seen[behind / 64] |= bit;
        is_first
    }

    fn shift(&mut self, by: usize) {
        let words = by / 64;
        let bits = by % 64;
        for index in (0..self.seen.len()).rev() {
            let high = index.checked_sub(words).map_or(0, |from| self.seen[from] << bits);
            let low = match index.checked_sub(words + 1) {
                Some(from) if bits > 0 => self.seen[from] >> (64 - bits),
                _ => 0,
            };
            self.seen[index] = high | low;
        }
    }
}

impl Default for EventReceiver {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    const RESEND: Duration = Duration::from_millis(100);

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn send(sender: &mut EventSender<u32>, now: Instant, sequence: u16) -> (Vec<u16>, Carried) {
        let mut ids = Vec::new();
        let carried = sender.write_due(now, sequence, RESEND, |id, _| {
            ids.push(id);
            true
        });
        (ids, carried)
    }

    #[test]
    fn resends_after_the_resend_time_doubled_each_time_up_to_a_cap() {
        let mut sender = EventSender::new(0);
        sender.push(7).unwrap();
        assert_eq!((sender.has_unsent(), sender.next_resend()), (true, None));
        let mut now = at(1000);
        for doublings in [0, 1, 2, 3, 3, 3] {
            assert_eq!(send(&mut sender, now, 0).0, [0]);
            assert_eq!(send(&mut sender, now, 1).0, [], "not due again at once");
            let due = now + RESEND.times(1 << doublings);
            assert_eq!(sender.next_resend(), Some(due));
            now = due;
        }
    }

    #[test]
    fn resends_when_overtaken_by_three() {
        let mut sender = EventSender::new(0);
        sender.push(1).unwrap();
        send(&mut sender, at(0), 10);
        for newest in [9, 10, 11, 12] {
            sender.overtake(newest);
            assert_eq!(send(&mut sender, at(1), 20).0, [], "{newest}");
        }
        sender.overtake(13);
        assert_eq!(send(&mut sender, at(1), 20).0, [0]);
    }

    #[test]
    fn settles_by_any_carrier_and_in_any_order() {
        let mut sender = EventSender::new(0);
        (0..3).for_each(|event| sender.push(event).unwrap());
        let (_, first) = send(&mut sender, at(0), 0);
        sender.push(3).unwrap();
        let (ids, second) = send(&mut sender, at(1), 1);
        assert_eq!(ids, [3]);
        let mut released = Vec::new();
        sender.settle(&second, |reference| released.push(reference));
        assert_eq!((released.clone(), sender.pending(), sender.room()), (vec![3], 3, 252));
        let (resent, _) = send(&mut sender, at(200), 2);
        assert_eq!(resent, [0, 1, 2]);
        // The first carrier's acknowledgement is late, but it counts.
        sender.settle(&first, |reference| released.push(reference));
        assert_eq!((released.clone(), sender.pending(), sender.room()), (vec![3, 0, 1, 2], 0, 256));
        assert_eq!(sender.next_resend(), None);
        sender.settle(&first, |_| panic!("settled twice"));
    }

    #[test]
    fn what_was_sent_can_be_given_up() {
        let mut sender = EventSender::new(0);
        (0..3).for_each(|event| sender.push(event).unwrap());
        let mut ids = Vec::new();
        let carried = sender.write_unsent(at(0), 0, RESEND, |id, _| {
            ids.push(id);
            ids.len() < 3
        });
        // Only what was never sent, however late.
        sender.write_unsent(at(9000), 1, RESEND, |id, _| {
            ids.push(id);
            false
        });
        assert_eq!((ids, sender.unsent(), sender.pending()), (vec![0, 1, 2, 2], 1, 3));
        let mut released = Vec::new();
        sender.give_up_sent(|reference| released.push(reference));
        assert_eq!((released, sender.unsent(), sender.pending(), sender.room()), (vec![0, 1], 1, 1, 255));
        sender.settle(&carried, |_| panic!("settled what was given up"));
        assert_eq!(send(&mut sender, at(9000), 2).0, [2]);
    }

    #[test]
    fn one_more_than_256_is_refused_and_everything_is_released() {
        let mut sender = EventSender::new(0);
        (0..256).for_each(|event| sender.push(event).unwrap());
        assert_eq!(sender.push(256), Err(TooManyInFlight));
        let mut released = 0;
        sender.reset(|_| released += 1);
        assert_eq!((released, sender.pending(), sender.room()), (256, 0, 256));
    }

    /// Over a lossy link, with ids wrapping: each event arrives exactly once and the sender empties (field case 40).
    #[test]
    fn case_40_once_each_over_loss_and_wraps() {
        let mut rng = Rng::new(40);
        let mut sender = EventSender::new(0u32);
        let mut receiver = EventReceiver::new();
        let mut log = crate::session::acks::SentLog::new(Carried::NONE);
        let mut got: Vec<u32> = Vec::new();
        let (mut pushed, mut delayed) = (0u32, Vec::new());
        for step in 0..60_000u64 {
            if pushed < 100_000 {
                for _ in 0..rng.below(5) {
                    pushed += u32::from(sender.push(pushed).is_ok());
                }
            }
            let mut contents = Vec::new();
            let sequence = log.next_sequence();
            let carried = sender.write_due(at(step * 16), sequence, RESEND, |id, reference| {
                contents.push((id, reference));
                contents.len() < 40
            });
            // The last one offered found no room.
            contents.truncate(carried.mask.iter().map(|word| word.count_ones() as usize).sum());
            log.record(at(step * 16), carried);
            if !rng.chance(3, 10) {
                let copies = 1 + usize::from(rng.chance(1, 10));
                delayed.extend(std::iter::repeat_n((sequence, contents), copies));
            }
            while delayed.len() > 4 {
                let (sequence, contents) = delayed.swap_remove(rng.below(delayed.len() as u32) as usize);
                got.extend(
                    contents.iter().filter(|(id, _)| receiver.accept(*id)).map(|(_, reference)| reference),
                );
                if !rng.chance(3, 10) {
                    log.acknowledge(sequence, 0, |_, sent| sender.settle(&sent.carried, |_| ()));
                    log.newest_acked().into_iter().for_each(|newest| sender.overtake(newest));
                }
            }
        }
        assert!(pushed > 70_000, "ids wrapped: {pushed}");
        assert!(sender.pending() < 5, "{}", sender.pending());
        got.sort_unstable();
        let missing = pushed as usize - got.len();
        assert!(missing <= sender.pending());
        assert!(got.windows(2).all(|pair| pair[0] < pair[1]), "an event was handed over twice");
    }

    #[test]
    fn ids_256_behind_are_ignored() {
        let mut receiver = EventReceiver::new();
        assert!(!receiver.accept(65_535), "ids start at 0");
        assert!(receiver.accept(300));
        assert!(!receiver.accept(44) && receiver.accept(45) && !receiver.accept(45));
        assert!(!receiver.accept(300u16.wrapping_add(32_768)), "neither newer nor near");
        assert!(receiver.accept(300u16.wrapping_add(32_767)));
        assert!(!receiver.accept(300));
    }
}
