//! The fixed Huffman code of FigNet's snapshots is what the recorded rooms ask for.
//! `RECORD_HUFFMAN=1 cargo test --test fignet_huffman` writes it anew.

#[path = "../benches/support/corpus.rs"]
mod corpus;
#[path = "../benches/support/fignet.rs"]
mod fignet;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use tickwire::wire::fignet::huffman::{CODE_BITS_MAX, LENGTHS};
use tickwire::wire::fignet::snapshot::{Head, Precision};

/// Baseline ages of near and far peers, in ticks.
const AGES: [u32; 4] = [3, 6, 9, 15];

#[test]
fn the_code_is_what_the_corpus_asks_for() {
    let lengths = code_lengths(counts());
    if std::env::var_os("RECORD_HUFFMAN").is_some() {
        fs::write(
            Path::new(env!("CARGO_MANIFEST_DIR")).join("src/wire/fignet/huffman/lengths.rs"),
            source(&lengths),
        )
        .expect("the source is writable");
        return;
    }
    assert_eq!(lengths, LENGTHS);
}

/// What the code saves it does not owe to being made from the very messages that it is measured with: a code made from
/// the first half of each recording serves the second half as well, to a twentieth.
#[test]
fn the_code_serves_messages_that_it_was_not_made_from() {
    let (made_from, others) = (counts_of(|part| part < 0.5), counts_of(|part| part >= 0.5));
    let plain: u64 = others.iter().sum::<u64>() * 8;
    let bits = |lengths: &[u8; 256]| -> u64 {
        others.iter().zip(lengths).map(|(count, &length)| count * u64::from(length)).sum()
    };
    let (own, foreign) = (bits(&code_lengths(others)), bits(&code_lengths(made_from)));
    println!("{plain} bits, {own} by the own code, {foreign} by that of the first halves");
    assert!(foreign * 20 <= own * 21, "{foreign} bits instead of {own}");
}

/// No delta of the recorded rooms grows, so that the coder is always used.
#[test]
fn no_recorded_delta_grows() {
    for recording in [corpus::level1(), corpus::stress()] {
        for message in fignet::messages(&recording, Precision::Exact, Some(12)) {
            let head = Head::parse(&message).expect("a message");
            let records = &message[head.byte_len()..];
            let bits: usize = records.iter().map(|&byte| usize::from(LENGTHS[usize::from(byte)])).sum();
            assert!(bits.div_ceil(8) <= records.len(), "{} bytes take {bits} bits", records.len());
        }
    }
}

fn counts() -> [u64; 256] {
    counts_of(|_| true)
}

/// How often each byte comes in the records of the messages in the chosen part of each recording (0 to 1), and once
/// more, so that every byte has a code.
fn counts_of(is_chosen: impl Fn(f64) -> bool) -> [u64; 256] {
    let mut counts = [1; 256];
    for recording in [corpus::level1(), corpus::stress()] {
        for age in AGES {
            let messages = fignet::messages(&recording, Precision::Exact, Some(age));
            let part = |number: usize| number as f64 / messages.len() as f64;
            for (_, message) in messages.iter().enumerate().filter(|(number, _)| is_chosen(part(*number))) {
                let head = Head::parse(message).expect("a message");
                message[head.byte_len()..].iter().for_each(|&byte| counts[usize::from(byte)] += 1);
            }
        }
    }
    counts
}

/// Lengths of a Huffman code of at most [`CODE_BITS_MAX`] bits: frequencies are flattened until it is short enough.
fn code_lengths(mut counts: [u64; 256]) -> [u8; 256] {
    loop {
        let lengths = unlimited_lengths(&counts);
        if lengths.iter().all(|&length| usize::from(length) <= CODE_BITS_MAX) {
            return lengths;
        }
        counts = counts.map(|count| count / 2 + 1);
    }
}

fn unlimited_lengths(counts: &[u64; 256]) -> [u8; 256] {
    // Leaves are 0 to 255, and every inner node comes after its children.
    let mut parents = vec![0; 511];
    let mut heap: BinaryHeap<_> =
        counts.iter().zip(0..).map(|(&count, node)| Reverse((count, node))).collect();
    for inner in 256..511 {
        let (Some(Reverse((a, left))), Some(Reverse((b, right)))) = (heap.pop(), heap.pop()) else { break };
        (parents[left], parents[right]) = (inner, inner);
        heap.push(Reverse((a + b, inner)));
    }
    let mut depths = vec![0u8; 511];
    for node in (0..510).rev() {
        depths[node] = depths[parents[node]] + 1;
    }
    std::array::from_fn(|symbol| depths[symbol])
}

fn source(lengths: &[u8; 256]) -> String {
    let mut text = String::from(
        "//! The lengths of the codes, from the recorded rooms of `benches/corpus` (`tests/fignet_huffman.rs` makes them).\n\n\
         /// Bits of the code of each byte.\n#[rustfmt::skip]\npub const LENGTHS: [u8; 256] = [\n",
    );
    for row in lengths.chunks(16) {
        let row: Vec<String> = row.iter().map(|length| format!("{length:2}")).collect();
        writeln!(text, "    {},", row.join(", ")).expect("a string grows");
    }
    text.push_str("];\n");
    text
}
