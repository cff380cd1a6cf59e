//! Applies each planned object at the end of a pass. Files are moved into place and removed one by one
//! ([`super::placed_files`]). Shards have already been swapped ([`super::synced_shards`]).

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};

use super::applied::{Applied, PlannedObject};
use super::database;
use super::placed_files::PlacedFiles;
use super::plan::PlannedAction;
use crate::journal::sqlite_error_of;
use fetchmill_model::error::Result;
use fetchmill_model::outcome::FailureKind;

/// Number of objects that are applied between two clock checks. Their rows are held in memory.
const SLICE: i64 = 500;
/// Outcomes of the planned objects, for [`super::conclude`].
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
/// Applies changes to a destination.
pub(super) struct Application {
    pub(super) db: Connection,
    path: std::path::PathBuf,
    /// The files of the destination. `None` if the objects are in shards.
    files: Option<PlacedFiles>,
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

/// The databases that are needed to apply a pass.
pub(super) struct ApplyPaths<'p> {
    pub(super) base: &'p Path,
    pub(super) plan: &'p Path,
    pub(super) outcomes: &'p Path,
}

impl Application {
    pub(super) fn begin(paths: &ApplyPaths<'_>, files: Option<PlacedFiles>) -> Result<Self> {
        let db = database::open_base(paths.base)?;
        database::attach(&db, paths.plan, "plan")?;
        database::attach(&db, paths.outcomes, "outcome")?;
        db.execute_batch(TABLE).map_err(|error| sqlite_error_of(paths.base, &error))?;
        Ok(Application {
            db,
            path: paths.base.to_owned(),
            files,
            stage: ApplyStage::Removing,
            last: None,
            done: 0,
        })
    }

    pub(super) fn done(&self) -> u64 {
        self.done
    }

    /// Works for up to `time`. Returns whether everything is done and durable.
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
                        self.files.as_ref().map_or(Ok(()), PlacedFiles::sync)?;
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
            query.query_map(bounds, PlannedObject::of_row)?.collect()
        };
        read().map_err(|error| sqlite_error_of(&self.path, &error))
    }

    fn apply(&mut self, object: &PlannedObject) -> Result<Applied> {
        let is = |action: PlannedAction| object.action == action as i64;
        if is(PlannedAction::Remove) {
            let files = self.files.as_mut();
            return files.map_or_else(|| Ok(Applied::of("removed")), |files| files.remove(object));
        }
        if is(PlannedAction::NoUrl) {
            return Ok(Applied::failed(FailureKind::Url.name(), "no URL is known for this object"));
        }
        if is(PlannedAction::LeaveLocal) {
            return Ok(Applied::changed_here());
        }
        match (&object.outcome, object.fetched) {
            (Some(outcome), _) => Ok(not_stored(object, outcome)),
            (None, Some(length)) => {
                let files = self.files.as_mut();
                files.map_or_else(|| Ok(Applied::of("fetched")), |files| files.place(object, length))
            }
            (None, None) => {
                Ok(Applied::failed(FailureKind::Worker.name(), "no outcome recorded for this object (bug)"))
            }
        }
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

/// Returns the outcome of an object that the job did not store. An object that was skipped after a conditional request
/// counts as unchanged.
fn not_stored(object: &PlannedObject, outcome: &str) -> Applied {
    match outcome {
        "skipped" => Applied::of("unchanged"),
        "absent" => Applied { detail: object.detail.clone(), ..Applied::of("absent") },
        _ => Applied { kind: object.kind.clone(), detail: object.detail.clone(), ..Applied::of("failed") },
    }
}
