//! The program from outside: what it prints and how it ends, for every way to be told something wrong.

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::process::{Command, Output};

use tempfile::TempDir;
use tickwire::config::KEYS;

/// Runs the program with `args` and no environment but `variables`.
fn run(args: &[&str], variables: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tickwire"))
        .args(args)
        .env_clear()
        .envs(variables.iter().copied())
        .output()
        .expect("the program runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

/// Runs the program, which must fail with code 1, nothing on standard output and `lines` on standard error.
fn fails_with(args: &[&str], variables: &[(&str, &str)], lines: &[&str]) {
    let output = run(args, variables);
    assert_eq!(text(&output.stderr).lines().collect::<Vec<_>>(), lines, "{args:?}");
    assert_eq!(output.status.code(), Some(1), "{args:?}");
    assert_eq!(text(&output.stdout), "", "{args:?}");
}

/// Runs the program, which must succeed, and gives its standard output.
fn succeeds(args: &[&str], variables: &[(&str, &str)]) -> String {
    let output = run(args, variables);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "", "{args:?}");
    text(&output.stdout).to_owned()
}

#[test]
fn help_lists_every_option() {
    for args in [&["--help"][..], &["serve", "--help"]] {
        let help = succeeds(args, &[]);
        for key in KEYS {
            assert!(help.contains(&key.flag()), "{args:?}: {}", key.name);
            assert!(help.contains(key.doc().trim_end_matches('.')), "{args:?}: {}", key.name);
        }
        assert!(help.contains("--config <FILE>") && help.contains("--check"), "{args:?}");
    }
    let help = succeeds(&["demo", "--help"], &[]);
    assert!(help.contains("--players <N>") && help.contains("--seconds <S>") && help.contains("--level"));
    assert!(
        help.contains("--protocol <NAME>") && help.contains("[possible values: aegis, rtype, fignet, mixed]")
    );
    assert!(!help.contains("--aegis-tcp") && !help.contains("--rtype-udp") && !help.contains("--rooms"));
}

#[test]
fn a_demo_in_an_unknown_protocol_says_which_there_are() {
    let output = run(&["demo", "--protocol", "smtp"], &[]);
    let error = text(&output.stderr);
    assert!(error.starts_with("error: invalid value 'smtp' for '--protocol <NAME>'"), "{error}");
    assert!(error.contains("[possible values: aegis, rtype, fignet, mixed]"), "{error}");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""));
}

#[test]
fn a_mixed_demo_passes() {
    let report = {
        let output = run(&["demo", "--protocol", "mixed", "--players", "6", "--duration-s", "2"], &[]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout).to_owned()
    };
    assert!(report.contains("6 in 2 rooms, 2.0 s: 2 aegis, 2 rtype, 2 fignet"), "{report}");
}

#[test]
fn the_version_is_the_crates() {
    assert_eq!(succeeds(&["--version"], &[]), format!("tickwire {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn check_shows_where_values_come_from() {
    let directory = TempDir::new().expect("a temporary directory");
    let file = directory.path().join("tickwire.toml");
    let file = file.to_str().expect("UTF-8");
    fs::write(file, "# Small.\nrooms = 2\nentities = 64\n").expect("a file");
    for args in [&["--check", "--seed", "7"][..], &["serve", "--check", "--seed", "7"]] {
        let shown = succeeds(args, &[("TICKWIRE_CONFIG", file), ("TICKWIRE_ENTITIES", "96")]);
        let line =
            |start: &str| shown.lines().find(|line| line.starts_with(start)).expect("a line").to_owned();
        assert!(line("rooms = 2 ").ends_with(&format!(" # {file}:2")), "{shown}");
        assert!(line("entities = 96 ").ends_with(" # TICKWIRE_ENTITIES"), "{shown}");
        assert!(line("seed = 7 ").ends_with(" # --seed"), "{shown}");
        assert!(line("wake = \"tick\" ").ends_with(" # default"), "{shown}");
        // It is a file that gives the same again.
        let again = directory.path().join("again.toml");
        fs::write(&again, &shown).expect("a file");
        let values = |shown: &str| -> Vec<String> {
            shown
                .lines()
                .map(|line| line.split(" #").next().expect("a value").trim_end().to_owned())
                .collect()
        };
        let shown_again = succeeds(&["--check", "--config", again.to_str().expect("UTF-8")], &[]);
        assert_eq!(values(&shown_again), values(&shown));
    }
}

#[test]
fn every_mistake_is_a_line_and_the_code_is_1() {
    let directory = TempDir::new().expect("a temporary directory");
    let file = directory.path().join("tickwire.toml");
    let file = file.to_str().expect("UTF-8");
    fs::write(file, "rooms = 9000\nroom = 1\nlog = 5\n").expect("a file");
    fails_with(
        &["--config", file, "--level", "level9", "--aegis-tcp", "foo"],
        &[("TICKWIRE_WAKE", "never")],
        &[
            &format!("error: {file}:1: rooms: 9000 is above 4096"),
            &format!("error: {file}:2: room: unknown key"),
            &format!(
                "error: {file}:3: log: expected one of off, error, warn, info, debug, trace, found an integer"
            ),
            "error: --aegis-tcp: `foo` is not ADDRESS:PORT",
            "error: --level: `level9` is not one of level1, stress",
            "error: TICKWIRE_WAKE: `never` is not one of tick, event",
        ],
    );
    fails_with(&["serve", "--rooms", "-1"], &[], &["error: --rooms: -1 is below 1"]);
    fails_with(&["--check", "--seed", ""], &[], &["error: --seed: `` is not a whole number or random"]);
    fails_with(
        &["demo", "--level", "level9"],
        &[],
        &["error: --level: `level9` is not one of level1, stress"],
    );
    fails_with(
        &["--config", "none.toml"],
        &[],
        &["error: none.toml: No such file or directory (os error 2)"],
    );
}

#[test]
fn usage_errors_are_code_2() {
    for args in [
        &["fly"][..],
        &["--speed", "9"],
        &["--rooms"],
        &["--rooms", "1", "--rooms", "2"],
        &["demo", "--players", "257"],
        &["demo", "--seconds", "0"],
        &["demo", "--aegis-tcp", "127.0.0.1:0"],
        &["--rooms", "2", "demo"],
    ] {
        let output = run(args, &[]);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).starts_with("error: "), "{args:?}");
        assert_eq!(text(&output.stdout), "", "{args:?}");
    }
}

#[test]
fn a_taken_port_is_a_line() {
    let held = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let taken = held.local_addr().expect("its address").to_string();
    fails_with(
        &["--aegis-tcp", &taken, "--aegis-udp", "127.0.0.1:0"],
        &[],
        &[&format!("error: cannot listen on aegis-tcp {taken}: address in use")],
    );
    let held = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let taken = held.local_addr().expect("its address").to_string();
    fails_with(
        &["serve", "--aegis-tcp", "127.0.0.1:0", "--aegis-udp", &taken],
        &[],
        &[&format!("error: cannot listen on aegis-udp {taken}: address in use")],
    );
}

/// 192.0.2.0/24 is set aside for documentation: no machine has an address of it.
#[test]
fn an_address_of_another_machine_is_a_line() {
    fails_with(
        &["--aegis-tcp", "192.0.2.1:4243", "--aegis-udp", "127.0.0.1:0"],
        &[],
        &["error: cannot listen on aegis-tcp 192.0.2.1:4243: this machine does not have that address"],
    );
}

#[test]
fn what_is_not_served_is_said() {
    let held = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let taken = held.local_addr().expect("its address").to_string();
    let any = "127.0.0.1:0";
    fails_with(
        &["--aegis-tcp", &taken, "--aegis-udp", any, "--rtype-udp", any, "--fignet-udp", any, "--admin", any],
        &[],
        &[
            "warning: --admin: administration is not yet served",
            &format!("error: cannot listen on aegis-tcp {taken}: address in use"),
        ],
    );
}
