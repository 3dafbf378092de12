//! Stream connections: read when the poll set tells of them, and written at once.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::Shutdown;

use mio::net::TcpStream;
use mio::{Interest, Token};

use crate::io::mio::Turning;
use crate::io::slots::Slots;
use crate::io::{LINGER_MAX, STREAM_READ_BYTES_PER_TURN};
use crate::seam::{Core, Input, StreamId, StreamOp};
use crate::time::Instant;

/// Streams read in one turn; the others keep their place in the line.
const STREAMS_PER_TURN: usize = 256;

/// All connections.
#[derive(Debug)]
pub(super) struct Streams {
    slots: Slots<Stream>,
    /// Slots that may have something to read, each at most once.
    ready: VecDeque<u32>,
    /// For each slot: whether it has a place in `ready`, perhaps still from its last occupant, which costs one read in
    /// vain.
    queued: Vec<bool>,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Stream {
    socket: TcpStream,
    watches_writable: bool,
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
    /// Slots for `max` connections.
    pub(super) fn new(max: usize) -> Self {
        Self {
            slots: Slots::new(max),
            ready: VecDeque::with_capacity(max),
            queued: vec![false; max],
            buffer: vec![0; STREAM_READ_BYTES_PER_TURN],
        }
    }

    /// How many connections there are, lingering ones included.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is something to read without waiting.
    pub(super) fn has_work(&self) -> bool {
        !self.ready.is_empty()
    }

    /// When [`Streams::cut_lingering`] next has something to do.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.slots.oldest_lingering().map(|(_, until)| until)
    }

    /// Takes a free slot for a newcomer, or that of whoever has lingered longest.
    pub(super) fn reserve(&mut self, turning: &mut Turning<'_>) -> Option<StreamId> {
        self.slots.reserve().or_else(|| {
            let (oldest, _) = self.slots.oldest_lingering()?;
            turning.stats.streams.linger_cut += 1;
            self.vacate(oldest, turning);
            self.slots.reserve()
        })
    }

    /// Gives back a reserved slot that was not occupied.
    pub(super) fn unreserve(&mut self, id: StreamId) {
        self.slots.unreserve(id);
    }

    /// Puts `socket` into the slot reserved for it.
    pub(super) fn occupy(&mut self, id: StreamId, socket: TcpStream) {
        self.slots.occupy(id, Stream { socket, watches_writable: false });
    }

    /// The poll set has a word about slot `index`.
    pub(super) fn on_event(
        &mut self,
        index: usize,
        writable: bool,
        core: &mut impl Core,
        turning: &mut Turning<'_>,
    ) {
        let index = index as u32;
        self.queue(index);
        if writable && !self.slots[index].output().is_empty() && self.flush(index, turning).is_err() {
            self.end(index, core, turning);
        }
    }

    /// Reads what there is to read, within the turn's bounds.
    pub(super) fn read_ready(&mut self, core: &mut impl Core, turning: &mut Turning<'_>) {
        for _ in 0..self.ready.len().min(STREAMS_PER_TURN) {
            let Some(index) = self.ready.pop_front() else { return };
            self.queued[index as usize] = false;
            self.read(index, core, turning);
        }
    }

    /// Does what the core asks. Returns whether the core was told something in turn.
    pub(super) fn apply(&mut self, op: &StreamOp, core: &mut impl Core, turning: &mut Turning<'_>) -> bool {
        let index = op.stream.index;
        // A stream that ended while the core was writing to it, or that the core has closed already.
        if !self.slots.holds(op.stream) || self.slots[index].is_lingering() {
            return false;
        }
        let written = self.write(index, op.bytes(), turning);
        if op.close {
            // From here on the core has forgotten the stream: nothing about it is told any more.
            self.slots.linger(index, turning.now + LINGER_MAX);
            // What came in meanwhile is to be thrown away, and its end to be seen.
            self.queue(index);
        }
        if let Err(error) = written {
            turning.stats.streams.overflowed += u64::from(error == WriteError::Overflow);
            self.end(index, core, turning);
        } else if op.close && self.slots[index].output().is_empty() && !self.shut_down(index) {
            self.end(index, core, turning);
        }
        written.is_err() && !op.close
    }

    /// Closes the streams that have lingered long enough.
    pub(super) fn cut_lingering(&mut self, turning: &mut Turning<'_>) {
        while let Some((oldest, until)) = self.slots.oldest_lingering()
            && turning.now >= until
        {
            turning.stats.streams.linger_cut += 1;
            self.vacate(oldest, turning);
        }
    }

    fn read(&mut self, index: u32, core: &mut impl Core, turning: &mut Turning<'_>) {
        let stream = self.slots.id(index);
        let slot = &mut self.slots[index];
        let is_open = !slot.is_lingering();
        let Some(Stream { socket, .. }) = &mut slot.connection else { return };
        let mut budget = STREAM_READ_BYTES_PER_TURN;
        while budget > 0 {
            turning.stats.calls.read += 1;
            match socket.read(&mut self.buffer[..budget]) {
                Ok(0) => return self.end(index, core, turning),
                Ok(len) => {
                    budget -= len;
                    turning.stats.streams.bytes_in += len as u64;
                    if is_open {
                        let bytes = &self.buffer[..len];
                        core.handle(turning.now, Input::StreamBytes { stream, bytes });
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => budget -= 1,
                Err(_) => return self.end(index, core, turning),
            }
        }
        // Its edge is used up, but there may be more.
        self.queue(index);
    }

    /// Writes `bytes` behind what already waits, and keeps what the socket does not take.
    fn write(&mut self, index: u32, bytes: &[u8], turning: &mut Turning<'_>) -> Result<(), WriteError> {
        let slot = &mut self.slots[index];
        let is_first = slot.output().is_empty();
        let Some(stream) = &mut slot.connection else { return Ok(()) };
        let mut rest = bytes;
        if is_first && !rest.is_empty() {
            rest = &rest[write_some(&stream.socket, rest, turning)?..];
        }
        if rest.is_empty() {
            return Ok(());
        }
        let watches_writable = std::mem::replace(&mut stream.watches_writable, true);
        if !watches_writable {
            turning.stats.calls.epoll_ctl += 1;
            let interest = Interest::READABLE | Interest::WRITABLE;
            let watched = turning.registry.reregister(&mut stream.socket, Token(index as usize), interest);
            watched.map_err(|_| WriteError::Gone)?;
        }
        if slot.keep(rest) { Ok(()) } else { Err(WriteError::Overflow) }
    }

    /// Writes what waits; when a closing stream has nothing left, shuts our side down.
    fn flush(&mut self, index: u32, turning: &mut Turning<'_>) -> Result<(), WriteError> {
        let slot = &mut self.slots[index];
        let Some(stream) = &slot.connection else { return Ok(()) };
        let written = write_some(&stream.socket, slot.output(), turning)?;
        slot.consume(written);
        if slot.output().is_empty() && slot.is_lingering() && !self.shut_down(index) {
            return Err(WriteError::Gone);
        }
        Ok(())
    }

    fn shut_down(&self, index: u32) -> bool {
        let stream = self.slots[index].connection.as_ref();
        stream.is_some_and(|stream| stream.socket.shutdown(Shutdown::Write).is_ok())
    }

    fn queue(&mut self, index: u32) {
        let queued = &mut self.queued[index as usize];
        if !*queued && self.slots[index].connection.is_some() {
            *queued = true;
            self.ready.push_back(index);
        }
    }

    /// The connection ended from outside: frees its slot, and tells the core unless that had closed it already.
    fn end(&mut self, index: u32, core: &mut impl Core, turning: &mut Turning<'_>) {
        let stream = self.slots.id(index);
        let is_open = !self.slots[index].is_lingering();
        self.vacate(index, turning);
        if is_open {
            core.handle(turning.now, Input::StreamClosed { stream });
        }
    }

    /// Closes the connection in slot `index` and frees the slot.
    fn vacate(&mut self, index: u32, turning: &mut Turning<'_>) {
        // Closing the descriptor takes it out of the poll set.
        drop(self.slots.vacate(index));
        turning.stats.streams.closed += 1;
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
        // An interrupted write of a non-blocking socket is as good as one that would block: the edge comes again.
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(0),
        Err(_) => Err(WriteError::Gone),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time;

    use mio::{Events, Poll};
    use socket2::SockRef;

    use super::*;
    use crate::io::{IoStats, STREAM_OUTPUT_BYTES};
    use crate::seam::Outbox;

    /// A core that only remembers which streams ended.
    #[derive(Default)]
    struct Ended(Vec<StreamId>);

    impl Core for Ended {
        fn handle(&mut self, _: Instant, input: Input<'_>) {
            if let Input::StreamClosed { stream } = input {
                self.0.push(stream);
            }
        }
        fn next_deadline(&self) -> Option<Instant> {
            None
        }
        fn next_tick(&self) -> Option<Instant> {
            None
        }
        fn advance(&mut self, _: Instant) {}
        fn transmit(&mut self, _: Instant, _: &mut Outbox) -> bool {
            false
        }
    }

    /// One stream in a slot, its peer, and what a turn needs.
    struct Bench {
        poll: Poll,
        stats: IoStats,
        streams: Streams,
        core: Ended,
        id: StreamId,
        peer: std::net::TcpStream,
    }

    impl Bench {
        fn new() -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
            let address = listener.local_addr().expect("its address");
            let peer = std::net::TcpStream::connect(address).expect("loopback");
            peer.set_nonblocking(true).expect("a socket option");
            let (socket, _) = listener.accept().expect("the peer");
            socket.set_nonblocking(true).expect("a socket option");
            SockRef::from(&socket).set_send_buffer_size(4096).expect("a small buffer");
            let mut socket = TcpStream::from_std(socket);
            let poll = Poll::new().expect("a poll set");
            poll.registry().register(&mut socket, Token(0), Interest::READABLE).expect("a place in it");

            let (mut stats, mut streams) = (IoStats::default(), Streams::new(1));
            let mut turning = Turning { now: Instant::ZERO, registry: poll.registry(), stats: &mut stats };
            let id = streams.reserve(&mut turning).expect("a free slot");
            streams.occupy(id, socket);
            Self { poll, stats, streams, core: Ended::default(), id, peer }
        }

        fn send(&mut self, bytes: &[u8], close: bool) {
            let mut out = Outbox::new(1, 1);
            out.stream(self.id, bytes, close);
            let mut turning =
                Turning { now: Instant::ZERO, registry: self.poll.registry(), stats: &mut self.stats };
            self.streams.apply(&out.streams()[0], &mut self.core, &mut turning);
        }

        fn waiting(&self) -> usize {
            self.streams.slots[0].output().len()
        }

        /// Sends until something has to wait in the slot. Returns how many bytes were sent.
        fn fill(&mut self) -> u64 {
            for n in 1..1_000_000 {
                self.send(&[b's'; 30], false);
                if self.waiting() > 0 {
                    return 30 * n;
                }
            }
            panic!("the socket took everything");
        }
    }

    /// Output that waits for a slow reader, less than the cap, arrives whole and in order, and the close behind it.
    #[test]
    fn a_slow_reader_gets_what_waited() {
        let mut bench = Bench::new();
        let sent = bench.fill() + 7;
        bench.send(b"the end", true);
        assert!(bench.waiting() >= 7 && bench.stats.streams.bytes_out < sent);

        let mut received = Vec::new();
        let mut events = Events::with_capacity(4);
        let mut is_over = false;
        for _ in 0..10_000 {
            let mut buffer = [0; 65_536];
            match bench.peer.read(&mut buffer) {
                Ok(0) => {
                    is_over = true;
                    break;
                }
                Ok(len) => received.extend_from_slice(&buffer[..len]),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
            bench.poll.poll(&mut events, Some(time::Duration::from_millis(2))).expect("polled");
            let mut turning =
                Turning { now: Instant::ZERO, registry: bench.poll.registry(), stats: &mut bench.stats };
            for event in &events {
                bench.streams.on_event(event.token().0, event.is_writable(), &mut bench.core, &mut turning);
            }
        }
        assert!(is_over, "the end of the stream came, and no reset");
        assert_eq!(received.len() as u64, sent);
        assert!(received.ends_with(b"sthe end"));
        assert!(bench.core.0.is_empty());
    }

    /// A peer that never reads: what waits for it is capped, and then it is closed and told of once (field case 47).
    #[test]
    fn case_47_output_is_capped() {
        let mut bench = Bench::new();
        bench.fill();
        for _ in 0..10 {
            bench.send(&[b's'; 30], false);
            assert!(bench.waiting() <= STREAM_OUTPUT_BYTES);
        }
        assert_eq!(bench.core.0, [bench.id]);
        assert_eq!(
            (bench.stats.streams.overflowed, bench.stats.streams.closed, bench.streams.len()),
            (1, 1, 0)
        );
    }

    /// The same, but the core closes with its last words: it is not told about a stream that it has forgotten.
    #[test]
    fn an_overflow_at_the_close_is_not_told() {
        let mut bench = Bench::new();
        bench.fill();
        while bench.waiting() + 30 <= STREAM_OUTPUT_BYTES {
            bench.send(&[b's'; 30], false);
        }
        bench.send(&[b's'; 30], true);
        assert!(bench.core.0.is_empty());
        assert_eq!((bench.stats.streams.overflowed, bench.streams.len()), (1, 0));
        assert_eq!(bench.streams.next_deadline(), None, "and does not linger");
    }
}
