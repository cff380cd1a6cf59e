//! Writes a manifest alongside its shard, and seals it.

use std::path::Path;

use super::frame::FrameColumns;
use super::index::{FrameEntry, ManifestIndex, hash44, too_many_rows};
use super::{ManifestDamage, ManifestRow, ManifestRows};
use crate::durable::{self, AppendedFile};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::outcome::ShardEnd;
use fetchmill_model::text::file_name::FileName;

/// Writes a manifest. The first frame creates its file.
pub struct ManifestWriter {
    log: AppendedFile,
    columns: FrameColumns,
    frame: Vec<u8>,
    rows: u64,
    /// Index data for sealing. `None` if the manifest is never sealed.
    index: Option<ManifestIndex>,
}

impl std::fmt::Debug for ManifestWriter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ManifestWriter")
            .field("log", &self.log)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

impl ManifestWriter {
    /// Prepares a manifest that will be sealed. No file in the folder may have its name yet. The writer keeps eight
    /// bytes per row in memory and accepts up to [`ROWS_MAX`](super::ROWS_MAX) rows.
    pub fn new(folder: &Path, name: FileName, is_durable: bool) -> Self {
        Self::with_index(folder, name, is_durable, Some(ManifestIndex::new(hash44)))
    }

    /// Prepares a manifest that will never be sealed. The writer keeps nothing in memory and accepts any number of
    /// rows. The rows become durable through the file system sync that the objects need anyway.
    pub fn new_unsealed(folder: &Path, name: FileName) -> Self {
        Self::with_index(folder, name, false, None)
    }

    pub(super) fn with_index(
        folder: &Path,
        name: FileName,
        is_durable: bool,
        index: Option<ManifestIndex>,
    ) -> Self {
        ManifestWriter {
            log: AppendedFile::new(folder, name, is_durable),
            columns: FrameColumns::default(),
            frame: Vec::new(),
            rows: 0,
            index,
        }
    }

    /// Adds a row.
    pub fn add(&mut self, row: &ManifestRow<'_>) -> Result<()> {
        if let Some(index) = &mut self.index
            && !index.add(row)
        {
            return Err(too_many_rows());
        }
        self.columns.add(row)?;
        self.rows += 1;
        if self.columns.is_full() { self.write_frame() } else { Ok(()) }
    }

    /// Returns the number of rows added.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    fn write_frame(&mut self) -> Result<()> {
        let first_row = self.rows - self.columns.len() as u64;
        self.columns.take_frame(&mut self.frame)?;
        if let Some(index) = &mut self.index {
            index.add_frame(FrameEntry { offset: self.log.end(), first_row });
        }
        self.log.append(&self.frame)
    }

    fn end_frame(&mut self) -> Result<()> {
        if self.columns.len() == 0 { Ok(()) } else { self.write_frame() }
    }

    /// Ends the frame and makes all added rows durable. Returns `None` if there are no rows.
    pub fn checkpoint(&mut self) -> Result<Option<ShardEnd>> {
        self.end_frame()?;
        self.log.sync()
    }

    /// Finishes the manifest and makes it durable as a [`Manifest`](super::Manifest).
    pub fn seal(mut self) -> Result<ShardEnd> {
        self.end_frame()?;
        let index =
            self.index.ok_or_else(|| Error::Internal("a manifest without an index was sealed".into()))?;
        seal(self.log, index)
    }
}

/// Seals a manifest that an earlier run left open, after truncating it to its recorded end.
pub fn seal_open(folder: &Path, open: &ShardEnd, is_durable: bool) -> Result<ShardEnd> {
    let path = folder.join(&open.path);
    let file = durable::open_cut(&path, open.end)
        .map_err(|error| Error::storage("truncate", &path, error))?
        .ok_or_else(|| ManifestDamage("it is shorter than recorded in the journal").of(&path))?;
    let index = read_index(&path, open)?;
    seal(AppendedFile::reopened(folder, file, open, is_durable), index)
}

/// Appends the index after the frames.
fn seal(mut log: AppendedFile, index: ManifestIndex) -> Result<ShardEnd> {
    index.write(log.end(), |bytes| log.append(bytes))?;
    log.sync()?.ok_or_else(|| Error::Internal("a sealed manifest is empty".into()))
}

fn read_index(path: &Path, open: &ShardEnd) -> Result<ManifestIndex> {
    let mut index = ManifestIndex::new(hash44);
    let mut rows = ManifestRows::open(path, Some(open.end))?;
    loop {
        let offset = rows.offset();
        let Some(frame) = rows.next_frame()? else { break };
        index.add_frame(FrameEntry { offset, first_row: frame.first_row() });
        if !frame.iter().all(|row| index.add(&row)) {
            return Err(ManifestDamage("it has more rows than a sealed manifest may have").of(path));
        }
    }
    if rows.offset() != open.end || rows.crc32c() != open.crc32c {
        return Err(ManifestDamage("it differs from the record in the journal").of(path));
    }
    Ok(index)
}
