//! R-Type clients in the simulation.

use std::net::SocketAddr;

use super::Sim;
use super::network::Packet;
use crate::client::bot::Bot;
use crate::client::rtype::{Client, Settings};
use crate::seam::{DATAGRAM_BYTES_MAX, Door};
use crate::time::{Duration, Instant};
use crate::world::Game;

/// How often a bot plays.
const FRAME: Duration = Duration::from_nanos(16_666_667);

/// What a position in a quarter of a pixel can be off by: half of that, in the world's units.
const ROUNDING_UNITS: u32 = 8;

/// An R-Type client with its place in the network.
#[derive(Debug)]
pub struct RtypePeer {
    /// The client.
    pub client: Client,
    /// Where its datagrams come from.
    pub address: SocketAddr,
    /// Who plays, if anybody does.
    pub bot: Option<Bot>,
    /// Positions in snapshots found within an eighth of a pixel of the room's at that tick.
    pub positions_right: u64,
    /// And those that were not, or of what did not live then.
    pub positions_wrong: u64,
    played_at: Instant,
    /// Snapshots already compared with the truth.
    compared: u64,
}

impl<G: Game> Sim<G> {
    /// An R-Type client says Hello from `address`. Returns its place in [`Sim::rtype_peers`].
    pub fn connect_rtype(&mut self, settings: &Settings, address: SocketAddr, bot: Option<Bot>) -> usize {
        self.rtype_peers.push(RtypePeer {
            client: Client::new(settings),
            address,
            bot,
            positions_right: 0,
            positions_wrong: 0,
            played_at: self.now,
            compared: 0,
        });
        self.rtype_peers.len() - 1
    }

    /// Hands a datagram to the client at `to`, if there is one.
    pub(super) fn deliver_rtype(&mut self, to: SocketAddr, bytes: &[u8]) -> bool {
        let Some(index) = self.rtype_peers.iter().position(|peer| peer.address == to) else { return false };
        let _ = self.rtype_peers[index].client.datagram(self.now, self.now, bytes);
        self.compare_rtype(index);
        true
    }

    pub(super) fn send_for_rtype_clients(&mut self) {
        for peer in &mut self.rtype_peers {
            if let Some(bot) = &mut peer.bot
                && self.now >= peer.played_at + FRAME
            {
                peer.played_at = self.now;
                bot.play(&mut peer.client);
            }
            let mut buffer = [0; DATAGRAM_BYTES_MAX];
            while let Some(len) = peer.client.transmit(self.now, &mut buffer) {
                let packet =
                    Packet::ToServer { door: Door::Rtype, from: peer.address, bytes: buffer[..len].to_vec() };
                self.network.send(self.now, packet);
            }
        }
    }

    /// What a snapshot placed is where the room had it at that tick.
    fn compare_rtype(&mut self, index: usize) {
        let peer = &mut self.rtype_peers[index];
        let snapshots = peer.client.stats().snapshots;
        if std::mem::replace(&mut peer.compared, snapshots) == snapshots {
            return;
        }
        let Some(tick) = peer.client.snapshot_tick() else { return };
        let placed = peer.client.known().filter(|known| known.tick == tick);
        let mut counts = [0, 0];
        for known in placed {
            // Rooms tick at different times: of those with this tick, one has it.
            let is_right = self.truth.iter().filter(|((_, at), _)| *at == tick).any(|(_, truth)| {
                let found = truth.entities.iter().find(|(at, entity)| {
                    *at == known.id.index() && entity.generation == known.id.generation()
                });
                found.is_some_and(|(_, entity)| {
                    let (dx, dy) = (entity.x.abs_diff(known.entity.x), entity.y.abs_diff(known.entity.y));
                    dx.max(dy) <= ROUNDING_UNITS
                })
            });
            counts[usize::from(is_right)] += 1;
        }
        peer.positions_wrong += counts[0];
        peer.positions_right += counts[1];
    }
}
