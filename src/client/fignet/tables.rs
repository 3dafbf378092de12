//! The snapshots that later ones may build on.

use crate::storage::is_newer;
use crate::wire::fignet::snapshot::{Head, Table, decode};

/// A fixed number of snapshots, the newest and those before it.
#[derive(Debug)]
pub(super) struct Tables {
    slots: Box<[Slot]>,
    /// Place of the newest, and of the last that came.
    newest: Option<usize>,
    last: Option<usize>,
}

#[derive(Debug)]
struct Slot {
    is_used: bool,
    table: Table,
}

/// What a snapshot was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Taken {
    pub(super) is_delta: bool,
    pub(super) is_late: bool,
}

impl Tables {
    /// # Panics
    /// When fewer than two are to be kept: a snapshot and what it builds on.
    pub(super) fn new(kept: usize, entities_max: usize) -> Self {
        assert!(kept >= 2, "a snapshot needs another one to build on");
        Self {
            slots: (0..kept).map(|_| Slot { is_used: false, table: Table::new(entities_max) }).collect(),
            newest: None,
            last: None,
        }
    }

    /// Takes in a plain message. `None` when it is malformed, older than everything kept, seen before, or builds on what
    /// is not here: then nothing changed that anybody builds on.
    pub(super) fn take(&mut self, message: &[u8]) -> Option<Taken> {
        let head = Head::parse(message).ok()?;
        let is_late = self.newest().is_some_and(|newest| !is_newer(head.sequence, newest.sequence()));
        let (at, baseline) = (self.place_for(head.sequence)?, head.baseline());
        let from = match baseline {
            Some(sequence) => Some(self.find(sequence)?),
            None => None,
        };
        if from == Some(at) {
            return None;
        }
        self.slots[at].is_used = false;
        let result = match from {
            Some(from) => {
                let [out, from] = self.slots.get_disjoint_mut([at, from]).ok()?;
                decode(message, Some(&from.table), &mut out.table)
            }
            None => decode(message, None, &mut self.slots[at].table),
        };
        result.ok()?;
        self.slots[at].is_used = true;
        self.last = Some(at);
        if !is_late {
            self.newest = Some(at);
        }
        Some(Taken { is_delta: baseline.is_some(), is_late })
    }

    pub(super) fn newest(&self) -> Option<&Table> {
        self.newest.map(|at| &self.slots[at].table)
    }

    pub(super) fn last(&self) -> Option<&Table> {
        self.last.map(|at| &self.slots[at].table)
    }

    fn find(&self, sequence: u16) -> Option<usize> {
        self.slots.iter().position(|slot| slot.is_used && slot.table.sequence() == sequence)
    }

    /// A free place, or that of the oldest, if `sequence` is newer than that and not here already.
    fn place_for(&self, sequence: u16) -> Option<usize> {
        if self.find(sequence).is_some() {
            return None;
        }
        if let Some(free) = self.slots.iter().position(|slot| !slot.is_used) {
            return Some(free);
        }
        let newest = self.newest()?.sequence();
        let age = |at: &usize| newest.wrapping_sub(self.slots[*at].table.sequence());
        let oldest = (0..self.slots.len()).max_by_key(age)?;
        is_newer(sequence, self.slots[oldest].table.sequence()).then_some(oldest)
    }
}
