//! What came from one peer: had, held, or in fragments (sections 5, 6 and 7). A packet is first planned whole, and only
//! when all of it has room is any of it taken.

use super::Delivery;
use super::block::BlockInbox;
use super::config::{ChannelMode, NetworkConfig};
use super::incoming::{Held, Incoming, Verdict};
use super::parts_in::{PartVerdict, PartsInTable};
use super::pools::{Buffers, FragmentBuffers};
use crate::time::Instant;
use crate::wire::fignet::batch::{Message, Messages};
use crate::wire::fignet::fragment::{FRAGMENT_HEADER_BYTES, Fragment, FragmentAck};
use crate::wire::fignet::{MESSAGE_BYTES_MAX, MESSAGE_SEQUENCE_BYTES};

/// What came from a peer.
#[derive(Debug)]
pub struct Inbox {
    channels: Box<[Incoming]>,
    /// How many of the channels this connection has.
    open: u8,
    parts: PartsInTable,
    blocks: BlockInbox,
    buffers_used: usize,
    buffers_max: usize,
    /// Data bytes of every fragment but the last of a message.
    part_bytes: usize,
    round: u32,
    broken: bool,
}

/// Why a packet is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// It breaks the protocol.
    Malformed,
    /// There is no room for it now.
    NoRoom,
}

/// The parts of the pools that an inbox uses.
#[derive(Debug)]
pub struct InboxRoom<'a> {
    /// For messages that are held.
    pub receive: &'a mut Buffers,
    /// For fragments.
    pub fragments: &'a mut FragmentBuffers,
    /// Where a message is put together.
    pub message: &'a mut [u8],
}

impl std::fmt::Debug for FragmentBuffers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} fragment buffers claimed", self.claimed())
    }
}

impl Inbox {
    /// Nothing received.
    pub fn new(config: &NetworkConfig) -> Self {
        let mode = |id| config.channels.mode(id).expect("a channel id");
        Self {
            channels: (0..config.max_channels).map(|id| Incoming::new(mode(id))).collect(),
            open: 0,
            parts: PartsInTable::new(NetworkConfig::ms(config.fragment_timeout_ms)),
            blocks: BlockInbox::new(config.block_channel),
            buffers_used: 0,
            buffers_max: usize::from(config.receive_buffers_per_peer),
            part_bytes: 1,
            round: 0,
            broken: false,
        }
    }

    /// Opens the first `channels` channels, for payloads of at most `payload_bytes`.
    pub fn open(&mut self, channels: u8, payload_bytes: usize) {
        self.open = channels;
        self.part_bytes = payload_bytes - FRAGMENT_HEADER_BYTES;
    }

    /// Forgets everything, and gives it back.
    pub fn reset(&mut self, receive: &mut Buffers, fragments: &mut FragmentBuffers) {
        self.parts.reset(fragments);
        for channel in &mut self.channels {
            channel.reset(0, |held| {
                if let Held::Whole(chain) = held {
                    receive.release(chain);
                }
            });
        }
        self.blocks.reset();
        self.open = 0;
        self.buffers_used = 0;
        self.broken = false;
    }

    /// Every channel begins at `sequence`. Only while nothing was received.
    #[cfg(any(test, feature = "sim"))]
    pub fn set_sequences(&mut self, sequence: u16) {
        self.channels.iter_mut().for_each(|channel| channel.reset(sequence, |_| {}));
    }

    /// Whether everything in a packet can be taken. Nothing changes.
    pub fn plan(
        &mut self,
        messages: Messages<'_>,
        receive: &Buffers,
        fragments: &FragmentBuffers,
    ) -> Result<(), Refusal> {
        self.round = self.round.wrapping_add(1).max(1);
        let mut buffers = 0;
        let mut new_sets = (0, 0);
        for message in messages {
            match message {
                Message::Ping(_) | Message::Pong(_) | Message::PartAck(_) => {}
                Message::Whole { kind, channel, sequence, bytes } => {
                    let channel = self.channel(channel).ok_or(Refusal::Malformed)?;
                    if channel.mode().kind() != kind {
                        return Err(Refusal::Malformed);
                    }
                    let round = self.round;
                    match self.channels[usize::from(channel_of(&message))].probe(round, sequence) {
                        Verdict::Refuse => return Err(Refusal::NoRoom),
                        Verdict::Hold => buffers += receive.needed(bytes.len()),
                        Verdict::Deliver | Verdict::Drop => {}
                    }
                }
                Message::Part { channel, fragment } => {
                    self.plan_part(channel, &fragment, fragments, &mut new_sets)?;
                }
            }
        }
        let fits = buffers <= receive.free() && self.buffers_used + buffers <= self.buffers_max;
        if buffers == 0 || fits { Ok(()) } else { Err(Refusal::NoRoom) }
    }

    /// Takes a message of a packet that was planned.
    pub fn take(
        &mut self,
        now: Instant,
        message: &Message<'_>,
        room: &mut InboxRoom<'_>,
        deliver: &mut impl FnMut(Delivery<'_>),
    ) {
        match *message {
            Message::Whole { channel, sequence, bytes, .. } => {
                let incoming = &mut self.channels[usize::from(channel)];
                match incoming.judge(sequence) {
                    Verdict::Deliver => {
                        incoming.delivered(sequence);
                        self.hand(channel, bytes, deliver);
                        self.take_held(channel, room, deliver);
                    }
                    Verdict::Hold => {
                        if let Some(chain) = room.receive.store(&[], bytes) {
                            self.buffers_used += room.receive.needed(bytes.len());
                            incoming.hold(sequence, Held::Whole(chain));
                        }
                    }
                    Verdict::Drop | Verdict::Refuse => {}
                }
            }
            Message::Part { channel, fragment } => self.take_part(now, channel, &fragment, room, deliver),
            Message::Ping(_) | Message::Pong(_) | Message::PartAck(_) => {}
        }
    }

    /// Gives up a message in fragments of which nothing new came for too long; returns its channel.
    pub fn give_up_parts(&mut self, now: Instant, fragments: &mut FragmentBuffers) -> Option<u8> {
        self.parts.give_up(now, fragments)
    }

    /// When a message in fragments is next given up.
    pub fn next_give_up(&self) -> Option<Instant> {
        self.parts.next_give_up()
    }

    /// The next FRAGMENT_ACK to be sent, without taking it.
    pub fn part_ack(&self) -> Option<FragmentAck> {
        self.parts.ack()
    }

    /// The FRAGMENT_ACK is sent.
    pub fn part_ack_sent(&mut self) {
        self.parts.ack_sent();
    }

    /// Whether the channel of blocks said something that makes no sense: nothing that follows can be understood.
    pub const fn is_broken(&self) -> bool {
        self.broken
    }

    fn channel(&self, id: u8) -> Option<&Incoming> {
        if id < self.open { self.channels.get(usize::from(id)) } else { None }
    }

    fn plan_part(
        &mut self,
        id: u8,
        fragment: &Fragment<'_>,
        fragments: &FragmentBuffers,
        new_sets: &mut (usize, usize),
    ) -> Result<(), Refusal> {
        self.channel(id).ok_or(Refusal::Malformed)?;
        let full = fragment.data.len() == self.part_bytes;
        let fits = if fragment.is_last() { fragment.data.len() <= self.part_bytes } else { full };
        // At least: of the last fragment a byte is known to come.
        let last_len = if fragment.is_last() { fragment.data.len() } else { 1 };
        let len_min = usize::from(fragment.total - 1) * self.part_bytes + last_len;
        if !fits || len_min > MESSAGE_SEQUENCE_BYTES + MESSAGE_BYTES_MAX {
            return Err(Refusal::Malformed);
        }
        match self.parts.judge(id, fragment) {
            PartVerdict::Malformed => Err(Refusal::Malformed),
            PartVerdict::GivenUp => {
                self.parts.say_given_up(fragment.id);
                Err(Refusal::NoRoom)
            }
            PartVerdict::Had | PartVerdict::Store => Ok(()),
            PartVerdict::Begin => {
                let (sets, buffers) = *new_sets;
                let total = usize::from(fragment.total);
                if sets >= self.parts.free() || buffers + total > fragments.free() {
                    return Err(Refusal::NoRoom);
                }
                *new_sets = (sets + 1, buffers + total);
                Ok(())
            }
            PartVerdict::Complete => {
                let Some(sequence) = self.parts.sequence(fragment, fragments) else {
                    return Err(Refusal::Malformed);
                };
                let round = self.round;
                match self.channels[usize::from(id)].probe(round, sequence) {
                    Verdict::Refuse => Err(Refusal::NoRoom),
                    _ => Ok(()),
                }
            }
        }
    }

    fn take_part(
        &mut self,
        now: Instant,
        channel: u8,
        fragment: &Fragment<'_>,
        room: &mut InboxRoom<'_>,
        deliver: &mut impl FnMut(Delivery<'_>),
    ) {
        let Some(slot) = self.parts.store(now, channel, fragment, room.fragments) else { return };
        let (sequence, len) = self.parts.assemble(slot, room.fragments, room.message);
        let incoming = &mut self.channels[usize::from(channel)];
        match incoming.judge(sequence) {
            Verdict::Deliver => {
                incoming.delivered(sequence);
                self.parts.release(slot, room.fragments);
                self.hand(channel, &room.message[..len], deliver);
                self.take_held(channel, room, deliver);
            }
            Verdict::Hold => incoming.hold(sequence, Held::Parts(slot)),
            Verdict::Drop | Verdict::Refuse => self.parts.release(slot, room.fragments),
        }
    }

    /// Delivers the held messages whose turn it is.
    fn take_held(&mut self, channel: u8, room: &mut InboxRoom<'_>, deliver: &mut impl FnMut(Delivery<'_>)) {
        if self.channels[usize::from(channel)].mode() != ChannelMode::ReliableOrdered {
            return;
        }
        while let Some((_, held)) = self.channels[usize::from(channel)].take_next() {
            let len = match held {
                Held::Whole(chain) => {
                    self.buffers_used -= room.receive.needed(chain.len());
                    let len = room.receive.copy(chain, room.message);
                    room.receive.release(chain);
                    len
                }
                Held::Parts(slot) => {
                    let (_, len) = self.parts.assemble(slot, room.fragments, room.message);
                    self.parts.release(slot, room.fragments);
                    len
                }
            };
            self.hand(channel, &room.message[..len], deliver);
        }
    }

    fn hand(&mut self, channel: u8, bytes: &[u8], deliver: &mut impl FnMut(Delivery<'_>)) {
        if !self.blocks.is_channel(channel) {
            deliver(Delivery::Message { channel, bytes });
            return;
        }
        match self.blocks.take(bytes) {
            Some(part) if !self.broken => deliver(Delivery::Block(part)),
            _ => self.broken = true,
        }
    }
}

fn channel_of(message: &Message<'_>) -> u8 {
    match *message {
        Message::Whole { channel, .. } | Message::Part { channel, .. } => channel,
        Message::Ping(_) | Message::Pong(_) | Message::PartAck(_) => 0,
    }
}
