//! Accepts connections into stream slots, and pauses when the process has no descriptors left.

use std::io;
use std::net::SocketAddr;

use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Token};

use crate::io::ACCEPT_PAUSE;
use crate::io::mio::streams::Streams;
use crate::io::mio::{LISTENER, Turning};
use crate::io::sockets::{canonical, is_exhaustion};
use crate::seam::{Core, Input};
use crate::time::Instant;

/// Accepts in one turn; connections beyond that stay in the kernel's queue until the next.
const ACCEPTS_PER_TURN: usize = 64;

/// The listener for logins.
#[derive(Debug)]
pub(super) struct Listener {
    socket: TcpListener,
    /// Connections may be waiting.
    ready: bool,
    /// Out of the poll set until then.
    paused_until: Option<Instant>,
}

impl Listener {
    /// `socket` is in the poll set already.
    pub(super) fn new(socket: TcpListener) -> Self {
        Self { socket, ready: false, paused_until: None }
    }

    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    pub(super) fn set_ready(&mut self) {
        self.ready = true;
    }

    /// Whether there is something to do without waiting.
    pub(super) fn has_work(&self) -> bool {
        self.ready && self.paused_until.is_none()
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.paused_until
    }

    /// Ends a pause that is over: the listener comes back into the poll set, which then tells who waits.
    pub(super) fn resume(&mut self, turning: &mut Turning<'_>) -> io::Result<()> {
        if self.paused_until.is_some_and(|until| turning.now >= until) {
            self.paused_until = None;
            turning.stats.calls.epoll_ctl += 1;
            turning.registry.register(&mut self.socket, LISTENER, Interest::READABLE)?;
        }
        Ok(())
    }

    /// Accepts who waits, within the turn's bounds.
    pub(super) fn accept(
        &mut self,
        streams: &mut Streams,
        core: &mut impl Core,
        turning: &mut Turning<'_>,
    ) -> io::Result<()> {
        if !self.has_work() {
            return Ok(());
        }
        for _ in 0..ACCEPTS_PER_TURN {
            turning.stats.calls.accept += 1;
            match self.socket.accept() {
                Ok((socket, peer)) => admit(socket, canonical(peer), streams, core, turning),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.ready = false;
                    return Ok(());
                }
                Err(error) if error.raw_os_error().is_some_and(is_exhaustion) => return self.pause(turning),
                // The one connection failed before we got to it: aborted, forbidden, or the network is down.
                Err(_) => turning.stats.streams.accept_errors += 1,
            }
        }
        Ok(())
    }

    fn pause(&mut self, turning: &mut Turning<'_>) -> io::Result<()> {
        turning.stats.streams.accept_pauses += 1;
        turning.stats.calls.epoll_ctl += 1;
        self.ready = false;
        self.paused_until = Some(turning.now + ACCEPT_PAUSE);
        turning.registry.deregister(&mut self.socket)
    }
}

fn admit(
    mut socket: TcpStream,
    peer: SocketAddr,
    streams: &mut Streams,
    core: &mut impl Core,
    turning: &mut Turning<'_>,
) {
    let Some(id) = streams.reserve(turning) else {
        // Dropped, and so closed.
        turning.stats.streams.refused += 1;
        return;
    };
    // Only readable: a stream is nearly always writable, and hearing so would cost a wake for every connection.
    turning.stats.calls.epoll_ctl += 1;
    if turning.registry.register(&mut socket, Token(id.index as usize), Interest::READABLE).is_err() {
        turning.stats.streams.accept_errors += 1;
        streams.unreserve(id);
        return;
    }
    turning.stats.streams.accepted += 1;
    streams.occupy(id, socket);
    core.handle(turning.now, Input::StreamOpened { stream: id, peer });
}
