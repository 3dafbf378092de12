//! The command line.

use std::net::ToSocketAddrs as _;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use tickwire::time::Duration;
use tickwire_swarm::player::{Protocol, Servers, Settings};
use tickwire_swarm::server::Spawn;
use tickwire_swarm::swarm::{Options, PLAYERS_MAX, SLOTS_MAX, Spread};

/// The server.
#[derive(Clone, Debug)]
pub enum Target {
    /// One that runs already.
    Running {
        /// Where players go first.
        servers: Servers,
        /// Its process, to tell what it used.
        pid: Option<u32>,
    },
    /// One of the swarm's own.
    Spawn(Spawn),
}

/// The search for the most players.
#[derive(Clone, Copy, Debug)]
pub struct Capacity {
    /// How many to begin with.
    pub first: usize,
    /// How many to end with.
    pub most: usize,
    /// How close the answer has to be.
    pub step: usize,
    /// Runs in which a server may carry so many: one that does is enough.
    pub tries: u64,
}

/// Everything that was asked for.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// The run. Its servers are filled in later.
    pub swarm: Options,
    /// On which server.
    pub target: Target,
    /// Whether to search.
    pub capacity: Option<Capacity>,
    /// The core for the swarm itself.
    pub core: Option<usize>,
    /// JSON instead of text.
    pub json: bool,
    /// No progress.
    pub quiet: bool,
}

/// Reads the command line. Does not return when it cannot be read, or when it asks for help.
pub fn parse() -> Invocation {
    let mut command = command();
    let matches = command.get_matches_mut();
    invocation(&matches)
        .unwrap_or_else(|what| command.error(clap::error::ErrorKind::ValueValidation, what).exit())
}

fn command() -> Command {
    let flag = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    let count = |name, default: &'static str, most: usize, help| {
        let range = value_parser!(u64).range(1..=most as u64);
        flag(name, "N", help).default_value(default).value_parser(range)
    };
    let core = |name, help| flag(name, "CORE", help).value_parser(value_parser!(usize));
    let switch = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    Command::new("tickwire-swarm")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Puts players on a tickwire server, on real sockets, and tells how it went.")
        .arg(flag("server", "HOST:PORT", "Where Aegis players log in").default_value("127.0.0.1:4243"))
        .arg(
            flag("rtype-server", "HOST:PORT", "Where R-Type players say Hello")
                .default_value("127.0.0.1:4242"),
        )
        .arg(
            flag("pid", "PID", "The server's process, to tell what it used")
                .value_parser(value_parser!(u32).range(1..=i32::MAX.into())),
        )
        .arg(
            flag("spawn", "PROGRAM", "Start this server, with the flags after --, and stop it at the end")
                .value_parser(value_parser!(PathBuf))
                .conflicts_with_all(["server", "rtype-server", "pid"]),
        )
        .arg(core("server-core", "Keep the server that is started on this core").requires("spawn"))
        .arg(core("core", "Keep the swarm on this core"))
        .arg(
            flag("protocol", "NAME", "Whose players; mixed: they take turns")
                .default_value("aegis")
                .value_parser(PossibleValuesParser::new(Protocol::words())),
        )
        .arg(count("players", "64", PLAYERS_MAX, "How many come"))
        .arg(
            flag("sockets", "N", "Share so many sockets, instead of one for each player (Aegis only)")
                .value_parser(value_parser!(u64).range(1..=PLAYERS_MAX as u64)),
        )
        .arg(
            flag("spread", "HOW", "When players send: each in its own part of the tick, or all at once")
                .default_value("even")
                .value_parser(PossibleValuesParser::new(["even", "bunched"])),
        )
        .arg(count("slots", "16", SLOTS_MAX as usize, "Parts of a tick that even players are spread over"))
        .arg(count("ramp-per-s", "200", 100_000, "Logins in a second"))
        .arg(count("warm-up-s", "2", 3600, "Seconds to play before measuring"))
        .arg(count("seconds", "10", 86_400, "Seconds to measure"))
        .arg(count(
            "entities",
            "128",
            65_535,
            "Entities of a room that a player can hold, as the server's --entities",
        ))
        .arg(count("snapshots-kept", "23", 65, "Baselines kept: 64 / snapshot interval + 1 never misses one"))
        .arg(count(
            "snapshot-interval",
            "3",
            60,
            "Ticks from one snapshot to the next, as the server's --snapshot-interval (R-Type does not say)",
        ))
        .arg(flag("seed", "N", "Seed of how they play").default_value("1").value_parser(value_parser!(u64)))
        .arg(switch("find-capacity", "Search for the most players that a server carries").requires("spawn"))
        .arg(count("capacity-first", "64", PLAYERS_MAX, "Players to begin the search with"))
        .arg(count("capacity-max", "4096", PLAYERS_MAX, "Players to end it with"))
        .arg(count("capacity-step", "32", PLAYERS_MAX, "How close the answer has to be"))
        .arg(count(
            "capacity-tries",
            "2",
            100,
            "Runs with a number of players; one that is carried is enough",
        ))
        .arg(switch("json", "Report as one line of JSON"))
        .arg(switch("quiet", "No progress"))
        .arg(
            Arg::new("flags")
                .last(true)
                .num_args(0..)
                .value_name("FLAGS")
                .help("Flags of the server")
                .requires("spawn"),
        )
}

fn invocation(matches: &ArgMatches) -> Result<Invocation, String> {
    let number = |name: &str| matches.get_one::<u64>(name).copied().expect("it has a default");
    let word = |name: &str| matches.get_one::<String>(name).expect("it has a default").as_str();
    let seconds = |name| Duration::from_secs(number(name));
    let capacity = Capacity {
        first: number("capacity-first") as usize,
        most: number("capacity-max") as usize,
        step: number("capacity-step") as usize,
        tries: number("capacity-tries"),
    };
    if capacity.first > capacity.most {
        return Err("--capacity-first is above --capacity-max".to_owned());
    }
    let protocols = Protocol::choose(word("protocol")).expect("a possible value is a choice");
    let sockets = matches.get_one::<u64>("sockets").map(|&sockets| sockets as usize);
    if sockets.is_some() && !protocols.iter().any(|protocol| protocol.can_share_sockets()) {
        return Err(format!("--sockets: players of {} cannot share sockets", word("protocol")));
    }
    let target = target(matches, protocols)?;
    Ok(Invocation {
        swarm: Options {
            servers: Servers::NONE,
            protocols,
            players: number("players") as usize,
            sockets,
            spread: match word("spread") {
                "bunched" => Spread::Bunched,
                _ => Spread::Even(number("slots") as u32),
            },
            ramp_per_s: number("ramp-per-s") as u32,
            warm_up: seconds("warm-up-s"),
            measure: seconds("seconds"),
            player: Settings {
                entities_max: number("entities") as usize,
                snapshots_kept: number("snapshots-kept") as usize,
                snapshot_interval: number("snapshot-interval") as u32,
                seed: number("seed"),
            },
        },
        target,
        capacity: matches.get_flag("find-capacity").then_some(capacity),
        core: matches.get_one("core").copied(),
        json: matches.get_flag("json"),
        quiet: matches.get_flag("quiet"),
    })
}

fn target(matches: &ArgMatches, protocols: &[Protocol]) -> Result<Target, String> {
    if let Some(program) = matches.get_one::<PathBuf>("spawn") {
        return Ok(Target::Spawn(Spawn {
            program: program.clone(),
            flags: matches.get_many("flags").into_iter().flatten().cloned().collect(),
            core: matches.get_one("server-core").copied(),
        }));
    }
    let mut servers = Servers::NONE;
    for &protocol in protocols {
        let flag = match protocol {
            Protocol::Aegis => "server",
            Protocol::Rtype => "rtype-server",
        };
        let server = matches.get_one::<String>(flag).expect("it has a default");
        let address = server.to_socket_addrs().map_err(|error| format!("--{flag} {server}: {error}"))?.next();
        servers = servers.with(protocol, address.ok_or_else(|| format!("--{flag} {server}: no address"))?);
    }
    Ok(Target::Running { servers, pid: matches.get_one("pid").copied() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Invocation, String> {
        let matches =
            command().try_get_matches_from(line.split_whitespace()).map_err(|error| error.to_string())?;
        invocation(&matches)
    }

    #[test]
    fn the_command_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn a_server_that_runs_is_the_default() {
        let invocation = parse("swarm --players 9 --spread bunched --pid 5").expect("sound");
        assert_eq!((invocation.swarm.players, invocation.swarm.spread), (9, Spread::Bunched));
        let Target::Running { servers, pid } = invocation.target else { panic!("{:?}", invocation.target) };
        assert_eq!(servers, Servers::NONE.with(Protocol::Aegis, ([127, 0, 0, 1], 4243).into()));
        assert_eq!((pid, invocation.swarm.protocols), (Some(5), &[Protocol::Aegis][..]));
        assert!(invocation.capacity.is_none());
    }

    #[test]
    fn each_protocol_has_a_server_of_its_own() {
        let invocation = parse("swarm --protocol mixed --rtype-server 127.0.0.1:9").expect("sound");
        let Target::Running { servers, .. } = invocation.target else { panic!("{:?}", invocation.target) };
        let port = |protocol| servers.of(protocol).map(|address| address.port());
        assert_eq!([port(Protocol::Aegis), port(Protocol::Rtype)], [Some(4243), Some(9)]);
        assert_eq!(invocation.swarm.protocols, Protocol::ALL);
        // Where nobody goes does not have to exist.
        assert!(parse("swarm --protocol rtype --server nowhere").is_ok());
        assert!(parse("swarm --protocol rtype --rtype-server nowhere").is_err());
    }

    #[test]
    fn flags_after_the_dashes_are_the_servers() {
        let invocation =
            parse("swarm --spawn x --server-core 0 --find-capacity -- --wake event").expect("sound");
        let Target::Spawn(spawn) = invocation.target else { panic!("{:?}", invocation.target) };
        assert_eq!((spawn.flags, spawn.core), (vec!["--wake".to_owned(), "event".to_owned()], Some(0)));
        assert!(invocation.capacity.is_some());
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        for line in [
            "swarm --players 0",
            "swarm --players 4097",
            "swarm --find-capacity",
            "swarm --spawn x --pid 5",
            "swarm -- --wake event",
            "swarm --spawn x --find-capacity --capacity-first 9 --capacity-max 8",
            "swarm --protocol smtp",
            "swarm --protocol rtype --sockets 4",
            "swarm --server nowhere",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
