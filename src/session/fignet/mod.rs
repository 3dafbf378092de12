//! FigNet over time: one state machine, [`Peer`], for both ends of a connection, and [`Host`] for the end that has many.
//! Implements docs/protocol/fignet.md.
//!
//! Both are sans-IO: bytes and times go in, bytes and events come out, and all memory is made at creation. What many
//! peers share is in [`Pools`], which is lent to each call.

pub mod block;
pub mod coder;
pub mod config;
mod flights;
pub mod host;
mod inbox;
mod incoming;
pub mod keys;
mod outbox;
mod outgoing;
pub mod pace;
mod parts_in;
mod parts_out;
pub mod peer;
mod pools;
mod receipts;
pub mod replay;
pub mod seal;
pub mod sealing;

use std::fmt;

pub use block::{BlockPart, BlockProgress};
pub use config::{ChannelMode, ChannelTable, ConfigError, DEFAULT_CONFIG, NetworkConfig};
pub use host::{Host, HostEvent, PeerId};
use outbox::Outbox;
pub use peer::{Peer, PeerStats};
pub use pools::{Claimed, Pools};
pub use sealing::{NoSeal, SEAL_BYTES, Seal};

use crate::wire::fignet::{ErrorCode, HeaderError};

#[cfg(test)]
mod tests;

/// Where a connection stands, at one of its ends (section 3.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerState {
    /// No connection.
    Disconnected,
    /// Client: CONNECT is about to be sent.
    Connecting,
    /// Client: CONNECT was sent, no answer yet.
    AcknowledgingConnect,
    /// Server: CONNECT was answered, and nothing proves yet that the client got it.
    ConnectionPending,
    /// Client: CONNECT_ACK came, and nothing shows yet that the server knows.
    ConnectionSucceeded,
    /// Client: refused, or no answer in time.
    ConnectionFailed,
    /// Both ends know.
    Connected,
    /// To be disconnected when everything reliable has arrived.
    DisconnectLater,
    /// DISCONNECT is about to be sent.
    Disconnecting,
    /// DISCONNECT was sent, no answer yet.
    AcknowledgingDisconnect,
    /// Over; a repeated DISCONNECT is still answered.
    Zombie,
}

impl PeerState {
    /// Whether messages travel.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::ConnectionSucceeded | Self::Connected | Self::DisconnectLater)
    }

    /// Whether there is nothing left of the connection.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Disconnected | Self::ConnectionFailed)
    }
}

/// Something that happened to a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// Both ends know of the connection.
    Connected,
    /// There will be none.
    Failed(ErrorCode),
    /// It is over.
    Disconnected {
        /// Why.
        reason: ErrorCode,
        /// Whether the peer said so.
        by_peer: bool,
    },
    /// [`ErrorCode::FragmentError`]: a message in fragments was given up after it made no progress. What the channel
    /// promises still holds: a reliable one sends it again.
    FragmentError {
        /// Its channel.
        channel: u8,
        /// Whether we sent it.
        outgoing: bool,
    },
}

/// Something that a packet brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivery<'a> {
    /// A message.
    Message {
        /// Its channel.
        channel: u8,
        /// What it says.
        bytes: &'a [u8],
    },
    /// A part of a block.
    Block(BlockPart<'a>),
    /// The packet with the message that was sent under this token arrived.
    Acked(u32),
    /// The last words of the peer.
    Farewell {
        /// Why it leaves: an [`ErrorCode`], or one of a later version.
        reason: u8,
        /// What it says.
        data: &'a [u8],
    },
}

/// Why a message is not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendError {
    /// There is no connection, or it is about to end.
    NotConnected,
    /// The connection has fewer channels; or the channel is the one of blocks, or is not.
    NoSuchChannel,
    /// More than 65,535 bytes, or more than the fragments hold that a message may have.
    TooLarge,
    /// Too much waits on the channel, or on all of them.
    NoRoom,
}

impl SendError {
    /// The protocol's code for it.
    pub const fn code(self) -> ErrorCode {
        match self {
            Self::NotConnected => ErrorCode::ConnectionFailed,
            Self::NoSuchChannel => ErrorCode::ChannelLimitReached,
            Self::TooLarge | Self::NoRoom => ErrorCode::BufferOverflow,
        }
    }
}

/// Why a packet was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HearError {
    /// Longer than agreed.
    TooLarge,
    /// No valid header. [`HeaderError::ProtocolId`] is nobody's business.
    Header(HeaderError),
    /// A payload that breaks the protocol, or numbers that cannot be.
    Malformed,
    /// Not encrypted where it must be, or not by the peer, or encrypted where nothing is.
    Seal,
    /// Had before.
    Duplicate,
    /// More than 31 behind the newest.
    TooOld,
    /// Makes no sense in this state.
    Unexpected,
    /// More than the peer may send.
    RateLimited,
    /// No room for all of it: not acknowledged, so that it comes again.
    NoRoom,
}

impl HearError {
    /// Its words in logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TooLarge => "packet too large",
            Self::Header(HeaderError::Truncated) => "truncated header",
            Self::Header(HeaderError::ProtocolId) => "foreign protocol id",
            Self::Header(HeaderError::Kind) => "unknown type",
            Self::Header(HeaderError::Flags) => "bad flags",
            Self::Header(HeaderError::Length) => "bad length",
            Self::Malformed => "malformed payload",
            Self::Seal => "bad seal",
            Self::Duplicate => "duplicate",
            Self::TooOld => "too old",
            Self::Unexpected => "unexpected",
            Self::RateLimited => "rate limited",
            Self::NoRoom => "no room",
        }
    }
}

impl fmt::Display for HearError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
