//! A bot over FigNet.

use std::net::{SocketAddr, UdpSocket};

use tickwire::client::bot::Bot;
use tickwire::client::fignet::{Client, Phase, Settings};
use tickwire::io::Clock;
use tickwire::model::{EntityId, PlayerId};
use tickwire::rng::TokenSource;
use tickwire::seam::DATAGRAM_BYTES_MAX;
use tickwire::time::{Duration, Instant};
use tickwire::wire::aegis::event::Event;
use tickwire::wire::fignet::snapshot::Table;

use super::Plan;
use super::guest::{Counts, Guest, Standing, open_datagrams};

/// Ticks between snapshots that every connection is sent at the least: how many more it is sent is its connection's to say.
const SNAPSHOT_INTERVAL_MAX: u32 = 6;

/// A FigNet client with its socket and who plays.
pub struct FignetGuest {
    client: Client,
    bot: Bot,
    socket: UdpSocket,
    clock: Clock,
    /// The newest snapshot's tick, of which a snapshot tells the low half.
    tick: Option<u32>,
}

impl FignetGuest {
    /// Bot `number` of `plan`, with a socket for the port `udp`.
    pub fn connect(plan: &Plan, udp: SocketAddr, number: usize) -> Result<Self, String> {
        let clock = Clock::new();
        let settings = Settings {
            config: plan.fignet,
            entities_max: plan.entities_max,
            snapshot_interval: plan.snapshot_interval as usize,
        };
        Ok(Self {
            client: Client::new(clock.now(), &settings, TokenSource::Os.next_token(), None),
            bot: Bot::new(number as u64),
            socket: open_datagrams(udp).map_err(|error| error.to_string())?,
            clock,
            tick: None,
        })
    }
}

impl Guest for FignetGuest {
    fn standing(&self) -> Standing {
        match self.client.phase() {
            Phase::Connecting => Standing::Outside,
            Phase::Playing => Standing::Playing,
            Phase::Over(over) => Standing::Over(format!("{over:?}")),
        }
    }

    fn play(&mut self) {
        self.bot.play(&mut self.client);
    }

    fn receive(&mut self, now: Instant) {
        let mut buffer = [0; DATAGRAM_BYTES_MAX];
        while let Ok(len) = self.socket.recv(&mut buffer) {
            let _ = self.client.datagram(now, now, &buffer[..len]);
        }
        if let Some(sequence) = self.client.table().map(Table::sequence) {
            let before = self.tick.unwrap_or(sequence.into());
            self.tick = Some(before.wrapping_add(sequence.wrapping_sub(before as u16).into()));
        }
    }

    fn transmit(&mut self, now: Instant) {
        let mut buffer = [0; DATAGRAM_BYTES_MAX];
        while let Some(len) = self.client.transmit(now, &mut buffer) {
            let _ = self.socket.send(&buffer[..len]);
        }
    }

    fn leave(&mut self) {
        self.client.leave(self.clock.now());
    }

    fn player(&self) -> Option<PlayerId> {
        self.client.player()
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.client.poll_event()
    }

    fn tick(&self) -> Option<u32> {
        self.tick
    }

    fn add_known(&self, known: &mut Vec<EntityId>) {
        known.extend(self.client.visible().map(|(id, _)| id));
    }

    fn rtt(&self) -> Option<Duration> {
        self.client.rtt()
    }

    fn snapshot_interval(&self) -> u32 {
        SNAPSHOT_INTERVAL_MAX
    }

    fn counts(&self) -> Counts {
        let (stats, connection) = (self.client.stats(), self.client.connection_stats());
        Counts {
            datagrams_out: connection.packets_sent,
            bytes_out: connection.bytes_sent,
            datagrams_in: connection.packets_received,
            bytes_in: connection.bytes_received,
            snapshots: stats.snapshots,
            deltas: stats.snapshots_delta,
            events: stats.events,
            lost: stats.events_lost,
            ignored: stats.events_ignored,
            ..Counts::default()
        }
    }
}
