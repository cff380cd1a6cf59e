//! The command that started a job, in the caller's words. `fetchmill resume` repeats it, and the journal does not
//! interpret it.

use rusqlite::OptionalExtension as _;

use super::open_journal::Journal;
use crate::journal::database::schema;
use crate::journal::database::sqlite_error::error_of;
use crate::journal::location::JobLocation;
use fetchmill_model::error::Result;

/// Key of the fact with the command.
const COMMAND: &str = "command";

impl Journal {
    /// Stores the job's latest command. This takes a transaction only if it has changed.
    pub fn keep_command(&self, command: &str) -> Result<()> {
        if self.get(COMMAND)?.as_deref() == Some(command) {
            return Ok(());
        }
        self.set(COMMAND, command)
    }
}

/// Reads a job's command. `None` in the journal of a release that did not store it.
pub fn read_command(place: &JobLocation) -> Result<Option<String>> {
    let path = place.journal_path();
    let db = schema::open_to_read(&path)?;
    let row = db.query_row("SELECT value FROM job WHERE key = ?", [COMMAND], |row| row.get(0));
    row.optional().map_err(|error| error_of(&path, &error))
}
