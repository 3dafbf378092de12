//! The program where io_uring is refused, as by a container's profile or an old kernel: it says so once, and serves.

mod common;
#[path = "common/net.rs"]
mod net;

use std::process::{Command, Stdio};

use net::{Player, Program, play_until};

/// Errors of the kernel's that mean no, for every one of io_uring's system calls.
const REFUSALS: [&str; 5] = [
    "io_uring_setup:error=EPERM",
    "io_uring_setup:error=ENOSYS",
    "io_uring_setup:error=ENOMEM",
    "io_uring_register:error=EPERM",
    "io_uring_enter:error=EACCES",
];

#[test]
fn refused_io_uring_is_a_line_in_the_log_and_epoll_serves() {
    if !has_strace() {
        return;
    }
    for refusal in REFUSALS {
        let log = log_of_a_short_life(refusal, "io_uring");
        let said: Vec<_> = log.lines().filter(|line| line.contains("io_uring")).collect();
        assert_eq!(said.len(), 1, "{refusal}:\n{log}");
        assert!(said[0].contains(" INFO ") && said[0].ends_with("; using epoll"), "{refusal}:\n{log}");
    }
}

/// It does not ask for what it may not have.
#[test]
fn the_usual_backend_does_not_care() {
    if !has_strace() {
        return;
    }
    let log = log_of_a_short_life(REFUSALS[0], "auto");
    assert!(!log.contains("io_uring"), "{log}");
}

/// Lets somebody play for a moment where the system refuses, and gives what the program logged.
fn log_of_a_short_life(refusal: &str, backend: &str) -> String {
    // Traced by a process beside it, so that signals go to the program itself.
    let inject = format!("inject={refusal}");
    let runner = ["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", &inject];
    let program = Program::serve_under(&runner, &["--backend", backend, "--log", "info"]);
    let mut players = [Player::connect(program.tcp, program.udp, &common::settings("bot"), 1)];
    play_until(&mut players, |players| players[0].client.stats().snapshots > 3);
    drop(players);
    program.signal("TERM");
    let (code, log) = program.wait();
    assert_eq!(code, Some(0), "{refusal}: {log}");
    log
}

/// Whether there is strace, and it may trace; says if not.
fn has_strace() -> bool {
    let traced =
        Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).stderr(Stdio::null()).status();
    let has_it = traced.is_ok_and(|status| status.success());
    if !has_it {
        println!("skipped: strace is not installed, or may not trace");
    }
    has_it
}
