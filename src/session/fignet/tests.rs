//! Two peers over a link without faults: what each rule says, packet by packet.

use super::*;
use crate::time::{Duration, Instant};
use crate::wire::fignet::batch::{Message, Messages};
use crate::wire::fignet::block::BlockHeader;
use crate::wire::fignet::{Header, MTU_MAX, PROTOCOL_ID_DEFAULT, PacketKind};

/// A client and a server that hand each other packets.
struct Pair {
    now: Instant,
    client: Peer,
    server: Peer,
    pools: Pools,
    to_client: Vec<(u8, Vec<u8>)>,
    to_server: Vec<(u8, Vec<u8>)>,
    acked: Vec<u32>,
    events: Vec<(bool, Event)>,
}

impl Pair {
    fn new(config: &NetworkConfig) -> Self {
        Self {
            now: Instant::from_millis(1000),
            client: Peer::new(config),
            server: Peer::new(config),
            pools: Pools::new(config, 2),
            to_client: Vec::new(),
            to_server: Vec::new(),
            acked: Vec::new(),
            events: Vec::new(),
        }
    }

    fn connected(config: &NetworkConfig) -> Self {
        let mut pair = Self::new(config);
        pair.client.connect(pair.now, 0xBEEF_0001, None);
        pair.run(50);
        assert_eq!((pair.client.state(), pair.server.state()), (PeerState::Connected, PeerState::Connected));
        pair.events.clear();
        pair
    }

    fn out(&mut self, client: bool) -> Vec<Vec<u8>> {
        let peer = if client { &mut self.client } else { &mut self.server };
        let mut packets = Vec::new();
        let mut buffer = [0; MTU_MAX];
        while let Some(len) = peer.transmit(self.now, &mut self.pools, &mut buffer) {
            packets.push(buffer[..len].to_vec());
            assert!(packets.len() < 200, "it never stops sending");
        }
        packets
    }

    fn give(&mut self, client: bool, packet: &[u8]) -> Result<(), HearError> {
        let (header, payload) = Header::parse(packet, PROTOCOL_ID_DEFAULT).unwrap();
        if !client && self.server.state().is_over() && header.kind == PacketKind::Connect {
            let connect = crate::wire::fignet::Connect::parse(payload).unwrap();
            self.server.accept(self.now, &header, &connect, 5, 0xCAFE_0002, None);
            return Ok(());
        }
        let (peer, heard) = if client {
            (&mut self.client, &mut self.to_client)
        } else {
            (&mut self.server, &mut self.to_server)
        };
        let acked = &mut self.acked;
        peer.hear(self.now, self.now, &mut self.pools, packet, |delivery| match delivery {
            Delivery::Message { channel, bytes } => heard.push((channel, bytes.to_vec())),
            Delivery::Block(part) => heard.push((254, part.data.to_vec())),
            Delivery::Acked(token) => acked.push(token),
            Delivery::Farewell { reason, data } => heard.push((255, [&[reason], data].concat())),
        })
    }

    /// Both do all that is to be done now; after that neither may say that something is.
    fn turn(&mut self) {
        loop {
            for client in [true, false] {
                loop {
                    let peer = if client { &mut self.client } else { &mut self.server };
                    let Some(event) = peer.advance(self.now, &mut self.pools) else { break };
                    self.events.push((client, event));
                }
            }
            let (from_client, from_server) = (self.out(true), self.out(false));
            from_client.iter().for_each(|packet| _ = self.give(false, packet));
            from_server.iter().for_each(|packet| _ = self.give(true, packet));
            if from_client.is_empty() && from_server.is_empty() {
                break;
            }
        }
        for peer in [&self.client, &self.server] {
            let next = peer.next_deadline();
            assert!(next.is_none_or(|at| at > self.now), "{:?} would spin at {:?}", peer.state(), self.now);
        }
    }

    fn run(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now = self.now + Duration::from_millis(1);
            self.turn();
        }
    }
}

fn kinds(packet: &[u8]) -> (Header, Vec<PacketKind>) {
    let (header, payload) = Header::parse(packet, PROTOCOL_ID_DEFAULT).unwrap();
    if header.kind.is_handshake() {
        return (header, vec![header.kind]);
    }
    let mut original = [0; crate::lz4::PAYLOAD_BYTES_MAX];
    let payload = if header.flags.compressed {
        let len = crate::lz4::decompress(payload, &mut original).unwrap();
        &original[..len]
    } else {
        payload
    };
    let kinds = Messages::parse(&header, payload).unwrap().map(|message| match message {
        Message::Ping(_) => PacketKind::Ping,
        Message::Pong(_) => PacketKind::Pong,
        Message::Whole { kind, .. } => kind,
        Message::Part { .. } => PacketKind::Fragment,
        Message::PartAck(_) => PacketKind::FragmentAck,
    });
    (header, kinds.collect())
}

#[test]
fn the_handshake_packet_by_packet() {
    let mut pair = Pair::new(&DEFAULT_CONFIG);
    pair.client.connect(pair.now, 0x1234_5678, None);
    assert_eq!(pair.client.state(), PeerState::Connecting);
    let connect = pair.out(true);
    assert_eq!(pair.client.state(), PeerState::AcknowledgingConnect);
    assert_eq!((connect.len(), connect[0].len()), (1, 23));
    assert_eq!(kinds(&connect[0]).0.ack_bits, None, "nothing was received yet");
    pair.give(false, &connect[0]).unwrap();
    assert_eq!(pair.server.state(), PeerState::ConnectionPending);
    let ack = pair.out(false);
    assert_eq!((ack.len(), kinds(&ack[0]).1[0], ack[0].len()), (1, PacketKind::ConnectAck, 37));
    assert!(pair.out(false).is_empty(), "an unproven address gets one answer per question");
    pair.give(true, &ack[0]).unwrap();
    assert_eq!(pair.client.state(), PeerState::ConnectionSucceeded);
    let proof = pair.out(true);
    assert_eq!((proof.len(), kinds(&proof[0]).1.clone()), (1, vec![PacketKind::Ping]));
    pair.give(false, &proof[0]).unwrap();
    assert_eq!(pair.server.state(), PeerState::Connected);
    let pong = pair.out(false);
    assert_eq!((pong.len(), kinds(&pong[0]).1.clone()), (1, vec![PacketKind::Pong, PacketKind::Ping]));
    pair.give(true, &pong[0]).unwrap();
    assert_eq!(pair.client.state(), PeerState::Connected);
    assert_eq!(pair.client.rtt(), Some(Duration::ZERO));
    assert_eq!((pair.client.peer_id(), pair.client.channels(), pair.client.mtu()), (5, 4, 1200));
}

/// Section 3.2: the same nonce, the same answer; and an acknowledgement of something else proves nothing.
#[test]
fn a_repeated_connect_gets_the_same_answer() {
    let mut pair = Pair::new(&DEFAULT_CONFIG);
    pair.client.connect(pair.now, 7, None);
    let first = pair.out(true);
    pair.now = pair.now + Duration::from_millis(100);
    let second = pair.out(true);
    assert_eq!(first[0][14..], second[0][14..], "the same CONNECT under another number");
    pair.give(false, &first[0]).unwrap();
    let answer = pair.out(false);
    pair.now = pair.now + Duration::from_millis(10);
    pair.give(false, &second[0]).unwrap();
    let again = pair.out(false);
    assert_eq!(answer[0][18..], again[0][18..]);
    assert!(again.len() == 1 && again[0].len() <= 3 * second[0].len(), "at most three times the question");
    let mut forged = kinds(&answer[0]).0;
    forged = Header {
        kind: PacketKind::Ping,
        ack: forged.sequence.wrapping_add(2),
        ack_bits: Some(u32::MAX),
        ..forged
    };
    let mut packet = [0; 26];
    forged.emit(8, &mut packet);
    assert_eq!(pair.give(false, &packet), Err(HearError::Unexpected));
    assert_eq!(pair.server.state(), PeerState::ConnectionPending);
}

#[test]
fn messages_of_a_flush_share_packets() {
    let mut pair = Pair::connected(&DEFAULT_CONFIG);
    pair.run(1000);
    for number in 0..20u8 {
        pair.client.send(&mut pair.pools, number % 4, &[number; 20]).unwrap();
    }
    let packets = pair.out(true);
    assert_eq!(packets.len(), 1);
    let (header, kinds) = kinds(&packets[0]);
    assert!(header.flags.batched && kinds.len() == 20);
    pair.give(false, &packets[0]).unwrap();
    assert_eq!(pair.to_server.len(), 20);
    assert_eq!(pair.give(false, &packets[0]), Err(HearError::Duplicate));
    assert_eq!(pair.to_server.len(), 20);
    pair.run(10);
    assert_eq!(pair.pools.claimed(), Claimed::default());
}

#[test]
fn a_token_comes_back_with_its_packet() {
    let mut pair = Pair::connected(&DEFAULT_CONFIG);
    pair.server.send_noted(&mut pair.pools, 1, b"state", 77).unwrap();
    pair.run(3);
    assert_eq!((pair.to_client.clone(), pair.acked.clone()), (vec![(1, b"state".to_vec())], vec![77]));
    let other = pair.server.send_noted(&mut pair.pools, 1, b"state", 78);
    let lost = pair.out(false);
    assert_eq!((other, lost.len()), (Ok(()), 1));
    pair.run(1000);
    assert_eq!(pair.acked, [77], "a lost packet tells nothing");
}

/// Retransmissions first, HIGH before LOW; new messages 4 : 2 : 1, so that LOW never starves.
#[test]
fn bands_share_and_low_never_starves() {
    let config = NetworkConfig {
        max_channels: 255,
        packet_rate_per_sec: 0,
        bandwidth_limit_bytes_per_sec: 0,
        receive_packets_per_sec: 0,
        receive_bytes_per_sec: 0,
        send_buffers_per_peer: 1000,
        compression: false,
        ..DEFAULT_CONFIG
    };
    let mut pair = Pair::connected(&config);
    for channel in [0u8, 100, 200] {
        (0..60).for_each(|_| pair.client.send(&mut pair.pools, channel, &[channel; 1100]).unwrap());
    }
    let packets = pair.out(true);
    assert_eq!(packets.len(), 64, "the window");
    let mut counts = [0u32; 3];
    for packet in &packets[..56] {
        counts[usize::from(kinds(packet).0.channel) / 100] += 1;
    }
    assert!(
        counts[0].abs_diff(32) <= 2 && counts[1].abs_diff(16) <= 2 && counts[2].abs_diff(8) <= 2,
        "{counts:?}"
    );
    // All of them are lost: they come again, highest band first.
    pair.now = pair.now + Duration::from_secs(3);
    let again = pair.out(true);
    let order: Vec<u8> = again.iter().map(|packet| kinds(packet).0.channel).collect();
    assert!(order.is_sorted() && order.len() == 64, "{order:?}");
}

#[test]
fn a_graceful_end_waits_for_what_is_reliable() {
    let mut pair = Pair::connected(&DEFAULT_CONFIG);
    for number in 0..100u8 {
        pair.client.send(&mut pair.pools, 0, &[number; 500]).unwrap();
    }
    pair.client.disconnect_later(pair.now, &mut pair.pools, ErrorCode::Success, b"bye");
    assert_eq!(pair.client.state(), PeerState::DisconnectLater);
    assert_eq!(pair.client.send(&mut pair.pools, 0, b"more"), Err(SendError::NotConnected));
    pair.run(20_000);
    assert_eq!(pair.to_server.len(), 101);
    assert_eq!(pair.to_server[100], (255, b"\0bye".to_vec()));
    assert_eq!(
        (pair.client.state(), pair.server.state()),
        (PeerState::Disconnected, PeerState::Disconnected)
    );
    let ends: Vec<_> =
        pair.events.iter().filter(|(_, event)| matches!(event, Event::Disconnected { .. })).collect();
    assert_eq!(ends.len(), 2, "{:?}", pair.events);
    assert_eq!(pair.pools.claimed(), Claimed::default());
}

#[test]
fn an_immediate_end_goes_through_its_states() {
    let mut pair = Pair::connected(&DEFAULT_CONFIG);
    pair.client.send(&mut pair.pools, 0, b"never heard").unwrap();
    pair.client.disconnect(pair.now, &mut pair.pools, ErrorCode::Success, &[]);
    assert_eq!(pair.client.state(), PeerState::Disconnecting);
    assert_eq!(pair.pools.claimed(), Claimed::default());
    let packets = pair.out(true);
    assert_eq!((packets.len(), pair.client.state()), (1, PeerState::AcknowledgingDisconnect));
    pair.give(false, &packets[0]).unwrap();
    assert_eq!(pair.server.state(), PeerState::Zombie);
    let answer = pair.out(false);
    // The answer is lost: the question comes again and is answered again.
    pair.now = pair.now + Duration::from_millis(200);
    let again = pair.out(true);
    assert_eq!((again.len(), kinds(&answer[0]).1[0]), (1, PacketKind::DisconnectAck));
    pair.give(false, &again[0]).unwrap();
    let answer = pair.out(false);
    pair.give(true, &answer[0]).unwrap();
    assert_eq!(pair.client.state(), PeerState::Zombie);
    pair.run(2100);
    assert_eq!(
        (pair.client.state(), pair.server.state()),
        (PeerState::Disconnected, PeerState::Disconnected)
    );
}

#[test]
fn an_end_that_nobody_answers_ends_all_the_same() {
    let mut pair = Pair::connected(&DEFAULT_CONFIG);
    pair.client.disconnect(pair.now, &mut pair.pools, ErrorCode::Success, &[]);
    let mut copies = 0;
    for _ in 0..10_100 {
        pair.now = pair.now + Duration::from_millis(1);
        copies += pair.out(true).len();
        while pair.client.advance(pair.now, &mut pair.pools).is_some() {}
    }
    assert_eq!((copies, pair.client.state()), (9, PeerState::Disconnected));
}

#[test]
fn a_silent_peer_is_lost_after_ten_seconds() {
    let mut pair = Pair::connected(&DEFAULT_CONFIG);
    let heard = pair.now;
    let mut lost_at = None;
    for _ in 0..11_000 {
        pair.now = pair.now + Duration::from_millis(1);
        pair.out(true);
        while let Some(event) = pair.client.advance(pair.now, &mut pair.pools) {
            assert_eq!(event, Event::Disconnected { reason: ErrorCode::Timeout, by_peer: false });
            lost_at = Some(pair.now.since(heard).as_millis());
        }
    }
    let lost_at = lost_at.unwrap();
    assert!((9950..=10_000).contains(&lost_at), "{lost_at}");
}

#[test]
fn a_block_channel_takes_nothing_else() {
    let config = NetworkConfig { block_channel: Some(0), ..DEFAULT_CONFIG };
    let mut pair = Pair::connected(&config);
    assert_eq!(pair.client.send(&mut pair.pools, 0, b"x"), Err(SendError::NoSuchChannel));
    let header = BlockHeader { id: 1, size: 10_000, kind: 2, compression: 0 };
    pair.client.send_block(header).unwrap();
    assert_eq!(pair.client.send_block(header), Err(SendError::NoRoom), "one at a time");
    let source: Vec<u8> = (0..10_000u32).map(|at| (at % 251) as u8).collect();
    let mut progress = None;
    for _ in 0..3000 {
        progress = Some(
            pair.client
                .feed_block(&mut pair.pools, |offset, out| {
                    out.copy_from_slice(&source[offset as usize..][..out.len()]);
                })
                .unwrap(),
        );
        pair.run(1);
    }
    let progress = progress.unwrap();
    assert!(progress.is_done() && progress.queued == 10_000);
    let got: Vec<u8> = pair.to_server.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
    assert_eq!(got, source);
    pair.client.send_block(header).unwrap();
}

#[test]
fn sends_are_refused_with_a_reason() {
    let mut pair = Pair::new(&DEFAULT_CONFIG);
    assert_eq!(pair.client.send(&mut pair.pools, 0, b"x"), Err(SendError::NotConnected));
    let mut pair = Pair::connected(&DEFAULT_CONFIG);
    assert_eq!(pair.client.send(&mut pair.pools, 4, b"x"), Err(SendError::NoSuchChannel));
    assert_eq!(pair.client.send(&mut pair.pools, 0, &[0; 65_536]), Err(SendError::TooLarge));
    assert_eq!(pair.client.send(&mut pair.pools, 0, &[0; 65_535]), Ok(()));
    assert_eq!(pair.client.send(&mut pair.pools, 0, &[0; 65_535]), Err(SendError::NoRoom));
    assert_eq!(SendError::NoRoom.code(), ErrorCode::BufferOverflow);
    assert_eq!(SendError::NoSuchChannel.code(), ErrorCode::ChannelLimitReached);
    // An unreliable channel takes everything, and drops the oldest.
    for number in 0..300u16 {
        pair.client.send(&mut pair.pools, 1, &number.to_le_bytes()).unwrap();
    }
    assert!(pair.client.stats().overtaken > 150);
}
