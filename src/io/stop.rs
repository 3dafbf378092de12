//! Stops a loop from another thread.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::io::sys::EventFd;

/// Stops a loop from another thread.
#[derive(Clone, Debug)]
pub struct StopHandle(Arc<Stop>);

#[derive(Debug)]
struct Stop {
    stopped: AtomicBool,
    /// Readable from the first stop on: nobody ever reads it.
    event: EventFd,
}

impl StopHandle {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(Stop { stopped: AtomicBool::new(false), event: EventFd::new()? })))
    }

    /// Wakes the loop; this turn and all later ones say [`Turn::stopped`](crate::io::Turn::stopped), and
    /// [`Loop::run`](crate::io::Loop::run) returns.
    pub fn stop(&self) -> io::Result<()> {
        self.0.stopped.store(true, Ordering::Release);
        self.0.event.signal()
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::Acquire)
    }
}

/// What to watch for the stop.
impl AsRawFd for StopHandle {
    fn as_raw_fd(&self) -> RawFd {
        self.0.event.as_raw_fd()
    }
}
