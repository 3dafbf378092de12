//! What may be logged about bad packets: section 6.7 of the Aegis protocol. The whole server, a log that remembers, and
//! peers that do their worst to fill it.

mod common;
mod raw;

use std::cell::RefCell;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Once;

use common::{address, rtype_sim};
use log::{Level, LevelFilter, Log, Metadata, Record};
use raw::{
    COMPRESSED, CONNECT, EVENT, HEARTBEAT, INPUT, Raw, SNAPSHOT, World, datagram, login_request, message, ms,
};
use tickwire::sim::Faults;

/// Time, level and newline that a line has besides its message, in bytes.
const LINE_FRAME_BYTES: usize = 32;

thread_local! {
    /// The level of this test, and what was logged in it.
    static LOG: RefCell<(LevelFilter, Vec<(Level, String)>)> = const { RefCell::new((LevelFilter::Off, Vec::new())) };
}

struct Capture;

impl Log for Capture {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        LOG.with_borrow(|log| metadata.level() <= log.0)
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            LOG.with_borrow_mut(|log| log.1.push((record.level(), record.args().to_string())));
        }
    }

    fn flush(&self) {}
}

fn capture(level: LevelFilter) {
    static START: Once = Once::new();
    START.call_once(|| {
        log::set_logger(&Capture).expect("the only logger");
        log::set_max_level(LevelFilter::Trace);
    });
    LOG.with_borrow_mut(|log| *log = (level, Vec::new()));
}

/// Takes what was logged.
fn lines() -> Vec<(Level, String)> {
    LOG.with_borrow_mut(|log| std::mem::take(&mut log.1))
}

fn at(level: Level, lines: &[(Level, String)]) -> Vec<&str> {
    lines.iter().filter(|line| line.0 == level).map(|line| line.1.as_str()).collect()
}

/// Bytes that lines take in the log.
fn bytes(lines: &[(Level, String)]) -> usize {
    lines.iter().map(|(_, text)| (text.len() + LINE_FRAME_BYTES).min(tickwire::logger::LINE_BYTES_MAX)).sum()
}

fn world() -> World {
    rtype_sim(1, Faults::default(), 17)
}

/// One datagram of a stranger for each reason to drop it.
fn junk(number: u32) -> Vec<Vec<u8>> {
    let connect = datagram(CONNECT, 0, 65_535, 0, number, &[]);
    let mut magic = connect.clone();
    magic[0] = 0;
    let mut version = connect.clone();
    version[4] = 2;
    vec![
        vec![0; 1201],
        connect[..17].to_vec(),
        magic,
        version,
        datagram(99, 0, 0, 0, number, &[]),
        datagram(HEARTBEAT, 0, 0, 0, number, &[]),
        datagram(CONNECT, 0, 0, 0, number, &[1]),
    ]
}

#[test]
fn a_dropped_datagram_is_a_debug_line_at_most() {
    capture(LevelFilter::Trace);
    let mut sim = world();
    let raw = Raw::play(&mut sim, address(0));
    lines();
    let mut all = junk(7);
    all.push(raw.bytes(INPUT, &[0xFF]));
    for bytes in all {
        for from in [raw.address, address(1)] {
            sim.datagram(from, &bytes);
            let lines = lines();
            assert_eq!((lines.len(), lines[0].0), (1, Level::Debug), "{lines:?}");
            assert!(lines[0].1.contains(&from.to_string()), "{lines:?}");
            assert!(lines[0].1.contains(&format!("{} bytes", bytes.len())), "{lines:?}");
        }
    }
}

#[test]
fn debug_lines_say_why_and_show_32_bytes_at_most() {
    capture(LevelFilter::Debug);
    let mut sim = world();
    let raw = Raw::play(&mut sim, address(0));
    let words = [
        "too large",
        "truncated header",
        "bad magic",
        "bad version",
        "unknown type",
        "foreign",
        "malformed Connect",
    ];
    lines();
    for (bytes, word) in junk(0x1122_3344).iter().zip(words) {
        sim.datagram(address(1), bytes);
        let line = lines().remove(0).1;
        assert!(line.contains(word), "{line}");
    }
    for (kind, word) in [
        (INPUT, "malformed Input"),
        (EVENT, "malformed Event"),
        (HEARTBEAT, "malformed Heartbeat"),
        (7, "malformed Disconnect"),
    ] {
        sim.datagram(raw.address, &raw.bytes(kind, &[0xAB; 700]));
        let line = lines().remove(0).1;
        assert!(line.contains(word), "{line}");
        // 18 bytes of header, 14 of the payload.
        assert_eq!(line.matches("ab").count(), 14, "{line}");
    }
}

/// A token opens a session: it is in no line, whatever happens to its session.
#[test]
fn no_line_holds_a_token() {
    capture(LevelFilter::Trace);
    let mut sim = world();
    let mut watcher = Raw::play(&mut sim, address(9));
    let mut tokens = vec![watcher.token];
    for end in 0..6 {
        let mut raw = Raw::play(&mut sim, address(0));
        tokens.push(raw.token);
        for kind in [INPUT, EVENT, HEARTBEAT, CONNECT, SNAPSHOT, INPUT | COMPRESSED, 99] {
            let bytes = raw.bytes(kind, &[0xFF; 40]);
            sim.datagram(raw.address, &bytes);
            sim.datagram(address(3), &bytes);
            sim.datagram(address(3), &bytes[..18]);
            sim.datagram(address(3), &bytes[..17]);
            let mut long = bytes.clone();
            long.resize(1300, 7);
            sim.datagram(address(3), &long);
        }
        match end {
            0 => sim.close_stream(raw.stream),
            1 => sim.stream_bytes(raw.stream, &message(&[4, 0])),
            2 => raw.send(&mut sim, 7, &[]),
            3 => (0..100).for_each(|_| sim.datagram(raw.address, &raw.bytes(INPUT, &[0xFF]))),
            4 => sim.stream_bytes(raw.stream, &login_request(1, b"again")),
            _ => {}
        }
        watcher.fly(&mut sim, 12_000);
        raw.take(&mut sim);
        sim.strays.clear();
    }
    let lines = lines();
    assert!(lines.len() > 100, "there was much to tell: {}", lines.len());
    for token in tokens {
        let [a, b, c, d] = token.to_le_bytes();
        let forms = [
            token.to_string(),
            format!("{token:x}"),
            format!("{token:X}"),
            format!("{a:02x}{b:02x}{c:02x}{d:02x}"),
            format!("{a:02x} {b:02x} {c:02x} {d:02x}"),
            format!("{a}, {b}, {c}, {d}"),
        ];
        for form in forms {
            let told = lines.iter().find(|line| line.1.contains(&form));
            assert_eq!(told, None, "token {token} as {form}");
        }
    }
}

#[test]
fn the_drops_of_a_source_are_one_info_line_in_ten_seconds() {
    capture(LevelFilter::Info);
    let mut sim = world();
    let mut told = Vec::new();
    for step in 0..3000u64 {
        for source in 1..=3 {
            sim.datagram(address(source), &junk(1)[step as usize % 7]);
        }
        sim.run(ms(20), |_, _, _| ());
        told.extend(lines().into_iter().map(|line| (step * 20, line)));
    }
    sim.run(ms(20_000), |_, _, _| ());
    told.extend(lines().into_iter().map(|line| (80_000, line)));
    for source in 1..=3 {
        let ip = format!("{}:", address(source).ip());
        let about: Vec<_> = told.iter().filter(|(_, line)| line.1.contains(&ip)).collect();
        assert!(about.windows(2).all(|pair| pair[1].0 - pair[0].0 >= 9_980), "{about:?}");
        assert!(about.len() >= 6 && about.iter().all(|(_, line)| line.0 == Level::Info));
        for word in [
            "too large",
            "truncated header",
            "bad magic",
            "bad version",
            "unknown type",
            "foreign",
            "malformed Connect",
        ] {
            assert!(about.iter().all(|(_, line)| line.1.contains(word)), "{word}: {about:?}");
        }
        // The counts of all lines add up to all that was dropped.
        let numbers = about.iter().flat_map(|(_, line)| line.1[line.1.find(": ").unwrap() + 2..].split(", "));
        let sum: u64 = numbers.map(|part| part.split(' ').next().unwrap().parse::<u64>().unwrap()).sum();
        assert_eq!(sum, 3000);
    }
    assert_eq!(told.len(), told.iter().filter(|(_, line)| line.1.starts_with("dropped from")).count());
}

#[test]
fn nothing_is_logged_when_nothing_was_dropped() {
    capture(LevelFilter::Trace);
    let mut sim = world();
    let mut raw = Raw::play(&mut sim, address(0));
    lines();
    raw.fly(&mut sim, 30_000);
    assert_eq!(lines(), []);
}

#[test]
fn closed_connections_and_refused_logins_are_info_lines() {
    capture(LevelFilter::Trace);
    let mut sim = world();
    let mut said = |bytes: &[u8]| {
        let stream = sim.open_stream(address(0));
        sim.stream_bytes(stream, bytes);
        sim.run(ms(if bytes.is_empty() { 5001 } else { 1000 }), |_, _, _| ());
        let lines = lines();
        assert_eq!((lines.len(), lines[0].0), (1, Level::Info), "{lines:?}");
        assert!(lines[0].1.contains(&address(0).to_string()), "{lines:?}");
        lines[0].1.clone()
    };
    for (bytes, why) in [
        (vec![1, 0x10], "message too large"),
        (message(&[1, 1]), "malformed LoginRequest"),
        (message(&[4, 0]), "unexpected Logout"),
        (message(&[2, 0]), "unexpected LoginAccepted"),
        (vec![], "login timeout"),
        (login_request(2, b"x"), "BadVersion"),
        (login_request(1, b"\n"), "BadName"),
        (message(&[9]), ""),
        (vec![0, 0], ""),
    ] {
        let line = said(&bytes);
        assert!(line.contains(why), "{line}");
    }
    let mut raw = Raw::play(&mut sim, address(0));
    raw.run(&mut sim, 5);
    lines();
    sim.stream_bytes(raw.stream, &login_request(1, b"x"));
    let lines = lines();
    assert!(at(Level::Info, &lines)[0].contains("unexpected LoginRequest"), "{lines:?}");
}

#[test]
fn a_protocol_error_is_a_warning_with_player_and_address() {
    capture(LevelFilter::Info);
    let mut sim = world();
    Raw::play(&mut sim, address(9));
    let raw = Raw::play(&mut sim, address(0));
    (0..99).for_each(|_| sim.datagram(raw.address, &raw.bytes(INPUT, &[0xFF])));
    assert_eq!(at(Level::Warn, &lines()).len(), 0);
    sim.datagram(raw.address, &raw.bytes(INPUT, &[0xFF]));
    let lines = lines();
    let warnings = at(Level::Warn, &lines);
    assert_eq!(warnings.len(), 1, "{lines:?}");
    for part in ["player 1", "10.1.0.1:5000", "100"] {
        assert!(warnings[0].contains(part), "{warnings:?}");
    }
}

/// Names with control characters do not get in; what else does is shown so that a line is one line and reads one way.
#[test]
fn names_cannot_write_into_the_log() {
    capture(LevelFilter::Trace);
    let mut sim = world();
    for name in ["a\nb", "\u{1b}[2J", "\r", "\u{85}", "\u{202E}evil", "\"quoted\"", "tab\tbed", "\u{2028}x"] {
        let stream = sim.open_stream(address(0));
        sim.stream_bytes(stream, &login_request(1, name.as_bytes()));
        let said = raw::said(&sim, stream).0;
        if said[2] == 2 {
            let token = u32::from_le_bytes([said[3], said[4], said[5], said[6]]);
            sim.datagram(address(0), &datagram(CONNECT, 0, 65_535, 0, token, &[]));
            sim.close_stream(stream);
        }
        sim.run(ms(1500), |_, _, _| ());
    }
    let lines = lines();
    assert!(lines.iter().any(|line| line.1.contains("evil")), "{lines:?}");
    for (_, line) in &lines {
        let is_plain = |c: char| !c.is_control() && !['\u{202E}', '\u{2028}'].contains(&c);
        assert!(line.chars().all(is_plain), "{line:?}");
    }
}

/// A million junk datagrams in an hour, from ever other addresses: less than a megabyte of log, and the counters tell.
#[test]
fn case_60_a_million_junk_datagrams_are_less_than_a_megabyte_of_log() {
    capture(LevelFilter::Info);
    let mut sim = world();
    // Few sources, many, and as many as the table holds; every reason in every line, and long addresses.
    for sources in [1u32, 200, 256, 10_000] {
        let before = sim.server.drops().total();
        let mut sent = 0u32;
        for _ in 0..3600 {
            for _ in 0..40 {
                for bytes in junk(sent) {
                    let ip = Ipv6Addr::new(
                        0x2001,
                        0xDB8,
                        0xAAAA,
                        0xBBBB,
                        0xCCCC,
                        0xDDDD,
                        0xEEEE,
                        (sent / 7 % sources) as u16,
                    );
                    sim.datagram(SocketAddr::from((ip, 60_000)), &bytes);
                    sent += 1;
                }
            }
            sim.run(ms(1000), |_, _, _| ());
        }
        let lines = lines();
        assert!(
            bytes(&lines) < 1_000_000,
            "{sources} sources: {} bytes, as in {:?}",
            bytes(&lines),
            lines.last()
        );
        assert!(!lines.is_empty());
        assert_eq!(sim.server.drops().total() - before, u64::from(sent));
        assert!(sent > 1_000_000);
    }
}

/// Connections that say nonsense, logins that are refused, sessions that come and break: an hour of them is less than
/// a megabyte of log as well.
#[test]
fn case_60_broken_clients_by_the_thousand_are_less_than_a_megabyte_of_log() {
    capture(LevelFilter::Info);
    let mut sim = world();
    for _ in 0..3600 {
        for player in 0..10 {
            let stream = sim.open_stream(address(1));
            sim.stream_bytes(stream, &[0xFF, 0xFF]);
            let stream = sim.open_stream(address(2));
            sim.stream_bytes(stream, &login_request(1, b"\n"));
            let raw = Raw::play(&mut sim, address(3 + player));
            (0..100).for_each(|_| sim.datagram(raw.address, &raw.bytes(INPUT, &[0xFF])));
            sim.run(ms(2), |_, _, _| ());
            sim.strays.clear();
        }
        sim.run(ms(960), |_, _, _| ());
        sim.strays.clear();
    }
    let lines = lines();
    assert_eq!(sim.server.stats().sessions_broken, 36_000);
    assert!(bytes(&lines) < 1_000_000, "{} bytes, as in {:?}", bytes(&lines), lines.last());
    assert!(!at(Level::Warn, &lines).is_empty());
}
