//! The CDXJ index of a WARC shard: its lines, sorted, in a separate file next to the shard.

use std::path::PathBuf;

use super::ShardFolder;
use super::shard::ShardFile;
use super::sorted_lines::SortedLines;
use crate::durable;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits::INDEX_SORT_BYTES;
use fetchmill_model::outcome::ShardEnd;
use fetchmill_model::text::file_name::FileName;

/// Writes an index to the folder of open shards.
#[derive(Debug)]
pub struct CdxjWriter {
    shard_folder: ShardFolder,
    lines: SortedLines,
    /// Folder for the file without a name that holds lines to be sorted.
    folder: PathBuf,
}

impl CdxjWriter {
    /// Prefix of the names of incomplete index files.
    pub const OPEN: &str = "cdxj-";

    /// Creates the index writer for one shard.
    pub fn new(shard_folder: &ShardFolder) -> Result<Self> {
        let folder = shard_folder.open_path();
        let parts = durable::nameless_file(&folder)
            .map_err(|error| Error::storage("create a file in", &folder, error))?;
        let lines = SortedLines::new(parts, INDEX_SORT_BYTES);
        Ok(CdxjWriter { shard_folder: shard_folder.clone(), lines, folder })
    }

    /// Adds a line, in any order.
    pub fn push(&mut self, line: &[u8]) -> Result<()> {
        self.lines.push(line).map_err(|error| Error::storage("write a file in", &self.folder, error))
    }

    /// Writes the index and makes it durable.
    pub fn finish(self) -> Result<ShardEnd> {
        let mut file = ShardFile::create(&self.shard_folder, open_name())?;
        let written = self.lines.for_each(|line| -> std::result::Result<(), LineError> {
            file.buffer().extend_from_slice(line);
            file.buffer().push(b'\n');
            file.flush_if_full().map_err(LineError::Written)
        });
        match written {
            Ok(()) => file.checkpoint(),
            Err(LineError::Sorted(error)) => Err(Error::storage("read a file in", &self.folder, error)),
            Err(LineError::Written(error)) => Err(error),
        }
    }
}

/// Reason why a line could not be written.
enum LineError {
    Sorted(std::io::Error),
    Written(Error),
}

impl From<std::io::Error> for LineError {
    fn from(error: std::io::Error) -> Self {
        LineError::Sorted(error)
    }
}

fn open_name() -> FileName {
    let (name, _) = super::shard_names(0);
    FileName::of_own(&format!("{}{name}", CdxjWriter::OPEN))
}
