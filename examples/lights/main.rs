//! Another game on the same server: see `game.rs` for its rules. This is all it takes to embed tickwire: a [`Server`] of
//! your own [`Game`](tickwire::world::Game), a loop to drive it, and clients that play it over real sockets. Two bots
//! collect coins for ten seconds; the scoreboard comes from their snapshots.
//!
//! ```text
//! cargo run --example lights
//! ```

mod game;

use std::error::Error;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use tickwire::client::aegis::{Client, Settings as ClientSettings};
use tickwire::io::{Clock, IoOptions, MioLoop};
use tickwire::limits::Limits;
use tickwire::model::{Controls, Kind, Name};
use tickwire::rng::TokenSource;
use tickwire::seam::{DATAGRAM_BYTES_MAX, Door};
use tickwire::server::{Server, Settings};

use game::Lights;

const ROOMS: usize = 1;
const ENTITIES: usize = 64;
const SNAPSHOT_INTERVAL: u8 = 3;
const TICKS: u32 = 600;
const TICKS_PER_SECOND: u32 = 60;

fn main() -> Result<(), Box<dyn Error>> {
    let limits = Limits::new(ROOMS, ENTITIES);
    let mut options = IoOptions::new(limits.streams, limits.sessions);
    options.aegis_tcp = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    options.doors[Door::Aegis as usize] = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let mut io = MioLoop::bind(&options)?;
    let addresses: Vec<SocketAddr> = io.local_addrs().map(|(_, address)| address).collect();
    let (tcp, udp) = (addresses[0], addresses[1]);
    let settings = Settings {
        snapshot_interval: SNAPSHOT_INTERVAL,
        aegis_udp_port: udp.port(),
        ..Settings::new(limits)
    };
    let mut server = Server::new(settings, TokenSource::Os, |_| Lights::new());
    let stop = io.stop_handle();
    let serving = thread::spawn(move || io.run(&mut server, |_, _| false));

    let mut bots = [Bot::connect("blue", tcp, udp)?, Bot::connect("green", tcp, udp)?];
    for tick in 1..=TICKS {
        bots.iter_mut().for_each(Bot::play);
        if tick % TICKS_PER_SECOND == 0 {
            let scores: Vec<String> = bots.iter().map(Bot::score).collect();
            println!("{:>2} s  {}", tick / TICKS_PER_SECOND, scores.join("   "));
        }
        thread::sleep(Duration::from_secs(1) / TICKS_PER_SECOND);
    }
    stop.stop()?;
    serving.join().map_err(|_| "the server's thread failed")??;
    Ok(())
}

/// A client with its sockets, that goes for the nearest coin.
struct Bot {
    client: Client,
    name: &'static str,
    stream: TcpStream,
    socket: UdpSocket,
    clock: Clock,
}

impl Bot {
    fn connect(name: &'static str, tcp: SocketAddr, udp: SocketAddr) -> Result<Self, Box<dyn Error>> {
        let stream = TcpStream::connect(tcp)?;
        stream.set_nonblocking(true)?;
        let socket = UdpSocket::bind((tcp.ip(), 0))?;
        socket.connect(udp)?;
        socket.set_nonblocking(true)?;
        let settings = ClientSettings {
            name: Name::new(name.as_bytes()).map_err(|error| format!("{name}: {error:?}"))?,
            entities_max: ENTITIES,
            snapshots_kept: 64 / usize::from(SNAPSHOT_INTERVAL) + 1,
        };
        Ok(Self { client: Client::new(&settings), name, stream, socket, clock: Clock::new() })
    }

    fn play(&mut self) {
        let now = self.clock.now();
        let mut buffer = [0; DATAGRAM_BYTES_MAX];
        while let Ok(len) = self.socket.recv(&mut buffer) {
            // What is dropped is counted by the client, and no reason to stop.
            let _ = self.client.datagram(now, now, &buffer[..len]);
        }
        match self.stream.read(&mut buffer) {
            Ok(len) if len > 0 => self.client.stream_bytes(now, &buffer[..len]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            _ => self.client.stream_closed(),
        }
        while self.client.poll_event().is_some() {}
        let controls = Controls::from_bits(self.way_to_a_coin()).expect("one direction");
        self.client.set_controls(controls);
        while let Some(byte) = self.client.stream_output() {
            if self.stream.write_all(&[byte]).is_err() {
                self.client.stream_closed();
            }
        }
        while let Some(len) = self.client.transmit(now, &mut buffer) {
            // Datagrams may get lost anywhere; here, too.
            let _ = self.socket.send(&buffer[..len]);
        }
    }

    /// Towards the nearest coin: sideways first, then up or down.
    fn way_to_a_coin(&self) -> u8 {
        let entities = || self.client.visible().map(|(_, entity)| entity);
        let Some(light) = entities().find(|entity| entity.owner() == self.client.player()) else { return 0 };
        let coins = entities().filter(|entity| entity.kind == Kind::TILE);
        let Some(coin) = coins.min_by_key(|coin| (coin.x - light.x).abs() + (coin.y - light.y).abs()) else {
            return 0;
        };
        match (coin.x - light.x, coin.y - light.y) {
            (1.., _) => Controls::RIGHT,
            (..0, _) => Controls::LEFT,
            (0, 1..) => Controls::DOWN,
            (0, ..0) => Controls::UP,
            (0, 0) => 0,
        }
    }

    fn score(&self) -> String {
        let standing = self.client.player().zip(self.client.table());
        let score =
            standing.and_then(|(slot, table)| table.players()[slot.index()]).map_or(0, |state| state.score);
        format!("{}: {score:>3}", self.name)
    }
}
