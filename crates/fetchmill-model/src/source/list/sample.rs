//! `--sample`: a given number of targets from a list, each chosen with the same probability.
//!
//! A fixed permutation maps the number of each entry to a 64-bit number. The entries with the lowest results form the
//! sample. Before the job starts, the list is read once to find the highest result in the sample. This result alone
//! determines the sample, both in this run and in a resumed run. No two entries have the same result, so the sample has
//! exactly the requested size.

use std::collections::BinaryHeap;

use crate::error::{Error, Result};
use crate::limits::SAMPLE_TARGETS_MAX;

/// The selected entries of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListSample {
    /// The highest result of the permutation that is still in the sample.
    pub up_to: u64,
}

impl ListSample {
    pub(super) fn takes(self, entry: u64) -> bool {
        scattered(entry) <= self.up_to
    }
}

/// Reads a list to find a [`ListSample`].
pub(super) struct SampleFinder {
    count: usize,
    lowest: BinaryHeap<u64>,
}

impl SampleFinder {
    pub(super) fn new(count: u64) -> Result<Self> {
        if count == 0 || count > SAMPLE_TARGETS_MAX {
            return Err(Error::Usage(format!(
                "--sample must be between 1 and {SAMPLE_TARGETS_MAX}, not {count}"
            )));
        }
        Ok(SampleFinder { count: count as usize, lowest: BinaryHeap::new() })
    }

    pub(super) fn offer(&mut self, entry: u64) {
        let number = scattered(entry);
        if self.lowest.len() < self.count {
            self.lowest.push(number);
        } else if let Some(mut highest) = self.lowest.peek_mut()
            && number < *highest
        {
            *highest = number;
        }
    }

    pub(super) fn sample(&self) -> ListSample {
        let is_all = self.lowest.len() < self.count;
        ListSample { up_to: if is_all { u64::MAX } else { self.lowest.peek().copied().unwrap_or(u64::MAX) } }
    }
}

/// Permutes the 64-bit numbers with the last steps of splitmix64. Each of these steps is invertible.
fn scattered(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(of: u64, count: u64) -> Vec<u64> {
        let mut finder = SampleFinder::new(count).unwrap();
        (0..of).for_each(|entry| finder.offer(entry));
        let sample = finder.sample();
        (0..of).filter(|entry| sample.takes(*entry)).collect()
    }

    #[test]
    fn exactly_so_many_are_taken_from_everywhere() {
        let taken = taken(100_000, 1000);

        assert_eq!(taken.len(), 1000);
        let in_first_half = taken.iter().filter(|entry| **entry < 50_000).count();
        assert!((400..600).contains(&in_first_half), "{in_first_half}");
    }

    #[test]
    fn of_a_short_list_all_are_taken() {
        assert_eq!(taken(10, 10).len(), 10);
        assert_eq!(taken(10, 1000).len(), 10);
        assert_eq!(taken(0, 1), [0; 0]);
    }

    #[test]
    fn a_sample_has_a_bound() {
        for count in [0, SAMPLE_TARGETS_MAX + 1] {
            assert_eq!(SampleFinder::new(count).map(|_| ()).unwrap_err().exit_code(), 2);
        }
    }
}
