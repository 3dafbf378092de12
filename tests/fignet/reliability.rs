//! Loss, reordering, repetition and order: 10,000 messages per mode over seeded links.

use tickwire::session::fignet::{Claimed, Event, NetworkConfig};
use tickwire::time::Duration;
use tickwire::wire::fignet::ErrorCode;

use super::net::{Faults, Net, To, unlimited};

const MESSAGES: u32 = 10_000;

/// Sends numbered messages on channels 0 to 3 until all are sent and had, and checks each mode's promise.
fn four_modes(faults: Faults, seed: u64) {
    let mut net = Net::connected(&unlimited(), 1, faults, seed);
    // The numbers of every channel wrap on the way.
    net.clients[0].peer.set_message_sequences(60_000);
    let id = net.id(0);
    net.host.with(id, |peer, _| peer.set_message_sequences(60_000));
    let mut sent = [0u32; 4];
    let mut quiet = 0;
    while quiet < 3000 {
        for channel in 0..4u8 {
            let count = &mut sent[usize::from(channel)];
            for _ in 0..4 {
                // Unreliable queues take everything and drop the oldest: no more than the link carries.
                let waits = net.clients[0].peer.waiting(channel) > 40;
                let mut message = [channel; 40];
                message[..4].copy_from_slice(&count.to_le_bytes());
                if *count < MESSAGES && !waits && net.send_to_host(0, channel, &message) {
                    *count += 1;
                }
            }
        }
        let before = net.host_heard.len();
        net.step(2);
        quiet = if net.host_heard.len() == before && sent == [MESSAGES; 4] { quiet + 1 } else { 0 };
    }
    let numbers = |channel: u8| -> Vec<u32> {
        let of_channel = net.host_heard.iter().filter(|(_, heard, _)| *heard == channel);
        of_channel
            .map(|(_, _, bytes)| {
                assert!(bytes.len() == 40 && bytes[4..].iter().all(|&byte| byte == channel));
                u32::from_le_bytes(*bytes.first_chunk().unwrap())
            })
            .collect()
    };
    let all: Vec<u32> = (0..MESSAGES).collect();
    assert_eq!(numbers(0), all, "reliable ordered: everything once, in order");
    let mut unordered = numbers(2);
    if faults.loss_percent > 0 {
        assert_ne!(unordered, all, "nothing waits for what was lost");
    }
    unordered.sort_unstable();
    assert_eq!(unordered, all, "reliable: everything once");
    for channel in [1, 3] {
        let mut heard = numbers(channel);
        let count = heard.len();
        // One that is overtaken on the way does not count any more where order is promised.
        let percent_min = if channel == 3 && faults.jitter_ms > 0 { 20 } else { 80 - faults.loss_percent };
        assert!(count > MESSAGES as usize * percent_min as usize / 100, "{count} on {channel}");
        if channel == 3 {
            assert!(heard.is_sorted_by(|a, b| a < b), "unreliable ordered: never back");
        }
        heard.sort_unstable();
        heard.dedup();
        assert_eq!(heard.len(), count, "nothing twice");
        assert!(heard.iter().all(|number| *number < MESSAGES), "nothing invented");
    }
    if faults.loss_percent > 0 {
        assert!(net.lost > 50, "the link lost {}", net.lost);
    }
    if faults.repeat_percent > 0 {
        assert!(net.repeated > 50, "the link repeated {}", net.repeated);
    }
    assert_eq!((net.host.claimed(), net.clients[0].pools.claimed()), Default::default());
    assert!(net.host_events.is_empty() && net.clients[0].events.is_empty(), "{:?}", net.host_events);
}

const CLEAN: Faults = Faults { loss_percent: 0, repeat_percent: 0, delay_ms: 20, jitter_ms: 0 };

#[test]
fn packet_loss_1_percent() {
    four_modes(Faults { loss_percent: 1, ..CLEAN }, 1);
}

#[test]
fn packet_loss_5_percent() {
    four_modes(Faults { loss_percent: 5, ..CLEAN }, 5);
}

#[test]
fn packet_loss_10_percent() {
    four_modes(Faults { loss_percent: 10, ..CLEAN }, 10);
}

#[test]
fn packet_reordering() {
    four_modes(Faults { jitter_ms: 15, ..CLEAN }, 11);
}

#[test]
fn duplicate_packets() {
    four_modes(Faults { repeat_percent: 20, jitter_ms: 10, ..CLEAN }, 12);
}

#[test]
fn everything_at_once() {
    four_modes(Faults { loss_percent: 10, repeat_percent: 10, delay_ms: 30, jitter_ms: 25 }, 13);
}

/// Eight retransmissions, and then the connection is lost.
#[test]
fn maximum_retransmissions() {
    let mut net = Net::connected(&unlimited(), 1, CLEAN, 14);
    let id = net.id(0);
    net.run(200);
    // PINGs still pass: the peer is not silent, only deaf to one channel.
    let copies = std::rc::Rc::new(std::cell::Cell::new(0));
    let counted = copies.clone();
    net.filter = Some(Box::new(move |to, bytes| {
        let is_message = to == To::Host && bytes[4] == 0x12;
        counted.set(counted.get() + u32::from(is_message));
        !is_message
    }));
    assert!(net.send_to_host(0, 0, b"never"));
    let start = net.now;
    while net.clients[0].events.is_empty() && net.now.since(start) < Duration::from_secs(60) {
        net.run(1);
    }
    let end = Event::Disconnected { reason: ErrorCode::Timeout, by_peer: false };
    assert_eq!(
        (copies.get(), net.clients[0].events.as_slice()),
        (9, &[end][..]),
        "once, and eight times again"
    );
    assert!(net.host.peer(id).is_some());
    net.run(100);
    let told = Event::Disconnected { reason: ErrorCode::Timeout, by_peer: true };
    assert_eq!(net.host_events, [(id, told)], "the other end is told");
    net.run(5000);
    assert_eq!(net.host.peers(), 0);
}

#[test]
fn out_of_order_delivery() {
    let mut net = Net::connected(&unlimited(), 1, CLEAN, 15);
    let mut first = true;
    net.filter = Some(Box::new(move |to, bytes| {
        let is_first = first && to == To::Host && bytes[4] == 0x12;
        first &= !is_first;
        !is_first
    }));
    for number in 0..10u8 {
        assert!(net.send_to_host(0, 0, &[number; 1100]));
    }
    net.run(30);
    assert!(net.host_heard.is_empty(), "all wait for the first");
    assert!(net.host.claimed().receive > 0);
    net.run(1000);
    let order: Vec<u8> = net.host_heard.iter().map(|(_, _, bytes)| bytes[0]).collect();
    assert_eq!(order, (0..10).collect::<Vec<u8>>());
    assert_eq!(net.host.claimed(), Claimed::default());
}

/// What waits on one channel holds up no other.
#[test]
fn channel_isolation() {
    let config = NetworkConfig { max_channels: 8, ..unlimited() };
    let mut net = Net::connected(&config, 1, CLEAN, 16);
    net.filter = Some(Box::new(|to, bytes| to != To::Host || bytes[4] != 0x12 || bytes[14] != 0));
    assert!(net.send_to_host(0, 0, &[0; 1150]), "as large as its packet");
    net.run(1);
    for number in 0..20 {
        assert!(net.send_to_host(0, 4, &[number; 1100]) && net.send_to_host(0, 2, &[number; 1100]));
    }
    net.run(600);
    let of = |channel| net.host_heard.iter().filter(|(_, heard, _)| *heard == channel).count();
    assert_eq!((of(0), of(2), of(4)), (0, 20, 20));
}

#[test]
fn sequence_number_wrap() {
    let mut net = Net::connected(&unlimited(), 1, Faults { loss_percent: 2, ..CLEAN }, 17);
    let (mut sent, mut stuck) = (0u32, 0);
    while net.host_heard.len() < 200_000 && stuck < 10_000 {
        while net.clients[0].peer.waiting(0) < 64
            && sent < 200_000
            && net.send_to_host(0, 0, &sent.to_le_bytes())
        {
            sent += 1;
        }
        let before = net.host_heard.len();
        net.step(4);
        stuck = if net.host_heard.len() == before { stuck + 1 } else { 0 };
    }
    let numbers =
        net.host_heard.iter().map(|(_, _, bytes)| u32::from_le_bytes(*bytes.first_chunk().unwrap()));
    assert!(numbers.eq(0..200_000), "three wraps");
}
