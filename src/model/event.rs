//! What happens in a room that everyone must hear of, each thing once. Every protocol has its own bytes for these.

use super::PLAYERS_MAX;
use super::entity::{EntityId, Kind};
use super::player::{Name, PlayerId};

/// Why an entity is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum DestroyReason {
    /// Shot, rammed or crashed.
    Killed = 1,
    /// Left the playfield.
    OutOfBounds = 2,
    /// Its time was over.
    Expired = 3,
    /// The stage was cleared for the next round.
    Reset = 4,
    /// Its player left.
    OwnerLeft = 5,
}

/// Why a player is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum LeaveReason {
    /// Of their own accord.
    Left = 1,
    /// Not heard of for too long.
    Timeout = 2,
    /// Sent away.
    Kicked = 3,
}

/// One player's result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Score {
    /// Whose.
    pub player: PlayerId,
    /// Points.
    pub score: u32,
}

/// The results of a round: a score for everyone who was in. Twenty bytes, so that an event is small.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Scores {
    /// Bit n: player n was in.
    players: u8,
    points: [u32; PLAYERS_MAX],
}

impl Scores {
    /// Sets the score of a player who was in.
    pub const fn set(&mut self, player: PlayerId, score: u32) {
        self.players |= 1 << player.get();
        self.points[player.index()] = score;
    }

    /// The results, in player order.
    pub fn iter(&self) -> impl Iterator<Item = Score> {
        let Self { players, points } = *self;
        PlayerId::all()
            .filter(move |player| players >> player.get() & 1 == 1)
            .map(move |player| Score { player, score: points[player.index()] })
    }
}

impl FromIterator<Score> for Scores {
    fn from_iter<I: IntoIterator<Item = Score>>(results: I) -> Self {
        let mut scores = Self::default();
        results.into_iter().for_each(|Score { player, score }| scores.set(player, score));
        scores
    }
}

/// Rooms keep hundreds of events for those who have not acknowledged them.
const _: () = assert!(size_of::<GameEvent>() <= 24);

/// Something that happened. Positions and velocities in the world's units (see [`crate::model`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GameEvent {
    /// An entity appeared.
    Spawn {
        /// Its id.
        id: EntityId,
        /// What it is.
        kind: Kind,
        /// Whose.
        owner: Option<PlayerId>,
        /// Position.
        x: i32,
        /// Position.
        y: i32,
        /// Velocity.
        vx: i16,
        /// Velocity.
        vy: i16,
    },
    /// An entity disappeared, here.
    Destroy {
        /// Its id.
        id: EntityId,
        /// Why.
        reason: DestroyReason,
        /// Position.
        x: i32,
        /// Position.
        y: i32,
    },
    /// A player lost a life, here.
    Death {
        /// Who.
        player: PlayerId,
        /// Lives left.
        lives: u8,
        /// Position.
        x: i32,
        /// Position.
        y: i32,
    },
    /// A player joined.
    PlayerJoined {
        /// Who.
        player: PlayerId,
        /// Under which name.
        name: Name,
    },
    /// A player left.
    PlayerLeft {
        /// Who.
        player: PlayerId,
        /// Why.
        reason: LeaveReason,
    },
    /// The round is over.
    GameOver {
        /// The results.
        scores: Scores,
    },
}
