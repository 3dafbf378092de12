//! Whether everyone in a room knows the same entities, whatever protocol told them.
//!
//! What happens takes its time to reach everyone, so at any moment a few entities are known to some and not to others.
//! None of them may stay so. Only ids are looked at, as the clients have them; the server is not asked.

use tickwire::model::EntityId;

/// Ticks of the server after which everyone must know what one knows, or nobody.
pub const AGREE_TICKS: u32 = 60;

/// One room's counts.
#[derive(Default)]
pub struct Census {
    /// What somebody does not know and somebody else does, sorted by who and what.
    lacks: Vec<Lack>,
    /// Entities that everyone knew at the last count.
    pub alike: u64,
    /// Entities that some knew then, and others not.
    pub under_way: u64,
    /// Entities that somebody went on not to know while somebody else did.
    pub differed: u64,
}

/// An entity that one member does not know.
#[derive(Clone, Copy)]
struct Lack {
    member: usize,
    id: EntityId,
    /// Newest tick that anybody had heard of when this was first seen.
    since: u32,
    is_counted: bool,
}

impl Census {
    /// Counts what every member knows at a moment in which all of them have heard of tick `oldest`, and none of a later
    /// one than `newest`. Sorts the lists.
    pub fn count(&mut self, oldest: u32, newest: u32, known: &mut [Vec<EntityId>]) {
        let mut all: Vec<EntityId> = known.iter().flatten().copied().collect();
        all.sort_unstable();
        all.dedup();
        known.iter_mut().for_each(|ids| ids.sort_unstable());
        let mut lacks = Vec::new();
        for (member, ids) in known.iter().enumerate() {
            for id in all.iter().copied().filter(|id| ids.binary_search(id).is_err()) {
                let before = self.lacks.binary_search_by_key(&(member, id), |lack| (lack.member, lack.id));
                let lack = before
                    .map_or(Lack { member, id, since: newest, is_counted: false }, |index| self.lacks[index]);
                let is_old = oldest > lack.since.saturating_add(AGREE_TICKS);
                self.differed += u64::from(is_old && !lack.is_counted);
                lacks.push(Lack { is_counted: is_old, ..lack });
            }
        }
        let mut lacked: Vec<EntityId> = lacks.iter().map(|lack| lack.id).collect();
        lacked.sort_unstable();
        lacked.dedup();
        self.under_way = lacked.len() as u64;
        self.alike = all.len() as u64 - self.under_way;
        self.lacks = lacks;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(census: &mut Census, tick: u32, known: &[&[u32]]) -> (u64, u64, u64) {
        let mut known: Vec<Vec<EntityId>> =
            known.iter().map(|ids| ids.iter().map(|&id| EntityId(id)).collect()).collect();
        census.count(tick, tick, &mut known);
        (census.alike, census.under_way, census.differed)
    }

    #[test]
    fn the_same_in_any_order_is_alike() {
        let mut census = Census::default();
        for tick in [0, AGREE_TICKS + 1, 3 * AGREE_TICKS] {
            assert_eq!(counted(&mut census, tick, &[&[1, 2, 3], &[3, 2, 1]]), (3, 0, 0));
        }
    }

    /// What one does not know is given time, and is counted once when that is over.
    #[test]
    fn what_stays_unknown_differs_once() {
        let mut census = Census::default();
        for (tick, differed) in [(5, 0), (5 + AGREE_TICKS, 0), (6 + AGREE_TICKS, 1), (9 * AGREE_TICKS, 1)] {
            assert_eq!(counted(&mut census, tick, &[&[1, 2], &[1], &[1, 2]]), (1, 1, differed), "{tick}");
        }
        // One that has it in the end, and another that has it for too long.
        let tick = 10 * AGREE_TICKS;
        assert_eq!(counted(&mut census, tick, &[&[1, 2, 3], &[1, 2], &[1, 2]]), (2, 1, 1));
        assert_eq!(counted(&mut census, tick + 1 + AGREE_TICKS, &[&[1, 2, 3], &[1, 2], &[1, 2]]), (2, 1, 3));
    }

    /// A moment in which they agree begins the time anew.
    #[test]
    fn what_is_always_under_way_does_not_differ() {
        let mut census = Census::default();
        for beat in 0..20 {
            counted(&mut census, beat * 40, if beat % 2 == 0 { &[&[1], &[]] } else { &[&[1], &[1]] });
        }
        assert_eq!(census.differed, 0);
    }

    /// Who has heard nothing for a while is not late: the ticks that count are those that all have heard of.
    #[test]
    fn who_is_behind_is_given_time() {
        let mut census = Census::default();
        let count = |census: &mut Census, oldest, newest| {
            census.count(oldest, newest, &mut [vec![EntityId(1)], vec![]]);
            census.differed
        };
        assert_eq!(count(&mut census, 5, 300), 0);
        assert_eq!(count(&mut census, 300 + AGREE_TICKS, 900), 0);
        assert_eq!(count(&mut census, 301 + AGREE_TICKS, 900), 1);
    }
}
