//! What several tests share.
#![allow(dead_code, reason = "each test uses its part")]

use std::net::SocketAddr;
use std::sync::Arc;

use tickwire::client::aegis::{Client, Settings as ClientSettings};
use tickwire::limits::Limits;
use tickwire::model::{Controls, Name};
use tickwire::rng::{Rng, TokenSource};
use tickwire::server::{Server, Settings};
use tickwire::sim::{Faults, Sim};
use tickwire::time::Instant;
use tickwire::world::rtype::{Level, RtypeGame, Rules};

pub const ENTITIES: usize = 128;

/// A server of the first level for simulation.
pub fn rtype_server(rooms: usize, seed: u64) -> Server<RtypeGame> {
    server_with(rooms, ENTITIES, 3, Level::builtin("level1").expect("the first level"), seed)
}

pub fn server_with(
    rooms: usize,
    entities: usize,
    interval: u8,
    level: Level,
    seed: u64,
) -> Server<RtypeGame> {
    let settings = Settings {
        limits: Limits::new(rooms, entities),
        snapshot_interval: interval,
        aegis_udp_port: 4243,
        sessions_per_address: 16,
        seed,
    };
    let level = Arc::new(level);
    let tokens = TokenSource::Seeded(Rng::new(seed));
    Server::new(settings, tokens, |_| RtypeGame::new(Arc::clone(&level), Rules::default(), entities))
}

pub fn rtype_sim(rooms: usize, faults: Faults, seed: u64) -> Sim<RtypeGame> {
    Sim::new(rtype_server(rooms, seed), Limits::new(rooms, ENTITIES).streams, faults, seed)
}

pub fn settings(name: &str) -> ClientSettings {
    let name = Name::new(name.as_bytes()).expect("a name");
    ClientSettings { name, entities_max: ENTITIES, snapshots_kept: 23 }
}

/// A client's address, one per player.
pub fn address(player: usize) -> SocketAddr {
    SocketAddr::from(([10, 1, (player / 250) as u8, (player % 250) as u8 + 1], 5000))
}

/// Players who fly about and shoot, by chance but the same in every run: each changes course a few times in a second
/// and pulls the trigger once or twice, as people do.
pub fn bots() -> impl FnMut(usize, &mut Client, Instant) {
    let mut rng = Rng::new(99);
    let mut hands: Vec<Hand> = Vec::new();
    move |index, client, now| {
        while hands.len() <= index {
            hands.push(Hand::default());
        }
        let hand = &mut hands[index];
        let now_ms = now.as_nanos() / 1_000_000;
        if now_ms >= hand.turn_at_ms {
            hand.turn_at_ms = now_ms + 150 + u64::from(rng.below(500));
            hand.course = rng.below(16) as u8;
        }
        if now_ms >= hand.trigger_at_ms {
            hand.is_pressed = !hand.is_pressed;
            hand.trigger_at_ms = now_ms + if hand.is_pressed { 100 } else { 300 + u64::from(rng.below(500)) };
        }
        let trigger = if hand.is_pressed { Controls::SHOOT } else { 0 };
        client.set_controls(Controls::from_bits(hand.course | trigger).expect("five bits"));
    }
}

#[derive(Default)]
struct Hand {
    course: u8,
    is_pressed: bool,
    turn_at_ms: u64,
    trigger_at_ms: u64,
}
