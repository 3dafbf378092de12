//! The settings of both ends, and the check that they make sense together.

use std::fmt;

use crate::time::Duration;
use crate::wire::fignet::fragment::FRAGMENTS_MAX;
use crate::wire::fignet::header::PacketKind;
use crate::wire::fignet::{CHANNELS_MAX, MTU_MAX, MTU_MIN, PROTOCOL_ID_DEFAULT};

/// What a channel promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChannelMode {
    /// Nothing.
    Unreliable,
    /// Nothing arrives after something later.
    UnreliableOrdered,
    /// Everything arrives, once.
    Reliable,
    /// Everything arrives, once, in order.
    ReliableOrdered,
}

impl ChannelMode {
    /// The type of its messages.
    pub const fn kind(self) -> PacketKind {
        match self {
            Self::Unreliable => PacketKind::Unreliable,
            Self::UnreliableOrdered => PacketKind::UnreliableOrdered,
            Self::Reliable => PacketKind::Reliable,
            Self::ReliableOrdered => PacketKind::ReliableOrdered,
        }
    }

    /// Whether everything arrives.
    pub const fn is_reliable(self) -> bool {
        matches!(self, Self::Reliable | Self::ReliableOrdered)
    }
}

/// The mode of every channel, by its id: the same table at both ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChannelTable([ChannelMode; CHANNELS_MAX]);

impl ChannelTable {
    /// Four modes in turn: reliable ordered (0, 4, 8 …), unreliable (1 …), reliable (2 …), unreliable ordered (3 …).
    pub const DEFAULT: Self = {
        let cycle = [
            ChannelMode::ReliableOrdered,
            ChannelMode::Unreliable,
            ChannelMode::Reliable,
            ChannelMode::UnreliableOrdered,
        ];
        let mut modes = [ChannelMode::Unreliable; CHANNELS_MAX];
        let mut id = 0;
        while id < CHANNELS_MAX {
            modes[id] = cycle[id % 4];
            id += 1;
        }
        Self(modes)
    };

    /// The same with `mode` for channel `id`.
    ///
    /// # Panics
    /// When `id` is 255, which is no channel.
    pub const fn with(mut self, id: u8, mode: ChannelMode) -> Self {
        self.0[id as usize] = mode;
        self
    }

    /// The mode of channel `id`; there is no channel 255.
    pub const fn mode(&self, id: u8) -> Option<ChannelMode> {
        if (id as usize) < CHANNELS_MAX { Some(self.0[id as usize]) } else { None }
    }
}

/// The settings of one end. Where two ends differ, the smaller MTU and the smaller number of channels count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NetworkConfig {
    /// What every packet begins with.
    pub protocol_id: u32,
    /// Most connections of a server.
    pub max_peers: u16,
    /// Channels of a connection, 1 to 255.
    pub max_channels: u8,
    /// Largest packet, 576 to 1200 bytes.
    pub mtu: u16,

    /// A handshake must be over by then.
    pub connection_timeout_ms: u32,
    /// Time between two PINGs.
    pub ping_interval_ms: u32,
    /// Silence that ends a connection, and the longest wait for a DISCONNECT_ACK.
    pub disconnect_timeout_ms: u32,

    /// Bytes that one end sends in a second; 0: no limit.
    pub bandwidth_limit_bytes_per_sec: u32,
    /// Packets with data that one end sends in a second; 0: no limit, and no adaptation.
    pub packet_rate_per_sec: u32,
    /// The rate never falls below this, and begins with it.
    pub packet_rate_min_per_sec: u32,

    /// Retransmission time until a round trip was measured.
    pub initial_rto_ms: u32,
    /// Longest retransmission time.
    pub max_rto_ms: u32,
    /// Retransmissions of one message, after which the connection is lost.
    pub max_retransmissions: u8,

    /// Largest packet with a fragment, 576 to 1200 bytes: the MTU that is offered is the smaller one of this and `mtu`.
    pub max_fragment_size: u16,
    /// Most fragments of a message sent, 2 to 64.
    pub max_fragments_per_message: u8,
    /// A message in fragments is given up when no new one came for so long.
    pub fragment_timeout_ms: u32,

    /// What each channel promises.
    pub channels: ChannelTable,
    /// The channel whose messages are parts of blocks; it must be reliable and ordered.
    pub block_channel: Option<u8>,
    /// Whether payloads are compressed where that makes them smaller.
    pub compression: bool,
    /// A server takes encrypted connections only.
    pub require_encryption: bool,

    /// Packets that one peer may send in a second; 0: no limit.
    pub receive_packets_per_sec: u32,
    /// Bytes that one peer may send in a second; 0: no limit.
    pub receive_bytes_per_sec: u32,
    /// How long a peer may exceed a limit before it is disconnected.
    pub rate_excess_timeout_ms: u32,
    /// Connections that one address may ask for in a minute; 0: no limit.
    pub connection_attempts_per_minute: u32,
    /// Connections of a server that may be half open.
    pub max_pending: u16,

    /// Buffers of 512 bytes for what one peer has not sent, or is not known to have received.
    pub send_buffers_per_peer: u16,
    /// Buffers of 512 bytes for what came from one peer ahead of its turn.
    pub receive_buffers_per_peer: u16,
    /// Messages that wait on one channel of one peer, sent and unconfirmed ones included.
    pub channel_queue_len: u16,
}

/// The settings that everything is documented with.
pub const DEFAULT_CONFIG: NetworkConfig = NetworkConfig {
    protocol_id: PROTOCOL_ID_DEFAULT,
    max_peers: 64,
    max_channels: 4,
    mtu: 1200,
    connection_timeout_ms: 5000,
    ping_interval_ms: 5000,
    disconnect_timeout_ms: 10_000,
    bandwidth_limit_bytes_per_sec: 256 * 1024,
    packet_rate_per_sec: 30,
    packet_rate_min_per_sec: 10,
    initial_rto_ms: 100,
    max_rto_ms: 5000,
    max_retransmissions: 8,
    max_fragment_size: 1200,
    max_fragments_per_message: 64,
    fragment_timeout_ms: 5000,
    channels: ChannelTable::DEFAULT,
    block_channel: None,
    compression: true,
    require_encryption: false,
    receive_packets_per_sec: 60,
    receive_bytes_per_sec: 256 * 1024,
    rate_excess_timeout_ms: 5000,
    connection_attempts_per_minute: 3,
    max_pending: 8,
    send_buffers_per_peer: 256,
    receive_buffers_per_peer: 192,
    channel_queue_len: 128,
};

impl Default for NetworkConfig {
    fn default() -> Self {
        DEFAULT_CONFIG
    }
}

/// A setting that makes no sense, by its name, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConfigError {
    /// The field of [`NetworkConfig`].
    pub field: &'static str,
    /// What it must be.
    pub must: &'static str,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} must be {}", self.field, self.must)
    }
}

impl std::error::Error for ConfigError {}

impl NetworkConfig {
    /// Whether the settings make sense; if not, the first that does not.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let mtu_range = MTU_MIN as u16..=MTU_MAX as u16;
        let rate_min_max = match self.packet_rate_per_sec {
            0 => u32::MAX,
            rate => rate,
        };
        let block_channel_fits = self.block_channel.is_none_or(|id| {
            id < self.max_channels && self.channels.mode(id) == Some(ChannelMode::ReliableOrdered)
        });
        let fragments = 2..=FRAGMENTS_MAX as u8;
        let checks = [
            (self.max_peers > 0, "max_peers", "at least 1"),
            (self.max_channels > 0, "max_channels", "at least 1"),
            (mtu_range.contains(&self.mtu), "mtu", "576 to 1200"),
            (self.connection_timeout_ms > 0, "connection_timeout_ms", "above 0"),
            (self.ping_interval_ms > 0, "ping_interval_ms", "above 0"),
            (
                self.disconnect_timeout_ms > self.ping_interval_ms,
                "disconnect_timeout_ms",
                "above ping_interval_ms",
            ),
            (
                (1..=rate_min_max).contains(&self.packet_rate_min_per_sec),
                "packet_rate_min_per_sec",
                "above 0 and not above packet_rate_per_sec",
            ),
            (self.packet_rate_per_sec <= 1_000_000, "packet_rate_per_sec", "at most 1000000"),
            (self.initial_rto_ms > 0, "initial_rto_ms", "above 0"),
            (self.max_rto_ms >= self.initial_rto_ms.max(50), "max_rto_ms", "at least initial_rto_ms and 50"),
            (self.max_retransmissions > 0, "max_retransmissions", "at least 1"),
            (mtu_range.contains(&self.max_fragment_size), "max_fragment_size", "576 to 1200"),
            (fragments.contains(&self.max_fragments_per_message), "max_fragments_per_message", "2 to 64"),
            (self.fragment_timeout_ms > 0, "fragment_timeout_ms", "above 0"),
            (block_channel_fits, "block_channel", "a reliable ordered channel below max_channels"),
            (self.rate_excess_timeout_ms > 0, "rate_excess_timeout_ms", "above 0"),
            (self.max_pending > 0, "max_pending", "at least 1"),
            (self.send_buffers_per_peer >= 3, "send_buffers_per_peer", "at least 3"),
            (self.receive_buffers_per_peer >= 3, "receive_buffers_per_peer", "at least 3"),
            ((1..=1024).contains(&self.channel_queue_len), "channel_queue_len", "1 to 1024"),
        ];
        match checks.into_iter().find(|&(holds, ..)| !holds) {
            None => Ok(()),
            Some((_, field, must)) => Err(ConfigError { field, must }),
        }
    }

    /// The MTU to offer.
    pub(super) fn offered_mtu(&self) -> u16 {
        self.mtu.min(self.max_fragment_size)
    }

    pub(super) const fn ms(ms: u32) -> Duration {
        Duration::from_millis(ms as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid() {
        assert_eq!(DEFAULT_CONFIG.validate(), Ok(()));
        let table = ChannelTable::DEFAULT;
        let first = [0, 1, 2, 3].map(|id| table.mode(id).unwrap());
        assert_eq!(
            first,
            [
                ChannelMode::ReliableOrdered,
                ChannelMode::Unreliable,
                ChannelMode::Reliable,
                ChannelMode::UnreliableOrdered
            ]
        );
        assert!(table.mode(254).is_some() && table.mode(255).is_none());
    }

    #[test]
    fn an_error_says_which_setting() {
        let broken: [(&str, NetworkConfig); 20] = [
            ("max_peers", NetworkConfig { max_peers: 0, ..DEFAULT_CONFIG }),
            ("max_channels", NetworkConfig { max_channels: 0, ..DEFAULT_CONFIG }),
            ("mtu", NetworkConfig { mtu: 575, ..DEFAULT_CONFIG }),
            ("connection_timeout_ms", NetworkConfig { connection_timeout_ms: 0, ..DEFAULT_CONFIG }),
            ("ping_interval_ms", NetworkConfig { ping_interval_ms: 0, ..DEFAULT_CONFIG }),
            ("disconnect_timeout_ms", NetworkConfig { disconnect_timeout_ms: 5000, ..DEFAULT_CONFIG }),
            ("packet_rate_min_per_sec", NetworkConfig { packet_rate_min_per_sec: 31, ..DEFAULT_CONFIG }),
            ("packet_rate_per_sec", NetworkConfig { packet_rate_per_sec: 1_000_001, ..DEFAULT_CONFIG }),
            ("initial_rto_ms", NetworkConfig { initial_rto_ms: 0, ..DEFAULT_CONFIG }),
            ("max_rto_ms", NetworkConfig { max_rto_ms: 99, ..DEFAULT_CONFIG }),
            ("max_retransmissions", NetworkConfig { max_retransmissions: 0, ..DEFAULT_CONFIG }),
            ("max_fragment_size", NetworkConfig { max_fragment_size: 1201, ..DEFAULT_CONFIG }),
            ("max_fragments_per_message", NetworkConfig { max_fragments_per_message: 65, ..DEFAULT_CONFIG }),
            ("fragment_timeout_ms", NetworkConfig { fragment_timeout_ms: 0, ..DEFAULT_CONFIG }),
            ("block_channel", NetworkConfig { block_channel: Some(1), ..DEFAULT_CONFIG }),
            ("rate_excess_timeout_ms", NetworkConfig { rate_excess_timeout_ms: 0, ..DEFAULT_CONFIG }),
            ("max_pending", NetworkConfig { max_pending: 0, ..DEFAULT_CONFIG }),
            ("send_buffers_per_peer", NetworkConfig { send_buffers_per_peer: 2, ..DEFAULT_CONFIG }),
            ("receive_buffers_per_peer", NetworkConfig { receive_buffers_per_peer: 2, ..DEFAULT_CONFIG }),
            ("channel_queue_len", NetworkConfig { channel_queue_len: 1025, ..DEFAULT_CONFIG }),
        ];
        for (field, config) in broken {
            let error = config.validate().expect_err(field);
            assert_eq!(error.field, field);
            assert!(error.to_string().starts_with(field));
        }
        let blocks = NetworkConfig { block_channel: Some(0), ..DEFAULT_CONFIG };
        assert_eq!(blocks.validate(), Ok(()));
        assert!(NetworkConfig { block_channel: Some(4), ..DEFAULT_CONFIG }.validate().is_err());
    }
}
