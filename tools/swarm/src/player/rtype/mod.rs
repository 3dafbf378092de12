//! A player over the R-Type protocol: the library's client, with a hand at its controls and a judge beside it.

mod judge;

use std::net::SocketAddr;

use tickwire::client::rtype::{Client, Ignored, Over, Phase, Settings as ClientSettings};
use tickwire::seam::DATAGRAM_BYTES_MAX;
use tickwire::time::Instant;
use tickwire::wire::rtype::{Packet, PacketError};

use self::judge::Judge;
use super::hand::Hand;
use super::{Player, Settings, State};
use crate::tally::{Fault, Tally};

/// An R-Type client that plays.
#[derive(Debug)]
pub struct RtypePlayer {
    client: Client,
    hand: Hand,
    judge: Judge,
    is_leaving: bool,
    is_over_told: bool,
}

impl RtypePlayer {
    /// The `index`th of the swarm.
    pub fn new(index: usize, settings: &Settings) -> Self {
        Self {
            client: Client::new(&ClientSettings { entities_max: settings.entities_max }),
            hand: Hand::new(settings.seed ^ index as u64),
            judge: Judge::new(settings.snapshot_interval),
            is_leaving: false,
            is_over_told: false,
        }
    }

    /// Counts the end once, unless it was the player's own wish.
    fn tell_over(&mut self, tally: &mut Tally) {
        let Phase::Over(over) = self.client.phase() else { return };
        if self.is_over_told || self.is_leaving {
            return;
        }
        self.is_over_told = true;
        tally.fault(match over {
            Over::Rejected => Fault::Rejected,
            Over::NoAnswer => Fault::Connection,
            Over::TimedOut => Fault::TimedOut,
            Over::Left => return,
        });
    }
}

impl Player for RtypePlayer {
    fn state(&self) -> State {
        match self.client.phase() {
            Phase::Connecting => State::Joining,
            Phase::Playing => State::Playing,
            Phase::Over(_) => State::Over,
        }
    }

    fn stream_output(&mut self) -> Option<u8> {
        None
    }

    fn stream_bytes(&mut self, _now: Instant, _bytes: &[u8], _tally: &mut Tally) {}

    fn stream_closed(&mut self, _tally: &mut Tally) {}

    fn udp(&self, server: SocketAddr) -> Option<SocketAddr> {
        Some(server)
    }

    fn datagram(&mut self, now: Instant, bytes: &[u8], tally: &mut Tally) {
        if self.is_leaving {
            // What was on its way when the player left.
            return;
        }
        let was_playing = self.client.phase() == Phase::Playing;
        match self.client.datagram(now, now, bytes) {
            Ok(()) if was_playing => match Packet::parse(bytes) {
                Ok(packet) => self.judge.received(now, &packet, self.client.stats(), tally),
                Err(_) => tally.fault(Fault::BadHeader),
            },
            Ok(()) | Err(Ignored::Over) => {}
            Err(Ignored::Packet(PacketError::MessageHeader | PacketError::MessageSize)) => {
                tally.fault(Fault::Malformed);
            }
            Err(Ignored::Handshake(_) | Ignored::Packet(_)) => tally.fault(Fault::BadHeader),
            Err(Ignored::Foreign) => tally.fault(Fault::Foreign),
            Err(Ignored::Stale) => tally.fault(Fault::Repeated),
        }
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
        let is_packet = self.client.phase() != Phase::Connecting;
        // Told when its turn was due, and not when it came, the client sends in every turn.
        let len = self.client.transmit(due, buffer);
        if let Some(len) = len.filter(|_| is_packet) {
            self.judge.sent(now, &buffer[..len], tally);
        }
        self.tell_over(tally);
        len
    }

    fn leave(&mut self) {
        self.is_leaving = true;
        self.client.leave();
    }

    fn session_key(&self) -> Option<u32> {
        None
    }
}
