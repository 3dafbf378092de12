//! What goes out (sections 3, 4 and 8): one packet per call, as full as what waits makes it.

use super::{PING_INTERVAL_FIRST, Peer, Ping, Retry};
use crate::session::fignet::config::NetworkConfig;
use crate::session::fignet::flights::Cargo;
use crate::session::fignet::pools::Pools;
use crate::session::fignet::sealing::SEAL_BYTES;
use crate::session::fignet::{PeerState, Seal};
use crate::time::Instant;
use crate::wire::cursor::Writer;
use crate::wire::fignet::batch::{Batch, BatchWriter};
use crate::wire::fignet::fragment::FRAGMENT_ACK_BYTES;
use crate::wire::fignet::handshake::{Connect, Disconnect, FAREWELL_BYTES_MAX, TIMESTAMP_BYTES};
use crate::wire::fignet::header::{Flags, HEADER_BYTES};
use crate::wire::fignet::{Header, MTU_MAX, PacketKind, VERSION};

/// Largest body of a packet that opens or closes a connection.
const HANDSHAKE_BYTES_MAX: usize = 1 + FAREWELL_BYTES_MAX;

/// Packets of an encrypted connection that are kept for its end.
const SEALS_RESERVED: u64 = 1 << 10;

impl<S: Seal> Peer<S> {
    /// Writes the next packet that is to be sent now, and returns its length; `None` when there is none. To be called
    /// until then.
    pub fn transmit(&mut self, now: Instant, pools: &mut Pools, buffer: &mut [u8; MTU_MAX]) -> Option<usize> {
        // No number is used twice: what is left has to do for the goodbye.
        let is_spent = self.seal.as_ref().is_some_and(|seal| seal.remaining() < SEALS_RESERVED);
        if is_spent && self.state.is_open() {
            self.lose_connection(now, pools);
        }
        let len = match self.state {
            PeerState::Disconnected | PeerState::ConnectionFailed => None,
            PeerState::Connecting | PeerState::AcknowledgingConnect => self.emit_connect(now, buffer),
            PeerState::ConnectionPending => self.emit_connect_ack(buffer),
            PeerState::ConnectionSucceeded | PeerState::Connected | PeerState::DisconnectLater => {
                self.notice_losses(now, pools);
                match self.emit_connect_ack(buffer) {
                    None if self.state.is_open() => self.emit_traffic(now, pools, buffer),
                    None => self.emit_end(now, buffer),
                    len => len,
                }
            }
            PeerState::Disconnecting | PeerState::AcknowledgingDisconnect | PeerState::Zombie => {
                self.emit_end(now, buffer)
            }
        }?;
        self.stats.packets_sent += 1;
        self.stats.bytes_sent += len as u64;
        Some(len)
    }

    fn emit_connect(&mut self, now: Instant, buffer: &mut [u8; MTU_MAX]) -> Option<usize> {
        if now < self.retry.at {
            return None;
        }
        self.retry_later(now);
        self.state = PeerState::AcknowledgingConnect;
        let channels = self.config.max_channels;
        let body = Connect { version: VERSION, nonce: self.nonce, channels, mtu: self.config.offered_mtu() };
        Some(self.emit_handshake(PacketKind::Connect, buffer, |writer| body.emit(writer)))
    }

    fn emit_connect_ack(&mut self, buffer: &mut [u8; MTU_MAX]) -> Option<usize> {
        if !std::mem::take(&mut self.owed.connect_ack) {
            return None;
        }
        let terms = self.terms;
        Some(self.emit_handshake(PacketKind::ConnectAck, buffer, |writer| terms.emit(writer)))
    }

    /// DISCONNECT_ACK, or DISCONNECT.
    fn emit_end(&mut self, now: Instant, buffer: &mut [u8; MTU_MAX]) -> Option<usize> {
        if std::mem::take(&mut self.owed.disconnect_ack) {
            return Some(self.emit_handshake(PacketKind::DisconnectAck, buffer, |_| {}));
        }
        let last_word = self.state == PeerState::Zombie && std::mem::take(&mut self.owed.disconnect);
        if self.state != PeerState::Zombie {
            if now < self.retry.at || self.retry.count > self.config.max_retransmissions {
                return None;
            }
            self.retry_later(now);
            self.state = PeerState::AcknowledgingDisconnect;
        } else if !last_word {
            return None;
        }
        let farewell = self.farewell;
        let data = &farewell.data[..usize::from(farewell.len)];
        let body = Disconnect { reason: farewell.reason, data };
        Some(self.emit_handshake(PacketKind::Disconnect, buffer, |writer| body.emit(writer)))
    }

    /// Messages, fragments, their acknowledgements, PING and PONG: whatever may go now.
    fn emit_traffic(&mut self, now: Instant, pools: &mut Pools, buffer: &mut [u8; MTU_MAX]) -> Option<usize> {
        self.pace.adapt(now);
        let with_data = self.may_send_data() && now >= self.pace.ready_at(usize::from(self.terms.mtu));
        let with_ping = now >= self.next_ping();
        let answers = self.owed.ack || self.owed.pong.is_some() || self.inbox.part_ack().is_some();
        if !with_data && !with_ping && !answers {
            return None;
        }
        let payload_bytes = self.payload_bytes();
        let Pools { send, payload, .. } = pools;
        let mut batch = BatchWriter::new(&mut payload[..], payload_bytes);
        self.write_answers(now, with_ping, &mut batch);
        let answers_len = batch.count();
        let mut cargo = Cargo::NOTHING;
        let retries =
            if with_data { self.outbox.fill(&mut batch, &mut self.flights, &mut cargo, send) } else { 0 };
        let has_data = batch.count() > answers_len;
        if with_data && !has_data {
            self.stalled = true;
        }
        if batch.count() == 0 && !self.owed.ack {
            return None;
        }
        let batch = batch.finish();
        let len = self.finish_packet(&batch, pools, buffer);
        self.owed.ack = self.receipts.owes();
        self.pace.sent(now, len, has_data);
        if has_data {
            let timeout = self.rto(retries);
            self.flights.sent(now, timeout, cargo);
            self.stats.data_packets_sent += 1;
        } else {
            self.flights.sent_unwatched();
        }
        Some(len)
    }

    fn write_answers(&mut self, now: Instant, with_ping: bool, batch: &mut BatchWriter<'_>) {
        if let Some(timestamp) = self.owed.pong.take() {
            batch.push(PacketKind::Pong, 0, TIMESTAMP_BYTES, |body| {
                body.copy_from_slice(&timestamp.to_le_bytes())
            });
        }
        if with_ping {
            let timestamp = now.as_nanos() / 1000;
            batch.push(PacketKind::Ping, 0, TIMESTAMP_BYTES, |body| {
                body.copy_from_slice(&timestamp.to_le_bytes())
            });
            let first = self.rtt.smoothed().is_none();
            let interval = NetworkConfig::ms(self.config.ping_interval_ms);
            let interval = if first { PING_INTERVAL_FIRST.min(interval) } else { interval };
            self.ping = Ping { due: now + interval, sent_us: Some(timestamp) };
            if self.state == PeerState::ConnectionSucceeded {
                self.retry_later(now);
            }
        }
        while let Some(ack) = self.inbox.part_ack() {
            if !batch.fits(FRAGMENT_ACK_BYTES) {
                break;
            }
            batch.push(PacketKind::FragmentAck, 0, FRAGMENT_ACK_BYTES, |body| {
                ack.emit(&mut Writer::new(body))
            });
            self.inbox.part_ack_sent();
        }
    }

    /// Compresses, encrypts, and puts the header before it.
    fn finish_packet(&mut self, batch: &Batch, pools: &mut Pools, buffer: &mut [u8; MTU_MAX]) -> usize {
        let Pools { payload, compressor, .. } = pools;
        let plain = &payload[batch.start..batch.end];
        let (ack, ack_bits) = self.receipts.take_header();
        let mut header = Header {
            protocol_id: self.config.protocol_id,
            kind: batch.kind,
            flags: Flags { fragments: batch.fragments, batched: batch.batched, ..Flags::default() },
            sequence: self.flights.next_sequence(),
            ack,
            ack_bits,
            channel: batch.channel,
        };
        let body = &mut buffer[header.len()..];
        let compressed = if self.config.compression { compressor.compress(plain, body) } else { None };
        let len = compressed.unwrap_or_else(|| {
            body[..plain.len()].copy_from_slice(plain);
            plain.len()
        });
        header.flags.compressed = compressed.is_some();
        self.seal_packet(&mut header, len, buffer)
    }

    fn emit_handshake(
        &mut self,
        kind: PacketKind,
        buffer: &mut [u8; MTU_MAX],
        write: impl FnOnce(&mut Writer<'_>),
    ) -> usize {
        let (ack, ack_bits) = self.receipts.take_header();
        let mut header = Header {
            protocol_id: self.config.protocol_id,
            kind,
            flags: Flags::default(),
            sequence: self.flights.next_sequence(),
            ack,
            ack_bits,
            channel: 0,
        };
        let mut writer = Writer::new(&mut buffer[header.len()..][..HANDSHAKE_BYTES_MAX]);
        write(&mut writer);
        let len = writer.finish().expect("room for the largest body");
        self.flights.sent_unwatched();
        self.seal_packet(&mut header, len, buffer)
    }

    /// Writes the header before a payload of `len` bytes, encrypted if this connection is. Returns the packet's length.
    fn seal_packet(&mut self, header: &mut Header, len: usize, buffer: &mut [u8; MTU_MAX]) -> usize {
        let seal = self.seal.as_mut().filter(|_| header.kind != PacketKind::Connect);
        header.flags.encrypted = seal.is_some();
        let sealed_len = if seal.is_some() { len + SEAL_BYTES } else { len };
        let header_len = header.emit(sealed_len, buffer);
        if let Some(seal) = seal {
            let (head, payload) = buffer.split_at_mut(header_len);
            let written = seal.seal(head, payload, len);
            assert!(written == sealed_len, "a seal adds {SEAL_BYTES} bytes");
        }
        header_len + sealed_len
    }

    fn retry_later(&mut self, now: Instant) {
        self.retry =
            Retry { at: now + self.rto(self.retry.count), count: self.retry.count.saturating_add(1) };
    }
}

const _: () = assert!(HEADER_BYTES + HANDSHAKE_BYTES_MAX + SEAL_BYTES <= MTU_MAX);
