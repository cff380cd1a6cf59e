//! Samples of a job over time, as JSON, one a row. Their number is bounded by whoever
//! makes them.

use rusqlite::{Connection, OptionalExtension as _};

use crate::journal::database::schema;
use crate::journal::database::sqlite_error::error_of;
use crate::journal::job::transactions::Journal;
use crate::journal::location::JobLocation;
use fetchmill_model::error::Result;

/// The fact of a job that says how fast it was last, and what held it back: JSON.
pub(in crate::journal) const PROGRESS: &str = "progress";

impl Journal {
    /// Adds samples, each with the time of its end, seconds since 1970 UTC. More than one replace all that there are.
    /// And how fast the job is now, as JSON.
    pub fn add_samples(&mut self, samples: &[(f64, String)], progress: &str) -> Result<()> {
        self.begin()?;
        if samples.len() > 1 {
            self.check(self.db.execute("DELETE FROM samples", []))?;
        }
        for (time, sample) in samples {
            let mut insert = self.check(self.db.prepare_cached("REPLACE INTO samples VALUES (?, ?)"))?;
            self.check(insert.execute(rusqlite::params![time, sample]))?;
        }
        self.set(PROGRESS, progress)
    }

    /// How fast the job was last, as JSON.
    pub fn progress(&self) -> Result<Option<String>> {
        self.get(PROGRESS)
    }

    /// All of them, as JSON, the oldest first.
    pub fn samples(&self) -> Result<Vec<String>> {
        self.check(read(&self.db))
    }
}

/// Those of a job, as JSON, the oldest first. A job of an older release has none.
pub fn read_samples(place: &JobLocation) -> Result<Vec<String>> {
    let path = place.journal_path();
    let db = schema::open_to_read(&path)?;
    read(&db).map_err(|error| error_of(&path, &error))
}

fn read(db: &Connection) -> rusqlite::Result<Vec<String>> {
    let is_there = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'samples'";
    if db.query_row(is_there, [], |_| Ok(())).optional()?.is_none() {
        return Ok(Vec::new());
    }
    let mut query = db.prepare("SELECT sample FROM samples ORDER BY time")?;
    let rows = query.query_map([], |row| row.get(0))?;
    rows.collect()
}
