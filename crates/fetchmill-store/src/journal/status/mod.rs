//! What a journal tells to somebody who only looks, also while the job runs; and the second pass over failures.

pub(super) mod column_types;
pub(super) mod samples;
pub(super) mod snapshot;
pub(super) mod synced;

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _};

use self::samples::PROGRESS;
use super::database::schema;
use super::database::sqlite_error::error_of;
use super::job::identity::Identity;
use super::job::transactions::{Journal, LISTED_AT, now_text};
use super::listing::{opt_outs, skips};
use super::location::JobLocation;
use super::shards;
use super::targets::doubtful::{self, Doubtful};
use serde::{Deserialize, Serialize};

use fetchmill_model::error::Result;
use fetchmill_model::outcome::opt_out_rule::OptOutCounts;
use fetchmill_model::outcome::{FailureKind, KindCounts, Outcome, ShardEnd, StatusCounts, Tally};
use fetchmill_model::target::WaitingTarget;

/// A job, looked at.
#[derive(Debug, Clone)]
pub struct Status {
    /// The parts of its identity.
    pub identity: std::collections::BTreeMap<String, String>,
    /// What is durable.
    pub tally: Tally,
    /// Failed targets by kind.
    pub kinds: KindCounts,
    /// Those that failed because of their status, by that.
    pub statuses: StatusCounts,
    /// When it was made, ISO 8601 UTC.
    pub started_at: Option<String>,
    /// When its listing was complete.
    pub listed_at: Option<String>,
    /// When it had finished.
    pub finished_at: Option<String>,
    /// See [`Doubtful`].
    pub doubtful: Doubtful,
    /// Targets that wait for another attempt in the journal's table.
    pub waiting: u64,
    /// Whether a process works on it.
    pub is_running: bool,
    /// What it waits for now, if it runs.
    pub waits: Vec<Wait>,
    /// How fast it is and what holds it back, if it runs: JSON.
    pub progress: Option<String>,
    /// What was skipped, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// Those that opted out, by rule and host.
    pub opt_outs: OptOutCounts,
}

/// Something that a job waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// In words: `the listing's page http://... fails (status 500)`.
    pub what: String,
    /// Since when, ISO 8601 UTC.
    pub since: String,
    /// When the job gives up.
    pub until: String,
}

/// A folder that gave no listing.
#[derive(Debug, Clone)]
pub struct FailedFolder {
    /// Its path.
    pub path: Vec<u8>,
    /// The status of the reply, when there was one.
    pub status: Option<u16>,
    /// Attempts.
    pub attempts: u32,
    /// What was wrong.
    pub detail: String,
}

/// Reads a job's status.
pub fn read_status(place: &JobLocation) -> Result<Status> {
    let path = place.journal_path();
    let db = schema::open_to_read(&path)?;
    let read = || -> rusqlite::Result<Status> {
        let fact = |key: &str| {
            let row =
                db.query_row("SELECT value FROM job WHERE key = ?", [key], |row| row.get::<_, String>(0));
            row.optional()
        };
        let is_running = place.is_running();
        let waits = fact("waits")?.filter(|_| is_running);
        let identity = identity(&db)?;
        Ok(Status {
            identity: identity.clone(),
            tally: schema::read_tally(&db)?.0,
            kinds: schema::read_kinds(&db)?,
            statuses: schema::read_statuses(&db)?,
            started_at: fact("started_at")?,
            listed_at: fact(LISTED_AT)?,
            finished_at: fact("finished_at")?,
            doubtful: doubtful::read(&db)?,
            waiting: db.query_row("SELECT count(*) FROM waiting", [], |row| row.get::<_, i64>(0))? as u64,
            is_running,
            progress: fact(PROGRESS)?.filter(|_| is_running),
            skipped: skips::by_reason(&db, &identity)?,
            opt_outs: opt_outs::read(&db)?,
            waits: waits.and_then(|waits| serde_json::from_str(&waits).ok()).unwrap_or_default(),
        })
    };
    read().map_err(|error| error_of(&path, &error))
}

pub(super) fn identity(db: &Connection) -> rusqlite::Result<std::collections::BTreeMap<String, String>> {
    let row = db.query_row("SELECT value FROM job WHERE key = 'identity'", [], |row| row.get::<_, String>(0));
    Ok(row.optional()?.map(|stored| Identity::from_json(&stored)).unwrap_or_default())
}

/// Failures shards and where they end.
pub fn read_shards(place: &JobLocation) -> Result<Vec<ShardEnd>> {
    let path = place.journal_path();
    let db = schema::open_to_read(&path)?;
    shards::failures(&db).map_err(|error| error_of(&path, &error))
}

/// Folders that gave no listing, by path, behind one.
pub fn read_failed_folders(
    place: &JobLocation,
    after: Option<&[u8]>,
    max: usize,
) -> Result<Vec<FailedFolder>> {
    let path = place.journal_path();
    let db = schema::open_to_read(&path)?;
    failed_folders(&db, after, max).map_err(|error| error_of(&path, &error))
}

fn failed_folders(db: &Connection, after: Option<&[u8]>, max: usize) -> rusqlite::Result<Vec<FailedFolder>> {
    let mut query = db.prepare_cached(
        "SELECT path, status, attempts, detail FROM failed_folders
         WHERE ?1 IS NULL OR path > ?1 ORDER BY path LIMIT ?2",
    )?;
    let rows = query.query_map(rusqlite::params![after, max as i64], |row| {
        Ok(FailedFolder {
            path: row.get(0)?,
            status: row.get(1)?,
            attempts: row.get(2)?,
            detail: row.get(3)?,
        })
    })?;
    rows.collect()
}

/// What failed or was absent and is not tried again in a second pass.
#[derive(Debug, Default)]
pub struct KeptFailures {
    /// Its rows, and those of what was skipped.
    pub shard: Option<ShardEnd>,
    failed: u64,
    absent: u64,
    kinds: KindCounts,
    statuses: StatusCounts,
}

impl KeptFailures {
    /// Counts a target with the status of its last reply; one without a kind was absent.
    pub fn count(&mut self, is_skipped: bool, kind: Option<FailureKind>, status: u16) {
        match kind {
            _ if is_skipped => {}
            None => self.absent += 1,
            Some(kind) => {
                self.failed += 1;
                self.kinds.add(kind, 1);
                self.statuses.note(Outcome::Failed(kind), status);
            }
        }
    }
}

impl Journal {
    /// Starts a second pass: what is meant of all that failed or was absent waits for another attempt, due at once, and
    /// is no longer counted. `each_failure` calls its argument with every such target and returns those that stay as
    /// they are; `is_folder_meant` says it of folders that gave no listing, by their last status. One transaction, so a
    /// crash leaves either pass. Returns how many targets and folders are tried again.
    pub fn start_pass(
        &mut self,
        is_folder_meant: impl Fn(Option<u16>) -> bool,
        each_failure: impl FnOnce(&mut dyn FnMut(WaitingTarget) -> Result<()>) -> Result<KeptFailures>,
    ) -> Result<u64> {
        self.begin()?;
        let mut targets = 0;
        let mut kept = each_failure(&mut |target| {
            targets += 1;
            self.insert_waiting(&target)
        })?;
        self.check(
            self.db
                .execute_batch("DELETE FROM failures; DELETE FROM failed_kinds; DELETE FROM failed_statuses"),
        )?;
        if let Some(shard) = &kept.shard {
            self.keep_failures(shard)?;
        }
        let (folders, kept_folders) = self.retry_folders(is_folder_meant)?;
        let found = targets + kept.failed + kept.absent;
        let counted = self.tally.failed + self.tally.absent - kept_folders;
        if found != counted {
            return Err(fetchmill_model::error::Error::Journal(format!(
                "the failures shards hold {found} targets, but {counted} failed or were absent; a file of {} is missing \
                 or damaged",
                self.path.display()
            )));
        }
        self.tally.failed = kept.failed + kept_folders;
        self.tally.absent = kept.absent;
        if kept_folders > 0 {
            kept.kinds.add(FailureKind::Listing, kept_folders);
        }
        self.check(schema::add_kinds(&self.db, &kept.kinds))?;
        self.check(schema::add_statuses(&self.db, &kept.statuses))?;
        self.check(self.db.execute("DELETE FROM job WHERE key = 'finished_at'", []))?;
        self.commit()?;
        Ok(targets + folders)
    }

    /// See [`read_failed_folders`].
    pub fn failed_folders(&self, after: Option<&[u8]>, max: usize) -> Result<Vec<FailedFolder>> {
        self.check(failed_folders(&self.db, after, max))
    }

    /// Every target has an outcome.
    pub fn finish(&mut self) -> Result<()> {
        if self.get("finished_at")?.is_none() {
            self.set("finished_at", &now_text())?;
        }
        Ok(())
    }
}
