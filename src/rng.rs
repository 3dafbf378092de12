//! Random numbers, integers only: a seeded generator for everything that must replay, and the source of session
//! tokens, which on a real server is the operating system's cryptographic generator.

/// A seeded generator (xoshiro256**), for the world, the simulator and tests. The same seed gives the same numbers
/// on every machine. Not for secrets.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// A generator for `seed`; every seed, 0 included, is a good one (the state is spread by SplitMix64).
    pub fn new(seed: u64) -> Self {
        let mut spread = seed;
        let state = std::array::from_fn(|_| {
            spread = spread.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = spread;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        });
        Self { state }
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// 32 random bits.
    pub fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    /// A number from 0 to `bound` − 1 (multiply and shift; the bias is below 2⁻³²).
    ///
    /// # Panics
    /// When `bound` is 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        assert!(bound > 0, "an empty range has no number");
        ((u64::from(self.next_u32()) * u64::from(bound)) >> 32) as u32
    }

    /// A number from `low` to `high`, both included.
    ///
    /// # Panics
    /// When `low` is above `high`.
    pub fn between(&mut self, low: i32, high: i32) -> i32 {
        assert!(low <= high, "an empty range has no number");
        let span = high.wrapping_sub(low) as u32;
        if span == u32::MAX {
            return self.next_u32() as i32;
        }
        low.wrapping_add(self.below(span + 1) as i32)
    }

    /// True `numerator` times in `denominator`.
    ///
    /// # Panics
    /// When `denominator` is 0.
    pub fn chance(&mut self, numerator: u32, denominator: u32) -> bool {
        self.below(denominator) < numerator
    }

    /// A digest of the state, so that a world's hash covers the numbers still to come.
    pub fn state_hash(&self) -> u64 {
        self.state
            .iter()
            .fold(0, |hash: u64, word| (hash.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }
}

/// Where session tokens come from.
#[derive(Clone, Debug)]
pub enum TokenSource {
    /// The operating system's generator: what a server uses.
    Os,
    /// A seeded generator: replayable, for simulation only, since whoever knows the seed knows every token.
    Seeded(Rng),
}

impl TokenSource {
    /// 64 bits that nobody can guess (from [`TokenSource::Os`]).
    ///
    /// # Panics
    /// When the operating system has no random numbers to give, which leaves no safe way to go on.
    pub fn next_u64(&mut self) -> u64 {
        match self {
            Self::Os => getrandom::u64().expect("the operating system's random generator failed"),
            Self::Seeded(rng) => rng.next_u64(),
        }
    }

    /// Another source of the same kind, with tokens of its own.
    pub fn fork(&mut self) -> Self {
        match self {
            Self::Os => Self::Os,
            Self::Seeded(rng) => Self::Seeded(Rng::new(rng.next_u64())),
        }
    }

    /// 32 bits, never 0.
    ///
    /// # Panics
    /// As [`TokenSource::next_u64`].
    pub fn next_token(&mut self) -> u32 {
        loop {
            let token = self.next_u64() as u32;
            if token != 0 {
                return token;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference vector of xoshiro256** for the state {1, 2, 3, 4}.
    #[test]
    fn matches_the_reference_sequence() {
        let mut rng = Rng { state: [1, 2, 3, 4] };
        let expected: [u64; 5] = [11520, 0, 1509978240, 1215971899390074240, 1216172134540287360];
        assert_eq!(expected.map(|_| rng.next_u64()), expected);
    }

    #[test]
    fn ranges_hold_their_ends() {
        let mut rng = Rng::new(7);
        let mut seen = [false; 5];
        for _ in 0..200 {
            seen[(rng.between(-2, 2) + 2) as usize] = true;
        }
        assert_eq!(seen, [true; 5]);
        assert_eq!(rng.between(3, 3), 3);
        rng.between(i32::MIN, i32::MAX);
    }

    /// Tokens come from the operating system and differ (field cases 30 and 31).
    #[test]
    fn case_31_tokens_come_from_the_system() {
        let mut source = TokenSource::Os;
        let tokens: Vec<u32> = (0..64).map(|_| source.next_token()).collect();
        let mut unique = tokens.clone();
        unique.sort_unstable();
        unique.dedup();
        assert!(unique.len() > 60, "{tokens:?}");
        assert!(!tokens.contains(&0));
    }
}
