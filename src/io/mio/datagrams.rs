//! The doors: one unconnected UDP socket each, drained and flushed in batches.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use mio::unix::SourceFd;
use mio::{Interest, Token};

use crate::io::mio::{FIRST_DOOR, Turning};
use crate::io::stats::{DoorStats, SendError, may_be_for_offload};
use crate::io::sys::{LoadedBatch, ReceiveBatch, SendBatch};
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
    /// Several datagrams to one peer go as one message, until that is refused.
    offload: bool,
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
                    offload: true,
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
            let Some(socket) = &mut self.sockets[door as usize] else {
                door_stats.no_socket += ours.count() as u64;
                continue;
            };
            let fd = socket.socket.as_fd();
            let mut messages = ours.map(|index| (outbox.datagrams()[index].to, outbox.datagram_bytes(index)));
            loop {
                let loaded = self.sending.load(socket.dual_stack, socket.offload, &mut messages);
                if loaded.len() == 0 {
                    break;
                }
                let mut loaded = Loaded(loaded, fd);
                stats.calls.sendmmsg += send_past_errors(&mut loaded, &mut socket.offload, door_stats);
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

/// Messages to send, each of one or more datagrams.
trait Messages {
    fn len(&self) -> usize;
    /// How many datagrams message `index` is.
    fn datagrams(&self, index: usize) -> usize;
    /// Bytes of message `index`.
    fn bytes(&self, index: usize) -> usize;
    /// Sends from message `first` on. Returns how many went, or the `errno` of why the first did not.
    fn send(&mut self, first: usize) -> Result<usize, i32>;
    /// Sends one datagram of message `index` alone. Returns its length.
    fn send_one(&mut self, index: usize, datagram: usize) -> Result<usize, i32>;
}

/// A loaded batch and the socket to send it from.
struct Loaded<'a, 's>(LoadedBatch<'a>, BorrowedFd<'s>);

impl Messages for Loaded<'_, '_> {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn datagrams(&self, index: usize) -> usize {
        self.0.datagrams(index)
    }
    fn bytes(&self, index: usize) -> usize {
        self.0.len_of(index)
    }
    fn send(&mut self, first: usize) -> Result<usize, i32> {
        self.0.send(self.1, first)
    }
    fn send_one(&mut self, index: usize, datagram: usize) -> Result<usize, i32> {
        self.0.send_one(self.1, index, datagram)
    }
}

/// Sends messages with as few calls as can be: a call stops at a message that fails, so that one is counted and
/// skipped. A message of several datagrams that fails as if for its being one is sent in pieces; if that helps,
/// `offload` is switched off. Returns the number of calls.
fn send_past_errors(messages: &mut impl Messages, offload: &mut bool, stats: &mut DoorStats) -> u64 {
    let mut calls = 0;
    let mut first = 0;
    while first < messages.len() {
        calls += 1;
        match messages.send(first) {
            Ok(sent) => {
                let sent = sent.max(1);
                for index in first..first + sent {
                    let datagrams = messages.datagrams(index) as u64;
                    stats.datagrams_out += datagrams;
                    stats.offloaded_out += if datagrams > 1 { datagrams } else { 0 };
                    stats.bytes_out += messages.bytes(index) as u64;
                }
                first += sent;
            }
            Err(errno) => {
                if messages.datagrams(first) > 1 && may_be_for_offload(errno) {
                    calls += send_in_pieces(messages, first, offload, stats);
                } else {
                    stats.send_errors[SendError::of(errno) as usize] += messages.datagrams(first) as u64;
                }
                first += 1;
            }
        }
    }
    calls
}

fn send_in_pieces(
    messages: &mut impl Messages,
    index: usize,
    offload: &mut bool,
    stats: &mut DoorStats,
) -> u64 {
    let datagrams = messages.datagrams(index);
    for datagram in 0..datagrams {
        match messages.send_one(index, datagram) {
            Ok(bytes) => {
                stats.datagrams_out += 1;
                stats.bytes_out += bytes as u64;
                // It can be sent, only not that way. (Else it was the address, and no reason to change our ways.)
                stats.offload_refused += u64::from(*offload);
                *offload = false;
            }
            Err(errno) => stats.send_errors[SendError::of(errno) as usize] += 1,
        }
    }
    datagrams as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel that fails message `n` with `failures(n)` and sends at most `at_once` others in a call. Datagrams of
    /// failed messages go alone, unless `alone` is why they do not either.
    struct Script<F> {
        datagrams: Vec<usize>,
        at_once: usize,
        failures: F,
        alone: Option<i32>,
        sent: Vec<usize>,
        sent_alone: Vec<(usize, usize)>,
        offload: bool,
        stats: DoorStats,
        calls: u64,
    }

    impl<F: Fn(usize) -> Option<i32>> Script<F> {
        fn play(datagrams: &[usize], at_once: usize, failures: F, alone: Option<i32>) -> Self {
            let (datagrams, sent, sent_alone) = (datagrams.to_vec(), Vec::new(), Vec::new());
            let (mut offload, mut stats) = (true, DoorStats::default());
            let mut script =
                Self { datagrams, at_once, failures, alone, sent, sent_alone, offload, stats, calls: 0 };
            script.calls = send_past_errors(&mut script, &mut offload, &mut stats);
            (script.offload, script.stats) = (offload, stats);
            script
        }
    }

    impl<F: Fn(usize) -> Option<i32>> Messages for Script<F> {
        fn len(&self) -> usize {
            self.datagrams.len()
        }
        fn datagrams(&self, index: usize) -> usize {
            self.datagrams[index]
        }
        fn bytes(&self, index: usize) -> usize {
            10 * self.datagrams[index]
        }
        fn send(&mut self, first: usize) -> Result<usize, i32> {
            if let Some(errno) = (self.failures)(first) {
                return Err(errno);
            }
            let end = self.len().min(first + self.at_once);
            let end = (first..end).find(|&n| (self.failures)(n).is_some()).unwrap_or(end);
            self.sent.extend(first..end);
            Ok(end - first)
        }
        fn send_one(&mut self, index: usize, datagram: usize) -> Result<usize, i32> {
            self.alone.map_or(Ok(()), Err)?;
            self.sent_alone.push((index, datagram));
            Ok(10)
        }
    }

    /// Sends messages of a datagram each.
    fn send_with(
        count: usize,
        at_once: usize,
        failures: impl Fn(usize) -> Option<i32>,
    ) -> (Vec<usize>, DoorStats, u64) {
        let script = Script::play(&vec![1; count], at_once, failures, None);
        assert!(script.offload && script.sent_alone.is_empty());
        (script.sent, script.stats, script.calls)
    }

    /// A device that cannot, or a kernel that will not, cut messages: nothing is lost, and it is not asked again.
    #[test]
    fn case_55_refused_offload_is_switched_off() {
        for errno in [libc::EIO, libc::EINVAL] {
            let script = Script::play(&[1, 3, 1, 2], 1024, |n| (n == 1 || n == 3).then_some(errno), None);
            assert!(!script.offload);
            assert_eq!(script.sent, [0, 2]);
            assert_eq!(script.sent_alone, [(1, 0), (1, 1), (1, 2), (3, 0), (3, 1)]);
            let stats = script.stats;
            assert_eq!((stats.datagrams_out, stats.bytes_out, stats.offloaded_out), (7, 70, 0));
            assert_eq!((stats.offload_refused, stats.send_errors_total()), (1, 0));
        }
    }

    /// An address that nothing can be sent to is no reason to switch anything off: a peer chooses its own.
    #[test]
    fn case_55_a_refused_address_switches_nothing_off() {
        let refused = Some(libc::EINVAL);
        let script = Script::play(&[4, 4], 1024, |n| refused.filter(|_| n == 0), refused);
        assert!(script.offload);
        assert_eq!((script.stats.datagrams_out, script.stats.offloaded_out), (4, 4));
        assert_eq!(script.stats.send_errors[SendError::Invalid as usize], 4);
    }

    /// Out of buffers is out of buffers, however it is cut.
    #[test]
    fn a_full_socket_is_not_asked_for_each_piece() {
        let script = Script::play(&[4], 1024, |_| Some(libc::ENOBUFS), None);
        assert!(script.offload && script.sent_alone.is_empty());
        assert_eq!((script.calls, script.stats.send_errors[SendError::NoBuffers as usize]), (1, 4));
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
