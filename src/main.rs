//! `tickwire`: the server, and a demonstration of it.
//!
//! Options first, checked as a whole; then whatever the command is.

use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;

use tickwire::config::{self, Sources};

use crate::cli::Command;

#[path = "main/assemble.rs"]
mod assemble;
#[path = "main/bots.rs"]
mod bots;
#[path = "main/cli.rs"]
mod cli;
#[path = "main/demo.rs"]
mod demo;
#[path = "main/serve.rs"]
mod serve;

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
