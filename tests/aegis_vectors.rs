//! Examples of Aegis 1 whose bytes were made by another encoder: what we read from them, and that we write the same bytes.

use tickwire::lz4;
use tickwire::model::{
    DestroyReason, Entity, EntityId, Kind, LeaveReason, Name, PLAYERS_MAX, PlayerId, PlayerState, Score,
};
use tickwire::wire::aegis::event::{Event, EventList, EventListWriter};
use tickwire::wire::aegis::snapshot::{
    PREFIX_BYTES, SnapshotHeader, Table, decode, put_added, put_baseline, put_players, put_prefix,
    put_record_count, put_removed, put_updated,
};
use tickwire::wire::aegis::stream::{
    ClientMessage, Frame, FrameReader, LogoutReason, RejectReason, ServerMessage,
};
use tickwire::wire::aegis::{HEADER_BYTES, Header, PAYLOAD_BYTES_MAX, PacketKind};
use tickwire::wire::bits::{BitReader, BitWriter, varint_bits};

const HEADER: &str = "5254595001043412cdab01000080efbeadde";
const LOGIN_REQUEST: &str = "070001010300416461";
const LOGIN_ACCEPTED: &str = "0a0002efbeadde9310023c03";
const LOGIN_REJECTED_BAD_NAME: &str = "02000302";
const LOGOUT_QUIT: &str = "02000400";
const SNAPSHOT_FULL: &str = "58020000290084032aca2b15000400580280250000001000004402580280570010801f6010e800001e004b00f4002000040c002003802500400010904c00f003fcff000e01fc00f00f";
const SNAPSHOT_DELTA: &str = "5e0200002f002d38cc41d11420023c005c0d4c1d404b1000020713c0da00e0150010000400";
const EVENT_LIST: &str = "02ffff0f00035f0200000201000016430000af430000070005840300000102";

/// After how many bytes the content of the compressed example repeats. Our encoder ends its matches one byte earlier than
/// the reference encoder does, and so makes 133 bytes of it when the period is one shorter than in [`a_block_made_by_hand`].
const REPEATING_BYTES: u32 = 116;

/// Value, bits and bytes.
const VARINTS: [(u32, u32, &str); 7] = [
    (0, 4, "00"),
    (7, 4, "07"),
    (8, 8, "18"),
    (41, 8, "59"),
    (511, 12, "ff07"),
    (512, 16, "8818"),
    (4294967295, 44, "ffffffffff03"),
];

#[test]
fn the_header() {
    let header = Header {
        kind: PacketKind::Snapshot,
        compressed: false,
        sequence: 0x1234,
        ack: 0xABCD,
        ack_bits: 0x8000_0001,
        session: 0xDEAD_BEEF,
    };
    let bytes = hex(HEADER);
    assert_eq!(Header::parse(&bytes), Ok(header));
    let mut out = [0; HEADER_BYTES];
    header.emit(&mut out);
    assert_eq!(out[..], bytes);
    Header { compressed: true, ..header }.emit(&mut out);
    assert_eq!(out[5], 0x84);
}

#[test]
fn stream_messages() {
    let login = ClientMessage::LoginRequest { version: 1, name: Name::new(b"Ada") };
    assert_eq!(frame(LOGIN_REQUEST).client_message(), Ok(login));
    assert_emits(LOGIN_REQUEST, |out| login.emit(out));

    let accepted = ServerMessage::LoginAccepted {
        session: 0xDEAD_BEEF,
        udp_port: 4243,
        player: player(2),
        tick_rate: 60,
        snapshot_interval: 3,
    };
    assert_eq!(frame(LOGIN_ACCEPTED).server_message(), Ok(accepted));
    assert_emits(LOGIN_ACCEPTED, |out| accepted.emit(out));

    let rejected = ServerMessage::LoginRejected(RejectReason::BadName);
    assert_eq!(frame(LOGIN_REJECTED_BAD_NAME).server_message(), Ok(rejected));
    assert_emits(LOGIN_REJECTED_BAD_NAME, |out| rejected.emit(out));

    assert_eq!(frame(LOGOUT_QUIT).server_message(), Ok(ServerMessage::Logout(LogoutReason::Quit)));
    assert_eq!(frame(LOGOUT_QUIT).client_message(), Ok(ClientMessage::Logout(LogoutReason::Quit)));
    assert_emits(LOGOUT_QUIT, |out| ClientMessage::Logout(LogoutReason::Quit).emit(out));
    assert_emits(LOGOUT_QUIT, |out| ServerMessage::Logout(LogoutReason::Quit).emit(out));
}

#[test]
fn varints() {
    for (value, bits, bytes) in VARINTS {
        let bytes = hex(bytes);
        assert_eq!(varint_bits(value), bits, "{value}");
        let mut reader = BitReader::new(&bytes);
        assert_eq!(reader.varint(), Ok(value));
        assert_eq!(reader.remaining(), bytes.len() * 8 - bits as usize);
        assert_eq!(reader.finish(), Ok(()));
        let mut out = [0xEE; 8];
        let mut writer = BitWriter::new(&mut out);
        writer.put_varint(value);
        assert_eq!(writer.bit_len(), bits as usize);
        let len = writer.finish().unwrap();
        assert_eq!(out[..len], bytes);
    }
}

/// What the world is after the full snapshot.
fn entities_full() -> Vec<(u32, Entity)> {
    vec![
        (1, entity(0, Kind::SHIP, Some(player(0)), 0, [9600, 9600], [0, 0], 1)),
        (2, entity(0, Kind::SHIP, Some(player(2)), 2, [9600, 22400], [256, -128], 1)),
        (9, entity(4, Kind::BYDOS, None, 0, [122880, 19200], [-192, 0], 2)),
        (10, entity(1, Kind::MISSILE, Some(player(0)), 0, [12800, 9600], [1024, 0], 1)),
        (300, entity(0, Kind::TILE, None, 3, [-64, 69120], [-64, 0], 255)),
    ]
}

/// What the world is after the delta snapshot.
fn entities_delta() -> Vec<(u32, Entity)> {
    vec![
        (1, entity(0, Kind::SHIP, Some(player(0)), 0, [9605, 9480], [-256, 0], 1)),
        (2, entity(0, Kind::SHIP, Some(player(2)), 2, [11136, 21632], [256, -128], 1)),
        (9, entity(4, Kind::BYDOS, None, 0, [120000, 19264], [-192, 0], 1)),
        (11, entity(7, Kind::MISSILE, Some(player(2)), 0, [14000, 22400], [1024, 0], 1)),
        (300, entity(0, Kind::TILE, None, 3, [-448, 69120], [-64, 0], 255)),
    ]
}

fn players() -> [Option<PlayerState>; PLAYERS_MAX] {
    let state = |lives, score| Some(PlayerState { alive: true, lives, score });
    [state(3, 0), None, state(2, 1250), None]
}

fn players_delta() -> [Option<PlayerState>; PLAYERS_MAX] {
    let changed = PlayerState { alive: true, lives: 3, score: 100 };
    let [_, one, two, three] = players();
    [Some(changed), one, two, three]
}

fn decoded_full() -> Table {
    let mut table = Table::new(5);
    decode(&hex(SNAPSHOT_FULL), None, &mut table).unwrap();
    table
}

#[test]
fn the_full_snapshot_is_read() {
    let header = SnapshotHeader { tick: 600, input: 41, baseline_age: None };
    assert_eq!(SnapshotHeader::parse(&hex(SNAPSHOT_FULL)), Ok(header));
    let table = decoded_full();
    assert_eq!((table.tick(), table.input()), (600, 41));
    assert_eq!(*table.players(), players());
    assert_eq!(table.iter().map(|(index, &entity)| (index, entity)).collect::<Vec<_>>(), entities_full());
}

#[test]
fn the_full_snapshot_is_written() {
    let mut out = [0xEE; PAYLOAD_BYTES_MAX];
    put_prefix(&mut out, 600, 41);
    let mut bits = BitWriter::new(&mut out[PREFIX_BYTES..]);
    put_baseline(&mut bits, None);
    put_players(&mut bits, &players());
    put_record_count(&mut bits, 5);
    let mut next = 0;
    for (index, entity) in entities_full() {
        put_added(&mut bits, index - next, &entity);
        next = index + 1;
    }
    let len = bits.finish().unwrap();
    assert_eq!(out[..PREFIX_BYTES + len], hex(SNAPSHOT_FULL));
}

#[test]
fn the_delta_snapshot_is_read() {
    let payload = hex(SNAPSHOT_DELTA);
    let header = SnapshotHeader::parse(&payload).unwrap();
    assert_eq!(header, SnapshotHeader { tick: 606, input: 47, baseline_age: Some(6) });
    assert_eq!(header.baseline_tick(), Some(600));
    let mut table = Table::new(5);
    decode(&payload, Some(&decoded_full()), &mut table).unwrap();
    assert_eq!((table.tick(), table.input()), (606, 47));
    assert_eq!(*table.players(), players_delta());
    assert_eq!(table.iter().map(|(index, &entity)| (index, entity)).collect::<Vec<_>>(), entities_delta());
}

#[test]
fn events() {
    let spawn = Event::Spawn {
        tick: 600,
        id: EntityId::new(9, 4),
        kind: Kind::BYDOS,
        owner: None,
        x: 1920.0,
        y: 300.0,
        vx: -180.0,
        vy: 0.0,
    };
    let destroy = Event::Destroy {
        tick: 606,
        id: EntityId::new(10, 1),
        reason: DestroyReason::Killed,
        x: 296.0,
        y: 150.0,
    };
    let death = Event::Death { tick: 607, player: player(2), lives: 1, x: 150.0, y: 350.0 };
    let joined =
        Event::PlayerJoined { tick: 12, player: player(1), name: Name::new("Zoé!".as_bytes()).unwrap() };
    let left = Event::PlayerLeft { tick: 900, player: player(1), reason: LeaveReason::Timeout };
    let score = |slot, score| Some(Score { player: player(slot), score });
    let over = Event::GameOver { tick: 3600, scores: [score(0, 4200), score(2, 1250), None, None] };
    for (event, content) in [
        (spawn, "01580200000900000402ff0000f04400009643000034c300000000"),
        (destroy, "025e0200000a000001010000944300001643"),
        (death, "035f0200000201000016430000af43"),
        (joined, "040c0000000105005a6fc3a921"),
        (left, "05840300000102"),
        (over, "06100e000002006810000002e2040000"),
    ] {
        assert_eq!(Event::parse(&hex(content)), Ok(event));
        assert_emits(content, |out| event.emit(out));
    }
}

#[test]
fn the_delta_snapshot_is_written() {
    let baseline = decoded_full();
    let now = entities_delta();
    let at = |index| now.iter().find(|(at, _)| *at == index).unwrap().1;
    let predicted = |index| baseline.get(index).unwrap().predicted(6);
    let mut out = [0xEE; PAYLOAD_BYTES_MAX];
    put_prefix(&mut out, 606, 47);
    let mut bits = BitWriter::new(&mut out[PREFIX_BYTES..]);
    put_baseline(&mut bits, Some(6));
    put_players(&mut bits, &[players_delta()[0], None, None, None]);
    put_record_count(&mut bits, 4);
    put_updated(&mut bits, 1, &predicted(1), &at(1));
    put_updated(&mut bits, 9 - 2, &predicted(9), &at(9));
    put_removed(&mut bits, 0);
    put_added(&mut bits, 0, &at(11));
    let len = bits.finish().unwrap();
    assert_eq!(out[..PREFIX_BYTES + len], hex(SNAPSHOT_DELTA));
}

#[test]
fn the_event_list() {
    let payload = hex(EVENT_LIST);
    let list = EventList::parse(&payload).unwrap();
    let events: Vec<_> = list.iter().map(|(id, content)| (id, Event::parse(content).unwrap())).collect();
    assert_eq!(
        events,
        [
            (65535, Event::Death { tick: 607, player: player(2), lives: 1, x: 150.0, y: 350.0 }),
            (0, Event::PlayerLeft { tick: 900, player: player(1), reason: LeaveReason::Timeout }),
        ]
    );
    assert_emits(EVENT_LIST, |out| {
        let mut writer = EventListWriter::new(out);
        for (id, event) in &events {
            assert!(writer.push(*id, |content| event.emit(content)));
        }
        writer.finish().unwrap()
    });
}

/// The compressed example of section 2.6: one event of 300 bytes that repeat, compressed to a block of 133 bytes.
#[test]
fn the_compressed_event_datagram() {
    let content: Vec<u8> = (0..300u32).map(|at| (at % REPEATING_BYTES) as u8).collect();
    let mut payload = [0; PAYLOAD_BYTES_MAX];
    let mut writer = EventListWriter::new(&mut payload);
    assert!(writer.push_content(0, &content));
    let len = writer.finish().unwrap();
    assert_eq!(len, 305);
    let header = Header {
        kind: PacketKind::Event,
        compressed: true,
        sequence: 0,
        ack: u16::MAX,
        ack_bits: 0,
        session: 1,
    };
    let mut datagram = [0; HEADER_BYTES + PAYLOAD_BYTES_MAX];
    let (head, room) = datagram.split_first_chunk_mut().unwrap();
    header.emit(head);
    let compressed_len = lz4::Compressor::new().compress(&payload[..len], room).unwrap();
    assert_eq!(compressed_len, 2 + 133);
    let datagram = &datagram[..HEADER_BYTES + compressed_len];
    assert_eq!((datagram[5], datagram.len(), HEADER_BYTES + len), (0x85, 153, 323));
    assert_eq!(datagram[HEADER_BYTES..HEADER_BYTES + 2], 305u16.to_le_bytes());

    let mut original = [0; PAYLOAD_BYTES_MAX];
    assert_eq!(lz4::decompress(&datagram[HEADER_BYTES..], &mut original), Ok(305));
    assert_eq!(original, payload);
    assert_eq!(EventList::parse(&original[..305]).unwrap().iter().next(), Some((0, &content[..])));
}

/// A block of 133 bytes put together by hand: 122 literals, one match of 178 bytes back over them, five literals.
#[test]
fn a_block_made_by_hand() {
    const PERIOD: usize = 117;
    let original: Vec<u8> =
        [1, 0, 0, 44, 1].into_iter().chain((0..300).map(|at| (at % PERIOD) as u8)).collect();
    let mut bytes = 305u16.to_le_bytes().to_vec();
    let (literals, last) = (5 + PERIOD, 5);
    let matched = original.len() - literals - last;
    bytes.extend([0xFF, (literals - 15) as u8]);
    bytes.extend(&original[..literals]);
    bytes.extend([PERIOD as u8, 0, (matched - 4 - 15) as u8]);
    bytes.push((last as u8) << 4);
    bytes.extend(&original[original.len() - last..]);
    assert_eq!(bytes.len(), 2 + 133);
    let mut out = [0; PAYLOAD_BYTES_MAX];
    assert_eq!(lz4::decompress(&bytes, &mut out), Ok(305));
    assert_eq!(out[..305], original);
}

#[test]
fn the_codec_and_the_protocol_agree_on_the_largest_payload() {
    assert_eq!(lz4::PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_MAX);
}

fn entity(
    generation: u8,
    kind: Kind,
    owner: Option<PlayerId>,
    variant: u8,
    [x, y]: [i32; 2],
    [vx, vy]: [i16; 2],
    health: u8,
) -> Entity {
    let mut entity = Entity::new(kind).with_owner(owner).with_variant(variant).moving(x, y, vx, vy);
    entity.generation = generation;
    entity.health = health;
    entity
}

fn player(slot: u8) -> PlayerId {
    PlayerId::new(slot).unwrap()
}

fn frame(message: &str) -> Frame {
    let bytes = hex(message);
    let mut rest = &bytes[..];
    let frame = FrameReader::new().push(&mut rest).unwrap().unwrap();
    assert!(rest.is_empty());
    frame
}

fn assert_emits(expected: &str, emit: impl FnOnce(&mut [u8]) -> usize) {
    let mut out = [0xEE; 64];
    let len = emit(&mut out);
    assert_eq!(out[..len], hex(expected));
}

fn hex(digits: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(byte).collect()
}
