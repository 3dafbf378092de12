//! A session with what the server keeps for it.

use crate::session::aegis::Session;
use crate::snapshot::View;

/// What a pool slot of the server's sessions holds.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) session: Session,
    pub(super) view: View,
    /// What is to be sent.
    pub(super) wants: Wants,
    /// Whether the ready list has this seat's index. It outlasts the session: whoever sits here when the index comes
    /// up is served.
    pub(super) is_queued: bool,
}

/// Kinds of datagrams that a session has to send now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Wants(u8);

impl Wants {
    pub(super) const NOTHING: Self = Self(0);
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

impl Seat {
    pub(super) fn new(entities_max: usize, snapshot_interval: u32) -> Self {
        Self {
            session: Session::new(),
            view: View::new(entities_max, snapshot_interval),
            wants: Wants::NOTHING,
            is_queued: false,
        }
    }
}
