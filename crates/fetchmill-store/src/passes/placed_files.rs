//! Moves fetched files into place, and removes files that are gone from the source, with one rename or unlink per file.
//!
//! If a staged file is missing, it was already moved into place. If a file that should be removed is missing, it was
//! already removed. This means that all steps can be repeated from the start after a kill.

use std::path::Path;

use super::applied::{Applied, PlannedObject};
use super::local::{LocalFolder, MoveResult};
use super::plan::is_ours;
use crate::durable::PathState;
use fetchmill_model::error::Result;
use fetchmill_model::name;
use fetchmill_model::outcome::FailureKind;

/// See the [module documentation](self).
pub(super) struct PlacedFiles {
    dest: LocalFolder,
    /// Folder of the fetched objects.
    staged: Option<LocalFolder>,
    overwrites_local: bool,
}

impl PlacedFiles {
    pub(super) fn open(dest: &Path, staged: Option<&Path>, overwrites_local: bool) -> Result<Self> {
        Ok(PlacedFiles {
            dest: LocalFolder::open(dest)?,
            staged: staged.map(LocalFolder::open).transpose()?,
            overwrites_local,
        })
    }

    /// Removes the file of an object that is gone from the source.
    pub(super) fn remove(&mut self, object: &PlannedObject) -> Result<Applied> {
        let mut path = Vec::new();
        if name::to_path(&object.name, &mut path).is_err() {
            return Ok(no_name());
        }
        let is_as_left = match self.dest.state(&path)? {
            // If the path leads to a folder, the file is already gone. The folder may contain an object of this pass.
            None | Some(PathState::Folder) => return Ok(Applied::of("removed")),
            Some(PathState::File { size, mtime_ns }) => {
                self.overwrites_local
                    || object.base.is_some_and(|(length, known)| is_ours(length, known, size, mtime_ns))
            }
            Some(PathState::Other) => false,
        };
        if !is_as_left {
            return Ok(Applied { result: "not_removed", ..Applied::changed_here() });
        }
        self.dest.remove(&path)?;
        Ok(Applied::of("removed"))
    }

    /// Moves a fetched object into place.
    pub(super) fn place(&mut self, object: &PlannedObject, length: i64) -> Result<Applied> {
        let mut path = Vec::new();
        if name::to_path(&object.name, &mut path).is_err() {
            return Ok(no_name());
        }
        let staged = match &mut self.staged {
            Some(staged) => staged.state(&path)?,
            None => None,
        };
        let present = self.dest.state(&path)?;
        let Some(PathState::File { mtime_ns, .. }) = staged else {
            // The file was already moved into place before the process was killed.
            return Ok(match present {
                Some(PathState::File { size, mtime_ns }) if i64::try_from(size) == Ok(length) => {
                    Applied { mtime_ns: Some(mtime_ns), ..Applied::of("fetched") }
                }
                _ => Applied::changed_here(),
            });
        };
        match present {
            Some(PathState::Folder | PathState::Other) => return Ok(taken()),
            Some(PathState::File { size, mtime_ns }) if !self.overwrites_local => match object.base {
                None => return Ok(taken()),
                Some((length, known)) if !is_ours(length, known, size, mtime_ns) => {
                    return Ok(Applied::changed_here());
                }
                Some(_) => {}
            },
            Some(PathState::File { .. }) | None => {}
        }
        let Some(staged) = &mut self.staged else { return Ok(taken()) };
        Ok(match self.dest.take(staged, &path)? {
            MoveResult::Done => Applied { mtime_ns: Some(mtime_ns), ..Applied::of("fetched") },
            MoveResult::Taken => taken(),
        })
    }

    /// Makes all moves and removals durable.
    pub(super) fn sync(&self) -> Result<()> {
        self.dest.sync()
    }
}

fn no_name() -> Applied {
    Applied::failed(FailureKind::Name.name(), "the name cannot be a file name")
}

fn taken() -> Applied {
    Applied::failed(
        FailureKind::NameTaken.name(),
        "the path is taken by something that was not written by a sync",
    )
}
