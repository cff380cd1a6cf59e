//! The progress of a program through the items of a stream, stored as one row in a database of its own.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::JobLocation;
use super::database::fence::{self, Fence};
use super::database::sqlite_error::error_of;
use super::database::{schema, version};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::outcome::Runs;

/// Version of the format. It is incremented whenever older releases can no longer read the database.
const VERSION: i64 = 1;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS stream (
    id INTEGER PRIMARY KEY CHECK (id = 0), pulled INTEGER NOT NULL, digest INTEGER NOT NULL, missing BLOB NOT NULL)";

/// The saved progress. All items below `pulled` are done, except those in `missing`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SavedProgress {
    /// Number of items taken from the input.
    pub pulled: u64,
    /// Digest of these items, in their order.
    pub digest: u64,
    /// Items whose replies the program has not finished processing, counted from 0. Their number is limited to the
    /// maximum number of outstanding items.
    pub missing: Runs,
}

/// The database with the progress.
#[derive(Debug)]
pub struct ProgressStore {
    db: Connection,
    place: JobLocation,
    fence: Fence,
}

impl ProgressStore {
    /// Opens or creates the database at a location, and returns the saved progress.
    pub fn open(place: JobLocation) -> Result<(Self, SavedProgress)> {
        if place.journal_path().exists() {
            return Err(Error::Usage(format!(
                "{} is the destination of a job; choose another folder for the stream's state",
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
                    Error::Journal(format!(
                        "{} is damaged: the record of missing items cannot be read",
                        path.display()
                    ))
                })?;
                SavedProgress { pulled: pulled as u64, digest: digest as u64, missing }
            }
        };
        place.sync()?;
        Ok((ProgressStore { db, place, fence }, saved))
    }

    /// Saves the progress durably. Fails with exit code 9 if another run has taken over the state.
    pub fn save(&self, saved: &SavedProgress) -> Result<()> {
        let values = params![saved.pulled as i64, saved.digest as i64, saved.missing.to_blob()];
        let path = self.place.state.join("stream.sqlite");
        self.fence.begin(&self.db, &path)?;
        let done = self.db.execute("REPLACE INTO stream VALUES (0, ?, ?, ?)", values);
        let ended = self.db.execute_batch(if done.is_ok() { "COMMIT" } else { "ROLLBACK" });
        done.and(ended).map_err(|error| error_of(&path, &error))
    }
}
