//! The FigNet snapshots that a peer applied: baselines for those to come (docs/protocol/fignet-sync.md, section 3.1).

use crate::session::fignet::coder::{SCRATCH_BYTES, UnpackError, unpack};
use crate::storage::is_newer;
use crate::wire::fignet::snapshot::{Head, SnapshotError, Table, decode};

/// Baselines that a server refers to are at most this old, in ticks.
const KEPT_TICKS: usize = 64;

/// The last snapshots applied, and one table to decode into. Fixed memory.
///
/// Every message whose packet is acknowledged must be given to [`Received::apply`], late ones too: the server may build on
/// any of them.
#[derive(Debug)]
pub struct Received {
    slots: Box<[Slot]>,
    newest: Option<usize>,
    scratch: Box<[u8; SCRATCH_BYTES]>,
}

#[derive(Debug)]
struct Slot {
    is_applied: bool,
    table: Table,
}

/// Why a message was dropped. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReceiveError {
    /// Not what a coder makes.
    Unpack(UnpackError),
    /// No snapshot, or one whose baseline is not here.
    Snapshot(SnapshotError),
    /// Here already, or older than everything that is kept.
    Old,
}

impl Received {
    /// Nothing received, of a server that sends at most one snapshot every `interval` ticks, of rooms of at most
    /// `entities_max` entities.
    ///
    /// # Panics
    /// When `interval` is 0.
    pub fn new(entities_max: usize, interval: usize) -> Self {
        assert!(interval > 0, "a snapshot every 0 ticks");
        // The oldest baseline and the newest, and the one being decoded.
        let slots = KEPT_TICKS / interval + 2;
        Self {
            slots: (0..slots).map(|_| Slot { is_applied: false, table: Table::new(entities_max) }).collect(),
            newest: None,
            scratch: Box::new([0; SCRATCH_BYTES]),
        }
    }

    /// Applies a message, coded or not, and gives the room as it says it is.
    pub fn apply(&mut self, message: &[u8]) -> Result<&Table, ReceiveError> {
        let plain = unpack(message, &mut self.scratch).map_err(ReceiveError::Unpack)?;
        let head = Head::parse(plain).map_err(ReceiveError::Snapshot)?;
        let baseline = match head.baseline() {
            Some(sequence) => {
                let missing = ReceiveError::Snapshot(SnapshotError::MissingBaseline);
                Some(find(&self.slots, sequence).ok_or(missing)?)
            }
            None => None,
        };
        let spare = spare(&self.slots, head.sequence, baseline).ok_or(ReceiveError::Old)?;
        let (to, from) = match baseline {
            Some(baseline) => {
                let two = self.slots.get_disjoint_mut([spare, baseline]);
                let [to, from] = two.expect("a baseline is no spare slot");
                (to, Some(&from.table))
            }
            None => (&mut self.slots[spare], None),
        };
        // What the slot held is older than all others: it may go even if this turns out to be no snapshot.
        to.is_applied = false;
        decode(plain, from, &mut to.table).map_err(ReceiveError::Snapshot)?;
        to.is_applied = true;
        let newest = self.newest.map(|newest| self.slots[newest].table.sequence());
        if newest.is_none_or(|newest| is_newer(head.sequence, newest)) {
            self.newest = Some(spare);
        }
        Ok(&self.slots[spare].table)
    }

    /// The newest snapshot.
    pub fn newest(&self) -> Option<&Table> {
        self.newest.map(|newest| &self.slots[newest]).filter(|slot| slot.is_applied).map(|slot| &slot.table)
    }

    /// Forgets everything, for a new connection.
    pub fn reset(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.is_applied = false);
        self.newest = None;
    }
}

fn find(slots: &[Slot], sequence: u16) -> Option<usize> {
    slots.iter().position(|slot| slot.is_applied && slot.table.sequence() == sequence)
}

/// A slot for the snapshot of `sequence`: a free one, or that of the oldest snapshot. None for a snapshot that is here
/// or older than all.
fn spare(slots: &[Slot], sequence: u16, baseline: Option<usize>) -> Option<usize> {
    if find(slots, sequence).is_some() {
        return None;
    }
    if let Some(free) = slots.iter().position(|slot| !slot.is_applied) {
        return Some(free);
    }
    let age = |at: &usize| sequence.wrapping_sub(slots[*at].table.sequence()) as i16;
    let oldest = (0..slots.len()).filter(|at| Some(*at) != baseline).max_by_key(age)?;
    (age(&oldest) > 0).then_some(oldest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::interpolation::Interpolation;
    use crate::model::{Entity, EntityTable, Kind, PLAYERS_MAX, PlayerState};
    use crate::rng::Rng;
    use crate::session::fignet::coder::{DEFAULT_CODER, Packer};
    use crate::session::fignet::keys::{KEY_BYTES, Key};
    use crate::session::fignet::seal::{ENVELOPE_BYTES, End, NONCE_BYTES, Seal};
    use crate::snapshot::History;
    use crate::snapshot::fignet::{Area, DEFAULT_PRECISION, Encoder, PeerView, Request};
    use crate::time::{Duration, Instant, Tick};
    use crate::wire::fignet::snapshot::MESSAGE_BYTES_MAX;

    const ENTITIES: usize = 40;
    const PLAYERS: [Option<PlayerState>; PLAYERS_MAX] = [None; PLAYERS_MAX];

    /// A room, encoded and sealed, over a link that loses, delays and repeats, opened, applied and shown: whatever arrives is
    /// exactly the room of its tick, and nothing arrives twice.
    #[test]
    fn from_the_room_to_what_is_shown() {
        let mut rng = Rng::new(21);
        let mut table = EntityTable::new(ENTITIES);
        let mut rooms: Vec<(u16, EntityTable)> = Vec::new();
        let mut history = History::new(ENTITIES, 1);
        let mut encoder = Encoder::new(ENTITIES, DEFAULT_PRECISION);
        let (mut peer, mut packer) = (PeerView::new(ENTITIES, 1), Packer::new());
        let key = Key::new([9; KEY_BYTES]);
        let (mut server, mut client) = (Seal::new(&key, End::Server, 5), Seal::new(&key, End::Client, 5));
        let mut received = Received::new(ENTITIES, 2);
        let mut shown = Interpolation::new(ENTITIES, 60, Duration::from_millis(33));
        let mut on_the_way: Vec<(u32, Tick, Vec<u8>)> = Vec::new();
        let (mut applied, mut repeated) = (0, 0);
        for tick in (65_000..67_000u32).step_by(2) {
            for index in table.indices().collect::<Vec<_>>() {
                let entity = table.get_mut(index).unwrap();
                *entity = entity.predicted(2);
                if rng.chance(1, 20) {
                    entity.vx = rng.between(-100, 100) as i16;
                }
                if rng.chance(1, 100) {
                    table.remove(index);
                }
            }
            let (x, y) = (rng.between(0, 100_000), rng.between(0, 60_000));
            table.insert(Entity::new(Kind::BYDOS).moving(x, y, -50, 3));
            history.push(Tick(tick), &PLAYERS, &table);
            rooms.push((tick as u16, table.clone()));
            let timestamp_us = u64::from(tick) * 16_667;
            let request = Request { history: &history, timestamp_us, area: Area::EVERYTHING, focus: None };
            let mut packet = [0; MESSAGE_BYTES_MAX + ENVELOPE_BYTES];
            let message = &mut packet[NONCE_BYTES..NONCE_BYTES + MESSAGE_BYTES_MAX];
            let plain_len = encoder.encode(&request, &mut peer, message);
            let len = packer.pack(DEFAULT_CODER, &mut message[..plain_len]);
            let envelope = &mut packet[..len + ENVELOPE_BYTES];
            server.seal_in_place(&tick.to_le_bytes(), envelope).unwrap();
            if !rng.chance(1, 5) {
                let copies = if rng.chance(1, 8) { 2 } else { 1 };
                for _ in 0..copies {
                    on_the_way.push((tick + 3 + rng.below(9), Tick(tick), envelope.to_vec()));
                }
            }
            on_the_way.sort_by_key(|(due, ..)| *due);
            while on_the_way.first().is_some_and(|(due, ..)| *due <= tick) {
                let (_, sent_at, mut envelope) = on_the_way.remove(0);
                let Ok(message) = client.open_in_place(&sent_at.0.to_le_bytes(), &mut envelope) else {
                    repeated += 1;
                    continue;
                };
                let got = received.apply(message).expect("what was sent can be applied");
                let (_, room) = rooms.iter().rfind(|(sequence, _)| *sequence == got.sequence()).unwrap();
                assert!(got.iter().map(|(id, entity)| (id.index(), entity)).eq(room.iter()));
                shown.push(Instant::from_millis(u64::from(tick) * 17), got);
                assert_eq!(received.apply(message).err(), Some(ReceiveError::Old));
                peer.acknowledged(sent_at);
                applied += 1;
            }
            shown.advance(Instant::from_millis(u64::from(tick) * 17));
            assert!(tick < 65_100 || shown.poses().count() > 0);
        }
        assert!(applied > 700 && repeated > 50, "{applied} applied, {repeated} repeated");
    }

    #[test]
    fn a_delta_without_its_baseline_changes_nothing() {
        let mut received = Received::new(4, 1);
        let full = [5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let delta = [9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 3];
        assert_eq!(received.apply(&full).map(Table::sequence), Ok(5));
        let missing = Err(ReceiveError::Snapshot(SnapshotError::MissingBaseline));
        assert_eq!(received.apply(&delta).map(Table::sequence), missing);
        assert_eq!(received.newest().map(Table::sequence), Some(5));
        received.reset();
        assert!(received.newest().is_none());
    }

    /// As many as may be referred to are kept, and one that is older than all of those is not wanted.
    #[test]
    fn the_oldest_goes_first() {
        let mut received = Received::new(4, 1);
        let full = |sequence: u16| {
            let [low, high] = sequence.to_le_bytes();
            [low, high, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        };
        for sequence in 65_500..=65_535u16 {
            received.apply(&full(sequence)).unwrap();
        }
        for sequence in 0..=40u16 {
            received.apply(&full(sequence)).unwrap();
        }
        assert_eq!(received.newest().map(Table::sequence), Some(40));
        for back in 0..=64 {
            assert!(find(&received.slots, 40u16.wrapping_sub(back)).is_some(), "{back} ticks back");
        }
        assert_eq!(received.apply(&full(65_000)).map(Table::sequence), Err(ReceiveError::Old));
    }
}
