//! What a client must withstand from a server, or from somebody in its name: the datagrams of section 6.3 of the Aegis
//! protocol and the events of section 6.4, written by hand.

mod common;
mod raw;

use raw::{
    ACCEPT, COMPRESSED, CONNECT, DISCONNECT, EVENT, HEARTBEAT, INPUT, SNAPSHOT, datagram, event_list, message,
};
use tickwire::client::aegis::{Client, ClientStats, Ignored, Over, Phase};
use tickwire::model::{EntityId, Name};
use tickwire::time::Instant;
use tickwire::wire::aegis::PacketKind;
use tickwire::wire::aegis::snapshot::SnapshotError;

const TOKEN: u32 = 0xDEAD_BEEF;
const NOW: Instant = Instant::from_millis(1000);

/// A client that is told to play as player 1.
fn logged_in() -> Client {
    let mut client = Client::new(&common::settings("client"));
    let mut accepted = vec![2];
    accepted.extend(TOKEN.to_le_bytes());
    accepted.extend([0x93, 0x10, 1, 60, 3]);
    client.stream_bytes(NOW, &message(&accepted));
    assert_eq!(client.phase(), Phase::Binding);
    client
}

/// A client in the match, and the sequence of the server's next datagram.
fn playing() -> (Client, u16) {
    let mut client = logged_in();
    assert_eq!(hear(&mut client, ACCEPT, 0, &[]), Ok(()));
    assert_eq!(client.phase(), Phase::Playing);
    (client, 1)
}

fn hear(client: &mut Client, kind: u8, sequence: u16, payload: &[u8]) -> Result<(), Ignored> {
    client.datagram(NOW, NOW, &datagram(kind, sequence, 65_535, 0, TOKEN, payload))
}

/// What a datagram that is dropped must leave as it was.
fn state(client: &Client) -> impl PartialEq + std::fmt::Debug + use<> {
    let header = client.link().next_header(PacketKind::Heartbeat);
    let stats = *client.stats();
    let stats =
        ClientStats { datagrams_in: 0, bytes_in: 0, dropped: 0, snapshots_missing_baseline: 0, ..stats };
    let shown: Vec<_> = client.visible().map(|(id, entity)| (id, *entity)).collect();
    let table = client.table().map(|table| (table.tick(), table.iter().count(), *table.players()));
    (client.phase(), stats, header, shown, table, *client.names())
}

/// The datagram is dropped: nothing changed, and it is not acknowledged.
#[track_caller]
fn assert_dropped(client: &mut Client, bytes: &[u8], why: Ignored) {
    let before = state(client);
    assert_eq!(client.datagram(NOW, NOW, bytes), Err(why), "{bytes:02x?}");
    assert_eq!(state(client), before, "{bytes:02x?}");
}

/// Bits of a snapshot (1.6).
#[derive(Clone, Default)]
struct Bits {
    bits: Vec<bool>,
}

impl Bits {
    fn put(mut self, value: i64, width: u32) -> Self {
        self.bits.extend((0..width).map(|bit| value >> bit & 1 == 1));
        self
    }

    fn varint(mut self, mut value: u32) -> Self {
        while value > 7 {
            self = self.put(i64::from(value & 7) | 8, 4);
            value >>= 3;
        }
        self.put(i64::from(value), 4)
    }

    fn bytes(&self) -> Vec<u8> {
        let byte = |bits: &[bool]| bits.iter().rev().fold(0, |byte, &bit| byte << 1 | u8::from(bit));
        self.bits.chunks(8).map(byte).collect()
    }

    /// Everything in front of the records of a snapshot without players.
    fn snapshot(tick: u32, age: Option<u32>) -> Self {
        let bits = Self::default().put(i64::from(tick), 32).put(0, 16).put(i64::from(age.is_some()), 1);
        let bits = if let Some(age) = age { bits.varint(age) } else { bits };
        bits.put(0, 3)
    }

    /// An added record of what stands still at (64, 128).
    fn added(self, gap: u32, kind: i64, owner: i64) -> Self {
        let bits = self.varint(gap).put(0, 2).put(0, 8).put(kind, 3).put(owner, 3).put(0, 4);
        bits.put(64, 20).put(128, 20).put(0, 12).put(0, 12).put(9, 8)
    }

    /// An updated record with a new health.
    fn health(self, gap: u32, health: i64) -> Self {
        self.varint(gap).put(1, 2).put(4, 3).put(health, 8)
    }
}

/// A full snapshot of one enemy at index 1.
fn full(tick: u32) -> Vec<u8> {
    Bits::snapshot(tick, None).varint(1).added(1, 2, 7).bytes()
}

fn spawn(id: u32, kind: u8) -> Vec<u8> {
    let mut content = vec![1, 1, 0, 0, 0];
    content.extend(id.to_le_bytes());
    content.extend([kind, 255]);
    content.extend([0; 16]);
    content
}

fn joined(player: u8, name: &[u8]) -> Vec<u8> {
    let mut content = vec![4, 1, 0, 0, 0, player];
    content.extend((name.len() as u16).to_le_bytes());
    content.extend(name);
    content
}

#[test]
fn bad_headers_are_dropped() {
    let (mut client, next) = playing();
    let whole = datagram(HEARTBEAT, next, 65_535, 0, TOKEN, &[]);
    for len in 0..18 {
        assert_dropped(&mut client, &whole[..len], Ignored::Header);
    }
    for bit in 0..32 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_dropped(&mut client, &bytes, Ignored::Header);
    }
    for value in (0..=255u8).filter(|&version| version != 1) {
        let mut bytes = whole.clone();
        bytes[4] = value;
        assert_dropped(&mut client, &bytes, Ignored::Header);
    }
    for kind in (0..=255u8).filter(|kind| !(1..=7).contains(&(kind & 0x7F))) {
        assert_dropped(&mut client, &datagram(kind, next, 65_535, 0, TOKEN, &[]), Ignored::Header);
    }
    let long = datagram(EVENT, next, 65_535, 0, TOKEN, &event_list(&[(0, &[7; 1178])]));
    assert_eq!(long.len(), 1201);
    assert_dropped(&mut client, &long, Ignored::Header);
    assert_eq!(client.datagram(NOW, NOW, &whole), Ok(()), "the whole of it is fine");
}

#[test]
fn the_wrong_direction_and_the_wrong_token_are_foreign() {
    let (mut client, next) = playing();
    for (kind, payload) in [(CONNECT, &[] as &[u8]), (INPUT, &[0]), (INPUT | COMPRESSED, &[0])] {
        assert_dropped(&mut client, &datagram(kind, next, 65_535, 0, TOKEN, payload), Ignored::Foreign);
    }
    for token in (0..32).map(|bit| TOKEN ^ 1 << bit).chain([0]) {
        for (kind, payload) in
            [(ACCEPT, vec![]), (SNAPSHOT, full(1)), (HEARTBEAT, vec![]), (DISCONNECT, vec![])]
        {
            assert_dropped(&mut client, &datagram(kind, next, 65_535, 0, token, &payload), Ignored::Foreign);
        }
    }
}

#[test]
fn nothing_but_accept_is_heard_before_the_first_accept() {
    let mut client = Client::new(&common::settings("client"));
    assert_dropped(&mut client, &datagram(ACCEPT, 0, 65_535, 0, 0, &[]), Ignored::Foreign);
    assert_dropped(&mut client, &datagram(ACCEPT, 0, 65_535, 0, TOKEN, &[]), Ignored::Foreign);
    let mut client = logged_in();
    let event = event_list(&[(0, &joined(1, b"x"))]);
    for (kind, payload) in [(SNAPSHOT, full(1)), (EVENT, event), (HEARTBEAT, vec![]), (DISCONNECT, vec![])] {
        assert_dropped(&mut client, &datagram(kind, 0, 65_535, 0, TOKEN, &payload), Ignored::Foreign);
    }
    assert_dropped(&mut client, &datagram(ACCEPT, 0, 65_535, 0, TOKEN, &[0]), Ignored::Malformed);
    assert_eq!(hear(&mut client, ACCEPT, 0, &[]), Ok(()));
}

#[test]
fn payloads_of_what_has_none_are_malformed() {
    let (mut client, next) = playing();
    for kind in [ACCEPT, HEARTBEAT, DISCONNECT] {
        for payload in [&[0u8] as &[u8], &[0; 1182]] {
            assert_dropped(&mut client, &datagram(kind, next, 65_535, 0, TOKEN, payload), Ignored::Malformed);
        }
        for payload in [&[] as &[u8], &[0, 0], &[0, 0, 0], &[1, 0, 0x10, 0]] {
            let bytes = datagram(kind | COMPRESSED, next, 65_535, 0, TOKEN, payload);
            assert_dropped(&mut client, &bytes, Ignored::Malformed);
        }
    }
}

#[test]
fn compressed_payloads_that_are_bad() {
    let (mut client, next) = playing();
    let payload = full(60);
    let block = lz4_flex::block::compress(&payload);
    let good = payload.len() as u16;
    let bomb = lz4_flex::block::compress(&[0; 200_000]);
    let mut all: Vec<Vec<u8>> = vec![vec![], vec![1]];
    for size in [0, 1, good - 1, good + 1, 1182, 1183, 0x8000, 0xFFFF] {
        all.push([&size.to_le_bytes(), &block[..]].concat());
        all.push([&size.to_le_bytes(), &bomb[..]].concat());
    }
    all.extend((0..block.len()).map(|len| [&good.to_le_bytes(), &block[..len]].concat()));
    for payload in all {
        let bytes = datagram(SNAPSHOT | COMPRESSED, next, 65_535, 0, TOKEN, &payload);
        assert_dropped(&mut client, &bytes, Ignored::Malformed);
    }
    let whole = [&good.to_le_bytes(), &block[..]].concat();
    assert_eq!(hear(&mut client, SNAPSHOT | COMPRESSED, next, &whole), Ok(()));
}

/// Every kind of malformed snapshot, full and delta: dropped, not acknowledged, and the next good one is read.
#[test]
fn malformed_snapshots_are_dropped_and_not_acknowledged() {
    let (mut client, next) = playing();
    assert_eq!(hear(&mut client, SNAPSHOT, next, &full(60)), Ok(()));
    let next = next + 1;
    let start = || Bits::snapshot(63, None);
    let delta = || Bits::snapshot(63, Some(3));
    let player =
        |number: i64| Bits::default().put(63, 32).put(0, 17).put(1, 3).put(number, 3).put(1, 5).varint(0);
    let head = || Bits::default().put(63, 32).put(0, 17);
    let mut bad: Vec<(&str, Vec<u8>)> =
        (0..full(63).len()).map(|len| ("cut", full(63)[..len].to_vec())).collect();
    bad.extend([
        ("a byte more", [&full(63)[..], &[0]].concat()),
        ("padding that is not 0", {
            let mut bytes = start().varint(0).bytes();
            *bytes.last_mut().unwrap() |= 0x80;
            bytes
        }),
        ("five players", head().put(5, 3).bytes()),
        ("seven players", head().put(7, 3).bytes()),
        ("player 4", player(4).varint(0).bytes()),
        ("player 7", player(7).varint(0).bytes()),
        ("a varint with a group too many", start().put(0x8, 4).put(0, 4).bytes()),
        ("a varint past 32 bits", start().put(0xFFFF_FFFF, 32).put(0xFF | 0x700, 12).bytes()),
        ("an index past 24 bits", start().varint(1).added(1 << 24, 2, 7).bytes()),
        (
            "indices that add up to more than 24 bits",
            start().varint(2).added((1 << 24) - 1, 2, 7).added(0, 2, 7).bytes(),
        ),
        ("index 0", start().varint(1).added(0, 2, 7).bytes()),
        ("change 3", start().varint(1).varint(1).put(3, 2).bytes()),
        ("owner 4", start().varint(1).added(1, 2, 4).bytes()),
        ("owner 6", start().varint(1).added(1, 2, 6).bytes()),
        ("an update in a full one", start().varint(1).health(1, 5).bytes()),
        ("a removal in a full one", start().varint(1).varint(1).put(2, 2).bytes()),
        ("age 0", Bits::snapshot(63, Some(0)).varint(0).bytes()),
        ("an age above the tick", Bits::snapshot(63, Some(64)).varint(0).bytes()),
        ("an update of nothing", delta().varint(1).varint(1).put(1, 2).put(0, 3).bytes()),
        ("change 3 in a delta", delta().varint(1).varint(1).put(3, 2).bytes()),
        ("a cut delta", delta().varint(2).health(1, 5).bytes()),
        ("a count without records", start().varint(u32::MAX).bytes()),
    ]);
    for (what, payload) in bad {
        let before = state(&client);
        let read = hear(&mut client, SNAPSHOT, next, &payload);
        assert!(matches!(read, Err(Ignored::Snapshot(_))), "{what}: {read:?}");
        assert_eq!(state(&client), before, "{what}");
    }
    assert_eq!(hear(&mut client, SNAPSHOT, next, &delta().varint(1).health(1, 5).bytes()), Ok(()));
    assert_eq!(client.table().map(|table| (table.tick(), table.iter().count())), Some((63, 1)));
}

#[test]
fn a_delta_without_its_baseline_is_not_acknowledged() {
    let (mut client, next) = playing();
    let delta = |tick, age| {
        datagram(SNAPSHOT, next, 65_535, 0, TOKEN, &Bits::snapshot(tick, Some(age)).varint(0).bytes())
    };
    let missing = Ignored::Snapshot(SnapshotError::MissingBaseline);
    assert_dropped(&mut client, &delta(60, 3), missing);
    assert_dropped(&mut client, &delta(60, 60), missing);
    assert_eq!(hear(&mut client, SNAPSHOT, next + 1, &full(60)), Ok(()));
    assert_dropped(&mut client, &delta(63, 2), missing);
    assert_dropped(&mut client, &delta(63, 4), missing);
    assert_eq!(client.stats().snapshots_missing_baseline, 4);
    assert_eq!(client.datagram(NOW, NOW, &delta(63, 3)), Ok(()), "the sequence is still free");
}

#[test]
fn an_update_or_removal_of_what_the_baseline_has_not_is_not_acknowledged() {
    let (mut client, next) = playing();
    assert_eq!(hear(&mut client, SNAPSHOT, next, &full(60)), Ok(()));
    let delta = || Bits::snapshot(63, Some(3)).varint(1);
    for payload in [delta().health(2, 5), delta().varint(2).put(2, 2), delta().health(900, 1)] {
        let bytes = datagram(SNAPSHOT, next + 1, 65_535, 0, TOKEN, &payload.bytes());
        assert_dropped(&mut client, &bytes, Ignored::Snapshot(SnapshotError::UnknownIndex));
    }
    // And a removal takes away what was there.
    assert_eq!(hear(&mut client, SNAPSHOT, next + 1, &delta().varint(1).put(2, 2).bytes()), Ok(()));
    assert_eq!(client.table().map(|table| table.iter().count()), Some(0));
}

/// Entities of kinds that this version does not have are not shown, but later deltas refer to them all the same.
#[test]
fn unknown_entity_kinds_are_skipped_and_deltas_still_decode() {
    let (mut client, next) = playing();
    let mut events: Vec<Vec<u8>> = (1..=5).map(|index| spawn(index, 0)).collect();
    events.push(spawn(6, 2));
    let list: Vec<(u16, &[u8])> = events.iter().enumerate().map(|(id, e)| (id as u16, &e[..])).collect();
    assert_eq!(hear(&mut client, EVENT, next, &event_list(&list)), Ok(()));
    let mut bits = Bits::snapshot(60, None).varint(6).added(1, 0, 7);
    for kind in [5, 6, 7, 0, 2] {
        bits = bits.added(0, kind, 7);
    }
    assert_eq!(hear(&mut client, SNAPSHOT, next + 1, &bits.bytes()), Ok(()));
    let shown =
        |client: &Client| client.visible().map(|(id, entity)| (id, entity.health)).collect::<Vec<_>>();
    assert_eq!(shown(&client), [(EntityId(6), 9)]);
    let delta = Bits::snapshot(63, Some(3)).varint(3).health(1, 1).health(3, 2).health(0, 3);
    assert_eq!(hear(&mut client, SNAPSHOT, next + 2, &delta.bytes()), Ok(()));
    assert_eq!(shown(&client), [(EntityId(6), 3)]);
    let delta = Bits::snapshot(66, Some(3)).varint(2).varint(2).put(2, 2).varint(1).put(2, 2);
    assert_eq!(hear(&mut client, SNAPSHOT, next + 3, &delta.bytes()), Ok(()));
    assert_eq!((shown(&client), client.table().map(|t| t.iter().count())), (vec![(EntityId(6), 3)], Some(4)));
}

/// A Spawn of a kind that this version does not have is ignored, but not the rest of its datagram.
#[test]
fn spawns_of_unknown_kinds_are_ignored_alone() {
    for kind in [0, 5, 6, 7, 8, 255] {
        let (mut client, next) = playing();
        let list = event_list(&[(0, &spawn(1, kind)), (1, &joined(2, b"after"))]);
        assert_eq!(hear(&mut client, EVENT, next, &list), Ok(()));
        assert_eq!((client.stats().events, client.stats().events_ignored), (1, 1), "kind {kind}");
        assert_eq!(hear(&mut client, SNAPSHOT, next + 1, &full(60)), Ok(()));
        assert_eq!(client.visible().count(), 0, "kind {kind}");
    }
}

/// An entity destroyed by an event stays gone, in snapshots after it and before it.
#[test]
fn records_of_destroyed_ids_are_not_shown() {
    let (mut client, next) = playing();
    let destroy = |id: u32, tick: u8| {
        let mut content = vec![2, tick, 0, 0, 0];
        content.extend(id.to_le_bytes());
        content.push(77);
        content.extend([0; 8]);
        content
    };
    assert_eq!(
        hear(&mut client, EVENT, next, &event_list(&[(0, &spawn(1, 2)), (1, &destroy(1, 9))])),
        Ok(())
    );
    assert_eq!(hear(&mut client, SNAPSHOT, next + 1, &full(60)), Ok(()));
    assert_eq!((client.visible().count(), client.table().map(|t| t.iter().count())), (0, Some(1)));
    // The Destroy overtook its Spawn.
    assert_eq!(
        hear(&mut client, EVENT, next + 2, &event_list(&[(3, &destroy(2, 9)), (2, &spawn(2, 2))])),
        Ok(())
    );
    let two = Bits::snapshot(63, None).varint(2).added(1, 2, 7).added(0, 2, 7);
    assert_eq!(hear(&mut client, SNAPSHOT, next + 3, &two.bytes()), Ok(()));
    assert_eq!(client.visible().count(), 0);
}

/// Every bad content of 6.4: ignored alone, while its neighbours are applied and the datagram is acknowledged.
#[test]
fn bad_events_are_ignored_alone() {
    let nan = f32::NAN.to_le_bytes();
    let infinite = f32::NEG_INFINITY.to_le_bytes();
    let destroy = [&[2, 1, 0, 0, 0, 1, 0, 0, 0, 1][..], &[0; 8]].concat();
    let death = [&[3, 1, 0, 0, 0, 1, 2][..], &[0; 8]].concat();
    let left = vec![5, 1, 0, 0, 0, 1, 1];
    let over = [&[6, 1, 0, 0, 0, 1, 0][..], &[9, 0, 0, 0]].concat();
    let good = [spawn(1, 2), destroy, death, joined(1, b"sixteen bytes!!!"), left, over];
    let mut bad: Vec<Vec<u8>> = (0..5).map(|len| vec![1; len]).collect();
    for content in &good {
        bad.extend((5..content.len()).map(|len| content[..len].to_vec()));
        bad.push([&content[..], &[0]].concat());
    }
    let with = |content: &[u8], at: usize, bytes: &[u8]| {
        let mut content = content.to_vec();
        content[at..at + bytes.len()].copy_from_slice(bytes);
        content
    };
    for at in [11, 15, 19, 23] {
        bad.extend([with(&good[0], at, &nan), with(&good[0], at, &infinite)]);
    }
    bad.extend((4..255).map(|owner| with(&good[0], 10, &[owner])));
    bad.extend([10, 14].map(|at| with(&good[1], at, &nan)));
    bad.extend([7, 11].map(|at| with(&good[2], at, &infinite)));
    for player in [4, 7, 255] {
        bad.extend([&good[2], &good[3], &good[4]].map(|content| with(content, 5, &[player])));
        bad.push(with(&good[5], 6, &[player]));
    }
    bad.extend(
        [&b""[..], b"seventeen bytes!!", b"\xFF", b"a\nb", b"\x7F", "\u{85}".as_bytes()]
            .map(|n| joined(1, n)),
    );
    bad.push(with(&good[3], 6, &60_000u16.to_le_bytes()));
    bad.push([&[6, 1, 0, 0, 0, 5][..], &[0; 25]].concat());
    bad.push([&[6, 1, 0, 0, 0, 255][..], &[0; 25]].concat());
    bad.push(vec![6, 1, 0, 0, 0, 1]);
    for content in bad {
        let (mut client, next) = playing();
        let list = [(0, &joined(0, b"before")[..]), (1, &content), (2, &joined(3, b"after"))];
        assert_eq!(hear(&mut client, EVENT, next, &event_list(&list)), Ok(()), "{content:02x?}");
        assert_eq!(client.link().newest_received(), next, "acknowledged");
        assert_eq!((client.stats().events, client.stats().events_ignored), (2, 1), "{content:02x?}");
        let name = |name: &str| Some(Name::new(name.as_bytes()).unwrap());
        assert_eq!(*client.names(), [name("before"), None, None, name("after")]);
        // It is not handed over later either.
        assert_eq!(hear(&mut client, EVENT, next + 1, &event_list(&[(1, &joined(2, b"again"))])), Ok(()));
        assert_eq!((client.stats().events_repeated, client.names()[2]), (1, None));
    }
    for content in good {
        let (mut client, next) = playing();
        assert_eq!(hear(&mut client, EVENT, next, &event_list(&[(0, &content)])), Ok(()));
        assert_eq!(client.stats().events, 1, "{content:02x?}");
    }
}

#[test]
fn unknown_event_types_are_ignored_alone() {
    for kind in (0..=255u8).filter(|kind| !(1..=6).contains(kind)) {
        let (mut client, next) = playing();
        let list = event_list(&[(0, &[kind, 1, 0, 0, 0, 9, 9]), (1, &joined(2, b"after"))]);
        assert_eq!(hear(&mut client, EVENT, next, &list), Ok(()));
        assert_eq!((client.stats().events, client.stats().events_ignored), (1, 1), "type {kind}");
        assert_eq!(client.link().newest_received(), next);
    }
}

#[test]
fn malformed_event_lists_hand_over_none_of_their_events() {
    let (mut client, next) = playing();
    let whole = event_list(&[(0, &joined(0, b"a")), (1, &joined(1, b"b"))]);
    let mut lists: Vec<Vec<u8>> = (0..whole.len()).map(|len| whole[..len].to_vec()).collect();
    lists.push([&whole[..], &[0]].concat());
    lists.extend([0, 1, 3, 255].map(|count| [&[count], &whole[1..]].concat()));
    for list in lists {
        let bytes = datagram(EVENT, next, 65_535, 0, TOKEN, &list);
        assert_dropped(&mut client, &bytes, Ignored::Malformed);
    }
    assert_eq!(hear(&mut client, EVENT, next, &whole), Ok(()));
    assert_eq!(client.stats().events, 2);
}

/// Duplicates and datagrams too old: the payload is ignored, but events that were not handed over yet are.
#[test]
fn old_datagrams_hand_over_their_events_and_nothing_else() {
    let (mut client, _) = playing();
    assert_eq!(hear(&mut client, SNAPSHOT, 100, &full(60)), Ok(()));
    let before = client.link().next_header(PacketKind::Heartbeat);
    assert_eq!(hear(&mut client, SNAPSHOT, 100, &full(63)), Err(Ignored::Stale));
    assert_eq!(hear(&mut client, SNAPSHOT, 60, &full(66)), Err(Ignored::Stale));
    assert_eq!(hear(&mut client, DISCONNECT, 60, &[]), Err(Ignored::Stale));
    assert_eq!(client.table().map(|table| table.tick()), Some(60));
    assert_eq!(hear(&mut client, EVENT, 60, &event_list(&[(0, &joined(0, b"old"))])), Err(Ignored::Stale));
    assert_eq!(hear(&mut client, EVENT, 100, &event_list(&[(1, &joined(1, b"twice"))])), Err(Ignored::Stale));
    assert_eq!((client.stats().events, client.phase()), (2, Phase::Playing));
    assert_eq!(
        client.link().next_header(PacketKind::Heartbeat),
        before,
        "the acknowledgement did not change"
    );
    assert_eq!(hear(&mut client, DISCONNECT, 101, &[]), Ok(()));
    assert_eq!(client.phase(), Phase::Over(Over::Disconnected));
}

/// Duplicates and malformed snapshots, however many, take no baseline away but the oldest.
#[test]
fn bad_snapshots_do_not_use_up_the_baselines() {
    let (mut client, _) = playing();
    for number in 0..22u16 {
        assert_eq!(hear(&mut client, SNAPSHOT, 1 + number, &full(60 + u32::from(number) * 3)), Ok(()));
    }
    for _ in 0..100 {
        assert_eq!(hear(&mut client, SNAPSHOT, 22, &full(200)), Err(Ignored::Stale));
        assert!(hear(&mut client, SNAPSHOT, 23, &full(200)[..10]).is_err());
    }
    let newest = 60 + 21 * 3;
    for number in 1..22u16 {
        let tick = newest + 1;
        let age = tick - (60 + u32::from(number) * 3);
        let delta = Bits::snapshot(tick, Some(age)).varint(0).bytes();
        assert_eq!(
            hear(&mut client, SNAPSHOT, 22, &delta),
            Err(Ignored::Stale),
            "baseline {number} is there"
        );
    }
}

/// Whatever is dropped does not keep the session alive.
#[test]
fn what_is_dropped_does_not_keep_the_client_waiting() {
    let (mut client, next) = playing();
    let mut buffer = [0; 1200];
    for step in 1..50u64 {
        let now = NOW + raw::ms(step * 100);
        let bad = [
            datagram(HEARTBEAT, next, 65_535, 0, TOKEN ^ 1, &[]),
            datagram(HEARTBEAT, next, 65_535, 0, TOKEN, &[0]),
            datagram(SNAPSHOT, next, 65_535, 0, TOKEN, &Bits::snapshot(60, Some(3)).varint(0).bytes()),
        ];
        for bytes in bad {
            assert!(client.datagram(now, now, &bytes).is_err());
        }
        while client.transmit(now, &mut buffer).is_some() {}
    }
    assert_eq!(client.phase(), Phase::Playing);
    while client.transmit(NOW + raw::ms(5000), &mut buffer).is_some() {}
    assert_eq!(client.phase(), Phase::Over(Over::TimedOut));
}

/// The tick wraps to 0: newer snapshots stay newer, and events keep their order.
#[test]
fn case_65_the_tick_wraps() {
    let (mut client, next) = playing();
    let shown = |client: &Client| client.table().map(|table| table.tick());
    let at = |mut content: Vec<u8>, tick: u32| {
        content[1..5].copy_from_slice(&tick.to_le_bytes());
        content
    };
    let spawned = at(spawn(1, 2), u32::MAX);
    assert_eq!(hear(&mut client, EVENT, next, &event_list(&[(0, &spawned)])), Ok(()));
    assert_eq!(hear(&mut client, SNAPSHOT, next + 1, &full(u32::MAX - 3)), Ok(()));
    let delta = Bits::snapshot(u32::MAX, Some(3)).varint(1).health(1, 7);
    assert_eq!(hear(&mut client, SNAPSHOT, next + 2, &delta.bytes()), Ok(()));
    assert_eq!(shown(&client), Some(u32::MAX));
    // An age above the tick cannot be named; a full one goes on.
    assert!(hear(&mut client, SNAPSHOT, next + 3, &Bits::snapshot(2, Some(3)).varint(0).bytes()).is_err());
    assert_eq!(hear(&mut client, SNAPSHOT, next + 4, &full(2)), Ok(()));
    assert_eq!((shown(&client), client.visible().count()), (Some(2), 1));
    assert_eq!(hear(&mut client, SNAPSHOT, next + 5, &Bits::snapshot(5, Some(3)).varint(0).bytes()), Ok(()));
    assert_eq!(hear(&mut client, SNAPSHOT, next + 3, &full(u32::MAX - 1)), Ok(()));
    assert_eq!(shown(&client), Some(5), "an overtaken one is not the newest");
    let mut destroyed = vec![2, 3, 0, 0, 0, 1, 0, 0, 0, 1];
    destroyed.extend([0; 8]);
    assert_eq!(hear(&mut client, EVENT, next + 6, &event_list(&[(1, &destroyed)])), Ok(()));
    assert_eq!(client.visible().count(), 0);
}
