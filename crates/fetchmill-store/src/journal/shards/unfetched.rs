//! The files with the rows of targets without an object, for `--keep-failed`, and the failures file. They are complete,
//! and in their final place or about to be moved there.

use rusqlite::{Connection, OptionalExtension as _};

use crate::journal::job::open_journal::Journal;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::outcome::UnfetchedFile;

/// Key of the fact that holds the files, as JSON.
const UNFETCHED: &str = "unfetched";

/// Reads the files from the journal. `None` if the fact is missing.
pub(in crate::journal) fn read(db: &Connection) -> rusqlite::Result<Option<Vec<UnfetchedFile>>> {
    let query = "SELECT value FROM job WHERE key = ?";
    let text = db.query_row(query, [UNFETCHED], |row| row.get::<_, String>(0)).optional()?;
    let damaged = || rusqlite::Error::InvalidColumnType(0, UNFETCHED.into(), rusqlite::types::Type::Text);
    text.map(|text| serde_json::from_str(&text).map_err(|_| damaged())).transpose()
}

impl Journal {
    /// Returns the files that were written last, in the order of their numbers.
    pub fn unfetched(&self) -> Result<Vec<UnfetchedFile>> {
        Ok(self.check(read(&self.db))?.unwrap_or_default())
    }

    /// Records the complete files. From now on they may be moved to their final place.
    pub fn set_unfetched(&self, files: &[UnfetchedFile]) -> Result<()> {
        let text = serde_json::to_string(files).map_err(|error| Error::Internal(error.to_string()))?;
        self.set(UNFETCHED, &text)
    }

    /// Forgets the files after they were removed.
    pub fn forget_unfetched(&self) -> Result<()> {
        self.forget(UNFETCHED)
    }

    /// Marks the job as not finished, because a file that is written at the end is missing.
    pub fn reopen(&mut self) -> Result<()> {
        self.begin()?;
        let reopened = self.db.execute("DELETE FROM job WHERE key = 'finished_at'", []);
        self.check(reopened).map(drop)
    }
}
