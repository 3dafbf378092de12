//! What arrives (sections 4 and 5): checked whole, planned whole, and only then taken.

use super::Peer;
use crate::lz4;
use crate::session::acks::Receipt;
use crate::session::fignet::inbox::{InboxRoom, Refusal};
use crate::session::fignet::outbox::PartsFate;
use crate::session::fignet::outgoing::TooManyRetries;
use crate::session::fignet::pace::TooMany;
use crate::session::fignet::pools::{Buffers, FragmentBuffers, Pools};
use crate::session::fignet::{Delivery, Event, HearError, PeerState, Seal};
use crate::time::{Duration, Instant};
use crate::wire::fignet::batch::{Message, Messages};
use crate::wire::fignet::header::{HEADER_BYTES, HeaderError};
use crate::wire::fignet::{ErrorCode, Header, MTU_MAX, PacketKind};

impl<S: Seal> Peer<S> {
    /// Takes in a packet that arrived `at`, not later than `now`. What it brings is given to `deliver`, all of it
    /// before this returns. An error says why the packet was dropped: nothing of it was taken.
    pub fn hear(
        &mut self,
        now: Instant,
        at: Instant,
        pools: &mut Pools,
        bytes: &[u8],
        mut deliver: impl FnMut(Delivery<'_>),
    ) -> Result<(), HearError> {
        let result = self.hear_packet(now, at, pools, bytes, &mut deliver);
        match result {
            Ok(()) => {
                self.stats.packets_received += 1;
                self.stats.bytes_received += bytes.len() as u64;
            }
            Err(HearError::Duplicate | HearError::TooOld) => self.stats.duplicates += 1,
            Err(HearError::RateLimited) => self.stats.rate_limited += 1,
            Err(HearError::NoRoom) => self.stats.refused += 1,
            Err(HearError::Header(HeaderError::ProtocolId)) => {}
            Err(_) => self.stats.malformed += 1,
        }
        result
    }

    fn hear_packet(
        &mut self,
        now: Instant,
        at: Instant,
        pools: &mut Pools,
        bytes: &[u8],
        deliver: &mut impl FnMut(Delivery<'_>),
    ) -> Result<(), HearError> {
        if bytes.len() > self.mtu_to_hear() {
            return Err(HearError::TooLarge);
        }
        let (header, payload) = Header::parse(bytes, self.config.protocol_id).map_err(HearError::Header)?;
        if self.state.is_over() {
            return Err(HearError::Unexpected);
        }
        if self.state.is_open() {
            self.check_allowance(now, pools, bytes.len())?;
        }
        let head = &bytes[..bytes.len() - payload.len()];
        if header.kind.is_handshake() {
            return self.hear_sealed_handshake(now, pools, &header, head, payload, deliver);
        }
        let proves = self.state == PeerState::ConnectionPending && self.is_answer(&header);
        if !self.state.is_open() && !proves {
            return Err(HearError::Unexpected);
        }
        let Pools { send, receive, fragments, message, payload: scratch, opened, .. } = pools;
        let payload = open(&mut self.seal, &header, head, payload, opened)?;
        let payload = if header.flags.compressed {
            let room = scratch.first_chunk_mut::<{ lz4::PAYLOAD_BYTES_MAX }>().expect("room for a payload");
            let len = lz4::decompress(payload, room).map_err(|_| HearError::Malformed)?;
            if len > usize::from(self.terms.mtu) - HEADER_BYTES {
                return Err(HearError::Malformed);
            }
            &scratch[..len]
        } else {
            payload
        };
        let messages = Messages::parse(&header, payload).map_err(|_| HearError::Malformed)?;
        self.admit(&header, messages, receive, fragments)?;
        self.heard_at = now;
        if proves || self.state == PeerState::ConnectionSucceeded {
            self.become_connected(now);
        }
        let mut room = InboxRoom { receive, fragments, message };
        let outcome = self.take(now, at, &header, messages, send, &mut room, deliver);
        match outcome {
            Ok(()) if self.inbox.is_broken() => {
                self.disconnect(now, pools, ErrorCode::InvalidPacket, &[]);
            }
            Ok(()) => {}
            Err(TooManyRetries) => self.lose_connection(now, pools),
        }
        Ok(())
    }

    /// The last checks of a packet, in which nothing may change but what is owed; then it counts as received.
    fn admit(
        &mut self,
        header: &Header,
        messages: Messages<'_>,
        receive: &Buffers,
        fragments: &FragmentBuffers,
    ) -> Result<(), HearError> {
        if header.ack_bits.is_some() && !self.flights.is_plausible(header.ack) {
            return Err(HearError::Malformed);
        }
        let elicits = messages.clone().any(|message| elicits_ack(&message));
        match self.receipts.judge(header.sequence) {
            Receipt::New => {}
            // Whoever sends it again may not have heard that it came.
            Receipt::Duplicate => {
                self.owed.ack |= elicits;
                return Err(HearError::Duplicate);
            }
            Receipt::TooOld => return Err(HearError::TooOld),
        }
        self.inbox.plan(messages, receive, fragments).map_err(|refusal| match refusal {
            Refusal::Malformed => HearError::Malformed,
            Refusal::NoRoom => HearError::NoRoom,
        })?;
        self.receipts.record(header.sequence, elicits);
        self.owed.ack |= elicits;
        Ok(())
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the pools come apart, since the messages lie in one of them"
    )]
    fn take(
        &mut self,
        now: Instant,
        at: Instant,
        header: &Header,
        messages: Messages<'_>,
        send: &mut Buffers,
        room: &mut InboxRoom<'_>,
        deliver: &mut impl FnMut(Delivery<'_>),
    ) -> Result<(), TooManyRetries> {
        if let Some(bits) = header.ack_bits {
            let Self { flights, outbox, .. } = self;
            flights.acknowledge(header.ack, bits, |carried| {
                if let Some(token) = outbox.confirm(carried, send) {
                    deliver(Delivery::Acked(token));
                }
            });
            self.stalled = false;
        }
        for message in messages {
            match message {
                Message::Ping(timestamp) => self.owed.pong = Some(timestamp),
                Message::Pong(timestamp) => {
                    if self.ping.sent_us == Some(timestamp) {
                        self.ping.sent_us = None;
                        let sent_at = Instant::ZERO + Duration::from_micros(timestamp);
                        self.rtt.sample(at.since(sent_at));
                    }
                }
                Message::PartAck(ack) => {
                    if let PartsFate::GivenUp(channel) = self.outbox.hear_part_ack(&ack, send)? {
                        self.tell(Event::FragmentError { channel, outgoing: true });
                    }
                    self.stalled = false;
                }
                Message::Whole { .. } | Message::Part { .. } => self.inbox.take(now, &message, room, deliver),
            }
        }
        Ok(())
    }

    fn hear_sealed_handshake(
        &mut self,
        now: Instant,
        pools: &mut Pools,
        header: &Header,
        head: &[u8],
        payload: &[u8],
        deliver: &mut impl FnMut(Delivery<'_>),
    ) -> Result<(), HearError> {
        // A CONNECT is always in plain text: whoever reads it does not know the key yet.
        if header.kind == PacketKind::Connect {
            let plain = !header.flags.encrypted;
            return if plain {
                self.hear_handshake(now, pools, header, payload, deliver)
            } else {
                Err(HearError::Seal)
            };
        }
        // And so is a refusal: there is no connection that would have a key.
        let refusal = self.state == PeerState::AcknowledgingConnect && header.kind == PacketKind::Disconnect;
        if refusal && !header.flags.encrypted {
            return self.hear_handshake(now, pools, header, payload, deliver);
        }
        let mut opened = [0; MTU_MAX];
        let payload = open(&mut self.seal, header, head, payload, &mut opened)?;
        self.hear_handshake(now, pools, header, payload, deliver)
    }

    fn check_allowance(&mut self, now: Instant, pools: &mut Pools, len: usize) -> Result<(), HearError> {
        match self.allowance.pass(now, len) {
            Ok(()) => Ok(()),
            Err(TooMany { sustained }) => {
                if sustained {
                    self.disconnect(now, pools, ErrorCode::RateLimitExceeded, &[]);
                }
                Err(HearError::RateLimited)
            }
        }
    }

    fn mtu_to_hear(&self) -> usize {
        if self.state.is_open() { usize::from(self.terms.mtu) } else { MTU_MAX }
    }
}

/// Whether a message wants its packet acknowledged.
fn elicits_ack(message: &Message<'_>) -> bool {
    matches!(message, Message::Whole { .. } | Message::Part { .. })
}

/// The payload in plain text.
fn open<'a, S: Seal>(
    seal: &mut Option<S>,
    header: &Header,
    head: &[u8],
    payload: &'a [u8],
    opened: &'a mut [u8; MTU_MAX],
) -> Result<&'a [u8], HearError> {
    match (seal, header.flags.encrypted) {
        (None, false) => Ok(payload),
        (Some(seal), true) => {
            let room = &mut opened[..payload.len()];
            room.copy_from_slice(payload);
            let range = seal.open(head, room).ok_or(HearError::Seal)?;
            Ok(&room[range])
        }
        _ => Err(HearError::Seal),
    }
}
