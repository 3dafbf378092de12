//! `tickwire demo`.

use std::process::ExitCode;

use tickwire::config::Effective;

use crate::cli::Demo;
use crate::print;

/// Plays `demo` with a server of its own, as far as `effective` applies: the game and the process, not the addresses.
pub fn run(effective: &Effective, demo: Demo) -> ExitCode {
    print(format_args!("# {} bots, {} s\n", demo.players, demo.duration_s));
    print(effective);
    ExitCode::SUCCESS
}
