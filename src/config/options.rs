//! The table of options: the one place to add another.

use std::net::SocketAddr;

use log::LevelFilter;

use super::choice::{Backend, LOG_WORDS, Level, Wake};
use super::effective::Setting;
use super::key::{Key, Kind, Typed};

/// An address that may be left out.
const ADDRESS_OR_OFF: Kind = Kind::Or("off", &Kind::Address);
/// A processor that may be left to the system.
const CPU_OR_OFF: Kind = Kind::Or("off", &Kind::Number { unit: "CPU", min: 0, max: 1023 });
/// A seed that may be left to chance.
const SEED: Kind = Kind::Or("random", &Kind::Number { unit: "N", min: 0, max: u64::MAX });

/// The group of options that say where to listen.
pub const GROUP_ADDRESSES: &str = "Addresses";
/// The group of options that say for how many.
pub const GROUP_CAPACITY: &str = "Capacity";
/// The group of options that shape the game.
pub const GROUP_PLAY: &str = "Play";
/// The group of options of the FigNet protocol.
pub const GROUP_FIGNET: &str = "FigNet";
/// The group of options about the process itself.
pub const GROUP_PROCESS: &str = "Process";

/// Declares [`Options`] and [`KEYS`] together: `/// help`, `name: type = kind, "default";` in groups.
macro_rules! options {
    ($($group:ident { $($(#[doc = $doc:literal])+ $name:ident: $type:ty = $kind:expr, $default:literal;)+ })+) => {
        /// Every option's value, typed and checked.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct Options {
            $($($(#[doc = $doc])+ pub $name: $type,)+)+
        }

        /// Every option, in the order of [`Options`]' fields.
        pub const KEYS: &[Key] = &[
            $($(Key {
                name: stringify!($name),
                doc: concat!($($doc),+),
                group: $group,
                kind: $kind,
                default: $default,
            },)+)+
        ];

        impl Options {
            /// The typed values of `settings`, which are in the order of [`KEYS`].
            pub(super) fn from_settings(settings: &[Setting]) -> Self {
                let mut values = settings.iter().map(|setting| &setting.value);
                let mut next = || values.next().expect("a setting for every key");
                Self { $($($name: <$type>::from_value(next()),)+)+ }
            }
        }
    };
}

options! {
    GROUP_ADDRESSES {
        /// Where Aegis clients log in (TCP).
        aegis_tcp: SocketAddr = Kind::Address, "0.0.0.0:4243";
        /// Where Aegis clients play (UDP).
        aegis_udp: SocketAddr = Kind::Address, "0.0.0.0:4243";
        /// Where R-Type version 1 clients play (UDP).
        rtype_udp: Option<SocketAddr> = ADDRESS_OR_OFF, "off";
        /// Seconds of silence after which an R-Type connection ends; 0 is never.
        rtype_idle_timeout_s: u32 = Kind::Number { unit: "SECONDS", min: 0, max: 3600 }, "10";
        /// Where FigNet clients play (UDP).
        fignet_udp: Option<SocketAddr> = ADDRESS_OR_OFF, "off";
        /// Where the administrator's pages are (TCP).
        admin: Option<SocketAddr> = ADDRESS_OR_OFF, "off";
    }
    GROUP_CAPACITY {
        /// Rooms, of up to four players each.
        rooms: u32 = Kind::Number { unit: "N", min: 1, max: 4096 }, "64";
        /// Sessions that one address may hold at a time; 0 is no limit. Loopback has none.
        sessions_per_address: u32 = Kind::Number { unit: "N", min: 0, max: 65_535 }, "16";
    }
    GROUP_PLAY {
        /// The level that every room plays.
        level: Level = Kind::Choice(Level::WORDS), "level1";
        /// Entity slots in each room; a stress level gets what it needs beyond.
        entities: u32 = Kind::Number { unit: "N", min: 64, max: 65_535 }, "128";
        /// Entities in the stress level; at most the entity slots of a room.
        stress_entities: u32 = Kind::Number { unit: "N", min: 1, max: 60_000 }, "100";
        /// Ticks from one snapshot to the next, at 60 ticks a second.
        snapshot_interval: u8 = Kind::Number { unit: "TICKS", min: 1, max: 60 }, "3";
        /// Players with whom a round starts at once.
        round_start_players: u8 = Kind::Number { unit: "N", min: 1, max: 4 }, "2";
        /// Seconds after the first player until a round starts with fewer.
        round_start_wait_s: u32 = Kind::Number { unit: "SECONDS", min: 0, max: 3600 }, "30";
        /// Seed of the rooms' chance: the same seed and inputs, the same game.
        seed: Option<u64> = SEED, "random";
    }
    GROUP_FIGNET {
        /// What FigNet's packets begin with; choose your own, by chance.
        fignet_protocol_id: u32 = Kind::Number { unit: "N", min: 0, max: u32::MAX as u64 }, "305419896";
        /// FigNet connections at a time.
        fignet_max_peers: u16 = Kind::Number { unit: "N", min: 1, max: 16_384 }, "64";
        /// Channels of a FigNet connection; the game uses four.
        fignet_max_channels: u8 = Kind::Number { unit: "N", min: 4, max: 255 }, "4";
        /// Largest FigNet packet.
        fignet_mtu: u16 = Kind::Number { unit: "BYTES", min: 576, max: 1200 }, "1200";
        /// Milliseconds that a FigNet handshake may take.
        fignet_connection_timeout_ms: u32 = Kind::Number { unit: "MS", min: 1, max: 600_000 }, "5000";
        /// Milliseconds from one FigNet PING to the next.
        fignet_ping_interval_ms: u32 = Kind::Number { unit: "MS", min: 1, max: 600_000 }, "5000";
        /// Milliseconds of silence after which a FigNet connection ends.
        fignet_disconnect_timeout_ms: u32 = Kind::Number { unit: "MS", min: 2, max: 600_000 }, "10000";
        /// Bytes a second to one FigNet client; 0 is no limit.
        fignet_bandwidth_limit_bytes_per_sec: u32 = Kind::Number { unit: "BYTES", min: 0, max: u32::MAX as u64 }, "262144";
        /// Packets with data a second to one FigNet client; 0 is no limit.
        fignet_packet_rate_per_sec: u32 = Kind::Number { unit: "N", min: 0, max: 1_000_000 }, "30";
        /// Milliseconds until FigNet sends again, before a round trip was measured.
        fignet_initial_rto_ms: u32 = Kind::Number { unit: "MS", min: 1, max: 600_000 }, "100";
        /// The most that these can become.
        fignet_max_rto_ms: u32 = Kind::Number { unit: "MS", min: 50, max: 600_000 }, "5000";
        /// Times that FigNet sends a message again before the connection is lost.
        fignet_max_retransmissions: u8 = Kind::Number { unit: "N", min: 1, max: 255 }, "8";
        /// Largest FigNet packet with a fragment.
        fignet_max_fragment_size: u16 = Kind::Number { unit: "BYTES", min: 576, max: 1200 }, "1200";
        /// Most fragments of a FigNet message.
        fignet_max_fragments_per_message: u8 = Kind::Number { unit: "N", min: 2, max: 64 }, "64";
        /// Milliseconds without progress after which a message in fragments is given up.
        fignet_fragment_timeout_ms: u32 = Kind::Number { unit: "MS", min: 1, max: 600_000 }, "5000";
        /// FigNet connections that one address may ask for in a minute; 0 is no limit.
        fignet_connection_attempts_per_minute: u32 = Kind::Number { unit: "N", min: 0, max: 1_000_000 }, "3";
        /// Take only FigNet connections that are encrypted.
        fignet_require_encryption: bool = Kind::Switch, "false";
    }
    GROUP_PROCESS {
        /// What wakes the loop: the tick (least processor time) or every arrival (least delay).
        wake: Wake = Kind::Choice(Wake::WORDS), "tick";
        /// What moves the bytes: epoll (mio), io_uring, or whatever costs least (auto).
        backend: Backend = Kind::Choice(Backend::WORDS), "auto";
        /// Microseconds to wake before a tick and spin until it.
        busy_poll_us: u32 = Kind::Number { unit: "US", min: 0, max: 1000 }, "0";
        /// The processor to stay on.
        pin: Option<u32> = CPU_OR_OFF, "off";
        /// Steps of niceness to run above the usual.
        priority: u32 = Kind::Number { unit: "N", min: 0, max: 20 }, "0";
        /// How much to log.
        log: LevelFilter = Kind::Choice(LOG_WORDS), "info";
        /// Abort on any memory allocation after start.
        verify: bool = Kind::Switch, "false";
    }
}
