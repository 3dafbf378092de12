//! The sockets, the timer and the waiting of a swarm: thin wrappers of system calls.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, clock_gettime, timerfd_create,
    timerfd_settime,
};

use tickwire::time::Instant;

/// Longest that a player says at once on its stream.
const STREAM_OUT_MAX: usize = 256;

/// Bytes of receive buffer for each player of a shared socket: a burst of datagrams, with what the kernel adds.
const RECEIVE_BYTES_PER_PLAYER: usize = 16 * 1024;

/// Allows at least `wanted` descriptors.
pub(super) fn raise_descriptor_limit(wanted: u64) -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        let maximum = limit.maximum.map(|maximum| maximum.max(wanted));
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum })?;
    }
    Ok(())
}

/// Processor time of this thread, in nanoseconds.
pub(super) fn thread_cpu_ns() -> u64 {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    spent.tv_sec as u64 * 1_000_000_000 + spent.tv_nsec as u64
}

/// What an event is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// The slot's timer.
    Timer,
    /// The stream of a seat.
    Stream(usize),
    /// A datagram socket.
    Datagrams(usize),
}

impl Source {
    fn data(self) -> epoll::EventData {
        epoll::EventData::new_u64(match self {
            Self::Timer => 0,
            Self::Stream(seat) => (seat as u64) << 2 | 1,
            Self::Datagrams(socket) => (socket as u64) << 2 | 2,
        })
    }

    pub(super) fn of(data: epoll::EventData) -> Self {
        let data = data.u64();
        match data & 3 {
            1 => Self::Stream((data >> 2) as usize),
            2 => Self::Datagrams((data >> 2) as usize),
            _ => Self::Timer,
        }
    }
}

/// What is waited for: level-triggered, so that nothing that was left is forgotten.
#[derive(Debug)]
pub(super) struct Watch(OwnedFd);

impl Watch {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    pub(super) fn add(&self, fd: impl AsFd, source: Source, flags: epoll::EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.0, fd, source.data(), flags)?)
    }

    pub(super) fn modify(&self, fd: impl AsFd, source: Source, flags: epoll::EventFlags) -> io::Result<()> {
        Ok(epoll::modify(&self.0, fd, source.data(), flags)?)
    }

    /// Waits until something happens, and fills `events` within its capacity.
    pub(super) fn wait(&self, events: &mut Vec<epoll::Event>) -> io::Result<()> {
        events.clear();
        match epoll::wait(&self.0, spare_capacity(events), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Wakes at absolute times.
#[derive(Debug)]
pub(super) struct Timer {
    fd: OwnedFd,
    set_to: Option<Instant>,
}

impl Timer {
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        Ok(Self { fd: timerfd_create(TimerfdClockId::Monotonic, flags)?, set_to: None })
    }

    /// Goes off at `at`; at once when that has passed. Setting it anew takes back that it went off.
    pub(super) fn set(&mut self, at: Instant) -> io::Result<()> {
        if self.set_to == Some(at) {
            return Ok(());
        }
        let ns = at.as_nanos().max(1);
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ };
        timerfd_settime(
            &self.fd,
            TimerfdTimerFlags::ABSTIME,
            &Itimerspec { it_interval: zero, it_value: value },
        )?;
        self.set_to = Some(at);
        Ok(())
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A player's stream.
#[derive(Debug)]
pub(super) struct Stream {
    socket: TcpStream,
    is_greeted: bool,
}

impl Stream {
    /// Begins to connect. Once it is writable, [`Stream::greet`] finds out how that went.
    pub(super) fn connect(server: SocketAddr) -> io::Result<Self> {
        let family = if server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
        match net::connect(&socket, &server) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {
                Ok(Self { socket: socket.into(), is_greeted: false })
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn is_greeted(&self) -> bool {
        self.is_greeted
    }

    /// Says the first words on a stream that connected. Returns false when it did not.
    pub(super) fn greet(&mut self, output: impl FnMut() -> Option<u8>) -> bool {
        self.is_greeted = true;
        matches!(self.socket.take_error(), Ok(None)) && self.write(output).is_ok()
    }

    /// Writes all of `output`, which fits the kernel's buffer many times over.
    pub(super) fn write(&mut self, mut output: impl FnMut() -> Option<u8>) -> io::Result<()> {
        let mut bytes = [0; STREAM_OUT_MAX];
        let mut len = 0;
        while let Some(byte) = output() {
            bytes[len] = byte;
            len += 1;
        }
        self.socket.write_all(&bytes[..len])
    }

    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.read(buffer)
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A datagram socket that talks with `peer` only, for so many players.
pub(super) fn open_datagrams(peer: SocketAddr, players: usize) -> io::Result<UdpSocket> {
    let any: SocketAddr = if peer.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any)?;
    socket.set_nonblocking(true)?;
    socket.connect(peer)?;
    if players > 1 {
        let bytes = players * RECEIVE_BYTES_PER_PLAYER;
        // Beyond the system's limit it takes a privilege; without it, less has to do.
        if sockopt::set_socket_recv_buffer_size_force(&socket, bytes).is_err() {
            sockopt::set_socket_recv_buffer_size(&socket, bytes)?;
        }
    }
    Ok(socket)
}
