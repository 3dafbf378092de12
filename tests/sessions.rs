//! Sessions from login to end: sections 3.4, 4.4, 5.3, 5.5 and 6.6 of the Aegis protocol, by hand against the whole
//! server.

mod common;
mod raw;

use std::collections::BTreeSet;
use std::net::SocketAddr;

use common::{ENTITIES, address, rtype_sim, server_with};
use raw::{
    ACCEPT, CONNECT, DISCONNECT, EVENT, HEARTBEAT, Heard, INPUT, Raw, SNAPSHOT, World, assert_dropped,
    assert_only_told, assert_valid, datagram, last_words, left, login_request, message, ms, said, took,
};
use tickwire::seam::{Core, Door, Input};
use tickwire::server::Pools;
use tickwire::session::drops::DropReason;
use tickwire::sim::{Faults, Sim};
use tickwire::world::rtype::Level;

const LEFT: u8 = 1;
const TIMEOUT: u8 = 2;
const KICKED: u8 = 3;

fn world() -> World {
    rtype_sim(1, Faults::default(), 11)
}

/// A player, and another one who watches and acknowledges everything.
fn playing() -> (World, Raw, Raw) {
    let mut sim = world();
    let mut watcher = Raw::play(&mut sim, address(9));
    let raw = Raw::play(&mut sim, address(0));
    watcher.fly(&mut sim, 300);
    (sim, raw, watcher)
}

fn port(raw: &Raw, port: u16) -> SocketAddr {
    SocketAddr::new(raw.address.ip(), port)
}

fn kinds(heard: &[Heard]) -> Vec<u8> {
    heard.iter().map(|datagram| datagram.kind).collect()
}

#[test]
fn a_session_binds_from_the_address_of_its_stream_only() {
    let mut sim = world();
    let mut raw = Raw::login(&mut sim, address(0));
    let connect = raw.bytes(CONNECT, &[]);
    for other in [address(1), "[2001:db8::1]:5000".parse().unwrap(), "[::10.1.0.1]:5000".parse().unwrap()] {
        assert_dropped(&mut sim, other, &connect, DropReason::Foreign);
    }
    sim.run(ms(100), |_, _, _| ());
    assert_only_told(&sim, &[]);
    // Any port will do.
    raw.address.set_port(1);
    raw.send(&mut sim, CONNECT, &[]);
    assert_eq!(kinds(&raw.run(&mut sim, 3))[..1], [ACCEPT]);
    assert_eq!(sim.server.stats().sessions_bound, 1);
}

/// An IPv4 address is the same in its IPv6 form (field case 57).
#[test]
fn case_57_a_mapped_address_binds() {
    for (tcp, udp) in [("10.1.0.1:9", "[::ffff:10.1.0.1]:5000"), ("[::ffff:10.1.0.1]:9", "10.1.0.1:5000")] {
        let mut sim = world();
        let mut raw = Raw::login(&mut sim, tcp.parse().unwrap());
        raw.address = udp.parse().unwrap();
        raw.send(&mut sim, CONNECT, &[]);
        assert_eq!(kinds(&raw.run(&mut sim, 3))[..1], [ACCEPT]);
    }
}

#[test]
fn a_connect_is_answered_again() {
    let (mut sim, mut raw, _) = playing();
    raw.take(&mut sim);
    for _ in 0..3 {
        raw.send(&mut sim, CONNECT, &[]);
        assert_eq!(kinds(&raw.run(&mut sim, 2)).iter().filter(|&&kind| kind == ACCEPT).count(), 1);
    }
    // Also when it is the same one again.
    let bytes = datagram(CONNECT, raw.sequence - 1, raw.ack, raw.bits, raw.token, &[]);
    assert_valid(&mut sim, raw.address, &bytes);
    assert_eq!(kinds(&raw.run(&mut sim, 2)).iter().filter(|&&kind| kind == ACCEPT).count(), 1);
    assert_eq!(sim.server.stats().sessions_bound, 2, "nobody joined twice");
}

/// A NAT gave the client another port: it plays on once the old one was silent for a second (field case 35).
#[test]
fn case_35_another_port_takes_over_after_a_second_of_silence() {
    let (mut sim, mut raw, mut watcher) = playing();
    raw.send(&mut sim, INPUT, &[0]);
    let old = raw.address;
    let new = port(&raw, 6000);
    for step in 0..10 {
        assert_dropped(&mut sim, new, &raw.bytes(CONNECT, &[]), DropReason::Foreign);
        raw.run(&mut sim, if step < 9 { 100 } else { 99 });
    }
    assert_dropped(&mut sim, new, &raw.bytes(CONNECT, &[]), DropReason::Foreign);
    raw.run(&mut sim, 1);
    raw.address = new;
    raw.send(&mut sim, CONNECT, &[]);
    assert_eq!(kinds(&raw.run(&mut sim, 2))[..1], [ACCEPT]);
    let stats = sim.server.stats();
    assert_eq!((stats.sessions_rebound, stats.sessions_bound), (1, 2));
    // Play goes to the new port only, and the old one is a stranger.
    assert_dropped(&mut sim, old, &raw.bytes(INPUT, &[0]), DropReason::Foreign);
    let heard = raw.fly(&mut sim, 1000);
    assert!(kinds(&heard).iter().filter(|&&kind| kind == SNAPSHOT).count() >= 19);
    assert_eq!(took(&mut sim, old).len(), 0);
    assert_eq!(left(&watcher.take(&mut sim)), []);
}

/// A Connect caught on its way and sent again from another port moves nothing, however silent the player is.
#[test]
fn case_34_a_replayed_connect_does_not_move_a_session() {
    let mut sim = world();
    let mut raw = Raw::login(&mut sim, address(0));
    let caught = raw.bytes(CONNECT, &[]);
    raw.send(&mut sim, CONNECT, &[]);
    raw.run(&mut sim, 5);
    for _ in 0..45 {
        raw.run(&mut sim, 100);
        assert_dropped(&mut sim, port(&raw, 6000), &caught, DropReason::Foreign);
    }
    assert_eq!(took(&mut sim, port(&raw, 6000)).len(), 0);
    assert_valid(&mut sim, raw.address, &raw.bytes(INPUT, &[0]));
    // Those of a session that is over move nothing either.
    sim.close_stream(raw.stream);
    assert_dropped(&mut sim, raw.address, &caught, DropReason::Foreign);
}

#[test]
fn more_than_twenty_wrong_tokens_a_second_have_an_address_ignored() {
    let mut sim = rtype_sim(2, Faults::default(), 11);
    let mut raw = Raw::play(&mut sim, address(0));
    let mut newcomer = Raw::login(&mut sim, port(&raw, 7000));
    for guess in 0..20u32 {
        let bytes = datagram(CONNECT, 0, 65_535, 0, 77 + guess, &[]);
        assert_dropped(&mut sim, port(&raw, 7777), &bytes, DropReason::Foreign);
    }
    // 20 are forgiven.
    raw.send(&mut sim, CONNECT, &[]);
    newcomer.send(&mut sim, CONNECT, &[]);
    assert_eq!(kinds(&newcomer.run(&mut sim, 2))[..1], [ACCEPT]);
    raw.run(&mut sim, 1);

    let mut late = Raw::login(&mut sim, port(&raw, 7001));
    for guess in 0..21u32 {
        let bytes = datagram(CONNECT, 0, 65_535, 0, 77 + guess, &[]);
        sim.datagram(port(&raw, 7777), &bytes);
    }
    assert_dropped(&mut sim, late.address, &late.bytes(CONNECT, &[]), DropReason::Flood);
    // Bound endpoints are answered all the same, and other addresses are not concerned.
    raw.send(&mut sim, CONNECT, &[]);
    assert!(kinds(&raw.run(&mut sim, 2)).contains(&ACCEPT));
    Raw::play(&mut sim, address(40));
    for _ in 0..99 {
        newcomer.send(&mut sim, HEARTBEAT, &[]);
        newcomer.run(&mut sim, 100);
        assert_dropped(&mut sim, late.address, &late.bytes(CONNECT, &[]), DropReason::Flood);
    }
    // After 10 s it is heard again.
    late = Raw::login(&mut sim, late.address);
    newcomer.run(&mut sim, 110);
    late.send(&mut sim, CONNECT, &[]);
    assert_eq!(kinds(&late.run(&mut sim, 2))[..1], [ACCEPT]);
}

#[test]
fn a_session_that_is_not_bound_ends_after_ten_seconds() {
    let mut sim = world();
    let mut watcher = Raw::play(&mut sim, address(9));
    let raw = Raw::login(&mut sim, address(0));
    let mut heard = watcher.fly(&mut sim, 9999);
    assert!(!said(&sim, raw.stream).1);
    heard.extend(watcher.fly(&mut sim, 2));
    assert_eq!(last_words(&sim, &raw), [2, 0, 4, 3], "Logout, Timeout");
    heard.extend(watcher.fly(&mut sim, 300));
    assert_only_told(&sim, &[watcher.address]);
    let told = heard.iter().filter(|datagram| datagram.kind == EVENT).flat_map(Heard::events);
    let about_players = told.filter(|(_, content)| content[0] == 4 || content[0] == 5).count();
    assert!(about_players <= 1, "nobody hears of a player who never joined");
    assert_eq!(sim.server.pools().sessions, 1);
}

#[test]
fn five_seconds_of_silence_end_a_session() {
    let (mut sim, mut raw, mut watcher) = playing();
    raw.send(&mut sim, HEARTBEAT, &[]);
    let mut heard = watcher.fly(&mut sim, 4999);
    raw.take(&mut sim);
    assert_eq!((sim.server.pools().sessions, left(&heard)), (2, vec![]));
    heard.extend(watcher.fly(&mut sim, 1));
    assert_eq!(last_words(&sim, &raw), [2, 0, 4, 3], "Logout, Timeout");
    heard.extend(watcher.fly(&mut sim, 500));
    assert_eq!(left(&heard), [(raw.player, TIMEOUT)]);
    assert_three_disconnects(&raw.take(&mut sim));
    assert_eq!((sim.server.stats().sessions_timed_out, sim.server.pools().sessions), (1, 1));
}

/// The last words of the server's side: three Disconnects, the sequence rising.
fn assert_three_disconnects(heard: &[Heard]) {
    let last = &heard[heard.len() - 3..];
    assert_eq!(kinds(last), [DISCONNECT; 3]);
    assert_eq!(kinds(heard).iter().filter(|&&kind| kind == DISCONNECT).count(), 3);
    assert!(last.windows(2).all(|pair| pair[1].sequence == pair[0].sequence.wrapping_add(1)));
    assert!(last.iter().all(|datagram| datagram.payload.is_empty()));
}

/// Every kind of valid datagram keeps a session alive, without any word on the stream (field case 43).
#[test]
fn case_43_any_valid_datagram_keeps_a_session_alive() {
    for (kind, payload) in [(INPUT, &[0][..]), (HEARTBEAT, &[]), (CONNECT, &[]), (EVENT, &[1, 0, 0, 0, 0])] {
        let (mut sim, mut raw, mut watcher) = playing();
        for _ in 0..5 {
            raw.send(&mut sim, kind, payload);
            watcher.fly(&mut sim, 4900);
            raw.take(&mut sim);
        }
        assert_eq!(sim.server.pools().sessions, 2, "type {kind}");
    }
}

#[test]
fn a_server_that_has_nothing_to_say_sends_a_heartbeat_every_500_ms() {
    let level = Level::builtin("level1").expect("the first level");
    let mut sim = Sim::new(server_with(1, ENTITIES, 255, level, 3), 68, Faults::default(), 3);
    let mut raw = Raw::play(&mut sim, address(0));
    let (mut heard_at, mut heartbeats) = (0, 0);
    for now in 0..4000u64 {
        if now % 100 == 0 {
            raw.send(&mut sim, HEARTBEAT, &[]);
        }
        for datagram in raw.run(&mut sim, 1) {
            let silence = now - heard_at;
            assert!(silence <= 501, "{silence} ms of silence");
            if datagram.kind == HEARTBEAT {
                assert!(silence >= 499, "a heartbeat after {silence} ms");
                heartbeats += 1;
            }
            heard_at = now;
        }
    }
    assert!(heartbeats >= 3, "{heartbeats}");
    assert_eq!(sim.server.stats().heartbeats_out, heartbeats);
}

#[test]
fn disconnect_ends_a_session_at_once() {
    let (mut sim, mut raw, mut watcher) = playing();
    raw.take(&mut sim);
    for _ in 0..3 {
        raw.send(&mut sim, DISCONNECT, &[]);
    }
    assert_eq!(sim.server.pools().sessions, 1);
    let heard = watcher.fly(&mut sim, 500);
    assert_eq!(left(&heard), [(raw.player, LEFT)]);
    assert_eq!(last_words(&sim, &raw), [2, 0, 4, 0], "Logout, Quit");
    assert_eq!(raw.take(&mut sim).len(), 0, "who says so first is not told");
    assert_eq!(sim.server.stats().sessions_ended, 1);
}

#[test]
fn the_end_of_the_stream_is_the_end_of_the_session() {
    let (mut sim, mut raw, mut watcher) = playing();
    sim.close_stream(raw.stream);
    assert_eq!(sim.server.pools().sessions, 1);
    let heard = watcher.fly(&mut sim, 500);
    assert_eq!(left(&heard), [(raw.player, LEFT)]);
    assert_three_disconnects(&raw.take(&mut sim));
    assert_eq!(said(&sim, raw.stream).0.len(), 12, "nothing is said on a closed stream");
}

#[test]
fn a_stopping_server_tells_everyone_on_both_ways() {
    let (mut sim, mut raw, mut watcher) = playing();
    let now = sim.now();
    sim.server.shut_down(now);
    sim.run(ms(2), |_, _, _| ());
    for player in [&mut raw, &mut watcher] {
        assert_eq!(last_words(&sim, player), [2, 0, 4, 1], "Logout, ServerShutdown");
        assert_three_disconnects(&player.take(&mut sim));
    }
    assert_eq!(sim.server.pools(), Pools { rooms_open: 1, ..Pools::default() });
    assert_eq!(sim.server.next_deadline(), None);
}

/// 99 malformed datagrams are borne; the hundredth within 5 s is not.
#[test]
fn the_hundredth_malformed_datagram_within_five_seconds_ends_a_session() {
    let (mut sim, mut raw, mut watcher) = playing();
    let mut heard = Vec::new();
    for _ in 0..99 {
        let bad = raw.bytes(INPUT, &[0xE0]);
        assert_dropped(&mut sim, raw.address, &bad, DropReason::MalformedInput);
        raw.send(&mut sim, INPUT, &[0]);
        heard.extend(watcher.fly(&mut sim, 50));
    }
    raw.take(&mut sim);
    assert_eq!((left(&heard), sim.server.stats().sessions_broken), (vec![], 0));
    sim.datagram(raw.address, &raw.bytes(HEARTBEAT, &[1]));
    assert_eq!((sim.server.pools().sessions, sim.server.stats().sessions_broken), (1, 1));
    heard.extend(watcher.fly(&mut sim, 500));
    assert_eq!(left(&heard), [(raw.player, KICKED)]);
    assert_eq!(last_words(&sim, &raw), [2, 0, 4, 2], "Logout, ProtocolError");
    assert_three_disconnects(&raw.take(&mut sim));
}

#[test]
fn a_hundred_malformed_datagrams_over_more_than_five_seconds_are_borne() {
    let (mut sim, mut raw, mut watcher) = playing();
    for _ in 0..300 {
        assert_dropped(&mut sim, raw.address, &raw.bytes(INPUT, &[0xE0]), DropReason::MalformedInput);
        raw.send(&mut sim, INPUT, &[0]);
        watcher.fly(&mut sim, 51);
        raw.take(&mut sim);
    }
    assert_eq!((sim.server.pools().sessions, sim.server.stats().sessions_broken), (2, 0));
}

/// Malformed datagrams count against a session only from its own endpoint with its own token.
#[test]
fn strangers_cannot_have_a_session_ended() {
    let (mut sim, raw, _) = playing();
    for _ in 0..200 {
        assert_dropped(&mut sim, port(&raw, 1), &raw.bytes(INPUT, &[0xE0]), DropReason::Foreign);
        assert_dropped(&mut sim, address(3), &raw.bytes(INPUT, &[0xE0]), DropReason::Foreign);
        let bytes = datagram(INPUT, 9, 0, 0, raw.token ^ 1, &[0xE0]);
        assert_dropped(&mut sim, raw.address, &bytes, DropReason::Foreign);
    }
    assert_eq!(sim.server.pools().sessions, 2);
}

/// A client that hears everything and acknowledges nothing is given up when one more than 256 events are in flight.
#[test]
fn a_client_that_acknowledges_nothing_is_too_slow() {
    let (mut sim, mut raw, mut watcher) = playing();
    let mut heard = Vec::new();
    let mut most = 0;
    for _ in 0..3000 {
        let bytes = datagram(INPUT, raw.sequence, 65_535, 0, raw.token, &[16 * (raw.sequence as u8 / 8 % 2)]);
        raw.sequence += 1;
        sim.datagram(raw.address, &bytes);
        heard.extend(watcher.fly(&mut sim, 50));
        raw.take(&mut sim);
        most = most.max(sim.server.pools().events);
        if sim.server.pools().sessions == 1 {
            break;
        }
    }
    assert_eq!(sim.server.stats().sessions_too_slow, 1);
    assert!((200..=600).contains(&most), "{most} events were kept");
    heard.extend(watcher.fly(&mut sim, 1000));
    assert_eq!(left(&heard), [(raw.player, TIMEOUT)]);
    assert_eq!(last_words(&sim, &raw), [2, 0, 4, 3], "Logout, Timeout");
    // What was on its way to it is not kept (field case 41).
    assert!(sim.server.pools().events < 32, "{:?}", sim.server.pools());
}

/// What was on its way to those who left is given back (field case 41).
#[test]
fn case_41_events_of_the_departed_are_released() {
    let (mut sim, raw, mut watcher) = playing();
    let silent = Raw::play(&mut sim, address(3));
    watcher.fly(&mut sim, 3000);
    let held = sim.server.pools().events;
    sim.close_stream(raw.stream);
    sim.close_stream(silent.stream);
    watcher.fly(&mut sim, 500);
    assert!(sim.server.pools().events < held.min(16), "{held} before, {:?}", sim.server.pools());
    sim.close_stream(watcher.stream);
    sim.run(ms(1), |_, _, _| ());
    assert_eq!(sim.server.pools(), Pools { rooms_open: 1, ..Pools::default() });
}

/// A newcomer hears of everyone, itself included, and of every entity that lives, each exactly once; from then on of
/// every change.
#[test]
fn a_newcomer_is_told_of_everyone_and_everything_once() {
    for wait_ms in [0, 1000, 4000, 9000, 15_500] {
        let (mut sim, mut raw, mut watcher) = playing();
        for _ in 0..wait_ms / 100 {
            raw.send(&mut sim, INPUT, &[16]);
            watcher.fly(&mut sim, 100);
            raw.take(&mut sim);
        }
        let mut newcomer = Raw::play(&mut sim, address(5));
        // The Accept and what came with it were taken by `play`; those events come again, unacknowledged as they are.
        newcomer.ack = u16::MAX;
        newcomer.bits = 0;
        let mut heard = Vec::new();
        for _ in 0..4000 {
            heard.extend(watch(&mut sim, &mut newcomer));
            watcher.take(&mut sim);
            raw.take(&mut sim);
            if sim.now().as_nanos() / 1_000_000 % 16 == 0 {
                for player in [&mut watcher, &mut raw] {
                    player.send(&mut sim, INPUT, &[0]);
                }
            }
        }
        let mut events: Vec<(u16, Vec<u8>)> =
            heard.iter().filter(|datagram| datagram.kind == EVENT).flat_map(Heard::events).collect();
        events.sort();
        events.dedup();
        assert!(events.windows(2).all(|pair| pair[0].0 + 1 == pair[1].0), "ids from 0 on, each one content");
        assert_eq!(events[0].0, 0);
        let joined: Vec<u8> =
            events.iter().filter(|(_, event)| event[0] == 4).map(|(_, event)| event[5]).collect();
        let mut players = joined.clone();
        players.sort_unstable();
        assert_eq!(players, [0, 1, 2], "{joined:?}");

        let tick = sim.server.room_tick(0).expect("a match").0 - 60;
        let alive = alive_at(&events, tick);
        let truth = sim.truth(0, tick).expect("a second ago");
        let there: BTreeSet<u32> =
            truth.entities.iter().map(|(index, entity)| index | u32::from(entity.generation) << 24).collect();
        assert_eq!(alive, there, "after {wait_ms} ms");
        assert!(!there.is_empty());
    }
}

/// Runs a millisecond for a client that sends something now and then, and ignores sequences.
fn watch(sim: &mut World, raw: &mut Raw) -> Vec<Heard> {
    if (sim.now().as_nanos() / 1_000_000).is_multiple_of(16) {
        raw.send(sim, INPUT, &[0]);
    }
    sim.run(ms(1), |_, _, _| ());
    let heard: Vec<Heard> = took(sim, raw.address).iter().map(|bytes| Heard::read(bytes)).collect();
    if let Some(last) = heard.last() {
        raw.bits = match last.sequence.wrapping_sub(raw.ack) {
            _ if raw.ack == u16::MAX => 0,
            ahead => raw.bits.checked_shl(ahead.into()).unwrap_or(0) | u32::MAX >> (32 - ahead.min(32)),
        };
        raw.ack = last.sequence;
    }
    heard
}

/// What is alive at `tick`, as the events tell: each id is spawned when it is not there, and destroyed when it is.
fn alive_at(events: &[(u16, Vec<u8>)], tick: u32) -> BTreeSet<u32> {
    let u32_at = |event: &[u8], at: usize| {
        u32::from_le_bytes([event[at], event[at + 1], event[at + 2], event[at + 3]])
    };
    let mut alive = BTreeSet::new();
    for (_, event) in events.iter().filter(|(_, event)| u32_at(event, 1) <= tick) {
        match event[0] {
            1 => assert!(alive.insert(u32_at(event, 5)), "spawned twice"),
            2 => assert!(alive.remove(&u32_at(event, 5)), "destroyed, but never spawned"),
            _ => {}
        }
    }
    alive
}

/// Tokens of live sessions are never 0 and all different (field case 30).
#[test]
fn case_30_tokens_are_unique() {
    let mut sim = rtype_sim(16, Faults::default(), 5);
    let mut seen = BTreeSet::new();
    for _ in 0..40 {
        let all: Vec<Raw> = (0..64).map(|player| Raw::login(&mut sim, address(player))).collect();
        let tokens: BTreeSet<u32> = all.iter().map(|raw| raw.token).collect();
        assert_eq!((tokens.len(), tokens.contains(&0)), (64, false));
        assert_eq!(sim.server.pools().tokens, 64);
        seen.extend(tokens);
        all.iter().for_each(|raw| sim.close_stream(raw.stream));
    }
    assert!(seen.len() > 2550, "hardly any came again: {}", seen.len());
}

/// A seat goes to somebody else while things for its old owner wait to be sent: none of them reaches the new one.
#[test]
fn case_36_nothing_queued_reaches_the_next_owner_of_a_slot() {
    let mut sim = world();
    let mut first = Raw::play(&mut sim, address(0));
    first.fly(&mut sim, 100);
    // An Accept is wanted, and not sent yet, when the player leaves and the next one comes.
    let now = sim.now();
    first.send(&mut sim, CONNECT, &[]);
    assert!(sim.server.pools().ready > 0);
    sim.server.handle(now, Input::StreamClosed { stream: first.stream });
    let stream = sim.open_stream(address(1));
    sim.server.handle(now, Input::StreamBytes { stream, bytes: &login_request(1, b"next") });
    sim.run(ms(600), |_, _, _| ());
    let heard: Vec<Heard> = took(&mut sim, address(0)).iter().map(|bytes| Heard::read(bytes)).collect();
    assert_eq!(kinds(&heard), [DISCONNECT; 3], "the first is told that it is over, and nothing else");
    assert_only_told(&sim, &[]);
    let (bytes, _) = said(&sim, stream);
    let token = u32::from_le_bytes([bytes[3], bytes[4], bytes[5], bytes[6]]);
    let (address, player) = (address(1), bytes[9]);
    let mut next = Raw { address, stream, token, player, sequence: 0, ack: u16::MAX, bits: 0 };
    assert_eq!(next.player, first.player, "the slot was used again");
    next.send(&mut sim, CONNECT, &[]);
    let mut heard = next.run(&mut sim, 1);
    heard.extend(next.fly(&mut sim, 1000));
    assert_eq!((heard[0].kind, heard[0].sequence, heard[0].ack), (ACCEPT, 0, 0));
    assert_eq!(left(&heard), [], "who was there before is nobody's business");
    // The first one's words are a stranger's.
    let pools = sim.server.pools();
    for kind in [DISCONNECT, CONNECT, HEARTBEAT] {
        assert_dropped(&mut sim, first.address, &first.bytes(kind, &[]), DropReason::Foreign);
    }
    assert_eq!(sim.server.pools(), pools);
}

/// A new session from the very same address and port: it works, and the old one's stragglers do nothing.
#[test]
fn case_37_old_datagrams_do_not_touch_a_new_session_of_the_same_endpoint() {
    let mut sim = world();
    let mut old = Raw::play(&mut sim, address(0));
    old.fly(&mut sim, 500);
    sim.close_stream(old.stream);
    old.run(&mut sim, 20);
    let mut new = Raw::play(&mut sim, address(0));
    assert_ne!(new.token, old.token);
    for kind in [CONNECT, INPUT, EVENT, HEARTBEAT, DISCONNECT] {
        let payload: &[u8] = match kind {
            INPUT => &[31],
            EVENT => &[1, 0, 0, 0, 0],
            _ => &[],
        };
        assert_dropped(&mut sim, old.address, &old.bytes(kind, payload), DropReason::Foreign);
    }
    let heard = new.fly(&mut sim, 1000);
    assert_eq!(heard.last().map(|last| last.ack), Some(new.sequence - 1));
    assert_eq!((sim.server.pools().sessions, sim.server.pools().tokens), (1, 1));
}

/// However many reasons there are at one moment, a session ends once.
#[test]
fn case_39_a_timeout_and_a_disconnect_at_once_are_one_removal() {
    for order in 0..4 {
        let (mut sim, mut raw, mut watcher) = playing();
        raw.send(&mut sim, HEARTBEAT, &[]);
        watcher.fly(&mut sim, 4999);
        raw.take(&mut sim);
        let (end, stream, from) = (sim.now() + ms(1), raw.stream, raw.address);
        let bytes = raw.bytes(DISCONNECT, &[]);
        let disconnect = Input::Datagram { door: Door::Aegis, from, at: end, bytes: &bytes };
        let logout = message(&[4, 0]);
        let logout = Input::StreamBytes { stream, bytes: &logout };
        match order {
            0 => sim.server.handle(end, disconnect),
            1 => {
                sim.server.advance(end);
                sim.server.handle(end, disconnect);
            }
            2 => {
                sim.server.handle(end, logout);
                sim.server.handle(end, disconnect);
                sim.server.handle(end, Input::StreamClosed { stream });
            }
            _ => {
                sim.server.handle(end, Input::StreamClosed { stream });
                sim.server.handle(end, logout);
                sim.server.handle(end, disconnect);
            }
        }
        sim.server.advance(end);
        let heard = watcher.fly(&mut sim, 500);
        assert_eq!(left(&heard).len(), 1, "order {order}");
        assert_eq!((sim.server.stats().sessions_ended, sim.server.pools().sessions), (1, 1));
    }
}
