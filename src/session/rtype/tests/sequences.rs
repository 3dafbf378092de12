//! Sequences and acknowledgements (5.1, 5.2).

use std::collections::BTreeSet;

use super::*;
use crate::rng::Rng;

/// The table of 5.2, row by row.
#[test]
fn rtype_5_2_the_five_cases() {
    let mut receipts = Receipts::new();
    assert_eq!(receipts.record(100), Receipt::New, "the first ever");
    assert_eq!(receipts.record(101), Receipt::New);
    assert_eq!(receipts.record(101), Receipt::Duplicate, "equal to the highest");
    assert_eq!(receipts.record(100), Receipt::Duplicate, "seen");
    assert_eq!(receipts.record(99), Receipt::OutOfOrder, "1 to 32 lower");
    assert_eq!(receipts.record(99), Receipt::Duplicate);
    assert_eq!(receipts.record(69), Receipt::OutOfOrder, "32 lower");
    assert_eq!(receipts.record(68), Receipt::TooOld, "33 lower");
    assert_eq!((receipts.ack(), receipts.bits()), (101, 1 << 31 | 0b11));
}

/// 5.1: 0 when nothing was received. The first packet may have any sequence, 0 included, and is seen once.
#[test]
fn rtype_5_2_the_first_packet_is_new_whatever_its_sequence() {
    assert_eq!((Receipts::new().ack(), Receipts::new().bits()), (0, 0));
    for first in [0, 1, 2, 33, 1 << 31, u32::MAX] {
        let mut receipts = Receipts::new();
        assert_eq!(receipts.record(first), Receipt::New, "{first}");
        assert_eq!(receipts.record(first), Receipt::Duplicate, "{first}");
        assert_eq!((receipts.ack(), receipts.bits()), (first, 0));
    }
}

/// "Greater" and "lower" are those of numbers: sequences do not wrap.
#[test]
fn rtype_5_2_sequences_do_not_wrap() {
    let mut receipts = Receipts::new();
    receipts.record(1);
    assert_eq!(receipts.record(1 << 31 | 1), Receipt::New, "half of all numbers ahead");
    assert_eq!(receipts.record(u32::MAX), Receipt::New);
    assert_eq!(receipts.record(0), Receipt::TooOld);
    assert_eq!(receipts.record(1), Receipt::TooOld);
    assert_eq!(receipts.record(u32::MAX - 1), Receipt::OutOfOrder);
    assert_eq!((receipts.ack(), receipts.bits()), (u32::MAX, 1));
}

/// Jumps of 31 to 34 keep exactly the bits within 32.
#[test]
fn rtype_5_2_bits_move_out_at_32() {
    for (ahead, bits) in [(1, 0b11), (31, 0b11 << 30), (32, 1 << 31), (33, 0), (34, 0), (1 << 20, 0)] {
        let mut receipts = Receipts::new();
        receipts.record(99);
        receipts.record(100);
        receipts.record(100 + ahead);
        assert_eq!((receipts.ack(), receipts.bits()), (100 + ahead, bits), "{ahead} ahead");
    }
}

/// Random arrivals against the set of everything ever received.
#[test]
fn receipts_agree_with_a_set() {
    let mut rng = Rng::new(5);
    let mut receipts = Receipts::new();
    let mut received = BTreeSet::new();
    let mut counts = [0u32; 4];
    for _ in 0..100_000 {
        let newest: Option<&u32> = received.last();
        let sequence = newest.map_or(3, |&newest| newest.saturating_add_signed(rng.between(-40, 12)));
        let expected = match newest {
            Some(&newest)
                if sequence <= newest && received.contains(&sequence) && newest - sequence <= 32 =>
            {
                Receipt::Duplicate
            }
            Some(&newest) if sequence < newest && newest - sequence <= 32 => Receipt::OutOfOrder,
            Some(&newest) if sequence < newest => Receipt::TooOld,
            _ => Receipt::New,
        };
        assert_eq!(receipts.classify(sequence), expected);
        assert_eq!(receipts.record(sequence), expected);
        counts[expected as usize] += 1;
        if expected.is_fresh() {
            received.insert(sequence);
        }
        let ack = receipts.ack();
        assert_eq!(Some(&ack), received.last());
        for bit in 0..32 {
            let there = ack.checked_sub(1 + bit).is_some_and(|sequence| received.contains(&sequence));
            assert_eq!(receipts.bits() >> bit & 1 == 1, there);
        }
    }
    assert!(counts.iter().all(|&count| count > 1000), "{counts:?}");
}

/// 5.2: duplicates and old packets change nothing, not even by what they say.
#[test]
fn rtype_5_2_duplicates_and_old_packets_are_dropped_whole() {
    let mut session = session();
    let ping = |sequence| {
        packet(sequence, |writer| {
            writer.push(&Ping { timestamp: sequence });
        })
    };
    assert_eq!(hear(&mut session, 1000, &ping(50)), Ok(Heard::Nothing));
    assert_eq!(hear(&mut session, 1001, &ping(20)), Ok(Heard::Nothing), "out of order, but processed");
    assert_eq!(hear(&mut session, 1002, &ping(50)), Err(DropReason::Stale));
    assert_eq!(hear(&mut session, 1003, &ping(20)), Err(DropReason::Stale));
    assert_eq!(hear(&mut session, 1004, &ping(17)), Err(DropReason::Stale));
    assert_eq!(says(&mut session, 1005, &room(0)), [Said::Pong(50), Said::Pong(20)]);
}

/// 5.2: the first packet has sequence 1, each further one the next; ack and ackBits tell what came.
#[test]
fn rtype_5_2_what_the_server_sends_is_numbered_and_acknowledges() {
    let mut session = session();
    let mut out = [0; 548];
    let room = room(3);
    let mut header = |session: &mut Session| {
        let (len, _) = session.write_snapshot(at(1000), Tick(1), &room, 0..u32::MAX, &mut out);
        said(&out[..len]).0
    };
    assert_eq!(header(&mut session), Header { connection: ID, sequence: 1, ack: 0, ack_bits: 0 });
    for sequence in [4, 6, 5, 2] {
        hear(&mut session, 1001, &empty(sequence)).unwrap();
    }
    assert_eq!(header(&mut session), Header { connection: ID, sequence: 2, ack: 6, ack_bits: 0b1011 });
    assert_eq!(header(&mut session).sequence, 3);
}

/// Acknowledgements of 0, of what was never sent, and of long ago are read as nothing.
#[test]
fn rtype_5_1_impossible_acknowledgements_are_ignored() {
    let mut session = session();
    let room = room(1);
    session.push_notice(Notice::Create(EntityId(1))).unwrap();
    assert_eq!(packets(&mut session, 1000, &room).len(), 1);
    for (sequence, ack, bits) in [(1, 0, u32::MAX), (2, 2, u32::MAX), (3, 65_537, 1), (4, u32::MAX, u32::MAX)]
    {
        let bytes = packet_acking(sequence, ack, bits, |_| ());
        assert_eq!(hear(&mut session, 1000, &bytes), Ok(Heard::Nothing));
        assert_eq!(session.notices_pending(), 1, "ack {ack}");
    }
    assert_eq!(session.link().rtt().smoothed(), None);
    hear(&mut session, 1080, &packet_acking(5, 1, u32::MAX, |_| ())).unwrap();
    assert_eq!(session.notices_pending(), 0);
    assert_eq!(session.link().rtt().smoothed(), Some(Duration::from_millis(80)));
}

/// Over 65,536 packets the low bits of sequences come again: only the last 128 packets are ever meant.
#[test]
fn an_old_acknowledgement_is_not_taken_for_a_new_one() {
    let mut session = session();
    let room = room(1);
    let mut out = [0; 548];
    for _ in 0..65_536 {
        session.write_snapshot(at(1000), Tick(1), &room, 0..u32::MAX, &mut out);
    }
    session.push_notice(Notice::Create(EntityId(1))).unwrap();
    let sent = packets(&mut session, 1000, &room);
    assert_eq!(sent[0].0.sequence, 65_537);
    hear(&mut session, 1000, &packet_acking(1, 1, 0, |_| ())).unwrap();
    assert_eq!(session.notices_pending(), 1, "1 is not 65,537");
    hear(&mut session, 1000, &packet_acking(2, 65_537, 0, |_| ())).unwrap();
    assert_eq!(session.notices_pending(), 0);
}
