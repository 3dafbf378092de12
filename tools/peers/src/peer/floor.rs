//! The floor: one socket, batches of datagrams, and no protocol at all: nothing is acknowledged, sent again, or told
//! apart. It uses no segmentation offload, so that a library which does may come out below it.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};

use crate::pace::{Guest, Host};
use crate::sys::batch::{BATCH, Batch};
use crate::work::{Job, Tally};

pub struct Floor {
    job: Job,
    tick: u64,
    socket: UdpSocket,
    received: Batch,
    sent: Batch,
    clients: Vec<SocketAddrV4>,
    /// By port: all clients are on one address.
    is_known: Box<[bool; 1 << 16]>,
}

impl Floor {
    pub fn bind(job: &Job) -> Result<Self, String> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| error.to_string())?;
        Ok(Self {
            job: *job,
            tick: 0,
            socket,
            received: Batch::new(),
            sent: Batch::new(),
            clients: Vec::with_capacity(job.clients),
            is_known: Box::new([false; 1 << 16]),
        })
    }

    fn push(&mut self, to: SocketAddrV4, bytes: &[u8]) {
        if self.sent.push(to, bytes) {
            self.sent.send(&self.socket);
        }
    }
}

impl Host for Floor {
    fn port(&self) -> u16 {
        self.socket.local_addr().map_or(0, |address| address.port())
    }

    fn receive(&mut self) -> u64 {
        let mut inputs = 0;
        loop {
            let count = self.received.receive(&self.socket);
            for index in 0..count {
                let from = self.received.source(index);
                if !std::mem::replace(&mut self.is_known[usize::from(from.port())], true) {
                    self.clients.push(from);
                }
            }
            inputs += count as u64;
            if count < BATCH {
                return inputs;
            }
        }
    }

    fn clients(&self) -> usize {
        self.clients.len()
    }

    fn send(&mut self, snapshot: &[u8], event: Option<&[u8]>) {
        for index in 0..self.clients.len() {
            let to = self.clients[index];
            if self.job.is_snapshot_due(index, self.tick) {
                self.push(to, snapshot);
            }
            if let Some(event) = event {
                self.push(to, event);
            }
        }
        self.tick += 1;
    }

    fn flush(&mut self) {
        self.sent.send(&self.socket);
    }
}

pub struct FloorGuest(UdpSocket);

impl FloorGuest {
    pub fn connect(port: u16) -> Result<Self, String> {
        super::client_socket(port).map(Self)
    }
}

impl Guest for FloorGuest {
    fn receive(&mut self, tally: &mut Tally) {
        let mut buffer = [0; 256];
        while let Ok(len) = self.0.recv(&mut buffer) {
            tally.note(&buffer[..len]);
        }
    }

    fn is_in(&self) -> bool {
        true
    }

    fn send(&mut self, input: u8) {
        // What the system refuses is lost, as on any network.
        let _ = self.0.send(&[input]);
    }

    fn flush(&mut self) {}
}
