//! Medians, and how far they can be trusted.

use crate::work::mix;

/// The middle of several values, and where it may lie.
#[derive(Clone, Copy, Debug)]
pub struct Median {
    pub value: f64,
    /// The ends of the interval that holds 95 % of the medians of resampled values.
    pub low: f64,
    pub high: f64,
}

/// Resamples of a bootstrap.
const RESAMPLES: u64 = 4000;

impl Median {
    /// Of `values`, with a percentile bootstrap that always draws the same. `None` when there are none.
    pub fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.collect();
        let mut drawn = values.clone();
        let value = median(&mut drawn)?;
        let mut medians = Vec::with_capacity(RESAMPLES as usize);
        for resample in 0..RESAMPLES {
            for (index, slot) in drawn.iter_mut().enumerate() {
                let chance = mix(resample << 32 | index as u64);
                *slot = values[(chance % values.len() as u64) as usize];
            }
            medians.push(median(&mut drawn)?);
        }
        medians.sort_by(f64::total_cmp);
        let at = |share: f64| medians[((medians.len() - 1) as f64 * share).round() as usize];
        Some(Self { value, low: at(0.025), high: at(0.975) })
    }
}

/// The middle of `values`, which are put in order; of an even number the mean of the two in the middle.
pub fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        1 => Some(values[middle]),
        _ => Some((values.get(middle.checked_sub(1)?)? + values[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&mut [8.0, 1.0, 2.0, 4.0]), Some(3.0));
        assert_eq!(median(&mut []), None);
    }

    #[test]
    fn the_interval_holds_the_median_and_narrows_with_more_values() {
        let spread = |count: u64| Median::of((0..count).map(|n| (mix(n) % 1000) as f64)).unwrap();
        let (few, many) = (spread(9), spread(900));
        for median in [few, many] {
            assert!(median.low <= median.value && median.value <= median.high, "{median:?}");
        }
        assert!(many.high - many.low < (few.high - few.low) / 3.0, "{few:?} {many:?}");
        assert_eq!(spread(9).low, few.low, "the same draw");
        assert!(Median::of(std::iter::empty()).is_none());
    }
}
