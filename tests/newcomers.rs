//! Newcomers to a crowded room that never rests: they are told of everything that lives exactly once, a few at a time,
//! while things come and go all around what they were told already. Aegis 4.4 over the simulated network.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{address, settings};
use tickwire::client::aegis::{Phase, Settings as ClientSettings};
use tickwire::limits::Limits;
use tickwire::model::{
    DestroyReason, Entity, EntityTable, GameEvent, Kind, PLAYERS_MAX, PlayerId, PlayerInput, PlayerState,
};
use tickwire::rng::{Rng, TokenSource};
use tickwire::server::{Server, Settings};
use tickwire::sim::{Faults, Sim};
use tickwire::time::Duration;
use tickwire::wire::aegis::event::Event;
use tickwire::world::{Events, Game};

const ENTITIES: usize = 400;
const CROWD: usize = 300;

/// A crowd in which at every tick some disappear and others appear, at any index.
#[derive(Debug)]
struct Churn {
    table: EntityTable,
    players: [Option<PlayerState>; PLAYERS_MAX],
    rng: Rng,
}

impl Churn {
    fn new() -> Self {
        Self { table: EntityTable::new(ENTITIES), players: [None; PLAYERS_MAX], rng: Rng::new(1) }
    }
}

impl Game for Churn {
    fn reset(&mut self, seed: u64) {
        *self = Self { rng: Rng::new(seed), ..Self::new() };
        while self.table.len() < CROWD {
            self.table.insert(Entity::new(Kind::BYDOS)).expect("room for a crowd");
        }
    }

    fn join(&mut self, player: PlayerId, _: &mut Events) {
        self.players[player.index()] = Some(PlayerState::default());
    }

    fn leave(&mut self, player: PlayerId, _: &mut Events) {
        self.players[player.index()] = None;
    }

    fn step(&mut self, _: &[PlayerInput; PLAYERS_MAX], events: &mut Events) {
        let first = self.rng.below(ENTITIES as u32);
        if let Some(index) = self.table.next_live(first) {
            let id = self.table.id(index).expect("a live one");
            self.table.remove(index);
            events.push(GameEvent::Destroy { id, reason: DestroyReason::Killed, x: 0, y: 0 });
        }
        if self.rng.chance(1, 2) || self.table.len() < CROWD - 20 {
            let entity = Entity::new(Kind::BYDOS);
            let id = self.table.insert(entity).expect("room for one");
            events.push(GameEvent::Spawn { id, kind: entity.kind, owner: None, x: 0, y: 0, vx: 0, vy: 0 });
        }
    }

    fn players(&self) -> &[Option<PlayerState>; PLAYERS_MAX] {
        &self.players
    }

    fn entities(&self) -> &EntityTable {
        &self.table
    }

    fn focus(&self, _: PlayerId) -> Option<u32> {
        None
    }

    fn state_hash(&self) -> u64 {
        self.rng.state_hash()
    }
}

fn crowd(faults: Faults, seed: u64) -> Sim<Churn> {
    let settings = Settings { seed, ..Settings::new(Limits::new(1, ENTITIES)) };
    let server = Server::new(settings, TokenSource::Seeded(Rng::new(seed)), |_| Churn::new());
    Sim::new(server, settings.limits.streams, faults, seed)
}

#[test]
fn newcomers_to_a_crowd_are_told_of_everything_once() {
    for seed in 0..50 {
        let (delay_ms, loss_per_mille) = [(60, 0), (0, 0), (20, 0), (20, 50), (40, 150)][seed as usize % 5];
        let jitter_ms = if loss_per_mille > 0 { 20 } else { 0 };
        let faults = Faults { delay_ms, jitter_ms, loss_per_mille, repeat_per_mille: loss_per_mille };
        let mut sim = crowd(faults, seed);
        let mut told: Vec<Vec<Event>> = Vec::new();
        for player in 0..4 {
            sim.connect(&ClientSettings { entities_max: ENTITIES, ..settings("newcomer") }, address(player));
            told.push(Vec::new());
            sim.run(Duration::from_millis(1500), |index, client, _| {
                told[index].extend(std::iter::from_fn(|| client.poll_event()));
            });
        }
        sim.run(Duration::from_secs(4), |index, client, _| {
            told[index].extend(std::iter::from_fn(|| client.poll_event()));
        });
        let tick = sim.server.room_tick(0).expect("a match").0 - 150;
        let truth = sim.truth(0, tick).expect("two seconds ago");
        let there: BTreeSet<u32> =
            truth.entities.iter().map(|(index, entity)| index | u32::from(entity.generation) << 24).collect();
        assert!(there.len() > CROWD - 30);
        for (player, events) in told.iter().enumerate() {
            assert_eq!(sim.peers[player].client.phase(), Phase::Playing, "seed {seed}");
            let alive = alive_at(events, tick);
            let missing: Vec<_> = there.difference(&alive).collect();
            let phantoms: Vec<_> = alive.difference(&there).collect();
            assert_eq!((missing, phantoms), (vec![], vec![]), "seed {seed}, player {player}");
        }
        assert_eq!(sim.server.stats().sessions_too_slow, 0);
    }
}

/// What lives at `tick` by the events alone, which come in any order: an id is spawned once before each time that it is
/// destroyed, and never twice in between.
fn alive_at(events: &[Event], tick: u32) -> BTreeSet<u32> {
    let mut balance: BTreeMap<u32, i32> = BTreeMap::new();
    for event in events.iter().filter(|event| event.tick() <= tick) {
        match event {
            Event::Spawn { id, .. } => *balance.entry(id.0).or_default() += 1,
            Event::Destroy { id, .. } => *balance.entry(id.0).or_default() -= 1,
            _ => {}
        }
    }
    assert!(balance.values().all(|count| (0..=1).contains(count)), "spawned or destroyed twice");
    balance.into_iter().filter(|(_, count)| *count == 1).map(|(id, _)| id).collect()
}
