//! The messages of a packet (section 4): one, or a batch of several, or none.

use super::MESSAGE_SEQUENCE_BYTES;
use super::fragment::{Fragment, FragmentAck};
use super::handshake::parse_timestamp;
use super::header::{Header, PacketKind};
use crate::wire::cursor::Reader;

/// Bytes before the first message of a batch.
pub const BATCH_HEADER_BYTES: usize = 1;

/// Bytes before the body of each message of a batch.
pub const BATCH_MESSAGE_BYTES: usize = 4;

/// Most messages of a batch.
pub const BATCH_MESSAGES_MAX: usize = 255;

/// One message, checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message<'a> {
    /// Echo this timestamp, in microseconds.
    Ping(u64),
    /// Here is yours.
    Pong(u64),
    /// A message of a channel.
    Whole {
        /// How it travels; what kind the channel is of must agree.
        kind: PacketKind,
        /// Its channel.
        channel: u8,
        /// Its number in that channel.
        sequence: u16,
        /// What it says.
        bytes: &'a [u8],
    },
    /// A part of a message of a channel.
    Part {
        /// The channel.
        channel: u8,
        /// The part.
        fragment: Fragment<'a>,
    },
    /// Which parts arrived.
    PartAck(FragmentAck),
}

/// Why a payload is malformed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PayloadError {
    /// A batch of no or one message, or one whose lengths do not add up, or whose header does not tell its first.
    Batch,
    /// A message of a type that does not exist, or may not be there.
    Kind,
    /// A body that does not match its type.
    Body,
    /// Fragments without the flag, or the flag without fragments.
    Flags,
}

/// The messages of a packet, all of them checked.
#[derive(Clone, Copy, Debug)]
pub struct Messages<'a> {
    /// The whole payload, or the messages of the batch.
    bytes: &'a [u8],
    /// How many are left in a batch; else whether the one is still to come.
    left: u8,
    /// The kind and channel of the only message; `None` for a batch.
    single: Option<(PacketKind, u8)>,
}

impl<'a> Messages<'a> {
    /// Checks the whole payload of a packet that is no handshake, after it was decrypted and decompressed.
    pub fn parse(header: &Header, payload: &'a [u8]) -> Result<Self, PayloadError> {
        if header.kind.is_handshake() {
            return Err(PayloadError::Kind);
        }
        if header.flags.batched {
            return Self::parse_batch(header, payload);
        }
        // Nothing but acknowledgements.
        if header.kind == PacketKind::Unreliable && payload.is_empty() {
            return Ok(Self { bytes: payload, left: 0, single: Some((header.kind, header.channel)) });
        }
        parse_message(header.kind, header.channel, payload)?;
        Ok(Self { bytes: payload, left: 1, single: Some((header.kind, header.channel)) })
    }

    /// How many are still to come.
    pub const fn len(&self) -> usize {
        self.left as usize
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.left == 0
    }

    fn parse_batch(header: &Header, payload: &'a [u8]) -> Result<Self, PayloadError> {
        let (&count, bytes) = payload.split_first().ok_or(PayloadError::Batch)?;
        if count < 2 {
            return Err(PayloadError::Batch);
        }
        let mut reader = Reader::new(bytes);
        let mut fragments = false;
        for place in 0..count {
            let (kind, channel, body) = read_entry(&mut reader).ok_or(PayloadError::Batch)?;
            let kind = PacketKind::from_bits(kind).ok_or(PayloadError::Kind)?;
            if place == 0 && (kind, channel) != (header.kind, header.channel) {
                return Err(PayloadError::Batch);
            }
            parse_message(kind, channel, body)?;
            fragments |= kind == PacketKind::Fragment;
        }
        if !reader.at_end() {
            return Err(PayloadError::Batch);
        }
        if fragments != header.flags.fragments {
            return Err(PayloadError::Flags);
        }
        Ok(Self { bytes, left: count, single: None })
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        self.left = self.left.checked_sub(1)?;
        if let Some((kind, channel)) = self.single {
            return parse_message(kind, channel, self.bytes).ok();
        }
        let mut reader = Reader::new(self.bytes);
        let (kind, channel, body) = read_entry(&mut reader)?;
        self.bytes = reader.rest();
        parse_message(PacketKind::from_bits(kind)?, channel, body).ok()
    }
}

fn read_entry<'a>(reader: &mut Reader<'a>) -> Option<(u8, u8, &'a [u8])> {
    let (kind, channel, len) = (reader.u8()?, reader.u8()?, reader.u16()?);
    Some((kind, channel, reader.bytes(usize::from(len))?))
}

fn parse_message(kind: PacketKind, channel: u8, body: &[u8]) -> Result<Message<'_>, PayloadError> {
    let message = match kind {
        PacketKind::Ping => parse_timestamp(body).map(Message::Ping),
        PacketKind::Pong => parse_timestamp(body).map(Message::Pong),
        PacketKind::Fragment => Fragment::parse(body).map(|fragment| Message::Part { channel, fragment }),
        PacketKind::FragmentAck => FragmentAck::parse(body).map(Message::PartAck),
        _ if kind.is_message() => {
            body.split_first_chunk::<MESSAGE_SEQUENCE_BYTES>().map(|(&sequence, bytes)| Message::Whole {
                kind,
                channel,
                sequence: u16::from_le_bytes(sequence),
                bytes,
            })
        }
        _ => return Err(PayloadError::Kind),
    };
    message.ok_or(PayloadError::Body)
}

/// Collects the messages of one packet. Until it is finished they stand as in a batch, so that it needs
/// [`BatchWriter::SPARE_BYTES`] more room than the payload may have.
#[derive(Debug)]
pub struct BatchWriter<'a> {
    out: &'a mut [u8],
    payload_bytes_max: usize,
    len: usize,
    count: u8,
    first: Option<(PacketKind, u8)>,
    fragments: bool,
}

/// What a [`BatchWriter`] collected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Batch {
    /// The kind for the header.
    pub kind: PacketKind,
    /// The channel for the header.
    pub channel: u8,
    /// Whether there are several.
    pub batched: bool,
    /// Whether a fragment is among them.
    pub fragments: bool,
    /// Where the payload begins in the buffer,
    pub start: usize,
    /// and where it ends.
    pub end: usize,
}

impl<'a> BatchWriter<'a> {
    /// Bytes of the buffer that a lone message does not use.
    pub const SPARE_BYTES: usize = BATCH_HEADER_BYTES + BATCH_MESSAGE_BYTES;

    /// Nothing yet, for payloads of at most `payload_bytes_max`.
    ///
    /// # Panics
    /// When `out` is not longer than that by [`BatchWriter::SPARE_BYTES`].
    pub fn new(out: &'a mut [u8], payload_bytes_max: usize) -> Self {
        assert!(out.len() >= payload_bytes_max + Self::SPARE_BYTES, "room for the largest payload");
        Self { out, payload_bytes_max, len: BATCH_HEADER_BYTES, count: 0, first: None, fragments: false }
    }

    /// Bytes of the largest body that still fits; 0 also when no message does.
    pub fn room(&self) -> usize {
        match usize::from(self.count) {
            0 => self.payload_bytes_max,
            BATCH_MESSAGES_MAX => 0,
            _ => self.payload_bytes_max.saturating_sub(self.len + BATCH_MESSAGE_BYTES),
        }
    }

    /// Whether a message with a body of `len` bytes, at least 1, still fits.
    pub fn fits(&self, len: usize) -> bool {
        len <= self.room()
    }

    /// Adds a message, its body of `len` bytes written by `write`.
    ///
    /// # Panics
    /// When it does not fit.
    pub fn push(&mut self, kind: PacketKind, channel: u8, len: usize, write: impl FnOnce(&mut [u8])) {
        assert!(self.fits(len), "a message that does not fit");
        let (head, body) =
            self.out[self.len..][..BATCH_MESSAGE_BYTES + len].split_at_mut(BATCH_MESSAGE_BYTES);
        let [low, high] = (len as u16).to_le_bytes();
        head.copy_from_slice(&[kind as u8, channel, low, high]);
        write(body);
        self.len += BATCH_MESSAGE_BYTES + len;
        self.count += 1;
        self.first.get_or_insert((kind, channel));
        self.fragments |= kind == PacketKind::Fragment;
    }

    /// How many messages there are.
    pub const fn count(&self) -> u8 {
        self.count
    }

    /// The payload, in the buffer. Without a message it is that of a packet of nothing but acknowledgements.
    pub fn finish(self) -> Batch {
        let (kind, channel) = self.first.unwrap_or((PacketKind::Unreliable, 0));
        let start = if self.count > 1 { 0 } else { Self::SPARE_BYTES.min(self.len) };
        if self.count > 1 {
            self.out[0] = self.count;
        }
        let end = if self.count == 0 { start } else { self.len };
        Batch { kind, channel, batched: self.count > 1, fragments: self.fragments, start, end }
    }
}
