//! Stream connections: received into provided buffers, one receive at a time, and written at once.
//!
//! A write is a plain system call. There are few, the kernel takes nearly all of them whole, and so it never holds a
//! pointer to a stream's output.

use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};

use crate::io::slots::Slots;
use crate::io::sockets::canonical;
use crate::io::sys::{Completion, Group, Ring};
use crate::io::uring::Turning;
use crate::io::uring::tag::{self, Tag};
use crate::io::{LINGER_MAX, STREAM_READ_BYTES_PER_TURN};
use crate::seam::{Core, Input, StreamId, StreamOp};
use crate::time::Instant;

/// Buffers that streams receive into. A stream that finds none asks again in the next turn, when all are back.
const BUFFERS_MAX: usize = 64;

/// All connections.
#[derive(Debug)]
pub(super) struct Streams {
    slots: Slots<Stream>,
    group: Group,
}

#[derive(Debug)]
struct Stream {
    socket: TcpStream,
    /// A receive is under way.
    receiving: bool,
    /// A poll for room to write is under way.
    polling: bool,
}

/// Why a write ended a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WriteError {
    /// The peer does not read, and the slot's buffer is full.
    Overflow,
    /// The connection is gone.
    Gone,
}

impl Streams {
    /// Slots for `max` connections, and buffers in `ring` for what they say.
    pub(super) fn new(max: usize, ring: &mut Ring) -> io::Result<Self> {
        let buffers = max.clamp(1, BUFFERS_MAX).next_power_of_two() as u16;
        Ok(Self { slots: Slots::new(max), group: ring.add_buffers(buffers, STREAM_READ_BYTES_PER_TURN)? })
    }

    /// How many connections there are, lingering ones included.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// When [`Streams::cut_lingering`] next has something to do.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.slots.oldest_lingering().map(|(_, until)| until)
    }

    /// Gives a newcomer a slot, perhaps that of whoever has lingered longest, or closes it.
    pub(super) fn admit(
        &mut self,
        accepted: OwnedFd,
        core: &mut impl Core,
        turning: &mut Turning<'_>,
    ) -> io::Result<()> {
        let socket = TcpStream::from(accepted);
        let peer: SocketAddr = match socket.peer_addr() {
            Ok(peer) => canonical(peer),
            // Gone again already.
            Err(_) => {
                turning.stats.streams.accept_errors += 1;
                return Ok(());
            }
        };
        let free = match self.slots.reserve() {
            Some(id) => Some(id),
            None => match self.slots.oldest_lingering() {
                Some((oldest, _)) => {
                    turning.stats.streams.linger_cut += 1;
                    self.vacate(oldest, turning)?;
                    self.slots.reserve()
                }
                None => None,
            },
        };
        let Some(id) = free else {
            turning.stats.streams.refused += 1;
            return Ok(());
        };
        turning.stats.streams.accepted += 1;
        self.slots.occupy(id, Stream { socket, receiving: false, polling: false });
        self.receive(id.index, turning)?;
        core.handle(turning.now, Input::StreamOpened { stream: id, peer });
        Ok(())
    }

    /// A stream's receive is over.
    pub(super) fn on_bytes(
        &mut self,
        about: StreamId,
        completion: &Completion,
        core: &mut impl Core,
        turning: &mut Turning<'_>,
    ) -> io::Result<()> {
        if let Some(index) = self.current(about) {
            if let Some(stream) = &mut self.slots[index].connection {
                stream.receiving = false;
            }
            match completion.result {
                Ok(0) => self.end(index, core, turning)?,
                Ok(len) => {
                    turning.stats.streams.bytes_in += u64::from(len);
                    if let Some(buffer) = completion.buffer
                        && !self.slots[index].is_lingering()
                    {
                        let stream = self.slots.id(index);
                        let bytes = turning.ring.bytes(buffer, len as usize);
                        core.handle(turning.now, Input::StreamBytes { stream, bytes });
                    }
                    self.receive(index, turning)?;
                }
                Err(libc::ENOBUFS) => {
                    turning.stats.uring.no_buffers += 1;
                    self.receive(index, turning)?;
                }
                Err(libc::EINTR | libc::EAGAIN) => self.receive(index, turning)?,
                Err(_) => self.end(index, core, turning)?,
            }
        }
        // Also when nobody is there any more to hear of it.
        if let Some(buffer) = completion.buffer {
            turning.ring.give_back(buffer);
        }
        Ok(())
    }

    /// A stream that could not be written can be, or has failed.
    pub(super) fn on_writable(
        &mut self,
        about: StreamId,
        core: &mut impl Core,
        turning: &mut Turning<'_>,
    ) -> io::Result<()> {
        let Some(index) = self.current(about) else { return Ok(()) };
        if let Some(stream) = &mut self.slots[index].connection {
            stream.polling = false;
        }
        let slot = &self.slots[index];
        let Some(stream) = &slot.connection else { return Ok(()) };
        match write_some(&stream.socket, slot.output(), turning) {
            Ok(written) => self.slots[index].consume(written),
            Err(_) => return self.end(index, core, turning),
        }
        if !self.slots[index].output().is_empty() {
            return self.poll(index, turning);
        }
        if self.slots[index].is_lingering() && !self.shut_down(index) {
            return self.end(index, core, turning);
        }
        Ok(())
    }

    /// Does what the core asks. Returns whether the core was told something in turn.
    pub(super) fn apply(
        &mut self,
        op: &StreamOp,
        core: &mut impl Core,
        turning: &mut Turning<'_>,
    ) -> io::Result<bool> {
        let index = op.stream.index;
        // A stream that ended while the core was writing to it, or that the core has closed already.
        if !self.slots.holds(op.stream) || self.slots[index].is_lingering() {
            return Ok(false);
        }
        let written = self.write(index, op.bytes(), turning)?;
        if op.close {
            // From here on the core has forgotten the stream: nothing about it is told any more.
            self.slots.linger(index, turning.now + LINGER_MAX);
        }
        if let Err(error) = written {
            turning.stats.streams.overflowed += u64::from(error == WriteError::Overflow);
            self.end(index, core, turning)?;
        } else if op.close && self.slots[index].output().is_empty() && !self.shut_down(index) {
            self.end(index, core, turning)?;
        }
        Ok(written.is_err() && !op.close)
    }

    /// Closes the streams that have lingered long enough.
    pub(super) fn cut_lingering(&mut self, turning: &mut Turning<'_>) -> io::Result<()> {
        while let Some((oldest, until)) = self.slots.oldest_lingering()
            && turning.now >= until
        {
            turning.stats.streams.linger_cut += 1;
            self.vacate(oldest, turning)?;
        }
        Ok(())
    }

    /// The slot of the connection that a completion is about, unless that is gone.
    fn current(&self, about: StreamId) -> Option<u32> {
        let id = self.slots.id(about.index);
        (u32::from(tag::low(id.generation)) == about.generation && self.slots.holds(id)).then_some(id.index)
    }

    fn receive(&mut self, index: u32, turning: &mut Turning<'_>) -> io::Result<()> {
        let id = self.slots.id(index);
        let Some(stream) = &mut self.slots[index].connection else { return Ok(()) };
        stream.receiving = true;
        turning.ring.receive_bytes(stream.socket.as_fd(), self.group, Tag::StreamBytes(id).pack())
    }

    fn poll(&mut self, index: u32, turning: &mut Turning<'_>) -> io::Result<()> {
        let id = self.slots.id(index);
        let Some(stream) = &mut self.slots[index].connection else { return Ok(()) };
        if stream.polling {
            return Ok(());
        }
        stream.polling = true;
        turning.ring.poll_writable(stream.socket.as_fd(), Tag::StreamWritable(id).pack())
    }

    /// Writes `bytes` behind what already waits, and keeps what the socket does not take.
    fn write(
        &mut self,
        index: u32,
        bytes: &[u8],
        turning: &mut Turning<'_>,
    ) -> io::Result<Result<(), WriteError>> {
        let slot = &self.slots[index];
        let Some(stream) = &slot.connection else { return Ok(Ok(())) };
        let mut rest = bytes;
        if slot.output().is_empty() && !rest.is_empty() {
            match write_some(&stream.socket, rest, turning) {
                Ok(written) => rest = &rest[written..],
                Err(error) => return Ok(Err(error)),
            }
        }
        if rest.is_empty() {
            return Ok(Ok(()));
        }
        if !self.slots[index].keep(rest) {
            return Ok(Err(WriteError::Overflow));
        }
        self.poll(index, turning)?;
        Ok(Ok(()))
    }

    fn shut_down(&self, index: u32) -> bool {
        let stream = self.slots[index].connection.as_ref();
        stream.is_some_and(|stream| stream.socket.shutdown(Shutdown::Write).is_ok())
    }

    /// The connection ended from outside: frees its slot, and tells the core unless that had closed it already.
    fn end(&mut self, index: u32, core: &mut impl Core, turning: &mut Turning<'_>) -> io::Result<()> {
        let stream = self.slots.id(index);
        let is_open = !self.slots[index].is_lingering();
        self.vacate(index, turning)?;
        if is_open {
            core.handle(turning.now, Input::StreamClosed { stream });
        }
        Ok(())
    }

    /// Closes the connection in slot `index` and frees the slot. The kernel lets go of the connection with the last
    /// request for it, so those are cancelled; their completions find a later generation.
    fn vacate(&mut self, index: u32, turning: &mut Turning<'_>) -> io::Result<()> {
        let id = self.slots.id(index);
        let stream = self.slots.vacate(index);
        turning.stats.streams.closed += 1;
        if stream.receiving {
            turning.ring.cancel_receive(self.group, Tag::StreamBytes(id).pack())?;
        }
        if stream.polling {
            turning.ring.cancel_poll(Tag::StreamWritable(id).pack())?;
        }
        if stream.receiving || stream.polling {
            // Requests name the socket by its descriptor, whose number is anyone's once it is closed.
            turning.ring.submit()?;
            turning.stats.calls.uring_enter += 1;
        }
        Ok(())
    }
}

/// Writes to the socket once; nothing when it would block.
fn write_some(mut socket: &TcpStream, bytes: &[u8], turning: &mut Turning<'_>) -> Result<usize, WriteError> {
    turning.stats.calls.write += 1;
    match socket.write(bytes) {
        Ok(written) => {
            turning.stats.streams.bytes_out += written as u64;
            Ok(written)
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(0),
        Err(_) => Err(WriteError::Gone),
    }
}
