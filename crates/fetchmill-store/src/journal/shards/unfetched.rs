//! The files with the rows of targets without an object, for `--all-rows`, or the failures file: complete, and in their
//! place or on the way there.

use rusqlite::{Connection, OptionalExtension as _};

use crate::journal::job::transactions::Journal;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::outcome::UnfetchedFile;

/// The fact of a job that has them, as JSON.
const UNFETCHED: &str = "unfetched";

/// As they stand in the journal; none when there is no such fact.
pub(in crate::journal) fn read(db: &Connection) -> rusqlite::Result<Option<Vec<UnfetchedFile>>> {
    let query = "SELECT value FROM job WHERE key = ?";
    let text = db.query_row(query, [UNFETCHED], |row| row.get::<_, String>(0)).optional()?;
    let damaged = || rusqlite::Error::InvalidColumnType(0, UNFETCHED.into(), rusqlite::types::Type::Text);
    text.map(|text| serde_json::from_str(&text).map_err(|_| damaged())).transpose()
}

impl Journal {
    /// The files that were written last, in the order of their numbers.
    pub fn unfetched(&self) -> Result<Vec<UnfetchedFile>> {
        Ok(self.check(read(&self.db))?.unwrap_or_default())
    }

    /// They are complete: from here on they may be put in their place.
    pub fn set_unfetched(&self, files: &[UnfetchedFile]) -> Result<()> {
        let text = serde_json::to_string(files).map_err(|error| Error::Internal(error.to_string()))?;
        self.set(UNFETCHED, &text)
    }

    /// They are removed.
    pub fn forget_unfetched(&self) -> Result<()> {
        self.forget(UNFETCHED)
    }

    /// The job is to come to its end once more: something is missing that is written there.
    pub fn reopen(&mut self) -> Result<()> {
        self.begin()?;
        let reopened = self.db.execute("DELETE FROM job WHERE key = 'finished_at'", []);
        self.check(reopened).map(drop)
    }
}
