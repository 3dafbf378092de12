//! Neither end of an R-Type connection allocates anything, once made.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::net::SocketAddr;

use tickwire::client::rtype::{Client, Settings};
use tickwire::model::{Controls, Entity, EntityId, EntityTable, Kind};
use tickwire::session::rtype::{Connection, IDLE_TIMEOUT, Notice, Session};
use tickwire::time::{Instant, Tick};
use tickwire::wire::rtype::DATAGRAM_BYTES_MAX;
use tickwire::wire::rtype::handshake::Handshake;
use tickwire::wire::rtype::message::DestroyReason;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator as it is; counting allocates nothing itself.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: `block` came from `alloc` above, and so from the system's allocator.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(black_box(Box::new(1)))), 1);
    assert!(allocations(|| drop(black_box(Session::new()))) > 0);
}

/// Two connections in one slot, one after the other, with lost datagrams, questions and hostile bytes.
#[test]
fn nothing_is_allocated_per_datagram() {
    let mut room = EntityTable::new(300);
    (0..200).for_each(|index| {
        room.insert(Entity::new(Kind::BYDOS).moving(index * 64, 640, 0, 0));
    });
    let mut session = Session::new();
    let mut clients = [1, 2].map(|_| Client::new(&Settings { entities_max: 300 }));
    let count = allocations(|| {
        for (id, client) in (1..).zip(&mut clients) {
            play(&mut room, &mut session, id, client);
        }
    });
    assert_eq!(count, 0);
    for client in &clients {
        let stats = client.stats();
        assert!(
            stats.creates > 200 && stats.destroys > 50 && stats.pongs > 5 && stats.queries > 0,
            "{stats:?}"
        );
    }
}

fn play(room: &mut EntityTable, session: &mut Session, id: u32, client: &mut Client) {
    let endpoint = SocketAddr::from(([10, 0, 0, 1], 5000));
    let mut buffer = [0; DATAGRAM_BYTES_MAX];
    let at = |frame: u64| Instant::from_millis(1000 + frame * 17);
    session.reset(at(0), Connection { id, endpoint }, IDLE_TIMEOUT);
    let len = Handshake::Welcome { connection: id }.emit(&mut buffer);
    assert_eq!(client.datagram(at(0), at(0), &buffer[..len]), Ok(()));
    for index in room.indices().take(150) {
        let id = room.id(index).expect("it lives");
        session.push_notice(Notice::Create(id)).expect("room");
    }
    for frame in 0..600u32 {
        let now = at(frame.into());
        client.set_controls(Controls::from_bits(frame as u8 & 31).expect("five bits"));
        while let Some(len) = client.transmit(now, &mut buffer) {
            if frame % 7 != 0 {
                session.hear(now, now, &buffer[..len]).expect("a valid packet");
            }
            buffer[20] ^= 0x55;
            assert!(session.hear(now, now, &buffer[..len]).is_err() || frame % 7 == 0);
        }
        if frame.is_multiple_of(5) {
            change(room, session, frame);
        }
        session.take_input();
        while let Some(len) = session.write_notices(now, Tick(frame), room, &mut buffer) {
            if frame % 3 != 0 {
                client.datagram(now, now, &buffer[..len]).expect("a valid packet");
            }
        }
        let mut from = frame.is_multiple_of(3).then_some(0);
        while let Some(index) = from {
            let (len, next) = session.write_snapshot(now, Tick(frame), room, index..u32::MAX, &mut buffer);
            client.datagram(now, now, &buffer[..len]).expect("a valid packet");
            from = next;
        }
        black_box((client.visible().count(), client.player(), session.next_deadline()));
    }
}

/// One leaves, another comes.
fn change(room: &mut EntityTable, session: &mut Session, frame: u32) {
    let index = room.next_live(frame % 190).expect("somebody lives");
    let gone: EntityId = room.id(index).expect("it lives");
    room.remove(index);
    session.push_notice(Notice::Destroy(gone, DestroyReason::Gameplay)).expect("room");
    let come = room.insert(Entity::new(Kind::MISSILE)).expect("a place");
    session.push_notice(Notice::Create(come)).expect("room");
}
