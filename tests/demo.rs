//! The demonstration as a user meets it: it plays, it reports, and its exit code says whether everything held.

#[path = "common/kill.rs"]
mod kill;

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

fn start(args: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_tickwire"))
        .arg("demo")
        .args(args)
        .env_clear()
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts")
}

/// Waits for its end: the exit code, standard output, standard error.
fn end(child: Child) -> (Option<i32>, String, String) {
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// What the report says of `topic`.
fn line<'a>(report: &'a str, topic: &str) -> &'a str {
    let line = report.lines().find_map(|line| line.strip_prefix(topic));
    line.unwrap_or_else(|| panic!("nothing of {topic} in\n{report}")).trim()
}

/// Five bots take two rooms. Sealed, so that the loop is shown not to allocate as well.
#[test]
fn a_demo_plays_and_reports() {
    let (code, report, progress) = end(start(&["--players", "5", "--seconds", "5", "--verify"]));
    assert_eq!(code, Some(0), "{report}\n{progress}");
    assert!(report.starts_with("5 bots for 5 s against 127.0.0.1:"), "{report}");
    assert!(line(&report, "players").starts_with("5 in 2 rooms, 5.0 s"), "{report}");
    assert_eq!(line(&report, "pools empty"), "yes");
    assert!(line(&report, "events").contains(" handed over, 0 came again, 0 lost, 0 ignored"), "{report}");
    assert!(
        line(&report, "compared").ends_with(" events that everyone in the room was told of once"),
        "{report}"
    );
    assert!(line(&report, "snapshots").ends_with(", 0 missed"), "{report}");
    assert!(line(&report, "known").contains(" at the end, by everyone in the room; "), "{report}");
    for topic in ["ticks", "datagrams", "bytes", "rounds", "round trip", "drops", "kernel drops"] {
        assert_ne!(line(&report, topic), "", "{report}");
    }
    assert!(progress.contains("5 s  5 playing, tick "), "{progress}");
}

/// All protocols meet, and are told of the same entities. Each has its lines in the report.
#[test]
fn mixed_bots_know_the_same() {
    let args = ["--protocol", "mixed", "--players", "6", "--seconds", "4", "--verify"];
    let (code, report, progress) = end(start(&args));
    assert_eq!(code, Some(0), "{report}\n{progress}");
    let first = report.lines().next().unwrap_or_default();
    assert!(
        first.starts_with("6 bots for 4 s against 127.0.0.1:") && first.ends_with(" (fignet)"),
        "{report}"
    );
    assert!(line(&report, "players").ends_with(": 2 aegis, 2 rtype, 2 fignet"), "{report}");
    let lines: Vec<&str> = report.lines().collect();
    for topic in ["datagrams", "bytes", "snapshots", "events", "round trip"] {
        let index = lines.iter().position(|line| line.starts_with(topic)).expect("a line of the topic");
        assert_eq!(lines[index].get(17..24), Some("aegis  "), "{report}");
        assert_eq!(lines[index + 1].get(..24), Some("                 rtype  "), "{report}");
        assert_eq!(lines[index + 2].get(..24), Some("                 fignet "), "{report}");
    }
    assert!(
        line(&report, "compared").ends_with(" events that everyone in the room was told of once"),
        "{report}"
    );
    assert!(line(&report, "known").contains(" entities at the end, by everyone in the room; "), "{report}");
    assert_eq!(line(&report, "pools empty"), "yes");
}

/// What R-Type does not tell is not made up, and there are no names where there is one protocol.
#[test]
fn rtype_bots_play_among_themselves() {
    let (code, report, progress) = end(start(&["--protocol", "rtype", "--duration-s", "2"]));
    assert_eq!(code, Some(0), "{report}\n{progress}");
    assert!(line(&report, "players").starts_with("4 in 1 room, 2.0 s"), "{report}");
    assert!(line(&report, "snapshots").ends_with(" a second per player), 0 missed"), "{report}");
    let events = line(&report, "events");
    assert!(events.contains(" created, ") && events.contains(" 0 lost, 0 ignored, "), "{report}");
    assert_eq!(line(&report, "compared"), "no events: none are told");
    assert_eq!(line(&report, "rounds"), "not told of");
    assert!(!report.contains("rtype"), "{report}");
    assert_eq!(line(&report, "pools empty"), "yes");
}

#[test]
fn a_signal_ends_it_early_with_a_report() {
    let child = start(&["--seconds", "600"]);
    thread::sleep(Duration::from_secs(1));
    kill::kill("INT", child.id());
    let (code, report, errors) = end(child);
    assert_eq!((code, errors.as_str()), (Some(0), ""), "{report}");
    assert!(line(&report, "players").ends_with(" s, ended early"), "{report}");
    assert_eq!(line(&report, "pools empty"), "yes");
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let child = start(&["--seconds", "600"]);
    thread::sleep(Duration::from_secs(1));
    kill::kill("INT", child.id());
    kill::kill("TERM", child.id());
    let (code, report, errors) = end(child);
    assert_eq!(code, Some(1), "{report}");
    assert_eq!(errors, "error: stopped by a second signal, without a report\n");
}
