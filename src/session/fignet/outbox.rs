//! Everything that waits to be sent to one peer, and what of it goes into the next packet (sections 5, 6 and 8).
//!
//! What was lost goes first, the HIGH band before NORMAL before LOW. Then what was never sent: the bands share the
//! bytes 4 : 2 : 1, and the channels of a band take turns.

use super::SendError;
use super::config::{ChannelMode, NetworkConfig};
use super::flights::{Cargo, Carried, Flights};
use super::outgoing::{Outgoing, Stage, TooManyRetries};
use super::parts_out::PartsOutTable;
use super::pools::Buffers;
use crate::wire::fignet::batch::BatchWriter;
use crate::wire::fignet::fragment::{FRAGMENT_HEADER_BYTES, Fragment, FragmentAck};
use crate::wire::fignet::header::PacketKind;
use crate::wire::fignet::{MESSAGE_BYTES_MAX, MESSAGE_SEQUENCE_BYTES};

/// Bands of priority: HIGH, NORMAL and LOW.
const BANDS: usize = 3;

/// Which words of a channel mask are a band's: channels 0-63, 64-191, 192-255.
const BAND_WORDS: [std::ops::Range<usize>; BANDS] = [0..1, 1..3, 3..4];

/// Bytes that a band may send while the others wait, in each turn.
const BAND_BYTES: [i32; BANDS] = [4 * 1200, 2 * 1200, 1200];

/// One bit per channel.
#[derive(Clone, Copy, Default, Debug)]
struct Mask([u64; 4]);

/// What waits to be sent.
#[derive(Debug)]
pub struct Outbox {
    channels: Box<[Outgoing]>,
    /// How many of the channels this connection has.
    open: u8,
    parts: PartsOutTable,
    /// Channels with something never sent, and with something lost.
    queued: Mask,
    lost: Mask,
    cursors: [u8; BANDS],
    credits: [i32; BANDS],
    buffers_used: usize,
    buffers_max: usize,
    payload_bytes: usize,
    part_bytes: usize,
    parts_max: usize,
    retries_max: u8,
    /// Unreliable messages that made way for later ones.
    overtaken: u64,
}

/// What happened to the fragments that a FRAGMENT_ACK is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PartsFate {
    /// Nothing to tell.
    Fine,
    /// The receiver gave up the message of this channel.
    GivenUp(u8),
}

impl Outbox {
    /// Nothing to send.
    pub fn new(config: &NetworkConfig) -> Self {
        let queue_len = usize::from(config.channel_queue_len);
        let mode = |id| config.channels.mode(id).expect("a channel id");
        Self {
            channels: (0..config.max_channels).map(|id| Outgoing::new(mode(id), queue_len)).collect(),
            open: 0,
            parts: PartsOutTable::new(),
            queued: Mask::default(),
            lost: Mask::default(),
            cursors: [0; BANDS],
            credits: [0; BANDS],
            buffers_used: 0,
            buffers_max: usize::from(config.send_buffers_per_peer),
            payload_bytes: 0,
            part_bytes: 1,
            parts_max: usize::from(config.max_fragments_per_message),
            retries_max: config.max_retransmissions,
            overtaken: 0,
        }
    }

    /// Opens the first `channels` channels, for payloads of at most `payload_bytes`.
    pub fn open(&mut self, channels: u8, payload_bytes: usize) {
        self.open = channels;
        self.payload_bytes = payload_bytes;
        self.part_bytes = payload_bytes - FRAGMENT_HEADER_BYTES;
    }

    /// Forgets everything, and gives it back to `buffers`.
    pub fn reset(&mut self, buffers: &mut Buffers) {
        let channels = &self.channels;
        self.parts.reset(|parts| {
            if !channels[usize::from(parts.channel)].mode().is_reliable() {
                buffers.release(parts.chain);
            }
        });
        self.channels.iter_mut().for_each(|channel| channel.reset(0, |chain| buffers.release(chain)));
        self.open = 0;
        (self.queued, self.lost) = Default::default();
        (self.cursors, self.credits) = Default::default();
        self.buffers_used = 0;
        self.overtaken = 0;
    }

    /// Every channel begins at `sequence`, so that its numbers soon wrap. Only while nothing waits.
    #[cfg(any(test, feature = "sim"))]
    pub fn set_sequences(&mut self, sequence: u16) {
        self.channels.iter_mut().for_each(|channel| channel.reset(sequence, |_| {}));
    }

    /// Queues a message.
    pub fn push(
        &mut self,
        buffers: &mut Buffers,
        id: u8,
        bytes: &[u8],
        token: Option<u32>,
    ) -> Result<(), SendError> {
        if id >= self.open {
            return Err(SendError::NoSuchChannel);
        }
        let len = MESSAGE_SEQUENCE_BYTES + bytes.len();
        let fits = len <= self.payload_bytes || len <= self.part_bytes * self.parts_max;
        if bytes.len() > MESSAGE_BYTES_MAX || !fits || buffers.needed(len) > self.buffers_max {
            return Err(SendError::TooLarge);
        }
        let channel = &mut self.channels[usize::from(id)];
        let has_room = |channel: &Outgoing, used: usize, buffers: &Buffers| {
            !channel.is_full() && used + buffers.needed(len) <= self.buffers_max
        };
        if !channel.mode().is_reliable() {
            while !has_room(channel, self.buffers_used, buffers) {
                let Some(chain) = channel.drop_oldest() else { break };
                self.buffers_used -= buffers.needed(chain.len());
                buffers.release(chain);
                self.overtaken += 1;
            }
        }
        if !has_room(channel, self.buffers_used, buffers) {
            return Err(SendError::NoRoom);
        }
        let sequence = channel.next_sequence().to_le_bytes();
        let chain = buffers.store(&sequence, bytes).ok_or(SendError::NoRoom)?;
        self.buffers_used += buffers.needed(len);
        channel.push(chain, token);
        self.refresh(id);
        Ok(())
    }

    /// Whether something may be sent.
    pub fn is_ready(&self) -> bool {
        !self.lost.is_empty() || !self.queued.is_empty()
    }

    /// Whether something waits on a reliable channel, sent or not.
    pub fn is_drained(&self) -> bool {
        self.parts.is_empty()
            && self.channels.iter().all(|channel| !channel.mode().is_reliable() || channel.is_empty())
    }

    /// How many messages wait or are unconfirmed on channel `id`.
    pub fn waiting(&self, id: u8) -> usize {
        self.channels.get(usize::from(id)).map_or(0, Outgoing::len)
    }

    /// Messages confirmed on channel `id`, and their bytes with their sequences.
    pub fn confirmed(&self, id: u8) -> (u64, u64) {
        self.channels.get(usize::from(id)).map_or((0, 0), Outgoing::confirmed)
    }

    /// Unreliable messages that made way for later ones.
    pub const fn overtaken(&self) -> u64 {
        self.overtaken
    }

    /// Fills a packet, and loads what it carries. Returns how often the most unlucky of it was sent before.
    pub fn fill(
        &mut self,
        batch: &mut BatchWriter<'_>,
        flights: &mut Flights,
        cargo: &mut Cargo,
        buffers: &mut Buffers,
    ) -> u8 {
        let mut retries = 0;
        for words in BAND_WORDS {
            let mut from = words.start * 64;
            while let Some(id) = self.lost.next(from, words.end * 64) {
                from = usize::from(id) + 1;
                retries = retries.max(self.fill_lost(id, batch, flights, cargo, buffers));
                self.refresh(id);
            }
        }
        let mut left = self.queued;
        let mut is_first = true;
        while flights.has_room() && batch.room() > 0 {
            let Some((band, id)) = self.choose(&left, is_first) else { break };
            match self.fill_queued(id, batch, flights, cargo, buffers) {
                Some(len) => {
                    is_first = false;
                    self.credits[band] -= len as i32;
                    self.cursors[band] = id;
                    self.refresh(id);
                    left.set(id, self.queued.has(id));
                }
                None => left.set(id, false),
            }
        }
        retries
    }

    /// The packet with `carried` is acknowledged. Returns the token to tell of.
    pub fn confirm(&mut self, carried: Carried, buffers: &mut Buffers) -> Option<u32> {
        match carried {
            Carried::Token(token) => return Some(token),
            Carried::Message { channel, sequence } => self.confirm_message(channel, sequence, buffers),
            Carried::Fragment { id, index } => self.confirm_parts(id, 1 << index, buffers),
        }
        None
    }

    /// The packet with `carried` is lost.
    pub fn lose(&mut self, carried: Carried) -> Result<(), TooManyRetries> {
        match carried {
            Carried::Token(_) => {}
            Carried::Message { channel, sequence } => {
                self.channels[usize::from(channel)].lose(sequence, self.retries_max)?;
                self.refresh(channel);
            }
            Carried::Fragment { id, index } => {
                let Some(parts) = self.parts.find(id) else { return Ok(()) };
                parts.lose(index, self.retries_max)?;
                let channel = parts.channel;
                self.refresh(channel);
            }
        }
        Ok(())
    }

    /// The peer says which fragments it has.
    pub fn hear_part_ack(
        &mut self,
        ack: &FragmentAck,
        buffers: &mut Buffers,
    ) -> Result<PartsFate, TooManyRetries> {
        if ack.received != 0 {
            self.confirm_parts(ack.id, ack.received, buffers);
            return Ok(PartsFate::Fine);
        }
        let Some(parts) = self.parts.find(ack.id) else { return Ok(PartsFate::Fine) };
        let (id, chain) = (parts.channel, parts.chain);
        let channel = &mut self.channels[usize::from(id)];
        if channel.mode().is_reliable() {
            self.parts.restart(ack.id, self.retries_max)?;
        } else {
            self.parts.remove(|parts| parts.id == ack.id);
            channel.in_parts = false;
            self.buffers_used -= buffers.needed(chain.len());
            buffers.release(chain);
        }
        self.refresh(id);
        Ok(PartsFate::GivenUp(id))
    }

    fn confirm_message(&mut self, id: u8, sequence: u16, buffers: &mut Buffers) {
        let channel = &mut self.channels[usize::from(id)];
        let before = buffers.claimed();
        channel.confirm(sequence, buffers);
        self.buffers_used -= before - buffers.claimed();
        // Fragments that arrived before their turn kept their place until now, as they do at the receiver.
        self.parts.remove(|parts| parts.is_done() && parts.channel == id && channel.is_past(parts.sequence));
        self.refresh(id);
    }

    fn confirm_parts(&mut self, id: u16, bits: u64, buffers: &mut Buffers) {
        let Some(parts) = self.parts.find(id) else { return };
        let (is_whole, channel_id) = (parts.arrive(bits), parts.channel);
        let channel = &mut self.channels[usize::from(channel_id)];
        if !parts.has_unsent() {
            channel.in_parts = false;
        }
        if is_whole {
            let (sequence, chain) = (parts.sequence, parts.chain);
            parts.finish();
            if channel.mode() != ChannelMode::ReliableOrdered {
                self.parts.remove(|parts| parts.id == id);
            }
            if channel.mode().is_reliable() {
                self.confirm_message(channel_id, sequence, buffers);
            } else {
                self.buffers_used -= buffers.needed(chain.len());
                buffers.release(chain);
            }
        }
        self.refresh(channel_id);
    }

    fn fill_lost(
        &mut self,
        id: u8,
        batch: &mut BatchWriter<'_>,
        flights: &mut Flights,
        cargo: &mut Cargo,
        buffers: &Buffers,
    ) -> u8 {
        let mut retries = 0;
        while flights.has_room()
            && let Some(parts) = self.parts.of_channel(id, |parts| parts.has_lost())
            && let Some(index) = parts.next(true)
            && batch.fits(FRAGMENT_HEADER_BYTES + parts.len_of(index))
        {
            push_part(parts, index, batch, buffers);
            flights.load(cargo, Carried::Fragment { id: parts.id, index });
            retries = retries.max(parts.sent(index));
        }
        let channel = &mut self.channels[usize::from(id)];
        while flights.has_room()
            && channel.has_lost()
            && let Some((sequence, entry)) = channel.lost(batch.room())
        {
            let len = entry.chain.len();
            batch.push(channel.mode().kind(), id, len, |body| _ = buffers.copy(entry.chain, body));
            flights.load(cargo, Carried::Message { channel: id, sequence });
            channel.mark(sequence, Stage::InFlight);
            retries = retries.max(entry.retries);
        }
        retries
    }

    /// Adds the next message or fragment of channel `id`, and returns its length; `None` when that is not possible.
    fn fill_queued(
        &mut self,
        id: u8,
        batch: &mut BatchWriter<'_>,
        flights: &mut Flights,
        cargo: &mut Cargo,
        buffers: &mut Buffers,
    ) -> Option<usize> {
        let channel = &mut self.channels[usize::from(id)];
        if !channel.in_parts {
            let (sequence, entry) = channel.queued()?;
            let len = entry.chain.len();
            if len <= self.payload_bytes {
                return batch.fits(len).then(|| {
                    batch.push(channel.mode().kind(), id, len, |body| _ = buffers.copy(entry.chain, body));
                    if channel.mode().is_reliable() {
                        flights.load(cargo, Carried::Message { channel: id, sequence });
                    } else {
                        self.buffers_used -= buffers.needed(len);
                        buffers.release(entry.chain);
                        if let Some(token) = entry.token {
                            flights.load(cargo, Carried::Token(token));
                        }
                    }
                    channel.mark(sequence, Stage::InFlight);
                    len
                });
            }
            if !self.parts.has_room() {
                return None;
            }
            self.parts.begin(id, sequence, entry.chain, self.part_bytes, buffers);
            channel.mark(sequence, Stage::InParts);
            channel.in_parts = true;
        }
        let parts = self.parts.of_channel(id, |parts| parts.has_unsent())?;
        let index = parts.next(false)?;
        let len = FRAGMENT_HEADER_BYTES + parts.len_of(index);
        if !batch.fits(len) {
            return None;
        }
        push_part(parts, index, batch, buffers);
        flights.load(cargo, Carried::Fragment { id: parts.id, index });
        parts.sent(index);
        channel.in_parts = parts.has_unsent();
        Some(len)
    }

    /// The channel whose turn it is among `left`, and its band. A new round of shares begins only with the first
    /// message of a packet: later, those with something left of theirs may just not fit any more.
    fn choose(&mut self, left: &Mask, is_first: bool) -> Option<(usize, u8)> {
        let waiting = |band: usize| {
            let words = BAND_WORDS[band].clone();
            let after = usize::from(self.cursors[band]) + 1;
            let next = left.next(after.max(words.start * 64), words.end * 64);
            next.or_else(|| left.next(words.start * 64, words.end * 64)).map(|id| (band, id))
        };
        let next: [Option<(usize, u8)>; BANDS] = std::array::from_fn(waiting);
        let mut waiting = next.into_iter().flatten();
        if let Some(turn) = waiting.clone().find(|&(band, _)| self.credits[band] > 0) {
            return Some(turn);
        }
        let turn = waiting.clone().next()?;
        if !is_first {
            return Some(turn);
        }
        // Everyone who waits has had its share: the next round.
        waiting.by_ref().for_each(|(band, _)| {
            self.credits[band] = (self.credits[band] + BAND_BYTES[band]).min(BAND_BYTES[band]);
        });
        Some(turn)
    }

    fn refresh(&mut self, id: u8) {
        let channel = &self.channels[usize::from(id)];
        let parts_lost = self.parts.of_channel(id, |parts| parts.has_lost()).is_some();
        self.queued.set(id, channel.in_parts || channel.has_queued());
        self.lost.set(id, channel.has_lost() || parts_lost);
    }
}

fn push_part(parts: &super::parts_out::PartsOut, index: u8, batch: &mut BatchWriter<'_>, buffers: &Buffers) {
    let data_len = parts.len_of(index);
    let len = FRAGMENT_HEADER_BYTES + data_len;
    batch.push(PacketKind::Fragment, parts.channel, len, |body| {
        let (head, data) = body.split_at_mut(FRAGMENT_HEADER_BYTES);
        let mut writer = crate::wire::cursor::Writer::new(head);
        Fragment::emit_header(parts.id, index, parts.total, data_len as u16, &mut writer);
        parts.read(index, buffers, data);
    });
}

impl Mask {
    fn set(&mut self, id: u8, is_in: bool) {
        let word = &mut self.0[usize::from(id) / 64];
        *word = *word & !(1 << (id % 64)) | u64::from(is_in) << (id % 64);
    }

    fn has(&self, id: u8) -> bool {
        self.0[usize::from(id) / 64] >> (id % 64) & 1 == 1
    }

    fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    /// The first channel from `from` to below `end`.
    fn next(&self, from: usize, end: usize) -> Option<u8> {
        let mut at = from;
        while at < end {
            let bits = self.0[at / 64] >> (at % 64);
            if bits != 0 {
                let id = at + bits.trailing_zeros() as usize;
                return (id < end).then_some(id as u8);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }
}
