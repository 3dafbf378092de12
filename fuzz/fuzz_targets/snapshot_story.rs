//! A room's story: whatever happens and whatever is lost, the client ends up with exactly the room.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tickwire::model::{Entity, EntityTable, Kind, PLAYERS_MAX};
use tickwire::snapshot::{Encoder, History, Request, View};
use tickwire::time::Tick;
use tickwire::wire::aegis::PAYLOAD_BYTES_MAX;
use tickwire::wire::aegis::snapshot::{SnapshotHeader, Table, decode};

const ENTITIES: usize = 250;
const INTERVAL: u32 = 3;

fuzz_target!(|data: &[u8]| {
    let mut room = EntityTable::new(ENTITIES);
    let mut history = History::new(ENTITIES, INTERVAL);
    let mut encoder = Encoder::new(ENTITIES);
    let mut view = View::new(ENTITIES, INTERVAL);
    let mut tables: Vec<Table> = Vec::new();
    let mut tick = Tick(0);
    // A step in six bytes: what happens to which entity, and whether the snapshot and its acknowledgement arrive. In
    // the end nothing happens any more and everything arrives.
    let calm = [[0u8; 6]; 6];
    let steps = data.chunks_exact(6).take(400).map(|step| (step, false));
    for (step, is_calm) in steps.chain(calm.iter().map(|step| (&step[..], true))) {
        let indices: Vec<u32> = room.indices().collect();
        for index in indices {
            if let Some(entity) = room.get_mut(index) {
                *entity = entity.predicted(INTERVAL);
            }
        }
        let (index, a, b) = (u32::from(step[1]), i32::from(step[2] as i8), i32::from(step[3] as i8));
        match step[0] % 6 {
            _ if is_calm => {}
            0 | 1 => (0..=step[1] % 40).for_each(|number| {
                let place = i32::from(number) * 1000 + a * 100;
                room.insert(Entity::new(Kind(1 + step[4] % 7)).moving(place, b * 400, a as i16, b as i16 * 16));
            }),
            2 => drop(room.remove(index)),
            3 => room.get_mut(index).into_iter().for_each(|entity| entity.vx = (a * 16) as i16),
            4 => room.get_mut(index).into_iter().for_each(|entity| entity.x += a),
            _ => room.get_mut(index).into_iter().for_each(|entity| entity.health = step[2]),
        }
        tick = tick.plus(INTERVAL);
        history.push(tick, &[None; PLAYERS_MAX], &room);
        let mut out = [0; PAYLOAD_BYTES_MAX];
        let request = Request { room: 0, history: &history, input: 0, focus: Some(1) };
        let len = encoder.encode(&request, &mut view, &mut out);
        if !is_calm && step[5] & 1 == 0 {
            continue;
        }
        let header = SnapshotHeader::parse(&out[..len]).expect("a snapshot");
        let baseline = header.baseline_tick().map(|tick| {
            tables.iter().find(|table| table.tick() == tick).expect("the client has what it acknowledged")
        });
        let mut table = Table::new(ENTITIES);
        decode(&out[..len], baseline, &mut table).expect("what is encoded can be decoded");
        tables.push(table);
        if is_calm || step[5] & 2 != 0 {
            view.acknowledged(tick);
        }
    }
    let table = tables.last().expect("the last ones arrived");
    assert!(table.iter().eq(room.iter()), "the client has exactly the room");
});
