//! Reads the recorded rooms of `benches/corpus` (its README describes the format).

use tickwire::model::{Entity, Kind, PLAYERS_MAX, PlayerId, PlayerState};
use tickwire::snapshot::History;
use tickwire::time::Tick;
use tickwire::wire::cursor::Reader;

/// A room at one of the ticks at which snapshots were sent.
pub struct Frame {
    pub tick: Tick,
    pub players: [Option<PlayerState>; PLAYERS_MAX],
    pub entities: Vec<(u32, Entity)>,
}

/// A recorded match.
pub struct Recording {
    pub interval: u32,
    pub frames: Vec<Frame>,
    pub entities_max: usize,
}

/// Four bots in the first level.
pub fn level1() -> Recording {
    read(include_bytes!("../corpus/level1.rooms"))
}

/// Four bots among a crowd of 100.
pub fn stress() -> Recording {
    read(include_bytes!("../corpus/stress.rooms"))
}

fn read(bytes: &[u8]) -> Recording {
    let mut reader = Reader::new(bytes);
    assert_eq!(reader.bytes(5), Some(&b"TWRC\x01"[..]), "a recording of version 1");
    let interval = u32::from(reader.u8().expect("the interval"));
    let mut frames = Vec::new();
    while !reader.at_end() {
        frames.push(frame(&mut reader).expect("a whole frame"));
    }
    let indices = frames.iter().flat_map(|frame| frame.entities.iter().map(|(index, _)| *index));
    let entities_max = indices.max().expect("somebody lived") as usize;
    Recording { interval, frames, entities_max }
}

fn frame(reader: &mut Reader<'_>) -> Option<Frame> {
    let tick = Tick(reader.u32()?);
    let mut players = [None; PLAYERS_MAX];
    for _ in 0..reader.u8()? {
        let (number, alive, lives, score) = (reader.u8()?, reader.bool()?, reader.u8()?, reader.u32()?);
        players[usize::from(number)] = Some(PlayerState { alive, lives, score });
    }
    let count = reader.u16()?;
    let entities = (0..count).map(|_| entity(reader)).collect::<Option<Vec<_>>>()?;
    Some(Frame { tick, players, entities })
}

fn entity(reader: &mut Reader<'_>) -> Option<(u32, Entity)> {
    let index = reader.u32()?;
    let (generation, kind, owner, variant) = (reader.u8()?, Kind(reader.u8()?), reader.u8()?, reader.u8()?);
    let (x, y, vx, vy, health) = (reader.i32()?, reader.i32()?, reader.i16()?, reader.i16()?, reader.u8()?);
    let mut entity =
        Entity::new(kind).with_owner(PlayerId::new(owner)).with_variant(variant).moving(x, y, vx, vy);
    entity.generation = generation;
    entity.health = health;
    Some((index, entity))
}

impl Recording {
    /// Plays the recording into a history, and hands it over after each frame.
    pub fn play(&self, mut each: impl FnMut(&Frame, &History)) {
        let mut history = History::new(self.entities_max, self.interval);
        for frame in &self.frames {
            let entities = frame.entities.iter().map(|(index, entity)| (*index, entity));
            history.push_frame(frame.tick, &frame.players, frame.entities.len(), entities);
            each(frame, &history);
        }
    }
}
