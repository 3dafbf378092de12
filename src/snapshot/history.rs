//! A room's entity table at the ticks for which snapshots were sent.

use crate::limits::ENTITIES_MAX;
use crate::model::{Entity, EntityTable, PLAYERS_MAX, PlayerState};
use crate::storage::Ring;
use crate::time::Tick;

/// A room's recent past: a ring of frames over one ring of entities, eighteen bytes each.
#[derive(Debug)]
pub struct History {
    frames: Ring<Span>,
    /// Rooms have at most [`ENTITIES_MAX`] entities: their indices fit 16 bits.
    indices: Box<[u16]>,
    entities: Box<[Entity]>,
    interval: u32,
}

/// Where a frame's entities lie.
#[derive(Clone, Copy, Debug)]
struct Span {
    tick: Tick,
    start: u32,
    len: u32,
    players: [Option<PlayerState>; PLAYERS_MAX],
}

/// A room at one tick.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The tick.
    pub tick: Tick,
    /// Who was in, and how they stood.
    pub players: &'a [Option<PlayerState>; PLAYERS_MAX],
    /// Indices of the living entities, rising.
    pub indices: &'a [u16],
    /// Their states, in the same order.
    pub entities: &'a [Entity],
}

impl History {
    /// An empty history for rooms of `entities_max` entities with a snapshot every `interval` ticks.
    ///
    /// # Panics
    /// When `interval` is 0, or `entities_max` above [`ENTITIES_MAX`].
    pub fn new(entities_max: usize, interval: u32) -> Self {
        assert!(interval > 0, "a snapshot every 0 ticks");
        assert!(entities_max <= ENTITIES_MAX, "an index beyond 16 bits");
        let frames = super::frames_for(interval);
        let filler = Span { tick: Tick(0), start: 0, len: 0, players: [None; PLAYERS_MAX] };
        // One frame more than is kept: the newest may have to skip the end of the ring to lie in one piece.
        let entities = (frames + 1) * entities_max;
        Self {
            frames: Ring::new(frames, filler),
            indices: vec![0; entities].into_boxed_slice(),
            entities: vec![Entity::new(crate::model::Kind(0)); entities].into_boxed_slice(),
            interval,
        }
    }

    /// Forgets everything, for a room's next life.
    pub fn clear(&mut self) {
        self.frames.clear();
    }

    /// Records the room at `tick`, [`History::interval`] after the frame before it.
    pub fn push(&mut self, tick: Tick, players: &[Option<PlayerState>; PLAYERS_MAX], table: &EntityTable) {
        self.push_frame(tick, players, table.len(), table.iter());
    }

    /// As [`History::push`], for the first `len` of `entities` in rising index order.
    pub fn push_frame<'a>(
        &mut self,
        tick: Tick,
        players: &[Option<PlayerState>; PLAYERS_MAX],
        len: usize,
        entities: impl Iterator<Item = (u32, &'a Entity)>,
    ) {
        if self.frames.len() == self.frames.capacity() {
            self.frames.pop();
        }
        let mut start = self.newest_end();
        if start + len > self.entities.len() {
            start = 0;
        }
        // Frames that lie where this one goes are the oldest ones.
        while self.frames.get(0).is_some_and(|oldest| oldest.overlaps(start, len)) {
            self.frames.pop();
        }
        let places = self.indices[start..start + len].iter_mut().zip(&mut self.entities[start..start + len]);
        for ((index, entity), (at, state)) in places.zip(entities) {
            *index = at as u16;
            *entity = *state;
        }
        let span = Span { tick, start: start as u32, len: len as u32, players: *players };
        let pushed = self.frames.push(span);
        assert!(pushed.is_ok(), "room was made for the frame");
    }

    /// The frame of `tick`, if it is still here.
    pub fn frame(&self, tick: Tick) -> Option<Frame<'_>> {
        let newest = self.frames.get(self.frames.len().checked_sub(1)?)?;
        let back = newest.tick.since(tick) / self.interval;
        let index = (self.frames.len() - 1).checked_sub(back as usize)?;
        self.frames.get(index).filter(|span| span.tick == tick).map(|span| self.view(span))
    }

    /// The newest frame.
    pub fn newest(&self) -> Option<Frame<'_>> {
        let newest = self.frames.get(self.frames.len().checked_sub(1)?)?;
        Some(self.view(newest))
    }

    /// Ticks from one frame to the next.
    pub fn interval(&self) -> u32 {
        self.interval
    }

    fn newest_end(&self) -> usize {
        match self.frames.len().checked_sub(1).and_then(|last| self.frames.get(last)) {
            Some(span) => (span.start + span.len) as usize,
            None => 0,
        }
    }

    fn view<'a>(&'a self, span: &'a Span) -> Frame<'a> {
        let range = span.start as usize..(span.start + span.len) as usize;
        Frame {
            tick: span.tick,
            players: &span.players,
            indices: &self.indices[range.clone()],
            entities: &self.entities[range],
        }
    }
}

impl Span {
    fn overlaps(&self, start: usize, len: usize) -> bool {
        let (own_start, own_end) = (self.start as usize, (self.start + self.len) as usize);
        own_start < start + len && start < own_end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Kind;
    use crate::rng::Rng;

    /// Every frame up to the baseline limit is kept whole, whatever the sizes of the frames around it.
    #[test]
    fn keeps_every_frame_that_may_be_a_baseline() {
        let mut rng = Rng::new(3);
        for interval in [1u32, 3, 7, 60, 64] {
            let mut history = History::new(50, interval);
            let mut tables: Vec<(Tick, EntityTable)> = Vec::new();
            let mut table = EntityTable::new(50);
            let mut tick = Tick(u32::MAX - 500);
            for _ in 0..400 {
                for _ in 0..rng.below(30) {
                    let at = rng.between(-1000, 1000);
                    table.insert(Entity::new(Kind::BYDOS).moving(at, -at, 1, 2));
                }
                for _ in 0..rng.below(30) {
                    table.remove(1 + rng.below(50));
                }
                history.push(tick, &[None; PLAYERS_MAX], &table);
                tables.push((tick, table.clone()));
                for (old, expected) in tables.iter().rev() {
                    let age = tick.since(*old);
                    match history.frame(*old) {
                        Some(frame) => {
                            assert_eq!(frame.tick, *old);
                            let indices = frame.indices.iter().copied().map(u32::from);
                            let there = indices.zip(frame.entities.iter().copied());
                            assert!(there.eq(expected.iter().map(|(index, entity)| (index, *entity))));
                        }
                        None => assert!(
                            age > super::super::BASELINE_AGE_MAX,
                            "lost age {age} at interval {interval}"
                        ),
                    }
                    if age > 200 {
                        break;
                    }
                }
                assert!(history.frame(tick.plus(1)).is_none());
                tick = tick.plus(interval);
            }
        }
    }
}
