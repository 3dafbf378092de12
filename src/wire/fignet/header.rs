//! The header (section 2): 18 bytes with the bitfield of acknowledgements, 14 without.

use crate::wire::cursor::{Reader, Writer};

/// Bytes of a header with the bitfield.
pub const HEADER_BYTES: usize = 18;

/// Bytes of a header without it.
pub const HEADER_BYTES_SHORT: usize = 14;

/// What a packet is, or a message in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum PacketKind {
    /// Asks for a connection.
    Connect = 0x01,
    /// Grants it.
    ConnectAck = 0x02,
    /// Ends or refuses it.
    Disconnect = 0x03,
    /// Confirms the end.
    DisconnectAck = 0x04,
    /// Asks for an echo.
    Ping = 0x05,
    /// The echo.
    Pong = 0x06,
    /// A message that arrives, in any order.
    Reliable = 0x10,
    /// A message that may be lost. Alone and empty: nothing but acknowledgements.
    Unreliable = 0x11,
    /// A message that arrives, in its order.
    ReliableOrdered = 0x12,
    /// A message that may be lost, never after a later one.
    UnreliableOrdered = 0x13,
    /// A part of a message.
    Fragment = 0x20,
    /// Says which parts arrived.
    FragmentAck = 0x21,
}

impl PacketKind {
    /// Every kind, in the order of their values.
    pub const ALL: [Self; 12] = [
        Self::Connect,
        Self::ConnectAck,
        Self::Disconnect,
        Self::DisconnectAck,
        Self::Ping,
        Self::Pong,
        Self::Reliable,
        Self::Unreliable,
        Self::ReliableOrdered,
        Self::UnreliableOrdered,
        Self::Fragment,
        Self::FragmentAck,
    ];

    /// The kind of a type byte.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            0x01 => Self::Connect,
            0x02 => Self::ConnectAck,
            0x03 => Self::Disconnect,
            0x04 => Self::DisconnectAck,
            0x05 => Self::Ping,
            0x06 => Self::Pong,
            0x10 => Self::Reliable,
            0x11 => Self::Unreliable,
            0x12 => Self::ReliableOrdered,
            0x13 => Self::UnreliableOrdered,
            0x20 => Self::Fragment,
            0x21 => Self::FragmentAck,
            _ => return None,
        })
    }

    /// Whether it opens or closes a connection: such a packet holds nothing else.
    pub const fn is_handshake(self) -> bool {
        matches!(self, Self::Connect | Self::ConnectAck | Self::Disconnect | Self::DisconnectAck)
    }

    /// Whether it is a message of a channel, whole.
    pub const fn is_message(self) -> bool {
        matches!(self, Self::Reliable | Self::Unreliable | Self::ReliableOrdered | Self::UnreliableOrdered)
    }
}

/// The flags of a header, apart from bit 0, which [`Header::ack_bits`] stands for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Flags {
    /// Bit 1: a fragment is in it.
    pub fragments: bool,
    /// Bit 2: the payload is compressed.
    pub compressed: bool,
    /// Bit 3: the payload is encrypted.
    pub encrypted: bool,
    /// Bit 4: the payload holds several messages.
    pub batched: bool,
}

const HAS_ACK_BITS: u8 = 1 << 0;
const HAS_FRAGMENTS: u8 = 1 << 1;
const COMPRESSED: u8 = 1 << 2;
const ENCRYPTED: u8 = 1 << 3;
const BATCHED: u8 = 1 << 4;
const RESERVED: u8 = !(HAS_ACK_BITS | HAS_FRAGMENTS | COMPRESSED | ENCRYPTED | BATCHED);

/// The header of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Which deployment it belongs to.
    pub protocol_id: u32,
    /// What follows; of a batch its first message.
    pub kind: PacketKind,
    /// How it follows.
    pub flags: Flags,
    /// Number of this packet.
    pub sequence: u16,
    /// Most recent sequence received from the peer; means nothing without `ack_bits`.
    pub ack: u16,
    /// Bit 31 − n: sequence `ack` − n was received. `None` until something was.
    pub ack_bits: Option<u32>,
    /// The channel of a message or fragment; of a batch that of its first; 0 for all else.
    pub channel: u8,
}

/// Why a packet has no valid header, in the order of the checks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeaderError {
    /// Too short to say.
    Truncated,
    /// Another protocol's, or another deployment's: to be dropped in silence.
    ProtocolId,
    /// A type that does not exist.
    Kind,
    /// A reserved flag, or one that does not go with the type.
    Flags,
    /// The payload length is not what follows.
    Length,
}

impl Header {
    /// The header at the beginning of `packet`, and the payload after it.
    pub fn parse(packet: &[u8], protocol_id: u32) -> Result<(Self, &[u8]), HeaderError> {
        let mut reader = Reader::new(packet);
        match reader.u32() {
            None => return Err(HeaderError::Truncated),
            Some(id) if id != protocol_id => return Err(HeaderError::ProtocolId),
            Some(_) => {}
        }
        Self::parse_rest(&mut reader, protocol_id)
    }

    /// Bytes of the header.
    pub const fn len(&self) -> usize {
        if self.ack_bits.is_some() { HEADER_BYTES } else { HEADER_BYTES_SHORT }
    }

    /// Headers are never empty.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Writes the header of a packet with `payload_len` bytes of payload to the front of `out`; returns its length.
    ///
    /// # Panics
    /// When `out` is shorter than the header, or the payload longer than 65,535 bytes.
    pub fn emit(&self, payload_len: usize, out: &mut [u8]) -> usize {
        let mut writer = Writer::new(out);
        writer.u32(self.protocol_id);
        writer.u8(self.kind as u8);
        writer.u8(self.flag_bits());
        writer.u16(self.sequence);
        writer.u16(self.ack);
        if let Some(bits) = self.ack_bits {
            writer.u32(bits);
        }
        writer.u8(self.channel);
        writer.u8(0);
        writer.u16(u16::try_from(payload_len).expect("a payload that fits a packet"));
        writer.finish().expect("room for a header")
    }

    fn parse_rest<'a>(reader: &mut Reader<'a>, protocol_id: u32) -> Result<(Self, &'a [u8]), HeaderError> {
        let (Some(kind), Some(flags)) = (reader.u8(), reader.u8()) else {
            return Err(HeaderError::Truncated);
        };
        let Some(kind) = PacketKind::from_bits(kind) else { return Err(HeaderError::Kind) };
        if flags & RESERVED != 0 {
            return Err(HeaderError::Flags);
        }
        let mut read = || {
            let (sequence, ack) = (reader.u16()?, reader.u16()?);
            let ack_bits = if flags & HAS_ACK_BITS != 0 { Some(reader.u32()?) } else { None };
            let (channel, _reserved, len) = (reader.u8()?, reader.u8()?, reader.u16()?);
            let flags = Flags {
                fragments: flags & HAS_FRAGMENTS != 0,
                compressed: flags & COMPRESSED != 0,
                encrypted: flags & ENCRYPTED != 0,
                batched: flags & BATCHED != 0,
            };
            Some((Self { protocol_id, kind, flags, sequence, ack, ack_bits, channel }, len))
        };
        let Some((header, len)) = read() else { return Err(HeaderError::Truncated) };
        if !header.flags_agree() {
            return Err(HeaderError::Flags);
        }
        let payload = reader.rest();
        if payload.len() == usize::from(len) { Ok((header, payload)) } else { Err(HeaderError::Length) }
    }

    /// Whether the flags go with the kind: a handshake is neither batched nor compressed, and a packet that is no
    /// batch has the fragment flag when it is a fragment.
    const fn flags_agree(&self) -> bool {
        let Flags { fragments, compressed, batched, .. } = self.flags;
        if self.kind.is_handshake() {
            return !fragments && !compressed && !batched;
        }
        batched || fragments == matches!(self.kind, PacketKind::Fragment)
    }

    fn flag_bits(&self) -> u8 {
        let Flags { fragments, compressed, encrypted, batched } = self.flags;
        let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        bit(self.ack_bits.is_some(), HAS_ACK_BITS)
            | bit(fragments, HAS_FRAGMENTS)
            | bit(compressed, COMPRESSED)
            | bit(encrypted, ENCRYPTED)
            | bit(batched, BATCHED)
    }
}
