//! The table of folders that are not listed yet, which is the cursor of a walk. The deepest folder comes first. This
//! keeps the table small, because it contains the siblings along one path rather than a whole level.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::listed_digests;
use crate::journal::job::identity::Identity;
use crate::journal::job::open_journal::Journal;
use crate::journal::location::JobLocation;
use fetchmill_model::error::Result;
use fetchmill_model::outcome::{FailureKind, KindCounts};
use fetchmill_model::source::PendingFolder;
use fetchmill_model::target::Names;

/// Returns the folder format in the identity of a job. `None` if the job has not listed any folder.
pub fn folder_listing(place: &JobLocation) -> Result<Option<String>> {
    if !place.journal_path().exists() {
        return Ok(None);
    }
    let journal = Journal::open_any(place, false)?;
    let is_untouched = journal.next_folder()?.is_none_or(|folder| folder == PendingFolder::default());
    if journal.get("walk")?.is_none() || is_untouched && !journal.is_begun()? {
        return Ok(None);
    }
    let identity = journal.get("identity")?;
    Ok(identity.and_then(|stored| Identity::from_json(&stored).remove("listing")))
}

impl Journal {
    /// Starts the walk at the root folder.
    pub fn start_walk(&mut self) -> Result<()> {
        self.begin()?;
        self.check(insert(&self.db, b"", 0))?;
        self.set("walk", "started")?;
        self.commit()
    }

    /// Returns the next folder to list. `None` at the end of the walk.
    pub fn next_folder(&self) -> Result<Option<PendingFolder>> {
        let statement = "SELECT path, depth, read, digest FROM folders ORDER BY depth DESC, path LIMIT 1";
        let row = self.db.query_row(statement, [], |row| {
            Ok(PendingFolder {
                path: row.get(0)?,
                depth: row.get::<_, i64>(1)? as u64,
                read: row.get::<_, i64>(2)? as u64,
                digest: row.get::<_, i64>(3)? as u64,
            })
        });
        self.check(row.optional())
    }

    /// Records a folder that could not be listed. The folder counts as a failed target, and the walk continues.
    pub fn fail_folder(
        &mut self,
        path: &[u8],
        status: Option<u16>,
        attempts: u32,
        detail: &str,
    ) -> Result<()> {
        self.begin()?;
        // Keep the position in the folder, so that a retry run does not list the start of the folder again.
        let statement = "REPLACE INTO failed_folders (path, depth, read, digest, status, attempts, detail)
                         SELECT path, depth, read, digest, ?, ?, ? FROM folders WHERE path = ?";
        self.check(self.db.execute(statement, params![status, attempts, detail, path]))?;
        self.check(self.db.execute("DELETE FROM folders WHERE path = ?", [path]))?;
        self.tally.listed += 1;
        self.tally.failed += 1;
        let mut kinds = KindCounts::default();
        kinds.add(FailureKind::Listing, 1);
        self.check(crate::journal::database::schema::add_kinds(&self.db, &kinds))
    }

    /// Records folders that will not be requested.
    pub(in crate::journal) fn refuse_folders(&mut self, refused: &Names, depth: i64) -> Result<()> {
        for path in refused.iter() {
            self.check(insert(&self.db, path, depth))?;
            self.fail_folder(path, None, 0, "nested deeper than 64 folders, or not a valid folder name")?;
        }
        Ok(())
    }

    /// Returns failed folders to the walk, selected by their last status. Returns the numbers of folders that were and
    /// were not selected.
    pub(in crate::journal) fn retry_folders(
        &mut self,
        is_meant: impl Fn(Option<u16>) -> bool,
    ) -> Result<(u64, u64)> {
        let statuses: Vec<Option<u16>> = self.check(statuses_of_failed(&self.db))?;
        let (mut again, mut kept) = (0, 0);
        for status in statuses {
            if !is_meant(status) {
                let count = "SELECT count(*) FROM failed_folders WHERE status IS ?";
                kept += self.check(self.db.query_row(count, [status], |row| row.get::<_, i64>(0)))? as u64;
                continue;
            }
            let statement = "INSERT OR IGNORE INTO folders (path, depth, read, digest)
                             SELECT path, depth, read, digest FROM failed_folders WHERE status IS ?";
            self.check(self.db.execute(statement, [status]))?;
            let statement = "DELETE FROM failed_folders WHERE status IS ?";
            again += self.check(self.db.execute(statement, [status]))? as u64;
        }
        self.tally.listed -= again;
        self.tally.failed -= again;
        Ok((again, kept))
    }
}

/// Returns the distinct last statuses of folders that could not be listed.
fn statuses_of_failed(db: &Connection) -> rusqlite::Result<Vec<Option<u16>>> {
    let mut query = db.prepare("SELECT DISTINCT status FROM failed_folders")?;
    query.query_map([], |row| row.get(0))?.collect()
}

/// Stores how far a folder was read, and the folders that were found in it, with their depth.
pub(in crate::journal) fn keep(
    db: &Connection,
    path: &[u8],
    (found, depth): (&Names, i64),
    (read, digest): (u64, u64),
    is_last: bool,
) -> rusqlite::Result<()> {
    for folder in found.iter() {
        // Pages may link to a folder repeatedly, even after it was listed.
        if listed_digests::note(db, listed_digests::folder_digest(folder))? {
            insert(db, folder, depth)?;
        }
    }
    if is_last {
        db.prepare_cached("DELETE FROM folders WHERE path = ?")?.execute([path])?;
    } else {
        let mut update = db.prepare_cached("UPDATE folders SET read = ?, digest = ? WHERE path = ?")?;
        update.execute(params![read as i64, digest as i64, path])?;
    }
    Ok(())
}

fn insert(db: &Connection, path: &[u8], depth: i64) -> rusqlite::Result<()> {
    let mut insert =
        db.prepare_cached("INSERT OR IGNORE INTO folders (path, depth, read, digest) VALUES (?, ?, 0, 0)")?;
    insert.execute(params![path, depth]).map(drop)
}

/// Returns the depth of the folders that a folder's page links to.
pub(in crate::journal) fn depth_below(db: &Connection, path: &[u8]) -> rusqlite::Result<i64> {
    let mut query = db.prepare_cached("SELECT depth + 1 FROM folders WHERE path = ?")?;
    Ok(query.query_row([path], |row| row.get(0)).optional()?.unwrap_or_default())
}
