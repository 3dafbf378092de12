//! A bot over the Aegis protocol.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};

use tickwire::client::aegis::{Client, Phase, Settings};
use tickwire::client::bot::Bot;
use tickwire::model::{EntityId, Name, PlayerId};
use tickwire::seam::DATAGRAM_BYTES_MAX;
use tickwire::time::{Duration, Instant};
use tickwire::wire::aegis::event::Event;

use super::Plan;
use super::guest::{Counts, Guest, Standing, open_datagrams};

/// An Aegis client with its sockets and who plays.
pub struct AegisGuest {
    client: Client,
    bot: Bot,
    stream: TcpStream,
    socket: UdpSocket,
}

impl AegisGuest {
    /// Bot `number` of `plan`, with a stream to the server, and a socket for the port `udp`.
    pub fn connect(plan: &Plan, udp: SocketAddr, number: usize) -> Result<Self, String> {
        let text = |error: io::Error| error.to_string();
        let stream = TcpStream::connect(plan.addresses.tcp).map_err(text)?;
        stream.set_nodelay(true).map_err(text)?;
        stream.set_nonblocking(true).map_err(text)?;
        let socket = open_datagrams(udp).map_err(text)?;
        let name = Name::new(format!("bot {number}").as_bytes()).map_err(|error| format!("{error:?}"))?;
        let settings = Settings { name, entities_max: plan.entities_max, snapshots_kept: 65 };
        Ok(Self { client: Client::new(&settings), bot: Bot::new(number as u64), stream, socket })
    }
}

impl Guest for AegisGuest {
    fn standing(&self) -> Standing {
        match self.client.phase() {
            Phase::LoggingIn => Standing::Outside,
            Phase::Binding => Standing::Seated,
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
        match self.stream.read(&mut buffer) {
            Ok(0) => self.client.stream_closed(),
            Ok(len) => self.client.stream_bytes(now, &buffer[..len]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.client.stream_closed(),
        }
    }

    fn transmit(&mut self, now: Instant) {
        let said: Vec<u8> = std::iter::from_fn(|| self.client.stream_output()).collect();
        if !said.is_empty() && self.stream.write_all(&said).is_err() {
            self.client.stream_closed();
        }
        let mut buffer = [0; DATAGRAM_BYTES_MAX];
        while let Some(len) = self.client.transmit(now, &mut buffer) {
            let _ = self.socket.send(&buffer[..len]);
        }
    }

    fn leave(&mut self) {
        self.client.log_out();
    }

    fn player(&self) -> Option<PlayerId> {
        self.client.player()
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.client.poll_event()
    }

    fn tick(&self) -> Option<u32> {
        self.client.table().map(|table| table.tick())
    }

    fn add_known(&self, known: &mut Vec<EntityId>) {
        known.extend(self.client.visible().map(|(id, _)| id));
    }

    fn rtt(&self) -> Option<Duration> {
        self.client.link().rtt().smoothed()
    }

    fn snapshot_interval(&self) -> u32 {
        self.client.snapshot_interval().into()
    }

    fn counts(&self) -> Counts {
        let stats = self.client.stats();
        Counts {
            datagrams_out: stats.datagrams_out,
            bytes_out: stats.bytes_out,
            datagrams_in: stats.datagrams_in,
            bytes_in: stats.bytes_in,
            snapshots: stats.snapshots,
            deltas: stats.snapshots_delta,
            events: stats.events,
            again: stats.events_repeated,
            lost: stats.events_lost,
            ignored: stats.events_ignored,
            ..Counts::default()
        }
    }
}

/// `4 full, 796 deltas; `
pub fn snapshot_kinds(counts: &Counts) -> String {
    format!("{} full, {} deltas; ", counts.snapshots - counts.deltas, counts.deltas)
}

/// `25296 handed over, 0 came again, 0 lost, 0 ignored`
pub fn events(counts: &Counts) -> String {
    let Counts { events, again, lost, ignored, .. } = counts;
    format!("{events} handed over, {again} came again, {lost} lost, {ignored} ignored")
}
