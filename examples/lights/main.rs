//! A second game behind the [`Game`] trait (see `game.rs`): ten seconds of it, without a network, played by two lights
//! that each go for the nearest coin, with the scoreboard once a second.
//!
//! ```text
//! cargo run --example lights
//! ```

mod game;

use tickwire::model::{Controls, PLAYERS_MAX, PlayerId, PlayerInput};
use tickwire::world::{Events, Game};

use game::Lights;

const TICKS: u32 = 600;
const TICKS_PER_SECOND: u32 = 60;

fn main() {
    let mut game = Lights::new();
    let mut events = Events::new();
    game.reset(1);
    let players: Vec<PlayerId> = PlayerId::all().take(2).collect();
    players.iter().for_each(|&player| game.join(player, &mut events));
    let mut told = events.as_slice().len();
    for tick in 1..=TICKS {
        events.clear();
        game.step(&script(&game), &mut events);
        told += events.as_slice().len();
        if tick % TICKS_PER_SECOND == 0 {
            let scores: Vec<String> = players
                .iter()
                .filter_map(|&player| game.players()[player.index()].map(|state| (player, state)))
                .map(|(player, state)| format!("light {}: {:>3}", player.get(), state.score))
                .collect();
            println!("{:>2} s  {}", tick / TICKS_PER_SECOND, scores.join("   "));
        }
    }
    println!("{} entities, {told} events, state {:#018x}", game.entities().len(), game.state_hash());
}

/// Each light goes for the nearest coin: sideways first, then up or down.
fn script(game: &Lights) -> [PlayerInput; PLAYERS_MAX] {
    let mut inputs = [PlayerInput::default(); PLAYERS_MAX];
    for player in PlayerId::all() {
        let Some(light) = game.focus(player).and_then(|index| game.entities().get(index)) else { continue };
        let coins = game.entities().iter().filter(|(_, entity)| entity.owner().is_none());
        let Some((_, coin)) =
            coins.min_by_key(|(_, coin)| (coin.x - light.x).abs() + (coin.y - light.y).abs())
        else {
            continue;
        };
        let bits = match (coin.x - light.x, coin.y - light.y) {
            (1.., _) => Controls::RIGHT,
            (..0, _) => Controls::LEFT,
            (0, 1..) => Controls::DOWN,
            (0, ..0) => Controls::UP,
            (0, 0) => 0,
        };
        inputs[player.index()].held = Controls::from_bits(bits).expect("one direction");
    }
    inputs
}
