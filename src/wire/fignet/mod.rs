//! The bytes of the FigNet protocol, version 1 (docs/protocol/fignet.md): the header that every packet begins with,
//! and one module per thing that follows it.
//!
//! | module | what | section |
//! |---|---|---|
//! | [`header`] | the header, packet types and flags | 2 |
//! | [`handshake`] | CONNECT, CONNECT_ACK, DISCONNECT, PING and PONG | 3 |
//! | [`batch`] | the messages of a packet, one or many | 4 |
//! | [`fragment`] | FRAGMENT and FRAGMENT_ACK | 6 |
//! | [`block`] | the parts of a large block | 7 |
//! | [`game`] | what the game says over the channels | 12 |
//! | [`bits`], [`snapshot`], [`huffman`], [`runs`] | packed values, snapshots and their coders | docs/protocol/fignet-sync.md |
//!
//! Parsers check a packet whole before they give anything of it; what they give is then read without a further check.

pub mod batch;
pub mod bits;
pub mod block;
pub mod fragment;
pub mod game;
pub mod handshake;
pub mod header;
pub mod huffman;
pub mod runs;
pub mod snapshot;

pub use batch::{BatchWriter, Message, Messages, PayloadError};
pub use fragment::{Fragment, FragmentAck};
pub use handshake::{Connect, ConnectAck, Disconnect};
pub use header::{Header, HeaderError, PacketKind};

/// The version of the protocol.
pub const VERSION: u16 = 1;

/// The protocol id of a deployment that chose none.
pub const PROTOCOL_ID_DEFAULT: u32 = 0x1234_5678;

/// Largest packet, header included.
pub const MTU_MAX: usize = 1200;

/// Smallest largest packet that a peer may ask for.
pub const MTU_MIN: usize = 576;

/// Most channels of a connection.
pub const CHANNELS_MAX: usize = 255;

/// Largest message of a channel, without its sequence.
pub const MESSAGE_BYTES_MAX: usize = 65_535;

/// Bytes of the sequence that every message of a channel begins with.
pub const MESSAGE_SEQUENCE_BYTES: usize = 2;

/// What went wrong, in a DISCONNECT and in the words of the API.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ErrorCode {
    /// Nothing did.
    Success = 0x00,
    /// No answer in time.
    Timeout = 0x01,
    /// The connection was refused, or failed.
    ConnectionFailed = 0x02,
    /// A packet that breaks the protocol.
    InvalidPacket = 0x03,
    /// No room.
    BufferOverflow = 0x04,
    /// Another version of the protocol.
    ProtocolMismatch = 0x05,
    /// No more peers.
    PeerLimitReached = 0x06,
    /// No such channel, or none at all.
    ChannelLimitReached = 0x07,
    /// A message in fragments was given up.
    FragmentError = 0x08,
    /// Too much in too short a time.
    RateLimitExceeded = 0x09,
}

impl ErrorCode {
    /// Every code, in the order of their values.
    pub const ALL: [Self; 10] = [
        Self::Success,
        Self::Timeout,
        Self::ConnectionFailed,
        Self::InvalidPacket,
        Self::BufferOverflow,
        Self::ProtocolMismatch,
        Self::PeerLimitReached,
        Self::ChannelLimitReached,
        Self::FragmentError,
        Self::RateLimitExceeded,
    ];

    /// The code of a reason byte. One that this version does not know says that the connection failed, no more.
    pub const fn from_bits(bits: u8) -> Self {
        if (bits as usize) < Self::ALL.len() { Self::ALL[bits as usize] } else { Self::ConnectionFailed }
    }

    /// Its name in logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Timeout => "timeout",
            Self::ConnectionFailed => "connection failed",
            Self::InvalidPacket => "invalid packet",
            Self::BufferOverflow => "buffer overflow",
            Self::ProtocolMismatch => "protocol mismatch",
            Self::PeerLimitReached => "peer limit reached",
            Self::ChannelLimitReached => "channel limit reached",
            Self::FragmentError => "fragment error",
            Self::RateLimitExceeded => "rate limit exceeded",
        }
    }
}

#[cfg(test)]
mod tests;
