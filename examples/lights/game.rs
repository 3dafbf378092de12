//! A second, tiny game behind the same trait: lights glide over a grid of cells and pick up coins.
//!
//! - The grid has 32 × 18 cells of 60 pixels. A light (a ship to the clients) crosses a cell in ten ticks and takes a
//!   new direction only when it stands on a cell. Firing does nothing.
//! - Up to 12 coins (tiles to the clients) lie about. A light that stands on one takes it: ten points. A new one
//!   appears elsewhere at most every 20 ticks.
//! - A round lasts a minute; then everyone's points go back to nothing, and the next one begins.

use tickwire::model::{
    DestroyReason, Entity, EntityId, EntityTable, GameEvent, Kind, PLAYERS_MAX, PlayerId, PlayerInput,
    PlayerState, Score, UNITS_PER_PIXEL,
};
use tickwire::rng::Rng;
use tickwire::world::{Events, Game};

const CELL: i32 = 60 * UNITS_PER_PIXEL;
const COLUMNS: i32 = 32;
const ROWS: i32 = 18;
const GLIDE_TICKS: i32 = 10;
const COINS: usize = 12;
const COIN_EVERY_TICKS: u32 = 20;
const COIN_POINTS: u32 = 10;
const ROUND_TICKS: u32 = 3600;

// A light stands on its cells exactly, and a step is a velocity that fits twelve bits.
const _: () = assert!(CELL % GLIDE_TICKS == 0 && CELL / GLIDE_TICKS < 2048);

/// One room of lights.
pub struct Lights {
    table: EntityTable,
    players: [Option<PlayerState>; PLAYERS_MAX],
    lights: [Option<Light>; PLAYERS_MAX],
    /// Entity indices; 0 where a coin is missing.
    coins: [u32; COINS],
    coin_in: u32,
    left: u32,
    rng: Rng,
}

/// A player's light.
#[derive(Clone, Copy)]
struct Light {
    /// Entity index.
    index: u32,
    /// Ticks until it stands on a cell; 0 when it does.
    glide: i32,
}

impl Lights {
    /// An empty room.
    pub fn new() -> Self {
        Self {
            table: EntityTable::new(PLAYERS_MAX + COINS),
            players: [None; PLAYERS_MAX],
            lights: [None; PLAYERS_MAX],
            coins: [0; COINS],
            coin_in: COIN_EVERY_TICKS,
            left: ROUND_TICKS,
            rng: Rng::new(0),
        }
    }

    fn appear(&mut self, entity: Entity, events: &mut Events) -> u32 {
        let id = self.table.insert(entity).expect("there is a place for every light and every coin");
        let Entity { kind, x, y, vx, vy, .. } = entity;
        events.push(GameEvent::Spawn { id, kind, owner: entity.owner(), x, y, vx, vy });
        id.index()
    }

    fn disappear(&mut self, index: u32, reason: DestroyReason, events: &mut Events) {
        let Some(Entity { x, y, generation, .. }) = self.table.remove(index) else { return };
        events.push(GameEvent::Destroy { id: EntityId::new(index, generation), reason, x, y });
    }

    /// Moves the light of `player`, and gives where it stands, when it stands on a cell.
    fn glide(&mut self, player: PlayerId, input: PlayerInput) -> Option<(i32, i32)> {
        let light = self.lights[player.index()].as_mut()?;
        let entity = self.table.get_mut(light.index)?;
        if light.glide == 0 {
            // One axis at a time, so that a light never cuts a corner.
            let (dx, dy) = match (input.held.horizontal(), input.held.vertical()) {
                (0, dy) => (0, dy),
                (dx, _) => (dx, 0),
            };
            let inside = |at: i32, step: i32, cells: i32| (0..cells).contains(&(at / CELL + step));
            let free = inside(entity.x, dx, COLUMNS) && inside(entity.y, dy, ROWS);
            let speed = if free { CELL / GLIDE_TICKS } else { 0 };
            entity.vx = (dx * speed) as i16;
            entity.vy = (dy * speed) as i16;
            light.glide = if (entity.vx, entity.vy) == (0, 0) { 0 } else { GLIDE_TICKS };
        }
        entity.x += i32::from(entity.vx);
        entity.y += i32::from(entity.vy);
        light.glide = (light.glide - 1).max(0);
        (light.glide == 0).then_some((entity.x, entity.y))
    }

    fn coin_at(&self, place: (i32, i32)) -> Option<usize> {
        self.coins.iter().position(|&coin| self.table.get(coin).is_some_and(|coin| (coin.x, coin.y) == place))
    }

    /// Puts a missing coin on a cell, unless one lies there already: then the next tick tries another.
    fn lay_coin(&mut self, events: &mut Events) {
        self.coin_in = self.coin_in.saturating_sub(1);
        let missing = self.coins.iter().position(|&coin| coin == 0);
        let (0, Some(number)) = (self.coin_in, missing) else { return };
        let x = self.rng.between(0, COLUMNS - 1) * CELL;
        let y = self.rng.between(0, ROWS - 1) * CELL;
        if self.coin_at((x, y)).is_none() {
            self.coins[number] = self.appear(Entity::new(Kind::TILE).moving(x, y, 0, 0), events);
            self.coin_in = COIN_EVERY_TICKS;
        }
    }

    fn end_round(&mut self, events: &mut Events) {
        let result =
            |player: PlayerId| self.players[player.index()].map(|state| Score { player, score: state.score });
        events.push(GameEvent::GameOver { scores: PlayerId::all().filter_map(result).collect() });
        self.players.iter_mut().flatten().for_each(|state| state.score = 0);
        self.left = ROUND_TICKS;
    }
}

impl Game for Lights {
    fn reset(&mut self, seed: u64) {
        self.table.reset();
        self.players = [None; PLAYERS_MAX];
        self.lights = [None; PLAYERS_MAX];
        self.coins = [0; COINS];
        self.coin_in = COIN_EVERY_TICKS;
        self.left = ROUND_TICKS;
        self.rng = Rng::new(seed);
    }

    fn join(&mut self, player: PlayerId, events: &mut Events) {
        let corner = [(0, 0), (COLUMNS - 1, 0), (0, ROWS - 1), (COLUMNS - 1, ROWS - 1)][player.index()];
        let light = Entity::new(Kind::SHIP).with_owner(Some(player)).with_variant(player.get()).moving(
            corner.0 * CELL,
            corner.1 * CELL,
            0,
            0,
        );
        let index = self.appear(light, events);
        self.lights[player.index()] = Some(Light { index, glide: 0 });
        self.players[player.index()] = Some(PlayerState { alive: true, lives: 1, score: 0 });
    }

    fn leave(&mut self, player: PlayerId, events: &mut Events) {
        self.players[player.index()] = None;
        if let Some(light) = self.lights[player.index()].take() {
            self.disappear(light.index, DestroyReason::OwnerLeft, events);
        }
    }

    fn step(&mut self, inputs: &[PlayerInput; PLAYERS_MAX], events: &mut Events) {
        for player in PlayerId::all() {
            let Some(place) = self.glide(player, inputs[player.index()]) else { continue };
            let Some(number) = self.coin_at(place) else { continue };
            self.disappear(self.coins[number], DestroyReason::Killed, events);
            self.coins[number] = 0;
            if let Some(state) = &mut self.players[player.index()] {
                state.score += COIN_POINTS;
            }
        }
        self.lay_coin(events);
        self.left -= 1;
        if self.left == 0 {
            self.end_round(events);
        }
    }

    fn players(&self) -> &[Option<PlayerState>; PLAYERS_MAX] {
        &self.players
    }

    fn entities(&self) -> &EntityTable {
        &self.table
    }

    fn focus(&self, player: PlayerId) -> Option<u32> {
        self.lights[player.index()].map(|light| light.index)
    }

    fn state_hash(&self) -> u64 {
        let mut hash = self.rng.state_hash();
        let mut add = |word: u64| hash = (hash.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for (index, entity) in self.table.iter() {
            add(u64::from(EntityId::new(index, entity.generation).0));
            add(u64::from(entity.x as u32) | u64::from(entity.y as u32) << 32);
            add(u64::from(entity.vx as u16) | u64::from(entity.vy as u16) << 16);
        }
        for (state, light) in self.players.iter().zip(&self.lights) {
            add(state.map_or(u64::MAX, |state| u64::from(state.score)));
            add(light.map_or(u64::MAX, |light| u64::from(light.index) | (light.glide as u64) << 32));
        }
        self.coins.iter().for_each(|&coin| add(u64::from(coin)));
        add(u64::from(self.coin_in) | u64::from(self.left) << 32);
        hash
    }
}
