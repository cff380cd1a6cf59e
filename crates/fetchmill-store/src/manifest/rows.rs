//! Reads the rows of an open or sealed manifest, in order.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::frame::{Frame, FrameHeader, HEADER_BYTES, empty};
use super::{ManifestDamage, index, read_at};
use fetchmill_model::error::{Error, Result};

/// The frames of a manifest, in order. Only one of them is in memory at a time.
pub struct ManifestRows {
    file: File,
    path: PathBuf,
    /// End of the frames. This is the end of an open manifest, or the start of the index of a sealed one.
    end: u64,
    offset: u64,
    next_row: u64,
    crc32c: u32,
    stored: Vec<u8>,
    frame: Frame,
    unpacker: zstd::bulk::Decompressor<'static>,
}

impl std::fmt::Debug for ManifestRows {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ManifestRows").field("path", &self.path).finish_non_exhaustive()
    }
}

impl ManifestRows {
    /// Opens a manifest that ends at `end`, or at the end of the file.
    pub fn open(path: &Path, end: Option<u64>) -> Result<Self> {
        let fail = |error| Error::storage("read", path, error);
        let file = File::open(path).map_err(fail)?;
        let length = file.metadata().map_err(fail)?.len();
        let end = end.unwrap_or(length);
        if end > length {
            return Err(ManifestDamage("it is shorter than recorded in the journal").of(path));
        }
        Ok(ManifestRows {
            file,
            path: path.to_owned(),
            end,
            offset: 0,
            next_row: 0,
            crc32c: 0,
            stored: Vec::new(),
            frame: Frame::default(),
            unpacker: zstd::bulk::Decompressor::new().map_err(fail)?,
        })
    }

    /// Reads the next frame. Returns `None` after the last one. After an error, every call returns the same error.
    pub fn next_frame(&mut self) -> Result<Option<&Frame>> {
        if !self.has_frame()? {
            return Ok(None);
        }
        read_at(&self.file, &self.path, &mut self.stored, self.offset)?;
        self.frame
            .read(self.next_row, &self.stored, &mut self.unpacker)
            .map_err(|damage| damage.of(&self.path))?;
        self.offset += self.stored.len() as u64;
        self.next_row += self.frame.len() as u64;
        self.crc32c = crc32c::crc32c_append(self.crc32c, &self.stored);
        Ok(Some(&self.frame))
    }

    /// Returns whether there is another frame, and sets `stored` to its size.
    fn has_frame(&mut self) -> Result<bool> {
        let left = self.end - self.offset;
        if left == 0 {
            return Ok(false);
        }
        let mut bytes = [0; HEADER_BYTES];
        let header = &mut bytes[..left.min(HEADER_BYTES as u64) as usize];
        read_at(&self.file, &self.path, header, self.offset)?;
        let damaged = |damage: ManifestDamage| damage.of(&self.path);
        if index::is_table(header, self.next_row).map_err(damaged)? {
            return Ok(false);
        }
        let length = HEADER_BYTES + FrameHeader::parse(header).map_err(damaged)?.stored();
        if length as u64 > left {
            return Err(ManifestDamage("its last frame is cut off").of(&self.path));
        }
        empty(&mut self.stored);
        self.stored.resize(length, 0);
        Ok(true)
    }

    /// Returns the offset of the next frame.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the CRC-32C of the frames read so far.
    pub(super) fn crc32c(&self) -> u32 {
        self.crc32c
    }
}
