//! How guests of every protocol come to a room and leave it.

use log::info;

use super::Server;
use super::seats::{Guest, Wants};
use crate::model::{Name, PlayerId};
use crate::session::aegis::Ended;
use crate::time::Instant;
use crate::world::Game;

impl<G: Game> Server<G> {
    /// Takes the lowest free slot of the first room that has one. `None` when every room is full.
    pub(super) fn reserve_slot(
        &mut self,
        guest: Guest,
        name: impl FnOnce(PlayerId) -> Name,
    ) -> Option<(u32, PlayerId)> {
        let room = self.open_rooms.next_from(0)?;
        let player = self.rooms[room].reserve(guest, name).expect("an open room has a free slot");
        if !self.rooms[room].has_free_slot() {
            self.open_rooms.remove(room);
        }
        self.free_slots -= 1;
        Some((room as u32, player))
    }

    /// The player of a reserved slot joins the room: the first one opens it.
    pub(super) fn join_room(&mut self, room_index: u32, player: PlayerId) {
        let room = &mut self.rooms[room_index as usize];
        if !room.is_played() {
            room.open(self.seeds.next_u64());
            self.played_rooms.insert(room_index as usize);
        }
        room.join(player, &mut self.seats, &mut self.events);
    }

    /// A guest's slot is free again, and everyone who is to hear of it does. The seat is still to be released.
    pub(super) fn leave_room(
        &mut self,
        now: Instant,
        guest: Guest,
        room_index: u32,
        player: PlayerId,
        why: Ended,
    ) {
        let room = &mut self.rooms[room_index as usize];
        let was_played = room.is_played();
        room.leave(player, why.leave(), &mut self.seats, &mut self.events);
        if was_played && !room.is_played() {
            self.played_rooms.remove(room_index as usize);
        }
        self.open_rooms.insert(room_index as usize);
        self.free_slots += 1;
        self.deadlines.clear(self.seats.number(guest));
        if let Some(queued) = self.seats.queued(guest) {
            queued.wants = Wants::NOTHING;
        }
        self.stats.sessions_ended += 1;
        match why {
            Ended::TimedOut => self.stats.sessions_timed_out += 1,
            Ended::ProtocolError => self.stats.sessions_broken += 1,
            Ended::TooSlow => self.stats.sessions_too_slow += 1,
            Ended::Left | Ended::Disconnected | Ended::ServerShutdown => {}
        }
        if self.sources.may_log(now) {
            info!("player {} of room {room_index} left: {why:?}", player.get());
        }
    }

    /// Stops the ticks once nobody is in.
    pub(super) fn rest_if_empty(&mut self) {
        if self.seats.len() == 0 {
            self.clock.stop();
        }
    }
}
