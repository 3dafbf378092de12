//! What the loop costs: an echo at 60 Hz over real loopback sockets, for both backends.
//!
//! `cargo bench --bench io_echo` prints, for each number of clients, the processor time of the loop's thread for a
//! datagram in and its echo out, and the system calls of a tick: the median of several runs, taken in turns so that
//! whatever else the machine does disturbs both alike. Lateness is how long after its time a tick ran, what it drained
//! before included. `-- --clients N` measures that number only; `-- --busy-poll-us N` and `-- --pin CPU` apply those
//! options.

use std::env;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time;

use tickwire::io::{self, Backend, IoOptions, Loop};
use tickwire::seam::{Core, DATAGRAM_BYTES_MAX, Door, Input, Outbox};
use tickwire::time::{Duration, Instant};

const PAYLOAD_BYTES: usize = 180;
const TICK: Duration = Duration::from_nanos(16_666_667);
const RUNS: usize = 5;
const WARM_UP_TICKS: usize = 30;
const TICKS: usize = 120;
/// As a test, only whether it works.
const TEST_TICKS: usize = 3;
/// The clients' datagrams come in so many bunches a tick.
const BUNCHES: usize = 16;

/// Echoes at each tick what came before it.
struct Echo {
    next_tick: Instant,
    lateness_ns: Vec<u64>,
    waiting: Vec<(SocketAddr, usize, [u8; DATAGRAM_BYTES_MAX])>,
    sent: usize,
}

impl Core for Echo {
    fn handle(&mut self, _: Instant, input: Input<'_>) {
        if let Input::Datagram { from, bytes, .. } = input {
            let mut buffer = [0; DATAGRAM_BYTES_MAX];
            buffer[..bytes.len()].copy_from_slice(bytes);
            self.waiting.push((from, bytes.len(), buffer));
        }
    }
    fn next_deadline(&self) -> Option<Instant> {
        None
    }
    fn next_tick(&self) -> Option<Instant> {
        Some(self.next_tick)
    }
    fn advance(&mut self, now: Instant) {
        if now >= self.next_tick {
            self.lateness_ns.push(now.since(self.next_tick).as_nanos());
            self.next_tick = (self.next_tick + TICK).max(now);
            self.sent = 0;
        }
    }
    fn transmit(&mut self, _: Instant, out: &mut Outbox) -> bool {
        while let Some((to, len, bytes)) = self.waiting.get(self.sent) {
            if !out.has_datagram_room() {
                return true;
            }
            out.datagram(Door::Aegis, *to, |buffer| {
                buffer[..*len].copy_from_slice(&bytes[..*len]);
                Some(*len)
            });
            self.sent += 1;
        }
        self.waiting.clear();
        self.sent = 0;
        false
    }
}

/// What a run came to.
#[derive(Clone, Copy)]
struct Cost {
    us_per_datagram: f64,
    calls_per_tick: f64,
    lateness_us: f64,
    lost: u64,
}

fn main() {
    let number = |flag: &str| {
        let mut args = env::args().skip_while(|arg| arg != flag);
        args.nth(1).and_then(|text| text.parse::<u32>().ok())
    };
    let busy_poll = Duration::from_micros(u64::from(number("--busy-poll-us").unwrap_or(0)));
    let pin = number("--pin");
    let has = |flag: &str| env::args().any(|arg| arg == flag);
    let is_bench = has("--bench") && !has("--test");
    let (sizes, runs, ticks): (&[usize], _, _) =
        if is_bench { (&[64, 256, 1024], RUNS, TICKS) } else { (&[8], 1, TEST_TICKS) };
    let one = number("--clients").map(|clients| [clients as usize]);
    let sizes = one.as_ref().map_or(sizes, |one| one);
    println!("clients  backend   CPU/datagram  calls/tick  late (median)  lost");
    for &clients in sizes {
        let mut costs = [Vec::new(), Vec::new()];
        for _ in 0..runs {
            for (backend, costs) in [Backend::Mio, Backend::IoUring].into_iter().zip(&mut costs) {
                costs.push(run(backend, clients, ticks, busy_poll, pin));
            }
        }
        for (name, mut costs) in ["epoll", "io_uring"].into_iter().zip(costs) {
            costs.sort_by(|a, b| a.us_per_datagram.total_cmp(&b.us_per_datagram));
            let Cost { us_per_datagram, calls_per_tick, lateness_us, .. } = costs[runs / 2];
            let lost: u64 = costs.iter().map(|cost| cost.lost).sum();
            println!(
                "{clients:7}  {name:8}  {us_per_datagram:9.2} µs  {calls_per_tick:10.1}  {lateness_us:10.1} µs  {lost:4}"
            );
        }
    }
}

fn run(backend: Backend, clients: usize, ticks: usize, busy_poll: Duration, pin: Option<u32>) -> Cost {
    let mut options = IoOptions::new(1, clients);
    options.backend = backend;
    options.busy_poll = busy_poll;
    options.doors[Door::Aegis as usize] = Some("127.0.0.1:0".parse().expect("an address"));
    let mut server = Loop::bind(&options).expect("loopback");
    let (_, address) = server.local_addrs().next().expect("a door");
    let is_over = Arc::new(AtomicBool::new(false));
    let players = {
        let is_over = Arc::clone(&is_over);
        thread::spawn(move || play(address, clients, &is_over))
    };
    let measured = thread::spawn(move || {
        if let Some(cpu) = pin {
            io::pin_thread(cpu).expect("such a processor");
        }
        measure(&mut server, ticks)
    });
    let cost = measured.join().expect("the server's thread");
    is_over.store(true, Ordering::Relaxed);
    players.join().expect("the clients' thread");
    cost
}

fn measure(server: &mut Loop, ticks: usize) -> Cost {
    let mut core = Echo {
        next_tick: server.clock().now() + TICK,
        lateness_ns: Vec::with_capacity(TICKS + WARM_UP_TICKS),
        waiting: Vec::with_capacity(8192),
        sent: 0,
    };
    let turn_ticks = |server: &mut Loop, core: &mut Echo, ticks: usize| {
        while core.lateness_ns.len() < ticks {
            server.run_turn(core).expect("the loop goes on");
        }
    };
    turn_ticks(server, &mut core, WARM_UP_TICKS);
    core.lateness_ns.clear();
    let (before, cpu_before) = (*server.stats(), thread_cpu_ns());
    turn_ticks(server, &mut core, ticks);
    let (after, cpu_ns) = (*server.stats(), thread_cpu_ns() - cpu_before);
    let datagrams = after.doors[0].datagrams_in - before.doors[0].datagrams_in;
    core.lateness_ns.sort_unstable();
    Cost {
        us_per_datagram: cpu_ns as f64 / 1000.0 / datagrams as f64,
        calls_per_tick: (after.calls.total() - before.calls.total()) as f64 / ticks as f64,
        lateness_us: core.lateness_ns[core.lateness_ns.len() / 2] as f64 / 1000.0,
        lost: after.doors[0].kernel_drops,
    }
}

/// What the calling thread has run, in nanoseconds.
fn thread_cpu_ns() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    text.split(' ').next().and_then(|ns| ns.parse().ok()).expect("a number")
}

/// Each client sends once a tick, in bunches spread over it, and takes what came back.
fn play(server: SocketAddr, clients: usize, is_over: &AtomicBool) {
    let sockets: Vec<_> = (0..clients)
        .map(|_| {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a client's socket");
            socket.connect(server).expect("loopback");
            socket.set_nonblocking(true).expect("a socket option");
            socket
        })
        .collect();
    let pause = time::Duration::from_nanos(TICK.as_nanos() / BUNCHES as u64);
    let mut next = time::Instant::now();
    let mut buffer = [0; DATAGRAM_BYTES_MAX];
    while !is_over.load(Ordering::Relaxed) {
        for bunch in sockets.chunks(clients.div_ceil(BUNCHES)) {
            for socket in bunch {
                // Full or refused, at the end of a run: as good as lost.
                let _ = socket.send(&[7; PAYLOAD_BYTES]);
                while socket.recv(&mut buffer).is_ok() {}
            }
            next += pause;
            thread::sleep(next.saturating_duration_since(time::Instant::now()));
        }
    }
}
