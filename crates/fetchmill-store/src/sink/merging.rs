//! Selects small shards to merge. A merge takes enough shards of similar size that an object is rewritten only once
//! each time its shard grows by a factor of 16. A merged shard is never larger than a full one, whether in bytes or in
//! rows.

use std::collections::BTreeMap;

use fetchmill_model::outcome::ShardNumber;

/// Number of shards of similar size that are merged at a time. Fewer are merged if they fill a shard.
const FAN_IN: usize = 16;
/// Fill level of a full shard. A shard counts as small if it is less than half full.
const FULL: u64 = 1 << 20;
/// Fill level below which all shards count as equally large: 1/4096 of a full shard.
const TIER: u64 = FULL / 4096;
/// Maximum total fill level of small shards that wait for a merge. At this level, the merged shard is large even if it
/// shrinks a little.
const GATHERED: u64 = FULL / 4 * 3;

/// Size of a full shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FullShard {
    /// Size of the shard's file in bytes.
    pub bytes: u64,
    /// Number of objects in the shard.
    pub rows: u64,
}

impl FullShard {
    /// Returns the fill level of a shard, in units of 1 / [`FULL`].
    fn fill(self, shard: ShardSize) -> u64 {
        let share = |part: u64, whole: u64| part.saturating_mul(FULL) / whole.max(1);
        share(shard.bytes, self.bytes).max(share(shard.rows, self.rows))
    }

    /// Returns whether a shard is small, so that it may be merged.
    pub fn makes_small(self, shard: ShardSize) -> bool {
        self.fill(shard) < FULL / 2
    }
}

/// Size of a sealed shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardSize {
    /// Number of the shard.
    pub number: ShardNumber,
    /// Size of the shard's file in bytes.
    pub bytes: u64,
    /// Number of objects in the shard.
    pub rows: u64,
}

/// Small shards, grouped by size.
#[derive(Debug)]
pub struct SmallShards {
    full: FullShard,
    /// Whether all small shards are merged into one, at the end and whenever they add up to [`GATHERED`].
    is_gathering: bool,
    /// Shards with their fill levels, by tier.
    tiers: BTreeMap<u32, Vec<(ShardNumber, u64)>>,
}

impl SmallShards {
    /// Creates the set from the existing `shards`. A shard is full if it has this number of bytes or rows.
    pub fn new(bytes: u64, rows: u64, shards: Vec<ShardSize>) -> Self {
        let full = FullShard { bytes, rows };
        let mut small = SmallShards { full, is_gathering: false, tiers: BTreeMap::new() };
        for shard in shards {
            small.add(shard);
        }
        small
    }

    /// Merges all small shards into one, whatever their sizes. This happens at the end, and whenever they add up to
    /// three quarters of a shard.
    pub(super) fn gather(self) -> Self {
        SmallShards { is_gathering: true, ..self }
    }

    /// Adds a shard if it is small. Returns whether it is small.
    pub fn add(&mut self, shard: ShardSize) -> bool {
        let is_small = self.full.makes_small(shard);
        if is_small {
            let fill = self.full.fill(shard);
            let tier = (fill / TIER).checked_ilog(FAN_IN as u64).map_or(0, |log| log + 1);
            self.tiers.entry(tier).or_default().push((shard.number, fill));
        }
        is_small
    }

    /// Returns whether to merge all shards that fit into one.
    fn merges_all(&self, is_last: bool) -> bool {
        let fills = self.tiers.values().flatten().map(|(_, fill)| fill);
        self.is_gathering
            && self.tiers.values().map(Vec::len).sum::<usize>() >= 2
            && (is_last || fills.sum::<u64>() >= GATHERED)
    }

    /// Returns whether there are shards to merge.
    pub(super) fn is_due(&self, is_last: bool) -> bool {
        self.tiers.values().any(|shards| shards.len() >= FAN_IN) || self.merges_all(is_last)
    }

    /// Takes the shards to merge next. There are at least two of them, because each is less than half full.
    pub fn next_merge(&mut self, is_last: bool) -> Option<Vec<ShardNumber>> {
        if self.merges_all(is_last) {
            return Some(self.take_all());
        }
        let shards = self.tiers.values_mut().find(|shards| shards.len() >= FAN_IN)?;
        let mut sum = 0;
        let fits = |(_, fill): &&(ShardNumber, u64)| {
            sum += fill + 1;
            sum <= FULL
        };
        let count = shards.iter().take(FAN_IN).take_while(fits).count();
        Some(shards.drain(..count).map(|(number, _)| number).collect())
    }

    /// Takes as many shards as fit into one, largest first.
    fn take_all(&mut self) -> Vec<ShardNumber> {
        let mut sum = 0;
        let mut taken = Vec::new();
        for shards in self.tiers.values_mut().rev() {
            shards.retain(|(number, fill)| {
                let fits = sum + fill < FULL;
                if fits {
                    sum += fill + 1;
                    taken.push(*number);
                }
                !fits
            });
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_object_is_written_again_a_logarithmic_number_of_times() {
        let mut small = SmallShards::new(1 << 30, u64::MAX / FULL, Vec::new());
        let (mut written, mut next) = (0_u64, 0);
        let mut sizes = BTreeMap::new();
        for _ in 0..4096 {
            sizes.insert(next, 10_000_u64);
            small.add(ShardSize { number: next, bytes: 10_000, rows: 1 });
            next += 1;
            while let Some(numbers) = small.next_merge(false) {
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
        let mut small = SmallShards::new(1 << 20, 1000, shards.collect());

        assert!(!small.is_due(false));
        assert_eq!(small.next_merge(false), None);
    }

    #[test]
    fn a_merged_shard_is_no_larger_than_a_full_one() {
        let shards = (0..100).map(|number| ShardSize { number, bytes: 1, rows: 300 + number % 200 });
        let mut small = SmallShards::new(1 << 30, 1000, shards.collect());
        while let Some(numbers) = small.next_merge(false) {
            assert!(numbers.len() >= 2);
            let rows: u64 = numbers.iter().map(|number| 300 + number % 200).sum();
            assert!(rows <= 1000, "{rows}");
        }
        assert!(!small.is_due(false));
    }

    #[test]
    fn gathered_shards_are_less_than_a_full_one_and_one_is_left() {
        let mut small = SmallShards::new(1000, u64::MAX / FULL, Vec::new()).gather();
        let mut sizes = BTreeMap::new();
        let (mut next, mut merged) = (0, Vec::new());
        for turn in 0..500_u64 {
            let bytes = 1 + turn * 37 % 300;
            sizes.insert(next, bytes);
            small.add(ShardSize { number: next, bytes, rows: 1 });
            next += 1;
            while let Some(numbers) = small.next_merge(false) {
                assert!(numbers.len() >= 2);
                let bytes: u64 = numbers.iter().map(|number| sizes.remove(number).unwrap()).sum();
                assert!((1..=1000).contains(&bytes), "{bytes}");
                if small.add(ShardSize { number: next, bytes, rows: 1 }) {
                    sizes.insert(next, bytes);
                } else {
                    merged.push(bytes);
                }
                next += 1;
            }
            assert!(sizes.values().sum::<u64>() <= 750, "{sizes:?}");
        }
        assert!(merged.iter().all(|bytes| *bytes >= 499), "{merged:?}");
        while small.is_due(true) {
            let numbers = small.next_merge(true).unwrap();
            let bytes = numbers.iter().map(|number| sizes.remove(number).unwrap()).sum();
            sizes.insert(next, bytes);
            small.add(ShardSize { number: next, bytes, rows: 1 });
            next += 1;
        }
        assert!(sizes.len() <= 1);
    }
}
