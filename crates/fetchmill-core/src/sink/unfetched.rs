//! Rows of targets of which no object is stored, for `--all-rows`: files of their own beside the shards, with the same
//! columns. No journal and no manifest names an object in them, so who reads objects never meets such a row.

use std::path::PathBuf;

use super::shard::ShardFile;
use super::{Format, ShardFolder, SinkSetup};
use crate::error::{Error, Result};
use crate::extra_columns::ExtraColumns;
use crate::limits;
use crate::object::UnfetchedTarget;
use crate::outcome::UnfetchedFile;
use crate::pack::JsonlEncoder;
use crate::pack::parquet::ParquetEncoder;

/// Writes such files, as many as the rows need, in the folder of open shards.
#[derive(Debug)]
pub struct UnfetchedWriter {
    shard_folder: ShardFolder,
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
    Rows(Box<ParquetEncoder<ShardFile>>),
    Lines(Box<ShardFile>, JsonlEncoder),
}

impl UnfetchedWriter {
    /// What the names of its files begin with until they are complete.
    pub const OPEN: &str = "unfetched-";

    /// None when the format has no shards.
    pub fn new(setup: &SinkSetup) -> Option<Self> {
        Some(UnfetchedWriter {
            shard_folder: setup.shard_folder()?,
            format: setup.format,
            columns: setup.columns.clone(),
            shard_bytes: setup.shard_bytes,
            open: None,
            complete: Vec::new(),
        })
    }

    /// Appends a row.
    pub fn push(&mut self, target: &UnfetchedTarget<'_>) -> Result<()> {
        let shard_bytes = self.shard_bytes;
        let open = self.opened()?;
        open.push(target)?;
        if open.bytes() >= shard_bytes || open.rows >= limits::shard_rows_max(1) {
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
        let open = OpenUnfetched::create(&self.shard_folder, name, self.format, &self.columns)?;
        Ok(self.open.insert(open))
    }

    fn complete_open(&mut self) -> Result<()> {
        self.complete.extend(self.open.take().map(OpenUnfetched::complete).transpose()?);
        Ok(())
    }
}

impl OpenUnfetched {
    fn create(
        shard_folder: &ShardFolder,
        name: String,
        format: Format,
        columns: &ExtraColumns,
    ) -> Result<Self> {
        let path = shard_folder.open_path().join(&name);
        let file = ShardFile::create(shard_folder, name)?;
        let output = if format == Format::Parquet {
            let encoder = ParquetEncoder::new(file, limits::ROW_GROUPS_BYTES, columns)
                .map_err(|error| Error::storage("write", &path, error))?;
            UnfetchedOutput::Rows(Box::new(encoder))
        } else {
            UnfetchedOutput::Lines(Box::new(file), JsonlEncoder::new(columns))
        };
        Ok(OpenUnfetched { path, rows: 0, output })
    }

    fn push(&mut self, target: &UnfetchedTarget<'_>) -> Result<()> {
        self.rows += 1;
        match &mut self.output {
            UnfetchedOutput::Rows(encoder) => {
                encoder.push_unfetched(target).map_err(|error| Error::storage("write", &self.path, error))
            }
            UnfetchedOutput::Lines(file, encoder) => {
                encoder.encode_unfetched(target, file.buffer());
                file.flush_if_full()
            }
        }
    }

    fn bytes(&self) -> u64 {
        match &self.output {
            UnfetchedOutput::Rows(encoder) => encoder.bytes() as u64,
            UnfetchedOutput::Lines(file, _) => file.end(),
        }
    }

    fn complete(self) -> Result<UnfetchedFile> {
        let mut file = match self.output {
            UnfetchedOutput::Rows(encoder) => {
                encoder.finish().map_err(|error| Error::storage("write", &self.path, error))?
            }
            UnfetchedOutput::Lines(file, _) => *file,
        };
        Ok(UnfetchedFile { data: file.checkpoint()?, rows: self.rows })
    }
}
