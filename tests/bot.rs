//! The bot: it plays better than nobody, and the same in every run.

mod common;

use common::{address, bots, rtype_sim, settings};
use tickwire::client::aegis::Client;
use tickwire::sim::{Faults, Sim};
use tickwire::time::{Duration, Instant};
use tickwire::world::Game as _;
use tickwire::world::rtype::RtypeGame;

/// A room of four after `span`, played by `drive`.
fn played(span: Duration, drive: impl FnMut(usize, &mut Client, Instant)) -> Sim<RtypeGame> {
    let mut sim = rtype_sim(1, Faults::default(), 5);
    for player in 0..4 {
        sim.connect(&settings("bot"), address(player));
    }
    sim.run(span, drive);
    sim
}

/// Points of all players, and lives they have left.
fn standing(sim: &Sim<RtypeGame>) -> (u32, u32) {
    let players = sim.server.game(0).expect("a room").players();
    players
        .iter()
        .flatten()
        .fold((0, 0), |(points, lives), player| (points + player.score, lives + u32::from(player.lives)))
}

#[test]
fn bots_shoot_more_and_live_longer_than_players_who_do_nothing() {
    let span = Duration::from_secs(25);
    let (points, lives) = standing(&played(span, bots()));
    let (idle_points, idle_lives) = standing(&played(span, |_, _, _| ()));
    println!("bots: {points} points, {lives} lives; nobody: {idle_points} points, {idle_lives} lives");
    // Ramming an enemy gives points, too, but costs a life.
    assert!(points >= 2 * idle_points && points > 1000, "{points} points, {idle_points} without bots");
    assert!(lives > idle_lives, "{lives} lives, {idle_lives} without bots");
}

#[test]
fn the_same_seeds_play_the_same_game() {
    let span = Duration::from_secs(10);
    let hash = |sim: Sim<RtypeGame>| sim.server.game(0).expect("a room").state_hash();
    assert_eq!(hash(played(span, bots())), hash(played(span, bots())));
    assert_ne!(hash(played(span, bots())), hash(played(span, |_, _, _| ())));
}
