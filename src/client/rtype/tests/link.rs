//! A client and the server's side of its connection, over links that lose and reorder.

use std::net::SocketAddr;

use super::*;
use crate::client::bot::Bot;
use crate::model::{EntityTable, PlayerInput};
use crate::rng::Rng;
use crate::session::rtype::{self, Connection, Heard, IDLE_TIMEOUT, Notice, Session};
use crate::time::Tick;
use crate::world::rtype::{Level, RtypeGame, Rules};
use crate::world::{Events, Game};

const FRAME_MS: u64 = 17;

/// One way of a link: frames of delay, at random, and loss in tenths.
struct Way {
    rng: Rng,
    loss: u32,
    waiting: Vec<(u64, Vec<u8>)>,
}

impl Way {
    fn new(seed: u64, loss: u32) -> Self {
        Self { rng: Rng::new(seed), loss, waiting: Vec::new() }
    }

    fn send(&mut self, now: u64, bytes: &[u8]) {
        if !self.rng.chance(self.loss, 10) {
            let due = now + FRAME_MS * u64::from(self.rng.below(4));
            self.waiting.push((due, bytes.to_vec()));
        }
    }

    fn arrived(&mut self, now: u64) -> Vec<Vec<u8>> {
        let (due, waiting) = std::mem::take(&mut self.waiting).into_iter().partition(|(due, _)| *due <= now);
        self.waiting = waiting;
        let due: Vec<(u64, Vec<u8>)> = due;
        due.into_iter().map(|(_, bytes)| bytes).collect()
    }
}

/// A connection between the two.
struct World {
    session: Option<Session>,
    client: Client,
    up: Way,
    down: Way,
    now: u64,
    tick: u32,
}

impl World {
    fn new(seed: u64, loss: u32) -> Self {
        Self {
            session: None,
            client: Client::new(&Settings { entities_max: 1024 }),
            up: Way::new(seed, loss),
            down: Way::new(seed + 1, loss),
            now: 1000,
            tick: 0,
        }
    }

    /// One tick of both; `entities` are the room's. Returns what the player does.
    fn step(&mut self, entities: &EntityTable) -> PlayerInput {
        let now = at(self.now);
        let mut buffer = [0; 548];
        while let Some(len) = self.client.transmit(now, &mut buffer) {
            self.up.send(self.now, &buffer[..len]);
        }
        for bytes in self.up.arrived(self.now) {
            self.receive(now, &bytes, entities);
        }
        self.tick += 1;
        if let Some(session) = &mut self.session {
            while let Some(len) = session.write_notices(now, Tick(self.tick), entities, &mut buffer) {
                self.down.send(self.now, &buffer[..len]);
            }
            let mut from = self.tick.is_multiple_of(3).then_some(0);
            while let Some(index) = from {
                let (len, next) =
                    session.write_snapshot(now, Tick(self.tick), entities, index..u32::MAX, &mut buffer);
                self.down.send(self.now, &buffer[..len]);
                from = next;
            }
            assert!(!session.is_timed_out(now));
        }
        for bytes in self.down.arrived(self.now) {
            // What comes twice, or before the lost Welcome, is the link's doing.
            let _ = self.client.datagram(now, now, &bytes);
        }
        self.now += FRAME_MS;
        self.session.as_mut().map_or(PlayerInput::default(), Session::take_input)
    }

    /// Tells the client, once it is there: who comes later finds the room as it is then.
    fn tell(&mut self, notice: Notice) {
        if let Some(session) = &mut self.session {
            session.push_notice(notice).unwrap();
        }
    }

    fn receive(&mut self, now: Instant, bytes: &[u8], entities: &EntityTable) {
        let heard = match &mut self.session {
            Some(session) => session.hear(now, now, bytes),
            None => rtype::check_hello(bytes).map(|()| {
                let mut session = Session::new();
                let endpoint = SocketAddr::from(([10, 0, 0, 1], 5000));
                session.reset(now, Connection { id: 7, endpoint }, IDLE_TIMEOUT);
                for index in entities.indices() {
                    session.push_notice(Notice::Create(entities.id(index).unwrap())).unwrap();
                }
                self.session = Some(session);
                Heard::WantsWelcome
            }),
        };
        match heard {
            Ok(Heard::WantsWelcome) => {
                let mut welcome = [0; 10];
                let len = Handshake::Welcome { connection: 7 }.emit(&mut welcome);
                self.down.send(self.now, &welcome[..len]);
            }
            Ok(Heard::Nothing) => {}
            other => panic!("{other:?}"),
        }
    }
}

type Listed = Vec<(EntityId, Entity)>;

/// What the room has and what the client knows, each sorted.
fn both(entities: &EntityTable, client: &Client) -> (Listed, Listed) {
    // Quarter pixels are what travels.
    let seen = |entity: &Entity| {
        let place = |units| Pos16::from_units(units).to_units();
        Blueprint::of(entity).unwrap().entity().moving(place(entity.x), place(entity.y), 0, 0)
    };
    let mut room: Listed =
        entities.iter().map(|(index, entity)| (entities.id(index).unwrap(), seen(entity))).collect();
    let mut known: Listed = client.visible().map(|(id, entity)| (id, *entity)).collect();
    room.sort_by_key(|(id, _)| *id);
    known.sort_by_key(|(id, _)| *id);
    (room, known)
}

/// A room in which things come, move and go; the client ends up with exactly that room, whatever was lost.
#[test]
fn the_client_ends_up_with_the_room() {
    for (seed, loss) in (0..12).zip([0, 0, 1, 2, 3, 4].into_iter().cycle()) {
        let mut rng = Rng::new(seed);
        let mut world = World::new(seed * 10, loss);
        let mut room = EntityTable::new(200);
        (0..100).for_each(|_| {
            room.insert(Entity::new(Kind::BYDOS).moving(rng.between(0, 9999), 0, 0, 0));
        });
        for frame in 0..1500 {
            let is_busy = frame < 900;
            if is_busy && rng.chance(1, 2) {
                let kind = [Kind::BYDOS, Kind::MISSILE, Kind::TILE][rng.below(3) as usize];
                if let Some(id) = room.insert(Entity::new(kind).moving(rng.between(0, 99_999), 64, 0, 0)) {
                    world.tell(Notice::Create(id));
                }
            }
            if let Some(index) = room.next_live(rng.below(200))
                && is_busy
                && rng.chance(1, 2)
            {
                let id = room.id(index).unwrap();
                room.remove(index);
                world.tell(Notice::Destroy(id, DestroyReason::Gameplay));
            }
            if let Some(index) = room.next_live(rng.below(200)) {
                room.get_mut(index).unwrap().x += 640;
            }
            world.step(&room);
        }
        // The last Snapshots arrive too.
        world.up.loss = 0;
        world.down.loss = 0;
        (0..20).for_each(|_| {
            world.step(&room);
        });
        let (room, known) = both(&room, &world.client);
        assert_eq!(known, room, "seed {seed}, loss {loss}");
        let stats = world.client.stats();
        assert!(room.len() > 20 && stats.creates > 200 && stats.destroys > 200, "{stats:?}");
        assert_eq!((stats.messages_malformed, stats.messages_unknown, stats.creates_lost), (0, 0, 0));
        assert!(loss > 0 || stats.dropped < 20, "only what overtook the Welcome: {stats:?}");
        let session = world.session.unwrap();
        assert_eq!((session.notices_pending(), session.malformed_count()), (0, 0));
        assert!(world.client.rtt().smoothed().is_some());
    }
}

/// A bot finds its own ship among others by what follows its controls, and shoots with it.
#[test]
fn a_bot_finds_its_ship_and_plays() {
    for seed in 0..3 {
        let level = std::sync::Arc::new(Level::builtin("level1").unwrap());
        let mut game = RtypeGame::new(level, Rules::default(), 512);
        game.reset(seed);
        let mut events = Events::new();
        let own = PlayerId::new(1).unwrap();
        let other = PlayerId::new(0).unwrap();
        game.join(other, &mut events);
        game.join(own, &mut events);
        let mut world = World::new(seed, 1);
        let mut bot = Bot::new(seed);
        let mut other_rng = Rng::new(seed + 99);
        let mut other_held = Controls::RELEASED;
        let mut inputs = [PlayerInput::default(); 4];
        let (mut shots, mut found) = (0, None);
        for frame in 0..3600u32 {
            bot.play(&mut world.client);
            inputs[own.index()] = world.step(game.entities());
            if frame % 40 == 0 {
                other_held = Controls::from_bits(other_rng.below(16) as u8).unwrap();
            }
            inputs[other.index()].held = other_held;
            shots += u32::from(inputs[own.index()].fire);
            events.clear();
            game.step(&inputs, &mut events);
            for event in events.as_slice() {
                let notice = match *event {
                    crate::model::GameEvent::Spawn { id, .. } => Notice::Create(id),
                    crate::model::GameEvent::Destroy { id, reason, .. } => Notice::Destroy(id, reason.into()),
                    _ => continue,
                };
                world.tell(notice);
            }
            if found.is_none() && world.client.player().is_some() {
                found = Some(frame);
            }
        }
        assert_eq!(world.client.player(), Some(own), "seed {seed}: found at {found:?}");
        assert!(found.unwrap() < 600 && shots > 20, "{found:?}, {shots} shots");
    }
}
