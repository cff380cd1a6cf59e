//! Targets of which no object is stored: with `--all-rows` as rows in files of their own beside the shards, with the same
//! columns, and else, those that failed or were absent, as lines of the failures file. No journal and no manifest names an
//! object in them, so who reads objects never meets such a row.

use std::path::{Path, PathBuf};

use super::shard::ShardFile;
use super::{Format, ShardFolder, SinkSetup};
use crate::error::{Error, Result};
use crate::extra_columns::ExtraColumns;
use crate::limits;
use crate::object::UnfetchedTarget;
use crate::outcome::UnfetchedFile;
use crate::pack::JsonlEncoder;
use crate::pack::parquet::ParquetEncoder;
use crate::target::Sequence;

/// What stands beside the shards of a finished job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnfetchedFiles {
    /// Rows of all targets without an object (`--all-rows`), in as many files as they need.
    Rows,
    /// The failures file: lines of those that failed or were absent, whatever the format.
    Failures,
}

impl UnfetchedFiles {
    /// Of a job whose objects have these columns.
    pub fn of(columns: &ExtraColumns) -> Self {
        if columns.has_outcomes() { UnfetchedFiles::Rows } else { UnfetchedFiles::Failures }
    }

    /// Where a file belongs, by its number.
    pub fn path(self, shard_folder: &ShardFolder, number: usize) -> PathBuf {
        match self {
            UnfetchedFiles::Rows => shard_folder.unfetched_path(number),
            UnfetchedFiles::Failures => shard_folder.failures_path(),
        }
    }
}

/// Writes such files in the folder of open shards.
#[derive(Debug)]
pub struct UnfetchedWriter {
    shard_folder: ShardFolder,
    files: UnfetchedFiles,
    format: Format,
    columns: ExtraColumns,
    shard_bytes: u64,
    open: Option<OpenUnfetched>,
    complete: Vec<UnfetchedFile>,
}

/// The file that is being written.
#[derive(Debug)]
struct OpenUnfetched {
    path: PathBuf,
    rows: u64,
    output: UnfetchedOutput,
}

#[derive(Debug)]
enum UnfetchedOutput {
    Parquet(Box<ParquetEncoder<ShardFile>>),
    Jsonl(Box<ShardFile>, JsonlEncoder),
    Failures(Box<ShardFile>, JsonlEncoder),
}

impl UnfetchedWriter {
    /// What the names of its files begin with until they are complete.
    pub const OPEN: &str = "unfetched-";

    /// None when the format has no shards.
    pub fn new(setup: &SinkSetup) -> Option<Self> {
        Some(UnfetchedWriter {
            shard_folder: setup.shard_folder()?,
            files: UnfetchedFiles::of(&setup.columns),
            format: setup.format,
            columns: setup.columns.clone(),
            shard_bytes: setup.shard_bytes,
            open: None,
            complete: Vec::new(),
        })
    }

    /// Appends a target.
    pub fn push(&mut self, target: &UnfetchedTarget<'_>) -> Result<()> {
        self.push_as(Some(target.sequence), target)
    }

    /// Appends a folder that gave no listing to the failures file. It is no target, and has no sequence number.
    pub fn push_folder(&mut self, folder: &UnfetchedTarget<'_>) -> Result<()> {
        self.push_as(None, folder)
    }

    fn push_as(&mut self, sequence: Option<Sequence>, target: &UnfetchedTarget<'_>) -> Result<()> {
        let (shard_bytes, is_one) = (self.shard_bytes, self.files == UnfetchedFiles::Failures);
        let open = self.opened()?;
        open.push(sequence, target)?;
        if !is_one && (open.bytes() >= shard_bytes || open.rows >= limits::shard_rows_max(1)) {
            self.complete_open()?;
        }
        Ok(())
    }

    /// Completes the last file; `is_needed`: there is one even without rows.
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
        let (name, _) = super::shard_names(0);
        let name = format!("{}{name}", Self::OPEN);
        let path = self.shard_folder.open_path().join(&name);
        let file = ShardFile::create(&self.shard_folder, name)?;
        let output = self.output(file, &path)?;
        Ok(self.open.insert(OpenUnfetched { path, rows: 0, output }))
    }

    fn output(&self, file: ShardFile, path: &Path) -> Result<UnfetchedOutput> {
        Ok(match (self.files, self.format) {
            (UnfetchedFiles::Rows, Format::Parquet) => {
                let encoder = ParquetEncoder::new(file, limits::ROW_GROUPS_BYTES, &self.columns)
                    .map_err(|error| Error::storage("write", path, error))?;
                UnfetchedOutput::Parquet(Box::new(encoder))
            }
            (UnfetchedFiles::Rows, _) => {
                UnfetchedOutput::Jsonl(Box::new(file), JsonlEncoder::new(&self.columns))
            }
            (UnfetchedFiles::Failures, _) => {
                UnfetchedOutput::Failures(Box::new(file), JsonlEncoder::new(&self.columns))
            }
        })
    }

    fn complete_open(&mut self) -> Result<()> {
        self.complete.extend(self.open.take().map(OpenUnfetched::complete).transpose()?);
        Ok(())
    }
}

impl OpenUnfetched {
    fn push(&mut self, sequence: Option<Sequence>, target: &UnfetchedTarget<'_>) -> Result<()> {
        self.rows += 1;
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
        }
    }

    fn bytes(&self) -> u64 {
        match &self.output {
            UnfetchedOutput::Parquet(encoder) => encoder.bytes() as u64,
            UnfetchedOutput::Jsonl(file, _) | UnfetchedOutput::Failures(file, _) => file.end(),
        }
    }

    fn complete(self) -> Result<UnfetchedFile> {
        let mut file = match self.output {
            UnfetchedOutput::Parquet(encoder) => {
                encoder.finish().map_err(|error| Error::storage("write", &self.path, error))?
            }
            UnfetchedOutput::Jsonl(file, _) | UnfetchedOutput::Failures(file, _) => *file,
        };
        Ok(UnfetchedFile { data: file.checkpoint()?, rows: self.rows })
    }
}
