//! Signals for processes.

use std::process::Command;

/// Sends `signal` (`TERM`, `INT`) to the process `pid`. By a shell, which has it built in: the program `kill` is not on
/// every machine.
pub fn kill(signal: &str, pid: u32) {
    let status = Command::new("sh").args(["-c", &format!("kill -{signal} {pid}")]).status().expect("a shell");
    assert!(status.success(), "kill -{signal} {pid}");
}
