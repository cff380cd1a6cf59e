//! Repeated names. If several rows have the same name, only the row with the lowest sequence number is visible.
//!
//! The sorted hash tables of all manifests are merged, and rows with equal hashes are compared by name. The comparison
//! goes through the shards in order, so that even a million comparisons read each part of a manifest only once. The
//! result takes one bit per row, but only for shards that contain a hidden row.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use super::shard::ShardReader;
use crate::manifest::HashChunks;
use fetchmill_model::error::Result;
use fetchmill_model::target::Sequence;

/// Number of rows that are compared at a time. They take about 60 bytes each.
const CANDIDATES_MAX: usize = 1 << 20;
/// Number of bits in a table entry that hold the row. The other bits hold the hash.
const ROW_BITS: u32 = crate::manifest::ROWS_MAX.ilog2();

/// Hidden rows of all shards.
#[derive(Debug, Default)]
pub(super) struct HiddenRows {
    shards: HashMap<usize, Box<[u64]>>,
    count: u64,
}

impl HiddenRows {
    /// Compares the names of all shards.
    pub(super) fn find(shards: &[Arc<ShardReader>]) -> Result<Self> {
        let mut search = HiddenRowSearch {
            shards,
            candidates: Vec::new(),
            keys: [RandomState::new(), RandomState::new()],
            hidden: HiddenRows::default(),
        };
        search.merge()?;
        Ok(search.hidden)
    }

    /// Returns whether an earlier row has the same name.
    pub(super) fn contains(&self, shard: usize, row: u64) -> bool {
        let word = self.shards.get(&shard).and_then(|bits| bits.get((row / 64) as usize));
        word.is_some_and(|word| word >> (row % 64) & 1 == 1)
    }

    /// Returns the number of hidden rows.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    fn insert(&mut self, shard: usize, row: u64, rows: u64) {
        let bits = self.shards.entry(shard).or_insert_with(|| vec![0; rows.div_ceil(64) as usize].into());
        if let Some(word) = bits.get_mut((row / 64) as usize) {
            *word |= 1 << (row % 64);
            self.count += 1;
        }
    }
}

/// A row whose hash also occurs in another row.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    /// Group of rows that have the same hash.
    group: usize,
    shard: usize,
    row: u64,
    sequence: Sequence,
    /// Two keyed hashes of the name. Even an attacker cannot choose two names with the same hashes.
    name: [u64; 2],
}

struct HiddenRowSearch<'a> {
    shards: &'a [Arc<ShardReader>],
    candidates: Vec<Candidate>,
    keys: [RandomState; 2],
    hidden: HiddenRows,
}

impl HiddenRowSearch<'_> {
    /// Reads the entries of all tables, ordered by hash.
    fn merge(&mut self) -> Result<()> {
        let mut tables: Vec<HashChunks<'_>> =
            self.shards.iter().map(|shard| shard.manifest().hashes()).collect();
        let mut heap = BinaryHeap::with_capacity(tables.len());
        for (shard, table) in tables.iter_mut().enumerate() {
            if let Some(entry) = table.next().transpose()? {
                heap.push(Reverse((entry, shard)));
            }
        }
        let mut last: Option<(u64, usize)> = None;
        let (mut group, mut in_group) = (0, false);
        while let Some(mut least) = heap.peek_mut() {
            let Reverse((entry, shard)) = *least;
            match tables[shard].next().transpose()? {
                Some(next) => *least = Reverse((next, shard)),
                None => drop(std::collections::binary_heap::PeekMut::pop(least)),
            }
            let is_same = last.is_some_and(|(before, _)| before >> ROW_BITS == entry >> ROW_BITS);
            if !is_same {
                (in_group, group) = (false, group + 1);
            } else if !in_group {
                in_group = true;
                self.candidates.extend(last.map(|(entry, shard)| candidate(group, shard, entry)));
            }
            if is_same {
                self.candidates.push(candidate(group, shard, entry));
            }
            last = Some((entry, shard));
            if self.candidates.len() >= CANDIDATES_MAX {
                self.compare(group)?;
            }
        }
        self.compare(group)
    }

    /// Hides all candidates with the same name except the first one. Visible rows of the last group remain candidates,
    /// because more rows of this group may follow.
    fn compare(&mut self, last_group: usize) -> Result<()> {
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.sort_unstable_by_key(|candidate| (candidate.shard, candidate.row));
        for candidate in &mut candidates {
            let frame = self.shards[candidate.shard].frame_of_row(candidate.row)?;
            let row = frame.row((candidate.row - frame.first_row()) as usize);
            candidate.sequence = row.sequence;
            candidate.name = [self.keys[0].hash_one(row.name), self.keys[1].hash_one(row.name)];
        }
        candidates.sort_unstable_by_key(|it| (it.group, it.name, it.sequence, it.shard, it.row));
        candidates.dedup_by(|later, first| {
            let is_same = (later.group, later.name) == (first.group, first.name);
            if is_same {
                let rows = self.shards[later.shard].manifest().rows();
                self.hidden.insert(later.shard, later.row, rows);
            }
            is_same
        });
        candidates.retain(|candidate| candidate.group == last_group);
        self.candidates = candidates;
        Ok(())
    }
}

fn candidate(group: usize, shard: usize, entry: u64) -> Candidate {
    Candidate { group, shard, row: entry & (crate::manifest::ROWS_MAX - 1), sequence: 0, name: [0; 2] }
}
