//! Where encryption goes (section 10): a peer that was given a [`Seal`] encrypts everything after CONNECT.

use std::ops::Range;

/// Bytes that encryption adds to a payload: a nonce of 96 bits and a tag of 128.
pub const SEAL_BYTES: usize = 28;

/// Encrypts and decrypts the payloads of one connection.
pub trait Seal {
    /// Encrypts the first `len` bytes of `payload` in place, bound to `header`; returns how long it is now. There is
    /// room for [`SEAL_BYTES`] more.
    fn seal(&mut self, header: &[u8], payload: &mut [u8], len: usize) -> usize;

    /// Decrypts `payload` in place and says where in it the plaintext is. `None` when it was not sealed by the peer
    /// with this header, or was opened before.
    fn open(&mut self, header: &[u8], payload: &mut [u8]) -> Option<Range<usize>>;

    /// How many more packets it can encrypt: the connection ends before there are none.
    fn remaining(&self) -> u64;
}

/// No encryption: there is no value of this type.
#[derive(Clone, Copy, Debug)]
pub enum NoSeal {}

impl Seal for NoSeal {
    fn seal(&mut self, _: &[u8], _: &mut [u8], _: usize) -> usize {
        match *self {}
    }

    fn open(&mut self, _: &[u8], _: &mut [u8]) -> Option<Range<usize>> {
        match *self {}
    }

    fn remaining(&self) -> u64 {
        match *self {}
    }
}
