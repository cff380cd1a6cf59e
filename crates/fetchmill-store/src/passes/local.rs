//! The files of a folder, found by the names of objects. All operations stay beneath the folder and never follow links.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::durable::{self, PathState};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::name;

/// The folder, and the subfolder that was used last.
#[derive(Debug)]
pub(crate) struct LocalFolder {
    root: OwnedFd,
    root_path: PathBuf,
    /// The folder that was used last. Names arrive in sorted order, so the next one is often in the same folder.
    open: Option<(Vec<u8>, OwnedFd)>,
}

/// Result of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MoveResult {
    Done,
    /// Something other than the expected file or folder is at the path of the file or of a parent folder.
    Taken,
}

impl LocalFolder {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let root =
            durable::open_folder(path).map_err(|error| Error::storage("open the folder", path, error))?;
        Ok(LocalFolder { root, root_path: path.to_owned(), open: None })
    }

    fn fail(&self, action: &'static str, path: &[u8], error: Errno) -> Error {
        Error::storage(action, self.root_path.join(name::for_display(path)), error)
    }

    /// Returns the parent folder of a path, and the last part of the path. If the folder is missing and `makes` is set,
    /// creates it.
    fn folder<'p>(&mut self, path: &'p [u8], makes: bool) -> durable::ErrnoResult<(OwnedFd, &'p [u8])> {
        let Some(slash) = path.iter().rposition(|byte| *byte == b'/') else {
            return Ok((self.root.try_clone().map_err(|error| io_errno(&error))?, path));
        };
        let (above, leaf) = (&path[..slash], &path[slash + 1..]);
        if let Some((known, folder)) = &self.open
            && known == above
        {
            return Ok((folder.try_clone().map_err(|error| io_errno(&error))?, leaf));
        }
        let folder = if makes {
            durable::make_folders_beneath(self.root.as_fd(), above)?
        } else {
            durable::open_folder_beneath(self.root.as_fd(), above)?
        };
        self.open = Some((above.to_vec(), folder.try_clone().map_err(|error| io_errno(&error))?));
        Ok((folder, leaf))
    }

    /// Returns the state of a path. `None` if nothing is there.
    pub(crate) fn state(&mut self, path: &[u8]) -> Result<Option<PathState>> {
        let found =
            self.folder(path, false).and_then(|(folder, leaf)| durable::file_state(folder.as_fd(), leaf));
        match found {
            Ok(state) => Ok(state),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(Errno::LOOP | Errno::XDEV) => Ok(Some(PathState::Other)),
            Err(error) => Err(self.fail("inspect", path, error)),
        }
    }

    /// Moves a file from another folder to the same path in this folder, replacing any existing file.
    pub(super) fn take(&mut self, from: &mut LocalFolder, path: &[u8]) -> Result<MoveResult> {
        let moved = from.folder(path, false).and_then(|(from, leaf)| {
            let (to, _) = self.folder(path, true)?;
            durable::rename_over(from.as_fd(), leaf, to.as_fd(), leaf)
        });
        match moved {
            Ok(()) => Ok(MoveResult::Done),
            Err(
                Errno::EXIST | Errno::NOTDIR | Errno::ISDIR | Errno::LOOP | Errno::XDEV | Errno::NOTEMPTY,
            ) => Ok(MoveResult::Taken),
            Err(error) => Err(self.fail("move a finished file to", path, error)),
        }
    }

    /// Removes a file, and its parent folders if they become empty.
    pub(crate) fn remove(&mut self, path: &[u8]) -> Result<()> {
        self.open = None;
        let removed = durable::remove_beneath(self.root.as_fd(), path);
        removed.map_err(|error| self.fail("remove", path, error))?;
        let mut rest = path;
        while let Some(slash) = rest.iter().rposition(|byte| *byte == b'/') {
            rest = &rest[..slash];
            if durable::remove_empty_folder_beneath(self.root.as_fd(), rest).is_err() {
                break; // the folder is not empty
            }
        }
        Ok(())
    }

    /// Makes all changes in the folder durable.
    pub(crate) fn sync(&self) -> Result<()> {
        durable::sync_file_system(self.root.as_fd())
            .map_err(|error| Error::storage("sync", &self.root_path, error))
    }
}

fn io_errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
