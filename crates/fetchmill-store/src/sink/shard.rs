//! The file of an open shard. Data is appended in large pieces with a checksum, and written to disk early.

use std::fs::File;
use std::io::{self, Write};

use super::ShardFolder;
use crate::durable::{self, Readers};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits::SHARD_BUFFER_BYTES;
use fetchmill_model::outcome::ShardEnd;
use fetchmill_model::text::file_name::FileName;

/// The kernel is asked to write what is behind by so much: the sync at the end of a window then has little to wait
/// for.
const WRITEBACK_BYTES: u64 = 8 * 1024 * 1024;

/// See the module.
#[derive(Debug)]
pub(super) struct ShardFile {
    name: FileName,
    file: File,
    /// What is not written yet.
    buffer: Vec<u8>,
    /// Bytes in the file.
    written: u64,
    crc32c: u32,
    /// Bytes that the kernel was asked to write.
    sent: u64,
    /// Bytes that the kernel was asked to forget.
    forgotten: u64,
    shard_folder: ShardFolder,
}

impl ShardFile {
    /// Makes the file of a new shard.
    pub(super) fn create(shard_folder: &ShardFolder, name: FileName) -> Result<Self> {
        Self::create_for(shard_folder, name, Readers::AsUsual)
    }

    /// The same for these readers.
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

    /// Bytes so far.
    pub(super) fn end(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Where to append; [`ShardFile::flush_if_full`] follows.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Writes the buffer when it is full.
    pub(super) fn flush_if_full(&mut self) -> Result<()> {
        if self.buffer.len() < SHARD_BUFFER_BYTES {
            return Ok(());
        }
        self.flush().map_err(|error| self.fail("write", error))
    }

    pub(super) fn fail(&self, action: &'static str, error: impl Into<io::Error>) -> Error {
        Error::storage(action, self.shard_folder.open_path().join(&self.name), error)
    }

    /// Makes all of it durable.
    pub(super) fn checkpoint(&mut self) -> Result<ShardEnd> {
        self.flush().map_err(|error| self.fail("write", error))?;
        if self.shard_folder.is_durable() {
            durable::sync_file(&self.file).map_err(|error| self.fail("sync", error))?;
            // A job of terabytes must not push out of memory what others use; and pages that come free are used
            // again, which costs less than to ask for new ones.
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

    /// Gives everything to the kernel.
    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        durable::append(&mut self.file, &self.buffer)?;
        self.written += self.buffer.len() as u64;
        self.crc32c = crc32c::crc32c_append(self.crc32c, &self.buffer);
        self.buffer.clear();
        // One large object must not keep its memory.
        self.buffer.shrink_to(2 * SHARD_BUFFER_BYTES);
        if self.shard_folder.is_durable() && self.written - self.sent >= WRITEBACK_BYTES {
            durable::start_writeback(&self.file, self.sent, self.written - self.sent);
            self.sent = self.written;
        }
        Ok(())
    }
}
