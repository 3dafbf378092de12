//! Compressing and decompressing allocate nothing, once the compressor is made.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;

use tickwire::lz4::{Compressor, PAYLOAD_BYTES_MAX, decompress};

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
    assert!(allocations(|| drop(black_box(Compressor::new()))) > 0);
}

#[test]
fn nothing_is_allocated_per_payload() {
    let repeating: [u8; PAYLOAD_BYTES_MAX] = std::array::from_fn(|at| (at % 50) as u8);
    let noise: [u8; PAYLOAD_BYTES_MAX] =
        std::array::from_fn(|at| ((at as u32).wrapping_mul(2_654_435_761) >> 13) as u8);
    let mut compressor = Compressor::new();
    let mut compressed = [0; PAYLOAD_BYTES_MAX];
    let mut original = [0; PAYLOAD_BYTES_MAX];
    let count = allocations(|| {
        for len in [64, 128, 305, 600, PAYLOAD_BYTES_MAX] {
            for payload in [&repeating[..len], &noise[..len]] {
                if let Some(len) = compressor.compress(payload, &mut compressed) {
                    assert_eq!(decompress(&compressed[..len], &mut original), Ok(payload.len()));
                    assert!(original[..payload.len()] == *payload);
                    assert!(decompress(&compressed[..len - 1], &mut original).is_err());
                }
            }
        }
    });
    assert_eq!(count, 0);
}
