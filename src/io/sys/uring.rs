//! A ring of io_uring, with safe calls: what the kernel may write to is owned here, and lent out only while the kernel
//! does not.
//!
//! A [`Ring`] is made anywhere and belongs to the thread that first [`Ring::enable`]s it. Its completions are worked out
//! by that thread alone, and only when it enters the kernel for them: nothing that arrives disturbs it in between.
#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::{BufRingEntry, CancelBuilder, Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};

use super::batch::{Address, CONTROL_BYTES, Received, read_control};
use super::outgoing::{Message, Outgoing};
use crate::time::Instant;

/// The header of a multishot receive: the lengths of address, control messages and payload, and flags, in 32 bits each.
const OUT_HEADER_BYTES: usize = 16;

/// What a multishot receive puts in front of the payload: its own header, the address, and the control messages.
const DATAGRAM_HEADER_BYTES: usize = OUT_HEADER_BYTES + mem::size_of::<Address>() + CONTROL_BYTES;

/// Datagrams that the kernel receives from one socket before it lets others have a turn.
const STRETCH_DATAGRAMS: usize = 32;

/// Attempts at handing everything queued to the kernel before the ring counts as broken.
const SUBMITS_MAX: u32 = 64;

/// The page size that buffer rings are aligned to; larger pages are multiples of it, and `mmap` aligns to those.
const PAGE_BYTES: usize = 4096;

/// Bits of user data that are the caller's.
pub(crate) const USER_DATA_BITS: u32 = 56;

/// The user data of requests whose completion says nothing.
pub(crate) const NOBODY: u64 = (1 << USER_DATA_BITS) - 1;

/// What a completion brings, in the bits above the caller's: nothing but its result, a descriptor, or a buffer of group
/// `n - FIRST_GROUP`.
const RESULT: u64 = 0;
const DESCRIPTOR: u64 = 1;
const FIRST_GROUP: u64 = 2;

/// A group of buffers that receives pick from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Group(u16);

impl Group {
    fn brings(self) -> u64 {
        FIRST_GROUP + u64::from(self.0)
    }
}

/// A received buffer, to be given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BufferId {
    group: Group,
    index: u16,
}

/// What became of a request.
#[derive(Debug)]
pub(crate) struct Completion {
    /// What the request was given to be known by.
    pub(crate) user_data: u64,
    /// What it returned, or the `errno` of why it failed.
    pub(crate) result: Result<u32, i32>,
    /// The connection that was accepted. Closed when nobody takes it.
    pub(crate) accepted: Option<OwnedFd>,
    /// Whether the request goes on.
    pub(crate) more: bool,
    /// Where it put what it received; ours until given back.
    pub(crate) buffer: Option<BufferId>,
}

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waited {
    /// Enough completions, or the deadline.
    Over,
    /// A signal's handling cut it short.
    Interrupted,
}

/// A ring with its buffers.
pub(crate) struct Ring {
    ring: IoUring,
    groups: Vec<Buffers>,
    /// The lengths of what precedes a datagram in its buffer.
    header: Box<libc::msghdr>,
    /// Something that was queued could not be submitted: what it points to may be gone, so nothing ever is again.
    broken: bool,
}

// SAFETY: the raw pointers in `groups` and `header` lead to memory that the ring owns and nobody else knows.
unsafe impl Send for Ring {}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("groups", &self.groups).finish_non_exhaustive()
    }
}

impl Ring {
    /// A ring for `submissions` requests between two entries into the kernel and `completions` between two readings;
    /// both are rounded up to powers of two. It is of no use before [`Ring::enable`].
    ///
    /// # Errors
    /// What the kernel says when it has no io_uring, forbids it, or lacks what is asked of it.
    pub(crate) fn new(submissions: u32, completions: u32) -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .setup_no_sqarray()
            .setup_r_disabled()
            .setup_clamp()
            .setup_cqsize(completions)
            .dontfork()
            .build(submissions)?;
        let params = ring.params();
        // The absolute timeout came with the same kernel as the minimum timeout, 6.12.
        if !params.is_feature_nodrop() || !params.is_feature_ext_arg() || !params.is_feature_min_timeout() {
            return Err(io::Error::from_raw_os_error(libc::ENOSYS));
        }
        // SAFETY: null pointers and zero lengths are a valid, empty header.
        let mut header: Box<libc::msghdr> = Box::new(unsafe { mem::zeroed() });
        header.msg_namelen = mem::size_of::<Address>() as libc::socklen_t;
        header.msg_controllen = CONTROL_BYTES as _;
        Ok(Self { ring, groups: Vec::new(), header, broken: false })
    }

    /// Whether a ring can be entered, and not only made: that is asked and allowed by itself. Waits for nothing.
    ///
    /// # Errors
    /// As for [`Ring::new`].
    pub(crate) fn probe() -> io::Result<()> {
        let mut ring = Self::new(1, 2)?;
        ring.enable()?;
        ring.wait(1, Some(Instant::ZERO)).map(|_| ())
    }

    /// Makes the calling thread the one that the ring belongs to.
    pub(crate) fn enable(&self) -> io::Result<()> {
        self.ring.submitter().register_enable_rings()
    }

    /// Registers files: number `n` of the list is what the requests for file `n` mean.
    pub(crate) fn register_files(&self, files: &[RawFd]) -> io::Result<()> {
        self.ring.submitter().register_files(files)
    }

    /// Adds a group of `count` buffers (a power of two up to 32,768) of `bytes` each.
    pub(crate) fn add_buffers(&mut self, count: u16, bytes: usize) -> io::Result<Group> {
        let group = Group(self.groups.len() as u16);
        let buffers = Buffers::new(count, bytes)?;
        let entries = buffers.entries.as_ptr() as u64;
        // SAFETY: the entries are page-aligned, hold `count` buffers, and live as long as the ring (see `drop`).
        unsafe { self.ring.submitter().register_buf_ring_with_flags(entries, count, group.0, 0)? };
        self.groups.push(buffers);
        Ok(group)
    }

    /// Adds a group of `count` buffers for datagrams of up to `bytes`.
    pub(crate) fn add_datagram_buffers(&mut self, count: u16, bytes: usize) -> io::Result<Group> {
        self.add_buffers(count, DATAGRAM_HEADER_BYTES + bytes)
    }

    /// Queues: receive datagrams of `file` into buffers of `group`, on and on.
    pub(crate) fn receive_datagrams(&mut self, file: u32, group: Group, user_data: u64) -> io::Result<()> {
        let header: *const libc::msghdr = &*self.header;
        self.push(opcode::RecvMsgMulti::new(Fixed(file), header, group.0).build(), group.brings(), user_data)
    }

    /// Queues: receive bytes of `stream` into a buffer of `group`, once.
    pub(crate) fn receive_bytes(
        &mut self,
        stream: BorrowedFd<'_>,
        group: Group,
        user_data: u64,
    ) -> io::Result<()> {
        let len = self.groups[usize::from(group.0)].buffer_bytes as u32;
        let entry =
            opcode::Recv::new(Fd(stream.as_raw_fd()), ptr::null_mut(), len).buf_group(group.0).build();
        self.push(entry.flags(squeue::Flags::BUFFER_SELECT), group.brings(), user_data)
    }

    /// Queues: accept connections of `file`, on and on. Each completion's result is a descriptor that is its reader's.
    pub(crate) fn accept(&mut self, file: u32, user_data: u64) -> io::Result<()> {
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        self.push(opcode::AcceptMulti::new(Fixed(file)).flags(flags).build(), DESCRIPTOR, user_data)
    }

    /// Queues: say once when `file` can be read.
    pub(crate) fn poll_readable(&mut self, file: u32, user_data: u64) -> io::Result<()> {
        self.push(opcode::PollAdd::new(Fixed(file), libc::POLLIN as u32).build(), RESULT, user_data)
    }

    /// Queues: say once when `stream` can be written, or has failed.
    pub(crate) fn poll_writable(&mut self, stream: BorrowedFd<'_>, user_data: u64) -> io::Result<()> {
        let entry = opcode::PollAdd::new(Fd(stream.as_raw_fd()), libc::POLLOUT as u32).build();
        self.push(entry, RESULT, user_data)
    }

    /// Queues: cancel the receive of `group` that is known by `user_data`.
    pub(crate) fn cancel_receive(&mut self, group: Group, user_data: u64) -> io::Result<()> {
        self.cancel(group.brings() << USER_DATA_BITS | user_data)
    }

    /// Queues: cancel the poll that is known by `user_data`.
    pub(crate) fn cancel_poll(&mut self, user_data: u64) -> io::Result<()> {
        self.cancel(user_data)
    }

    /// A request that is cancelled completes as such. The cancellation says nothing beside that.
    fn cancel(&mut self, tagged: u64) -> io::Result<()> {
        let entry = opcode::AsyncCancel2::new(CancelBuilder::user_data(tagged)).build();
        self.push(entry.flags(squeue::Flags::SKIP_SUCCESS), RESULT, NOBODY)
    }

    /// Sends `messages`, in order, without blocking: all of it is over on return. Only what fails is told by a completion.
    /// Returns how often the kernel was entered: once, unless there are more than the submission queue or `outgoing` hold.
    pub(crate) fn send<'a>(
        &mut self,
        outgoing: &mut Outgoing,
        messages: impl Iterator<Item = Message<'a>>,
    ) -> io::Result<u64> {
        outgoing.clear();
        let mut entries = 0;
        for message in messages {
            if !outgoing.has_room(&message) || self.ring.submission().is_full() {
                entries += self.submit_all()?;
                outgoing.clear();
            }
            // A request that may not block is tried once, while it is submitted, and its failure is a completion though
            // its success is none. So what it points to is free again after the entry, whatever became of it.
            let entry = outgoing.entry(&message).flags(squeue::Flags::SKIP_SUCCESS);
            self.push(entry, RESULT, message.user_data)?;
        }
        Ok(entries + self.submit_all()?)
    }

    /// Submits what is queued. Returns how often the kernel was entered.
    pub(crate) fn submit(&mut self) -> io::Result<u64> {
        self.submit_all()
    }

    /// Submits what is queued, and waits for `want` completions or until `deadline`.
    pub(crate) fn wait(&mut self, want: usize, deadline: Option<Instant>) -> io::Result<Waited> {
        self.check()?;
        let submitter = self.ring.submitter();
        let result = match deadline {
            Some(deadline) => {
                let ns = deadline.as_nanos().min(i64::MAX as u64);
                let timeout = Timespec::new().sec(ns / 1_000_000_000).nsec((ns % 1_000_000_000) as u32);
                let args = SubmitArgs::new().timespec(&timeout);
                submitter.submit_with_args_and_flags(want, &args, EnterFlags::ABS_TIMER)
            }
            None => submitter.submit_and_wait(want),
        };
        match result.map_err(|error| (error.raw_os_error(), error)) {
            Ok(_) | Err((Some(libc::ETIME), _)) => Ok(Waited::Over),
            Err((Some(libc::EINTR), _)) => Ok(Waited::Interrupted),
            // Short of memory for a moment, or of room for completions, which the caller is about to make.
            Err((Some(libc::EAGAIN | libc::EBUSY), _)) => Ok(Waited::Over),
            Err((_, error)) => Err(error),
        }
    }

    /// Submits what is queued and has the kernel work out everything that has arrived: nothing at all when there is
    /// nothing, and at most `entries_max` entries otherwise. Returns how many it took.
    ///
    /// The kernel receives 32 datagrams of a socket at a stretch, and does not begin another one in the same entry
    /// unless it is asked for more completions than it has done stretches. So it is asked for an eighth of the
    /// `expected` datagrams: from an eighth to four times of what is expected comes in one entry. When less has come,
    /// the entry ends by its timeout, which lies in the past.
    pub(crate) fn collect(&mut self, expected: usize, entries_max: u64) -> io::Result<u64> {
        self.check()?;
        let sockets = self.groups.len();
        let want = if expected < STRETCH_DATAGRAMS { 0 } else { (expected / 8).max(sockets + 1) };
        // With less than this in an entry no stretch was cut short, since one at most for each socket is not full. The
        // kernel's own word on it, that there is work, stays after an entry in which there was more than a stretch.
        let more_from = (STRETCH_DATAGRAMS * want.saturating_sub(sockets)).max(1);
        let mut entries = 0;
        while entries < entries_max && self.is_pending() {
            entries += 1;
            let before = self.ring.completion().len();
            let result = if want > 0 {
                self.wait(want, Some(Instant::ZERO)).map(|_| ())
            } else {
                self.enter(EnterFlags::GETEVENTS).map(|_| ())
            };
            match result.map_err(|error| (error.raw_os_error(), error)) {
                Ok(()) | Err((Some(libc::EINTR), _)) => {}
                // Short of memory for a moment, or of room for completions, which the caller is about to make.
                Err((Some(libc::EAGAIN | libc::EBUSY), _)) => break,
                Err((_, error)) => return Err(error),
            }
            if self.ring.completion().len() - before < more_from {
                break;
            }
        }
        Ok(entries)
    }

    /// Whether an entry would bring anything.
    fn is_pending(&mut self) -> bool {
        let queue = self.ring.submission();
        !queue.is_empty() || queue.taskrun() || queue.cq_overflow()
    }

    /// Whether completions wait to be taken.
    pub(crate) fn has_completions(&mut self) -> bool {
        !self.ring.completion().is_empty()
    }

    /// Whether the kernel holds completions back because the queue was full. The next wait brings them.
    pub(crate) fn has_overflowed(&mut self) -> bool {
        self.ring.submission().cq_overflow()
    }

    /// The next completion.
    pub(crate) fn next(&mut self) -> Option<Completion> {
        let entry: cqueue::Entry = self.ring.completion().next()?;
        let brings = entry.user_data() >> USER_DATA_BITS;
        let result = u32::try_from(entry.result()).map_err(|_| -entry.result());
        // SAFETY: such requests are accepts only, and what those return is a new descriptor that nobody knows of yet.
        let accept = || unsafe { OwnedFd::from_raw_fd(entry.result()) };
        let accepted = (brings == DESCRIPTOR && result.is_ok()).then(accept);
        let buffer = cqueue::buffer_select(entry.flags()).filter(|_| brings >= FIRST_GROUP);
        let buffer = buffer.map(|index| BufferId { group: Group((brings - FIRST_GROUP) as u16), index });
        if let Some(buffer) = buffer {
            self.groups[usize::from(buffer.group.0)].take(buffer.index);
        }
        Some(Completion {
            user_data: entry.user_data() & NOBODY,
            result,
            accepted,
            more: cqueue::more(entry.flags()),
            buffer,
        })
    }

    /// The first `len` bytes of a received buffer.
    pub(crate) fn bytes(&self, buffer: BufferId, len: usize) -> &[u8] {
        self.groups[usize::from(buffer.group.0)].bytes(buffer.index, len)
    }

    /// The datagram in a received buffer, of which `len` bytes were written. `None` when that is no whole header.
    pub(crate) fn datagram(&self, buffer: BufferId, len: usize) -> Option<Received<'_>> {
        let (header, rest) = self.bytes(buffer, len).split_first_chunk::<OUT_HEADER_BYTES>()?;
        let field =
            |at: usize| header[at..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes) as usize);
        let (name_bytes, control_bytes, payload_bytes) = (field(0), field(4), field(8));
        let (name, rest) = rest.split_at_checked(mem::size_of::<Address>())?;
        let (control, payload) = rest.split_at_checked(CONTROL_BYTES)?;
        let (stamp_ns, drops) = read_control(&control[..control_bytes.min(CONTROL_BYTES)]);
        Some(Received {
            from: Address::from_bytes(&name[..name_bytes.min(name.len())]).read(),
            // The length that it had, where it was cut to what the buffer holds.
            bytes: &payload[..payload_bytes.min(payload.len())],
            stamp_ns,
            drops,
        })
    }

    /// Gives a received buffer back to the kernel.
    pub(crate) fn give_back(&mut self, buffer: BufferId) {
        self.groups[usize::from(buffer.group.0)].give_back(buffer.index);
    }

    /// Enters the kernel without waiting. Without [`EnterFlags::GETEVENTS`] what has arrived stays as it is.
    fn enter(&mut self, flags: EnterFlags) -> io::Result<usize> {
        let queued = self.ring.submission().len() as u32;
        // SAFETY: no argument is passed; see `push` for what the queued requests point to.
        unsafe { self.ring.submitter().enter::<libc::sigset_t>(queued, 0, flags.bits(), None) }
    }

    fn check(&self) -> io::Result<()> {
        if self.broken { Err(io::Error::other("the ring is broken")) } else { Ok(()) }
    }

    /// Queues `entry`, after submitting when there is no room. What it points to must live until it is submitted, and
    /// what the kernel writes to for as long as it does.
    fn push(&mut self, entry: squeue::Entry, brings: u64, user_data: u64) -> io::Result<()> {
        assert!(user_data <= NOBODY, "user data that is not the caller's");
        let entry = entry.user_data(brings << USER_DATA_BITS | user_data);
        self.check()?;
        if self.ring.submission().is_full() {
            self.submit_all()?;
        }
        // SAFETY: requests are made in this file only. The header of receives and all buffers live as long as the
        // ring; messages to send are submitted, and so over, before `send` returns, or never are.
        unsafe { self.ring.submission().push(&entry) }
            .map_err(|_| io::Error::other("the submission queue is full"))
    }

    /// Submits all that is queued, and breaks the ring when the kernel does not take it.
    fn submit_all(&mut self) -> io::Result<u64> {
        self.check()?;
        let mut entries = 0;
        while !self.ring.submission().is_empty() {
            entries += 1;
            let result = self.enter(EnterFlags::empty());
            let retry = match &result {
                Ok(_) => true,
                Err(error) => {
                    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY))
                }
            };
            if !retry || entries >= u64::from(SUBMITS_MAX) {
                self.broken = true;
                return Err(result.err().unwrap_or_else(|| io::Error::other("the kernel takes no requests")));
            }
        }
        Ok(entries)
    }
}

impl Drop for Ring {
    /// The kernel must be done with the buffers before they go.
    fn drop(&mut self) {
        let cancelled = self.ring.submitter().register_sync_cancel(None, CancelBuilder::any());
        let is_quiet = match cancelled {
            Ok(()) => true,
            // Nothing is under way; or nothing ever was, since the ring was not enabled.
            Err(error) => matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EBADFD)),
        };
        // Connections that were accepted and told to nobody are closed.
        while self.next().is_some() {}
        if !is_quiet {
            // Dropped by another thread than it belongs to: what is under way ends some time after this.
            self.groups.drain(..).for_each(mem::forget);
        }
    }
}

/// Buffers and the ring that hands them to the kernel.
#[derive(Debug)]
struct Buffers {
    /// The ring's entries, and behind them, from `first` on, the buffers.
    entries: NonNull<BufRingEntry>,
    map_bytes: usize,
    first: usize,
    count: u16,
    buffer_bytes: usize,
    /// What the ring's tail is.
    tail: u16,
    /// Which buffers were received into and are not given back.
    ours: Vec<bool>,
}

impl Buffers {
    fn new(count: u16, buffer_bytes: usize) -> io::Result<Self> {
        assert!(count.is_power_of_two() && count <= 1 << 15, "a count that a buffer ring cannot have");
        // Aligned for the header that receives put in front.
        let buffer_bytes = buffer_bytes.next_multiple_of(64);
        let first = (usize::from(count) * mem::size_of::<BufRingEntry>()).next_multiple_of(PAGE_BYTES);
        let map_bytes = first + usize::from(count) * buffer_bytes;
        // SAFETY: a fresh mapping, which touches nobody's memory.
        let map = unsafe {
            libc::mmap(
                ptr::null_mut(),
                map_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
                -1,
                0,
            )
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let entries = NonNull::new(map.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let ours = vec![true; usize::from(count)];
        let mut buffers = Self { entries, map_bytes, first, count, buffer_bytes, tail: 0, ours };
        (0..count).for_each(|index| buffers.give_back(index));
        Ok(buffers)
    }

    fn start(&self, index: u16) -> *mut u8 {
        assert!(index < self.count, "no such buffer");
        // SAFETY: within the mapping, which holds `count` buffers behind `first`.
        unsafe { self.entries.as_ptr().cast::<u8>().add(self.first + usize::from(index) * self.buffer_bytes) }
    }

    /// The kernel has used buffer `index`.
    fn take(&mut self, index: u16) {
        self.ours[usize::from(index)] = true;
    }

    fn bytes(&self, index: u16, len: usize) -> &[u8] {
        assert!(
            self.ours[usize::from(index)] && len <= self.buffer_bytes,
            "read a buffer that is the kernel's"
        );
        // SAFETY: within the mapping and initialised (by `mmap`); the kernel is done with this buffer until it is
        // given back, which takes a `&mut self`.
        unsafe { std::slice::from_raw_parts(self.start(index), len) }
    }

    fn give_back(&mut self, index: u16) {
        assert!(mem::take(&mut self.ours[usize::from(index)]), "gave back a buffer that is the kernel's");
        let (addr, len) = (self.start(index) as u64, self.buffer_bytes as u32);
        let slot = usize::from(self.tail & (self.count - 1));
        // SAFETY: `slot` is below `count`, so within the mapping's entries. The kernel does not read an entry before
        // the tail passes it. The tail is a part of the first entry that the other fields leave alone, aligned for
        // its type, and is only ever accessed as an atomic while the kernel may read it.
        unsafe {
            let entry = &mut *self.entries.as_ptr().add(slot);
            entry.set_addr(addr);
            entry.set_len(len);
            entry.set_bid(index);
            self.tail = self.tail.wrapping_add(1);
            let tail = BufRingEntry::tail(self.entries.as_ptr()).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: our own mapping, which nobody looks at any more: neither a `Ring`'s caller, who borrowed through
        // it, nor the kernel, for which `Ring` sees to that.
        unsafe { libc::munmap(self.entries.as_ptr().cast(), self.map_bytes) };
    }
}
