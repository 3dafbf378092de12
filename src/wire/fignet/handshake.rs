//! What opens, keeps and closes a connection (section 3): CONNECT, CONNECT_ACK, DISCONNECT, PING and PONG.

use super::MTU_MIN;
use crate::wire::cursor::{Reader, Writer};

/// The body of a CONNECT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connect {
    /// The client's version of the protocol; to be judged by whoever answers.
    pub version: u16,
    /// The client's random number: the same one in every repetition.
    pub nonce: u32,
    /// How many channels the client has.
    pub channels: u8,
    /// The client's largest packet, at least [`MTU_MIN`].
    pub mtu: u16,
}

/// The body of a CONNECT_ACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectAck {
    /// The server's version of the protocol.
    pub version: u16,
    /// The server's random number.
    pub nonce: u32,
    /// The client's number on this server.
    pub peer_id: u16,
    /// How many channels both have, at least 1.
    pub channels: u8,
    /// The largest packet of both, at least [`MTU_MIN`].
    pub mtu: u16,
    /// The server's clock, in milliseconds.
    pub server_time_ms: u64,
}

/// The body of a DISCONNECT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Disconnect<'a> {
    /// Why: a [`super::ErrorCode`], or one of a later version.
    pub reason: u8,
    /// Words of the application, at most [`FAREWELL_BYTES_MAX`].
    pub data: &'a [u8],
}

/// Most bytes of data in a DISCONNECT.
pub const FAREWELL_BYTES_MAX: usize = 255;

impl Connect {
    /// Bytes of the body.
    pub const BYTES: usize = 9;

    /// Reads a body; `None` for a malformed one.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(payload);
        let body =
            Self { version: reader.u16()?, nonce: reader.u32()?, channels: reader.u8()?, mtu: reader.u16()? };
        (reader.at_end() && usize::from(body.mtu) >= MTU_MIN).then_some(body)
    }

    /// Writes the body.
    pub fn emit(&self, writer: &mut Writer<'_>) {
        writer.u16(self.version);
        writer.u32(self.nonce);
        writer.u8(self.channels);
        writer.u16(self.mtu);
    }
}

impl ConnectAck {
    /// Bytes of the body.
    pub const BYTES: usize = 19;

    /// Reads a body; `None` for a malformed one.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(payload);
        let body = Self {
            version: reader.u16()?,
            nonce: reader.u32()?,
            peer_id: reader.u16()?,
            channels: reader.u8()?,
            mtu: reader.u16()?,
            server_time_ms: reader.u64()?,
        };
        (reader.at_end() && usize::from(body.mtu) >= MTU_MIN && body.channels > 0).then_some(body)
    }

    /// Writes the body.
    pub fn emit(&self, writer: &mut Writer<'_>) {
        writer.u16(self.version);
        writer.u32(self.nonce);
        writer.u16(self.peer_id);
        writer.u8(self.channels);
        writer.u16(self.mtu);
        writer.u64(self.server_time_ms);
    }
}

impl<'a> Disconnect<'a> {
    /// Reads a body; `None` for a malformed one.
    pub fn parse(payload: &'a [u8]) -> Option<Self> {
        let (&reason, data) = payload.split_first()?;
        (data.len() <= FAREWELL_BYTES_MAX).then_some(Self { reason, data })
    }

    /// Writes the body.
    ///
    /// # Panics
    /// When there are more than [`FAREWELL_BYTES_MAX`] bytes of data.
    pub fn emit(&self, writer: &mut Writer<'_>) {
        assert!(self.data.len() <= FAREWELL_BYTES_MAX, "a farewell too long");
        writer.u8(self.reason);
        writer.bytes(self.data);
    }
}

/// Bytes of the body of a PING or PONG.
pub const TIMESTAMP_BYTES: usize = 8;

/// The timestamp in the body of a PING or PONG, in microseconds of the pinging side's clock; `None` for a malformed
/// body.
pub fn parse_timestamp(payload: &[u8]) -> Option<u64> {
    payload.try_into().ok().map(u64::from_le_bytes)
}
