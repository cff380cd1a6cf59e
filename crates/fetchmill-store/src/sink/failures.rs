//! Failures shards. They contain one JSON line per failed or absent target, in zstd frames, with one frame per window.
//! A target that a transform dropped also has a line, because no other record shows that it is finished.
//!
//! Lines are appended and synced before the commit record that counts them. Bytes after the recorded end are ignored,
//! and truncated when the job resumes. Failures are stored as data, so memory use does not depend on how many there
//! are.
//!
//! In a check, every target has such a line, which is its [`fetchmill_model::row::CheckRow`].

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Block, BlockEntry, EntryDescription, RefusedObject};
use crate::durable::{self, AppendedFile};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::name;
use fetchmill_model::outcome::{Outcome, ShardEnd};
use fetchmill_model::target::Sequence;
use fetchmill_model::target::extra_columns::{extra_values, write_extra};
use fetchmill_model::text::file_name::FileName;
use fetchmill_model::verdict::failure_detail::{failure_detail, status_text};

/// Total size of the lines that are compressed into one frame.
const FRAME_BYTES: usize = 256 * 1024;
/// Maximum size of a line in bytes. The name, the URL and the kept values are limited by the size of a page. In JSON, a
/// single byte can take up to six bytes.
const LINE_BYTES_MAX: u64 = 7 * fetchmill_model::limits::PAGE_BYTES_MAX as u64;

/// A target that failed, was absent, or was dropped after it was fetched.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct FailureRow {
    /// Sequence number of the target.
    pub sequence: Sequence,
    /// Name of the target, if it is UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Name of the target in hexadecimal, if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_hex: Option<String>,
    /// Requested URL, if it differs from the name and is UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Requested URL in hexadecimal, if it differs from the name and is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url_hex: Option<String>,
    /// `absent`, `failed` or `skipped`.
    pub outcome: String,
    /// Kind of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Status of the last reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Number of attempts made.
    pub attempts: u32,
    /// Detail of the failure for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Values of the kept columns, if all of them are UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Vec<Option<String>>>,
    /// Values of the kept columns as written by [`write_extra`], in hexadecimal. Present if any value is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_hex: Option<String>,
    /// Request as written by [`fetchmill_model::target::request`], in hexadecimal. Present if it is not a plain `GET`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_hex: Option<String>,
    /// Replies that arrived in place of an object ([`fetchmill_model::object::kept_reply`]), in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replies_hex: Option<String>,
}

fn detail_of(outcome: Outcome, status: u16, given: Option<&[u8]>) -> Option<String> {
    let given = given.map(String::from_utf8_lossy);
    match outcome {
        Outcome::Failed(kind) => Some(failure_detail(kind, status, given.as_deref())),
        Outcome::Absent if given.is_none() && status != 0 => Some(status_text(status).into_owned()),
        _ => given.map(Cow::into_owned),
    }
}

impl FailureRow {
    fn new(
        sequence: Sequence,
        outcome: Outcome,
        status: u16,
        attempts: u32,
        target: &EntryDescription<'_>,
    ) -> Self {
        let (name, name_hex) = text_or_hex(Some(target.name));
        let (url, url_hex) = text_or_hex(target.url);
        let kept = target.kept.and_then(texts_of);
        FailureRow {
            sequence,
            name,
            name_hex,
            url,
            url_hex,
            outcome: outcome.name().to_owned(),
            kind: match outcome {
                Outcome::Failed(kind) => Some(kind.name().to_owned()),
                _ => None,
            },
            status: (status != 0).then_some(status),
            attempts,
            detail: detail_of(outcome, status, target.detail),
            kept_hex: target.kept.filter(|_| kept.is_none()).map(name::to_hex),
            kept,
            request_hex: target.request.map(name::to_hex),
            replies_hex: target.replies.map(name::to_hex),
        }
    }

    /// Returns the request, if it is not a plain `GET`.
    pub fn request_bytes(&self) -> Option<Vec<u8>> {
        name::from_hex(self.request_hex.as_deref()?)
    }

    /// Returns the replies that arrived in place of an object.
    pub fn replies_bytes(&self) -> Option<Vec<u8>> {
        name::from_hex(self.replies_hex.as_deref()?)
    }

    /// Returns whether a transform dropped the target. If so, the target neither failed nor was absent.
    pub fn is_skipped(&self) -> bool {
        self.outcome == Outcome::SKIPPED
    }

    /// Returns the bytes of the name. `None` if the row is damaged.
    pub fn name_bytes(&self) -> Option<Vec<u8>> {
        bytes_of(self.name.as_deref(), self.name_hex.as_deref())
    }

    /// Returns the bytes of the URL, if it differs from the name.
    pub fn url_bytes(&self) -> Option<Vec<u8>> {
        bytes_of(self.url.as_deref(), self.url_hex.as_deref())
    }

    /// Returns the values of the kept columns, as written by [`write_extra`].
    pub fn extra_bytes(&self) -> Option<Vec<u8>> {
        let Some(values) = &self.kept else {
            return self.kept_hex.as_deref().and_then(name::from_hex);
        };
        let mut kept = Vec::new();
        write_extra(values.iter().map(|value| value.as_deref().map(str::as_bytes)), &mut kept);
        Some(kept)
    }
}

/// Returns the bytes as a string, or in hexadecimal if they are not UTF-8.
fn text_or_hex(bytes: Option<&[u8]>) -> (Option<String>, Option<String>) {
    let text = bytes.and_then(|bytes| std::str::from_utf8(bytes).ok());
    let hex = bytes.filter(|_| text.is_none()).map(name::to_hex);
    (text.map(str::to_owned), hex)
}

/// Returns the bytes that [`text_or_hex`] converted.
fn bytes_of(text: Option<&str>, hex: Option<&str>) -> Option<Vec<u8>> {
    text.map(|text| text.as_bytes().to_vec()).or_else(|| name::from_hex(hex?))
}

/// Returns kept values as strings. `None` if any value is not UTF-8.
fn texts_of(kept: &[u8]) -> Option<Vec<Option<String>>> {
    let text = |value: Option<&[u8]>| match value {
        Some(value) => std::str::from_utf8(value).ok().map(|text| Some(text.to_owned())),
        None => Some(None),
    };
    extra_values(kept).map(text).collect()
}

/// Writes a failures shard. The first failure creates the file.
#[derive(Debug)]
pub struct FailuresShard {
    file: AppendedFile,
    lines: Vec<u8>,
}

impl FailuresShard {
    /// Prepares a new shard in a folder. No other shard may have this name.
    pub fn new(folder: &Path, name: FileName, is_durable: bool) -> Self {
        FailuresShard { file: AppendedFile::new(folder, name, is_durable), lines: Vec::new() }
    }

    /// Adds an unfetched entry of a block.
    pub fn add(&mut self, block: &Block, entry: &BlockEntry) -> Result<()> {
        self.add_row(&FailureRow::new(
            entry.sequence,
            entry.outcome,
            entry.status,
            entry.attempts,
            &block.described(entry),
        ))
    }

    /// Adds an object that a sink could not move into place.
    pub fn add_refused(&mut self, refused: &RefusedObject) -> Result<()> {
        let target = EntryDescription {
            url: refused.url.as_deref(),
            request: refused.request.as_deref(),
            ..EntryDescription::named(&refused.name)
        };
        self.add_row(&FailureRow::new(refused.sequence, Outcome::Failed(refused.kind), 0, 1, &target))
    }

    /// Adds the row of a target in a check.
    pub fn add_line(&mut self, line: &[u8]) -> Result<()> {
        self.lines.extend_from_slice(line);
        self.end_line()
    }

    /// Adds a row from another shard, unchanged.
    pub fn add_row(&mut self, row: &FailureRow) -> Result<()> {
        serde_json::to_writer(&mut self.lines, row).map_err(|error| Error::Internal(error.to_string()))?;
        self.end_line()
    }

    fn end_line(&mut self) -> Result<()> {
        self.lines.push(b'\n');
        if self.lines.len() >= FRAME_BYTES { self.write_frame() } else { Ok(()) }
    }

    fn write_frame(&mut self) -> Result<()> {
        let frame =
            zstd::bulk::compress(&self.lines, 1).map_err(|error| Error::Internal(error.to_string()))?;
        self.lines.clear();
        self.file.append(&frame)
    }

    /// Makes the added rows durable. Returns `None` if no rows were added.
    pub fn checkpoint(&mut self) -> Result<Option<ShardEnd>> {
        if !self.lines.is_empty() {
            self.write_frame()?;
        }
        self.file.sync()
    }
}

/// Truncates shards to the ends that the journal records, and removes shards that the journal does not contain.
pub fn cut_back(folder: &Path, shards: &[ShardEnd]) -> Result<()> {
    cut_back_of(folder, shards, "")
}

/// Like [`cut_back`], but only for shards whose names start with `start`, because other shards may be in use.
pub fn cut_back_of(folder: &Path, shards: &[ShardEnd], start: &str) -> Result<()> {
    for shard in shards.iter().filter(|shard| shard.path.starts_with(start)) {
        let path = folder.join(&shard.path);
        match durable::cut(&path, shard.end) {
            Ok(true) => {}
            Ok(false) => {
                return Err(Error::Journal(format!(
                    "{} is shorter than recorded in the journal; the list of failures is damaged",
                    path.display()
                )));
            }
            Err(error) => return Err(Error::storage("truncate", path, error)),
        }
    }
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Ok(());
    };
    for entry in entries.flatten() {
        let is_known = shards.iter().any(|shard| entry.file_name() == *shard.path);
        let is_meant = entry.file_name().as_encoded_bytes().starts_with(start.as_bytes());
        if !is_known && is_meant {
            durable::remove_path(&entry.path())
                .map_err(|error| Error::storage("remove", entry.path(), error))?;
        }
    }
    Ok(())
}

/// Reads the lines of a shard up to its recorded end.
pub struct ShardLines {
    lines: BufReader<zstd::stream::read::Decoder<'static, BufReader<std::io::Take<File>>>>,
    path: PathBuf,
    line: Vec<u8>,
}

impl std::fmt::Debug for ShardLines {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ShardLines").field("path", &self.path).finish_non_exhaustive()
    }
}

impl ShardLines {
    /// Opens a shard.
    pub fn open(folder: &Path, shard: &ShardEnd) -> Result<Self> {
        let path = folder.join(&shard.path);
        let open = || {
            let file = File::open(&path)?.take(shard.end);
            zstd::stream::read::Decoder::new(file)
        };
        let decoder = open().map_err(|error| Error::storage("read", &path, error))?;
        Ok(ShardLines { lines: BufReader::new(decoder), path, line: Vec::new() })
    }

    /// Returns the next line. `None` after the last one.
    pub fn next_line(&mut self) -> Result<Option<&[u8]>> {
        self.line.clear();
        let count = (&mut self.lines)
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut self.line)
            .map_err(|error| Error::storage("read", &self.path, error))?;
        Ok((count > 0).then_some(&self.line))
    }

    /// Returns the error for a line that cannot be parsed.
    pub fn damaged(&self, reason: &dyn std::fmt::Display) -> Error {
        let path = self.path.display();
        Error::Journal(format!("{path} is damaged ({reason}); the list of failures is incomplete"))
    }
}

/// Reads the rows of a shard up to its recorded end.
#[derive(Debug)]
pub struct FailureRows(ShardLines);

impl FailureRows {
    /// Opens a shard.
    pub fn open(folder: &Path, shard: &ShardEnd) -> Result<Self> {
        ShardLines::open(folder, shard).map(FailureRows)
    }

    fn read(&mut self) -> Result<Option<FailureRow>> {
        let Some(line) = self.0.next_line()? else { return Ok(None) };
        let row = serde_json::from_slice(line);
        row.map(Some).map_err(|error| self.0.damaged(&error))
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
    use fetchmill_model::outcome::FailureKind;

    fn block() -> Block {
        let mut block = Block::default();
        block.push_other(1, Outcome::Absent, 404, 1, &EntryDescription::named(b"a\n"));
        block.push_other(
            2,
            Outcome::Failed(FailureKind::ServerError),
            500,
            5,
            &EntryDescription::named(b"\xff"),
        );
        block
    }

    fn rows(folder: &Path, end: &ShardEnd) -> Vec<FailureRow> {
        FailureRows::open(folder, end).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn rows_come_back_and_what_has_no_receipt_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let mut shard = FailuresShard::new(folder.path(), FileName::of_own("0.jsonl.zst"), true);
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
    fn a_target_of_a_list_comes_back_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let mut shard = FailuresShard::new(folder.path(), FileName::of_own("0.jsonl.zst"), false);
        let (mut texts, mut bytes) = (Vec::new(), Vec::new());
        write_extra([Some(&b"1"[..]), None, Some(b"")].into_iter(), &mut texts);
        write_extra([Some(&b"\xff"[..])].into_iter(), &mut bytes);
        let targets = [
            EntryDescription {
                name: b"key",
                url: Some(b"https://a/"),
                kept: Some(&texts),
                ..EntryDescription::default()
            },
            EntryDescription {
                name: b"line 17",
                url: Some(b""),
                kept: None,
                detail: Some(b"it has no host"),
                ..EntryDescription::default()
            },
            EntryDescription {
                name: b"b",
                url: Some(b"\xfe"),
                kept: Some(&bytes),
                ..EntryDescription::default()
            },
            EntryDescription { name: b"c", kept: Some(b""), ..EntryDescription::default() },
        ];
        let mut block = Block::default();
        for target in &targets {
            block.push_other(1, Outcome::Absent, 404, 1, target);
        }

        for entry in block.entries() {
            shard.add(&block, entry).unwrap();
        }

        let end = shard.checkpoint().unwrap().unwrap();
        let rows = rows(folder.path(), &end);
        for (row, target) in rows.iter().zip(&targets) {
            assert_eq!(row.name_bytes().as_deref(), Some(target.name));
            assert_eq!(row.url_bytes().as_deref(), target.url);
            assert_eq!(row.extra_bytes().as_deref(), target.kept);
            let detail = target.detail.unwrap_or(b"404 Not Found");
            assert_eq!(row.detail.as_deref().map(str::as_bytes), Some(detail));
        }
        assert_eq!(rows.len(), targets.len());
        assert_eq!(rows[0].kept, Some(vec![Some("1".into()), None, Some(String::new())]));
    }

    #[test]
    fn a_shard_that_is_too_short_is_told() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("s"), "x").unwrap();

        let error = cut_back(folder.path(), &[ShardEnd { path: FileName::of_own("s"), end: 2, crc32c: 0 }])
            .unwrap_err();

        assert_eq!(error.exit_code(), 10);
    }
}
