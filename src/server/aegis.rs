//! Aegis datagrams: the order of checks of 6.3, binding, and the end of a session. Implements Aegis 3.4 and 6.

use std::net::SocketAddr;

use log::{info, warn};

use super::Server;
use super::seats::{Guest, Wants};
use super::transmit::Farewell;
use crate::session::aegis::{ClientPayload, Ended, Heard, check_header, check_payload};
use crate::session::drops::{self, DropReason};
use crate::storage::Handle;
use crate::time::Instant;
use crate::wire::aegis::{Header, PacketKind};
use crate::world::Game;

impl<G: Game> Server<G> {
    pub(super) fn aegis_datagram(&mut self, now: Instant, from: SocketAddr, at: Instant, bytes: &[u8]) {
        self.stats.datagrams_in += 1;
        self.stats.bytes_in += bytes.len() as u64;
        if let Err(reason) = self.read_aegis_datagram(now, from, at, bytes) {
            self.sources.dropped(now, from, reason, bytes);
        }
    }

    /// The checks of 6.3 in their order. Nothing changes before the last one passed, but for the account of what a
    /// session sent too much or malformed.
    fn read_aegis_datagram(
        &mut self,
        now: Instant,
        from: SocketAddr,
        at: Instant,
        bytes: &[u8],
    ) -> Result<(), DropReason> {
        let checked = check_header(bytes);
        // The one check that comes before floods are ignored (6.6).
        if checked == Err(DropReason::TooLarge) {
            return Err(DropReason::TooLarge);
        }
        let bound = checked.ok().and_then(|header| self.bound_seat(&header, from));
        // Addresses that flood are ignored (6.6), but never a bound endpoint for what others send from its address.
        if bound.is_none() && self.sources.ignores(now, from.ip()) {
            return Err(DropReason::Flood);
        }
        let header = checked?;
        match bound {
            Some(handle) => self.read_bound(now, from, at, handle, &header, bytes),
            None if header.kind == PacketKind::Connect => self.read_connect(now, from, at, &header, bytes),
            None => Err(DropReason::Foreign),
        }
    }

    /// The seat of the session that the header names, if the datagram came from the endpoint bound to it.
    fn bound_seat(&self, header: &Header, from: SocketAddr) -> Option<Handle> {
        let handle = self.seat_of(header.session)?;
        let seat = self.seats.aegis.get(handle)?;
        (seat.session.endpoint() == Some(from)).then_some(handle)
    }

    fn seat_of(&self, token: u32) -> Option<Handle> {
        self.seats.aegis.handle_at(self.by_token.get(u128::from(token))? as usize)
    }

    /// A datagram of a bound session.
    fn read_bound(
        &mut self,
        now: Instant,
        from: SocketAddr,
        at: Instant,
        handle: Handle,
        header: &Header,
        bytes: &[u8],
    ) -> Result<(), DropReason> {
        let seat = self.seats.aegis.get_mut(handle).expect("the seat was just found");
        if !seat.session.may_hear(now) {
            return Err(DropReason::Flood);
        }
        let payload = match check_payload(header, bytes, &mut self.scratch) {
            Ok(payload) => payload,
            Err(reason) => {
                if seat.session.is_broken_by_malformed(now) {
                    if self.sources.may_warn(now) {
                        warn!(
                            "ended the session of player {} from {from}: {} malformed datagrams",
                            seat.session.login().player.get(),
                            seat.session.malformed_count()
                        );
                    }
                    self.end_session(now, handle, Ended::ProtocolError);
                }
                return Err(reason);
            }
        };
        match self.hear(now, at, handle, header, payload) {
            Heard::Nothing => {}
            Heard::WantsAccept => self.want(Guest::Aegis(handle), Wants::ACCEPT),
            Heard::Leaves => self.end_session(now, handle, Ended::Disconnected),
        }
        Ok(())
    }

    /// A Connect from an endpoint that is not bound to its session.
    fn read_connect(
        &mut self,
        now: Instant,
        from: SocketAddr,
        at: Instant,
        header: &Header,
        bytes: &[u8],
    ) -> Result<(), DropReason> {
        check_payload(header, bytes, &mut self.scratch)?;
        if self.sources.ignores_connects(now, from.ip()) {
            return Err(DropReason::Flood);
        }
        let is_of_peer = |handle: &Handle| {
            let peer = self.seats.aegis.get(*handle).map(|seat| seat.session.login().peer.ip());
            peer.is_some_and(|peer| drops::key(peer) == drops::key(from.ip()))
        };
        let Some(handle) = self.seat_of(header.session).filter(is_of_peer) else {
            self.sources.guessed(now, from.ip());
            return Err(DropReason::Foreign);
        };
        let seat = self.seats.aegis.get_mut(handle).expect("the seat was just found");
        let was_bound = seat.session.endpoint().is_some();
        if !seat.session.bind(now, from, header) {
            return Err(DropReason::Foreign);
        }
        self.hear(now, at, handle, header, ClientPayload::Connect);
        self.want(Guest::Aegis(handle), Wants::ACCEPT);
        if was_bound {
            self.stats.sessions_rebound += 1;
        } else {
            self.stats.sessions_bound += 1;
            self.join(now, handle);
        }
        Ok(())
    }

    /// Step 6 of 6.3: the datagram is recorded and its acknowledgements and payload read.
    fn hear(
        &mut self,
        now: Instant,
        at: Instant,
        handle: Handle,
        header: &Header,
        payload: ClientPayload,
    ) -> Heard {
        let seat = self.seats.aegis.get_mut(handle).expect("the seat was just found");
        let store = &mut self.rooms[seat.session.login().room as usize].store;
        let view = &mut seat.view;
        let heard = seat.session.hear(
            now,
            at,
            header,
            payload,
            |tick| view.acknowledged(tick),
            |event| store.release(event),
        );
        if seat.session.is_resend_due(now) {
            self.want(Guest::Aegis(handle), Wants::EVENTS);
        }
        heard
    }

    /// A session was bound for the first time: its player joins the room.
    fn join(&mut self, now: Instant, handle: Handle) {
        let seat = self.seats.aegis.get(handle).expect("the seat was just found");
        let login = *seat.session.login();
        self.join_room(login.room, login.player);
        if self.sources.may_log(now) {
            info!(
                "player {} of room {} joined from {}: {:?}",
                login.player.get(),
                login.room,
                login.peer,
                login.name
            );
        }
    }

    /// Ends a session and tells its client, the room, and the log.
    pub(super) fn end_session(&mut self, now: Instant, handle: Handle, why: Ended) {
        self.end(now, handle, why, true);
    }

    /// Ends a session whose connection is closed without a word.
    pub(super) fn end_session_in_silence(&mut self, now: Instant, handle: Handle, why: Ended) {
        self.end(now, handle, why, false);
    }

    fn end(&mut self, now: Instant, handle: Handle, why: Ended, is_told: bool) {
        let Some(seat) = self.seats.aegis.get(handle) else { return };
        let login = *seat.session.login();
        if let Some(endpoint) = seat.session.endpoint()
            && why != Ended::Disconnected
        {
            let header = seat.session.next_header(PacketKind::Disconnect);
            // There is room for everyone at once. Should a driver let them pile up, the Logout has to do.
            let _ = self.farewells.push(Farewell::new(endpoint, header));
        }
        self.log_out(login.stream, why.logout(), is_told);
        self.leave_room(now, Guest::Aegis(handle), login.room, login.player, why);
        self.by_token.remove(u128::from(login.token));
        self.seats.aegis.release(handle);
        self.rest_if_empty();
    }
}
