//! Finds rows of a sealed manifest by name or by position.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::frame::{Frame, frame_bytes_max};
use super::index::{
    FOOTER_BYTES, FrameEntry, ManifestFooter, entries_of, hash44, read_directory, read_page, row_of,
};
use super::{ManifestDamage, ManifestRow, read_at};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::target::Sequence;

/// A row found by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundRow {
    /// Position of the row in the manifest.
    pub row: u64,
    /// See [`Row::sequence`](super::ManifestRow::sequence).
    pub sequence: Sequence,
    /// See [`Row::length`](super::ManifestRow::length).
    pub length: u64,
    /// See [`Row::crc32c`](super::ManifestRow::crc32c).
    pub crc32c: u32,
    /// See [`Row::place`](super::ManifestRow::place).
    pub place: u64,
    /// Whether the row has a [`ManifestRow::content_encoding`](super::ManifestRow::content_encoding).
    pub is_encoded: bool,
}

impl FoundRow {
    /// Creates the result from a row and its position in the manifest.
    pub fn of(number: u64, row: &ManifestRow<'_>) -> Self {
        FoundRow {
            row: number,
            sequence: row.sequence,
            length: row.length,
            crc32c: row.crc32c,
            place: row.place,
            is_encoded: !row.content_encoding.is_empty(),
        }
    }
}

/// A sealed manifest. Only its directory is in memory, which takes about 20 bytes per thousand rows. All other parts
/// are read on demand.
#[derive(Debug)]
pub struct Manifest {
    file: File,
    path: PathBuf,
    footer: ManifestFooter,
    frames: Vec<FrameEntry>,
    /// First entry of each page of the table.
    firsts: Vec<u64>,
}

impl Manifest {
    /// Opens a manifest, reading only the footer and the directory.
    pub fn open(path: &Path) -> Result<Self> {
        let fail = |error| Error::storage("read", path, error);
        let damaged = |damage: ManifestDamage| damage.of(path);
        let file = File::open(path).map_err(fail)?;
        let length = file.metadata().map_err(fail)?.len();
        let footer_at = length
            .checked_sub(FOOTER_BYTES as u64)
            .ok_or_else(|| ManifestDamage("it has no footer, so it was cut off or never sealed").of(path))?;
        let mut bytes = [0; FOOTER_BYTES];
        read_at(&file, path, &mut bytes, footer_at)?;
        let (footer, checksum) = ManifestFooter::parse(&bytes, length).map_err(damaged)?;
        let mut directory = vec![0; footer.directory_bytes() as usize];
        read_at(&file, path, &mut directory, footer.directory())?;
        if crc32c::crc32c(&directory) != checksum {
            return Err(ManifestDamage("its directory's checksum is wrong").of(path));
        }
        let (frames, firsts) = read_directory(&directory, &footer).map_err(damaged)?;
        Ok(Manifest { file, path: path.to_owned(), footer, frames, firsts })
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> u64 {
        self.footer.rows
    }

    /// Returns the total size of all bodies in bytes.
    pub fn bytes(&self) -> u64 {
        self.footer.bytes
    }

    /// Returns the number of frames.
    pub fn frames(&self) -> usize {
        self.frames.len()
    }

    /// Reads a frame. `index` must be below [`Manifest::frames`].
    pub fn frame(&self, index: usize) -> Result<Frame> {
        let at =
            self.frames.get(index).ok_or_else(|| Error::Internal("the manifest has no such frame".into()))?;
        let end = FrameEntry { offset: self.footer.table, first_row: self.footer.rows };
        let next = self.frames.get(index + 1).unwrap_or(&end);
        let length = next.offset - at.offset;
        if length > frame_bytes_max() {
            return Err(self.damaged(ManifestDamage("a frame is larger than the maximum")));
        }
        let mut stored = vec![0; length as usize];
        read_at(&self.file, &self.path, &mut stored, at.offset)?;
        let mut unpacker = zstd::bulk::Decompressor::new()
            .map_err(|error| Error::Internal(format!("cannot set up zstd: {error}")))?;
        let mut frame = Frame::default();
        frame.read(at.first_row, &stored, &mut unpacker).map_err(|damage| self.damaged(damage))?;
        if frame.len() as u64 != next.first_row - at.first_row {
            return Err(
                self.damaged(ManifestDamage("a frame does not have the number of rows in the directory"))
            );
        }
        Ok(frame)
    }

    /// Returns the index of the frame that contains a row. `None` if the row is after the last one.
    pub fn frame_of_row(&self, row: u64) -> Option<usize> {
        let after = self.frames.partition_point(|frame| frame.first_row <= row);
        if row < self.footer.rows { after.checked_sub(1) } else { None }
    }

    /// Returns all rows with this name, in file order. A lookup usually costs one read for a missing name, and two
    /// reads for an existing one.
    pub fn find(&self, name: &[u8]) -> Result<Vec<FoundRow>> {
        self.find_hashed(name, hash44(name))
    }

    pub(super) fn find_hashed(&self, name: &[u8], hash: u64) -> Result<Vec<FoundRow>> {
        self.find_in_frames(name, hash, &mut |index| self.frame(index).map(Arc::new))
    }

    /// Like [`Manifest::find`], but takes the hash of the name and uses frames that the caller may have cached.
    pub fn find_in_frames(
        &self,
        name: &[u8],
        hash: u64,
        frame_at: &mut dyn FnMut(usize) -> Result<Arc<Frame>>,
    ) -> Result<Vec<FoundRow>> {
        let rows = self.rows_of(hash)?;
        let mut found = Vec::new();
        let mut rest = rows.as_slice();
        while let Some(first) = rest.first() {
            let index = self
                .frame_of_row(*first)
                .ok_or_else(|| self.damaged(ManifestDamage("its table refers to a missing row")))?;
            let frame = frame_at(index)?;
            let end = frame.first_row() + frame.len() as u64;
            let (here, after) = rest.split_at(rest.partition_point(|row| *row < end));
            find_in(&frame, here, name, &mut found);
            rest = after;
        }
        Ok(found)
    }

    /// Returns the rows whose names have this hash, in order.
    fn rows_of(&self, hash: u64) -> Result<Vec<u64>> {
        let (low, high) = entries_of(hash);
        let first = self.firsts.partition_point(|first| *first <= low).saturating_sub(1);
        let behind = self.firsts.partition_point(|first| *first <= high);
        let mut entries = Vec::new();
        let mut rows = Vec::new();
        for page in first..behind {
            self.page(page, &mut entries)?;
            let start = entries.partition_point(|entry| *entry < low);
            let end = entries.partition_point(|entry| *entry <= high);
            rows.extend(entries.get(start..end).into_iter().flatten().map(|entry| row_of(*entry)));
        }
        Ok(rows)
    }

    fn page(&self, number: usize, entries: &mut Vec<u64>) -> Result<()> {
        let (offset, length) = self.footer.page(number);
        let mut bytes = vec![0; length];
        read_at(&self.file, &self.path, &mut bytes, offset)?;
        let first = self.firsts.get(number).copied().unwrap_or_default();
        read_page(&bytes, number, first, entries).map_err(|damage| self.damaged(damage))
    }

    /// Iterates over the sorted table of entries `hash44(name) << 20 | row`. This finds repeated names, even across
    /// shards.
    pub fn hashes(&self) -> HashChunks<'_> {
        HashChunks { manifest: self, page: 0, entries: Vec::new(), position: 0 }
    }

    fn damaged(&self, damage: ManifestDamage) -> Error {
        damage.of(&self.path)
    }
}

/// Appends the rows in `rows` that have this name to `found`. All `rows` must be in this frame.
fn find_in(frame: &Frame, rows: &[u64], name: &[u8], found: &mut Vec<FoundRow>) {
    for number in rows {
        let row = frame.row((number - frame.first_row()) as usize);
        if row.name == name {
            found.push(FoundRow::of(*number, &row));
        }
    }
}

/// Iterates over the entries of the table in order, keeping one page in memory. The iteration stops after an error.
#[derive(Debug)]
pub struct HashChunks<'a> {
    manifest: &'a Manifest,
    page: usize,
    entries: Vec<u64>,
    position: usize,
}

impl Iterator for HashChunks<'_> {
    type Item = Result<u64>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.position == self.entries.len() {
            if self.page >= self.manifest.footer.pages() {
                return None;
            }
            self.position = 0;
            if let Err(error) = self.manifest.page(self.page, &mut self.entries) {
                self.page = usize::MAX;
                return Some(Err(error));
            }
            self.page += 1;
        }
        let entry = self.entries.get(self.position).copied()?;
        self.position += 1;
        Some(Ok(entry))
    }
}
