//! What a client must be told of entities, until it is known to have arrived (8.2, 8.3).
//!
//! The protocol has no word for "again": a client that hears of the same thing twice ignores it. So a lost notice is
//! simply sent again, as far as the client's acknowledgements show that it was lost. Of a client that does not
//! acknowledge nothing is known: it is told once.

use super::link::Link;
use crate::limits::{EVENTS_IN_FLIGHT_MAX, EVENTS_PER_STEP_MAX};
use crate::model::{EntityId, EntityTable};
use crate::session::reliable::{Carried, EventSender, TooManyInFlight};
use crate::time::{Instant, Tick};
use crate::wire::rtype::PacketWriter;
use crate::wire::rtype::message::{CreateEntity, DestroyEntity, DestroyReason};

/// Something that a client is to be told. It has no content of its own: where an entity is, and whether it is still
/// there, is looked up when the notice is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// The entity is there, if it still is.
    Create(EntityId),
    /// The entity is gone.
    Destroy(EntityId, DestroyReason),
}

/// Packets in a row, without a word of what arrived, after which a client that never acknowledged anything is taken
/// for one that does not: half a second of inputs.
const SILENT_PACKETS_NEW: u16 = 30;

/// The same for a client that did acknowledge: five seconds, in which its way up works and its way down may not.
const SILENT_PACKETS: u16 = 300;

// Everything that one step can bring finds room behind what a newcomer finds and what it asks for.
const _: () = assert!(EVENTS_PER_STEP_MAX <= EVENTS_IN_FLIGHT_MAX / 4);

/// The notices on their way to one client.
#[derive(Debug)]
pub(super) struct Notices {
    sender: EventSender<Notice>,
    /// It acknowledged something, once.
    has_acknowledged: bool,
    /// Packets heard since something was newly acknowledged, while notices were to be acknowledged.
    silent_packets: u16,
    /// It does not acknowledge: nothing is sent again or waited for.
    is_deaf: bool,
}

impl Notices {
    pub(super) fn new() -> Self {
        Self {
            sender: EventSender::new(Notice::Create(EntityId(0))),
            has_acknowledged: false,
            silent_packets: 0,
            is_deaf: false,
        }
    }

    pub(super) fn reset(&mut self) {
        self.sender.reset(|_| ());
        self.has_acknowledged = false;
        self.silent_packets = 0;
        self.is_deaf = false;
    }

    /// Puts a notice on its way.
    pub(super) fn push(&mut self, notice: Notice) -> Result<(), TooManyInFlight> {
        if self.sender.room() == 0 && !self.may_resend() {
            self.sender.give_up_sent(|_| ());
        }
        self.sender.push(notice)
    }

    /// Whether one more notice that is not urgent may be put on its way: half of the room is kept for what happens
    /// meanwhile.
    pub(super) fn has_room_for_sync(&self) -> bool {
        self.sender.room() > EVENTS_IN_FLIGHT_MAX / 2
    }

    /// The same for an answer, which may take half of what is left.
    fn has_room_for_answer(&self) -> bool {
        self.sender.room() > EVENTS_IN_FLIGHT_MAX / 4
    }

    /// Puts the answer to a query on its way; false when it must wait.
    pub(super) fn answer(&mut self, id: EntityId) -> bool {
        self.has_room_for_answer() && self.sender.push(Notice::Create(id)).is_ok()
    }

    pub(super) fn pending(&self) -> usize {
        self.sender.pending()
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.sender.has_unsent()
    }

    /// When notices are next to be sent again.
    pub(super) fn next_resend(&self) -> Option<Instant> {
        if self.may_resend() { self.sender.next_resend() } else { None }
    }

    /// What a packet carried has arrived.
    pub(super) fn settle(&mut self, carried: &Carried) {
        self.sender.settle(carried, |_| ());
        self.has_acknowledged = true;
        self.silent_packets = 0;
        self.is_deaf = false;
    }

    /// A packet came, and was read with its acknowledgements.
    pub(super) fn heard(&mut self, newest_acked: Option<u16>) {
        if let Some(newest) = newest_acked {
            self.sender.overtake(newest);
        }
        if self.sender.pending() > self.sender.unsent() {
            self.silent_packets = self.silent_packets.saturating_add(1);
            let most = if self.has_acknowledged { SILENT_PACKETS } else { SILENT_PACKETS_NEW };
            if self.silent_packets > most {
                self.is_deaf = true;
                self.sender.give_up_sent(|_| ());
            }
        }
    }

    /// Writes the notices that are due at `now`, as many as fit, and returns what the packet carries: for
    /// [`Link::sent`], when it is sent, or [`Notices::nothing_written`].
    pub(super) fn write(
        &mut self,
        now: Instant,
        tick: Tick,
        entities: &EntityTable,
        link: &Link,
        writer: &mut PacketWriter<'_>,
    ) -> Carried {
        let write = |_, notice| write_notice(notice, tick, entities, writer);
        let (carrier, resend) = (link.next_carrier(), link.resend_time());
        if self.may_resend() {
            self.sender.write_due(now, carrier, resend, write)
        } else {
            self.sender.write_unsent(now, carrier, resend, write)
        }
    }

    /// Nothing was left to say of what [`Notices::write`] gave for carried: no packet is needed.
    pub(super) fn nothing_written(&mut self, carried: &Carried) {
        self.sender.settle(carried, |_| ());
    }

    const fn may_resend(&self) -> bool {
        self.has_acknowledged && !self.is_deaf
    }
}

/// Writes one notice; false when it does not fit. Of an entity that is gone again there is nothing to create: its
/// Destroy has its own notice.
fn write_notice(notice: Notice, tick: Tick, entities: &EntityTable, writer: &mut PacketWriter<'_>) -> bool {
    match notice {
        Notice::Create(id) => match create(id, tick, entities) {
            Some(message) => writer.push(&message),
            None => true,
        },
        Notice::Destroy(id, reason) => writer.push(&DestroyEntity { tick: tick.0, id, reason }),
    }
}

fn create(id: EntityId, tick: Tick, entities: &EntityTable) -> Option<CreateEntity> {
    let index = id.index();
    let entity = entities.get(index).filter(|_| entities.id(index) == Some(id))?;
    CreateEntity::of(tick.0, id, entity)
}
