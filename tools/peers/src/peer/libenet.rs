//! ENet in C, as the system has it: unreliable sequenced on channel 0, reliable on channel 1.

use crate::pace::{Guest, Host};
use crate::sys::enet::{Event, PeerAt, Session};
use crate::work::{Job, Tally};

const UNRELIABLE: u8 = 0;
const RELIABLE: u8 = 1;

pub struct Enet {
    session: Session,
    clients: Vec<PeerAt>,
}

impl Enet {
    pub fn bind(job: &Job) -> Result<Self, String> {
        Ok(Self { session: Session::listen(job.clients)?, clients: Vec::with_capacity(job.clients) })
    }
}

impl Host for Enet {
    fn port(&self) -> u16 {
        self.session.port()
    }

    fn receive(&mut self) -> u64 {
        let (mut inputs, clients) = (0, &mut self.clients);
        self.session.service(|event| match event {
            Event::Connected(peer) => clients.push(peer),
            Event::Disconnected(peer) => clients.retain(|&other| other != peer),
            Event::Received(bytes) => inputs += u64::from(bytes.len() == 1),
        });
        inputs
    }

    fn clients(&self) -> usize {
        self.clients.len()
    }

    fn send(&mut self, snapshot: &[u8], event: Option<&[u8]>) {
        for &client in &self.clients {
            self.session.send(client, UNRELIABLE, snapshot, false);
            if let Some(event) = event {
                self.session.send(client, RELIABLE, event, true);
            }
        }
    }

    fn flush(&mut self) {
        self.session.flush();
    }
}

pub struct EnetGuest {
    session: Session,
    server: Option<PeerAt>,
}

impl EnetGuest {
    pub fn connect(port: u16) -> Result<Self, String> {
        Ok(Self { session: Session::connect(port)?, server: None })
    }
}

impl Guest for EnetGuest {
    fn receive(&mut self, tally: &mut Tally) {
        let server = &mut self.server;
        self.session.service(|event| match event {
            Event::Connected(peer) => *server = Some(peer),
            Event::Disconnected(_) => *server = None,
            Event::Received(bytes) => tally.note(bytes),
        });
    }

    fn is_in(&self) -> bool {
        self.server.is_some()
    }

    fn send(&mut self, input: u8) {
        if let Some(server) = self.server {
            self.session.send(server, UNRELIABLE, &[input], false);
        }
    }

    fn flush(&mut self) {
        self.session.flush();
    }
}
