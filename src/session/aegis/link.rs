//! What both ends of an Aegis session share: sequences, acknowledgements, round-trip time, and how a datagram is put
//! together.

use crate::lz4::{Compressor, THRESHOLD_BYTES};
use crate::session::acks::{Receipt, Receipts, SentLog};
use crate::session::reliable;
use crate::session::rtt::Rtt;
use crate::storage::SequenceBuffer;
use crate::time::{Duration, Instant, Tick};
use crate::wire::aegis::{DATAGRAM_BYTES_MAX, HEADER_BYTES, Header, PAYLOAD_BYTES_MAX, PacketKind};

/// What a sent datagram carried that its acknowledgement settles.
#[derive(Clone, Copy, Debug)]
pub struct Carried {
    /// The tick of the snapshot in it.
    pub snapshot: Option<Tick>,
    /// The events in it.
    pub events: reliable::Carried,
}

/// The same as it is remembered for every datagram: events, which few carry, are kept apart.
#[derive(Clone, Copy, Debug)]
struct Noted {
    snapshot: Option<Tick>,
    has_events: bool,
}

/// Event datagrams remembered, by sequence: when a later one takes a place too soon, its events are sent once more.
const EVENT_DATAGRAMS: usize = 32;

impl Carried {
    /// Nothing to settle.
    pub const NOTHING: Self = Self { snapshot: None, events: reliable::Carried::NONE };

    /// A snapshot.
    pub const fn snapshot(tick: Tick) -> Self {
        Self { snapshot: Some(tick), ..Self::NOTHING }
    }

    /// Events.
    pub const fn events(events: reliable::Carried) -> Self {
        Self { events, ..Self::NOTHING }
    }
}

/// One direction's receipts and the other's sent log, with the session token.
#[derive(Debug)]
pub struct Link {
    token: u32,
    receipts: Receipts,
    sent: SentLog<Noted>,
    sent_events: SequenceBuffer<reliable::Carried>,
    rtt: Rtt,
}

/// Bounds of the resend time (5.3).
const RESEND_MIN: Duration = Duration::from_millis(50);
const RESEND_MAX: Duration = Duration::from_millis(1000);

impl Link {
    /// A link that was never used; [`Link::reset`] gives it a session.
    pub fn new() -> Self {
        Self {
            token: 0,
            receipts: Receipts::new(),
            sent: SentLog::new(Noted { snapshot: None, has_events: false }),
            sent_events: SequenceBuffer::new(EVENT_DATAGRAMS, reliable::Carried::NONE),
            rtt: Rtt::new(),
        }
    }

    /// Starts a new session under `token`.
    pub fn reset(&mut self, token: u32) {
        self.token = token;
        self.receipts = Receipts::new();
        self.sent.reset();
        self.sent_events.clear();
        self.rtt = Rtt::new();
    }

    /// The session token.
    pub const fn token(&self) -> u32 {
        self.token
    }

    /// Whether `sequence` would be newer than everything received.
    pub fn is_newest(&self, sequence: u16) -> bool {
        self.receipts.is_newest(sequence)
    }

    /// The newest sequence received.
    pub const fn newest_received(&self) -> u16 {
        self.receipts.ack()
    }

    /// Step 6 of the checks in 6.3: records a datagram that passed all others, which arrived `at`, and reads its
    /// acknowledgements. `settle` is called once for each datagram that they newly name.
    pub fn receive(&mut self, header: &Header, at: Instant, mut settle: impl FnMut(&Carried)) -> Receipt {
        let receipt = self.receipts.record(header.sequence);
        if receipt == Receipt::New {
            let Self { sent, sent_events, rtt, .. } = self;
            sent.acknowledge(header.ack, header.ack_bits, |sequence, sent| {
                rtt.sample(at.since(sent.at));
                let Noted { snapshot, has_events } = sent.carried;
                let events = if has_events { sent_events.remove(sequence) } else { None };
                settle(&Carried { snapshot, events: events.unwrap_or(reliable::Carried::NONE) });
            });
        }
        receipt
    }

    /// The header of the next datagram.
    pub fn next_header(&self, kind: PacketKind) -> Header {
        Header {
            kind,
            compressed: false,
            sequence: self.sent.next_sequence(),
            ack: self.receipts.ack(),
            ack_bits: self.receipts.bits(),
            session: self.token,
        }
    }

    /// Records that the datagram of [`Link::next_header`] is sent.
    pub fn sent(&mut self, now: Instant, carried: Carried) {
        let has_events = !carried.events.is_empty();
        let sequence = self.sent.record(now, Noted { snapshot: carried.snapshot, has_events });
        if has_events {
            self.sent_events.insert(sequence, carried.events);
        }
    }

    /// The sequence that the next datagram will have.
    pub const fn next_sequence(&self) -> u16 {
        self.sent.next_sequence()
    }

    /// The most recent sequence that the peer acknowledged.
    pub const fn newest_acked(&self) -> Option<u16> {
        self.sent.newest_acked()
    }

    /// The round-trip time.
    pub const fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// How long to wait for an event's acknowledgement before it is resent (5.3).
    pub fn resend_time(&self) -> Duration {
        self.rtt.timeout(RESEND_MIN, RESEND_MAX)
    }
}

impl Default for Link {
    fn default() -> Self {
        Self::new()
    }
}

/// A payload that was written in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Payload {
    /// Its length in bytes.
    pub len: usize,
    /// Whether its kind shrinks at all: full snapshots and lists of events do, deltas never (`docs/performance.md`).
    pub shrinks: bool,
}

/// Puts a datagram together in place: `write` fills the payload and says how long it is, or `None` to send nothing.
/// A payload that may shrink is compressed where that makes it smaller. Returns the datagram's length.
pub fn compose(
    header: &Header,
    compressor: &mut Compressor,
    buffer: &mut [u8; DATAGRAM_BYTES_MAX],
    write: impl FnOnce(&mut [u8]) -> Option<Payload>,
) -> Option<usize> {
    let (head, payload) = buffer.split_first_chunk_mut::<HEADER_BYTES>().expect("a datagram holds a header");
    let Payload { len, shrinks } = write(payload)?;
    let compressed = if shrinks && len >= THRESHOLD_BYTES {
        let mut scratch = [0; PAYLOAD_BYTES_MAX];
        let compressed = compressor.compress(&payload[..len], &mut scratch);
        if let Some(shorter) = compressed {
            payload[..shorter].copy_from_slice(&scratch[..shorter]);
        }
        compressed
    } else {
        None
    };
    Header { compressed: compressed.is_some(), ..*header }.emit(head);
    Some(HEADER_BYTES + compressed.unwrap_or(len))
}
