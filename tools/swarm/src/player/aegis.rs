//! A player over the Aegis protocol: the library's client, with a hand at its controls and a judge beside it.

use std::net::SocketAddr;

use tickwire::client::aegis::{Client, Ignored, Over, Phase, Settings as ClientSettings};
use tickwire::model::Name;
use tickwire::seam::DATAGRAM_BYTES_MAX;
use tickwire::time::{Instant, Tick};
use tickwire::wire::aegis::event::Event;
use tickwire::wire::aegis::snapshot::SnapshotError;
use tickwire::wire::aegis::{Header, PacketKind};

use super::checks::{Cadence, Checks};
use super::hand::Hand;
use super::{Player, Settings, State};
use crate::tally::{Fault, Tally};

/// An Aegis client that plays.
#[derive(Debug)]
pub struct AegisPlayer {
    client: Client,
    hand: Hand,
    checks: Checks,
    cadence: Cadence,
    /// Events that came again, and ignored events, that were counted.
    events_again: u64,
    events_ignored: u64,
    is_leaving: bool,
    is_over_told: bool,
}

impl Player for AegisPlayer {
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

    fn udp(&self, server: SocketAddr) -> Option<SocketAddr> {
        self.client.udp_port().map(|port| SocketAddr::new(server.ip(), port))
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
}

impl AegisPlayer {
    /// The `index`th of the swarm.
    pub fn new(index: usize, settings: &Settings) -> Self {
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
            cadence: Cadence::default(),
            events_again: 0,
            events_ignored: 0,
            is_leaving: false,
            is_over_told: false,
        }
    }

    fn take_snapshot(&mut self, now: Instant, tally: &mut Tally) {
        let Some(table) = self.client.last_applied() else { return };
        let tick = Tick(table.tick());
        let interval_ticks = u32::from(self.client.snapshot_interval()).max(1);
        self.cadence.snapshot(now, tick, interval_ticks, tally);
    }

    fn take_events(&mut self, tally: &mut Tally) {
        while let Some(event) = self.client.poll_event() {
            self.checks.event(print(&event), tally);
        }
        let again = self.client.stats().events_repeated;
        tally.counters.events_again += again - std::mem::replace(&mut self.events_again, again);
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

/// The session that a datagram names.
pub(super) fn key_of(bytes: &[u8]) -> Option<u32> {
    Header::parse(bytes).ok().map(|header| header.session)
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
