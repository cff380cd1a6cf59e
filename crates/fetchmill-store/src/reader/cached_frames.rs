//! A cache of decoded manifest frames and their names.
//!
//! When a frame is used for the second time, it gets a name table. From then on, its names are found without searching
//! the tables of all manifests.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use super::hidden::HiddenRows;
use crate::manifest::{FoundRow, Frame, Manifest};
use fetchmill_model::error::Result;

/// Maximum number of frames that are searched for a name.
const FRAMES_MAX: usize = 64;
/// Memory per row without its name: its stored numbers, its decoded numbers, and its share of the name table. The table
/// is at most half full and grows by doubling.
const ROW_BYTES: usize = 40 + 32 + 4 * 4;

/// Cached frames of one thread, most recently used first. Their total size is limited.
#[derive(Debug)]
pub(super) struct CachedFrames {
    frames: Vec<CachedFrame>,
    bytes: usize,
    bytes_max: usize,
    /// Random key of the hash function, so that untrusted names cannot be chosen to collide.
    key: RandomState,
    decoded: u64,
}

#[derive(Debug)]
struct CachedFrame {
    shard: usize,
    index: usize,
    frame: Arc<Frame>,
    bytes: usize,
    names: Option<NameTable>,
}

impl CachedFrames {
    pub(super) fn new(bytes_max: usize) -> Self {
        CachedFrames { frames: Vec::new(), bytes: 0, bytes_max, key: RandomState::new(), decoded: 0 }
    }

    /// Returns an upper bound for the number of cached bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of frames decoded so far.
    pub(super) fn decoded(&self) -> u64 {
        self.decoded
    }

    /// Finds the row with this name in cached frames that have a name table. Returns the shard and the row. The tables
    /// do not contain hidden rows.
    pub(super) fn find(&mut self, name: &[u8]) -> Option<(usize, FoundRow)> {
        let hash = self.key.hash_one(name);
        let (at, row) = self.frames.iter().enumerate().find_map(|(at, cached)| {
            cached.names.as_ref()?.find(&cached.frame, hash, name).map(|row| (at, row))
        })?;
        let shard = self.move_to_front(at).shard;
        Some((shard, row))
    }

    /// Returns a manifest frame of a shard, decoding it if it is not cached.
    pub(super) fn frame(
        &mut self,
        shard: usize,
        manifest: &Manifest,
        index: usize,
        hidden: Option<&HiddenRows>,
    ) -> Result<Arc<Frame>> {
        let place = self.frames.iter().position(|cached| (cached.shard, cached.index) == (shard, index));
        if let Some(at) = place {
            self.move_to_front(at);
            self.add_names(hidden);
            return Ok(Arc::clone(&self.frames[0].frame));
        }
        let frame = Arc::new(manifest.frame(index)?);
        self.decoded += 1;
        self.keep(CachedFrame {
            shard,
            index,
            bytes: bytes_of(&frame),
            frame: Arc::clone(&frame),
            names: None,
        });
        Ok(frame)
    }

    /// Returns the position of a row's record. `None` if the row's frame is not cached.
    pub(super) fn place_of(&self, shard: usize, row: u64) -> Option<u64> {
        self.frames.iter().filter(|cached| cached.shard == shard).find_map(|cached| {
            let position = row.checked_sub(cached.frame.first_row())?;
            (position < cached.frame.len() as u64).then(|| cached.frame.row(position as usize).place)
        })
    }

    /// Builds the name table of the first frame. The hidden rows must be known by now, because they determine which row
    /// a name refers to.
    fn add_names(&mut self, hidden: Option<&HiddenRows>) {
        let (Some(hidden), Some(front)) = (hidden, self.frames.first_mut()) else { return };
        if front.names.is_none() {
            front.names =
                Some(NameTable::of(&front.frame, &self.key, |row| hidden.contains(front.shard, row)));
        }
    }

    fn move_to_front(&mut self, at: usize) -> &CachedFrame {
        self.frames[..=at].rotate_right(1);
        &self.frames[0]
    }

    fn keep(&mut self, cached: CachedFrame) {
        if cached.bytes > self.bytes_max {
            return;
        }
        self.bytes += cached.bytes;
        self.frames.insert(0, cached);
        while self.bytes > self.bytes_max || self.frames.len() > FRAMES_MAX {
            let Some(last) = self.frames.pop() else { return };
            self.bytes -= last.bytes;
        }
    }
}

fn bytes_of(frame: &Frame) -> usize {
    frame.iter().map(|row| row.name.len() + ROW_BYTES).sum()
}

/// Maps the names of a frame to rows. An entry is the position of the row plus one, or 0 if empty. The hash of the name
/// gives the slot where the search for its entry starts.
#[derive(Debug)]
struct NameTable {
    slots: Box<[u32]>,
}

impl NameTable {
    fn of(frame: &Frame, key: &RandomState, is_hidden: impl Fn(u64) -> bool) -> Self {
        let mut slots = vec![0_u32; (2 * frame.len()).next_power_of_two()].into_boxed_slice();
        let mask = slots.len() - 1;
        for (position, row) in frame.iter().enumerate() {
            if is_hidden(frame.first_row() + position as u64) {
                continue;
            }
            let mut slot = key.hash_one(row.name) as usize & mask;
            while slots[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            slots[slot] = position as u32 + 1;
        }
        NameTable { slots }
    }

    fn find(&self, frame: &Frame, hash: u64, name: &[u8]) -> Option<FoundRow> {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        loop {
            let position = self.slots[slot].checked_sub(1)? as usize;
            let row = frame.row(position);
            if row.name == name {
                return Some(FoundRow::of(frame.first_row() + position as u64, &row));
            }
            slot = (slot + 1) & mask;
        }
    }
}
