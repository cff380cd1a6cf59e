//! The rules with which a job was started: how it names objects and reads its list. Later releases may have better
//! rules, but an existing job keeps its own.

use rusqlite::Connection;

use super::peek::{RESTARTING, fact_of, peek};
use crate::journal::location::JobLocation;
use fetchmill_model::error::Result;
use fetchmill_model::target::entry::Naming;

/// Key of the fact that holds the rules.
pub(in crate::journal) const RULES: &str = "rules";

/// Rules, identified by a number. fetchmill 0.1.0 used the first rules, and its journals do not store a number.
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

    /// Returns whether repeated lines of a list become targets.
    pub fn keep_duplicates(self) -> bool {
        self < JobRules::WITH_DECODED_NAMES
    }

    /// Returns the naming of targets, given the naming in a new job.
    pub fn naming(self, of_new_job: Naming) -> Naming {
        if of_new_job == Naming::Path && !self.decode_names() { Naming::EncodedPath } else { of_new_job }
    }

    /// Returns the rules of the job at a location, or those of a new job if there is none.
    pub fn of(place: &JobLocation) -> Result<Self> {
        Ok(peek(place, Self::read)?.unwrap_or_default())
    }

    /// Reads the rules from a journal whose tables exist.
    pub(in crate::journal) fn read(db: &Connection) -> rusqlite::Result<Self> {
        let fact = |key| fact_of(db, key);
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
