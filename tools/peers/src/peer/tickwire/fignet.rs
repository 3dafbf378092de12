//! A client over FigNet, and settings that hold nobody back.

use std::net::UdpSocket;

use ::tickwire::client::fignet::{Client, Phase, Settings};
use ::tickwire::io::Clock;
use ::tickwire::model::Controls;
use ::tickwire::seam::DATAGRAM_BYTES_MAX;
use ::tickwire::session::fignet::{DEFAULT_CONFIG, NetworkConfig};
use ::tickwire::wire::aegis::event::Event;
use ::tickwire::wire::fignet::header::HEADER_BYTES;

use super::SLOTS;
use crate::pace::Guest;
use crate::work::{Job, Part, Tally};

/// Snapshots begin at 20 a second, and after three good seconds each come at 30 and then at 60.
pub(super) const SETTLING_TICKS: u64 = 8 * 60;

/// A snapshot in every tick takes more packets than a connection may send by default, and all clients come from one
/// address.
pub(super) fn config(job: &Job) -> NetworkConfig {
    NetworkConfig {
        max_peers: job.clients.try_into().unwrap_or(u16::MAX),
        max_pending: 64,
        packet_rate_per_sec: 0,
        bandwidth_limit_bytes_per_sec: 0,
        receive_packets_per_sec: 0,
        receive_bytes_per_sec: 0,
        connection_attempts_per_minute: 0,
        // Nothing here compresses.
        compression: false,
        ..DEFAULT_CONFIG
    }
}

/// One client with its socket.
pub struct FignetGuest {
    client: Client,
    socket: UdpSocket,
    clock: Clock,
}

impl FignetGuest {
    pub fn connect(job: &Job, port: u16, number: usize) -> Result<Self, String> {
        let socket = super::super::client_socket(port)?;
        let clock = Clock::new();
        let settings = Settings {
            config: NetworkConfig { max_peers: 1, ..config(job) },
            entities_max: SLOTS,
            snapshot_interval: job.snapshot_interval as usize,
        };
        let client = Client::new(clock.now(), &settings, number as u32, None);
        Ok(Self { client, socket, clock })
    }
}

impl Guest for FignetGuest {
    fn receive(&mut self, tally: &mut Tally) {
        let now = self.clock.now();
        let mut buffer = [0; DATAGRAM_BYTES_MAX];
        while let Ok(len) = self.socket.recv(&mut buffer) {
            let before = self.client.stats().snapshots;
            let _ = self.client.datagram(now, now, &buffer[..len]);
            if self.client.stats().snapshots > before {
                let entity = self.client.table().and_then(|table| table.iter().next());
                let is_of_window = entity.is_some_and(|(_, entity)| entity.health == 1 + Part::Window as u8);
                tally.snapshots += u64::from(is_of_window);
                tally.snapshot_bytes += if is_of_window { (len - HEADER_BYTES) as u64 } else { 0 };
            }
        }
        while let Some(event) = self.client.poll_event() {
            if let Event::Spawn { owner: Some(owner), .. } = event {
                tally.events += u64::from(owner.get() == Part::Window as u8);
            }
        }
    }

    fn is_in(&self) -> bool {
        self.client.phase() == Phase::Playing
    }

    fn send(&mut self, input: u8) {
        self.client.set_controls(Controls::from_bits(input & 0x1F).unwrap_or_default());
    }

    fn flush(&mut self) {
        let now = self.clock.now();
        let mut buffer = [0; DATAGRAM_BYTES_MAX];
        while let Some(len) = self.client.transmit(now, &mut buffer) {
            // What the system refuses is lost, as on any network.
            let _ = self.socket.send(&buffer[..len]);
        }
    }
}
