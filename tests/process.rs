//! The program as its operator meets it: what it costs, how it plays, and how it ends.

mod common;
#[path = "common/net.rs"]
mod net;

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use net::{Player, Program, play, play_until};
use tickwire::client::aegis::{Over, Phase};
use tickwire::model::Entity;
use tickwire::wire::aegis::stream::{LogoutReason, ServerMessage};

/// Connects `count` players and waits until all of them see snapshots.
fn players(program: &Program, count: usize) -> Vec<Player> {
    let mut players: Vec<Player> = (0..count)
        .map(|number| Player::connect(program.tcp, program.udp, &common::settings("bot"), number as u64))
        .collect();
    play_until(&mut players, |players| players.iter().all(|player| player.client.stats().snapshots > 3));
    players
}

/// An empty server: one thread, under 16 MiB, and under 0.5% of a core.
#[test]
fn an_empty_server_costs_nothing() {
    let program = Program::serve(&[]);
    assert_eq!(program.status("Threads"), "1");
    let resident_kib: u64 = program.status("VmRSS").trim_end_matches(" kB").parse().expect("a number");
    assert!(resident_kib < 16 * 1024, "{resident_kib} KiB resident");
    // Once more if something else was in the way: what the program itself costs would show again.
    let shares: Vec<f64> = (0..2).map(|_| cpu_share(&program, Duration::from_secs(4))).collect();
    println!("{resident_kib} KiB resident, {shares:.4?} of a core");
    assert!(shares.iter().any(|&share| share < 0.005), "{shares:.4?} of a core");
}

/// The share of a core that the program uses in `span`.
fn cpu_share(program: &Program, span: Duration) -> f64 {
    let (start, before) = (Instant::now(), program.cpu_s());
    thread::sleep(span);
    (program.cpu_s() - before) / start.elapsed().as_secs_f64()
}

/// Four clients of one room hold the same table at the same tick, and snapshots come at the configured rate.
#[test]
fn clients_of_a_room_see_the_same_at_the_configured_rate() {
    let program = Program::serve(&["--rooms", "1"]);
    let mut players = players(&program, 4);
    let mut seen: BTreeMap<u32, (Vec<(u32, Entity)>, u32)> = BTreeMap::new();
    let before: Vec<u64> = players.iter().map(|player| player.client.stats().snapshots).collect();
    let start = Instant::now();
    play(&mut players, Duration::from_secs(10), |_, player| {
        let Some(table) = player.client.last_applied() else { return };
        let now: Vec<(u32, Entity)> = table.iter().map(|(index, entity)| (index, *entity)).collect();
        let (first, looks) = seen.entry(table.tick()).or_insert_with(|| (now.clone(), 0));
        assert_eq!(*first, now, "tick {}", table.tick());
        *looks += 1;
    });
    let seconds = start.elapsed().as_secs_f64();
    let shared = seen.values().filter(|(_, looks)| *looks >= 4).count();
    assert!(shared > 150, "only {shared} ticks were seen by all four");
    for (player, before) in players.iter().zip(before) {
        let rate = (player.client.stats().snapshots - before) as f64 / seconds;
        assert!((19.0..=21.0).contains(&rate), "{rate:.2} snapshots a second");
    }
}

/// While clients play, the program makes no system call about memory.
#[test]
fn play_makes_no_memory_system_call() {
    let has_strace = Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_ok();
    if !has_strace {
        println!("skipped: strace is not installed");
        return;
    }
    let program = Program::serve(&["--rooms", "4"]);
    let mut players = players(&program, 16);
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let log = directory.path().join("calls");
    let mut strace = Command::new("strace")
        .args(["-f", "-qq", "-p", &program.pid().to_string(), "-o"])
        .arg(&log)
        .stderr(Stdio::null())
        .spawn()
        .expect("strace starts");
    play(&mut players, Duration::from_secs(3), |_, _| ());
    net::kill::kill("INT", strace.id());
    strace.wait().expect("strace ends");
    let calls = std::fs::read_to_string(&log).expect("its log");
    let count = |name: &str| calls.lines().filter(|line| line.contains(&format!(" {name}("))).count();
    if calls.is_empty() {
        println!("skipped: this machine does not let strace attach");
        return;
    }
    assert!(count("recvmmsg") > 100 && count("sendmmsg") > 50, "it was watched while it played:\n{calls}");
    for name in ["mmap", "munmap", "mremap", "brk", "madvise"] {
        assert_eq!(count(name), 0, "{name}");
    }
}

/// SIGTERM or SIGINT: Logout and three Disconnects to everyone, exit 0; and nothing of it allocates.
#[test]
fn a_signal_ends_it_politely() {
    let mut logout = [0; 16];
    let len = ServerMessage::Logout(LogoutReason::ServerShutdown).emit(&mut logout);
    for signal in ["TERM", "INT"] {
        let program = Program::serve(&["--verify"]);
        let mut players = players(&program, 3);
        program.signal(signal);
        play_until(&mut players, |players| {
            players.iter().all(|player| player.heard.ends_with(&logout[..len]) && player.disconnects == 3)
        });
        for player in &players {
            let phase = player.client.phase();
            let is_told = phase == Phase::Over(Over::LoggedOut(LogoutReason::ServerShutdown))
                || phase == Phase::Over(Over::Disconnected);
            assert!(is_told, "{phase:?}");
        }
        drop(players);
        let (code, log) = program.wait();
        assert_eq!(code, Some(0), "{log}");
        assert!(log.contains("stopping: 3 sessions") && log.contains("stopped after "), "{log}");
        // The last line is for programs, in its fixed form.
        let last = log.lines().last().and_then(|line| line.split_once("INFO  ")).map(|(_, message)| message);
        let words: Vec<_> = last.unwrap_or_default().split(' ').collect();
        let names: Vec<_> = words.iter().step_by(2).copied().collect();
        assert_eq!(names, ["ticks", "late", "dropped", "work_p999_us"], "{log}");
        let numbers: Vec<u64> = words.iter().skip(1).step_by(2).flat_map(|word| word.parse()).collect();
        assert!(numbers.len() == 4 && numbers[0] > 0, "{log}");
    }
}

/// A connection that does not close keeps a stopping server for a moment; a second signal does not let it.
#[test]
fn a_second_signal_ends_it_at_once() {
    let mut program = Program::serve(&[]);
    let players = players(&program, 1);
    program.signal("TERM");
    // Its client reads nothing and closes nothing any more.
    thread::sleep(Duration::from_millis(200));
    assert!(!program.has_ended(), "it waits for the client to take its Logout");
    program.signal("INT");
    let (code, log) = program.wait();
    assert_eq!(code, Some(0), "{log}");
    assert!(
        log.contains("not waiting any more, connections open: 1"),
        "it did not just wait until the time was over:\n{log}"
    );
    drop(players);
}
