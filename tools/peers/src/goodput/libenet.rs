//! ENet in C, as the system has it, no bandwidth limits.

use super::{Flow, Messages, ReceiverReport, SenderReport, Sink, WAITING_MAX, Window};
use crate::pace::say_ready;
use crate::sys::enet::{self, Event, Session};

/// Reliable, in order.
const CHANNEL: u8 = 1;

/// How long to wait for a packet, in ms: ENet's least.
pub const WAIT_MS: u32 = 1;

pub fn send(flow: &Flow, wait_ms: u32) -> Result<SenderReport, String> {
    let mut session = Session::listen(1)?;
    say_ready(session.port());
    let (mut messages, mut receiver) = (Messages::new(), None);
    let mut window = Window::new(flow);
    let mut sent = 0;
    loop {
        session.service_for(wait_ms, |event| match event {
            Event::Connected(peer) => receiver = Some(peer),
            Event::Disconnected(_) => receiver = None,
            Event::Received(_) => {}
        });
        if let Some(receiver) = receiver {
            while sent - enet::packets_freed() < WAITING_MAX as u64 {
                session.send(receiver, CHANNEL, messages.peek(), true);
                messages.advance();
                sent += 1;
            }
            session.flush();
        }
        if window.look(receiver.is_some())? {
            return Ok(window.report);
        }
    }
}

pub fn receive(flow: &Flow, wait_ms: u32, port: u16) -> Result<ReceiverReport, String> {
    let mut session = Session::connect(port)?;
    let mut sink = Sink::new(flow);
    while !sink.is_over()? {
        session.service_for(wait_ms, |event| {
            if let Event::Received(bytes) = event {
                sink.note(bytes);
            }
        });
    }
    Ok(sink.report())
}
