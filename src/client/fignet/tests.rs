use super::tables::Taken;
use super::*;
use crate::model::Kind;
use crate::session::fignet::DEFAULT_CONFIG;
use crate::wire::cursor::Writer;
use crate::wire::fignet::snapshot::{Coder, Head, Precision, put_head, put_whole};

fn message(sequence: u16, baseline_age: Option<u8>, index: u32) -> Vec<u8> {
    let mut bytes = [0; 200];
    let mut writer = Writer::new(&mut bytes);
    let (coder, precision) = (Coder::Plain, Precision::Exact);
    put_head(&mut writer, &Head { sequence, timestamp_us: 1, count: 1, coder, precision, baseline_age });
    put_whole(&mut writer, precision, index, &Entity::new(Kind::BYDOS).moving(64, 64, 1, 1));
    let len = writer.finish().unwrap();
    bytes[..len].to_vec()
}

/// What is late is kept for others to build on, what is here or too old is dropped, and a malformed one takes nobody's
/// place.
#[test]
fn snapshots_build_on_what_is_here() {
    let mut tables = Tables::new(3, 16);
    assert_eq!(tables.take(&message(10, Some(1), 1)), None, "builds on nothing");
    let full = Taken { is_delta: false, is_late: false };
    assert_eq!(tables.take(&message(10, None, 1)), Some(full));
    assert_eq!(tables.take(&message(10, None, 1)), None, "seen before");
    assert_eq!(tables.take(&message(16, Some(6), 2)), Some(Taken { is_delta: true, is_late: false }));
    assert_eq!(tables.newest().map(Table::len), Some(2));
    assert_eq!(tables.take(&message(13, Some(3), 3)), Some(Taken { is_delta: true, is_late: true }));
    assert_eq!(tables.newest().map(Table::sequence), Some(16));
    assert_eq!(tables.last().map(Table::sequence), Some(13));
    assert_eq!(tables.take(&message(9, None, 1)), None, "older than everything kept");
    let mut cut = message(20, Some(4), 4);
    cut.pop();
    assert_eq!(tables.take(&cut), None);
    assert_eq!(tables.newest().map(Table::sequence), Some(16), "the newest is still there");
    assert_eq!(tables.take(&message(22, Some(6), 4)), Some(Taken { is_delta: true, is_late: false }));
    assert_eq!(tables.newest().map(Table::len), Some(3));
}

#[test]
fn nobody_answers() {
    let settings = Settings { config: DEFAULT_CONFIG, entities_max: 16, snapshots_kept: 3 };
    let mut now = Instant::from_millis(1000);
    let mut client = Client::new(now, &settings, 7, None);
    let mut buffer = [0; MTU_MAX];
    let mut sent = 0;
    while !client.is_over() {
        while client.transmit(now, &mut buffer).is_some() {
            sent += 1;
        }
        now = now + Duration::from_millis(10);
    }
    assert_eq!(client.phase(), Phase::Over(Over::Failed(ErrorCode::Timeout)));
    assert!((4..20).contains(&sent), "{sent} CONNECTs");
    assert!(now <= Instant::from_millis(6100));
    assert_eq!(client.say("hello"), Err(SendError::NotConnected));
}
