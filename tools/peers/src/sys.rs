//! The one file of this tool with unsafe code: batched datagrams for the floor program, the buffers of sockets that
//! a library keeps to itself, and priority.
#![allow(unsafe_code)]

use std::fs;
use std::os::fd::BorrowedFd;

use socket2::SockRef;

/// Lets this process go before all ordinary ones, so that whatever else the machine does delays no tick.
pub fn go_first() -> Result<(), String> {
    let param = libc::sched_param { sched_priority: 1 };
    // SAFETY: 0 is this thread, and the parameter lives through the call.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &param) } {
        0 => Ok(()),
        _ => Err(format!("no real-time priority: {}", std::io::Error::last_os_error())),
    }
}

/// Bytes asked for as every socket's buffers: a tick's datagrams of a thousand clients, several times over.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;

/// Gives every socket of this process large buffers, whoever opened it. Returns how many there are.
pub fn widen_sockets() -> usize {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return 0 };
    let is_socket = |entry: &fs::DirEntry| {
        fs::read_link(entry.path()).is_ok_and(|target| target.to_string_lossy().starts_with("socket:"))
    };
    let descriptors = entries.flatten().filter(is_socket);
    let mut count = 0;
    for name in descriptors.map(|entry| entry.file_name()) {
        let Some(fd) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        // SAFETY: the descriptor is open, this process having a socket by that number, and nothing closes it while one
        // thread is in this function at start.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        let socket = SockRef::from(&fd);
        let is_wide = socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES).is_ok()
            && socket.set_send_buffer_size(SOCKET_BUFFER_BYTES).is_ok();
        count += usize::from(is_wide);
    }
    count
}

/// Allocations of C libraries that let themselves be counted.
pub fn foreign_allocations() -> u64 {
    #[cfg(feature = "libenet")]
    let count = enet::allocations();
    #[cfg(not(feature = "libenet"))]
    let count = 0;
    count
}

/// Datagrams many at a time.
pub mod batch {
    use std::mem;
    use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
    use std::os::fd::AsRawFd as _;

    /// Datagrams of one system call.
    pub const BATCH: usize = 64;

    /// Bytes of a datagram's buffer.
    const BUFFER_BYTES: usize = 256;

    /// Datagrams to send or received, with their addresses.
    pub struct Batch {
        headers: Box<[libc::mmsghdr; BATCH]>,
        // What the headers point into: boxed, so that it never moves, and never touched but through `self`.
        vectors: Box<[libc::iovec; BATCH]>,
        addresses: Box<[libc::sockaddr_in; BATCH]>,
        buffers: Box<[[u8; BUFFER_BYTES]; BATCH]>,
        len: usize,
    }

    impl Batch {
        pub fn new() -> Self {
            // SAFETY: plain data of the C library, valid as zeros: no addresses, no lengths.
            let (headers, vectors, addresses): (
                [libc::mmsghdr; BATCH],
                [libc::iovec; BATCH],
                [libc::sockaddr_in; BATCH],
            ) = unsafe { (mem::zeroed(), mem::zeroed(), mem::zeroed()) };
            let (mut headers, mut vectors) = (Box::new(headers), Box::new(vectors));
            let mut addresses = Box::new(addresses);
            let mut buffers = Box::new([[0; BUFFER_BYTES]; BATCH]);
            for index in 0..BATCH {
                vectors[index].iov_base = buffers[index].as_mut_ptr().cast();
                vectors[index].iov_len = BUFFER_BYTES;
                let header = &mut headers[index].msg_hdr;
                header.msg_name = (&raw mut addresses[index]).cast();
                header.msg_namelen = mem::size_of::<libc::sockaddr_in>() as u32;
                header.msg_iov = &raw mut vectors[index];
                header.msg_iovlen = 1;
            }
            Self { headers, vectors, addresses, buffers, len: 0 }
        }

        /// Receives at most a batch, without waiting. Returns how many datagrams came.
        pub fn receive(&mut self, socket: &UdpSocket) -> usize {
            for header in self.headers.iter_mut() {
                header.msg_hdr.msg_namelen = mem::size_of::<libc::sockaddr_in>() as u32;
            }
            // SAFETY: every header points to one vector of a whole buffer and to one address, all of them in boxes of ours
            // that outlive the call; there are `BATCH` headers.
            let count = unsafe {
                libc::recvmmsg(
                    socket.as_raw_fd(),
                    self.headers.as_mut_ptr(),
                    BATCH as u32,
                    libc::MSG_DONTWAIT,
                    std::ptr::null_mut(),
                )
            };
            usize::try_from(count).unwrap_or(0)
        }

        /// The source of datagram `index` of those received.
        pub fn source(&self, index: usize) -> SocketAddrV4 {
            let address = &self.addresses[index];
            SocketAddrV4::new(
                Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)),
                u16::from_be(address.sin_port),
            )
        }

        /// Adds a datagram to be sent. Returns whether the batch is full.
        ///
        /// # Panics
        /// When it was full, or the datagram is longer than a buffer.
        pub fn push(&mut self, to: SocketAddrV4, bytes: &[u8]) -> bool {
            let index = self.len;
            self.buffers[index][..bytes.len()].copy_from_slice(bytes);
            self.vectors[index].iov_len = bytes.len();
            let address = &mut self.addresses[index];
            address.sin_family = libc::AF_INET as u16;
            address.sin_addr.s_addr = u32::from(*to.ip()).to_be();
            address.sin_port = to.port().to_be();
            self.len += 1;
            self.len == BATCH
        }

        /// Sends what was pushed. What the system refuses is lost, as on any network.
        pub fn send(&mut self, socket: &UdpSocket) {
            // SAFETY: as in `receive`; the first `len` headers have their address and a length within their buffer.
            unsafe { libc::sendmmsg(socket.as_raw_fd(), self.headers.as_mut_ptr(), self.len as u32, 0) };
            self.len = 0;
        }
    }
}

/// The part of libenet 1.3 that the comparison needs, behind functions that are safe to call.
#[cfg(feature = "libenet")]
pub mod enet {
    use std::ffi::{c_int, c_void};
    use std::ptr::{self, NonNull};
    use std::slice;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Channels of every connection.
    const CHANNELS: usize = 2;
    const PACKET_FLAG_RELIABLE: u32 = 1;
    const EVENT_CONNECT: c_int = 1;
    const EVENT_DISCONNECT: c_int = 2;
    const EVENT_RECEIVE: c_int = 3;

    #[repr(C)]
    struct Address {
        /// In network byte order.
        host: u32,
        port: u16,
    }

    /// The head of `ENetHost`: only its address is read, and no host is ever made here.
    #[repr(C)]
    struct HostHead {
        socket: c_int,
        address: Address,
    }

    /// The head of `ENetPacket`.
    #[repr(C)]
    struct PacketHead {
        reference_count: usize,
        flags: u32,
        data: *mut u8,
        data_length: usize,
        free_callback: Option<unsafe extern "C" fn(*mut PacketHead)>,
    }

    #[repr(C)]
    struct RawEvent {
        kind: c_int,
        peer: *mut c_void,
        channel: u8,
        data: u32,
        packet: *mut PacketHead,
    }

    /// `ENetCallbacks`: what is missing is left as it is.
    #[repr(C)]
    struct Callbacks {
        malloc: Option<unsafe extern "C" fn(usize) -> *mut c_void>,
        free: Option<unsafe extern "C" fn(*mut c_void)>,
        no_memory: Option<unsafe extern "C" fn()>,
    }

    /// 1.3.0, the first version of this interface.
    const VERSION: u32 = 1 << 16 | 3 << 8;

    static CALLBACKS: Callbacks =
        Callbacks { malloc: Some(counted_malloc), free: Some(libc::free), no_memory: None };

    static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

    static PACKETS_FREED: AtomicU64 = AtomicU64::new(0);

    unsafe extern "C" fn count_freed(_: *mut PacketHead) {
        PACKETS_FREED.fetch_add(1, Ordering::Relaxed);
    }

    /// Packets sent that libenet is done with: reliable ones were acknowledged.
    pub fn packets_freed() -> u64 {
        PACKETS_FREED.load(Ordering::Relaxed)
    }

    unsafe extern "C" fn counted_malloc(size: usize) -> *mut c_void {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: any size may be asked for; what comes back is freed with `free`.
        unsafe { libc::malloc(size) }
    }

    /// Allocations of libenet so far.
    pub fn allocations() -> u64 {
        ALLOCATIONS.load(Ordering::Relaxed)
    }

    #[link(name = "enet")]
    unsafe extern "C" {
        fn enet_initialize_with_callbacks(version: u32, callbacks: *const Callbacks) -> c_int;
        fn enet_host_create(
            address: *const Address,
            peers: usize,
            channels: usize,
            incoming: u32,
            outgoing: u32,
        ) -> *mut HostHead;
        fn enet_host_destroy(host: *mut HostHead);
        fn enet_host_connect(
            host: *mut HostHead,
            address: *const Address,
            channels: usize,
            data: u32,
        ) -> *mut c_void;
        fn enet_host_service(host: *mut HostHead, event: *mut RawEvent, timeout_ms: u32) -> c_int;
        fn enet_host_flush(host: *mut HostHead);
        fn enet_packet_create(data: *const c_void, len: usize, flags: u32) -> *mut PacketHead;
        fn enet_packet_destroy(packet: *mut PacketHead);
        fn enet_peer_send(peer: *mut c_void, channel: u8, packet: *mut PacketHead) -> c_int;
    }

    /// A peer of a [`Session`]: good for the session that told of it, as long as that lives.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub struct PeerAt {
        peer: NonNull<c_void>,
        host: *mut HostHead,
    }

    /// What happened.
    pub enum Event<'a> {
        Connected(PeerAt),
        Disconnected(PeerAt),
        Received(&'a [u8]),
    }

    /// An `ENetHost`.
    pub struct Session(NonNull<HostHead>);

    impl Session {
        /// A server for so many peers, on any port of the loopback address.
        pub fn listen(peers: usize) -> Result<Self, String> {
            Self::create(Some(&loopback(0)), peers)
        }

        /// A client of the server at `port`.
        pub fn connect(port: u16) -> Result<Self, String> {
            let session = Self::create(None, 1)?;
            let address = loopback(port);
            // SAFETY: the host is alive, and the address is only read during the call.
            let peer = unsafe { enet_host_connect(session.0.as_ptr(), &address, CHANNELS, 0) };
            if peer.is_null() { Err("libenet refuses to connect".to_owned()) } else { Ok(session) }
        }

        fn create(address: Option<&Address>, peers: usize) -> Result<Self, String> {
            let address = address.map_or(ptr::null(), ptr::from_ref);
            // SAFETY: initialising again is allowed; the address is null or only read during the call.
            let host = unsafe {
                if enet_initialize_with_callbacks(VERSION, &CALLBACKS) != 0 {
                    return Err("libenet refuses to start".to_owned());
                }
                enet_host_create(address, peers, CHANNELS, 0, 0)
            };
            NonNull::new(host).map(Self).ok_or_else(|| "libenet refuses to open a host".to_owned())
        }

        /// The port that it is bound to.
        pub fn port(&self) -> u16 {
            // SAFETY: the host is alive, and its head has this form in all of 1.3.
            unsafe { (*self.0.as_ptr()).address.port }
        }

        /// Takes in and sends everything that waits.
        pub fn service(&mut self, told: impl FnMut(Event<'_>)) {
            self.service_for(0, told);
        }

        /// The same; while there is nothing to tell it waits for up to `wait_ms`.
        pub fn service_for(&mut self, wait_ms: u32, mut told: impl FnMut(Event<'_>)) {
            let host = self.0.as_ptr();
            let mut wait_ms = wait_ms;
            loop {
                let mut event =
                    RawEvent { kind: 0, peer: ptr::null_mut(), channel: 0, data: 0, packet: ptr::null_mut() };
                // SAFETY: the host is alive and the event is ours.
                if unsafe { enet_host_service(host, &mut event, wait_ms) } <= 0 {
                    return;
                }
                wait_ms = 0;
                let Some(peer) = NonNull::new(event.peer) else { continue };
                let peer = PeerAt { peer, host };
                match event.kind {
                    EVENT_CONNECT => told(Event::Connected(peer)),
                    EVENT_DISCONNECT => told(Event::Disconnected(peer)),
                    EVENT_RECEIVE => {
                        // SAFETY: a received packet is ours until it is destroyed, once, after its last use here.
                        unsafe {
                            let (data, len) = ((*event.packet).data, (*event.packet).data_length);
                            told(Event::Received(slice::from_raw_parts(data, len)));
                            enet_packet_destroy(event.packet);
                        }
                    }
                    _ => {}
                }
            }
        }

        /// Sends a packet. What cannot be sent is lost; the clients' counts tell.
        ///
        /// # Panics
        /// When the peer is another session's.
        pub fn send(&mut self, to: PeerAt, channel: u8, bytes: &[u8], is_reliable: bool) {
            assert!(to.host == self.0.as_ptr(), "a peer of another session");
            let flags = if is_reliable { PACKET_FLAG_RELIABLE } else { 0 };
            // SAFETY: the bytes are copied during the call. Peers live as long as their host, which is this one. A packet
            // that is not taken is still ours to destroy.
            unsafe {
                let packet = enet_packet_create(bytes.as_ptr().cast(), bytes.len(), flags);
                if let Some(packet) = packet.as_mut() {
                    packet.free_callback = Some(count_freed);
                }
                if !packet.is_null() && enet_peer_send(to.peer.as_ptr(), channel, packet) < 0 {
                    enet_packet_destroy(packet);
                }
            }
        }

        /// Sends what waits, without receiving.
        pub fn flush(&mut self) {
            // SAFETY: the host is alive.
            unsafe { enet_host_flush(self.0.as_ptr()) };
        }
    }

    impl Drop for Session {
        fn drop(&mut self) {
            // SAFETY: the host is alive, and nobody has it after this.
            unsafe { enet_host_destroy(self.0.as_ptr()) };
        }
    }

    fn loopback(port: u16) -> Address {
        Address { host: u32::from_ne_bytes([127, 0, 0, 1]), port }
    }
}
