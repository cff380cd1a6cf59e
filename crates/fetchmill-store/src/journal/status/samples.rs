//! Samples of a job over time, stored as JSON in one row each. The code that creates samples limits their number.

use rusqlite::{Connection, OptionalExtension as _};

use crate::journal::database::schema;
use crate::journal::database::sqlite_error::error_of;
use crate::journal::job::open_journal::Journal;
use crate::journal::location::JobLocation;
use fetchmill_model::error::Result;

/// Key under which the job's most recent speed and its limiting factor are stored, as JSON.
pub(in crate::journal) const PROGRESS: &str = "progress";

impl Journal {
    /// Adds samples, each with its end time in seconds since 1970 UTC. Two or more samples replace all existing ones.
    /// Also stores the current speed of the job, as JSON.
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

    /// Returns the most recent speed of the job, as JSON.
    pub fn progress(&self) -> Result<Option<String>> {
        self.get(PROGRESS)
    }

    /// Returns all samples as JSON, oldest first.
    pub fn samples(&self) -> Result<Vec<String>> {
        self.check(read(&self.db))
    }
}

/// Returns the samples of a job as JSON, oldest first. Jobs of older releases have no samples.
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
