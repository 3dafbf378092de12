//! Logging allocates nothing, from the first line on.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use log::LevelFilter;
use tickwire::logger;

struct Counting;

thread_local! {
    /// Allocations of this thread: the harness has others.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes on to the system's allocator as it came; the counter neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are those that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: `block` came from `alloc`, which is the system's.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

#[test]
fn logging_allocates_nothing() {
    let before = allocations();
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(allocations(), before + 1, "the counter counts");

    logger::init(LevelFilter::Debug).expect("the only logger");
    logger::init(LevelFilter::Debug).expect("again");
    let long = "long\n".repeat(500);
    let before = allocations();
    log::info!("session of player {} from {} ended", 3, std::net::Ipv6Addr::LOCALHOST);
    log::warn!("{long}");
    log::debug!("{:02x?}", [0xAE, 0x61, 0x01]);
    log::trace!("not shown");
    assert_eq!(allocations(), before);
}
