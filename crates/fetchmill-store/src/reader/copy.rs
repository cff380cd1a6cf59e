//! Copies selected rows of a shard to another shard.

use super::{ObjectError, ShardReader};
use crate::sink::{Format, Rewrite, ShardFolder};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::target::extra_columns::ExtraColumns;

/// Selects which rows of a shard to copy.
pub(crate) trait CopiedRows {
    /// Returns whether to leave out a row.
    fn is_left_out(&mut self, row: u64, name: &[u8]) -> Result<bool>;

    /// Records a selected row that cannot be read. If this returns `Ok`, the copy continues without the row.
    fn note_damaged(&mut self, row: u64, name: &[u8], what: String) -> Result<()>;
}

/// Appends the rows to `copy`, which is created for the first row. `None` if there are no rows.
pub(crate) fn copy_shard(
    shard_folder: &ShardFolder,
    columns: &ExtraColumns,
    reader: &ShardReader,
    wanted: &mut dyn CopiedRows,
    copy: Option<Rewrite>,
) -> Result<Option<Rewrite>> {
    let mut copy = ShardCopy { shard_folder, format: reader.format(), columns, copy };
    match reader.format() {
        Format::Parquet => copy.add_rows(reader, wanted)?,
        _ => copy.add_records(reader, wanted)?,
    }
    Ok(copy.copy)
}

struct ShardCopy<'c> {
    shard_folder: &'c ShardFolder,
    format: Format,
    columns: &'c ExtraColumns,
    copy: Option<Rewrite>,
}

impl ShardCopy<'_> {
    fn opened(&mut self) -> Result<&mut Rewrite> {
        match &mut self.copy {
            Some(copy) => Ok(copy),
            // Records are copied unchanged.
            none => Ok(none.insert(Rewrite::create(self.shard_folder, self.format, self.columns)?)),
        }
    }

    fn add_records(&mut self, reader: &ShardReader, wanted: &mut dyn CopiedRows) -> Result<()> {
        let manifest = reader.manifest();
        for index in 0..manifest.frames() {
            let frame = manifest.frame(index)?;
            for (position, row) in frame.iter().enumerate() {
                let at = frame.first_row() + position as u64;
                if wanted.is_left_out(at, row.name)? {
                    continue;
                }
                // Also decode the record as an object, so that nothing is copied without verification.
                match reader.read(at, &row).and_then(|_| reader.read_record(at, &row)) {
                    Ok(Some(record)) => self.opened()?.push_record(&row, &record)?,
                    Ok(None) => return Err(Error::Internal("a shard with records has rows".into())),
                    Err(ObjectError::Damaged(what)) => wanted.note_damaged(at, row.name, what)?,
                    Err(ObjectError::Failed(error)) => return Err(error),
                }
            }
        }
        Ok(())
    }

    fn add_rows(&mut self, reader: &ShardReader, wanted: &mut dyn CopiedRows) -> Result<()> {
        for scanned in reader.scan()? {
            let scanned = scanned?;
            let name = match &scanned.object {
                Ok(object) => &object.name,
                Err(lost) => &lost.name,
            };
            if wanted.is_left_out(scanned.row, name)? {
                continue;
            }
            match scanned.object {
                Ok(object) => self.opened()?.push_object(&object.as_object(scanned.sequence))?,
                Err(lost) => wanted.note_damaged(scanned.row, &lost.name, lost.what)?,
            }
        }
        Ok(())
    }
}
