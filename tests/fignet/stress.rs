//! Congestion control, and much of everything.

use tickwire::session::fignet::{Claimed, DEFAULT_CONFIG, Event, NetworkConfig, PeerState};
use tickwire::wire::fignet::ErrorCode;

use super::net::{Faults, Net, To, unlimited};

const LINK: Faults = Faults { loss_percent: 0, repeat_percent: 0, delay_ms: 25, jitter_ms: 0 };

#[test]
fn bandwidth_limiting() {
    let config = NetworkConfig {
        packet_rate_per_sec: 0,
        bandwidth_limit_bytes_per_sec: 50_000,
        compression: false,
        ..unlimited()
    };
    let mut net = Net::connected(&config, 1, LINK, 30);
    net.run(1000);
    let before = net.bytes_to_host;
    for _ in 0..10_000 {
        while net.clients[0].peer.waiting(2) < 100 && net.send_to_host(0, 2, &[7; 1150]) {}
        net.run(1);
    }
    let rate = (net.bytes_to_host - before) / 10;
    assert!((48_000..=51_000).contains(&rate), "{rate} bytes per second");
}

/// From 10 packets a second up to the limit without loss, and down to the least with much of it.
#[test]
fn rate_adaptation() {
    let mut net = Net::connected(&DEFAULT_CONFIG, 1, LINK, 31);
    let load = |net: &mut Net, seconds: u64| {
        for _ in 0..seconds * 100 {
            while net.clients[0].peer.waiting(1) < 20 && net.send_to_host(0, 1, &[7; 1000]) {}
            net.run(10);
        }
        net.clients[0].peer.packet_rate_milli().unwrap()
    };
    let early = load(&mut net, 1);
    assert!((10_000..13_000).contains(&early), "{early}");
    assert_eq!(load(&mut net, 20), 30_000);
    net.faults.loss_percent = 20;
    let late = load(&mut net, 40);
    assert!(late < 14_000, "{late}");
    net.faults.loss_percent = 0;
    assert_eq!(load(&mut net, 20), 30_000);
    assert_eq!(net.clients[0].peer.state(), PeerState::Connected);
}

/// No more in flight than bandwidth × round trip allows, and never more than 64 packets.
#[test]
fn flow_control() {
    let config = NetworkConfig { bandwidth_limit_bytes_per_sec: 240_000, ..unlimited() };
    let mut net = Net::connected(&config, 1, LINK, 32);
    for _ in 0..2000 {
        while net.clients[0].peer.waiting(2) < 100 && net.send_to_host(0, 2, &[7; 600]) {}
        net.run(1);
        let (in_flight, window) = net.clients[0].peer.window();
        assert!(in_flight <= window && (10..=11).contains(&window), "{in_flight} of {window}");
    }
    let mut net = Net::connected(&unlimited(), 1, LINK, 33);
    net.filter = Some(Box::new(|to, _| to == To::Host));
    for _ in 0..200 {
        let _ = net.send_to_host(0, 2, &[7; 1000]);
    }
    net.run(20);
    assert_eq!(net.clients[0].peer.window(), (64, 64));
}

/// A peer that keeps sending too much is told to go.
#[test]
fn a_receiver_defends_itself() {
    let rude = NetworkConfig { receive_packets_per_sec: 60, ..unlimited() };
    let mut net = Net::with_configs(&DEFAULT_CONFIG, &rude, 1, LINK, 34);
    net.connect_all();
    for _ in 0..800 {
        (0..3).for_each(|_| _ = net.send_to_host(0, 1, &[7; 1000]));
        net.run(10);
    }
    let id = net.host_events[0].0;
    let expected = Event::Disconnected { reason: ErrorCode::RateLimitExceeded, by_peer: false };
    assert_eq!(net.host_events, [(id, expected)]);
    let told = Event::Disconnected { reason: ErrorCode::RateLimitExceeded, by_peer: true };
    assert_eq!(net.clients[0].events, [told]);
    let passed = net.host_heard.len();
    assert!(passed < 60 * 8, "{passed} passed");
}

/// A well-behaved pair with the default settings never runs into its own limits.
#[test]
fn default_settings_get_along() {
    let mut net = Net::connected(&DEFAULT_CONFIG, 1, Faults { jitter_ms: 5, ..LINK }, 35);
    let id = net.id(0);
    for step in 0..6000u32 {
        let _ = net.send_to_host(0, 3, &step.to_le_bytes());
        let _ = net.host.send(id, 1, &[step as u8; 300]);
        if step % 10 == 0 {
            assert!(net.send_to_host(0, 0, b"event") && net.host.send(id, 0, b"event").is_ok());
        }
        net.run(10);
    }
    let at_host = net.host.peer(id).unwrap().stats();
    assert_eq!((at_host.rate_limited, net.clients[0].peer.stats().rate_limited), (0, 0));
    let events = net.host_heard.iter().filter(|(_, channel, _)| *channel == 0).count();
    assert!(events >= 598, "{events}");
}

/// The default settings over a bad link: slow, but everything reliable arrives, large messages included.
#[test]
fn default_settings_over_a_bad_link() {
    let faults = Faults { loss_percent: 10, repeat_percent: 5, delay_ms: 40, jitter_ms: 30 };
    let mut net = Net::connected(&DEFAULT_CONFIG, 1, faults, 40);
    let id = net.id(0);
    let mut sent = 0;
    for step in 0..12_000u32 {
        if step % 100 == 0 {
            sent += 1;
            let large = vec![step as u8; if step % 3000 == 0 { 30_000 } else { 50 }];
            assert!(net.send_to_host(0, 0, &large) && net.host.send(id, 2, &large).is_ok());
        }
        if step % 3 == 0 {
            let _ = net.host.send(id, 1, &[step as u8; 400]);
        }
        net.run(10);
    }
    net.run(20_000);
    let at_host = net.host_heard.len();
    let at_client = net.clients[0].heard.iter().filter(|(channel, _)| *channel == 2).count();
    assert_eq!((at_host, at_client), (sent, sent));
    assert!(net.host_events.is_empty() && net.clients[0].events.is_empty());
    assert_eq!((net.host.claimed(), net.clients[0].pools.claimed()), Default::default());
}

#[test]
fn maximum_peers() {
    let mut net = Net::connected(&NetworkConfig { max_peers: 64, ..unlimited() }, 64, LINK, 36);
    for round in 0..20u8 {
        for number in 0..64 {
            assert!(net.send_to_host(number, 0, &[number as u8, round]));
            let id = net.id(number);
            net.host.send(id, 0, &[number as u8, round]).unwrap();
        }
        net.run(20);
    }
    net.run(1000);
    assert_eq!(net.host_heard.len(), 64 * 20);
    for (number, client) in net.clients.iter().enumerate() {
        let rounds: Vec<(u8, Vec<u8>)> = (0..20).map(|round| (0, vec![number as u8, round])).collect();
        assert_eq!(client.heard, rounds);
    }
    assert_eq!(net.host.claimed(), Claimed::default());
}

#[test]
fn maximum_channels() {
    let config = NetworkConfig { max_channels: 255, send_buffers_per_peer: 600, ..unlimited() };
    let mut net = Net::connected(&config, 1, LINK, 37);
    assert_eq!(net.clients[0].peer.channels(), 255);
    for round in 0..2 {
        (0..255).for_each(|channel| assert!(net.send_to_host(0, channel, &[channel, round])));
    }
    net.run(1000);
    let mut heard: Vec<Vec<u8>> = net.host_heard.iter().map(|(_, _, bytes)| bytes.clone()).collect();
    assert_eq!(heard.len(), 510);
    heard.sort();
    heard.dedup();
    assert_eq!(heard.len(), 510);
    assert!(!net.send_to_host(0, 255, b"none"));
}

#[test]
fn high_packet_rate() {
    let mut net = Net::connected(&unlimited(), 1, Faults { delay_ms: 3, ..Faults::default() }, 38);
    let id = net.id(0);
    let mut sent = 0;
    for step in 0..5000u32 {
        (0..4).for_each(|_| sent += usize::from(net.send_to_host(0, 2, &[step as u8; 1100])));
        net.run(1);
    }
    net.run(1000);
    assert_eq!((net.host_heard.len(), sent), (20_000, 20_000));
    assert!(net.host.peer(id).unwrap().stats().packets_received > 8000);
    assert_eq!(net.host.claimed(), Claimed::default());
}

/// An hour of little: the numbers wrap, the connection stays.
#[test]
fn long_running_connections() {
    let faults = Faults { loss_percent: 3, repeat_percent: 1, delay_ms: 20, jitter_ms: 10 };
    let mut net = Net::connected(&unlimited(), 1, faults, 39);
    let id = net.id(0);
    for step in 0..360_000u32 {
        if step % 4 == 0 {
            let _ = net.send_to_host(0, 1, &step.to_le_bytes());
        }
        if step % 500 == 0 {
            assert!(net.send_to_host(0, 0, &step.to_le_bytes()) && net.host.send(id, 0, b"tick").is_ok());
        }
        net.step(10);
    }
    net.run(2000);
    assert!(net.clients[0].peer.stats().packets_sent > 1 << 16);
    let events = net.host_heard.iter().filter(|(_, channel, _)| *channel == 0).count();
    assert_eq!((events, net.clients[0].heard.len()), (720, 720));
    assert_eq!(net.clients[0].peer.state(), PeerState::Connected);
    assert_eq!((net.host.claimed(), net.clients[0].pools.claimed()), Default::default());
    assert!(net.host_events.is_empty());
    // Idle for a minute: PINGs alone keep it.
    net.faults.loss_percent = 0;
    net.filter = None;
    for _ in 0..60_000 {
        net.step(1);
    }
    assert_eq!(net.clients[0].peer.state(), PeerState::Connected);
    net.filter = Some(Box::new(|to, _| to == To::Host));
    net.run(11_000);
    assert_eq!(net.clients[0].events, [Event::Disconnected { reason: ErrorCode::Timeout, by_peer: false }]);
}
