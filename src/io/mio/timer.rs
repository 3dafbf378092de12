//! The loop's alarm clock: exact to the microsecond, where `epoll`'s own timeout counts in milliseconds.

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use crate::io::sys::TimerFd;
use crate::time::Instant;

/// A timer descriptor in the poll set, set again only when the deadline changes. It is never read: its edge wakes the
/// loop once, and setting it clears what it had to say.
#[derive(Debug)]
pub(super) struct Timer {
    fd: TimerFd,
    /// What it is set to. Stays after it went off, which is harmless: nobody waits for a deadline that has passed.
    set_to: Option<Instant>,
}

impl Timer {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { fd: TimerFd::new()?, set_to: None })
    }

    /// Makes the timer go off at `deadline`, or never. Returns whether that took a system call.
    pub(super) fn set(&mut self, deadline: Option<Instant>) -> io::Result<bool> {
        if self.set_to == deadline {
            return Ok(false);
        }
        self.fd.set(deadline)?;
        self.set_to = deadline;
        Ok(true)
    }
}

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}
