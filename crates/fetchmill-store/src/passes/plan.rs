//! The plan of a sync pass: which objects to fetch, check and remove. The file is either complete or absent.

use std::cmp::Ordering;
use std::path::Path;

use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};

use super::compare::{BASE_COLUMNS, BaseObject, Comparison, compare};
use super::database::{self, fact};
use super::listing::{ListedNames, ListedObject, ListingFile, NextListed, SortedListing};
use super::local::LocalFolder;
use crate::durable::PathState;
use crate::journal::sqlite_error_of;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::name;

const TABLES: &str = "
CREATE TABLE facts (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE planned (
    name BLOB PRIMARY KEY, action INTEGER NOT NULL, url TEXT, size INTEGER, etag TEXT, modified INTEGER,
    if_none_match BLOB, if_modified_since INTEGER) WITHOUT ROWID;
";

/// Action planned for an object. Unchanged objects have no row in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlannedAction {
    /// Fetch the object.
    Fetch = 1,
    /// Fetch the object unless the server reports that it has not changed.
    Ask = 2,
    /// Remove the object, because it is gone from the source.
    Remove = 3,
    /// Leave the object's file alone, because something other than a sync changed it.
    LeaveLocal = 4,
    /// Do nothing, because the object has no URL.
    NoUrl = 5,
}

impl PlannedAction {
    /// Parses the name of an action as callers write it.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "fetch" => Some(PlannedAction::Fetch),
            "ask" => Some(PlannedAction::Ask),
            "remove" => Some(PlannedAction::Remove),
            "leave" => Some(PlannedAction::LeaveLocal),
            _ => None,
        }
    }
}

/// Options of a pass.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct PlanOptions {
    /// Number of the pass in this destination, starting at 1.
    pub number: u64,
    /// Source of the targets.
    pub source: String,
    /// Filters that select the targets.
    pub filters: String,
    /// Start of the listing, in seconds since 1970 UTC.
    pub started_at: i64,
    /// Whether to fetch everything.
    pub refetch: bool,
    /// Whether to remove objects that are gone from the source.
    pub delete: bool,
    /// Whether to check each file.
    pub check_local: bool,
    /// Whether to replace files that something other than a sync changed.
    pub overwrite_local: bool,
    /// Prefixes of names that must not be removed, because their folder could not be listed. Encoded with
    /// [`name::to_text`].
    pub protected: Vec<String>,
    /// Whether names that are not UTF-8 are stored as bytes. Plans of older releases contain URLs instead.
    #[serde(default)]
    pub byte_names: bool,
    /// Whether names that come from URLs are decoded. In plans of older releases, they are encoded.
    #[serde(default)]
    pub decoded_names: bool,
}

/// Number of planned objects by action.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanCounts {
    /// Rows in the listing.
    pub listed: u64,
    /// Unchanged objects.
    pub unchanged: u64,
    /// See [`PlannedAction::Fetch`].
    pub fetch: u64,
    /// See [`PlannedAction::Ask`].
    pub ask: u64,
    /// See [`PlannedAction::Remove`].
    pub remove: u64,
    /// Objects that are gone from the source but kept.
    pub kept: u64,
    /// Rows whose name was listed before.
    pub skipped: u64,
    /// See [`PlannedAction::NoUrl`].
    pub without_url: u64,
    /// See [`PlannedAction::LeaveLocal`].
    pub local: u64,
    /// Number of objects in `local` that are gone from the source. Counted only in a dry run.
    #[serde(default)]
    pub gone_local: u64,
    /// Objects in the base.
    pub base: u64,
}

/// Location of a plan.
pub(super) struct PlanPlace<'p> {
    /// Path of the plan.
    pub(super) path: &'p Path,
    /// The destination, which does not have to exist.
    pub(super) dest: &'p Path,
    pub(super) names: ListedNames,
    /// Whether this is the plan of a dry run for objects stored as files. Such a plan also shows which files a real
    /// pass would leave unchanged when it applies the plan.
    pub(super) is_dry_of_files: bool,
}

/// Compares a listing with the base, and writes the differences.
pub(super) fn make(
    place: &PlanPlace<'_>,
    base: &Connection,
    listing: &Path,
    options: &PlanOptions,
) -> Result<PlanCounts> {
    let mut file = ListingFile::open(listing, place.names)?;
    let mut writer = PlanWriter::begin(place, options)?;
    let counts = if let Some(counts) = writer.merge(base, &mut || file.next_object())? {
        counts
    } else {
        // The listing is not sorted by name.
        drop(writer);
        let sorted = SortedListing::load(listing, place.names, &place.path.with_extension("listed"))?;
        writer = PlanWriter::begin(place, options)?;
        let counts = sorted.read(|next| writer.merge(base, next))?;
        sorted.remove()?;
        counts.ok_or_else(|| Error::Internal("a sorted listing is out of order".into()))?
    };
    writer.finish(place, &counts)?;
    Ok(counts)
}

/// Returns the options and the counts of a plan.
pub(super) fn describe(path: &Path) -> Result<(PlanOptions, PlanCounts)> {
    let db = database::read(path)?;
    let damaged = || Error::Journal(format!("{} is damaged; remove it to compare again", path.display()));
    let value = |key| fact(&db, key).map_err(|error| sqlite_error_of(path, &error));
    let options = value("options")?.and_then(|text| serde_json::from_str(&text).ok()).ok_or_else(damaged)?;
    let counts = value("counts")?.and_then(|text| serde_json::from_str(&text).ok()).ok_or_else(damaged)?;
    Ok((options, counts))
}

/// Returns the names for which this action is planned, in order, starting after `after`.
pub(super) fn names(
    path: &Path,
    action: PlannedAction,
    after: Option<&[u8]>,
    count: usize,
) -> Result<Vec<Vec<u8>>> {
    let db = database::read(path)?;
    let read = || -> rusqlite::Result<Vec<Vec<u8>>> {
        let mut query = db.prepare(
            "SELECT name FROM planned WHERE action = ?1 AND (?2 IS NULL OR name > ?2) ORDER BY name LIMIT ?3",
        )?;
        let rows = query.query_map(params![action as i64, after, count as i64], |row| row.get(0))?;
        rows.collect()
    };
    read().map_err(|error| sqlite_error_of(path, &error))
}

/// A plan that is being written.
struct PlanWriter<'o> {
    db: Connection,
    made: std::path::PathBuf,
    options: &'o PlanOptions,
    /// Prefixes of names that must not be removed.
    protected: Vec<Vec<u8>>,
    dest: Option<LocalFolder>,
    is_dry_of_files: bool,
    path: Vec<u8>,
    counts: PlanCounts,
}

impl<'o> PlanWriter<'o> {
    fn begin(place: &PlanPlace<'_>, options: &'o PlanOptions) -> Result<Self> {
        let made = place.path.with_extension("tmp");
        let is_checked = options.check_local || place.is_dry_of_files;
        let dest =
            if is_checked && place.dest.exists() { Some(LocalFolder::open(place.dest)?) } else { None };
        let db = database::create(&made, TABLES)?;
        let protected = options.protected.iter().map(|text| name::from_text(text.as_bytes()).into_owned());
        Ok(PlanWriter {
            db,
            made,
            options,
            protected: protected.collect(),
            dest,
            is_dry_of_files: place.is_dry_of_files,
            path: Vec::new(),
            counts: PlanCounts::default(),
        })
    }

    fn finish(self, place: &PlanPlace<'_>, counts: &PlanCounts) -> Result<()> {
        let text = |value| serde_json::to_string(value).map_err(|error| Error::Internal(error.to_string()));
        let (options, counts) = (text(self.options)?, serde_json::to_string(counts).unwrap_or_default());
        let note = || {
            database::set_fact(&self.db, "options", &options)?;
            database::set_fact(&self.db, "counts", &counts)
        };
        note().map_err(|error| sqlite_error_of(&self.made, &error))?;
        database::finish(self.db, &self.made, place.path)
    }

    /// Merges the sorted listing with the base. Returns `None` if the listing turns out to be unsorted. In this case,
    /// the rows written so far are unusable.
    fn merge(&mut self, base: &Connection, next: &mut NextListed<'_>) -> Result<Option<PlanCounts>> {
        let made = self.made.clone();
        let fail = |error: rusqlite::Error| sqlite_error_of(&made, &error);
        self.counts = PlanCounts::default();
        let query = format!("SELECT {BASE_COLUMNS} FROM objects ORDER BY name");
        let mut query = base.prepare(&query).map_err(fail)?;
        let mut rows = query.query([]).map_err(fail)?;
        let mut known = BaseObject::next_of(&mut rows).map_err(fail)?;
        let mut last: Option<Vec<u8>> = None;
        while let Some(listed) = next()? {
            self.counts.listed += 1;
            match last.as_deref().map_or(Ordering::Less, |last| last.cmp(&listed.name)) {
                Ordering::Less => {}
                Ordering::Equal => {
                    self.counts.skipped += 1;
                    continue;
                }
                Ordering::Greater => return Ok(None),
            }
            while let Some(gone) = known.take_if(|known| known.name < listed.name) {
                self.gone(&gone)?;
                known = BaseObject::next_of(&mut rows).map_err(fail)?;
            }
            let same = known.take_if(|known| known.name == listed.name);
            self.listed(&listed, same.as_ref())?;
            if same.is_some() {
                known = BaseObject::next_of(&mut rows).map_err(fail)?;
            }
            last = Some(listed.name);
        }
        while let Some(gone) = known {
            self.gone(&gone)?;
            known = BaseObject::next_of(&mut rows).map_err(fail)?;
        }
        Ok(Some(self.counts))
    }

    /// Handles an object of the base that the source no longer lists.
    fn gone(&mut self, base: &BaseObject) -> Result<()> {
        self.counts.base += 1;
        let is_protected = self.protected.iter().any(|start| base.name.starts_with(start));
        if !self.options.delete || is_protected {
            self.counts.kept += 1;
            return Ok(());
        }
        let listed = ListedObject { name: base.name.clone(), ..ListedObject::default() };
        if self.is_in_the_way(&base.name, Some(base))? {
            self.counts.gone_local += 1;
            return self.leave_local(&listed);
        }
        self.counts.remove += 1;
        self.write(&listed, PlannedAction::Remove, None)
    }

    /// Handles an object that the source lists.
    fn listed(&mut self, listed: &ListedObject, base: Option<&BaseObject>) -> Result<()> {
        self.counts.base += u64::from(base.is_some());
        if listed.url.is_none() {
            self.counts.without_url += 1;
            return self.write(listed, PlannedAction::NoUrl, None);
        }
        let compared = match base {
            Some(base) if !self.options.refetch => compare(listed, base),
            _ => Comparison::Fetch,
        };
        let compared = match base {
            Some(base) if self.options.check_local => match self.local(base)? {
                LocalFile::Same => compared,
                LocalFile::Missing => Comparison::Fetch,
                LocalFile::Changed if self.options.overwrite_local => Comparison::Fetch,
                LocalFile::Changed => return self.leave_local(listed),
            },
            _ => compared,
        };
        match compared {
            Comparison::Unchanged => {
                self.counts.unchanged += 1;
                Ok(())
            }
            Comparison::Fetch if self.is_in_the_way(&listed.name, base)? => self.leave_local(listed),
            Comparison::Fetch => {
                self.counts.fetch += 1;
                self.write(listed, PlannedAction::Fetch, None)
            }
            Comparison::Ask => {
                self.counts.ask += 1;
                self.write(listed, PlannedAction::Ask, base)
            }
        }
    }

    fn leave_local(&mut self, listed: &ListedObject) -> Result<()> {
        self.counts.local += 1;
        self.write(listed, PlannedAction::LeaveLocal, None)
    }

    /// Returns whether a file that the pass would neither replace nor remove is at the object's path. Only a dry run
    /// checks this here. A real pass checks it when applying the plan ([`super::placed_files`]).
    fn is_in_the_way(&mut self, name: &[u8], base: Option<&BaseObject>) -> Result<bool> {
        if !self.is_dry_of_files {
            return Ok(false);
        }
        Ok(match self.state(name)? {
            // The folder may be empty by the time that the plan is applied, because removals come first.
            None | Some(PathState::Folder) => false,
            Some(PathState::Other) => true,
            Some(PathState::File { size, mtime_ns }) => {
                let is_ours = base.is_some_and(|base| is_ours(base.length, base.mtime_ns, size, mtime_ns));
                !self.options.overwrite_local && !is_ours
            }
        })
    }

    fn state(&mut self, name: &[u8]) -> Result<Option<PathState>> {
        let Some(dest) = &mut self.dest else { return Ok(None) };
        if name::to_path(name, &mut self.path).is_err() {
            return Ok(None);
        }
        dest.state(&self.path)
    }

    fn local(&mut self, base: &BaseObject) -> Result<LocalFile> {
        Ok(match self.state(&base.name)? {
            None => LocalFile::Missing,
            Some(PathState::File { size, mtime_ns })
                if is_ours(base.length, base.mtime_ns, size, mtime_ns) =>
            {
                LocalFile::Same
            }
            Some(_) => LocalFile::Changed,
        })
    }

    /// Writes a row. `base` provides the condition for the request.
    fn write(&self, listed: &ListedObject, action: PlannedAction, base: Option<&BaseObject>) -> Result<()> {
        let fail = |error: rusqlite::Error| sqlite_error_of(&self.made, &error);
        let mut insert =
            self.db.prepare_cached("INSERT INTO planned VALUES (?, ?, ?, ?, ?, ?, ?, ?)").map_err(fail)?;
        let row = params![
            listed.name,
            action as i64,
            listed.url,
            listed.size,
            listed.etag,
            listed.modified,
            base.and_then(|base| base.etag.as_deref()),
            base.and_then(|base| base.modified),
        ];
        insert.execute(row).map(drop).map_err(fail)
    }
}

/// State of a file compared with the base.
enum LocalFile {
    Same,
    Missing,
    Changed,
}

/// Returns whether a file is unchanged since the last pass.
pub(super) fn is_ours(length: i64, known_mtime_ns: Option<i64>, size: u64, mtime_ns: i64) -> bool {
    i64::try_from(size) == Ok(length) && known_mtime_ns == Some(mtime_ns)
}
