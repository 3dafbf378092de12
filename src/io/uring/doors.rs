//! The doors: one unconnected UDP socket each, on a ring of their own.
//!
//! Each socket has one receive that goes on and on, into a group of buffers of its own, so that who floods one door
//! takes no buffer from another. The kernel does the receiving when the ring is entered for it, which is when the
//! datagrams are due; until then nothing that arrives here wakes anybody.

use std::collections::VecDeque;
use std::io;
use std::iter;
use std::mem;
use std::net::{SocketAddr, UdpSocket};
use std::ops::Range;
use std::os::fd::AsRawFd;

use crate::io::stats::{SendError, may_be_for_offload};
use crate::io::sys::{BufferId, Completion, Group, Joining, Message, Outgoing, Ring};
use crate::io::uring::tag::{Sending, Tag};
use crate::io::uring::{Sizes, Turning, refused};
use crate::io::{
    BindError, Clock, DOORS, IDLE_INTERVAL, IoOptions, IoStats, RECEIVE_BUFFER_BYTES, Wake, door_name,
    sockets,
};
use crate::seam::{Core, Door, Input, OutDatagram, Outbox};
use crate::time::Instant;

/// All doors.
#[derive(Debug)]
pub(super) struct Doors {
    ring: Ring,
    sockets: [Option<DoorSocket>; Door::COUNT],
    outgoing: Outgoing,
    /// Messages of several datagrams that could not be sent as such.
    refused: Vec<Sending>,
    /// Datagrams that the last drain brought: about as many as the next one will.
    expected: usize,
    wake: Wake,
    per_turn: usize,
    /// Completions that the ring's queue holds.
    completions: usize,
    /// Whether arrivals are to wake the loop.
    watched: bool,
    /// While nobody plays: arrivals wake nobody until then.
    closed_until: Option<Instant>,
}

#[derive(Debug)]
struct DoorSocket {
    door: Door,
    socket: UdpSocket,
    /// Its number among the ring's registered files, and among the control ring's.
    file: u32,
    group: Group,
    dual_stack: bool,
    /// Several datagrams to one peer go as one message, until that is refused.
    offload: bool,
    /// A receive is under way.
    receiving: bool,
    /// It was under way before: the next one is a repetition.
    has_received: bool,
    /// A poll in the control ring is under way.
    polling: bool,
    /// And was cancelled.
    cancelling: bool,
    /// Datagrams may be waiting in the socket.
    readable: bool,
    /// Received, and not yet told to the core.
    queue: VecDeque<(BufferId, u32)>,
    /// When the socket was last found empty: what it holds now came later.
    emptied_at: Instant,
    /// The kernel's drop count when last told.
    drops_told: u32,
}

impl Doors {
    /// Opens the doors that have an address. Each one's file number is its place among those that are open.
    pub(super) fn open(options: &IoOptions, sizes: Sizes, now: Instant) -> Result<Self, BindError> {
        let mut ring = Ring::new(sizes.batch as u32, sizes.completions as u32).map_err(refused)?;
        let mut opened = [None, None, None];
        let mut files = Vec::new();
        for door in DOORS {
            if let Some(address) = options.doors[door as usize] {
                let socket = sockets::open_door(door, address, options)?;
                let group =
                    ring.add_datagram_buffers(sizes.buffers, RECEIVE_BUFFER_BYTES).map_err(refused)?;
                let file = files.len() as u32;
                files.push(socket.as_raw_fd());
                opened[door as usize] = Some(DoorSocket {
                    door,
                    socket,
                    file,
                    group,
                    dual_stack: address.is_ipv6(),
                    offload: true,
                    receiving: false,
                    has_received: false,
                    polling: false,
                    cancelling: false,
                    readable: false,
                    queue: VecDeque::with_capacity(usize::from(sizes.buffers)),
                    emptied_at: now,
                    drops_told: 0,
                });
            }
        }
        if !files.is_empty() {
            ring.register_files(&files).map_err(refused)?;
        }
        Ok(Self {
            ring,
            sockets: opened,
            outgoing: Outgoing::new(sizes.batch),
            refused: Vec::with_capacity(sizes.batch.div_ceil(2)),
            expected: 0,
            wake: options.wake,
            per_turn: options.datagrams_per_turn.max(1),
            completions: sizes.completions,
            watched: false,
            closed_until: None,
        })
    }

    /// Sees to it that the kernel cuts no messages of `door`.
    #[cfg(test)]
    pub(super) fn refuse_offload(&self, door: Door) {
        let socket = self.sockets[door as usize].as_ref().expect("an open door");
        crate::io::sys::refuse_offload(std::os::fd::AsFd::as_fd(&socket.socket)).expect("an option");
    }

    /// Makes the calling thread the ring's.
    pub(super) fn enable(&self) -> io::Result<()> {
        self.ring.enable()
    }

    pub(super) fn local_addrs(&self) -> impl Iterator<Item = (&'static str, SocketAddr)> {
        let open = self.sockets.iter().flatten();
        open.filter_map(|socket| Some((door_name(socket.door), socket.socket.local_addr().ok()?)))
    }

    /// The sockets' descriptors in the order of their file numbers.
    pub(super) fn files(&self) -> impl Iterator<Item = i32> {
        self.sockets.iter().flatten().map(|socket| socket.socket.as_raw_fd())
    }

    /// The control ring's poll of `door` is over.
    pub(super) fn on_poll(&mut self, door: Door, completion: &Completion) {
        if let Some(socket) = &mut self.sockets[door as usize] {
            socket.polling = false;
            socket.cancelling = false;
            // Late words, from before the doors were closed or somebody played, say nothing new.
            socket.readable |= self.watched && completion.result.is_ok();
        }
    }

    /// Whether there is something to drain without waiting.
    pub(super) fn has_work(&mut self) -> bool {
        self.ring.has_overflowed()
            || self.sockets.iter().flatten().any(|socket| socket.readable || !socket.queue.is_empty())
    }

    /// When the doors next want to be watched again.
    pub(super) fn next_deadline(&self, next_tick: Option<Instant>) -> Option<Instant> {
        // While somebody plays the tick drains them, watched or not.
        self.closed_until.filter(|_| next_tick.is_none())
    }

    /// Has the control ring watch the sockets, or not, as the core's next tick demands. A socket that holds something
    /// is told of at once.
    pub(super) fn watch(&mut self, next_tick: Option<Instant>, turning: &mut Turning<'_>) -> io::Result<()> {
        if self.closed_until.is_some_and(|until| turning.now >= until) {
            self.closed_until = None;
        }
        self.watched = self.wake == Wake::Event || (next_tick.is_none() && self.closed_until.is_none());
        for socket in self.sockets.iter_mut().flatten() {
            let tag = Tag::DoorReadable(socket.door).pack();
            if self.watched && !socket.polling && !socket.readable {
                socket.polling = true;
                turning.ring.poll_readable(socket.file, tag)?;
            } else if !self.watched && next_tick.is_some() && socket.polling && !socket.cancelling {
                // Between the drains of an idle server it stays: that a quiet door speaks up wakes the loop once.
                socket.cancelling = true;
                turning.ring.cancel_poll(tag)?;
            }
        }
        Ok(())
    }

    /// Takes in what is due: everything when the tick is, else what the control ring told of or the last turn left
    /// over.
    pub(super) fn drain(
        &mut self,
        core: &mut impl Core,
        clock: &mut Clock,
        turning: &mut Turning<'_>,
    ) -> io::Result<()> {
        let next_tick = core.next_tick();
        let tick_is_due = self.wake == Wake::Tick && next_tick.is_some_and(|tick| turning.now >= tick);
        if !tick_is_due && !self.has_work() {
            return Ok(());
        }
        clock.sample_wall();
        let asked_at = clock.now();
        self.receive(turning.stats)?;
        turning.now = clock.now();
        for socket in self.sockets.iter_mut().flatten() {
            socket.deliver(&mut self.ring, self.per_turn, core, clock, turning);
            // A receive that is still under way has taken all there was.
            socket.readable = !socket.receiving;
            if socket.receiving && socket.queue.is_empty() {
                socket.emptied_at = asked_at;
            }
        }
        if self.wake == Wake::Tick && next_tick.is_none() {
            self.closed_until = Some(turning.now + IDLE_INTERVAL);
            // What is left over in the sockets waits as well, and is told of when they are watched again.
            self.sockets.iter_mut().flatten().for_each(|socket| socket.readable = false);
        }
        Ok(())
    }

    /// Has the kernel receive all that it can.
    fn receive(&mut self, stats: &mut IoStats) -> io::Result<()> {
        for socket in self.sockets.iter_mut().flatten().filter(|socket| !socket.receiving) {
            socket.receiving = true;
            stats.uring.rearms += u64::from(mem::replace(&mut socket.has_received, true));
            self.ring.receive_datagrams(socket.file, socket.group, Tag::Receive(socket.door).pack())?;
        }
        stats.calls.uring_enter += self.ring.collect(self.expected, self.completions as u64)?;
        let left = self.sockets.iter().flatten().map(|socket| socket.queue.len()).sum::<usize>();
        self.reap(false, stats);
        let queued = self.sockets.iter().flatten().map(|socket| socket.queue.len()).sum::<usize>();
        self.expected = queued - left;
        Ok(())
    }

    /// Sorts out what the ring has completed. With `may_send_again`, what it says of messages is about the outbox that
    /// is still there.
    fn reap(&mut self, may_send_again: bool, stats: &mut IoStats) {
        stats.uring.overflows += u64::from(self.ring.has_overflowed());
        // Not more than the queue holds, in case that it fills as fast as it is read.
        for _ in 0..self.completions {
            let Some(completion) = self.ring.next() else { return };
            match Tag::unpack(completion.user_data) {
                Some(Tag::Receive(door)) => {
                    let stats = &mut *stats;
                    if let Some(socket) = &mut self.sockets[door as usize] {
                        socket.on_received(&completion, stats);
                    }
                }
                Some(Tag::Send(sending)) => {
                    if let Err(errno) = completion.result {
                        let (count, bytes) = (u64::from(sending.count), u64::from(sending.bytes));
                        let stats = &mut stats.doors[sending.door as usize];
                        stats.datagrams_out -= count;
                        stats.bytes_out -= bytes;
                        stats.offloaded_out -= if count > 1 { count } else { 0 };
                        if may_send_again && count > 1 && may_be_for_offload(errno) {
                            self.refused.push(sending);
                        } else {
                            stats.send_errors[SendError::of(errno) as usize] += count;
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Hands the outbox's datagrams to the kernel, in order. Those in a row for one peer go as one message where they can.
    pub(super) fn send(&mut self, outbox: &Outbox, stats: &mut IoStats) -> io::Result<()> {
        let datagrams = outbox.datagrams();
        let (sockets, door_stats) = (&self.sockets, &mut stats.doors);
        let mut first = 0;
        let messages = iter::from_fn(|| {
            while let Some(datagram) = datagrams.get(first) {
                let stats = &mut door_stats[datagram.door as usize];
                let Some(socket) = &sockets[datagram.door as usize] else {
                    stats.no_socket += 1;
                    first += 1;
                    continue;
                };
                let count = if socket.offload { joined(&datagrams[first..]) } else { 1 };
                let range = first..first + count;
                first += count;
                let message = socket.message(outbox, range);
                stats.offloaded_out += if count > 1 { count as u64 } else { 0 };
                // Only what fails is told, and then taken off the counts again.
                stats.datagrams_out += count as u64;
                stats.bytes_out += message.bytes.len() as u64;
                return Some(message);
            }
            None
        });
        let has_late = self.ring.has_overflowed();
        stats.calls.uring_enter += self.ring.send(&mut self.outgoing, messages)?;
        self.reap(!has_late, stats);
        self.send_in_pieces(outbox, stats)
    }

    /// Sends the datagrams of messages that were refused as if for being several, one by one. If that helps, the door
    /// does without from now on.
    fn send_in_pieces(&mut self, outbox: &Outbox, stats: &mut IoStats) -> io::Result<()> {
        while let Some(Sending { door, first, count, bytes }) = self.refused.pop() {
            let Some(socket) = &self.sockets[door as usize] else { continue };
            let range = usize::from(first)..usize::from(first) + usize::from(count);
            let messages = range.map(|index| socket.message(outbox, index..index + 1));
            let door_stats = &mut stats.doors[door as usize];
            door_stats.datagrams_out += u64::from(count);
            door_stats.bytes_out += u64::from(bytes);
            let failed_before = door_stats.send_errors_total();
            stats.calls.uring_enter += self.ring.send(&mut self.outgoing, messages)?;
            self.reap(false, stats);
            let door_stats = &mut stats.doors[door as usize];
            let has_helped = door_stats.send_errors_total() - failed_before < u64::from(count);
            if let Some(socket) = &mut self.sockets[door as usize] {
                door_stats.offload_refused += u64::from(has_helped && socket.offload);
                socket.offload &= !has_helped;
            }
        }
        Ok(())
    }
}

/// How many of `datagrams`, the first included, can go as one message.
fn joined(datagrams: &[OutDatagram]) -> usize {
    let Some((first, others)) = datagrams.split_first() else { return 0 };
    let mut joining = Joining::new(usize::from(first.len));
    let joins = |datagram: &&OutDatagram| {
        (datagram.door, datagram.to) == (first.door, first.to) && joining.join(usize::from(datagram.len))
    };
    1 + others.iter().take_while(joins).count()
}

impl DoorSocket {
    /// The message that the outbox's datagrams in `range` are.
    fn message<'a>(&self, outbox: &'a Outbox, range: Range<usize>) -> Message<'a> {
        let datagram = outbox.datagrams()[range.start];
        let bytes = outbox.datagrams_bytes(range.clone());
        let count = range.len() as u8;
        let sending = Sending {
            door: self.door,
            first: range.start as u16,
            count,
            // No message is longer than fits.
            bytes: bytes.len() as u16,
        };
        Message {
            file: self.file,
            dual_stack: self.dual_stack,
            to: datagram.to,
            bytes,
            segment_bytes: (count > 1).then_some(datagram.len),
            user_data: Tag::Send(sending).pack(),
        }
    }

    fn on_received(&mut self, completion: &Completion, stats: &mut IoStats) {
        // Data can come with the end of the receive: both count.
        self.receiving &= completion.more;
        match (completion.result, completion.buffer) {
            (Ok(len), Some(buffer)) => self.queue.push_back((buffer, len)),
            (Err(libc::ENOBUFS), None) => stats.uring.no_buffers += 1,
            // An error that some peer's host caused, told to us once. The socket is as good as before.
            (_, buffer) => {
                stats.doors[self.door as usize].receive_errors += 1;
                // Empty-handed, but perhaps with a buffer: it goes back with the others.
                self.queue.extend(buffer.map(|buffer| (buffer, 0)));
            }
        }
    }

    fn deliver(
        &mut self,
        ring: &mut Ring,
        per_turn: usize,
        core: &mut impl Core,
        clock: &Clock,
        turning: &mut Turning<'_>,
    ) {
        let now = turning.now;
        let stats = &mut turning.stats.doors[self.door as usize];
        let count = self.queue.len().min(per_turn);
        stats.batches_in += u64::from(count > 0);
        for (buffer, len) in self.queue.drain(..count) {
            if let Some(datagram) = ring.datagram(buffer, len as usize) {
                let bytes = &datagram.bytes[..datagram.bytes.len().min(RECEIVE_BUFFER_BYTES)];
                stats.datagrams_in += 1;
                stats.bytes_in += bytes.len() as u64;
                stats.empty_in += u64::from(bytes.is_empty());
                if let Some(drops) = datagram.drops {
                    stats.kernel_drops += u64::from(drops.wrapping_sub(self.drops_told));
                    self.drops_told = drops;
                }
                if let Some(from) = datagram.from {
                    let at =
                        datagram.stamp_ns.map_or(now, |stamp| clock.received_at(stamp, self.emptied_at, now));
                    core.handle(now, Input::Datagram { door: self.door, from, at, bytes });
                }
            }
            ring.give_back(buffer);
        }
    }
}
