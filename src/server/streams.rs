//! Stream connections: logins and logouts. Implements Aegis 3 and 6.5.

use std::net::SocketAddr;

use log::info;

use super::Server;
use super::seats::{Guest, Wants};
use crate::limits::{CONNECTIONS_SPARE_PER_ADDRESS, TICK_RATE_HZ};
use crate::model::{Name, NameError};
use crate::seam::{STREAM_OP_BYTES_MAX, StreamId};
use crate::session::aegis::{Ended, LOGIN_TIMEOUT, Login};
use crate::storage::Handle;
use crate::time::Instant;
use crate::wire::aegis::VERSION;
use crate::wire::aegis::stream::{
    ClientMessage, FrameReader, LogoutReason, RejectReason, ServerMessage, StreamError,
};
use crate::world::Game;

/// One stream connection.
#[derive(Debug)]
pub(super) struct Stream {
    id: Option<StreamId>,
    peer: SocketAddr,
    phase: Phase,
    frame: FrameReader,
    out: [u8; STREAM_OP_BYTES_MAX],
    out_len: usize,
    is_queued: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// No LoginRequest yet.
    Login,
    /// Carries a session.
    Playing(Handle),
    /// Closed once what is queued is flushed.
    Closing,
}

impl Stream {
    pub(super) fn free() -> Self {
        Self {
            id: None,
            peer: SocketAddr::from(([0, 0, 0, 0], 0)),
            phase: Phase::Closing,
            frame: FrameReader::new(),
            out: [0; STREAM_OP_BYTES_MAX],
            out_len: 0,
            is_queued: false,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.id.is_some()
    }

    /// Takes what is to be done with the stream: its id, bytes to send, and whether to close it then.
    pub(super) fn take_output(&mut self) -> Option<(StreamId, [u8; STREAM_OP_BYTES_MAX], usize, bool)> {
        self.is_queued = false;
        let len = std::mem::take(&mut self.out_len);
        self.id.map(|id| (id, self.out, len, self.phase == Phase::Closing))
    }
}

impl<G: Game> Server<G> {
    pub(super) fn stream_opened(&mut self, now: Instant, id: StreamId, peer: SocketAddr) {
        let index = id.index as usize;
        assert!(index < self.streams.len(), "the driver has more streams than the server");
        // A driver tells of a stream's end before it uses the index again; if it did not, this tells.
        if let Some(before) = self.streams[index].id {
            self.stream_closed(now, before);
        }
        self.stats.streams_opened += 1;
        self.addresses.add(peer.ip());
        let share = self.settings.sessions_per_address + CONNECTIONS_SPARE_PER_ADDRESS;
        let is_over_share = self.has_share(peer) && self.addresses.count(peer.ip()) > share;
        let stream = &mut self.streams[index];
        *stream =
            Stream { id: Some(id), peer, phase: Phase::Login, is_queued: stream.is_queued, ..Stream::free() };
        if is_over_share {
            self.stats.streams_refused += 1;
            self.close_stream(index);
        } else {
            self.deadlines.set(self.seats.capacity() + index, now + LOGIN_TIMEOUT);
        }
    }

    pub(super) fn stream_bytes(&mut self, now: Instant, id: StreamId, bytes: &[u8]) {
        let index = id.index as usize;
        let mut rest = bytes;
        // Every round takes at least one byte.
        while !rest.is_empty() && self.is_listening(index, id) {
            let message = match self.streams[index].frame.push(&mut rest) {
                Some(Ok(frame)) => frame.client_message(),
                Some(Err(error)) => Err(error),
                None => return,
            };
            match (message, self.streams[index].phase) {
                (Ok(ClientMessage::LoginRequest { version, name }), Phase::Login) => {
                    self.log_in(now, index, version, name);
                }
                (Ok(ClientMessage::Logout(_)), Phase::Playing(handle)) => {
                    self.end_session(now, handle, Ended::Left);
                }
                (Ok(message), _) => self.fail_stream(now, index, StreamError::Unexpected(message.kind())),
                (Err(error), _) => self.fail_stream(now, index, error),
            }
        }
    }

    pub(super) fn stream_closed(&mut self, now: Instant, id: StreamId) {
        let index = id.index as usize;
        if self.streams.get(index).is_none_or(|stream| stream.id != Some(id)) {
            return;
        }
        let phase = self.streams[index].phase;
        self.forget_stream(index);
        if let Phase::Playing(handle) = phase {
            self.end_session(now, handle, Ended::Left);
        }
    }

    pub(super) fn login_timed_out(&mut self, now: Instant, index: usize) {
        if self.streams[index].is_open() && self.streams[index].phase == Phase::Login {
            self.stats.streams_failed += 1;
            if self.sources.may_log(now) {
                info!("closed the connection of {}: login timeout", self.streams[index].peer);
            }
            self.close_stream(index);
        }
    }

    /// Closes the connections that have not logged in.
    pub(super) fn close_logins(&mut self) {
        for index in 0..self.streams.len() {
            if self.streams[index].is_open() && self.streams[index].phase == Phase::Login {
                self.close_stream(index);
            }
        }
    }

    /// Says Logout on a session's stream, if it is still open, and closes it.
    pub(super) fn log_out(&mut self, id: StreamId, reason: LogoutReason, is_told: bool) {
        let index = id.index as usize;
        if self.streams.get(index).is_some_and(|stream| stream.id == Some(id)) {
            if is_told {
                self.say(index, &ServerMessage::Logout(reason));
            }
            self.close_stream(index);
        }
    }

    /// Forgets a stream: it was closed from outside, or its close was handed to the driver.
    pub(super) fn forget_stream(&mut self, index: usize) {
        let stream = &mut self.streams[index];
        if stream.id.take().is_some() {
            let ip = stream.peer.ip();
            self.addresses.remove(ip);
            self.deadlines.clear(self.seats.capacity() + index);
        }
    }

    fn is_listening(&self, index: usize, id: StreamId) -> bool {
        self.streams.get(index).is_some_and(|stream| stream.id == Some(id) && stream.phase != Phase::Closing)
    }

    fn log_in(&mut self, now: Instant, index: usize, version: u8, name: Result<Name, NameError>) {
        let peer = self.streams[index].peer;
        match self.admit(now, index, version, name) {
            Ok(login) => {
                self.stats.logins_accepted += 1;
                self.deadlines.clear(self.seats.capacity() + index);
                let accepted = ServerMessage::LoginAccepted {
                    session: login.token,
                    udp_port: self.settings.aegis_udp_port,
                    player: login.player,
                    tick_rate: TICK_RATE_HZ as u8,
                    snapshot_interval: self.settings.snapshot_interval,
                };
                self.say(index, &accepted);
            }
            Err(reason) => {
                self.stats.logins_refused += 1;
                if self.sources.may_log(now) {
                    info!("refused the login of {peer}: {reason:?}");
                }
                self.say(index, &ServerMessage::LoginRejected(reason));
                self.close_stream(index);
            }
        }
    }

    /// Finds a place for a newcomer, or the reason why there is none, in the order of 3.2.
    fn admit(
        &mut self,
        now: Instant,
        index: usize,
        version: u8,
        name: Result<Name, NameError>,
    ) -> Result<Login, RejectReason> {
        if version != VERSION {
            return Err(RejectReason::BadVersion);
        }
        let name = name.map_err(|_| RejectReason::BadName)?;
        if self.is_shutting_down {
            return Err(RejectReason::ShuttingDown);
        }
        let Stream { id, peer, .. } = self.streams[index];
        let stream = id.expect("the stream that logs in is open");
        if self.has_share(peer) && self.addresses.count(peer.ip()) > self.settings.sessions_per_address {
            return Err(RejectReason::RateLimited);
        }
        let handle = self.seats.aegis.claim().ok_or(RejectReason::ServerFull)?;
        let Some((room, player)) = self.reserve_slot(Guest::Aegis(handle), |_| name) else {
            self.seats.aegis.release(handle);
            return Err(RejectReason::ServerFull);
        };
        let login = Login { token: self.fresh_token(), stream, peer, room, player, name };
        self.by_token.insert(u128::from(login.token), handle.index() as u32);
        let seat = self.seats.aegis.get_mut(handle).expect("the seat was just claimed");
        seat.session.reset(now, login);
        seat.view.reset();
        seat.queued.wants = Wants::NOTHING;
        self.deadlines.set(handle.index(), seat.session.next_deadline());
        self.streams[index].phase = Phase::Playing(handle);
        self.clock.start(now);
        Ok(login)
    }

    /// A token that no live session has.
    fn fresh_token(&mut self) -> u32 {
        loop {
            let token = self.tokens.next_token();
            if self.by_token.get(u128::from(token)).is_none() {
                return token;
            }
        }
    }

    /// Whether the address of `peer` may only have its share of the server.
    pub(super) fn has_share(&self, peer: SocketAddr) -> bool {
        self.settings.sessions_per_address > 0 && !peer.ip().to_canonical().is_loopback()
    }

    /// A bad message: the connection is closed in silence, and with it its session.
    fn fail_stream(&mut self, now: Instant, index: usize, error: StreamError) {
        self.stats.streams_failed += 1;
        if self.sources.may_log(now) {
            info!("closed the connection of {}: {error}", self.streams[index].peer);
        }
        let phase = self.streams[index].phase;
        self.close_stream(index);
        if let Phase::Playing(handle) = phase {
            self.end_session_in_silence(now, handle, Ended::Left);
        }
    }

    fn say(&mut self, index: usize, message: &ServerMessage) {
        let stream = &mut self.streams[index];
        let len = message.emit(&mut stream.out[stream.out_len..]);
        stream.out_len += len;
        self.queue_stream(index);
    }

    fn close_stream(&mut self, index: usize) {
        self.streams[index].phase = Phase::Closing;
        self.deadlines.clear(self.seats.capacity() + index);
        self.queue_stream(index);
    }

    fn queue_stream(&mut self, index: usize) {
        if !std::mem::replace(&mut self.streams[index].is_queued, true) {
            let queued = self.ready_streams.push(index as u32);
            assert!(queued.is_ok(), "each stream is in the ready list at most once");
        }
    }
}
