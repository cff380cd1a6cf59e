//! The rows of all data files, read one file after another.

use std::io::{ErrorKind, Read, Seek, SeekFrom};

use md5::{Digest as _, Md5};
use xxhash_rust::xxh3::xxh3_64;

use super::super::columns::ColumnPlan;
use super::super::csv::Csv;
use super::super::decode::DecodedInput;
use super::super::dialect::Dialect;
use super::super::lines::{Lines, ReadStep, unreadable};
use super::super::parquet::ParquetRecords;
use super::super::read_share::ReadShare;
use super::super::records::{RecordStep, RecordValues, Records};
use super::super::{ListFormat, format_of};
use super::description::{DataFormat, Inventory};
use super::row::RowPlan;
use super::{DataFile, DataFiles};
use crate::error::{Error, Result};
use crate::limits::{LIST_STRETCH_BYTES, READ_BYTES};
use crate::source::ListPosition;

/// Records of an inventory. See the module.
pub(in crate::source::list) struct InventoryRecords<D: DataFiles> {
    label: String,
    inventory: Inventory,
    digest: u64,
    files: D,
    rows: RowPlan,
    /// First row and number of rows of a range, which lies within one data file.
    range: (u64, Option<u64>),
    /// Number of the current data file, counted from 0.
    at: usize,
    state: FileState<D::File>,
    row: RecordValues,
}

/// State of the current data file.
enum FileState<F> {
    /// The file is not open yet.
    Due,
    /// The file's MD5 is being computed.
    Checking(Box<CheckedFile<F>>),
    /// The file's rows are being read.
    Open(Box<dyn Records>),
}

struct CheckedFile<F> {
    file: F,
    label: String,
    md5: Md5,
}

impl<D: DataFiles> InventoryRecords<D> {
    /// Creates the records. `range` contains the first row and the number of rows to read, if they are all in one
    /// Parquet file.
    pub(in crate::source::list) fn new(
        label: &str,
        inventory: Inventory,
        files: D,
        plan: &ColumnPlan,
        range: (u64, Option<u64>),
    ) -> Result<Self> {
        Ok(InventoryRecords {
            label: label.to_owned(),
            digest: inventory.digest(),
            rows: RowPlan::new(label, &inventory, plan)?,
            inventory,
            files,
            range,
            at: 0,
            state: FileState::Due,
            row: RecordValues::default(),
        })
    }

    /// Continues until rows of the current file can be read.
    fn open(&mut self) -> Result<ReadStep> {
        let Some(named) = self.inventory.files.get(self.at) else { return Ok(ReadStep::End) };
        let mut checked = match std::mem::replace(&mut self.state, FileState::Due) {
            FileState::Open(records) => {
                self.state = FileState::Open(records);
                return Ok(ReadStep::Done);
            }
            FileState::Due => {
                let (file, label) = self.files.open(named)?;
                Box::new(CheckedFile { file, label, md5: Md5::new() })
            }
            FileState::Checking(checked) => checked,
        };
        if !checked.read_stretch()? {
            self.state = FileState::Checking(checked);
            return Ok(ReadStep::NothingNow);
        }
        let CheckedFile { file, label, md5 } = *checked;
        if md5.finalize()[..] != named.md5 {
            return Err(unreadable(&label, &"its MD5 differs from the MD5 in the inventory's manifest.json"));
        }
        self.state = FileState::Open(self.records_of(file, &label)?);
        Ok(ReadStep::Done)
    }

    fn records_of(&self, mut file: D::File, label: &str) -> Result<Box<dyn Records>> {
        file.seek(SeekFrom::Start(0)).map_err(|error| unreadable(label, &error))?;
        let plan = ColumnPlan::of_columns(self.rows.columns().to_vec())?;
        Ok(match self.inventory.format {
            DataFormat::Csv => {
                let lines =
                    Lines::new(label, DecodedInput::new(Box::new(file), format_of(label).1), ListFormat::Csv);
                Box::new(Csv::new(lines, Dialect::OURS, &plan, Some(false))?)
            }
            DataFormat::Parquet => Box::new(ParquetRecords::open(label, file, &plan, self.range)?),
            DataFormat::Orc => return Err(Error::Internal("data files are ORC".to_owned())),
        })
    }
}

impl<F: Read> CheckedFile<F> {
    /// Continues reading until the stop signal must be checked again. Returns whether the file has ended.
    fn read_stretch(&mut self) -> Result<bool> {
        let mut buffer = vec![0; READ_BYTES];
        let mut read = 0;
        while read < LIST_STRETCH_BYTES {
            match self.file.read(&mut buffer) {
                Ok(0) => return Ok(true),
                Ok(count) => {
                    self.md5.update(&buffer[..count]);
                    read += count;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(unreadable(&self.label, &error)),
            }
        }
        Ok(false)
    }
}

impl<D: DataFiles> Records for InventoryRecords<D> {
    fn read_share(&self) -> Option<ReadShare> {
        let sizes = |files: &[DataFile]| files.iter().map(|file| file.size as f64).sum::<f64>();
        let files = &self.inventory.files;
        let here = match (&self.state, files.get(self.at)) {
            (FileState::Open(records), Some(file)) => {
                records.read_share()?.of(Some(file.size)).unwrap_or(0.0) * file.size as f64
            }
            _ => 0.0,
        };
        Some(ReadShare::Part((sizes(&files[..self.at]) + here) / sizes(files).max(1.0)))
    }

    fn next(&mut self, values: &mut RecordValues) -> Result<RecordStep> {
        loop {
            match self.open()? {
                ReadStep::Done => {}
                ReadStep::NothingNow => return Ok(RecordStep::NothingNow),
                ReadStep::End => return Ok(RecordStep::End),
            }
            let FileState::Open(records) = &mut self.state else { return Ok(RecordStep::NothingNow) };
            match records.next(&mut self.row)? {
                RecordStep::Record => return Ok(self.rows.give(&self.row, values)),
                // The position after a range is the position of its last row, which the worker of a shared job needs.
                RecordStep::End if self.range.1.is_some() => return Ok(RecordStep::End),
                RecordStep::End => {
                    self.at += 1;
                    self.state = FileState::Due;
                }
                other => return Ok(other),
            }
        }
    }

    fn place(&self) -> String {
        let file = self.inventory.files.get(self.at).and_then(|file| file.path().next_back());
        match (&self.state, file) {
            (FileState::Open(records), Some(file)) => format!("{} of {file}", records.place()),
            _ => "a row".to_owned(),
        }
    }

    /// Returns the position. Its digest covers the contents of the `manifest.json`, so the position is invalid for any
    /// other inventory.
    fn position(&mut self) -> ListPosition {
        let here = match &mut self.state {
            FileState::Open(records) => records.position(),
            FileState::Due | FileState::Checking(_) => {
                ListPosition { digest: xxh3_64(b""), ..ListPosition::default() }
            }
        };
        ListPosition { digest: here.digest ^ self.digest, file: self.at as u64, ..here }
    }

    /// Resumes at a position. Earlier files are not read again, because their rows are in the journal, and the digest
    /// of the `manifest.json` covers them.
    fn go_to(&mut self, position: ListPosition) -> Result<ReadStep> {
        let there = ListPosition { digest: position.digest ^ self.digest, file: 0, ..position };
        let count = self.inventory.files.len();
        let at = usize::try_from(position.file).unwrap_or(usize::MAX);
        self.at = at.min(count);
        let step = match self.open()? {
            ReadStep::Done => match &mut self.state {
                FileState::Open(records) => records.go_to(there)?,
                _ => ReadStep::NothingNow,
            },
            ReadStep::End if at == count && there.digest == xxh3_64(b"") => ReadStep::Done,
            other => other,
        };
        if step == ReadStep::End {
            return Err(Error::Usage(format!(
                "the inventory {} has changed since the job started (manifest.json or a data file differs); \
                 restore the original files, or choose another destination",
                self.label
            )));
        }
        Ok(step)
    }
}
