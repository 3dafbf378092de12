//! The snapshots that a client applied: baselines for those to come. Implements Aegis 4.8.

use crate::time::Tick;
use crate::wire::aegis::snapshot::{SnapshotError, SnapshotHeader, Table, decode};

/// The last snapshots applied, and one table to decode into.
#[derive(Debug)]
pub(super) struct Snapshots {
    tables: Box<[Slot]>,
    /// Slot of the newest, if any was applied.
    newest: Option<usize>,
    /// Slot that the last [`Snapshots::decode`] filled.
    decoded: usize,
    decoded_delta: bool,
}

#[derive(Debug)]
struct Slot {
    is_applied: bool,
    table: Table,
}

/// Baselines older than this are never referred to, in ticks.
const KEPT_TICKS: u32 = 64;

impl Snapshots {
    pub(super) fn new(entities_max: usize, kept: usize) -> Self {
        // One more than kept: the one being decoded.
        let tables =
            (0..kept + 1).map(|_| Slot { is_applied: false, table: Table::new(entities_max) }).collect();
        Self { tables, newest: None, decoded: 0, decoded_delta: false }
    }

    pub(super) fn newest(&self) -> Option<&Table> {
        self.newest.map(|slot| &self.tables[slot].table)
    }

    pub(super) fn last_applied(&self) -> Option<&Table> {
        let slot = &self.tables[self.decoded];
        slot.is_applied.then_some(&slot.table)
    }

    /// Decodes a snapshot into a spare table. Nothing changes until [`Snapshots::commit`].
    pub(super) fn decode(&mut self, payload: &[u8]) -> Result<(), SnapshotError> {
        let header = SnapshotHeader::parse(payload)?;
        let baseline = match header.baseline_age {
            Some(age) => {
                let tick = Tick(header.tick.wrapping_sub(age));
                let found =
                    self.tables.iter().position(|slot| slot.is_applied && Tick(slot.table.tick()) == tick);
                Some(found.ok_or(SnapshotError::MissingBaseline)?)
            }
            None => None,
        };
        let spare = self.spare(baseline);
        let (table, baseline_table) = match baseline {
            Some(baseline) => {
                let [to, from] =
                    self.tables.get_disjoint_mut([spare, baseline]).expect("two different slots");
                (&mut to.table, Some(&from.table))
            }
            None => (&mut self.tables[spare].table, None),
        };
        // A spare slot may hold an old baseline, which is lost now even if the payload is bad: it was the oldest.
        decode(payload, baseline_table, table)?;
        self.decoded = spare;
        self.decoded_delta = baseline.is_some();
        Ok(())
    }

    /// Applies what was decoded last. Returns whether it was a delta.
    pub(super) fn commit(&mut self) -> bool {
        let slot = self.decoded;
        self.tables[slot].is_applied = true;
        let tick = Tick(self.tables[slot].table.tick());
        let is_newer = match self.newest {
            Some(newest) => {
                let ahead = tick.since(Tick(self.tables[newest].table.tick()));
                ahead != 0 && ahead < 1 << 31
            }
            None => true,
        };
        if is_newer {
            self.newest = Some(slot);
        }
        self.decoded_delta
    }

    /// A slot to decode into: an unused one, or the oldest, but never the baseline or the newest. What it held is no
    /// baseline any more.
    fn spare(&mut self, baseline: Option<usize>) -> usize {
        let newest_tick = self.newest().map(|table| Tick(table.tick()));
        let age = |slot: &Slot| match newest_tick {
            _ if !slot.is_applied => u32::MAX,
            Some(newest) => newest.since(Tick(slot.table.tick())),
            None => KEPT_TICKS,
        };
        let candidates =
            (0..self.tables.len()).filter(|&slot| Some(slot) != baseline && Some(slot) != self.newest);
        let spare =
            candidates.max_by_key(|&slot| age(&self.tables[slot])).expect("more slots than those in use");
        self.tables[spare].is_applied = false;
        spare
    }
}
