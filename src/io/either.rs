//! Either backend behind one face.

use std::io;
use std::net::SocketAddr;

use crate::io::{
    Backend, BindError, Clock, IoOptions, IoStats, MioLoop, StopHandle, Turn, UringLoop, WorkHistogram,
};
use crate::seam::Core;

/// A loop over the backend that was asked for.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one, and it is not moved")]
pub enum Loop {
    /// Over `epoll`.
    Mio(MioLoop),
    /// Over io_uring.
    Uring(UringLoop),
}

impl Loop {
    /// Opens everything and allocates everything; after this the loop's thread allocates no more. Where the system
    /// refuses io_uring, a line in the log says so and `epoll` takes its place.
    ///
    /// # Errors
    /// As for [`MioLoop::bind`].
    pub fn bind(options: &IoOptions) -> Result<Self, BindError> {
        match options.backend {
            Backend::Auto | Backend::Mio => MioLoop::bind(options).map(Self::Mio),
            Backend::IoUring => match UringLoop::bind(options) {
                Err(refused @ BindError::Refused { .. }) => {
                    log::info!("{refused}; using epoll");
                    MioLoop::bind(options).map(Self::Mio)
                }
                result => result.map(Self::Uring),
            },
        }
    }

    /// Which backend it is: `epoll` or `io_uring`.
    pub fn backend(&self) -> &'static str {
        match self {
            Self::Mio(_) => "epoll",
            Self::Uring(_) => "io_uring",
        }
    }

    /// The name and the real address of everything that is listened on.
    pub fn local_addrs(&self) -> impl Iterator<Item = (&'static str, SocketAddr)> {
        let (mio, uring) = match self {
            Self::Mio(mio) => (Some(mio), None),
            Self::Uring(uring) => (None, Some(uring)),
        };
        let mio = mio.into_iter().flat_map(MioLoop::local_addrs);
        mio.chain(uring.into_iter().flat_map(UringLoop::local_addrs))
    }

    /// What was counted since `bind`.
    pub fn stats(&self) -> &IoStats {
        match self {
            Self::Mio(mio) => mio.stats(),
            Self::Uring(uring) => uring.stats(),
        }
    }

    /// How long the turns took in which ticks were due, from waking up until everything was sent.
    pub fn tick_work(&self) -> &WorkHistogram {
        match self {
            Self::Mio(mio) => mio.tick_work(),
            Self::Uring(uring) => uring.tick_work(),
        }
    }

    /// Connections at the moment, those included that the core has closed and whose peer has not.
    pub fn streams_len(&self) -> usize {
        match self {
            Self::Mio(mio) => mio.streams_len(),
            Self::Uring(uring) => uring.streams_len(),
        }
    }

    /// The clock that the core's times come from.
    pub fn clock(&self) -> Clock {
        match self {
            Self::Mio(mio) => mio.clock(),
            Self::Uring(uring) => uring.clock(),
        }
    }

    /// A handle for another thread to stop this loop with.
    pub fn stop_handle(&self) -> StopHandle {
        match self {
            Self::Mio(mio) => mio.stop_handle(),
            Self::Uring(uring) => uring.stop_handle(),
        }
    }

    /// Turns the loop until `is_over`, asked after each turn, says so, or a [`StopHandle`] is used.
    ///
    /// # Errors
    /// As for [`Loop::run_turn`].
    pub fn run<C: Core>(
        &mut self,
        core: &mut C,
        mut is_over: impl FnMut(&mut C, &Turn) -> bool,
    ) -> io::Result<()> {
        loop {
            let turn = self.run_turn(core)?;
            if is_over(core, &turn) || turn.stopped {
                return Ok(());
            }
        }
    }

    /// One turn: waits until something is due, takes in what arrived, advances the core, and sends what it has to say.
    /// The first turn gives the loop to the thread that calls it, and over io_uring to no other after that.
    ///
    /// # Errors
    /// Only when the backend itself fails, which no peer can cause; the loop is of no further use then.
    pub fn run_turn(&mut self, core: &mut impl Core) -> io::Result<Turn> {
        match self {
            Self::Mio(mio) => mio.run_turn(core),
            Self::Uring(uring) => uring.run_turn(core),
        }
    }
}
