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

/// A client whose server never shows that it knows repeats its PING, less and less often, and never spins.
#[test]
fn a_client_that_hears_no_more_repeats_its_ping() {
    let mut pair = Pair::new(&DEFAULT_CONFIG);
    pair.client.connect(pair.now, 7, None);
    let connect = pair.out(true);
    pair.give(false, &connect[0]).unwrap();
    let ack = pair.out(false);
    pair.give(true, &ack[0]).unwrap();
    let (start, mut sent_at) = (pair.now, Vec::new());
    while pair.client.state() == PeerState::ConnectionSucceeded {
        pair.out(true).iter().for_each(|_| sent_at.push(pair.now.since(start).as_millis()));
        let next = pair.client.next_deadline().unwrap();
        assert!(next > pair.now, "it would spin at {:?}", pair.now);
        pair.now = next;
        while pair.client.advance(pair.now, &mut pair.pools).is_some() {}
    }
    assert_eq!(sent_at, [0, 100, 250, 475, 812, 1318, 2078, 3217, 4925]);
    assert_eq!(pair.client.state(), PeerState::ConnectionFailed);
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

/// More packets than one bitfield has bits, heard before anything is said: none is taken for lost.
#[test]
fn a_whole_window_heard_at_once_is_acknowledged_whole() {
    let config = NetworkConfig {
        packet_rate_per_sec: 0,
        bandwidth_limit_bytes_per_sec: 0,
        receive_packets_per_sec: 0,
        receive_bytes_per_sec: 0,
        ..DEFAULT_CONFIG
    };
    let mut pair = Pair::connected(&config);
    pair.run(1000);
    for round in 1..20 {
        (0..64).for_each(|_| pair.client.send(&mut pair.pools, 2, &[round; 1100]).unwrap());
        let packets = pair.out(true);
        packets.iter().for_each(|packet| pair.give(false, packet).unwrap());
        let acks = pair.out(false);
        acks.iter().for_each(|ack| pair.give(true, ack).unwrap());
        assert_eq!((packets.len(), acks.len()), (64, 2), "two bitfields for 64");
        assert_eq!(pair.client.window().0, 0, "nothing is in flight any more");
    }
    assert_eq!(pair.client.stats().packets_lost, 0);
    assert_eq!(pair.to_server.len(), 19 * 64);
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

/// A packet for which there is no room is as if it had never come: nothing of it is delivered, held or acknowledged,
/// and its copy is judged anew.
#[test]
fn a_packet_without_room_is_not_taken_halfway() {
    let config = NetworkConfig { receive_buffers_per_peer: 3, compression: false, ..DEFAULT_CONFIG };
    let mut pair = Pair::connected(&config);
    pair.run(3000);
    pair.client.send(&mut pair.pools, 0, &[0; 1000]).unwrap();
    let first = pair.out(true);
    pair.run(150);
    pair.to_server.clear();
    let base = kinds(&first[0]).0;
    // By hand: an unreliable message, and two ordered ones far ahead that take two buffers each.
    let mut packet = vec![0; 18 + 1 + (4 + 3) + 2 * (4 + 502)];
    let header = Header {
        kind: PacketKind::Unreliable,
        flags: crate::wire::fignet::header::Flags { batched: true, ..Default::default() },
        sequence: base.sequence.wrapping_add(20),
        channel: 1,
        ..base
    };
    let payload_len = packet.len() - 18;
    header.emit(payload_len, &mut packet);
    packet[18..26].copy_from_slice(&[3, 0x11, 1, 3, 0, 9, 9, 7]);
    for (place, sequence) in [(26, 30), (26 + 506, 31)] {
        packet[place..place + 6].copy_from_slice(&[0x12, 0, 0xF6, 1, sequence, 0]);
    }
    let claimed = pair.pools.claimed();
    assert_eq!(pair.give(false, &packet), Ok(()), "three buffers hold two messages of 500 bytes");
    assert_eq!(pair.pools.claimed().receive, claimed.receive + 2);
    assert_eq!(pair.to_server.len(), 1);
    let mut again = packet.clone();
    Header { sequence: header.sequence.wrapping_add(1), ..header }.emit(payload_len, &mut again);
    [30, 31].iter().zip([30, 536]).for_each(|(ahead, place)| again[place] = ahead + 10);
    for _ in 0..2 {
        assert_eq!(pair.give(false, &again), Err(HearError::NoRoom));
        assert_eq!(pair.pools.claimed().receive, claimed.receive + 2);
        assert_eq!(pair.to_server.len(), 1, "not even the message that could be delivered");
    }
    let ack = pair.out(false);
    assert_eq!(kinds(&ack[0]).0.ack, header.sequence, "and not acknowledged");
    assert_eq!(pair.server.stats().refused, 2);
}

/// A message type that is not the channel's, a channel that is not there: malformed, and nothing happens.
#[test]
fn a_message_must_be_of_its_channels_type() {
    let mut pair = Pair::connected(&DEFAULT_CONFIG);
    pair.client.send(&mut pair.pools, 0, b"abc").unwrap();
    let good = pair.out(true);
    for (kind, channel) in [(0x10, 0), (0x11, 0), (0x13, 0), (0x12, 1), (0x12, 4), (0x12, 255)] {
        let mut packet = good[0].clone();
        (packet[4], packet[16 - 2]) = (kind, channel);
        assert_eq!(pair.give(false, &packet), Err(HearError::Malformed), "{kind:#x} on {channel}");
    }
    assert_eq!(pair.give(false, &good[0]), Ok(()));
    assert_eq!(pair.server.stats().malformed, 6);
}

/// What claims to acknowledge what was never sent is dropped whole.
#[test]
fn unreasonable_numbers_are_malformed() {
    let mut pair = Pair::connected(&DEFAULT_CONFIG);
    pair.client.send(&mut pair.pools, 0, b"abc").unwrap();
    let good = pair.out(true);
    let mut packet = good[0].clone();
    let ack = u16::from_le_bytes([packet[8], packet[9]]).wrapping_add(9);
    packet[8..10].copy_from_slice(&ack.to_le_bytes());
    assert_eq!(pair.give(false, &packet), Err(HearError::Malformed));
    assert_eq!(pair.give(false, &good[0]), Ok(()));
}

/// Fragments that disagree with the first of their message.
#[test]
fn fragments_must_agree() {
    let config = NetworkConfig { compression: false, ..DEFAULT_CONFIG };
    let mut pair = Pair::connected(&config);
    pair.client.send(&mut pair.pools, 0, &[5; 4 * 1174]).unwrap();
    pair.run(1);
    assert!(pair.pools.claimed().fragments == 5);
    let mut packets = Vec::new();
    while packets.is_empty() {
        pair.now = pair.now + Duration::from_millis(1);
        packets = pair.out(true);
    }
    let good = packets[0].clone();
    assert_eq!((good[4], good.len()), (0x20, 1200));
    let mut wrong_total = good.clone();
    wrong_total[22] = 6;
    let mut wrong_channel = good.clone();
    wrong_channel[14] = 2;
    let mut short = good[..1199].to_vec();
    short[16..18].copy_from_slice(&1181u16.to_le_bytes());
    short[24..26].copy_from_slice(&1173u16.to_le_bytes());
    for packet in [&wrong_total, &wrong_channel, &short] {
        assert_eq!(pair.give(false, packet), Err(HearError::Malformed));
    }
    assert_eq!(pair.give(false, &good), Ok(()));
    pair.run(3000);
    assert_eq!(pair.to_server, [(0, vec![5; 4 * 1174])]);
}

/// A third message in fragments waits, unacknowledged, until one of two is whole.
#[test]
fn a_peer_has_two_messages_in_fragments_under_way() {
    let config = NetworkConfig { compression: false, packet_rate_per_sec: 0, ..DEFAULT_CONFIG };
    let mut pair = Pair::connected(&config);
    pair.client.send(&mut pair.pools, 2, &[1; 3000]).unwrap();
    let packets = pair.out(true);
    let fragment = |id: u16, sequence: u16| {
        let mut packet = packets[0].clone();
        packet[6..8].copy_from_slice(&sequence.to_le_bytes());
        packet[18..20].copy_from_slice(&id.to_le_bytes());
        packet
    };
    let base = kinds(&packets[0]).0.sequence;
    pair.give(false, &fragment(50, base)).unwrap();
    pair.give(false, &fragment(51, base.wrapping_add(1))).unwrap();
    let third = fragment(52, base.wrapping_add(2));
    assert_eq!(pair.give(false, &third), Err(HearError::NoRoom));
    assert_eq!(pair.pools.claimed().fragments, 6);
    pair.now = pair.now + Duration::from_secs(5);
    while pair.server.advance(pair.now, &mut pair.pools).is_some() {}
    assert_eq!(pair.pools.claimed().fragments, 0);
    assert_eq!(pair.give(false, &third), Ok(()));
    assert_eq!(
        pair.give(false, &fragment(51, base.wrapping_add(3))),
        Err(HearError::NoRoom),
        "it was given up"
    );
}

/// Adds to every byte, and puts a counter before and a sum behind: no secret, but the right lengths and refusals.
struct ToySeal {
    key: u8,
    sent: u8,
}

impl Seal for ToySeal {
    fn seal(&mut self, header: &[u8], payload: &mut [u8], len: usize) -> usize {
        self.sent = self.sent.wrapping_add(1);
        payload.copy_within(..len, 12);
        payload[..12].fill(self.sent);
        payload[12..12 + len].iter_mut().for_each(|byte| *byte = byte.wrapping_add(self.key));
        let sum =
            header.iter().chain(&payload[..12 + len]).fold(self.key, |sum, byte| sum.wrapping_add(*byte));
        payload[12 + len..][..16].fill(sum);
        len + SEAL_BYTES
    }

    fn open(&mut self, header: &[u8], payload: &mut [u8]) -> Option<std::ops::Range<usize>> {
        let end = payload.len().checked_sub(16).filter(|&end| end >= 12)?;
        let sum = header.iter().chain(&payload[..end]).fold(self.key, |sum, byte| sum.wrapping_add(*byte));
        if payload[end..].iter().any(|&byte| byte != sum) {
            return None;
        }
        payload[12..end].iter_mut().for_each(|byte| *byte = byte.wrapping_sub(self.key));
        Some(12..end)
    }

    fn remaining(&self) -> u64 {
        u64::MAX
    }
}

/// Section 10: everything after CONNECT is sealed, packets stay within the MTU, and what is not sealed is dropped.
#[test]
fn a_sealed_connection() {
    let config = NetworkConfig { compression: false, packet_rate_per_sec: 0, ..DEFAULT_CONFIG };
    let mut pools = Pools::new(&config, 2);
    let (mut client, mut server) = (Peer::<ToySeal>::new(&config), Peer::<ToySeal>::new(&config));
    let mut now = Instant::from_millis(1000);
    client.connect(now, 4, Some(ToySeal { key: 9, sent: 0 }));
    let (mut heard, mut full, mut plain) = (Vec::new(), 0, 0);
    for step in 0..200 {
        now = now + Duration::from_millis(10);
        if step == 20 {
            client.send(&mut pools, 0, &[3; 20_000]).unwrap();
            client.send(&mut pools, 0, &vec![4; client.whole_message_bytes()]).unwrap();
        }
        if step == 150 {
            server.disconnect(now, &mut pools, ErrorCode::Success, b"end");
        }
        let mut buffer = [0; MTU_MAX];
        while let Some(len) = client.transmit(now, &mut pools, &mut buffer) {
            let (header, payload) = Header::parse(&buffer[..len], PROTOCOL_ID_DEFAULT).unwrap();
            full += u32::from(len == MTU_MAX);
            if header.kind == PacketKind::Connect {
                assert!(!header.flags.encrypted);
                let connect = crate::wire::fignet::Connect::parse(payload).unwrap();
                server.accept(now, &header, &connect, 0, 5, Some(ToySeal { key: 9, sent: 0 }));
                continue;
            }
            assert!(header.flags.encrypted);
            // The same without a seal, and with a bit of the header changed.
            let mut stripped = buffer;
            stripped[5] &= !8;
            plain += u32::from(
                server.hear(now, now, &mut pools, &stripped[..len], |_| {}) == Err(HearError::Seal),
            );
            let mut changed = buffer;
            changed[15] = 1;
            assert_eq!(server.hear(now, now, &mut pools, &changed[..len], |_| {}), Err(HearError::Seal));
            let _ = server.hear(now, now, &mut pools, &buffer[..len], |delivery| {
                if let Delivery::Message { bytes, .. } = delivery {
                    heard.push((bytes[0], bytes.len()));
                }
            });
        }
        while let Some(len) = server.transmit(now, &mut pools, &mut buffer) {
            assert!(buffer[5] & 8 != 0);
            let _ = client.hear(now, now, &mut pools, &buffer[..len], |_| {});
        }
        while client.advance(now, &mut pools).is_some() || server.advance(now, &mut pools).is_some() {}
    }
    assert_eq!(heard, [(3, 20_000), (4, 1152)]);
    assert!(full >= 18 && plain > 20, "{full} full ones, {plain} refused");
    assert!(client.state() == PeerState::Zombie || client.state() == PeerState::Disconnected);
    assert_eq!(pools.claimed(), Claimed::default());
}

/// Real packets with bytes changed, cut and put together anew: no panic, and everything is given back.
#[test]
fn damaged_packets_harm_nobody() {
    let mut rng = crate::rng::Rng::new(77);
    let config = NetworkConfig {
        packet_rate_per_sec: 0,
        receive_packets_per_sec: 0,
        receive_bytes_per_sec: 0,
        ..DEFAULT_CONFIG
    };
    let mut pair = Pair::connected(&config);
    let mut taken = 0;
    for round in 0..3000u32 {
        pair.now = pair.now + Duration::from_millis(3);
        let channel = (round % 4) as u8;
        let len = 1 + rng.below(if round % 10 == 0 { 5000 } else { 300 }) as usize;
        let _ = pair.client.send(&mut pair.pools, channel, &vec![round as u8; len]);
        for packet in pair.out(true) {
            for _ in 0..4 {
                let mut damaged = packet.clone();
                for _ in 0..=rng.below(3) {
                    // The fields are at the front; the protocol id is left alone.
                    let end = if rng.chance(1, 2) { damaged.len().min(40) } else { damaged.len() };
                    let at = 4 + rng.below(end as u32 - 4) as usize;
                    damaged[at] = rng.next_u32() as u8;
                }
                if rng.chance(1, 4) {
                    let header_len = if damaged[5] & 1 == 1 { 18 } else { 14 };
                    let cut = header_len + rng.below((damaged.len() - header_len) as u32 + 1) as usize;
                    damaged.truncate(cut);
                    let payload_len = ((cut - header_len) as u16).to_le_bytes();
                    damaged[header_len - 2..header_len].copy_from_slice(&payload_len);
                }
                let (server, pools) = (&mut pair.server, &mut pair.pools);
                taken += u32::from(server.hear(pair.now, pair.now, pools, &damaged, |_| {}).is_ok());
            }
            let _ = pair.give(false, &packet);
        }
        while pair.server.advance(pair.now, &mut pair.pools).is_some() {}
        for packet in pair.out(false) {
            let _ = pair.give(true, &packet);
        }
        while pair.client.advance(pair.now, &mut pair.pools).is_some() {}
        if pair.server.state() != PeerState::Connected || pair.client.state() != PeerState::Connected {
            pair.client.reset(&mut pair.pools);
            pair.server.reset(&mut pair.pools);
            assert_eq!(pair.pools.claimed(), Claimed::default());
            pair = Pair::connected(&config);
        }
    }
    assert!(taken > 30, "{taken} damaged ones passed for real");
    pair.client.reset(&mut pair.pools);
    pair.server.reset(&mut pair.pools);
    assert_eq!(pair.pools.claimed(), Claimed::default());
}
