//! The rules with which a job was started: how it names objects and reads its list. Later releases may have better
//! rules, but an existing job keeps its own.

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension as _};

use crate::journal::database::sqlite_error::error_of;
use crate::journal::location::JobLocation;
use fetchmill_model::error::Result;
use fetchmill_model::target::entry::Naming;

/// Key of the fact with the rules.
pub(in crate::journal) const RULES: &str = "rules";

/// Key of the fact that a run has begun to remove the job and its files. The next job has current rules.
pub(super) const RESTARTING: &str = "restarting";

/// Rules by number. fetchmill 0.1.0 used the first, and its journals do not store a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobRules(u32);

impl JobRules {
    /// Rules of jobs started by 0.1.0.
    pub const FIRST: JobRules = JobRules(1);
    /// Rows contain the encoding of bodies, sidecar keys use the whole name, and a list's delimiter is detected.
    const WITH_ENCODINGS: JobRules = JobRules(3);
    /// File names derived from URLs are decoded, and repeated lines of a list are skipped.
    const WITH_DECODED_NAMES: JobRules = JobRules(4);
    /// Rules for new jobs.
    pub const CURRENT: JobRules = JobRules::WITH_DECODED_NAMES;

    /// Returns whether rows contain the encoding of bodies.
    pub fn have_encodings(self) -> bool {
        self >= JobRules::WITH_ENCODINGS
    }

    /// Returns whether file names derived from URLs are decoded.
    pub fn decode_names(self) -> bool {
        self >= JobRules::WITH_DECODED_NAMES
    }

    /// Returns whether a repeated line of a list is a target.
    pub fn keep_duplicates(self) -> bool {
        self < JobRules::WITH_DECODED_NAMES
    }

    /// Returns the naming of targets, given that of a new job.
    pub fn naming(self, of_new_job: Naming) -> Naming {
        if of_new_job == Naming::Path && !self.decode_names() { Naming::EncodedPath } else { of_new_job }
    }

    /// Returns the rules of the job at a location, or those of a new job if there is none.
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
            Self::read(&db)
        };
        // The job is not locked yet, so open read-only: nothing is written and the write-ahead log is kept. After a
        // kill, only a writer can roll back an unfinished transaction.
        let found = match read(OpenFlags::SQLITE_OPEN_READ_ONLY) {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::ReadOnly) => {
                read(OpenFlags::SQLITE_OPEN_READ_WRITE)
            }
            found => found,
        };
        found.map_err(|error| error_of(&path, &error))
    }

    /// Reads the rules from a journal that has its tables.
    pub(in crate::journal) fn read(db: &Connection) -> rusqlite::Result<Self> {
        let fact = |key| {
            let query = "SELECT value FROM job WHERE key = ?";
            db.query_row(query, [key], |row| row.get::<_, String>(0)).optional()
        };
        if fact(RESTARTING)?.is_some() {
            return Ok(JobRules::CURRENT);
        }
        Ok(match fact(RULES)? {
            Some(number) => number.parse().map_or(JobRules::CURRENT, JobRules),
            None if fact("identity")?.is_some() => JobRules::FIRST,
            None => JobRules::CURRENT,
        })
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
