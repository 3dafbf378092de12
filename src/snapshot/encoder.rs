//! Writes a room as a client needs to hear it: what differs from its baseline, once per baseline and room.

use super::BASELINE_AGE_MAX;
use super::budget::{Budget, Plan};
use super::history::{Frame, History};
use super::view::View;
use crate::model::{Entity, PLAYERS_MAX, PlayerState};
use crate::time::Tick;
use crate::wire::aegis::PAYLOAD_BYTES_MAX;
use crate::wire::aegis::snapshot::{
    PREFIX_BYTES, put_added, put_baseline, put_players, put_prefix, put_record_count, put_removed,
    put_updated,
};
use crate::wire::bits::{BitWriter, varint_bits, varint_code};

/// Bytes of a snapshot behind its per-client prefix, at most.
pub(super) const BODY_BYTES_MAX: usize = PAYLOAD_BYTES_MAX - PREFIX_BYTES;

/// What to encode for whom.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// A number that names the room.
    pub room: u32,
    /// The room's history; its newest frame is what is encoded.
    pub history: &'a History,
    /// Header sequence of the client's last input applied at that tick, 0 before any.
    pub input: u16,
    /// Index of the client's own ship, if it has one.
    pub focus: Option<u32>,
}

/// The snapshot encoder: one for all rooms and clients.
///
/// Everything behind the first six bytes is the same for all clients that share a room, a tick and a baseline, so it
/// is produced once and copied. Only a client with something stale in its baseline, or for whom not everything fits,
/// gets an encoding of its own (see `Budget`).
#[derive(Debug)]
pub struct Encoder {
    /// Which room and tick the cached bodies are of.
    cached: Option<(u32, Tick)>,
    bodies: [Body; PLAYERS_MAX],
    bodies_len: usize,
    /// Bits of the last record count: the next one has as many, most of the time.
    count_bits: u32,
    budget: Budget,
    stats: EncoderStats,
}

/// What the encoder did so far.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct EncoderStats {
    /// Snapshots copied from a body made for another client.
    pub copied: u64,
    /// Bodies made for every client of their baseline.
    pub shared: u64,
    /// Snapshots made for one client: something stale, or too much to fit.
    pub budgeted: u64,
    /// Snapshots without a baseline.
    pub full: u64,
}

#[derive(Debug)]
struct Body {
    baseline: Option<Tick>,
    /// `None` when not everything fits in a datagram.
    len: Option<usize>,
    bytes: Box<[u8; BODY_BYTES_MAX]>,
}

/// One difference between a baseline and now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) index: u32,
    pub(super) what: What,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// There now, as this.
    Added { entity: Entity },
    /// As predicted but for some fields.
    Updated { predicted: Entity, entity: Entity },
    /// Gone.
    Removed,
}

impl Encoder {
    /// An encoder for rooms of at most `entities_max` entities.
    pub fn new(entities_max: usize) -> Self {
        Self {
            cached: None,
            bodies: std::array::from_fn(|_| Body {
                baseline: None,
                len: None,
                bytes: Box::new([0; BODY_BYTES_MAX]),
            }),
            bodies_len: 0,
            count_bits: varint_bits(0),
            budget: Budget::new(entities_max),
            stats: EncoderStats::default(),
        }
    }

    /// Writes the newest frame of a room's history for a client into `out`, and notes in `view` what the client will
    /// know when it arrives. Returns the length in bytes.
    ///
    /// # Panics
    /// When the history is empty or `out` is shorter than [`PAYLOAD_BYTES_MAX`].
    pub fn encode(&mut self, request: &Request<'_>, view: &mut View, out: &mut [u8]) -> usize {
        let now = request.history.newest().expect("a snapshot of a room that has a frame");
        let baseline = usable_baseline(request.history, view, now.tick);
        put_prefix(out, now.tick.0, request.input);
        let body_out = &mut out[PREFIX_BYTES..PAYLOAD_BYTES_MAX];
        self.stats.full += u64::from(baseline.is_none());

        let stale = baseline.and_then(|frame| view.stale(frame.tick));
        if stale.is_none() {
            let body = self.shared_body(request.room, baseline, &now);
            if let Some(len) = body.len {
                body_out[..len].copy_from_slice(&body.bytes[..len]);
                view.sent_exact(now.tick);
                return PREFIX_BYTES + len;
            }
        }
        self.stats.budgeted += 1;
        let plan = Plan { baseline, now, focus: request.focus };
        PREFIX_BYTES + self.budget.encode(&plan, view, body_out)
    }

    /// What it did so far.
    pub fn stats(&self) -> EncoderStats {
        self.stats
    }

    /// The body for every client of `baseline`, made now if nobody needed it yet.
    fn shared_body(&mut self, room: u32, baseline: Option<Frame<'_>>, now: &Frame<'_>) -> &Body {
        if self.cached != Some((room, now.tick)) {
            self.cached = Some((room, now.tick));
            self.bodies_len = 0;
        }
        let tick = baseline.map(|frame| frame.tick);
        let made = self.bodies[..self.bodies_len].iter().position(|body| body.baseline == tick);
        if let Some(at) = made {
            self.stats.copied += 1;
            return &self.bodies[at];
        }
        self.stats.shared += 1;
        // There are at most as many baselines as players; if a room ever had more, the last place is shared.
        let at = self.bodies_len.min(PLAYERS_MAX - 1);
        self.bodies_len = at + 1;
        let body = &mut self.bodies[at];
        body.baseline = tick;
        body.len = write_differences(baseline.as_ref(), now, &mut self.count_bits, &mut body.bytes[..]);
        body
    }
}

/// The frame to encode against: the newest that the client acknowledged, if it is not too old, still here, and what
/// the client holds there is known.
fn usable_baseline<'a>(history: &'a History, view: &View, now: Tick) -> Option<Frame<'a>> {
    let tick = view.baseline()?;
    let age = now.since(tick);
    // A baseline from before the tick wrapped to 0 cannot be named: its age would be above the tick.
    let is_near = (1..=BASELINE_AGE_MAX).contains(&age) && age <= now.0;
    if is_near && view.knows(tick) { history.frame(tick) } else { None }
}

/// Writes everything behind the prefix. `None` when it does not fit.
pub(super) fn write_body(
    baseline: Option<&Frame<'_>>,
    now: &Frame<'_>,
    changes: &[Change],
    out: &mut [u8],
) -> Option<usize> {
    let mut bits = BitWriter::new(out);
    put_baseline(&mut bits, baseline.map(|frame| now.tick.since(frame.tick)));
    put_players(&mut bits, &changed_players(baseline, now));
    put_record_count(&mut bits, changes.len() as u32);
    let mut next = 0;
    for change in changes {
        let gap = change.index - next;
        next = change.index + 1;
        match &change.what {
            What::Added { entity } => put_added(&mut bits, gap, entity),
            What::Updated { predicted, entity } => put_updated(&mut bits, gap, predicted, entity),
            What::Removed => put_removed(&mut bits, gap),
        }
    }
    bits.finish()
}

/// Everyone in the match, or in a delta those whose standing changed.
pub(super) fn changed_players(
    baseline: Option<&Frame<'_>>,
    now: &Frame<'_>,
) -> [Option<PlayerState>; PLAYERS_MAX] {
    std::array::from_fn(|player| {
        let standing = now.players[player];
        standing.filter(|_| baseline.is_none_or(|frame| frame.players[player] != standing))
    })
}

/// Writes everything behind the prefix, for clients that hold `baseline` exactly (or nothing), in one pass over both:
/// how many records there are is filled in afterwards, in the `count_bits` that it took the last time. Where that is wrong
/// there is a second pass. `None` when it does not fit.
fn write_differences(
    baseline: Option<&Frame<'_>>,
    now: &Frame<'_>,
    count_bits: &mut u32,
    out: &mut [u8],
) -> Option<usize> {
    loop {
        let mut bits = BitWriter::new(out);
        put_baseline(&mut bits, baseline.map(|frame| now.tick.since(frame.tick)));
        put_players(&mut bits, &changed_players(baseline, now));
        let count_at = bits.bit_len();
        bits.put(0, *count_bits);
        let count = match baseline {
            Some(baseline) => put_differences(&mut bits, baseline, now),
            None => put_everything(&mut bits, now),
        };
        let (code, width) = varint_code(count);
        if width == *count_bits {
            bits.fill_in(count_at, code);
            return bits.finish();
        }
        *count_bits = width;
    }
}

/// Writes everyone as new, in index order, and returns how many there are.
fn put_everything(bits: &mut BitWriter<'_>, now: &Frame<'_>) -> u32 {
    let mut next = 0;
    for (&index, entity) in now.indices.iter().zip(now.entities) {
        put_added(bits, u32::from(index) - next, entity);
        next = u32::from(index) + 1;
    }
    now.indices.len() as u32
}

/// Writes what differs between a baseline and now, in index order, and returns how many records that took.
fn put_differences(bits: &mut BitWriter<'_>, baseline: &Frame<'_>, now: &Frame<'_>) -> u32 {
    let age = now.tick.since(baseline.tick);
    let (mut old, mut new, mut next, mut count) = (0, 0, 0, 0);
    let mut gap = |index: u16| {
        let gap = u32::from(index) - next;
        next = u32::from(index) + 1;
        count += 1;
        gap
    };
    loop {
        // Mostly the same things live at the same indices.
        let befores = baseline.indices[old..].iter().zip(&baseline.entities[old..]);
        let afters = now.indices[new..].iter().zip(&now.entities[new..]);
        let run = befores.zip(afters).take_while(|((was, _), (is, _))| was == is);
        let mut run_len = 0;
        for ((_, before), (&is, entity)) in run {
            run_len += 1;
            let predicted = before.predicted_soon(age);
            if predicted == *entity {
                continue;
            }
            if predicted.is_same_thing(entity) {
                put_updated(bits, gap(is), &predicted, entity);
            } else {
                put_added(bits, gap(is), entity);
            }
        }
        old += run_len;
        new += run_len;
        match (baseline.indices.get(old).copied(), now.indices.get(new).copied()) {
            (Some(was), is) if is.is_none_or(|is| was < is) => {
                put_removed(bits, gap(was));
                old += 1;
            }
            (_, Some(is)) => {
                put_added(bits, gap(is), &now.entities[new]);
                new += 1;
            }
            (_, None) => return count,
        }
    }
}

/// What to say of an entity that was `before` at the baseline, `age` ticks ago, and is `entity` now.
#[inline]
pub(super) fn difference(before: &Entity, entity: &Entity, age: u32) -> Option<What> {
    let predicted = before.predicted_soon(age);
    if predicted == *entity {
        return None;
    }
    if predicted.is_same_thing(entity) {
        Some(What::Updated { predicted, entity: *entity })
    } else {
        Some(What::Added { entity: *entity })
    }
}
