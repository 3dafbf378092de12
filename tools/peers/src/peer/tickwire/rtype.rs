//! A client over R-Type, and what tells it which messages belong to the window.

use std::net::UdpSocket;

use ::tickwire::client::rtype::{Client, Phase, Settings};
use ::tickwire::io::Clock;
use ::tickwire::model::{Controls, EntityId};
use ::tickwire::seam::DATAGRAM_BYTES_MAX;
use ::tickwire::wire::rtype::message::ServerMessage;
use ::tickwire::wire::rtype::{HEADER_BYTES, Packet};

use super::SLOTS;
use crate::pace::Guest;
use crate::work::{Part, Tally};

/// Bytes of type and size in front of a message.
const MESSAGE_HEADER_BYTES: usize = 4;

/// The place across of a room's first entity, in the world's units: it marks the window.
pub(super) fn mark_x(part: Part) -> i32 {
    64 * (1 + part as i32)
}

/// What an event is about.
pub(super) fn event_id(part: Part, generation: u8) -> EntityId {
    EntityId::new((SLOTS - 1) as u32 + part as u32, generation)
}

/// One client with its socket.
pub struct RtypeGuest {
    client: Client,
    socket: UdpSocket,
    clock: Clock,
}

impl RtypeGuest {
    pub fn connect(port: u16) -> Result<Self, String> {
        let socket = super::super::client_socket(port)?;
        Ok(Self { client: new_client(), socket, clock: Clock::new() })
    }
}

fn new_client() -> Client {
    Client::new(&Settings { entities_max: SLOTS })
}

impl Guest for RtypeGuest {
    fn receive(&mut self, tally: &mut Tally) {
        let now = self.clock.now();
        let mut buffer = [0; DATAGRAM_BYTES_MAX];
        while let Ok(len) = self.socket.recv(&mut buffer) {
            let is_packet = self.client.phase() == Phase::Playing;
            if self.client.datagram(now, now, &buffer[..len]).is_ok() && is_packet {
                count(&buffer[..len], tally);
            }
        }
        if self.client.is_over() {
            // Too many come at once for a server that takes strangers in a few at a time.
            self.client = new_client();
        }
    }

    fn is_in(&self) -> bool {
        self.client.phase() == Phase::Playing
    }

    fn send(&mut self, input: u8) {
        self.client.set_controls(Controls::from_bits(input & 0x1F).unwrap_or_default());
    }

    fn flush(&mut self) {
        let now = self.clock.now();
        let mut buffer = [0; DATAGRAM_BYTES_MAX];
        while let Some(len) = self.client.transmit(now, &mut buffer) {
            // What the system refuses is lost, as on any network.
            let _ = self.socket.send(&buffer[..len]);
        }
    }
}

/// Counts what of a packet belongs to the window.
fn count(bytes: &[u8], tally: &mut Tally) {
    let Ok(packet) = Packet::parse(bytes) else { return };
    for message in packet.messages() {
        match ServerMessage::parse(&message) {
            Ok(ServerMessage::Snapshot(snapshot)) => {
                let first = snapshot.iter().next();
                if first.is_some_and(|state| state.x.to_units() == mark_x(Part::Window)) {
                    tally.snapshots += 1;
                    tally.snapshot_bytes += (bytes.len() - HEADER_BYTES - MESSAGE_HEADER_BYTES) as u64;
                }
            }
            Ok(ServerMessage::DestroyEntity(destroy)) => {
                let is_of_window = destroy.id == event_id(Part::Window, destroy.id.generation());
                tally.events += u64::from(is_of_window);
            }
            _ => {}
        }
    }
}
