//! Event datagrams and the six contents. Implements Aegis 4.4, 5.2 and 6.4.

use crate::limits::TICK_RATE_HZ;
use crate::model::{
    DestroyReason, EntityId, GameEvent, Kind, LeaveReason, Name, PLAYERS_MAX, PlayerId, UNITS_PER_PIXEL,
};
use crate::wire::cursor::{Reader, Writer};

/// Bytes of the longest content that this version has: a Spawn.
pub const CONTENT_BYTES_MAX: usize = 27;

/// An Event datagram's list, checked in its framing (5.2).
#[derive(Clone, Copy, Debug)]
pub struct EventList<'a> {
    count: u8,
    events: &'a [u8],
}

/// Why a payload is no list of events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventListError {
    /// No events.
    Empty,
    /// An event goes past the end.
    Truncated,
    /// Bytes are left after the last event.
    Trailing,
}

impl<'a> EventList<'a> {
    /// Checks a payload's framing.
    pub fn parse(payload: &'a [u8]) -> Result<Self, EventListError> {
        let mut reader = Reader::new(payload);
        let count = reader.u8();
        if count == 0 {
            return Err(if payload.is_empty() { EventListError::Truncated } else { EventListError::Empty });
        }
        let events = reader.rest();
        for _ in 0..count {
            reader.u16();
            reader.string();
        }
        reader.check().map_err(|_| EventListError::Truncated)?;
        if reader.is_finished() { Ok(Self { count, events }) } else { Err(EventListError::Trailing) }
    }

    /// The events' ids and contents, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &'a [u8])> {
        let mut reader = Reader::new(self.events);
        (0..self.count).map(move |_| (reader.u16(), reader.string()))
    }
}

/// Writes an Event datagram's payload in place.
#[derive(Debug)]
pub struct EventListWriter<'a> {
    buffer: &'a mut [u8],
    len: usize,
    count: u8,
}

impl<'a> EventListWriter<'a> {
    /// An empty list in `buffer`.
    pub const fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, len: 1, count: 0 }
    }

    /// Appends an event if the longest content fits: `write` fills it in and returns its length. Returns whether it
    /// did.
    pub fn push(&mut self, id: u16, write: impl FnOnce(&mut [u8]) -> usize) -> bool {
        let start = self.len + 4;
        let Some(content) = self.buffer.get_mut(start..start + CONTENT_BYTES_MAX) else { return false };
        if self.count == u8::MAX {
            return false;
        }
        let len = write(content);
        self.buffer[self.len..self.len + 2].copy_from_slice(&id.to_le_bytes());
        self.buffer[self.len + 2..start].copy_from_slice(&(len as u16).to_le_bytes());
        self.len = start + len;
        self.count += 1;
        true
    }

    /// The payload's length; `None` when there is no event in it.
    pub fn finish(self) -> Option<usize> {
        *self.buffer.first_mut()? = self.count;
        (self.count > 0).then_some(self.len)
    }
}

/// An event as it travels (4.4). Positions in pixels, velocities in pixels per second.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Event {
    /// An entity appeared.
    Spawn {
        /// When.
        tick: u32,
        /// Its id.
        id: EntityId,
        /// What it is; a client ignores the event when it does not know the kind.
        kind: Kind,
        /// Whose.
        owner: Option<PlayerId>,
        /// Position.
        x: f32,
        /// Position.
        y: f32,
        /// Velocity.
        vx: f32,
        /// Velocity.
        vy: f32,
    },
    /// An entity disappeared.
    Destroy {
        /// When.
        tick: u32,
        /// Its id.
        id: EntityId,
        /// Why.
        reason: DestroyReason,
        /// Position.
        x: f32,
        /// Position.
        y: f32,
    },
    /// A player lost a life.
    Death {
        /// When.
        tick: u32,
        /// Who.
        player: PlayerId,
        /// Lives left.
        lives: u8,
        /// Position.
        x: f32,
        /// Position.
        y: f32,
    },
    /// A player joined.
    PlayerJoined {
        /// When.
        tick: u32,
        /// Who.
        player: PlayerId,
        /// Under which name.
        name: Name,
    },
    /// A player left.
    PlayerLeft {
        /// When.
        tick: u32,
        /// Who.
        player: PlayerId,
        /// Why.
        reason: LeaveReason,
    },
    /// The round is over.
    GameOver {
        /// When.
        tick: u32,
        /// Player and score, the first `None` ends them.
        scores: [Option<(PlayerId, u32)>; PLAYERS_MAX],
    },
}

/// Why an event is ignored (6.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventContentError {
    /// A type that this version does not know.
    UnknownType,
    /// The bytes do not match the type.
    Malformed,
}

impl Event {
    /// An event of the game, in the wire's units.
    pub fn from_game(tick: u32, event: &GameEvent) -> Self {
        match *event {
            GameEvent::Spawn { id, kind, owner, x, y, vx, vy } => Self::Spawn {
                tick,
                id,
                kind,
                owner,
                x: pixels(x),
                y: pixels(y),
                vx: pixels_per_second(vx),
                vy: pixels_per_second(vy),
            },
            GameEvent::Destroy { id, reason, x, y } => {
                Self::Destroy { tick, id, reason, x: pixels(x), y: pixels(y) }
            }
            GameEvent::Death { player, lives, x, y } => {
                Self::Death { tick, player, lives, x: pixels(x), y: pixels(y) }
            }
            GameEvent::PlayerJoined { player, name } => Self::PlayerJoined { tick, player, name },
            GameEvent::PlayerLeft { player, reason } => Self::PlayerLeft { tick, player, reason },
            GameEvent::GameOver { scores } => Self::GameOver {
                tick,
                scores: scores.map(|score| score.map(|score| (score.player, score.score))),
            },
        }
    }

    /// When it happened.
    pub const fn tick(&self) -> u32 {
        match *self {
            Self::Spawn { tick, .. }
            | Self::Destroy { tick, .. }
            | Self::Death { tick, .. }
            | Self::PlayerJoined { tick, .. }
            | Self::PlayerLeft { tick, .. }
            | Self::GameOver { tick, .. } => tick,
        }
    }

    /// Reads a content, whole.
    pub fn parse(content: &[u8]) -> Result<Self, EventContentError> {
        let mut fields = Reader::new(content);
        let (kind, tick) = (fields.u8(), fields.u32());
        fields.check().map_err(|_| EventContentError::Malformed)?;
        let event = match kind {
            1 => parse_spawn(tick, &mut fields),
            2 => parse_destroy(tick, &mut fields),
            3 => parse_death(tick, &mut fields),
            4 => parse_joined(tick, &mut fields),
            5 => parse_left(tick, &mut fields),
            6 => parse_game_over(tick, &mut fields),
            _ => return Err(EventContentError::UnknownType),
        };
        event.filter(|_| fields.is_finished()).ok_or(EventContentError::Malformed)
    }

    /// Writes the content, and returns how many bytes that took.
    ///
    /// # Panics
    /// When `out` is shorter than [`CONTENT_BYTES_MAX`].
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let mut fields = Writer::new(out);
        let mut open = |kind: u8, tick: u32| {
            fields.u8(kind);
            fields.u32(tick);
        };
        match *self {
            Self::Spawn { tick, id, kind, owner, x, y, vx, vy } => {
                open(1, tick);
                fields.u32(id.0);
                fields.u8(kind.0);
                fields.u8(owner.map_or(NOBODY, PlayerId::get));
                [x, y, vx, vy].into_iter().for_each(|value| fields.f32(value));
            }
            Self::Destroy { tick, id, reason, x, y } => {
                open(2, tick);
                fields.u32(id.0);
                fields.u8(reason as u8);
                [x, y].into_iter().for_each(|value| fields.f32(value));
            }
            Self::Death { tick, player, lives, x, y } => {
                open(3, tick);
                fields.u8(player.get());
                fields.u8(lives);
                [x, y].into_iter().for_each(|value| fields.f32(value));
            }
            Self::PlayerJoined { tick, player, name } => {
                open(4, tick);
                fields.u8(player.get());
                fields.u16(name.as_bytes().len() as u16);
                fields.bytes(name.as_bytes());
            }
            Self::PlayerLeft { tick, player, reason } => {
                open(5, tick);
                fields.u8(player.get());
                fields.u8(reason as u8);
            }
            Self::GameOver { tick, scores } => {
                open(6, tick);
                fields.u8(scores.iter().flatten().count() as u8);
                for (player, score) in scores.into_iter().flatten() {
                    fields.u8(player.get());
                    fields.u32(score);
                }
            }
        }
        fields.finish().expect("room for the longest content")
    }
}

/// Owner of what is nobody's.
const NOBODY: u8 = 255;

fn parse_spawn(tick: u32, fields: &mut Reader<'_>) -> Option<Event> {
    let (id, kind, owner) = (EntityId(fields.u32()), Kind(fields.u8()), fields.u8());
    let [x, y, vx, vy] = [finite(fields)?, finite(fields)?, finite(fields)?, finite(fields)?];
    let owner = match owner {
        NOBODY => None,
        player => Some(PlayerId::new(player)?),
    };
    Some(Event::Spawn { tick, id, kind, owner, x, y, vx, vy })
}

fn parse_destroy(tick: u32, fields: &mut Reader<'_>) -> Option<Event> {
    let id = EntityId(fields.u32());
    let reason = match fields.u8() {
        2 => DestroyReason::OutOfBounds,
        3 => DestroyReason::Expired,
        4 => DestroyReason::Reset,
        _ => DestroyReason::Killed,
    };
    Some(Event::Destroy { tick, id, reason, x: finite(fields)?, y: finite(fields)? })
}

fn parse_death(tick: u32, fields: &mut Reader<'_>) -> Option<Event> {
    let (player, lives) = (PlayerId::new(fields.u8())?, fields.u8());
    Some(Event::Death { tick, player, lives, x: finite(fields)?, y: finite(fields)? })
}

fn parse_joined(tick: u32, fields: &mut Reader<'_>) -> Option<Event> {
    let (player, name) = (PlayerId::new(fields.u8())?, Name::new(fields.string()).ok()?);
    Some(Event::PlayerJoined { tick, player, name })
}

fn parse_left(tick: u32, fields: &mut Reader<'_>) -> Option<Event> {
    let player = PlayerId::new(fields.u8())?;
    let reason = match fields.u8() {
        2 => LeaveReason::Timeout,
        3 => LeaveReason::Kicked,
        _ => LeaveReason::Left,
    };
    Some(Event::PlayerLeft { tick, player, reason })
}

fn parse_game_over(tick: u32, fields: &mut Reader<'_>) -> Option<Event> {
    let mut scores = [None; PLAYERS_MAX];
    let count = usize::from(fields.u8());
    for place in scores.get_mut(..count)? {
        *place = Some((PlayerId::new(fields.u8())?, fields.u32()));
    }
    Some(Event::GameOver { tick, scores })
}

fn finite(fields: &mut Reader<'_>) -> Option<f32> {
    Some(fields.f32()).filter(|value| value.is_finite())
}

/// Exact: positions have 20 bits, and 64 is a power of two.
fn pixels(units: i32) -> f32 {
    units as f32 / UNITS_PER_PIXEL as f32
}

fn pixels_per_second(units_per_tick: i16) -> f32 {
    f32::from(units_per_tick) * TICK_RATE_HZ as f32 / UNITS_PER_PIXEL as f32
}
