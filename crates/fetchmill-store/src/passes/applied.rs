//! A planned object and its outcome.

use rusqlite::Row;

/// A planned object, with its known properties.
pub(super) struct PlannedObject {
    pub(super) name: Vec<u8>,
    pub(super) action: i64,
    /// Length and modification time of the file after the last pass.
    pub(super) base: Option<(i64, Option<i64>)>,
    /// Length of the fetched object.
    pub(super) fetched: Option<i64>,
    pub(super) outcome: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) detail: Option<String>,
}

/// Outcome of a planned object.
pub(super) struct Applied {
    pub(super) result: &'static str,
    pub(super) kind: Option<String>,
    pub(super) detail: Option<String>,
    pub(super) mtime_ns: Option<i64>,
}

impl Applied {
    pub(super) fn of(result: &'static str) -> Self {
        Applied { result, kind: None, detail: None, mtime_ns: None }
    }

    pub(super) fn failed(kind: &str, detail: &str) -> Self {
        Applied { kind: Some(kind.to_owned()), detail: Some(detail.to_owned()), ..Applied::of("failed") }
    }

    /// Returns the outcome for a file that was changed locally after the last pass.
    pub(super) fn changed_here() -> Self {
        Applied::failed("local-change", "the local file was changed; use --overwrite-local to replace it")
    }
}

impl PlannedObject {
    pub(super) fn of_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        let length: Option<i64> = row.get(2)?;
        let mtime_ns: Option<i64> = row.get(3)?;
        Ok(PlannedObject {
            name: row.get(0)?,
            action: row.get(1)?,
            base: length.map(|length| (length, mtime_ns)),
            fetched: row.get(4)?,
            outcome: row.get(5)?,
            kind: row.get(6)?,
            detail: row.get(7)?,
        })
    }
}
