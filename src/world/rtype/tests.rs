//! The rules, one by one, in rooms with levels made for them.

use super::rules::{FIELD_WIDTH, MISSILE_SPEED, SHIP};
use super::*;
use crate::model::{Controls, DestroyReason, Entity, EntityId, GameEvent, Kind, Score};

const P0: PlayerId = PlayerId::new(0).unwrap();
const P1: PlayerId = PlayerId::new(1).unwrap();
const P2: PlayerId = PlayerId::new(2).unwrap();
const P3: PlayerId = PlayerId::new(3).unwrap();

const HEAD: &str = "name = \"test\"\n[script]\nlength_ticks = 5000\nscroll_speed = 64\n";

/// An enemy at the height of the first ship's missiles, with two lives, from the right edge at once.
const ENEMY: &str = "[[waves]]\nat_tick = 0\nflight = \"straight\"\ncount = 1\ny = 140\nspeed = 192\n\
                     health = 2\nscore = 70\n";

/// A wall of ground in the way of the first ship.
const WALL: &str = "[[tiles]]\nvariant = \"high_ground\"\nplace = \"ceiling\"\nx = 0\n";

struct Room {
    game: RtypeGame,
    inputs: [PlayerInput; PLAYERS_MAX],
    events: Events,
}

impl Room {
    fn new(level: &str, rules: Rules) -> Self {
        let level = Arc::new(Level::parse(level).unwrap());
        Self { game: RtypeGame::new(level, rules, 120), inputs: Default::default(), events: Events::new() }
    }

    /// With `players` in, and the round about to start.
    fn playing(level: &str, players: &[PlayerId]) -> Self {
        let rules = Rules { round_start_wait_ticks: 0, invulnerable_ticks: 0, ..Rules::default() };
        let mut room = Self::new(level, rules);
        players.iter().for_each(|&player| drop(room.join(player)));
        room
    }

    fn join(&mut self, player: PlayerId) -> Vec<GameEvent> {
        self.events.clear();
        self.game.join(player, &mut self.events);
        self.events.as_slice().to_vec()
    }

    fn leave(&mut self, player: PlayerId) -> Vec<GameEvent> {
        self.events.clear();
        self.game.leave(player, &mut self.events);
        self.events.as_slice().to_vec()
    }

    fn step(&mut self) -> Vec<GameEvent> {
        self.events.clear();
        self.game.step(&self.inputs, &mut self.events);
        self.inputs.iter_mut().for_each(|input| input.fire = false);
        self.events.as_slice().to_vec()
    }

    fn fire(&mut self, player: PlayerId) -> Vec<GameEvent> {
        self.inputs[player.index()].fire = true;
        self.step()
    }

    fn hold(&mut self, player: PlayerId, bits: u8) {
        self.inputs[player.index()].held = Controls::from_bits(bits).unwrap();
    }

    /// Steps until something `wanted` happens, and gives the number of steps and all of the last step's events.
    fn until(&mut self, wanted: impl Fn(&GameEvent) -> bool) -> (u32, Vec<GameEvent>) {
        for steps in 1..6000 {
            let events = self.step();
            if events.iter().any(&wanted) {
                return (steps, events);
            }
        }
        panic!("it never happened");
    }

    fn ship(&self, player: PlayerId) -> Entity {
        *self.game.entities().get(self.game.focus(player).unwrap()).unwrap()
    }

    fn state(&self, player: PlayerId) -> PlayerState {
        self.game.players()[player.index()].unwrap()
    }

    fn count(&self, kind: Kind) -> usize {
        self.game.entities().iter().filter(|(_, entity)| entity.kind == kind).count()
    }
}

fn is_destroy(event: &GameEvent, wanted: DestroyReason) -> bool {
    matches!(event, GameEvent::Destroy { reason, .. } if *reason == wanted)
}

fn is_game_over(event: &GameEvent) -> bool {
    matches!(event, GameEvent::GameOver { .. })
}

/// R-Type 10: a round starts with 2 players connected.
#[test]
fn rtype_10_two_players_start_a_round() {
    let mut room = Room::new(HEAD, Rules::default());
    room.join(P3);
    room.step();
    assert_eq!(room.game.phase(), Phase::Lobby { waited: 1 });
    room.join(P1);
    room.step();
    assert_eq!(room.game.phase(), Phase::Play { tick: 0 });
}

/// R-Type 10: or 30 seconds after the first player joined.
#[test]
fn rtype_10_a_lone_player_waits_thirty_seconds() {
    let mut room = Room::new(HEAD, Rules::default());
    for _ in 0..100 {
        room.step();
    }
    assert_eq!(room.game.phase(), Phase::Lobby { waited: 0 }, "nobody, no waiting");
    room.join(P0);
    for _ in 0..1800 {
        room.step();
    }
    assert_eq!(room.game.phase(), Phase::Lobby { waited: 1800 });
    room.step();
    assert_eq!(room.game.phase(), Phase::Play { tick: 0 });
}

/// R-Type 10: the ship of slot n appears at x = 150, y = 150 + 100 n; its look is its slot.
#[test]
fn rtype_10_ships_appear_at_their_places() {
    let mut room = Room::new(HEAD, Rules::default());
    for player in PlayerId::all() {
        let events = room.join(player);
        let ship = room.ship(player);
        let id = EntityId::new(room.game.focus(player).unwrap(), 0);
        let (x, y) = (9600, 9600 + 6400 * i32::from(player.get()));
        assert_eq!((ship.x, ship.y, ship.variant(), ship.health), (x, y, player.get(), 1));
        let owner = Some(player);
        assert_eq!(events, [GameEvent::Spawn { id, kind: Kind::SHIP, owner, x, y, vx: 0, vy: 0 }]);
        assert_eq!(room.state(player), PlayerState { alive: true, lives: 3, score: 0 });
    }
}

/// R-Type 7.1: a missile leaves the ship, at 16 pixels per tick to the right; here already in the lobby.
#[test]
fn rtype_7_1_fire_gives_one_missile() {
    let mut room = Room::new(HEAD, Rules::default());
    room.join(P2);
    room.hold(P2, Controls::DOWN);
    let events = room.fire(P2);
    let ship = room.ship(P2);
    let (x, y) = (ship.x + 64 * 64, ship.y + 12 * 64);
    let (id, owner) = (EntityId::new(2, 0), Some(P2));
    assert_eq!(events, [GameEvent::Spawn { id, kind: Kind::MISSILE, owner, x, y, vx: MISSILE_SPEED, vy: 0 }]);
    assert!(room.step().is_empty(), "one release, one missile");
    assert_eq!(room.game.entities().get(2).map(|missile| missile.x), Some(x + 1024));
    let (steps, events) = room.until(|event| is_destroy(event, DestroyReason::OutOfBounds));
    assert_eq!(steps as i32 + 1, (FIELD_WIDTH - x + 1023) / 1024);
    assert_eq!(events.len(), 1);
}

#[test]
fn a_player_has_eight_missiles_in_the_air() {
    let mut room = Room::new(HEAD, Rules::default());
    room.join(P0);
    let shots = (0..20).filter(|_| !room.fire(P0).is_empty()).count();
    assert_eq!((shots, room.count(Kind::MISSILE)), (8, 8));
    room.until(|event| is_destroy(event, DestroyReason::OutOfBounds));
    assert_eq!(room.fire(P0).len(), 2, "one leaves, so one more may be fired");
}

#[test]
fn missiles_wear_enemies_down_and_score() {
    let mut room = Room::playing(&format!("{HEAD}{ENEMY}"), &[P0]);
    let health =
        |room: &Room| room.game.entities().iter().find(|(_, e)| e.kind == Kind::BYDOS).map(|(_, e)| e.health);
    room.fire(P0);
    assert_eq!((health(&room), room.count(Kind::MISSILE)), (Some(2), 1));
    let (_, events) = room.until(|event| is_destroy(event, DestroyReason::Killed));
    assert_eq!((events.len(), health(&room), room.state(P0).score), (1, Some(1), 0), "{events:?}");
    room.fire(P0);
    let (_, events) = room.until(|event| is_destroy(event, DestroyReason::Killed));
    assert_eq!(events.iter().filter(|event| is_destroy(event, DestroyReason::Killed)).count(), 2);
    assert_eq!((health(&room), room.count(Kind::MISSILE)), (None, 0));
    assert_eq!(room.state(P0), PlayerState { alive: true, lives: 3, score: 70 });
    assert!(is_game_over(&events[2]), "that was the last enemy");
}

#[test]
fn tiles_stop_missiles_and_stay() {
    let mut room = Room::playing(&format!("{HEAD}{WALL}"), &[P0]);
    room.step();
    room.fire(P0);
    let (_, events) = room.until(|event| is_destroy(event, DestroyReason::Killed));
    let tile = room.game.entities().iter().find(|(_, e)| e.kind == Kind::TILE).map(|(_, &e)| e).unwrap();
    assert_eq!((events.len(), tile.health, room.state(P0).score), (1, 255, 0));
    assert_eq!((tile.variant(), tile.y, tile.vx), (2, 0, -64));
}

#[test]
fn a_crash_costs_a_life_and_a_ship_comes_back() {
    let level = format!("{HEAD}{WALL}count = 4\nevery = 128\n");
    let rules = Rules { round_start_wait_ticks: 0, ..Rules::default() };
    let mut room = Room::new(&level, rules);
    room.join(P0);
    // At one pixel a tick, the wall meets the ship's nose at 150 + 64 pixels.
    let (steps, events) = room.until(|event| matches!(event, GameEvent::Death { .. }));
    assert_eq!(
        steps,
        1920 - 214 + 2,
        "the first tick of play shows the wall at the edge, touching is not yet a crash"
    );
    let (x, y) = spawn_of(P0);
    let id = EntityId::new(1, 0);
    assert_eq!(events[0], GameEvent::Destroy { id, reason: DestroyReason::Killed, x, y });
    assert_eq!(events[1..], [GameEvent::Death { player: P0, lives: 2, x, y }]);
    assert_eq!((room.game.focus(P0), room.state(P0).alive), (None, false));
    let (steps, events) = room.until(|event| matches!(event, GameEvent::Spawn { kind: Kind::SHIP, .. }));
    assert_eq!((steps, events.len()), (120, 1));
    assert_eq!((room.ship(P0).x, room.ship(P0).y, room.state(P0).alive), (x, y, true));
    // The wall still covers the place: the new ship is lost as soon as it can be.
    let (steps, _) = room.until(|event| matches!(event, GameEvent::Death { lives: 1, .. }));
    assert_eq!(steps, 121, "two seconds in which it cannot be hurt");
}

fn spawn_of(player: PlayerId) -> (i32, i32) {
    rules::spawn_place(player)
}

#[test]
fn a_ram_hurts_both() {
    let mut room = Room::playing(&format!("{HEAD}{}", ENEMY.replace("health = 2", "health = 1")), &[P0, P1]);
    let (_, events) = room.until(|event| matches!(event, GameEvent::Death { .. }));
    assert_eq!(events.iter().filter(|event| is_destroy(event, DestroyReason::Killed)).count(), 2);
    assert_eq!((room.count(Kind::BYDOS), room.state(P0).score, room.state(P0).lives), (0, 70, 2));
    assert!(events.iter().any(is_game_over), "that was the last enemy");
}

#[test]
fn the_end_of_all_lives_ends_the_round_and_leads_to_the_lobby() {
    let wall = WALL.replace("x = 0", "x = 0\ncount = 60\nevery = 64");
    let rules = Rules { round_start_wait_ticks: 0, invulnerable_ticks: 0, lives: 1, ..Rules::default() };
    let mut room = Room::new(&format!("{HEAD}{wall}"), rules);
    room.join(P2);
    room.join(P0);
    room.hold(P2, Controls::UP);
    let (_, events) = room.until(is_game_over);
    let scores = [P0, P2].into_iter().map(|player| Score { player, score: 0 }).collect();
    assert_eq!(events.last(), Some(&GameEvent::GameOver { scores }));
    assert_eq!(room.game.phase(), Phase::Over { left: 300 });
    let (steps, events) = room.until(|event| is_destroy(event, DestroyReason::Reset));
    let tiles = room.count(Kind::TILE);
    assert_eq!((steps, events.len(), room.game.phase()), (301, 16, Phase::Clearing));
    assert!((1..=16).contains(&tiles), "{tiles} more go in the next tick");
    let events = room.step();
    assert_eq!(events.iter().filter(|event| is_destroy(event, DestroyReason::Reset)).count(), tiles);
    assert_eq!(events.iter().filter(|event| matches!(event, GameEvent::Spawn { .. })).count(), 2);
    assert_eq!((room.game.phase(), room.game.entities().len()), (Phase::Lobby { waited: 0 }, 2));
    for player in [P0, P2] {
        assert_eq!(room.state(player), PlayerState { alive: true, lives: 1, score: 0 });
    }
    room.step();
    assert_eq!(room.game.phase(), Phase::Play { tick: 0 });
}

#[test]
fn the_end_of_the_level_ends_the_round() {
    let mut room = Room::playing(&format!("{HEAD}{ENEMY}").replace("y = 140", "y = 900"), &[P0]);
    let (_, events) = room.until(is_game_over);
    assert!(is_destroy(&events[0], DestroyReason::OutOfBounds), "the last enemy has left: {events:?}");
    let mut room = Room::playing(HEAD, &[P0]);
    let (steps, _) = room.until(is_game_over);
    assert_eq!(steps, 5001, "without enemies it is the length that ends it");
}

/// After the end nobody is hurt, nothing counts, and nothing new comes; ships still fly and fire.
#[test]
fn after_the_end_nothing_counts() {
    let late = ENEMY.replace("at_tick = 0", "at_tick = 4600");
    let mut room = Room::playing(&format!("{HEAD}{late}"), &[P0]);
    room.until(is_game_over);
    room.fire(P0);
    let mut killed = 0;
    while let Phase::Over { .. } = room.game.phase() {
        killed += room.step().iter().filter(|event| is_destroy(event, DestroyReason::Killed)).count();
    }
    assert_eq!((killed, room.state(P0).score, room.state(P0).lives), (1, 0, 3));
}

/// Aegis 4.4: who leaves takes the ship along, and here the missiles too.
#[test]
fn who_leaves_takes_ship_and_missiles_along() {
    let mut room = Room::playing(HEAD, &[P0, P1]);
    (0..8).for_each(|_| drop(room.fire(P1)));
    room.fire(P0);
    let events = room.leave(P1);
    assert_eq!(events.len(), 9);
    assert!(events.iter().all(|event| is_destroy(event, DestroyReason::OwnerLeft)));
    assert_eq!((room.game.players()[1], room.game.focus(P1)), (None, None));
    assert_eq!(room.game.entities().len(), 2, "the other's ship and missile stay");
    room.join(P1);
    assert_eq!(room.fire(P1).len(), 1);
}

#[test]
fn who_comes_late_plays() {
    let mut room = Room::playing(HEAD, &[P0]);
    (0..500).for_each(|_| drop(room.step()));
    room.join(P3);
    room.step();
    assert_eq!(room.game.phase(), Phase::Play { tick: 500 });
    assert_eq!(room.state(P3), PlayerState { alive: true, lives: 3, score: 0 });
}

/// R-Type 10: return to lobby when every player has left.
#[test]
fn rtype_10_an_empty_room_returns_to_the_lobby() {
    let mut room = Room::playing(&format!("{HEAD}{WALL}"), &[P0]);
    (0..10).for_each(|_| drop(room.step()));
    room.leave(P0);
    let (steps, events) = room.until(|event| is_destroy(event, DestroyReason::Reset));
    assert_eq!((steps, events.len(), room.game.phase()), (1, 1, Phase::Lobby { waited: 0 }));
    assert!(room.game.entities().is_empty());
}

#[test]
fn a_reset_room_is_as_new() {
    let mut room = Room::playing(&format!("{HEAD}{WALL}{ENEMY}"), &[P0, P1]);
    (0..700).for_each(|_| drop(room.fire(P0)));
    room.game.reset(9);
    let mut fresh = Room::new(&format!("{HEAD}{WALL}{ENEMY}"), room.game.rules);
    fresh.game.reset(9);
    assert_eq!(room.game.state_hash(), fresh.game.state_hash());
    assert_eq!(room.join(P1), fresh.join(P1));
    assert_eq!(room.game.entities().id(1), Some(EntityId(1)), "indices from 1, in generation 0");
}

#[test]
fn neighbouring_tiles_stay_flush_when_one_comes_late() {
    // Twelve come in one tick, and eight may: the others follow one tick later, at their exact places.
    let row = "[[tiles]]\nvariant = \"low_ground\"\nplace = \"floor\"\nx = 10\n".repeat(12);
    let mut room = Room::playing(&format!("{HEAD}{row}"), &[P0]);
    while room.count(Kind::TILE) == 0 {
        room.step();
    }
    assert_eq!(room.count(Kind::TILE), 8);
    room.step();
    let places: Vec<_> =
        room.game.entities().iter().filter(|(_, e)| e.kind == Kind::TILE).map(|(_, e)| e.x).collect();
    assert_eq!(places, [FIELD_WIDTH - 64; 12]);
}

#[test]
fn tiles_that_come_too_late_are_left_out() {
    let head = HEAD.replace("scroll_speed = 64", "scroll_speed = 512");
    let heap = "[[tiles]]\nvariant = \"low_ground\"\nplace = \"floor\"\nx = 0\n".repeat(4096);
    let level = Arc::new(Level::parse(&format!("{head}{heap}")).unwrap());
    let rules = Rules { round_start_wait_ticks: 0, ..Rules::default() };
    let game = RtypeGame::new(level, rules, 5000);
    let mut room = Room { game, inputs: Default::default(), events: Events::new() };
    room.join(P0);
    let mut spawned = 0;
    for _ in 0..1200 {
        spawned +=
            room.step().iter().filter(|e| matches!(e, GameEvent::Spawn { kind: Kind::TILE, .. })).count();
        assert!(room.game.entities().iter().all(|(_, e)| e.x > -8192 - 512));
    }
    // The stage needs 256 ticks to carry one away, and eight come in a tick, the first in tick 0.
    assert_eq!((spawned as u64, room.game.spawns_skipped()), (256 * 8, 4096 - 256 * 8));
}

#[test]
fn stress_hurts_no_ship_and_never_ends() {
    let level = Arc::new(Level::builtin("stress").unwrap().with_entities(80).unwrap());
    let game = RtypeGame::new(level, Rules { invulnerable_ticks: 0, ..Rules::default() }, 120);
    let mut room = Room { game, inputs: Default::default(), events: Events::new() };
    room.join(P0);
    room.join(P1);
    assert_eq!(room.step().len(), 8, "the crowd gathers by eight a tick");
    for _ in 0..6000 {
        let events = room.fire(P0);
        assert!(!events.iter().any(|event| is_game_over(event) || matches!(event, GameEvent::Death { .. })));
    }
    assert!(room.state(P0).score > 0 && room.state(P0).lives == 3);
    assert!(room.count(Kind::BYDOS) >= 79, "who is shot is replaced");
    assert_eq!(room.ship(P0).x + SHIP.width, spawn_of(P0).0 + 64 * 64);
}

#[test]
#[should_panic(expected = "needs room for at least 292 entities")]
fn a_table_too_small_for_the_crowd_is_refused() {
    RtypeGame::new(Arc::new(Level::builtin("stress").unwrap()), Rules::default(), 291);
}

#[test]
#[should_panic(expected = "joined twice")]
fn joining_twice_is_a_mistake() {
    let mut room = Room::playing(HEAD, &[P0]);
    room.join(P0);
}
