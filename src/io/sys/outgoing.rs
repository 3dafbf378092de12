//! Datagrams laid out for io_uring to send: what the kernel follows pointers to while it is entered with them.

use std::net::SocketAddr;
use std::ptr;

use io_uring::types::Fixed;
use io_uring::{opcode, squeue};

use super::batch::{Address, Cut};

/// Tried once, while it is submitted: never left to a worker, nor until there is room.
const FLAGS: u32 = (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as u32;

/// Something to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    /// The number of the registered socket to send it from.
    pub(crate) file: u32,
    /// That socket is an IPv6 one that serves IPv4 peers too.
    pub(crate) dual_stack: bool,
    pub(crate) to: SocketAddr,
    pub(crate) bytes: &'a [u8],
    /// The kernel is to cut it into datagrams of so many bytes, of which the last may be shorter.
    pub(crate) segment_bytes: Option<u16>,
    /// What its completion is known by, if it fails.
    pub(crate) user_data: u64,
}

/// Room for what messages point to: their addresses, and the headers of those that are to be cut.
///
/// A datagram that goes alone needs no header: the request itself says where its bytes and its address are.
#[derive(Debug)]
pub(crate) struct Outgoing {
    addresses: Vec<Address>,
    used: usize,
    cuts: Vec<Cut>,
    cuts_used: usize,
}

impl Outgoing {
    /// Room for as many messages as `datagrams` datagrams can make.
    pub(crate) fn new(datagrams: usize) -> Self {
        assert!(datagrams > 0);
        Self {
            addresses: vec![Address::ZERO; datagrams],
            used: 0,
            // It takes two datagrams at least to need one.
            cuts: vec![Cut::empty(); datagrams.div_ceil(2)],
            cuts_used: 0,
        }
    }

    /// Forgets everything: no request points here any more.
    pub(super) fn clear(&mut self) {
        self.used = 0;
        self.cuts_used = 0;
    }

    /// Whether there is room for `message`.
    pub(super) fn has_room(&self, message: &Message<'_>) -> bool {
        let has_cut = message.segment_bytes.is_none() || self.cuts_used < self.cuts.len();
        has_cut && self.used < self.addresses.len()
    }

    /// The request to send `message`. It points to what is here, and to the message's bytes.
    pub(super) fn entry(&mut self, message: &Message<'_>) -> squeue::Entry {
        let address = &mut self.addresses[self.used];
        self.used += 1;
        let address_len = address.write(message.to, message.dual_stack);
        let file = Fixed(message.file);
        let Some(segment_bytes) = message.segment_bytes else {
            return opcode::Send::new(file, message.bytes.as_ptr(), message.bytes.len() as u32)
                .dest_addr(ptr::from_ref(address).cast())
                .dest_addr_len(address_len)
                .flags(FLAGS as i32)
                .build();
        };
        let cut = &mut self.cuts[self.cuts_used];
        self.cuts_used += 1;
        let header = cut.set(address, address_len, message.bytes, segment_bytes);
        opcode::SendMsg::new(file, header).flags(FLAGS).build()
    }
}
