//! Aegis on the wire: the datagram header, the stream's messages, and the payload of each packet type.
//! The protocol is written down in `docs/protocol/aegis.md`, whose section numbers are cited here.

pub mod event;
pub mod snapshot;
pub mod stream;

use super::cursor::{Reader, Writer};
use crate::model::Controls;

/// The first bytes of every datagram (2.2).
pub const MAGIC: [u8; 4] = *b"RTYP";
/// The protocol version (2.2).
pub const VERSION: u8 = 1;
/// Bytes of a datagram, header included, at most (1.3).
pub const DATAGRAM_BYTES_MAX: usize = crate::seam::DATAGRAM_BYTES_MAX;
/// Bytes of a datagram's header (2.1).
pub const HEADER_BYTES: usize = 18;
/// Bytes of a payload, at most (2.1).
pub const PAYLOAD_BYTES_MAX: usize = DATAGRAM_BYTES_MAX - HEADER_BYTES;

/// Bit 7 of the type byte: the payload is compressed (2.6).
const COMPRESSED: u8 = 0x80;

const _: () = assert!(PAYLOAD_BYTES_MAX == 1182);

/// What a datagram is (2.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum PacketKind {
    /// Binds the client's endpoint to its session.
    Connect = 1,
    /// Confirms the binding.
    Accept = 2,
    /// The player's controls.
    Input = 3,
    /// The state of the room.
    Snapshot = 4,
    /// Events that must arrive.
    Event = 5,
    /// Keeps the session alive and carries acknowledgements.
    Heartbeat = 6,
    /// The sender leaves.
    Disconnect = 7,
}

impl PacketKind {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::Connect,
        Self::Accept,
        Self::Input,
        Self::Snapshot,
        Self::Event,
        Self::Heartbeat,
        Self::Disconnect,
    ];

    /// The kind of a type byte without its high bit.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            1..=7 => Some(Self::ALL[bits as usize - 1]),
            _ => None,
        }
    }

    /// Whether it travels from client to server.
    pub const fn to_server(self) -> bool {
        !matches!(self, Self::Accept | Self::Snapshot)
    }

    /// Whether it travels from server to client.
    pub const fn to_client(self) -> bool {
        !matches!(self, Self::Connect | Self::Input)
    }
}

/// A datagram's header (2.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// What it is.
    pub kind: PacketKind,
    /// Whether its payload is compressed (2.6).
    pub compressed: bool,
    /// Number of this datagram.
    pub sequence: u16,
    /// Most recent sequence received from the peer.
    pub ack: u16,
    /// Bit n: sequence `ack` − 1 − n was received too.
    pub ack_bits: u32,
    /// Session token.
    pub session: u32,
}

/// Why bytes are no header, in the order of the checks (2.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeaderError {
    /// Fewer than [`HEADER_BYTES`].
    Truncated,
    /// Another protocol.
    Magic,
    /// Another version.
    Version,
    /// No such type.
    Kind,
}

impl Header {
    /// Reads the header at the beginning of a datagram.
    pub fn parse(datagram: &[u8]) -> Result<Self, HeaderError> {
        let bytes: &[u8; HEADER_BYTES] = datagram.first_chunk().ok_or(HeaderError::Truncated)?;
        let mut reader = Reader::new(bytes);
        if reader.bytes(4) != MAGIC {
            return Err(HeaderError::Magic);
        }
        if reader.u8() != VERSION {
            return Err(HeaderError::Version);
        }
        let kind_byte = reader.u8();
        let kind = PacketKind::from_bits(kind_byte & !COMPRESSED).ok_or(HeaderError::Kind)?;
        Ok(Self {
            kind,
            compressed: kind_byte & COMPRESSED != 0,
            sequence: reader.u16(),
            ack: reader.u16(),
            ack_bits: reader.u32(),
            session: reader.u32(),
        })
    }

    /// Writes the header.
    pub fn emit(&self, out: &mut [u8; HEADER_BYTES]) {
        let mut writer = Writer::new(out);
        writer.bytes(&MAGIC);
        writer.u8(VERSION);
        writer.u8(self.kind as u8 | if self.compressed { COMPRESSED } else { 0 });
        writer.u16(self.sequence);
        writer.u16(self.ack);
        writer.u32(self.ack_bits);
        writer.u32(self.session);
        assert!(writer.finish() == Some(HEADER_BYTES), "the header's size is fixed");
    }
}

/// An Input payload that is not one byte with bits 5 to 7 clear (4.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InputError;

/// Reads the payload of an Input (4.2).
pub fn parse_input(payload: &[u8]) -> Result<Controls, InputError> {
    match payload {
        &[bits] => Controls::from_bits(bits).ok_or(InputError),
        _ => Err(InputError),
    }
}
