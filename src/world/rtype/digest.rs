//! A digest of a world's state: 64-bit words folded by rotate, xor and multiply. Order matters; not for secrets.

/// The running digest.
pub(super) struct Digest(u64);

impl Digest {
    pub(super) const fn new() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }

    #[inline]
    pub(super) fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    /// The digest, its high bits spread over the low ones.
    pub(super) const fn finish(self) -> u64 {
        let spread = (self.0 ^ (self.0 >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        spread ^ (spread >> 32)
    }
}
