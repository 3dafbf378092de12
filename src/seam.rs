//! The core's contract with whoever moves its bytes: what comes in ([`Input`]), what goes out ([`Outbox`]), and the
//! four calls between ([`Core`]). Neither side sees more of the other than this.
//!
//! A turn of a driver's loop is: [`Core::handle`] for everything that arrived, [`Core::advance`] to now, then
//! [`Core::transmit`] until it says that nothing is left. Output is written in place into the outbox's fixed buffers:
//! reserve, write, commit or roll back.

use std::net::SocketAddr;
use std::ops::Range;

use crate::time::Instant;

/// The largest datagram that any door sends, in bytes (Aegis 1.3, FigNet MTU).
pub const DATAGRAM_BYTES_MAX: usize = 1200;

/// Bytes of stream output in one [`StreamOp`]: the largest message of a stream protocol fits whole.
pub const STREAM_OP_BYTES_MAX: usize = 30;

/// A datagram socket of the server, one per protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Door {
    /// Aegis play (UDP 4243).
    Aegis = 0,
    /// R-Type version 1 (UDP 4242).
    Rtype = 1,
    /// FigNet (UDP 4244).
    Fignet = 2,
}

impl Door {
    /// How many doors there can be.
    pub const COUNT: usize = 3;
}

/// A stream connection. The driver numbers them: `index` is below the driver's stream capacity, and `generation`
/// changes when the index is used again, so that a late word about a closed stream finds nobody.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamId {
    /// Slot of the connection.
    pub index: u32,
    /// Which connection of that slot.
    pub generation: u32,
}

/// Something that happened outside.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// A datagram arrived.
    Datagram {
        /// The socket it came to.
        door: Door,
        /// Its source.
        from: SocketAddr,
        /// When the kernel took it in; never later than the `now` of the call.
        at: Instant,
        /// Its bytes; a datagram longer than [`DATAGRAM_BYTES_MAX`] arrives cut, but still longer than that.
        bytes: &'a [u8],
    },
    /// A client connected.
    StreamOpened {
        /// The new connection.
        stream: StreamId,
        /// Its peer.
        peer: SocketAddr,
    },
    /// A connection delivered bytes.
    StreamBytes {
        /// The connection.
        stream: StreamId,
        /// What it delivered, at least one byte.
        bytes: &'a [u8],
    },
    /// A connection ended from outside: closed by its peer, reset, or failed. Not told after the core closed it.
    StreamClosed {
        /// The connection.
        stream: StreamId,
    },
}

/// A sans-IO server.
pub trait Core {
    /// Takes in one input. `now` never goes back between calls.
    fn handle(&mut self, now: Instant, input: Input<'_>);

    /// When [`Core::advance`] next has something to do, if ever.
    fn next_deadline(&self) -> Option<Instant>;

    /// When play traffic next takes effect: datagrams may wait in the socket until then. `None` while nobody plays;
    /// then datagrams should be handled as they come.
    fn next_tick(&self) -> Option<Instant>;

    /// Runs everything due at `now`: timers first, then ticks (a late loop catches up by at most
    /// [`crate::limits::CATCH_UP_TICKS_MAX`] and drops the rest).
    fn advance(&mut self, now: Instant);

    /// Writes what is to be sent into `out` until nothing is left (returns false) or `out` is full (returns true:
    /// flush it and call again).
    fn transmit(&mut self, now: Instant, out: &mut Outbox) -> bool;
}

/// A datagram in the [`Outbox`].
#[derive(Clone, Copy, Debug)]
pub struct OutDatagram {
    /// The socket to send it from.
    pub door: Door,
    /// Where to.
    pub to: SocketAddr,
    /// Its length in bytes.
    pub len: u16,
    /// Where its bytes begin in the outbox.
    start: u32,
}

/// Stream output in the [`Outbox`]: bytes to send, a close, or both.
#[derive(Clone, Copy, Debug)]
pub struct StreamOp {
    /// The connection.
    pub stream: StreamId,
    /// Close the connection once its bytes are flushed.
    pub close: bool,
    len: u8,
    bytes: [u8; STREAM_OP_BYTES_MAX],
}

impl StreamOp {
    /// The bytes to send, perhaps none.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }
}

/// The batch that a [`Core`] fills and a driver flushes. Fixed memory: capacities are those given at creation.
///
/// The bytes of its datagrams lie one behind the other without gaps.
#[derive(Debug)]
pub struct Outbox {
    datagrams: Vec<OutDatagram>,
    datagrams_max: usize,
    bytes: Box<[u8]>,
    /// Where the next datagram's bytes go.
    used: usize,
    streams: Vec<StreamOp>,
    streams_max: usize,
}

impl Outbox {
    /// An empty outbox for at most `datagrams_max` datagrams, all of them of full length, and `streams_max` stream
    /// operations between flushes.
    pub fn new(datagrams_max: usize, streams_max: usize) -> Self {
        Self::with_bytes(datagrams_max, datagrams_max * DATAGRAM_BYTES_MAX, streams_max)
    }

    /// An empty outbox for at most `datagrams_max` datagrams that take up to `bytes_max` bytes together, and
    /// `streams_max` stream operations between flushes. It is full when what is left would not hold a datagram of full
    /// length.
    ///
    /// # Panics
    /// When it would hold nothing, or more bytes than 32 bits can number.
    pub fn with_bytes(datagrams_max: usize, bytes_max: usize, streams_max: usize) -> Self {
        assert!(datagrams_max > 0 && streams_max > 0, "an outbox must hold something");
        assert!(bytes_max >= DATAGRAM_BYTES_MAX, "an outbox must hold a datagram");
        assert!(u32::try_from(bytes_max).is_ok(), "an outbox larger than any use");
        Self {
            datagrams: Vec::with_capacity(datagrams_max),
            datagrams_max,
            bytes: vec![0; bytes_max].into_boxed_slice(),
            used: 0,
            streams: Vec::with_capacity(streams_max),
            streams_max,
        }
    }

    /// Whether another datagram can be reserved.
    pub fn has_datagram_room(&self) -> bool {
        self.datagrams.len() < self.datagrams_max && self.bytes.len() - self.used >= DATAGRAM_BYTES_MAX
    }

    /// Whether another stream operation can be queued.
    pub fn has_stream_room(&self) -> bool {
        self.streams.len() < self.streams_max
    }

    /// Reserves a datagram and lets `write` fill it in place. `write` returns the length to commit, or `None` to roll
    /// back. Returns whether it was committed.
    ///
    /// # Panics
    /// When the outbox is full (ask [`Outbox::has_datagram_room`] first), or the length is above
    /// [`DATAGRAM_BYTES_MAX`].
    pub fn datagram(
        &mut self,
        door: Door,
        to: SocketAddr,
        write: impl FnOnce(&mut [u8; DATAGRAM_BYTES_MAX]) -> Option<usize>,
    ) -> bool {
        self.datagram_to_whom(door, |buffer| write(buffer).map(|len| (to, len)))
    }

    /// As [`Outbox::datagram`], where only the writer knows whom it is for: it returns the peer and the length.
    pub fn datagram_to_whom(
        &mut self,
        door: Door,
        write: impl FnOnce(&mut [u8; DATAGRAM_BYTES_MAX]) -> Option<(SocketAddr, usize)>,
    ) -> bool {
        assert!(self.has_datagram_room(), "reserved a datagram in a full outbox");
        let start = self.used;
        let buffer = self.bytes[start..].first_chunk_mut().expect("room for a datagram");
        let Some((to, len)) = write(buffer) else { return false };
        assert!(len <= DATAGRAM_BYTES_MAX, "a datagram longer than its buffer");
        self.datagrams.push(OutDatagram { door, to, len: len as u16, start: start as u32 });
        self.used = start + len;
        true
    }

    /// Queues `bytes` for `stream`, and its close after them when `close` is set.
    ///
    /// # Panics
    /// When the outbox is full, or `bytes` is longer than [`STREAM_OP_BYTES_MAX`].
    pub fn stream(&mut self, stream: StreamId, bytes: &[u8], close: bool) {
        assert!(self.has_stream_room(), "queued stream output in a full outbox");
        let mut op = StreamOp { stream, close, len: bytes.len() as u8, bytes: [0; STREAM_OP_BYTES_MAX] };
        op.bytes[..bytes.len()].copy_from_slice(bytes);
        self.streams.push(op);
    }

    /// The datagrams, in the order written.
    pub fn datagrams(&self) -> &[OutDatagram] {
        &self.datagrams
    }

    /// The bytes of datagram `index`.
    pub fn datagram_bytes(&self, index: usize) -> &[u8] {
        self.datagrams_bytes(index..index + 1)
    }

    /// The bytes of the datagrams in `range`, which must not be empty, one behind the other.
    pub fn datagrams_bytes(&self, range: Range<usize>) -> &[u8] {
        let datagrams = &self.datagrams[range];
        let end = |datagram: &OutDatagram| datagram.start as usize + usize::from(datagram.len);
        &self.bytes[datagrams[0].start as usize..end(&datagrams[datagrams.len() - 1])]
    }

    /// The stream operations, in the order written.
    pub fn streams(&self) -> &[StreamOp] {
        &self.streams
    }

    /// Whether there is nothing to flush.
    pub fn is_empty(&self) -> bool {
        self.datagrams.is_empty() && self.streams.is_empty()
    }

    /// Forgets everything, after a flush.
    pub fn clear(&mut self) {
        self.datagrams.clear();
        self.used = 0;
        self.streams.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9);

    #[test]
    fn a_rolled_back_datagram_leaves_nothing() {
        let mut out = Outbox::new(2, 1);
        assert!(!out.datagram(Door::Aegis, PEER, |buffer| {
            buffer.fill(0xEE);
            None
        }));
        assert!(out.is_empty());
        assert!(out.datagram(Door::Rtype, PEER, |buffer| {
            buffer[..3].copy_from_slice(b"abc");
            Some(3)
        }));
        assert_eq!(out.datagram_bytes(0), b"abc");
        assert!(out.has_datagram_room());
        out.clear();
        assert!(out.is_empty());
    }

    #[test]
    fn datagrams_lie_one_behind_the_other() {
        let mut out = Outbox::with_bytes(8, DATAGRAM_BYTES_MAX + 5, 1);
        for (byte, len) in [(b'a', 3), (b'b', 0), (b'c', 2)] {
            assert!(out.has_datagram_room());
            out.datagram(Door::Aegis, PEER, |buffer| {
                buffer[..len].fill(byte);
                Some(len)
            });
        }
        assert_eq!([0, 1, 2].map(|index| out.datagram_bytes(index)), [&b"aaa"[..], b"", b"cc"]);
        assert_eq!((out.datagrams_bytes(0..3), out.datagrams_bytes(1..3)), (&b"aaacc"[..], &b"cc"[..]));
        // Room for one more, of any length, and then for none.
        assert!(out.has_datagram_room());
        out.datagram(Door::Aegis, PEER, |_| Some(1));
        assert!(!out.has_datagram_room());
        out.clear();
        assert!(out.has_datagram_room());
    }

    #[test]
    #[should_panic(expected = "full outbox")]
    fn a_full_outbox_asserts() {
        let mut out = Outbox::new(1, 1);
        for _ in 0..2 {
            out.datagram(Door::Aegis, PEER, |_| Some(1));
        }
    }
}
