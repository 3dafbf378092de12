//! Snapshots that cannot say everything: the most important changes go, the rest is remembered as stale.
//! Implements the last paragraph of Aegis 4.8.

use super::encoder::{Change, What, changed_players, difference, write_body};
use super::history::Frame;
use super::view::{StaleSet, View};
use crate::model::{Entity, UNITS_PER_PIXEL};
use crate::wire::aegis::snapshot::{added_bits, removed_bits, updated_bits};
use crate::wire::bits::varint_bits;

/// Priority that a tick of waiting adds. Nearness adds at most [`NEAR_PRIORITY_MAX`], so that whatever waited for a
/// second longer goes before anything near: nothing starves.
pub(super) const PRIORITY_PER_TICK: u32 = 64;

/// Priority of an entity at the very place of the own ship; 0 from [`NEAR_PIXELS`] on.
pub(super) const NEAR_PRIORITY_MAX: u32 = 60 * PRIORITY_PER_TICK;

/// The distance at which nearness no longer counts, in pixels.
const NEAR_PIXELS: u32 = 1920;

/// Writes snapshots under the datagram's size, for one client at a time.
#[derive(Debug)]
pub struct Budget {
    /// In index order.
    candidates: Vec<Candidate>,
    /// The most important first: priority inverted in the high half, place among the candidates in the low half.
    order: Vec<u64>,
    chosen: Vec<Change>,
    stale: Box<[u64]>,
    present: Box<[u64]>,
}

/// What is to be told, to whom it matters how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan<'a> {
    pub(super) baseline: Option<Frame<'a>>,
    pub(super) now: Frame<'a>,
    pub(super) focus: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    priority: u32,
    change: Change,
    /// Size of its record, if its gap takes one group.
    bits: u32,
    /// Whether the client has something at this index, in case the change does not fit.
    is_present: bool,
    is_chosen: bool,
}

impl Budget {
    pub(super) fn new(entities_max: usize) -> Self {
        let words = (entities_max + 1).div_ceil(64);
        Self {
            candidates: Vec::with_capacity(entities_max * 2 + 1),
            order: Vec::with_capacity(entities_max * 2 + 1),
            chosen: Vec::with_capacity(entities_max + 1),
            stale: vec![0; words].into_boxed_slice(),
            present: vec![0; words].into_boxed_slice(),
        }
    }

    /// Writes the body of a snapshot into `out` and notes in `view` what it leaves stale. Returns its length.
    pub(super) fn encode(&mut self, plan: &Plan<'_>, view: &mut View, out: &mut [u8]) -> usize {
        self.collect(plan, view);
        let bits_max = (out.len() * 8).saturating_sub(head_bits(plan));
        self.order_what_can_fit(bits_max);
        self.choose(bits_max);
        self.settle(plan, view);
        write_body(plan.baseline.as_ref(), &plan.now, &self.chosen, out).expect("what was counted to fit")
    }

    /// Everything the client does not have right, with its priority.
    fn collect(&mut self, plan: &Plan<'_>, view: &View) {
        self.candidates.clear();
        let own = plan.focus.and_then(|index| find(&plan.now, index)).copied();
        let stale = plan.baseline.and_then(|frame| view.stale(frame.tick));
        let age = plan.baseline.map_or(0, |frame| plan.now.tick.since(frame.tick));
        let mut walk = Walk::new(plan, stale);
        while let Some(Step { index, before, now, is_stale, is_present }) = walk.next() {
            let what = match (before, now) {
                (Some(before), Some(now)) if !is_stale => difference(before, now, age),
                (_, Some(now)) => Some(What::Added { entity: *now }),
                (_, None) => is_present.then_some(What::Removed),
            };
            let Some(what) = what else { continue };
            let waited = u32::from(view.unsent_ticks(index, plan.now.tick)) * PRIORITY_PER_TICK;
            let nearness = match (&own, now) {
                _ if plan.focus == Some(index) => u32::MAX / 2,
                (Some(own), Some(now)) => nearness(own, now),
                // Removals are small and undo what a player may still see.
                (_, None) => NEAR_PRIORITY_MAX,
                (None, Some(_)) => 0,
            };
            let bits = match &what {
                What::Added { .. } => added_bits(0),
                What::Updated { predicted, entity } => updated_bits(0, predicted, entity),
                What::Removed => removed_bits(0),
            };
            self.candidates.push(Candidate {
                bits,
                priority: waited.saturating_add(nearness),
                change: Change { index, what },
                is_present,
                is_chosen: false,
            });
        }
    }

    /// Fills `order` with the most important candidates, in order: as many as can fit at best.
    fn order_what_can_fit(&mut self, bits_max: usize) {
        self.order.clear();
        let keys = self.candidates.iter().zip(0u32..).map(|(candidate, position)| {
            // Smallest first: the highest priority, then the lowest index.
            u64::from(!candidate.priority) << 32 | u64::from(position)
        });
        self.order.extend(keys);
        let Some(least_bits) = self.candidates.iter().map(|candidate| candidate.bits).min() else { return };
        let most = bits_max / least_bits as usize;
        if most < self.order.len() {
            self.order.select_nth_unstable(most);
            self.order.truncate(most);
        }
        self.order.sort_unstable();
    }

    /// Chooses as many of the first in `order` as fit in `bits_max` bits.
    fn choose(&mut self, bits_max: usize) {
        let mut bits = 0;
        let mut count = 0;
        // As if every gap took one group.
        for key in &self.order {
            let candidate = &mut self.candidates[*key as u32 as usize];
            if bits + candidate.bits as usize > bits_max {
                break;
            }
            bits += candidate.bits as usize;
            candidate.is_chosen = true;
            count += 1;
        }
        // What the gaps take depends on the choice itself: step back until that fits, too.
        while bits + self.gap_bits() > bits_max {
            count -= 1;
            let last = &mut self.candidates[self.order[count] as u32 as usize];
            last.is_chosen = false;
            bits -= last.bits as usize;
        }
    }

    /// Bits of the gaps between the chosen ones, beyond one group each.
    fn gap_bits(&self) -> usize {
        let mut next = 0;
        let mut bits = 0;
        for candidate in self.candidates.iter().filter(|candidate| candidate.is_chosen) {
            let index = candidate.change.index;
            bits += varint_bits(index - next) - varint_bits(0);
            next = index + 1;
        }
        bits as usize
    }

    /// Takes over the chosen changes, and records in `view` what is sent and what stays wrong at the client.
    fn settle(&mut self, plan: &Plan<'_>, view: &mut View) {
        let tick = plan.now.tick;
        self.chosen.clear();
        self.stale.fill(0);
        self.present.fill(0);
        for candidate in &self.candidates {
            let index = candidate.change.index;
            if candidate.is_chosen {
                view.mark_sent(index, tick);
                self.chosen.push(candidate.change);
            } else {
                let (word, bit) = (index as usize / 64, index % 64);
                self.stale[word] |= 1 << bit;
                self.present[word] |= u64::from(candidate.is_present) << bit;
            }
        }
        if self.chosen.len() == self.candidates.len() {
            view.sent_exact(tick);
        } else {
            view.sent_stale(tick, &self.stale, &self.present);
        }
    }
}

/// Bits of everything but the records, at most.
fn head_bits(plan: &Plan<'_>) -> usize {
    let age = plan.baseline.map_or(0, |frame| varint_bits(plan.now.tick.since(frame.tick)));
    let players = changed_players(plan.baseline.as_ref(), &plan.now);
    let players: u32 = players.iter().flatten().map(|state| 8 + varint_bits(state.score)).sum();
    let count = varint_bits(
        plan.now.indices.len() as u32 + plan.baseline.map_or(0, |frame| frame.indices.len()) as u32,
    );
    (1 + age + 3 + players + count) as usize
}

/// Nearness to the own ship as priority.
pub(super) fn nearness(own: &Entity, other: &Entity) -> u32 {
    let distance = own.x.abs_diff(other.x).max(own.y.abs_diff(other.y)) / UNITS_PER_PIXEL as u32;
    NEAR_PIXELS.saturating_sub(distance) * NEAR_PRIORITY_MAX / NEAR_PIXELS
}

pub(super) fn find<'a>(frame: &Frame<'a>, index: u32) -> Option<&'a Entity> {
    let index = u16::try_from(index).ok()?;
    frame.indices.binary_search(&index).ok().map(|at| &frame.entities[at])
}

/// Walks the indices of a baseline, of now, and of what is stale, together.
pub(super) struct Walk<'a> {
    baseline: (&'a [u16], &'a [Entity]),
    now: (&'a [u16], &'a [Entity]),
    stale: Option<StaleSet<'a>>,
    stale_word: u64,
    stale_word_index: usize,
    words: usize,
}

pub(super) struct Step<'a> {
    pub(super) index: u32,
    pub(super) before: Option<&'a Entity>,
    pub(super) now: Option<&'a Entity>,
    pub(super) is_stale: bool,
    /// Whether the client has anything there, as far as the baseline and what is stale tell.
    pub(super) is_present: bool,
}

impl<'a> Walk<'a> {
    pub(super) fn new(plan: &Plan<'a>, stale: Option<StaleSet<'a>>) -> Self {
        Self {
            baseline: plan.baseline.map_or((&[], &[]), |frame| (frame.indices, frame.entities)),
            now: (plan.now.indices, plan.now.entities),
            stale,
            stale_word: stale.map_or(0, |set| set.word(0)),
            stale_word_index: 0,
            words: stale.map_or(0, |set| set.words()),
        }
    }

    pub(super) fn next(&mut self) -> Option<Step<'a>> {
        while self.stale_word == 0 && self.stale_word_index + 1 < self.words {
            self.stale_word_index += 1;
            self.stale_word = self.stale.map_or(0, |set| set.word(self.stale_word_index));
        }
        let stale_at = (self.stale_word != 0)
            .then(|| self.stale_word_index as u32 * 64 + self.stale_word.trailing_zeros());
        let head = |list: &(&[u16], &[Entity])| list.0.first().map(|&index| u32::from(index));
        let heads = [head(&self.baseline), head(&self.now), stale_at];
        let index = heads.into_iter().flatten().min()?;
        let before = take(&mut self.baseline, index);
        let now = take(&mut self.now, index);
        let is_stale = stale_at == Some(index);
        if is_stale {
            self.stale_word &= self.stale_word - 1;
        }
        let is_present = match self.stale {
            Some(set) if is_stale => set.is_present(index),
            _ => before.is_some(),
        };
        Some(Step { index, before, now, is_stale, is_present })
    }
}

fn take<'a>(list: &mut (&'a [u16], &'a [Entity]), index: u32) -> Option<&'a Entity> {
    if list.0.first().is_none_or(|&first| u32::from(first) != index) {
        return None;
    }
    let entity = list.1.first();
    *list = (&list.0[1..], &list.1[1..]);
    entity
}
