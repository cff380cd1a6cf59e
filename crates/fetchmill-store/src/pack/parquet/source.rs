//! A file as the library reads it: at positions within its length.

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Number of bytes to read ahead. Page headers take about a dozen bytes, and the library reads them one at a time.
const READ_AHEAD: usize = 512;

/// A file that is read at positions, so that threads can share it without seeking. Lengths come from the file itself,
/// so they are checked against its size before memory is allocated.
#[derive(Debug, Clone)]
pub(super) struct ShardBytes {
    file: Arc<File>,
    len: u64,
}

impl ShardBytes {
    pub(super) fn new(file: File) -> io::Result<Self> {
        let len = file.metadata()?.len();
        Ok(ShardBytes { file: Arc::new(file), len })
    }

    pub(super) fn cursor(&self, place: u64) -> ShardCursor {
        ShardCursor { file: Arc::clone(&self.file), place }
    }
}

impl Length for ShardBytes {
    fn len(&self) -> u64 {
        self.len
    }
}

impl ChunkReader for ShardBytes {
    type T = BufReader<ShardCursor>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(BufReader::with_capacity(READ_AHEAD, self.cursor(start)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        if start.checked_add(length as u64).is_none_or(|end| end > self.len) {
            return Err(ParquetError::EOF(format!(
                "{length} bytes at {start} were requested from a file of {} bytes",
                self.len
            )));
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, start)?;
        Ok(bytes.into())
    }
}

/// Reads sequentially from a position.
#[derive(Debug)]
pub(super) struct ShardCursor {
    file: Arc<File>,
    place: u64,
}

impl Read for ShardCursor {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.place)?;
        self.place += read as u64;
        Ok(read)
    }
}
