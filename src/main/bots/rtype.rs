//! A bot over the R-Type protocol.

use std::net::{SocketAddr, UdpSocket};

use tickwire::client::bot::Bot;
use tickwire::client::rtype::{Client, Phase, Settings};
use tickwire::model::{EntityId, PlayerId};
use tickwire::seam::DATAGRAM_BYTES_MAX;
use tickwire::time::{Duration, Instant};
use tickwire::wire::aegis::event::Event;

use super::Plan;
use super::guest::{Counts, Guest, Standing, open_datagrams};

/// An R-Type client with its socket and who plays.
pub struct RtypeGuest {
    client: Client,
    bot: Bot,
    socket: UdpSocket,
    snapshot_interval: u32,
    /// Snapshots, and the tick of the last one: several packets may make one.
    snapshots: u64,
    snapshot_tick: Option<u32>,
}

impl RtypeGuest {
    /// Bot `number` of `plan`, with a socket for the port `udp`.
    pub fn connect(plan: &Plan, udp: SocketAddr, number: usize) -> Result<Self, String> {
        Ok(Self {
            client: Client::new(&Settings { entities_max: plan.entities_max }),
            bot: Bot::new(number as u64),
            socket: open_datagrams(udp).map_err(|error| error.to_string())?,
            snapshot_interval: plan.snapshot_interval,
            snapshots: 0,
            snapshot_tick: None,
        })
    }
}

impl Guest for RtypeGuest {
    fn standing(&self) -> Standing {
        match self.client.phase() {
            Phase::Connecting => Standing::Outside,
            // Its place in a room comes with its first packet; a Snapshot shows that it has one.
            Phase::Playing if self.snapshot_tick.is_none() => Standing::Outside,
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
            let tick = self.client.snapshot_tick();
            self.snapshots += u64::from(tick != self.snapshot_tick);
            self.snapshot_tick = tick;
        }
    }

    fn transmit(&mut self, now: Instant) {
        let mut buffer = [0; DATAGRAM_BYTES_MAX];
        while let Some(len) = self.client.transmit(now, &mut buffer) {
            let _ = self.socket.send(&buffer[..len]);
        }
    }

    fn leave(&mut self) {
        self.client.leave();
    }

    fn player(&self) -> Option<PlayerId> {
        self.client.player()
    }

    fn poll_event(&mut self) -> Option<Event> {
        None
    }

    fn tick(&self) -> Option<u32> {
        self.client.server_tick()
    }

    fn add_known(&self, known: &mut Vec<EntityId>) {
        known.extend(self.client.known().map(|entity| entity.id));
    }

    fn rtt(&self) -> Option<Duration> {
        self.client.rtt().smoothed()
    }

    fn snapshot_interval(&self) -> u32 {
        self.snapshot_interval
    }

    fn counts(&self) -> Counts {
        let stats = self.client.stats();
        Counts {
            datagrams_out: stats.datagrams_out,
            bytes_out: stats.bytes_out,
            datagrams_in: stats.datagrams_in,
            bytes_in: stats.bytes_in,
            snapshots: self.snapshots,
            creates: stats.creates,
            destroys: stats.destroys,
            again: stats.creates_repeated + stats.destroys_repeated,
            lost: stats.creates_lost,
            ignored: stats.messages_malformed + stats.messages_unknown,
            asked: stats.queries,
            ..Counts::default()
        }
    }
}

/// `310 created, 262 destroyed, 0 came again, 0 lost, 0 ignored, 0 asked for`
pub fn events(counts: &Counts) -> String {
    let Counts { creates, destroys, again, lost, ignored, asked, .. } = counts;
    format!(
        "{creates} created, {destroys} destroyed, {again} came again, {lost} lost, {ignored} ignored, \
         {asked} asked for"
    )
}
