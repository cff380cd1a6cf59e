//! Which small shards become one. Those of about the same size are merged when there are enough of them, so each
//! object is written again only once for every factor of 16 that its shard grows by. A merged shard is never larger
//! than one that is full, in bytes and in rows.

use std::collections::BTreeMap;

use crate::outcome::ShardNumber;

/// So many shards of about one size are merged, or as many of them as fill one.
const FAN_IN: usize = 16;
/// A full shard; a small one has less than half of it.
const FULL: u64 = 1 << 20;
/// Shards of less than a 4096th are of one size.
const TIER: u64 = FULL / 4096;

/// A sealed shard, by what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardSize {
    /// Which.
    pub number: ShardNumber,
    /// Bytes of its file.
    pub bytes: u64,
    /// Objects in it.
    pub rows: u64,
}

/// Small shards by size.
#[derive(Debug)]
pub(super) struct Small {
    shard_bytes: u64,
    shard_rows: u64,
    /// Numbers, and how full each is.
    tiers: BTreeMap<u32, Vec<(ShardNumber, u64)>>,
}

impl Small {
    /// Of shards that are full with so many bytes or rows; with those that are there.
    pub(super) fn new(shard_bytes: u64, shard_rows: u64, shards: Vec<ShardSize>) -> Self {
        let (shard_bytes, shard_rows) = (shard_bytes.max(1), shard_rows.max(1));
        let mut small = Small { shard_bytes, shard_rows, tiers: BTreeMap::new() };
        for shard in shards {
            small.add(shard);
        }
        small
    }

    /// Another one; one that is large enough is not noted.
    pub(super) fn add(&mut self, shard: ShardSize) {
        let share = |part: u64, whole: u64| part.saturating_mul(FULL) / whole;
        let fill = share(shard.bytes, self.shard_bytes).max(share(shard.rows, self.shard_rows));
        if fill < FULL / 2 {
            let tier = (fill / TIER).checked_ilog(FAN_IN as u64).map_or(0, |log| log + 1);
            self.tiers.entry(tier).or_default().push((shard.number, fill));
        }
    }

    /// Whether some are to be merged.
    pub(super) fn is_due(&self) -> bool {
        self.tiers.values().any(|shards| shards.len() >= FAN_IN)
    }

    /// Takes those that are to be merged now: at least two, because each is less than half.
    pub(super) fn next_merge(&mut self) -> Option<Vec<ShardNumber>> {
        let shards = self.tiers.values_mut().find(|shards| shards.len() >= FAN_IN)?;
        let mut sum = 0;
        let fits = |(_, fill): &&(ShardNumber, u64)| {
            sum += fill + 1;
            sum <= FULL
        };
        let count = shards.iter().take(FAN_IN).take_while(fits).count();
        Some(shards.drain(..count).map(|(number, _)| number).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_object_is_written_again_a_logarithmic_number_of_times() {
        let mut small = Small::new(1 << 30, u64::MAX / FULL, Vec::new());
        let (mut written, mut next) = (0_u64, 0);
        let mut sizes = BTreeMap::new();
        for _ in 0..4096 {
            sizes.insert(next, 10_000_u64);
            small.add(ShardSize { number: next, bytes: 10_000, rows: 1 });
            next += 1;
            while let Some(numbers) = small.next_merge() {
                assert_eq!(numbers.len(), FAN_IN);
                let bytes: u64 = numbers.iter().map(|number| sizes.remove(number).unwrap()).sum();
                written += bytes;
                sizes.insert(next, bytes);
                small.add(ShardSize { number: next, bytes, rows: 1 });
                next += 1;
            }
        }

        assert_eq!(sizes.values().sum::<u64>(), 4096 * 10_000);
        assert!(sizes.len() <= 3 * FAN_IN, "{} shards", sizes.len());
        assert!(written <= 4 * 4096 * 10_000, "{written}");
    }

    #[test]
    fn shards_that_are_large_in_bytes_or_rows_stay_as_they_are() {
        let size = |number, bytes, rows| ShardSize { number, bytes, rows };
        let shards = (0..100).map(|number| size(number, 1 << 19, 1)).chain((0..100).map(|n| size(n, 1, 500)));
        let mut small = Small::new(1 << 20, 1000, shards.collect());

        assert!(!small.is_due());
        assert_eq!(small.next_merge(), None);
    }

    #[test]
    fn a_merged_shard_is_no_larger_than_a_full_one() {
        let shards = (0..100).map(|number| ShardSize { number, bytes: 1, rows: 300 + number % 200 });
        let mut small = Small::new(1 << 30, 1000, shards.collect());
        while let Some(numbers) = small.next_merge() {
            assert!(numbers.len() >= 2);
            let rows: u64 = numbers.iter().map(|number| 300 + number % 200).sum();
            assert!(rows <= 1000, "{rows}");
        }
        assert!(!small.is_due());
    }
}
