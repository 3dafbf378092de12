//! laminar: unreliable packets, and reliable unordered ones. Its acknowledgements travel with reliable packets only, so
//! the input after an event is sent reliably: without that nothing would ever acknowledge the events.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use laminar::{Config, Packet, Socket, SocketEvent};

use crate::pace::{Guest, Host};
use crate::work::{EVENT_BYTES, Job, Tally};

pub struct Laminar {
    socket: Socket,
    clients: Vec<SocketAddr>,
}

impl Laminar {
    pub fn bind(job: &Job) -> Result<Self, String> {
        Ok(Self { socket: open(job.clients)?, clients: Vec::with_capacity(job.clients) })
    }
}

impl Host for Laminar {
    fn port(&self) -> u16 {
        self.socket.local_addr().map_or(0, |address| address.port())
    }

    fn receive(&mut self) -> u64 {
        self.socket.manual_poll(Instant::now());
        let mut inputs = 0;
        while let Some(event) = self.socket.recv() {
            match event {
                SocketEvent::Packet(packet) => {
                    inputs += u64::from(packet.payload().len() == 1);
                    // A connection is one only once it was answered.
                    if packet.payload() == HELLO && !self.clients.contains(&packet.addr()) {
                        let answer = Packet::reliable_unordered(packet.addr(), WELCOME.to_vec());
                        let _ = self.socket.send(answer);
                    }
                }
                SocketEvent::Connect(address) => self.clients.push(address),
                SocketEvent::Disconnect(address) => self.clients.retain(|&other| other != address),
                SocketEvent::Timeout(_) => {}
            }
        }
        inputs
    }

    fn clients(&self) -> usize {
        self.clients.len()
    }

    fn send(&mut self, snapshot: &[u8], event: Option<&[u8]>) {
        for &client in &self.clients {
            // The queue is unbounded: this cannot fail while the socket lives.
            let _ = self.socket.send(Packet::unreliable(client, snapshot.to_vec()));
            if let Some(event) = event {
                let _ = self.socket.send(Packet::reliable_unordered(client, event.to_vec()));
            }
        }
    }

    fn flush(&mut self) {
        self.socket.manual_poll(Instant::now());
    }
}

pub struct LaminarGuest {
    socket: Socket,
    server: SocketAddr,
    is_in: bool,
    owes_acknowledgement: bool,
    hello_at: Instant,
}

impl LaminarGuest {
    pub fn connect(port: u16) -> Result<Self, String> {
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let hello_at = Instant::now();
        Ok(Self { socket: open(1)?, server, is_in: false, owes_acknowledgement: false, hello_at })
    }
}

impl Guest for LaminarGuest {
    fn receive(&mut self, tally: &mut Tally) {
        if !self.is_in && Instant::now() >= self.hello_at {
            self.hello_at = Instant::now() + HELLO_INTERVAL;
            let _ = self.socket.send(Packet::reliable_unordered(self.server, HELLO.to_vec()));
        }
        self.socket.manual_poll(Instant::now());
        while let Some(event) = self.socket.recv() {
            if let SocketEvent::Packet(packet) = event {
                self.is_in = true;
                self.owes_acknowledgement |= packet.payload().len() == EVENT_BYTES;
                tally.note(packet.payload());
            }
        }
    }

    fn is_in(&self) -> bool {
        self.is_in
    }

    fn send(&mut self, input: u8) {
        let packet = match std::mem::take(&mut self.owes_acknowledgement) {
            true => Packet::reliable_unordered(self.server, vec![input]),
            false => Packet::unreliable(self.server, vec![input]),
        };
        let _ = self.socket.send(packet);
    }

    fn flush(&mut self) {
        self.socket.manual_poll(Instant::now());
    }
}

const HELLO: &[u8] = b"hello";
const WELCOME: &[u8] = b"welcome";
const HELLO_INTERVAL: Duration = Duration::from_millis(250);

fn open(clients: usize) -> Result<Socket, String> {
    let config = Config {
        heartbeat_interval: None,
        max_unestablished_connections: clients.max(50) as u16,
        ..Config::default()
    };
    Socket::bind_any_with_config(config).map_err(|error| error.to_string())
}
