//! Messages that go out in fragments (section 6).

use super::outgoing::TooManyRetries;
use super::pools::{Buffers, Chain, FRAGMENT_SETS_MAX, Place};
use crate::wire::fignet::fragment::FRAGMENTS_MAX;

/// A message that goes out in fragments.
#[derive(Debug)]
pub struct PartsOut {
    /// What number it goes by.
    pub id: u16,
    /// Its channel.
    pub channel: u8,
    /// Its number there.
    pub sequence: u16,
    /// Its bytes.
    pub chain: Chain,
    /// Of how many fragments.
    pub total: u8,
    part_bytes: u16,
    /// Bits of the fragments never sent,
    unsent: u64,
    /// of those lost,
    lost: u64,
    /// and of those that arrived.
    arrived: u64,
    restarts: u8,
    /// All arrived; kept until those before it in its channel did too, as the receiver does.
    done: bool,
    retries: [u8; FRAGMENTS_MAX],
    places: [Place; FRAGMENTS_MAX],
}

/// The few messages that go out in fragments at a time.
#[derive(Debug)]
pub struct PartsOutTable {
    slots: Box<[Option<PartsOut>; FRAGMENT_SETS_MAX]>,
    next_id: u16,
}

impl PartsOutTable {
    /// None.
    pub fn new() -> Self {
        Self { slots: Box::new([const { None }; FRAGMENT_SETS_MAX]), next_id: 0 }
    }

    /// Forgets all; `release` is given each.
    pub fn reset(&mut self, mut release: impl FnMut(&PartsOut)) {
        self.slots.iter_mut().filter_map(Option::take).for_each(|parts| release(&parts));
        self.next_id = 0;
    }

    /// Whether another one may begin.
    pub fn has_room(&self) -> bool {
        self.slots.iter().any(Option::is_none)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.slots.iter().all(Option::is_none)
    }

    /// Begins with a message of more than `part_bytes` bytes.
    ///
    /// # Panics
    /// When there is no room, or the message takes more than 64 fragments.
    pub fn begin(&mut self, channel: u8, sequence: u16, chain: Chain, part_bytes: usize, buffers: &Buffers) {
        let total = chain.len().div_ceil(part_bytes);
        assert!((2..=FRAGMENTS_MAX).contains(&total), "fragments out of range");
        let mut places = [Place::NOWHERE; FRAGMENTS_MAX];
        let mut place = buffers.start(chain);
        for start in &mut places[..total] {
            *start = place;
            buffers.skip(&mut place, part_bytes);
        }
        let slot = self.slots.iter_mut().find(|slot| slot.is_none()).expect("the caller looked for room");
        *slot = Some(PartsOut {
            id: self.next_id,
            channel,
            sequence,
            chain,
            total: total as u8,
            part_bytes: part_bytes as u16,
            unsent: mask_of(total as u8),
            lost: 0,
            arrived: 0,
            restarts: 0,
            done: false,
            retries: [0; FRAGMENTS_MAX],
            places,
        });
        self.next_id = self.next_id.wrapping_add(1);
    }

    /// Those that are under way.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut PartsOut> {
        self.slots.iter_mut().flatten()
    }

    /// The one that goes by `id`.
    pub fn find(&mut self, id: u16) -> Option<&mut PartsOut> {
        self.iter_mut().find(|parts| parts.id == id && !parts.done)
    }

    /// The first of channel `channel` for which `is` holds.
    pub fn of_channel(&mut self, channel: u8, is: impl Fn(&PartsOut) -> bool) -> Option<&mut PartsOut> {
        self.iter_mut().find(|parts| parts.channel == channel && is(parts))
    }

    /// Forgets those for which `is` holds.
    pub fn remove(&mut self, is: impl Fn(&PartsOut) -> bool) {
        self.slots.iter_mut().filter(|slot| slot.as_ref().is_some_and(&is)).for_each(|slot| *slot = None);
    }

    /// Begins anew with the one that goes by `id`, under another number: the receiver gave it up.
    pub fn restart(&mut self, id: u16, restarts_max: u8) -> Result<(), TooManyRetries> {
        let next_id = self.next_id;
        let Some(parts) = self.find(id) else { return Ok(()) };
        if parts.restarts >= restarts_max {
            return Err(TooManyRetries);
        }
        parts.restarts += 1;
        parts.id = next_id;
        // What was sent before is to be sent again, with the precedence of what is lost.
        parts.lost = mask_of(parts.total) & !parts.unsent;
        parts.arrived = 0;
        self.next_id = next_id.wrapping_add(1);
        Ok(())
    }
}

impl PartsOut {
    /// Whether some fragment was never sent.
    pub const fn has_unsent(&self) -> bool {
        self.unsent != 0
    }

    /// Whether some fragment is to be sent again.
    pub const fn has_lost(&self) -> bool {
        self.lost != 0
    }

    /// Whether it only waits for those before it.
    pub const fn is_done(&self) -> bool {
        self.done
    }

    /// It has arrived.
    pub const fn finish(&mut self) {
        self.done = true;
        (self.unsent, self.lost) = (0, 0);
    }

    /// The next fragment to be sent, lost ones only or never sent ones only.
    pub const fn next(&self, lost: bool) -> Option<u8> {
        let bits = if lost { self.lost } else { self.unsent };
        if bits == 0 { None } else { Some(bits.trailing_zeros() as u8) }
    }

    /// Bytes of a fragment's data.
    pub fn len_of(&self, index: u8) -> usize {
        let part_bytes = usize::from(self.part_bytes);
        part_bytes.min(self.chain.len() - usize::from(index) * part_bytes)
    }

    /// Reads a fragment's data.
    pub fn read(&self, index: u8, buffers: &Buffers, out: &mut [u8]) {
        let mut place = self.places[usize::from(index)];
        buffers.read(&mut place, out);
    }

    /// A fragment is sent; returns how often it was before.
    pub const fn sent(&mut self, index: u8) -> u8 {
        self.unsent &= !(1 << index);
        self.lost &= !(1 << index);
        self.retries[index as usize]
    }

    /// Fragments arrived; returns whether these were the last.
    pub const fn arrive(&mut self, bits: u64) -> bool {
        self.arrived |= bits & mask_of(self.total);
        self.unsent &= !self.arrived;
        self.lost &= !self.arrived;
        self.arrived == mask_of(self.total)
    }

    /// The packet with a fragment is lost.
    pub const fn lose(&mut self, index: u8, retries_max: u8) -> Result<(), TooManyRetries> {
        let bit = 1 << index;
        if (self.arrived | self.unsent | self.lost) & bit != 0 {
            return Ok(());
        }
        let retries = &mut self.retries[index as usize];
        if *retries >= retries_max {
            return Err(TooManyRetries);
        }
        *retries += 1;
        self.lost |= bit;
        Ok(())
    }
}

/// The bits of `total` fragments.
pub const fn mask_of(total: u8) -> u64 {
    if total as usize >= FRAGMENTS_MAX { u64::MAX } else { (1 << total) - 1 }
}
