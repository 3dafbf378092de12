//! The counting and sealing allocator, installed for real. What must abort is run in a child: this test's own
//! executable, told by an environment variable which act to play.

use std::env;
use std::hint::black_box;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::thread;

use tickwire::heap::{self, Heap, OnAlloc};

#[global_allocator]
static HEAP: Heap = Heap;

const ACT: &str = "TICKWIRE_HEAP_TEST_ACT";
const SIGABRT: i32 = 6;

#[test]
fn a_sealed_thread_aborts_on_an_allocation() {
    let output = play("allocate_sealed");
    assert_eq!(output.status.signal(), Some(SIGABRT), "{output:?}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("tickwire: an allocation of 77 bytes on a sealed thread\n"), "{stderr}");
}

#[test]
fn a_sealed_thread_aborts_on_a_reallocation() {
    assert_eq!(play("reallocate_sealed").status.signal(), Some(SIGABRT));
}

#[test]
fn an_unsealed_thread_does_not() {
    for act in ["allocate_unsealed", "allocate_on_another_thread", "free_sealed"] {
        let output = play(act);
        assert!(output.status.success(), "{act}: {output:?}");
    }
}

#[test]
fn a_panic_on_a_sealed_thread_shows_its_message() {
    let output = play("panic_sealed");
    assert_eq!(output.status.signal(), None, "a panic, not an abort: {output:?}");
    assert!(!output.status.success());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("the score was 42"), "{stderr}");
}

#[test]
fn a_counting_seal_counts_and_goes_on() {
    heap::seal(OnAlloc::Count);
    let block = black_box(vec![1_u8; 100]);
    let counted = heap::sealed_allocations();
    drop(block);
    heap::unseal();
    black_box(vec![1_u8; 100]);
    assert_eq!(counted, 1);
    assert_eq!(heap::sealed_allocations(), 1);
}

#[test]
fn allocations_are_counted_per_thread() {
    let before = heap::thread_allocations();
    let freed_before = heap::thread_deallocations();
    let block = black_box(Box::new(7_u64));
    assert_eq!(heap::thread_allocations(), before + 1);
    drop(block);
    assert_eq!(heap::thread_deallocations(), freed_before + 1);
}

#[test]
fn live_bytes_rise_with_a_large_block() {
    const SIZE: usize = 64 << 20;
    let block = black_box(vec![1_u8; SIZE]);
    assert!(heap::live_bytes() >= SIZE);
    drop(block);
}

/// The child's side. In an ordinary run nobody names an act, and it has nothing to show.
#[test]
fn child() {
    let Ok(act) = env::var(ACT) else { return };
    let mut block = black_box(Vec::<u8>::with_capacity(10));
    match act.as_str() {
        "allocate_sealed" => {
            heap::seal(OnAlloc::Abort);
            black_box(Vec::<u8>::with_capacity(77));
        }
        "reallocate_sealed" => {
            heap::seal(OnAlloc::Abort);
            block.reserve_exact(1000);
        }
        "allocate_unsealed" => {
            heap::seal(OnAlloc::Abort);
            heap::unseal();
            black_box(Vec::<u8>::with_capacity(77));
        }
        "allocate_on_another_thread" => {
            let helper = thread::spawn(|| {
                thread::park();
                black_box(Vec::<u8>::with_capacity(77)).capacity()
            });
            heap::seal(OnAlloc::Abort);
            helper.thread().unpark();
            while !helper.is_finished() {
                thread::yield_now();
            }
            heap::unseal();
        }
        "free_sealed" => {
            heap::seal(OnAlloc::Abort);
            drop(block);
            heap::unseal();
        }
        "panic_sealed" => {
            heap::install_panic_hook();
            let score = black_box(42);
            heap::seal(OnAlloc::Abort);
            panic!("the score was {score}");
        }
        other => panic!("no such act: {other}"),
    }
}

fn play(act: &str) -> Output {
    Command::new(env::current_exe().expect("this test's path"))
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(ACT, act)
        .output()
        .expect("the child runs")
}
