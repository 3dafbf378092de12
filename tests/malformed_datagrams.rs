//! Every malformed, unknown and foreign datagram of section 6.3 of the Aegis protocol, given to a whole server with a
//! match going on. Each is dropped, counted under its reason, answered by nothing, and leaves everything as it was.

mod common;
mod raw;

use std::net::SocketAddr;

use common::{address, rtype_sim};
use raw::{
    ACCEPT, COMPRESSED, CONNECT, DISCONNECT, EVENT, HEARTBEAT, INPUT, Raw, SNAPSHOT, State, World,
    assert_dropped, assert_only_told, assert_valid, datagram, dropped_since, event_list, ms,
};
use tickwire::session::drops::DropReason;
use tickwire::sim::Faults;

/// A match with one player, who has moved a little, and what that player's server last acknowledged.
fn playing() -> (World, Raw) {
    let mut sim = rtype_sim(1, Faults::default(), 7);
    let mut raw = Raw::play(&mut sim, address(0));
    raw.fly(&mut sim, 200);
    (sim, raw)
}

/// After all that was dropped, the server acknowledges what it did before, to the player and nobody else.
fn assert_ack_unchanged(sim: &mut World, raw: &mut Raw) {
    let heard = raw.run(sim, 60);
    assert_only_told(sim, &[raw.address]);
    let last = heard.last().expect("a snapshot at least every 50 ms");
    assert_eq!(last.ack, raw.sequence.wrapping_sub(1), "a dropped datagram was acknowledged");
    assert_eq!(last.bits, u32::MAX >> (32 - u32::from(raw.sequence - 1).min(32)));
    let stream = raw::said(sim, raw.stream);
    assert_eq!((stream.0.len(), stream.1), (12, false), "nothing was said on the stream");
}

/// Each of the datagrams is dropped for `reason`. Given enough time in between, nobody is called a flooder.
fn assert_each_dropped(from: Option<SocketAddr>, reason: DropReason, make: impl Fn(&Raw) -> Vec<Vec<u8>>) {
    let (mut sim, mut raw) = playing();
    for bytes in make(&raw) {
        assert_dropped(&mut sim, from.unwrap_or(raw.address), &bytes, reason);
        raw.fly(&mut sim, 64);
    }
    assert_ack_unchanged(&mut sim, &mut raw);
    assert_eq!(sim.server.pools().sessions, 1);
}

/// A valid datagram of the player's, with a sequence not used yet.
fn fresh(raw: &Raw, kind: u8, payload: &[u8]) -> Vec<u8> {
    datagram(kind, raw.sequence.wrapping_add(500), raw.ack, raw.bits, raw.token, payload)
}

#[test]
fn what_the_tests_call_valid_is_valid() {
    let (mut sim, mut raw) = playing();
    for (kind, payload) in [
        (CONNECT, vec![]),
        (INPUT, vec![31]),
        (EVENT, event_list(&[(0, b"x")])),
        (HEARTBEAT, vec![]),
        (INPUT, vec![0]),
    ] {
        let bytes = raw.bytes(kind, &payload);
        assert_valid(&mut sim, raw.address, &bytes);
        raw.sequence += 1;
    }
    assert_ack_unchanged(&mut sim, &mut raw);
    let bytes = raw.bytes(DISCONNECT, &[]);
    assert_valid(&mut sim, raw.address, &bytes);
    assert_eq!(sim.server.pools().sessions, 0);
}

#[test]
fn a_datagram_of_1201_bytes_is_too_large_whatever_it_holds() {
    assert_each_dropped(None, DropReason::TooLarge, |raw| {
        let mut list = event_list(&[(0, &[7; 1178])]);
        let full = fresh(raw, EVENT, &list);
        assert_eq!(full.len(), 1201);
        list.truncate(0);
        vec![full, fresh(raw, INPUT, &[0; 1183]), vec![0; 1201], vec![0xFF; 1500]]
    });
}

/// The longest datagram there can be, with its one event of 1177 bytes, is fine.
#[test]
fn a_datagram_of_1200_bytes_is_read() {
    let (mut sim, mut raw) = playing();
    let bytes = raw.bytes(EVENT, &event_list(&[(0, &[7; 1177])]));
    assert_eq!(bytes.len(), 1200);
    assert_valid(&mut sim, raw.address, &bytes);
    raw.sequence += 1;
    assert_ack_unchanged(&mut sim, &mut raw);
}

/// Every length from nothing to one byte less than a header (field cases 17 and 56).
#[test]
fn case_17_every_truncation_of_the_header_is_dropped() {
    for kind in [CONNECT, INPUT, HEARTBEAT, DISCONNECT] {
        assert_each_dropped(None, DropReason::TruncatedHeader, |raw| {
            let whole = fresh(raw, kind, &[]);
            (0..18).map(|len| whole[..len].to_vec()).collect()
        });
    }
}

#[test]
fn every_single_bit_change_of_the_magic_is_dropped() {
    assert_each_dropped(None, DropReason::BadMagic, |raw| {
        let change = |bit: usize| {
            let mut bytes = fresh(raw, HEARTBEAT, &[]);
            bytes[bit / 8] ^= 1 << (bit % 8);
            bytes
        };
        (0..32).map(change).collect()
    });
}

#[test]
fn every_other_version_is_dropped() {
    assert_each_dropped(None, DropReason::BadVersion, |raw| {
        let change = |version: u8| {
            let mut bytes = fresh(raw, HEARTBEAT, &[]);
            bytes[4] = version;
            bytes
        };
        (0..=255).filter(|&version| version != 1).map(change).collect()
    });
}

#[test]
fn every_reserved_type_is_dropped_with_and_without_the_compressed_bit() {
    assert_each_dropped(None, DropReason::UnknownType, |raw| {
        let reserved = (0..=255u8).filter(|kind| !(1..=7).contains(&(kind & 0x7F)));
        let all: Vec<_> = reserved.map(|kind| fresh(raw, kind, &[])).collect();
        assert_eq!(all.len(), 256 - 14);
        all
    });
}

#[test]
fn what_only_a_server_sends_is_dropped() {
    assert_each_dropped(None, DropReason::Foreign, |raw| {
        let kinds = [ACCEPT, SNAPSHOT, ACCEPT | COMPRESSED, SNAPSHOT | COMPRESSED];
        kinds.iter().flat_map(|&kind| [fresh(raw, kind, &[]), fresh(raw, kind, &[0; 9])]).collect()
    });
}

const BOUND_KINDS: [(u8, &[u8]); 4] =
    [(INPUT, &[1]), (EVENT, &[1, 0, 0, 1, 0, 9]), (HEARTBEAT, &[]), (DISCONNECT, &[])];

#[test]
fn a_wrong_token_is_dropped() {
    assert_each_dropped(None, DropReason::Foreign, |raw| {
        let tokens = (0..32).map(|bit| raw.token ^ 1 << bit).chain([0, u32::MAX, !raw.token]);
        let with = |token: u32| {
            BOUND_KINDS
                .map(|(kind, payload)| datagram(kind, raw.sequence + 500, raw.ack, raw.bits, token, payload))
        };
        tokens.flat_map(with).collect()
    });
}

/// A Connect with a token that opens nothing, slowly enough to be heard.
#[test]
fn a_connect_with_a_wrong_token_is_dropped() {
    assert_each_dropped(None, DropReason::Foreign, |raw| {
        let tokens = (0..32).map(|bit| raw.token ^ 1 << bit).chain([0, u32::MAX]);
        tokens.map(|token| datagram(CONNECT, raw.sequence + 500, raw.ack, raw.bits, token, &[])).collect()
    });
}

#[test]
fn the_right_token_from_another_endpoint_is_dropped() {
    let other_port = SocketAddr::new(address(0).ip(), 5001);
    for from in [other_port, address(1)] {
        assert_each_dropped(Some(from), DropReason::Foreign, |raw| {
            BOUND_KINDS.map(|(kind, payload)| fresh(raw, kind, payload)).to_vec()
        });
        assert_each_dropped(Some(from), DropReason::Foreign, |raw| vec![fresh(raw, CONNECT, &[])]);
    }
}

/// Nothing but Connect is heard from an endpoint that is not bound, even with the right token and address.
#[test]
fn an_unbound_session_hears_nothing_but_connect() {
    let mut sim = rtype_sim(1, Faults::default(), 7);
    let raw = Raw::login(&mut sim, address(0));
    for (kind, payload) in BOUND_KINDS {
        assert_dropped(&mut sim, raw.address, &raw.bytes(kind, payload), DropReason::Foreign);
    }
    sim.run(ms(600), |_, _, _| ());
    assert_only_told(&sim, &[]);
}

#[test]
fn a_session_that_is_over_hears_nothing() {
    let (mut sim, mut raw) = playing();
    sim.close_stream(raw.stream);
    raw.run(&mut sim, 5);
    for (kind, payload) in BOUND_KINDS.into_iter().chain([(CONNECT, &[] as &[u8])]) {
        assert_dropped(&mut sim, raw.address, &fresh(&raw, kind, payload), DropReason::Foreign);
    }
    assert_eq!(raw.run(&mut sim, 600).len(), 0);
}

#[test]
fn bytes_after_a_header_that_must_end_the_datagram() {
    for (kind, reason) in [
        (CONNECT, DropReason::MalformedConnect),
        (HEARTBEAT, DropReason::MalformedHeartbeat),
        (DISCONNECT, DropReason::MalformedDisconnect),
    ] {
        assert_each_dropped(None, reason, |raw| {
            [1, 2, 17, 18, 1182].map(|len| fresh(raw, kind, &vec![0; len])).to_vec()
        });
    }
    // A stranger's Connect is read as far.
    assert_each_dropped(Some(address(3)), DropReason::MalformedConnect, |raw| {
        vec![fresh(raw, CONNECT, &[0])]
    });
}

#[test]
fn inputs_that_are_not_one_byte_with_five_bits() {
    assert_each_dropped(None, DropReason::MalformedInput, |raw| {
        let mut all = vec![fresh(raw, INPUT, &[]), fresh(raw, INPUT, &[0, 0]), fresh(raw, INPUT, &[0; 1182])];
        all.extend((32..=255u8).map(|bits| fresh(raw, INPUT, &[bits])));
        all
    });
}

/// Counts that do not fit, lengths past the end (negative ones too, when read with a sign: field case 18), and bytes
/// left over.
#[test]
fn case_18_event_lists_that_do_not_add_up() {
    assert_each_dropped(None, DropReason::MalformedEvent, |raw| {
        let whole = event_list(&[(0, b"abc"), (1, b""), (2, b"defg")]);
        let mut lists: Vec<Vec<u8>> = (0..whole.len()).map(|len| whole[..len].to_vec()).collect();
        lists.push([&whole[..], &[0]].concat());
        lists.push([&whole[..], &event_list(&[(3, b"x")])[1..]].concat());
        lists.push(vec![0]);
        lists.push([&[0], &whole[1..]].concat());
        lists.extend([4, 255].map(|count| [&[count], &whole[1..]].concat()));
        for len in [4u16, 2, 0x7FFF, 0x8000, 0xFFFF, 60_000] {
            let mut list = event_list(&[(0, b"abc")]);
            list[3..5].copy_from_slice(&len.to_le_bytes());
            lists.push(list);
        }
        lists.iter().map(|list| fresh(raw, EVENT, list)).collect()
    });
}

fn compressed(size: u16, block: &[u8]) -> Vec<u8> {
    [&size.to_le_bytes(), block].concat()
}

fn block_of(payload: &[u8]) -> Vec<u8> {
    lz4_flex::block::compress(payload)
}

#[test]
fn a_valid_compressed_payload_is_read_as_if_it_were_not() {
    let (mut sim, mut raw) = playing();
    let list = event_list(&[(0, &[5; 300])]);
    for (kind, payload) in [(INPUT, vec![16]), (EVENT, list)] {
        let payload = compressed(payload.len() as u16, &block_of(&payload));
        let bytes = raw.bytes(kind | COMPRESSED, &payload);
        assert_valid(&mut sim, raw.address, &bytes);
        raw.sequence += 1;
    }
    assert_ack_unchanged(&mut sim, &mut raw);
}

/// Sizes out of range, blocks that are none, blocks that give more or less than they said.
#[test]
fn compressed_payloads_that_are_bad() {
    assert_each_dropped(None, DropReason::MalformedInput, |raw| {
        let block = block_of(&[1]);
        let mut payloads = vec![vec![], vec![1], compressed(1, &[]), compressed(0, &[]), compressed(0, &[0])];
        payloads.extend([0, 2, 1182, 1183, 0x8000, 0xFFFF].map(|size| compressed(size, &block)));
        payloads.push(compressed(1, &[&block[..], &[0]].concat()));
        payloads.push(compressed(1, &block[..1]));
        // A match of what was never written, an offset of 0, and a length that does not end.
        payloads.push(compressed(20, &[0x1F, 1, 9, 0, 1]));
        payloads.push(compressed(20, &[0x1F, 1, 0, 0, 1]));
        payloads.push(compressed(20, &[0xF0, 255, 255, 255]));
        payloads.iter().map(|payload| fresh(raw, INPUT | COMPRESSED, payload)).collect()
    });
    assert_each_dropped(None, DropReason::MalformedEvent, |raw| {
        let list = event_list(&[(0, &[5; 300])]);
        let block = block_of(&list);
        let sizes = [0, 1, 304, 306, 1182, 1183, 0xFFFF];
        let mut all: Vec<_> =
            sizes.iter().map(|&size| fresh(raw, EVENT | COMPRESSED, &compressed(size, &block))).collect();
        all.extend(
            (0..block.len()).map(|len| fresh(raw, EVENT | COMPRESSED, &compressed(305, &block[..len]))),
        );
        all
    });
}

/// What must have no payload has none to compress: every compressed one of these is malformed.
#[test]
fn compressed_emptiness_is_malformed() {
    for (kind, reason) in [
        (CONNECT, DropReason::MalformedConnect),
        (HEARTBEAT, DropReason::MalformedHeartbeat),
        (DISCONNECT, DropReason::MalformedDisconnect),
    ] {
        assert_each_dropped(None, reason, |raw| {
            let payloads = [vec![], vec![0, 0], compressed(0, &[0]), compressed(1, &block_of(&[0]))];
            payloads.map(|payload| fresh(raw, kind | COMPRESSED, &payload)).to_vec()
        });
    }
}

/// A block of a few bytes that unfolds to hundreds of kilobytes, whatever size it claims.
#[test]
fn case_21_a_decompression_bomb_is_dropped() {
    let bomb = block_of(&vec![0; 250_000]);
    assert!(bomb.len() < 1180, "{}", bomb.len());
    for (kind, reason) in [(INPUT, DropReason::MalformedInput), (EVENT, DropReason::MalformedEvent)] {
        assert_each_dropped(None, reason, |raw| {
            let sizes = [1, 1181, 1182, 1183, 0xFFFF];
            sizes.map(|size| fresh(raw, kind | COMPRESSED, &compressed(size, &bomb))).to_vec()
        });
    }
}

/// What comes out of a valid block is checked like any other payload.
#[test]
fn case_23_decompressed_content_is_checked_again() {
    assert_each_dropped(None, DropReason::MalformedEvent, |raw| {
        let list = event_list(&[(0, b"abc"), (1, b"defg")]);
        let contents = (1..list.len()).map(|len| list[..len].to_vec());
        contents.map(|c| fresh(raw, EVENT | COMPRESSED, &compressed(c.len() as u16, &block_of(&c)))).collect()
    });
    assert_each_dropped(None, DropReason::MalformedInput, |raw| {
        let contents: [&[u8]; 3] = [&[32], &[0, 0], &[0; 1182]];
        contents.map(|c| fresh(raw, INPUT | COMPRESSED, &compressed(c.len() as u16, &block_of(c)))).to_vec()
    });
}

/// A datagram that is wrong in two ways is counted under what is checked first: each line here breaks one more rule
/// than the one after it.
#[test]
fn the_order_of_the_checks() {
    let (mut sim, raw) = playing();
    let stranger = address(9);
    let mut bytes = fresh(&raw, 200, &[0; 1183]);
    bytes[0] ^= 1;
    bytes[4] = 9;
    bytes[14] ^= 1;
    assert_dropped(&mut sim, stranger, &bytes, DropReason::TooLarge);
    bytes.truncate(17);
    assert_dropped(&mut sim, stranger, &bytes, DropReason::TruncatedHeader);
    bytes.extend([0; 40]);
    assert_dropped(&mut sim, stranger, &bytes, DropReason::BadMagic);
    bytes[0] ^= 1;
    assert_dropped(&mut sim, stranger, &bytes, DropReason::BadVersion);
    bytes[4] = 1;
    assert_dropped(&mut sim, stranger, &bytes, DropReason::UnknownType);
    for kind in [SNAPSHOT, ACCEPT, INPUT, EVENT, HEARTBEAT, DISCONNECT] {
        bytes[5] = kind;
        assert_dropped(&mut sim, stranger, &bytes, DropReason::Foreign);
        assert_dropped(&mut sim, raw.address, &bytes, DropReason::Foreign);
    }
    bytes[5] = CONNECT;
    assert_dropped(&mut sim, stranger, &bytes, DropReason::MalformedConnect);
    bytes.truncate(18);
    assert_dropped(&mut sim, stranger, &bytes, DropReason::Foreign);
}

/// The size comes before everything, the ignoring of floods included; nothing else does.
#[test]
fn an_ignored_address_has_its_size_checked_only() {
    let (mut sim, raw) = playing();
    let stranger = address(9);
    for _ in 0..1000 {
        sim.datagram(stranger, &[0; 18]);
    }
    assert_dropped(&mut sim, stranger, &[0; 18], DropReason::Flood);
    assert_dropped(&mut sim, stranger, &[0; 17], DropReason::Flood);
    assert_dropped(&mut sim, stranger, &fresh(&raw, CONNECT, &[1]), DropReason::Flood);
    assert_dropped(&mut sim, stranger, &[0; 1201], DropReason::TooLarge);
    // Flooding in somebody's name does not silence them.
    for _ in 0..1000 {
        sim.datagram(raw.address, &[0; 18]);
    }
    assert_valid(&mut sim, raw.address, &fresh(&raw, HEARTBEAT, &[]));
}

/// A duplicate is valid, but changes nothing: the same Input twice, and a Disconnect under a used sequence.
#[test]
fn duplicates_have_their_payload_ignored() {
    let (mut sim, mut raw) = playing();
    let old = raw.sequence - 1;
    for kind in [DISCONNECT, INPUT, HEARTBEAT] {
        let payload: &[u8] = if kind == INPUT { &[31] } else { &[] };
        let state = State::of(&sim);
        assert_valid(&mut sim, raw.address, &datagram(kind, old, raw.ack, raw.bits, raw.token, payload));
        assert_eq!(State::of(&sim), state, "a duplicate did something");
    }
    assert_ack_unchanged(&mut sim, &mut raw);
    let ship_after = sim.server.game(0).map(tickwire::world::Game::state_hash);
    // The same match without the duplicates goes the same way.
    let (mut twin, mut other) = playing();
    assert_ack_unchanged(&mut twin, &mut other);
    assert_eq!(ship_after, twin.server.game(0).map(tickwire::world::Game::state_hash));
}

#[test]
fn datagrams_too_old_have_their_payload_and_acks_ignored() {
    let mut sim = rtype_sim(1, Faults::default(), 7);
    let mut raw = Raw::play(&mut sim, address(0));
    // 40 sequences later, the ones skipped are too old to be told from duplicates.
    raw.sequence += 100;
    raw.send(&mut sim, INPUT, &[0]);
    let (ack, bits) = {
        let heard = raw.run(&mut sim, 60);
        let last = heard.last().expect("a snapshot");
        (last.ack, last.bits)
    };
    assert_eq!((ack, bits), (101, 0));
    for (kind, payload) in BOUND_KINDS {
        for sequence in [101 - 33, 50, 1, 0, 65_535, 101u16.wrapping_sub(32_767), 101u16.wrapping_sub(32_768)]
        {
            let state = State::of(&sim);
            assert_valid(
                &mut sim,
                raw.address,
                &datagram(kind, sequence, raw.ack, raw.bits, raw.token, payload),
            );
            assert_eq!(State::of(&sim), state, "sequence {sequence}");
        }
    }
    let heard = raw.run(&mut sim, 60);
    let last = heard.last().expect("a snapshot");
    assert_eq!((last.ack, last.bits), (101, 0), "the acknowledgement did not change");
    // 32 behind is the last that counts.
    let bytes = datagram(HEARTBEAT, 101 - 32, raw.ack, raw.bits, raw.token, &[]);
    assert_valid(&mut sim, raw.address, &bytes);
    let heard = raw.run(&mut sim, 60);
    assert_eq!(heard.last().map(|last| (last.ack, last.bits)), Some((101, 1 << 31)));
}

/// Acknowledging what was never sent settles nothing: events are resent until they are acknowledged truly.
#[test]
fn an_ack_beyond_the_last_sent_is_ignored() {
    let mut sim = rtype_sim(1, Faults::default(), 7);
    let mut raw = Raw::play(&mut sim, address(0));
    raw.run(&mut sim, 60);
    let events = sim.server.pools().events;
    assert!(events > 0, "the newcomer is told of things");
    for ack in [
        raw.ack + 1,
        raw.ack + 5,
        raw.ack + 31,
        raw.ack + 200,
        30_000,
        raw.ack.wrapping_add(32_768),
        raw.ack.wrapping_add(40_000),
    ] {
        let bytes = datagram(HEARTBEAT, raw.sequence, ack, u32::MAX, raw.token, &[]);
        assert_valid(&mut sim, raw.address, &bytes);
        raw.sequence += 1;
        assert_eq!(sim.server.pools().events, events, "ack {ack}");
    }
    raw.fly(&mut sim, 300);
    let bytes = raw.bytes(HEARTBEAT, &[]);
    assert_valid(&mut sim, raw.address, &bytes);
    assert!(sim.server.pools().events < events);
}

/// A malformed datagram's acknowledgements are not read.
#[test]
fn acks_of_dropped_datagrams_are_not_read() {
    let mut sim = rtype_sim(1, Faults::default(), 7);
    let mut raw = Raw::play(&mut sim, address(0));
    raw.run(&mut sim, 60);
    assert!(sim.server.pools().events > 0);
    let stranger = address(5);
    assert_dropped(&mut sim, raw.address, &raw.bytes(INPUT, &[0x20]), DropReason::MalformedInput);
    assert_dropped(&mut sim, stranger, &raw.bytes(INPUT, &[0]), DropReason::Foreign);
    assert_dropped(&mut sim, stranger, &raw.bytes(CONNECT, &[]), DropReason::Foreign);
    assert_dropped(&mut sim, raw.address, &raw.bytes(SNAPSHOT, &[]), DropReason::Foreign);
}

/// Whatever is dropped does not keep the session alive: it ends 5 s after the last datagram that was not.
#[test]
fn what_is_dropped_does_not_keep_a_session_alive() {
    let kinds: [fn(&Raw) -> Vec<u8>; 8] = [
        |raw| fresh(raw, INPUT, &[0; 1183]),
        |raw| fresh(raw, INPUT, &[])[..17].to_vec(),
        |raw| fresh(raw, 8, &[]),
        |raw| fresh(raw, ACCEPT, &[]),
        |raw| datagram(INPUT, 900, raw.ack, raw.bits, !raw.token, &[0]),
        |raw| fresh(raw, INPUT, &[0xFF]),
        |raw| fresh(raw, HEARTBEAT, &[0]),
        |raw| fresh(raw, EVENT, &[0]),
    ];
    for (number, make) in kinds.into_iter().enumerate() {
        let (mut sim, mut raw) = playing();
        raw.send(&mut sim, HEARTBEAT, &[]);
        for _ in 0..49 {
            raw.run(&mut sim, 100);
            let bytes = make(&raw);
            sim.datagram(raw.address, &bytes);
        }
        raw.run(&mut sim, 99);
        assert_eq!(sim.server.pools().sessions, 1, "kind {number}: after 4.999 s");
        raw.run(&mut sim, 2);
        assert_eq!(sim.server.stats().sessions_timed_out, 1, "kind {number}: after 5 s");
        let drops = *sim.server.drops();
        assert_eq!(drops.total(), 49);
    }
}

/// Any single byte of a valid datagram changed: it is dropped, or it still follows the layout and is read whole.
/// Nobody else is ever spoken to, and nothing panics.
#[test]
fn every_single_byte_corruption_is_dropped_or_read_whole() {
    let (mut sim, mut raw) = playing();
    for (kind, payload) in
        BOUND_KINDS.into_iter().chain([(CONNECT, &[] as &[u8])]).filter(|k| k.0 != DISCONNECT)
    {
        let len = raw.bytes(kind, payload).len();
        for at in 0..len {
            // Not the sequence and the acknowledgements: all of their values are valid.
            if (6..14).contains(&at) {
                continue;
            }
            for change in [1u8, 0x80, 0xFF, 0x10] {
                let mut bytes = raw.bytes(kind, payload);
                bytes[at] ^= change;
                if bytes[5] & 0x7F == DISCONNECT {
                    continue;
                }
                let drops = *sim.server.drops();
                sim.datagram(raw.address, &bytes);
                let dropped = dropped_since(&sim, &drops);
                assert!(dropped.len() <= 1);
                raw.sequence += u16::from(dropped.is_empty());
                raw.fly(&mut sim, 64);
            }
        }
    }
    assert_eq!(sim.server.pools().sessions, 1);
    assert_only_told(&sim, &[raw.address]);
}

/// Noise of every length, from a stranger and from the player's own endpoint: a thousand strangers' datagrams are
/// answered by nothing.
#[test]
fn random_bytes_are_dropped() {
    let (mut sim, mut raw) = playing();
    let mut rng = tickwire::rng::Rng::new(5);
    for round in 0..1000u32 {
        let len = rng.below(1202) as usize;
        let mut bytes: Vec<u8> = (0..len).map(|_| rng.next_u32() as u8).collect();
        // Half of them with a good beginning.
        if round % 2 == 0 && len > 6 {
            bytes[..5].copy_from_slice(b"RTYP\x01");
            bytes[5] = rng.below(256) as u8;
        }
        let from = if round % 4 < 2 { raw.address } else { address(rng.below(200) as usize + 1) };
        let (state, drops) = (State::of(&sim), *sim.server.drops());
        sim.datagram(from, &bytes);
        assert_eq!(dropped_since(&sim, &drops).len(), 1);
        assert_eq!(State::of(&sim), state);
        if round % 4 == 0 {
            raw.fly(&mut sim, 20);
        }
    }
    assert_ack_unchanged(&mut sim, &mut raw);
}
