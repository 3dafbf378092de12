//! The bytes of the Aegis protocol, version 1 (docs/protocol/aegis.md): the header that every datagram begins with
//! (section 2), and one module per thing that follows it or travels over TCP.
//!
//! | module | what | section |
//! |---|---|---|
//! | [`stream`] | TCP messages and their framing | 3, 6.5 |
//! | [`event`] | lists of events, and each event's content | 4.4, 5.2, 6.4 |
//! | [`snapshot`] | the state of the world, full or against a baseline | 4.3 |
//!
//! Connect, Accept, Heartbeat and Disconnect have no payload; that of Input is one byte, see [`parse_input`].

pub mod event;
pub mod snapshot;
pub mod stream;

use crate::model::Controls;

/// What every datagram begins with: "RTYP".
pub const MAGIC: [u8; 4] = *b"RTYP";

/// The version of the protocol.
pub const VERSION: u8 = 1;

/// Bytes of the header.
pub const HEADER_BYTES: usize = 18;

/// Largest datagram, header included (1.3).
pub const DATAGRAM_BYTES_MAX: usize = 1200;

/// Largest payload of a datagram (2.1).
pub const PAYLOAD_BYTES_MAX: usize = DATAGRAM_BYTES_MAX - HEADER_BYTES;

const _: () = assert!(PAYLOAD_BYTES_MAX == 1182);

/// Bit of the type byte that marks a compressed payload (2.6).
const COMPRESSED: u8 = 0x80;

/// What a datagram's payload is (2.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum PacketKind {
    /// Binds the client's endpoint to its session. No payload.
    Connect = 1,
    /// Confirms the binding. No payload.
    Accept = 2,
    /// The state of a player's controls ([`parse_input`]).
    Input = 3,
    /// The state of the world ([`snapshot`]).
    Snapshot = 4,
    /// Events that must arrive ([`event`]).
    Event = 5,
    /// Nothing but the header's acknowledgements. No payload.
    Heartbeat = 6,
    /// The sender leaves. No payload.
    Disconnect = 7,
}

impl PacketKind {
    /// Every kind, in the order of their values.
    pub const ALL: [Self; 7] = [
        Self::Connect,
        Self::Accept,
        Self::Input,
        Self::Snapshot,
        Self::Event,
        Self::Heartbeat,
        Self::Disconnect,
    ];

    /// The kind of a type byte's low seven bits; `None` for 0 and 8 to 127.
    #[inline]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            1 => Self::Connect,
            2 => Self::Accept,
            3 => Self::Input,
            4 => Self::Snapshot,
            5 => Self::Event,
            6 => Self::Heartbeat,
            7 => Self::Disconnect,
            _ => return None,
        })
    }

    /// Whether a client may send it.
    #[inline]
    pub const fn to_server(self) -> bool {
        !matches!(self, Self::Accept | Self::Snapshot)
    }

    /// Whether the server may send it.
    #[inline]
    pub const fn to_client(self) -> bool {
        !matches!(self, Self::Connect | Self::Input)
    }
}

/// The header of a datagram (2.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// What follows.
    pub kind: PacketKind,
    /// Whether what follows is compressed (2.6).
    pub compressed: bool,
    /// Number of this datagram.
    pub sequence: u16,
    /// Most recent sequence received from the peer.
    pub ack: u16,
    /// Bit n: sequence `ack` − 1 − n was received too.
    pub ack_bits: u32,
    /// The session's token. Never to be logged (6.7).
    pub session: u32,
}

/// Why a datagram has no valid header, in the order of the checks (2.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeaderError {
    /// Fewer than [`HEADER_BYTES`] bytes.
    Truncated,
    /// Another protocol's.
    Magic,
    /// Another version's.
    Version,
    /// A reserved type.
    Kind,
}

impl Header {
    /// The header at the beginning of `datagram`. The token and the sequence are not judged here.
    #[inline]
    pub fn parse(datagram: &[u8]) -> Result<Self, HeaderError> {
        let Some(&bytes) = datagram.first_chunk::<HEADER_BYTES>() else { return Err(HeaderError::Truncated) };
        let [m0, m1, m2, m3, version, kind, s0, s1, a0, a1, b0, b1, b2, b3, t0, t1, t2, t3] = bytes;
        if [m0, m1, m2, m3] != MAGIC {
            return Err(HeaderError::Magic);
        }
        if version != VERSION {
            return Err(HeaderError::Version);
        }
        let compressed = kind & COMPRESSED != 0;
        let Some(kind) = PacketKind::from_bits(kind & !COMPRESSED) else { return Err(HeaderError::Kind) };
        Ok(Self {
            kind,
            compressed,
            sequence: u16::from_le_bytes([s0, s1]),
            ack: u16::from_le_bytes([a0, a1]),
            ack_bits: u32::from_le_bytes([b0, b1, b2, b3]),
            session: u32::from_le_bytes([t0, t1, t2, t3]),
        })
    }

    /// Writes the header.
    #[inline]
    pub fn emit(&self, out: &mut [u8; HEADER_BYTES]) {
        let [m0, m1, m2, m3] = MAGIC;
        let kind = self.kind as u8 | if self.compressed { COMPRESSED } else { 0 };
        let [s0, s1] = self.sequence.to_le_bytes();
        let [a0, a1] = self.ack.to_le_bytes();
        let [b0, b1, b2, b3] = self.ack_bits.to_le_bytes();
        let [t0, t1, t2, t3] = self.session.to_le_bytes();
        *out = [m0, m1, m2, m3, VERSION, kind, s0, s1, a0, a1, b0, b1, b2, b3, t0, t1, t2, t3];
    }
}

/// Why a payload is no Input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InputError {
    /// Not exactly one byte.
    Size,
    /// One of bits 5 to 7 is set.
    Bits,
}

/// The controls in the payload of an Input (4.2).
#[inline]
pub fn parse_input(payload: &[u8]) -> Result<Controls, InputError> {
    let &[bits] = payload else { return Err(InputError::Size) };
    Controls::from_bits(bits).ok_or(InputError::Bits)
}

#[cfg(test)]
mod tests;
