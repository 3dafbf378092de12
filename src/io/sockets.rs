//! Opens the sockets: addresses, options and buffer sizes, the same for every backend.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd;

use socket2::{Domain, Protocol, Socket, Type};

use crate::io::{AEGIS_TCP, BindError, DATAGRAMS_PER_SESSION_AND_TICK, IoOptions, door_name, sys};
use crate::seam::Door;
use crate::time::Duration;

/// What a small received datagram takes from the receive buffer, in bytes as the kernel counts them (measured: the
/// usual 212,992 bytes hold 256 of them).
const RECEIVE_COST_BYTES: usize = 832;
const _: () = assert!(212_992 / RECEIVE_COST_BYTES == 256);

/// What a datagram of full length takes from the send buffer until the device has taken it.
const SEND_COST_BYTES: usize = 2304;

/// Connections that the kernel completes while the loop is busy elsewhere.
const BACKLOG: i32 = 1024;

/// Opens the Aegis login listener.
pub(crate) fn listen(address: SocketAddr) -> Result<TcpListener, BindError> {
    let open = || -> io::Result<TcpListener> {
        let socket =
            Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
        if address.is_ipv6() {
            socket.set_only_v6(false)?;
        }
        socket.set_reuse_address(true)?;
        // Accepted connections inherit it, which saves a call for each.
        socket.set_tcp_nodelay(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(socket.into())
    };
    open().map_err(|source| BindError::Listen { listener: AEGIS_TCP, address, source })
}

/// Opens the socket of `door`, with buffers for a tick of every session. A receive buffer that turns out too small is
/// complained about in the log: the operator has to decide.
pub(crate) fn open_door(
    door: Door,
    address: SocketAddr,
    options: &IoOptions,
) -> Result<UdpSocket, BindError> {
    let open = || -> io::Result<(UdpSocket, usize)> {
        let socket =
            Socket::new(Domain::for_address(address), Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
        if address.is_ipv6() {
            socket.set_only_v6(false)?;
        }
        sys::stamp_and_count_drops(socket.as_fd())?;
        sys::send_whole(socket.as_fd(), address.is_ipv6())?;
        if options.busy_poll > Duration::ZERO {
            sys::set_busy_poll(socket.as_fd(), options.busy_poll.as_micros() as u32)?;
        }
        let received = match options.receive_buffer_bytes {
            Some(bytes) => sys::set_receive_buffer(socket.as_fd(), bytes)?,
            None => {
                sys::grow_buffer(socket.as_fd(), sys::Buffer::Receive, receive_bytes(options.sessions_max))?
            }
        };
        sys::grow_buffer(
            socket.as_fd(),
            sys::Buffer::Send,
            options.sessions_max.saturating_mul(SEND_COST_BYTES),
        )?;
        socket.bind(&address.into())?;
        Ok((socket.into(), received))
    };
    let name = door_name(door);
    let (socket, granted) = open().map_err(|source| BindError::Listen { listener: name, address, source })?;
    report_buffer(name, granted, options.sessions_max);
    Ok(socket)
}

/// Bytes of receive buffer for the datagrams of `sessions_max` sessions, as the kernel counts them.
fn receive_bytes(sessions_max: usize) -> usize {
    sessions_max.saturating_mul(DATAGRAMS_PER_SESSION_AND_TICK * RECEIVE_COST_BYTES)
}

fn report_buffer(name: &str, granted: usize, sessions_max: usize) {
    let holds = granted / RECEIVE_COST_BYTES;
    log::info!("{name}: receive buffer of {granted} bytes, about {holds} small datagrams");
    let needed = receive_bytes(sessions_max);
    if granted < needed {
        log::warn!(
            "{name}: THE RECEIVE BUFFER IS TOO SMALL for {sessions_max} sessions: {granted} bytes granted, {needed} \
             needed; datagrams will be lost. Raise net.core.rmem_max to {}, grant CAP_NET_ADMIN, or allow fewer \
             sessions",
            needed / 2
        );
    }
}

/// An IPv4 peer is an IPv4 peer, whichever listener it came to.
pub(crate) fn canonical(peer: SocketAddr) -> SocketAddr {
    match peer.ip().to_canonical() {
        ip if ip == peer.ip() => peer,
        ip => SocketAddr::new(ip, peer.port()),
    }
}

/// The process or the system is out of something that the next accept would need as well.
pub(crate) fn is_exhaustion(errno: i32) -> bool {
    matches!(errno, libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_out_is_told_from_a_failed_connection() {
        for errno in [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM] {
            assert!(is_exhaustion(errno));
        }
        for errno in [libc::ECONNABORTED, libc::EPERM, libc::EPROTO] {
            assert!(!is_exhaustion(errno));
        }
    }

    #[test]
    fn a_mapped_peer_is_an_ipv4_peer() {
        let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
        assert_eq!(canonical(address("[::ffff:1.2.3.4]:9")), address("1.2.3.4:9"));
        assert_eq!(canonical(address("1.2.3.4:9")), address("1.2.3.4:9"));
        assert_eq!(canonical(address("[fe80::1%3]:9")), address("[fe80::1%3]:9"));
    }

    #[test]
    fn buffers_are_granted_for_every_session() {
        let options = IoOptions::new(1, 512);
        let socket = open_door(Door::Rtype, "127.0.0.1:0".parse().expect("an address"), &options)
            .expect("a loopback socket");
        let granted =
            sys::grow_buffer(socket.as_fd(), sys::Buffer::Receive, 0).expect("the buffer can be asked");
        let limit = std::fs::read_to_string("/proc/sys/net/core/rmem_max")
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(0_usize);
        assert!(granted >= receive_bytes(512).min(2 * limit), "{granted}");
    }
}
