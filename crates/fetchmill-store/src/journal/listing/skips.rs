//! Skipped targets, by reason. A target is skipped by the listing or because of its reply.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::journal::database::schema;
use crate::journal::database::sqlite_error::error_of;
use crate::journal::job::identity::{Identity, TRANSFORM};
use crate::journal::job::open_journal::Journal;
use crate::journal::job::rules::RULES;
use crate::journal::location::JobLocation;
use fetchmill_model::error::Result;
use fetchmill_model::limits::SKIPPED_NAMES_MAX;
use fetchmill_model::outcome::skips::{SkipReason, Skips};

/// The targets skipped for one reason: their number, and some of their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkippedOf {
    /// Number of skipped targets.
    pub count: u64,
    /// The first names, up to [`SKIPPED_NAMES_MAX`].
    pub names: Vec<Vec<u8>>,
}

impl Journal {
    /// Adds the skipped targets of a page or a commit record, as part of its transaction.
    pub(in crate::journal) fn note_skips(&self, skips: &Skips) -> Result<()> {
        for (reason, count) in skips.counts() {
            let add = "INSERT INTO skipped VALUES (?1, ?2)
                       ON CONFLICT (reason) DO UPDATE SET count = count + ?2";
            let mut add = self.check(self.db.prepare_cached(add))?;
            self.check(add.execute(params![reason.name(), count as i64]))?;
        }
        for (reason, name) in skips.names() {
            let insert = "INSERT INTO skipped_names (reason, name) SELECT ?1, ?2
                          WHERE (SELECT count(*) FROM skipped_names WHERE reason = ?1) < ?3";
            let mut insert = self.check(self.db.prepare_cached(insert))?;
            self.check(insert.execute(params![reason.name(), name, SKIPPED_NAMES_MAX as i64]))?;
        }
        Ok(())
    }

    /// Returns the number of skipped targets by reason. Journals of jobs that 0.1.0 started contain no reasons.
    pub fn skipped(&self) -> Result<BTreeMap<String, u64>> {
        let identity = self.get("identity")?.map(|stored| Identity::from_json(&stored)).unwrap_or_default();
        self.check(by_reason(&self.db, &identity))
    }

    /// Returns the number of targets skipped because of their reply. Each of them has an outcome and a row.
    pub(crate) fn skipped_after_replies(&self) -> Result<u64> {
        let known = self.check(counts(&self.db))?;
        let of_replies = SkipReason::ALL.into_iter().filter(|reason| reason.is_of_reply());
        Ok(of_replies.filter_map(|reason| known.get(reason.name())).sum())
    }

    /// Returns whether the journal stores reasons. Journals of 0.1.0 do not store them.
    pub fn knows_skips(&self) -> Result<bool> {
        Ok(self.get(RULES)?.is_some())
    }

    /// Discards the targets that the listing skipped, because a restarted listing counts them again. Returns their
    /// number.
    pub(in crate::journal) fn forget_listing_skips(&self) -> Result<u64> {
        let known = self.check(counts(&self.db))?;
        let of_listing = SkipReason::ALL.into_iter().filter(|reason| !reason.is_of_reply());
        let mut forgotten = 0;
        for reason in of_listing.map(SkipReason::name) {
            forgotten += known.get(reason).copied().unwrap_or_default();
            for table in ["skipped", "skipped_names"] {
                self.check(self.db.execute(&format!("DELETE FROM {table} WHERE reason = ?"), [reason]))?;
            }
        }
        Ok(forgotten)
    }
}

/// Returns the skipped targets of a job, by reason.
pub fn read_skipped(place: &JobLocation) -> Result<BTreeMap<String, SkippedOf>> {
    let path = place.journal_path();
    let db = schema::open_to_read(&path)?;
    read(&db).map_err(|error| error_of(&path, &error))
}

fn read(db: &Connection) -> rusqlite::Result<BTreeMap<String, SkippedOf>> {
    let mut found: BTreeMap<String, SkippedOf> = counts(db)?
        .into_iter()
        .map(|(reason, count)| (reason, SkippedOf { count, names: Vec::new() }))
        .collect();
    if found.is_empty() {
        return Ok(found);
    }
    let mut query = db.prepare("SELECT reason, name FROM skipped_names ORDER BY id")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        if let Some(of_reason) = found.get_mut(&row.get::<_, String>(0)?) {
            of_reason.names.push(row.get(1)?);
        }
    }
    Ok(found)
}

/// Returns the number of skipped targets by reason. Counts targets skipped by the listing and targets skipped because
/// of their reply.
pub(in crate::journal) fn by_reason(
    db: &Connection,
    identity: &BTreeMap<String, String>,
) -> rusqlite::Result<BTreeMap<String, u64>> {
    let rules = "SELECT 1 FROM job WHERE key = ?";
    if db.query_row(rules, [RULES], |_| Ok(())).optional()?.is_none() {
        return Ok(BTreeMap::new());
    }
    let mut counts = counts(db)?;
    let skipped = schema::read_tally(db)?.0.skipped;
    let by_replies = skipped.saturating_sub(counts.values().sum());
    // Older releases did not count targets skipped because of their reply.
    if by_replies > 0 {
        let transforms = identity.contains_key(TRANSFORM);
        let reason = if transforms { SkipReason::Dropped } else { SkipReason::Unchanged };
        *counts.entry(reason.name().to_owned()).or_default() += by_replies;
    }
    Ok(counts)
}

fn counts(db: &Connection) -> rusqlite::Result<BTreeMap<String, u64>> {
    if !schema::has_table(db, "skipped")? {
        return Ok(BTreeMap::new());
    }
    let mut query = db.prepare("SELECT reason, count FROM skipped")?;
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as u64)))?;
    rows.collect()
}
