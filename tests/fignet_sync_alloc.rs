//! Telling a room to a FigNet peer allocates nothing, at either end, once everything is made.

#[path = "../benches/support/corpus.rs"]
mod corpus;

use std::hint::black_box;

use tickwire::client::interpolation::Interpolation;
use tickwire::client::received::Received;
use tickwire::heap::{Heap, thread_allocations};
use tickwire::session::fignet::coder::Packer;
use tickwire::session::fignet::keys::{KEY_BYTES, Key, KeyStore, Keys};
use tickwire::session::fignet::seal::{ENVELOPE_BYTES, End, NONCE_BYTES, Seal};
use tickwire::snapshot::fignet::{Area, Encoder, PeerView, ROOM_BYTES_MIN, Request};
use tickwire::time::{Duration, Instant};
use tickwire::wire::fignet::snapshot::{Coder, MESSAGE_BYTES_MAX, Precision};

#[global_allocator]
static HEAP: Heap = Heap;

#[test]
fn nothing_is_allocated_per_snapshot() {
    assert!(
        thread_allocations() < {
            black_box(Box::new(1));
            thread_allocations()
        },
        "the counter counts"
    );
    for recording in [corpus::level1(), corpus::stress()] {
        assert_eq!(allocations_of(&recording), 0);
    }
}

/// Allocations while a whole recording is told.
fn allocations_of(recording: &corpus::Recording) -> u64 {
    let (entities, interval) = (recording.entities_max, recording.interval);
    let mut keys = KeyStore::new(4);
    let (mut encoder, mut packer) = (Encoder::new(entities, Precision::Exact), Packer::new());
    let mut peer = PeerView::new(entities, interval);
    let mut received = Received::new(entities, interval as usize);
    let mut shown = Interpolation::new(entities, 60, Duration::from_millis(50));
    let mut packet = [0; MESSAGE_BYTES_MAX + ENVELOPE_BYTES];
    let (mut allocations, mut poses, mut frames) = (0, 0, 0);
    let mut ends = None;
    recording.play(|frame, history| {
        let before = thread_allocations();
        let (server, client) = ends.get_or_insert_with(|| {
            keys.insert(1, &Key::new([3; KEY_BYTES]), Instant::MAX).expect("a free place");
            let key = keys.take(1).expect("the key just put in");
            (Seal::new(&key, End::Server, 1), Seal::new(&key, End::Client, 1))
        });
        let now = Instant::from_nanos(u64::from(frame.tick.0) * 16_666_667);
        let timestamp_us = now.as_nanos() / 1000;
        let request = Request { history, timestamp_us, area: Area::EVERYTHING, focus: Some(1) };
        // Every other message has too little room, and every coder has its turn.
        let room = if frames % 2 == 0 { MESSAGE_BYTES_MAX } else { ROOM_BYTES_MIN };
        let coder = [Coder::Plain, Coder::Runs, Coder::Huffman, Coder::Lz4][frames / 2 % 4];
        let len = encoder.encode(&request, &mut peer, &mut packet[NONCE_BYTES..NONCE_BYTES + room]);
        let len = packer.pack(coder, &mut packet[NONCE_BYTES..NONCE_BYTES + len]);
        let envelope = &mut packet[..len + ENVELOPE_BYTES];
        server.seal_in_place(b"header", envelope).expect("counters are left");
        let message = client.open_in_place(b"header", envelope).expect("what was sealed opens");
        shown.push(now, received.apply(message).expect("what was sent can be applied"));
        peer.acknowledged(frame.tick);
        shown.advance(now);
        poses += shown.poses().count();
        frames += 1;
        allocations += thread_allocations() - before;
    });
    assert!(frames > 250 && poses > 1000, "{frames} frames, {poses} poses");
    allocations
}
