use proptest::prelude::*;

use super::*;

fn player(slot: u8) -> PlayerId {
    PlayerId::new(slot).unwrap()
}

fn emitted(event: &Event) -> Vec<u8> {
    let mut out = [0xEE; CONTENT_BYTES_MAX];
    let len = event.emit(&mut out);
    out[..len].to_vec()
}

/// One event of every type.
fn examples() -> [Event; 6] {
    let score = |slot| Some(Score { player: player(slot), score: 7_000_000 });
    [
        Event::Spawn {
            tick: 1,
            id: EntityId::new(9, 4),
            kind: Kind::BYDOS,
            owner: Some(player(3)),
            x: 1.5,
            y: -2.0,
            vx: 60.0,
            vy: 0.0,
        },
        Event::Destroy { tick: 2, id: EntityId::new(9, 4), reason: DestroyReason::Reset, x: 1.0, y: 2.0 },
        Event::Death { tick: 3, player: player(1), lives: 2, x: 0.0, y: 0.0 },
        Event::PlayerJoined { tick: 4, player: player(0), name: Name::new("Zoé!".as_bytes()).unwrap() },
        Event::PlayerLeft { tick: 5, player: player(2), reason: LeaveReason::Kicked },
        Event::GameOver { tick: 6, scores: [score(0), score(2), score(3), None] },
    ]
}

fn list(events: &[(u16, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![events.len() as u8];
    for (id, content) in events {
        bytes.extend(id.to_le_bytes());
        bytes.extend((content.len() as u16).to_le_bytes());
        bytes.extend(*content);
    }
    bytes
}

#[test]
fn a_count_of_0_is_malformed() {
    assert_eq!(EventList::parse(&[0]).err(), Some(EventListError::Empty));
    assert_eq!(EventList::parse(&[0, 0, 0, 0, 0]).err(), Some(EventListError::Empty));
}

#[test]
fn every_truncation_of_a_list_is_malformed() {
    let bytes = list(&[(1, b"abc"), (2, b""), (3, b"defg")]);
    assert_eq!(EventList::parse(&bytes).unwrap().count(), 3);
    for len in 0..bytes.len() {
        assert_eq!(EventList::parse(&bytes[..len]).err(), Some(EventListError::Truncated), "{len} bytes");
    }
}

#[test]
fn bytes_after_the_last_event_are_malformed() {
    let mut bytes = list(&[(1, b"abc")]);
    bytes.push(0);
    assert_eq!(EventList::parse(&bytes).err(), Some(EventListError::Trailing));
}

#[test]
fn every_wrong_event_length_is_malformed() {
    let bytes = list(&[(1, b"abcdef")]);
    for len in (0..=u16::MAX).filter(|&len| len != 6) {
        let mut bytes = bytes.clone();
        bytes[3..5].copy_from_slice(&len.to_le_bytes());
        let expected = if len < 6 { EventListError::Trailing } else { EventListError::Truncated };
        assert_eq!(EventList::parse(&bytes).err(), Some(expected), "length {len}");
    }
}

#[test]
fn a_list_of_255_empty_events() {
    let mut out = [0xEE; 1182];
    let mut writer = EventListWriter::new(&mut out);
    for id in 0..255 {
        assert!(writer.push_content(id, &[]));
    }
    assert!(!writer.push_content(255, &[]), "a list has 255 events at most");
    assert!(!writer.push(255, |_| 0));
    let len = writer.finish().unwrap();
    assert_eq!(len, 1 + 255 * 4);
    let parsed = EventList::parse(&out[..len]).unwrap();
    assert!(parsed.iter().map(|(id, _)| id).eq(0..255));
}

/// An event of 1177 bytes fills a payload (6.2).
#[test]
fn the_longest_event() {
    let mut out = [0; 1182];
    let mut writer = EventListWriter::new(&mut out);
    assert!(!writer.push_content(7, &[1; 1178]));
    assert!(writer.push_content(7, &[1; 1177]));
    assert!(!writer.push_content(8, &[]));
    assert_eq!(writer.finish(), Some(1182));
    assert_eq!(EventList::parse(&out).unwrap().iter().next(), Some((7, &[1; 1177][..])));
}

#[test]
fn an_empty_list_is_nothing_to_send() {
    assert_eq!(EventListWriter::new(&mut [0; 10]).finish(), None);
    assert_eq!(EventListWriter::new(&mut []).finish(), None);
    assert!(!EventListWriter::new(&mut []).push_content(0, &[]));
}

/// Events share a payload up to its end, and no further.
#[test]
fn push_stops_where_an_event_may_not_fit() {
    let mut out = [0xEE; 100];
    let mut writer = EventListWriter::new(&mut out[..1 + 2 * (4 + CONTENT_BYTES_MAX)]);
    let [spawn, ..] = examples();
    assert!(writer.push(65535, |content| spawn.emit(content)));
    assert!(writer.push(0, |content| spawn.emit(content)));
    assert!(!writer.push(1, |_| unreachable!("there is no room")));
    let len = writer.finish().unwrap();
    assert_eq!(len, 63);
    assert_eq!(out[len], 0xEE);
    let parsed = EventList::parse(&out[..len]).unwrap();
    let events: Vec<_> = parsed.iter().map(|(id, content)| (id, Event::parse(content).unwrap())).collect();
    assert_eq!(events, [(65535, spawn), (0, spawn)]);
}

#[test]
fn sizes_of_the_contents() {
    let sizes = examples().map(|event| emitted(&event).len());
    assert_eq!(sizes, [27, 18, 15, 8 + 5, 7, 6 + 5 * 3]);
}

/// Too short, or too long (6.4): every size but the right one.
#[test]
fn contents_of_any_other_size_are_malformed() {
    for event in examples() {
        let mut bytes = emitted(&event);
        for len in 0..bytes.len() {
            assert_eq!(Event::parse(&bytes[..len]), Err(EventContentError::Size), "{event:?} in {len} bytes");
        }
        for extra in 1..20 {
            bytes.push(0);
            assert_eq!(
                Event::parse(&bytes),
                Err(EventContentError::Size),
                "{event:?} and {extra} more bytes"
            );
        }
    }
}

/// Types 0 and 7 to 255, in any size that has a type and a tick.
#[test]
fn unknown_types_are_told() {
    for kind in (0..=255u8).filter(|kind| !(1..=6).contains(kind)) {
        for len in 5..40 {
            assert_eq!(Event::parse(&vec![kind; len]), Err(EventContentError::UnknownType(kind)));
        }
        assert_eq!(Event::parse(&[kind; 4]), Err(EventContentError::Size));
    }
}

/// Puts `value` at byte `at` of an example.
fn with_byte(example: usize, at: usize, value: u8) -> Result<Event, EventContentError> {
    let mut bytes = emitted(&examples()[example]);
    bytes[at] = value;
    Event::parse(&bytes)
}

#[test]
fn a_spawn_has_an_owner_of_0_to_3_or_255() {
    for owner in 0..=255 {
        match (owner, with_byte(0, 10, owner)) {
            (0..=3, Ok(Event::Spawn { owner: Some(read), .. })) => assert_eq!(read.get(), owner),
            (255, Ok(Event::Spawn { owner: None, .. })) | (4..=254, Err(EventContentError::Owner)) => {}
            (_, result) => panic!("owner {owner}: {result:?}"),
        }
    }
}

/// The Spawn of an unknown kind is well-formed, so that the client can ignore it (4.1).
#[test]
fn a_spawn_of_an_unknown_kind_is_read() {
    for kind in 0..=255 {
        let Ok(Event::Spawn { kind: read, .. }) = with_byte(0, 9, kind) else { panic!("kind {kind}") };
        assert_eq!(read.0, kind);
    }
}

#[test]
fn players_above_3_are_malformed() {
    for value in 4..=255 {
        for (example, at) in [(2, 5), (3, 5), (4, 5), (5, 6), (5, 11), (5, 16)] {
            assert_eq!(with_byte(example, at, value), Err(EventContentError::Player), "{example} at {at}");
        }
    }
}

#[test]
fn positions_and_velocities_that_are_not_finite_are_malformed() {
    for (example, at) in [(0, 11), (0, 15), (0, 19), (0, 23), (1, 10), (1, 14), (2, 7), (2, 11)] {
        for value in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut bytes = emitted(&examples()[example]);
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
            assert_eq!(Event::parse(&bytes), Err(EventContentError::NotFinite), "{example} at {at}");
        }
    }
}

#[test]
fn an_id_of_index_0_is_malformed() {
    for example in [0, 1] {
        let mut bytes = emitted(&examples()[example]);
        bytes[5..9].copy_from_slice(&0u32.to_le_bytes());
        assert_eq!(Event::parse(&bytes), Err(EventContentError::Id));
        bytes[5..9].copy_from_slice(&0x0500_0000u32.to_le_bytes());
        assert_eq!(Event::parse(&bytes), Err(EventContentError::Id));
    }
}

#[test]
fn unknown_reasons_are_read_as_the_general_one() {
    for value in 0..=255 {
        let Ok(Event::Destroy { reason, .. }) = with_byte(1, 9, value) else { panic!("reason {value}") };
        assert_eq!(reason as u8, if (1..=4).contains(&value) { value } else { DestroyReason::Killed as u8 });
        let Ok(Event::PlayerLeft { reason, .. }) = with_byte(4, 6, value) else { panic!("reason {value}") };
        assert_eq!(reason as u8, if (1..=3).contains(&value) { value } else { LeaveReason::Left as u8 });
    }
}

/// The rules of LoginRequest, and the string's length against what is there (6.4, field case 25).
#[test]
fn case_25_names_of_player_joined() {
    let joined = |announced: u16, name: &[u8]| {
        let [l0, l1] = announced.to_le_bytes();
        Event::parse(&[&[4, 0, 0, 0, 0, 1, l0, l1], name].concat())
    };
    assert!(joined(3, b"Ada").is_ok());
    assert_eq!(joined(0, b""), Err(EventContentError::Name));
    assert_eq!(joined(17, &[b'x'; 17]), Err(EventContentError::Name));
    assert_eq!(joined(2, b"\xFF\xFE"), Err(EventContentError::Name));
    assert_eq!(joined(2, b"a\n"), Err(EventContentError::Name));
    for announced in [0, 1, 2, 4, 16, 60_000, u16::MAX] {
        assert_eq!(joined(announced, b"Ada"), Err(EventContentError::Size), "a string of {announced}");
    }
}

#[test]
fn a_game_over_of_more_than_four_scores_is_malformed() {
    for count in 0..=255usize {
        let mut bytes = vec![6, 0, 0, 0, 0, count as u8];
        bytes.extend([1, 2, 3, 4, 5].repeat(count).iter().map(|byte| byte % 4));
        match count {
            0..=4 => assert_eq!(Event::parse(&bytes).map(|event| emitted(&event)), Ok(bytes)),
            _ => assert_eq!(Event::parse(&bytes), Err(EventContentError::Scores)),
        }
    }
}

/// Pixels are units ÷ 64, pixels per second are units per tick ÷ 64 × 60: exact at both ends of their ranges.
#[test]
fn units_become_pixels_exactly() {
    use crate::model::{POSITION_MAX, POSITION_MIN, VELOCITY_MAX, VELOCITY_MIN};
    for (x, vx) in [(POSITION_MAX, VELOCITY_MAX), (POSITION_MIN, VELOCITY_MIN), (1, 1), (-1, -1), (0, 0)] {
        let game = GameEvent::Spawn {
            id: EntityId::new(1, 0),
            kind: Kind::SHIP,
            owner: None,
            x,
            y: -x - 1,
            vx,
            vy: vx,
        };
        let Event::Spawn { x: px, y: py, vx: pvx, vy: pvy, .. } = Event::from_game(9, &game) else {
            panic!()
        };
        assert_eq!((f64::from(px) * 64.0, f64::from(py) * 64.0), (f64::from(x), f64::from(-x - 1)));
        assert_eq!(f64::from(pvx) * 64.0 / 60.0, f64::from(vx));
        assert_eq!(pvx, pvy);
    }
}

#[test]
fn every_event_of_the_game_has_its_content() {
    let (id, player) = (EntityId::new(5, 1), player(3));
    let name = Name::new(b"Ada").unwrap();
    let scores = [Some(Score { player, score: 9 }), None, None, None];
    let games = [
        (
            GameEvent::Destroy { id, reason: DestroyReason::Expired, x: 64, y: 32 },
            Event::Destroy { tick: 7, id, reason: DestroyReason::Expired, x: 1.0, y: 0.5 },
        ),
        (
            GameEvent::Destroy { id, reason: DestroyReason::OwnerLeft, x: 64, y: 32 },
            Event::Destroy { tick: 7, id, reason: DestroyReason::Expired, x: 1.0, y: 0.5 },
        ),
        (
            GameEvent::Death { player, lives: 2, x: -64, y: 0 },
            Event::Death { tick: 7, player, lives: 2, x: -1.0, y: 0.0 },
        ),
        (GameEvent::PlayerJoined { player, name }, Event::PlayerJoined { tick: 7, player, name }),
        (
            GameEvent::PlayerLeft { player, reason: LeaveReason::Timeout },
            Event::PlayerLeft { tick: 7, player, reason: LeaveReason::Timeout },
        ),
        (
            GameEvent::GameOver { scores: scores.into_iter().flatten().collect() },
            Event::GameOver { tick: 7, scores },
        ),
    ];
    for (game, event) in games {
        assert_eq!(Event::from_game(7, &game), event);
        assert_eq!(event.tick(), 7);
    }
}

fn events() -> impl Strategy<Value = Event> {
    let id =
        || (1..=0xFF_FFFFu32, any::<u8>()).prop_map(|(index, generation)| EntityId::new(index, generation));
    let players = || (0..4u8).prop_map(player);
    let finite = || any::<f32>().prop_filter("finite", |value| value.is_finite());
    let names = "\\PC{1,16}".prop_filter_map("a name", |text| Name::new(text.as_bytes()).ok());
    let destroys = prop::sample::select(vec![
        DestroyReason::Killed,
        DestroyReason::OutOfBounds,
        DestroyReason::Expired,
        DestroyReason::Reset,
    ]);
    let leaves = prop::sample::select(vec![LeaveReason::Left, LeaveReason::Timeout, LeaveReason::Kicked]);
    let scores = prop::collection::vec((players(), any::<u32>()), 0..=4);
    let at = || (finite(), finite());
    prop_oneof![
        (any::<u32>(), id(), any::<u8>(), prop::option::of(players()), at(), at()).prop_map(
            |(tick, id, kind, owner, (x, y), (vx, vy))| Event::Spawn {
                tick,
                id,
                kind: Kind(kind),
                owner,
                x,
                y,
                vx,
                vy
            }
        ),
        (any::<u32>(), id(), destroys, at()).prop_map(|(tick, id, reason, (x, y))| Event::Destroy {
            tick,
            id,
            reason,
            x,
            y
        }),
        (any::<u32>(), players(), any::<u8>(), at()).prop_map(|(tick, player, lives, (x, y))| Event::Death {
            tick,
            player,
            lives,
            x,
            y
        }),
        (any::<u32>(), players(), names).prop_map(|(tick, player, name)| Event::PlayerJoined {
            tick,
            player,
            name
        }),
        (any::<u32>(), players(), leaves).prop_map(|(tick, player, reason)| Event::PlayerLeft {
            tick,
            player,
            reason
        }),
        (any::<u32>(), scores).prop_map(|(tick, list)| {
            let mut scores = [None; PLAYERS_MAX];
            for (place, (player, score)) in scores.iter_mut().zip(list) {
                *place = Some(Score { player, score });
            }
            Event::GameOver { tick, scores }
        }),
    ]
}

proptest! {
    #[test]
    fn contents_are_read_as_written(event in events()) {
        prop_assert_eq!(Event::parse(&emitted(&event)), Ok(event));
    }

    /// A content with one wrong byte is ignored, or reads as the event that has those very bytes. Unknown reasons are the one
    /// exception: they read as the general one.
    #[test]
    fn a_corrupted_content_is_read_whole_or_not_at_all(event in events(), at in any::<prop::sample::Index>(), xor in 1..=255u8) {
        let mut bytes = emitted(&event);
        let at = at.index(bytes.len());
        bytes[at] ^= xor;
        match Event::parse(&bytes) {
            Ok(Event::Destroy { .. }) if at == 9 => {}
            Ok(Event::PlayerLeft { .. }) if at == 6 => {}
            // Another type of the same size, whose reason the bytes are not.
            Ok(_) if at == 0 => {}
            Ok(read) => prop_assert_eq!(emitted(&read), bytes),
            Err(_) => {}
        }
    }

    #[test]
    fn lists_are_read_as_written(list in prop::collection::vec((any::<u16>(), events()), 1..36)) {
        let mut out = [0; 1182];
        let mut writer = EventListWriter::new(&mut out);
        for (id, event) in &list {
            prop_assert!(writer.push(*id, |content| event.emit(content)));
        }
        let len = writer.finish().unwrap();
        let parsed = EventList::parse(&out[..len]).unwrap();
        let read: Vec<_> = parsed.iter().map(|(id, content)| (id, Event::parse(content).unwrap())).collect();
        prop_assert_eq!(read, list);
    }

    /// A list that reads at all is all there, and is written as the same bytes.
    #[test]
    fn a_corrupted_list_is_read_whole_or_not_at_all(
        contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..8),
        at in any::<prop::sample::Index>(),
        xor in 1..=255u8,
    ) {
        let events: Vec<_> = contents.iter().map(|content| (7, &content[..])).collect();
        let mut bytes = list(&events);
        let at = at.index(bytes.len());
        bytes[at] ^= xor;
        if let Ok(parsed) = EventList::parse(&bytes) {
            let mut out = vec![0; bytes.len()];
            let mut writer = EventListWriter::new(&mut out);
            for (id, content) in parsed.iter() {
                prop_assert!(writer.push_content(id, content));
            }
            prop_assert_eq!(writer.finish(), Some(bytes.len()));
            prop_assert_eq!(out, bytes);
        }
    }

    #[test]
    fn random_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let _ = Event::parse(&bytes);
        if let Ok(parsed) = EventList::parse(&bytes) {
            prop_assert_eq!(parsed.iter().count(), usize::from(parsed.count()));
        }
    }
}
