//! The messages of the login stream. Implements Aegis 3 and 6.5.

use std::fmt;

use crate::model::{Name, NameError, PlayerId};
use crate::wire::cursor::{Reader, Writer};

/// Bytes of a message's body, at most (1.3).
pub const BODY_BYTES_MAX: usize = 4096;

/// Bytes of a body that decide what it says: a LoginRequest with the longest name. Of a longer message only the length
/// matters: it is malformed, or a LoginRequest whose name is too long.
const BODY_BYTES_KEPT: usize = 4 + Name::BYTES_MAX;

/// Kinds of messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum MessageKind {
    /// Asks for a session.
    LoginRequest = 1,
    /// Gives one.
    LoginAccepted = 2,
    /// Refuses.
    LoginRejected = 3,
    /// Ends the session.
    Logout = 4,
}

/// What a client says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientMessage {
    /// A player wants in.
    LoginRequest {
        /// Protocol version.
        version: u8,
        /// The name, or why it is none: that is for the server to answer, not malformed.
        name: Result<Name, NameError>,
    },
    /// The player leaves.
    Logout(LogoutReason),
}

/// What a server says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServerMessage {
    /// The player is in.
    LoginAccepted {
        /// Session token, never 0.
        session: u32,
        /// Port to play on.
        udp_port: u16,
        /// The player's slot.
        player: PlayerId,
        /// Ticks per second, never 0.
        tick_rate: u8,
        /// Ticks from one snapshot to the next, never 0.
        snapshot_interval: u8,
    },
    /// The player is not in.
    LoginRejected(RejectReason),
    /// The session is over.
    Logout(LogoutReason),
}

/// Why a login is refused (3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RejectReason {
    /// Another protocol version.
    BadVersion,
    /// Not a name.
    BadName,
    /// No free slot.
    ServerFull,
    /// The server stops.
    ShuttingDown,
    /// Too many from this address.
    RateLimited,
    /// A reason that this version does not know.
    Refused,
}

/// Why a session is over (3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum LogoutReason {
    /// Of its own accord. Unknown reasons read as this.
    Quit = 0,
    /// The server stops.
    ServerShutdown = 1,
    /// Too many malformed datagrams.
    ProtocolError = 2,
    /// Not heard of for too long.
    Timeout = 3,
    /// Sent away.
    Kicked = 4,
}

/// Why a stream cannot be read on: it is to be closed (6.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamError {
    /// The length is above [`BODY_BYTES_MAX`].
    TooLarge,
    /// The length is 0: no kind.
    Empty,
    /// A kind that does not exist.
    UnknownKind,
    /// The fields do not add up.
    Malformed(MessageKind),
    /// Not now, or not in this direction.
    Unexpected(MessageKind),
}

/// A whole message, not yet read.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    kept: &'a [u8],
    len: usize,
}

/// Puts messages together from a stream's bytes, however they are cut. It keeps no more than it takes to judge a
/// message: 22 bytes.
#[derive(Clone, Debug)]
pub struct FrameReader {
    head: [u8; 2],
    kept: [u8; BODY_BYTES_KEPT],
    /// Bytes of the current message taken so far, its length prefix included.
    taken: usize,
}

impl FrameReader {
    /// At the beginning of a stream.
    pub const fn new() -> Self {
        Self { head: [0; 2], kept: [0; BODY_BYTES_KEPT], taken: 0 }
    }

    /// Takes bytes from the front of `bytes` up to the end of the current message. `None` when the message is not
    /// whole yet and all bytes were taken. An error is told as soon as the length prefix shows it.
    pub fn push(&mut self, bytes: &mut &[u8]) -> Option<Result<Frame<'_>, StreamError>> {
        while let Some((&byte, rest)) = bytes.split_first() {
            if self.taken >= 2 {
                break;
            }
            self.head[self.taken] = byte;
            self.taken += 1;
            *bytes = rest;
        }
        if self.taken < 2 {
            return None;
        }
        let len = usize::from(u16::from_le_bytes(self.head));
        if len == 0 {
            return Some(Err(StreamError::Empty));
        }
        if len > BODY_BYTES_MAX {
            return Some(Err(StreamError::TooLarge));
        }
        let have = self.taken - 2;
        let (part, rest) = bytes.split_at(bytes.len().min(len - have));
        *bytes = rest;
        if let Some(place) = self.kept.get_mut(have..) {
            let kept = part.len().min(place.len());
            place[..kept].copy_from_slice(&part[..kept]);
        }
        self.taken += part.len();
        if self.taken - 2 < len {
            return None;
        }
        self.taken = 0;
        Some(Ok(Frame { kept: &self.kept[..len.min(BODY_BYTES_KEPT)], len }))
    }
}

impl Default for FrameReader {
    fn default() -> Self {
        Self::new()
    }
}

impl Frame<'_> {
    /// Reads what a client says.
    pub fn client_message(&self) -> Result<ClientMessage, StreamError> {
        let (kind, mut fields) = self.open()?;
        let message = match kind {
            MessageKind::LoginRequest => {
                let version = fields.u8();
                let name_len = usize::from(fields.u16());
                // Kind, version and length take four bytes; the name must be all of the rest.
                if fields.check().is_err() || name_len != self.len - 4 {
                    return Err(StreamError::Malformed(kind));
                }
                let name = if name_len > Name::BYTES_MAX {
                    Err(NameError::TooLong)
                } else {
                    Name::new(fields.bytes(name_len))
                };
                return Ok(ClientMessage::LoginRequest { version, name });
            }
            MessageKind::Logout => ClientMessage::Logout(LogoutReason::from_bits(fields.u8())),
            MessageKind::LoginAccepted | MessageKind::LoginRejected => {
                return Err(StreamError::Unexpected(kind));
            }
        };
        self.close(kind, &fields, message)
    }

    /// Reads what a server says.
    pub fn server_message(&self) -> Result<ServerMessage, StreamError> {
        let (kind, mut fields) = self.open()?;
        let message = match kind {
            MessageKind::LoginAccepted => {
                let (session, udp_port, player) = (fields.u32(), fields.u16(), PlayerId::new(fields.u8()));
                let (tick_rate, snapshot_interval) = (fields.u8(), fields.u8());
                let player = player.ok_or(StreamError::Malformed(kind))?;
                if session == 0 || tick_rate == 0 || snapshot_interval == 0 {
                    return Err(StreamError::Malformed(kind));
                }
                ServerMessage::LoginAccepted { session, udp_port, player, tick_rate, snapshot_interval }
            }
            MessageKind::LoginRejected => ServerMessage::LoginRejected(RejectReason::from_bits(fields.u8())),
            MessageKind::Logout => ServerMessage::Logout(LogoutReason::from_bits(fields.u8())),
            MessageKind::LoginRequest => return Err(StreamError::Unexpected(kind)),
        };
        self.close(kind, &fields, message)
    }

    fn open(&self) -> Result<(MessageKind, Reader<'_>), StreamError> {
        let mut reader = Reader::new(self.kept);
        let kind = match reader.u8() {
            1 => MessageKind::LoginRequest,
            2 => MessageKind::LoginAccepted,
            3 => MessageKind::LoginRejected,
            4 => MessageKind::Logout,
            _ => return Err(StreamError::UnknownKind),
        };
        Ok((kind, reader))
    }

    /// The message, if its fields were all there and nothing is left.
    fn close<M>(&self, kind: MessageKind, fields: &Reader<'_>, message: M) -> Result<M, StreamError> {
        let is_whole = fields.is_finished() && self.len == self.kept.len();
        if is_whole { Ok(message) } else { Err(StreamError::Malformed(kind)) }
    }
}

impl ClientMessage {
    /// Its kind.
    pub const fn kind(&self) -> MessageKind {
        match self {
            Self::LoginRequest { .. } => MessageKind::LoginRequest,
            Self::Logout(_) => MessageKind::Logout,
        }
    }

    /// Writes the message with its length, and returns how many bytes that took: at most 22.
    ///
    /// # Panics
    /// When `out` is too short, or the message is a LoginRequest without a name.
    pub fn emit(&self, out: &mut [u8]) -> usize {
        emit(self.kind(), out, |fields| match self {
            Self::LoginRequest { version, name } => {
                let name = name.as_ref().expect("only a name can be sent");
                fields.u8(*version);
                fields.u16(name.as_bytes().len() as u16);
                fields.bytes(name.as_bytes());
            }
            Self::Logout(reason) => fields.u8(*reason as u8),
        })
    }
}

impl ServerMessage {
    /// Its kind.
    pub const fn kind(&self) -> MessageKind {
        match self {
            Self::LoginAccepted { .. } => MessageKind::LoginAccepted,
            Self::LoginRejected(_) => MessageKind::LoginRejected,
            Self::Logout(_) => MessageKind::Logout,
        }
    }

    /// Writes the message with its length, and returns how many bytes that took: at most 12.
    ///
    /// # Panics
    /// When `out` is too short, or a rejection has no reason that can be sent.
    pub fn emit(&self, out: &mut [u8]) -> usize {
        emit(self.kind(), out, |fields| match *self {
            Self::LoginAccepted { session, udp_port, player, tick_rate, snapshot_interval } => {
                fields.u32(session);
                fields.u16(udp_port);
                fields.u8(player.get());
                fields.u8(tick_rate);
                fields.u8(snapshot_interval);
            }
            Self::LoginRejected(reason) => {
                fields.u8(reason.bits().expect("an unknown reason is only received"))
            }
            Self::Logout(reason) => fields.u8(reason as u8),
        })
    }
}

impl RejectReason {
    /// The wire value; `None` for [`RejectReason::Refused`], which is only ever read.
    pub const fn bits(self) -> Option<u8> {
        match self {
            Self::BadVersion => Some(1),
            Self::BadName => Some(2),
            Self::ServerFull => Some(3),
            Self::ShuttingDown => Some(4),
            Self::RateLimited => Some(5),
            Self::Refused => None,
        }
    }

    const fn from_bits(bits: u8) -> Self {
        match bits {
            1 => Self::BadVersion,
            2 => Self::BadName,
            3 => Self::ServerFull,
            4 => Self::ShuttingDown,
            5 => Self::RateLimited,
            _ => Self::Refused,
        }
    }
}

impl LogoutReason {
    const fn from_bits(bits: u8) -> Self {
        match bits {
            1 => Self::ServerShutdown,
            2 => Self::ProtocolError,
            3 => Self::Timeout,
            4 => Self::Kicked,
            _ => Self::Quit,
        }
    }
}

/// As in log lines: "message too large", "malformed LoginRequest".
impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge => f.write_str("message too large"),
            Self::Empty => f.write_str("empty message"),
            Self::UnknownKind => f.write_str("unknown message"),
            Self::Malformed(kind) => write!(f, "malformed {kind:?}"),
            Self::Unexpected(kind) => write!(f, "unexpected {kind:?}"),
        }
    }
}

fn emit(kind: MessageKind, out: &mut [u8], fields: impl FnOnce(&mut Writer<'_>)) -> usize {
    let (head, body) = out.split_first_chunk_mut::<2>().expect("room for the length");
    let mut writer = Writer::new(body);
    writer.u8(kind as u8);
    fields(&mut writer);
    let len = writer.finish().expect("room for the message");
    *head = (len as u16).to_le_bytes();
    2 + len
}
