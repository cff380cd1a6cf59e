//! The stage contains objects, named by sequence number, until their window is in the journal.
//!
//! A staged file is `<folder>/<sequence>`. The folder is derived from the sequence number and contains about 64 files.
//! Every create and rename searches a block of the folder for a name, and searching a full block costs as much as the
//! rename itself. If a window of 20,000 files were in a single folder, each object would take one seventh longer
//! (docs/reference/performance.md).

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::durable;
use crate::pack::FileBody;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits::{STAGE_FOLDER_FILES, STAGE_FOLDERS};
use fetchmill_model::object::Seconds;
use fetchmill_model::target::Sequence;

/// See the [module documentation](self).
#[derive(Debug)]
pub struct Stage {
    folder: OwnedFd,
    path: PathBuf,
}

/// Name of a staged object. The longest one is `1023/18446744073709551615`.
#[derive(Debug)]
struct StagedName {
    bytes: [u8; 26],
    start: usize,
}

impl StagedName {
    /// Creates the name without allocating, because this happens for each object.
    fn of(sequence: Sequence) -> Self {
        let mut name = StagedName { bytes: [0; 26], start: 26 };
        name.prepend(sequence);
        name.start -= 1;
        name.bytes[name.start] = b'/';
        name.prepend(sequence / STAGE_FOLDER_FILES % STAGE_FOLDERS);
        name
    }

    fn prepend(&mut self, mut number: u64) {
        loop {
            self.start -= 1;
            self.bytes[self.start] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                return;
            }
        }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn folder(&self) -> &[u8] {
        let name = self.as_bytes();
        &name[..name.iter().position(|byte| *byte == b'/').unwrap_or(0)]
    }
}

impl Stage {
    /// Opens the folder, creating it if it is missing.
    pub fn open(path: &Path) -> Result<Self> {
        std::fs::create_dir_all(path).map_err(|error| Error::storage("create the folder", path, error))?;
        let folder =
            durable::open_folder(path).map_err(|error| Error::storage("open the folder", path, error))?;
        Ok(Stage { folder, path: path.to_owned() })
    }

    /// Returns the folder, so that its file system can be synced.
    pub fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// Returns the path for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn fail(&self, action: &'static str, name: &StagedName, error: Errno) -> Error {
        Error::storage(action, self.path.join(String::from_utf8_lossy(name.as_bytes()).as_ref()), error)
    }

    /// Calls `create`. If the folder of the file is missing, creates the folder and tries again.
    fn in_folder<T>(&self, name: &StagedName, create: impl Fn() -> durable::ErrnoResult<T>) -> Result<T> {
        let mut created = create();
        if matches!(created, Err(Errno::NOENT)) {
            created = durable::make_folders_beneath(self.folder(), name.folder()).and_then(|_| create());
        }
        created.map_err(|error| self.fail("write", name, error))
    }

    /// Stages a whole object. Its modification time is `modified`, or the current time if `None`.
    pub fn write(&self, sequence: Sequence, bytes: &[u8], modified: Option<Seconds>) -> Result<()> {
        let name = StagedName::of(sequence);
        self.in_folder(&name, || durable::create_with(self.folder(), name.as_bytes(), bytes, modified))
    }

    /// Sets the modification time of a staged object.
    pub fn set_modified(&self, sequence: Sequence, modified: Seconds) {
        durable::set_modified(self.folder(), StagedName::of(sequence).as_bytes(), modified);
    }

    /// Starts staging an object piece by piece. See [`Stage::append`].
    pub fn create(&self, sequence: Sequence) -> Result<File> {
        let name = StagedName::of(sequence);
        self.in_folder(&name, || durable::create_new(self.folder(), name.as_bytes()))
    }

    /// Appends to a staged object.
    pub fn append(&self, sequence: Sequence, file: &mut File, bytes: &[u8]) -> Result<()> {
        durable::append(file, bytes).map_err(|error| self.fail("write", &StagedName::of(sequence), error))
    }

    /// Opens a staged object of the given length for reading.
    pub fn body(&self, sequence: Sequence, length: u64) -> Result<FileBody> {
        let name = StagedName::of(sequence);
        let open = || FileBody::new(durable::open_beneath(self.folder(), name.as_bytes())?, length);
        open().map_err(|error: std::io::Error| {
            Error::storage("read", self.path.join(String::from_utf8_lossy(name.as_bytes()).as_ref()), error)
        })
    }

    /// Like [`Stage::body`], but also removes the object's name. See [`Stage::take_out`].
    pub fn take_out_body(&self, sequence: Sequence, length: u64) -> Result<FileBody> {
        let body = self.body(sequence, length)?;
        self.remove(sequence)?;
        Ok(body)
    }

    /// Returns up to `bytes_max` bytes from the start of a staged object.
    pub fn read_start(&self, sequence: Sequence, bytes_max: usize) -> Result<Vec<u8>> {
        let name = StagedName::of(sequence);
        let read = || {
            let file = durable::open_beneath(self.folder(), name.as_bytes())?;
            let mut start = Vec::with_capacity(bytes_max);
            file.take(bytes_max as u64).read_to_end(&mut start)?;
            Ok(start)
        };
        read().map_err(|error: std::io::Error| {
            Error::storage("read", self.path.join(String::from_utf8_lossy(name.as_bytes()).as_ref()), error)
        })
    }

    /// Opens a staged object for reading and removes its name, so that another object can have this name.
    pub fn take_out(&self, sequence: Sequence) -> Result<File> {
        let name = StagedName::of(sequence);
        let file = durable::open_beneath(self.folder(), name.as_bytes())
            .map_err(|error| self.fail("read", &name, error))?;
        self.remove(sequence)?;
        Ok(file)
    }

    /// Returns the absolute path of a staged object, for processes with a different working directory.
    pub fn path_of(&self, sequence: Sequence) -> Result<PathBuf> {
        let name = StagedName::of(sequence);
        let path = self.path.join(OsStr::from_bytes(name.as_bytes()));
        std::path::absolute(&path).map_err(|error| Error::storage("find", path, error))
    }

    /// Renames a staged object to its final name.
    pub fn rename(
        &self,
        sequence: Sequence,
        folder: BorrowedFd<'_>,
        name: &[u8],
    ) -> durable::ErrnoResult<()> {
        durable::rename_new(self.folder(), StagedName::of(sequence).as_bytes(), folder, name)
    }

    /// Returns whether an object is staged.
    pub fn has(&self, sequence: Sequence) -> bool {
        matches!(durable::file_size(self.folder(), StagedName::of(sequence).as_bytes()), Ok(Some(_)))
    }

    /// Removes a staged object.
    pub fn remove(&self, sequence: Sequence) -> Result<()> {
        let name = StagedName::of(sequence);
        durable::remove(self.folder(), name.as_bytes()).map_err(|error| self.fail("remove", &name, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_computed_from_the_sequence_number() {
        for (sequence, name) in [(0, "0/0"), (63, "0/63"), (64, "1/64"), (65_536, "0/65536")] {
            assert_eq!(StagedName::of(sequence).as_bytes(), name.as_bytes());
        }
        assert_eq!(StagedName::of(u64::MAX).as_bytes(), b"1023/18446744073709551615");
    }

    #[test]
    fn folders_are_made_when_they_are_needed() {
        let folder = tempfile::tempdir().unwrap();
        let stage = Stage::open(&folder.path().join("stage/0")).unwrap();

        stage.write(70, b"x", None).unwrap();

        assert!(stage.has(70));
        assert!(!stage.has(71));
        stage.remove(70).unwrap();
        assert!(!stage.has(70));
        assert!(stage.write(70, b"x", None).is_ok());
        assert_eq!(stage.write(70, b"x", None).unwrap_err().exit_code(), 7);
    }
}
