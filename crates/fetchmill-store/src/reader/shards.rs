//! All sealed shards of a job, treated as one collection.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::found_object::{FoundObject, ListedName, NamesPage, PAGE_NAME_BYTES};
use super::hidden::HiddenRows;
use super::position::Position;
use super::shard::ShardReader;
use crate::journal::Shard;
use crate::manifest::{FoundRow, Frame, Manifest, ManifestRow, hash44};
use crate::sink::{Format, ShardFolder};
use fetchmill_model::error::{Error, Result};

/// Number of shards that are opened immediately when a running job is read, smallest first. The job may merge and
/// remove these shards, but open files stay readable.
const HELD_MAX: usize = 256;
/// Maximum number of times that the journal is read. It is read again if a shard was merged before it could be opened.
const SNAPSHOTS_MAX: usize = 5;
/// Number of descriptors that are needed for anything other than shards.
const OTHER_DESCRIPTORS: u64 = 64;
/// Number of descriptors per shard: one for its manifest and one for its data.
const DESCRIPTORS_A_SHARD: u64 = 2;
/// Number of manifests above which several threads open them. On a cold disk, opening a manifest takes one or two disk
/// accesses.
const OPENED_ALONE: usize = 8;
/// Number of threads that open manifests.
const OPENING_THREADS: usize = 8;

/// Function that returns a manifest frame. Its arguments are the positions of the shard and of the frame.
type FrameOfShard<'f> = &'f mut dyn FnMut(usize, &Manifest, usize) -> Result<Arc<Frame>>;

/// See the [module documentation](self).
#[derive(Debug)]
pub(super) struct SealedShards {
    shard_folder: ShardFolder,
    format: Format,
    /// Shards ordered by number.
    sealed: Vec<Shard>,
    readers: Vec<OnceLock<Arc<ShardReader>>>,
    hidden: OnceLock<HiddenRows>,
}

impl SealedShards {
    /// Opens the shards that `read` finds in the journal. If `may_vanish` is set, a running job may replace some of
    /// them in the meantime.
    pub(super) fn open(
        shard_folder: &ShardFolder,
        format: Format,
        read: &dyn Fn() -> Result<Vec<Shard>>,
        may_vanish: bool,
    ) -> Result<Self> {
        let mut shards = Self::of(shard_folder, format, read()?);
        if !may_vanish {
            return Ok(shards);
        }
        let mut held = shards.hold_small();
        for _ in 1..SNAPSHOTS_MAX {
            if held.is_ok() {
                break;
            }
            shards = Self::of(shard_folder, format, read()?);
            held = shards.hold_small();
        }
        held.map(|()| shards)
    }

    fn of(shard_folder: &ShardFolder, format: Format, sealed: Vec<Shard>) -> Self {
        raise_descriptors(sealed.len());
        let readers = sealed.iter().map(|_| OnceLock::new()).collect();
        SealedShards { shard_folder: shard_folder.clone(), format, sealed, readers, hidden: OnceLock::new() }
    }

    /// Opens the smallest shards with their data, so that they stay readable if a merge removes them.
    fn hold_small(&self) -> Result<()> {
        let mut by_size: Vec<usize> = (0..self.sealed.len()).collect();
        by_size.sort_unstable_by_key(|index| self.sealed[*index].sealed.data.end);
        by_size.into_iter().take(HELD_MAX).try_for_each(|index| self.reader(index)?.hold())
    }

    /// Returns the number of shards.
    pub(super) fn len(&self) -> usize {
        self.sealed.len()
    }

    /// Returns the reader of the shard at this position in the list.
    pub(super) fn reader(&self, index: usize) -> Result<&Arc<ShardReader>> {
        let (Some(cell), Some(shard)) = (self.readers.get(index), self.sealed.get(index)) else {
            return Err(Error::Internal("the shard does not exist".into()));
        };
        if let Some(reader) = cell.get() {
            return Ok(reader);
        }
        let reader = Arc::new(ShardReader::open(&self.shard_folder, self.format, shard)?);
        // Another thread may have opened a reader first, but the two readers are equivalent.
        Ok(cell.get_or_init(|| reader))
    }

    /// Opens all manifests.
    fn open_all(&self) -> Result<()> {
        let closed: Vec<usize> =
            (0..self.len()).filter(|index| self.readers[*index].get().is_none()).collect();
        if closed.len() <= OPENED_ALONE {
            return closed.into_iter().try_for_each(|index| self.reader(index).map(drop));
        }
        std::thread::scope(|scope| {
            let parts = closed.chunks(closed.len().div_ceil(OPENING_THREADS));
            let threads: Vec<_> = parts
                .map(|part| scope.spawn(|| part.iter().try_for_each(|index| self.reader(*index).map(drop))))
                .collect();
            threads.into_iter().try_for_each(|thread| {
                thread.join().unwrap_or_else(|_| Err(Error::Internal("a thread has panicked".into())))
            })
        })
    }

    /// Returns the row that has the lowest sequence number of all rows with this name.
    pub(super) fn find_row(&self, name: &[u8]) -> Result<Option<(usize, FoundRow)>> {
        self.find_row_in(name, &mut |_, manifest, index| manifest.frame(index).map(Arc::new))
    }

    /// Like [`SealedShards::find_row`], but uses frames that the caller may have cached.
    pub(super) fn find_row_in(
        &self,
        name: &[u8],
        frame_at: FrameOfShard<'_>,
    ) -> Result<Option<(usize, FoundRow)>> {
        self.open_all()?;
        let hash = hash44(name);
        let mut first: Option<(usize, FoundRow)> = None;
        for index in 0..self.len() {
            let manifest = self.reader(index)?.manifest();
            for row in manifest.find_in_frames(name, hash, &mut |frame| frame_at(index, manifest, frame))? {
                if first.is_none_or(|(_, first)| row.sequence < first.sequence) {
                    first = Some((index, row));
                }
            }
        }
        Ok(first)
    }

    pub(super) fn find(&self, name: &[u8]) -> Result<Option<FoundObject>> {
        let Some((index, found)) = self.find_row(name)? else { return Ok(None) };
        let FoundRow { row, sequence, length, crc32c, place, is_encoded } = found;
        let reader = self.reader(index)?;
        let read = reader
            .read(row, &ManifestRow { sequence, name, length, crc32c, place, ..ManifestRow::default() });
        let mut object = read.map_err(|error| reader.error(name, error))?;
        if is_encoded {
            reader.add_encoding(row, &mut object)?;
        }
        Ok(Some(FoundObject { sequence: Some(sequence), crc32c, object }))
    }

    /// Returns names, starting at a position.
    pub(super) fn names(&self, from: Option<&Position>, max: usize) -> Result<NamesPage> {
        let mut page = NamesPage::default();
        let mut bytes = 0;
        let (start, mut row) = self.place_of(from);
        let hidden = self.hidden()?;
        for index in start..self.len() {
            let reader = self.reader(index)?;
            while row < reader.manifest().rows() {
                let frame = reader.frame_of_row(row)?;
                let rows = frame.first_row()..frame.first_row() + frame.len() as u64;
                for number in row..rows.end {
                    if page.names.len() >= max || bytes >= PAGE_NAME_BYTES {
                        page.next = Some(Position::Row(reader.number(), number));
                        return Ok(page);
                    }
                    if hidden.contains(index, number) {
                        continue;
                    }
                    let found = frame.row((number - rows.start) as usize);
                    bytes += found.name.len();
                    page.names.push(ListedName {
                        name: found.name.to_vec(),
                        length: Some(found.length),
                        sequence: Some(found.sequence),
                    });
                }
                row = rows.end;
            }
            row = 0;
        }
        Ok(page)
    }

    /// Returns the shard and the row at which a listing continues. If the shard no longer exists, continues with the
    /// next one.
    pub(super) fn place_of(&self, from: Option<&Position>) -> (usize, u64) {
        let Some(Position::Row(number, row)) = from else { return (0, 0) };
        let index = self.sealed.partition_point(|shard| shard.number < *number);
        let is_there = self.sealed.get(index).is_some_and(|shard| shard.number == *number);
        (index, if is_there { *row } else { 0 })
    }

    /// Returns the hidden rows if they are already known. A row is hidden if an earlier row has the same name.
    pub(super) fn known_hidden(&self) -> Option<&HiddenRows> {
        self.hidden.get()
    }

    /// Returns the hidden rows. A row is hidden if an earlier row has the same name.
    pub(super) fn hidden(&self) -> Result<&HiddenRows> {
        if let Some(hidden) = self.hidden.get() {
            return Ok(hidden);
        }
        self.open_all()?;
        let readers: Vec<_> =
            self.indexes().map(|index| self.reader(index).cloned()).collect::<Result<_>>()?;
        let hidden = HiddenRows::find(&readers)?;
        Ok(self.hidden.get_or_init(|| hidden))
    }

    fn indexes(&self) -> Range<usize> {
        0..self.len()
    }

    pub(super) fn count(&self) -> Result<u64> {
        let rows: u64 = self.sealed.iter().map(|shard| shard.sealed.objects).sum();
        Ok(rows.saturating_sub(self.hidden()?.count()))
    }
}

/// Raises the soft limit on descriptors if it is too low for the shards. If this is not possible, opening a shard will
/// fail later.
fn raise_descriptors(shards: usize) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let needed = OTHER_DESCRIPTORS + DESCRIPTORS_A_SHARD * shards as u64;
    if limit.current.is_some_and(|current| current < needed) {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
}
