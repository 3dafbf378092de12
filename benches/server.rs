//! The server's own work, without sockets: one tick of 64 rooms with four players each who play the first level. The
//! clients are real ones; only the calls into the server are timed. Figures are per tick, the throughput per datagram in
//! or out.

use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration as Span, Instant as Stopwatch};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};

use tickwire::client::aegis::{Client, Settings as ClientSettings};
use tickwire::limits::Limits;
use tickwire::model::{Controls, Name};
use tickwire::rng::{Rng, TokenSource};
use tickwire::seam::{Core, DATAGRAM_BYTES_MAX, Door, Input, Outbox, StreamId};
use tickwire::server::{Server, Settings};
use tickwire::time::{Duration, Instant};
use tickwire::world::rtype::{Level, RtypeGame, Rules};

const ROOMS: usize = 64;
const PLAYERS: usize = ROOMS * 4;
const ENTITIES: usize = 128;

criterion_group!(benches, ticks);
criterion_main!(benches);

fn ticks(c: &mut Criterion) {
    for interval in [3u8, 1] {
        let mut match_ = Match::new(interval);
        let mut group = c.benchmark_group("server");
        // An input from everyone in each tick, and a snapshot to everyone in every `interval`th.
        group.throughput(Throughput::Elements((PLAYERS + PLAYERS / usize::from(interval)) as u64));
        group.bench_function(format!("tick_of_64_rooms_snapshot_every_{interval}"), |b| {
            b.iter_custom(|ticks| (0..ticks).map(|_| match_.tick()).sum());
        });
        group.finish();
    }
}

struct Match {
    server: Server<RtypeGame>,
    clients: Vec<(Client, SocketAddr)>,
    outbox: Outbox,
    now: Instant,
    rng: Rng,
    from_clients: Vec<(SocketAddr, Vec<u8>)>,
    to_clients: Vec<(SocketAddr, Vec<u8>)>,
}

impl Match {
    /// Everyone is in and the first waves are flying.
    fn new(interval: u8) -> Self {
        let limits = Limits::new(ROOMS, ENTITIES);
        let settings = Settings { snapshot_interval: interval, ..Settings::new(limits) };
        let level = Arc::new(Level::builtin("level1").expect("the first level"));
        let tokens = TokenSource::Seeded(Rng::new(1));
        let server =
            Server::new(settings, tokens, |_| RtypeGame::new(Arc::clone(&level), Rules::default(), ENTITIES));
        let mut match_ = Self {
            server,
            clients: Vec::new(),
            outbox: Outbox::new(64, 64),
            now: Instant::from_millis(1000),
            rng: Rng::new(2),
            from_clients: Vec::new(),
            to_clients: Vec::new(),
        };
        for number in 0..PLAYERS {
            match_.connect(number, interval);
        }
        for _ in 0..60 * 30 {
            match_.tick();
        }
        assert!(match_.clients.iter().all(|(client, _)| !client.is_over()), "everyone plays");
        match_
    }

    fn connect(&mut self, number: usize, interval: u8) {
        let name = Name::new(b"bench").expect("a name");
        let snapshots_kept = 64 / usize::from(interval) + 1;
        let mut client = Client::new(&ClientSettings { name, entities_max: ENTITIES, snapshots_kept });
        let address = SocketAddr::from(([10, 0, (number / 250) as u8, (number % 250) as u8], 1000));
        let stream = StreamId { index: number as u32, generation: 1 };
        let said: Vec<u8> = std::iter::from_fn(|| client.stream_output()).collect();
        self.server.handle(self.now, Input::StreamOpened { stream, peer: address });
        self.server.handle(self.now, Input::StreamBytes { stream, bytes: &said });
        self.server.transmit(self.now, &mut self.outbox);
        for op in self.outbox.streams() {
            client.stream_bytes(self.now, op.bytes());
        }
        self.outbox.clear();
        self.clients.push((client, address));
    }

    /// One tick; the time that the server took for it.
    fn tick(&mut self) -> Span {
        self.now = self.now + Duration::from_nanos(16_666_667);
        self.play();
        let start = Stopwatch::now();
        for (from, bytes) in &self.from_clients {
            let (now, door) = (self.now, Door::Aegis);
            self.server.handle(now, Input::Datagram { door, from: *from, at: now, bytes: black_box(bytes) });
        }
        self.server.advance(self.now);
        let mut spent = start.elapsed();
        self.to_clients.clear();
        loop {
            let start = Stopwatch::now();
            let is_more = self.server.transmit(self.now, &mut self.outbox);
            spent += start.elapsed();
            for (index, datagram) in self.outbox.datagrams().iter().enumerate() {
                self.to_clients.push((datagram.to, self.outbox.datagram_bytes(index).to_vec()));
            }
            self.outbox.clear();
            if !is_more {
                return spent;
            }
        }
    }

    /// The clients take what came, and say what they do next.
    fn play(&mut self) {
        for (to, bytes) in &self.to_clients {
            let SocketAddr::V4(v4) = to else { continue };
            let [_, _, high, low] = v4.ip().octets();
            let (client, _) = &mut self.clients[usize::from(high) * 250 + usize::from(low)];
            let _ = client.datagram(self.now, self.now, bytes);
        }
        self.from_clients.clear();
        let mut buffer = [0; DATAGRAM_BYTES_MAX];
        for (client, address) in &mut self.clients {
            if self.rng.chance(1, 20) {
                let bits = self.rng.below(16) as u8 | if self.rng.chance(1, 4) { Controls::SHOOT } else { 0 };
                client.set_controls(Controls::from_bits(bits).expect("five bits"));
            }
            while client.poll_event().is_some() {}
            while let Some(len) = client.transmit(self.now, &mut buffer) {
                self.from_clients.push((*address, buffer[..len].to_vec()));
            }
        }
    }
}
