//! The command that started a job, as the caller wrote it. `fetchmill resume` repeats this command, and the journal
//! does not interpret it.

use rusqlite::OptionalExtension as _;

use super::open_journal::Journal;
use crate::journal::database::schema;
use crate::journal::database::sqlite_error::error_of;
use crate::journal::location::JobLocation;
use fetchmill_model::error::Result;

/// Key under which the command is stored.
pub(super) const COMMAND: &str = "command";

impl Journal {
    /// Stores the job's latest command. Uses a transaction only if the command has changed.
    pub fn keep_command(&self, command: &str) -> Result<()> {
        if self.get(COMMAND)?.as_deref() == Some(command) {
            return Ok(());
        }
        self.set(COMMAND, command)
    }
}

/// Reads a job's command. `None` if the journal was written by a release that did not store it.
pub fn read_command(place: &JobLocation) -> Result<Option<String>> {
    let path = place.journal_path();
    let db = schema::open_to_read(&path)?;
    let row = db.query_row("SELECT value FROM job WHERE key = ?", [COMMAND], |row| row.get(0));
    row.optional().map_err(|error| error_of(&path, &error))
}
