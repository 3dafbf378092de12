//! R-Type datagrams that may say anything, at both ends of a connection: no panic, and everything stays bounded.
#![no_main]

use std::net::SocketAddr;

use libfuzzer_sys::fuzz_target;
use tickwire::client::rtype::{Client, Settings};
use tickwire::model::{Entity, EntityId, EntityTable, Kind};
use tickwire::session::rtype::{Connection, IDLE_TIMEOUT, Notice, QUERIES_MAX, Session, check_hello};
use tickwire::time::{Duration, Instant, Tick};
use tickwire::wire::rtype::handshake::Handshake;
use tickwire::wire::rtype::message::{ClientMessage, DestroyReason, ServerMessage};
use tickwire::wire::rtype::{DATAGRAM_BYTES_MAX, HEADER_BYTES, Header, Packet};

const ID: u32 = 7;

/// A packet with a valid header, whose acknowledgements are the fuzzer's.
fn packet(sequence: u32, ack: u8, messages: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    let header =
        Header { connection: ID, sequence, ack: sequence.saturating_sub(u32::from(ack)), ack_bits: !0 };
    header.emit(bytes.first_chunk_mut().expect("a header"));
    bytes.extend(messages);
    bytes
}

fuzz_target!(|data: &[u8]| {
    let _ = (check_hello(data), Handshake::parse(data));
    if let Ok(packet) = Packet::parse(data) {
        for raw in packet.messages() {
            let _ = (ClientMessage::parse(&raw), ServerMessage::parse(&raw));
        }
    }
    let mut now = Instant::from_millis(1000);
    let mut room = EntityTable::new(100);
    (0..60).for_each(|_| {
        room.insert(Entity::new(Kind::BYDOS));
    });
    let mut session = Session::new();
    let endpoint = SocketAddr::from(([10, 0, 0, 1], 5000));
    session.reset(now, Connection { id: ID, endpoint }, IDLE_TIMEOUT);
    let mut client = Client::new(&Settings { entities_max: 32 });
    let welcomed = client.datagram(now, now, b"RTYP\x01\x02\x00\x00\x00\x07");
    assert_eq!(welcomed, Ok(()));
    let mut out = [0; DATAGRAM_BYTES_MAX];
    let mut sequence = 0;
    let mut rest = data;
    // What to do, with which acknowledgement, how long, and the bytes.
    while let [what, ack, len, tail @ ..] = rest {
        let (bytes, after) = tail.split_at(usize::from(*len).min(tail.len()));
        rest = after;
        sequence += 1;
        match what % 6 {
            0 => _ = session.hear(now, now, bytes),
            1 => _ = session.hear(now, now, &packet(sequence, *ack, bytes)),
            2 => _ = client.datagram(now, now, bytes),
            3 => _ = client.datagram(now, now, &packet(sequence, *ack, bytes)),
            4 => {
                let id = EntityId(u32::from(*ack) + 1);
                let _ = session.push_notice(Notice::Create(id));
                let _ = session.push_notice(Notice::Destroy(id, DestroyReason::Gameplay));
            }
            _ => now = now + Duration::from_millis(u64::from(*len) * 4),
        }
        let mut packets = 0;
        while let Some(len) = session.write_notices(now, Tick(sequence), &room, &mut out) {
            let _ = client.datagram(now, now, &out[..len]);
            packets += 1;
        }
        assert!(packets <= 1 + (256 + QUERIES_MAX) / 26, "{packets} packets in one tick");
        session.write_snapshot(now, Tick(sequence), &room, 0..u32::MAX, &mut out);
        let mut packets = 0;
        while let Some(len) = client.transmit(now, &mut out) {
            let _ = session.hear(now, now, &out[..len]);
            packets += 1;
        }
        assert!(packets <= 2 && client.known_count() <= 32);
        let _ = (session.take_input(), session.next_deadline(), client.next_deadline(), client.player());
    }
});
