//! Any bytes as a snapshot: no panic, and only legal values come out.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tickwire::model::{ENTITY_INDEX_MAX, POSITION_MAX, POSITION_MIN, VELOCITY_MAX, VELOCITY_MIN};
use tickwire::wire::aegis::snapshot::{SnapshotHeader, Table, decode};

/// A full snapshot in hexadecimal, from an independent encoder: tick 600, five entities.
const FULL: &str = "58020000290084032aca2b15000400580280250000001000004402580280570010801f6010e800001e004b00f400\
                    2000040c002003802500400010904c00f003fcff000e01fc00f00f";

fuzz_target!(|data: &[u8]| {
    let full: Vec<u8> = (0..FULL.len() / 2)
        .filter_map(|at| u8::from_str_radix(&FULL[2 * at..2 * at + 2], 16).ok())
        .collect();
    let mut baseline = Table::new(64);
    decode(&full, None, &mut baseline).expect("a full snapshot");
    let mut table = Table::new(64);
    for base in [None, Some(&baseline)] {
        if decode(data, base, &mut table).is_err() {
            continue;
        }
        assert_eq!(SnapshotHeader::parse(data).map(|header| header.tick), Ok(table.tick()));
        for (index, entity) in table.iter() {
            assert!(index > 0 && index <= ENTITY_INDEX_MAX);
            assert!((POSITION_MIN..=POSITION_MAX).contains(&entity.x));
            assert!((POSITION_MIN..=POSITION_MAX).contains(&entity.y));
            assert!((VELOCITY_MIN..=VELOCITY_MAX).contains(&entity.vx));
            assert!((VELOCITY_MIN..=VELOCITY_MAX).contains(&entity.vy));
        }
    }
});
