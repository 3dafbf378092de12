//! TCP messages (Aegis 3, 6.5): a length, a kind, and the kind's fields.
//!
//! [`FrameReader`] cuts a stream into [`Frame`]s without a buffer for the largest message: the longest one that can be
//! right has `HEAD_BYTES` bytes, so that only those are kept and what follows is counted.

use std::fmt;

use super::VERSION;
use crate::model::{Name, NameError, PlayerId};
use crate::wire::cursor::{Reader, Writer};

/// Longest message, without its length (1.3).
pub const BODY_BYTES_MAX: u16 = 4096;

/// Longest message that this module emits, its length included.
pub const MESSAGE_BYTES_MAX: usize = 2 + HEAD_BYTES;

/// Bytes of a body that are kept: a LoginRequest with the longest name. A longer body is malformed, or has a bad name.
const HEAD_BYTES: usize = 1 + 1 + 2 + Name::BYTES_MAX;

/// What a message is (section 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum MessageKind {
    /// A client wants in.
    LoginRequest = 1,
    /// It is in.
    LoginAccepted = 2,
    /// It is not.
    LoginRejected = 3,
    /// Either side ends the session.
    Logout = 4,
}

/// Why a login was refused (section 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum RejectReason {
    /// Any reason that this version does not know. Never sent.
    Refused = 0,
    /// Another version of the protocol.
    BadVersion = 1,
    /// No name, or not one that is allowed.
    BadName = 2,
    /// No room.
    ServerFull = 3,
    /// The server is about to end.
    ShuttingDown = 4,
    /// Too many logins from there.
    RateLimited = 5,
}

/// Why a session ends (section 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum LogoutReason {
    /// Its player wants so; also any reason that this version does not know.
    Quit = 0,
    /// The server ends.
    ServerShutdown = 1,
    /// The peer keeps sending malformed packets.
    ProtocolError = 2,
    /// The peer was silent for too long.
    Timeout = 3,
    /// An operator said so.
    Kicked = 4,
}

/// What a client sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientMessage {
    /// Asks for a session. Well-formed even when the server has to refuse it.
    LoginRequest {
        /// The client's version of the protocol; to be checked before the name (3.2).
        version: u8,
        /// The player's name, or what is wrong with it.
        name: Result<Name, NameError>,
    },
    /// Ends the session.
    Logout(LogoutReason),
}

/// What the server sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServerMessage {
    /// The session begins.
    LoginAccepted {
        /// Its token, never 0.
        session: u32,
        /// Where the server plays.
        udp_port: u16,
        /// The client's slot.
        player: PlayerId,
        /// Ticks per second, never 0.
        tick_rate: u8,
        /// Ticks from one snapshot to the next, never 0.
        snapshot_interval: u8,
    },
    /// No session, and the connection closes.
    LoginRejected(RejectReason),
    /// The session ends.
    Logout(LogoutReason),
}

/// Why a connection must be closed (6.5). Its text is the reason that a log line gives (6.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamError {
    /// A length above [`BODY_BYTES_MAX`].
    TooLarge,
    /// A length of 0.
    Empty,
    /// A kind of 0 or 5 to 255.
    UnknownKind(u8),
    /// Fields that do not match the kind.
    Malformed(MessageKind),
    /// A message that may not come now, or not from this side.
    Unexpected(MessageKind),
}

/// A whole message, its fields not yet read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame {
    len: u16,
    head: [u8; HEAD_BYTES],
}

/// Cuts a stream into frames. After an error it gives nothing but that error.
#[derive(Clone, Copy, Debug)]
pub struct FrameReader {
    prefix: [u8; 2],
    /// Bytes of the prefix that have come.
    prefix_len: u8,
    /// Bytes of the body that have come.
    body_len: u16,
    head: [u8; HEAD_BYTES],
}

impl FrameReader {
    /// A reader at the beginning of a stream.
    pub const fn new() -> Self {
        Self { prefix: [0; 2], prefix_len: 0, body_len: 0, head: [0; HEAD_BYTES] }
    }

    /// Takes bytes off the front of `bytes` up to the end of the next frame, and gives it. `None` when all bytes were
    /// taken and the frame goes on. An error takes all bytes, and every later byte gives it again.
    pub fn push(&mut self, bytes: &mut &[u8]) -> Option<Result<Frame, StreamError>> {
        while self.prefix_len < 2 {
            self.prefix[usize::from(self.prefix_len)] = *bytes.split_off_first()?;
            self.prefix_len += 1;
            if self.prefix_len == 2 && self.announced().is_err() {
                // Told at once, without waiting for a byte of the body.
                return self.refuse(bytes);
            }
        }
        let Ok(len) = self.announced() else {
            return if bytes.is_empty() { None } else { self.refuse(bytes) };
        };
        let wanted = usize::from(len - self.body_len);
        let part = bytes.split_off(..wanted.min(bytes.len())).unwrap_or_default();
        let kept = self.head.get_mut(usize::from(self.body_len)..).unwrap_or_default();
        let kept_len = kept.len().min(part.len());
        kept[..kept_len].copy_from_slice(&part[..kept_len]);
        self.body_len += part.len() as u16;
        if self.body_len < len {
            return None;
        }
        let frame = Frame { len, head: self.head };
        *self = Self::new();
        Some(Ok(frame))
    }

    /// Whether the stream stands inside a frame: its end there cuts a message off.
    pub const fn is_inside(&self) -> bool {
        self.prefix_len > 0
    }

    /// The length in the prefix, which has come.
    fn announced(&self) -> Result<u16, StreamError> {
        match u16::from_le_bytes(self.prefix) {
            0 => Err(StreamError::Empty),
            len if len > BODY_BYTES_MAX => Err(StreamError::TooLarge),
            len => Ok(len),
        }
    }

    fn refuse(&self, bytes: &mut &[u8]) -> Option<Result<Frame, StreamError>> {
        *bytes = &[];
        self.announced().err().map(Err)
    }
}

impl Default for FrameReader {
    fn default() -> Self {
        Self::new()
    }
}

impl Frame {
    /// The message in it, as the server reads it.
    pub fn client_message(&self) -> Result<ClientMessage, StreamError> {
        let (kind, fields) = self.kind()?;
        match kind {
            MessageKind::LoginRequest => self.login_request(fields),
            MessageKind::Logout => logout(fields).map(ClientMessage::Logout),
            MessageKind::LoginAccepted | MessageKind::LoginRejected => {
                return Err(StreamError::Unexpected(kind));
            }
        }
        .ok_or(StreamError::Malformed(kind))
    }

    /// The message in it, as a client reads it.
    pub fn server_message(&self) -> Result<ServerMessage, StreamError> {
        let (kind, fields) = self.kind()?;
        match kind {
            MessageKind::LoginAccepted => login_accepted(fields),
            MessageKind::LoginRejected => login_rejected(fields).map(ServerMessage::LoginRejected),
            MessageKind::Logout => logout(fields).map(ServerMessage::Logout),
            MessageKind::LoginRequest => return Err(StreamError::Unexpected(kind)),
        }
        .ok_or(StreamError::Malformed(kind))
    }

    /// The kind, and what was kept of the fields. A body longer than what was kept never reads as ended, since its
    /// reader is one byte longer than any kind but LoginRequest allows.
    fn kind(&self) -> Result<(MessageKind, Reader<'_>), StreamError> {
        let kept = &self.head[..HEAD_BYTES.min(usize::from(self.len))];
        let mut reader = Reader::new(kept);
        let kind = match reader.u8().unwrap_or(0) {
            1 => MessageKind::LoginRequest,
            2 => MessageKind::LoginAccepted,
            3 => MessageKind::LoginRejected,
            4 => MessageKind::Logout,
            unknown => return Err(StreamError::UnknownKind(unknown)),
        };
        Ok((kind, reader))
    }

    fn login_request(&self, mut fields: Reader<'_>) -> Option<ClientMessage> {
        let version = fields.u8()?;
        let name_len = fields.u16()?;
        if name_len != self.len - 4 {
            return None;
        }
        let name = match fields.bytes(usize::from(name_len)) {
            Some(bytes) => Name::new(bytes),
            // The string is all there, but longer than what was kept of it.
            None => Err(NameError::TooLong),
        };
        Some(ClientMessage::LoginRequest { version, name })
    }
}

// What a frame keeps holds every other message and at least one byte more.
const _: () = assert!(HEAD_BYTES > LOGIN_ACCEPTED_BYTES);
const LOGIN_ACCEPTED_BYTES: usize = 1 + 4 + 2 + 1 + 1 + 1;

fn login_accepted(mut fields: Reader<'_>) -> Option<ServerMessage> {
    let session = fields.u32()?;
    let udp_port = fields.u16()?;
    let player = PlayerId::new(fields.u8()?)?;
    let tick_rate = fields.u8()?;
    let snapshot_interval = fields.u8()?;
    let is_valid = session != 0 && tick_rate != 0 && snapshot_interval != 0 && fields.at_end();
    is_valid.then_some(ServerMessage::LoginAccepted {
        session,
        udp_port,
        player,
        tick_rate,
        snapshot_interval,
    })
}

fn login_rejected(mut fields: Reader<'_>) -> Option<RejectReason> {
    let reason = match fields.u8()? {
        1 => RejectReason::BadVersion,
        2 => RejectReason::BadName,
        3 => RejectReason::ServerFull,
        4 => RejectReason::ShuttingDown,
        5 => RejectReason::RateLimited,
        _ => RejectReason::Refused,
    };
    fields.at_end().then_some(reason)
}

fn logout(mut fields: Reader<'_>) -> Option<LogoutReason> {
    let reason = match fields.u8()? {
        1 => LogoutReason::ServerShutdown,
        2 => LogoutReason::ProtocolError,
        3 => LogoutReason::Timeout,
        4 => LogoutReason::Kicked,
        _ => LogoutReason::Quit,
    };
    fields.at_end().then_some(reason)
}

impl ClientMessage {
    /// A request of this version.
    pub const fn login(name: Name) -> Self {
        Self::LoginRequest { version: VERSION, name: Ok(name) }
    }

    /// What it is.
    pub const fn kind(&self) -> MessageKind {
        match self {
            Self::LoginRequest { .. } => MessageKind::LoginRequest,
            Self::Logout(_) => MessageKind::Logout,
        }
    }

    /// Writes the message with its length to the front of `out` and returns how many bytes that are.
    ///
    /// # Panics
    /// When it does not fit ([`MESSAGE_BYTES_MAX`] always do), or the name of a LoginRequest is an error.
    pub fn emit(&self, out: &mut [u8]) -> usize {
        emit(out, self.kind(), |fields| match *self {
            Self::LoginRequest { version, name } => {
                let name = name.expect("a name to log in with");
                fields.u8(version);
                fields.u16(name.as_bytes().len() as u16);
                fields.bytes(name.as_bytes());
            }
            Self::Logout(reason) => fields.u8(reason as u8),
        })
    }
}

impl ServerMessage {
    /// What it is.
    pub const fn kind(&self) -> MessageKind {
        match self {
            Self::LoginAccepted { .. } => MessageKind::LoginAccepted,
            Self::LoginRejected(_) => MessageKind::LoginRejected,
            Self::Logout(_) => MessageKind::Logout,
        }
    }

    /// Writes the message with its length to the front of `out` and returns how many bytes that are.
    ///
    /// # Panics
    /// When it does not fit ([`MESSAGE_BYTES_MAX`] always do), or a field of a LoginAccepted that is never 0 is.
    pub fn emit(&self, out: &mut [u8]) -> usize {
        emit(out, self.kind(), |fields| match *self {
            Self::LoginAccepted { session, udp_port, player, tick_rate, snapshot_interval } => {
                assert!(
                    session != 0 && tick_rate != 0 && snapshot_interval != 0,
                    "a LoginAccepted of nothing"
                );
                fields.u32(session);
                fields.u16(udp_port);
                fields.u8(player.get());
                fields.u8(tick_rate);
                fields.u8(snapshot_interval);
            }
            Self::LoginRejected(reason) => fields.u8(reason as u8),
            Self::Logout(reason) => fields.u8(reason as u8),
        })
    }
}

/// Writes a message's length, its kind, and the fields that `write` appends.
fn emit(out: &mut [u8], kind: MessageKind, write: impl FnOnce(&mut Writer<'_>)) -> usize {
    let mut writer = Writer::new(out);
    writer.u16(0);
    writer.u8(kind as u8);
    write(&mut writer);
    let len = writer.finish().expect("room for the message");
    out[..2].copy_from_slice(&((len - 2) as u16).to_le_bytes());
    len
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge => f.write_str("message too large"),
            Self::Empty => f.write_str("empty message"),
            Self::UnknownKind(kind) => write!(f, "unknown kind {kind}"),
            Self::Malformed(kind) => write!(f, "malformed {kind:?}"),
            Self::Unexpected(kind) => write!(f, "unexpected {kind:?}"),
        }
    }
}

#[cfg(test)]
mod tests;
