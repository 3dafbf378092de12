//! Everyone who is in, whatever protocol they speak: what rooms ask of them, and what waits to be sent to them.
//!
//! A room knows its players as [`Guest`]s; which session is behind one is decided here and nowhere else.

use super::fignet::Fignet;
use super::rtype::Progress;
use crate::model::{GameEvent, PlayerInput};
use crate::session::aegis::Session;
use crate::session::reliable::TooManyInFlight;
use crate::session::rtype::{self, Notice};
use crate::snapshot::View;
use crate::storage::{Handle, Pool};
use crate::time::Tick;
use crate::wire::aegis::event::{CONTENT_BYTES_MAX, Event};

/// A player's session, as a room knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Guest {
    /// Over Aegis.
    Aegis(Handle),
    /// Over R-Type version 1.
    Rtype(Handle),
    /// Over FigNet.
    Fignet(Handle),
}

/// The sessions of every protocol.
#[derive(Debug)]
pub(super) struct Seats {
    pub(super) aegis: Pool<Seat>,
    pub(super) rtype: Pool<RtypeSeat>,
    /// The FigNet door, if it is open.
    pub(super) fignet: Option<Fignet>,
}

/// What became of an event that was to go to a guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pushed {
    /// The session refers to it until it is acknowledged.
    Kept,
    /// The session has no need of it.
    Nothing,
}

/// An Aegis session with what the server keeps for it.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) session: Session,
    pub(super) view: View,
    pub(super) queued: Queued,
}

/// An R-Type connection with what the server keeps for it.
#[derive(Debug)]
pub(super) struct RtypeSeat {
    pub(super) session: rtype::Session,
    pub(super) queued: Queued,
    pub(super) snapshot: Progress,
}

/// What a session has to send, and whether the ready list knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queued {
    /// What is to be sent.
    pub(super) wants: Wants,
    /// Whether the ready list has this seat. It outlasts the session: whoever sits here when the seat comes up is
    /// served.
    pub(super) is_listed: bool,
}

/// Kinds of datagrams that a session has to send now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Wants(u8);

impl Seats {
    /// How many places there are for guests, of whatever protocol: each has a number below this.
    pub(super) fn capacity(&self) -> usize {
        self.fignet_start() + self.fignet.as_ref().map_or(0, |door| door.seats.capacity())
    }

    fn fignet_start(&self) -> usize {
        self.aegis.capacity() + self.rtype.capacity()
    }

    /// How many guests are in.
    pub(super) fn len(&self) -> usize {
        self.aegis.len() + self.rtype.len() + self.fignet.as_ref().map_or(0, |door| door.seats.len())
    }

    /// The number of a guest's place: for lists that run beside the pools.
    pub(super) fn number(&self, guest: Guest) -> usize {
        match guest {
            Guest::Aegis(handle) => handle.index(),
            Guest::Rtype(handle) => self.aegis.capacity() + handle.index(),
            Guest::Fignet(handle) => self.fignet_start() + handle.index(),
        }
    }

    /// Who is at a place, if anybody is.
    pub(super) fn guest(&self, number: usize) -> Option<Guest> {
        if number < self.aegis.capacity() {
            self.aegis.handle_at(number).map(Guest::Aegis)
        } else if number < self.fignet_start() {
            self.rtype.handle_at(number - self.aegis.capacity()).map(Guest::Rtype)
        } else {
            let number = number - self.fignet_start();
            self.fignet.as_ref().and_then(|door| door.seats.handle_at(number)).map(Guest::Fignet)
        }
    }

    /// The ready list no longer has this place.
    pub(super) fn unlist(&mut self, number: usize) {
        let (rtype_start, fignet_start) = (self.aegis.capacity(), self.fignet_start());
        let queued = if number < rtype_start {
            &mut self.aegis.slot_mut(number).queued
        } else if number < fignet_start {
            &mut self.rtype.slot_mut(number - rtype_start).queued
        } else {
            let door = self.fignet.as_mut().expect("a place of an open door");
            &mut door.seats.slot_mut(number - fignet_start).queued
        };
        queued.is_listed = false;
    }

    /// What waits to be sent to a guest, if they are still in.
    pub(super) fn queued(&mut self, guest: Guest) -> Option<&mut Queued> {
        match guest {
            Guest::Aegis(handle) => self.aegis.get_mut(handle).map(|seat| &mut seat.queued),
            Guest::Rtype(handle) => self.rtype.get_mut(handle).map(|seat| &mut seat.queued),
            Guest::Fignet(handle) => self.fignet.as_mut()?.seats.get_mut(handle).map(|seat| &mut seat.queued),
        }
    }

    /// What a player does in the coming tick.
    pub(super) fn take_input(&mut self, guest: Guest) -> PlayerInput {
        match guest {
            Guest::Aegis(handle) => self.aegis.get_mut(handle).map(|seat| seat.session.take_input()),
            Guest::Rtype(handle) => self.rtype.get_mut(handle).map(|seat| seat.session.take_input()),
            Guest::Fignet(handle) => {
                let seats = self.fignet.as_mut().map(|door| &mut door.seats);
                seats.and_then(|seats| seats.get_mut(handle)).map(|seat| seat.input.take())
            }
        }
        .unwrap_or_default()
    }

    /// Puts an event on its way to a guest; `slot` is where the room keeps it.
    pub(super) fn push_event(
        &mut self,
        guest: Guest,
        slot: u16,
        (tick, event): (Tick, &GameEvent),
    ) -> Result<Pushed, TooManyInFlight> {
        match guest {
            Guest::Aegis(handle) => match self.aegis.get_mut(handle) {
                Some(seat) => seat.session.push_event(slot).map(|()| Pushed::Kept),
                None => Ok(Pushed::Nothing),
            },
            Guest::Rtype(handle) => {
                if let (Some(seat), Some(notice)) = (self.rtype.get_mut(handle), notice(event)) {
                    seat.session.push_notice(notice)?;
                }
                Ok(Pushed::Nothing)
            }
            Guest::Fignet(handle) => {
                let mut content = [0; CONTENT_BYTES_MAX];
                let len = Event::from_game(tick.0, event).emit(&mut content);
                let is_queued =
                    self.fignet.as_mut().is_none_or(|door| door.push_event(handle, &content[..len]));
                if is_queued { Ok(Pushed::Nothing) } else { Err(TooManyInFlight) }
            }
        }
    }

    /// Events that a guest has not acknowledged.
    pub(super) fn events_pending(&self, guest: Guest) -> usize {
        match guest {
            Guest::Aegis(handle) => self.aegis.get(handle).map_or(0, |seat| seat.session.events_pending()),
            Guest::Rtype(handle) => self.rtype.get(handle).map_or(0, |seat| seat.session.notices_pending()),
            Guest::Fignet(handle) => self.fignet.as_ref().map_or(0, |door| door.events_pending(handle)),
        }
    }

    /// Whether events wait to be sent to a guest for the first time.
    pub(super) fn has_unsent_events(&self, guest: Guest) -> bool {
        match guest {
            Guest::Aegis(handle) => {
                self.aegis.get(handle).is_some_and(|seat| seat.session.has_unsent_events())
            }
            Guest::Rtype(handle) => self.rtype.get(handle).is_some_and(|seat| seat.session.has_unsent()),
            // They are queued with the connection, which sends them as it may.
            Guest::Fignet(_) => false,
        }
    }

    /// Gives up every event that is on its way to a guest.
    pub(super) fn release_events(&mut self, guest: Guest, release: impl FnMut(u16)) {
        match guest {
            Guest::Aegis(handle) => {
                if let Some(seat) = self.aegis.get_mut(handle) {
                    seat.session.release_events(release);
                }
            }
            // What is on its way to them refers to nothing of the room's.
            Guest::Rtype(_) | Guest::Fignet(_) => {}
        }
    }
}

impl Seat {
    pub(super) fn new(entities_max: usize, snapshot_interval: u32) -> Self {
        Self {
            session: Session::new(),
            view: View::new(entities_max, snapshot_interval),
            queued: Queued::NOTHING,
        }
    }
}

impl RtypeSeat {
    pub(super) fn new() -> Self {
        Self { session: rtype::Session::new(), queued: Queued::NOTHING, snapshot: Progress::default() }
    }
}

/// What an R-Type client is told of an event, if anything.
fn notice(event: &GameEvent) -> Option<Notice> {
    match *event {
        GameEvent::Spawn { id, .. } => Some(Notice::Create(id)),
        GameEvent::Destroy { id, reason, .. } => Some(Notice::Destroy(id, reason.into())),
        GameEvent::Death { .. }
        | GameEvent::PlayerJoined { .. }
        | GameEvent::PlayerLeft { .. }
        | GameEvent::GameOver { .. } => None,
    }
}

impl Queued {
    /// Nothing to send.
    pub(super) const NOTHING: Self = Self { wants: Wants::NOTHING, is_listed: false };
}

impl Wants {
    pub(super) const NOTHING: Self = Self(0);
    /// The answer to who asks to be let in.
    pub(super) const ACCEPT: Self = Self(1);
    pub(super) const EVENTS: Self = Self(2);
    pub(super) const SNAPSHOT: Self = Self(4);
    pub(super) const HEARTBEAT: Self = Self(8);

    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(super) const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}
