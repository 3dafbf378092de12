//! The memory that all peers of one end share. Everything is made at creation; what is claimed is given back when it
//! was sent, delivered or given up, and the counters then say zero.

use std::fmt;

use super::config::NetworkConfig;
use crate::lz4::{self, Compressor};
use crate::wire::fignet::batch::{BATCH_HEADER_BYTES, BATCH_MESSAGE_BYTES};
use crate::wire::fignet::fragment::{FRAGMENT_HEADER_BYTES, FRAGMENTS_MAX};
use crate::wire::fignet::header::HEADER_BYTES;
use crate::wire::fignet::{MESSAGE_BYTES_MAX, MESSAGE_SEQUENCE_BYTES, MTU_MAX};

/// Bytes of a buffer for messages to send or to hold.
pub const BUFFER_BYTES: usize = 512;

/// Most bytes of a fragment's data.
pub const FRAGMENT_DATA_BYTES_MAX: usize = MTU_MAX - HEADER_BYTES - FRAGMENT_HEADER_BYTES;

/// Messages in fragments that one peer may have under way to us, and we to it.
pub const FRAGMENT_SETS_MAX: usize = 2;

const NONE: u32 = u32::MAX;

/// Bytes in a chain of buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chain {
    first: u32,
    len: u32,
}

impl Chain {
    /// No bytes, and no buffer.
    pub const EMPTY: Self = Self { first: NONE, len: 0 };

    /// How many bytes.
    pub const fn len(self) -> usize {
        self.len as usize
    }
}

/// A place in a chain.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    block: u32,
    offset: u32,
}

impl Place {
    /// Nowhere.
    pub const NOWHERE: Self = Self { block: NONE, offset: 0 };
}

/// Buffers of one size.
pub struct Buffers {
    bytes: Box<[u8]>,
    next: Box<[u32]>,
    buffer_bytes: usize,
    free: u32,
    claimed: usize,
}

impl Buffers {
    /// `count` free buffers of `buffer_bytes`.
    ///
    /// # Panics
    /// When either is 0 or there are 2³² − 1 buffers or more.
    pub fn new(count: usize, buffer_bytes: usize) -> Self {
        assert!(count > 0 && count < NONE as usize && buffer_bytes > 0, "buffers out of range");
        let next = (1..=count as u32).map(|next| if next as usize == count { NONE } else { next }).collect();
        Self {
            bytes: vec![0; count * buffer_bytes].into_boxed_slice(),
            next,
            buffer_bytes,
            free: 0,
            claimed: 0,
        }
    }

    /// How many buffers are claimed.
    pub const fn claimed(&self) -> usize {
        self.claimed
    }

    /// How many buffers are free.
    pub fn free(&self) -> usize {
        self.next.len() - self.claimed
    }

    /// How many buffers `len` bytes take.
    pub const fn needed(&self, len: usize) -> usize {
        len.div_ceil(self.buffer_bytes)
    }

    /// Stores `head` and `tail`, one after the other. `None`, and nothing claimed, when there is no room.
    pub fn store(&mut self, head: &[u8], tail: &[u8]) -> Option<Chain> {
        let chain = self.claim(head.len() + tail.len())?;
        let mut place = self.start(chain);
        self.write(&mut place, head);
        self.write(&mut place, tail);
        Some(chain)
    }

    /// Claims room for `len` bytes, whatever they are. `None`, and nothing claimed, when there is not enough.
    pub fn claim(&mut self, len: usize) -> Option<Chain> {
        let count = self.needed(len);
        if count > self.free() {
            return None;
        }
        if count == 0 {
            return Some(Chain::EMPTY);
        }
        let first = self.free;
        let mut last = first;
        (1..count).for_each(|_| last = self.next[last as usize]);
        self.free = std::mem::replace(&mut self.next[last as usize], NONE);
        self.claimed += count;
        Some(Chain { first, len: len as u32 })
    }

    /// Gives the buffers of a chain back; the chain is not to be used again.
    pub fn release(&mut self, chain: Chain) {
        if chain.first == NONE {
            return;
        }
        let count = self.needed(chain.len());
        let mut last = chain.first;
        (1..count).for_each(|_| last = self.next[last as usize]);
        self.next[last as usize] = std::mem::replace(&mut self.free, chain.first);
        self.claimed -= count;
    }

    /// The beginning of a chain.
    pub const fn start(&self, chain: Chain) -> Place {
        Place { block: chain.first, offset: 0 }
    }

    /// Fills `out` with what is at `place`, which moves on. What lies past the end of the chain is left as it is.
    pub fn read(&self, place: &mut Place, out: &mut [u8]) {
        let mut done = 0;
        while let Some(range) = self.run(place, out.len() - done) {
            let len = range.len();
            out[done..done + len].copy_from_slice(&self.bytes[range]);
            done += len;
        }
    }

    /// Moves `place` on by `len` bytes.
    pub fn skip(&self, place: &mut Place, len: usize) {
        let mut left = len;
        while let Some(range) = self.run(place, left) {
            left -= range.len();
        }
    }

    /// Copies a whole chain to the front of `out`, and returns its length.
    pub fn copy(&self, chain: Chain, out: &mut [u8]) -> usize {
        let len = chain.len();
        self.read(&mut self.start(chain), &mut out[..len]);
        len
    }

    fn write(&mut self, place: &mut Place, bytes: &[u8]) {
        let mut done = 0;
        while let Some(range) = self.run(place, bytes.len() - done) {
            let len = range.len();
            self.bytes[range].copy_from_slice(&bytes[done..done + len]);
            done += len;
        }
    }

    /// At most `len` bytes from `place` to the end of its buffer; `place` moves past them.
    fn run(&self, place: &mut Place, len: usize) -> Option<std::ops::Range<usize>> {
        if len == 0 || place.block == NONE {
            return None;
        }
        if place.offset as usize == self.buffer_bytes {
            *place = Place { block: self.next[place.block as usize], offset: 0 };
            if place.block == NONE {
                return None;
            }
        }
        let len = len.min(self.buffer_bytes - place.offset as usize);
        let at = place.block as usize * self.buffer_bytes + place.offset as usize;
        place.offset += len as u32;
        Some(at..at + len)
    }
}

impl fmt::Debug for Buffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} buffers of {} bytes", self.claimed, self.next.len(), self.buffer_bytes)
    }
}

/// Buffers for the fragments of messages on their way in: one fragment each, claimed for a whole message at once.
pub struct FragmentBuffers {
    bytes: Box<[u8]>,
    lens: Box<[u16]>,
    free: Box<[u32]>,
    free_len: usize,
}

impl FragmentBuffers {
    /// `count` free buffers.
    pub fn new(count: usize) -> Self {
        Self {
            bytes: vec![0; count * FRAGMENT_DATA_BYTES_MAX].into_boxed_slice(),
            lens: vec![0; count].into_boxed_slice(),
            free: (0..count as u32).rev().collect(),
            free_len: count,
        }
    }

    /// How many are claimed.
    pub fn claimed(&self) -> usize {
        self.free.len() - self.free_len
    }

    /// How many are free.
    pub const fn free(&self) -> usize {
        self.free_len
    }

    /// Claims as many as `places` is long.
    ///
    /// # Panics
    /// When fewer are free.
    pub fn claim(&mut self, places: &mut [u32]) {
        let left = self.free_len.checked_sub(places.len()).expect("the caller looked whether they are free");
        places.copy_from_slice(&self.free[left..self.free_len]);
        self.free_len = left;
    }

    /// Gives `places` back.
    pub fn release(&mut self, places: &[u32]) {
        self.free[self.free_len..][..places.len()].copy_from_slice(places);
        self.free_len += places.len();
    }

    /// Puts a fragment into its place.
    pub fn store(&mut self, place: u32, data: &[u8]) {
        let place = place as usize;
        self.bytes[place * FRAGMENT_DATA_BYTES_MAX..][..data.len()].copy_from_slice(data);
        self.lens[place] = data.len() as u16;
    }

    /// The fragment in a place.
    pub fn data(&self, place: u32) -> &[u8] {
        let place = place as usize;
        &self.bytes[place * FRAGMENT_DATA_BYTES_MAX..][..usize::from(self.lens[place])]
    }
}

/// What is claimed of the pools at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Claimed {
    /// Buffers of messages to send.
    pub send: usize,
    /// Buffers of messages that wait for their turn.
    pub receive: usize,
    /// Buffers of fragments.
    pub fragments: usize,
}

/// The memory of one end.
pub struct Pools {
    /// Messages to send, or sent and not confirmed.
    pub(super) send: Buffers,
    /// Messages that came before their turn.
    pub(super) receive: Buffers,
    /// Fragments that came.
    pub(super) fragments: FragmentBuffers,
    /// Room for the largest message, where it is put together.
    pub(super) message: Box<[u8]>,
    /// Room for one payload, as it was sent or is to be sent, before compression or after decompression.
    pub(super) payload: Box<[u8; PAYLOAD_ROOM]>,
    /// Room for a payload that was decrypted.
    pub(super) opened: Box<[u8; MTU_MAX]>,
    pub(super) compressor: Compressor,
}

/// A payload and what stands before a lone message in a batch.
pub(super) const PAYLOAD_ROOM: usize = MTU_MAX + BATCH_HEADER_BYTES + BATCH_MESSAGE_BYTES;

const _: () = assert!(lz4::PAYLOAD_BYTES_MAX == MTU_MAX - HEADER_BYTES);

impl Pools {
    /// The pools for `peers` peers with these settings: each peer's share is there whatever the others do.
    pub fn new(config: &NetworkConfig, peers: usize) -> Self {
        // Sums, one term per holder:
        let send = peers * usize::from(config.send_buffers_per_peer);
        let receive = peers * usize::from(config.receive_buffers_per_peer);
        let fragments = peers * FRAGMENT_SETS_MAX * FRAGMENTS_MAX;
        Self {
            send: Buffers::new(send, BUFFER_BYTES),
            receive: Buffers::new(receive, BUFFER_BYTES),
            fragments: FragmentBuffers::new(fragments),
            message: vec![0; MESSAGE_SEQUENCE_BYTES + MESSAGE_BYTES_MAX].into_boxed_slice(),
            payload: Box::new([0; PAYLOAD_ROOM]),
            opened: Box::new([0; MTU_MAX]),
            compressor: Compressor::new(),
        }
    }

    /// What is claimed now.
    pub fn claimed(&self) -> Claimed {
        Claimed {
            send: self.send.claimed(),
            receive: self.receive.claimed(),
            fragments: self.fragments.claimed(),
        }
    }
}

impl fmt::Debug for Pools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.claimed().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_hold_what_was_stored() {
        let mut buffers = Buffers::new(6, 4);
        let bytes: Vec<u8> = (0..10).collect();
        let chain = buffers.store(&bytes[..3], &bytes[3..]).unwrap();
        assert_eq!((chain.len(), buffers.claimed(), buffers.free()), (10, 3, 3));
        let other = buffers.store(&[], &[9; 12]).unwrap();
        assert_eq!(buffers.store(&[], &[1]), None, "full");
        let mut out = [0; 16];
        assert_eq!(buffers.copy(chain, &mut out), 10);
        assert_eq!(out[..10], bytes);
        let mut place = buffers.start(chain);
        buffers.skip(&mut place, 4);
        let mut part = [0; 3];
        buffers.read(&mut place, &mut part);
        assert_eq!(part, [4, 5, 6]);
        buffers.read(&mut place, &mut part);
        assert_eq!(part, [7, 8, 9]);
        buffers.release(chain);
        buffers.release(other);
        buffers.release(Chain::EMPTY);
        assert_eq!(buffers.claimed(), 0);
        let all = buffers.claim(24).unwrap();
        assert_eq!(buffers.free(), 0);
        buffers.release(all);
    }

    #[test]
    fn fragments_have_places_of_their_own() {
        let mut buffers = FragmentBuffers::new(5);
        let (mut a, mut b) = ([0; 3], [0; 2]);
        buffers.claim(&mut a);
        buffers.claim(&mut b);
        assert_eq!((buffers.free(), buffers.claimed()), (0, 5));
        a.iter().chain(&b).for_each(|&place| buffers.store(place, &[place as u8; 7]));
        assert!(a.iter().chain(&b).all(|&place| buffers.data(place) == [place as u8; 7]));
        buffers.release(&a);
        buffers.release(&b);
        assert_eq!(buffers.claimed(), 0);
    }
}
