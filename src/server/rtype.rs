//! The door of the R-Type protocol: connections come by a Hello, prove themselves by a first packet, and only then take
//! a place in a room (docs/protocol/rtype.md). Forged Hellos can use up this door's connections for a while, and nothing
//! that players of other protocols need.

use std::net::SocketAddr;

use log::{info, warn};

use super::Server;
use super::seats::{Guest, Queued, RtypeSeat, Wants};
use super::stats::Stats;
use crate::seam::{Door, Outbox};
use crate::session::aegis::Ended;
use crate::session::drops::DropReason;
use crate::session::rtype::{Connection, Heard, check_hello, endpoint_key, player_name};
use crate::storage::Handle;
use crate::time::Instant;
use crate::wire::rtype::DATAGRAM_BYTES_MAX;
use crate::wire::rtype::handshake::Handshake;
use crate::world::Game;

/// Refusals that wait to be sent. Whoever finds no place here is not answered, and asks again.
pub(super) const REFUSALS_MAX: usize = 64;

impl<G: Game> Server<G> {
    pub(super) fn rtype_datagram(&mut self, now: Instant, from: SocketAddr, at: Instant, bytes: &[u8]) {
        self.stats.datagrams_in += 1;
        self.stats.bytes_in += bytes.len() as u64;
        if let Err(reason) = self.read_rtype_datagram(now, from, at, bytes) {
            self.sources.dropped(now, from, reason, bytes);
        }
    }

    fn read_rtype_datagram(
        &mut self,
        now: Instant,
        from: SocketAddr,
        at: Instant,
        bytes: &[u8],
    ) -> Result<(), DropReason> {
        // The one check that comes before floods are ignored.
        if bytes.len() > DATAGRAM_BYTES_MAX {
            return Err(DropReason::TooLarge);
        }
        if let Some(handle) = self.rtype_seat_of(from) {
            return self.hear_rtype(now, from, at, handle, bytes);
        }
        if self.sources.ignores(now, from.ip()) {
            return Err(DropReason::Flood);
        }
        check_hello(bytes)?;
        self.open_connection(now, from);
        Ok(())
    }

    fn rtype_seat_of(&self, from: SocketAddr) -> Option<Handle> {
        let index = self.by_endpoint.get(endpoint_key(from))?;
        self.seats.rtype.handle_at(index as usize)
    }

    /// A datagram from the endpoint of a connection.
    fn hear_rtype(
        &mut self,
        now: Instant,
        from: SocketAddr,
        at: Instant,
        handle: Handle,
        bytes: &[u8],
    ) -> Result<(), DropReason> {
        let session = &mut self.seats.rtype.get_mut(handle).expect("the seat was just found").session;
        if !session.may_hear(now) {
            return Err(DropReason::Flood);
        }
        let was_proven = session.is_proven();
        let heard = session.hear(now, at, bytes);
        let has_news = session.has_answers() || session.is_resend_due(now);
        if session.is_proven() && !was_proven {
            self.prove(now, handle);
        }
        if has_news {
            self.want(Guest::Rtype(handle), Wants::EVENTS);
        }
        match heard {
            Ok(Heard::Nothing) => {}
            Ok(Heard::WantsWelcome) => self.want(Guest::Rtype(handle), Wants::ACCEPT),
            Ok(Heard::Leaves) => self.end_connection(now, handle, Ended::Disconnected),
            Ok(Heard::Malformed(reason)) => {
                // The packet counts, the message does not.
                self.sources.dropped(now, from, reason, bytes);
                self.account_malformed(now, from, handle);
            }
            Err(reason) => {
                if reason.is_malformed() {
                    self.account_malformed(now, from, handle);
                }
                return Err(reason);
            }
        }
        Ok(())
    }

    /// Something malformed came from a connection: once too often ends it.
    fn account_malformed(&mut self, now: Instant, from: SocketAddr, handle: Handle) {
        let Some(seat) = self.seats.rtype.get_mut(handle) else { return };
        if !seat.session.is_broken_by_malformed(now) {
            return;
        }
        if self.sources.may_warn(now) {
            warn!(
                "ended the connection of player {} from {from}: {} malformed packets",
                seat.place.map_or(0, |(_, player)| player.get()),
                seat.session.malformed_count()
            );
        }
        self.end_connection(now, handle, Ended::ProtocolError);
    }

    /// A valid Hello from an endpoint without a connection: it gets one, or Rejected.
    fn open_connection(&mut self, now: Instant, from: SocketAddr) {
        match self.admit_connection(now, from) {
            Ok(handle) => {
                self.stats.logins_accepted += 1;
                self.want(Guest::Rtype(handle), Wants::ACCEPT);
            }
            Err(why) => {
                self.stats.logins_refused += 1;
                if self.sources.may_log(now) {
                    info!("refused the Hello of {from}: {why}");
                }
                // Without room the Hello is as good as lost.
                let _ = self.refusals.push(from);
            }
        }
    }

    fn admit_connection(&mut self, now: Instant, from: SocketAddr) -> Result<Handle, &'static str> {
        if self.is_shutting_down {
            return Err("shutting down");
        }
        if self.has_share(from) && self.addresses.count(from.ip()) >= self.settings.sessions_per_address {
            return Err("too many connections of this address");
        }
        // Whoever is welcomed finds a place, unless somebody logs in over Aegis in between.
        if self.unproven >= self.free_slots {
            return Err("server full");
        }
        // Ids are never used again.
        let next_id = self.connection_id.checked_add(1).ok_or("out of connection ids")?;
        let handle = self.seats.rtype.claim().ok_or("server full")?;
        self.connection_id = next_id;
        let seat = self.seats.rtype.get_mut(handle).expect("the seat was just claimed");
        seat.session.reset(now, Connection { id: next_id, endpoint: from }, self.settings.rtype_idle_timeout);
        seat.place = None;
        seat.snapshot = Progress::default();
        seat.queued.wants = Wants::NOTHING;
        if let Some(deadline) = seat.session.next_deadline() {
            self.deadlines.set(self.seats.number(Guest::Rtype(handle)), deadline);
        }
        self.by_endpoint.insert(endpoint_key(from), handle.index() as u32);
        self.addresses.add(from.ip());
        self.unproven += 1;
        self.clock.start(now);
        Ok(handle)
    }

    /// A connection's first packet came: its player joins.
    fn prove(&mut self, now: Instant, handle: Handle) {
        self.unproven -= 1;
        let place = self.reserve_slot(Guest::Rtype(handle), player_name);
        let seat = self.seats.rtype.get_mut(handle).expect("the seat was just found");
        let Connection { id, endpoint } = *seat.session.connection();
        seat.place = place;
        let Some((room, player)) = place else {
            if self.sources.may_log(now) {
                info!("no place is left for connection {id} of {endpoint}");
            }
            return self.end_connection(now, handle, Ended::Left);
        };
        self.stats.sessions_bound += 1;
        self.join_room(room, player);
        if self.sources.may_log(now) {
            info!("player {} of room {room} joined from {endpoint}: connection {id}", player.get());
        }
    }

    /// Ends a connection. The protocol has no word for it: the client hears nothing any more.
    pub(super) fn end_connection(&mut self, now: Instant, handle: Handle, why: Ended) {
        let Some(seat) = self.seats.rtype.get(handle) else { return };
        let Connection { endpoint, .. } = *seat.session.connection();
        self.unproven -= usize::from(!seat.session.is_proven());
        match seat.place {
            Some((room, player)) => self.leave_room(now, Guest::Rtype(handle), room, player, why),
            None => self.deadlines.clear(self.seats.number(Guest::Rtype(handle))),
        }
        self.by_endpoint.remove(endpoint_key(endpoint));
        self.addresses.remove(endpoint.ip());
        self.seats.rtype.release(handle);
        self.rest_if_empty();
    }

    /// A connection's deadline may be earlier than anything due: whatever moved since is looked at only here.
    pub(super) fn run_rtype_timer(&mut self, now: Instant, number: usize, handle: Handle) {
        let Some(seat) = self.seats.rtype.get(handle) else { return };
        if seat.session.is_timed_out(now) {
            self.end_connection(now, handle, Ended::TimedOut);
        } else if seat.session.is_resend_due(now) {
            // The deadline is set again once that is sent.
            self.want(Guest::Rtype(handle), Wants::EVENTS);
        } else if let Some(deadline) = seat.session.next_deadline() {
            self.deadlines.set(number, deadline);
        }
    }
}

/// Most packets of one Snapshot to one client. Where more entities live than fit in them, the next Snapshot goes on
/// with the others.
const SNAPSHOT_PACKETS_MAX: u8 = 16;

/// How far the Snapshots of one connection got.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Progress {
    /// Index of the entity with which the next packet begins.
    from: u32,
    /// Packets of the current Snapshot already written.
    packets: u8,
}

impl<G: Game> Server<G> {
    /// Tells those who were refused.
    pub(super) fn transmit_refusals(&mut self, out: &mut Outbox) {
        while out.has_datagram_room() {
            let Some(to) = self.refusals.pop() else { break };
            Sender { to, stats: &mut self.stats, out }.write(|buffer| Some(Handshake::Rejected.emit(buffer)));
        }
    }

    /// Writes what a connection wants to send, as far as the outbox has room. Returns whether that was everything:
    /// then the seat is out of the ready list.
    pub(super) fn transmit_rtype(
        &mut self,
        now: Instant,
        number: usize,
        handle: Handle,
        out: &mut Outbox,
    ) -> bool {
        let RtypeSeat { session, queued, snapshot, place } =
            self.seats.rtype.get_mut(handle).expect("the guest was just found");
        let Connection { id, endpoint } = *session.connection();
        let mut sender = Sender { to: endpoint, stats: &mut self.stats, out };
        if queued.wants.has(Wants::ACCEPT) {
            sender.write(|buffer| Some(Handshake::Welcome { connection: id }.emit(buffer)));
            queued.wants = queued.wants.without(Wants::ACCEPT);
        }
        let Some((room, player)) = *place else {
            // Only who plays is told more.
            *queued = Queued::NOTHING;
            return true;
        };
        let room = &self.rooms[room as usize];
        let (tick, entities) = (room.tick, room.game.entities());
        // Ticks may have run since the Snapshot was asked for. It shows the room as it is now, so all that happened goes
        // first.
        if queued.wants.has(Wants::SNAPSHOT) && session.has_unsent() {
            queued.wants = queued.wants.and(Wants::EVENTS);
        }
        while queued.wants.has(Wants::EVENTS) && sender.out.has_datagram_room() {
            if sender.write(|buffer| session.write_notices(now, tick, entities, buffer)) {
                sender.stats.event_datagrams_out += 1;
            } else {
                queued.wants = queued.wants.without(Wants::EVENTS);
            }
        }
        while queued.wants.has(Wants::SNAPSHOT) && sender.out.has_datagram_room() {
            let below = room.told_below(player);
            let mut next = None;
            sender.write(|buffer| {
                let (len, after) = session.write_snapshot(now, tick, entities, snapshot.from..below, buffer);
                next = after;
                Some(len)
            });
            sender.stats.snapshots_out += 1;
            snapshot.from = next.unwrap_or(0);
            snapshot.packets += 1;
            if next.is_none() || snapshot.packets == SNAPSHOT_PACKETS_MAX {
                snapshot.packets = 0;
                queued.wants = queued.wants.without(Wants::SNAPSHOT);
            }
        }
        if queued.wants != Wants::NOTHING {
            return false;
        }
        queued.is_listed = false;
        if let Some(deadline) = session.next_deadline()
            && self.deadlines.get(number).is_none_or(|before| deadline < before)
        {
            self.deadlines.set(number, deadline);
        }
        true
    }
}

/// What it takes to write datagrams to an endpoint.
struct Sender<'a> {
    to: SocketAddr,
    stats: &'a mut Stats,
    out: &'a mut Outbox,
}

impl Sender<'_> {
    /// Writes one datagram, or none when `write` has nothing to say. Returns whether it did.
    fn write(&mut self, write: impl FnOnce(&mut [u8]) -> Option<usize>) -> bool {
        let mut len = 0;
        let is_sent = self.out.datagram(Door::Rtype, self.to, |buffer| {
            len = write(buffer)?;
            Some(len)
        });
        if is_sent {
            self.stats.datagrams_out += 1;
            self.stats.bytes_out += len as u64;
        }
        is_sent
    }
}
