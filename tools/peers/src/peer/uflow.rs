//! uflow 0.7: unreliable packets on channel 0, reliable ones on channel 1. Its frames carry a checksum, and its sending
//! is governed by TFRC. Before that has measured a round trip, nothing may be on its way but one frame, and
//! acknowledgements count: a server whose clients send in every tick never gets a snapshot out. So both sides greet, and
//! inputs wait for the server's greeting.

use std::net::{Ipv4Addr, SocketAddr};

use uflow::server::Event as ServerEvent;
use uflow::{SendMode, client, server};

use crate::pace::{Guest, Host};
use crate::work::{Job, Tally};

const UNRELIABLE: usize = 0;
const RELIABLE: usize = 1;

/// No message of the work.
const HELLO: &[u8] = b"hello";

pub struct Uflow {
    server: server::Server,
    clients: Vec<SocketAddr>,
    newcomers: Vec<SocketAddr>,
}

impl Uflow {
    pub fn bind(job: &Job) -> Result<Self, String> {
        let config = server::Config {
            max_total_connections: 2 * job.clients.max(16),
            max_active_connections: job.clients,
            ..server::Config::default()
        };
        let server =
            server::Server::bind((Ipv4Addr::LOCALHOST, 0), config).map_err(|error| error.to_string())?;
        Ok(Self { server, clients: Vec::with_capacity(job.clients), newcomers: Vec::new() })
    }
}

impl Host for Uflow {
    fn port(&self) -> u16 {
        self.server.address().port()
    }

    fn receive(&mut self) -> u64 {
        let mut inputs = 0;
        for event in self.server.step() {
            match event {
                ServerEvent::Connect(address) => self.newcomers.push(address),
                ServerEvent::Disconnect(address) | ServerEvent::Error(address, _) => {
                    self.clients.retain(|&other| other != address)
                }
                ServerEvent::Receive(_, packet) => inputs += u64::from(packet.len() == 1),
            }
        }
        for address in self.newcomers.drain(..) {
            if let Some(client) = self.server.client(&address) {
                client.borrow_mut().send(HELLO.into(), RELIABLE, SendMode::Reliable);
            }
            self.clients.push(address);
        }
        inputs
    }

    fn clients(&self) -> usize {
        self.clients.len()
    }

    fn send(&mut self, snapshot: &[u8], event: Option<&[u8]>) {
        for address in &self.clients {
            let Some(client) = self.server.client(address) else { continue };
            let mut client = client.borrow_mut();
            client.send(snapshot.into(), UNRELIABLE, SendMode::TimeSensitive);
            if let Some(event) = event {
                client.send(event.into(), RELIABLE, SendMode::Reliable);
            }
        }
    }

    fn flush(&mut self) {
        self.server.flush();
    }
}

pub struct UflowGuest {
    client: client::Client,
    is_in: bool,
}

impl UflowGuest {
    pub fn connect(port: u16) -> Result<Self, String> {
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let client = client::Client::connect(server, client::Config::default());
        Ok(Self { client: client.map_err(|error| error.to_string())?, is_in: false })
    }
}

impl Guest for UflowGuest {
    fn receive(&mut self, tally: &mut Tally) {
        for event in self.client.step() {
            match event {
                client::Event::Connect => self.client.send(HELLO.into(), RELIABLE, SendMode::Reliable),
                client::Event::Receive(packet) => {
                    self.is_in = true;
                    tally.note(&packet);
                }
                client::Event::Disconnect | client::Event::Error(_) => self.is_in = false,
            }
        }
    }

    fn is_in(&self) -> bool {
        self.is_in
    }

    fn send(&mut self, input: u8) {
        self.client.send(Box::new([input]), UNRELIABLE, SendMode::TimeSensitive);
    }

    fn flush(&mut self) {
        self.client.flush();
    }
}
