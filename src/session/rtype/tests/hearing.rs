//! What a packet brings, and what is dropped (2.2, 5.3, 5.4, 7), and the times of a connection.

use proptest::prelude::*;

use super::*;
use crate::model::PlayerInput;

fn held(bits: u8) -> PlayerInput {
    PlayerInput { held: Controls::from_bits(bits).unwrap(), fire: false }
}

/// 5.4: shorter than a header, another connection's, duplicate; 2.2: too long. Nothing changes.
#[test]
fn rtype_5_4_the_servers_checks() {
    let mut session = session();
    let ping = packet(1, |writer| {
        writer.push(&Ping { timestamp: 1 });
    });
    for len in 0..16 {
        assert_eq!(hear(&mut session, 1000, &ping[..len]), Err(DropReason::TruncatedHeader), "{len} bytes");
    }
    for id in [0, ID - 1, ID + 1, u32::MAX] {
        let mut foreign = ping.clone();
        foreign[..4].copy_from_slice(&id.to_be_bytes());
        assert_eq!(hear(&mut session, 1000, &foreign), Err(DropReason::Foreign));
    }
    let large = raw_packet(1, &[raw_message(0x77, &[0; 529])]);
    assert_eq!((large.len(), hear(&mut session, 1000, &large)), (549, Err(DropReason::TooLarge)));
    assert!(!session.is_proven(), "none of these says that somebody is there");
    assert!(!session.has_unsent());
    assert_eq!(hear(&mut session, 1000, &ping), Ok(Heard::Nothing), "sequence 1 is still new");
    let largest = raw_packet(2, &[raw_message(0x77, &[0; 528])]);
    assert_eq!((largest.len(), hear(&mut session, 1000, &largest)), (548, Ok(Heard::Nothing)));
}

/// 5.3: bad framing anywhere drops the whole packet, good messages in front included, and its sequence stays unseen.
#[test]
fn rtype_5_3_bad_framing_drops_the_whole_packet() {
    let mut session = session();
    let good = raw_packet(1, &[raw_message(3, &[0, 0, 0, 9]), raw_message(4, &[1])]);
    for len in 17..good.len() {
        let heard = hear(&mut session, 1000, &good[..len]);
        if len == 24 {
            assert_eq!(heard, Ok(Heard::Nothing), "the Ping alone");
            assert_eq!(says(&mut session, 1000, &room(0)), [Said::Pong(9)]);
            session.reset(at(1000), connection(), IDLE_TIMEOUT);
        } else {
            assert_eq!(heard, Err(DropReason::MalformedPacket), "{len} bytes");
            assert!(!session.has_unsent() && !session.is_proven());
        }
    }
    let mut trailing = good.clone();
    trailing.push(0);
    assert_eq!(hear(&mut session, 1000, &trailing), Err(DropReason::MalformedPacket));
    assert_eq!(hear(&mut session, 1000, &good), Ok(Heard::Leaves));
}

/// 6: messages of unknown types are ignored, the server's own among them, and all others processed.
#[test]
fn rtype_6_unknown_messages_are_ignored() {
    let mut session = session();
    let mut messages = Vec::new();
    for kind in [1, 5, 0x12, 0x14, 0x7F, 0x83, 0x84, 0x85, 0x86, 0xFF, 0x0100, 0x0200, 0xFFFF] {
        messages.push(raw_message(kind, &[kind as u8]));
        messages.push(raw_message(kind, &[]));
    }
    messages.push(raw_message(3, &[0, 0, 0, 9]));
    assert_eq!(hear(&mut session, 1000, &raw_packet(1, &messages)), Ok(Heard::Nothing));
    assert_eq!(says(&mut session, 1000, &room(0)), [Said::Pong(9)]);
}

/// A malformed message is dropped alone, and told of; the packet counts as received, with its other messages.
#[test]
fn malformed_messages_are_dropped_alone() {
    let ping = raw_message(3, &[0, 0, 0, 9]);
    let cases = [
        (raw_message(0, &[]), DropReason::MalformedPacket),
        (raw_message(2, &[0; 8]), DropReason::MalformedInput),
        (raw_message(2, &[0; 10]), DropReason::MalformedInput),
        (raw_message(2, &[0, 0, 0, 1, 0, 0, 0, 1, 0x20]), DropReason::MalformedInput),
        (raw_message(3, &[0; 3]), DropReason::MalformedPing),
        (raw_message(3, &[0; 5]), DropReason::MalformedPing),
        (raw_message(4, &[]), DropReason::MalformedDisconnect),
        (raw_message(4, &[1, 1]), DropReason::MalformedDisconnect),
        (raw_message(4, &[0]), DropReason::MalformedDisconnect),
        (raw_message(4, &[5]), DropReason::MalformedDisconnect),
        (raw_message(0x13, &[0, 0, 1]), DropReason::MalformedQuery),
        (raw_message(0x13, &[0; 5]), DropReason::MalformedQuery),
        (raw_message(0x13, &[0; 4]), DropReason::MalformedQuery),
    ];
    for (malformed, reason) in cases {
        let mut session = session();
        let bytes = raw_packet(3, &[malformed, raw_message(0, &[1]), ping.clone()]);
        assert_eq!(hear(&mut session, 1000, &bytes), Ok(Heard::Malformed(reason)));
        assert!(reason.is_malformed() && session.is_proven());
        let [(header, said)] = &packets(&mut session, 1000, &room(1))[..] else { panic!("one packet") };
        assert_eq!((header.ack, &said[..]), (3, &[Said::Pong(9)][..]), "{reason:?}");
        assert_eq!(session.take_input(), PlayerInput::default());
    }
}

/// 7.1: the input must be newer than the last one accepted, by a signed difference that may wrap.
#[test]
fn rtype_7_1_old_inputs_are_dropped() {
    let mut session = session();
    let mut next = 0;
    let mut give = |session: &mut Session, sequence, bits| {
        next += 1;
        let bytes = packet(next, |writer| {
            writer.push(&input(sequence, bits));
        });
        assert_eq!(hear(session, 1000, &bytes), Ok(Heard::Nothing));
        session.take_input().held.bits()
    };
    assert_eq!(give(&mut session, 10, 1), 1);
    assert_eq!(give(&mut session, 10, 2), 1, "the same again");
    assert_eq!(give(&mut session, 9, 2), 1, "older");
    assert_eq!(give(&mut session, 11, 2), 2);
    assert_eq!(give(&mut session, 11 + (1 << 31), 4), 2, "half way round is not newer");
    assert_eq!(give(&mut session, 10 + (1 << 31), 4), 4, "just less is");
    assert_eq!(give(&mut session, u32::MAX, 8), 8);
    assert_eq!(give(&mut session, 0, 1), 1, "it wraps");
    assert_eq!(give(&mut session, u32::MAX, 8), 1);
    assert_eq!(give(&mut session, 1, 2), 2);
}

/// An out-of-order packet counts, but an older Input in it does not.
#[test]
fn rtype_7_1_an_overtaken_input_does_not_come_back() {
    let mut session = session();
    for (packet_sequence, input_sequence, bits) in [(2, 2, Controls::UP), (1, 1, Controls::DOWN)] {
        let bytes = packet(packet_sequence, |writer| {
            writer.push(&input(input_sequence, bits));
            writer.push(&Ping { timestamp: input_sequence });
        });
        assert_eq!(hear(&mut session, 1000, &bytes), Ok(Heard::Nothing));
    }
    assert_eq!(session.take_input(), held(Controls::UP));
    assert_eq!(says(&mut session, 1000, &room(0)), [Said::Pong(2), Said::Pong(1)]);
}

/// 7.1: the trigger fires when it is let go, even within one packet.
#[test]
fn rtype_7_1_a_release_fires() {
    let mut session = session();
    let bytes = packet(1, |writer| {
        for (sequence, bits) in [(1, Controls::SHOOT), (2, Controls::RIGHT), (3, Controls::SHOOT)] {
            writer.push(&input(sequence, bits));
        }
    });
    hear(&mut session, 1000, &bytes).unwrap();
    assert!(session.take_input().fire);
    assert!(!session.take_input().fire);
}

/// 7.2: a Pong with the same timestamp for each Ping; beyond a few at once no more.
#[test]
fn rtype_7_2_pings_are_answered_in_bounded_number() {
    let mut session = session();
    let bytes = packet(1, |writer| {
        (0..10).for_each(|timestamp| {
            writer.push(&Ping { timestamp: timestamp * 0x01010101 });
        });
    });
    hear(&mut session, 1000, &bytes).unwrap();
    assert!(session.has_unsent());
    let pongs = [0, 0x01010101, 0x02020202, 0x03030303].map(Said::Pong);
    assert_eq!(says(&mut session, 1000, &room(0)), pongs);
    assert!(!session.has_unsent());
}

/// 7.3: every reason is a Disconnect, and what follows it in its packet is not looked at.
#[test]
fn rtype_7_3_a_disconnect_leaves_at_once() {
    for reason in 1..=4 {
        let mut session = session();
        let reason = DisconnectReason::from_value(reason).unwrap();
        let bytes = packet(1, |writer| {
            writer.push(&Ping { timestamp: 1 });
            writer.push(&Disconnect { reason });
            writer.push(&QueryEntity { id: EntityId(1) });
        });
        assert_eq!(hear(&mut session, 1000, &bytes), Ok(Heard::Leaves));
        assert_eq!(says(&mut session, 1000, &room(1)), [Said::Pong(1)]);
    }
}

/// 7.4: a CreateEntity for one that exists, nothing for one that does not, one answer for several questions.
#[test]
fn rtype_7_4_queries_are_answered_by_the_living() {
    let mut session = session();
    let mut room = room(3);
    room.remove(2);
    let bytes = packet(1, |writer| {
        for id in [3, 2, 3, 1, 0x01000001, 1023, 9999, u32::MAX, 1 << 24] {
            writer.push(&QueryEntity { id: EntityId(id) });
        }
    });
    hear(&mut session, 1000, &bytes).unwrap();
    assert_eq!(says(&mut session, 1000, &room), [Said::Create(3), Said::Create(1)]);
    assert!(!session.has_unsent());
    // The next use of the index is another entity.
    let id = room.insert(Entity::new(Kind::BYDOS)).unwrap();
    assert_eq!(id.0, 0x01000002);
    let bytes = packet(2, |writer| {
        writer.push(&QueryEntity { id: EntityId(2) });
        writer.push(&QueryEntity { id });
    });
    hear(&mut session, 1000, &bytes).unwrap();
    assert_eq!(says(&mut session, 1000, &room), [Said::Create(0x01000002)]);
}

/// However much is asked for, what is answered is bounded.
#[test]
fn queries_that_wait_are_bounded() {
    let mut session = session();
    let room = room(500);
    for sequence in 1..=4 {
        let bytes = packet(sequence, |writer| {
            (1..=60).for_each(|id| {
                writer.push(&QueryEntity { id: EntityId(sequence * 100 + id) });
            });
        });
        hear(&mut session, 1000, &bytes).unwrap();
    }
    assert_eq!(says(&mut session, 1000, &room).len(), QUERIES_MAX);
}

/// Lost Welcome: the same again for an exact Hello, at most every 500 ms, until the first valid packet.
#[test]
fn welcome_is_repeated_until_the_client_proves_itself() {
    let mut session = session();
    let hello = b"RTYP\x01\x01";
    assert_eq!(hear(&mut session, 1499, hello), Ok(Heard::Nothing));
    assert_eq!(hear(&mut session, 1500, hello), Ok(Heard::WantsWelcome));
    assert_eq!(hear(&mut session, 1999, hello), Ok(Heard::Nothing));
    assert_eq!(hear(&mut session, 2000, hello), Ok(Heard::WantsWelcome));
    for wrong in [&b"RTYP\x01\x01\x00"[..], b"RTYP\x02\x01", b"RTYP\x01\x02", b"RTYP\x01", b""] {
        assert_eq!(hear(&mut session, 3000, wrong), Err(DropReason::TruncatedHeader), "{wrong:?}");
    }
    assert!(!session.is_proven(), "a Hello proves nothing");
    hear(&mut session, 3000, &empty(1)).unwrap();
    assert!(session.is_proven());
    assert_eq!(hear(&mut session, 4000, hello), Err(DropReason::TruncatedHeader));
}

/// Nobody there: forgotten after 5 s, whatever the idle time. Then 10 s after the last valid packet, or never.
#[test]
fn silence_ends_a_connection() {
    for (idle, last) in
        [(IDLE_TIMEOUT, Some(12_000)), (Duration::ZERO, None), (Duration::from_secs(60), Some(62_000))]
    {
        let mut session = Session::new();
        session.reset(at(1000), connection(), idle);
        hear(&mut session, 1600, b"RTYP\x01\x01").unwrap();
        assert_eq!(session.next_deadline(), Some(at(6000)));
        assert!(!session.is_timed_out(at(5999)) && session.is_timed_out(at(6000)));
        hear(&mut session, 2000, &empty(1)).unwrap();
        // None of these is a sign of life.
        assert!(hear(&mut session, 3000, &empty(1)).is_err());
        assert!(hear(&mut session, 3000, &empty(2)[..15]).is_err());
        assert!(hear(&mut session, 3000, b"RTYP\x01\x01").is_err());
        assert_eq!(session.next_deadline(), last.map(at));
        if let Some(last) = last {
            assert!(!session.is_timed_out(at(last - 1)) && session.is_timed_out(at(last)));
        }
        assert!(idle != Duration::ZERO || !session.is_timed_out(Instant::MAX));
    }
}

#[test]
fn more_than_240_datagrams_in_a_second_are_not_heard() {
    let mut session = session();
    assert_eq!((0..300).filter(|_| session.may_hear(at(1999))).count(), 240);
    assert!(session.may_hear(at(2000)));
}

#[test]
fn a_hundred_malformed_in_five_seconds_break_a_client() {
    let mut session = session();
    assert!((0..99).all(|hit| !session.is_broken_by_malformed(at(1000 + hit * 50))));
    assert!(session.is_broken_by_malformed(at(6000)));
    assert_eq!(session.malformed_count(), 100);
    session.reset(at(9000), connection(), IDLE_TIMEOUT);
    assert_eq!(session.malformed_count(), 0);
}

/// A slot starts anew.
#[test]
fn nothing_is_left_of_the_connection_before() {
    let mut session = session();
    session.push_notice(Notice::Create(EntityId(1))).unwrap();
    let bytes = packet(90, |writer| {
        writer.push(&input(50, Controls::UP));
        writer.push(&Ping { timestamp: 1 });
        writer.push(&QueryEntity { id: EntityId(1) });
    });
    hear(&mut session, 1000, &bytes).unwrap();
    session.reset(at(2000), Connection { id: 8, ..connection() }, IDLE_TIMEOUT);
    assert!(!session.has_unsent() && !session.is_proven() && session.notices_pending() == 0);
    assert_eq!(session.take_input(), PlayerInput::default());
    let mut out = [0; 548];
    let (len, _) = session.write_snapshot(at(2000), Tick(1), &room(0), 0..u32::MAX, &mut out);
    assert_eq!(
        said(&out[..len]),
        (Header { connection: 8, sequence: 1, ack: 0, ack_bits: 0 }, vec![Said::Snapshot(vec![])])
    );
    assert_eq!(hear(&mut session, 2000, &empty(91)), Err(DropReason::Foreign));
}

#[test]
fn messages_have_their_types() {
    assert_eq!([Input::KIND, Ping::KIND, Disconnect::KIND, QueryEntity::KIND], [2, 3, 4, 0x13]);
    assert_eq!([CreateEntity::KIND, DestroyEntity::KIND, Pong::KIND], [0x84, 0x85, 0x86]);
}

proptest! {
    /// Whatever well framed messages say, and whatever is acknowledged: no panic, and a bounded answer.
    #[test]
    fn any_messages_are_heard_without_a_panic(
        packets in prop::collection::vec(
            (0..40u32, 0..6u32, any::<u32>(), prop::collection::vec((0..22u16, prop::collection::vec(0..4u8, 0..12)), 0..12)),
            1..20,
        ),
    ) {
        let mut session = session();
        let room = room(10);
        for (sequence, ack, bits, messages) in packets {
            let messages: Vec<Vec<u8>> =
                messages.iter().map(|(kind, payload)| raw_message(*kind, payload)).collect();
            let mut bytes = packet_acking(sequence, ack, bits, |_| ());
            bytes.extend(messages.concat());
            let before = session.link().receipts().ack();
            match hear(&mut session, 1000, &bytes) {
                Ok(Heard::WantsWelcome) => panic!("no Hello was said"),
                Ok(_) => prop_assert!(session.link().receipts().ack() >= before),
                Err(reason) => {
                    prop_assert!(matches!(reason, DropReason::Stale | DropReason::TooLarge), "{:?}", reason);
                    prop_assert_eq!(session.link().receipts().ack(), before);
                }
            }
            // Four Pongs, and the few entities that there are.
            let said = says(&mut session, 1000, &room);
            prop_assert!(said.len() <= 4 + 12, "{:?}", said);
        }
    }

    #[test]
    fn any_bytes_are_heard_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let mut session = session();
        let mut with_id = ID.to_be_bytes().to_vec();
        with_id.extend(&bytes);
        let _ = (hear(&mut session, 1000, &bytes), hear(&mut session, 1000, &with_id), check_hello(&bytes));
        says(&mut session, 1000, &room(1));
    }
}
