//! How far a program has come with the items of a stream: one row, in a database of its own.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::JobLocation;
use super::database::fence::{self, Fence};
use super::database::sqlite_error::error_of;
use super::database::{schema, version};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::outcome::Runs;

/// Raised when an older fetchmill could not read it.
const VERSION: i64 = 1;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS stream (
    id INTEGER PRIMARY KEY CHECK (id = 0), pulled INTEGER NOT NULL, digest INTEGER NOT NULL, missing BLOB NOT NULL)";

/// What is remembered: everything below `pulled` is done but for what is missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SavedProgress {
    /// Items that were taken from the input.
    pub pulled: u64,
    /// Of these items, in their order.
    pub digest: u64,
    /// Those whose reply the program has not done with, counted from 0: never more than are outstanding.
    pub missing: Runs,
}

/// See the module.
#[derive(Debug)]
pub struct ProgressStore {
    db: Connection,
    place: JobLocation,
    fence: Fence,
}

impl ProgressStore {
    /// Opens what there is at a place, or makes it; and what it says.
    pub fn open(place: JobLocation) -> Result<(Self, SavedProgress)> {
        if place.journal_path().exists() {
            return Err(Error::Usage(format!(
                "{} is the destination of a job; choose another folder for the state of the stream",
                place.dest.display()
            )));
        }
        let path = place.state.join("stream.sqlite");
        let check = |error: rusqlite::Error| error_of(&path, &error);
        let db = schema::open(&path, true)?;
        version::check(&db, &path, VERSION)?;
        db.execute_batch(TABLE).map_err(check)?;
        db.execute_batch(fence::TABLE).map_err(check)?;
        version::write(&db, VERSION).map_err(check)?;
        let fence = Fence::take(&db).map_err(check)?;
        let row = db.query_row("SELECT pulled, digest, missing FROM stream", [], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, Vec<u8>>(2)?))
        });
        let saved = match row.optional().map_err(check)? {
            None => SavedProgress::default(),
            Some((pulled, digest, blob)) => {
                let missing = Runs::from_blob(&blob).ok_or_else(|| {
                    Error::Journal(format!("{} is damaged: what is missing cannot be read", path.display()))
                })?;
                SavedProgress { pulled: pulled as u64, digest: digest as u64, missing }
            }
        };
        place.sync()?;
        Ok((ProgressStore { db, place, fence }, saved))
    }

    /// Makes this durable; exit code 9 if another run has taken the state over.
    pub fn save(&self, saved: &SavedProgress) -> Result<()> {
        let values = params![saved.pulled as i64, saved.digest as i64, saved.missing.to_blob()];
        let path = self.place.state.join("stream.sqlite");
        self.fence.begin(&self.db, &path)?;
        let done = self.db.execute("REPLACE INTO stream VALUES (0, ?, ?, ?)", values);
        let ended = self.db.execute_batch(if done.is_ok() { "COMMIT" } else { "ROLLBACK" });
        done.and(ended).map_err(|error| error_of(&path, &error))
    }
}
