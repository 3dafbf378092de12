//! Datagrams from a server that may say anything, at a playing client.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tickwire::client::aegis::{Client, Settings};
use tickwire::model::Name;
use tickwire::seam::DATAGRAM_BYTES_MAX;
use tickwire::time::{Duration, Instant};
use tickwire::wire::aegis::{HEADER_BYTES, Header, PacketKind};

fuzz_target!(|data: &[u8]| {
    let name = Name::new(b"fuzz").expect("a name");
    let mut client = Client::new(&Settings { name, entities_max: 128, snapshots_kept: 22 });
    let mut now = Instant::from_millis(1000);
    client.stream_bytes(now, &[10, 0, 2, 7, 0, 0, 0, 0x93, 0x10, 0, 60, 3]);
    let mut sequence = 0;
    let mut send = |client: &mut Client, now: Instant, kind: PacketKind, compressed: bool, payload: &[u8]| {
        let header = Header { kind, compressed, sequence, ack: sequence, ack_bits: u32::MAX, session: 7 };
        let mut datagram = [0; DATAGRAM_BYTES_MAX];
        let (head, body) = datagram.split_first_chunk_mut::<HEADER_BYTES>().expect("a header");
        header.emit(head);
        let len = payload.len().min(body.len());
        body[..len].copy_from_slice(&payload[..len]);
        sequence = sequence.wrapping_add(1);
        let _ = client.datagram(now, now, &datagram[..HEADER_BYTES + len]);
    };
    send(&mut client, now, PacketKind::Accept, false, &[]);
    let mut rest = data;
    // What kind, how long, and the payload.
    while let [kind, len, tail @ ..] = rest {
        let (payload, after) = tail.split_at(usize::from(*len).min(tail.len()));
        rest = after;
        let kind_of = [PacketKind::Snapshot, PacketKind::Event, PacketKind::Heartbeat, PacketKind::Accept];
        send(&mut client, now, kind_of[usize::from(kind & 3)], kind & 4 != 0, payload);
        now = now + Duration::from_millis(16);
        while client.poll_event().is_some() {}
        let _ = client.visible().count();
        let mut buffer = [0; DATAGRAM_BYTES_MAX];
        while client.transmit(now, &mut buffer).is_some() {}
    }
});
