use std::net::SocketAddr;

use super::*;
use crate::model::{Controls, Entity, EntityId, EntityTable, Kind, PlayerId};
use crate::session::reliable::TooManyInFlight;
use crate::time::{Duration, Instant, Tick};
use crate::wire::rtype::message::{
    CreateEntity, DestroyEntity, DestroyReason, Disconnect, DisconnectReason, Input, Message, Ping, Pong,
    QueryEntity, ServerMessage,
};
use crate::wire::rtype::{Header, Packet, PacketWriter};

mod hearing;
mod reliability;
mod sequences;

const ID: u32 = 7;

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn connection() -> Connection {
    let endpoint = SocketAddr::from(([10, 0, 0, 1], 5000));
    Connection { id: ID, endpoint }
}

/// A connection opened at 1000 ms.
fn session() -> Session {
    let mut session = Session::new();
    session.reset(at(1000), connection(), IDLE_TIMEOUT);
    session
}

/// A client's packet, acknowledging nothing.
fn packet(sequence: u32, write: impl FnOnce(&mut PacketWriter<'_>)) -> Vec<u8> {
    packet_acking(sequence, 0, 0, write)
}

fn packet_acking(
    sequence: u32,
    ack: u32,
    ack_bits: u32,
    write: impl FnOnce(&mut PacketWriter<'_>),
) -> Vec<u8> {
    let mut out = [0; 548];
    let mut writer = PacketWriter::new(&Header { connection: ID, sequence, ack, ack_bits }, &mut out);
    write(&mut writer);
    let len = writer.finish();
    out[..len].to_vec()
}

fn empty(sequence: u32) -> Vec<u8> {
    packet(sequence, |_| ())
}

fn raw_message(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = kind.to_be_bytes().to_vec();
    bytes.extend((payload.len() as u16).to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A packet with these messages, whatever they are.
fn raw_packet(sequence: u32, messages: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = empty(sequence);
    bytes.extend(messages.concat());
    bytes
}

fn input(sequence: u32, bits: u8) -> Input {
    Input { sequence, client_tick: sequence, controls: Controls::from_bits(bits).unwrap() }
}

fn hear(session: &mut Session, ms: u64, bytes: &[u8]) -> Result<Heard, DropReason> {
    session.hear(at(ms), at(ms), bytes)
}

/// A room with `count` Bydos, all of generation 0, indices from 1.
fn room(count: usize) -> EntityTable {
    let mut table = EntityTable::new(1024);
    (0..count).for_each(|_| {
        table.insert(Entity::new(Kind::BYDOS).moving(640, 64, 0, 0));
    });
    table
}

/// What one packet of the server says.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Said {
    Create(u32),
    Destroy(u32, DestroyReason),
    Pong(u32),
    Snapshot(Vec<u32>),
}

fn said(bytes: &[u8]) -> (Header, Vec<Said>) {
    assert!(bytes.len() <= 548);
    let packet = Packet::parse(bytes).unwrap();
    let said = packet.messages().map(|raw| match ServerMessage::parse(&raw).unwrap() {
        ServerMessage::CreateEntity(CreateEntity { id, .. }) => Said::Create(id.0),
        ServerMessage::DestroyEntity(DestroyEntity { id, reason, .. }) => Said::Destroy(id.0, reason),
        ServerMessage::Pong(Pong { timestamp }) => Said::Pong(timestamp),
        ServerMessage::Snapshot(snapshot) => {
            Said::Snapshot(snapshot.iter().map(|state| state.id.0).collect())
        }
    });
    (*packet.header(), said.collect())
}

/// Everything that the session has to say now, packet by packet.
fn packets(session: &mut Session, ms: u64, room: &EntityTable) -> Vec<(Header, Vec<Said>)> {
    let mut out = [0; 600];
    let mut packets = Vec::new();
    while let Some(len) = session.write_notices(at(ms), Tick(9), room, &mut out) {
        packets.push(said(&out[..len]));
        assert!(packets.len() < 100, "it never ends");
    }
    packets
}

/// The same without packets.
fn says(session: &mut Session, ms: u64, room: &EntityTable) -> Vec<Said> {
    packets(session, ms, room).into_iter().flat_map(|(_, said)| said).collect()
}

#[test]
fn players_are_named_after_their_ships() {
    let names: Vec<Name> = PlayerId::all().map(player_name).collect();
    let names: Vec<&str> = names.iter().map(Name::as_str).collect();
    assert_eq!(names, ["player_blue", "player_green", "player_pink", "player_red"]);
}

/// 4.2: what is no Hello opens nothing, and is told why.
#[test]
fn rtype_4_2_only_a_hello_opens_a_connection() {
    assert_eq!(check_hello(b"RTYP\x01\x01"), Ok(()));
    for (bytes, reason) in [
        (&b"RTYP\x01"[..], DropReason::TruncatedHeader),
        (b"RTYQ\x01\x01", DropReason::BadMagic),
        (b"RTYP\x02\x01", DropReason::BadVersion),
        (b"RTYP\x01\x00", DropReason::UnknownType),
        (b"RTYP\x01\x04", DropReason::UnknownType),
        (b"RTYP\x01\x01\x00", DropReason::MalformedHello),
        (b"RTYP\x01\x02\x00\x00\x00\x01", DropReason::Foreign),
        (b"RTYP\x01\x03", DropReason::Foreign),
        (&[0x52; 549], DropReason::TooLarge),
    ] {
        assert_eq!(check_hello(bytes), Err(reason), "{bytes:?}");
    }
}

/// A connected packet from nobody's endpoint is no handshake datagram (3).
#[test]
fn rtype_3_a_packet_from_an_unknown_endpoint_is_dropped() {
    assert_eq!(check_hello(&empty(1)), Err(DropReason::BadMagic));
}

#[test]
#[should_panic(expected = "connection 0")]
fn connection_0_asserts() {
    Session::new().reset(at(0), Connection { id: 0, ..connection() }, IDLE_TIMEOUT);
}
