//! A coder for sparse bytes: runs of zeros are shortened (docs/protocol/fignet-sync.md, section 4.1).
//!
//! The output is a sequence of groups: a byte with the number of zeros in its high four bits and the number of other
//! bytes in its low four, then those bytes.

/// Most zeros, and most other bytes, of one group.
const GROUP_MAX: usize = 15;

/// Why coded bytes are dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunsError {
    /// A group that ends before its bytes.
    Truncated,
    /// A group of nothing.
    Empty,
    /// More than there is room for.
    TooLong,
}

/// Writes the coded form of `bytes` to the front of `out` and returns its length; `None` when it does not fit.
pub fn compress(bytes: &[u8], out: &mut [u8]) -> Option<usize> {
    let mut left = bytes;
    let mut len = 0;
    while !left.is_empty() {
        let zeros = left.iter().take(GROUP_MAX).take_while(|&&byte| byte == 0).count();
        let (_, rest) = left.split_at(zeros);
        let others = literal_len(rest);
        let (literal, rest) = rest.split_at(others);
        *out.get_mut(len)? = (zeros << 4 | others) as u8;
        out.get_mut(len + 1..len + 1 + others)?.copy_from_slice(literal);
        len += 1 + others;
        left = rest;
    }
    Some(len)
}

/// Writes the original of the coded `bytes` to the front of `out` and returns its length.
pub fn decompress(bytes: &[u8], out: &mut [u8]) -> Result<usize, RunsError> {
    let mut left = bytes;
    let mut len = 0;
    while let Some((&group, rest)) = left.split_first() {
        if group == 0 {
            return Err(RunsError::Empty);
        }
        let (zeros, others) = (usize::from(group >> 4), usize::from(group & 15));
        let (literal, rest) = rest.split_at_checked(others).ok_or(RunsError::Truncated)?;
        let room = out.get_mut(len..len + zeros + others).ok_or(RunsError::TooLong)?;
        room[..zeros].fill(0);
        room[zeros..].copy_from_slice(literal);
        len += room.len();
        left = rest;
    }
    Ok(len)
}

/// How many bytes go into a group as they are: up to the next two zeros in a row, which a new group shortens.
fn literal_len(bytes: &[u8]) -> usize {
    let most = bytes.len().min(GROUP_MAX);
    let next_run = bytes[..most].windows(2).position(|pair| pair == [0, 0]);
    next_run.unwrap_or(most)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_example_of_the_documentation() {
        let original = [7, 0, 0, 1, 2, 0, 9, 0, 0, 0];
        let mut coded = [0; 16];
        let len = compress(&original, &mut coded).unwrap();
        assert_eq!(coded[..len], [0x01, 7, 0x24, 1, 2, 0, 9, 0x30]);
        let mut back = [0xEE; 10];
        assert_eq!(decompress(&coded[..len], &mut back), Ok(10));
        assert_eq!(back, original);
    }

    #[test]
    fn what_is_no_code_is_refused() {
        let mut out = [0; 20];
        assert_eq!(decompress(&[0], &mut out), Err(RunsError::Empty));
        assert_eq!(decompress(&[0x03, 1, 2], &mut out), Err(RunsError::Truncated));
        assert_eq!(decompress(&[0xF0, 0xF0], &mut out), Err(RunsError::TooLong));
        assert_eq!(decompress(&[], &mut out), Ok(0));
        assert_eq!(compress(&[1, 2, 3], &mut out[..3]), None);
    }

    proptest! {
        #[test]
        fn what_is_compressed_comes_back(
            bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(0), any::<u8>()], 0..300),
        ) {
            let mut coded = [0; 400];
            let len = compress(&bytes, &mut coded).unwrap();
            prop_assert!(len <= bytes.len() + bytes.len().div_ceil(GROUP_MAX));
            let mut back = vec![0xEE; bytes.len()];
            prop_assert_eq!(decompress(&coded[..len], &mut back), Ok(bytes.len()));
            prop_assert_eq!(back, bytes);
        }

        #[test]
        fn any_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..64), room in 0..200usize) {
            let mut out = vec![0; room];
            if let Ok(len) = decompress(&bytes, &mut out) {
                prop_assert!(len <= room);
            }
        }
    }
}
