//! A set of numbers that takes one bit per number, such as the targets that are accounted for, or the lost rows of a
//! shard.

use fetchmill_model::error::{Error, Result};

/// Maximum number of targets that can be verified. Their bits would take 8 GiB.
const COUNT_MAX: u64 = 1 << 36;
const WORD_BITS: u64 = u64::BITS as u64;

/// A set of numbers that takes one bit per number, or 125 MB for a billion numbers.
#[derive(Debug, Default)]
pub(crate) struct Bits {
    words: Vec<u64>,
    count: u64,
}

impl Bits {
    /// Creates a set for `count` numbers, with all bits clear. The system allocates memory only for bits that are set.
    pub(crate) fn new(count: u64) -> Result<Self> {
        if count > COUNT_MAX {
            return Err(Error::Journal(format!(
                "the journal is damaged: it counts {count} targets, which is more than a job can have"
            )));
        }
        Ok(Bits { words: vec![0; count.div_ceil(WORD_BITS) as usize], count })
    }

    /// Sets a bit. Returns whether the bit was clear. `None` if the number is out of range.
    pub(crate) fn set(&mut self, number: u64) -> Option<bool> {
        if number >= self.count {
            return None;
        }
        let word = self.words.get_mut((number / WORD_BITS) as usize)?;
        let bit = 1 << (number % WORD_BITS);
        let was_clear = *word & bit == 0;
        *word |= bit;
        Some(was_clear)
    }

    /// Returns whether the bit of a number is set.
    pub(crate) fn has(&self, number: u64) -> bool {
        number < self.count
            && self
                .words
                .get((number / WORD_BITS) as usize)
                .is_some_and(|word| word & (1 << (number % WORD_BITS)) != 0)
    }

    /// Returns the number of set bits.
    pub(crate) fn set_count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Iterates over the runs of clear numbers. A run consists of its first number and its length.
    pub(crate) fn clear_runs(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let first = self.next_where(at, false)?;
            let end = self.next_where(first, true).unwrap_or(self.count);
            at = end;
            Some((first, end - first))
        })
    }

    /// Returns the first number, starting at `from`, whose bit is set (or clear, if `is_set` is false). Skips whole
    /// words at a time.
    fn next_where(&self, from: u64, is_set: bool) -> Option<u64> {
        let mut at = from;
        while at < self.count {
            let word = *self.words.get((at / WORD_BITS) as usize)?;
            let wanted = (if is_set { word } else { !word }) >> (at % WORD_BITS);
            if wanted != 0 {
                let found = at + u64::from(wanted.trailing_zeros());
                return (found < self.count).then_some(found);
            }
            at = (at / WORD_BITS + 1) * WORD_BITS;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_number_is_set_once() {
        let mut bits = Bits::new(65).unwrap();

        assert_eq!(bits.set(64), Some(true));
        assert_eq!(bits.set(64), Some(false));
        assert_eq!(bits.set(65), None);
        assert!(bits.has(64) && !bits.has(63) && !bits.has(65));
    }

    #[test]
    fn an_impossible_number_of_targets_is_refused() {
        assert_eq!(Bits::new(u64::MAX).unwrap_err().exit_code(), 10);
    }

    proptest! {
        #[test]
        fn runs_are_what_was_never_set(count in 0_u64..300, set in proptest::collection::btree_set(0_u64..300, 0..300)) {
            let mut bits = Bits::new(count).unwrap();
            for number in &set {
                bits.set(*number);
            }

            let clear: BTreeSet<u64> = bits.clear_runs().flat_map(|(first, length)| first..first + length).collect();

            prop_assert_eq!(&clear, &(0..count).filter(|number| !set.contains(number)).collect::<BTreeSet<_>>());
            prop_assert_eq!(bits.set_count() + clear.len() as u64, count);
            let runs: Vec<_> = bits.clear_runs().collect();
            prop_assert!(runs.windows(2).all(|pair| pair[0].0 + pair[0].1 < pair[1].0));
        }
    }
}
