//! The beat: one server tick and one client tick after the other, for every library that is polled.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::usage::{Mark, Works, process_cpu_ns};
use crate::work::{
    ClientReport, EVENT_BYTES, EVENT_INTERVAL, JOIN_MAX, Job, Part, SNAPSHOT_BYTES, ServerReport, TAIL_TICKS,
    TICK, Tally, WARM_UP_TICKS, fill,
};

/// The server's side of a library.
pub trait Host {
    /// The UDP port that clients come to.
    fn port(&self) -> u16;

    /// Takes in everything that waits. Returns how many inputs there were.
    fn receive(&mut self) -> u64;

    /// Clients that are in.
    fn clients(&self) -> usize;

    /// Sends everyone who is in a snapshot and perhaps an event, each its own copy.
    fn send(&mut self, snapshot: &[u8], event: Option<&[u8]>);

    /// Brings what was sent on its way, as well as everything the library itself has to say.
    fn flush(&mut self);

    /// Passes the time until the next tick.
    fn sleep(&mut self, time: Duration) {
        thread::sleep(time);
    }
}

/// The side of one client.
pub trait Guest {
    /// Takes in everything that waits.
    fn receive(&mut self, tally: &mut Tally);

    /// Whether it may send inputs.
    fn is_in(&self) -> bool;

    /// Sends an input of one byte.
    fn send(&mut self, input: u8);

    /// Brings it on its way, as well as everything the library itself has to say.
    fn flush(&mut self);
}

/// Where a run is, by the ticks since everyone was in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    WarmUp,
    Window,
    Tail,
    Over,
}

impl Job {
    /// The stage that tick `tick` belongs to.
    pub fn stage(&self, tick: u64) -> Stage {
        match tick {
            _ if tick < WARM_UP_TICKS => Stage::WarmUp,
            _ if tick < WARM_UP_TICKS + self.ticks => Stage::Window,
            _ if tick < WARM_UP_TICKS + self.ticks + TAIL_TICKS => Stage::Tail,
            _ => Stage::Over,
        }
    }
}

/// Tells the driver where clients may come to.
pub fn say_ready(port: u16) {
    println!("ready {port}");
    let _ = std::io::stdout().flush();
}

/// Serves until the job is done.
pub fn serve(job: &Job, mut host: impl Host) -> Result<ServerReport, String> {
    say_ready(host.port());
    let mut beat = Beat::new(job.phase);
    let mut works = Works::new(job);
    let joining = Instant::now();
    while host.clients() < job.clients {
        if joining.elapsed() > JOIN_MAX {
            return Err(format!("only {} of {} clients came in", host.clients(), job.clients));
        }
        beat.wait(|time| host.sleep(time));
        host.receive();
        host.flush();
    }
    let (mut snapshot, mut event) = ([0; SNAPSHOT_BYTES], [0; EVENT_BYTES]);
    let (mut inputs, mut events, mut late_ticks) = (0, 0, 0);
    let mut mark = None;
    let mut report = ServerReport::default();
    for tick in 0.. {
        let is_late = beat.wait(|time| host.sleep(time));
        let stage = job.stage(tick);
        match stage {
            Stage::Window if mark.is_none() => {
                mark = Some(Mark::now(job));
                // Marking is no work.
                works.note(false);
            }
            Stage::Tail => {
                if let Some(mark) = mark.take() {
                    report = mark.report();
                }
            }
            Stage::Over => break,
            Stage::WarmUp | Stage::Window => {}
        }
        let received = host.receive();
        let part = if stage == Stage::Window { Part::Window } else { Part::Outside };
        fill(&mut snapshot, tick, part);
        let has_event = tick.is_multiple_of(EVENT_INTERVAL);
        fill(&mut event, tick, part);
        host.send(&snapshot, has_event.then_some(&event));
        host.flush();
        works.note(stage == Stage::Window);
        if stage == Stage::Window {
            inputs += received;
            late_ticks += u64::from(is_late);
            events += if has_event { job.clients as u64 } else { 0 };
        }
    }
    let snapshots = (job.snapshots_per_tick() * job.ticks as f64) as u64;
    let work_p999_ns = works.p999_ns();
    Ok(ServerReport { ticks: job.ticks, late_ticks, work_p999_ns, inputs, snapshots, events, ..report })
}

/// Clients that set out in one tick: enough to be quick, few enough to be let in.
const NEWCOMERS_PER_TICK: usize = 16;

/// Plays with as many guests as the job asks for until the driver closes standard input.
pub fn play<G: Guest>(
    job: &Job,
    mut make: impl FnMut(usize) -> Result<G, String>,
) -> Result<ClientReport, String> {
    let (began, cpu_ns) = (Instant::now(), process_cpu_ns());
    let is_over = end_of_input();
    let mut guests: Vec<G> = Vec::with_capacity(job.clients);
    let mut tally = Tally::default();
    let mut beat = Beat::new(job.phase);
    let mut tick = 0u8;
    while !is_over.load(Ordering::Relaxed) {
        beat.wait(thread::sleep);
        tick = tick.wrapping_add(1);
        for number in guests.len()..job.clients.min(guests.len() + NEWCOMERS_PER_TICK) {
            guests.push(make(number)?);
        }
        for guest in &mut guests {
            guest.receive(&mut tally);
            if guest.is_in() {
                guest.send(tick & 0x1F);
            }
            guest.flush();
        }
    }
    Ok(ClientReport { tally, cpu_ns: process_cpu_ns() - cpu_ns, wall_ns: began.elapsed().as_nanos() as u64 })
}

/// Set once standard input is closed.
fn end_of_input() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&flag);
    thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        told.store(true, Ordering::Relaxed);
    });
    flag
}

/// Sixty times a second. What is late is caught up with, up to a point.
struct Beat {
    next: Instant,
    phase: Duration,
}

impl Beat {
    fn new(phase: Duration) -> Self {
        Self { next: next_beat(phase), phase }
    }

    /// Returns whether the tick begins a whole tick late.
    fn wait(&mut self, sleep: impl FnOnce(Duration)) -> bool {
        self.next += TICK;
        let now = Instant::now();
        match self.next.checked_duration_since(now) {
            Some(left) => sleep(left),
            None if now - self.next > 4 * TICK => {
                self.next = next_beat(self.phase);
                return true;
            }
            None => {}
        }
        self.next.elapsed() >= TICK
    }
}

/// The next moment that is `phase` into a tick by the system's clock: so servers and clients that are to be compared
/// never get into each other's way in another manner than in the last run.
pub fn next_beat(phase: Duration) -> Instant {
    let (now, time) = (Instant::now(), clock_gettime(ClockId::Monotonic));
    let since_boot = Duration::new(time.tv_sec as u64, time.tv_nsec as u32);
    let into_tick = Duration::from_nanos((since_boot.as_nanos() % TICK.as_nanos()) as u64);
    now + (TICK + phase - into_tick)
}
