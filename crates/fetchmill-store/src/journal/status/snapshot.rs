//! Everything that a journal records about its objects. All of it is read in one go, for comparison with the stored
//! data.

use rusqlite::Connection;

use crate::journal::database::schema;
use crate::journal::database::sqlite_error::error_of;
use crate::journal::job::live;
use crate::journal::job::opening::is_synced;
use crate::journal::shards::{cdxj, unfetched};
use crate::journal::{CdxjFile, JobLocation, JobRules, Shard, shards, status};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::outcome::{OpenShard, ShardEnd, Tally, UnfetchedFile};
use fetchmill_model::target::entry::EntryTraits;
use fetchmill_model::target::{Names, Sequence};

/// A journal, read while no process was writing to it: see [`JobLocation::look`].
#[derive(Debug, Clone)]
pub struct JournalSnapshot {
    /// Parts of the job's identity.
    pub identity: std::collections::BTreeMap<String, String>,
    /// Rules with which the job was started.
    pub rules: JobRules,
    /// Traits of the list's entries.
    pub traits: EntryTraits,
    /// Counts of outcomes.
    pub tally: Tally,
    /// Next sequence number. All smaller numbers are assigned.
    pub next_sequence: Sequence,
    /// Number of folders that could not be listed. Each of them counts as listed and failed but has no sequence number.
    pub failed_folders: u64,
    /// Sealed shards by number, except those that will be removed.
    pub shards: Vec<Shard>,
    /// Shards left open by the last run.
    pub open_shards: Vec<OpenShard>,
    /// Manifests of objects stored as files.
    pub manifests: Vec<ShardEnd>,
    /// Failures shards.
    pub failures: Vec<ShardEnd>,
    /// Files with rows for targets without an object.
    pub unfetched: Vec<UnfetchedFile>,
    /// Indexes of shards, by shard number.
    pub cdxj_files: Vec<CdxjFile>,
    /// Whether the job is finished. If so, these files are at their final paths.
    pub is_finished: bool,
    /// Whether a sync maintains the shards. If so, some of the assigned numbers have no outcome.
    pub is_synced: bool,
}

impl JournalSnapshot {
    /// Reads the journal.
    pub fn read(place: &JobLocation) -> Result<Self> {
        let path = place.journal_path();
        let db = schema::open_to_read(&path)?;
        let read = || -> rusqlite::Result<JournalSnapshot> {
            let (tally, next_sequence) = schema::read_tally(&db)?;
            let mut shards = shards::sealed(&db)?;
            shards.retain(|shard| !shard.is_replaced);
            Ok(JournalSnapshot {
                identity: status::identity(&db)?,
                rules: JobRules::read(&db)?,
                traits: schema::read_traits(&db)?,
                tally,
                next_sequence,
                failed_folders: count(&db, "SELECT count(*) FROM failed_folders")?,
                shards,
                open_shards: shards::open(&db)?,
                manifests: shards::manifests(&db)?,
                failures: shards::failures(&db)?,
                unfetched: unfetched::read(&db)?.unwrap_or_default(),
                cdxj_files: cdxj::read(&db)?,
                is_synced: is_synced(&db)?,
                is_finished: count(&db, "SELECT count(*) FROM job WHERE key = 'finished_at'")? > 0,
            })
        };
        read().map_err(|error| error_of(&path, &error))
    }

    /// Returns a part of the identity, or an empty string if there is no such part.
    pub fn part(&self, name: &str) -> &str {
        self.identity.get(name).map_or("", String::as_str)
    }
}

fn count(db: &Connection, query: &str) -> rusqlite::Result<u64> {
    db.query_row(query, [], |row| row.get::<_, i64>(0)).map(|count| count as u64)
}

/// Calls `each` with every target without an outcome: first those in pages, then those that wait.
pub fn for_each_pending(place: &JobLocation, mut each: impl FnMut(Sequence) -> Result<()>) -> Result<()> {
    let path = place.journal_path();
    let check = |error: rusqlite::Error| error_of(&path, &error);
    let db = schema::open_to_read(&path)?;
    for (first, page) in live::load(&db).map_err(check)? {
        for position in page.pending().into_iter().flatten() {
            each(first.saturating_add(position as u64))?;
        }
    }
    let mut query = db.prepare("SELECT sequence FROM waiting").map_err(check)?;
    let mut rows = query.query([]).map_err(check)?;
    while let Some(row) = rows.next().map_err(check)? {
        each(row.get::<_, i64>(0).map_err(check)? as Sequence)?;
    }
    Ok(())
}

/// Calls `each` with every target without an outcome, and its entry. All targets are read in one transaction, because a
/// target can move from a page to the waiting ones.
pub fn for_each_pending_entry(
    place: &JobLocation,
    mut each: impl FnMut(Sequence, &[u8]) -> Result<()>,
) -> Result<()> {
    let path = place.journal_path();
    let check = |error: rusqlite::Error| error_of(&path, &error);
    let db = schema::open_to_read(&path)?;
    db.execute_batch("BEGIN").map_err(check)?;
    for (first, page) in live::load(&db).map_err(check)? {
        let names = db.query_row("SELECT names FROM pages WHERE first = ?", [first as i64], |row| row.get(0));
        let blob: Vec<u8> = names.map_err(check)?;
        let names = schema::unpack(&blob).ok().and_then(|unpacked| Names::from_blob(&unpacked));
        let Some(names) = names.filter(|names| names.len() == page.count()) else {
            let shown = path.display();
            return Err(Error::Journal(format!(
                "the journal {shown} is damaged: the names of page {first} are missing"
            )));
        };
        for position in page.pending().into_iter().flatten() {
            each(first.saturating_add(position as u64), names.get(position))?;
        }
    }
    let mut query = db.prepare("SELECT sequence, name FROM waiting").map_err(check)?;
    let mut rows = query.query([]).map_err(check)?;
    while let Some(row) = rows.next().map_err(check)? {
        let entry: Vec<u8> = row.get(1).map_err(check)?;
        each(row.get::<_, i64>(0).map_err(check)? as Sequence, &entry)?;
    }
    Ok(())
}
