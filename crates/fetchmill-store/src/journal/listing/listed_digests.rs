//! Digests of everything that a listing has returned, in the marker table. Each digest takes 16 bytes on disk and no
//! memory.

use rusqlite::{Connection, OptionalExtension as _};

use crate::journal::job::open_journal::Journal;
use fetchmill_model::error::Result;
use fetchmill_model::target::Names;
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// Seeds that keep the digests of a folder, a name and a marker distinct even if their texts are equal.
const FOLDER: u64 = 1;
const NAME: u64 = 2;

type Digest = [u8; 16];

impl Journal {
    /// Returns the names that no page of the walk has listed so far.
    pub fn keep_unlisted(&self, names: &Names) -> Result<Names> {
        let mut kept = Names::default();
        for name in names.iter() {
            if !self.check(has(&self.db, name_digest(name)))? {
                kept.push(name);
            }
        }
        Ok(kept)
    }
}

/// Records the names of files, or of folders that will not be entered. Files and folders cannot be confused, because
/// only the recorded names of files start with a NUL.
pub(super) fn note_names(db: &Connection, names: &Names) -> rusqlite::Result<()> {
    names.iter().try_for_each(|name| note(db, name_digest(name)).map(drop))
}

/// Records a digest. Returns whether the digest is new.
pub(super) fn note(db: &Connection, digest: Digest) -> rusqlite::Result<bool> {
    let mut insert = db.prepare_cached("INSERT OR IGNORE INTO markers (digest) VALUES (?)")?;
    Ok(insert.execute([digest])? > 0)
}

/// Returns whether a digest is recorded.
pub(super) fn has(db: &Connection, digest: Digest) -> rusqlite::Result<bool> {
    let mut query = db.prepare_cached("SELECT 1 FROM markers WHERE digest = ?")?;
    Ok(query.query_row([digest], |_| Ok(())).optional()?.is_some())
}

/// Returns the digest of a folder's path.
pub(super) fn folder_digest(path: &[u8]) -> Digest {
    xxh3_128_with_seed(path, FOLDER).to_le_bytes()
}

fn name_digest(name: &[u8]) -> Digest {
    xxh3_128_with_seed(name, NAME).to_le_bytes()
}
