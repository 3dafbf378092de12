//! tickwire itself, over each of its protocols: its own loop and its own clients. A snapshot is a real one here, encoded
//! for every client: the delta of a room's entities against what the client has acknowledged, or over R-Type where all
//! of them are.

mod fignet;
mod rtype;

use std::cell::Cell;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::rc::Rc;
use std::thread;
use std::time::Instant;

use ::tickwire::client::aegis::{Client, Phase, Settings};
use ::tickwire::io::{AEGIS_TCP, Backend, Clock, IoOptions, Loop, door_name};
use ::tickwire::limits::Limits;
use ::tickwire::model::{
    Controls, DestroyReason, Entity, EntityId, EntityTable, GameEvent, Kind, Name, PLAYERS_MAX, PlayerId,
    PlayerInput, PlayerState,
};
use ::tickwire::rng::TokenSource;
use ::tickwire::seam::{DATAGRAM_BYTES_MAX, Door};
use ::tickwire::server::{self, FignetSettings, Server, Stats};
use ::tickwire::wire::aegis::HEADER_BYTES;
use ::tickwire::wire::aegis::event::Event;
use ::tickwire::world::{Events, Game};

use crate::pace::{Guest, Stage, next_beat, say_ready};
use crate::usage::{Mark, Works};
use crate::work::{EVENT_INTERVAL, JOIN_MAX, Job, Part, ServerReport, Tally, mix};

pub use self::fignet::FignetGuest;
pub use self::rtype::RtypeGuest;

/// Entities of a room: their changes make a snapshot of about 160 bytes over Aegis and over FigNet, and their places one
/// of 160 over R-Type.
const ENTITIES: usize = 17;
const ENTITIES_RTYPE: usize = 14;
const ENTITIES_FIGNET: usize = 13;

/// Entity slots: more for the events', whose places say where they belong.
const SLOTS: usize = ENTITIES + 1 + Part::Window as usize;

/// Places along each side of a room, in the world's units.
const PLACES: i32 = 1 << 18;

/// Serves the job over `backend` to the clients of `door`.
pub fn serve(job: &Job, backend: Backend, door: Door) -> Result<ServerReport, String> {
    let mut limits = Limits::new(job.clients.div_ceil(PLAYERS_MAX), SLOTS);
    if door == Door::Rtype {
        limits = limits.with_rtype();
    }
    let mut options = IoOptions::new(limits.streams, limits.sessions);
    options.backend = backend;
    // Its ticks count from its start.
    thread::sleep(next_beat(job.phase).saturating_duration_since(Instant::now()));
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    options.aegis_tcp = Some(any);
    options.doors[Door::Aegis as usize] = Some(any);
    options.doors[door as usize] = Some(any);
    let mut io = Loop::bind(&options).map_err(|error| error.to_string())?;
    let wanted = if backend == Backend::IoUring { "io_uring" } else { "epoll" };
    if io.backend() != wanted {
        return Err(format!("this system refuses {wanted}"));
    }
    let port = |name| io.local_addrs().find(|(found, _)| *found == name).map_or(0, |(_, at)| at.port());
    let settings = server::Settings {
        snapshot_interval: job.snapshot_interval as u8,
        aegis_udp_port: port(door_name(Door::Aegis)),
        fignet: (door == Door::Fignet).then(|| FignetSettings { config: fignet::config(job), epoch: 1 }),
        ..server::Settings::new(limits)
    };
    say_ready(port(if door == Door::Aegis { AEGIS_TCP } else { door_name(door) }));
    let shared = Rc::new(Shared { part: Cell::new(Part::Outside), events: Cell::new(0) });
    let mut server = Server::new(settings, TokenSource::Os, |_| Crowd::new(Rc::clone(&shared), door));
    let mut watch = Watch {
        job: *job,
        shared,
        began: Instant::now(),
        since: None,
        mark: None,
        report: None,
        works: Works::new(job),
        ticks: 0,
        settling_ticks: if door == Door::Fignet { fignet::SETTLING_TICKS } else { 0 },
    };
    let mut failed = None;
    let ran = io.run(&mut server, |server, _| {
        watch.look(server).unwrap_or_else(|error| {
            failed = Some(error);
            true
        })
    });
    ran.map_err(|error| error.to_string())?;
    match failed {
        Some(error) => Err(error),
        None => watch.report.ok_or_else(|| "the loop was stopped".to_owned()),
    }
}

/// What the games and the watch tell each other.
struct Shared {
    part: Cell<Part>,
    /// Events that happened, once for each who is to hear of them.
    events: Cell<u64>,
}

/// Looks at the server after every turn, and marks the window.
struct Watch {
    job: Job,
    shared: Rc<Shared>,
    began: Instant,
    /// The server's ticks when everyone was in.
    since: Option<u64>,
    mark: Option<(Mark, Stats, u64)>,
    report: Option<ServerReport>,
    works: Works,
    /// The server's ticks at the last turn.
    ticks: u64,
    /// Ticks of play until there is a snapshot in every tick.
    settling_ticks: u64,
}

impl Watch {
    /// Returns whether it is over.
    fn look(&mut self, server: &Server<Crowd>) -> Result<bool, String> {
        let stats = server.stats();
        let Some(since) = self.since else {
            if self.began.elapsed() > JOIN_MAX {
                return Err(format!("only {} clients came in", stats.sessions_bound));
            }
            if stats.sessions_bound >= self.job.clients as u64 {
                self.since = Some(stats.ticks + self.settling_ticks);
            }
            return Ok(false);
        };
        if stats.ticks > self.ticks {
            self.ticks = stats.ticks;
            self.works.note(self.mark.is_some());
        }
        match self.job.stage(stats.ticks.saturating_sub(since)) {
            Stage::WarmUp => {}
            Stage::Window => {
                if self.mark.is_none() {
                    self.shared.part.set(Part::Window);
                    self.mark = Some((Mark::now(&self.job), *stats, self.shared.events.get()));
                    // Marking is no work.
                    self.works.note(false);
                }
            }
            Stage::Tail => {
                if let Some((mark, before, events_before)) = self.mark.take() {
                    self.shared.part.set(Part::Outside);
                    let ticks = stats.ticks - before.ticks;
                    let events = self.shared.events.get() - events_before;
                    self.report = Some(ServerReport {
                        ticks,
                        late_ticks: stats.late_ticks - before.late_ticks,
                        work_p999_ns: self.works.p999_ns(),
                        inputs: stats.datagrams_in - before.datagrams_in,
                        snapshots: stats.snapshots_out - before.snapshots_out,
                        events,
                        ..mark.report()
                    });
                }
            }
            Stage::Over => return Ok(true),
        }
        Ok(false)
    }
}

/// A game of entities that never do what was predicted of them, and an event now and then.
struct Crowd {
    shared: Rc<Shared>,
    door: Door,
    entities: EntityTable,
    players: [Option<PlayerState>; PLAYERS_MAX],
    tick: u64,
}

impl Crowd {
    fn new(shared: Rc<Shared>, door: Door) -> Self {
        let entities = EntityTable::new(SLOTS);
        let mut crowd = Self { shared, door, entities, players: [None; PLAYERS_MAX], tick: 0 };
        crowd.fill();
        crowd
    }

    /// Entities that move.
    fn len(&self) -> u64 {
        let entities = match self.door {
            Door::Aegis => ENTITIES,
            Door::Rtype => ENTITIES_RTYPE,
            Door::Fignet => ENTITIES_FIGNET,
        };
        entities as u64
    }

    /// What happens now and then. It is about no entity of any snapshot: the event is all that is told of it.
    fn event(&self) -> GameEvent {
        let part = self.shared.part.get();
        let generation = (self.tick / EVENT_INTERVAL) as u8;
        match self.door {
            // R-Type looks at a creation's entity when it writes of it, and only the end of one needs none. Its index
            // marks the window.
            Door::Rtype => GameEvent::Destroy {
                id: rtype::event_id(part, generation),
                reason: DestroyReason::Killed,
                x: 64,
                y: 64,
            },
            // The owner marks the window.
            Door::Aegis | Door::Fignet => GameEvent::Spawn {
                id: EntityId::new(SLOTS as u32, generation),
                kind: Kind::MISSILE,
                owner: PlayerId::new(part as u8),
                x: 64,
                y: 64,
                vx: 1,
                vy: 1,
            },
        }
    }

    fn fill(&mut self) {
        self.entities.reset();
        for number in 0..self.len() {
            let chance = mix(number);
            let (x, y) = ((chance & 0xFFFF) as i32, (chance >> 16 & 0xFFFF) as i32);
            self.entities.insert(Entity::new(Kind::BYDOS).moving(x, y, 0, 0));
        }
    }
}

impl Game for Crowd {
    fn reset(&mut self, _seed: u64) {
        self.players = [None; PLAYERS_MAX];
        self.tick = 0;
        self.fill();
    }

    fn join(&mut self, player: PlayerId, _events: &mut Events) {
        self.players[player.index()] = Some(PlayerState { alive: true, lives: 3, score: 0 });
    }

    fn leave(&mut self, player: PlayerId, _events: &mut Events) {
        self.players[player.index()] = None;
    }

    fn step(&mut self, _inputs: &[PlayerInput; PLAYERS_MAX], events: &mut Events) {
        self.tick += 1;
        let part = self.shared.part.get();
        let health = 1 + part as u8;
        for index in 1..=self.len() as u32 {
            let Some(entity) = self.entities.get_mut(index) else { continue };
            let chance = mix(self.tick << 8 | u64::from(index));
            let small = |shift: u32| (chance >> shift & 0x1FF) as i32 - 256;
            let (x, y) = ((entity.x + small(0)) & (PLACES - 1), (entity.y + small(9)) & (PLACES - 1));
            *entity = entity.moving(x, y, small(18) as i16, small(27) as i16);
            entity.health = health;
            if index == 1 && self.door == Door::Rtype {
                entity.x = rtype::mark_x(part);
            }
        }
        if self.tick.is_multiple_of(EVENT_INTERVAL) {
            events.push(self.event());
            let listeners = self.players.iter().flatten().count() as u64;
            self.shared.events.set(self.shared.events.get() + listeners);
        }
    }

    fn players(&self) -> &[Option<PlayerState>; PLAYERS_MAX] {
        &self.players
    }

    fn entities(&self) -> &EntityTable {
        &self.entities
    }

    fn focus(&self, _player: PlayerId) -> Option<u32> {
        None
    }

    /// All that there is.
    fn playfield(&self) -> [i32; 2] {
        [PLACES, PLACES]
    }

    fn state_hash(&self) -> u64 {
        self.tick
    }
}

/// One client with its two sockets.
pub struct TickwireGuest {
    client: Client,
    stream: TcpStream,
    socket: UdpSocket,
    clock: Clock,
    controls: Controls,
    has_peer: bool,
}

impl TickwireGuest {
    pub fn connect(port: u16, number: usize) -> Result<Self, String> {
        let name = Name::new(format!("peer {number}").as_bytes()).map_err(|error| format!("{error:?}"))?;
        let open = || -> io::Result<Self> {
            let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            socket.set_nonblocking(true)?;
            let client = Client::new(&Settings { name, entities_max: SLOTS, snapshots_kept: 65 });
            let clock = Clock::new();
            Ok(Self { client, stream, socket, clock, controls: Controls::RELEASED, has_peer: false })
        };
        open().map_err(|error| format!("client {number}: {error}"))
    }

    fn receive_stream(&mut self) {
        let mut buffer = [0; 64];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.client.stream_closed(),
            Ok(len) => self.client.stream_bytes(self.clock.now(), &buffer[..len]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.client.stream_closed(),
        }
        if let (Some(port), false) = (self.client.udp_port(), self.has_peer) {
            self.has_peer = self.socket.connect((Ipv4Addr::LOCALHOST, port)).is_ok();
        }
    }

    fn note_events(&mut self, tally: &mut Tally) {
        while let Some(event) = self.client.poll_event() {
            if let Event::Spawn { owner: Some(owner), .. } = event {
                tally.events += u64::from(owner.get() == Part::Window as u8);
            }
        }
    }
}

impl Guest for TickwireGuest {
    fn receive(&mut self, tally: &mut Tally) {
        if self.client.phase() != Phase::Playing {
            self.receive_stream();
        }
        let now = self.clock.now();
        let mut buffer = [0; DATAGRAM_BYTES_MAX];
        while let Ok(len) = self.socket.recv(&mut buffer) {
            let before = self.client.stats().snapshots;
            let _ = self.client.datagram(now, now, &buffer[..len]);
            if self.client.stats().snapshots > before {
                let entity = self.client.last_applied().and_then(|table| table.iter().next());
                let is_of_window = entity.is_some_and(|(_, entity)| entity.health == 1 + Part::Window as u8);
                tally.snapshots += u64::from(is_of_window);
                tally.snapshot_bytes += if is_of_window { (len - HEADER_BYTES) as u64 } else { 0 };
            }
        }
        self.note_events(tally);
    }

    fn is_in(&self) -> bool {
        self.client.phase() == Phase::Playing
    }

    fn send(&mut self, input: u8) {
        self.controls = Controls::from_bits(input & 0x1F).unwrap_or_default();
        self.client.set_controls(self.controls);
    }

    fn flush(&mut self) {
        if self.client.phase() == Phase::LoggingIn {
            let said: Vec<u8> = std::iter::from_fn(|| self.client.stream_output()).collect();
            if !said.is_empty() && self.stream.write_all(&said).is_err() {
                self.client.stream_closed();
            }
        }
        let now = self.clock.now();
        let mut buffer = [0; DATAGRAM_BYTES_MAX];
        while let Some(len) = self.client.transmit(now, &mut buffer) {
            // What the system refuses is lost, as on any network.
            let _ = self.socket.send(&buffer[..len]);
        }
    }
}
