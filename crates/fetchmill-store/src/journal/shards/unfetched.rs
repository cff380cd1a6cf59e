//! The complete files with rows for targets without an object (`--keep-failed`), and the complete failures file. They
//! are at their final paths, or about to be moved there.

use rusqlite::{Connection, OptionalExtension as _};

use crate::journal::job::open_journal::Journal;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::outcome::UnfetchedFile;

/// Key under which the files are stored, as JSON.
const UNFETCHED: &str = "unfetched";

/// Reads the files from the journal, if they are recorded.
pub(in crate::journal) fn read(db: &Connection) -> rusqlite::Result<Option<Vec<UnfetchedFile>>> {
    let query = "SELECT value FROM job WHERE key = ?";
    let text = db.query_row(query, [UNFETCHED], |row| row.get::<_, String>(0)).optional()?;
    let damaged = || rusqlite::Error::InvalidColumnType(0, UNFETCHED.into(), rusqlite::types::Type::Text);
    text.map(|text| serde_json::from_str(&text).map_err(|_| damaged())).transpose()
}

impl Journal {
    /// Returns the files that were written last, by number.
    pub fn unfetched(&self) -> Result<Vec<UnfetchedFile>> {
        Ok(self.check(read(&self.db))?.unwrap_or_default())
    }

    /// Records the complete files. From then on, they may be moved to their final paths.
    pub fn set_unfetched(&self, files: &[UnfetchedFile]) -> Result<()> {
        let text = serde_json::to_string(files).map_err(|error| Error::Internal(error.to_string()))?;
        self.set(UNFETCHED, &text)
    }

    /// Discards the records of the files after their removal.
    pub fn forget_unfetched(&self) -> Result<()> {
        self.forget(UNFETCHED)
    }

    /// Marks the job as unfinished, because a file that is written when a job finishes is missing.
    pub fn reopen(&mut self) -> Result<()> {
        self.begin()?;
        let reopened = self.db.execute("DELETE FROM job WHERE key = 'finished_at'", []);
        self.check(reopened).map(drop)
    }
}
