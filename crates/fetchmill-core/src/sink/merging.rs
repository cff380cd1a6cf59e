//! Which small shards become one. Those of about the same size are merged when there are enough of them, so each
//! object is written again only once for every factor of 16 that its shard grows by.

use std::collections::BTreeMap;

use crate::outcome::ShardNumber;

/// So many shards of one size are merged: a shard is small below half of what it should have.
const FAN_IN: usize = 16;
/// Shards of less than this are of one size.
const TIER_BYTES: u64 = 64 * 1024;

/// Small shards by size.
#[derive(Debug)]
pub(super) struct Small {
    shard_bytes: u64,
    tiers: BTreeMap<u32, Vec<ShardNumber>>,
}

impl Small {
    /// With those that are there.
    pub(super) fn new(shard_bytes: u64, shards: Vec<(ShardNumber, u64)>) -> Self {
        let mut small = Small { shard_bytes, tiers: BTreeMap::new() };
        for (number, bytes) in shards {
            small.add(number, bytes);
        }
        small
    }

    /// Another one; one that is large enough is not noted.
    pub(super) fn add(&mut self, number: ShardNumber, bytes: u64) {
        if bytes < self.shard_bytes / 2 {
            let tier = (bytes / TIER_BYTES).checked_ilog(FAN_IN as u64).map_or(0, |log| log + 1);
            self.tiers.entry(tier).or_default().push(number);
        }
    }

    /// Whether some are to be merged.
    pub(super) fn is_due(&self) -> bool {
        self.tiers.values().any(|numbers| numbers.len() >= FAN_IN)
    }

    /// Takes those that are to be merged now.
    pub(super) fn next_merge(&mut self) -> Option<Vec<ShardNumber>> {
        let numbers = self.tiers.values_mut().find(|numbers| numbers.len() >= FAN_IN)?;
        Some(numbers.drain(..FAN_IN).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_object_is_written_again_a_logarithmic_number_of_times() {
        let mut small = Small::new(1 << 30, Vec::new());
        let (mut written, mut next) = (0_u64, 0);
        let mut sizes = BTreeMap::new();
        for _ in 0..4096 {
            sizes.insert(next, 10_000_u64);
            small.add(next, 10_000);
            next += 1;
            while let Some(numbers) = small.next_merge() {
                assert_eq!(numbers.len(), FAN_IN);
                let bytes: u64 = numbers.iter().map(|number| sizes.remove(number).unwrap()).sum();
                written += bytes;
                sizes.insert(next, bytes);
                small.add(next, bytes);
                next += 1;
            }
        }

        assert_eq!(sizes.values().sum::<u64>(), 4096 * 10_000);
        assert!(sizes.len() <= 3 * FAN_IN, "{} shards", sizes.len());
        assert!(written <= 4 * 4096 * 10_000, "{written}");
    }

    #[test]
    fn large_shards_stay_as_they_are() {
        let mut small = Small::new(1 << 20, (0..100).map(|number| (number, 1 << 19)).collect());
        assert!(!small.is_due());
        assert_eq!(small.next_merge(), None);
    }
}
