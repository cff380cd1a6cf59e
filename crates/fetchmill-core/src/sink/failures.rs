//! Failures shards: a line of JSON for each target that failed or was absent, in zstd frames, a frame a window.
//!
//! Appended and synced before the receipt that counts them; what is behind the receipt's end does not exist, and a
//! resumed job cuts it off. Failures are data: no list of them grows in memory.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Block, Entry, Refused};
use crate::durable;
use crate::error::{Error, Result};
use crate::name;
use crate::outcome::{Outcome, ShardEnd};
use crate::target::Sequence;

/// Lines collected before they are compressed into a frame.
const FRAME_BYTES: usize = 256 * 1024;
/// A line of a shard: a name is bounded by its page, JSON may need six bytes for one.
const LINE_BYTES_MAX: u64 = 7 * crate::limits::PAGE_BYTES_MAX as u64;

/// A target that failed or was absent.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct FailureRow {
    /// Which target.
    pub sequence: Sequence,
    /// Its name when that is UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its name in hexadecimal otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_hex: Option<String>,
    /// `absent` or `failed`.
    pub outcome: String,
    /// The failure kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The status of the last reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Attempts that were made.
    pub attempts: u32,
}

impl FailureRow {
    fn new(sequence: Sequence, outcome: Outcome, status: u16, attempts: u32, name: &[u8]) -> Self {
        let text = std::str::from_utf8(name).ok();
        FailureRow {
            sequence,
            name: text.map(str::to_owned),
            name_hex: text.is_none().then(|| name::to_hex(name)),
            outcome: if outcome == Outcome::Absent { "absent" } else { "failed" }.to_owned(),
            kind: match outcome {
                Outcome::Failed(kind) => Some(kind.name().to_owned()),
                _ => None,
            },
            status: (status != 0).then_some(status),
            attempts,
        }
    }

    /// The name's bytes; `None` when the row is damaged.
    pub fn name_bytes(&self) -> Option<Vec<u8>> {
        match (&self.name, &self.name_hex) {
            (Some(name), _) => Some(name.as_bytes().to_vec()),
            (None, Some(hex)) => name::from_hex(hex),
            (None, None) => None,
        }
    }
}

/// Writes one shard; its file is made with the first failure.
#[derive(Debug)]
pub struct FailuresShard {
    folder: PathBuf,
    name: String,
    file: Option<File>,
    lines: Vec<u8>,
    end: u64,
    crc32c: u32,
    is_durable: bool,
}

impl FailuresShard {
    /// A new shard in a folder; no other may have its name.
    pub fn new(folder: &Path, name: String, is_durable: bool) -> Self {
        FailuresShard {
            folder: folder.to_owned(),
            name,
            file: None,
            lines: Vec::new(),
            end: 0,
            crc32c: 0,
            is_durable,
        }
    }

    /// Adds an entry of a block that was not fetched.
    pub fn add(&mut self, block: &Block, entry: &Entry) -> Result<()> {
        self.line(&FailureRow::new(
            entry.sequence,
            entry.outcome,
            entry.status,
            entry.attempts,
            block.name(entry),
        ))
    }

    /// Adds an object that a sink could not put in its place.
    pub fn add_refused(&mut self, refused: &Refused) -> Result<()> {
        self.line(&FailureRow::new(refused.sequence, Outcome::Failed(refused.kind), 0, 1, &refused.name))
    }

    fn line(&mut self, row: &FailureRow) -> Result<()> {
        serde_json::to_writer(&mut self.lines, row).map_err(|error| Error::Internal(error.to_string()))?;
        self.lines.push(b'\n');
        if self.lines.len() >= FRAME_BYTES { self.write_frame() } else { Ok(()) }
    }

    fn path(&self) -> PathBuf {
        self.folder.join(&self.name)
    }

    fn write_frame(&mut self) -> Result<()> {
        let frame =
            zstd::bulk::compress(&self.lines, 1).map_err(|error| Error::Internal(error.to_string()))?;
        self.lines.clear();
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(durable::create_in(&self.folder, &self.name, self.is_durable)?),
        };
        durable::append(file, &frame)
            .map_err(|error| Error::storage("write", self.folder.join(&self.name), error))?;
        self.end += frame.len() as u64;
        self.crc32c = crc32c::crc32c_append(self.crc32c, &frame);
        Ok(())
    }

    /// Makes what was added durable; `None` when there is nothing.
    pub fn checkpoint(&mut self) -> Result<Option<ShardEnd>> {
        if !self.lines.is_empty() {
            self.write_frame()?;
        }
        let Some(file) = &self.file else { return Ok(None) };
        if self.is_durable {
            durable::sync_file(file).map_err(|error| Error::storage("sync", self.path(), error))?;
        }
        Ok(Some(ShardEnd { path: self.name.clone(), end: self.end, crc32c: self.crc32c }))
    }
}

/// Cuts shards back to where the journal says they end, and removes those that it does not know.
pub fn cut_back(folder: &Path, shards: &[ShardEnd]) -> Result<()> {
    for shard in shards {
        let path = folder.join(&shard.path);
        match durable::cut(&path, shard.end) {
            Ok(true) => {}
            Ok(false) => {
                return Err(Error::Journal(format!(
                    "{} is shorter than the journal says: the list of failures is damaged",
                    path.display()
                )));
            }
            Err(error) => return Err(Error::storage("cut back", path, error)),
        }
    }
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Ok(());
    };
    for entry in entries.flatten() {
        let is_known = shards.iter().any(|shard| entry.file_name() == shard.path.as_str());
        if !is_known {
            std::fs::remove_file(entry.path())
                .map_err(|error| Error::storage("remove", entry.path(), error))?;
        }
    }
    Ok(())
}

/// Reads the rows of a shard up to its end.
pub struct FailureRows {
    lines: BufReader<zstd::stream::read::Decoder<'static, BufReader<std::io::Take<File>>>>,
    path: PathBuf,
}

impl std::fmt::Debug for FailureRows {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("FailureRows").field("path", &self.path).finish_non_exhaustive()
    }
}

impl FailureRows {
    /// Opens a shard.
    pub fn open(folder: &Path, shard: &ShardEnd) -> Result<Self> {
        let path = folder.join(&shard.path);
        let open = || {
            let file = File::open(&path)?.take(shard.end);
            zstd::stream::read::Decoder::new(file)
        };
        let decoder = open().map_err(|error| Error::storage("read", &path, error))?;
        Ok(FailureRows { lines: BufReader::new(decoder), path })
    }

    fn read(&mut self) -> Result<Option<FailureRow>> {
        let mut line = Vec::new();
        let count = (&mut self.lines)
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut line)
            .map_err(|error| Error::storage("read", &self.path, error))?;
        if count == 0 {
            return Ok(None);
        }
        serde_json::from_slice(&line).map(Some).map_err(|error| {
            Error::Journal(format!(
                "{} is damaged ({error}); the list of failures is incomplete",
                self.path.display()
            ))
        })
    }
}

impl Iterator for FailureRows {
    type Item = Result<FailureRow>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::FailureKind;

    fn block() -> Block {
        let mut block = Block::default();
        block.push_other(1, Outcome::Absent, 404, 1, b"a\n");
        block.push_other(2, Outcome::Failed(FailureKind::ServerError), 500, 5, b"\xff");
        block
    }

    fn rows(folder: &Path, end: &ShardEnd) -> Vec<FailureRow> {
        FailureRows::open(folder, end).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn rows_come_back_and_what_has_no_receipt_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let mut shard = FailuresShard::new(folder.path(), "0.jsonl.zst".into(), true);
        assert_eq!(shard.checkpoint().unwrap(), None);
        let block = block();
        for entry in block.entries() {
            shard.add(&block, entry).unwrap();
        }
        let end = shard.checkpoint().unwrap().unwrap();
        shard.add(&block, &block.entries()[0]).unwrap();
        shard.checkpoint().unwrap();
        std::fs::write(folder.path().join("unknown"), "x").unwrap();

        cut_back(folder.path(), std::slice::from_ref(&end)).unwrap();

        assert_eq!(std::fs::metadata(folder.path().join(&end.path)).unwrap().len(), end.end);
        assert!(!folder.path().join("unknown").exists());
        let rows = rows(folder.path(), &end);
        assert_eq!(
            rows.iter().map(|row| row.name_bytes().unwrap()).collect::<Vec<_>>(),
            [&b"a\n"[..], b"\xff"]
        );
        assert_eq!(rows[1].kind.as_deref(), Some("server-error"));
        assert_eq!(rows[1].status, Some(500));
        let bytes = std::fs::read(folder.path().join(&end.path)).unwrap();
        assert_eq!(crc32c::crc32c(&bytes), end.crc32c);
    }

    #[test]
    fn a_shard_that_is_too_short_is_told() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("s"), "x").unwrap();

        let error = cut_back(folder.path(), &[ShardEnd { path: "s".into(), end: 2, crc32c: 0 }]).unwrap_err();

        assert_eq!(error.exit_code(), 10);
    }
}
