//! The rules that a job started with: how it names objects, and how it reads its list. A later release may have better
//! ones, and a job that has begun keeps its own.

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension as _};

use crate::journal::database::sqlite_error::error_of;
use crate::journal::location::JobLocation;
use fetchmill_model::error::Result;

/// The fact of the journal.
pub(in crate::journal) const RULES: &str = "rules";

/// Rules by number. fetchmill 0.1.0 had the first ones, and its journals do not say so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobRules(u32);

impl JobRules {
    /// Those of a job of 0.1.0.
    pub const FIRST: JobRules = JobRules(1);
    /// Rows have the encoding of bodies; sidecars have the key of the whole name; the delimiter of a list is detected.
    const WITH_ENCODINGS: JobRules = JobRules(3);
    /// Those of a new job.
    pub const CURRENT: JobRules = JobRules::WITH_ENCODINGS;

    /// Whether rows have the encoding of bodies.
    pub fn have_encodings(self) -> bool {
        self >= JobRules::WITH_ENCODINGS
    }

    /// Those of the job that has begun at a place; those of a new one if none has.
    pub fn of(place: &JobLocation) -> Result<Self> {
        let path = place.journal_path();
        if !path.exists() {
            return Ok(JobRules::CURRENT);
        }
        let read = |flags| -> rusqlite::Result<Self> {
            let db = Connection::open_with_flags(&path, flags)?;
            db.busy_timeout(std::time::Duration::from_secs(10))?;
            let has_facts = "SELECT 1 FROM sqlite_schema WHERE name = 'job'";
            if db.query_row(has_facts, [], |_| Ok(())).optional()?.is_none() {
                return Ok(JobRules::CURRENT);
            }
            let fact = |key| {
                let query = "SELECT value FROM job WHERE key = ?";
                db.query_row(query, [key], |row| row.get::<_, String>(0)).optional()
            };
            Ok(match fact(RULES)? {
                Some(number) => number.parse().map_or(JobRules::CURRENT, JobRules),
                None if fact("identity")?.is_some() => JobRules::FIRST,
                None => JobRules::CURRENT,
            })
        };
        // Nothing is written, nor the log of writes removed: the job's lock is not held yet. But what a kill has left of a
        // transaction is undone by who opens the database next, and that is no reader.
        let found = match read(OpenFlags::SQLITE_OPEN_READ_ONLY) {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::ReadOnly) => {
                read(OpenFlags::SQLITE_OPEN_READ_WRITE)
            }
            found => found,
        };
        found.map_err(|error| error_of(&path, &error))
    }

    pub(in crate::journal) fn to_text(self) -> String {
        self.0.to_string()
    }
}

impl Default for JobRules {
    fn default() -> Self {
        JobRules::CURRENT
    }
}
