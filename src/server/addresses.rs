//! How many connections each address has open.

use std::net::IpAddr;

use crate::session::drops::key;
use crate::storage::Index;

/// Connection counts by address, for as many addresses as there can be connections.
#[derive(Debug)]
pub(super) struct Addresses {
    index: Index,
    counts: Box<[(u128, u32)]>,
    free: Vec<u32>,
}

impl Addresses {
    pub(super) fn new(capacity: usize, secret: [u64; 2]) -> Self {
        Self {
            index: Index::new(capacity, secret),
            counts: vec![(0, 0); capacity].into_boxed_slice(),
            free: (0..capacity as u32).rev().collect(),
        }
    }

    /// One more connection of `ip`.
    pub(super) fn add(&mut self, ip: IpAddr) {
        let key = key(ip);
        let slot = self.index.get(key).unwrap_or_else(|| {
            let slot = self.free.pop().expect("no more addresses than connections");
            self.counts[slot as usize] = (key, 0);
            self.index.insert(key, slot);
            slot
        });
        self.counts[slot as usize].1 += 1;
    }

    /// One connection of `ip` less.
    pub(super) fn remove(&mut self, ip: IpAddr) {
        let key = key(ip);
        let slot = self.index.get(key).expect("a connection that was counted");
        let count = &mut self.counts[slot as usize].1;
        *count -= 1;
        if *count == 0 {
            self.index.remove(key);
            self.free.push(slot);
        }
    }

    /// How many connections `ip` has.
    pub(super) fn count(&self, ip: IpAddr) -> usize {
        self.index.get(key(ip)).map_or(0, |slot| self.counts[slot as usize].1 as usize)
    }

    /// How many addresses have any.
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both spellings of an address count together (field case 57), and everything returns to empty.
    #[test]
    fn case_57_counts_by_identity() {
        let mut addresses = Addresses::new(2, [1, 2]);
        let v4: IpAddr = "1.2.3.4".parse().unwrap();
        let mapped: IpAddr = "::ffff:1.2.3.4".parse().unwrap();
        addresses.add(v4);
        addresses.add(mapped);
        assert_eq!((addresses.count(v4), addresses.len()), (2, 1));
        addresses.remove(mapped);
        addresses.remove(v4);
        assert_eq!((addresses.count(v4), addresses.len(), addresses.free.len()), (0, 0, 2));
    }
}
