//! The requests of a pass: a list with the columns of a manifest, and additional columns for conditional requests.

use std::borrow::Cow;
use std::fs::File;
use std::path::Path;

use rusqlite::Row;

use super::database;
use super::plan::PlannedAction;
use crate::durable;
use crate::journal::sqlite_error_of;
use crate::results::{ResultsFile, ResultsFormat, TableFormat};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::name;
use fetchmill_model::row::{LISTED_COLUMNS, ListRow, RowValues};
use fetchmill_model::target::extra_columns::ExtraColumns;
use fetchmill_model::text::dates::http_date;

/// Columns that follow those of a manifest.
const CONDITIONS: [&str; 2] = ["if_none_match", "if_modified_since"];
const QUERY: &str = "SELECT name, url, size, etag, modified, if_none_match, if_modified_since FROM planned
                     WHERE action IN (?1, ?2) ORDER BY name";

/// Writes the list and returns the number of rows. The file is either complete or absent.
pub(super) fn write(plan: &Path, path: &Path) -> Result<u64> {
    let made = path.with_extension("tmp");
    let fail = |error: std::io::Error| Error::storage("write", &made, error);
    durable::remove_path(&made).map_err(fail)?;
    let file = File::create(&made).map_err(fail)?;
    let format = ResultsFormat { table: TableFormat::Csv, compression: None };
    let kept = ExtraColumns::of_list(CONDITIONS.map(str::to_owned))?;
    let mut out = ResultsFile::begin(file, format, &LISTED_COLUMNS, &kept).map_err(fail)?;
    let damaged = |error: rusqlite::Error| sqlite_error_of(plan, &error);
    let db = database::read(plan)?;
    let mut query = db.prepare(QUERY).map_err(damaged)?;
    let mut rows = query.query([PlannedAction::Fetch as i64, PlannedAction::Ask as i64]).map_err(damaged)?;
    let mut count = 0;
    while let Some(row) = rows.next().map_err(damaged)? {
        let row = request(row).map_err(damaged)?;
        out.push(RowValues { values: &row.values(), kept: &row.kept }).map_err(fail)?;
        count += 1;
    }
    drop(out.finish().map_err(fail)?);
    durable::put_in_place(&made, path)?;
    Ok(count)
}

fn request(row: &Row<'_>) -> rusqlite::Result<ListRow<'static>> {
    let name: Vec<u8> = row.get(0)?;
    let url: Option<String> = row.get(1)?;
    // A header field must be text, so values that are not text are omitted.
    let etag = row.get::<_, Option<Vec<u8>>>(5)?.and_then(|etag| String::from_utf8(etag).ok());
    let modified = row.get::<_, Option<i64>>(6)?.and_then(|seconds| u64::try_from(seconds).ok());
    Ok(ListRow {
        name: Some(Cow::Owned(name::to_text(&name).into_owned())),
        url: url.map(Cow::Owned),
        size: row.get::<_, Option<i64>>(2)?.and_then(|size| u64::try_from(size).ok()),
        etag: row.get::<_, Option<String>>(3)?.map(Cow::Owned),
        last_modified: row.get::<_, Option<i64>>(4)?.and_then(|seconds| u64::try_from(seconds).ok()),
        kept: vec![etag.map(Cow::Owned), modified.map(|seconds| Cow::Owned(http_date(seconds)))],
    })
}
