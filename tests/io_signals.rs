//! Signals reach the loop as counts, and those that the loop does not take (a stop and a continuation, which interrupt
//! the wait) do not keep it from its ticks: case 58 from the field.
//!
//! No test harness: signals must be blocked in the main thread before there is another. Without arguments of its own
//! this program is the parent, which starts itself as the server and sends the signals.

#[allow(unused_macros)]
#[macro_use]
mod io_toy;

use std::env;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time;

use io_toy::{Toy, bind, everything, has_uring};
use tickwire::io::{Backend, block_signals};
use tickwire::time::Duration;

const AS_SERVER: &str = "TICKWIRE_IO_TEST_SIGNALS";
const BACKEND: &str = "TICKWIRE_IO_TEST_BACKEND";

fn main() {
    if env::var_os(AS_SERVER).is_some() {
        serve();
        return;
    }
    for backend in ["mio", "io_uring"] {
        if backend == "mio" || has_uring() {
            a_signal_is_told_to_the_caller(backend, "TERM");
            a_signal_is_told_to_the_caller(backend, "INT");
            case_58_signals_during_the_wait(backend);
        }
    }
}

fn a_signal_is_told_to_the_caller(backend: &str, signal: &str) {
    let mut server = start(backend, "3600000");
    send(&server, signal);
    let report = finish(&mut server);
    assert!(report.contains("signals=1 "), "{report}");
    println!("test a_signal_is_told_to_the_caller({backend}, {signal}) ... ok");
}

fn case_58_signals_during_the_wait(backend: &str) {
    let mut server = start(backend, "20");
    for _ in 0..20 {
        send(&server, "STOP");
        send(&server, "CONT");
        thread::sleep(time::Duration::from_millis(5));
    }
    send(&server, "TERM");
    let report = finish(&mut server);
    assert!(report.contains("signals=1 "), "{report}");
    assert!(report.contains("early=0"), "{report}");
    println!("test case_58_signals_during_the_wait({backend}) ... ok ({})", report.trim());
}

fn backend() -> Backend {
    if env::var(BACKEND).is_ok_and(|name| name == "io_uring") { Backend::IoUring } else { Backend::Mio }
}

/// The server's side: ticks until a signal is told, then goes on to its next tick and says what it saw.
fn serve() {
    block_signals().expect("signals can be blocked");
    let mut options = everything(backend(), 1, 8);
    options.signals = true;
    let mut server = bind(&options);
    let tick_ms =
        env::var(AS_SERVER).ok().and_then(|text| text.parse().ok()).expect("a tick in milliseconds");
    let mut toy = Toy::playing(server.clock().now(), Duration::from_millis(tick_ms));
    toy.heartbeat = false;
    println!("ready");
    let (mut signals, mut early) = (0, 0);
    loop {
        let (due, ticks) = (toy.next_tick, toy.ticks);
        let turn = server.run_turn(&mut toy).expect("the loop goes on");
        early += u32::from(toy.ticks > ticks && turn.now < due);
        signals += turn.signals;
        if signals > 0 && (tick_ms > 1000 || toy.ticks > 3) {
            break;
        }
    }
    println!(
        "signals={signals} early={early} ticks={} interrupted={}",
        toy.ticks,
        server.stats().waits_interrupted
    );
}

fn start(backend: &str, tick_ms: &str) -> Child {
    let exe = env::current_exe().expect("this test's path");
    let child =
        Command::new(exe).env(AS_SERVER, tick_ms).env(BACKEND, backend).stdout(Stdio::piped()).spawn();
    let mut child = child.expect("the server starts");
    // Byte by byte, so that nothing of the report is read ahead.
    let mut line = String::new();
    let stdout = child.stdout.as_mut().expect("its output");
    BufReader::with_capacity(1, stdout).read_line(&mut line).expect("its first line");
    assert_eq!(line, "ready\n");
    child
}

fn send(child: &Child, signal: &str) {
    let status = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
    assert!(status.expect("kill runs").success());
}

fn finish(child: &mut Child) -> String {
    let mut report = String::new();
    child.stdout.as_mut().expect("its output").read_to_string(&mut report).expect("its report");
    let status = child.wait().expect("it ends");
    assert!(status.success(), "{status:?} {report}");
    report
}
