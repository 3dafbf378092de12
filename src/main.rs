//! `tickwire`: the server, and a demonstration of it.
//!
//! Options first, checked as a whole; then whatever the command is.

use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;

use tickwire::config::{self, Sources};
use tickwire::heap::Heap;

use crate::cli::Command;

#[path = "main/assemble.rs"]
mod assemble;
#[path = "main/bots/mod.rs"]
mod bots;
#[path = "main/census.rs"]
mod census;
#[path = "main/cli.rs"]
mod cli;
#[path = "main/demo.rs"]
mod demo;
#[path = "main/ledger.rs"]
mod ledger;
#[path = "main/serve.rs"]
mod serve;

/// What `--verify` seals.
#[global_allocator]
static HEAP: Heap = Heap;

fn main() -> ExitCode {
    let invocation = match cli::parse(std::env::args_os()) {
        Ok(invocation) => invocation,
        Err(answer) => return cli::show(&answer),
    };
    let sources = Sources {
        file: invocation.config.clone(),
        variable: &|name| std::env::var_os(name),
        flag: &|key| invocation.flag(key),
    };
    let effective = match config::load(&sources) {
        Ok(effective) => effective,
        Err(errors) => {
            errors.0.iter().for_each(report);
            return ExitCode::FAILURE;
        }
    };
    match invocation.command {
        Command::Check => {
            print(&effective);
            ExitCode::SUCCESS
        }
        Command::Serve => serve::run(&effective),
        Command::Demo(demo) => demo::run(&effective, demo),
    }
}

/// Prints a text. A reader who went away is no reason to fail.
fn print(text: impl fmt::Display) {
    let _ = write!(io::stdout().lock(), "{text}");
}

/// Says what is wrong, in a line.
fn report(what: impl fmt::Display) {
    eprintln!("error: {what}");
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use tickwire::heap::{self, OnAlloc};

    /// Without the allocator of [`tickwire::heap`] in this program, `--verify` would verify nothing.
    #[test]
    fn a_seal_sees_this_programs_allocations() {
        heap::seal(OnAlloc::Count);
        black_box(Box::new(1));
        heap::unseal();
        assert_eq!(heap::sealed_allocations(), 1);
    }
}
