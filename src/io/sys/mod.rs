//! The system calls that no crate wraps the way we need them: datagrams in batches, timers, signals, and a few socket
//! options. The only unsafe code of the I/O layer; everything that leaves this directory is safe to call.
//!
//! Errors are plain `errno` numbers on the paths of single datagrams, and [`io::Error`] everywhere else.
#![allow(unsafe_code)]
#![allow(clippy::unnecessary_cast, reason = "some of these types differ between C libraries")]

mod batch;
mod outgoing;
mod uring;

use std::io::{self, Read, Write as _};
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use crate::time::Instant;

pub(crate) use self::batch::{Joining, LoadedBatch, ReceiveBatch, SEGMENTS_MAX, SendBatch};
pub(crate) use self::outgoing::{Message, Outgoing};
pub(crate) use self::uring::{BufferId, Completion, Group, NOBODY, Ring, USER_DATA_BITS, Waited};

/// `CLOCK_MONOTONIC`, for [`clock_ns`].
pub(crate) const MONOTONIC: libc::clockid_t = libc::CLOCK_MONOTONIC;
/// `CLOCK_REALTIME`, for [`clock_ns`].
pub(crate) const REALTIME: libc::clockid_t = libc::CLOCK_REALTIME;

/// Nanoseconds on `clock`.
pub(crate) fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the answer.
    let result = unsafe { libc::clock_gettime(clock, &mut time) };
    assert_eq!(result, 0, "this system lacks a clock that every Linux has");
    timespec_ns(&time)
}

/// Lets waits on `socket` spin for up to `us` microseconds in the device's driver before they sleep.
pub(crate) fn set_busy_poll(socket: BorrowedFd<'_>, us: u32) -> io::Result<()> {
    set_option(socket, libc::SO_BUSY_POLL, us as i32)
}

/// Has `socket` send without checksums, for which no message of several datagrams is cut: as where the kernel cannot.
#[cfg(test)]
pub(crate) fn refuse_offload(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_option(socket, libc::SO_NO_CHECK, 1)
}

/// A timer that becomes readable at an instant.
#[derive(Debug)]
pub(crate) struct TimerFd(OwnedFd);

impl TimerFd {
    /// A timer that is not set.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no pointers are passed; a descriptor that comes back is ours.
        let fd =
            unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) };
        Ok(Self(own(fd)?))
    }

    /// Sets the timer to `at`, or to nothing. Forgets an expiry that nobody has read: no read is ever needed.
    pub(crate) fn set(&self, at: Option<Instant>) -> io::Result<()> {
        // Zero would mean "never"; an instant at the origin is as past as the next one.
        let ns = at.map_or(0, |at| at.as_nanos().clamp(1, i64::MAX as u64));
        let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let value = libc::timespec {
            tv_sec: (ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (ns % 1_000_000_000) as libc::c_long,
        };
        let setting = libc::itimerspec { it_interval: zero, it_value: value };
        // SAFETY: `setting` is a valid timer setting, and the old one is not asked for.
        let result = unsafe {
            libc::timerfd_settime(self.0.as_raw_fd(), libc::TFD_TIMER_ABSTIME, &setting, ptr::null_mut())
        };
        check(result)
    }
}

impl AsRawFd for TimerFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Blocks SIGINT and SIGTERM in the calling thread and in those it starts from now on, so that they reach the loop's
/// signal descriptor instead of ending the process. Call it in the main thread before any other thread starts.
pub fn block_signals() -> io::Result<()> {
    let signals = stop_signals();
    // SAFETY: `signals` is an initialised set, and the old one is not asked for.
    let result = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &signals, ptr::null_mut()) };
    if result == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(result)) }
}

/// Keeps the calling thread on processor `cpu`.
///
/// # Errors
/// When there is no such processor, or not for us.
pub fn pin_thread(cpu: u32) -> io::Result<()> {
    let cpu = cpu as usize;
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the set is plain bits, valid as zeros; `cpu` is within it, and its size is given.
    let result = unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, mem::size_of_val(&set), &set)
    };
    check(result)
}

/// Raises the calling thread's priority by `steps` of niceness above the usual.
///
/// # Errors
/// When we may not: that takes CAP_SYS_NICE.
pub fn raise_priority(steps: u32) -> io::Result<()> {
    let nice = -i32::try_from(steps.min(20)).unwrap_or(20);
    // SAFETY: no pointers are passed.
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) })
}

/// SIGINT and SIGTERM as something to poll.
#[derive(Debug)]
pub(crate) struct SignalFd(std::fs::File);

impl SignalFd {
    /// Sees those of the signals that are blocked (see [`block_signals`]).
    pub(crate) fn new() -> io::Result<Self> {
        let signals = stop_signals();
        // SAFETY: `signals` is an initialised set; a descriptor that comes back is ours.
        let fd = unsafe { libc::signalfd(-1, &signals, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC) };
        Ok(Self(std::fs::File::from(own(fd)?)))
    }

    /// Takes what is pending (each signal is pending at most once) and says how many there were.
    pub(crate) fn take(&mut self) -> u32 {
        let mut info = [0; mem::size_of::<libc::signalfd_siginfo>()];
        let mut count = 0;
        while count < 8 && self.0.read(&mut info).is_ok_and(|len| len == info.len()) {
            count += 1;
        }
        count
    }
}

impl AsRawFd for SignalFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Something to poll that another thread makes readable.
#[derive(Debug)]
pub(crate) struct EventFd(std::fs::File);

impl EventFd {
    /// Not readable yet.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no pointers are passed; a descriptor that comes back is ours.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        Ok(Self(std::fs::File::from(own(fd)?)))
    }

    /// Makes it readable, and wakes whoever polls it, also when it was readable before.
    pub(crate) fn signal(&self) -> io::Result<()> {
        match (&self.0).write(&1_u64.to_ne_bytes()) {
            // Signalled 2^64 times: it is readable all right.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            result => result.map(|_| ()),
        }
    }
}

impl AsRawFd for EventFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Which buffer of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Buffer {
    /// The receive buffer.
    Receive,
    /// The send buffer.
    Send,
}

/// Asks for a socket buffer of `bytes` as the kernel counts them, past the system's limit where we may, else as far as
/// that goes. Returns what was granted. A buffer that is already large enough is left alone.
pub(crate) fn grow_buffer(socket: BorrowedFd<'_>, buffer: Buffer, bytes: usize) -> io::Result<usize> {
    let (plain, force) = match buffer {
        Buffer::Receive => (libc::SO_RCVBUF, libc::SO_RCVBUFFORCE),
        Buffer::Send => (libc::SO_SNDBUF, libc::SO_SNDBUFFORCE),
    };
    let granted = |socket| option(socket, plain).map(|bytes| usize::try_from(bytes).unwrap_or(0));
    let before = granted(socket)?;
    if before >= bytes {
        return Ok(before);
    }
    set_buffer(socket, plain, force, bytes)?;
    granted(socket)
}

/// Sets the receive buffer of `socket` to `bytes` as the kernel counts them, whatever it was. Returns what was granted.
pub(crate) fn set_receive_buffer(socket: BorrowedFd<'_>, bytes: usize) -> io::Result<usize> {
    set_buffer(socket, libc::SO_RCVBUF, libc::SO_RCVBUFFORCE, bytes)?;
    option(socket, libc::SO_RCVBUF).map(|bytes| usize::try_from(bytes).unwrap_or(0))
}

/// Makes the kernel stamp received datagrams with their time, and tell how many it had to drop.
pub(crate) fn stamp_and_count_drops(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_option(socket, libc::SO_TIMESTAMPNS, 1)?;
    set_option(socket, libc::SO_RXQ_OVFL, 1)
}

/// Has the kernel send datagrams whole, whatever it was told of the path: they are small enough for any path there is, and
/// a datagram that is never cut needs no number for its pieces, which costs a hash each.
pub(crate) fn send_whole(socket: BorrowedFd<'_>, is_ipv6: bool) -> io::Result<()> {
    if is_ipv6 {
        set_option_of(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)?;
    }
    set_option_of(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)
}

fn timespec_ns(time: &libc::timespec) -> u64 {
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}

fn stop_signals() -> libc::sigset_t {
    // SAFETY: the set is initialised by `sigemptyset` before anything is added, and both signals exist.
    unsafe {
        let mut signals = mem::zeroed();
        libc::sigemptyset(&mut signals);
        libc::sigaddset(&mut signals, libc::SIGINT);
        libc::sigaddset(&mut signals, libc::SIGTERM);
        signals
    }
}

fn set_buffer(socket: BorrowedFd<'_>, plain: i32, force: i32, bytes: usize) -> io::Result<()> {
    // The kernel doubles what it is asked for, to count its own overhead in.
    let half = i32::try_from(bytes / 2).unwrap_or(i32::MAX / 2);
    set_option(socket, force, half).or_else(|_| set_option(socket, plain, half))
}

fn option(socket: BorrowedFd<'_>, name: i32) -> io::Result<i32> {
    let mut value = 0_i32;
    let mut len = mem::size_of::<i32>() as libc::socklen_t;
    // SAFETY: `value` and `len` are valid places of the sizes given.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            ptr::from_mut(&mut value).cast(),
            &mut len,
        )
    };
    check(result).map(|()| value)
}

fn set_option(socket: BorrowedFd<'_>, name: i32, value: i32) -> io::Result<()> {
    set_option_of(socket, libc::SOL_SOCKET, name, value)
}

fn set_option_of(socket: BorrowedFd<'_>, level: i32, name: i32, value: i32) -> io::Result<()> {
    // SAFETY: `value` lives through the call, and its size is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            ptr::from_ref(&value).cast(),
            mem::size_of::<i32>() as libc::socklen_t,
        )
    };
    check(result)
}

fn own(fd: RawFd) -> io::Result<OwnedFd> {
    check(fd.min(0))?;
    // SAFETY: the caller just got `fd` from the kernel and gives it up.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn check(result: i32) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};
    use std::process::Command;

    /// Writing to a reset peer is an error, never SIGPIPE, even in a process that SIGPIPE would kill: a child, since
    /// every Rust program starts out ignoring it.
    #[test]
    fn case_51_a_write_to_a_reset_peer_raises_no_sigpipe() {
        const IN_CHILD: &str = "TICKWIRE_SYS_TEST_SIGPIPE";
        const NAME: &str = "io::sys::tests::case_51_a_write_to_a_reset_peer_raises_no_sigpipe";
        if env::var_os(IN_CHILD).is_none() {
            let exe = env::current_exe().expect("this test's path");
            let child = Command::new(exe).args(["--exact", NAME]).env(IN_CHILD, "1").output();
            let output = child.expect("the child runs");
            assert!(output.status.success(), "{output:?}");
            return;
        }
        // SAFETY: sets a disposition, no handler of ours.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let peer = TcpStream::connect(listener.local_addr().expect("its address")).expect("loopback");
        let (stream, _) = listener.accept().expect("the peer");
        stream.set_nonblocking(true).expect("a socket option");
        socket2::SockRef::from(&peer).set_linger(Some(std::time::Duration::ZERO)).expect("a socket option");
        drop(peer);
        let mut stream = mio::net::TcpStream::from_std(stream);
        let errors: Vec<_> = (0..3).filter_map(|_| stream.write(b"there?").err()?.raw_os_error()).collect();
        assert!(errors.contains(&libc::EPIPE), "{errors:?}");
    }
}
