//! Paths of shards. Open shards are in `.fetchmill/open`. Sealed shards are numbered files in the destination, and
//! their manifests are in `.fetchmill/index`.
//!
//! A sealed shard is renamed only after the transaction that gave it a number. This means that a file with a final name
//! that is not in the journal does not belong to the job. Such a file is never replaced.

use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::durable::{self, Readers};
use crate::pack::parquet::MakeScratch;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::name::STATE_FOLDER;
use fetchmill_model::outcome::ShardNumber;

/// See the [module documentation](self).
#[derive(Debug, Clone)]
pub struct ShardFolder {
    dest: PathBuf,
    extension: &'static str,
    is_durable: bool,
}

impl ShardFolder {
    /// Name of the failures file. Programs that read a folder as one table (pyarrow, pandas, Spark) skip names that
    /// start with this character. Programs that read `*.jsonl` skip this extension.
    pub const FAILURES: &str = "_failures.ndjson";

    /// File extension of indexes.
    pub(super) const INDEX: &str = "cdxj";

    /// Describes a destination for shards with this extension.
    pub fn new(dest: &Path, extension: &'static str, is_durable: bool) -> Self {
        ShardFolder { dest: dest.to_owned(), extension, is_durable }
    }

    /// Creates the folders for shards.
    pub fn prepare(&self) -> Result<()> {
        for folder in [self.open_path(), self.index_path()] {
            std::fs::create_dir_all(&folder)
                .map_err(|error| Error::storage("create the folder", &folder, error))?;
        }
        if self.is_durable { Self::sync(&self.dest.join(STATE_FOLDER)) } else { Ok(()) }
    }

    /// Returns whether to sync written data.
    pub fn is_durable(&self) -> bool {
        self.is_durable
    }

    /// Returns the folder of open shards.
    pub fn open_path(&self) -> PathBuf {
        self.dest.join(STATE_FOLDER).join("open")
    }

    /// Returns the folder for manifests of sealed shards.
    pub fn index_path(&self) -> PathBuf {
        self.dest.join(STATE_FOLDER).join("index")
    }

    /// Returns the path of a sealed shard.
    pub fn shard_path(&self, number: ShardNumber) -> PathBuf {
        self.dest.join(format!("shard-{number:06}.{}", self.extension))
    }

    /// Returns the name of a file that describes targets without an object.
    pub(super) fn unfetched_name(&self, number: usize) -> String {
        format!("unfetched-{number:06}.{}", self.extension)
    }

    /// Returns the path of a file next to the shards.
    pub(super) fn beside_shards(&self, name: &str) -> PathBuf {
        self.dest.join(name)
    }

    /// Returns the path of a WARC shard's index.
    pub fn cdxj_path(&self, number: ShardNumber) -> PathBuf {
        self.dest.join(format!("shard-{number:06}.{}", Self::INDEX))
    }

    /// Returns the path of a sealed shard's manifest.
    pub fn manifest_path(&self, number: ShardNumber) -> PathBuf {
        self.index_path().join(format!("shard-{number:06}.manifest"))
    }

    /// Creates the file of an open shard.
    pub fn create(&self, name: &str, readers: Readers) -> Result<File> {
        durable::create_in(&self.open_path(), name, readers, self.is_durable)
    }

    /// Returns a function that creates files without a name next to the open shards.
    pub(super) fn make_scratch(&self) -> MakeScratch {
        let folder = self.open_path();
        Box::new(move || durable::nameless_file(&folder))
    }

    /// Renames a sealed shard and its manifest to their final names. Files that were already renamed are left alone.
    pub fn publish(&self, open: &str, manifest: &str, number: ShardNumber) -> Result<()> {
        let from = Self::folder(&self.open_path())?;
        Self::rename(&from, manifest, &self.index_path(), &self.manifest_path(number))?;
        Self::rename(&from, open, &self.dest, &self.shard_path(number))?;
        self.sync_sealed()
    }

    /// Renames a file that describes targets without an object. Call [`ShardFolder::sync_sealed`] afterwards.
    pub fn publish_unfetched(&self, open: &str, path: &Path) -> Result<()> {
        let from = Self::folder(&self.open_path())?;
        Self::rename(&from, open, &self.dest, path)
    }

    /// Renames the index of a sealed shard. Call [`ShardFolder::sync_sealed`] afterwards.
    pub fn publish_cdxj(&self, open: &str, number: ShardNumber) -> Result<()> {
        let from = Self::folder(&self.open_path())?;
        Self::rename(&from, open, &self.dest, &self.cdxj_path(number))
    }

    /// Makes the renames and removals of sealed shards durable.
    pub fn sync_sealed(&self) -> Result<()> {
        if self.is_durable {
            Self::sync(&self.index_path())?;
            Self::sync(&self.dest)?;
        }
        Ok(())
    }

    /// Like [`ShardFolder::publish`], for a run that ended between the transaction and the renames. The caller must
    /// report a file that is at neither path.
    pub fn publish_if_there(&self, open: &str, manifest: &str, number: ShardNumber) -> Result<()> {
        let folder = self.open_path();
        if folder.join(open).exists() || folder.join(manifest).exists() {
            self.publish(open, manifest, number)?;
        }
        Ok(())
    }

    fn rename(from: &OwnedFd, name: &str, folder: &Path, to: &Path) -> Result<()> {
        let fail = |error: Errno| Error::storage("move a finished file to", to, error);
        let leaf = to.file_name().unwrap_or_default().as_encoded_bytes();
        let folder = Self::folder(folder)?;
        match durable::rename_new(from.as_fd(), name.as_bytes(), folder.as_fd(), leaf) {
            Ok(()) => Ok(()),
            // The run that sealed the shard already renamed it.
            Err(Errno::NOENT) if to.exists() => Ok(()),
            Err(Errno::EXIST) => Err(Error::Journal(format!(
                "{} exists, but does not belong to this job; move it away, then run the same command again \
                 to resume",
                to.display()
            ))),
            Err(error) => Err(fail(error)),
        }
    }

    /// Removes shards that another shard replaced. When this returns, the removal is durable, and the journal may drop
    /// the shards.
    pub fn remove(&self, numbers: &[ShardNumber]) -> Result<()> {
        for path in numbers.iter().flat_map(|number| [self.shard_path(*number), self.manifest_path(*number)])
        {
            durable::remove_path(&path).map_err(|error| Error::storage("remove", &path, error))?;
        }
        if numbers.is_empty() { Ok(()) } else { self.sync_sealed() }
    }

    /// Removes leftover files whose names start with `start` from the folder of open shards. No commit record covers
    /// these files.
    pub fn clear_open(&self, start: &str) -> Result<()> {
        let Ok(entries) = std::fs::read_dir(self.open_path()) else { return Ok(()) };
        for entry in entries.flatten() {
            let path = entry.path();
            if entry.file_name().as_encoded_bytes().starts_with(start.as_bytes()) {
                durable::remove_path(&path).map_err(|error| Error::storage("remove", &path, error))?;
            }
        }
        Ok(())
    }

    fn folder(path: &Path) -> Result<OwnedFd> {
        durable::open_folder(path).map_err(|error| Error::storage("open the folder", path, error))
    }

    fn sync(path: &Path) -> Result<()> {
        let folder = Self::folder(path)?;
        durable::sync_folder(folder.as_fd()).map_err(|error| Error::storage("sync", path, error))
    }
}
