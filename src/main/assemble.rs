//! From options to a server that is ready for its loop: what `serve` and `demo` share.

use std::net::SocketAddr;
use std::sync::Arc;

use tickwire::config::{self, Options};
use tickwire::io::{self, Backend, IoOptions, Loop, Wake};
use tickwire::limits::{Limits, TICK_RATE_HZ};
use tickwire::rng::TokenSource;
use tickwire::seam::Door;
use tickwire::server::{FignetSettings, Server, Settings};
use tickwire::session::fignet::{DEFAULT_CONFIG, NetworkConfig};
use tickwire::time::Duration;
use tickwire::world::rtype::{ENTITIES_RESERVED, Level, RtypeGame, Rules};

/// The server of the game that ships.
pub type RtypeServer = Server<RtypeGame>;

/// A loop with its sockets open, and a server to drive.
pub struct Assembled {
    /// The loop.
    pub io: Loop,
    /// The server.
    pub server: RtypeServer,
    /// Entity slots of a room.
    pub entities: usize,
}

/// Opens the sockets and allocates everything that `options` ask for.
///
/// # Errors
/// One line that says what could not be had.
pub fn assemble(options: &Options) -> Result<Assembled, String> {
    let (level, entities) = level(options)?;
    let mut limits = Limits::new(options.rooms as usize, entities);
    if options.rtype_udp.is_some() {
        limits = limits.with_rtype();
    }
    let io = Loop::bind(&io_options(options, &limits)).map_err(|error| error.to_string())?;
    let udp_port = port_of(&io, "aegis-udp").ok_or("the Aegis socket has no port")?;
    let rules = Rules {
        round_start_players: options.round_start_players,
        round_start_wait_ticks: options.round_start_wait_s * TICK_RATE_HZ,
        ..Rules::default()
    };
    let mut tokens = TokenSource::Os;
    let settings = Settings {
        snapshot_interval: options.snapshot_interval,
        aegis_udp_port: udp_port,
        sessions_per_address: options.sessions_per_address as usize,
        rtype_idle_timeout: Duration::from_secs(u64::from(options.rtype_idle_timeout_s)),
        fignet: options.fignet_udp.map(|_| fignet_settings(options)).transpose()?,
        seed: options.seed.unwrap_or_else(|| tokens.next_u64()),
        ..Settings::new(limits)
    };
    let server = Server::new(settings, tokens, |_| RtypeGame::new(Arc::clone(&level), rules, entities));
    Ok(Assembled { io, server, entities })
}

/// The level, and how many entity slots a room of it has.
fn level(options: &Options) -> Result<(Arc<Level>, usize), String> {
    let name = options.level.word();
    let level = Level::builtin(name).ok_or_else(|| format!("there is no level {name}"))?;
    let mut entities = options.entities as usize;
    let level = match options.level {
        config::Level::Stress => {
            // The players' ships and missiles come on top of the crowd.
            entities = entities.max(options.stress_entities as usize + ENTITIES_RESERVED);
            level.with_entities(options.stress_entities).map_err(|error| error.to_string())?
        }
        config::Level::Level1 => level,
    };
    Ok((Arc::new(level), entities))
}

/// FigNet's settings.
///
/// # Errors
/// When two of them do not go together.
pub fn fignet_settings(options: &Options) -> Result<FignetSettings, String> {
    let config = NetworkConfig {
        protocol_id: options.fignet_protocol_id,
        max_peers: options.fignet_max_peers,
        max_channels: options.fignet_max_channels,
        mtu: options.fignet_mtu,
        connection_timeout_ms: options.fignet_connection_timeout_ms,
        ping_interval_ms: options.fignet_ping_interval_ms,
        disconnect_timeout_ms: options.fignet_disconnect_timeout_ms,
        bandwidth_limit_bytes_per_sec: options.fignet_bandwidth_limit_bytes_per_sec,
        packet_rate_per_sec: options.fignet_packet_rate_per_sec,
        initial_rto_ms: options.fignet_initial_rto_ms,
        max_rto_ms: options.fignet_max_rto_ms,
        max_retransmissions: options.fignet_max_retransmissions,
        max_fragment_size: options.fignet_max_fragment_size,
        max_fragments_per_message: options.fignet_max_fragments_per_message,
        fragment_timeout_ms: options.fignet_fragment_timeout_ms,
        require_encryption: options.fignet_require_encryption,
        connection_attempts_per_minute: options.fignet_connection_attempts_per_minute,
        ..DEFAULT_CONFIG
    };
    config
        .validate()
        .map_err(|error| format!("--fignet-{}: must be {}", error.field.replace('_', "-"), error.must))?;
    // Encryption counts on from the time: no earlier start had this second, unless the clock was set back.
    Ok(FignetSettings { config, epoch: io::Clock::new().seconds_since_1970() })
}

fn io_options(options: &Options, limits: &Limits) -> IoOptions {
    let mut io = IoOptions::new(limits.streams, limits.sessions);
    io.aegis_tcp = Some(options.aegis_tcp);
    io.doors[Door::Aegis as usize] = Some(options.aegis_udp);
    io.doors[Door::Rtype as usize] = options.rtype_udp;
    io.doors[Door::Fignet as usize] = options.fignet_udp;
    io.wake = match options.wake {
        config::Wake::Tick => Wake::Tick,
        config::Wake::Event => Wake::Event,
    };
    io.backend = match options.backend {
        config::Backend::Auto => Backend::Auto,
        config::Backend::Mio => Backend::Mio,
        config::Backend::IoUring => Backend::IoUring,
    };
    io.busy_poll = Duration::from_micros(u64::from(options.busy_poll_us));
    io.signals = true;
    io
}

/// The port of a listener of `io`.
pub fn port_of(io: &Loop, listener: &str) -> Option<u16> {
    address_of(io, listener).map(|address| address.port())
}

/// The address of a listener of `io`, with its real port.
pub fn address_of(io: &Loop, listener: &str) -> Option<SocketAddr> {
    io.local_addrs().find(|(name, _)| *name == listener).map(|(_, address)| address)
}
