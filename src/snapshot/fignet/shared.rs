//! Messages that several peers of a room get alike, made once.

use super::area::Area;
use super::encoder::{Request, usable_baseline};
use super::peer::PeerView;
use crate::model::PLAYERS_MAX;
use crate::time::Tick;
use crate::wire::fignet::snapshot::MESSAGE_BYTES_MAX;

/// What a message that says everything depends on, beside its room: peers of one scope are told the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scope {
    tick: Tick,
    baseline: Option<(Tick, Area)>,
    area: Area,
}

impl Scope {
    /// The scope of what [`Encoder::encode`](super::Encoder::encode) would write; `None` when something is stale at the
    /// peer, which makes its message one of its own.
    ///
    /// # Panics
    /// When the history is empty.
    pub fn of(request: &Request<'_>, peer: &PeerView) -> Option<Self> {
        let tick = request.history.newest().expect("a snapshot of a room that has a frame").tick;
        let baseline = match usable_baseline(request.history, peer, tick) {
            Some(frame) if peer.is_exact(frame.tick) => Some((frame.tick, peer.area(frame.tick))),
            Some(_) => return None,
            None => None,
        };
        Some(Self { tick, baseline, area: request.area })
    }
}

/// The messages of the room and tick that were last asked for. Fixed memory: one for each player.
#[derive(Debug)]
pub struct Shared {
    room: Option<(u32, Tick)>,
    messages: [Message; PLAYERS_MAX],
    len: usize,
}

#[derive(Debug)]
struct Message {
    scope: Option<Scope>,
    len: usize,
    bytes: Box<[u8; MESSAGE_BYTES_MAX]>,
}

impl Shared {
    /// No messages; this is the one place that allocates.
    pub fn new() -> Self {
        let message = |_| Message { scope: None, len: 0, bytes: Box::new([0; MESSAGE_BYTES_MAX]) };
        Self { room: None, messages: std::array::from_fn(message), len: 0 }
    }

    /// Where the message of `scope` in the room of this number is, if it was kept.
    pub fn find(&self, room: u32, scope: &Scope) -> Option<usize> {
        if self.room != Some((room, scope.tick)) {
            return None;
        }
        self.messages[..self.len].iter().position(|message| message.scope.as_ref() == Some(scope))
    }

    /// The message that was found `at` a place.
    pub fn message(&self, at: usize) -> &[u8] {
        let Message { len, bytes, .. } = &self.messages[at];
        &bytes[..*len]
    }

    /// Keeps the message of `scope`, one that says everything.
    ///
    /// # Panics
    /// When it is longer than [`MESSAGE_BYTES_MAX`].
    pub fn keep(&mut self, room: u32, scope: Scope, bytes: &[u8]) {
        if self.room != Some((room, scope.tick)) {
            self.room = Some((room, scope.tick));
            self.len = 0;
        }
        // There are at most as many scopes as players; if a room ever had more, the last place is shared.
        let at = self.len.min(PLAYERS_MAX - 1);
        self.len = at + 1;
        let message = &mut self.messages[at];
        (message.scope, message.len) = (Some(scope), bytes.len());
        message.bytes[..bytes.len()].copy_from_slice(bytes);
    }
}

impl Default for Shared {
    fn default() -> Self {
        Self::new()
    }
}
