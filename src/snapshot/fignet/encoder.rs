//! Writes a room as one peer needs to hear it: what differs from its baseline, or the most important of that.

use super::area::Area;
use super::peer::PeerView;
use crate::model::{Entity, PLAYERS_MAX, PlayerId, PlayerState};
use crate::snapshot::budget::{NEAR_PRIORITY_MAX, PRIORITY_PER_TICK, Plan, Step, Walk, find, nearness};
use crate::snapshot::{BASELINE_AGE_MAX, Frame, History};
use crate::time::Tick;
use crate::wire::cursor::Writer;
use crate::wire::fignet::snapshot::{
    Coder, HEAD_BYTES_MAX, Head, MESSAGE_BYTES_MAX, Precision, RECORD_BYTES_MIN, changed_bytes, put_changed,
    put_head, put_player_left, put_removed, put_standing, put_whole, standing_bytes, whole_bytes,
};

/// Least room that a message must be given: a head, every player's standing, and some records.
pub const ROOM_BYTES_MIN: usize = 256;

/// What to encode for whom.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The room's history; its newest frame is what is encoded.
    pub history: &'a History,
    /// The server's time at that frame, in µs.
    pub timestamp_us: u64,
    /// The part of the room that the peer sees.
    pub area: Area,
    /// Index of the peer's own ship, if it has one.
    pub focus: Option<u32>,
}

/// The snapshot encoder: one for all rooms and peers.
#[derive(Debug)]
pub struct Encoder {
    precision: Precision,
    /// In index order.
    candidates: Vec<Candidate>,
    /// The most important first: priority inverted in the high half, place among the candidates in the low half.
    order: Vec<u64>,
    stale: Box<[u64]>,
    present: Box<[u64]>,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    index: u32,
    what: What,
    bytes: usize,
    priority: u32,
    /// Whether the peer has something at this index, in case the change does not fit.
    is_present: bool,
    is_chosen: bool,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Whole { entity: Entity },
    Changed { expected: Entity, entity: Entity },
    Removed,
}

impl Encoder {
    /// An encoder for rooms of at most `entities_max` entities, whose positions are told to `precision`.
    pub fn new(entities_max: usize, precision: Precision) -> Self {
        let words = (entities_max + 1).div_ceil(64);
        Self {
            precision,
            candidates: Vec::with_capacity(entities_max * 2 + 1),
            order: Vec::with_capacity(entities_max * 2 + 1),
            stale: vec![0; words].into_boxed_slice(),
            present: vec![0; words].into_boxed_slice(),
        }
    }

    /// Writes the newest frame of a room's history for a peer into `out`, as a plain message of at most its length and
    /// [`MESSAGE_BYTES_MAX`], and notes in `peer` what it will know when it arrives. Returns the message's length.
    ///
    /// # Panics
    /// When the history is empty, or `out` shorter than [`ROOM_BYTES_MIN`].
    pub fn encode(&mut self, request: &Request<'_>, peer: &mut PeerView, out: &mut [u8]) -> usize {
        assert!(out.len() >= ROOM_BYTES_MIN, "too little room for a snapshot");
        let now = request.history.newest().expect("a snapshot of a room that has a frame");
        let baseline = usable_baseline(request.history, peer, now.tick);
        let plan = Plan { baseline, now, focus: request.focus };
        let standing = Standing::of(baseline.as_ref(), &now);
        let room = out.len().min(MESSAGE_BYTES_MAX) - HEAD_BYTES_MAX - standing.bytes();
        self.collect(&plan, peer, request.area);
        self.choose(room);
        self.settle(now.tick, peer, request.area);

        let chosen = self.candidates.iter().filter(|candidate| candidate.is_chosen);
        let head = Head {
            sequence: now.tick.0 as u16,
            timestamp_us: request.timestamp_us,
            count: (standing.count() + chosen.clone().count()) as u16,
            coder: Coder::Plain,
            precision: self.precision,
            baseline_age: baseline.map(|frame| now.tick.since(frame.tick) as u8),
        };
        let mut writer = Writer::new(out);
        put_head(&mut writer, &head);
        standing.put(&mut writer);
        for Candidate { index, what, .. } in chosen {
            match what {
                What::Whole { entity } => put_whole(&mut writer, self.precision, *index, entity),
                What::Changed { expected, entity } => {
                    put_changed(&mut writer, self.precision, *index, expected, entity);
                }
                What::Removed => put_removed(&mut writer, *index),
            }
        }
        writer.finish().expect("what was counted to fit")
    }

    /// Everything that the peer does not have right, with its size and priority.
    fn collect(&mut self, plan: &Plan<'_>, peer: &PeerView, area: Area) {
        self.candidates.clear();
        let own = plan.focus.and_then(|index| find(&plan.now, index)).copied();
        let stale = plan.baseline.and_then(|frame| peer.view.stale(frame.tick));
        let area_before = plan.baseline.map_or(area, |frame| peer.area(frame.tick));
        let age = plan.baseline.map_or(0, |frame| plan.now.tick.since(frame.tick));
        let mut walk = Walk::new(plan, stale);
        while let Some(step) = walk.next() {
            let index = step.index;
            let before = step.before.filter(|entity| area_before.contains(entity));
            let now = step.now.filter(|entity| area.contains(entity));
            let is_present = if step.is_stale { step.is_present } else { before.is_some() };
            let Some((what, bytes)) = self.difference(&step, before, now, is_present, age) else { continue };
            let waited = u32::from(peer.view.unsent_ticks(index, plan.now.tick)) * PRIORITY_PER_TICK;
            let nearness = match (&own, now) {
                _ if plan.focus == Some(index) => u32::MAX / 2,
                (Some(own), Some(now)) => nearness(own, now),
                // Removals are small and undo what a player may still see.
                (_, None) => NEAR_PRIORITY_MAX,
                (None, Some(_)) => 0,
            };
            let priority = waited.saturating_add(nearness);
            self.candidates.push(Candidate { index, what, bytes, priority, is_present, is_chosen: false });
        }
    }

    /// What to say of one index, and how many bytes that takes.
    fn difference(
        &self,
        step: &Step<'_>,
        before: Option<&Entity>,
        now: Option<&Entity>,
        is_present: bool,
        age: u32,
    ) -> Option<(What, usize)> {
        let Some(&entity) = now else {
            return is_present.then_some((What::Removed, RECORD_BYTES_MIN));
        };
        let is_same = |before: &&Entity| {
            !step.is_stale && before.generation == entity.generation && before.kind == entity.kind
        };
        let Some(before) = before.filter(is_same) else {
            return Some((What::Whole { entity }, whole_bytes(self.precision, &entity)));
        };
        let expected = self.precision.expected(before, age);
        let bytes = changed_bytes(self.precision, &expected, &entity)?;
        Some((What::Changed { expected, entity }, bytes))
    }

    /// Chooses what is sent: everything, or the most important that fits in `room` bytes.
    fn choose(&mut self, room: usize) {
        let total: usize = self.candidates.iter().map(|candidate| candidate.bytes).sum();
        if total <= room {
            self.candidates.iter_mut().for_each(|candidate| candidate.is_chosen = true);
            return;
        }
        self.order.clear();
        let keys = self.candidates.iter().zip(0u32..).map(|(candidate, position)| {
            // Smallest first: the highest priority, then the lowest index.
            u64::from(!candidate.priority) << 32 | u64::from(position)
        });
        self.order.extend(keys);
        // No more than this many can fit at best.
        let most = room / RECORD_BYTES_MIN;
        if most < self.order.len() {
            self.order.select_nth_unstable(most);
            self.order.truncate(most);
        }
        self.order.sort_unstable();
        let mut left = room;
        for key in &self.order {
            let candidate = &mut self.candidates[*key as u32 as usize];
            if candidate.bytes <= left {
                left -= candidate.bytes;
                candidate.is_chosen = true;
            }
        }
    }

    /// Records in `peer` what is sent and what stays wrong there.
    fn settle(&mut self, tick: Tick, peer: &mut PeerView, area: Area) {
        peer.set_area(tick, area);
        self.stale.fill(0);
        self.present.fill(0);
        let mut is_exact = true;
        for candidate in &self.candidates {
            let index = candidate.index;
            if candidate.is_chosen {
                peer.view.mark_sent(index, tick);
                continue;
            }
            is_exact = false;
            let (word, bit) = (index as usize / 64, index % 64);
            self.stale[word] |= 1 << bit;
            self.present[word] |= u64::from(candidate.is_present) << bit;
        }
        if is_exact {
            peer.view.sent_exact(tick);
        } else {
            peer.view.sent_stale(tick, &self.stale, &self.present);
        }
    }
}

/// The frame to encode against: the newest that the peer acknowledged, if it is not too old, still here, and what
/// the peer holds there is known.
pub(super) fn usable_baseline<'a>(history: &'a History, peer: &PeerView, now: Tick) -> Option<Frame<'a>> {
    let tick = peer.baseline()?;
    let is_near = (1..=BASELINE_AGE_MAX).contains(&now.since(tick));
    if is_near && peer.view.knows(tick) { history.frame(tick) } else { None }
}

/// The players' standing, before and now. Always told whole: it is small and matters.
struct Standing<'a> {
    before: Option<&'a [Option<PlayerState>; PLAYERS_MAX]>,
    now: &'a [Option<PlayerState>; PLAYERS_MAX],
}

impl<'a> Standing<'a> {
    fn of(baseline: Option<&Frame<'a>>, now: &Frame<'a>) -> Self {
        Self { before: baseline.map(|frame| frame.players), now: now.players }
    }

    fn changes(&self) -> impl Iterator<Item = (PlayerId, Option<&PlayerState>, Option<&PlayerState>)> {
        PlayerId::all().filter_map(|player| {
            let before = self.before.and_then(|players| players[player.index()].as_ref());
            let now = self.now[player.index()].as_ref();
            (before != now).then_some((player, before, now))
        })
    }

    fn count(&self) -> usize {
        self.changes().count()
    }

    fn bytes(&self) -> usize {
        let bytes = |(_, before, now): (_, Option<&PlayerState>, Option<&PlayerState>)| {
            now.map_or(Some(RECORD_BYTES_MIN), |now| standing_bytes(before, now))
        };
        self.changes().filter_map(bytes).sum()
    }

    fn put(&self, out: &mut Writer<'_>) {
        for (player, before, now) in self.changes() {
            match now {
                Some(now) => put_standing(out, player, before, now),
                None => put_player_left(out, player),
            }
        }
    }
}

const _: () = {
    assert!(BASELINE_AGE_MAX <= crate::wire::fignet::snapshot::BASELINE_AGE_MAX, "an age is one byte");
    assert!(ROOM_BYTES_MIN > HEAD_BYTES_MAX + PLAYERS_MAX * (RECORD_BYTES_MIN + 5) + 18, "room for a record");
};
