//! Messages (R-Type 6 to 8): what a client says ([`ClientMessage`]) and what the server says ([`ServerMessage`]).

use super::RawMessage;
use super::blueprint::Blueprint;
use super::snapshot::Snapshot;
use super::value::{Pos16, Rot16};
use crate::model::{self, Controls, Entity, EntityId};

/// A message of fixed size, to be written with [`super::PacketWriter::push`].
pub trait Message {
    /// Its type.
    const KIND: u16;
    /// Its payload's size.
    const BYTES: usize;
    /// Writes its payload to `out`, which is [`Message::BYTES`] long.
    ///
    /// # Panics
    /// When `out` has another length, or a value is not one that the protocol allows.
    fn emit(&self, out: &mut [u8]);
}

/// Why a message is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageError {
    /// A type that the receiver does not know: ignored, which is no fault of the sender.
    UnknownKind,
    /// Type 0, which is never sent.
    ZeroKind,
    /// Not the size that its type has.
    Size,
    /// Entity 0.
    NetworkId,
    /// One of the reserved bits 5 to 7 of the actions is set.
    Actions,
    /// A reason that does not exist.
    Reason,
    /// More than [`super::snapshot::STATES_MAX`] states.
    Count,
    /// An entity that comes twice in one Snapshot.
    Repeated,
}

/// Actions held during one frame of a client (7.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Input {
    /// Number of this input; the first is 1.
    pub sequence: u32,
    /// The client's frame counter.
    pub client_tick: u32,
    /// What is held.
    pub controls: Controls,
}

/// Asks for a Pong (7.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ping {
    /// Comes back as it is.
    pub timestamp: u32,
}

/// Why a client leaves (7.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum DisconnectReason {
    /// Of its own accord.
    Quit = 1,
    /// It did not hear of the server.
    Timeout = 2,
    /// The server broke the protocol.
    ProtocolError = 3,
    /// The server stops.
    ServerShutdown = 4,
}

/// The client leaves (7.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Disconnect {
    /// Why. Servers do not act on it.
    pub reason: DisconnectReason,
}

/// Asks for the CreateEntity of an entity (7.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueryEntity {
    /// Which, never 0.
    pub id: EntityId,
}

/// An entity is there (8.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CreateEntity {
    /// When this was sent.
    pub tick: u32,
    /// Its id, never 0.
    pub id: EntityId,
    /// What it is, see [`Blueprint`].
    pub archetype: u16,
    /// Position.
    pub x: Pos16,
    /// Position.
    pub y: Pos16,
    /// Rotation.
    pub rotation: Rot16,
}

/// Why an entity is gone (8.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum DestroyReason {
    /// Nobody knows.
    Unknown = 0,
    /// Gameplay: hit, killed, or out of the playfield.
    Gameplay = 1,
    /// Out of bounds.
    OutOfBounds = 2,
    /// Its player left.
    Disconnected = 3,
    /// The game ended.
    GameEnded = 4,
}

/// An entity is gone (8.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DestroyEntity {
    /// When this was sent.
    pub tick: u32,
    /// Which, never 0.
    pub id: EntityId,
    /// Why.
    pub reason: DestroyReason,
}

/// Answers a Ping (8.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pong {
    /// That of the Ping.
    pub timestamp: u32,
}

/// What a client says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientMessage {
    /// See [`Input`].
    Input(Input),
    /// See [`Ping`].
    Ping(Ping),
    /// See [`Disconnect`].
    Disconnect(Disconnect),
    /// See [`QueryEntity`].
    QueryEntity(QueryEntity),
}

/// What the server says.
#[derive(Clone, Copy, Debug)]
pub enum ServerMessage<'a> {
    /// See [`Snapshot`].
    Snapshot(Snapshot<'a>),
    /// See [`CreateEntity`].
    CreateEntity(CreateEntity),
    /// See [`DestroyEntity`].
    DestroyEntity(DestroyEntity),
    /// See [`Pong`].
    Pong(Pong),
}

impl ClientMessage {
    /// Checks a message as the server does. The server's own messages are unknown to it.
    pub fn parse(message: &RawMessage<'_>) -> Result<Self, MessageError> {
        Ok(match message.kind {
            Input::KIND => Self::Input(Input::parse(exact(message.payload)?)?),
            Ping::KIND => Self::Ping(Ping { timestamp: u32::from_be_bytes(exact(message.payload)?) }),
            Disconnect::KIND => {
                let [reason] = exact(message.payload)?;
                let reason = DisconnectReason::from_value(reason).ok_or(MessageError::Reason)?;
                Self::Disconnect(Disconnect { reason })
            }
            QueryEntity::KIND => Self::QueryEntity(QueryEntity { id: network_id(exact(message.payload)?)? }),
            0 => return Err(MessageError::ZeroKind),
            _ => return Err(MessageError::UnknownKind),
        })
    }
}

impl<'a> ServerMessage<'a> {
    /// Checks a message as a client does. Clients' messages are unknown to it.
    pub fn parse(message: &RawMessage<'a>) -> Result<Self, MessageError> {
        Ok(match message.kind {
            Snapshot::KIND => Self::Snapshot(Snapshot::parse(message.payload)?),
            CreateEntity::KIND => Self::CreateEntity(CreateEntity::parse(exact(message.payload)?)?),
            DestroyEntity::KIND => Self::DestroyEntity(DestroyEntity::parse(exact(message.payload)?)?),
            Pong::KIND => Self::Pong(Pong { timestamp: u32::from_be_bytes(exact(message.payload)?) }),
            0 => return Err(MessageError::ZeroKind),
            _ => return Err(MessageError::UnknownKind),
        })
    }
}

/// A payload of exactly `N` bytes.
fn exact<const N: usize>(payload: &[u8]) -> Result<[u8; N], MessageError> {
    payload.try_into().map_err(|_| MessageError::Size)
}

const fn network_id(bytes: [u8; 4]) -> Result<EntityId, MessageError> {
    match u32::from_be_bytes(bytes) {
        0 => Err(MessageError::NetworkId),
        id => Ok(EntityId(id)),
    }
}

fn emit_network_id(id: EntityId) -> [u8; 4] {
    assert!(id.0 != 0, "a message about nobody");
    id.0.to_be_bytes()
}

impl Input {
    fn parse(bytes: [u8; Self::BYTES]) -> Result<Self, MessageError> {
        let [s0, s1, s2, s3, t0, t1, t2, t3, actions] = bytes;
        Ok(Self {
            sequence: u32::from_be_bytes([s0, s1, s2, s3]),
            client_tick: u32::from_be_bytes([t0, t1, t2, t3]),
            controls: Controls::from_bits(actions).ok_or(MessageError::Actions)?,
        })
    }
}

impl Message for Input {
    const KIND: u16 = 0x0002;
    const BYTES: usize = 9;

    fn emit(&self, out: &mut [u8]) {
        let [s0, s1, s2, s3] = self.sequence.to_be_bytes();
        let [t0, t1, t2, t3] = self.client_tick.to_be_bytes();
        out.copy_from_slice(&[s0, s1, s2, s3, t0, t1, t2, t3, self.controls.bits()]);
    }
}

impl Message for Ping {
    const KIND: u16 = 0x0003;
    const BYTES: usize = 4;

    fn emit(&self, out: &mut [u8]) {
        out.copy_from_slice(&self.timestamp.to_be_bytes());
    }
}

impl DisconnectReason {
    /// The reason of a wire byte.
    pub const fn from_value(value: u8) -> Option<Self> {
        Some(match value {
            1 => Self::Quit,
            2 => Self::Timeout,
            3 => Self::ProtocolError,
            4 => Self::ServerShutdown,
            _ => return None,
        })
    }
}

impl Message for Disconnect {
    const KIND: u16 = 0x0004;
    const BYTES: usize = 1;

    fn emit(&self, out: &mut [u8]) {
        out.copy_from_slice(&[self.reason as u8]);
    }
}

impl Message for QueryEntity {
    const KIND: u16 = 0x0013;
    const BYTES: usize = 4;

    fn emit(&self, out: &mut [u8]) {
        out.copy_from_slice(&emit_network_id(self.id));
    }
}

impl CreateEntity {
    /// The message about an entity of the world. `None` for one that this protocol cannot describe.
    pub const fn of(tick: u32, id: EntityId, entity: &Entity) -> Option<Self> {
        let Some(blueprint) = Blueprint::of(entity) else { return None };
        Some(Self {
            tick,
            id,
            archetype: blueprint.archetype(),
            x: Pos16::from_units(entity.x),
            y: Pos16::from_units(entity.y),
            // Nothing in this world turns.
            rotation: Rot16(0),
        })
    }

    fn parse(bytes: [u8; Self::BYTES]) -> Result<Self, MessageError> {
        let [t0, t1, t2, t3, i0, i1, i2, i3, k0, k1, x0, x1, y0, y1, r0, r1] = bytes;
        Ok(Self {
            tick: u32::from_be_bytes([t0, t1, t2, t3]),
            id: network_id([i0, i1, i2, i3])?,
            archetype: u16::from_be_bytes([k0, k1]),
            x: Pos16(u16::from_be_bytes([x0, x1])),
            y: Pos16(u16::from_be_bytes([y0, y1])),
            rotation: Rot16(u16::from_be_bytes([r0, r1])),
        })
    }
}

impl Message for CreateEntity {
    const KIND: u16 = 0x0084;
    const BYTES: usize = 16;

    fn emit(&self, out: &mut [u8]) {
        let [t0, t1, t2, t3] = self.tick.to_be_bytes();
        let [i0, i1, i2, i3] = emit_network_id(self.id);
        let ([k0, k1], [r0, r1]) = (self.archetype.to_be_bytes(), self.rotation.0.to_be_bytes());
        let ([x0, x1], [y0, y1]) = (self.x.0.to_be_bytes(), self.y.0.to_be_bytes());
        out.copy_from_slice(&[t0, t1, t2, t3, i0, i1, i2, i3, k0, k1, x0, x1, y0, y1, r0, r1]);
    }
}

impl DestroyReason {
    /// The reason of a wire byte.
    pub const fn from_value(value: u8) -> Option<Self> {
        Some(match value {
            0 => Self::Unknown,
            1 => Self::Gameplay,
            2 => Self::OutOfBounds,
            3 => Self::Disconnected,
            4 => Self::GameEnded,
            _ => return None,
        })
    }
}

impl From<model::DestroyReason> for DestroyReason {
    /// What left the playfield is gone by gameplay, as 8.3 has it.
    fn from(reason: model::DestroyReason) -> Self {
        match reason {
            model::DestroyReason::Killed
            | model::DestroyReason::OutOfBounds
            | model::DestroyReason::Expired => Self::Gameplay,
            model::DestroyReason::OwnerLeft => Self::Disconnected,
            model::DestroyReason::Reset => Self::GameEnded,
        }
    }
}

impl DestroyEntity {
    fn parse(bytes: [u8; Self::BYTES]) -> Result<Self, MessageError> {
        let [t0, t1, t2, t3, i0, i1, i2, i3, reason] = bytes;
        Ok(Self {
            tick: u32::from_be_bytes([t0, t1, t2, t3]),
            id: network_id([i0, i1, i2, i3])?,
            reason: DestroyReason::from_value(reason).ok_or(MessageError::Reason)?,
        })
    }
}

impl Message for DestroyEntity {
    const KIND: u16 = 0x0085;
    const BYTES: usize = 9;

    fn emit(&self, out: &mut [u8]) {
        let [t0, t1, t2, t3] = self.tick.to_be_bytes();
        let [i0, i1, i2, i3] = emit_network_id(self.id);
        out.copy_from_slice(&[t0, t1, t2, t3, i0, i1, i2, i3, self.reason as u8]);
    }
}

impl Message for Pong {
    const KIND: u16 = 0x0086;
    const BYTES: usize = 4;

    fn emit(&self, out: &mut [u8]) {
        out.copy_from_slice(&self.timestamp.to_be_bytes());
    }
}
