//! How connections begin, and how many there may be.

use tickwire::session::fignet::{DEFAULT_CONFIG, Event, NetworkConfig, PeerState};
use tickwire::time::Duration;
use tickwire::wire::fignet::ErrorCode;

use super::net::{Faults, Net, To, unlimited};

const LINK: Faults = Faults { loss_percent: 0, repeat_percent: 0, delay_ms: 25, jitter_ms: 0 };

#[test]
fn normal_connection() {
    let mut net = Net::connected(&DEFAULT_CONFIG, 1, LINK, 1);
    let id = net.id(0);
    assert_eq!(net.clients[0].peer.peer_id(), id.0);
    assert!(net.send_to_host(0, 0, b"hello"));
    net.host.send(id, 2, b"welcome").unwrap();
    net.run(200);
    assert_eq!(net.host_heard, [(id, 0, b"hello".to_vec())]);
    assert_eq!(net.clients[0].heard, [(2, b"welcome".to_vec())]);
    let rtt = net.clients[0].peer.rtt().unwrap().as_millis();
    assert!((50..=53).contains(&rtt), "{rtt} ms");
}

/// A fifth of all packets is lost: it takes longer.
#[test]
fn a_connection_over_a_bad_link() {
    for seed in 0..20 {
        let faults = Faults { loss_percent: 20, repeat_percent: 10, delay_ms: 20, jitter_ms: 20 };
        let mut net = Net::new(&unlimited(), 1, faults, seed);
        net.clients[0].peer.connect(net.now, 77, None);
        net.run(4900);
        assert_eq!(net.clients[0].peer.state(), PeerState::Connected, "seed {seed}");
        assert_eq!(net.host.pending(), 0);
    }
}

#[test]
fn connection_timeout() {
    let mut net = Net::new(&DEFAULT_CONFIG, 1, LINK, 2);
    net.filter = Some(Box::new(|to, _| to != To::Host));
    net.clients[0].peer.connect(net.now, 9, None);
    let start = net.now;
    while net.clients[0].events.is_empty() && net.now.since(start) < Duration::from_secs(20) {
        net.run(1);
    }
    assert_eq!(net.clients[0].events, [Event::Failed(ErrorCode::Timeout)]);
    assert_eq!(net.clients[0].peer.state(), PeerState::ConnectionFailed);
    assert_eq!(net.now.since(start), Duration::from_secs(5));
    // And a half-open one is forgotten.
    let mut net = Net::new(&DEFAULT_CONFIG, 1, LINK, 3);
    net.filter = Some(Box::new(|to, _| to == To::Host));
    net.clients[0].peer.connect(net.now, 9, None);
    net.run(100);
    assert_eq!((net.host.pending(), net.host.peers()), (1, 1));
    net.run(5000);
    assert_eq!((net.host.pending(), net.host.peers()), (0, 0));
    assert_eq!(net.host_events.len(), 1);
    assert_eq!(net.host_events[0].1, Event::Failed(ErrorCode::Timeout));
}

#[test]
fn protocol_mismatch() {
    // Another protocol id: silence.
    let other = NetworkConfig { protocol_id: 0xAAAA_5555, ..DEFAULT_CONFIG };
    let mut net = Net::with_configs(&other, &DEFAULT_CONFIG, 1, LINK, 4);
    net.clients[0].peer.connect(net.now, 9, None);
    net.run(5100);
    assert_eq!(net.clients[0].events, [Event::Failed(ErrorCode::Timeout)]);
    assert_eq!((net.host.peers(), net.host.refused()), (0, 0));
    // Another version: a refusal that says so.
    let mut net = Net::new(&DEFAULT_CONFIG, 1, LINK, 5);
    net.patch_connect = Some((0, 2));
    net.clients[0].peer.connect(net.now, 9, None);
    net.run(100);
    assert_eq!(net.clients[0].events, [Event::Failed(ErrorCode::ProtocolMismatch)]);
    // No channels: the same.
    let mut net = Net::new(&DEFAULT_CONFIG, 1, LINK, 6);
    net.patch_connect = Some((6, 0));
    net.clients[0].peer.connect(net.now, 9, None);
    net.run(100);
    assert_eq!(net.clients[0].events, [Event::Failed(ErrorCode::ChannelLimitReached)]);
}

#[test]
fn peer_limit_reached() {
    let config = NetworkConfig { max_peers: 3, ..DEFAULT_CONFIG };
    let mut net = Net::new(&config, 4, LINK, 7);
    for number in 0..4 {
        net.clients[number].peer.connect(net.now, number as u32 + 1, None);
        net.run(200);
    }
    assert_eq!(net.clients[3].events, [Event::Failed(ErrorCode::PeerLimitReached)]);
    assert_eq!(net.host.peers(), 3);
    // One leaves, and its slot is at once another's.
    let now = net.now;
    let client = &mut net.clients[0];
    client.peer.disconnect(now, &mut client.pools, ErrorCode::Success, &[]);
    net.run(100);
    net.clients[3].peer.connect(net.now, 99, None);
    net.run(300);
    assert_eq!(net.clients[3].peer.state(), PeerState::Connected);
}

#[test]
fn three_attempts_a_minute_and_address() {
    let mut net = Net::new(&DEFAULT_CONFIG, 1, LINK, 8);
    let mut outcomes = Vec::new();
    for attempt in 0..5 {
        net.clients[0].events.clear();
        net.clients[0].peer.connect(net.now, 100 + attempt, None);
        net.run(300);
        let now = net.now;
        outcomes.push(net.clients[0].peer.state() == PeerState::Connected);
        let client = &mut net.clients[0];
        client.peer.disconnect(now, &mut client.pools, ErrorCode::Success, &[]);
        net.run(3000);
    }
    assert_eq!(outcomes, [true, true, true, false, false]);
    assert_eq!(net.clients[0].events[0], Event::Failed(ErrorCode::RateLimitExceeded));
}

/// Ninth and later half-open connections get no answer until there is room.
#[test]
fn eight_may_be_half_open() {
    let mut net = Net::new(&unlimited(), 12, LINK, 9);
    net.filter = Some(Box::new(|to, _| to == To::Host));
    for number in 0..12 {
        net.clients[number].peer.connect(net.now, number as u32 + 1, None);
    }
    net.run(200);
    assert_eq!((net.host.pending(), net.host.peers()), (8, 8));
    net.filter = None;
    net.run(4000);
    assert_eq!((net.host.pending(), net.host.peers()), (0, 12));
}

/// Whoever left may come back at once, from the same endpoint.
#[test]
fn a_peer_that_left_may_come_back() {
    let mut net = Net::connected(&DEFAULT_CONFIG, 1, LINK, 10);
    let now = net.now;
    let client = &mut net.clients[0];
    client.peer.disconnect(now, &mut client.pools, ErrorCode::Success, &[]);
    net.run(60);
    assert_eq!((net.clients[0].peer.state(), net.host.peers()), (PeerState::Disconnected, 1));
    net.clients[0].peer.connect(net.now, 4321, None);
    net.run(110);
    assert_eq!((net.clients[0].peer.state(), net.host.peers()), (PeerState::Connected, 1));
}

#[test]
fn a_server_may_require_encryption() {
    let config = NetworkConfig { require_encryption: true, ..DEFAULT_CONFIG };
    let mut net = Net::with_configs(&config, &DEFAULT_CONFIG, 1, LINK, 11);
    net.clients[0].peer.connect(net.now, 9, None);
    net.run(100);
    assert_eq!(net.clients[0].events, [Event::Failed(ErrorCode::ConnectionFailed)]);
    assert_eq!((net.host.peers(), net.host.refused()), (0, 1));
}
