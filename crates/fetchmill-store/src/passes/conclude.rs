//! Ends a pass by updating the base to the new contents of the destination, in one transaction.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};

use super::database::{set_byte_names, set_decoded_names, set_fact};
use super::plan::{PlanCounts, PlanOptions};
use crate::journal::sqlite_error_of;
use fetchmill_model::error::{Error, Result};

/// Results of a pass. `listed = unchanged + fetched + absent + failed + skipped`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncLedger {
    /// Rows in the listing.
    pub listed: u64,
    /// Unchanged objects.
    pub unchanged: u64,
    /// Objects that were fetched.
    pub fetched: u64,
    /// Objects that were listed but do not exist (404, 410).
    pub absent: u64,
    /// Objects that could not be fetched or moved into place.
    pub failed: u64,
    /// Rows whose name was listed before.
    pub skipped: u64,
    /// Files that were removed.
    pub removed: u64,
    /// Files that are gone from the source but are kept because they were changed locally.
    pub not_removed: u64,
    /// Files that are gone from the source but are kept because deletion was not requested.
    pub kept: u64,
    /// Total size of the fetched objects in bytes.
    pub bytes: u64,
    /// Failures by kind.
    pub kinds: BTreeMap<String, u64>,
}

const STORED: &str = "
REPLACE INTO objects
SELECT p.name, p.url, p.size, p.etag, p.modified, f.etag, f.modified, f.length, f.crc32c, a.mtime_ns, ?1, n.number
FROM temp.applied a JOIN plan.planned p ON p.name = a.name JOIN outcome.fetched f ON f.name = a.name
LEFT JOIN temp.arrived n ON n.staged = f.shard
WHERE a.result = 'fetched'";
const CHECKED: &str = "
UPDATE objects SET url = p.url, listed_size = p.size, listed_etag = p.etag, listed_modified = p.modified,
    checked_at = ?1
FROM plan.planned p JOIN temp.applied a ON a.name = p.name
WHERE objects.name = p.name AND a.result = 'unchanged'";
/// This statement runs before new objects are stored, so it affects only objects in rewritten shards.
const MOVED: &str = "UPDATE objects SET shard = m.number FROM temp.moved m WHERE m.old = objects.shard";
const REMOVED: &str =
    "DELETE FROM objects WHERE name IN (SELECT name FROM temp.applied WHERE result = 'removed')";
const FAILED: &str = "
DELETE FROM failures;
INSERT INTO failures SELECT name, result, kind, detail FROM temp.applied
WHERE result IN ('absent', 'failed', 'not_removed')";

/// Updates the base and returns the results of the pass.
pub(super) fn conclude(
    db: &Connection,
    path: &Path,
    options: &PlanOptions,
    counts: &PlanCounts,
) -> Result<SyncLedger> {
    let fail = |error: rusqlite::Error| sqlite_error_of(path, &error);
    let ledger = count(db, counts).map_err(fail)?;
    let text = serde_json::to_string(&ledger).map_err(|error| Error::Internal(error.to_string()))?;
    let write = || {
        db.execute_batch("BEGIN IMMEDIATE")?;
        db.execute_batch(MOVED)?;
        db.execute(STORED, params![options.started_at])?;
        db.execute(CHECKED, params![options.started_at])?;
        db.execute_batch(REMOVED)?;
        db.execute_batch(FAILED)?;
        set_fact(db, "pass", &options.number.to_string())?;
        set_fact(db, "source", &options.source)?;
        set_fact(db, "filters", &options.filters)?;
        set_fact(db, "ledger", &text)?;
        if options.byte_names {
            set_byte_names(db)?;
        }
        if options.decoded_names {
            set_decoded_names(db)?;
        }
        db.execute_batch("COMMIT")
    };
    write().map_err(fail)?;
    Ok(ledger)
}

fn count(db: &Connection, counts: &PlanCounts) -> rusqlite::Result<SyncLedger> {
    let mut ledger = SyncLedger {
        listed: counts.listed,
        unchanged: counts.unchanged,
        skipped: counts.skipped,
        kept: counts.kept,
        ..SyncLedger::default()
    };
    let mut query = db.prepare("SELECT result, kind, count(*) FROM temp.applied GROUP BY result, kind")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let (result, kind): (String, Option<String>) = (row.get(0)?, row.get(1)?);
        let number = row.get::<_, i64>(2)? as u64;
        match result.as_str() {
            "fetched" => ledger.fetched += number,
            "unchanged" => ledger.unchanged += number,
            "absent" => ledger.absent += number,
            "removed" => ledger.removed += number,
            "not_removed" => ledger.not_removed += number,
            _ => {
                ledger.failed += number;
                *ledger.kinds.entry(kind.unwrap_or_default()).or_default() += number;
            }
        }
    }
    let bytes = "SELECT total(f.length) FROM temp.applied a JOIN outcome.fetched f ON f.name = a.name
                 WHERE a.result = 'fetched'";
    ledger.bytes = db.query_row(bytes, [], |row| row.get::<_, f64>(0))? as u64;
    Ok(ledger)
}
