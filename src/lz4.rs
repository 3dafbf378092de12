//! Compressed payloads: the original size in two bytes, then one LZ4 block (Aegis 2.6). Works on the caller's slices;
//! nothing is allocated per call.

use lz4_flex::block::{self, CompressTable};

use crate::wire::aegis::PAYLOAD_BYTES_MAX;

/// Payloads below this are sent as they are: they hardly ever shrink.
pub const THRESHOLD_BYTES: usize = 128;

/// Bytes of the original size in front of the block.
const SIZE_BYTES: usize = 2;

/// Compresses payloads, with a table made once.
pub struct Compressor {
    table: CompressTable,
    /// The block is written here first: the encoder wants room for the worst case.
    block: Box<[u8]>,
}

impl Compressor {
    /// A compressor.
    pub fn new() -> Self {
        let block_bytes_max = block::get_maximum_output_size(PAYLOAD_BYTES_MAX);
        Self { table: CompressTable::small(), block: vec![0; block_bytes_max].into_boxed_slice() }
    }

    /// Writes the compressed form of `payload` into `out` and returns its length; `None` when the payload is below
    /// the threshold or does not come out smaller.
    ///
    /// # Panics
    /// When `payload` is longer than [`PAYLOAD_BYTES_MAX`].
    pub fn compress(&mut self, payload: &[u8], out: &mut [u8; PAYLOAD_BYTES_MAX]) -> Option<usize> {
        assert!(payload.len() <= PAYLOAD_BYTES_MAX, "a payload longer than a datagram");
        if payload.len() < THRESHOLD_BYTES {
            return None;
        }
        let len = block::compress_into_with_table(payload, &mut self.block, &mut self.table).ok()?;
        let total = SIZE_BYTES + len;
        if total >= payload.len() {
            return None;
        }
        out[..SIZE_BYTES].copy_from_slice(&(payload.len() as u16).to_le_bytes());
        out[SIZE_BYTES..total].copy_from_slice(&self.block[..len]);
        Some(total)
    }
}

impl Default for Compressor {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compressor").finish_non_exhaustive()
    }
}

/// Why a compressed payload is malformed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lz4Error {
    /// No room for the size.
    Truncated,
    /// A size of 0, or above what a datagram can hold.
    Size,
    /// Not an LZ4 block, or not one of that size.
    Block,
}

/// Writes the original of a compressed payload into `out` and returns its length. Never reads or writes past its
/// buffers, and never writes more than the announced size.
pub fn decompress(bytes: &[u8], out: &mut [u8; PAYLOAD_BYTES_MAX]) -> Result<usize, Lz4Error> {
    let (size, block) = bytes.split_first_chunk::<SIZE_BYTES>().ok_or(Lz4Error::Truncated)?;
    let size = usize::from(u16::from_le_bytes(*size));
    let Some(out) = out.get_mut(..size).filter(|out| !out.is_empty()) else { return Err(Lz4Error::Size) };
    match block::decompress_into(block, out) {
        Ok(len) if len == size => Ok(len),
        _ => Err(Lz4Error::Block),
    }
}
