//! Reads a sealed shard in place: one object by its row, or all of them in order.
//!
//! The manifest is the measure: what the shard gives back must have the name, the length and the checksum of its row,
//! and is damaged otherwise. The shard itself is opened when the first object is read, so a look-up among hundreds of
//! shards opens hundreds of manifests and one shard.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::data::{Data, Records};
use super::scan::Scan;
use crate::error::{Error, Result};
use crate::journal::Shard;
use crate::manifest::{Frame, Manifest, Row};
use crate::object::StoredObject;
use crate::outcome::ShardNumber;
use crate::pack::parquet::{ParquetShard, ShardError};
use crate::sink::{Format, Shelf};

/// Why an object is not given back.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Its record is not what was written; the text says what is wrong with it.
    #[error("{0}")]
    Damaged(String),
    /// The shard as a whole, or its manifest, cannot be read.
    #[error(transparent)]
    Failed(#[from] Error),
}

/// A sealed shard that is read in place. Threads share it.
#[derive(Debug)]
pub struct ShardReader {
    number: ShardNumber,
    format: Format,
    manifest: Arc<Manifest>,
    /// Where the shard is, and where it is before it is renamed.
    paths: [PathBuf; 2],
    /// Bytes of it.
    length: u64,
    data: OnceLock<Data>,
    /// The frame that was used last: rows are often read in their order.
    frame: Mutex<Option<Arc<Frame>>>,
}

impl ShardReader {
    /// Opens a shard's manifest. The shard itself is opened with the first object.
    pub fn open(shelf: &Shelf, format: Format, shard: &Shard) -> Result<Self> {
        let open = shelf.open_path();
        let paths = [shelf.shard_path(shard.number), open.join(&shard.sealed.data.path)];
        let manifests = [shelf.manifest_path(shard.number), open.join(&shard.sealed.manifest.path)];
        let manifest = at_either(&manifests, Manifest::open)?;
        if manifest.rows() != shard.sealed.objects {
            let [path, _] = manifests;
            let (rows, objects) = (manifest.rows(), shard.sealed.objects);
            return Err(damaged(&path, &format!("it has {rows} rows, the journal says {objects}")));
        }
        Ok(ShardReader {
            number: shard.number,
            format,
            manifest: Arc::new(manifest),
            paths,
            length: shard.sealed.data.end,
            data: OnceLock::new(),
            frame: Mutex::new(None),
        })
    }

    /// Its number.
    pub fn number(&self) -> ShardNumber {
        self.number
    }

    /// What should be in it.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.paths[0]
    }

    /// Reads the object of a row of the manifest. It has the name, the length and the checksum of the row.
    pub fn read(&self, number: u64, row: &Row<'_>) -> std::result::Result<StoredObject, ReadError> {
        let object = match self.data()? {
            Data::Parquet(shard) => shard.row(row.place).map_err(of_row)?,
            Data::Records(records) => records.read(row, self.record_end(number, records)?)?,
        };
        check(row, &object)?;
        Ok(object)
    }

    /// Opens the shard itself: then its bytes stay, even when it is removed.
    pub(super) fn hold(&self) -> Result<()> {
        self.data().map(drop)
    }

    /// Reads a row's record as it stands in the shard; `None` when its format has rows instead.
    pub fn read_record(&self, number: u64, row: &Row<'_>) -> std::result::Result<Option<Vec<u8>>, ReadError> {
        match self.data()? {
            Data::Parquet(_) => Ok(None),
            Data::Records(records) => records.raw(row, self.record_end(number, records)?).map(Some),
        }
    }

    /// All rows in their order, and their objects.
    pub fn scan(&self) -> Result<Scan> {
        Ok(Scan::new(Arc::clone(&self.manifest), self.data()?))
    }

    /// An error that names the shard and the object, for those to whom one lost object is too much.
    pub fn error(&self, name: &[u8], error: ReadError) -> Error {
        match error {
            ReadError::Failed(error) => error,
            ReadError::Damaged(what) => {
                damaged(self.path(), &format!("`{}`: {what}", crate::name::for_display(name)))
            }
        }
    }

    /// The frame that holds a row.
    pub fn frame_of_row(&self, row: u64) -> Result<Arc<Frame>> {
        let holds =
            |frame: &Frame| (frame.first_row()..frame.first_row() + frame.len() as u64).contains(&row);
        let kept = self.frame.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(frame) = kept.filter(|frame| holds(frame)) {
            return Ok(frame);
        }
        let index = self.manifest.frame_of_row(row);
        let index = index.ok_or_else(|| Error::Internal("no such row of a manifest".into()))?;
        let frame = Arc::new(self.manifest.frame(index)?);
        *self.frame.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&frame));
        Ok(frame)
    }

    /// Where the record of a row ends: where the next one starts.
    fn record_end(&self, row: u64, records: &Records) -> Result<u64> {
        if row + 1 >= self.manifest.rows() {
            return Ok(records.end());
        }
        let frame = self.frame_of_row(row + 1)?;
        Ok(frame.row((row + 1 - frame.first_row()) as usize).place)
    }

    fn data(&self) -> Result<&Data> {
        if let Some(data) = self.data.get() {
            return Ok(data);
        }
        let data = at_either(&self.paths, |path| self.open_data(path))?;
        // Another thread may have been faster: its one is as good.
        Ok(self.data.get_or_init(|| data))
    }

    fn open_data(&self, path: &Path) -> Result<Data> {
        let file = File::open(path).map_err(|error| Error::storage("read", path, error))?;
        if self.format == Format::Parquet {
            return ParquetShard::open(file).map(Data::Parquet).map_err(|error| match error {
                ShardError::Io(error) => Error::storage("read", path, error),
                ShardError::Damage(_) | ShardError::Foreign(_) => damaged(path, &error.to_string()),
            });
        }
        let length = file.metadata().map_err(|error| Error::storage("read", path, error))?.len();
        Records::new(file, self.format, self.length.min(length), self.length)
            .map(|records| Data::Records(Arc::new(records)))
    }
}

/// Whether an object is what the manifest's row says.
pub(super) fn check(row: &Row<'_>, object: &StoredObject) -> std::result::Result<(), ReadError> {
    let what = if object.name != row.name {
        "its record has another name"
    } else if object.body.len() as u64 != row.length {
        "its body has another length"
    } else if crc32c::crc32c(&object.body) != row.crc32c {
        "its body does not have its checksum"
    } else {
        return Ok(());
    };
    Err(ReadError::Damaged(what.to_owned()))
}

/// What is wrong with a row of a Parquet file.
#[expect(clippy::needless_pass_by_value, reason = "it is passed to map_err")]
pub(super) fn of_row(error: ShardError) -> ReadError {
    ReadError::Damaged(error.to_string())
}

fn damaged(path: &Path, what: &str) -> Error {
    Error::Journal(format!(
        "{} is damaged: {what}; run `fetchmill verify` to see what is lost",
        path.display()
    ))
}

/// Opens a file at its final place, or where it is until it is renamed. It may be renamed just now.
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
