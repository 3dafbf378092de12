//! Sealed payloads: ChaCha20-Poly1305 (RFC 8439) in place, with the packet's header authenticated beside
//! (docs/protocol/fignet-sync.md, section 2).
//!
//! An envelope is `nonce: 12 bytes`, the ciphertext, `tag: 16 bytes`. The nonce is the direction in four bytes, 0 from client to
//! server and 1 back, and a counter in eight, both little-endian.
//!
//! **Why no nonce is used twice under one key.** A [`Seal`] owns its key's only copy and cannot be cloned; its counter rises
//! by one with every packet sealed, failed sends included, and at its end [`Seal::seal_in_place`] refuses instead of
//! wrapping. The two ends of a connection differ in the direction. A key serves one connection: taking it from the
//! [`KeyStore`](super::keys::KeyStore) removes it, and the store refuses one that it gave out before. A restarted server has an
//! empty store; should the control plane hand it an old key again, the upper half of the counter, the *epoch*, still
//! differs: it is given by who starts the server (seconds since 1970 on a real machine), and a seal stays in its epoch.

use std::fmt;
use std::ops::Range;

use chacha20poly1305::aead::{AeadInPlace, KeyInit};
use chacha20poly1305::{ChaCha20Poly1305, Nonce, Tag};

use super::keys::Key;
use super::replay::ReplayWindow;

/// Bytes of the nonce, in front of the ciphertext.
pub const NONCE_BYTES: usize = 12;

/// Bytes of the authentication tag, behind the ciphertext.
pub const TAG_BYTES: usize = 16;

/// Bytes that an envelope adds to what it holds.
pub const ENVELOPE_BYTES: usize = NONCE_BYTES + TAG_BYTES;

/// Bits of the counter below the epoch: packets that one seal can send.
const EPOCH_SHIFT: u32 = 32;

/// The end of a connection that a seal belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Who sent the CONNECT.
    Client,
    /// Who answered it.
    Server,
}

/// Every packet counter of this seal was used: the connection must end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exhausted;

/// Why an envelope is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenError {
    /// Shorter than a nonce and a tag.
    Truncated,
    /// A nonce of the wrong direction: one's own packet come back.
    Direction,
    /// A counter that was seen before, or is too old to tell.
    Replayed,
    /// Not what the peer sealed under this header.
    Forged,
}

/// One end's sealing and opening of a connection's packets.
pub struct Seal {
    cipher: ChaCha20Poly1305,
    end: End,
    /// Counter of the next packet; `None` once all were used.
    next: Option<u64>,
    window: ReplayWindow,
}

impl Seal {
    /// The seal of `end` under `key`, which nobody else may seal with in the same direction and `epoch` (see the
    /// module's documentation).
    pub fn new(key: &Key, end: End, epoch: u32) -> Self {
        Self {
            cipher: ChaCha20Poly1305::new(key.as_bytes().into()),
            end,
            next: Some(u64::from(epoch) << EPOCH_SHIFT),
            window: ReplayWindow::new(),
        }
    }

    /// Seals what lies in `envelope` between [`NONCE_BYTES`] from its front and [`TAG_BYTES`] from its end, and fills in
    /// both. `header` is authenticated: it must be final, the payload's length (the envelope's) included.
    ///
    /// # Panics
    /// When `envelope` is shorter than [`ENVELOPE_BYTES`].
    pub fn seal_in_place(&mut self, header: &[u8], envelope: &mut [u8]) -> Result<(), Exhausted> {
        assert!(envelope.len() >= ENVELOPE_BYTES, "an envelope without room for nonce and tag");
        let counter = self.next.ok_or(Exhausted)?;
        // Used from here on, whatever becomes of the packet. The last one of an epoch has no next.
        let next = counter.wrapping_add(1);
        self.next = (next as u32 != 0).then_some(next);
        let nonce = nonce(self.end, counter);
        let (front, rest) = envelope.split_at_mut(NONCE_BYTES);
        let (text, tag) = rest.split_at_mut(rest.len() - TAG_BYTES);
        front.copy_from_slice(&nonce);
        tag.copy_from_slice(&encrypt(&self.cipher, nonce, header, text));
        Ok(())
    }

    /// Opens `envelope`, which came under `header`, in place, and gives what it holds. After an error neither the envelope
    /// nor the seal has changed.
    pub fn open_in_place<'a>(
        &mut self,
        header: &[u8],
        envelope: &'a mut [u8],
    ) -> Result<&'a mut [u8], OpenError> {
        let (front, rest) = envelope.split_first_chunk_mut::<NONCE_BYTES>().ok_or(OpenError::Truncated)?;
        let (text, tag) = rest.split_last_chunk_mut::<TAG_BYTES>().ok_or(OpenError::Truncated)?;
        let (direction, counter) = front.split_first_chunk::<4>().expect("a nonce has twelve bytes");
        if *direction != self.end.peer().direction() {
            return Err(OpenError::Direction);
        }
        let counter = u64::from_le_bytes(counter.try_into().expect("eight bytes are left"));
        if !self.window.is_fresh(counter) {
            return Err(OpenError::Replayed);
        }
        // The cipher verifies the tag before it touches the text.
        let nonce = Nonce::from_slice(front);
        let opened = self.cipher.decrypt_in_place_detached(nonce, header, text, Tag::from_slice(tag));
        opened.map_err(|_| OpenError::Forged)?;
        self.window.record(counter);
        Ok(text)
    }

    /// How many more packets it can seal.
    pub fn remaining(&self) -> u64 {
        self.next.map_or(0, |next| (1 << EPOCH_SHIFT) - u64::from(next as u32))
    }
}

impl super::Seal for Seal {
    fn seal(&mut self, header: &[u8], payload: &mut [u8], len: usize) -> usize {
        payload.copy_within(..len, NONCE_BYTES);
        let sealed = self.seal_in_place(header, &mut payload[..len + ENVELOPE_BYTES]);
        sealed.expect("a connection ends before its counters do");
        len + ENVELOPE_BYTES
    }

    fn open(&mut self, header: &[u8], payload: &mut [u8]) -> Option<Range<usize>> {
        let len = self.open_in_place(header, payload).ok()?.len();
        Some(NONCE_BYTES..NONCE_BYTES + len)
    }

    fn remaining(&self) -> u64 {
        Self::remaining(self)
    }
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seal").field("end", &self.end).field("next", &self.next).finish_non_exhaustive()
    }
}

impl End {
    /// The other end.
    const fn peer(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    /// The first four bytes of every nonce that this end sends.
    const fn direction(self) -> [u8; 4] {
        match self {
            Self::Client => 0u32.to_le_bytes(),
            Self::Server => 1u32.to_le_bytes(),
        }
    }
}

fn nonce(end: End, counter: u64) -> [u8; NONCE_BYTES] {
    let mut nonce = [0; NONCE_BYTES];
    nonce[..4].copy_from_slice(&end.direction());
    nonce[4..].copy_from_slice(&counter.to_le_bytes());
    nonce
}

/// Encrypts `text` in place and gives the tag.
pub(super) fn encrypt(
    cipher: &ChaCha20Poly1305,
    nonce: [u8; NONCE_BYTES],
    header: &[u8],
    text: &mut [u8],
) -> [u8; TAG_BYTES] {
    let tag = cipher.encrypt_in_place_detached(&nonce.into(), header, text);
    tag.expect("a packet is no more than the cipher takes").into()
}

#[cfg(test)]
mod tests;
