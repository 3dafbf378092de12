//! What a completion is about, packed into the user data of its request.

use crate::io::DOORS;
use crate::io::sys::{NOBODY, SEGMENTS_MAX, USER_DATA_BITS};
use crate::seam::{Door, StreamId};

/// What a request is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tag {
    /// Accepting connections.
    Accept,
    /// The signal descriptor can be read.
    Signals,
    /// The loop was told to stop.
    Stop,
    /// Datagrams wait in a door's socket.
    DoorReadable(Door),
    /// Receiving a door's datagrams.
    Receive(Door),
    /// Sending datagrams.
    Send(Sending),
    /// Receiving a stream's bytes. Of the generation, only the low [`GENERATION_BITS`].
    StreamBytes(StreamId),
    /// A stream can be written. As above.
    StreamWritable(StreamId),
}

/// Datagrams of the outbox that go as one message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sending {
    pub(super) door: Door,
    /// The number of the first.
    pub(super) first: u16,
    /// How many they are: one, or up to [`SEGMENTS_MAX`].
    pub(super) count: u8,
    /// Bytes of all together.
    pub(super) bytes: u16,
}

const _: () = assert!(SEGMENTS_MAX <= u8::MAX as usize);

/// How much of a stream's generation a tag holds. A completion is at most a turn or two behind the slot's next
/// generation, so that is plenty.
pub(super) const GENERATION_BITS: u32 = 16;

const KIND_SHIFT: u32 = 48;
const _: () = assert!(KIND_SHIFT + 8 == USER_DATA_BITS && 32 + GENERATION_BITS == KIND_SHIFT);

impl Tag {
    /// As user data.
    pub(super) fn pack(self) -> u64 {
        let stream = |id: StreamId| u64::from(id.index) | u64::from(low(id.generation)) << 32;
        let (kind, rest) = match self {
            Self::Accept => (0, 0),
            Self::Signals => (1, 0),
            Self::Stop => (2, 0),
            Self::DoorReadable(door) => (3, door as u64),
            Self::Receive(door) => (4, door as u64),
            Self::Send(sending) => {
                let what = u64::from(sending.first) << 16 | u64::from(sending.count) << 8;
                (5, sending.door as u64 | what | u64::from(sending.bytes) << 32)
            }
            Self::StreamBytes(id) => (6, stream(id)),
            Self::StreamWritable(id) => (7, stream(id)),
        };
        kind << KIND_SHIFT | rest
    }

    /// What `user_data` stands for; `None` for [`NOBODY`].
    pub(super) fn unpack(user_data: u64) -> Option<Self> {
        if user_data == NOBODY {
            return None;
        }
        let low = user_data as u32;
        let high = (user_data >> 32) as u16;
        let door = || DOORS.get(usize::from(low as u8)).copied();
        let stream = StreamId { index: low, generation: u32::from(high) };
        match user_data >> KIND_SHIFT {
            0 => Some(Self::Accept),
            1 => Some(Self::Signals),
            2 => Some(Self::Stop),
            3 => door().map(Self::DoorReadable),
            4 => door().map(Self::Receive),
            5 => door().map(|door| {
                let (first, count) = ((low >> 16) as u16, (low >> 8) as u8);
                Self::Send(Sending { door, first, count, bytes: high })
            }),
            6 => Some(Self::StreamBytes(stream)),
            7 => Some(Self::StreamWritable(stream)),
            _ => None,
        }
    }
}

/// As much of a generation as a tag holds.
pub(super) fn low(generation: u32) -> u16 {
    generation as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_come_back_as_they_were() {
        let id = StreamId { index: u32::MAX - 1, generation: 0xFFFF };
        for tag in [
            Tag::Accept,
            Tag::Signals,
            Tag::Stop,
            Tag::DoorReadable(Door::Rtype),
            Tag::Receive(Door::Fignet),
            Tag::Send(Sending { door: Door::Fignet, first: 0xFFFE, count: 64, bytes: 65_000 }),
            Tag::Send(Sending { door: Door::Aegis, first: 7, count: 1, bytes: 1200 }),
            Tag::StreamBytes(id),
            Tag::StreamWritable(id),
        ] {
            assert!(tag.pack() < NOBODY);
            assert_eq!(Tag::unpack(tag.pack()), Some(tag));
        }
        assert_eq!(Tag::unpack(NOBODY), None);
    }
}
