//! Notices until they arrived, and Snapshots (8.1 to 8.3).

use super::*;
use crate::rng::Rng;

fn create(id: u32) -> Notice {
    Notice::Create(EntityId(id))
}

fn destroy(id: u32) -> Notice {
    Notice::Destroy(EntityId(id), DestroyReason::Gameplay)
}

fn ack(session: &mut Session, ms: u64, sequence: u32, ack: u32, bits: u32) {
    let bytes = packet_acking(sequence, ack, bits, |_| ());
    assert_eq!(hear(session, ms, &bytes), Ok(Heard::Nothing));
}

/// Notices go in their order, many in a packet, none above 548 bytes.
#[test]
fn notices_share_packets() {
    let mut session = session();
    let room = room(100);
    (1..=60).for_each(|id| session.push_notice(create(id)).unwrap());
    session.push_notice(destroy(500)).unwrap();
    let packets = packets(&mut session, 1000, &room);
    let counts: Vec<usize> = packets.iter().map(|(_, said)| said.len()).collect();
    assert_eq!(counts, [26, 26, 9]);
    let said: Vec<Said> = packets.into_iter().flat_map(|(_, said)| said).collect();
    assert!(said[..60].iter().cloned().eq((1..=60).map(Said::Create)));
    assert_eq!(said[60], Said::Destroy(500, DestroyReason::Gameplay));
}

/// 8.2: the message says where the entity is when it is sent, not when it appeared.
#[test]
fn rtype_8_2_a_creation_tells_of_now() {
    let mut session = session();
    let mut room = room(1);
    session.push_notice(create(1)).unwrap();
    room.get_mut(1).unwrap().x = 64 * 2000;
    let mut out = [0; 548];
    let len = session.write_notices(at(1000), Tick(600), &room, &mut out).unwrap();
    let raw = Packet::parse(&out[..len]).unwrap().messages().next().unwrap();
    let Ok(ServerMessage::CreateEntity(message)) = ServerMessage::parse(&raw) else { panic!("a creation") };
    assert_eq!((message.tick, message.x.0, message.archetype), (600, 0x9F40, 0x87FF));
}

/// An entity that is gone before its creation was sent is not created; its Destroy is sent all the same.
#[test]
fn who_is_gone_is_not_created() {
    let mut session = session();
    let mut room = room(2);
    (1..=2).for_each(|id| session.push_notice(create(id)).unwrap());
    room.remove(1);
    session.push_notice(destroy(1)).unwrap();
    let said = says(&mut session, 1000, &room);
    assert_eq!(said, [Said::Create(2), Said::Destroy(1, DestroyReason::Gameplay)]);
    // And where nothing is left to say, nothing is sent and nothing waits.
    session.push_notice(create(1)).unwrap();
    assert!(packets(&mut session, 1001, &room).is_empty());
    assert_eq!((session.has_unsent(), session.notices_pending()), (false, 3));
}

/// A notice whose packet is overtaken by three acknowledged ones is lost, and sent again.
#[test]
fn lost_notices_are_sent_again_when_overtaken() {
    let mut session = session();
    let room = room(1);
    let mut out = [0; 548];
    session.push_notice(destroy(9)).unwrap();
    assert_eq!(packets(&mut session, 1000, &room)[0].0.sequence, 1);
    for sequence in 2..=4 {
        session.write_snapshot(at(1000), Tick(1), &room, 0..u32::MAX, &mut out);
        assert_eq!(says(&mut session, 1010, &room), [], "overtaken by {}", sequence - 2);
        ack(&mut session, 1010, sequence, sequence, 0);
    }
    assert!(session.is_resend_due(at(1010)));
    let again = packets(&mut session, 1010, &room);
    assert_eq!((again[0].0.sequence, &again[0].1[..]), (5, &[Said::Destroy(9, DestroyReason::Gameplay)][..]));
    // The acknowledgement of either packet settles it.
    ack(&mut session, 1020, 9, 4, 0b100);
    assert_eq!((session.notices_pending(), session.is_resend_due(Instant::MAX)), (0, false));
}

/// Without newer packets the time tells: the round trip and its variance, 50 ms at least and a second at most.
#[test]
fn lost_notices_are_sent_again_after_a_time() {
    let mut session = session();
    let room = room(1);
    session.push_notice(destroy(8)).unwrap();
    says(&mut session, 1000, &room);
    ack(&mut session, 1020, 1, 1, 0);
    session.push_notice(destroy(9)).unwrap();
    says(&mut session, 2000, &room);
    // 20 ms + 4 × 10 ms.
    assert_eq!(session.next_deadline(), Some(at(2060)));
    assert_eq!(says(&mut session, 2059, &room), []);
    assert_eq!(says(&mut session, 2060, &room), [Said::Destroy(9, DestroyReason::Gameplay)]);
    assert_eq!(session.next_deadline(), Some(at(2180)), "twice as long");
}

/// A client that never acknowledges is told each thing once, and holds up nothing however long it stays.
#[test]
fn nothing_is_resent_to_a_client_that_never_acknowledges() {
    let mut session = session();
    let room = room(100);
    let mut told = Vec::new();
    for id in 1..=2000u32 {
        let ms = 1000 + u64::from(id) * 100;
        session.push_notice(destroy(id)).unwrap();
        told.extend(says(&mut session, ms, &room));
        assert!(!session.is_resend_due(Instant::MAX));
        hear(&mut session, ms, &empty(id)).unwrap();
        assert!(session.notices_pending() <= 31, "{}", session.notices_pending());
        assert!(session.has_room_for_sync());
    }
    assert!(told.into_iter().eq((1..=2000).map(|id| Said::Destroy(id, DestroyReason::Gameplay))));
}

/// Nor does one that says nothing at all: what it was told is given up when room is needed.
#[test]
fn a_silent_client_is_told_everything_once() {
    let mut session = session();
    let room = room(0);
    let mut told = 0;
    for id in 1..=1000 {
        session.push_notice(destroy(id)).unwrap();
        told += says(&mut session, 1000, &room).len();
    }
    assert_eq!(told, 1000);
}

/// Once it acknowledges, what is still remembered is sent again like anybody's.
#[test]
fn a_client_that_begins_to_acknowledge_gets_what_was_lost() {
    let mut session = session();
    let room = room(0);
    let mut out = [0; 548];
    session.push_notice(destroy(1)).unwrap();
    says(&mut session, 1000, &room);
    for sequence in 1..=20 {
        hear(&mut session, 1000, &empty(sequence)).unwrap();
    }
    (0..5).for_each(|_| {
        session.write_snapshot(at(1000), Tick(1), &room, 0..u32::MAX, &mut out);
    });
    ack(&mut session, 1010, 21, 6, 0b1111);
    assert_eq!(says(&mut session, 1010, &room), [Said::Destroy(1, DestroyReason::Gameplay)]);
}

/// A client that stops acknowledging while it talks is treated like one that never did, after 5 s of inputs.
#[test]
fn a_client_that_stops_acknowledging_is_not_flooded() {
    let mut session = session();
    let room = room(0);
    session.push_notice(destroy(1)).unwrap();
    says(&mut session, 1000, &room);
    ack(&mut session, 1000, 1, 1, 0);
    session.push_notice(destroy(2)).unwrap();
    says(&mut session, 1000, &room);
    let mut resent = 0;
    for frame in 0..1200u32 {
        let ms = 1000 + u64::from(frame) * 16;
        ack(&mut session, ms, 2 + frame, 1, 0);
        resent += says(&mut session, ms, &room).len();
    }
    assert!((3..20).contains(&resent), "{resent}");
    assert_eq!((session.notices_pending(), session.is_resend_due(Instant::MAX)), (0, false));
}

/// A client that acknowledges, and then does not keep up, is one too many.
#[test]
fn too_many_in_flight_are_refused() {
    let mut session = session();
    let room = room(0);
    session.push_notice(destroy(1)).unwrap();
    says(&mut session, 1000, &room);
    ack(&mut session, 1000, 1, 1, 0);
    for id in 0..256 {
        session.push_notice(destroy(id + 2)).unwrap();
        says(&mut session, 1000, &room);
        assert_eq!(session.has_room_for_sync(), id < 127, "{id}");
    }
    assert_eq!(session.push_notice(destroy(999)), Err(TooManyInFlight));
}

/// 8.1: at most 47 entities in each Snapshot, each in its own packet, all of them once.
#[test]
fn rtype_8_1_snapshots_of_a_full_room() {
    for count in [0, 1, 46, 47, 48, 94, 95, 500] {
        let mut session = session();
        let mut room = room(count);
        if count == 500 {
            for index in [1, 50, 499, 500] {
                room.remove(index);
            }
        }
        let (mut from, mut out) = (Some(0), [0; 600]);
        let mut ids = Vec::new();
        let mut sizes = Vec::new();
        while let Some(index) = from {
            let (len, next) = session.write_snapshot(at(1000), Tick(9), &room, index..u32::MAX, &mut out);
            let (header, said) = said(&out[..len]);
            let [Said::Snapshot(states)] = &said[..] else { panic!("one Snapshot: {said:?}") };
            assert_eq!(header.sequence as usize, sizes.len() + 1);
            sizes.push(states.len());
            ids.extend(states.clone());
            from = next;
        }
        assert!(ids.into_iter().eq(room.indices()), "{count}");
        assert_eq!(sizes.len(), room.len().div_ceil(47).max(1));
        assert!(sizes[..sizes.len() - 1].iter().all(|&size| size == 47));
    }
}

/// Against a client's receipts over a link that loses three of ten each way: everything arrives, in the end.
#[test]
fn everything_arrives_over_a_lossy_link() {
    let mut rng = Rng::new(42);
    let mut session = session();
    let room = room(0);
    let mut receipts = Receipts::new();
    let mut got = std::collections::BTreeSet::new();
    let (mut pushed, mut sent, mut delayed) = (0u32, 0u32, Vec::new());
    let mut out = [0; 548];
    for frame in 1..=6000u32 {
        let ms = 1000 + u64::from(frame) * 16;
        for _ in 0..rng.below(4).min(3000 - pushed) {
            pushed += 1;
            session.push_notice(destroy(pushed)).unwrap();
        }
        let mut datagrams: Vec<Vec<u8>> = Vec::new();
        while let Some(len) = session.write_notices(at(ms), Tick(frame), &room, &mut out) {
            datagrams.push(out[..len].to_vec());
        }
        if frame % 3 == 0 {
            let (len, _) = session.write_snapshot(at(ms), Tick(frame), &room, 0..u32::MAX, &mut out);
            datagrams.push(out[..len].to_vec());
        }
        sent += datagrams.len() as u32;
        delayed.extend(datagrams.into_iter().filter(|_| !rng.chance(3, 10)));
        while delayed.len() > 3 {
            let (header, said) = said(&delayed.swap_remove(rng.below(delayed.len() as u32) as usize));
            if receipts.record(header.sequence).is_fresh() {
                got.extend(said.into_iter().filter_map(|said| match said {
                    Said::Destroy(id, _) => Some(id),
                    _ => None,
                }));
            }
        }
        if !rng.chance(3, 10) {
            ack(&mut session, ms, frame, receipts.ack(), receipts.bits());
        }
    }
    assert_eq!(pushed, 3000);
    assert!(got.into_iter().eq(1..=3000), "every one arrived");
    assert_eq!(session.notices_pending(), 0);
    assert!(sent < 9000, "{sent} packets");
}
