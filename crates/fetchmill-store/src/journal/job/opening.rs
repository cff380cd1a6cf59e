//! Opens the journal of a job. The journal may be new, may belong to this job, or may be taken over from another job. A
//! job may take over a destination if the previous job has not stored anything there. A sync keeps a job's shards but
//! discards its targets.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::command::COMMAND;
use super::identity::{CHECK, Identity, LIST, REPLIES_PART, REQUEST_PART};
use super::open_journal::{Journal, LISTED_AT, now_text};
use super::peek::RESTARTING;
use super::rules::{JobRules, RULES};
use crate::journal::location::JobLocation;
use fetchmill_model::error::Result;
use fetchmill_model::target::extra_columns::ROWS_PART;

/// Key under which the last pass is stored.
pub(in crate::journal) const PASS: &str = "pass";
/// Discards the targets that have no object, and the state of the listing.
pub(in crate::journal) const FORGET_TARGETS: &str = "
DELETE FROM pages; DELETE FROM markers; DELETE FROM folders; DELETE FROM failed_folders; DELETE FROM doubtful;
DELETE FROM key_ranges; DELETE FROM waiting; DELETE FROM failed_kinds; DELETE FROM failed_statuses; DELETE FROM staged; DELETE FROM failures;
DELETE FROM begun";

/// Discards a job that has stored nothing, but keeps the rules of the destination.
const FORGET_REST: &str = "
DELETE FROM samples; DELETE FROM skipped; DELETE FROM skipped_names; DELETE FROM opted_out; DELETE FROM opted_out_hosts;
DELETE FROM uploads; DELETE FROM job WHERE key != 'rules';
UPDATE tally SET listed = 0, fetched = 0, absent = 0, failed = 0, skipped = 0, bytes = 0, next_sequence = 0";

/// Returns whether a sync maintains the shards of a journal.
pub(in crate::journal) fn is_synced(db: &Connection) -> rusqlite::Result<bool> {
    let count = "SELECT count(*) FROM job WHERE key = ?";
    db.query_row(count, [PASS], |row| row.get::<_, i64>(0)).map(|count| count > 0)
}

/// Discards a job and all records of its files. The rules are discarded as well, because the next job uses the current
/// rules.
const FORGET_FILES: &str = "
DELETE FROM manifests; DELETE FROM open_shards; DELETE FROM shards; DELETE FROM job";

impl Journal {
    /// Records that the job is being removed, and the command of the next job. From then on, the job counts as
    /// unfinished.
    pub fn begin_restart(&mut self, command: Option<&str>) -> Result<()> {
        self.begin()?;
        self.set(RESTARTING, "true")?;
        command.map_or(Ok(()), |command| self.keep_command(command))?;
        for key in ["finished_at", LISTED_AT] {
            self.forget(key)?;
        }
        self.commit()
    }

    /// Discards the job in one transaction, but keeps the command of the next job for `resume`. The files of the job
    /// must have been removed before. If `reuses_numbers` is false, the next job assigns new shard numbers, because
    /// files with the old names still exist.
    pub fn forget_job(self, reuses_numbers: bool, command: Option<&str>) -> Result<()> {
        self.fence.begin(&self.db, &self.path)?;
        self.check(self.db.execute_batch(FORGET_TARGETS))?;
        self.check(self.db.execute_batch(FORGET_FILES))?;
        if reuses_numbers {
            self.check(self.db.execute_batch("DELETE FROM sqlite_sequence"))?;
        }
        self.check(self.db.execute_batch(FORGET_REST))?;
        if let Some(command) = command {
            self.check(self.db.execute("INSERT INTO job (key, value) VALUES (?, ?)", [COMMAND, command]))?;
        }
        self.check(self.db.execute_batch("COMMIT"))
    }

    /// Opens or creates the journal at a location. The caller must hold the lock.
    pub fn open(place: &JobLocation, identity: &Identity, is_durable: bool) -> Result<Self> {
        let mut journal = Self::open_any(place, is_durable)?;
        match journal.get("identity")? {
            None => {
                // Set the rules first. If the run is killed before the identity is stored, the job does not exist yet.
                // In the opposite order, a job without rules would be treated as a job from 0.1.0.
                journal.set(RULES, &JobRules::CURRENT.to_text())?;
                journal.found(identity)?;
            }
            Some(stored) if identity.equals(&stored) => {}
            Some(stored) if journal.stores_nothing(&Identity::from_json(&stored))? => {
                journal.found_anew(identity)?;
            }
            Some(stored) => identity.must_equal(&stored, &place.dest)?,
        }
        Ok(journal)
    }

    /// Returns whether another job may use the destination. The current job must have listed nothing, or be finished
    /// without having stored any object or row. A listing in progress is never discarded, because the new command may
    /// be a mistake.
    fn stores_nothing(&self, identity: &BTreeMap<String, String>) -> Result<bool> {
        if !self.is_begun()? {
            return Ok(true);
        }
        let is_of_rows =
            identity.get("format").is_some_and(|format| [CHECK, LIST].contains(&format.as_str()));
        // Such a job has requests that may have had effects, replies with rows, or objects that a sync maintains.
        let keeps_failures =
            [REQUEST_PART, ROWS_PART, REPLIES_PART].iter().any(|part| identity.contains_key(*part));
        if self.tally.listed > 0 && (is_of_rows || keeps_failures) || self.check(is_synced(&self.db))? {
            return Ok(false);
        }
        let some = "SELECT EXISTS (SELECT 1 FROM staged UNION ALL SELECT 1 FROM manifests UNION ALL SELECT 1 FROM open_shards
                    UNION ALL SELECT 1 FROM shards)";
        let has_some: bool = self.check(self.db.query_row(some, [], |row| row.get(0)))?;
        Ok(self.is_settled()? && self.tally.fetched == 0 && !has_some)
    }

    /// Replaces a job that has stored nothing with a new one.
    fn found_anew(&mut self, identity: &Identity) -> Result<()> {
        self.fence.begin(&self.db, &self.path)?;
        self.check(self.db.execute_batch(FORGET_TARGETS))?;
        self.check(self.db.execute_batch(FORGET_REST))?;
        self.check(self.db.execute_batch("COMMIT"))?;
        (self.live, self.begun, self.interrupted) = Default::default();
        (self.tally, self.total, self.next_sequence) = Default::default();
        self.found(identity)
    }

    fn found(&self, identity: &Identity) -> Result<()> {
        self.set("started_at", &now_text())?;
        self.set("identity", &identity.to_json())
    }
}
