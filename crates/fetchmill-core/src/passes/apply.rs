//! Puts what was fetched into its places, and removes what is gone: each file by one rename or one unlink.
//!
//! A staged file that is missing has been put in its place before, and a file that is missing has been removed. So all
//! of it can be done again after a kill, from the start.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, Row, params};

use super::database;
use super::local::{LocalFolder, MoveResult};
use super::plan::{PlannedAction, is_ours};
use crate::durable::PathState;
use crate::error::Result;
use crate::journal::sqlite_error_of;
use crate::name;
use crate::outcome::FailureKind;

/// Objects that are looked at before the time is: memory has so many rows.
const SLICE: i64 = 500;
/// What became of each planned object, for [`super::conclude`].
const TABLE: &str = "
CREATE TEMP TABLE applied (
    name BLOB PRIMARY KEY, result TEXT NOT NULL, kind TEXT, detail TEXT, mtime_ns INTEGER) WITHOUT ROWID";
const REMOVALS: &str = "
SELECT p.name, p.action, b.length, b.mtime_ns, NULL, NULL, NULL, NULL FROM plan.planned p
JOIN main.objects b ON b.name = p.name
WHERE p.action = ?1 AND (?2 IS NULL OR p.name > ?2) ORDER BY p.name LIMIT ?3";
const PLACES: &str = "
SELECT p.name, p.action, b.length, b.mtime_ns, f.length, e.outcome, e.kind, e.detail FROM plan.planned p
LEFT JOIN main.objects b ON b.name = p.name
LEFT JOIN outcome.fetched f ON f.name = p.name
LEFT JOIN outcome.failed e ON e.name = p.name
WHERE p.action != ?1 AND (?2 IS NULL OR p.name > ?2) ORDER BY p.name LIMIT ?3";
/// The file in DEST is not as the last pass has left it.
pub(super) const LOCAL_CHANGE: &str = "local-change";

/// Changes on their way into a destination.
pub(super) struct Application {
    pub(super) db: Connection,
    path: std::path::PathBuf,
    dest: LocalFolder,
    staged: Option<LocalFolder>,
    overwrites_local: bool,
    stage: ApplyStage,
    last: Option<Vec<u8>>,
    done: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ApplyStage {
    Removing,
    Placing,
    Done,
}

/// An object with what is known of it.
struct PlannedObject {
    name: Vec<u8>,
    action: i64,
    /// Length and time of the file that the last pass has left.
    base: Option<(i64, Option<i64>)>,
    /// Length of what was fetched.
    fetched: Option<i64>,
    outcome: Option<String>,
    kind: Option<String>,
    detail: Option<String>,
}

/// What became of it.
struct Applied {
    result: &'static str,
    kind: Option<String>,
    detail: Option<String>,
    mtime_ns: Option<i64>,
}

impl Applied {
    fn of(result: &'static str) -> Self {
        Applied { result, kind: None, detail: None, mtime_ns: None }
    }

    fn failed(kind: &str, detail: &str) -> Self {
        Applied { kind: Some(kind.to_owned()), detail: Some(detail.to_owned()), ..Applied::of("failed") }
    }
}

/// The files of an application.
pub(super) struct ApplyPaths<'p> {
    pub(super) dest: &'p Path,
    pub(super) base: &'p Path,
    pub(super) plan: &'p Path,
    pub(super) outcomes: &'p Path,
    /// Where fetched objects are.
    pub(super) staged: Option<&'p Path>,
}

impl Application {
    pub(super) fn begin(paths: &ApplyPaths<'_>, overwrites_local: bool) -> Result<Self> {
        let db = database::open_base(paths.base)?;
        database::attach(&db, paths.plan, "plan")?;
        database::attach(&db, paths.outcomes, "outcome")?;
        db.execute_batch(TABLE).map_err(|error| sqlite_error_of(paths.base, &error))?;
        Ok(Application {
            db,
            path: paths.base.to_owned(),
            dest: LocalFolder::open(paths.dest)?,
            staged: paths.staged.map(LocalFolder::open).transpose()?,
            overwrites_local,
            stage: ApplyStage::Removing,
            last: None,
            done: 0,
        })
    }

    pub(super) fn done(&self) -> u64 {
        self.done
    }

    /// Works for so long; whether all is done, and durable.
    pub(super) fn work(&mut self, time: Duration) -> Result<bool> {
        let started = Instant::now();
        while self.stage != ApplyStage::Done {
            let slice = self.slice()?;
            let is_last = slice.len() < SLICE as usize;
            for object in slice {
                let applied = self.apply(&object)?;
                self.note(&object, &applied)?;
                self.done += 1;
                self.last = Some(object.name);
            }
            if is_last {
                self.last = None;
                self.stage = match self.stage {
                    ApplyStage::Removing => ApplyStage::Placing,
                    ApplyStage::Placing | ApplyStage::Done => {
                        self.dest.sync()?;
                        ApplyStage::Done
                    }
                };
            }
            if started.elapsed() >= time {
                break;
            }
        }
        Ok(self.stage == ApplyStage::Done)
    }

    fn slice(&self) -> Result<Vec<PlannedObject>> {
        let query = if self.stage == ApplyStage::Removing { REMOVALS } else { PLACES };
        let read = || -> rusqlite::Result<Vec<PlannedObject>> {
            let mut query = self.db.prepare_cached(query)?;
            let bounds = params![PlannedAction::Remove as i64, self.last, SLICE];
            query.query_map(bounds, planned_object)?.collect()
        };
        read().map_err(|error| sqlite_error_of(&self.path, &error))
    }

    fn apply(&mut self, object: &PlannedObject) -> Result<Applied> {
        let mut path = Vec::new();
        if name::to_path(&object.name, &mut path).is_err() {
            return Ok(Applied::failed(FailureKind::Name.name(), "it cannot be the name of a file"));
        }
        if object.action == PlannedAction::Remove as i64 {
            return self.remove(object, &path);
        }
        if object.action == PlannedAction::NoUrl as i64 {
            return Ok(Applied::failed(FailureKind::Url.name(), "no URL leads to it"));
        }
        if object.action == PlannedAction::LeaveLocal as i64 {
            return Ok(changed_here());
        }
        match (&object.outcome, object.fetched) {
            (Some(outcome), _) => Ok(not_stored(object, outcome)),
            (None, Some(length)) => self.place(object, &path, length),
            (None, None) => Ok(Applied::failed(FailureKind::Worker.name(), "its job says nothing of it")),
        }
    }

    fn remove(&mut self, object: &PlannedObject, path: &[u8]) -> Result<Applied> {
        let is_as_left = match self.dest.state(path)? {
            // In a folder's place there is no file any more: an object of this pass may be below it already.
            None | Some(PathState::Folder) => return Ok(Applied::of("removed")),
            Some(PathState::File { size, mtime_ns }) => {
                self.overwrites_local
                    || object.base.is_some_and(|(length, known)| is_ours(length, known, size, mtime_ns))
            }
            Some(PathState::Other) => false,
        };
        if !is_as_left {
            return Ok(Applied { result: "not_removed", ..changed_here() });
        }
        self.dest.remove(path)?;
        Ok(Applied::of("removed"))
    }

    /// Puts a fetched object into its place.
    fn place(&mut self, object: &PlannedObject, path: &[u8], length: i64) -> Result<Applied> {
        let staged = match &mut self.staged {
            Some(staged) => staged.state(path)?,
            None => None,
        };
        let present = self.dest.state(path)?;
        let Some(PathState::File { mtime_ns, .. }) = staged else {
            // It was put there before a kill.
            return Ok(match present {
                Some(PathState::File { size, mtime_ns }) if i64::try_from(size) == Ok(length) => {
                    Applied { mtime_ns: Some(mtime_ns), ..Applied::of("fetched") }
                }
                _ => changed_here(),
            });
        };
        match present {
            Some(PathState::Folder | PathState::Other) => return Ok(taken()),
            Some(PathState::File { size, mtime_ns }) if !self.overwrites_local => match object.base {
                None => return Ok(taken()),
                Some((length, known)) if !is_ours(length, known, size, mtime_ns) => return Ok(changed_here()),
                Some(_) => {}
            },
            Some(PathState::File { .. }) | None => {}
        }
        let Some(staged) = &mut self.staged else { return Ok(taken()) };
        Ok(match self.dest.take(staged, path)? {
            MoveResult::Done => Applied { mtime_ns: Some(mtime_ns), ..Applied::of("fetched") },
            MoveResult::Taken => taken(),
        })
    }

    fn note(&self, object: &PlannedObject, applied: &Applied) -> Result<()> {
        let write = || {
            let mut insert = self.db.prepare_cached("REPLACE INTO temp.applied VALUES (?, ?, ?, ?, ?)")?;
            insert.execute(params![
                object.name,
                applied.result,
                applied.kind,
                applied.detail,
                applied.mtime_ns
            ])
        };
        write().map(drop).map_err(|error| sqlite_error_of(&self.path, &error))
    }
}

fn planned_object(row: &Row<'_>) -> rusqlite::Result<PlannedObject> {
    let length: Option<i64> = row.get(2)?;
    let mtime_ns: Option<i64> = row.get(3)?;
    Ok(PlannedObject {
        name: row.get(0)?,
        action: row.get(1)?,
        base: length.map(|length| (length, mtime_ns)),
        fetched: row.get(4)?,
        outcome: row.get(5)?,
        kind: row.get(6)?,
        detail: row.get(7)?,
    })
}

/// An object that its job has not stored. One that was asked for on a condition and left out has not changed.
fn not_stored(object: &PlannedObject, outcome: &str) -> Applied {
    match outcome {
        "skipped" => Applied::of("unchanged"),
        "absent" => Applied { detail: object.detail.clone(), ..Applied::of("absent") },
        _ => Applied { kind: object.kind.clone(), detail: object.detail.clone(), ..Applied::of("failed") },
    }
}

fn changed_here() -> Applied {
    Applied::failed(LOCAL_CHANGE, "its file was changed here; --overwrite-local replaces it")
}

fn taken() -> Applied {
    Applied::failed(FailureKind::NameTaken.name(), "something that no sync has put there has its place")
}
