//! Snapshots (R-Type 8.1): where entities are at a tick.

use super::blueprint::Blueprint;
use super::message::MessageError;
use super::value::{Pos16, Rot16};
use crate::model::{Entity, EntityId};

/// Most states in one Snapshot: what fits in a datagram.
pub const STATES_MAX: usize = 47;

/// Bytes in front of the states: tick and count.
const HEAD_BYTES: usize = 6;

/// Bytes of a state.
const STATE_BYTES: usize = 11;

const _: () = assert!(
    HEAD_BYTES + STATES_MAX * STATE_BYTES <= super::PAYLOAD_BYTES_MAX
        && HEAD_BYTES + (STATES_MAX + 1) * STATE_BYTES > super::PAYLOAD_BYTES_MAX
);

/// Where one entity is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntityState {
    /// Which, never 0.
    pub id: EntityId,
    /// Low eight bits of its archetype id; for information only.
    pub archetype_low: u8,
    /// Position.
    pub x: Pos16,
    /// Position.
    pub y: Pos16,
    /// Rotation.
    pub rotation: Rot16,
}

impl EntityState {
    /// The state of an entity of the world. `None` for one that this protocol cannot describe.
    #[inline]
    pub const fn of(id: EntityId, entity: &Entity) -> Option<Self> {
        let Some(blueprint) = Blueprint::of(entity) else { return None };
        Some(Self {
            id,
            archetype_low: blueprint.archetype() as u8,
            x: Pos16::from_units(entity.x),
            y: Pos16::from_units(entity.y),
            // Nothing in this world turns.
            rotation: Rot16(0),
        })
    }

    const fn from_bytes(bytes: [u8; STATE_BYTES]) -> Self {
        let [i0, i1, i2, i3, archetype_low, x0, x1, y0, y1, r0, r1] = bytes;
        Self {
            id: EntityId(u32::from_be_bytes([i0, i1, i2, i3])),
            archetype_low,
            x: Pos16(u16::from_be_bytes([x0, x1])),
            y: Pos16(u16::from_be_bytes([y0, y1])),
            rotation: Rot16(u16::from_be_bytes([r0, r1])),
        }
    }

    const fn to_bytes(self) -> [u8; STATE_BYTES] {
        let [i0, i1, i2, i3] = self.id.0.to_be_bytes();
        let ([x0, x1], [y0, y1]) = (self.x.0.to_be_bytes(), self.y.0.to_be_bytes());
        let [r0, r1] = self.rotation.0.to_be_bytes();
        [i0, i1, i2, i3, self.archetype_low, x0, x1, y0, y1, r0, r1]
    }
}

/// A Snapshot, checked.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// When.
    pub tick: u32,
    states: &'a [[u8; STATE_BYTES]],
}

impl<'a> Snapshot<'a> {
    /// Its message type.
    pub const KIND: u16 = 0x0083;

    /// Checks everything that 8.1 asks for: the count, the size, every id, and that none comes twice.
    pub fn parse(payload: &'a [u8]) -> Result<Self, MessageError> {
        let Some((&[t0, t1, t2, t3, c0, c1], states)) = payload.split_first_chunk() else {
            return Err(MessageError::Size);
        };
        let count = usize::from(u16::from_be_bytes([c0, c1]));
        if count > STATES_MAX {
            return Err(MessageError::Count);
        }
        let (states, rest) = states.as_chunks::<STATE_BYTES>();
        if states.len() != count || !rest.is_empty() {
            return Err(MessageError::Size);
        }
        let snapshot = Self { tick: u32::from_be_bytes([t0, t1, t2, t3]), states };
        for (index, state) in snapshot.iter().enumerate() {
            if state.id.0 == 0 {
                return Err(MessageError::NetworkId);
            }
            if snapshot.iter().take(index).any(|earlier| earlier.id == state.id) {
                return Err(MessageError::Repeated);
            }
        }
        Ok(snapshot)
    }

    /// How many states.
    pub const fn len(&self) -> usize {
        self.states.len()
    }

    /// Whether it has none.
    pub const fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// The states in their order.
    pub fn iter(&self) -> impl Iterator<Item = EntityState> + use<'a> {
        self.states.iter().map(|&bytes| EntityState::from_bytes(bytes))
    }
}

/// Writes the payload of a Snapshot in place.
#[derive(Debug)]
pub struct SnapshotWriter<'a> {
    out: &'a mut [u8],
    count: usize,
}

impl<'a> SnapshotWriter<'a> {
    /// An empty Snapshot in the front of `out`; `None` when it has no room for one.
    pub fn new(tick: u32, out: &'a mut [u8]) -> Option<Self> {
        let head = out.first_chunk_mut::<HEAD_BYTES>()?;
        let [t0, t1, t2, t3] = tick.to_be_bytes();
        *head = [t0, t1, t2, t3, 0, 0];
        Some(Self { out, count: 0 })
    }

    /// Whether another state fits.
    pub const fn has_room(&self) -> bool {
        self.count < STATES_MAX && self.len() + STATE_BYTES <= self.out.len()
    }

    /// Appends a state. False when there is no room for it.
    ///
    /// # Panics
    /// When its id is 0. That no id comes twice is for the caller to see to.
    pub fn push(&mut self, state: &EntityState) -> bool {
        assert!(state.id.0 != 0, "a state of nobody");
        if !self.has_room() {
            return false;
        }
        let at = self.len();
        self.out[at..at + STATE_BYTES].copy_from_slice(&state.to_bytes());
        self.count += 1;
        true
    }

    /// How many states it has.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// The payload's length in bytes.
    pub fn finish(self) -> usize {
        self.out[4..HEAD_BYTES].copy_from_slice(&(self.count as u16).to_be_bytes());
        self.len()
    }

    const fn len(&self) -> usize {
        HEAD_BYTES + self.count * STATE_BYTES
    }
}
