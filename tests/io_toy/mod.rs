//! A toy core for the I/O tests: it echoes, records what it is told, and does a few tricks when a stream asks. It
//! allocates nothing after creation.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time;

use tickwire::io::{Backend, BindError, IoOptions, Loop, RECEIVE_BUFFER_BYTES, Turn, UringLoop};
use tickwire::seam::{Core, DATAGRAM_BYTES_MAX, Door, Input, Outbox, StreamId};
use tickwire::time::{Duration, Instant};

/// Makes each function a test over every backend that this system has.
macro_rules! over_each_backend {
    ($($test:ident,)+) => {
        mod mio { $(#[test] fn $test() { super::$test(tickwire::io::Backend::Mio); })+ }
        mod io_uring {
            $(#[test] fn $test() {
                if super::io_toy::has_uring() {
                    super::$test(tickwire::io::Backend::IoUring);
                }
            })+
        }
    };
}

/// How long a test may wait for something before it counts as never coming.
const PATIENCE: time::Duration = time::Duration::from_secs(20);

/// Makes sure that a loop with nothing to do still comes round, so that a test can look at it.
const HEARTBEAT: Duration = Duration::from_millis(5);

const RECORDS_MAX: usize = 65_536;

#[derive(Clone, Copy, Debug)]
pub struct Datagram {
    pub door: Door,
    pub from: SocketAddr,
    pub at: Instant,
    pub now: Instant,
    pub len: usize,
    /// Its first eight bytes.
    pub head: [u8; 8],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamEvent {
    Opened(StreamId, SocketAddr),
    Bytes(StreamId, usize),
    Closed(StreamId),
}

/// Streams make it do things with the first of the bytes that they deliver:
/// `e` echoes, `c` echoes and closes, `f` floods the stream with output until it ends.
#[derive(Debug)]
pub struct Toy {
    /// The time between ticks; a tick is when datagrams are echoed. `None`: nobody plays, and they are echoed at once.
    pub tick: Option<Duration>,
    pub heartbeat: bool,
    pub next_tick: Instant,
    next_heartbeat: Instant,
    /// Ticks run, and the least and the most that one was late.
    pub ticks: u64,
    pub tick_was_early: bool,
    pub datagrams: Vec<Datagram>,
    pub streams: Vec<StreamEvent>,
    echoes: VecDeque<(Door, SocketAddr, usize, [u8; RECEIVE_BUFFER_BYTES])>,
    echoes_due: usize,
    stream_echoes: VecDeque<(StreamId, [u8; 30], usize, bool)>,
    pub flooded: Option<StreamId>,
    pub now: Instant,
}

impl Toy {
    /// Nobody plays.
    pub fn idle() -> Self {
        Self {
            tick: None,
            heartbeat: true,
            next_tick: Instant::ZERO,
            next_heartbeat: Instant::ZERO,
            ticks: 0,
            tick_was_early: false,
            datagrams: Vec::with_capacity(RECORDS_MAX),
            streams: Vec::with_capacity(RECORDS_MAX),
            echoes: VecDeque::with_capacity(RECORDS_MAX / 8),
            echoes_due: 0,
            stream_echoes: VecDeque::with_capacity(64),
            flooded: None,
            now: Instant::ZERO,
        }
    }

    /// Somebody plays, with a tick every `tick` from now on.
    pub fn playing(now: Instant, tick: Duration) -> Self {
        let mut toy = Self::idle();
        toy.play(now, tick);
        toy
    }

    pub fn play(&mut self, now: Instant, tick: Duration) {
        self.tick = Some(tick);
        self.next_tick = now + tick;
    }

    pub fn send(&mut self, door: Door, to: SocketAddr, bytes: &[u8]) {
        let mut buffer = [0; RECEIVE_BUFFER_BYTES];
        buffer[..bytes.len()].copy_from_slice(bytes);
        self.echoes.push_back((door, to, bytes.len(), buffer));
    }

    pub fn send_stream(&mut self, stream: StreamId, bytes: &[u8], close: bool) {
        let mut buffer = [0; 30];
        buffer[..bytes.len()].copy_from_slice(bytes);
        self.stream_echoes.push_back((stream, buffer, bytes.len(), close));
    }

    pub fn opened(&self) -> Vec<StreamId> {
        let opened = |event: &StreamEvent| match event {
            StreamEvent::Opened(stream, _) => Some(*stream),
            _ => None,
        };
        self.streams.iter().filter_map(opened).collect()
    }

    pub fn closed(&self) -> Vec<StreamId> {
        let closed = |event: &StreamEvent| match event {
            StreamEvent::Closed(stream) => Some(*stream),
            _ => None,
        };
        self.streams.iter().filter_map(closed).collect()
    }

    fn see(&mut self, now: Instant) {
        assert!(now >= self.now, "time went back");
        self.now = now;
    }
}

impl Core for Toy {
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        self.see(now);
        match input {
            Input::Datagram { door, from, at, bytes } => {
                assert!(at <= now, "received later than now");
                let mut head = [0; 8];
                let len = bytes.len().min(8);
                head[..len].copy_from_slice(&bytes[..len]);
                assert!(self.datagrams.len() < RECORDS_MAX);
                self.datagrams.push(Datagram { door, from, at, now, len: bytes.len(), head });
                if bytes.len() <= DATAGRAM_BYTES_MAX {
                    self.send(door, from, bytes);
                }
            }
            Input::StreamOpened { stream, peer } => self.streams.push(StreamEvent::Opened(stream, peer)),
            Input::StreamBytes { stream, bytes } => {
                self.streams.push(StreamEvent::Bytes(stream, bytes.len()));
                match bytes[0] {
                    b'e' => self.send_stream(stream, &bytes[..bytes.len().min(30)], false),
                    b'c' => self.send_stream(stream, &bytes[..bytes.len().min(30)], true),
                    b'f' => self.flooded = Some(stream),
                    _ => {}
                }
            }
            Input::StreamClosed { stream } => {
                self.streams.push(StreamEvent::Closed(stream));
                self.flooded = self.flooded.filter(|flooded| *flooded != stream);
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let heartbeat = self.heartbeat.then_some(self.next_heartbeat);
        heartbeat.into_iter().chain(self.next_tick()).min()
    }

    fn next_tick(&self) -> Option<Instant> {
        self.tick.map(|_| self.next_tick)
    }

    fn advance(&mut self, now: Instant) {
        self.see(now);
        if now >= self.next_heartbeat {
            self.next_heartbeat = now + HEARTBEAT;
        }
        let Some(tick) = self.tick else {
            self.echoes_due = self.echoes.len();
            return;
        };
        if now >= self.next_tick {
            self.ticks += 1;
            self.echoes_due = self.echoes.len();
            self.next_tick = (self.next_tick + tick).max(now);
        }
    }

    fn transmit(&mut self, now: Instant, out: &mut Outbox) -> bool {
        self.see(now);
        while self.echoes_due > 0 {
            if !out.has_datagram_room() {
                return true;
            }
            self.echoes_due -= 1;
            let (door, to, len, bytes) = self.echoes.pop_front().expect("an echo that is due");
            out.datagram(door, to, |buffer| {
                buffer[..len].copy_from_slice(&bytes[..len]);
                Some(len)
            });
        }
        while let Some((stream, bytes, len, close)) = self.stream_echoes.pop_front() {
            if !out.has_stream_room() {
                self.stream_echoes.push_front((stream, bytes, len, close));
                return true;
            }
            out.stream(stream, &bytes[..len], close);
        }
        if let Some(stream) = self.flooded {
            while out.has_stream_room() {
                out.stream(stream, &[b'f'; 30], false);
            }
            return true;
        }
        false
    }
}

/// Options for all of loopback's IPv4: every door and the login listener, on ports that the system picks.
pub fn everything(backend: Backend, streams_max: usize, sessions_max: usize) -> IoOptions {
    everything_at(backend, "127.0.0.1:0", streams_max, sessions_max)
}

pub fn everything_at(backend: Backend, address: &str, streams_max: usize, sessions_max: usize) -> IoOptions {
    let address = address.parse().expect("an address");
    let mut options = IoOptions::new(streams_max, sessions_max);
    options.backend = backend;
    options.aegis_tcp = Some(address);
    options.doors = [Some(address); Door::COUNT];
    options
}

/// Whether the kernel lets us use io_uring; says why not.
pub fn has_uring() -> bool {
    match UringLoop::bind(&IoOptions::new(1, 1)) {
        Ok(_) => true,
        Err(BindError::Refused { source, .. }) => {
            println!("skipped over io_uring, which is refused: {source}");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

pub fn bind(options: &IoOptions) -> Loop {
    Loop::bind(options).expect("loopback sockets")
}

pub fn address_of(server: &Loop, name: &str) -> SocketAddr {
    server.local_addrs().find(|(other, _)| *other == name).expect("such a listener").1
}

/// A UDP client connected to the listener called `name`.
pub fn udp_client(server: &Loop, name: &str) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a client's socket");
    socket.connect(address_of(server, name)).expect("loopback");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    socket
}

pub fn tcp_client(server: &Loop) -> TcpStream {
    let stream = TcpStream::connect(address_of(server, "aegis-tcp")).expect("loopback");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

/// Turns the loop until `is_done`, and fails when that never comes.
pub fn turn_until(server: &mut Loop, toy: &mut Toy, mut is_done: impl FnMut(&Loop, &Toy) -> bool) -> Turn {
    let started = time::Instant::now();
    loop {
        let turn = server.run_turn(toy).expect("the loop goes on");
        if is_done(server, toy) {
            return turn;
        }
        assert!(started.elapsed() < PATIENCE, "it never came: {:?} {:?}", server.stats(), toy.streams.last());
    }
}
