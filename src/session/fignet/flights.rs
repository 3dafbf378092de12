//! Packets on their way: what each carried, until it is acknowledged or declared lost (section 5).

use crate::storage::is_newer;
use crate::time::{Duration, Instant};

/// What a packet carried that its fate decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carried {
    /// A whole message of a reliable channel.
    Message {
        /// The channel.
        channel: u8,
        /// Its number there.
        sequence: u16,
    },
    /// A fragment.
    Fragment {
        /// The number of its message.
        id: u16,
        /// Which part.
        index: u8,
    },
    /// The application wants to be told.
    Token(u32),
}

/// What one packet carries; a list in [`Flights`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cargo(u16);

impl Cargo {
    /// Nothing.
    pub const NOTHING: Self = Self(NONE);
}

/// Packets under way, and the numbers of all that are sent.
#[derive(Debug)]
pub struct Flights {
    flights: Box<[Flight; SLOTS]>,
    used: [u64; SLOTS / 64],
    in_flight: u16,
    first: u16,
    next: u16,
    newest_acked: Option<u16>,
    /// No flight is due before.
    due: Instant,
    /// Whether flights may have fallen out of the bitfield since they were last looked at.
    moved: bool,
    items: Box<[Item; ITEMS]>,
    free: u16,
    free_len: u16,
}

#[derive(Clone, Copy, Debug)]
struct Flight {
    sequence: u16,
    due: Instant,
    cargo: Cargo,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    carried: Carried,
    next: u16,
}

/// Places of packets: a power of two, and far more than may be in flight.
const SLOTS: usize = 256;

/// Things that all packets in flight may carry together.
const ITEMS: usize = 512;

/// A packet in flight is lost for certain when the numbers went on so far.
const SPAN_MAX: u16 = 224;

const NONE: u16 = u16::MAX;

impl Flights {
    /// Nothing sent; the first packet gets number `first`.
    pub fn new(first: u16) -> Self {
        let flight = Flight { sequence: 0, due: Instant::MAX, cargo: Cargo::NOTHING };
        let item = Item { carried: Carried::Token(0), next: NONE };
        let mut flights = Self {
            flights: Box::new([flight; SLOTS]),
            used: [0; SLOTS / 64],
            in_flight: 0,
            first,
            next: first,
            newest_acked: None,
            due: Instant::MAX,
            moved: false,
            items: Box::new([item; ITEMS]),
            free: 0,
            free_len: 0,
        };
        flights.reset(first);
        flights
    }

    /// As new.
    pub fn reset(&mut self, first: u16) {
        self.forget();
        (self.first, self.next) = (first, first);
        self.newest_acked = None;
    }

    /// Forgets what is in flight; the numbers go on.
    pub fn forget(&mut self) {
        self.used = [0; SLOTS / 64];
        self.in_flight = 0;
        self.due = Instant::MAX;
        self.moved = false;
        for (index, item) in self.items.iter_mut().enumerate() {
            item.next = if index + 1 < ITEMS { index as u16 + 1 } else { NONE };
        }
        (self.free, self.free_len) = (0, ITEMS as u16);
    }

    /// The number of the next packet.
    pub const fn next_sequence(&self) -> u16 {
        self.next
    }

    /// How many packets are in flight.
    pub const fn in_flight(&self) -> usize {
        self.in_flight as usize
    }

    /// Whether something more can be carried.
    pub const fn has_room(&self) -> bool {
        self.free_len > 0
    }

    /// Adds to the cargo of a packet that is being written.
    ///
    /// # Panics
    /// When there is no room.
    pub fn load(&mut self, cargo: &mut Cargo, carried: Carried) {
        assert!(self.free != NONE, "the caller looked whether there is room");
        let index = self.free;
        let item = &mut self.items[usize::from(index)];
        self.free = item.next;
        self.free_len -= 1;
        *item = Item { carried, next: cargo.0 };
        cargo.0 = index;
    }

    /// Takes one thing out of a cargo.
    pub fn unload(&mut self, cargo: &mut Cargo) -> Option<Carried> {
        let item = self.items.get_mut(usize::from(cargo.0))?;
        let index = std::mem::replace(&mut cargo.0, item.next);
        item.next = std::mem::replace(&mut self.free, index);
        self.free_len += 1;
        Some(item.carried)
    }

    /// A packet is sent that nobody has to acknowledge.
    pub const fn sent_unwatched(&mut self) {
        self.next = self.next.wrapping_add(1);
    }

    /// A packet is sent that is lost when it is not acknowledged after `timeout`.
    ///
    /// # Panics
    /// When the packet [`Flights::overrun`] tells of was not taken care of.
    pub fn sent(&mut self, now: Instant, timeout: Duration, cargo: Cargo) {
        let slot = slot_of(self.next);
        assert!(!self.is_used(slot), "a packet that was overrun");
        let due = now + timeout;
        self.flights[slot] = Flight { sequence: self.next, due, cargo };
        self.used[slot / 64] |= 1 << (slot % 64);
        self.in_flight += 1;
        self.due = self.due.min(due);
        self.next = self.next.wrapping_add(1);
    }

    /// Whether `ack` is a packet that was sent, and not one of long ago.
    pub const fn is_plausible(&self, ack: u16) -> bool {
        self.next.wrapping_sub(1).wrapping_sub(ack) < 0x8000
    }

    /// Whether `ack` is one of the packets sent since the beginning; for the first few packets only.
    pub const fn is_since_first(&self, ack: u16) -> bool {
        ack.wrapping_sub(self.first) < self.next.wrapping_sub(self.first)
    }

    /// Reads an acknowledgement; the cargo of each packet in flight that it names is given to `settle`.
    pub fn acknowledge(&mut self, ack: u16, bits: u32, mut settle: impl FnMut(Carried)) {
        if !self.is_plausible(ack) {
            return;
        }
        let mut bits = bits;
        while bits != 0 {
            let behind = bits.leading_zeros() as u16;
            bits &= !(1 << (31 - behind));
            let sequence = ack.wrapping_sub(behind);
            let slot = slot_of(sequence);
            if !self.is_used(slot) || self.flights[slot].sequence != sequence {
                continue;
            }
            if self.newest_acked.is_none_or(|newest| is_newer(sequence, newest)) {
                self.newest_acked = Some(sequence);
                self.moved = true;
            }
            let mut cargo = self.land(slot);
            while let Some(carried) = self.unload(&mut cargo) {
                settle(carried);
            }
        }
    }

    /// Takes out a packet that is lost: not acknowledged in time, or no longer acknowledgeable. Its cargo is to be
    /// unloaded.
    pub fn take_lost(&mut self, now: Instant) -> Option<Cargo> {
        if !self.moved && now < self.due {
            return None;
        }
        let mut due = Instant::MAX;
        for word in 0..self.used.len() {
            let mut left = self.used[word];
            while left != 0 {
                let slot = word * 64 + left.trailing_zeros() as usize;
                left &= left - 1;
                let flight = &self.flights[slot];
                let fallen = self.newest_acked.is_some_and(|newest| {
                    is_newer(newest, flight.sequence) && newest.wrapping_sub(flight.sequence) > 31
                });
                if fallen || flight.due <= now {
                    return Some(self.land(slot));
                }
                due = due.min(flight.due);
            }
        }
        self.moved = false;
        self.due = due;
        None
    }

    /// Takes out a packet whose place is soon needed for another.
    pub fn overrun(&mut self) -> Option<Cargo> {
        let oldest = self.next.wrapping_sub(SPAN_MAX);
        let slot = slot_of(oldest);
        (self.is_used(slot) && self.flights[slot].sequence == oldest).then(|| self.land(slot))
    }

    /// When a packet is next lost, unless it is acknowledged. Never late; early at most once per packet.
    pub fn next_loss(&self) -> Option<Instant> {
        if self.in_flight == 0 {
            None
        } else if self.moved {
            Some(Instant::ZERO)
        } else {
            Some(self.due)
        }
    }

    fn land(&mut self, slot: usize) -> Cargo {
        self.used[slot / 64] &= !(1 << (slot % 64));
        self.in_flight -= 1;
        self.flights[slot].cargo
    }

    fn is_used(&self, slot: usize) -> bool {
        self.used[slot / 64] >> (slot % 64) & 1 == 1
    }
}

fn slot_of(sequence: u16) -> usize {
    usize::from(sequence) % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTO: Duration = Duration::from_millis(100);

    fn fly(flights: &mut Flights, now: Instant, token: u32) {
        let mut cargo = Cargo::NOTHING;
        flights.load(&mut cargo, Carried::Token(token));
        flights.load(&mut cargo, Carried::Token(token + 1000));
        flights.sent(now, RTO, cargo);
    }

    fn acked(flights: &mut Flights, ack: u16, bits: u32) -> Vec<u32> {
        let mut tokens = Vec::new();
        flights.acknowledge(ack, bits, |carried| {
            let Carried::Token(token) = carried else { panic!("{carried:?}") };
            tokens.push(token);
        });
        tokens.retain(|&token| token < 1000);
        tokens
    }

    #[test]
    fn exactly_the_named_packets_once_over_the_wrap() {
        let mut flights = Flights::new(65_530);
        (0..12).for_each(|token| fly(&mut flights, Instant::ZERO, token));
        assert_eq!((flights.in_flight(), flights.next_sequence()), (12, 6));
        assert_eq!(acked(&mut flights, 6, u32::MAX), [0u32; 0], "never sent");
        assert_eq!(acked(&mut flights, 3, 1 << 31 | 1 << 27), [9, 5]);
        assert_eq!(acked(&mut flights, 3, u32::MAX), [8, 7, 6, 4, 3, 2, 1, 0]);
        assert_eq!(acked(&mut flights, 3, u32::MAX), [0u32; 0]);
        assert_eq!(flights.in_flight(), 2);
        assert!(flights.is_since_first(65_530) && flights.is_since_first(5));
        assert!(!flights.is_since_first(6) && !flights.is_since_first(65_529));
    }

    #[test]
    fn lost_after_its_time_or_when_it_falls_out_of_the_bitfield() {
        let mut flights = Flights::new(0);
        fly(&mut flights, Instant::ZERO, 7);
        assert_eq!(flights.next_loss(), Some(Instant::from_millis(100)));
        assert_eq!(flights.take_lost(Instant::from_millis(99)), None);
        let mut cargo = flights.take_lost(Instant::from_millis(100)).unwrap();
        assert_eq!(flights.unload(&mut cargo), Some(Carried::Token(1007)));
        assert_eq!(flights.unload(&mut cargo), Some(Carried::Token(7)));
        assert_eq!((flights.unload(&mut cargo), flights.next_loss()), (None, None));
        (0..33).for_each(|token| fly(&mut flights, Instant::from_millis(200), token));
        assert_eq!(acked(&mut flights, 32, 1 << 31), [31]);
        assert_eq!(flights.take_lost(Instant::from_millis(200)), None, "31 behind can still be acknowledged");
        assert_eq!(acked(&mut flights, 33, 1 << 31), [32]);
        assert!(flights.take_lost(Instant::from_millis(200)).is_some());
        assert_eq!(flights.take_lost(Instant::from_millis(200)), None);
    }

    #[test]
    fn numbers_that_go_on_overrun_a_packet_in_flight() {
        let mut flights = Flights::new(9);
        fly(&mut flights, Instant::ZERO, 7);
        for _ in 0..SPAN_MAX - 1 {
            assert_eq!(flights.overrun(), None);
            flights.sent_unwatched();
        }
        assert!(flights.overrun().is_some());
        assert_eq!(flights.in_flight(), 0);
    }

    #[test]
    fn a_full_hold_has_no_room_and_empties_again() {
        let mut flights = Flights::new(0);
        let mut cargo = Cargo::NOTHING;
        while flights.has_room() {
            flights.load(&mut cargo, Carried::Token(1));
        }
        flights.sent(Instant::ZERO, RTO, cargo);
        let mut count = 0;
        flights.acknowledge(0, 1 << 31, |_| count += 1);
        assert_eq!((count, flights.has_room()), (ITEMS, true));
    }
}
