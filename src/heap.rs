//! A global allocator that counts, and that can be sealed: after start, the loop's thread must not allocate.
//!
//! A binary or a test installs it with `#[global_allocator] static HEAP: Heap = Heap;`. Everything else here works
//! without it too, but then nothing is counted and a seal holds nothing.
//!
//! Counting is per thread in plain cells; only the total of live bytes is shared (a relaxed atomic). A seal belongs to
//! the thread that asked for it: helpers, loggers and tests on other threads allocate as they like. A sealed thread
//! may free (a buffer that came from another thread, say); it may not allocate or reallocate.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::panic;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The allocator: the system's, counted.
#[derive(Clone, Copy, Default, Debug)]
pub struct Heap;

/// What a sealed thread does when something on it allocates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnAlloc {
    /// Say so in one line on standard error, and abort the process.
    Abort,
    /// Count it (see [`sealed_allocations`]) and go on.
    Count,
}

/// Seals the calling thread: from now on an allocation on it does what `on_alloc` says. Sealing again starts a new
/// count.
pub fn seal(on_alloc: OnAlloc) {
    SEALED_ALLOCATIONS.set(0);
    SEAL.set(Some(on_alloc));
}

/// Lifts the seal of the calling thread, if there is one. The count of [`sealed_allocations`] stays readable.
pub fn unseal() {
    SEAL.set(None);
}

/// Whether the calling thread is sealed.
pub fn is_sealed() -> bool {
    SEAL.get().is_some()
}

/// Allocations and reallocations on the calling thread since it started.
pub fn thread_allocations() -> u64 {
    ALLOCATIONS.get()
}

/// Blocks that the calling thread has freed since it started.
pub fn thread_deallocations() -> u64 {
    DEALLOCATIONS.get()
}

/// Allocations on the calling thread while it was sealed with [`OnAlloc::Count`], since the last [`seal`].
pub fn sealed_allocations() -> u64 {
    SEALED_ALLOCATIONS.get()
}

/// Bytes allocated and not yet freed, over all threads.
pub fn live_bytes() -> usize {
    LIVE_BYTES.load(Ordering::Relaxed)
}

/// Makes a panic lift the seal of its thread before its message is printed, so that what the hook and the unwinding
/// allocate cannot hide the message. The previous hook runs after that. A thread that catches the panic is left
/// unsealed.
pub fn install_panic_hook() {
    let previous = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        unseal();
        previous(info);
    }));
}

// Const-initialised cells without a destructor: reading them never allocates and works until the thread is gone.
thread_local! {
    static SEAL: Cell<Option<OnAlloc>> = const { Cell::new(None) };
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static DEALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static SEALED_ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to `System` unchanged, so its guarantees are ours; the counting around it touches
// no memory of the caller and does not unwind (cells without destructors, an atomic, and an abort).
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note_allocation(layout.size());
        // SAFETY: the caller keeps `GlobalAlloc::alloc`'s contract.
        let block = unsafe { System.alloc(layout) };
        note_live(block, layout.size(), 0);
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note_allocation(layout.size());
        // SAFETY: the caller keeps `GlobalAlloc::alloc_zeroed`'s contract.
        let block = unsafe { System.alloc_zeroed(layout) };
        note_live(block, layout.size(), 0);
        block
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note_allocation(size);
        // SAFETY: the caller keeps `GlobalAlloc::realloc`'s contract, and `block` came from `System`.
        let moved = unsafe { System.realloc(block, layout, size) };
        note_live(moved, size, layout.size());
        moved
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        DEALLOCATIONS.set(DEALLOCATIONS.get() + 1);
        LIVE_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps `GlobalAlloc::dealloc`'s contract, and `block` came from `System`.
        unsafe { System.dealloc(block, layout) };
    }
}

#[inline]
fn note_allocation(size: usize) {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
    if let Some(on_alloc) = SEAL.get() {
        on_sealed_allocation(on_alloc, size);
    }
}

#[inline]
fn note_live(block: *mut u8, size: usize, size_before: usize) {
    if !block.is_null() {
        LIVE_BYTES.fetch_add(size, Ordering::Relaxed);
        LIVE_BYTES.fetch_sub(size_before, Ordering::Relaxed);
    }
}

#[cold]
fn on_sealed_allocation(on_alloc: OnAlloc, size: usize) {
    // A panic formats its message before any hook runs: that must come through, or nobody learns what happened.
    if thread::panicking() {
        return;
    }
    match on_alloc {
        OnAlloc::Count => SEALED_ALLOCATIONS.set(SEALED_ALLOCATIONS.get() + 1),
        OnAlloc::Abort => {
            unseal();
            let mut line = [0; 96];
            let len = complaint(size, &mut line);
            // SAFETY: `line` is ours and `len` is within it. A failed write is of no interest any more.
            unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), len) };
            std::process::abort();
        }
    }
}

/// Writes the abort's line into `line` without allocating, and returns its length.
fn complaint(size: usize, line: &mut [u8; 96]) -> usize {
    const BEFORE: &[u8] = b"tickwire: an allocation of ";
    const AFTER: &[u8] = b" bytes on a sealed thread\n";
    let mut digits = [0; 20];
    let mut first = digits.len();
    let mut rest = size;
    loop {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    let mut len = 0;
    for part in [BEFORE, &digits[first..], AFTER] {
        line[len..len + part.len()].copy_from_slice(part);
        len += part.len();
    }
    len
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_complaint_names_the_size() {
        for size in [0, 7, 1234, usize::MAX] {
            let mut line = [0; 96];
            let len = complaint(size, &mut line);
            let expected = format!("tickwire: an allocation of {size} bytes on a sealed thread\n");
            assert_eq!(&line[..len], expected.as_bytes());
        }
    }
}
