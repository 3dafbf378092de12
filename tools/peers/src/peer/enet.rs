//! ENet in Rust: the `rusty_enet` crate, unreliable sequenced on channel 0, reliable on channel 1.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use rusty_enet::{EventNoRef, Host as EnetHost, HostSettings, Packet, PeerID};

use crate::pace::{Guest, Host};
use crate::work::{Job, Tally};

const UNRELIABLE: u8 = 0;
const RELIABLE: u8 = 1;
const CHANNELS: usize = 2;

pub struct Enet {
    host: EnetHost<UdpSocket>,
    clients: Vec<PeerID>,
}

impl Enet {
    pub fn bind(job: &Job) -> Result<Self, String> {
        Ok(Self { host: open(job.clients)?, clients: Vec::with_capacity(job.clients) })
    }
}

impl Host for Enet {
    fn port(&self) -> u16 {
        self.host.socket().local_addr().map_or(0, |address| address.port())
    }

    fn receive(&mut self) -> u64 {
        let mut inputs = 0;
        while let Ok(Some(event)) = self.host.service() {
            match event.no_ref() {
                EventNoRef::Connect { peer, .. } => self.clients.push(peer),
                EventNoRef::Disconnect { peer, .. } => self.clients.retain(|&other| other != peer),
                EventNoRef::Receive { packet, .. } => inputs += u64::from(packet.data().len() == 1),
            }
        }
        inputs
    }

    fn clients(&self) -> usize {
        self.clients.len()
    }

    fn send(&mut self, snapshot: &[u8], event: Option<&[u8]>) {
        for &client in &self.clients {
            let peer = self.host.peer_mut(client);
            // What cannot be sent is lost; the clients' counts tell.
            let _ = peer.send(UNRELIABLE, &Packet::unreliable(snapshot));
            if let Some(event) = event {
                let _ = peer.send(RELIABLE, &Packet::reliable(event));
            }
        }
    }

    fn flush(&mut self) {
        self.host.flush();
    }
}

pub struct EnetGuest {
    host: EnetHost<UdpSocket>,
    server: Option<PeerID>,
}

impl EnetGuest {
    pub fn connect(port: u16) -> Result<Self, String> {
        let mut host = open(1)?;
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        host.connect(server, CHANNELS, 0).map_err(|error| error.to_string())?;
        Ok(Self { host, server: None })
    }
}

impl Guest for EnetGuest {
    fn receive(&mut self, tally: &mut Tally) {
        while let Ok(Some(event)) = self.host.service() {
            match event.no_ref() {
                EventNoRef::Connect { peer, .. } => self.server = Some(peer),
                EventNoRef::Disconnect { .. } => self.server = None,
                EventNoRef::Receive { packet, .. } => tally.note(packet.data()),
            }
        }
    }

    fn is_in(&self) -> bool {
        self.server.is_some()
    }

    fn send(&mut self, input: u8) {
        if let Some(server) = self.server {
            let _ = self.host.peer_mut(server).send(UNRELIABLE, &Packet::unreliable(&[input][..]));
        }
    }

    fn flush(&mut self) {
        self.host.flush();
    }
}

fn open(peers: usize) -> Result<EnetHost<UdpSocket>, String> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| error.to_string())?;
    let settings = HostSettings { peer_limit: peers, channel_limit: CHANNELS, ..HostSettings::default() };
    EnetHost::new(socket, settings).map_err(|error| error.to_string())
}
