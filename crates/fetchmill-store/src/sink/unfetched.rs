//! Writes targets that have no stored object. With `--keep-failed`, they become rows in separate files next to the
//! shards, with the same columns. Replies that arrived in place of objects are also stored in WARC files. Without
//! `--keep-failed`, failed and absent targets become lines of the failures file.
//!
//! Journals and manifests do not list objects in these files, so readers of objects never see these rows.

use std::path::{Path, PathBuf};

use super::cdxj::CdxjWriter;
use super::open::new_warc_encoder;
use super::shard::ShardFile;
use super::{Format, ShardFolder, SinkSetup};
use crate::durable::Readers;
use crate::pack::parquet::ParquetEncoder;
use crate::pack::warc::CdxjLines;
use crate::pack::{Encoder as _, JsonlEncoder, WarcEncoder};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits;
use fetchmill_model::object::UnfetchedTarget;
use fetchmill_model::object::kept_reply::KeptReply;
use fetchmill_model::outcome::UnfetchedFile;
use fetchmill_model::target::Sequence;
use fetchmill_model::target::extra_columns::ExtraColumns;
use fetchmill_model::text::file_name::FileName;

/// Kinds of files next to the shards of a finished job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnfetchedFiles {
    /// Rows for all targets without an object (`--keep-failed`), in one or more files.
    Rows,
    /// The failures file, with lines for failed and absent targets. Every format can have one.
    Failures,
    /// Replies that arrived in place of objects (`--keep-failed`), in one or more files.
    Replies,
}

impl UnfetchedFiles {
    /// Returns the kind of files that a job with these columns writes.
    pub fn of(columns: &ExtraColumns) -> Self {
        if columns.has_outcomes() { UnfetchedFiles::Rows } else { UnfetchedFiles::Failures }
    }

    fn name(self, shard_folder: &ShardFolder, number: usize) -> FileName {
        match self {
            UnfetchedFiles::Rows | UnfetchedFiles::Replies => {
                FileName::of_own(&shard_folder.unfetched_name(number))
            }
            UnfetchedFiles::Failures => FileName::of_own(ShardFolder::FAILURES),
        }
    }

    /// Returns the path of a file. `number` is its position among the files that the journal lists. If the journal does
    /// not store the names, all files have these standard names.
    pub fn path(self, shard_folder: &ShardFolder, file: &UnfetchedFile, number: usize) -> PathBuf {
        let name = file.name.clone().unwrap_or_else(|| self.name(shard_folder, number));
        shard_folder.beside_shards(&name)
    }
}

/// Writes these files to the folder of open shards.
#[derive(Debug)]
pub struct UnfetchedWriter<'s> {
    shard_folder: ShardFolder,
    files: UnfetchedFiles,
    setup: &'s SinkSetup,
    open: Option<OpenUnfetched>,
    /// Number of files so far, without indexes.
    count: usize,
    complete: Vec<UnfetchedFile>,
}

/// The file that is being written.
#[derive(Debug)]
struct OpenUnfetched {
    path: PathBuf,
    name: FileName,
    rows: u64,
    output: UnfetchedOutput,
}

#[derive(Debug)]
enum UnfetchedOutput {
    Parquet(Box<ParquetEncoder<ShardFile>>),
    Jsonl(Box<ShardFile>, JsonlEncoder),
    Failures(Box<ShardFile>, JsonlEncoder),
    Replies(Box<ReplyRecords>),
}

/// A WARC file, with its index for `--cdxj`.
#[derive(Debug)]
struct ReplyRecords {
    file: ShardFile,
    encoder: WarcEncoder,
    index: Option<(CdxjLines, CdxjWriter)>,
}

impl<'s> UnfetchedWriter<'s> {
    /// Prefix of the names of incomplete files.
    pub const OPEN: &'static str = "unfetched-";

    /// Creates the writer. `None` if the format has no shards.
    pub fn new(setup: &'s SinkSetup, files: UnfetchedFiles) -> Option<Self> {
        Some(UnfetchedWriter {
            shard_folder: setup.shard_folder()?,
            files,
            setup,
            open: None,
            count: 0,
            complete: Vec::new(),
        })
    }

    /// Appends a target.
    pub fn push(&mut self, target: &UnfetchedTarget<'_>) -> Result<()> {
        self.push_as(Some(target.sequence), target)
    }

    /// Appends a folder that could not be listed to the failures file. It is not a target and has no sequence number.
    pub fn push_folder(&mut self, folder: &UnfetchedTarget<'_>) -> Result<()> {
        self.push_as(None, folder)
    }

    fn push_as(&mut self, sequence: Option<Sequence>, target: &UnfetchedTarget<'_>) -> Result<()> {
        let (shard_bytes, is_one) = (self.setup.shard_bytes, self.files == UnfetchedFiles::Failures);
        let open = self.opened()?;
        open.push(sequence, target)?;
        if !is_one && (open.bytes() >= shard_bytes || open.rows >= limits::shard_rows_max(1)) {
            self.complete_open()?;
        }
        Ok(())
    }

    /// Completes the last file. If `is_needed`, creates a file even if there are no rows.
    pub fn finish(mut self, is_needed: bool) -> Result<Vec<UnfetchedFile>> {
        if is_needed && self.complete.is_empty() {
            self.opened()?;
        }
        self.complete_open()?;
        Ok(self.complete)
    }

    fn opened(&mut self) -> Result<&mut OpenUnfetched> {
        if let Some(ref mut open) = self.open {
            return Ok(open);
        }
        let (open_name, _) = super::shard_names(0);
        let open_name = FileName::of_own(&format!("{}{open_name}", Self::OPEN));
        let path = self.shard_folder.open_path().join(&open_name);
        // The failures file may contain signed URLs.
        let readers = if self.files == UnfetchedFiles::Failures { Readers::Owner } else { Readers::AsUsual };
        let file = ShardFile::create_for(&self.shard_folder, open_name, readers)?;
        let name = self.files.name(&self.shard_folder, self.count);
        let output = self.output(file, &path, &name)?;
        self.count += 1;
        Ok(self.open.insert(OpenUnfetched { path, name, rows: 0, output }))
    }

    fn output(&self, file: ShardFile, path: &Path, name: &FileName) -> Result<UnfetchedOutput> {
        let SinkSetup { format, columns, .. } = self.setup;
        Ok(match (self.files, format) {
            (UnfetchedFiles::Rows, Format::Parquet) => {
                let encoder = ParquetEncoder::new(
                    file,
                    limits::ROW_GROUPS_BYTES,
                    columns,
                    self.shard_folder.make_scratch(),
                )
                .map_err(|error| Error::storage("write", path, error))?;
                UnfetchedOutput::Parquet(Box::new(encoder))
            }
            (UnfetchedFiles::Rows, _) => UnfetchedOutput::Jsonl(Box::new(file), JsonlEncoder::new(columns)),
            (UnfetchedFiles::Failures, _) => {
                UnfetchedOutput::Failures(Box::new(file), JsonlEncoder::new(columns))
            }
            (UnfetchedFiles::Replies, _) => {
                let mut records = ReplyRecords {
                    file,
                    encoder: new_warc_encoder(self.setup.origin.clone())?,
                    index: if self.setup.unfetched.is_indexed {
                        Some((CdxjLines::new(name), CdxjWriter::new(&self.shard_folder)?))
                    } else {
                        None
                    },
                };
                records.encoder.start(records.file.buffer());
                UnfetchedOutput::Replies(Box::new(records))
            }
        })
    }

    fn complete_open(&mut self) -> Result<()> {
        if let Some(open) = self.open.take() {
            self.complete.extend(open.complete()?);
        }
        Ok(())
    }
}

impl OpenUnfetched {
    fn push(&mut self, sequence: Option<Sequence>, target: &UnfetchedTarget<'_>) -> Result<()> {
        self.rows += match &self.output {
            UnfetchedOutput::Replies(_) => KeptReply::all(target.replies.unwrap_or_default()).count() as u64,
            _ => 1,
        };
        match &mut self.output {
            UnfetchedOutput::Parquet(encoder) => {
                encoder.push_unfetched(target).map_err(|error| Error::storage("write", &self.path, error))
            }
            UnfetchedOutput::Jsonl(file, encoder) => {
                encoder.encode_unfetched(target, file.buffer());
                file.flush_if_full()
            }
            UnfetchedOutput::Failures(file, encoder) => {
                encoder.encode_failure(sequence, target, file.buffer());
                file.flush_if_full()
            }
            UnfetchedOutput::Replies(records) => records.push(target),
        }
    }

    fn bytes(&self) -> u64 {
        match &self.output {
            UnfetchedOutput::Parquet(encoder) => encoder.bytes() as u64,
            UnfetchedOutput::Jsonl(file, _) | UnfetchedOutput::Failures(file, _) => file.end(),
            UnfetchedOutput::Replies(records) => records.file.end(),
        }
    }

    /// Completes the file, and its index if there is one.
    fn complete(self) -> Result<Vec<UnfetchedFile>> {
        let mut index = None;
        let mut file = match self.output {
            UnfetchedOutput::Parquet(encoder) => {
                encoder.finish().map_err(|error| Error::storage("write", &self.path, error))?
            }
            UnfetchedOutput::Jsonl(file, _) | UnfetchedOutput::Failures(file, _) => *file,
            UnfetchedOutput::Replies(records) => {
                index = records.index;
                records.file
            }
        };
        let stem = self.name.split('.').next().unwrap_or_default();
        let index_name = FileName::of_own(&format!("{stem}.{}", ShardFolder::INDEX));
        let mut complete =
            vec![UnfetchedFile { data: file.checkpoint()?, rows: self.rows, name: Some(self.name) }];
        if let Some((_, index)) = index {
            let data = index.finish()?;
            complete.push(UnfetchedFile { data, rows: self.rows, name: Some(index_name) });
        }
        Ok(complete)
    }
}

impl ReplyRecords {
    fn push(&mut self, target: &UnfetchedTarget<'_>) -> Result<()> {
        let (place, before) = (self.file.end(), self.file.buffer().len());
        self.encoder.encode_unfetched(target, self.file.buffer());
        if let Some((lines, index)) = &mut self.index {
            let records = self.file.buffer().get(before..).unwrap_or_default();
            let lines = lines.of(records, place);
            for line in lines.map_err(|damage| Error::Internal(damage.to_string()))? {
                index.push(line)?;
            }
        }
        self.file.flush_if_full()
    }
}
