//! `tickwire serve`.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::process::ExitCode;

use tickwire::config::{Effective, Options};
use tickwire::logger;

use crate::{print, report};

/// Serves as `effective` says.
pub fn run(effective: &Effective) -> ExitCode {
    let options = &effective.options;
    if let Err(error) = logger::init(options.log) {
        report(error);
        return ExitCode::FAILURE;
    }
    warn_unserved(options);
    if let Err(what) = try_addresses(options) {
        report(what);
        return ExitCode::FAILURE;
    }
    print(effective);
    ExitCode::SUCCESS
}

/// Says which doors were asked for in vain.
fn warn_unserved(options: &Options) {
    for (flag, what, address) in [
        ("--rtype-udp", "R-Type version 1", options.rtype_udp),
        ("--fignet-udp", "FigNet", options.fignet_udp),
        ("--admin", "administration", options.admin),
    ] {
        if address.is_some() {
            eprintln!("warning: {flag}: {what} is not yet served");
        }
    }
}

/// Opens and closes the addresses to be served: a taken port is a line on the screen, not a stack of causes.
fn try_addresses(options: &Options) -> Result<(), String> {
    let (tcp, udp) = (options.aegis_tcp, options.aegis_udp);
    TcpListener::bind(tcp).map_err(|error| cannot_open("--aegis-tcp", tcp, &error))?;
    UdpSocket::bind(udp).map_err(|error| cannot_open("--aegis-udp", udp, &error))?;
    Ok(())
}

fn cannot_open(flag: &str, address: SocketAddr, error: &io::Error) -> String {
    format!("{flag}: cannot open {address}: {error}")
}
