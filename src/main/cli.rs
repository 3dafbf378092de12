//! The command line: commands, help, and the flags that the table of options asks for.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use tickwire::config::options::{GROUP_PLAY, GROUP_PROCESS};
use tickwire::config::{KEYS, Key, Kind};

use crate::bots::Protocol;

/// Bots that a demonstration may have: what a loopback on two cores carries with room to spare.
const DEMO_PLAYERS_MAX: i64 = 256;
/// The longest demonstration, in seconds.
const DEMO_SECONDS_MAX: i64 = 3600;

/// What follows the options in the help.
const PRECEDENCE: &str = "\
Each option can also be set in a TOML file (snapshot_interval = 3) and in the environment
(TICKWIRE_SNAPSHOT_INTERVAL=3). Flags win over the environment, the environment over the file.";

/// A command line, taken apart.
pub struct Invocation {
    /// What to do.
    pub command: Command,
    /// The configuration file that it names.
    pub config: Option<PathBuf>,
    matches: ArgMatches,
}

/// What to do.
pub enum Command {
    /// Serve.
    Serve,
    /// Show the effective configuration and leave.
    Check,
    /// Play a server with bots.
    Demo(Demo),
}

/// How to demonstrate.
#[derive(Clone, Copy, Debug)]
pub struct Demo {
    /// Bots.
    pub players: u32,
    /// What they speak, in turns.
    pub protocols: &'static [Protocol],
    /// For how long.
    pub duration_s: u32,
}

/// Takes apart `args`, the program's name first.
///
/// # Errors
/// A usage error, or the help or version that was asked for.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Invocation, clap::Error> {
    let mut matches = command().try_get_matches_from(args)?;
    let command = match matches.remove_subcommand() {
        Some((name, of_demo)) if name == "demo" => {
            matches = of_demo;
            Command::Demo(Demo {
                players: *matches.get_one("players").expect("it has a default"),
                protocols: matches.get_one::<&[Protocol]>("protocol").expect("it has a default"),
                duration_s: *matches.get_one("seconds").expect("it has a default"),
            })
        }
        subcommand => {
            if let Some((_, of_serve)) = subcommand {
                matches = of_serve;
            }
            if matches.get_flag("check") { Command::Check } else { Command::Serve }
        }
    };
    Ok(Invocation { command, config: matches.get_one("config").cloned(), matches })
}

/// Shows help, version or a usage error. The exit code is 2 for the latter.
pub fn show(answer: &clap::Error) -> ExitCode {
    // Nobody is left to tell when the output is closed.
    let _ = answer.print();
    ExitCode::from(answer.exit_code() as u8)
}

impl Invocation {
    /// The text given for an option, if any.
    pub fn flag(&self, key: &Key) -> Option<String> {
        // A command has the flags of some groups only.
        self.matches.try_get_one::<String>(key.name).ok().flatten().cloned()
    }
}

/// The whole command line. Without a subcommand it is that of `serve`.
fn command() -> clap::Command {
    let serve = clap::Command::new("serve")
        .about("Serve until told to stop; this is also what happens without a command")
        .args(serve_args())
        .after_help(PRECEDENCE);
    let demo = clap::Command::new("demo")
        .about("Play a server of its own with bots on this machine, and show what it does")
        .args(demo_args())
        .after_help(PRECEDENCE);
    clap::Command::new("tickwire")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A game server: logins over TCP, play over UDP, rooms at 60 ticks a second, one thread.")
        .args_conflicts_with_subcommands(true)
        .args(serve_args())
        .subcommands([serve, demo])
        .after_help(PRECEDENCE)
}

fn serve_args() -> Vec<Arg> {
    let check = Arg::new("check")
        .long("check")
        .action(ArgAction::SetTrue)
        .help("Check the configuration, print the effective one as TOML, and leave");
    [config(), check].into_iter().chain(KEYS.iter().map(flag)).collect()
}

/// A demonstration listens where it likes and makes as many rooms as its bots need.
fn demo_args() -> Vec<Arg> {
    let players = Arg::new("players")
        .long("players")
        .value_name("N")
        .value_parser(value_parser!(u32).range(1..=DEMO_PLAYERS_MAX))
        .default_value("4")
        .help("Bots, up to four to a room");
    let protocol = Arg::new("protocol")
        .long("protocol")
        .value_name("NAME")
        .value_parser(
            PossibleValuesParser::new(Protocol::words())
                .map(|word| Protocol::choose(&word).expect("a possible value is a choice")),
        )
        .default_value("aegis")
        .help("What the bots speak; mixed: they take turns, so that protocols meet in every room");
    let seconds = Arg::new("seconds")
        .long("seconds")
        .visible_alias("duration-s")
        .value_name("S")
        .value_parser(value_parser!(u32).range(1..=DEMO_SECONDS_MAX))
        .default_value("30")
        .help("How long to play");
    let keys = KEYS.iter().filter(|key| [GROUP_PLAY, GROUP_PROCESS].contains(&key.group));
    [players, protocol, seconds, config()].into_iter().chain(keys.map(flag)).collect()
}

fn config() -> Arg {
    Arg::new("config")
        .long("config")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help("Read options from a TOML file [env: TICKWIRE_CONFIG]")
}

/// The flag of an option. Its value stays text here: the configuration checks it like that of every other source.
fn flag(key: &Key) -> Arg {
    let arg = Arg::new(key.name)
        .long(key.flag().trim_start_matches('-').to_owned())
        .value_name(key.kind.placeholder())
        .help_heading(key.group)
        .allow_negative_numbers(true)
        .help(help(key));
    match key.kind {
        Kind::Switch => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
        _ => arg,
    }
}

/// `Rooms, of up to four players each [1 to 4096; default: 64]`
fn help(key: &Key) -> String {
    let doc = key.doc().trim_end_matches('.');
    match key.kind {
        Kind::Switch => doc.to_owned(),
        Kind::Number { .. } | Kind::Choice(_) => {
            format!("{doc} [{}; default: {}]", key.kind.range(), key.default)
        }
        _ => format!("{doc} [default: {}]", key.default),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }

    fn parsed(args: &[&str]) -> Invocation {
        let args = ["tickwire"].iter().chain(args).map(OsString::from);
        parse(args).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn no_command_is_serve() {
        let rooms = KEYS.iter().find(|key| key.name == "rooms").expect("an option");
        for args in [&["--rooms", "-2"][..], &["serve", "--rooms", "-2"]] {
            let invocation = parsed(args);
            assert!(matches!(invocation.command, Command::Serve));
            assert_eq!(invocation.flag(rooms).as_deref(), Some("-2"));
        }
        assert!(matches!(parsed(&["serve", "--check"]).command, Command::Check));
        assert!(matches!(parsed(&["--check"]).command, Command::Check));
    }

    #[test]
    fn a_demo_has_bots_and_no_addresses() {
        let invocation = parsed(&["demo", "--players", "256", "--level=stress"]);
        let Command::Demo(demo) = &invocation.command else { panic!("not a demo") };
        assert_eq!((demo.players, demo.duration_s, demo.protocols), (256, 30, &[Protocol::Aegis][..]));
        for key in KEYS {
            let expected = (key.name == "level").then(|| "stress".to_owned());
            assert_eq!(invocation.flag(key), expected, "{}", key.name);
        }
        for usage in
            [&["demo", "--players", "0"][..], &["demo", "--seconds", "3601"], &["demo", "--rooms", "1"]]
        {
            assert!(parse(["tickwire"].iter().chain(usage).map(OsString::from)).is_err(), "{usage:?}");
        }
    }

    #[test]
    fn a_demo_speaks_what_it_is_told() {
        for (word, protocols) in [("rtype", &[Protocol::Rtype][..]), ("mixed", Protocol::ALL)] {
            let Command::Demo(demo) = parsed(&["demo", "--protocol", word, "--duration-s", "2"]).command
            else {
                panic!("not a demo")
            };
            assert_eq!((demo.protocols, demo.duration_s), (protocols, 2));
        }
        assert!(parse(["tickwire", "demo", "--protocol", "smtp"].map(OsString::from)).is_err());
        assert!(parse(["tickwire", "--protocol", "rtype"].map(OsString::from)).is_err(), "of a demo only");
    }

    /// Usage errors of the library that parses are 2; our own are 1.
    #[test]
    fn a_switch_takes_a_value_only_after_an_equals_sign() {
        let verify = KEYS.iter().find(|key| key.name == "verify").expect("an option");
        assert_eq!(parsed(&["--verify"]).flag(verify).as_deref(), Some("true"));
        assert_eq!(parsed(&["--verify=false"]).flag(verify).as_deref(), Some("false"));
        assert_eq!(parsed(&[]).flag(verify), None);
        assert!(parse(["tickwire", "--verify", "false"].map(OsString::from)).is_err());
    }
}
