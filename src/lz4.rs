//! Compressed payloads (Aegis 2.6): the size of the original in two bytes, little-endian, then one LZ4 block. Over the
//! caller's slices, without an allocation per call.

use std::fmt;

use lz4_flex::block::{self, CompressTable};

/// Largest original, and largest compressed payload (Aegis 2.1).
pub const PAYLOAD_BYTES_MAX: usize = 1182;

/// Payloads from this size on are likely to shrink: shorter ones are not tried.
pub const THRESHOLD_BYTES: usize = 128;

/// Bytes of the original's size.
const SIZE_BYTES: usize = 2;

/// The compressing side: a hash table and room for one block, made once and used again and again.
pub struct Compressor {
    table: CompressTable,
    block: Box<[u8]>,
}

impl Compressor {
    /// A compressor; this is the one place that allocates.
    pub fn new() -> Self {
        let block_bytes_max = block::get_maximum_output_size(PAYLOAD_BYTES_MAX);
        Self { table: CompressTable::small(), block: vec![0; block_bytes_max].into_boxed_slice() }
    }

    /// Writes the compressed form of `payload` to the front of `out` and returns its length. `None` when the payload
    /// is to be sent as it is: it is shorter than [`THRESHOLD_BYTES`], or does not come out smaller, or what comes out
    /// does not fit `out`.
    ///
    /// # Panics
    /// When `payload` is longer than [`PAYLOAD_BYTES_MAX`].
    pub fn compress(&mut self, payload: &[u8], out: &mut [u8]) -> Option<usize> {
        assert!(payload.len() <= PAYLOAD_BYTES_MAX, "a payload longer than a datagram");
        if payload.len() < THRESHOLD_BYTES {
            return None;
        }
        let block_len = block::compress_into_with_table(payload, &mut self.block, &mut self.table)
            .expect("room for the largest block");
        let len = SIZE_BYTES + block_len;
        if len >= payload.len() {
            return None;
        }
        let (size, block) = out.get_mut(..len)?.split_at_mut(SIZE_BYTES);
        size.copy_from_slice(&(payload.len() as u16).to_le_bytes());
        block.copy_from_slice(&self.block[..block_len]);
        Some(len)
    }
}

impl Default for Compressor {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressor").finish_non_exhaustive()
    }
}

/// Why a compressed payload is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lz4Error {
    /// Shorter than a size.
    Truncated,
    /// A size of 0, or above [`PAYLOAD_BYTES_MAX`].
    Size,
    /// No valid block, or one that gives more than the size says.
    Block,
    /// A block that gives fewer bytes than the size says.
    Short,
}

/// Writes the original of a compressed payload to the front of `out` and returns its length. Whatever the block says, at most
/// the announced size is written, and nothing is read past `bytes`.
pub fn decompress(bytes: &[u8], out: &mut [u8; PAYLOAD_BYTES_MAX]) -> Result<usize, Lz4Error> {
    let (&size, block) = bytes.split_first_chunk::<SIZE_BYTES>().ok_or(Lz4Error::Truncated)?;
    let size = usize::from(u16::from_le_bytes(size));
    if size == 0 {
        return Err(Lz4Error::Size);
    }
    let out = out.get_mut(..size).ok_or(Lz4Error::Size)?;
    match block::decompress_into(block, out) {
        Ok(len) if len == size => Ok(size),
        Ok(_) => Err(Lz4Error::Short),
        Err(_) => Err(Lz4Error::Block),
    }
}

#[cfg(test)]
mod tests;
