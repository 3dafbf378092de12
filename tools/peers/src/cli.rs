//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, value_parser};

use crate::capacity;
use crate::driver::Plan;
use crate::goodput::{self, Flow};
use crate::peer;
use crate::process::Place;
use crate::work::Job;

/// What to do.
pub enum Command {
    /// Run everyone and print the table.
    Compare(Plan),
    /// Find out how many clients fit.
    Capacity(capacity::Plan),
    /// Find out how fast reliable messages go.
    Goodput(goodput::Plan),
    /// Be the sender of one run of goodput; started by the driver.
    Send { peer: String, flow: Flow, seat: Seat },
    /// Be its receiver; started by the driver.
    Receive { peer: String, flow: Flow, seat: Seat, port: u16 },
    /// Be the server of one run; started by the driver.
    Serve { peer: String, job: Job, seat: Seat },
    /// Be the clients of one run; started by the driver.
    Play { peer: String, job: Job, seat: Seat, port: u16 },
}

/// Where a process of a run belongs.
#[derive(Clone, Copy, Debug)]
pub struct Seat {
    pub core: u32,
    /// Whether it goes before all ordinary processes.
    pub goes_first: bool,
}

/// Reads the command line; does not return when it asks for help or cannot be understood.
pub fn parse() -> Command {
    let matches = command().get_matches();
    match matches.subcommand() {
        Some(("serve", matches)) => {
            let (peer, job, seat) = run(matches);
            Command::Serve { peer, job, seat }
        }
        Some(("play", matches)) => {
            let (peer, job, seat) = run(matches);
            Command::Play { peer, job, seat, port: get(matches, "port") }
        }
        Some(("send", matches)) => {
            let (peer, flow, seat) = run_of_flow(matches);
            Command::Send { peer, flow, seat }
        }
        Some(("receive", matches)) => {
            let (peer, flow, seat) = run_of_flow(matches);
            Command::Receive { peer, flow, seat, port: get(matches, "port") }
        }
        _ if matches.get_flag("goodput") => Command::Goodput(goodput_plan(&matches)),
        _ if matches.get_flag("capacity") => Command::Capacity(capacity_plan(&matches)),
        _ => Command::Compare(plan(&matches)),
    }
}

fn number(name: &'static str, default: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name("N").default_value(default).help(help)
}

fn go_first() -> Arg {
    Arg::new("go-first")
        .long("go-first")
        .action(ArgAction::SetTrue)
        .help("Measure with real-time priority, whatever else the machine does; takes root")
}

/// What the driver tells the processes that it starts.
fn command_of_run(name: &'static str) -> clap::Command {
    clap::Command::new(name)
        .hide(true)
        .arg(Arg::new("peer").required(true))
        .arg(number("clients", "8", "Clients").value_parser(value_parser!(u32)))
        .arg(number("ticks", "600", "Ticks of the window").value_parser(value_parser!(u32)))
        .arg(number("snapshot-interval", "1", "Ticks").value_parser(value_parser!(u32).range(1..=60)))
        .arg(number("phase-us", "0", "Begin of a tick").value_parser(value_parser!(u32)))
        .arg(number("beside", "0", "Process of the yardstick").value_parser(value_parser!(u32)))
        .arg(number("core", "0", "Processor to stay on").value_parser(value_parser!(u32)))
        .arg(go_first())
}

/// The same for a run of goodput.
fn command_of_flow(name: &'static str) -> clap::Command {
    clap::Command::new(name)
        .hide(true)
        .arg(Arg::new("peer").required(true))
        .arg(number("window-ms", "1000", "Length of the window").value_parser(value_parser!(u32)))
        .arg(number("core", "0", "Processor to stay on").value_parser(value_parser!(u32)))
        .arg(go_first())
}

fn file(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name("FILE").value_parser(value_parser!(PathBuf)).help(help)
}

fn command() -> clap::Command {
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
            number("rounds", "15", "Runs of everyone, in turn")
                .value_parser(value_parser!(u32).range(1..=100)),
        )
        .arg(
            number("seconds", "2", "Length of a run's window")
                .value_parser(value_parser!(u32).range(1..=600)),
        )
        .arg(number("server-core", "0", "Processor of the server").value_parser(value_parser!(u32)))
        .arg(number("client-core", "1", "Processor of the clients").value_parser(value_parser!(u32)))
        .arg(file("svg", "Write a chart as well"))
        .arg(file("write", "Put what was measured between the markers of this page"))
        .arg(
            Arg::new("capacity")
                .long("capacity")
                .action(ArgAction::SetTrue)
                .help("Find out how many clients fit, of the floor and tickwire"),
        )
        .arg(
            Arg::new("goodput").long("goodput").action(ArgAction::SetTrue).conflicts_with("capacity").help(
                "Find out how fast reliable messages of 1000 bytes go to one client, of FigNet and ENet",
            ),
        )
        .arg(
            number("step", "64", "With --capacity: how precisely")
                .value_parser(value_parser!(u32).range(1..)),
        )
        .arg(go_first())
        .arg(
            Arg::new("shared-net")
                .long("shared-net")
                .action(ArgAction::SetTrue)
                .help("Stay in this network namespace: other traffic is counted too"),
        )
        .subcommand(command_of_run("serve"))
        .subcommand(command_of_flow("send"))
        .subcommand(
            command_of_flow("receive")
                .arg(number("port", "0", "The sender's").value_parser(value_parser!(u16))),
        )
        .subcommand(
            command_of_run("play").arg(number("port", "0", "The server's").value_parser(value_parser!(u16))),
        )
}

fn plan(matches: &ArgMatches) -> Plan {
    Plan {
        place: place(matches),
        peers: peers(matches, peer::NAMES),
        clients: matches.get_many::<u32>("clients").into_iter().flatten().map(|&n| n as usize).collect(),
        rounds: get::<u32>(matches, "rounds") as usize,
        ticks: u64::from(get::<u32>(matches, "seconds")) * 60,
        svg: matches.get_one("svg").cloned(),
        page: matches.get_one("write").cloned(),
    }
}

fn capacity_plan(matches: &ArgMatches) -> capacity::Plan {
    capacity::Plan {
        place: place(matches),
        peers: peers(matches, capacity::NAMES),
        ticks: u64::from(get::<u32>(matches, "seconds")) * 60,
        step: get::<u32>(matches, "step") as usize,
        page: matches.get_one("write").cloned(),
    }
}

fn goodput_plan(matches: &ArgMatches) -> goodput::Plan {
    goodput::Plan {
        place: place(matches),
        peers: peers(matches, goodput::NAMES),
        rounds: get::<u32>(matches, "rounds") as usize,
        flow: Flow { window: Duration::from_secs(u64::from(get::<u32>(matches, "seconds"))) },
        page: matches.get_one("write").cloned(),
    }
}

fn peers(matches: &ArgMatches, all: &[&str]) -> Vec<String> {
    let all = || all.iter().map(|&name| name.to_owned()).collect();
    matches.get_many::<String>("peers").map_or_else(all, |names| names.cloned().collect())
}

fn place(matches: &ArgMatches) -> Place {
    Place {
        server_core: get(matches, "server-core"),
        client_core: get(matches, "client-core"),
        goes_first: matches.get_flag("go-first"),
        shares_net: matches.get_flag("shared-net"),
    }
}

fn run(matches: &ArgMatches) -> (String, Job, Seat) {
    let job = Job {
        clients: get::<u32>(matches, "clients") as usize,
        ticks: u64::from(get::<u32>(matches, "ticks")),
        snapshot_interval: u64::from(get::<u32>(matches, "snapshot-interval")),
        phase: Duration::from_micros(u64::from(get::<u32>(matches, "phase-us"))),
        beside_pid: get(matches, "beside"),
    };
    let seat = Seat { core: get(matches, "core"), goes_first: matches.get_flag("go-first") };
    (get(matches, "peer"), job, seat)
}

fn run_of_flow(matches: &ArgMatches) -> (String, Flow, Seat) {
    let flow = Flow { window: Duration::from_millis(u64::from(get::<u32>(matches, "window-ms"))) };
    let seat = Seat { core: get(matches, "core"), goes_first: matches.get_flag("go-first") };
    (get(matches, "peer"), flow, seat)
}

fn get<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, name: &str) -> T {
    matches.get_one(name).cloned().expect("an argument that is required or has a default")
}
