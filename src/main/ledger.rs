//! The account of what a room's players were told: the same events for everyone, each once.
//!
//! It is kept apart from the clients and their counters on purpose, and from the server: it sees only what was handed
//! over. What has been compared is forgotten, so that an hour's play takes no more memory than a minute's.

use tickwire::model::PlayerId;
use tickwire::wire::aegis::event::{CONTENT_BYTES_MAX, Event};

/// Ticks after the last player joined in which events are not compared: newcomers are still being told of what was
/// there.
pub const NEWCOMER_TICKS: u32 = 60;

/// One room's account.
pub struct Ledger {
    members: Vec<Member>,
    /// Events of earlier ticks were compared, or are not to be.
    compared_to: u32,
    /// Events found the same for everyone.
    pub agreed: u64,
    /// Events that somebody was told of more than once.
    pub twice: u64,
    /// Events that somebody was never told of.
    pub missed: u64,
    /// Events that came after those of their tick were compared.
    pub late: u64,
}

/// What one player was told.
#[derive(Default)]
struct Member {
    joined: Option<u32>,
    told: Vec<Entry>,
}

/// An event's tick, and its bytes, filled up with zeros.
type Entry = (u32, [u8; CONTENT_BYTES_MAX]);

impl Ledger {
    /// An empty account of `members` players.
    pub fn new(members: usize) -> Self {
        Self {
            members: (0..members).map(|_| Member::default()).collect(),
            compared_to: 0,
            agreed: 0,
            twice: 0,
            missed: 0,
            late: 0,
        }
    }

    /// The player `member`, who is `own` in the room, was told of `event`.
    pub fn note(&mut self, member: usize, own: Option<PlayerId>, event: &Event) {
        let tick = event.tick();
        if matches!(event, Event::PlayerJoined { player, .. } if Some(*player) == own) {
            self.members[member].joined.get_or_insert(tick);
        }
        match self.start() {
            Some(start) if (start..self.compared_to).contains(&tick) => self.late += 1,
            _ => {
                let mut content = [0; CONTENT_BYTES_MAX];
                event.emit(&mut content);
                self.members[member].told.push((tick, content));
            }
        }
    }

    /// Compares, and forgets, the events of ticks before `end`, all of which must have arrived by now. Nothing happens
    /// before everyone has joined.
    pub fn compare(&mut self, end: u32) {
        let Some(start) = self.start() else { return };
        if end <= self.compared_to {
            return;
        }
        self.compared_to = end;
        let mut told: Vec<Vec<Entry>> =
            self.members.iter_mut().map(|member| member.take(start, end)).collect();
        for entries in &mut told {
            let before = entries.len();
            entries.sort_unstable();
            entries.dedup();
            self.twice += (before - entries.len()) as u64;
        }
        let mut all = told.concat();
        all.sort_unstable();
        all.dedup();
        self.missed += told.iter().map(|entries| (all.len() - entries.len()) as u64).sum::<u64>();
        let agreed =
            all.iter().filter(|entry| told.iter().all(|entries| entries.binary_search(entry).is_ok()));
        self.agreed += agreed.count() as u64;
    }

    /// The first tick to compare, once everyone has joined.
    fn start(&self) -> Option<u32> {
        let joined: Option<Vec<u32>> = self.members.iter().map(|member| member.joined).collect();
        joined?.into_iter().max().map(|tick| tick.saturating_add(NEWCOMER_TICKS))
    }
}

impl Member {
    /// Takes out everything before `end`; gives what is not before `start`.
    fn take(&mut self, start: u32, end: u32) -> Vec<Entry> {
        let taken = self.told.extract_if(.., |(tick, _)| *tick < end);
        taken.filter(|(tick, _)| *tick >= start).collect()
    }
}

#[cfg(test)]
mod tests {
    use tickwire::model::{LeaveReason, Name};

    use super::*;

    const JOINED: u32 = 10;
    const START: u32 = JOINED + NEWCOMER_TICKS;

    fn slot(number: u8) -> PlayerId {
        PlayerId::new(number).expect("a slot")
    }

    fn at(tick: u32) -> Event {
        Event::PlayerLeft { tick, player: slot(3), reason: LeaveReason::Left }
    }

    /// Two players, who joined at tick 10 and before.
    fn ledger() -> Ledger {
        let mut ledger = Ledger::new(2);
        let name = Name::new(b"bot").expect("a name");
        for member in 0..2 {
            for (player, tick) in [(0, JOINED - 5), (1, JOINED)] {
                let event = Event::PlayerJoined { tick, player: slot(player), name };
                ledger.note(member, Some(slot(member as u8)), &event);
            }
        }
        ledger
    }

    fn counts(ledger: &Ledger) -> (u64, u64, u64, u64) {
        (ledger.agreed, ledger.twice, ledger.missed, ledger.late)
    }

    #[test]
    fn the_same_for_everyone_in_any_order_agrees() {
        let mut ledger = ledger();
        [START, START + 1, START + 9].iter().for_each(|&tick| ledger.note(0, None, &at(tick)));
        [START + 9, START + 1, START].iter().for_each(|&tick| ledger.note(1, None, &at(tick)));
        ledger.compare(START + 5);
        assert_eq!(counts(&ledger), (2, 0, 0, 0));
        ledger.compare(START + 10);
        assert_eq!(counts(&ledger), (3, 0, 0, 0));
        assert!(ledger.members.iter().all(|member| member.told.is_empty()), "what was compared is forgotten");
    }

    #[test]
    fn what_one_was_not_told_of_is_missed() {
        let mut ledger = ledger();
        ledger.note(1, None, &at(START));
        ledger.compare(START + 1);
        assert_eq!(counts(&ledger), (0, 0, 1, 0));
    }

    #[test]
    fn what_came_twice_is_seen() {
        let mut ledger = ledger();
        [0, 1, 1].iter().for_each(|&member| ledger.note(member, None, &at(START)));
        ledger.compare(START + 1);
        assert_eq!(counts(&ledger), (1, 1, 0, 0));
        // Even when the rest is forgotten already.
        ledger.note(0, None, &at(START));
        assert_eq!(counts(&ledger), (1, 1, 0, 1));
    }

    #[test]
    fn newcomers_are_given_time() {
        let mut ledger = ledger();
        ledger.note(1, None, &at(START - 1));
        ledger.compare(START);
        assert_eq!(counts(&ledger), (0, 0, 0, 0));
        let mut unjoined = Ledger::new(2);
        unjoined.note(0, None, &at(START));
        unjoined.compare(START + 1);
        assert_eq!(counts(&unjoined), (0, 0, 0, 0));
    }
}
