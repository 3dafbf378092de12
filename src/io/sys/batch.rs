//! Datagrams in batches, and addresses and control messages as the kernel has them.
#![allow(unsafe_code)]
#![allow(clippy::unnecessary_cast, reason = "some of these types differ between C libraries")]

use std::marker::PhantomData;
use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use super::{errno, timespec_ns};

/// Received datagrams, in batches: headers, buffers and their pointers are laid out once.
#[derive(Debug)]
pub(crate) struct ReceiveBatch {
    headers: Vec<libc::mmsghdr>,
    addresses: Vec<Address>,
    controls: Vec<Control>,
    bytes: Vec<u8>,
    buffer_bytes: usize,
    // Only pointed to by the headers.
    _iovecs: Vec<libc::iovec>,
    /// Headers that the last call wrote to.
    used: usize,
}

/// One datagram of a [`ReceiveBatch`].
#[derive(Debug)]
pub(crate) struct Received<'a> {
    /// Its source; `None` for an address family that our sockets cannot have.
    pub(crate) from: Option<SocketAddr>,
    /// Its bytes, cut at the batch's buffer size.
    pub(crate) bytes: &'a [u8],
    /// The kernel's receive stamp, in nanoseconds of the wall clock.
    pub(crate) stamp_ns: Option<u64>,
    /// How many datagrams this socket had dropped when this one was queued (wraps).
    pub(crate) drops: Option<u32>,
}

// SAFETY: the raw pointers in `headers` and `_iovecs` lead only into the vectors beside them, whose heap blocks stay
// where they are when the struct moves, and are never resized.
unsafe impl Send for ReceiveBatch {}

impl ReceiveBatch {
    /// Room for `count` datagrams of up to `buffer_bytes` each.
    pub(crate) fn new(count: usize, buffer_bytes: usize) -> Self {
        assert!(count > 0 && buffer_bytes > 0);
        let mut bytes = vec![0; count * buffer_bytes];
        let mut addresses = vec![Address::ZERO; count];
        let mut controls = vec![Control([0; CONTROL_BYTES]); count];
        let mut iovecs: Vec<_> = (0..count)
            .map(|i| libc::iovec {
                iov_base: bytes[i * buffer_bytes..].as_mut_ptr().cast(),
                iov_len: buffer_bytes,
            })
            .collect();
        let headers = (0..count)
            .map(|i| {
                let mut header = empty_header();
                header.msg_hdr.msg_name = ptr::from_mut(&mut addresses[i]).cast();
                header.msg_hdr.msg_iov = &mut iovecs[i];
                header.msg_hdr.msg_iovlen = 1;
                header.msg_hdr.msg_control = ptr::from_mut(&mut controls[i]).cast();
                header
            })
            .collect();
        Self { headers, addresses, controls, bytes, buffer_bytes, _iovecs: iovecs, used: count }
    }

    /// How many datagrams one call can bring.
    pub(crate) fn capacity(&self) -> usize {
        self.headers.len()
    }

    /// Takes up to `limit` waiting datagrams from `socket`, without blocking.
    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>, limit: usize) -> Result<usize, i32> {
        // The kernel writes the lengths it used over the lengths it was given.
        for header in &mut self.headers[..self.used] {
            header.msg_hdr.msg_namelen = mem::size_of::<Address>() as libc::socklen_t;
            header.msg_hdr.msg_controllen = CONTROL_BYTES as _;
        }
        self.used = 0;
        let count = limit.min(self.headers.len()) as libc::c_uint;
        // SAFETY: every header points into our own vectors, with the lengths of what it points to (set at creation
        // and above), and `count` is within the headers.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                count,
                libc::MSG_DONTWAIT as _,
                ptr::null_mut(),
            )
        };
        match usize::try_from(received) {
            Ok(received) => {
                self.used = received;
                Ok(received)
            }
            Err(_) => Err(errno()),
        }
    }

    /// Datagram `index` of those that the last [`ReceiveBatch::receive`] brought.
    pub(crate) fn get(&self, index: usize) -> Received<'_> {
        assert!(index < self.used, "read past the received datagrams");
        let header = &self.headers[index];
        let start = index * self.buffer_bytes;
        let len = (header.msg_len as usize).min(self.buffer_bytes);
        let control_bytes = (header.msg_hdr.msg_controllen as usize).min(CONTROL_BYTES);
        let (stamp_ns, drops) = read_control(&self.controls[index].0[..control_bytes]);
        Received {
            from: self.addresses[index].read(),
            bytes: &self.bytes[start..start + len],
            stamp_ns,
            drops,
        }
    }
}

/// Datagrams to send, in batches of messages: the headers are kept, and the bytes stay where they are.
#[derive(Debug)]
pub(crate) struct SendBatch {
    headers: Vec<libc::mmsghdr>,
    addresses: Vec<Address>,
    segments: Vec<Segments>,
    /// For each message, which of the datagrams it is.
    ranges: Vec<Range<usize>>,
    iovecs: Vec<libc::iovec>,
}

/// A [`SendBatch`] that points to the bytes of `'a`.
#[derive(Debug)]
pub(crate) struct LoadedBatch<'a> {
    headers: &'a mut [libc::mmsghdr],
    ranges: &'a [Range<usize>],
    iovecs: &'a mut [libc::iovec],
    _bytes: PhantomData<&'a [u8]>,
}

/// The control message that has the kernel cut a message into datagrams of a length.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Segments {
    len: usize,
    level: i32,
    kind: i32,
    segment_bytes: u16,
    _padding: [u8; 6],
}

const _: () = assert!(mem::offset_of!(Segments, segment_bytes) == mem::size_of::<libc::cmsghdr>());

impl Segments {
    const NONE: Self = Self {
        len: mem::offset_of!(Self, segment_bytes) + mem::size_of::<u16>(),
        level: libc::SOL_UDP,
        kind: libc::UDP_SEGMENT,
        segment_bytes: 0,
        _padding: [0; 6],
    };

    fn set(&mut self, segment_bytes: u16) {
        self.segment_bytes = segment_bytes;
    }
}

/// The header of one message that the kernel is to cut, with what it points to but the address and the bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    header: libc::msghdr,
    iovec: libc::iovec,
    segments: Segments,
}

// SAFETY: the raw pointers are followed by the kernel only, in a call that is made right after `set`.
unsafe impl Send for Cut {}

impl Cut {
    pub(super) fn empty() -> Self {
        let iovec = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        Self { header: empty_header().msg_hdr, iovec, segments: Segments::NONE }
    }

    /// Lays out the message of `bytes` to `address`, to be cut into datagrams of `segment_bytes`. The header is good for
    /// as long as nothing of this moves.
    pub(super) fn set(
        &mut self,
        address: &Address,
        address_len: libc::socklen_t,
        bytes: &[u8],
        segment_bytes: u16,
    ) -> *const libc::msghdr {
        self.iovec = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        self.segments.set(segment_bytes);
        self.header.msg_name = ptr::from_ref(address).cast_mut().cast();
        self.header.msg_namelen = address_len;
        self.header.msg_iov = &mut self.iovec;
        self.header.msg_iovlen = 1;
        self.header.msg_control = ptr::from_mut(&mut self.segments).cast();
        self.header.msg_controllen = mem::size_of::<Segments>() as _;
        &raw const self.header
    }
}

/// Datagrams that one message may hold: what every kernel takes that knows of it.
pub(crate) const SEGMENTS_MAX: usize = 64;

/// Bytes that one message may hold: those of the longest UDP datagram, less the longest headers.
const MESSAGE_BYTES_MAX: usize = 65_000;

// SAFETY: as for `ReceiveBatch`; pointers to a caller's bytes are followed only through a `LoadedBatch`, which borrows
// both.
unsafe impl Send for SendBatch {}

impl SendBatch {
    /// Room for `count` datagrams.
    pub(crate) fn new(count: usize) -> Self {
        assert!(count > 0);
        Self {
            headers: vec![empty_header(); count],
            addresses: vec![Address::ZERO; count],
            segments: vec![Segments::NONE; count],
            ranges: vec![0..0; count],
            iovecs: vec![libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; count],
        }
    }

    /// Loads datagrams until the batch is full or `messages` ends. `dual_stack` says that the socket is an IPv6 one
    /// that serves IPv4 peers too. With `offload`, datagrams in a row for the same peer go as one message, where
    /// all are equally long but the last, which may be shorter.
    pub(crate) fn load<'a, 'm: 'a>(
        &'a mut self,
        dual_stack: bool,
        offload: bool,
        messages: &mut impl Iterator<Item = (SocketAddr, &'m [u8])>,
    ) -> LoadedBatch<'a> {
        let (mut len, mut datagrams) = (0, 0);
        let mut last: Option<(SocketAddr, Joining)> = None;
        while datagrams < self.iovecs.len()
            && let Some((to, bytes)) = messages.next()
        {
            self.iovecs[datagrams] =
                libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
            datagrams += 1;
            if offload
                && let Some((peer, joining)) = &mut last
                && *peer == to
                && joining.join(bytes.len())
            {
                self.ranges[len - 1].end = datagrams;
                continue;
            }
            last = Some((to, Joining::new(bytes.len())));
            self.ranges[len] = datagrams - 1..datagrams;
            self.headers[len].msg_hdr.msg_namelen = self.addresses[len].write(to, dual_stack);
            len += 1;
        }
        for index in 0..len {
            self.lay_out(index);
        }
        LoadedBatch {
            headers: &mut self.headers[..len],
            ranges: &self.ranges[..len],
            iovecs: &mut self.iovecs[..datagrams],
            _bytes: PhantomData,
        }
    }

    /// Points the header of message `index` to its parts.
    fn lay_out(&mut self, index: usize) {
        let range = self.ranges[index].clone();
        let segments = &mut self.segments[index];
        let header = &mut self.headers[index].msg_hdr;
        header.msg_name = ptr::from_mut(&mut self.addresses[index]).cast();
        let iovecs = &mut self.iovecs[range];
        header.msg_iov = iovecs.as_mut_ptr();
        header.msg_iovlen = iovecs.len() as _;
        (header.msg_control, header.msg_controllen) = if iovecs.len() > 1 {
            segments.set(iovecs[0].iov_len as u16);
            (ptr::from_mut(segments).cast(), mem::size_of::<Segments>() as _)
        } else {
            (ptr::null_mut(), 0)
        };
    }
}

/// Which datagrams may still be joined to a message.
#[derive(Debug)]
pub(crate) struct Joining {
    segment_bytes: usize,
    bytes: usize,
    datagrams: usize,
    is_closed: bool,
}

impl Joining {
    /// Begins with a datagram of `bytes`.
    pub(crate) fn new(bytes: usize) -> Self {
        Self { segment_bytes: bytes, bytes, datagrams: 1, is_closed: false }
    }

    /// Joins a datagram of `bytes` if it may be.
    pub(crate) fn join(&mut self, bytes: usize) -> bool {
        let may = !self.is_closed
            && (1..=self.segment_bytes).contains(&bytes)
            && self.datagrams < SEGMENTS_MAX
            && self.bytes + bytes <= MESSAGE_BYTES_MAX;
        if may {
            self.datagrams += 1;
            self.bytes += bytes;
            self.is_closed = bytes < self.segment_bytes;
        }
        may
    }
}

impl LoadedBatch<'_> {
    /// How many messages are loaded.
    pub(crate) fn len(&self) -> usize {
        self.headers.len()
    }

    /// How many datagrams message `index` is.
    pub(crate) fn datagrams(&self, index: usize) -> usize {
        self.ranges[index].len()
    }

    /// The length of message `index`.
    pub(crate) fn len_of(&self, index: usize) -> usize {
        self.iovecs[self.ranges[index].clone()].iter().map(|iovec| iovec.iov_len).sum()
    }

    /// Sends the loaded messages from number `first` on, without blocking. Returns how many went (at least one), or
    /// why the first of them did not.
    pub(crate) fn send(&mut self, socket: BorrowedFd<'_>, first: usize) -> Result<usize, i32> {
        let headers = &mut self.headers[first..];
        // SAFETY: the headers point into the batch's own vectors and, for the bytes, into what `load` borrowed for as
        // long as `self` lives; the kernel only reads those.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                headers.len() as libc::c_uint,
                (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _,
            )
        };
        usize::try_from(sent).map_err(|_| errno())
    }

    /// Sends one datagram, of message `index`, alone. Returns its length.
    pub(crate) fn send_one(
        &mut self,
        socket: BorrowedFd<'_>,
        index: usize,
        datagram: usize,
    ) -> Result<usize, i32> {
        let iovec = &mut self.iovecs[self.ranges[index].clone()][datagram];
        let mut header = self.headers[index].msg_hdr;
        header.msg_iov = iovec;
        header.msg_iovlen = 1;
        header.msg_control = ptr::null_mut();
        header.msg_controllen = 0;
        // SAFETY: as for `send`; the header is a copy that lives through the call.
        let sent =
            unsafe { libc::sendmsg(socket.as_raw_fd(), &header, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) };
        usize::try_from(sent).map_err(|_| errno())
    }
}

/// A peer's address as the kernel has it. Large enough for both families that we use, so nothing is ever cut.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) union Address {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.read())
    }
}

impl Address {
    pub(super) const ZERO: Self = Self {
        v6: libc::sockaddr_in6 {
            sin6_family: 0,
            sin6_port: 0,
            sin6_flowinfo: 0,
            sin6_addr: libc::in6_addr { s6_addr: [0; 16] },
            sin6_scope_id: 0,
        },
    };

    /// The address that `bytes` are, as far as they go.
    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        let mut address = Self::ZERO;
        let len = bytes.len().min(mem::size_of::<Self>());
        // SAFETY: `len` is within both, and every bit pattern is a valid address.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), ptr::from_mut(&mut address).cast(), len) };
        address
    }

    /// The address in its canonical form: an IPv4 peer of a dual-stack socket is an IPv4 peer.
    pub(super) fn read(&self) -> Option<SocketAddr> {
        // SAFETY: the union starts out as zeros over its whole size, and every bit pattern is a valid value of both
        // variants, whose family is in the same place.
        let (v4, v6) = unsafe { (self.v4, self.v6) };
        match i32::from(v4.sin_family) {
            libc::AF_INET => {
                let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
                Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
            }
            libc::AF_INET6 => {
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                let port = u16::from_be(v6.sin6_port);
                Some(match ip.to_ipv4_mapped() {
                    Some(ip) => SocketAddrV4::new(ip, port).into(),
                    None => SocketAddrV6::new(ip, port, 0, v6.sin6_scope_id).into(),
                })
            }
            _ => None,
        }
    }

    /// Writes `to` and returns its length. For a dual-stack socket an IPv4 address is written as a mapped one.
    pub(super) fn write(&mut self, to: SocketAddr, dual_stack: bool) -> libc::socklen_t {
        let v6 = match to {
            SocketAddr::V4(to) if !dual_stack => {
                self.v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: to.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from(*to.ip()).to_be() },
                    sin_zero: [0; 8],
                };
                return mem::size_of::<libc::sockaddr_in>() as libc::socklen_t;
            }
            SocketAddr::V4(to) => SocketAddrV6::new(to.ip().to_ipv6_mapped(), to.port(), 0, 0),
            SocketAddr::V6(to) => to,
        };
        self.v6 = libc::sockaddr_in6 {
            sin6_family: libc::AF_INET6 as libc::sa_family_t,
            sin6_port: v6.port().to_be(),
            sin6_flowinfo: 0,
            sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
            sin6_scope_id: v6.scope_id(),
        };
        mem::size_of::<libc::sockaddr_in6>() as libc::socklen_t
    }
}

/// Room for a time stamp (a header of 16 bytes and a `timespec` of 16) and a drop count (16 and 4, padded to 24).
pub(super) const CONTROL_BYTES: usize = 64;

#[repr(C, align(8))]
#[derive(Clone, Copy, Debug)]
struct Control([u8; CONTROL_BYTES]);

/// The receive stamp and the drop count among control messages.
pub(super) fn read_control(bytes: &[u8]) -> (Option<u64>, Option<u32>) {
    const HEADER_BYTES: usize = mem::size_of::<libc::cmsghdr>();
    let (mut stamp_ns, mut drops) = (None, None);
    let mut start = 0;
    while let Some(message) = bytes.get(start..).filter(|rest| rest.len() >= HEADER_BYTES) {
        // SAFETY: `message` is at least a header long, any bytes are a valid header, and the read may be unaligned.
        let header = unsafe { message.as_ptr().cast::<libc::cmsghdr>().read_unaligned() };
        let message_bytes = header.cmsg_len as usize;
        let Some(data) = message.get(HEADER_BYTES..message_bytes) else { break };
        if header.cmsg_level == libc::SOL_SOCKET {
            if header.cmsg_type == libc::SCM_TIMESTAMPNS && data.len() >= mem::size_of::<libc::timespec>() {
                // SAFETY: `data` is at least a `timespec` long, and any bytes are a valid one.
                let stamp = unsafe { data.as_ptr().cast::<libc::timespec>().read_unaligned() };
                stamp_ns = Some(timespec_ns(&stamp));
            } else if header.cmsg_type == libc::SO_RXQ_OVFL
                && let Some(count) = data.first_chunk()
            {
                drops = Some(u32::from_ne_bytes(*count));
            }
        }
        start += message_bytes.next_multiple_of(mem::align_of::<libc::cmsghdr>());
    }
    (stamp_ns, drops)
}

fn empty_header() -> libc::mmsghdr {
    // SAFETY: null pointers and zero lengths are a valid, empty header.
    unsafe { mem::zeroed() }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use super::*;
    use crate::io::sys::stamp_and_count_drops;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn addresses_come_back_as_they_were_written() {
        let mut raw = Address::ZERO;
        assert_eq!(raw.read(), None, "no family");
        for (text, len, dual_len) in
            [("1.2.3.4:5678", 16, 28), ("[2001:db8::7]:5678", 28, 28), ("[fe80::1%3]:5678", 28, 28)]
        {
            assert_eq!(raw.write(address(text), false), len);
            assert_eq!(raw.read(), Some(address(text)));
            assert_eq!(raw.write(address(text), true), dual_len);
            assert_eq!(raw.read(), Some(address(text)), "also through a dual-stack socket");
        }
    }

    #[test]
    fn control_messages_are_found_behind_others_and_never_misread() {
        let mut control = Control([0; CONTROL_BYTES]);
        let mut put = |start: usize, kind: i32, len: usize, data: &[u8]| {
            control.0[start..start + 8].copy_from_slice(&len.to_ne_bytes());
            control.0[start + 8..start + 12].copy_from_slice(&libc::SOL_SOCKET.to_ne_bytes());
            control.0[start + 12..start + 16].copy_from_slice(&kind.to_ne_bytes());
            control.0[start + 16..start + 16 + data.len()].copy_from_slice(data);
        };
        put(0, libc::SO_RXQ_OVFL, 20, &77_u32.to_ne_bytes());
        put(24, libc::SCM_TIMESTAMPNS, 32, &[3_u64.to_ne_bytes(), 9_u64.to_ne_bytes()].concat());
        assert_eq!(read_control(&control.0[..56]), (Some(3_000_000_009), Some(77)));
        assert_eq!(read_control(&control.0[..24]), (None, Some(77)));
        for len in 0..=CONTROL_BYTES {
            read_control(&control.0[..len]);
        }
        for claimed in [0, 1, 15, 17, 57, usize::MAX] {
            control.0[..8].copy_from_slice(&claimed.to_ne_bytes());
            assert_eq!(read_control(&control.0[..56]).1, None, "claimed {claimed} bytes");
        }
    }

    #[test]
    fn a_batch_can_be_used_again_and_again() {
        let server = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        stamp_and_count_drops(server.as_fd()).expect("socket options");
        let to = server.local_addr().expect("its address");
        let client = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let (mut sending, mut receiving) = (SendBatch::new(4), ReceiveBatch::new(4, 16));
        for round in 0..5_u8 {
            let bytes = [[round; 16]; 3];
            let mut messages = bytes.iter().map(|bytes| (to, &bytes[..4 + usize::from(round)]));
            let mut loaded = sending.load(false, false, &mut messages);
            assert_eq!(loaded.send(client.as_fd(), 0), Ok(3));
            assert_eq!((0..3).map(|n| loaded.len_of(n)).sum::<usize>(), 3 * (4 + usize::from(round)));
            assert_eq!(receiving.receive(server.as_fd(), 4), Ok(3));
            for (n, sent) in bytes.iter().enumerate() {
                let datagram = receiving.get(n);
                assert_eq!(datagram.from, client.local_addr().ok());
                assert_eq!(datagram.bytes, &sent[..4 + usize::from(round)]);
                assert!(datagram.stamp_ns.is_some(), "round {round}");
            }
        }
        assert_eq!(receiving.receive(server.as_fd(), 4), Err(libc::EAGAIN));
    }

    /// Joined are only datagrams in a row, for the same peer, equally long but for the last; and they arrive as the
    /// datagrams that they were.
    #[test]
    fn offloaded_datagrams_arrive_as_they_were() {
        let server = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let clients = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("loopback"));
        let [a, b] = [0, 1].map(|n| clients[n].local_addr().expect("its address"));
        let bytes: Vec<_> = (0..200_u8).collect();
        let datagrams = [
            (a, &bytes[..100]),
            (a, &bytes[100..]),
            (a, &bytes[7..70]),
            (a, &bytes[8..71]),
            (b, &bytes[..100]),
            (a, &bytes[..100]),
            (a, &bytes[..101]),
            (a, &bytes[..0]),
            (a, &bytes[..0]),
        ];
        let mut batch = SendBatch::new(16);
        let mut loaded = batch.load(false, true, &mut datagrams.into_iter());
        let joined: Vec<_> = (0..loaded.len()).map(|index| loaded.datagrams(index)).collect();
        assert_eq!(joined, [3, 1, 1, 1, 1, 1, 1]);
        assert_eq!(loaded.len_of(0), 263);
        match loaded.send(server.as_fd(), 0) {
            Ok(sent) => assert_eq!(sent, 7),
            Err(errno) => return println!("skipped, no offload here: {errno}"),
        }
        assert_eq!(loaded.send_one(server.as_fd(), 0, 1), Ok(100));
        for (to, sent) in datagrams.into_iter().chain([datagrams[1]]) {
            let mut buffer = [0; 300];
            let client = &clients[usize::from(to == b)];
            client.set_nonblocking(true).expect("a socket option");
            let len = client.recv(&mut buffer).expect("it is here");
            assert_eq!(&buffer[..len], sent);
        }
    }

    #[test]
    fn a_message_holds_so_many_datagrams_and_bytes() {
        let bytes = [0; 1200];
        let to = address("127.0.0.1:9");
        for (len, expected) in [(100, [64, 64, 22]), (1200, [54, 54, 42])] {
            let mut batch = SendBatch::new(150);
            let loaded = batch.load(false, true, &mut std::iter::repeat((to, &bytes[..len])));
            let joined: Vec<_> = (0..loaded.len()).map(|index| loaded.datagrams(index)).collect();
            assert_eq!(joined, expected);
        }
    }
}
