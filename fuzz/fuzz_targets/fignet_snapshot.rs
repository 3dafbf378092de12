//! Any bytes as a snapshot message of FigNet, coded in any way: no panic, and only legal values come out.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tickwire::model::{Entity, Kind};
use tickwire::session::fignet::coder::{SCRATCH_BYTES, unpack};
use tickwire::wire::cursor::Writer;
use tickwire::wire::fignet::snapshot::{
    Coder, Head, MESSAGE_BYTES_MAX, POSITION_MAX, POSITION_MIN, Precision, Table, decode, put_head, put_whole,
};

const ENTITIES: usize = 64;

fuzz_target!(|data: &[u8]| {
    let mut scratch = [0; SCRATCH_BYTES];
    let Ok(plain) = unpack(data, &mut scratch) else { return };
    assert!(plain.len() <= MESSAGE_BYTES_MAX);
    let head = Head::parse(plain).expect("what was unpacked has a head");
    let mut table = Table::new(ENTITIES);
    // A baseline of the very sequence that the message asks for.
    let baseline = baseline(head.baseline().unwrap_or(0));
    for base in [None, Some(&baseline)] {
        if decode(plain, base, &mut table).is_err() {
            continue;
        }
        assert_eq!((table.sequence(), table.timestamp_us()), (head.sequence, head.timestamp_us));
        assert!(table.indices().is_sorted_by(|a, b| a < b));
        for (id, entity) in table.iter() {
            assert!(id.index() > 0 && entity.kind.0 > 0 && entity.kind.0 < 128);
            assert!((POSITION_MIN..=POSITION_MAX).contains(&entity.x));
            assert!((POSITION_MIN..=POSITION_MAX).contains(&entity.y));
        }
    }
});

/// A few entities at `sequence`.
fn baseline(sequence: u16) -> Table {
    let mut bytes = [0; MESSAGE_BYTES_MAX];
    let mut writer = Writer::new(&mut bytes);
    let precision = Precision::Exact;
    let head =
        Head { sequence, timestamp_us: 0, count: 5, coder: Coder::Plain, precision, baseline_age: None };
    put_head(&mut writer, &head);
    for index in 1..=5 {
        let at = index as i32 * 1000;
        let entity = Entity::new(Kind(1 + index as u8 % 4)).moving(at, at, -(at as i16) / 8, 3);
        put_whole(&mut writer, precision, index, &entity);
    }
    let len = writer.finish().expect("room for five");
    let mut table = Table::new(ENTITIES);
    decode(&bytes[..len], None, &mut table).expect("a full snapshot");
    table
}
