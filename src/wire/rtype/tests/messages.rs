//! Messages: sizes, values, and Snapshots (sections 6 to 8).

use super::*;

fn parse_client(kind: u16, payload: &[u8]) -> Result<ClientMessage, MessageError> {
    ClientMessage::parse(&RawMessage { kind, payload })
}

fn parse_server(kind: u16, payload: &[u8]) -> Result<ServerMessage<'_>, MessageError> {
    ServerMessage::parse(&RawMessage { kind, payload })
}

fn server_error(kind: u16, payload: &[u8]) -> Option<MessageError> {
    parse_server(kind, payload).err()
}

/// Section 12: fixed sizes are exact, for every type.
#[test]
fn rtype_6_every_fixed_size_is_exact() {
    let ones = [1; 40];
    for (kind, size) in [(0x0002, 9), (0x0003, 4), (0x0004, 1), (0x0013, 4)] {
        for len in 0..=40 {
            let error = parse_client(kind, &ones[..len]).err();
            assert_eq!(error, (len != size).then_some(MessageError::Size), "type {kind:#x}, {len} bytes");
        }
    }
    for (kind, size) in [(0x0084, 16), (0x0085, 9), (0x0086, 4)] {
        for len in 0..=40 {
            let error = server_error(kind, &ones[..len]);
            assert_eq!(error, (len != size).then_some(MessageError::Size), "type {kind:#x}, {len} bytes");
        }
    }
}

/// 6: types that the receiver does not know are told as such, the other side's own among them; 0 is invalid.
#[test]
fn rtype_6_unknown_types_are_told_apart_from_type_0() {
    for kind in 1..=u16::MAX {
        let is_unknown = parse_client(kind, &[]) == Err(MessageError::UnknownKind);
        assert_eq!(is_unknown, ![2, 3, 4, 0x13].contains(&kind), "{kind:#x}");
        let is_unknown = server_error(kind, &[]) == Some(MessageError::UnknownKind);
        assert_eq!(is_unknown, !(0x83..=0x86).contains(&kind), "{kind:#x}");
    }
    assert_eq!(parse_client(0, &[]), Err(MessageError::ZeroKind));
    assert_eq!(server_error(0, &[]), Some(MessageError::ZeroKind));
}

/// 7.1: bits 5 to 7 are 0; all others may be set together.
#[test]
fn rtype_7_1_reserved_bits_must_be_0() {
    for actions in 0..=255u8 {
        let parsed = parse_client(2, &[0, 0, 0, 1, 0, 0, 0, 2, actions]);
        let expected =
            Controls::from_bits(actions).map(|controls| Input { sequence: 1, client_tick: 2, controls });
        assert_eq!(parsed, expected.map(ClientMessage::Input).ok_or(MessageError::Actions));
    }
    let Ok(ClientMessage::Input(input)) = parse_client(2, &[0, 0, 0, 1, 0, 0, 0, 2, 0x19]) else {
        panic!("an Input")
    };
    assert_eq!(
        (input.controls.horizontal(), input.controls.vertical(), input.controls.shoot()),
        (1, -1, true)
    );
}

/// 7.3 and section 12: enum values out of range.
#[test]
fn rtype_7_3_reasons_out_of_range_are_told() {
    for reason in 0..=255u8 {
        let is_valid = parse_client(4, &[reason]).is_ok();
        assert_eq!(is_valid, (1..=4).contains(&reason), "{reason}");
    }
}

/// 7.4: entity 0 is nobody.
#[test]
fn rtype_7_4_a_query_for_0_is_told() {
    assert_eq!(parse_client(0x13, &[0; 4]), Err(MessageError::NetworkId));
    assert!(parse_client(0x13, &[0, 0, 0, 1]).is_ok() && parse_client(0x13, &[1, 0, 0, 0]).is_ok());
}

/// 8.2: id 0; any archetype is for the client to know or ignore.
#[test]
fn rtype_8_2_a_creation_of_0_is_told() {
    let mut payload = [1; 16];
    assert!(parse_server(0x84, &payload).is_ok());
    payload[4..8].fill(0);
    assert_eq!(server_error(0x84, &payload), Some(MessageError::NetworkId));
}

/// 8.3: id 0, and reasons above 4.
#[test]
fn rtype_8_3_a_destruction_of_0_or_for_no_reason_is_told() {
    for reason in 0..=255u8 {
        let mut payload = [1; 9];
        payload[8] = reason;
        assert_eq!(server_error(0x85, &payload), (reason > 4).then_some(MessageError::Reason), "{reason}");
        payload[4..8].fill(0);
        assert_eq!(server_error(0x85, &payload), Some(MessageError::NetworkId));
    }
}

fn state(id: u32) -> EntityState {
    EntityState {
        id: EntityId(id),
        archetype_low: 0xFF,
        x: Pos16(0x9F40),
        y: Pos16(0x84B0),
        rotation: Rot16(0x0102),
    }
}

fn snapshot_payload(ids: impl IntoIterator<Item = u32>) -> Vec<u8> {
    let mut states = ids.into_iter().map(state);
    let bytes = packet(|writer| {
        writer.snapshot(7, &mut states).unwrap();
    });
    messages(&bytes)[0].payload.to_vec()
}

#[test]
fn rtype_8_1_the_bytes_of_a_snapshot() {
    let payload = snapshot_payload([0x01020304, 5]);
    assert_eq!(payload, hex("00000007 0002 01020304 FF 9F40 84B0 0102 00000005 FF 9F40 84B0 0102"));
    let snapshot = Snapshot::parse(&payload).unwrap();
    assert_eq!((snapshot.tick, snapshot.len()), (7, 2));
    assert!(snapshot.iter().eq([state(0x01020304), state(5)]));
    assert!(Snapshot::parse(&snapshot_payload([])).unwrap().is_empty());
}

/// 8.1: at most 47 states; the rest goes into further packets.
#[test]
fn rtype_8_1_a_snapshot_has_at_most_47_states() {
    let mut states = (1..=100).map(state);
    let mut counts = Vec::new();
    let mut ids = Vec::new();
    for _ in 0..3 {
        let bytes = packet(|writer| counts.push(writer.snapshot(7, &mut states).unwrap()));
        assert!(bytes.len() <= DATAGRAM_BYTES_MAX);
        let messages = messages(&bytes);
        let Ok(ServerMessage::Snapshot(snapshot)) = ServerMessage::parse(&messages[0]) else {
            panic!("a Snapshot")
        };
        ids.extend(snapshot.iter().map(|state| state.id.0));
    }
    assert_eq!(counts, [47, 47, 6]);
    assert!(ids.into_iter().eq(1..=100));
    let mut payload = snapshot_payload(1..=47);
    payload[5] = 48;
    payload.extend([1; 11]);
    assert_eq!(server_error(0x83, &payload), Some(MessageError::Count));
}

/// 8.1: the size is 6 + 11 × count exactly, and the count is checked before anything else.
#[test]
fn rtype_8_1_the_size_of_a_snapshot_follows_from_its_count() {
    let whole = snapshot_payload(1..=5);
    for len in (0..whole.len()).chain([whole.len() + 1, whole.len() + 11]) {
        let mut payload = whole.clone();
        payload.resize(len, 9);
        assert_eq!(server_error(0x83, &payload), Some(MessageError::Size), "{len} bytes");
    }
    for count in 0..=u16::MAX {
        let mut payload = whole.clone();
        payload[4..6].copy_from_slice(&count.to_be_bytes());
        let expected = match count {
            5 => None,
            48.. => Some(MessageError::Count),
            _ => Some(MessageError::Size),
        };
        assert_eq!(server_error(0x83, &payload), expected, "{count} states");
    }
}

/// 8.1: an id of 0, or one that comes twice, wherever.
#[test]
fn rtype_8_1_a_snapshot_with_0_or_a_repeated_id_is_told() {
    for at in 0..STATES_MAX {
        let mut payload = snapshot_payload(1..=47);
        payload[6 + at * 11..][..4].fill(0);
        assert_eq!(server_error(0x83, &payload), Some(MessageError::NetworkId), "state {at}");
        for other in (0..STATES_MAX).filter(|&other| other != at) {
            payload[6 + at * 11..][..4].copy_from_slice(&(other as u32 + 1).to_be_bytes());
            assert_eq!(server_error(0x83, &payload), Some(MessageError::Repeated), "{at} and {other}");
        }
    }
}

#[test]
#[should_panic(expected = "a state of nobody")]
fn a_snapshot_of_nobody_asserts() {
    snapshot_payload([0]);
}

#[test]
#[should_panic(expected = "a message about nobody")]
fn a_message_about_nobody_asserts() {
    packet(|writer| {
        writer.push(&QueryEntity { id: EntityId(0) });
    });
}

#[test]
fn reasons_of_the_world_become_those_of_the_wire() {
    use crate::model::DestroyReason as World;
    let reasons = [World::Killed, World::OutOfBounds, World::Expired, World::Reset, World::OwnerLeft];
    assert_eq!(reasons.map(|reason| DestroyReason::from(reason) as u8), [1, 1, 1, 4, 3]);
}
