//! The doors: one unconnected UDP socket each, drained and flushed in batches.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};

use mio::unix::SourceFd;
use mio::{Interest, Token};

use crate::io::mio::{FIRST_DOOR, Turning};
use crate::io::stats::{DoorStats, SendError};
use crate::io::sys::{ReceiveBatch, SendBatch};
use crate::io::{
    BindError, Clock, DOORS, IDLE_INTERVAL, IoOptions, IoStats, RECEIVE_BUFFER_BYTES, Wake, door_name,
    sockets,
};
use crate::seam::{Core, Door, Input, Outbox};
use crate::time::Instant;

/// Datagrams in one system call: more gained nothing when measured.
pub(super) const BATCH_DATAGRAMS: usize = 128;

/// Errors that receiving may report in a row before the door waits for its next occasion.
const RECEIVE_ERRORS_IN_A_ROW_MAX: u32 = 8;

/// All doors.
#[derive(Debug)]
pub(super) struct Doors {
    sockets: [Option<DoorSocket>; Door::COUNT],
    receiving: ReceiveBatch,
    sending: SendBatch,
    wake: Wake,
    per_turn: usize,
    /// Whether the sockets are in the poll set.
    watched: bool,
    /// While nobody plays: out of the poll set until then.
    closed_until: Option<Instant>,
}

#[derive(Debug)]
struct DoorSocket {
    door: Door,
    socket: UdpSocket,
    dual_stack: bool,
    /// Datagrams may be waiting: the poll set said so, or the last drain ended at its bound.
    readable: bool,
    /// When the socket was last found empty: what it holds now came later.
    emptied_at: Instant,
    /// The kernel's drop count when last told.
    drops_told: u32,
}

impl Doors {
    /// Opens the doors that have an address.
    pub(super) fn open(options: &IoOptions, now: Instant) -> Result<Self, BindError> {
        let mut opened = [None, None, None];
        for door in DOORS {
            if let Some(address) = options.doors[door as usize] {
                let socket = sockets::open_door(door, address, options)?;
                opened[door as usize] = Some(DoorSocket {
                    door,
                    socket,
                    dual_stack: address.is_ipv6(),
                    readable: false,
                    emptied_at: now,
                    drops_told: 0,
                });
            }
        }
        Ok(Self {
            sockets: opened,
            receiving: ReceiveBatch::new(BATCH_DATAGRAMS, RECEIVE_BUFFER_BYTES),
            sending: SendBatch::new(BATCH_DATAGRAMS),
            wake: options.wake,
            per_turn: options.datagrams_per_turn.max(1),
            watched: false,
            closed_until: None,
        })
    }

    pub(super) fn local_addrs(&self) -> impl Iterator<Item = (&'static str, SocketAddr)> {
        let open = self.sockets.iter().flatten();
        open.filter_map(|socket| Some((door_name(socket.door), socket.socket.local_addr().ok()?)))
    }

    /// The poll set has a word about door number `index`.
    pub(super) fn set_readable(&mut self, index: usize) {
        if let Some(socket) = &mut self.sockets[index] {
            socket.readable = true;
        }
    }

    /// Whether there is something to drain without waiting.
    pub(super) fn has_work(&self) -> bool {
        self.sockets.iter().flatten().any(|socket| socket.readable)
    }

    /// When the doors next want to be watched again.
    pub(super) fn next_deadline(&self, next_tick: Option<Instant>) -> Option<Instant> {
        // While somebody plays the tick drains them, watched or not.
        self.closed_until.filter(|_| next_tick.is_none())
    }

    /// Puts the sockets into the poll set, or takes them out, as the core's next tick demands. Coming in, a socket
    /// that holds something is told at once.
    pub(super) fn watch(&mut self, next_tick: Option<Instant>, turning: &mut Turning<'_>) -> io::Result<()> {
        if self.closed_until.is_some_and(|until| turning.now >= until) {
            self.closed_until = None;
        }
        let watch = self.wake == Wake::Event || (next_tick.is_none() && self.closed_until.is_none());
        if watch == self.watched {
            return Ok(());
        }
        self.watched = watch;
        for socket in self.sockets.iter().flatten() {
            turning.stats.calls.epoll_ctl += 1;
            let fd = socket.socket.as_raw_fd();
            if watch {
                let token = Token(FIRST_DOOR.0 + socket.door as usize);
                turning.registry.register(&mut SourceFd(&fd), token, Interest::READABLE)?;
            } else {
                turning.registry.deregister(&mut SourceFd(&fd))?;
            }
        }
        Ok(())
    }

    /// Takes in what is due: everything when the tick is, else what the poll set told of or the last turn left over.
    pub(super) fn drain(&mut self, core: &mut impl Core, clock: &mut Clock, turning: &mut Turning<'_>) {
        let next_tick = core.next_tick();
        let tick_is_due = self.wake == Wake::Tick && next_tick.is_some_and(|tick| turning.now >= tick);
        if !tick_is_due && !self.has_work() {
            return;
        }
        clock.sample_wall();
        for socket in self.sockets.iter_mut().flatten() {
            // With `Wake::Tick` always all of them: time goes on while one is drained, perhaps past the tick.
            if self.wake == Wake::Tick || socket.readable {
                socket.drain(&mut self.receiving, self.per_turn, core, clock, turning);
            }
        }
        if self.wake == Wake::Tick && next_tick.is_none() {
            self.closed_until = Some(turning.now + IDLE_INTERVAL);
            // What is left over waits as well, and is told of when the sockets are back in the poll set.
            self.sockets.iter_mut().flatten().for_each(|socket| socket.readable = false);
        }
    }

    /// Hands the outbox's datagrams to the kernel, in order for each door.
    pub(super) fn send(&mut self, outbox: &Outbox, stats: &mut IoStats) {
        for door in DOORS {
            let is_ours = |index: &usize| outbox.datagrams()[*index].door == door;
            let mut ours = (0..outbox.datagrams().len()).filter(is_ours).peekable();
            if ours.peek().is_none() {
                continue;
            }
            let door_stats = &mut stats.doors[door as usize];
            let Some(socket) = &self.sockets[door as usize] else {
                door_stats.no_socket += ours.count() as u64;
                continue;
            };
            let fd = socket.socket.as_fd();
            let mut messages = ours.map(|index| (outbox.datagrams()[index].to, outbox.datagram_bytes(index)));
            loop {
                let mut loaded = self.sending.load(socket.dual_stack, &mut messages);
                let len = loaded.len();
                if len == 0 {
                    break;
                }
                stats.calls.sendmmsg += send_past_errors(len, door_stats, |first| {
                    let sent = loaded.send(fd, first)?;
                    Ok((sent, loaded.bytes_sent(first, sent)))
                });
            }
        }
    }
}

impl DoorSocket {
    fn drain(
        &mut self,
        receiving: &mut ReceiveBatch,
        per_turn: usize,
        core: &mut impl Core,
        clock: &Clock,
        turning: &mut Turning<'_>,
    ) {
        let mut left = per_turn;
        let mut errors_in_a_row = 0;
        while left > 0 {
            let asked_for = left.min(receiving.capacity());
            let asked_at = clock.now();
            turning.stats.calls.recvmmsg += 1;
            match receiving.receive(self.socket.as_fd(), asked_for) {
                Ok(count) => {
                    errors_in_a_row = 0;
                    left -= count;
                    turning.now = clock.now();
                    self.deliver(receiving, count, core, clock, turning);
                    if count < asked_for {
                        return self.set_empty(asked_at);
                    }
                }
                Err(libc::EAGAIN) => return self.set_empty(asked_at),
                // An error that some peer's host caused, told to us once. The socket is as good as before.
                Err(_) => {
                    turning.stats.doors[self.door as usize].receive_errors += 1;
                    errors_in_a_row += 1;
                    if errors_in_a_row == RECEIVE_ERRORS_IN_A_ROW_MAX {
                        self.readable = false;
                        return;
                    }
                }
            }
        }
        self.readable = true;
    }

    fn set_empty(&mut self, at: Instant) {
        self.readable = false;
        self.emptied_at = at;
    }

    fn deliver(
        &mut self,
        received: &ReceiveBatch,
        count: usize,
        core: &mut impl Core,
        clock: &Clock,
        turning: &mut Turning<'_>,
    ) {
        let now = turning.now;
        let stats = &mut turning.stats.doors[self.door as usize];
        stats.batches_in += u64::from(count > 0);
        stats.datagrams_in += count as u64;
        for index in 0..count {
            let datagram = received.get(index);
            stats.bytes_in += datagram.bytes.len() as u64;
            stats.empty_in += u64::from(datagram.bytes.is_empty());
            if let Some(drops) = datagram.drops {
                stats.kernel_drops += u64::from(drops.wrapping_sub(self.drops_told));
                self.drops_told = drops;
            }
            let Some(from) = datagram.from else { continue };
            let at = datagram.stamp_ns.map_or(now, |stamp| clock.received_at(stamp, self.emptied_at, now));
            core.handle(now, Input::Datagram { door: self.door, from, at, bytes: datagram.bytes });
        }
    }
}

/// Sends `count` datagrams with as few calls of `send` as can be: a call stops at a datagram that fails, so that one is
/// counted and skipped. `send` sends from the given number on, and returns how many datagrams and bytes went. Returns
/// the number of calls.
fn send_past_errors(
    count: usize,
    stats: &mut DoorStats,
    mut send: impl FnMut(usize) -> Result<(usize, u64), i32>,
) -> u64 {
    let mut calls = 0;
    let mut first = 0;
    while first < count {
        calls += 1;
        match send(first) {
            Ok((sent, bytes)) => {
                stats.datagrams_out += sent as u64;
                stats.bytes_out += bytes;
                first += sent.max(1);
            }
            Err(errno) => {
                stats.send_errors[SendError::of(errno) as usize] += 1;
                first += 1;
            }
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel that fails datagram `n` with `failures(n)` and sends at most `at_once` others in a call.
    fn send_with(
        count: usize,
        at_once: usize,
        failures: impl Fn(usize) -> Option<i32>,
    ) -> (Vec<usize>, DoorStats, u64) {
        let mut sent = Vec::new();
        let mut stats = DoorStats::default();
        let calls = send_past_errors(count, &mut stats, |first| {
            if let Some(errno) = failures(first) {
                return Err(errno);
            }
            let end = (first..count.min(first + at_once)).find(|&n| failures(n).is_some());
            let end = end.unwrap_or(count.min(first + at_once));
            sent.extend(first..end);
            Ok((end - first, 10 * (end - first) as u64))
        });
        (sent, stats, calls)
    }

    #[test]
    fn a_whole_batch_is_one_call() {
        let (sent, stats, calls) = send_with(128, 1024, |_| None);
        assert_eq!((sent.len(), stats.datagrams_out, stats.bytes_out, calls), (128, 128, 1280, 1));
    }

    #[test]
    fn a_short_send_goes_on_behind_it() {
        let (sent, _, calls) = send_with(100, 30, |_| None);
        assert_eq!(sent, (0..100).collect::<Vec<_>>());
        assert_eq!(calls, 4);
    }

    /// The peer's port is closed, or its host is gone: that datagram alone is lost.
    #[test]
    fn case_52_send_errors_lose_their_own_datagram_only() {
        for errno in [libc::ECONNREFUSED, libc::EHOSTUNREACH, libc::ENETUNREACH, libc::EPERM, libc::EINVAL] {
            let (sent, stats, calls) = send_with(128, 1024, |n| (n == 0 || n == 77).then_some(errno));
            assert_eq!(sent.len(), 126);
            assert!(!sent.contains(&0) && !sent.contains(&77));
            assert_eq!(stats.send_errors[SendError::of(errno) as usize], 2);
            assert_eq!(stats.send_errors_total(), 2);
            assert_eq!(calls, 4, "the first, up to 77, 77, and the rest");
        }
    }

    /// Out of buffers for every single one: each is tried once, counted and dropped.
    #[test]
    fn case_53_enobufs_is_counted_and_dropped_without_a_spin() {
        let (sent, stats, calls) = send_with(128, 1024, |_| Some(libc::ENOBUFS));
        assert!(sent.is_empty());
        assert_eq!(stats.send_errors[SendError::NoBuffers as usize], 128);
        assert_eq!(calls, 128);
        let (sent, stats, _) = send_with(10, 1024, |n| (n % 2 == 0).then_some(libc::EAGAIN));
        assert_eq!(sent, [1, 3, 5, 7, 9]);
        assert_eq!(stats.send_errors[SendError::WouldBlock as usize], 5);
    }

    #[test]
    fn every_reason_has_its_counter() {
        let cases = [
            (libc::ECONNREFUSED, SendError::Refused),
            (libc::ENETDOWN, SendError::Unreachable),
            (libc::EACCES, SendError::NotPermitted),
            (libc::ENOMEM, SendError::NoBuffers),
            (libc::EAGAIN, SendError::WouldBlock),
            (libc::EMSGSIZE, SendError::TooLong),
            (libc::EAFNOSUPPORT, SendError::Invalid),
            (libc::EIO, SendError::Other),
        ];
        for (index, (errno, reason)) in cases.into_iter().enumerate() {
            assert_eq!(SendError::of(errno), reason);
            assert_eq!(reason as usize, index);
        }
        assert_eq!(cases.len(), SendError::COUNT);
    }
}
