//! The rules with which a job was started: how it names objects, and how it reads its list. Later releases may have
//! better rules, but an existing job keeps its original rules.

use rusqlite::Connection;

use super::peek::{RESTARTING, fact_of, peek};
use crate::journal::location::JobLocation;
use fetchmill_model::error::Result;
use fetchmill_model::target::entry::Naming;

/// Key under which the rules are stored.
pub(in crate::journal) const RULES: &str = "rules";

/// A set of rules, identified by a number. fetchmill 0.1.0 used the first set, and its journals do not store a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobRules(u32);

impl JobRules {
    /// Rules of jobs that 0.1.0 started.
    pub const FIRST: JobRules = JobRules(1);
    /// Rows contain the encoding of bodies, keys of sidecars contain the whole name, and a list's delimiter is
    /// detected.
    const WITH_ENCODINGS: JobRules = JobRules(3);
    /// File names that come from URLs are decoded, and repeated lines of a list are skipped.
    const WITH_DECODED_NAMES: JobRules = JobRules(4);
    /// Rules for new jobs.
    pub const CURRENT: JobRules = JobRules::WITH_DECODED_NAMES;

    /// Returns whether rows contain the encoding of bodies.
    pub fn have_encodings(self) -> bool {
        self >= JobRules::WITH_ENCODINGS
    }

    /// Returns whether file names that come from URLs are decoded.
    pub fn decode_names(self) -> bool {
        self >= JobRules::WITH_DECODED_NAMES
    }

    /// Returns whether repeated lines of a list become targets.
    pub fn keep_duplicates(self) -> bool {
        self < JobRules::WITH_DECODED_NAMES
    }

    /// Returns how the job names its targets. `of_new_job` is the naming that a new job would use.
    pub fn naming(self, of_new_job: Naming) -> Naming {
        if of_new_job == Naming::Path && !self.decode_names() { Naming::EncodedPath } else { of_new_job }
    }

    /// Returns the rules of the job at a location. If there is no job, returns those of a new job.
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
