//! Faults that systems like this one had in the field, each as a condition that this one survives. Tests are named after
//! the number of their case; those that need more than one module are here.
//!
//! | case | condition | tested in |
//! |---|---|---|
//! | 1 | sequences wrap three times | `session::acks`, here (65) |
//! | 2 | gaps of 32,767 and 32,768 | `session::acks`, `storage::sequence` |
//! | 4 | ack beyond the last sent | `session::acks`, malformed_datagrams.rs |
//! | 5 | enormous ranges claimed | `wire::aegis::snapshot` |
//! | 7 | dropped by a rate limit: not acknowledged | here |
//! | 9 | exactly the named datagrams are settled | `session::acks` |
//! | 17 | datagrams shorter than a header | malformed_datagrams.rs |
//! | 18 | lengths that are negative with a sign | malformed_datagrams.rs |
//! | 19 | empty datagram | io_datagrams.rs, malformed_datagrams.rs (17) |
//! | 20 | stream lengths of −1, 0, 4097 | `wire::aegis::stream`, malformed_streams.rs |
//! | 21 | decompression bombs | `lz4`, malformed_datagrams.rs |
//! | 23 | decompressed content too short | malformed_datagrams.rs |
//! | 24 | bits read at the end of an exact buffer | `wire::bits` |
//! | 25 | names that are not text | `model::player`, `wire::aegis::event`, malformed_streams.rs |
//! | 26 | 100,000 spoofed Connects | here |
//! | 27 | replies no larger than requests | here |
//! | 28 | an attacker fills the tables | here |
//! | 30, 31 | tokens: distinct, from the operating system | sessions.rs, `rng` |
//! | 33 | valid datagrams from rotating ports | `session::drops`, here |
//! | 34, 35 | a replayed Connect; a NAT's new port | sessions.rs |
//! | 36, 37 | a slot, or an endpoint, used again | sessions.rs |
//! | 39 | two reasons to end at once | sessions.rs |
//! | 40, 41 | received sets empty; quotas come back | `session::reliable`, sessions.rs |
//! | 43, 44 | only unreliable traffic; a login in drips | sessions.rs, malformed_streams.rs |
//! | 45, 46, 48 | junk connections, fake joins, peers that vanish | here |
//! | 47 | a peer sends and never reads | here, `io::mio`, io_streams.rs |
//! | 49, 51, 58 | no descriptors left, peers that reset, signals | io_streams.rs, `io::sys`, io_signals.rs |
//! | 50 | connects and closes at once | malformed_streams.rs |
//! | 52, 53, 56 | errors of sockets, datagrams cut by the kernel | `io::mio`, io_datagrams.rs, malformed_datagrams.rs (17) |
//! | 57 | 1.2.3.4 and ::ffff:1.2.3.4 | `session::drops`, `server::addresses`, sessions.rs, io_datagrams.rs |
//! | 59 | one spammer | here, io_datagrams.rs |
//! | 60 | invalid packets by the million | log_rules.rs |
//! | 61 | overruns of the tick | here |
//! | 62, 64 | clocks that jump; times later than now | `io::clock`, `time` |
//! | 65 | tick, time and sequences wrap at different periods | here, malformed_to_client.rs |
//! | 66, 67 | timers far away; endless timeouts | `storage::deadlines`, here |
//!
//! Not here: 6, 10, 12 to 16, 32 and 68 are about fragments, ordered channels, handshakes with keys and congestion
//! windows, of which Aegis has none. 55, 69, 70 and 72 are about interfaces of the kernel that no driver uses.

mod common;
mod raw;

use std::net::{Ipv4Addr, SocketAddr};

use common::{ENTITIES, address, rtype_server, rtype_sim};
use raw::{
    ACCEPT, CONNECT, HEARTBEAT, Heard, INPUT, Raw, SNAPSHOT, State, World, assert_only_told, datagram,
    last_words, login_request, message, ms, said,
};
use tickwire::limits::{CATCH_UP_TICKS_MAX, Limits};
use tickwire::seam::{Core, Input, Outbox, StreamId};
use tickwire::server::Pools;
use tickwire::session::drops::{DropReason, SOURCES_MAX};
use tickwire::session::reliable::EventSender;
use tickwire::sim::Faults;
use tickwire::time::Instant;
use tickwire::world::Game;

fn playing() -> (World, Raw, Raw) {
    let mut sim = rtype_sim(1, Faults::default(), 11);
    let mut watcher = Raw::play(&mut sim, address(9));
    let raw = Raw::play(&mut sim, address(0));
    watcher.fly(&mut sim, 300);
    (sim, raw, watcher)
}

fn kinds(heard: &[Heard]) -> Vec<u8> {
    heard.iter().map(|datagram| datagram.kind).collect()
}

/// 100,000 Connects in other people's names leave nothing and are answered by nothing.
#[test]
fn case_26_spoofed_connects_leave_nothing() {
    let (mut sim, mut raw, mut watcher) = playing();
    let state = State::of(&sim);
    for number in 0..100_000u32 {
        let from = SocketAddr::from((Ipv4Addr::from(0x0B00_0000 + number), 5000));
        let token = if number % 2 == 0 { number } else { raw.token };
        sim.datagram(from, &datagram(CONNECT, 0, 65_535, 0, token, &[]));
    }
    assert_eq!(State::of(&sim), state);
    assert_eq!(sim.server.drops().get(DropReason::Foreign), 100_000);
    watcher.fly(&mut sim, 500);
    raw.take(&mut sim);
    assert_only_told(&sim, &[]);
}

/// The only answer there is, to a Connect, is as long as the question and given once.
#[test]
fn case_27_no_answer_is_longer_than_its_question() {
    let (mut sim, mut raw, _) = playing();
    raw.take(&mut sim);
    let (bytes_out, datagrams_out) = (sim.server.stats().bytes_out, sim.server.stats().datagrams_out);
    let connect = raw.bytes(CONNECT, &[]);
    let mut outbox = Outbox::new(64, 64);
    // All of them within one moment of the loop: one answer will do.
    for _ in 0..200 {
        sim.datagram(raw.address, &connect);
    }
    let now = sim.now();
    assert!(!sim.server.transmit(now, &mut outbox));
    assert_eq!(outbox.datagrams().len(), 1);
    assert_eq!(Heard::read(outbox.datagram_bytes(0)).kind, ACCEPT);
    let stats = sim.server.stats();
    assert_eq!((stats.bytes_out - bytes_out, stats.datagrams_out - datagrams_out), (18, 1));
}

/// Whoever fills the table of sources does not keep an honest player out, nor have one forgotten that guesses.
#[test]
fn case_28_a_full_table_keeps_nobody_out() {
    let mut sim = rtype_sim(1, Faults::default(), 11);
    let stranger = |number: u32| SocketAddr::from((Ipv4Addr::from(0x0B00_0000 + number), 5000));
    let mut honest = Raw::login(&mut sim, address(0));
    for number in 0..10 * SOURCES_MAX as u32 {
        (0..25)
            .for_each(|guess| sim.datagram(stranger(number), &datagram(CONNECT, 0, 65_535, 0, guess, &[])));
    }
    honest.send(&mut sim, CONNECT, &[]);
    assert_eq!(kinds(&honest.run(&mut sim, 3))[..1], [ACCEPT]);
    assert_eq!(sim.server.pools().addresses, 1);
}

/// Valid datagrams of a player's, from every port that its address has: bounded state, and play goes on where it was.
#[test]
fn case_33_valid_datagrams_from_rotating_ports_are_foreign() {
    let (mut sim, mut raw, mut watcher) = playing();
    let state = State::of(&sim);
    for port in (1024..=65_535).filter(|&port| port != raw.address.port()) {
        let from = SocketAddr::new(raw.address.ip(), port);
        sim.datagram(
            from,
            &raw.bytes(if port % 2 == 0 { INPUT } else { CONNECT }, &[0][..usize::from(1 - port % 2)]),
        );
    }
    assert_eq!(State::of(&sim), state);
    raw.fly(&mut sim, 500);
    let heard = raw.run(&mut sim, 60);
    assert_eq!(heard.last().map(|last| last.ack), Some(raw.sequence - 1));
    watcher.take(&mut sim);
    assert_only_told(&sim, &[]);
}

/// A peer that sends and never reads has at most two short messages waiting for it, however much it sends.
#[test]
fn case_47_what_waits_for_a_peer_that_never_reads_is_bounded() {
    let mut server = rtype_server(1, 3);
    let now = Instant::from_millis(1000);
    let streams = Limits::new(1, ENTITIES).streams;
    for index in 0..streams as u32 {
        let stream = StreamId { index, generation: 1 };
        server.handle(now, Input::StreamOpened { stream, peer: address(index as usize) });
        for bytes in
            [login_request(1, b"deaf"), message(&[4, 0]), login_request(1, b"deaf"), vec![0xFF; 4096]]
        {
            server.handle(now, Input::StreamBytes { stream, bytes: &bytes });
        }
    }
    let mut outbox = Outbox::new(16, 1);
    let mut told = vec![(0, false); streams];
    while {
        let is_more = server.transmit(now, &mut outbox);
        for op in outbox.streams() {
            let (len, is_closed) = &mut told[op.stream.index as usize];
            assert!(!*is_closed, "said on a closed stream");
            *len += op.bytes().len();
            *is_closed |= op.close;
        }
        outbox.clear();
        is_more
    } {}
    assert!(told.iter().all(|&(len, is_closed)| len == 16 && is_closed), "{told:?}");
    assert_eq!(server.pools(), Pools { rooms_open: 1, ..Pools::default() });
}

/// A loop that comes late runs a few ticks and drops the rest; from then on ticks are as far apart as ever.
#[test]
fn case_61_a_late_loop_catches_up_a_little_and_drops_the_rest() {
    let (mut sim, _, _) = playing();
    let before = *sim.server.stats();
    let due = sim.server.next_tick().expect("a match");
    let late = due + ms(1000);
    sim.server.advance(late);
    let stats = *sim.server.stats();
    assert_eq!(stats.ticks - before.ticks, u64::from(CATCH_UP_TICKS_MAX));
    assert_eq!(stats.dropped_ticks - before.dropped_ticks, 61 - u64::from(CATCH_UP_TICKS_MAX));
    assert!(stats.lateness_max >= ms(1000));
    let next = sim.server.next_tick().expect("a match");
    assert!(next > late && next.since(late) <= ms(17), "{next:?}");
    sim.server.advance(next);
    assert_eq!(sim.server.stats().ticks - stats.ticks, 1);
}

/// Sequences of both directions wrap, each at its time, and play goes on: everything is acknowledged, snapshots are
/// deltas, and events arrive.
#[test]
fn case_65_play_survives_all_wraps() {
    let level = tickwire::world::rtype::Level::builtin("level1").expect("the first level");
    let server = common::server_with(1, ENTITIES, 1, level, 3);
    let mut sim = World::new(server, 68, Faults::default(), 3);
    let mut raw = Raw::play(&mut sim, address(0));
    let (mut wraps, mut fulls, mut last) = ([0, 0], 0, 0u16);
    for _ in 0..270_000u32 {
        wraps[0] += u32::from(raw.sequence == u16::MAX);
        raw.send(
            &mut sim,
            if raw.sequence.is_multiple_of(3) { INPUT } else { HEARTBEAT },
            &[0][..usize::from(raw.sequence.is_multiple_of(3))],
        );
        for heard in raw.run(&mut sim, 5) {
            wraps[1] += u32::from(heard.sequence < last);
            last = heard.sequence;
            assert!(raw.sequence.wrapping_sub(heard.ack) <= 2, "{} of {}", heard.ack, raw.sequence);
            fulls += u32::from(heard.kind == SNAPSHOT && heard.payload[6] & 1 == 0);
            if heard.kind == SNAPSHOT && raw.sequence > 100 {
                let input = u16::from_le_bytes([heard.payload[4], heard.payload[5]]);
                assert!(raw.sequence.wrapping_sub(input) <= 12, "input {input} of {}", raw.sequence);
            }
        }
    }
    assert!(wraps[0] >= 3 && wraps[1] >= 1, "{wraps:?}");
    assert!(fulls <= 2, "{fulls} full snapshots");
    assert!(sim.server.pools().events < 64);
    assert_eq!((sim.server.drops().total(), sim.server.stats().sessions_ended), (0, 0));
}

/// However often an event goes unacknowledged, the time to its next sending stops growing.
#[test]
fn case_67_backoff_is_capped() {
    let mut sender = EventSender::new(0u32);
    sender.push(1).expect("room for one");
    let mut now = Instant::from_millis(1000);
    let mut waits = Vec::new();
    for sequence in 0..1000u16 {
        let carried = sender.write_due(now, sequence, ms(1000), |_, _| true);
        assert!(!carried.is_empty());
        let due = sender.next_resend().expect("pending");
        waits.push(due.since(now).as_millis());
        now = due;
    }
    assert_eq!(waits[..4], [1000, 2000, 4000, 8000]);
    assert!(waits[4..].iter().all(|&wait| wait == 8000));
}

/// Dozens of connections of one address in half a second: those beyond its share are closed at once, others are not
/// concerned.
#[test]
fn case_45_an_address_has_its_share_of_connections() {
    let mut sim = rtype_sim(2, Faults::default(), 5);
    let streams: Vec<_> = (0..50)
        .map(|_| {
            sim.run(ms(10), |_, _, _| ());
            sim.open_stream(address(0))
        })
        .collect();
    sim.run(ms(1), |_, _, _| ());
    assert_eq!(sim.server.stats().streams_refused, 50 - 32);
    assert_eq!(sim.server.pools().streams, 32);
    Raw::play(&mut sim, address(1));
    // And when they have been idle for long enough, all is as before.
    sim.run(ms(5100), |_, _, _| ());
    assert_eq!(sim.server.pools().addresses, 0, "{streams:?}");
    Raw::play(&mut sim, address(0));
}

/// Sessions that never bind do not keep the slots that they took, and one address does not get them all.
#[test]
fn case_46_fake_joins_do_not_fill_the_server() {
    let mut sim = rtype_sim(5, Faults::default(), 5);
    let fakes: Vec<Raw> = (0..16).map(|_| Raw::login(&mut sim, address(0))).collect();
    let stream = sim.open_stream(address(0));
    sim.stream_bytes(stream, &login_request(1, b"fake"));
    assert_eq!(said(&sim, stream), (vec![2, 0, 3, 5], true), "RateLimited");
    let mut honest = Raw::play(&mut sim, address(1));
    honest.fly(&mut sim, 10_001);
    assert_eq!(sim.server.pools().sessions, 1);
    for fake in &fakes {
        assert_eq!(last_words(&sim, fake), [2, 0, 4, 3]);
    }
    assert_eq!(Limits::new(5, ENTITIES).sessions, 20);
}

/// One player sends without end: what is too much is dropped unread, and the others get all that is theirs.
#[test]
fn case_59_a_spammer_costs_the_others_nothing() {
    let (mut sim, mut spammer, mut watcher) = playing();
    watcher.take(&mut sim);
    spammer.take(&mut sim);
    let drops = *sim.server.drops();
    let mut heard = Vec::new();
    for _ in 0..2000 {
        for _ in 0..5 {
            spammer.send(&mut sim, INPUT, &[1]);
        }
        if sim.now().as_nanos() / 1_000_000 % 16 == 0 {
            watcher.send(&mut sim, INPUT, &[0]);
        }
        sim.run(ms(1), |_, _, _| ());
        heard.extend(watcher.take(&mut sim));
        spammer.take(&mut sim);
    }
    assert!(kinds(&heard).iter().filter(|&&kind| kind == SNAPSHOT).count() >= 39);
    assert_eq!(heard.last().map(|last| last.ack), Some(watcher.sequence - 1));
    let dropped = sim.server.drops().get(DropReason::Flood) - drops.get(DropReason::Flood);
    assert!((9_000..10_000).contains(&dropped), "{dropped} of 10,000");
    assert_eq!(sim.server.pools().sessions, 2);
}

/// What a rate limit drops is not acknowledged.
#[test]
fn case_07_what_a_limit_drops_is_never_acknowledged() {
    let (mut sim, mut raw, _) = playing();
    raw.run(&mut sim, 1000);
    let mut read = 0;
    for _ in 0..400 {
        let drops = sim.server.drops().total();
        raw.send(&mut sim, HEARTBEAT, &[]);
        if sim.server.drops().total() == drops {
            read = raw.sequence - 1;
        }
    }
    assert_eq!(read, 240);
    let heard = raw.run(&mut sim, 100);
    assert_eq!(heard.last().map(|last| last.ack), Some(read));
}

/// Everybody vanishes without a word, in every slot of every room: all of it comes back.
#[test]
fn case_48_peers_that_vanish_free_every_slot() {
    let mut sim = rtype_sim(3, Faults::default(), 5);
    let empty = sim.server.pools();
    for _ in 0..3 {
        for player in 0..12 {
            Raw::play(&mut sim, address(player));
        }
        assert_eq!(sim.server.pools().rooms_open, 0);
        sim.run(ms(5100), |_, _, _| ());
        sim.strays.clear();
        assert_eq!(sim.server.pools(), empty);
        let hashes: Vec<u64> = (0..3).map(|room| sim.server.game(room).unwrap().state_hash()).collect();
        sim.run(ms(1000), |_, _, _| ());
        let later: Vec<u64> = (0..3).map(|room| sim.server.game(room).unwrap().state_hash()).collect();
        assert_eq!(hashes, later, "empty rooms rest");
    }
    assert_eq!(sim.server.stats().sessions_timed_out, 36);
}
