//! Connection keys on their way from the control plane to the connections that they are for
//! (docs/protocol/fignet-sync.md, section 2.2).

use std::fmt;

use chacha20poly1305::ChaCha20Poly1305;
use chacha20poly1305::aead::KeyInit;
use zeroize::Zeroize;

use super::seal::{NONCE_BYTES, TAG_BYTES, encrypt};
use crate::storage::Ring;
use crate::time::Instant;

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;

/// Most keys that a [`KeyStore`] can be given places for: looking one up walks them.
pub const KEYS_MAX: usize = 4096;

/// Keys that were used are recognised until this many others were.
pub const SPENT_KEYS: usize = 4096;

/// Where connections get their keys from.
pub trait Keys {
    /// Hands over the key for the connection of `client_nonce`, if there is one: nobody gets it a second time.
    fn take(&mut self, client_nonce: u32) -> Option<Key>;
}

/// A connection's key. Wiped when it is dropped; it cannot be cloned, and is not printed.
pub struct Key {
    bytes: [u8; KEY_BYTES],
}

/// Why a key was not taken in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyError {
    /// No place is free.
    Full,
    /// There is a key for this client nonce; it stays.
    Present,
    /// This very key is waiting for another connection, or served one before.
    Repeated,
}

/// A fixed table of keys that wait for their connections. Each is used once, or wiped when its time is over.
pub struct KeyStore {
    slots: Box<[Slot]>,
    len: usize,
    /// No key's time is over before this.
    next_expiry: Instant,
    /// Fingerprints of the keys that were taken.
    spent: Ring<Fingerprint>,
}

/// One-way image of a key: the tag of the empty message under a nonce that no packet has.
type Fingerprint = [u8; TAG_BYTES];

struct Slot {
    is_used: bool,
    client_nonce: u32,
    expires: Instant,
    fingerprint: Fingerprint,
    key: Key,
}

impl Key {
    /// The key of `bytes`, which the caller wipes.
    pub const fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self { bytes }
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; KEY_BYTES] {
        &self.bytes
    }

    fn fingerprint(&self) -> Fingerprint {
        let cipher = ChaCha20Poly1305::new((&self.bytes).into());
        encrypt(&cipher, [0xFF; NONCE_BYTES], b"", &mut [])
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.bytes.zeroize();
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl KeyStore {
    /// An empty store for `capacity` keys.
    ///
    /// # Panics
    /// When `capacity` is 0 or above [`KEYS_MAX`].
    pub fn new(capacity: usize) -> Self {
        assert!((1..=KEYS_MAX).contains(&capacity), "a key store of no or too many keys");
        let slot = |_| Slot {
            is_used: false,
            client_nonce: 0,
            expires: Instant::ZERO,
            fingerprint: [0; TAG_BYTES],
            key: Key::new([0; KEY_BYTES]),
        };
        Self {
            slots: (0..capacity).map(slot).collect(),
            len: 0,
            next_expiry: Instant::MAX,
            spent: Ring::new(SPENT_KEYS, [0; TAG_BYTES]),
        }
    }

    /// Takes in the key for the connection of `client_nonce`, until `expires`. What is there already is never
    /// overwritten.
    pub fn insert(&mut self, client_nonce: u32, key: &Key, expires: Instant) -> Result<(), KeyError> {
        let fingerprint = key.fingerprint();
        let waiting = self.slots.iter().filter(|slot| slot.is_used);
        for slot in waiting {
            if slot.client_nonce == client_nonce {
                return Err(KeyError::Present);
            }
            if slot.fingerprint == fingerprint {
                return Err(KeyError::Repeated);
            }
        }
        if self.spent.iter().any(|spent| *spent == fingerprint) {
            return Err(KeyError::Repeated);
        }
        let slot = self.slots.iter_mut().find(|slot| !slot.is_used).ok_or(KeyError::Full)?;
        (slot.is_used, slot.client_nonce, slot.expires) = (true, client_nonce, expires);
        slot.fingerprint = fingerprint;
        slot.key.bytes.copy_from_slice(&key.bytes);
        self.len += 1;
        self.next_expiry = self.next_expiry.min(expires);
        Ok(())
    }

    /// Wipes the keys whose time is over at `now`. They were never used, so that they may come again.
    pub fn expire(&mut self, now: Instant) {
        if now < self.next_expiry {
            return;
        }
        self.next_expiry = Instant::MAX;
        for slot in self.slots.iter_mut().filter(|slot| slot.is_used) {
            if slot.expires <= now {
                slot.wipe();
                self.len -= 1;
            } else {
                self.next_expiry = self.next_expiry.min(slot.expires);
            }
        }
    }

    /// When [`KeyStore::expire`] next has something to do. Early when the key that was meant was taken since.
    pub fn next_deadline(&self) -> Option<Instant> {
        (self.len > 0 && self.next_expiry < Instant::MAX).then_some(self.next_expiry)
    }

    /// How many keys wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many keys fit.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }
}

impl Keys for KeyStore {
    fn take(&mut self, client_nonce: u32) -> Option<Key> {
        if self.len == 0 {
            return None;
        }
        let slot = self.slots.iter_mut().find(|slot| slot.is_used && slot.client_nonce == client_nonce)?;
        let key = Key::new(slot.key.bytes);
        let fingerprint = slot.fingerprint;
        slot.wipe();
        self.len -= 1;
        if self.spent.len() == self.spent.capacity() {
            self.spent.pop();
        }
        let pushed = self.spent.push(fingerprint);
        assert!(pushed.is_ok(), "room was made for the fingerprint");
        Some(key)
    }
}

impl Slot {
    fn wipe(&mut self) {
        self.is_used = false;
        self.key.bytes.zeroize();
    }
}

impl fmt::Debug for KeyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyStore").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATER: Instant = Instant::from_millis(30_000);

    fn key(number: u16) -> Key {
        let mut bytes = [0xA5; KEY_BYTES];
        bytes[..2].copy_from_slice(&number.to_le_bytes());
        Key::new(bytes)
    }

    #[test]
    fn a_key_is_used_once() {
        let mut store = KeyStore::new(4);
        store.insert(77, &key(1), LATER).unwrap();
        assert!(store.take(78).is_none());
        assert_eq!(store.take(77).unwrap().as_bytes(), key(1).as_bytes());
        assert!(store.take(77).is_none());
        assert!(store.is_empty());
        assert_eq!(store.insert(77, &key(1), LATER), Err(KeyError::Repeated), "nor ever again");
        assert_eq!(store.insert(99, &key(1), LATER), Err(KeyError::Repeated), "under any nonce");
        assert_eq!(store.insert(77, &key(2), LATER), Ok(()), "a new key for the same nonce is fine");
    }

    #[test]
    fn nothing_is_overwritten() {
        let mut store = KeyStore::new(2);
        store.insert(1, &key(1), LATER).unwrap();
        assert_eq!(store.insert(1, &key(2), LATER), Err(KeyError::Present));
        assert_eq!(store.insert(2, &key(1), LATER), Err(KeyError::Repeated), "one key for two connections");
        store.insert(2, &key(2), LATER).unwrap();
        assert_eq!(store.insert(3, &key(3), LATER), Err(KeyError::Full));
        assert_eq!((store.len(), store.capacity()), (2, 2));
        assert_eq!(store.take(1).unwrap().as_bytes(), key(1).as_bytes());
    }

    #[test]
    fn keys_expire_and_are_wiped() {
        let mut store = KeyStore::new(2);
        store.insert(1, &key(1), Instant::from_millis(10)).unwrap();
        store.insert(2, &key(2), Instant::from_millis(20)).unwrap();
        assert_eq!(store.next_deadline(), Some(Instant::from_millis(10)));
        store.expire(Instant::from_millis(9));
        assert_eq!(store.len(), 2);
        store.expire(Instant::from_millis(10));
        assert_eq!((store.len(), store.next_deadline()), (1, Some(Instant::from_millis(20))));
        assert!(store.take(1).is_none());
        assert_eq!(store.slots[0].key.bytes, [0; KEY_BYTES]);
        assert!(store.take(2).is_some());
        assert_eq!(store.slots[1].key.bytes, [0; KEY_BYTES]);
        assert_eq!(store.insert(1, &key(1), LATER), Ok(()), "it was never used");
    }

    /// The memory of used keys is fixed: the oldest goes first.
    #[test]
    fn spent_keys_are_recognised_until_enough_others_were() {
        let mut store = KeyStore::new(1);
        for number in 0..SPENT_KEYS as u16 {
            store.insert(number.into(), &key(number), LATER).unwrap();
            assert!(store.take(number.into()).is_some());
        }
        assert_eq!(store.insert(0, &key(0), LATER), Err(KeyError::Repeated));
        store.insert(5000, &key(5000), LATER).unwrap();
        assert!(store.take(5000).is_some());
        assert_eq!(store.insert(0, &key(0), LATER), Ok(()));
    }

    #[test]
    fn nothing_secret_is_printed() {
        let mut store = KeyStore::new(1);
        store.insert(7, &key(1), LATER).unwrap();
        assert_eq!(format!("{:?} {store:?}", key(1)), "Key KeyStore { len: 1, .. }");
    }
}
