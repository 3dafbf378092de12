//! FigNet clients in the simulation.

use std::net::SocketAddr;

use super::Sim;
use super::network::Packet;
use crate::client::bot::Bot;
use crate::client::fignet::{Client, Settings};
use crate::seam::{DATAGRAM_BYTES_MAX, Door};
use crate::session::fignet::keys::Key;
use crate::time::{Duration, Instant};
use crate::world::Game;

/// How often a bot plays.
const FRAME: Duration = Duration::from_nanos(16_666_667);

/// A FigNet client with its place in the network.
#[derive(Debug)]
pub struct FignetPeer {
    /// The client.
    pub client: Client,
    /// Where its datagrams come from.
    pub address: SocketAddr,
    /// Who plays, if anybody does.
    pub bot: Option<Bot>,
    /// Entities in snapshots that are exactly as they were in the room at that tick.
    pub entities_right: u64,
    /// And those that are not: still to be told, or wrong.
    pub entities_wrong: u64,
    played_at: Instant,
    /// Snapshots already compared with the truth.
    compared: u64,
}

impl<G: Game> Sim<G> {
    /// A FigNet client connects from `address`. Returns its place in [`Sim::fignet_peers`].
    pub fn connect_fignet(
        &mut self,
        settings: &Settings,
        address: SocketAddr,
        nonce: u32,
        key: Option<(&Key, u32)>,
        bot: Option<Bot>,
    ) -> usize {
        self.fignet_peers.push(FignetPeer {
            client: Client::new(self.now, settings, nonce, key),
            address,
            bot,
            entities_right: 0,
            entities_wrong: 0,
            played_at: self.now,
            compared: 0,
        });
        self.fignet_peers.len() - 1
    }

    /// Hands a datagram to the client at `to`, if there is one.
    pub(super) fn deliver_fignet(&mut self, to: SocketAddr, bytes: &[u8]) -> bool {
        let Some(index) = self.fignet_peers.iter().position(|peer| peer.address == to) else { return false };
        let _ = self.fignet_peers[index].client.datagram(self.now, self.now, bytes);
        self.compare_fignet(index);
        true
    }

    pub(super) fn send_for_fignet_clients(&mut self) {
        for peer in &mut self.fignet_peers {
            if let Some(bot) = &mut peer.bot
                && self.now >= peer.played_at + FRAME
            {
                peer.played_at = self.now;
                bot.play(&mut peer.client);
            }
            let mut buffer = [0; DATAGRAM_BYTES_MAX];
            while let Some(len) = peer.client.transmit(self.now, &mut buffer) {
                let packet = Packet::ToServer {
                    door: Door::Fignet,
                    from: peer.address,
                    bytes: buffer[..len].to_vec(),
                };
                self.network.send(self.now, packet);
            }
        }
    }

    /// What a snapshot holds is what the room held at that tick.
    fn compare_fignet(&mut self, index: usize) {
        let peer = &mut self.fignet_peers[index];
        let snapshots = peer.client.stats().snapshots;
        if std::mem::replace(&mut peer.compared, snapshots) == snapshots {
            return;
        }
        let Some(table) = peer.client.table() else { return };
        let mut counts = [0, 0];
        for (id, entity) in table.iter() {
            // Rooms tick at different times: of those with this tick, one has it.
            let is_right =
                self.truth.iter().filter(|((_, at), _)| *at as u16 == table.sequence()).any(|(_, truth)| {
                    truth.entities.iter().any(|(at, there)| *at == id.index() && there == entity)
                });
            counts[usize::from(is_right)] += 1;
        }
        peer.entities_wrong += counts[0];
        peer.entities_right += counts[1];
    }
}
