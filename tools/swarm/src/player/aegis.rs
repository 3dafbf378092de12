//! A player over the Aegis protocol: the library's client, with a hand at its controls and a judge beside it.

use tickwire::client::aegis::{Client, Ignored, Over, Phase, Settings as ClientSettings};
use tickwire::limits::TICK_RATE_HZ;
use tickwire::model::{Controls, Name};
use tickwire::rng::Rng;
use tickwire::seam::DATAGRAM_BYTES_MAX;
use tickwire::time::{Duration, Instant, Tick};
use tickwire::wire::aegis::event::Event;
use tickwire::wire::aegis::snapshot::SnapshotError;
use tickwire::wire::aegis::{Header, PacketKind};

use super::checks::Checks;
use super::{Player, Settings, State};
use crate::tally::{Fault, Tally};

/// An Aegis client that plays.
#[derive(Debug)]
pub struct AegisPlayer {
    client: Client,
    hand: Hand,
    checks: Checks,
    /// Tick and time of the newest snapshot.
    newest: Option<(Tick, Instant)>,
    /// Ignored events that were counted as faults.
    events_ignored: u64,
    is_leaving: bool,
    is_over_told: bool,
}

impl Player for AegisPlayer {
    fn new(index: usize, settings: &Settings) -> Self {
        let name = Name::new(format!("s{index}").as_bytes()).expect("a letter and a few digits are a name");
        let client = Client::new(&ClientSettings {
            name,
            entities_max: settings.entities_max,
            snapshots_kept: settings.snapshots_kept,
        });
        Self {
            client,
            hand: Hand::new(settings.seed ^ index as u64),
            checks: Checks::new(),
            newest: None,
            events_ignored: 0,
            is_leaving: false,
            is_over_told: false,
        }
    }

    fn state(&self) -> State {
        match self.client.phase() {
            Phase::LoggingIn | Phase::Binding => State::Joining,
            Phase::Playing => State::Playing,
            Phase::Over(_) => State::Over,
        }
    }

    fn stream_output(&mut self) -> Option<u8> {
        self.client.stream_output()
    }

    fn stream_bytes(&mut self, now: Instant, bytes: &[u8], tally: &mut Tally) {
        self.client.stream_bytes(now, bytes);
        self.tell_over(tally);
    }

    fn stream_closed(&mut self, tally: &mut Tally) {
        self.client.stream_closed();
        self.tell_over(tally);
    }

    fn udp_port(&self) -> Option<u16> {
        self.client.udp_port()
    }

    fn datagram(&mut self, now: Instant, bytes: &[u8], tally: &mut Tally) {
        if self.is_leaving {
            // What was on its way when the player left.
            return;
        }
        let taken = self.client.datagram(now, now, bytes);
        let Ok(header) = Header::parse(bytes) else { return tally.fault(Fault::BadHeader) };
        match taken {
            Ok(()) | Err(Ignored::Snapshot(SnapshotError::MissingBaseline)) => {
                self.checks.received(now, header.sequence, header.ack, header.ack_bits, tally);
            }
            Err(_) => {}
        }
        match taken {
            Ok(()) if header.kind == PacketKind::Snapshot => self.take_snapshot(now, tally),
            Ok(()) => {}
            Err(Ignored::Header) => tally.fault(Fault::BadHeader),
            Err(Ignored::Foreign) => tally.fault(Fault::Foreign),
            Err(Ignored::Malformed) => tally.fault(Fault::Malformed),
            Err(Ignored::Snapshot(SnapshotError::MissingBaseline)) => tally.fault(Fault::MissingBaseline),
            Err(Ignored::Snapshot(_)) => tally.fault(Fault::BadSnapshot),
            Err(Ignored::Stale) => tally.fault(Fault::Repeated),
        }
        self.take_events(tally);
        self.tell_over(tally);
    }

    fn transmit(
        &mut self,
        due: Instant,
        now: Instant,
        buffer: &mut [u8; DATAGRAM_BYTES_MAX],
        tally: &mut Tally,
    ) -> Option<usize> {
        self.client.set_controls(self.hand.controls(due));
        // The client paces itself by the time it is told. Told when its turn was due, and not when it came, it sends
        // in every turn.
        let len = self.client.transmit(due, buffer);
        if let Some(len) = len {
            let is_input = Header::parse(&buffer[..len]).is_ok_and(|header| header.kind == PacketKind::Input);
            self.checks.sent(now, is_input, tally);
        }
        self.tell_over(tally);
        len
    }

    fn leave(&mut self) {
        self.is_leaving = true;
        self.client.leave();
    }

    fn session_key(&self) -> Option<u32> {
        self.client.player().map(|_| self.client.link().token())
    }

    fn key_of(bytes: &[u8]) -> Option<u32> {
        Header::parse(bytes).ok().map(|header| header.session)
    }
}

impl AegisPlayer {
    fn take_snapshot(&mut self, now: Instant, tally: &mut Tally) {
        let Some(table) = self.client.last_applied() else { return };
        let tick = Tick(table.tick());
        let interval_ticks = u32::from(self.client.snapshot_interval()).max(1);
        let Some((before, before_at)) = self.newest else {
            self.newest = Some((tick, now));
            return;
        };
        let counted = u64::from(tally.is_measuring);
        tally.counters.snapshots_received += counted;
        let ticks = tick.since(before);
        if ticks == 0 || ticks >= 1 << 31 {
            // Overtaken on its way: it was expected already when the newer one came.
            return;
        }
        tally.counters.snapshots_expected += counted * u64::from(ticks.div_ceil(interval_ticks));
        let expected = Duration::from_secs(u64::from(ticks)).per(u64::from(TICK_RATE_HZ));
        tally.interval(now.since(before_at), expected);
        self.newest = Some((tick, now));
    }

    fn take_events(&mut self, tally: &mut Tally) {
        while let Some(event) = self.client.poll_event() {
            self.checks.event(print(&event), tally);
        }
        let ignored = self.client.stats().events_ignored;
        tally.faults.add(Fault::EventIgnored, ignored - self.events_ignored);
        self.events_ignored = ignored;
    }

    /// Counts the end once, unless it was the player's own wish.
    fn tell_over(&mut self, tally: &mut Tally) {
        let Phase::Over(over) = self.client.phase() else { return };
        if self.is_over_told || self.is_leaving {
            return;
        }
        self.is_over_told = true;
        tally.fault(match over {
            Over::Rejected(_) => Fault::Rejected,
            Over::LoggedOut(_) | Over::Disconnected => Fault::Dismissed,
            Over::Closed => Fault::Connection,
            Over::BadStream(_) => Fault::BadStream,
            Over::TimedOut => Fault::TimedOut,
            Over::Left => return,
        });
    }
}

/// A number for an event that no other of the same session has: the same thing happens once in a tick.
fn print(event: &Event) -> u64 {
    let (kind, tick, what) = match *event {
        Event::Spawn { tick, id, .. } => (1, tick, id.0),
        Event::Destroy { tick, id, .. } => (2, tick, id.0),
        Event::Death { tick, player, .. } => (3, tick, u32::from(player.get())),
        Event::PlayerJoined { tick, player, .. } => (4, tick, u32::from(player.get())),
        Event::PlayerLeft { tick, player, .. } => (5, tick, u32::from(player.get())),
        Event::GameOver { tick, .. } => (6, tick, 0),
    };
    // Ticks of a run fit 29 bits: a hundred days.
    kind << 61 | u64::from(tick & 0x1FFF_FFFF) << 32 | u64::from(what)
}

/// Flies about and shoots by chance, as people do: another course a few times in a second, and the trigger once or
/// twice.
#[derive(Debug)]
struct Hand {
    rng: Rng,
    course: u8,
    is_pressed: bool,
    turn_at: Instant,
    trigger_at: Instant,
}

impl Hand {
    fn new(seed: u64) -> Self {
        let rng = Rng::new(seed);
        Self { rng, course: 0, is_pressed: false, turn_at: Instant::ZERO, trigger_at: Instant::ZERO }
    }

    fn controls(&mut self, now: Instant) -> Controls {
        if now >= self.turn_at {
            self.turn_at = now + Duration::from_millis(150 + u64::from(self.rng.below(500)));
            self.course = self.rng.below(16) as u8;
        }
        if now >= self.trigger_at {
            self.is_pressed = !self.is_pressed;
            let pause_ms = if self.is_pressed { 100 } else { 300 + self.rng.below(500) };
            self.trigger_at = now + Duration::from_millis(u64::from(pause_ms));
        }
        let trigger = if self.is_pressed { Controls::SHOOT } else { 0 };
        Controls::from_bits(self.course | trigger).expect("five bits")
    }
}
