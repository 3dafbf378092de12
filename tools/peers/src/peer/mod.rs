//! Who is compared: one module each, all with the two faces of [`crate::pace`].

#[cfg(feature = "tickwire")]
use ::tickwire::io::Backend;
#[cfg(feature = "tickwire")]
use ::tickwire::seam::Door;

use crate::pace;
use crate::work::{ClientReport, Job, ServerReport};

#[cfg(not(feature = "floor"))]
compile_error!("nobody to compare: choose a peer by its feature");

#[cfg(feature = "enet")]
mod enet;
mod floor;
#[cfg(feature = "kcp")]
mod kcp;
#[cfg(feature = "laminar")]
mod laminar;
#[cfg(feature = "libenet")]
mod libenet;
#[cfg(feature = "quinn")]
mod quinn;
#[cfg(feature = "renet")]
mod renet;
#[cfg(feature = "tickwire")]
mod tickwire;
#[cfg(feature = "uflow")]
mod uflow;

/// Everyone who was built in, the floor first.
pub const NAMES: &[&str] = &[
    "floor",
    #[cfg(feature = "tickwire")]
    "tickwire",
    #[cfg(feature = "tickwire")]
    "tickwire-uring",
    #[cfg(feature = "tickwire")]
    "tickwire-rtype",
    #[cfg(feature = "tickwire")]
    "tickwire-fignet",
    #[cfg(feature = "enet")]
    "rusty_enet",
    #[cfg(feature = "libenet")]
    "libenet",
    #[cfg(feature = "renet")]
    "renet",
    #[cfg(feature = "renet")]
    "renet-secure",
    #[cfg(feature = "laminar")]
    "laminar",
    #[cfg(feature = "uflow")]
    "uflow",
    #[cfg(feature = "kcp")]
    "kcp",
    #[cfg(feature = "kcp")]
    "kcp-beside",
    #[cfg(feature = "quinn")]
    "quinn",
    #[cfg(feature = "quinn")]
    "quinn-ticks",
];

/// Serves the job with peer `name` on the calling thread.
pub fn serve(name: &str, job: &Job) -> Result<ServerReport, String> {
    match name {
        "floor" => serve_widely(job, floor::Floor::bind(job)?),
        #[cfg(feature = "tickwire")]
        "tickwire" => tickwire::serve(job, Backend::Mio, Door::Aegis),
        #[cfg(feature = "tickwire")]
        "tickwire-uring" => tickwire::serve(job, Backend::IoUring, Door::Aegis),
        #[cfg(feature = "tickwire")]
        "tickwire-rtype" => tickwire::serve(job, Backend::Mio, Door::Rtype),
        #[cfg(feature = "tickwire")]
        "tickwire-fignet" => tickwire::serve(job, Backend::Mio, Door::Fignet),
        #[cfg(feature = "enet")]
        "rusty_enet" => serve_widely(job, enet::Enet::bind(job)?),
        #[cfg(feature = "libenet")]
        "libenet" => serve_widely(job, libenet::Enet::bind(job)?),
        #[cfg(feature = "renet")]
        "renet" => serve_widely(job, renet::Renet::bind(job, false)?),
        #[cfg(feature = "renet")]
        "renet-secure" => serve_widely(job, renet::Renet::bind(job, true)?),
        #[cfg(feature = "laminar")]
        "laminar" => serve_widely(job, laminar::Laminar::bind(job)?),
        #[cfg(feature = "uflow")]
        "uflow" => serve_widely(job, uflow::Uflow::bind(job)?),
        #[cfg(feature = "kcp")]
        "kcp" => serve_widely(job, kcp::KcpHost::bind(job, false)?),
        #[cfg(feature = "kcp")]
        "kcp-beside" => serve_widely(job, kcp::KcpHost::bind(job, true)?),
        #[cfg(feature = "quinn")]
        "quinn" => serve_widely(job, quinn::QuinnHost::bind(job, false)?),
        #[cfg(feature = "quinn")]
        "quinn-ticks" => serve_widely(job, quinn::QuinnHost::bind(job, true)?),
        _ => Err(format!("there is no peer {name} in this build")),
    }
}

/// Plays the job against peer `name` at `port` on the calling thread.
pub fn play(name: &str, job: &Job, port: u16) -> Result<ClientReport, String> {
    match name {
        "floor" => pace::play(job, |_| floor::FloorGuest::connect(port)),
        #[cfg(feature = "tickwire")]
        "tickwire" | "tickwire-uring" => {
            pace::play(job, |number| tickwire::TickwireGuest::connect(port, number))
        }
        #[cfg(feature = "tickwire")]
        "tickwire-rtype" => pace::play(job, |_| tickwire::RtypeGuest::connect(port)),
        #[cfg(feature = "tickwire")]
        "tickwire-fignet" => pace::play(job, |number| tickwire::FignetGuest::connect(job, port, number)),
        #[cfg(feature = "enet")]
        "rusty_enet" => pace::play(job, |_| enet::EnetGuest::connect(port)),
        #[cfg(feature = "libenet")]
        "libenet" => pace::play(job, |_| libenet::EnetGuest::connect(port)),
        #[cfg(feature = "renet")]
        "renet" => pace::play(job, |number| renet::RenetGuest::connect(port, number, false)),
        #[cfg(feature = "renet")]
        "renet-secure" => pace::play(job, |number| renet::RenetGuest::connect(port, number, true)),
        #[cfg(feature = "laminar")]
        "laminar" => pace::play(job, |_| laminar::LaminarGuest::connect(port)),
        #[cfg(feature = "uflow")]
        "uflow" => pace::play(job, |_| uflow::UflowGuest::connect(port)),
        #[cfg(feature = "kcp")]
        "kcp" => pace::play(job, |number| kcp::KcpGuest::connect(port, number, false)),
        #[cfg(feature = "kcp")]
        "kcp-beside" => pace::play(job, |number| kcp::KcpGuest::connect(port, number, true)),
        #[cfg(feature = "quinn")]
        "quinn" | "quinn-ticks" => {
            let runtime = std::rc::Rc::new(quinn::Runtime::new_in_ticks()?);
            pace::play(job, |number| quinn::QuinnGuest::connect(&runtime, port, number, job))
        }
        _ => Err(format!("there is no peer {name} in this build")),
    }
}

/// All sockets get the same large buffers, whatever a library asks for: this compares processor time, not defaults.
fn serve_widely(job: &Job, host: impl pace::Host) -> Result<ServerReport, String> {
    if crate::sys::widen_sockets() == 0 {
        return Err("no socket to give large buffers".to_owned());
    }
    pace::serve(job, host)
}

/// A socket of its own for each client, as in life.
fn client_socket(port: u16) -> Result<std::net::UdpSocket, String> {
    use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

    let open = || -> std::io::Result<UdpSocket> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    };
    open().map_err(|error| format!("a client's socket: {error}"))
}
