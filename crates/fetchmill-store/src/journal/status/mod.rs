//! The status of a job, which can be read from its journal even while the job runs. Also starts retry runs.

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
use super::job::open_journal::{Journal, LISTED_AT, now_text};
use super::listing::{opt_outs, skips};
use super::location::JobLocation;
use super::shards;
use super::targets::doubtful::{self, Doubtful};
use serde::{Deserialize, Serialize};

use fetchmill_model::error::Result;
use fetchmill_model::outcome::opt_out_rule::OptOutCounts;
use fetchmill_model::outcome::{FailureKind, KindCounts, Outcome, ShardEnd, StatusCounts, Tally};
use fetchmill_model::target::WaitingTarget;

/// Status of a job.
#[derive(Debug, Clone)]
pub struct Status {
    /// Parts of the job's identity.
    pub identity: std::collections::BTreeMap<String, String>,
    /// Counts of durable outcomes.
    pub tally: Tally,
    /// Number of failed targets by kind.
    pub kinds: KindCounts,
    /// Number of targets that failed because of their status, by status.
    pub statuses: StatusCounts,
    /// Time when the job was created, in ISO 8601 UTC.
    pub started_at: Option<String>,
    /// Time when the listing was completed.
    pub listed_at: Option<String>,
    /// Time when the job finished.
    pub finished_at: Option<String>,
    /// Targets whose replies may belong to other requests. See [`Doubtful`].
    pub doubtful: Doubtful,
    /// Number of targets in the journal that wait for a retry.
    pub waiting: u64,
    /// Whether a process is working on the job.
    pub is_running: bool,
    /// Current waits of a running job.
    pub waits: Vec<Wait>,
    /// Speed of a running job and its limiting factor, as JSON.
    pub progress: Option<String>,
    /// Number of skipped targets by reason.
    pub skipped: BTreeMap<String, u64>,
    /// Number of targets that opted out, by rule and host.
    pub opt_outs: OptOutCounts,
}

/// A problem that a job is waiting for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// Description, such as `the listing's page http://... fails (status 500)`.
    pub what: String,
    /// Time when the wait began, in ISO 8601 UTC.
    pub since: String,
    /// Time when the job will stop waiting and give up.
    pub until: String,
}

/// A folder that could not be listed.
#[derive(Debug, Clone)]
pub struct FailedFolder {
    /// Path of the folder.
    pub path: Vec<u8>,
    /// Status of the reply. `None` if there was no reply.
    pub status: Option<u16>,
    /// Number of attempts.
    pub attempts: u32,
    /// Description of the error.
    pub detail: String,
}

/// Reads the status of a job.
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

/// Returns the failures shards with their ends.
pub fn read_shards(place: &JobLocation) -> Result<Vec<ShardEnd>> {
    let path = place.journal_path();
    let db = schema::open_to_read(&path)?;
    shards::failures(&db).map_err(|error| error_of(&path, &error))
}

/// Returns folders that could not be listed, ordered by path, starting after `after`.
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

/// Failed and absent targets that a retry run does not fetch.
#[derive(Debug, Default)]
pub struct KeptFailures {
    /// Shard that contains the rows of these targets and of skipped targets.
    pub shard: Option<ShardEnd>,
    failed: u64,
    absent: u64,
    kinds: KindCounts,
    statuses: StatusCounts,
}

impl KeptFailures {
    /// Counts a target and the status of its last reply. `kind` is `None` for an absent target.
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
    /// Starts a retry run. The selected failed and absent targets are no longer counted and are due immediately.
    ///
    /// `each_failure` calls its argument with each selected target, and returns the targets that are not selected.
    /// `is_folder_meant` selects unlisted folders by their last status.
    ///
    /// All changes are made in one transaction, so a crash leaves the state of either the old or the new run. Returns
    /// the number of targets and folders to retry.
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
                "the records of failures list {found} targets, but {counted} failed or were absent; a file in \
                 {} is missing or damaged",
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

    /// Records that every target has an outcome.
    pub fn finish(&mut self) -> Result<()> {
        if self.get("finished_at")?.is_none() {
            self.set("finished_at", &now_text())?;
        }
        Ok(())
    }
}
