//! Messages larger than a packet, and blocks.

use tickwire::session::fignet::{Claimed, Event, NetworkConfig};
use tickwire::wire::fignet::block::BlockHeader;

use super::net::{Client, Faults, Net, To, unlimited};

const LOSSY: Faults = Faults { loss_percent: 5, repeat_percent: 2, delay_ms: 20, jitter_ms: 10 };

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at * 31 / 7) as u8 ^ seed).collect()
}

/// Ten messages of 64 KB on each channel that promises them, over 5% of loss.
#[test]
fn large_message_transfer() {
    let mut net = Net::connected(&unlimited(), 1, LOSSY, 20);
    for channel in [0, 2] {
        let mut sent = 0;
        net.host_heard.clear();
        for _ in 0..60_000 {
            if sent < 10 && net.send_to_host(0, channel, &pattern(65_535, sent)) {
                sent += 1;
            }
            net.run(1);
            if net.host_heard.len() == 10 {
                break;
            }
        }
        let mut heard: Vec<&Vec<u8>> = net.host_heard.iter().map(|(_, _, bytes)| bytes).collect();
        heard.sort_by_key(|bytes| bytes[0]);
        assert_eq!(heard.len(), 10, "channel {channel}");
        let mut expected: Vec<Vec<u8>> = (0..10).map(|seed| pattern(65_535, seed)).collect();
        expected.sort_by_key(|bytes| bytes[0]);
        assert!(heard.into_iter().eq(expected.iter()));
    }
    net.run(3000);
    assert_eq!((net.host.claimed(), net.clients[0].pools.claimed()), Default::default());
}

/// Every length around the edges of packets and fragments comes out as it went in.
#[test]
fn reassembly() {
    let mut net = Net::connected(&unlimited(), 1, Faults { jitter_ms: 12, ..Faults::default() }, 21);
    let full = 1174;
    let mut lens = vec![0, 1, 1179, 1180, 1181, 65_534, 65_535];
    lens.extend((2..8).flat_map(|parts| [parts * full - 3, parts * full - 2, parts * full - 1]));
    for (number, &len) in lens.iter().enumerate() {
        for channel in 0..4 {
            net.host_heard.clear();
            let message = pattern(len, number as u8);
            assert!(net.send_to_host(0, channel, &message), "{len}");
            net.run(300);
            let heard: Vec<(u8, &Vec<u8>)> = net.host_heard.iter().map(|(_, c, bytes)| (*c, bytes)).collect();
            assert_eq!(heard, [(channel, &message)], "{len} on {channel}");
        }
    }
    assert_eq!((net.host.claimed(), net.clients[0].pools.claimed()), Default::default());
}

#[test]
fn fragment_loss() {
    let mut net = Net::connected(&unlimited(), 1, Faults { delay_ms: 10, ..Faults::default() }, 22);
    let mut count = 0;
    let lost = std::rc::Rc::new(std::cell::Cell::new(0));
    let counted = lost.clone();
    // Each third fragment is lost the first time.
    net.filter = Some(Box::new(move |to, bytes| {
        let is_fragment = to == To::Host && bytes[4] == 0x20;
        count += u32::from(is_fragment);
        let is_lost = is_fragment && count <= 30 && count % 3 == 0;
        counted.set(counted.get() + u32::from(is_lost));
        !is_lost
    }));
    let message = pattern(30 * 1174 - 2, 9);
    assert!(net.send_to_host(0, 0, &message));
    net.run(2000);
    assert_eq!(lost.get(), 10);
    assert_eq!(net.host_heard.len(), 1);
    assert_eq!(net.host_heard[0].2, message);
    let stats = net.clients[0].peer.stats();
    assert_eq!(stats.packets_lost, 10, "only what was lost goes again");
}

/// The last fragment is withheld: the set costs its share, others are not harmed, and after five seconds it is over.
#[test]
fn fragment_timeout() {
    // A sender that would not give up before the receiver does.
    let config = NetworkConfig { compression: false, max_retransmissions: 30, ..unlimited() };
    let mut net =
        Net::with_configs(&unlimited(), &config, 2, Faults { delay_ms: 10, ..Faults::default() }, 23);
    net.connect_all();
    let withheld = |bytes: &[u8]| bytes[4] == 0x20 && bytes[5] & 0x10 == 0 && bytes[20] == 19;
    let from = std::rc::Rc::new(std::cell::Cell::new(true));
    let withholding = from.clone();
    net.filter = Some(Box::new(move |to, bytes| to != To::Host || !withholding.get() || !withheld(bytes)));
    let message = pattern(20 * 1174 - 2, 3);
    assert!(net.send_to_host(0, 1, &message));
    net.run(400);
    assert_eq!(net.host.claimed(), Claimed { fragments: 20, ..Claimed::default() });
    // Another peer, meanwhile, with fewer fragments than that index.
    let other = pattern(10_000, 4);
    assert!(net.send_to_host(1, 0, &other));
    net.run(300);
    assert_eq!(net.host_heard.last().map(|(_, _, bytes)| bytes), Some(&other));
    assert_eq!(net.host.claimed().fragments, 20);
    net.run(5000);
    let id = net.id(0);
    assert_eq!(net.host.claimed().fragments, 0);
    assert_eq!(net.host_events, [(id, Event::FragmentError { channel: 1, outgoing: false })]);
    assert_eq!(net.clients[0].events, [Event::FragmentError { channel: 1, outgoing: true }]);
    assert_eq!(net.clients[0].pools.claimed(), Claimed::default(), "the channel promises nothing");
    from.set(false);
}

/// On a reliable channel the sender begins anew, and the promise is kept.
#[test]
fn a_set_given_up_on_a_reliable_channel_comes_again() {
    let config = NetworkConfig { fragment_timeout_ms: 300, ..unlimited() };
    let client = NetworkConfig { compression: false, ..unlimited() };
    let mut net = Net::with_configs(&config, &client, 1, Faults { delay_ms: 10, ..Faults::default() }, 24);
    net.connect_all();
    let start = net.now;
    let now = std::rc::Rc::new(std::cell::Cell::new(start));
    let clock = now.clone();
    net.filter = Some(Box::new(move |to, bytes| {
        let late = clock.get().since(start).as_millis() > 600;
        to != To::Host || late || bytes[4] != 0x20 || bytes[20] != 4
    }));
    let message = pattern(5 * 1174 - 2, 3);
    assert!(net.send_to_host(0, 0, &message) && net.send_to_host(0, 0, b"after it"));
    for _ in 0..4000 {
        now.set(net.now);
        net.run(1);
    }
    let heard: Vec<&[u8]> = net.host_heard.iter().map(|(_, _, bytes)| bytes.as_slice()).collect();
    assert_eq!(heard, [&message[..], b"after it"]);
    assert!(net.clients[0].events.contains(&Event::FragmentError { channel: 0, outgoing: true }));
    assert_eq!((net.host.claimed(), net.clients[0].pools.claimed()), Default::default());
}

/// 16 MiB over 5% of loss.
#[test]
fn a_block_of_16_mib() {
    let config = NetworkConfig { block_channel: Some(4), max_channels: 5, ..unlimited() };
    let mut net = Net::connected(&config, 1, LOSSY, 25);
    let byte_at = |at: u32| (at.wrapping_mul(2_654_435_761) >> 24) as u8;
    let header = BlockHeader { id: 77, size: 16 << 20, kind: 1, compression: 0 };
    net.clients[0].peer.send_block(header).unwrap();
    let (mut received, mut confirmed, mut done) = (0u32, 0, false);
    for _ in 0..400_000 {
        let Client { peer, pools, .. } = &mut net.clients[0];
        let fill = |offset: u32, out: &mut [u8]| {
            out.iter_mut().enumerate().for_each(|(at, byte)| *byte = byte_at(offset + at as u32));
        };
        let progress = peer.feed_block(pools, fill).unwrap();
        assert!(progress.confirmed >= confirmed && progress.queued >= progress.confirmed);
        confirmed = progress.confirmed;
        net.step(2);
        for (_, channel, data) in net.host_heard.drain(..) {
            assert_eq!(channel, 254);
            assert!(data.iter().enumerate().all(|(at, &byte)| byte == byte_at(received + at as u32)));
            received += data.len() as u32;
        }
        done = progress.is_done();
        if done {
            break;
        }
    }
    assert!(done && received == 16 << 20, "{received} bytes");
    net.run(100);
    assert_eq!((net.host.claimed(), net.clients[0].pools.claimed()), Default::default());
}
