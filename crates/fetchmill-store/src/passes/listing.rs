//! Reads the listing of a source, as `fetchmill list` wrote it, sorted by name.

use std::borrow::Cow;
use std::fs::File;
use std::path::Path;

use rusqlite::{Connection, Rows, params};

use super::database;
use crate::journal::sqlite_error_of;
use crate::results::ResultsFormat;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::name::{self, url_name};
use fetchmill_model::row::LISTED_COLUMNS;
use fetchmill_model::source::list::{ListFormat, TableReader};
use fetchmill_model::target::entry::behind_scheme;
use fetchmill_model::text::dates::parse_utc_to_the_second;

const TABLE: &str = "
CREATE TABLE listed (
    name BLOB NOT NULL, url TEXT, size INTEGER, etag TEXT, modified INTEGER)";
const SORTED: &str = "SELECT name, url, size, etag, modified FROM listed ORDER BY name, rowid";

/// A listed object. Values that the source does not provide are `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ListedObject {
    /// Name of the object. See [`ListedNames`] for objects that the source does not name.
    pub(super) name: Vec<u8>,
    pub(super) url: Option<String>,
    pub(super) size: Option<i64>,
    /// `ETag` without quotes.
    pub(super) etag: Option<String>,
    /// Modification time in seconds since 1970 UTC.
    pub(super) modified: Option<i64>,
}

/// The rules by which a destination names objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ListedNames {
    /// Whether an object that the source does not name is named by its URL, as in shards. If `false`, its name is
    /// `host/path?query`, as for files.
    pub(super) of_urls: bool,
    /// Whether the URL in `host/path?query` is decoded ([`url_name`]). In destinations of older releases, the URL stays
    /// encoded.
    pub(super) are_decoded: bool,
    /// Whether names that are not UTF-8 are used. fetchmill 0.1.0 used the URLs of such objects instead, and its
    /// destinations still do.
    pub(super) of_bytes: bool,
}

impl ListedNames {
    fn of_url(self, url: &[u8]) -> Cow<'_, [u8]> {
        match self {
            ListedNames { of_urls: true, .. } => Cow::Borrowed(url),
            ListedNames { are_decoded: true, .. } => url_name::of_url(behind_scheme(url)),
            ListedNames { .. } => Cow::Borrowed(behind_scheme(url)),
        }
    }
}

/// Returns the next object. `None` after the last one.
pub(super) type NextListed<'n> = dyn FnMut() -> Result<Option<ListedObject>> + 'n;

/// Rows of a listing file, in file order.
pub(super) struct ListingFile {
    table: TableReader,
    names: ListedNames,
    shown: String,
}

impl ListingFile {
    pub(super) fn open(path: &Path, names: ListedNames) -> Result<Self> {
        let shown = path.display().to_string();
        let file = File::open(path).map_err(|error| Error::storage("read", path, error))?;
        let compression =
            ResultsFormat::of(&path.to_string_lossy(), None).and_then(|format| format.compression);
        let columns = LISTED_COLUMNS.map(|(name, _)| name);
        let table = TableReader::of_stream(&shown, Box::new(file), (ListFormat::Csv, compression), &columns)?;
        Ok(ListingFile { table, names, shown })
    }

    pub(super) fn next_object(&mut self) -> Result<Option<ListedObject>> {
        if !self.table.next_record()? {
            return Ok(None);
        }
        let value = |column| self.table.value(column).filter(|value: &&[u8]| !value.is_empty());
        let text = |column| value(column).map(|value| String::from_utf8_lossy(value).into_owned());
        let url = text(1);
        // Use the same name as the job that fetches the object.
        let of_url = |url| self.names.of_url(url);
        let name = match value(0).map(name::from_text) {
            Some(Cow::Owned(_)) if !self.names.of_bytes => None,
            found => found,
        };
        let name = name.or_else(|| value(1).map(of_url)).unwrap_or_default().into_owned();
        let wrong = |what| {
            Error::Journal(format!(
                "{} of {} has no valid {what}; remove the file to list the source again",
                self.table.place(),
                self.shown
            ))
        };
        let number = |value: &[u8]| std::str::from_utf8(value).ok()?.parse().ok();
        let size = value(2).map(|value| number(value).ok_or_else(|| wrong("size"))).transpose()?;
        let time = |value| parse_utc_to_the_second(value).map(|seconds| seconds as i64);
        let modified = value(4).map(|value| time(value).ok_or_else(|| wrong("time"))).transpose()?;
        Ok(Some(ListedObject { name, url, size, etag: text(3), modified }))
    }
}

/// Rows of an unsorted listing. `SQLite` sorts them, in files if there are many.
pub(super) struct SortedListing {
    db: Connection,
    path: std::path::PathBuf,
}

impl SortedListing {
    /// Loads the whole listing into a separate file.
    pub(super) fn load(listing: &Path, names: ListedNames, path: &Path) -> Result<Self> {
        let db = database::create(path, TABLE)?;
        let fail = |error: rusqlite::Error| sqlite_error_of(path, &error);
        let mut file = ListingFile::open(listing, names)?;
        {
            let mut insert = db.prepare("INSERT INTO listed VALUES (?, ?, ?, ?, ?)").map_err(fail)?;
            while let Some(found) = file.next_object()? {
                let row = params![found.name, found.url, found.size, found.etag, found.modified];
                insert.execute(row).map_err(fail)?;
            }
        }
        Ok(SortedListing { db, path: path.to_owned() })
    }

    /// Passes the rows to `read`, ordered by name. If a name is listed several times, only its first row is passed.
    pub(super) fn read<T>(&self, read: impl FnOnce(&mut NextListed<'_>) -> Result<T>) -> Result<T> {
        let fail = |error: rusqlite::Error| sqlite_error_of(&self.path, &error);
        let mut query = self.db.prepare(SORTED).map_err(fail)?;
        let mut rows = query.query([]).map_err(fail)?;
        read(&mut || next_row(&mut rows).map_err(fail))
    }

    /// Removes the file.
    pub(super) fn remove(self) -> Result<()> {
        drop(self.db);
        crate::durable::remove_path(&self.path).map_err(|error| Error::storage("remove", &self.path, error))
    }
}

fn next_row(rows: &mut Rows<'_>) -> rusqlite::Result<Option<ListedObject>> {
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(ListedObject {
        name: row.get(0)?,
        url: row.get(1)?,
        size: row.get(2)?,
        etag: row.get(3)?,
        modified: row.get(4)?,
    }))
}
