//! FigNet on tickwire's own loop, at both ends, its limits off.

use std::net::{Ipv4Addr, SocketAddr};

use tickwire::io::{Backend, IoOptions, Loop, Wake, door_name};
use tickwire::rng::TokenSource;
use tickwire::seam::{Core, Door, Input, Outbox};
use tickwire::session::fignet::{
    DEFAULT_CONFIG, Delivery, Event, Host, NetworkConfig, NoSeal, Peer, PeerId, Pools,
};
use tickwire::time::Instant;

use super::{Flow, Messages, ReceiverReport, SenderReport, Sink, WAITING_MAX, Window};
use crate::pace::say_ready;

/// Reliable, in order.
const CHANNEL: u8 = 0;

/// No limits, and no attempt to compress what cannot be.
const CONFIG: NetworkConfig = NetworkConfig {
    max_peers: 1,
    bandwidth_limit_bytes_per_sec: 0,
    packet_rate_per_sec: 0,
    receive_packets_per_sec: 0,
    receive_bytes_per_sec: 0,
    connection_attempts_per_minute: 0,
    compression: false,
    send_buffers_per_peer: 2 * WAITING_MAX as u16,
    channel_queue_len: WAITING_MAX as u16,
    ..DEFAULT_CONFIG
};

/// Datagrams between two answers: a quarter of the window, so that one end works while the other does.
const DATAGRAMS_PER_TURN: usize = 16;

pub fn send(flow: &Flow, backend: Backend) -> Result<SenderReport, String> {
    let mut io = open(backend)?;
    let (_, at) = io.local_addrs().find(|(name, _)| *name == door_name(Door::Fignet)).ok_or("no door")?;
    say_ready(at.port());
    let mut source =
        Source { host: Host::new(&CONFIG, TokenSource::Os), receiver: None, messages: Messages::new() };
    let mut window = Window::new(flow);
    let mut failed = None;
    let ran = io.run(&mut source, |source, _| {
        window.look(source.receiver.is_some()).unwrap_or_else(|error| {
            failed = Some(error);
            true
        })
    });
    ran.map_err(|error| error.to_string())?;
    failed.map_or(Ok(window.report), Err)
}

pub fn receive(flow: &Flow, backend: Backend, port: u16) -> Result<ReceiverReport, String> {
    let mut io = open(backend)?;
    let mut drain = Drain {
        pools: Pools::new(&CONFIG, 1),
        peer: Peer::new(&CONFIG),
        sender: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        sink: Sink::new(flow),
    };
    drain.peer.connect(io.clock().now(), 1, None);
    let mut failed = None;
    let ran = io.run(&mut drain, |drain, _| {
        drain.sink.is_over().unwrap_or_else(|error| {
            failed = Some(error);
            true
        })
    });
    ran.map_err(|error| error.to_string())?;
    failed.map_or(Ok(drain.sink.report()), Err)
}

fn open(backend: Backend) -> Result<Loop, String> {
    let mut options = IoOptions::new(1, 64);
    options.backend = backend;
    options.wake = Wake::Event;
    options.datagrams_per_turn = DATAGRAMS_PER_TURN;
    options.doors[Door::Fignet as usize] = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let io = Loop::bind(&options).map_err(|error| error.to_string())?;
    let wanted = if backend == Backend::IoUring { "io_uring" } else { "epoll" };
    if io.backend() == wanted { Ok(io) } else { Err(format!("this system refuses {wanted}")) }
}

/// The end that always has more to send.
#[derive(Debug)]
struct Source {
    host: Host,
    receiver: Option<PeerId>,
    messages: Messages,
}

impl Core for Source {
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        if let Input::Datagram { from, at, bytes, .. } = input {
            // What is wrong with a packet is nobody's business here: what it was to bring is missed.
            let _ = self.host.hear(now, at, from, bytes, |_| None::<NoSeal>, |_, _| {});
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.host.next_deadline()
    }

    fn next_tick(&self) -> Option<Instant> {
        None
    }

    fn advance(&mut self, now: Instant) {
        while let Some((id, event)) = self.host.advance(now) {
            match event {
                Event::Connected => self.receiver = Some(id),
                Event::Failed(_) | Event::Disconnected { .. } => self.receiver = None,
                Event::FragmentError { .. } => {}
            }
        }
        if let Some(receiver) = self.receiver {
            while self.host.send(receiver, CHANNEL, self.messages.peek()).is_ok() {
                self.messages.advance();
            }
        }
        while self.host.advance(now).is_some() {}
    }

    fn transmit(&mut self, now: Instant, out: &mut Outbox) -> bool {
        while self.host.has_output() {
            if !out.has_datagram_room() {
                return true;
            }
            out.datagram_to_whom(Door::Fignet, |buffer| self.host.transmit(now, buffer));
        }
        false
    }
}

/// The end that takes it.
#[derive(Debug)]
struct Drain {
    pools: Pools,
    peer: Peer,
    sender: SocketAddr,
    sink: Sink,
}

impl Core for Drain {
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        let Self { pools, peer, sink, .. } = self;
        if let Input::Datagram { at, bytes, .. } = input {
            let _ = peer.hear(now, at, pools, bytes, |delivery| {
                if let Delivery::Message { bytes, .. } = delivery {
                    sink.note(bytes);
                }
            });
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.peer.next_deadline()
    }

    fn next_tick(&self) -> Option<Instant> {
        None
    }

    fn advance(&mut self, now: Instant) {
        while self.peer.advance(now, &mut self.pools).is_some() {}
    }

    fn transmit(&mut self, now: Instant, out: &mut Outbox) -> bool {
        loop {
            if !out.has_datagram_room() {
                return true;
            }
            let write = |buffer: &mut _| self.peer.transmit(now, &mut self.pools, buffer);
            if !out.datagram(Door::Fignet, self.sender, write) {
                return false;
            }
        }
    }
}
