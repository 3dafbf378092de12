//! Output: what sessions and streams have ready is written into the driver's outbox, in place.

use std::net::SocketAddr;

use super::Server;
use super::events::EventStore;
use super::seats::{Guest, Seat, Wants};
use super::stats::Stats;
use crate::lz4::Compressor;
use crate::seam::{Door, Outbox};
use crate::session::aegis::{Carried, DISCONNECT_COPIES, Payload, Session, compose};
use crate::snapshot::Request;
use crate::storage::Handle;
use crate::time::Instant;
use crate::wire::aegis::event::{Event, EventListWriter};
use crate::wire::aegis::snapshot::is_delta;
use crate::wire::aegis::{HEADER_BYTES, Header, PAYLOAD_BYTES_MAX, PacketKind};
use crate::world::Game;

/// A Disconnect to somebody whose session is over already.
#[derive(Clone, Copy, Debug)]
pub(super) struct Farewell {
    to: SocketAddr,
    /// Of the first copy; each further one has the next sequence.
    header: Header,
    copies: u8,
}

impl Farewell {
    /// What free places of the queue hold.
    pub(super) const FILLER: Self = Self {
        to: SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0),
        header: Header {
            kind: PacketKind::Disconnect,
            compressed: false,
            sequence: 0,
            ack: 0,
            ack_bits: 0,
            session: 0,
        },
        copies: 0,
    };

    pub(super) const fn new(to: SocketAddr, header: Header) -> Self {
        Self { to, header, copies: DISCONNECT_COPIES as u8 }
    }
}

impl<G: Game> Server<G> {
    /// As [`crate::seam::Core::transmit`].
    pub(super) fn transmit_ready(&mut self, now: Instant, out: &mut Outbox) -> bool {
        self.transmit_streams(out);
        self.transmit_farewells(out);
        self.transmit_refusals(out);
        while out.has_datagram_room() {
            let Some(&number) = self.ready_seats.get(0) else { break };
            // The guest who asked may be gone; then nobody or another one is served.
            let is_done = match self.seats.guest(number as usize) {
                Some(Guest::Aegis(handle)) => self.transmit_aegis(now, number as usize, handle, out),
                Some(Guest::Rtype(handle)) => self.transmit_rtype(now, number as usize, handle, out),
                Some(Guest::Fignet(handle)) => {
                    self.transmit_fignet(now, handle);
                    true
                }
                None => {
                    self.seats.unlist(number as usize);
                    true
                }
            };
            if is_done {
                self.ready_seats.pop();
            }
        }
        self.transmit_fignet_packets(now, out);
        self.has_output()
    }

    fn transmit_streams(&mut self, out: &mut Outbox) {
        while out.has_stream_room() {
            let Some(index) = self.ready_streams.pop() else { break };
            let index = index as usize;
            let Some((id, bytes, len, is_closing)) = self.streams[index].take_output() else { continue };
            if len > 0 || is_closing {
                out.stream(id, &bytes[..len], is_closing);
            }
            if is_closing {
                self.forget_stream(index);
            }
        }
    }

    fn transmit_farewells(&mut self, out: &mut Outbox) {
        while out.has_datagram_room() {
            let Some(farewell) = self.farewells.get_mut(0) else { break };
            let header = farewell.header;
            out.datagram(Door::Aegis, farewell.to, |buffer| {
                let (head, _) = buffer.split_first_chunk_mut().expect("a datagram holds a header");
                header.emit(head);
                Some(HEADER_BYTES)
            });
            self.stats.datagrams_out += 1;
            self.stats.bytes_out += HEADER_BYTES as u64;
            farewell.header.sequence = header.sequence.wrapping_add(1);
            farewell.copies -= 1;
            if farewell.copies == 0 {
                self.farewells.pop();
            }
        }
    }

    /// Writes what the session of a seat wants to send, as far as the outbox has room. Returns whether that was
    /// everything: then the seat is out of the ready list.
    fn transmit_aegis(&mut self, now: Instant, number: usize, handle: Handle, out: &mut Outbox) -> bool {
        let seat = self.seats.aegis.get_mut(handle).expect("the guest was just found");
        let endpoint = seat.session.endpoint().filter(|_| seat.queued.wants != Wants::NOTHING);
        let Some(endpoint) = endpoint else {
            seat.queued.is_listed = false;
            return true;
        };
        let room = &self.rooms[seat.session.login().room as usize];
        let mut sender =
            Sender { now, to: endpoint, compressor: &mut self.compressor, stats: &mut self.stats, out };
        if seat.queued.wants.has(Wants::ACCEPT) {
            sender.empty(&mut seat.session, PacketKind::Accept);
            seat.queued.wants = seat.queued.wants.without(Wants::ACCEPT);
        }
        while seat.queued.wants.has(Wants::EVENTS) && sender.out.has_datagram_room() {
            if !sender.events(&mut seat.session, &room.store) {
                seat.queued.wants = seat.queued.wants.without(Wants::EVENTS);
            }
        }
        if seat.queued.wants.has(Wants::SNAPSHOT) && sender.out.has_datagram_room() {
            let request = Request {
                room: seat.session.login().room,
                history: &room.history,
                input: seat.session.input_applied(),
                focus: room.game.focus(seat.session.login().player),
            };
            sender.snapshot(seat, &mut self.encoder, &request);
            seat.queued.wants = seat.queued.wants.without(Wants::SNAPSHOT);
        }
        if seat.queued.wants.has(Wants::HEARTBEAT) && sender.out.has_datagram_room() {
            if seat.session.is_heartbeat_due(now) {
                sender.empty(&mut seat.session, PacketKind::Heartbeat);
                self.stats.heartbeats_out += 1;
            }
            seat.queued.wants = seat.queued.wants.without(Wants::HEARTBEAT);
        }
        if seat.queued.wants != Wants::NOTHING {
            return false;
        }
        seat.queued.is_listed = false;
        let deadline = seat.session.next_deadline();
        if self.deadlines.get(number).is_none_or(|before| deadline < before) {
            self.deadlines.set(number, deadline);
        }
        true
    }
}

/// What it takes to write a session's datagrams.
struct Sender<'a> {
    now: Instant,
    to: SocketAddr,
    compressor: &'a mut Compressor,
    stats: &'a mut Stats,
    out: &'a mut Outbox,
}

impl Sender<'_> {
    /// A datagram without payload.
    fn empty(&mut self, session: &mut Session, kind: PacketKind) {
        let header = session.next_header(kind);
        self.write(&header, |_| Some(Payload { len: 0, shrinks: false }));
        session.spoke(self.now, Carried::NOTHING);
    }

    /// One datagram of the events that are due. Returns false, and sends nothing, when none is.
    fn events(&mut self, session: &mut Session, store: &EventStore) -> bool {
        let now = self.now;
        let header = session.next_header(PacketKind::Event);
        let mut carried = Carried::NOTHING;
        let mut count = 0;
        let is_sent = self.write(&header, |payload| {
            let mut list = EventListWriter::new(payload);
            carried = session.write_events(now, |id, slot| {
                let Some((tick, event)) = store.get(slot) else { return true };
                let event = Event::from_game(tick.0, event);
                let is_written = list.push(id, |content| event.emit(content));
                count += u64::from(is_written);
                is_written
            });
            list.finish().map(|len| Payload { len, shrinks: true })
        });
        if is_sent {
            session.spoke(now, carried);
            self.stats.event_datagrams_out += 1;
            self.stats.events_out += count;
        }
        is_sent
    }

    /// The room's newest snapshot.
    fn snapshot(&mut self, seat: &mut Seat, encoder: &mut crate::snapshot::Encoder, request: &Request<'_>) {
        let Some(newest) = request.history.newest() else { return };
        let header = seat.session.next_header(PacketKind::Snapshot);
        let view = &mut seat.view;
        self.write(&header, |payload| {
            let len = encoder.encode(request, view, &mut payload[..PAYLOAD_BYTES_MAX]);
            Some(Payload { len, shrinks: !is_delta(payload) })
        });
        seat.session.spoke(self.now, Carried::snapshot(newest.tick));
        self.stats.snapshots_out += 1;
    }

    fn write(&mut self, header: &Header, payload: impl FnOnce(&mut [u8]) -> Option<Payload>) -> bool {
        let compressor = &mut *self.compressor;
        let mut len = 0;
        let is_sent = self.out.datagram(Door::Aegis, self.to, |buffer| {
            len = compose(header, compressor, buffer, payload)?;
            Some(len)
        });
        if is_sent {
            self.stats.datagrams_out += 1;
            self.stats.bytes_out += len as u64;
        }
        is_sent
    }
}
