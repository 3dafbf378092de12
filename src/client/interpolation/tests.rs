use super::*;
use crate::wire::cursor::Writer;
use crate::wire::fignet::snapshot::{Coder, Head, MESSAGE_BYTES_MAX, Precision, decode, put_head, put_whole};

/// Ticks of 1/60 s.
const TICK_US: u64 = 16_667;
/// Three ticks: 20 per second.
const INTERVAL: u64 = 3;

/// A decoded snapshot of `tick`.
fn snapshot(tick: u64, entities: &[(u32, Entity)]) -> Table {
    let mut bytes = [0; MESSAGE_BYTES_MAX];
    let mut writer = Writer::new(&mut bytes);
    let head = Head {
        sequence: tick as u16,
        timestamp_us: tick * TICK_US,
        count: entities.len() as u16,
        coder: Coder::Plain,
        precision: Precision::Exact,
        baseline_age: None,
    };
    put_head(&mut writer, &head);
    for (index, entity) in entities {
        put_whole(&mut writer, Precision::Exact, *index, entity);
    }
    let len = writer.finish().unwrap();
    let mut table = Table::new(16);
    decode(&bytes[..len], None, &mut table).unwrap();
    table
}

fn flyer(x: i32, y: i32, vx: i16, vy: i16) -> Entity {
    Entity::new(Kind::BYDOS).moving(x, y, vx, vy)
}

/// When the snapshot of `tick` arrives: 30 ms later.
fn arrival(tick: u64) -> Instant {
    Instant::from_nanos((tick * TICK_US + 30_000) * 1000)
}

fn buffer() -> Interpolation {
    Interpolation::new(16, 60, Duration::from_micros(INTERVAL * TICK_US))
}

/// Shows the server's time `time_us`, which lies behind the newest snapshot by the delay.
fn show(buffer: &mut Interpolation, time_us: u64) {
    let delay_us = buffer.playout().delay().as_micros();
    buffer.advance(Instant::from_nanos((time_us + delay_us + 30_000) * 1000));
    assert_eq!(buffer.playout().shown_us(), time_us as i64);
}

fn pose(buffer: &Interpolation, index: u32) -> Option<(f32, f32)> {
    buffer.poses().find(|pose| pose.id.index() == index).map(|pose| (pose.x, pose.y))
}

#[test]
fn at_the_snapshots_times_their_positions_are_exact() {
    let mut buffer = buffer();
    let places = [(0, 0), (7000, -300), (9001, 44), (3333, 3333)];
    for (number, (x, y)) in (0..).zip(places) {
        assert_eq!(
            buffer.push(arrival(number * 3), &snapshot(number * 3, &[(5, flyer(x, y, 900, -77))])),
            Pushed::Taken
        );
    }
    for (number, (x, y)) in (0..).zip(places) {
        show(&mut buffer, number * 3 * TICK_US);
        assert_eq!(pose(&buffer, 5), Some((x as f32 / 64.0, y as f32 / 64.0)));
    }
}

#[test]
fn straight_flight_is_straight() {
    let mut buffer = buffer();
    let at = |tick: i32| flyer(1000 + 192 * tick, 2000 - 64 * tick, 192, -64);
    for tick in [0, 3, 6, 9] {
        buffer.push(arrival(tick), &snapshot(tick, &[(1, at(tick as i32))]));
    }
    for time_us in (0..9 * TICK_US).step_by(777) {
        show(&mut buffer, time_us);
        let ticks = time_us as f32 / TICK_US as f32;
        let (x, y) = pose(&buffer, 1).unwrap();
        // Less than a hundredth of a pixel: the time stamps are rounded to the µs.
        assert!((x - (1000.0 + 192.0 * ticks) / 64.0).abs() < 0.01, "{x} after {ticks} ticks");
        assert!((y - (2000.0 - 64.0 * ticks) / 64.0).abs() < 0.01, "{y} after {ticks} ticks");
    }
}

/// A turn is a smooth curve: it leaves and arrives with the velocities told.
#[test]
fn a_turn_keeps_both_velocities() {
    let mut buffer = buffer();
    buffer.push(arrival(0), &snapshot(0, &[(1, flyer(0, 0, 128, 0))]));
    buffer.push(arrival(3), &snapshot(3, &[(1, flyer(192, 192, 0, 128))]));
    let mut at = |time_us: u64| {
        show(&mut buffer, time_us);
        pose(&buffer, 1).unwrap()
    };
    let step = 100;
    let speed = |a: f32, b: f32| (b - a) * TICK_US as f32 / step as f32;
    let (start, after) = (at(0), at(step));
    assert!((speed(start.0, after.0) - 2.0).abs() < 0.1 && speed(start.1, after.1).abs() < 0.1);
    let (before, end) = (at(3 * TICK_US - step), at(3 * TICK_US));
    assert!(speed(before.0, end.0).abs() < 0.1 && (speed(before.1, end.1) - 2.0).abs() < 0.1);
    assert_eq!(end, (3.0, 3.0));
}

#[test]
fn who_appears_is_shown_from_then_and_who_goes_until_then() {
    let mut buffer = buffer();
    let goes = flyer(0, 0, 64, 0);
    let mut next_use = flyer(6400, 0, 0, 0);
    next_use.generation = 1;
    buffer.push(arrival(0), &snapshot(0, &[(1, goes), (2, goes)]));
    buffer.push(arrival(3), &snapshot(3, &[(2, next_use), (3, flyer(640, 640, 0, 0))]));
    show(&mut buffer, 3 * TICK_US / 2);
    let (x, _) = pose(&buffer, 1).unwrap();
    assert!((x - 1.5).abs() < 0.01, "it flies on to {x}");
    assert_eq!(
        pose(&buffer, 2).map(|(x, _)| x < 3.0),
        Some(true),
        "the old one, not on its way to the new one"
    );
    assert_eq!(pose(&buffer, 3), None);
    show(&mut buffer, 3 * TICK_US);
    assert_eq!(pose(&buffer, 1), None);
    assert_eq!(pose(&buffer, 2), Some((100.0, 0.0)));
    assert_eq!(pose(&buffer, 3), Some((10.0, 10.0)));
}

#[test]
fn a_jump_is_not_drawn_out() {
    let mut buffer = buffer();
    buffer.push(arrival(0), &snapshot(0, &[(1, flyer(0, 0, 0, 0)), (2, flyer(0, 0, 0, 0))]));
    buffer.push(arrival(3), &snapshot(3, &[(1, flyer(64 * 97, 0, 0, 0)), (2, flyer(64 * 95, 0, 0, 0))]));
    show(&mut buffer, 3 * TICK_US - 1);
    assert_eq!(pose(&buffer, 1), Some((0.0, 0.0)), "a jump");
    assert!(pose(&buffer, 2).unwrap().0 > 94.0, "a fast move");
    show(&mut buffer, 3 * TICK_US);
    assert_eq!(pose(&buffer, 1), Some((97.0, 0.0)));
}

/// Nothing new: everyone flies on for a tenth of a second, and then waits. What comes after a gap is shown in its time.
#[test]
fn a_gap_is_bridged_and_then_stands_still() {
    let mut buffer = buffer();
    for tick in [0, 3] {
        buffer.push(arrival(tick), &snapshot(tick, &[(1, flyer(tick as i32 * 64, 0, 64, 0))]));
    }
    show(&mut buffer, 6 * TICK_US);
    assert!((pose(&buffer, 1).unwrap().0 - 6.0).abs() < 0.01);
    show(&mut buffer, 9 * TICK_US);
    let stopped = pose(&buffer, 1).unwrap().0;
    assert!((stopped - 9.0).abs() < 0.01);
    show(&mut buffer, 40 * TICK_US);
    assert!((pose(&buffer, 1).unwrap().0 - 9.0).abs() < 0.01, "it waits");
    buffer.push(arrival(60), &snapshot(60, &[(1, flyer(60 * 64, 0, 64, 0))]));
    buffer.advance(arrival(80));
    assert!(pose(&buffer, 1).is_some());
    buffer.advance(arrival(200));
    assert!((pose(&buffer, 1).unwrap().0 - 66.0).abs() < 0.01, "a tenth of a second beyond the newest");
}

/// At every rate from 10 to 60 per second: 2 to 5 snapshots are held, and there always is a next one to go to.
#[test]
fn at_every_rate_the_buffer_spans_the_delay() {
    for interval in 1..=6u64 {
        let mut buffer = Interpolation::new(16, 60, Duration::from_micros(interval * TICK_US));
        let mut last_x = f32::MIN;
        for tick in 0..600 {
            if tick % interval == 0 {
                let entity = flyer(tick as i32 * 64, 0, 64, 0);
                buffer.push(arrival(tick), &snapshot(tick, &[(1, entity)]));
            }
            buffer.advance(arrival(tick));
            if tick < 60 {
                continue;
            }
            assert!((2..=SLOTS).contains(&buffer.len()), "{} held at {interval}", buffer.len());
            let newest = buffer.held[buffer.len - 1].timestamp_us as i64;
            assert!(newest > buffer.playout().shown_us(), "nothing to go to at interval {interval}");
            let (x, _) = pose(&buffer, 1).expect("it is shown all the time");
            assert!(x > last_x && x - last_x < 2.0 || last_x == f32::MIN, "from {last_x} to {x}");
            last_x = x;
        }
    }
}

#[test]
fn late_ones_are_dropped_and_early_ones_do_not_push_out_what_is_shown() {
    let mut buffer = buffer();
    let one = |tick: u64| snapshot(tick, &[(1, flyer(tick as i32 * 64, 0, 64, 0))]);
    buffer.push(arrival(0), &one(0));
    assert_eq!(buffer.push(arrival(1), &one(1)), Pushed::Skipped);
    for tick in [3, 6, 9] {
        assert_eq!(buffer.push(arrival(tick), &one(tick)), Pushed::Taken);
    }
    assert_eq!(buffer.push(arrival(9), &one(6)), Pushed::Late);
    buffer.advance(arrival(10));
    // A burst from the future: the buffer is full, and the newest places are taken by it.
    for tick in [12, 15, 18, 21] {
        assert_eq!(buffer.push(arrival(10), &one(tick)), Pushed::Taken);
    }
    assert_eq!(buffer.len(), SLOTS);
    assert_eq!(pose(&buffer, 1).map(|(x, _)| x < 3.0), Some(true), "still shown where it was");
    assert_eq!(buffer.held[SLOTS - 1].timestamp_us, 21 * TICK_US);
}

#[test]
fn before_anything_there_is_nobody() {
    let mut buffer = buffer();
    buffer.advance(Instant::from_millis(5));
    assert_eq!(buffer.poses().count(), 0);
    buffer.push(arrival(3), &snapshot(3, &[(1, flyer(0, 0, 0, 0))]));
    buffer.advance(arrival(3));
    assert_eq!(buffer.poses().count(), 0, "its time is still to come");
    assert!(!buffer.is_empty());
}
