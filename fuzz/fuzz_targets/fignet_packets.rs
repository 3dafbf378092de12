//! Packets that may say anything, at a connected peer and at a host.
#![no_main]

use std::net::SocketAddr;

use libfuzzer_sys::fuzz_target;
use tickwire::rng::{Rng, TokenSource};
use tickwire::session::fignet::{Claimed, DEFAULT_CONFIG, Host, NetworkConfig, NoSeal, Peer, Pools};
use tickwire::time::{Duration, Instant};
use tickwire::wire::fignet::header::Flags;
use tickwire::wire::fignet::{Connect, Header, MTU_MAX, PROTOCOL_ID_DEFAULT, PacketKind, VERSION};

fuzz_target!(|data: &[u8]| {
    let config = NetworkConfig {
        max_peers: 2,
        block_channel: Some(0),
        receive_packets_per_sec: 0,
        receive_bytes_per_sec: 0,
        ..DEFAULT_CONFIG
    };
    let mut pools = Pools::new(&config, 1);
    let mut peer = Peer::<NoSeal>::new(&config);
    let mut host = Host::<NoSeal>::new(&config, TokenSource::Seeded(Rng::new(1)));
    let from = SocketAddr::from(([1, 2, 3, 4], 5));
    let mut now = Instant::from_millis(1000);
    let mut buffer = [0; MTU_MAX];
    let mut header = Header {
        protocol_id: PROTOCOL_ID_DEFAULT,
        kind: PacketKind::Connect,
        flags: Flags::default(),
        sequence: 0,
        ack: 0,
        ack_bits: None,
        channel: 0,
    };
    let connect = Connect { version: VERSION, nonce: 1, channels: 4, mtu: 1200 };
    peer.accept(now, &header, &connect, 0, 0, None);
    let _ = peer.transmit(now, &mut pools, &mut buffer);
    header.ack_bits = Some(u32::MAX);
    let mut rest = data;
    // The type, the flags, the channel, how long; and the payload.
    while let [kind, flags, channel, len, tail @ ..] = rest {
        let (payload, after) = tail.split_at(usize::from(*len).min(tail.len()));
        rest = after;
        header.kind = PacketKind::ALL[usize::from(*kind) % PacketKind::ALL.len()];
        header.flags = Flags {
            fragments: flags & 1 != 0 || header.kind == PacketKind::Fragment,
            compressed: flags & 2 != 0,
            encrypted: flags & 4 != 0,
            batched: flags & 8 != 0,
        };
        header.channel = *channel;
        header.sequence = header.sequence.wrapping_add(u16::from(flags >> 4));
        let mut packet = [0; MTU_MAX];
        let header_len = header.emit(payload.len(), &mut packet);
        packet[header_len..][..payload.len()].copy_from_slice(payload);
        let packet = &packet[..header_len + payload.len()];
        let _ = peer.hear(now, now, &mut pools, packet, |_| {});
        let _ = host.hear(now, now, from, packet, |_| None, |_, _| {});
        let _ = peer.hear(now, now, &mut pools, payload, |_| {});
        now = now + Duration::from_millis(u64::from(*len) * 4);
        while peer.advance(now, &mut pools).is_some() {}
        while peer.transmit(now, &mut pools, &mut buffer).is_some() {}
        while host.advance(now).is_some() {}
        while host.transmit(now, &mut buffer).is_some() {}
    }
    peer.reset(&mut pools);
    assert_eq!(pools.claimed(), Claimed::default());
});
