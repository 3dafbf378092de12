//! The encoder against the decoder: whatever is encoded is decoded to the same, and encoded again to the same bits.

use proptest::prelude::*;

use super::{Encoder, History, Request, View};
use crate::model::{
    Entity, EntityTable, Kind, PLAYERS_MAX, POSITION_MAX, POSITION_MIN, PlayerId, PlayerState, VELOCITY_MAX,
    VELOCITY_MIN,
};
use crate::time::Tick;
use crate::wire::aegis::PAYLOAD_BYTES_MAX;
use crate::wire::aegis::snapshot::{PREFIX_BYTES, SnapshotHeader, Table, decode};

const ENTITIES: usize = 300;
const INTERVAL: u32 = 3;
const NOBODY: [Option<PlayerState>; PLAYERS_MAX] = [None; PLAYERS_MAX];

/// One thing that happens to a room.
#[derive(Clone, Debug)]
enum Change {
    Spawn { entity: Entity },
    Remove { index: u32 },
    Turn { index: u32, vx: i16, vy: i16 },
    Jump { index: u32, dx: i32, dy: i32 },
    Hurt { index: u32, health: u8 },
    Score { player: usize, state: PlayerState },
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let index = 1..=ENTITIES as u32;
    let velocity = VELOCITY_MIN..=VELOCITY_MAX;
    let entity =
        (POSITION_MIN..=POSITION_MAX, POSITION_MIN..=POSITION_MAX, velocity.clone(), velocity.clone());
    let look = (1..8u8, 0..5u8, 0..16u8, any::<u8>());
    let spawn = (entity, look).prop_map(|((x, y, vx, vy), (kind, owner, variant, health))| {
        let mut entity = Entity::new(Kind(kind))
            .with_owner(PlayerId::new(owner))
            .with_variant(variant)
            .moving(x, y, vx, vy);
        entity.health = health;
        Change::Spawn { entity }
    });
    let change = prop_oneof![
        3 => spawn,
        1 => index.clone().prop_map(|index| Change::Remove { index }),
        2 => (index.clone(), velocity.clone(), velocity).prop_map(|(index, vx, vy)| Change::Turn { index, vx, vy }),
        1 => (index.clone(), -200..200, -200..200).prop_map(|(index, dx, dy)| Change::Jump { index, dx, dy }),
        1 => (index, any::<u8>()).prop_map(|(index, health)| Change::Hurt { index, health }),
        1 => (0..PLAYERS_MAX, any::<bool>(), 0..16u8, any::<u32>()).prop_map(|(player, alive, lives, score)| {
            Change::Score { player, state: PlayerState { alive, lives, score } }
        }),
    ];
    prop::collection::vec(change, 0..40)
}

/// A room that changes as told, with a client that hears what it is let hear.
struct Room {
    table: EntityTable,
    players: [Option<PlayerState>; PLAYERS_MAX],
    history: History,
    tick: Tick,
    encoder: Encoder,
    view: View,
    /// What the client applied.
    tables: Vec<Table>,
}

impl Room {
    fn new() -> Self {
        Self {
            table: EntityTable::new(ENTITIES),
            players: NOBODY,
            history: History::new(ENTITIES, INTERVAL),
            tick: Tick(0),
            encoder: Encoder::new(ENTITIES),
            view: View::new(ENTITIES, INTERVAL),
            tables: Vec::new(),
        }
    }

    fn step(&mut self, changes: &[Change]) {
        for index in self.table.indices().collect::<Vec<_>>() {
            let entity = self.table.get_mut(index).expect("a living index");
            *entity = entity.predicted(INTERVAL);
        }
        for change in changes {
            match *change {
                Change::Spawn { entity } => {
                    self.table.insert(entity);
                }
                Change::Remove { index } => {
                    self.table.remove(index);
                }
                Change::Turn { index, vx, vy } => {
                    if let Some(entity) = self.table.get_mut(index) {
                        (entity.vx, entity.vy) = (vx, vy);
                    }
                }
                Change::Jump { index, dx, dy } => {
                    if let Some(entity) = self.table.get_mut(index) {
                        entity.x = (entity.x + dx).clamp(POSITION_MIN, POSITION_MAX);
                        entity.y = (entity.y + dy).clamp(POSITION_MIN, POSITION_MAX);
                    }
                }
                Change::Hurt { index, health } => {
                    if let Some(entity) = self.table.get_mut(index) {
                        entity.health = health;
                    }
                }
                Change::Score { player, state } => self.players[player] = Some(state),
            }
        }
        self.tick = self.tick.plus(INTERVAL);
        self.history.push(self.tick, &self.players, &self.table);
    }

    fn encode(&mut self) -> Vec<u8> {
        let mut out = [0; PAYLOAD_BYTES_MAX];
        let request = Request { room: 0, history: &self.history, input: 7, focus: self.table.next_live(1) };
        let len = self.encoder.encode(&request, &mut self.view, &mut out);
        out[..len].to_vec()
    }

    /// Sends a snapshot; the client applies it if it arrives, and is heard if its acknowledgement does.
    fn send(&mut self, arrives: bool, is_acked: bool) -> Vec<u8> {
        let bytes = self.encode();
        if arrives {
            let header = SnapshotHeader::parse(&bytes).expect("a snapshot");
            let baseline = header.baseline_tick().map(|tick| {
                self.tables
                    .iter()
                    .find(|table| table.tick() == tick)
                    .expect("the client has what it acknowledged")
            });
            let mut table = Table::new(ENTITIES);
            decode(&bytes, baseline, &mut table).expect("what is encoded can be decoded");
            self.tables.push(table);
            if is_acked {
                self.view.acknowledged(self.tick);
            }
        }
        bytes
    }

    fn is_exact(&self) -> bool {
        let Some(table) = self.tables.last() else { return false };
        table.tick() == self.tick.0 && table.iter().eq(self.table.iter()) && table.players() == &self.players
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Over a link that loses snapshots and acknowledgements: every snapshot fits, decodes, and, once the client has
    /// heard a few with nothing more happening, shows exactly the room.
    #[test]
    fn clients_follow_whatever_is_lost(
        story in prop::collection::vec((changes(), any::<bool>(), any::<bool>()), 1..40),
    ) {
        let mut room = Room::new();
        for (changes, arrives, is_acked) in &story {
            room.step(changes);
            let bytes = room.send(*arrives, *is_acked);
            prop_assert!(bytes.len() <= PAYLOAD_BYTES_MAX);
        }
        // 300 entities of 13 bytes take four datagrams, and one more settles what the last left stale.
        for _ in 0..6 {
            room.step(&[]);
            room.send(true, true);
        }
        prop_assert!(room.is_exact());
    }

    /// The same room and baseline give the same bits, whether shared, cached or made for one client alone.
    #[test]
    fn one_encoding_per_value(before in changes(), after in changes()) {
        let mut room = Room::new();
        room.step(&before);
        room.send(true, true);
        room.step(&after);
        let first = room.encode();
        let cached = room.encode();
        let mut alone = Encoder::new(ENTITIES);
        std::mem::swap(&mut room.encoder, &mut alone);
        let again = room.encode();
        prop_assert_eq!(&first, &cached);
        prop_assert_eq!(&first, &again);
    }
}

/// Entities in straight flight cost nothing, however many there are and however old the baseline is.
#[test]
fn straight_flight_costs_no_bits() {
    for age in 1..=21 {
        let mut lengths = Vec::new();
        for entities in [0, 1, 100] {
            let mut room = Room::new();
            let flyer = |number: i32| {
                Entity::new(Kind::BYDOS).moving(number * 100, -number * 50, 192, -number as i16)
            };
            let spawns: Vec<Change> =
                (0..entities).map(|number| Change::Spawn { entity: flyer(number) }).collect();
            room.step(&spawns[..spawns.len().min(80)]);
            room.send(true, true);
            room.step(&spawns[spawns.len().min(80)..]);
            room.send(true, true);
            for _ in 0..age {
                room.step(&[]);
            }
            lengths.push(room.send(true, true).len());
            assert!(room.is_exact());
        }
        // A flag and the age, no players, no records: 1 + 4 to 8 + 3 + 4 bits.
        assert!(lengths.iter().all(|&len| len == lengths[0]), "{lengths:?} at age {age}");
        assert!(lengths[0] <= PREFIX_BYTES + 2, "{lengths:?} at age {age}");
    }
}

/// A baseline older than 64 ticks, or from before the tick wrapped, is not used.
#[test]
fn too_old_a_baseline_gives_a_full_snapshot() {
    for (start, steps, is_full) in [(0, 21, false), (0, 22, true), (u32::MAX - 5, 2, true)] {
        let mut room = Room::new();
        room.tick = Tick(start);
        room.step(&[Change::Spawn { entity: Entity::new(Kind::TILE) }]);
        room.send(true, true);
        (0..steps).for_each(|_| room.step(&[]));
        let header = SnapshotHeader::parse(&room.encode()).expect("a snapshot");
        assert_eq!(header.baseline_age.is_none(), is_full, "{steps} steps from {start}");
    }
}
