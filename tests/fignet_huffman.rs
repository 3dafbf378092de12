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

/// How often each byte comes in the records of messages, and once more, so that every byte has a code.
fn counts() -> [u64; 256] {
    let mut counts = [1; 256];
    for recording in [corpus::level1(), corpus::stress()] {
        for age in AGES {
            for message in fignet::messages(&recording, Precision::Exact, Some(age)) {
                let head = Head::parse(&message).expect("a message");
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
