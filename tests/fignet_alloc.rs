//! Two FigNet peers allocate nothing, once they and their pools are made.

use std::hint::black_box;
use std::net::SocketAddr;

use tickwire::heap::{self, Heap, OnAlloc};
use tickwire::rng::{Rng, TokenSource};
use tickwire::session::fignet::{
    Claimed, DEFAULT_CONFIG, Delivery, Host, NetworkConfig, NoSeal, Peer, PeerState, Pools,
};
use tickwire::time::{Duration, Instant};
use tickwire::wire::fignet::{ErrorCode, MTU_MAX};

#[global_allocator]
static HEAP: Heap = Heap;

/// A connection from its CONNECT to its end, with messages of all kinds and sizes, over a link that loses.
#[test]
fn nothing_is_allocated_over_a_connection() {
    let config = NetworkConfig {
        max_peers: 2,
        receive_packets_per_sec: 0,
        receive_bytes_per_sec: 0,
        packet_rate_per_sec: 0,
        bandwidth_limit_bytes_per_sec: 0,
        ..DEFAULT_CONFIG
    };
    let mut pools = Pools::new(&config, 1);
    let mut client = Peer::<NoSeal>::new(&config);
    let mut host = Host::<NoSeal>::new(&config, TokenSource::Seeded(Rng::new(1)));
    let address = SocketAddr::from(([127, 0, 0, 1], 9));
    let message: Vec<u8> = (0..30_000u32).map(|at| ((at * at) >> 7) as u8).collect();
    let mut rng = Rng::new(2);
    let (mut now, mut heard, mut was_connected) = (Instant::from_millis(1000), 0, false);
    let mut buffer = [0; MTU_MAX];
    heap::seal(OnAlloc::Count);
    client.connect(now, 5, None);
    for step in 0..4000 {
        now = now + Duration::from_millis(2);
        if step % 50 == 0 {
            (0..4).for_each(|channel| _ = client.send(&mut pools, channel, &message[..step]));
            let _ = client.send(&mut pools, 0, &message[..step * 7]);
        }
        if step == 3500 {
            client.disconnect_later(now, &mut pools, ErrorCode::Success, b"bye");
        }
        while client.advance(now, &mut pools).is_some() {}
        while let Some(len) = client.transmit(now, &mut pools, &mut buffer) {
            if !rng.chance(1, 10) {
                let deliver = |_, delivery: Delivery<'_>| {
                    heard += usize::from(matches!(delivery, Delivery::Message { .. }));
                };
                let _ = host.hear(now, now, address, &buffer[..len], |_| None, deliver);
            }
        }
        while host.advance(now).is_some() {}
        while let Some((_, len)) = host.transmit(now, &mut buffer) {
            if !rng.chance(1, 10) {
                let _ = client.hear(now, now, &mut pools, &buffer[..len], |_| {});
            }
        }
        was_connected |= client.state() == PeerState::Connected;
    }
    let count = heap::sealed_allocations();
    drop(black_box(Box::new(1)));
    let counted = heap::sealed_allocations() - count;
    heap::unseal();
    assert!(was_connected && heard > 150, "{heard}");
    assert_eq!((host.claimed(), pools.claimed()), (Claimed::default(), Claimed::default()));
    assert_eq!((count, counted), (0, 1), "and the counter counts");
}
