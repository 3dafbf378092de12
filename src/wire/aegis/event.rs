//! Events (Aegis 4.4, 5.2, 6.4): the list in the payload of an Event datagram, and the content of each event.
//!
//! The two are checked apart: a list whose framing is wrong is dropped whole ([`EventList::parse`]), an event whose
//! content is wrong is ignored on its own ([`Event::parse`]).

use crate::model::{
    DestroyReason, EntityId, GameEvent, Kind, LeaveReason, Name, PLAYERS_MAX, PlayerId, Score,
    UNITS_PER_PIXEL,
};
use crate::wire::cursor::{Reader, Writer};

/// Longest content that [`Event::emit`] writes: PlayerJoined with the longest name, Spawn, or GameOver of four.
pub const CONTENT_BYTES_MAX: usize = 27;

/// Bytes in front of each event's content: its id and its length.
const FRAMING_BYTES: usize = 4;

/// What the world's ticks per second are when velocities become pixels per second.
const TICK_RATE_HZ: f32 = 60.0;

const _: () = assert!(
    CONTENT_BYTES_MAX >= 8 + Name::BYTES_MAX
        && CONTENT_BYTES_MAX >= 6 + 5 * PLAYERS_MAX
        && CONTENT_BYTES_MAX == 5 + 4 + 1 + 1 + 4 * 4
);

/// The payload of an Event datagram, its framing checked.
#[derive(Clone, Copy, Debug)]
pub struct EventList<'a> {
    count: u8,
    events: &'a [u8],
}

/// Why a payload is no list of events: it is dropped whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventListError {
    /// A count of 0.
    Empty,
    /// An event, or the count, goes past the end.
    Truncated,
    /// Bytes are left after the last event.
    Trailing,
}

impl<'a> EventList<'a> {
    /// Checks the framing of `payload`: the count, and every event's length against what is there.
    pub fn parse(payload: &'a [u8]) -> Result<Self, EventListError> {
        let (&count, events) = payload.split_first().ok_or(EventListError::Truncated)?;
        if count == 0 {
            return Err(EventListError::Empty);
        }
        let mut rest = events;
        for _ in 0..count {
            (_, _, rest) = split_event(rest).ok_or(EventListError::Truncated)?;
        }
        if rest.is_empty() { Ok(Self { count, events }) } else { Err(EventListError::Trailing) }
    }

    /// How many events: 1 to 255.
    pub const fn count(&self) -> u8 {
        self.count
    }

    /// The events in the order of the list, each with its id and its content.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &'a [u8])> + use<'a> {
        let mut rest = self.events;
        std::iter::from_fn(move || {
            let (id, content, after) = split_event(rest)?;
            rest = after;
            Some((id, content))
        })
    }
}

/// The id and content of the event at the front of `bytes`, and what follows it.
#[inline]
fn split_event(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let (&[i0, i1, l0, l1], rest) = bytes.split_first_chunk()?;
    let (content, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes([l0, l1])))?;
    Some((u16::from_le_bytes([i0, i1]), content, rest))
}

/// Writes the payload of an Event datagram in place.
#[derive(Debug)]
pub struct EventListWriter<'a> {
    out: &'a mut [u8],
    len: usize,
    count: u8,
}

impl<'a> EventListWriter<'a> {
    /// An empty list in `out`, whose length is the limit of the payload.
    pub const fn new(out: &'a mut [u8]) -> Self {
        Self { out, len: 1, count: 0 }
    }

    /// Appends the event of number `id` whose content `write` writes to the front of the slice that it is given, at
    /// least [`CONTENT_BYTES_MAX`] long, returning its length. False, without a call of `write`, when there may not be
    /// enough room, or the list has its 255 events.
    ///
    /// # Panics
    /// When `write` returns more than it was given.
    pub fn push(&mut self, id: u16, write: impl FnOnce(&mut [u8]) -> usize) -> bool {
        let Some((framing, content)) = self.room(CONTENT_BYTES_MAX) else { return false };
        let len = write(content);
        assert!(len <= content.len(), "an event longer than its room");
        frame(framing, id, len);
        self.len += FRAMING_BYTES + len;
        self.count += 1;
        true
    }

    /// Appends the event of number `id` with the given content. False when it does not fit, or the list has its 255
    /// events.
    pub fn push_content(&mut self, id: u16, content: &[u8]) -> bool {
        let Some((framing, room)) = self.room(content.len()) else { return false };
        room[..content.len()].copy_from_slice(content);
        frame(framing, id, content.len());
        self.len += FRAMING_BYTES + content.len();
        self.count += 1;
        true
    }

    /// The payload's length in bytes; `None` when the list is empty, which no datagram may carry.
    pub fn finish(self) -> Option<usize> {
        if self.count == 0 {
            return None;
        }
        self.out[0] = self.count;
        Some(self.len)
    }

    /// Where the next event's framing and content go, when `content_len` bytes of it fit.
    fn room(&mut self, content_len: usize) -> Option<(&mut [u8; FRAMING_BYTES], &mut [u8])> {
        let free = self.out.get_mut(self.len..)?;
        let (framing, content) = free.split_first_chunk_mut()?;
        // A length has 16 bits, whatever the buffer.
        let content_max = content.len().min(usize::from(u16::MAX));
        let fits = self.count < u8::MAX && content_len <= content_max;
        fits.then_some((framing, &mut content[..content_max]))
    }
}

fn frame(framing: &mut [u8; FRAMING_BYTES], id: u16, len: usize) {
    let ([i0, i1], [l0, l1]) = (id.to_le_bytes(), (len as u16).to_le_bytes());
    *framing = [i0, i1, l0, l1];
}

/// What happened, and at which tick. Positions in pixels, velocities in pixels per second, all finite.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Event {
    /// An entity appeared.
    Spawn {
        /// When.
        tick: u32,
        /// Its id.
        id: EntityId,
        /// What it is. A client that does not know the kind ignores the event.
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
    /// An entity disappeared, here.
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
    /// A player lost a life, here.
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
        /// The results; the first `None` ends them.
        scores: [Option<Score>; PLAYERS_MAX],
    },
}

/// Why an event is to be ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventContentError {
    /// A type of 0 or 7 to 255: a later version's.
    UnknownType(u8),
    /// Too short, or too long, for what it is.
    Size,
    /// The id 0, or the index 0 in any generation.
    Id,
    /// An owner other than 0 to 3 and 255.
    Owner,
    /// A player above 3.
    Player,
    /// A position or velocity that is infinite or not a number.
    NotFinite,
    /// A name that LoginRequest would not be allowed.
    Name,
    /// More than four scores.
    Scores,
}

impl Event {
    /// The event of the game `event`, which happened at `tick`, in the wire's units. Exact: a position has 20 bits,
    /// and a velocity in pixels per second is a multiple of 15/16.
    pub fn from_game(tick: u32, event: &GameEvent) -> Self {
        match *event {
            GameEvent::Spawn { id, kind, owner, x, y, vx, vy } => {
                let (x, y, vx, vy) = (pixels(x), pixels(y), pixels_per_second(vx), pixels_per_second(vy));
                Self::Spawn { tick, id, kind, owner, x, y, vx, vy }
            }
            GameEvent::Destroy { id, reason, x, y } => {
                Self::Destroy { tick, id, reason: as_told(reason), x: pixels(x), y: pixels(y) }
            }
            GameEvent::Death { player, lives, x, y } => {
                Self::Death { tick, player, lives, x: pixels(x), y: pixels(y) }
            }
            GameEvent::PlayerJoined { player, name } => Self::PlayerJoined { tick, player, name },
            GameEvent::PlayerLeft { player, reason } => Self::PlayerLeft { tick, player, reason },
            GameEvent::GameOver { scores: results } => {
                let mut scores = [None; PLAYERS_MAX];
                scores.iter_mut().zip(results.iter()).for_each(|(place, score)| *place = Some(score));
                Self::GameOver { tick, scores }
            }
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

    /// The event whose content is `bytes`, checked whole.
    pub fn parse(bytes: &[u8]) -> Result<Self, EventContentError> {
        let mut reader = Reader::new(bytes);
        let kind = reader.u8().ok_or(EventContentError::Size)?;
        let tick = reader.u32().ok_or(EventContentError::Size)?;
        let fields = Fields(reader);
        match kind {
            SPAWN => fields.spawn(tick),
            DESTROY => fields.destroy(tick),
            DEATH => fields.death(tick),
            PLAYER_JOINED => fields.player_joined(tick),
            PLAYER_LEFT => fields.player_left(tick),
            GAME_OVER => fields.game_over(tick),
            unknown => Err(EventContentError::UnknownType(unknown)),
        }
    }

    /// Writes the content to the front of `out` and returns how many bytes that are.
    ///
    /// # Panics
    /// When it does not fit ([`CONTENT_BYTES_MAX`] always do).
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let mut writer = Writer::new(out);
        let mut begin = |kind: u8| {
            writer.u8(kind);
            writer.u32(self.tick());
        };
        match *self {
            Self::Spawn { id, kind, owner, x, y, vx, vy, .. } => {
                begin(SPAWN);
                writer.u32(id.0);
                writer.u8(kind.0);
                writer.u8(owner.map_or(OWNER_NOBODY, PlayerId::get));
                [x, y, vx, vy].into_iter().for_each(|value| writer.f32(value));
            }
            Self::Destroy { id, reason, x, y, .. } => {
                begin(DESTROY);
                writer.u32(id.0);
                writer.u8(as_told(reason) as u8);
                [x, y].into_iter().for_each(|value| writer.f32(value));
            }
            Self::Death { player, lives, x, y, .. } => {
                begin(DEATH);
                writer.u8(player.get());
                writer.u8(lives);
                [x, y].into_iter().for_each(|value| writer.f32(value));
            }
            Self::PlayerJoined { player, name, .. } => {
                begin(PLAYER_JOINED);
                writer.u8(player.get());
                writer.u16(name.as_bytes().len() as u16);
                writer.bytes(name.as_bytes());
            }
            Self::PlayerLeft { player, reason, .. } => {
                begin(PLAYER_LEFT);
                writer.u8(player.get());
                writer.u8(reason as u8);
            }
            Self::GameOver { scores, .. } => {
                begin(GAME_OVER);
                let scores = || scores.iter().map_while(|&score| score);
                writer.u8(scores().count() as u8);
                for score in scores() {
                    writer.u8(score.player.get());
                    writer.u32(score.score);
                }
            }
        }
        writer.finish().expect("room for the event")
    }
}

const SPAWN: u8 = 1;
const DESTROY: u8 = 2;
const DEATH: u8 = 3;
const PLAYER_JOINED: u8 = 4;
const PLAYER_LEFT: u8 = 5;
const GAME_OVER: u8 = 6;

const OWNER_NOBODY: u8 = 255;

/// The fields after type and tick. Each kind first checks that exactly its bytes are there: a wrong size is told before
/// any wrong value.
struct Fields<'a>(Reader<'a>);

impl Fields<'_> {
    fn spawn(mut self, tick: u32) -> Result<Event, EventContentError> {
        self.exactly(22)?;
        let id = self.id()?;
        let kind = Kind(self.u8()?);
        let owner = match self.u8()? {
            OWNER_NOBODY => None,
            player => Some(PlayerId::new(player).ok_or(EventContentError::Owner)?),
        };
        let (x, y, vx, vy) = (self.finite()?, self.finite()?, self.finite()?, self.finite()?);
        Ok(Event::Spawn { tick, id, kind, owner, x, y, vx, vy })
    }

    fn destroy(mut self, tick: u32) -> Result<Event, EventContentError> {
        self.exactly(13)?;
        let id = self.id()?;
        let reason = match self.u8()? {
            2 => DestroyReason::OutOfBounds,
            3 => DestroyReason::Expired,
            4 => DestroyReason::Reset,
            _ => DestroyReason::Killed,
        };
        Ok(Event::Destroy { tick, id, reason, x: self.finite()?, y: self.finite()? })
    }

    fn death(mut self, tick: u32) -> Result<Event, EventContentError> {
        self.exactly(10)?;
        let (player, lives) = (self.player()?, self.u8()?);
        Ok(Event::Death { tick, player, lives, x: self.finite()?, y: self.finite()? })
    }

    fn player_joined(mut self, tick: u32) -> Result<Event, EventContentError> {
        let player = self.player()?;
        let len = self.0.u16().ok_or(EventContentError::Size)?;
        self.exactly(usize::from(len))?;
        let name = Name::new(self.0.rest()).map_err(|_| EventContentError::Name)?;
        Ok(Event::PlayerJoined { tick, player, name })
    }

    fn player_left(mut self, tick: u32) -> Result<Event, EventContentError> {
        self.exactly(2)?;
        let player = self.player()?;
        let reason = match self.u8()? {
            2 => LeaveReason::Timeout,
            3 => LeaveReason::Kicked,
            _ => LeaveReason::Left,
        };
        Ok(Event::PlayerLeft { tick, player, reason })
    }

    fn game_over(mut self, tick: u32) -> Result<Event, EventContentError> {
        let count = usize::from(self.u8()?);
        let mut scores = [None; PLAYERS_MAX];
        let places = scores.get_mut(..count).ok_or(EventContentError::Scores)?;
        self.exactly(5 * count)?;
        for place in places {
            let player = self.player()?;
            let score = self.0.u32().ok_or(EventContentError::Size)?;
            *place = Some(Score { player, score });
        }
        Ok(Event::GameOver { tick, scores })
    }

    /// Checks that `len` bytes are left.
    fn exactly(&self, len: usize) -> Result<(), EventContentError> {
        if self.0.rest().len() == len { Ok(()) } else { Err(EventContentError::Size) }
    }

    fn u8(&mut self) -> Result<u8, EventContentError> {
        self.0.u8().ok_or(EventContentError::Size)
    }

    fn id(&mut self) -> Result<EntityId, EventContentError> {
        let id = EntityId(self.0.u32().ok_or(EventContentError::Size)?);
        if id.index() == 0 { Err(EventContentError::Id) } else { Ok(id) }
    }

    fn player(&mut self) -> Result<PlayerId, EventContentError> {
        PlayerId::new(self.u8()?).ok_or(EventContentError::Player)
    }

    fn finite(&mut self) -> Result<f32, EventContentError> {
        let value = self.0.f32().ok_or(EventContentError::Size)?;
        if value.is_finite() { Ok(value) } else { Err(EventContentError::NotFinite) }
    }
}

fn pixels(units: i32) -> f32 {
    units as f32 / UNITS_PER_PIXEL as f32
}

fn pixels_per_second(units_per_tick: i16) -> f32 {
    f32::from(units_per_tick) * TICK_RATE_HZ / UNITS_PER_PIXEL as f32
}

/// Aegis has one reason for what expired and for what its player took along.
const fn as_told(reason: DestroyReason) -> DestroyReason {
    match reason {
        DestroyReason::OwnerLeft => DestroyReason::Expired,
        reason => reason,
    }
}

#[cfg(test)]
mod tests;
