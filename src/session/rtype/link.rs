//! What both ends of an R-Type connection share: sequences and acknowledgements in 32 bits (5.1, 5.2), and what was
//! sent until it is acknowledged.

use crate::session::acks::{SENT_LOG_LEN, SentLog};
use crate::session::reliable;
use crate::session::rtt::Rtt;
use crate::storage::SequenceBuffer;
use crate::time::{Duration, Instant};
use crate::wire::rtype::Header;

/// How a received sequence relates to those before it (5.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Receipt {
    /// The first of all, or higher than all before.
    New,
    /// Lower than the highest by 1 to 32, and not seen before.
    OutOfOrder,
    /// Seen before.
    Duplicate,
    /// Lower than the highest by more than 32: nobody can tell.
    TooOld,
}

impl Receipt {
    /// Whether its packet is to be processed.
    pub const fn is_fresh(self) -> bool {
        matches!(self, Self::New | Self::OutOfOrder)
    }
}

/// The sequences received from a peer: the highest, and which of the 32 before it.
///
/// Sequences are plain numbers that do not wrap: at a packet a frame they last for two years.
#[derive(Clone, Copy, Default, Debug)]
pub struct Receipts {
    /// `None` before the first packet, which may have any sequence, 0 included.
    highest: Option<u32>,
    bits: u32,
}

impl Receipts {
    /// Nothing received.
    pub const fn new() -> Self {
        Self { highest: None, bits: 0 }
    }

    /// How `sequence` relates to what was received. Nothing changes.
    pub const fn classify(&self, sequence: u32) -> Receipt {
        let Some(highest) = self.highest else { return Receipt::New };
        if sequence > highest {
            return Receipt::New;
        }
        match highest - sequence {
            0 => Receipt::Duplicate,
            behind @ 1..=32 if self.bits >> (behind - 1) & 1 == 1 => Receipt::Duplicate,
            1..=32 => Receipt::OutOfOrder,
            _ => Receipt::TooOld,
        }
    }

    /// Records `sequence`, once its packet passed every other check.
    pub fn record(&mut self, sequence: u32) -> Receipt {
        let receipt = self.classify(sequence);
        match (receipt, self.highest) {
            (Receipt::New, Some(highest)) => {
                let ahead = sequence - highest;
                // The sequence that was the highest becomes a bit.
                let before = if ahead <= 32 { 1 << (ahead - 1) } else { 0 };
                *self = Self {
                    highest: Some(sequence),
                    bits: self.bits.checked_shl(ahead).unwrap_or(0) | before,
                };
            }
            (Receipt::New, None) => self.highest = Some(sequence),
            (Receipt::OutOfOrder, Some(highest)) => self.bits |= 1 << (highest - sequence - 1),
            _ => {}
        }
        receipt
    }

    /// The `ack` field: the highest sequence received, 0 when none was.
    pub fn ack(&self) -> u32 {
        self.highest.unwrap_or(0)
    }

    /// The `ack_bits` field.
    pub const fn bits(&self) -> u32 {
        self.bits
    }
}

/// One direction's receipts and the other's sent log, with the connection's id.
#[derive(Debug)]
pub struct Link {
    connection: u32,
    receipts: Receipts,
    /// The sequence that the next packet will have.
    next: u32,
    /// By the low bits of sequence − 1: it is read for the last [`SENT_LOG_LEN`] only, where those tell them apart.
    sent: SentLog<bool>,
    sent_notices: SequenceBuffer<reliable::Carried>,
    rtt: Rtt,
}

/// Packets with notices that are remembered: when a later one takes a place too soon, its notices are sent once more.
const NOTICE_PACKETS: usize = 32;

/// Bounds of the time after which notices are sent again.
const RESEND_MIN: Duration = Duration::from_millis(50);
const RESEND_MAX: Duration = Duration::from_millis(1000);

impl Link {
    /// A link that was never used; [`Link::reset`] gives it a connection.
    pub fn new() -> Self {
        Self {
            connection: 0,
            receipts: Receipts::new(),
            next: 1,
            sent: SentLog::new(false),
            sent_notices: SequenceBuffer::new(NOTICE_PACKETS, reliable::Carried::NONE),
            rtt: Rtt::new(),
        }
    }

    /// Starts connection `connection`.
    pub fn reset(&mut self, connection: u32) {
        self.connection = connection;
        self.receipts = Receipts::new();
        self.next = 1;
        self.sent.reset();
        self.sent_notices.clear();
        self.rtt = Rtt::new();
    }

    /// The connection's id, 0 before there is one.
    pub const fn connection(&self) -> u32 {
        self.connection
    }

    /// What was received.
    pub const fn receipts(&self) -> &Receipts {
        &self.receipts
    }

    /// Records a packet that passed all other checks and arrived `at`, and reads its acknowledgements. `settle` is
    /// called once for each packet that they newly name, with the notices it carried. An `ack` beyond the last sequence
    /// sent is ignored with its bits; so is one of 0, which says that nothing arrived.
    pub fn receive(
        &mut self,
        header: &Header,
        at: Instant,
        mut settle: impl FnMut(&reliable::Carried),
    ) -> Receipt {
        let receipt = self.receipts.record(header.sequence);
        if receipt.is_fresh() && self.is_remembered(header.ack) {
            let Self { sent, sent_notices, rtt, .. } = self;
            sent.acknowledge((header.ack - 1) as u16, header.ack_bits, |sequence, sent| {
                rtt.sample(at.since(sent.at));
                let notices = if sent.carried { sent_notices.remove(sequence) } else { None };
                settle(&notices.unwrap_or(reliable::Carried::NONE));
            });
        }
        receipt
    }

    /// Whether `sequence` was sent, and lately.
    fn is_remembered(&self, sequence: u32) -> bool {
        sequence != 0 && sequence < self.next && self.next - sequence <= SENT_LOG_LEN as u32
    }

    /// The header of the next packet.
    pub fn next_header(&self) -> Header {
        Header {
            connection: self.connection,
            sequence: self.next,
            ack: self.receipts.ack(),
            ack_bits: self.receipts.bits(),
        }
    }

    /// Records that the packet of [`Link::next_header`] is sent, with these notices.
    pub fn sent(&mut self, now: Instant, notices: &reliable::Carried) {
        let has_notices = !notices.is_empty();
        let sequence = self.sent.record(now, has_notices);
        if has_notices {
            self.sent_notices.insert(sequence, *notices);
        }
        // The peer would take what follows for too old, two years from the start.
        self.next = self.next.wrapping_add(1);
    }

    /// The name that notices know the next packet by.
    pub const fn next_carrier(&self) -> u16 {
        self.sent.next_sequence()
    }

    /// The most recent packet that the peer acknowledged, by the same name.
    pub const fn newest_acked(&self) -> Option<u16> {
        self.sent.newest_acked()
    }

    /// The round-trip time that acknowledgements show. It includes the time that the peer takes to its next packet.
    pub const fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// How long to wait for an acknowledgement before notices are sent again.
    pub fn resend_time(&self) -> Duration {
        self.rtt.timeout(RESEND_MIN, RESEND_MAX)
    }
}

impl Default for Link {
    fn default() -> Self {
        Self::new()
    }
}
