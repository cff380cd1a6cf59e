//! Reads a sealed shard in place: a single object by its row, or all objects in order.
//!
//! An object that does not match the name, length and checksum in its manifest row counts as damaged. The shard itself
//! is opened only when its first object is read. As a result, a lookup among hundreds of shards opens hundreds of
//! manifests but only one shard.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::data::{RecordFile, ShardData};
use super::object_error::{ObjectError, check, note_encoding, of_row};
use super::raw_records::RawRecords;
use super::scan::Scan;
use crate::journal::Shard;
use crate::manifest::{Frame, Manifest, ManifestRow};
use crate::pack::parquet::{ParquetShard, ShardError};
use crate::sink::{Format, ShardFolder};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::object::StoredObject;
use fetchmill_model::outcome::ShardNumber;

/// A sealed shard that is read in place. It can be shared between threads.
#[derive(Debug)]
pub struct ShardReader {
    number: ShardNumber,
    format: Format,
    manifest: Arc<Manifest>,
    /// Final path of the shard, and its path before the rename.
    paths: [PathBuf; 2],
    /// Length of the shard in bytes.
    length: u64,
    /// CRC-32C of the shard.
    crc32c: u32,
    data: OnceLock<ShardData>,
    /// The frame that was used last. It is kept because rows are often read in order.
    frame: Mutex<Option<Arc<Frame>>>,
}

impl ShardReader {
    /// Opens the manifest of a shard. The shard itself is opened when its first object is read.
    pub fn open(shard_folder: &ShardFolder, format: Format, shard: &Shard) -> Result<Self> {
        let open = shard_folder.open_path();
        let paths = [shard_folder.shard_path(shard.number), open.join(&shard.sealed.data.path)];
        let manifests = [shard_folder.manifest_path(shard.number), open.join(&shard.sealed.manifest.path)];
        let manifest = at_either(&manifests, Manifest::open)?;
        if manifest.rows() != shard.sealed.objects {
            let [path, _] = manifests;
            let (rows, objects) = (manifest.rows(), shard.sealed.objects);
            return Err(damaged(&path, &format!("it has {rows} rows, but the journal records {objects}")));
        }
        Ok(ShardReader {
            number: shard.number,
            format,
            manifest: Arc::new(manifest),
            paths,
            length: shard.sealed.data.end,
            crc32c: shard.sealed.data.crc32c,
            data: OnceLock::new(),
            frame: Mutex::new(None),
        })
    }

    /// Returns the number of the shard.
    pub fn number(&self) -> ShardNumber {
        self.number
    }

    /// Returns the format of the objects.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Returns the manifest, which describes the expected contents of the shard.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the final path of the shard.
    pub fn path(&self) -> &Path {
        &self.paths[0]
    }

    /// Reads the object of a manifest row, and verifies that its name, length and checksum match.
    pub fn read(&self, number: u64, row: &ManifestRow<'_>) -> std::result::Result<StoredObject, ObjectError> {
        let object = match self.data()? {
            ShardData::Parquet(shard) => shard.row(row.place).map_err(of_row)?,
            ShardData::Records(records) => records.read(row, self.record_end(number, records)?)?,
        };
        check(row, &object)?;
        Ok(object)
    }

    /// Returns the Parquet file that contains the rows. `None` if the shard contains records instead.
    pub(super) fn parquet(&self) -> Result<Option<&ParquetShard>> {
        Ok(match self.data()? {
            ShardData::Parquet(shard) => Some(shard),
            ShardData::Records(_) => None,
        })
    }

    /// Like [`ShardReader::read`], for a row whose record ends at `end`.
    pub(super) fn read_until(
        &self,
        row: &ManifestRow<'_>,
        end: u64,
    ) -> std::result::Result<Option<StoredObject>, ObjectError> {
        let ShardData::Records(records) = self.data()? else { return Ok(None) };
        let object = records.read(row, end)?;
        check(row, &object)?;
        Ok(Some(object))
    }

    /// Opens the shard itself, so that it stays readable even if its file is removed.
    pub(super) fn hold(&self) -> Result<()> {
        self.data().map(drop)
    }

    /// Reads the record of a row unchanged. `None` if the format has rows instead of records.
    pub fn read_record(
        &self,
        number: u64,
        row: &ManifestRow<'_>,
    ) -> std::result::Result<Option<Vec<u8>>, ObjectError> {
        match self.data()? {
            ShardData::Parquet(_) => Ok(None),
            ShardData::Records(records) => records.raw(row, self.record_end(number, records)?).map(Some),
        }
    }

    /// Calls `each` with the place and the unchanged record of every row, in order, until it returns `false`. After the
    /// last record, verifies the checksum of the shard. Returns whether all rows were read. Does nothing if the format
    /// has rows instead of records.
    pub fn for_each_record(
        &self,
        mut each: impl FnMut(u64, &[u8]) -> std::result::Result<bool, ObjectError>,
    ) -> Result<bool> {
        let ShardData::Records(records) = self.data()? else { return Ok(true) };
        let mut records = RawRecords::new(Arc::clone(records));
        let mut frame = self.frame_at(0)?;
        for next in 1..=self.manifest.frames() {
            let ahead = self.frame_at(next)?;
            let ends = (1..frame.len()).map(|position| frame.row(position).place);
            let last = if ahead.is_empty() { records.end() } else { ahead.row(0).place };
            for (row, end) in frame.iter().zip(ends.chain([last])) {
                let read = records.read(&row, end).and_then(|record| each(row.place, record));
                if !read.map_err(|error| self.error(row.name, error))? {
                    return Ok(false);
                }
            }
            frame = ahead;
        }
        match records.finish() {
            Ok(crc32c) if crc32c == self.crc32c => Ok(true),
            Ok(_) => Err(damaged(self.path(), "its checksum is wrong")),
            Err(error) => Err(damaged(self.path(), &error.to_string())),
        }
    }

    /// Reads a frame of the manifest. The frame after the last one is empty.
    fn frame_at(&self, index: usize) -> Result<Frame> {
        if index < self.manifest.frames() { self.manifest.frame(index) } else { Ok(Frame::default()) }
    }

    /// Iterates over all rows and their objects in order.
    pub fn scan(&self) -> Result<Scan> {
        Ok(Scan::new(Arc::clone(&self.manifest), self.data()?))
    }

    /// Returns an error that names the shard and the object, for callers that cannot tolerate a lost object.
    pub fn error(&self, name: &[u8], error: ObjectError) -> Error {
        match error {
            ObjectError::Failed(error) => error,
            ObjectError::Damaged(what) => {
                damaged(self.path(), &format!("`{}`: {what}", fetchmill_model::name::for_display(name)))
            }
        }
    }

    /// Adds the encoding of an object from the manifest, for formats that do not store it.
    pub(super) fn add_encoding(&self, row: u64, object: &mut StoredObject) -> Result<()> {
        let frame = self.frame_of_row(row)?;
        note_encoding(&frame.row((row - frame.first_row()) as usize), object);
        Ok(())
    }

    /// Returns the frame that contains a row.
    pub fn frame_of_row(&self, row: u64) -> Result<Arc<Frame>> {
        let holds =
            |frame: &Frame| (frame.first_row()..frame.first_row() + frame.len() as u64).contains(&row);
        let kept = self.frame.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(frame) = kept.filter(|frame| holds(frame)) {
            return Ok(frame);
        }
        let index = self.manifest.frame_of_row(row);
        let index = index.ok_or_else(|| Error::Internal("the manifest has no such row".into()))?;
        let frame = Arc::new(self.manifest.frame(index)?);
        *self.frame.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&frame));
        Ok(frame)
    }

    /// Returns the end of a row's record, where the next record starts.
    fn record_end(&self, row: u64, records: &RecordFile) -> Result<u64> {
        if row + 1 >= self.manifest.rows() {
            return Ok(records.end());
        }
        let frame = self.frame_of_row(row + 1)?;
        Ok(frame.row((row + 1 - frame.first_row()) as usize).place)
    }

    fn data(&self) -> Result<&ShardData> {
        if let Some(data) = self.data.get() {
            return Ok(data);
        }
        let data = at_either(&self.paths, |path| self.open_data(path))?;
        // Another thread may have opened the shard first, but the two values are equivalent.
        Ok(self.data.get_or_init(|| data))
    }

    fn open_data(&self, path: &Path) -> Result<ShardData> {
        let file = File::open(path).map_err(|error| Error::storage("read", path, error))?;
        if self.format == Format::Parquet {
            return ParquetShard::open(file).map(ShardData::Parquet).map_err(|error| match error {
                ShardError::Io(error) => Error::storage("read", path, error),
                ShardError::Damage(_) | ShardError::Foreign(_) => damaged(path, &error.to_string()),
            });
        }
        let length = file.metadata().map_err(|error| Error::storage("read", path, error))?.len();
        RecordFile::new(file, self.format, self.length.min(length), self.length)
            .map(|records| ShardData::Records(Arc::new(records)))
    }
}

fn damaged(path: &Path, what: &str) -> Error {
    Error::Journal(format!(
        "{} is damaged: {what}; run `fetchmill verify` to see what is lost",
        path.display()
    ))
}

/// Opens a file at its final path, or at its path before the rename. The rename may happen between the two attempts.
fn at_either<T>(paths: &[PathBuf; 2], open: impl Fn(&Path) -> Result<T>) -> Result<T> {
    let [last, before] = paths;
    for path in [last, before, last] {
        match open(path) {
            Err(Error::Storage { source, .. }) if source.kind() == ErrorKind::NotFound => {}
            result => return result,
        }
    }
    Err(Error::Journal(format!("{} is missing; run `fetchmill verify` to see what is lost", last.display())))
}
