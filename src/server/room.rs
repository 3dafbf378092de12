//! One room: its game, who sits in it, what happened in it, and how it looked when snapshots were sent.

use super::events::EventStore;
use super::seats::{Guest, Pushed, Seats, Wants};
use crate::limits::{EVENTS_PER_ROOM, SYNC_IN_FLIGHT_MAX};
use crate::model::{DestroyReason, GameEvent, LeaveReason, Name, PLAYERS_MAX, PlayerId, PlayerInput};
use crate::session::reliable::TooManyInFlight;
use crate::snapshot::History;
use crate::time::Tick;
use crate::world::{Events, Game};

/// A room. It ticks while somebody who joined is in it.
#[derive(Debug)]
pub(super) struct Room<G> {
    pub(super) game: G,
    pub(super) tick: Tick,
    pub(super) store: EventStore,
    pub(super) history: History,
    members: [Option<Member>; PLAYERS_MAX],
    /// Ticks at which this room's snapshots are due are those where (tick + phase) is a multiple of the interval:
    /// rooms take turns.
    phase: u32,
}

/// A player's slot in a room: taken at login, played from the first binding on.
#[derive(Clone, Copy, Debug)]
struct Member {
    guest: Guest,
    name: Name,
    has_joined: bool,
    is_lost: bool,
    /// The most urgent of the events not yet sent.
    urgency: Urgency,
    /// The newcomer was told of every entity below this index. What happens to those above it goes untold: they are
    /// told of when the cursor gets there.
    cursor: u32,
}

const ALL_TOLD: u32 = u32::MAX;

/// How long an event may wait for company: a datagram of its own costs more in headers than the event does. What it
/// tells of is seen in snapshots, so it goes out with one of them; where snapshots are rarer, it does not wait for them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Urgency {
    /// Nobody is waiting to see it.
    Later,
    /// What others did.
    Soon,
    /// What the player did, or what befell them.
    Now,
}

impl Urgency {
    /// Events of this urgency go out at ticks that are a multiple of this.
    const fn interval_ticks(self) -> u32 {
        match self {
            Self::Now => 3,
            Self::Soon => 6,
            Self::Later => 30,
        }
    }

    /// How urgent `player` should hear of `event`.
    fn of(event: &GameEvent, player: PlayerId) -> Self {
        match event {
            GameEvent::Spawn { owner: Some(owner), .. } if *owner == player => Self::Now,
            GameEvent::Destroy { reason, .. } if *reason != DestroyReason::Killed => Self::Later,
            GameEvent::Spawn { .. } | GameEvent::Destroy { .. } => Self::Soon,
            GameEvent::Death { .. }
            | GameEvent::PlayerJoined { .. }
            | GameEvent::PlayerLeft { .. }
            | GameEvent::GameOver { .. } => Self::Now,
        }
    }
}

impl<G: Game> Room<G> {
    pub(super) fn new(game: G, index: usize, entities_max: usize, snapshot_interval: u32) -> Self {
        Self {
            game,
            tick: Tick(0),
            store: EventStore::new(EVENTS_PER_ROOM),
            history: History::new(entities_max, snapshot_interval),
            members: [None; PLAYERS_MAX],
            phase: index as u32 % snapshot_interval,
        }
    }

    /// Takes the lowest free slot for a guest who was let in.
    pub(super) fn reserve(&mut self, guest: Guest, name: impl FnOnce(PlayerId) -> Name) -> Option<PlayerId> {
        let player = PlayerId::all().find(|player| self.members[player.index()].is_none())?;
        let member = Member {
            guest,
            name: name(player),
            has_joined: false,
            is_lost: false,
            urgency: Urgency::Later,
            cursor: ALL_TOLD,
        };
        self.members[player.index()] = Some(member);
        Some(player)
    }

    /// Whether a slot is free.
    pub(super) fn has_free_slot(&self) -> bool {
        self.members.iter().any(Option::is_none)
    }

    /// Whether anybody plays.
    pub(super) fn is_played(&self) -> bool {
        self.members.iter().flatten().any(|member| member.has_joined)
    }

    /// Makes the room new, for the first who joins.
    pub(super) fn open(&mut self, seed: u64) {
        self.game.reset(seed);
        self.tick = Tick(0);
        self.history.clear();
    }

    /// The player of a reserved slot joins: everyone hears of it, and the newcomer of everyone and everything.
    pub(super) fn join(&mut self, player: PlayerId, seats: &mut Seats, events: &mut Events) {
        let Some(member) = &mut self.members[player.index()] else { return };
        assert!(!member.has_joined, "a player joined twice");
        member.has_joined = true;
        member.cursor = 0;
        let name = member.name;
        for other in PlayerId::all().filter(|&other| other != player) {
            if let Some(name) = self.joined(other).map(|member| member.name) {
                self.tell(player, GameEvent::PlayerJoined { player: other, name }, seats);
            }
        }
        self.publish(GameEvent::PlayerJoined { player, name }, seats);
        events.clear();
        self.game.join(player, events);
        self.publish_all(events, seats);
    }

    /// The player is gone; the slot is free. The others hear of it if the player had joined.
    pub(super) fn leave(
        &mut self,
        player: PlayerId,
        reason: LeaveReason,
        seats: &mut Seats,
        events: &mut Events,
    ) {
        let Some(member) = self.members[player.index()].take() else { return };
        seats.release_events(member.guest, |event| self.store.release(event));
        if !member.has_joined {
            return;
        }
        events.clear();
        self.game.leave(player, events);
        self.publish_all(events, seats);
        self.publish(GameEvent::PlayerLeft { player, reason }, seats);
    }

    /// One tick: inputs, game, events, and the frame for a snapshot when one is due. Everyone who has something to
    /// send then is given to `ready`.
    pub(super) fn step(
        &mut self,
        seats: &mut Seats,
        events: &mut Events,
        mut ready: impl FnMut(Guest, Wants),
    ) {
        let mut inputs = [PlayerInput::default(); PLAYERS_MAX];
        for (input, member) in inputs.iter_mut().zip(&self.members) {
            let joined = member.as_ref().filter(|member| member.has_joined);
            if let Some(member) = joined {
                *input = seats.take_input(member.guest);
            }
        }
        self.tick = self.tick.plus(1);
        events.clear();
        self.game.step(&inputs, events);
        self.publish_all(events, seats);
        self.tell_newcomers(seats);
        let beat = self.tick.0.wrapping_add(self.phase);
        let is_snapshot_due = beat.is_multiple_of(self.history.interval());
        if is_snapshot_due {
            self.history.push(self.tick, self.game.players(), self.game.entities());
        }
        for member in self.members.iter_mut().flatten().filter(|member| member.has_joined) {
            let mut wants = Wants::NOTHING;
            if is_snapshot_due {
                wants = wants.and(Wants::SNAPSHOT);
            }
            // With more frequent snapshots the least wait is shorter too.
            let interval = match member.urgency {
                // Its snapshots name entities that the client must know by then.
                _ if matches!(member.guest, Guest::Rtype(_)) => self.history.interval(),
                Urgency::Now => Urgency::Now.interval_ticks().min(self.history.interval()),
                urgency => urgency.interval_ticks(),
            };
            if beat.is_multiple_of(interval) && seats.has_unsent_events(member.guest) {
                member.urgency = Urgency::Later;
                wants = wants.and(Wants::EVENTS);
            }
            if wants != Wants::NOTHING {
                ready(member.guest, wants);
            }
        }
    }

    /// Who plays here.
    pub(super) fn guests(&self) -> impl Iterator<Item = Guest> {
        self.members.iter().flatten().filter(|member| member.has_joined).map(|member| member.guest)
    }

    /// Entities from this index on are not told of yet to a newcomer.
    pub(super) fn told_below(&self, player: PlayerId) -> u32 {
        self.joined(player).map_or(0, |member| member.cursor)
    }

    /// A guest who fell too far behind in the events, if there is one: to be ended.
    pub(super) fn lost_guest(&self) -> Option<Guest> {
        self.members.iter().flatten().find(|member| member.is_lost).map(|member| member.guest)
    }

    fn joined(&self, player: PlayerId) -> Option<&Member> {
        self.members[player.index()].as_ref().filter(|member| member.has_joined)
    }

    fn publish_all(&mut self, events: &Events, seats: &mut Seats) {
        events.as_slice().iter().for_each(|&event| self.publish(event, seats));
    }

    /// Puts an event on its way to everyone who is to hear of it: one content, a reference each.
    fn publish(&mut self, event: GameEvent, seats: &mut Seats) {
        let slot = self.keep(event, seats);
        let tick = self.tick;
        for (player, member) in PlayerId::all().zip(&mut self.members) {
            if let Some(member) = member.as_mut().filter(|member| member.is_told_of(&event)) {
                push(member, slot, (tick, &event), Urgency::of(&event, player), &mut self.store, seats);
            }
        }
        self.store.release(slot);
    }

    /// Puts an event on its way to one player.
    fn tell(&mut self, player: PlayerId, event: GameEvent, seats: &mut Seats) {
        let slot = self.keep(event, seats);
        if let Some(member) = self.members[player.index()].as_mut().filter(|member| !member.is_lost) {
            push(member, slot, (self.tick, &event), Urgency::of(&event, player), &mut self.store, seats);
        }
        self.store.release(slot);
    }

    /// Stores an event, with one reference. When the store is full, whoever is furthest behind makes room.
    fn keep(&mut self, event: GameEvent, seats: &mut Seats) -> u16 {
        loop {
            match self.store.put(self.tick, event) {
                Some(slot) => return slot,
                // Every round loses one of the few members, and without members the store is empty.
                None => self.lose_slowest(seats),
            }
        }
    }

    /// Tells newcomers of entities that were there before them, a few at a time.
    fn tell_newcomers(&mut self, seats: &mut Seats) {
        for player in PlayerId::all() {
            while let Some(&Member { cursor, guest, is_lost: false, .. }) = self.joined(player) {
                let pending = seats.events_pending(guest);
                // A full store is no reason to lose anybody here: the rest is told later.
                if cursor == ALL_TOLD || pending >= SYNC_IN_FLIGHT_MAX || self.store.is_full() {
                    break;
                }
                let next = self.game.entities().next_live(cursor);
                let told = next.and_then(|index| Some((index, self.spawn_of(index)?)));
                if let Some((_, event)) = told {
                    self.tell(player, event, seats);
                }
                let Some(member) = &mut self.members[player.index()] else { break };
                member.cursor = told.map_or(ALL_TOLD, |(index, _)| index + 1);
            }
        }
    }

    fn spawn_of(&self, index: u32) -> Option<GameEvent> {
        let table = self.game.entities();
        let (entity, id) = (table.get(index)?, table.id(index)?);
        let &crate::model::Entity { x, y, vx, vy, kind, .. } = entity;
        Some(GameEvent::Spawn { id, kind, owner: entity.owner(), x, y, vx, vy })
    }

    /// The store is full: the member with the most events unacknowledged is lost, and its events with it.
    fn lose_slowest(&mut self, seats: &mut Seats) {
        let slowest = self
            .members
            .iter_mut()
            .flatten()
            .filter(|member| !member.is_lost)
            .max_by_key(|member| seats.events_pending(member.guest));
        if let Some(member) = slowest {
            member.is_lost = true;
            seats.release_events(member.guest, |event| self.store.release(event));
        }
    }
}

impl Member {
    fn is_told_of(&self, event: &GameEvent) -> bool {
        let is_ahead = match event {
            GameEvent::Spawn { id, .. } | GameEvent::Destroy { id, .. } => id.index() >= self.cursor,
            _ => false,
        };
        self.has_joined && !self.is_lost && (self.cursor == ALL_TOLD || !is_ahead)
    }
}

fn push(
    member: &mut Member,
    slot: u16,
    event: (Tick, &GameEvent),
    urgency: Urgency,
    store: &mut EventStore,
    seats: &mut Seats,
) {
    match seats.push_event(member.guest, slot, event) {
        Ok(Pushed::Kept) => {
            member.urgency = member.urgency.max(urgency);
            store.retain(slot);
        }
        Ok(Pushed::Nothing) => {}
        Err(TooManyInFlight) => member.is_lost = true,
    }
}
