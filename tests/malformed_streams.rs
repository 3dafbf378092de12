//! The rules of the login stream: sections 3.2, 3.3 and 6.5 of the Aegis protocol, by hand against the whole server.

mod common;
mod raw;

use common::{address, rtype_sim};
use raw::{Raw, World, login_request, message, ms, said};
use tickwire::client::aegis::{Client, Over, Phase};
use tickwire::seam::{Core, Input, StreamId};
use tickwire::server::Pools;
use tickwire::sim::Faults;
use tickwire::time::Instant;
use tickwire::wire::aegis::stream::LogoutReason;

const BAD_VERSION: u8 = 1;
const BAD_NAME: u8 = 2;
const SERVER_FULL: u8 = 3;
const SHUTTING_DOWN: u8 = 4;
const RATE_LIMITED: u8 = 5;

fn world() -> World {
    rtype_sim(1, Faults::default(), 3)
}

/// A logged-in and bound player whose stream is `Raw::stream`, in a world with another player who watches.
fn playing() -> (World, Raw, Raw) {
    let mut sim = world();
    let mut watcher = Raw::play(&mut sim, address(9));
    let raw = Raw::play(&mut sim, address(0));
    watcher.fly(&mut sim, 300);
    (sim, raw, watcher)
}

/// The stream was closed, and nothing but `bytes` was said before.
#[track_caller]
fn assert_closed_after(sim: &World, stream: StreamId, bytes: &[u8]) {
    assert_eq!(said(sim, stream), (bytes.to_vec(), true));
}

/// What is said first on a connection closes it without a word; said after a login, it ends the session too, and the
/// others hear that the player left.
fn assert_closes(bytes: &[u8], is_unexpected_later: bool) {
    let mut sim = world();
    let empty = sim.server.pools();
    let stream = sim.open_stream(address(0));
    sim.stream_bytes(stream, bytes);
    assert_closed_after(&sim, stream, &[]);
    assert_eq!(sim.server.pools(), empty, "{bytes:02x?}");
    assert_eq!((sim.server.stats().streams_failed, sim.server.stats().logins_refused), (1, 0));
    if is_unexpected_later {
        assert_closes_a_session(bytes);
    }
}

fn assert_closes_a_session(bytes: &[u8]) {
    let (mut sim, raw, mut watcher) = playing();
    let (before, is_closed) = said(&sim, raw.stream);
    assert!(!is_closed);
    sim.stream_bytes(raw.stream, bytes);
    assert_closed_after(&sim, raw.stream, &before);
    assert_eq!(sim.server.pools().sessions, 1);
    let heard = watcher.fly(&mut sim, 500);
    assert_eq!(raw::left(&heard), [(raw.player, 1)], "PlayerLeft, Left");
}

#[test]
fn case_20_lengths_out_of_range_close_the_connection() {
    // Minus one, as some would read it, is 65535.
    for len in [0u16, 4097, 4098, 0x7FFF, 0x8000, 0xFFFF] {
        assert_closes(&len.to_le_bytes(), true);
        // Whatever follows, and before it all came.
        assert_closes(&[&len.to_le_bytes()[..], &[1; 30]].concat(), true);
    }
}

/// Only the connection that said it is closed.
#[test]
fn case_20_the_others_play_on() {
    let (mut sim, raw, mut watcher) = playing();
    sim.stream_bytes(raw.stream, &[0xFF, 0xFF]);
    watcher.fly(&mut sim, 1000);
    assert!(!said(&sim, watcher.stream).1);
    assert_eq!((sim.server.pools().sessions, sim.server.stats().sessions_ended), (1, 1));
}

#[test]
fn kinds_that_do_not_exist_close_the_connection() {
    for kind in (0..=255u8).filter(|kind| !(1..=4).contains(kind)) {
        for body in [vec![kind], vec![kind, 1, 1, 0, b'x'], vec![kind, 0]] {
            assert_closes(&message(&body), kind < 8);
        }
    }
}

#[test]
fn malformed_messages_close_the_connection() {
    let whole = &login_request(1, b"Ada")[2..];
    let mut bodies: Vec<Vec<u8>> = (1..whole.len()).map(|len| whole[..len].to_vec()).collect();
    bodies.push([whole, &[0]].concat());
    for len in [0u16, 2, 4, 16, 4092, 0x8000, 0xFFFF] {
        bodies.push([&[1, 1], &len.to_le_bytes()[..], b"Ada"].concat());
    }
    // The name is said to be longer or shorter than the message, by as little as can be.
    for (len, bytes) in [(4000u16, 3999usize), (4000, 4001), (17, 16), (16, 17), (1, 4092)] {
        bodies.push([&[1, 1], &len.to_le_bytes()[..], &vec![b'x'; bytes]].concat());
    }
    bodies.extend([vec![4], vec![4, 0, 0], vec![4; 4096]]);
    for body in bodies {
        assert_closes(&message(&body), true);
    }
}

#[test]
fn unexpected_messages_close_the_connection() {
    let accepted = message(&[2, 1, 2, 3, 4, 5, 6, 0, 60, 3]);
    let rejected = message(&[3, 1]);
    assert_closes(&message(&[4, 0]), false);
    assert_closes(&accepted, true);
    assert_closes(&rejected, true);
    // A second LoginRequest, good or bad.
    assert_closes_a_session(&login_request(1, b"Ada"));
    assert_closes_a_session(&login_request(2, b"Ada"));
    assert_closes_a_session(&login_request(1, b""));
}

/// Messages that come in one read are read one by one; what follows the end is not read.
#[test]
fn several_messages_in_one_read() {
    let mut sim = world();
    let stream = sim.open_stream(address(0));
    sim.stream_bytes(
        stream,
        &[login_request(1, b"Ada"), message(&[4, 0]), login_request(1, b"Bob")].concat(),
    );
    let (bytes, is_closed) = said(&sim, stream);
    assert_eq!(
        (bytes.len(), &bytes[12..], is_closed),
        (16, &[2, 0, 4, 0][..], true),
        "LoginAccepted, Logout Quit"
    );
    assert_eq!((sim.server.stats().logins_accepted, sim.server.pools().sessions), (1, 0));

    let stream = sim.open_stream(address(0));
    sim.stream_bytes(stream, &[login_request(1, b"Ada"), login_request(1, b"Ada")].concat());
    let (bytes, is_closed) = said(&sim, stream);
    assert!(is_closed);
    // Whether the LoginAccepted still went out or not, nothing was said about the second.
    assert!(bytes.is_empty() || bytes.len() == 12 && bytes[2] == 2, "{bytes:02x?}");
    assert_eq!(sim.server.pools(), Pools { rooms_open: 1, ..Pools::default() });
}

#[test]
fn one_byte_at_a_time() {
    let mut sim = world();
    let stream = sim.open_stream(address(0));
    let request = login_request(1, "Zoé".as_bytes());
    for &byte in &request {
        assert_eq!(said(&sim, stream), (vec![], false));
        sim.stream_bytes(stream, &[byte]);
    }
    assert_eq!(said(&sim, stream).0.len(), 12);
    for byte in message(&[4, 0]) {
        assert_eq!(said(&sim, stream).0.len(), 12);
        sim.stream_bytes(stream, &[byte]);
    }
    assert_eq!(said(&sim, stream).0[12..], [2, 0, 4, 0]);
}

/// However slowly a LoginRequest comes, it has 5 s from the connection on.
#[test]
fn case_44_a_login_in_drips_has_an_absolute_deadline() {
    let mut sim = world();
    let empty = sim.server.pools();
    let stream = sim.open_stream(address(0));
    let request = message(&[&[1, 1, 0xFC, 0x0F][..], &[b'x'; 4092]].concat());
    for &byte in request.iter().take(49) {
        sim.stream_bytes(stream, &[byte]);
        sim.run(ms(100), |_, _, _| ());
    }
    sim.run(ms(99), |_, _, _| ());
    assert!(!said(&sim, stream).1, "4.999 s");
    sim.run(ms(2), |_, _, _| ());
    assert_closed_after(&sim, stream, &[]);
    assert_eq!(sim.server.pools(), empty);
}

#[test]
fn a_connection_that_says_nothing_is_closed_after_five_seconds() {
    let mut sim = world();
    let stream = sim.open_stream(address(0));
    sim.run(ms(4999), |_, _, _| ());
    assert!(!said(&sim, stream).1);
    sim.run(ms(2), |_, _, _| ());
    assert_closed_after(&sim, stream, &[]);
    // Once logged in, the deadline is gone.
    let mut raw = Raw::play(&mut sim, address(0));
    raw.fly(&mut sim, 6000);
    assert!(!said(&sim, raw.stream).1);
}

fn assert_rejected(sim: &mut World, from: usize, request: &[u8], reason: u8) {
    let before = sim.server.pools();
    let stream = sim.open_stream(address(from));
    sim.stream_bytes(stream, request);
    assert_closed_after(sim, stream, &[2, 0, 3, reason]);
    assert_eq!(sim.server.pools(), before);
}

#[test]
fn other_versions_are_refused_before_names() {
    let mut sim = world();
    for version in (0..=255u8).filter(|&version| version != 1) {
        assert_rejected(&mut sim, 0, &login_request(version, b"Ada"), BAD_VERSION);
    }
    for name in [&b""[..], b"\xFF", b"seventeen bytes!!", &[b'x'; 4000]] {
        assert_rejected(&mut sim, 0, &login_request(2, name), BAD_VERSION);
    }
    assert_eq!(sim.server.stats().streams_failed, 0, "being refused is no fault");
}

/// A name of 4000 bytes, of the most there can be, cut in a character, with what cannot be shown: refused, not closed
/// in silence (field case 25).
#[test]
fn case_25_bad_names_are_refused() {
    let mut sim = world();
    let cut = &"fifteen bytes..é".as_bytes()[..16];
    let names: [&[u8]; 14] = [
        b"",
        b"seventeen bytes!!",
        &[b'x'; 4000],
        &[b'x'; 4092],
        &[0xFF; 4092],
        cut,
        b"\xC0\x80",
        b"\xED\xA0\x80",
        b"\xF4\x90\x80\x80",
        b"a\0",
        b"\n",
        b"\x1B[31m",
        b"\x7F",
        "\u{9f}".as_bytes(),
    ];
    for name in names {
        assert_rejected(&mut sim, 0, &login_request(1, name), BAD_NAME);
    }
    assert_eq!((sim.server.stats().logins_refused, sim.server.stats().streams_failed), (14, 0));
    for name in [&b"x"[..], b"sixteen bytes!!!", "éééééééé".as_bytes(), "\u{202E}\u{1F600}".as_bytes()]
    {
        let stream = sim.open_stream(address(0));
        sim.stream_bytes(stream, &login_request(1, name));
        assert_eq!(said(&sim, stream).0[2], 2, "{name:02x?}");
        sim.close_stream(stream);
    }
}

#[test]
fn a_full_server_says_so() {
    let mut sim = world();
    for player in 0..4 {
        Raw::login(&mut sim, address(player));
    }
    assert_rejected(&mut sim, 5, &login_request(1, b"fifth"), SERVER_FULL);
    assert_rejected(&mut sim, 5, &login_request(1, b""), BAD_NAME);
    assert_rejected(&mut sim, 5, &login_request(9, b""), BAD_VERSION);
}

#[test]
fn a_stopping_server_says_so() {
    let mut sim = world();
    let raw = Raw::login(&mut sim, address(0));
    let idle = sim.open_stream(address(1));
    let now = sim.now();
    sim.server.shut_down(now);
    sim.run(ms(2), |_, _, _| ());
    assert_eq!(said(&sim, raw.stream).0[12..], [2, 0, 4, 1], "Logout, ServerShutdown");
    assert!(said(&sim, raw.stream).1);
    assert_closed_after(&sim, idle, &[]);
    assert_rejected(&mut sim, 5, &login_request(1, b"late"), SHUTTING_DOWN);
    assert_rejected(&mut sim, 5, &login_request(1, b""), BAD_NAME);
}

/// An address has its share of 16 sessions; others still get in.
#[test]
fn an_address_has_its_share_of_sessions() {
    let mut sim = rtype_sim(8, Faults::default(), 3);
    let mut one = None;
    for _ in 0..16 {
        one = Some(Raw::login(&mut sim, address(0)));
    }
    assert_rejected(&mut sim, 0, &login_request(1, b"greedy"), RATE_LIMITED);
    assert_rejected(&mut sim, 0, &login_request(1, b"\n"), BAD_NAME);
    Raw::login(&mut sim, address(1));
    sim.close_stream(one.expect("16 of them").stream);
    Raw::login(&mut sim, address(0));
}

/// Reasons of a Logout that this version does not know are read as Quit: the session ends like any other.
#[test]
fn any_logout_ends_the_session() {
    for reason in [0, 1, 2, 3, 4, 5, 100, 255] {
        let (mut sim, raw, mut watcher) = playing();
        sim.stream_bytes(raw.stream, &message(&[4, reason]));
        let (bytes, is_closed) = said(&sim, raw.stream);
        assert_eq!((&bytes[12..], is_closed), (&[2, 0, 4, 0][..], true));
        let heard = watcher.fly(&mut sim, 500);
        assert_eq!(raw::left(&heard), [(raw.player, 1)], "reason {reason}: PlayerLeft, Left");
    }
}

/// Connections that close at once, or in the middle of a message, leave nothing (field case 50).
#[test]
fn case_50_connecting_and_closing_at_once() {
    let mut sim = world();
    let empty = sim.server.pools();
    let request = login_request(1, b"Ada");
    for len in 0..request.len() {
        let stream = sim.open_stream(address(0));
        if len > 0 {
            sim.stream_bytes(stream, &request[..len]);
        }
        sim.close_stream(stream);
        assert_eq!(said(&sim, stream), (vec![], false));
    }
    let stream = sim.open_stream(address(0));
    sim.stream_bytes(stream, &request);
    sim.close_stream(stream);
    assert_eq!(sim.server.pools(), empty);
}

/// A late word about a stream that is closed finds nobody, even when its place was taken by another.
#[test]
fn bytes_of_a_closed_stream_reach_nobody() {
    let mut sim = world();
    let stream = sim.open_stream(address(0));
    sim.stream_bytes(stream, &[0xFF, 0xFF]);
    assert_closed_after(&sim, stream, &[]);
    sim.stream_bytes(stream, &login_request(1, b"late"));
    let second = sim.open_stream(address(1));
    assert_eq!(second.index, stream.index);
    sim.stream_bytes(stream, &login_request(1, b"late"));
    let now = sim.now();
    sim.server.handle(now, Input::StreamClosed { stream });
    assert_eq!(said(&sim, second), (vec![], false));
    assert_eq!((sim.server.stats().logins_accepted, sim.server.pools().streams), (0, 1));
    sim.stream_bytes(second, &login_request(1, b"second"));
    assert_eq!(said(&sim, second).0.len(), 12);
}

fn told(bytes: &[u8]) -> Phase {
    let mut client = Client::new(&common::settings("client"));
    client.stream_bytes(Instant::from_millis(1), bytes);
    client.phase()
}

/// The client's side of 6.5.
#[test]
fn clients_close_bad_streams() {
    let accepted = message(&[2, 1, 2, 3, 4, 5, 6, 0, 60, 3]);
    assert_eq!(told(&accepted), Phase::Binding);
    let mut bad = vec![
        vec![0, 0],
        vec![1, 0x10],
        vec![0xFF, 0xFF],
        login_request(1, b"Ada"),
        message(&[3]),
        message(&[4]),
    ];
    bad.extend((0..=255u8).filter(|kind| !(1..=4).contains(kind)).map(|kind| message(&[kind, 0])));
    bad.extend((1..10).map(|len| message(&accepted[2..2 + len])));
    bad.push(message(&[&accepted[2..], &[0]].concat()));
    bad.push(message(&[2, 1, 2, 3, 4, 5, 6, 4, 60, 3]));
    bad.push(message(&[2, 0, 0, 0, 0, 5, 6, 0, 60, 3]));
    for bytes in bad {
        assert!(matches!(told(&bytes), Phase::Over(Over::BadStream(_))), "{bytes:02x?}: {:?}", told(&bytes));
        let later = told(&[&accepted[..], &bytes].concat());
        assert!(matches!(later, Phase::Over(Over::BadStream(_))), "{bytes:02x?}: {later:?}");
    }
    let again = told(&[&accepted[..], &accepted].concat());
    assert!(matches!(again, Phase::Over(Over::BadStream(_))));
    let rejected = told(&[&accepted[..], &message(&[3, 1])].concat());
    assert!(matches!(rejected, Phase::Over(Over::BadStream(_))));
}

#[test]
fn clients_read_unknown_reasons_as_the_document_says() {
    use tickwire::wire::aegis::stream::RejectReason;
    for (reason, read) in [
        (1, RejectReason::BadVersion),
        (5, RejectReason::RateLimited),
        (0, RejectReason::Refused),
        (6, RejectReason::Refused),
        (255, RejectReason::Refused),
    ] {
        assert_eq!(told(&message(&[3, reason])), Phase::Over(Over::Rejected(read)));
    }
    let accepted = message(&[2, 1, 2, 3, 4, 5, 6, 0, 60, 3]);
    for (reason, read) in [
        (1, LogoutReason::ServerShutdown),
        (4, LogoutReason::Kicked),
        (5, LogoutReason::Quit),
        (255, LogoutReason::Quit),
    ] {
        assert_eq!(
            told(&[&accepted[..], &message(&[4, reason])].concat()),
            Phase::Over(Over::LoggedOut(read))
        );
    }
}
