//! Snapshot messages smaller than they are written: their records coded as the head says, and plain again
//! (docs/protocol/fignet-sync.md, section 4).

use crate::lz4::{self, Compressor, Lz4Error, PAYLOAD_BYTES_MAX};
use crate::wire::fignet::huffman::{self, HuffmanError};
use crate::wire::fignet::runs::{self, RunsError};
use crate::wire::fignet::snapshot::{
    Coder, HEAD_BYTES_MAX, Head, MESSAGE_BYTES_MAX, SnapshotError, set_coder,
};

/// What pays for snapshots: 23 to 39% fewer bytes than plain ones, at every age (`docs/performance.md`).
pub const DEFAULT_CODER: Coder = Coder::Huffman;

/// Room that [`unpack`] needs: a head, and records as large as a compressed payload may be.
pub const SCRATCH_BYTES: usize = HEAD_BYTES_MAX + PAYLOAD_BYTES_MAX;

/// Codes messages. Made once and used again and again.
#[derive(Debug)]
pub struct Packer {
    compressor: Compressor,
    coded: Box<[u8; MESSAGE_BYTES_MAX]>,
}

/// Why a coded message is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnpackError {
    /// A head that is none.
    Head(SnapshotError),
    /// Records that are no runs.
    Runs(RunsError),
    /// Records that are no Huffman code.
    Huffman(HuffmanError),
    /// Records that are no LZ4 block.
    Lz4(Lz4Error),
    /// A message of more than [`MESSAGE_BYTES_MAX`].
    TooLong,
}

impl Packer {
    /// A packer; this is the one place that allocates.
    pub fn new() -> Self {
        Self { compressor: Compressor::new(), coded: Box::new([0; MESSAGE_BYTES_MAX]) }
    }

    /// Codes the plain `message` with `coder`, in place, and returns its new length. Where that would not be smaller, the
    /// message stays as it is.
    ///
    /// # Panics
    /// When `message` does not begin with a head, is not plain, or is longer than [`MESSAGE_BYTES_MAX`].
    pub fn pack(&mut self, coder: Coder, message: &mut [u8]) -> usize {
        let head = Head::parse(message).expect("a message begins with its head");
        assert!(head.coder == Coder::Plain && message.len() <= MESSAGE_BYTES_MAX, "not a plain message");
        let records = &mut message[head.byte_len()..];
        // Not smaller is not worth it: whoever needs more room than this is refused.
        let room = &mut self.coded[..records.len().saturating_sub(1)];
        let coded = match coder {
            Coder::Plain => None,
            Coder::Runs => runs::compress(records, room),
            Coder::Huffman => huffman::compress(records, room),
            Coder::Lz4 => self.compressor.compress(records, room),
        };
        let Some(len) = coded else { return message.len() };
        records[..len].copy_from_slice(&room[..len]);
        set_coder(message, coder);
        head.byte_len() + len
    }
}

impl Default for Packer {
    fn default() -> Self {
        Self::new()
    }
}

/// The plain form of any `message`: itself, or what its records are the code of, in `scratch`.
pub fn unpack<'a>(message: &'a [u8], scratch: &'a mut [u8; SCRATCH_BYTES]) -> Result<&'a [u8], UnpackError> {
    let head = Head::parse(message).map_err(UnpackError::Head)?;
    if message.len() > MESSAGE_BYTES_MAX {
        return Err(UnpackError::TooLong);
    }
    if head.coder == Coder::Plain {
        return Ok(message);
    }
    let (front, records) = message.split_at(head.byte_len());
    let (head_room, room) = scratch.split_at_mut(head.byte_len());
    head_room.copy_from_slice(front);
    let room_max = MESSAGE_BYTES_MAX - head.byte_len();
    let len = match head.coder {
        Coder::Plain => records.len(),
        Coder::Runs => runs::decompress(records, &mut room[..room_max]).map_err(UnpackError::Runs)?,
        Coder::Huffman => {
            huffman::decompress(records, &mut room[..room_max]).map_err(UnpackError::Huffman)?
        }
        Coder::Lz4 => {
            let room = room.first_chunk_mut().expect("room for a compressed payload");
            lz4::decompress(records, room).map_err(UnpackError::Lz4)?
        }
    };
    if len > room_max {
        return Err(UnpackError::TooLong);
    }
    set_coder(head_room, Coder::Plain);
    Ok(&scratch[..head.byte_len() + len])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::cursor::Writer;
    use crate::wire::fignet::snapshot::{Precision, put_head};

    const CODERS: [Coder; 4] = [Coder::Plain, Coder::Runs, Coder::Huffman, Coder::Lz4];

    fn message(records: &[u8], baseline_age: Option<u8>) -> Vec<u8> {
        let mut out = [0; MESSAGE_BYTES_MAX];
        let mut writer = Writer::new(&mut out);
        let precision = Precision::Coarse;
        let head =
            Head { sequence: 9, timestamp_us: 7, count: 3, coder: Coder::Plain, precision, baseline_age };
        put_head(&mut writer, &head);
        writer.bytes(records);
        let len = writer.finish().unwrap();
        out[..len].to_vec()
    }

    fn records() -> impl Strategy<Value = Vec<u8>> {
        let bytes = prop_oneof![4 => Just(0u8), 2 => 0..4u8, 1 => any::<u8>()];
        prop_oneof![
            prop::collection::vec(bytes, 0..MESSAGE_BYTES_MAX - HEAD_BYTES_MAX),
            prop::collection::vec(any::<u8>(), 0..MESSAGE_BYTES_MAX - HEAD_BYTES_MAX),
        ]
    }

    /// Every coder really is used where it helps.
    #[test]
    fn each_coder_shrinks_sparse_records() {
        let sparse: Vec<u8> = (0..600).map(|at| if at % 6 == 0 { (at / 6) as u8 } else { 0 }).collect();
        let plain = message(&sparse, Some(3));
        for coder in CODERS {
            let mut packed = plain.clone();
            let len = Packer::new().pack(coder, &mut packed);
            assert_eq!(Head::parse(&packed).unwrap().coder, coder);
            assert_eq!(len < plain.len(), coder != Coder::Plain, "{coder:?}");
        }
    }

    #[test]
    fn what_is_no_code_is_refused() {
        let mut scratch = [0; SCRATCH_BYTES];
        for (coder, records, error) in [
            (Coder::Runs, &[0u8, 0][..], UnpackError::Runs(RunsError::Empty)),
            (Coder::Huffman, &[0xFF], UnpackError::Huffman(HuffmanError::Truncated)),
            (Coder::Lz4, &[0, 0, 0], UnpackError::Lz4(Lz4Error::Size)),
            (Coder::Runs, &[0xF0; 80], UnpackError::Runs(RunsError::TooLong)),
        ] {
            let mut bytes = message(records, None);
            set_coder(&mut bytes, coder);
            assert_eq!(unpack(&bytes, &mut scratch), Err(error));
        }
        let head = UnpackError::Head(SnapshotError::Truncated);
        assert_eq!(unpack(&message(&[], None)[..12], &mut scratch), Err(head));
        assert_eq!(unpack(&[0; MESSAGE_BYTES_MAX + 1], &mut scratch), Err(UnpackError::TooLong));
    }

    /// An LZ4 block may give more than a message holds.
    #[test]
    fn an_original_longer_than_a_message_is_refused() {
        let original = [0; PAYLOAD_BYTES_MAX];
        let mut block = [0; 200];
        let len = Compressor::new().compress(&original, &mut block).unwrap();
        let mut bytes = message(&block[..len], None);
        set_coder(&mut bytes, Coder::Lz4);
        assert_eq!(unpack(&bytes, &mut [0; SCRATCH_BYTES]), Err(UnpackError::TooLong));
    }

    proptest! {
        #[test]
        fn what_is_packed_comes_back(records in records(), age in prop::option::of(1..=64u8), coder in 0..4usize) {
            let plain = message(&records, age);
            let mut packed = plain.clone();
            let len = Packer::new().pack(CODERS[coder], &mut packed);
            prop_assert!(len <= plain.len());
            let mut scratch = [0xEE; SCRATCH_BYTES];
            prop_assert_eq!(unpack(&packed[..len], &mut scratch), Ok(&plain[..]));
        }

        #[test]
        fn any_bytes_do_not_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200), flags in 0..16u8) {
            if let Some(at) = bytes.get_mut(12) {
                *at = flags;
            }
            let mut scratch = [0; SCRATCH_BYTES];
            if let Ok(plain) = unpack(&bytes, &mut scratch) {
                prop_assert!(plain.len() <= MESSAGE_BYTES_MAX);
                prop_assert_eq!(Head::parse(plain).map(|head| head.coder), Ok(Coder::Plain));
            }
        }
    }
}
