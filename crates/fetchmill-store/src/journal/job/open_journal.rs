//! The database of the journal. Opens it, stores facts about the job, and runs transactions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use rusqlite::{Connection, OptionalExtension as _};

use super::identity::Identity;
use super::live::{self, LivePage};
use crate::journal::database::fence::Fence;
use crate::journal::database::schema;
use crate::journal::database::sqlite_error::error_of;
use crate::journal::location::JobLocation;
use fetchmill_model::error::Result;
use fetchmill_model::outcome::{KindCounts, StatusCounts, Tally};
use fetchmill_model::target::Sequence;
use fetchmill_model::target::entry::EntryTraits;

/// Key under which the completion time of the listing is stored.
pub(in crate::journal) const LISTED_AT: &str = "listed_at";

/// The open journal of a job.
#[derive(Debug)]
pub struct Journal {
    pub(in crate::journal) db: Connection,
    pub(in crate::journal) path: PathBuf,
    /// Pages with unfinished targets. They cover the window of targets that are not fetched yet, and two commit windows
    /// per worker. Each target takes one bit, so 1 million targets take 125 kB.
    pub(in crate::journal) live: BTreeMap<Sequence, LivePage>,
    /// Targets whose requests may have been sent and must not be repeated. This includes a few batches per worker and
    /// all targets whose replies are not committed yet.
    pub(in crate::journal) begun: BTreeSet<Sequence>,
    /// Targets in `begun` without an outcome, either at the end of an earlier run or at the end of this one.
    pub(in crate::journal) interrupted: BTreeSet<Sequence>,
    pub(in crate::journal) tally: Tally,
    pub(in crate::journal) total: Option<u64>,
    pub(in crate::journal) next_sequence: Sequence,
    pub(in crate::journal) in_transaction: bool,
    pub(in crate::journal) fence: Fence,
}

impl Journal {
    /// Opens the journal at a location, regardless of the job that it belongs to.
    pub fn open_any(place: &JobLocation, is_durable: bool) -> Result<Self> {
        let path = place.journal_path();
        let check = |error: rusqlite::Error| error_of(&path, &error);
        let db = schema::open(&path, is_durable)?;
        schema::make_tables(&db, &path)?;
        // If two runs start at the same time, the last one to mark the lock continues.
        place.must_be_ours()?;
        let fence = Fence::take(&db).map_err(check)?;
        let (tally, next_sequence) = schema::read_tally(&db).map_err(check)?;
        let live = live::load(&db).map_err(check)?;
        let begun = schema::read_begun(&db).map_err(check)?;
        let interrupted = begun.clone();
        let mut journal = Journal {
            db,
            path,
            live,
            begun,
            interrupted,
            tally,
            total: None,
            next_sequence,
            in_transaction: false,
            fence,
        };
        journal.total = journal.get("total")?.and_then(|total| total.parse().ok());
        Ok(journal)
    }

    /// Returns when the listing was completed. `None` if it is not complete.
    pub fn listed_at(&self) -> Result<Option<String>> {
        self.get(LISTED_AT)
    }

    /// Returns whether the listing is complete.
    pub fn is_listed(&self) -> Result<bool> {
        Ok(self.listed_at()?.is_some())
    }

    /// Returns whether the listing has started, in this run or an earlier one.
    pub fn has_listed(&self) -> Result<bool> {
        Ok(self.tally.listed > 0 || self.get("marker")?.is_some())
    }

    /// Returns whether the listing is complete and every target has an outcome.
    pub fn is_settled(&self) -> Result<bool> {
        Ok(self.tally.pending() == 0 && self.is_listed()?)
    }

    /// Returns whether anything was listed. If so, the destination belongs to this job.
    pub fn is_begun(&self) -> Result<bool> {
        Ok(self.has_listed()? || self.is_listed()? || self.next_sequence > 0)
    }

    /// Stores the listing type that was detected. It becomes part of the identity.
    pub fn change_identity(&self, identity: &Identity) -> Result<()> {
        self.set("identity", &identity.to_json())
    }

    pub(in crate::journal) fn check<T>(&self, result: rusqlite::Result<T>) -> Result<T> {
        result.map_err(|error| error_of(&self.path, &error))
    }

    /// Returns a fact about the job.
    pub fn get(&self, key: &str) -> Result<Option<String>> {
        let row = self.db.query_row("SELECT value FROM job WHERE key = ?", [key], |row| row.get(0));
        self.check(row.optional())
    }

    /// Sets a fact about the job.
    pub fn set(&self, key: &str, value: &str) -> Result<()> {
        self.change_facts("REPLACE INTO job (key, value) VALUES (?, ?)", &[key, value])
    }

    /// Deletes a fact about the job.
    pub(in crate::journal) fn forget(&self, key: &str) -> Result<()> {
        self.change_facts("DELETE FROM job WHERE key = ?", &[key])
    }

    /// Changes facts, either in the open transaction or in a new one.
    fn change_facts(&self, statement: &str, values: &[&str]) -> Result<()> {
        if !self.in_transaction {
            self.fence.begin(&self.db, &self.path)?;
        }
        let done = self.db.execute(statement, rusqlite::params_from_iter(values));
        if !self.in_transaction {
            if done.is_ok() {
                self.check(self.db.execute_batch("COMMIT"))?;
            } else {
                // If the disk is full, SQLite has already rolled back, so only the first error is worth reporting.
                let _ = self.db.execute_batch("ROLLBACK");
            }
        }
        self.check(done).map(drop)
    }

    /// Returns the next sequence number. All smaller numbers are assigned.
    pub fn next_sequence(&self) -> Sequence {
        self.next_sequence
    }

    /// Sets the first sequence number. Must be called before any number is assigned.
    pub fn begin_at(&mut self, first: Sequence) -> Result<()> {
        if !self.is_begun()? {
            self.begin()?;
            self.next_sequence = first;
            self.commit()?;
        }
        Ok(())
    }

    /// Returns the durable counts plus those of the open transaction.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Returns the number of objects that the listing announced.
    pub fn total(&self) -> Option<u64> {
        self.total
    }

    /// Returns the number of failed targets by kind.
    pub fn kinds(&self) -> Result<KindCounts> {
        self.check(schema::read_kinds(&self.db))
    }

    /// Returns the traits found in any entry of the list so far.
    pub fn traits(&self) -> Result<EntryTraits> {
        self.check(schema::read_traits(&self.db))
    }

    /// Returns the number of targets that failed because of their status, by status.
    pub fn statuses(&self) -> Result<StatusCounts> {
        self.check(schema::read_statuses(&self.db))
    }

    /// Starts a transaction if none is open.
    pub fn begin(&mut self) -> Result<()> {
        if !self.in_transaction {
            self.fence.begin(&self.db, &self.path)?;
            self.in_transaction = true;
        }
        Ok(())
    }

    /// Makes all changes since [`Journal::begin`] durable.
    pub fn commit(&mut self) -> Result<()> {
        if self.in_transaction {
            self.check(schema::write_tally(&self.db, self.tally, self.next_sequence))?;
            self.check(self.db.execute_batch("COMMIT"))?;
            self.in_transaction = false;
        }
        Ok(())
    }

    /// Discards all changes since [`Journal::begin`].
    pub fn roll_back(&mut self) -> Result<()> {
        if self.in_transaction {
            self.check(self.db.execute_batch("ROLLBACK"))?;
            self.in_transaction = false;
            (self.tally, self.next_sequence) = self.check(schema::read_tally(&self.db))?;
            self.live = self.check(live::load(&self.db))?;
            self.begun = self.check(schema::read_begun(&self.db))?;
        }
        Ok(())
    }
}

/// Returns the current time in ISO 8601, in UTC.
pub(in crate::journal) fn now_text() -> String {
    let seconds =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    fetchmill_model::text::dates::utc(seconds)
}
