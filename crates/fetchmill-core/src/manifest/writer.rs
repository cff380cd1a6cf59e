//! Writes a manifest while its shard is written, and seals it.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::frame::Columns;
use super::index::{FrameAt, Index, hash44, too_many_rows};
use super::{Damage, Row, Rows};
use crate::durable;
use crate::error::{Error, Result};
use crate::outcome::ShardEnd;

/// A file that is appended to, with the checksum of what it has.
#[derive(Debug)]
struct Log {
    folder: PathBuf,
    name: String,
    file: Option<File>,
    end: u64,
    crc32c: u32,
    is_durable: bool,
}

impl Log {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(durable::create_in(&self.folder, &self.name, self.is_durable)?),
        };
        durable::append(file, bytes)
            .map_err(|error| Error::storage("write", self.folder.join(&self.name), error))?;
        self.end += bytes.len() as u64;
        self.crc32c = crc32c::crc32c_append(self.crc32c, bytes);
        Ok(())
    }

    /// Makes it durable; `None` when nothing was ever appended.
    fn sync(&self) -> Result<Option<ShardEnd>> {
        let Some(file) = &self.file else { return Ok(None) };
        if self.is_durable {
            durable::sync_file(file)
                .map_err(|error| Error::storage("sync", self.folder.join(&self.name), error))?;
        }
        Ok(Some(ShardEnd { path: self.name.clone(), end: self.end, crc32c: self.crc32c }))
    }

    /// Puts the index behind the frames.
    fn seal(mut self, index: Index) -> Result<ShardEnd> {
        let frames_end = self.end;
        index.write(frames_end, |bytes| self.append(bytes))?;
        self.sync()?.ok_or_else(|| Error::Internal("a sealed manifest is empty".into()))
    }
}

/// Writes one manifest; its file is made with the first frame.
pub struct ManifestWriter {
    log: Log,
    columns: Columns,
    frame: Vec<u8>,
    rows: u64,
    /// What sealing needs; `None` when this is never sealed.
    index: Option<Index>,
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
    /// A new manifest in a folder, to be sealed; no other may have its name. It keeps eight bytes of each row in
    /// memory and takes [`ROWS_MAX`](super::ROWS_MAX) rows.
    pub fn new(folder: &Path, name: String, is_durable: bool) -> Self {
        Self::with_index(folder, name, is_durable, Some(Index::new(hash44)))
    }

    /// A new manifest that is never sealed: it keeps nothing in memory and takes any number of rows.
    pub fn new_unsealed(folder: &Path, name: String, is_durable: bool) -> Self {
        Self::with_index(folder, name, is_durable, None)
    }

    pub(super) fn with_index(folder: &Path, name: String, is_durable: bool, index: Option<Index>) -> Self {
        ManifestWriter {
            log: Log { folder: folder.to_owned(), name, file: None, end: 0, crc32c: 0, is_durable },
            columns: Columns::default(),
            frame: Vec::new(),
            rows: 0,
            index,
        }
    }

    /// Adds a row.
    pub fn add(&mut self, row: &Row<'_>) -> Result<()> {
        if let Some(index) = &mut self.index
            && !index.add(row)
        {
            return Err(too_many_rows());
        }
        self.columns.add(row)?;
        self.rows += 1;
        if self.columns.is_full() { self.write_frame() } else { Ok(()) }
    }

    /// Rows that were added.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    fn write_frame(&mut self) -> Result<()> {
        let first_row = self.rows - self.columns.len() as u64;
        self.columns.take_frame(&mut self.frame)?;
        if let Some(index) = &mut self.index {
            index.add_frame(FrameAt { offset: self.log.end, first_row });
        }
        self.log.append(&self.frame)
    }

    fn end_frame(&mut self) -> Result<()> {
        if self.columns.len() == 0 { Ok(()) } else { self.write_frame() }
    }

    /// Ends the frame and makes what was added durable; `None` when nothing was ever added.
    pub fn checkpoint(&mut self) -> Result<Option<ShardEnd>> {
        self.end_frame()?;
        self.log.sync()
    }

    /// Ends the manifest, and makes it durable as a [`Manifest`](super::Manifest).
    pub fn seal(mut self) -> Result<ShardEnd> {
        self.end_frame()?;
        let index = self
            .index
            .ok_or_else(|| Error::Internal("a manifest that was made not to be sealed is sealed".into()))?;
        self.log.seal(index)
    }
}

/// Seals a manifest that an earlier run left open. What is behind its end is cut off.
pub fn seal_open(folder: &Path, open: &ShardEnd, is_durable: bool) -> Result<ShardEnd> {
    let path = folder.join(&open.path);
    let file = durable::open_cut(&path, open.end)
        .map_err(|error| Error::storage("cut back", &path, error))?
        .ok_or_else(|| Damage("it is shorter than the journal says").of(&path))?;
    let index = read_index(&path, open)?;
    let log = Log {
        folder: folder.to_owned(),
        name: open.path.clone(),
        file: Some(file),
        end: open.end,
        crc32c: open.crc32c,
        is_durable,
    };
    log.seal(index)
}

fn read_index(path: &Path, open: &ShardEnd) -> Result<Index> {
    let mut index = Index::new(hash44);
    let mut rows = Rows::open(path, Some(open.end))?;
    loop {
        let offset = rows.offset();
        let Some(frame) = rows.next_frame()? else { break };
        index.add_frame(FrameAt { offset, first_row: frame.first_row() });
        if !frame.iter().all(|row| index.add(&row)) {
            return Err(Damage("it has more rows than a sealed one may have").of(path));
        }
    }
    if rows.offset() != open.end || rows.crc32c() != open.crc32c {
        return Err(Damage("it is not what the journal says").of(path));
    }
    Ok(index)
}
