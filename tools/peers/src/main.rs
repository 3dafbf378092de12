//! `tickwire-peers`: puts the same game traffic through tickwire, other libraries and bare sockets, and compares what
//! it costs the server. See docs/peers.md.

use std::process::ExitCode;

use tickwire::heap::Heap;
use tickwire::io::pin_thread;

mod cli;
mod driver;
mod pace;
mod peer;
mod sys;
mod table;
mod usage;
mod work;

use self::cli::Command;

#[global_allocator]
static HEAP: Heap = Heap;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("error: {what}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    match cli::parse() {
        Command::Compare(plan) => driver::compare(&plan),
        Command::Serve { peer, job, core } => {
            pin(core)?;
            println!("{}", peer::serve(&peer, &job)?.to_line());
            Ok(())
        }
        Command::Play { peer, job, core, port } => {
            pin(core)?;
            println!("{}", peer::play(&peer, &job, port)?.to_line());
            Ok(())
        }
    }
}

fn pin(core: u32) -> Result<(), String> {
    pin_thread(core).map_err(|error| format!("core {core}: {error}"))
}
