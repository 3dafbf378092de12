//! The command line.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, value_parser};

use crate::driver::Plan;
use crate::peer;
use crate::work::Job;

/// What to do.
pub enum Command {
    /// Run everyone and print the table.
    Compare(Plan),
    /// Be the server of one run; started by the driver.
    Serve { peer: String, job: Job, core: u32 },
    /// Be the clients of one run; started by the driver.
    Play { peer: String, job: Job, core: u32, port: u16 },
}

/// Reads the command line; does not return when it asks for help or cannot be understood.
pub fn parse() -> Command {
    let matches = command().get_matches();
    match matches.subcommand() {
        Some(("serve", matches)) => {
            let (peer, job, core) = run(matches);
            Command::Serve { peer, job, core }
        }
        Some(("play", matches)) => {
            let (peer, job, core) = run(matches);
            Command::Play { peer, job, core, port: get(matches, "port") }
        }
        _ => Command::Compare(plan(&matches)),
    }
}

fn command() -> clap::Command {
    let number = |name: &'static str, default: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("N").default_value(default).help(help)
    };
    let run = |name: &'static str| {
        clap::Command::new(name)
            .hide(true)
            .arg(Arg::new("peer").required(true))
            .arg(number("clients", "8", "Clients").value_parser(value_parser!(u32)))
            .arg(number("ticks", "600", "Ticks of the window").value_parser(value_parser!(u32)))
            .arg(number("core", "0", "Processor to stay on").value_parser(value_parser!(u32)))
    };
    clap::Command::new("tickwire-peers")
        .about("The same game traffic through tickwire, other libraries, and bare batched sockets")
        .after_help(format!("Built in: {}", peer::NAMES.join(", ")))
        .args_conflicts_with_subcommands(true)
        .arg(
            number("clients", "64,256,1024", "Numbers of clients to measure with")
                .value_delimiter(',')
                .value_parser(value_parser!(u32).range(1..=4096)),
        )
        .arg(
            Arg::new("peers")
                .long("peers")
                .value_name("NAME,...")
                .value_delimiter(',')
                .help("Whom to measure [default: all that are built in]"),
        )
        .arg(
            number("rounds", "5", "Runs of everyone, in turn")
                .value_parser(value_parser!(u32).range(1..=100)),
        )
        .arg(number("seconds", "10", "Length of the window").value_parser(value_parser!(u32).range(1..=600)))
        .arg(number("server-core", "0", "Processor of the server").value_parser(value_parser!(u32)))
        .arg(number("client-core", "1", "Processor of the clients").value_parser(value_parser!(u32)))
        .arg(
            Arg::new("svg")
                .long("svg")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("Write a chart as well"),
        )
        .arg(
            Arg::new("shared-net")
                .long("shared-net")
                .action(ArgAction::SetTrue)
                .help("Stay in this network namespace: other traffic is counted too"),
        )
        .subcommand(run("serve"))
        .subcommand(run("play").arg(number("port", "0", "The server's").value_parser(value_parser!(u16))))
}

fn plan(matches: &ArgMatches) -> Plan {
    let all = || peer::NAMES.iter().map(|&name| name.to_owned()).collect();
    Plan {
        peers: matches.get_many::<String>("peers").map_or_else(all, |names| names.cloned().collect()),
        clients: matches.get_many::<u32>("clients").into_iter().flatten().map(|&n| n as usize).collect(),
        rounds: get::<u32>(matches, "rounds") as usize,
        ticks: u64::from(get::<u32>(matches, "seconds")) * 60,
        server_core: get(matches, "server-core"),
        client_core: get(matches, "client-core"),
        svg: matches.get_one("svg").cloned(),
        shares_net: matches.get_flag("shared-net"),
    }
}

fn run(matches: &ArgMatches) -> (String, Job, u32) {
    let clients = get::<u32>(matches, "clients") as usize;
    let job = Job { clients, ticks: u64::from(get::<u32>(matches, "ticks")) };
    (get(matches, "peer"), job, get(matches, "core"))
}

fn get<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, name: &str) -> T {
    matches.get_one(name).cloned().expect("an argument that is required or has a default")
}
