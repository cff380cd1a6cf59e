//! The file of an open shard. Data is appended in large pieces, included in the checksum, and written to disk early.

use std::fs::File;
use std::io::{self, Write};

use super::ShardFolder;
use crate::durable::{self, Readers};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits::SHARD_BUFFER_BYTES;
use fetchmill_model::outcome::ShardEnd;
use fetchmill_model::text::file_name::FileName;

/// Number of bytes after which the kernel is asked to write them. As a result, the sync at the end of a window takes
/// little time.
const WRITEBACK_BYTES: u64 = 8 * 1024 * 1024;

/// See the [module documentation](self).
#[derive(Debug)]
pub(super) struct ShardFile {
    name: FileName,
    file: File,
    /// Bytes that are not in the file yet.
    buffer: Vec<u8>,
    /// Number of bytes in the file.
    written: u64,
    crc32c: u32,
    /// Number of bytes that the kernel was asked to write.
    sent: u64,
    /// Number of bytes that the kernel was asked to drop from its cache.
    forgotten: u64,
    shard_folder: ShardFolder,
}

impl ShardFile {
    /// Creates the file of a new shard.
    pub(super) fn create(shard_folder: &ShardFolder, name: FileName) -> Result<Self> {
        Self::create_for(shard_folder, name, Readers::AsUsual)
    }

    /// Like [`ShardFile::create`], for a file that `readers` may read.
    pub(super) fn create_for(shard_folder: &ShardFolder, name: FileName, readers: Readers) -> Result<Self> {
        let file = shard_folder.create(&name, readers)?;
        Ok(ShardFile {
            name,
            file,
            buffer: Vec::with_capacity(SHARD_BUFFER_BYTES),
            written: 0,
            crc32c: 0,
            sent: 0,
            forgotten: 0,
            shard_folder: shard_folder.clone(),
        })
    }

    /// Returns the number of bytes so far.
    pub(super) fn end(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Returns the buffer to append to. Call [`ShardFile::flush_if_full`] afterwards.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Writes the buffer to the file if it is full.
    pub(super) fn flush_if_full(&mut self) -> Result<()> {
        if self.buffer.len() < SHARD_BUFFER_BYTES {
            return Ok(());
        }
        self.flush().map_err(|error| self.fail("write", error))
    }

    pub(super) fn fail(&self, action: &'static str, error: impl Into<io::Error>) -> Error {
        Error::storage(action, self.shard_folder.open_path().join(&self.name), error)
    }

    /// Makes the whole file durable.
    pub(super) fn checkpoint(&mut self) -> Result<ShardEnd> {
        self.flush().map_err(|error| self.fail("write", error))?;
        if self.shard_folder.is_durable() {
            durable::sync_file(&self.file).map_err(|error| self.fail("sync", error))?;
            // A job of terabytes must not evict the data of other programs from memory. Reusing freed pages is also
            // cheaper than requesting new ones.
            durable::forget(&self.file, self.forgotten);
            self.forgotten = self.written;
        }
        self.sent = self.written;
        Ok(ShardEnd { path: self.name.clone(), end: self.written, crc32c: self.crc32c })
    }
}

impl Write for ShardFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= SHARD_BUFFER_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    /// Passes all bytes to the kernel.
    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        durable::append(&mut self.file, &self.buffer)?;
        self.written += self.buffer.len() as u64;
        self.crc32c = crc32c::crc32c_append(self.crc32c, &self.buffer);
        self.buffer.clear();
        // Do not keep the memory of a large object.
        self.buffer.shrink_to(2 * SHARD_BUFFER_BYTES);
        if self.shard_folder.is_durable() && self.written - self.sent >= WRITEBACK_BYTES {
            durable::start_writeback(&self.file, self.sent, self.written - self.sent);
            self.sent = self.written;
        }
        Ok(())
    }
}
