//! What several tests share.
#![allow(dead_code, reason = "each test uses its part")]

use std::net::SocketAddr;
use std::sync::Arc;

use tickwire::client::aegis::{Client, Settings as ClientSettings};
use tickwire::client::bot::Bot;
use tickwire::limits::Limits;
use tickwire::model::Name;
use tickwire::rng::{Rng, TokenSource};
use tickwire::server::{FignetSettings, Server, Settings};
use tickwire::session::fignet::{DEFAULT_CONFIG, NetworkConfig};
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
        snapshot_interval: interval,
        sessions_per_address: 16,
        seed,
        fignet: Some(FignetSettings { config: fignet_config(), epoch: 1 }),
        ..Settings::new(Limits::new(rooms, entities).with_rtype())
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

/// An R-Type client's address, one per player.
pub fn rtype_address(player: usize) -> SocketAddr {
    SocketAddr::from(([10, 2, (player / 250) as u8, (player % 250) as u8 + 1], 6000))
}

/// FigNet's settings in tests: the usual ones, for eight peers.
pub fn fignet_config() -> NetworkConfig {
    NetworkConfig { max_peers: 8, ..DEFAULT_CONFIG }
}

/// A FigNet client's address, one per player.
pub fn fignet_address(player: usize) -> SocketAddr {
    SocketAddr::from(([10, 3, (player / 250) as u8, (player % 250) as u8 + 1], 7000))
}

/// A client's address, one per player.
pub fn address(player: usize) -> SocketAddr {
    SocketAddr::from(([10, 1, (player / 250) as u8, (player % 250) as u8 + 1], 5000))
}

/// Bots at the controls, the same in every run.
pub fn bots() -> impl FnMut(usize, &mut Client, Instant) {
    let mut bots: Vec<(Bot, u64)> = Vec::new();
    move |index, client, now| {
        while bots.len() <= index {
            bots.push((Bot::new(99 + bots.len() as u64), 0));
        }
        let (bot, next_tick) = &mut bots[index];
        let tick = now.as_nanos() * 60 / 1_000_000_000;
        if tick >= *next_tick {
            *next_tick = tick + 1;
            bot.play(client);
        }
    }
}
