//! Any values there and back, any bytes at all, and valid bytes with something wrong.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Any {
    Input(Input),
    Ping(Ping),
    Disconnect(Disconnect),
    Query(QueryEntity),
    Create(CreateEntity),
    Destroy(DestroyEntity),
    Pong(Pong),
}

impl Any {
    fn push(&self, writer: &mut PacketWriter<'_>) -> bool {
        match self {
            Self::Input(message) => writer.push(message),
            Self::Ping(message) => writer.push(message),
            Self::Disconnect(message) => writer.push(message),
            Self::Query(message) => writer.push(message),
            Self::Create(message) => writer.push(message),
            Self::Destroy(message) => writer.push(message),
            Self::Pong(message) => writer.push(message),
        }
    }

    /// Parses a message as the side that it is meant for does.
    fn parse(raw: &RawMessage<'_>) -> Option<Self> {
        Some(match (ClientMessage::parse(raw), ServerMessage::parse(raw)) {
            (Ok(ClientMessage::Input(message)), _) => Self::Input(message),
            (Ok(ClientMessage::Ping(message)), _) => Self::Ping(message),
            (Ok(ClientMessage::Disconnect(message)), _) => Self::Disconnect(message),
            (Ok(ClientMessage::QueryEntity(message)), _) => Self::Query(message),
            (_, Ok(ServerMessage::CreateEntity(message))) => Self::Create(message),
            (_, Ok(ServerMessage::DestroyEntity(message))) => Self::Destroy(message),
            (_, Ok(ServerMessage::Pong(message))) => Self::Pong(message),
            _ => return None,
        })
    }
}

fn any_message() -> impl Strategy<Value = Any> {
    (0..7u8, any::<[u32; 2]>(), any::<[u16; 4]>(), any::<u8>()).prop_map(
        |(which, [a, b], [k, x, y, r], small)| {
            let id = EntityId(b.max(1));
            let (x, y, rotation) = (Pos16(x), Pos16(y), Rot16(r));
            match which {
                0 => {
                    let controls = Controls::from_bits(small & 31).unwrap();
                    Any::Input(Input { sequence: a, client_tick: b, controls })
                }
                1 => Any::Ping(Ping { timestamp: a }),
                2 => Any::Disconnect(Disconnect {
                    reason: DisconnectReason::from_value(small % 4 + 1).unwrap(),
                }),
                3 => Any::Query(QueryEntity { id }),
                4 => Any::Create(CreateEntity { tick: a, id, archetype: k, x, y, rotation }),
                5 => {
                    let reason = DestroyReason::from_value(small % 5).unwrap();
                    Any::Destroy(DestroyEntity { tick: a, id, reason })
                }
                _ => Any::Pong(Pong { timestamp: a }),
            }
        },
    )
}

fn any_header() -> impl Strategy<Value = Header> {
    any::<[u32; 4]>().prop_map(|[connection, sequence, ack, ack_bits]| Header {
        connection,
        sequence,
        ack,
        ack_bits,
    })
}

fn any_state() -> impl Strategy<Value = (u8, [u16; 3])> {
    any::<(u8, [u16; 3])>()
}

/// Parses everything that there is to parse in bytes that may say anything, and writes what is valid again.
fn read_all(bytes: &[u8]) {
    if let Ok(handshake) = Handshake::parse(bytes) {
        let mut out = [0; 10];
        let len = handshake.emit(&mut out);
        assert_eq!(&out[..len], bytes, "one encoding for a handshake");
    }
    let Ok(packet) = Packet::parse(bytes) else { return };
    let mut out = [0; DATAGRAM_BYTES_MAX];
    for raw in packet.messages() {
        let mut writer = PacketWriter::new(packet.header(), &mut out);
        if let Ok(ServerMessage::Snapshot(snapshot)) = ServerMessage::parse(&raw) {
            writer.snapshot(snapshot.tick, &mut snapshot.iter()).unwrap();
        } else if let Some(message) = Any::parse(&raw) {
            assert!(message.push(&mut writer));
        } else {
            continue;
        }
        let len = writer.finish();
        assert_eq!(&out[..HEADER_BYTES], &bytes[..HEADER_BYTES]);
        assert_eq!(&out[HEADER_BYTES + MESSAGE_HEADER_BYTES..len], raw.payload, "one encoding for a value");
    }
}

proptest! {
    #[test]
    fn packets_come_back_as_written(header in any_header(), list in prop::collection::vec(any_message(), 0..40)) {
        let mut out = [0; 600];
        let mut writer = PacketWriter::new(&header, &mut out);
        let written = list.iter().take_while(|message| message.push(&mut writer)).count();
        let len = writer.finish();
        let packet = Packet::parse(&out[..len]).unwrap();
        prop_assert_eq!(packet.header(), &header);
        let read: Vec<String> =
            packet.messages().map(|raw| format!("{:?}", Any::parse(&raw).unwrap())).collect();
        let sent: Vec<String> = list[..written].iter().map(|message| format!("{message:?}")).collect();
        prop_assert_eq!(read, sent);
        read_all(&out[..len]);
    }

    #[test]
    fn snapshots_come_back_as_written(tick: u32, first in 1..u32::MAX / 2, list in prop::collection::vec(any_state(), 0..60)) {
        let states: Vec<EntityState> = list.iter().zip(first..).map(|(&(archetype_low, [x, y, r]), id)| {
            EntityState { id: EntityId(id), archetype_low, x: Pos16(x), y: Pos16(y), rotation: Rot16(r) }
        }).collect();
        let bytes = packet(|writer| {
            writer.snapshot(tick, &mut states.iter().copied()).unwrap();
        });
        let messages = messages(&bytes);
        let snapshot = Snapshot::parse(messages[0].payload).unwrap();
        prop_assert_eq!(snapshot.tick, tick);
        let read: Vec<EntityState> = snapshot.iter().collect();
        prop_assert_eq!(&read[..], &states[..states.len().min(STATES_MAX)]);
        read_all(&bytes);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..560)) {
        read_all(&bytes);
    }

    /// Small numbers, so that types and sizes are often right.
    #[test]
    fn bytes_that_look_like_messages_are_read_without_a_panic(bytes in prop::collection::vec(0..20u8, 16..120)) {
        read_all(&bytes);
    }

    #[test]
    fn corrupted_packets_are_read_without_a_panic(
        list in prop::collection::vec(any_message(), 1..20),
        states in prop::collection::vec(any_state(), 0..10),
        at: prop::sample::Index,
        value: u8,
        cut: prop::sample::Index,
    ) {
        let mut bytes = packet(|writer| {
            list.iter().all(|message| message.push(writer));
            let mut states = states.iter().zip(1..).map(|(&(archetype_low, [x, y, r]), id)| {
                EntityState { id: EntityId(id), archetype_low, x: Pos16(x), y: Pos16(y), rotation: Rot16(r) }
            });
            writer.snapshot(1, &mut states);
        });
        let at = at.index(bytes.len());
        bytes[at] = value;
        read_all(&bytes);
        read_all(&bytes[..cut.index(bytes.len())]);
    }
}
