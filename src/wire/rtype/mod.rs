//! The bytes of the R-Type protocol, version 1 (docs/protocol/rtype.md). Everything is big-endian and packed.
//!
//! | module | what | section |
//! |---|---|---|
//! | [`handshake`] | the datagrams before a connection exists | 4 |
//! | this one | the header of every datagram after it, and the framing of messages | 5.1, 5.3 |
//! | [`message`] | what each message says | 7, 8 |
//! | [`snapshot`] | the message with the positions of entities | 8.1 |
//! | [`value`] | positions and rotations in 16 bits | 9.1, 9.2 |
//! | [`blueprint`] | what entities are | 9.3 |
//!
//! A packet is checked in two steps. [`Packet::parse`] checks its size and its framing: what fails there is dropped
//! whole. [`message::ClientMessage::parse`] and [`message::ServerMessage::parse`] check one message each: what fails
//! there is dropped alone, and the packet's other messages still count.

pub mod blueprint;
pub mod handshake;
pub mod message;
pub mod snapshot;
pub mod value;

use self::message::Message;

/// Largest datagram (2.2): what any path takes without fragments.
pub const DATAGRAM_BYTES_MAX: usize = 548;

/// Bytes of the header of a connected packet.
pub const HEADER_BYTES: usize = 16;

/// Bytes in front of each message's payload.
pub const MESSAGE_HEADER_BYTES: usize = 4;

/// Longest payload of one message.
pub const PAYLOAD_BYTES_MAX: usize = DATAGRAM_BYTES_MAX - HEADER_BYTES - MESSAGE_HEADER_BYTES;

const _: () = assert!(PAYLOAD_BYTES_MAX == 528);

/// The header of a connected packet (5.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The connection, never 0.
    pub connection: u32,
    /// Number of this packet; the first is 1.
    pub sequence: u32,
    /// Highest sequence received from the peer, 0 when none was.
    pub ack: u32,
    /// Bit i: sequence `ack` − 1 − i was received too.
    pub ack_bits: u32,
}

impl Header {
    /// The header at the beginning of `datagram`, whose size is checked and nothing else.
    #[inline]
    pub fn parse(datagram: &[u8]) -> Result<Self, PacketError> {
        if datagram.len() > DATAGRAM_BYTES_MAX {
            return Err(PacketError::TooLarge);
        }
        datagram.first_chunk().map(|&bytes| Self::from_bytes(bytes)).ok_or(PacketError::Truncated)
    }

    /// The header in these bytes. Nothing is judged: any sixteen bytes are one.
    #[inline]
    pub const fn from_bytes(bytes: [u8; HEADER_BYTES]) -> Self {
        let [c0, c1, c2, c3, s0, s1, s2, s3, a0, a1, a2, a3, b0, b1, b2, b3] = bytes;
        Self {
            connection: u32::from_be_bytes([c0, c1, c2, c3]),
            sequence: u32::from_be_bytes([s0, s1, s2, s3]),
            ack: u32::from_be_bytes([a0, a1, a2, a3]),
            ack_bits: u32::from_be_bytes([b0, b1, b2, b3]),
        }
    }

    /// Writes the header.
    #[inline]
    pub const fn emit(&self, out: &mut [u8; HEADER_BYTES]) {
        let [c0, c1, c2, c3] = self.connection.to_be_bytes();
        let [s0, s1, s2, s3] = self.sequence.to_be_bytes();
        let [a0, a1, a2, a3] = self.ack.to_be_bytes();
        let [b0, b1, b2, b3] = self.ack_bits.to_be_bytes();
        *out = [c0, c1, c2, c3, s0, s1, s2, s3, a0, a1, a2, a3, b0, b1, b2, b3];
    }
}

/// A connected packet whose size and framing were checked.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    header: Header,
    messages: &'a [u8],
}

/// Why a datagram is no connected packet: it is dropped whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketError {
    /// More than [`DATAGRAM_BYTES_MAX`] bytes.
    TooLarge,
    /// Fewer than [`HEADER_BYTES`] bytes.
    Truncated,
    /// A message's header is cut off: one to three bytes are left after the last complete message.
    MessageHeader,
    /// A message's size goes past the end.
    MessageSize,
}

/// One message of a packet, not looked into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawMessage<'a> {
    /// Its type.
    pub kind: u16,
    /// What follows the message's header.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Checks the size of `datagram` and the framing of all its messages (5.3). A packet without a message is valid.
    pub fn parse(datagram: &'a [u8]) -> Result<Self, PacketError> {
        let header = Header::parse(datagram)?;
        let messages = &datagram[HEADER_BYTES..];
        let mut rest = messages;
        while !rest.is_empty() {
            (_, rest) = split_message(rest)?;
        }
        Ok(Self { header, messages })
    }

    /// Its header.
    #[inline]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Its messages, in their order.
    pub fn messages(&self) -> impl Iterator<Item = RawMessage<'a>> + use<'a> {
        let mut rest = self.messages;
        std::iter::from_fn(move || {
            let (message, after) = split_message(rest).ok()?;
            rest = after;
            Some(message)
        })
    }
}

/// The message at the front of `bytes`, and what follows it.
#[inline]
fn split_message(bytes: &[u8]) -> Result<(RawMessage<'_>, &[u8]), PacketError> {
    let Some((&[k0, k1, s0, s1], rest)) = bytes.split_first_chunk() else {
        return Err(PacketError::MessageHeader);
    };
    let size = usize::from(u16::from_be_bytes([s0, s1]));
    let Some((payload, rest)) = rest.split_at_checked(size) else { return Err(PacketError::MessageSize) };
    Ok((RawMessage { kind: u16::from_be_bytes([k0, k1]), payload }, rest))
}

/// Writes a packet in place: a header, then message after message as long as they fit.
#[derive(Debug)]
pub struct PacketWriter<'a> {
    out: &'a mut [u8],
    len: usize,
}

impl<'a> PacketWriter<'a> {
    /// A packet without a message in the front of `out`, at most [`DATAGRAM_BYTES_MAX`] long.
    ///
    /// # Panics
    /// When `out` does not hold a header.
    pub fn new(header: &Header, out: &'a mut [u8]) -> Self {
        let len_max = out.len().min(DATAGRAM_BYTES_MAX);
        let out = &mut out[..len_max];
        header.emit(out.first_chunk_mut().expect("room for a header"));
        Self { out, len: HEADER_BYTES }
    }

    /// Appends a message. False when it does not fit: then nothing changed.
    pub fn push<M: Message>(&mut self, message: &M) -> bool {
        let framed = framed_bytes::<M>();
        let Some(room) = self.out.get_mut(self.len..self.len + framed) else { return false };
        let (head, payload) = room.split_at_mut(MESSAGE_HEADER_BYTES);
        head.copy_from_slice(&frame(M::KIND, M::BYTES));
        message.emit(payload);
        self.len += framed;
        true
    }

    /// Appends a Snapshot of `tick` with the first of `states`, as many as fit and at most
    /// [`snapshot::STATES_MAX`]; what they do not take stays in the iterator. Returns how many, or `None` when there is
    /// not even room for an empty one.
    ///
    /// # Panics
    /// When a state's id is 0.
    pub fn snapshot(
        &mut self,
        tick: u32,
        states: &mut impl Iterator<Item = snapshot::EntityState>,
    ) -> Option<usize> {
        let room = self.out.get_mut(self.len..)?;
        let (head, payload) = room.split_first_chunk_mut::<MESSAGE_HEADER_BYTES>()?;
        let mut writer = snapshot::SnapshotWriter::new(tick, payload)?;
        while writer.has_room() {
            let Some(state) = states.next() else { break };
            writer.push(&state);
        }
        let (count, len) = (writer.count(), writer.finish());
        *head = frame(snapshot::Snapshot::KIND, len);
        self.len += MESSAGE_HEADER_BYTES + len;
        Some(count)
    }

    /// Bytes left for messages, their headers included.
    pub const fn room(&self) -> usize {
        self.out.len() - self.len
    }

    /// Whether it has no message yet.
    pub const fn is_empty(&self) -> bool {
        self.len == HEADER_BYTES
    }

    /// The packet's length in bytes.
    pub const fn finish(self) -> usize {
        self.len
    }
}

/// Bytes that a message of this type takes in a packet.
pub const fn framed_bytes<M: Message>() -> usize {
    MESSAGE_HEADER_BYTES + M::BYTES
}

/// The header of a message.
const fn frame(kind: u16, size: usize) -> [u8; MESSAGE_HEADER_BYTES] {
    let ([k0, k1], [s0, s1]) = (kind.to_be_bytes(), (size as u16).to_be_bytes());
    [k0, k1, s0, s1]
}

#[cfg(test)]
mod tests;
