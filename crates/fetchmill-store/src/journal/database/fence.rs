//! The fence: the number of the run that may write to a journal.
//!
//! The lock on a job's folder keeps other runs out, but some file systems grant every lock. For this reason, each run
//! also takes a number when it opens the journal. Each transaction checks that no other run has taken a higher number
//! since.

use std::path::Path;

use rusqlite::Connection;

use super::sqlite_error::error_of;
use crate::journal::location::lock::taken_over;
use fetchmill_model::error::Result;

/// Table that holds the number.
pub(in crate::journal) const TABLE: &str =
    "CREATE TABLE IF NOT EXISTS run (id INTEGER PRIMARY KEY CHECK (id = 0), number INTEGER NOT NULL);";

/// Number of this run.
#[derive(Debug, Clone, Copy)]
pub(in crate::journal) struct Fence(i64);

impl Fence {
    /// Takes the next number. From then on, earlier runs cannot write.
    pub(in crate::journal) fn take(db: &Connection) -> rusqlite::Result<Self> {
        let next = "INSERT INTO run VALUES (0, 1) ON CONFLICT (id) DO UPDATE SET number = number + 1";
        // `RETURNING` in an implicit transaction would not work: a failed commit would be reported as "no rows".
        db.execute_batch("BEGIN IMMEDIATE")?;
        let taken = db
            .execute_batch(next)
            .and_then(|()| db.query_row("SELECT number FROM run", [], |row| row.get(0)))
            .and_then(|number| db.execute_batch("COMMIT").map(|()| Fence(number)));
        if taken.is_err() {
            let _ = db.execute_batch("ROLLBACK");
        }
        taken
    }

    /// Fails with exit code 9 if another run has taken a number since then.
    pub(in crate::journal) fn check(self, db: &Connection, path: &Path) -> Result<()> {
        let read = || db.prepare_cached("SELECT number FROM run")?.query_row([], |row| row.get::<_, i64>(0));
        let latest = read().map_err(|error| error_of(path, &error))?;
        if latest == self.0 { Ok(()) } else { Err(taken_over(path)) }
    }

    /// Starts a transaction of this run, or fails in the same way as [`Fence::check`].
    pub(in crate::journal) fn begin(self, db: &Connection, path: &Path) -> Result<()> {
        let execute = |statement| db.execute_batch(statement).map_err(|error| error_of(path, &error));
        execute("BEGIN IMMEDIATE")?;
        self.check(db, path).inspect_err(|_| drop(execute("ROLLBACK")))
    }
}
