//! The R-Type world from outside: what its events tell against what its table holds, and that it replays exactly.

use std::collections::BTreeMap;
use std::sync::Arc;

use tickwire::model::{
    Controls, Entity, EntityId, GameEvent, Kind, PLAYERS_MAX, POSITION_MAX, POSITION_MIN, PlayerId,
    PlayerInput, VELOCITY_MAX, VELOCITY_MIN,
};
use tickwire::rng::Rng;
use tickwire::world::rtype::{ENTITIES_RESERVED, Level, Phase, RtypeGame, Rules};
use tickwire::world::{EVENTS_PER_STEP_MAX, Events, Game};

/// Players who come, go, steer and fire at random.
struct Crowd {
    rng: Rng,
    here: [bool; PLAYERS_MAX],
    held: [Controls; PLAYERS_MAX],
    /// One join or leave in this many ticks.
    restless: u32,
}

enum Move {
    Join(PlayerId),
    Leave(PlayerId),
}

impl Crowd {
    fn new(seed: u64, restless: u32) -> Self {
        Self { rng: Rng::new(seed), here: [false; 4], held: [Controls::RELEASED; 4], restless }
    }

    fn next_move(&mut self) -> Option<Move> {
        if !self.rng.chance(1, self.restless) && self.here.contains(&true) {
            return None;
        }
        let player = PlayerId::new(self.rng.below(4) as u8).unwrap();
        let here = &mut self.here[player.index()];
        *here = !*here;
        Some(if *here { Move::Join(player) } else { Move::Leave(player) })
    }

    fn inputs(&mut self) -> [PlayerInput; PLAYERS_MAX] {
        let mut inputs = [PlayerInput::default(); PLAYERS_MAX];
        for ((input, held), here) in inputs.iter_mut().zip(&mut self.held).zip(self.here) {
            if !here {
                continue;
            }
            if self.rng.chance(1, 15) {
                *held = Controls::from_bits(self.rng.below(32) as u8).unwrap();
            }
            *input = PlayerInput { held: *held, fire: self.rng.chance(1, 10) };
        }
        inputs
    }
}

/// Who lives, by what the events said alone.
#[derive(Default)]
struct Witness {
    living: BTreeMap<EntityId, Kind>,
    spawned: usize,
    destroyed: [usize; 6],
    deaths: usize,
    games_over: usize,
    events_max: usize,
}

impl Witness {
    /// Takes in the events of one call, then demands that they told the whole truth about `game`.
    fn hear(&mut self, events: &mut Events, game: &RtypeGame) {
        self.events_max = self.events_max.max(events.as_slice().len());
        for event in events.as_slice() {
            match *event {
                GameEvent::Spawn { id, kind, .. } => {
                    assert!(self.living.insert(id, kind).is_none(), "{id:?} appeared twice");
                    self.spawned += 1;
                }
                GameEvent::Destroy { id, reason, .. } => {
                    assert!(self.living.remove(&id).is_some(), "{id:?} disappeared without having lived");
                    self.destroyed[reason as usize] += 1;
                }
                GameEvent::Death { .. } => self.deaths += 1,
                GameEvent::GameOver { .. } => self.games_over += 1,
                GameEvent::PlayerJoined { .. } | GameEvent::PlayerLeft { .. } => {
                    panic!("the room's caller tells of players")
                }
            }
        }
        events.clear();
        let table = game.entities();
        assert_eq!(table.len(), self.living.len());
        for (index, entity) in table.iter() {
            let id = EntityId::new(index, entity.generation);
            assert_eq!(self.living.get(&id), Some(&entity.kind), "{id:?}");
            assert!((POSITION_MIN..=POSITION_MAX).contains(&entity.x), "{entity:?}");
            assert!((POSITION_MIN..=POSITION_MAX).contains(&entity.y), "{entity:?}");
            assert!((VELOCITY_MIN..=VELOCITY_MAX).contains(&entity.vx), "{entity:?}");
            assert!((VELOCITY_MIN..=VELOCITY_MAX).contains(&entity.vy), "{entity:?}");
        }
    }
}

fn check_standing(game: &RtypeGame, crowd: &Crowd) {
    for player in PlayerId::all() {
        let state = game.players()[player.index()];
        assert_eq!(state.is_some(), crowd.here[player.index()]);
        let ship = game.focus(player).and_then(|index| game.entities().get(index));
        assert_eq!(ship.is_some(), state.is_some_and(|state| state.alive));
        assert!(ship.is_none_or(|ship| ship.kind == Kind::SHIP && ship.owner() == Some(player)));
        let missiles = |e: &Entity| e.kind == Kind::MISSILE && e.owner() == Some(player);
        assert!(game.entities().iter().filter(|(_, e)| missiles(e)).count() <= 8);
    }
}

/// Plays `ticks` with random players and gives what was heard of it and the last hash.
fn play(mut game: RtypeGame, seed: u64, ticks: u32, restless: u32) -> (Witness, RtypeGame) {
    game.reset(seed);
    let (mut crowd, mut witness, mut events) =
        (Crowd::new(seed, restless), Witness::default(), Events::new());
    for _ in 0..ticks {
        match crowd.next_move() {
            Some(Move::Join(player)) => game.join(player, &mut events),
            Some(Move::Leave(player)) => game.leave(player, &mut events),
            None => {}
        }
        assert!(events.as_slice().len() <= 9, "a join or leave gives a handful");
        witness.hear(&mut events, &game);
        game.step(&crowd.inputs(), &mut events);
        witness.hear(&mut events, &game);
        check_standing(&game, &crowd);
    }
    (witness, game)
}

fn level1(rules: Rules, entities_max: usize) -> RtypeGame {
    RtypeGame::new(Arc::new(Level::builtin("level1").unwrap()), rules, entities_max)
}

fn stress(entities: u32, entities_max: usize) -> RtypeGame {
    let level = Level::builtin("stress").unwrap().with_entities(entities).unwrap();
    let rules = Rules { round_start_players: 1, ..Rules::default() };
    RtypeGame::new(Arc::new(level), rules, entities_max)
}

/// Over whole rounds, with players coming and going, Spawn and Destroy events tell exactly who lives.
#[test]
fn events_tell_everything_in_level1() {
    let (mut destroyed, mut deaths, mut games_over) = ([0; 6], 0, 0);
    for seed in 0..6 {
        let (witness, game) = play(level1(Rules::default(), 200), seed, 12_000, 400 + 200 * seed as u32);
        assert_eq!(game.spawns_skipped(), 0);
        destroyed.iter_mut().zip(witness.destroyed).for_each(|(sum, n)| *sum += n);
        deaths += witness.deaths;
        games_over += witness.games_over;
    }
    assert!(
        [1, 2, 4, 5].iter().all(|&reason| destroyed[reason] > 20),
        "every reason occurred: {destroyed:?}"
    );
    assert!(deaths > 20 && games_over >= 6, "{deaths} deaths, {games_over} games over");
}

/// With lives enough for the whole level, so that rounds end by its end.
#[test]
fn events_tell_everything_to_the_end_of_level1() {
    let rules = Rules { lives: 15, respawn_ticks: 600, ..Rules::default() };
    let (witness, game) = play(level1(rules, 200), 77, 22_000, 100_000);
    assert!(witness.games_over >= 1 && witness.destroyed[4] > 0, "{:?}", witness.destroyed);
    assert_eq!(game.spawns_skipped(), 0);
}

#[test]
fn events_tell_everything_in_a_crowd_of_2000() {
    let (witness, game) = play(stress(2000, 2000 + ENTITIES_RESERVED), 5, 3000, 300);
    assert!(witness.destroyed[1] > 1000, "missiles hit: {:?}", witness.destroyed);
    assert_eq!((witness.deaths, witness.games_over, game.spawns_skipped()), (0, 0, 0));
    assert!(game.entities().len() > 1990, "the crowd keeps its size: {}", game.entities().len());
}

/// A table that is far too small skips what does not fit, and counts it; ships and missiles still fit.
#[test]
fn a_full_table_skips_and_counts() {
    let (witness, game) = play(level1(Rules::default(), ENTITIES_RESERVED + 4), 3, 8000, 1000);
    assert!(game.spawns_skipped() > 50);
    assert!(witness.spawned > 100);
}

/// More ends in one tick than a step may tell: the rest waits, and no step gives more than its share.
#[test]
fn mass_ends_are_paced() {
    // Walls of enemies that all reach the left edge at the same time: slow first, fast last.
    let mut text = String::from("name = \"rush\"\n[script]\nlength_ticks = 2300\nscroll_speed = 64\n");
    for (row, speed) in (0..40).map(|row| (row, 64 + 4 * row)) {
        let flight_ticks = (122_880 + 4096) / speed;
        text += &format!(
            "[[waves]]\nat_tick = {}\nflight = \"straight\"\ncount = 8\ny = {}\ny_step = 100\n\
             speed = {speed}\nhealth = 200\nscore = 1\n",
            2000 - flight_ticks,
            row * 5,
        );
    }
    let rules = Rules { round_start_players: 1, round_start_wait_ticks: 0, ..Rules::default() };
    let mut game = RtypeGame::new(Arc::new(Level::parse(&text).unwrap()), rules, 500);
    let (mut events, mut witness) = (Events::new(), Witness::default());
    game.join(PlayerId::new(0).unwrap(), &mut events);
    let mut most = 0;
    for _ in 0..2300 {
        game.step(&[PlayerInput::default(); 4], &mut events);
        most = most.max(events.as_slice().len());
        witness.hear(&mut events, &game);
    }
    assert_eq!(witness.destroyed[2], 320, "everyone left in the end");
    assert!((50..=EVENTS_PER_STEP_MAX).contains(&most), "{most} events in one step");
}

/// What flies straight is where prediction says; what turns does so after its move. Ships alone are steered.
#[test]
fn prediction_holds_for_all_but_ships() {
    for game in [level1(Rules::default(), 200), stress(300, 400)] {
        let (_, mut game) = play(game, 9, 2500, 100_000);
        let (mut events, mut turns, mut moves) = (Events::new(), 0, 0);
        for _ in 0..600 {
            let before: BTreeMap<_, _> =
                game.entities().iter().map(|(i, &e)| (EntityId::new(i, e.generation), e)).collect();
            game.step(&[PlayerInput::default(); 4], &mut events);
            events.clear();
            for (index, now) in game.entities().iter() {
                let id = EntityId::new(index, now.generation);
                let Some(then) = before.get(&id).filter(|e| e.kind != Kind::SHIP) else { continue };
                assert_eq!((now.x, now.y), (then.predicted(1).x, then.predicted(1).y), "{then:?}");
                moves += 1;
                turns += u32::from((now.vx, now.vy) != (then.vx, then.vy));
                assert!(now.kind == Kind::BYDOS || (now.vx, now.vy) == (then.vx, then.vy));
            }
        }
        assert!(moves > 1000 && turns > 0 && turns * 10 < moves, "{turns} turns in {moves} moves");
    }
}

/// The same seed and the same calls give the same state at every tick; another seed another one.
#[test]
fn replays_exactly() {
    let hashes = |seed: u64, chance: u64| -> Vec<u64> {
        let mut game = level1(Rules { round_start_wait_ticks: 60, ..Rules::default() }, 200);
        let (mut crowd, mut events) = (Crowd::new(seed, 300), Events::new());
        // A room that was used before is as good as new.
        game.join(PlayerId::new(2).unwrap(), &mut events);
        game.step(&[PlayerInput::default(); 4], &mut events);
        game.reset(chance);
        (0..3000)
            .map(|_| {
                match crowd.next_move() {
                    Some(Move::Join(player)) => game.join(player, &mut events),
                    Some(Move::Leave(player)) => game.leave(player, &mut events),
                    None => {}
                }
                game.step(&crowd.inputs(), &mut events);
                events.clear();
                game.state_hash()
            })
            .collect()
    };
    let first = hashes(21, 1);
    assert!(first == hashes(21, 1), "same calls, same states");
    assert!(first.windows(2).all(|pair| pair[0] != pair[1]), "every tick changes the state");
    assert_ne!(first[0], hashes(21, 2)[0], "the hash covers the chance still to come");
    assert_ne!(first.last(), hashes(22, 1).last());
}

/// A fixed script ends in a fixed state, on every machine.
#[test]
fn golden_hashes() {
    let rules = Rules::default();
    let (_, game) = play(level1(rules, 200), 2024, 3000, 500);
    assert_eq!(game.state_hash(), GOLDEN_LEVEL1, "{:#018x}", game.state_hash());
    let (_, game) = play(stress(500, 600), 2024, 1000, 500);
    assert_eq!(game.state_hash(), GOLDEN_STRESS, "{:#018x}", game.state_hash());
}

const GOLDEN_LEVEL1: u64 = 0xc2a6_3c80_a845_3a2f;
const GOLDEN_STRESS: u64 = 0x07e1_48fc_800e_588d;

/// Level 1 with four players who shoot a lot: 20 to 60 entities for most of its time, and it can be survived.
#[test]
fn level1_is_well_filled() {
    let mut game = level1(Rules { lives: 15, ..Rules::default() }, 200);
    let (mut crowd, mut events) = (Crowd::new(4, u32::MAX), Events::new());
    for player in PlayerId::all() {
        game.join(player, &mut events);
        crowd.here[player.index()] = true;
    }
    let (mut ticks, mut well_filled, mut most) = (0, 0, 0);
    loop {
        events.clear();
        game.step(&crowd.inputs(), &mut events);
        let Phase::Play { .. } = game.phase() else { break };
        let len = game.entities().len();
        ticks += 1;
        well_filled += u32::from((20..=60).contains(&len));
        most = most.max(len);
    }
    let share = well_filled * 100 / ticks;
    assert!((7000..10_000).contains(&ticks), "{ticks} ticks");
    assert!(share > 70 && most < 100, "20 to 60 entities in {share} % of the ticks, {most} at most");
}
