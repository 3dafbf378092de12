//! Sequences of operations at two peers, whose packets may be lost, repeated, swapped and damaged on the way: what is
//! reliable arrives once and in order, and everything claimed is given back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tickwire::session::fignet::{
    Claimed, DEFAULT_CONFIG, Delivery, NetworkConfig, NoSeal, Peer, PeerState, Pools,
};
use tickwire::time::{Duration, Instant};
use tickwire::wire::fignet::{Connect, ErrorCode, Header, MTU_MAX, PROTOCOL_ID_DEFAULT, PacketKind};

fuzz_target!(|data: &[u8]| {
    let config = NetworkConfig {
        packet_rate_per_sec: 0,
        receive_packets_per_sec: 0,
        receive_bytes_per_sec: 0,
        ..DEFAULT_CONFIG
    };
    let mut pools = Pools::new(&config, 2);
    let mut peers = [Peer::<NoSeal>::new(&config), Peer::<NoSeal>::new(&config)];
    let mut now = Instant::from_millis(1000);
    peers[0].connect(now, 3, None);
    let mut under_way: [Vec<Vec<u8>>; 2] = [Vec::new(), Vec::new()];
    let (mut sent, mut had) = ([0u32; 2], [0u32; 2]);
    for step in data.chunks_exact(2) {
        let (side, value) = (usize::from(step[0] & 1), step[1]);
        match step[0] >> 1 & 7 {
            0 | 1 => now = now + Duration::from_millis(u64::from(value)),
            2 => {
                let len = 4 + usize::from(value) * if step[0] & 0x80 == 0 { 1 } else { 100 };
                let mut message = vec![value; len];
                message[..4].copy_from_slice(&sent[side].to_le_bytes());
                sent[side] += u32::from(peers[side].send(&mut pools, 0, &message).is_ok());
            }
            3 => _ = peers[side].send(&mut pools, value % 4 | 1, &[value; 30]),
            4 => _ = under_way[side].pop(),
            5 if !under_way[side].is_empty() => {
                let at = usize::from(value) % under_way[side].len();
                let copy = under_way[side][at].clone();
                under_way[side].insert(0, copy);
            }
            6 if value > 250 => peers[side].disconnect_later(now, &mut pools, ErrorCode::Success, &[]),
            6 if value < 40 && !under_way[side].is_empty() => {
                let at = usize::from(value) % under_way[side].len();
                let packet = &mut under_way[side][at];
                // Past the header: a length that is wrong, or a count.
                let place = 14 + usize::from(value) % packet.len().saturating_sub(14).max(1);
                if place < packet.len() && place < 24 {
                    packet.truncate(place);
                }
            }
            _ => {
                let packets = std::mem::take(&mut under_way[side]);
                for packet in packets {
                    deliver(&mut peers[side], now, &mut pools, &packet, &mut had[side]);
                }
            }
        }
        for (side, peer) in peers.iter_mut().enumerate() {
            let mut buffer = [0; MTU_MAX];
            // The last word of a connection leaves one more thing to do: twice is always enough.
            for _ in 0..2 {
                while peer.advance(now, &mut pools).is_some() {}
                while let Some(len) = peer.transmit(now, &mut pools, &mut buffer) {
                    under_way[1 - side].push(buffer[..len].to_vec());
                }
            }
            assert!(peer.next_deadline().is_none_or(|at| at > now), "{:?} would spin", peer.state());
        }
    }
    assert!(had[1] <= sent[0] && had[0] <= sent[1]);
    peers.iter_mut().for_each(|peer| peer.reset(&mut pools));
    assert_eq!(pools.claimed(), Claimed::default());
});

fn deliver(peer: &mut Peer, now: Instant, pools: &mut Pools, packet: &[u8], had: &mut u32) {
    if peer.state() == PeerState::Disconnected {
        if let Ok((header, payload)) = Header::parse(packet, PROTOCOL_ID_DEFAULT)
            && header.kind == PacketKind::Connect
            && let Some(connect) = Connect::parse(payload)
            && *had == 0
            && connect.channels > 0
        {
            peer.accept(now, &header, &connect, 1, 9, None);
        }
        return;
    }
    let _ = peer.hear(now, now, pools, packet, |delivery| {
        if let Delivery::Message { channel: 0, bytes } = delivery {
            let number = u32::from_le_bytes(*bytes.first_chunk().expect("four bytes"));
            assert_eq!(number, *had, "once, and in order");
            *had += 1;
        }
    });
}
