//! How a job was asked for, in the words of the caller: what `fetchmill resume` repeats. The journal does not read it.

use rusqlite::OptionalExtension as _;

use super::transactions::Journal;
use crate::journal::database::schema;
use crate::journal::database::sqlite_error::error_of;
use crate::journal::location::JobLocation;
use fetchmill_model::error::Result;

/// The fact that has it.
const COMMAND: &str = "command";

impl Journal {
    /// Keeps how the job was asked for last. This costs a transaction only if that has changed.
    pub fn keep_command(&self, command: &str) -> Result<()> {
        if self.get(COMMAND)?.as_deref() == Some(command) {
            return Ok(());
        }
        self.set(COMMAND, command)
    }
}

/// Reads how a job was asked for; `None` in a journal of a release that did not keep it.
pub fn read_command(place: &JobLocation) -> Result<Option<String>> {
    let path = place.journal_path();
    let db = schema::open_to_read(&path)?;
    let row = db.query_row("SELECT value FROM job WHERE key = ?", [COMMAND], |row| row.get(0));
    row.optional().map_err(|error| error_of(&path, &error))
}
