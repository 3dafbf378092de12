//! The encoder against the decoder, over links that lose what they like.

use proptest::prelude::*;

use super::encoder::ROOM_BYTES_MIN;
use super::{Area, Encoder, PeerView, Request, Scope, Shared};
use crate::model::{
    Entity, EntityTable, Kind, PLAYERS_MAX, POSITION_MAX, POSITION_MIN, PlayerId, PlayerState, VELOCITY_MAX,
    VELOCITY_MIN,
};
use crate::snapshot::History;
use crate::time::Tick;
use crate::wire::fignet::snapshot::{HEAD_BYTES_MAX, Head, MESSAGE_BYTES_MAX, Precision, Table, decode};

const ENTITIES: usize = 300;
const NOBODY: [Option<PlayerState>; PLAYERS_MAX] = [None; PLAYERS_MAX];

/// One thing that happens to a room.
#[derive(Clone, Debug)]
enum Change {
    Spawn { entity: Entity },
    Remove { index: u32 },
    Turn { index: u32, vx: i16, vy: i16 },
    Jump { index: u32, dx: i32, dy: i32 },
    Hurt { index: u32, health: u8 },
    Score { player: usize, state: Option<PlayerState> },
    Look { area: Area },
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let index = 1..=ENTITIES as u32;
    let velocity = VELOCITY_MIN..=VELOCITY_MAX;
    let position = POSITION_MIN / 4..=POSITION_MAX / 4;
    let place = (position.clone(), position.clone(), velocity.clone(), velocity.clone());
    let look = (1..8u8, 0..5u8, 0..16u8, any::<u8>());
    let spawn = (place, look).prop_map(|((x, y, vx, vy), (kind, owner, variant, health))| {
        let mut entity = Entity::new(Kind(kind))
            .with_owner(PlayerId::new(owner))
            .with_variant(variant)
            .moving(x, y, vx, vy);
        entity.health = health;
        Change::Spawn { entity }
    });
    let state = (any::<bool>(), 0..16u8, any::<u32>());
    let score = (0..PLAYERS_MAX, prop::option::of(state)).prop_map(|(player, state)| {
        let state = state.map(|(alive, lives, score)| PlayerState { alive, lives, score });
        Change::Score { player, state }
    });
    let view = (position.clone(), position, 0..200_000i32, 0..200_000i32);
    let change = prop_oneof![
        4 => spawn,
        1 => index.clone().prop_map(|index| Change::Remove { index }),
        2 => (index.clone(), velocity.clone(), velocity).prop_map(|(index, vx, vy)| Change::Turn { index, vx, vy }),
        1 => (index.clone(), -200..200, -200..200).prop_map(|(index, dx, dy)| Change::Jump { index, dx, dy }),
        1 => (index, any::<u8>()).prop_map(|(index, health)| Change::Hurt { index, health }),
        1 => score,
        1 => view.prop_map(|(x, y, width, height)| Change::Look { area: Area::around(x, y, width, height) }),
    ];
    prop::collection::vec(change, 0..60)
}

/// A room that changes as told, with a peer that hears what it is let hear.
struct Room {
    table: EntityTable,
    players: [Option<PlayerState>; PLAYERS_MAX],
    history: History,
    tick: Tick,
    encoder: Encoder,
    precision: Precision,
    area: Area,
    room_bytes: usize,
    peer: PeerView,
    /// What the peer applied.
    tables: Vec<Table>,
}

impl Room {
    fn new(precision: Precision, room_bytes: usize) -> Self {
        Self {
            table: EntityTable::new(ENTITIES),
            players: NOBODY,
            history: History::new(ENTITIES, 1),
            tick: Tick(65_500),
            encoder: Encoder::new(ENTITIES, precision),
            precision,
            area: Area::around(0, 0, 1920 * 64, 1080 * 64),
            room_bytes,
            peer: PeerView::new(ENTITIES, 1),
            tables: Vec::new(),
        }
    }

    fn step(&mut self, changes: &[Change]) {
        for index in self.table.indices().collect::<Vec<_>>() {
            let entity = self.table.get_mut(index).expect("a living index");
            *entity = entity.predicted(1);
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
                Change::Score { player, state } => self.players[player] = state,
                Change::Look { area } => self.area = area,
            }
        }
        self.tick = self.tick.plus(1);
        self.history.push(self.tick, &self.players, &self.table);
    }

    /// Sends a snapshot; the peer applies it if it arrives, and is heard if its acknowledgement does.
    fn send(&mut self, arrives: bool, is_acked: bool) -> Vec<u8> {
        let mut out = [0; MESSAGE_BYTES_MAX];
        let request = Request {
            history: &self.history,
            timestamp_us: u64::from(self.tick.0) * 16_667,
            area: self.area,
            focus: self.table.next_live(1),
        };
        let len = self.encoder.encode(&request, &mut self.peer, &mut out[..self.room_bytes]);
        let bytes = out[..len].to_vec();
        if arrives {
            let head = Head::parse(&bytes).expect("a snapshot");
            let baseline = head.baseline().map(|sequence| {
                let found = self.tables.iter().rfind(|table| table.sequence() == sequence);
                found.expect("the peer has what it acknowledged")
            });
            let mut table = Table::new(ENTITIES);
            decode(&bytes, baseline, &mut table).expect("what is encoded can be decoded");
            self.tables.push(table);
            if is_acked {
                self.peer.acknowledged(self.tick);
            }
        }
        bytes
    }

    /// Whether the peer shows exactly what is in its area.
    fn is_exact(&self) -> bool {
        let Some(table) = self.tables.last() else { return false };
        let seen = self.table.iter().filter(|(_, entity)| self.area.contains(entity));
        let expected = seen.map(|(index, entity)| (index, self.precision.told(entity)));
        let shown = table.indices().iter().copied().zip(table.entities().iter().copied());
        table.sequence() == self.tick.0 as u16 && shown.eq(expected) && table.players() == &self.players
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Every message fits and decodes, and once the peer has heard a few with nothing more happening, it shows
    /// exactly what is in its view.
    #[test]
    fn peers_follow_whatever_is_lost(
        story in prop::collection::vec((changes(), any::<bool>(), any::<bool>()), 1..40),
        coarse in any::<bool>(), room_bytes in ROOM_BYTES_MIN..=MESSAGE_BYTES_MAX,
    ) {
        let precision = if coarse { Precision::Coarse } else { Precision::Exact };
        let mut room = Room::new(precision, room_bytes);
        for (changes, arrives, is_acked) in &story {
            room.step(changes);
            let bytes = room.send(*arrives, *is_acked);
            prop_assert!(bytes.len() <= room_bytes);
        }
        // 300 entities of up to 18 bytes, at 192 bytes of them in a message, and who comes in meanwhile.
        let mut rounds = 0;
        while rounds < 60 && !room.is_exact() {
            room.step(&[]);
            room.send(true, true);
            rounds += 1;
        }
        prop_assert!(room.is_exact(), "after {rounds} more messages");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// What is kept for a scope is to the byte what each peer of that scope would be told alone.
    #[test]
    fn peers_of_a_scope_are_told_the_same(
        story in prop::collection::vec((changes(), any::<[bool; 4]>(), any::<bool>()), 1..40),
        room_bytes in ROOM_BYTES_MIN..=MESSAGE_BYTES_MAX,
    ) {
        let mut room = Room::new(Precision::Exact, room_bytes);
        let mut shared = Shared::new();
        let mut peers: [PeerView; 4] = std::array::from_fn(|_| PeerView::new(ENTITIES, 1));
        let everywhere = Area::EVERYTHING;
        for (changes, acks, is_near) in &story {
            room.step(changes);
            for (number, (peer, is_acked)) in peers.iter_mut().zip(acks).enumerate() {
                let request = Request {
                    history: &room.history,
                    timestamp_us: 5,
                    area: if *is_near || number < 2 { room.area } else { everywhere },
                    focus: room.table.next_live(1 + number as u32),
                };
                let mut out = [0; MESSAGE_BYTES_MAX];
                let scope = Scope::of(&request, peer);
                let len = room.encoder.encode(&request, peer, &mut out[..room_bytes]);
                if let Some(scope) = scope {
                    if let Some(kept) = shared.find(7, &scope) {
                        prop_assert_eq!(shared.message(kept), &out[..len]);
                        prop_assert!(peer.is_exact(room.tick));
                    } else if peer.is_exact(room.tick) {
                        shared.keep(7, scope, &out[..len]);
                        prop_assert_eq!(shared.find(7, &scope).map(|at| shared.message(at)), Some(&out[..len]));
                    }
                    prop_assert_eq!(shared.find(8, &scope), None, "another room's");
                }
                if *is_acked {
                    peer.acknowledged(room.tick);
                }
            }
        }
    }
}

/// Entities in straight flight cost nothing, however many there are and however old the baseline is.
#[test]
fn straight_flight_costs_no_bytes() {
    for age in [1, 3, 12, 64] {
        let mut room = Room::new(Precision::Exact, MESSAGE_BYTES_MAX);
        let spawns: Vec<Change> = (0..50)
            .map(|number| Change::Spawn {
                entity: Entity::new(Kind::BYDOS).moving(number * 100, number * 50, 192, number as i16),
            })
            .collect();
        room.step(&spawns);
        room.send(true, true);
        (0..age).for_each(|_| room.step(&[]));
        assert_eq!(room.send(true, true).len(), HEAD_BYTES_MAX, "at age {age}");
        assert!(room.is_exact());
    }
}

/// Who leaves the view is removed, though alive, and told whole when it comes back.
#[test]
fn what_leaves_the_view_is_removed_and_comes_back_whole() {
    let mut room = Room::new(Precision::Coarse, MESSAGE_BYTES_MAX);
    let entity = Entity::new(Kind::BYDOS).moving(-255 * 64, 1000, -40, 3);
    room.step(&[Change::Spawn { entity }]);
    room.send(true, true);
    assert_eq!(room.tables.last().map(Table::len), Some(1));
    room.step(&[]);
    assert_eq!(room.send(true, true).len(), HEAD_BYTES_MAX, "still inside");
    room.step(&[]);
    let removal = room.send(true, true);
    assert_eq!(removal[HEAD_BYTES_MAX..], [1, 0, 0, 0, 0, 0]);
    assert!(room.tables.last().is_some_and(Table::is_empty));
    assert_eq!(room.table.len(), 1, "it lives on");
    room.step(&[Change::Turn { index: 1, vx: 2000, vy: 0 }]);
    assert_eq!(room.send(true, true).len(), HEAD_BYTES_MAX);
    room.step(&[]);
    let back = room.send(true, true);
    assert_eq!(back[HEAD_BYTES_MAX + 5] & 0x80, 0x80, "told whole");
    assert!(room.is_exact());
}

/// A baseline older than 64 ticks is not used, nor one that was never acknowledged.
#[test]
fn too_old_a_baseline_gives_a_full_snapshot() {
    for (age, is_full) in [(1, false), (64, false), (65, true), (300, true)] {
        let mut room = Room::new(Precision::Exact, MESSAGE_BYTES_MAX);
        room.step(&[Change::Spawn { entity: Entity::new(Kind::TILE) }]);
        room.send(true, true);
        (0..age).for_each(|_| room.step(&[]));
        let head = Head::parse(&room.send(true, false)).unwrap();
        assert_eq!(head.baseline_age.is_none(), is_full, "{age} ticks");
        assert!(room.is_exact());
    }
    let mut room = Room::new(Precision::Exact, MESSAGE_BYTES_MAX);
    for _ in 0..3 {
        room.step(&[]);
        assert_eq!(Head::parse(&room.send(true, false)).unwrap().baseline_age, None);
    }
}

/// With room for a few entities only, all of a crowd that turns all the time gets its turn, and the own ship always.
#[test]
fn nobody_starves() {
    let mut room = Room::new(Precision::Exact, ROOM_BYTES_MIN);
    let spawns: Vec<Change> = (0..200)
        .map(|number| Change::Spawn {
            entity: Entity::new(Kind::BYDOS).moving(number * 500, number * 300, 0, 0),
        })
        .collect();
    room.step(&spawns);
    room.send(true, true);
    let mut told_at = [room.tick; 201];
    for round in 0..200 {
        let turns: Vec<Change> =
            (1..=200).map(|index| Change::Turn { index, vx: round % 7 - 3, vy: 0 }).collect();
        room.step(&turns);
        room.send(true, true);
        let table = room.tables.last().unwrap();
        assert_eq!(table.get(1), room.table.get(1), "the own ship");
        for (index, told) in (0..).zip(&mut told_at).skip(1) {
            if table.get(index) == room.table.get(index) {
                *told = room.tick;
            }
        }
        let longest = told_at[1..].iter().map(|told| room.tick.since(*told)).max();
        assert!(longest < Some(120), "somebody waited {longest:?} ticks");
    }
}
