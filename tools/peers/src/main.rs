//! `tickwire-peers`: puts the same game traffic through tickwire, other libraries and bare sockets, and compares what
//! it costs the server. See docs/peers.md.

use std::process::ExitCode;

use tickwire::heap::Heap;
use tickwire::io::pin_thread;

mod capacity;
mod cli;
mod driver;
mod goodput;
mod pace;
mod page;
mod peer;
mod process;
mod stats;
mod sys;
mod table;
mod usage;
mod work;

use self::cli::{Command, Seat};

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
        Command::Capacity(plan) => capacity::find(&plan),
        Command::Goodput(plan) => goodput::compare(&plan),
        Command::Send { peer, flow, seat } => {
            sit(&seat)?;
            println!("{}", goodput::send(&peer, &flow)?.to_line());
            Ok(())
        }
        Command::Receive { peer, flow, seat, port } => {
            sit(&seat)?;
            println!("{}", goodput::receive(&peer, &flow, port)?.to_line());
            Ok(())
        }
        Command::Serve { peer, job, seat } => {
            sit(&seat)?;
            println!("{}", peer::serve(&peer, &job)?.to_line());
            Ok(())
        }
        Command::Play { peer, job, seat, port } => {
            sit(&seat)?;
            println!("{}", peer::play(&peer, &job, port)?.to_line());
            Ok(())
        }
    }
}

fn sit(seat: &Seat) -> Result<(), String> {
    if seat.goes_first {
        sys::go_first()?;
    }
    pin_thread(seat.core).map_err(|error| format!("core {}: {error}", seat.core))
}
