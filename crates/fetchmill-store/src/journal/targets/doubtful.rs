//! Doubtful targets, whose replies may belong to other targets. This is discovered only after the targets have
//! finished.

use rusqlite::Connection;

use crate::journal::JobLocation;
use crate::journal::database::schema::open_to_read;
use crate::journal::database::sqlite_error::error_of;
use crate::journal::job::open_journal::Journal;
use fetchmill_model::error::Result;
use fetchmill_model::limits::DOUBTFUL_NAMES_MAX;
use fetchmill_model::outcome::Sequence;

/// Doubtful targets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Doubtful {
    /// Number of doubtful targets.
    pub count: u64,
    /// Names of the first `DOUBTFUL_NAMES_MAX` of these targets.
    pub names: Vec<Vec<u8>>,
}

impl Journal {
    /// Records doubtful targets.
    pub fn doubt(&mut self, targets: &[(Sequence, Vec<u8>)]) -> Result<()> {
        self.begin()?;
        for (sequence, name) in targets {
            let added = self
                .db
                .prepare_cached("INSERT OR IGNORE INTO doubtful VALUES (?, ?)")
                .and_then(|mut insert| insert.execute((*sequence as i64, name)));
            self.check(added)?;
        }
        Ok(())
    }

    /// Returns the doubtful targets.
    pub fn doubtful(&self) -> Result<Doubtful> {
        self.check(read(&self.db))
    }
}

/// Returns up to `max` doubtful targets of a job, starting at sequence number `from`.
pub fn read_doubtful(place: &JobLocation, from: Sequence, max: usize) -> Result<Vec<(Sequence, Vec<u8>)>> {
    let path = place.journal_path();
    let db = open_to_read(&path)?;
    let read = || -> rusqlite::Result<Vec<(Sequence, Vec<u8>)>> {
        if !db.table_exists(None, "doubtful")? {
            return Ok(Vec::new());
        }
        let mut query =
            db.prepare("SELECT sequence, name FROM doubtful WHERE sequence >= ? ORDER BY sequence LIMIT ?")?;
        let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)? as Sequence, row.get(1)?));
        query.query_map([from as i64, max as i64], row)?.collect()
    };
    read().map_err(|error| error_of(&path, &error))
}

/// Reads the doubtful targets. In the journal of an older release, the table is missing until a job writes to it.
pub(in crate::journal) fn read(db: &Connection) -> rusqlite::Result<Doubtful> {
    if !db.table_exists(None, "doubtful")? {
        return Ok(Doubtful::default());
    }
    let count = db.query_row("SELECT count(*) FROM doubtful", [], |row| row.get::<_, i64>(0))? as u64;
    let mut query = db.prepare("SELECT name FROM doubtful ORDER BY sequence LIMIT ?")?;
    let names = query.query_map([DOUBTFUL_NAMES_MAX as i64], |row| row.get(0))?;
    Ok(Doubtful { count, names: names.collect::<rusqlite::Result<_>>()? })
}
