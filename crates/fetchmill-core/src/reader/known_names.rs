//! Names that a job knows, whatever has come of their targets: a listing that begins again leaves them out.

use rusqlite::{Connection, OptionalExtension as _};

use crate::durable;
use crate::entry::Naming;
use crate::error::{Error, Result};
use crate::file_name::FileName;
use crate::journal::{JobLocation, JournalSnapshot, for_each_listed_entry, sqlite_error_of};
use crate::manifest::ManifestRows;
use crate::sink::failures::FailureRows;
use crate::sink::{Format, ShardFolder};
use crate::stored_name::StoredNames;

/// Memory for pages of the database.
const CACHE_KIB: i64 = 8 * 1024;
/// How often the shards of a job that runs are read: some may be merged meanwhile.
const ATTEMPTS: u32 = 5;

/// See the module. A digest of 16 bytes for each name, in a file of the job's state that has no name: 30 bytes a name of
/// disk, [`CACHE_KIB`] of memory.
#[derive(Debug)]
pub struct KnownNames {
    db: Connection,
}

impl KnownNames {
    /// Gathers them, also while the job runs: what it lists meanwhile may be missing.
    pub fn gather(place: &JobLocation, naming: Naming, names: &StoredNames) -> Result<Self> {
        let mut gathering = Self::create(place)?;
        let mut out = Vec::new();
        // Before what is stored: a target leaves these when its outcome is durable.
        for_each_listed_entry(place, |sequence, entry| {
            let listed = naming.name_of(sequence, entry, &mut out);
            gathering.add(listed)?;
            gathering.add(&names.stored(entry, listed, None))
        })?;
        let mut attempt = 1;
        while let Err(error) = gathering.add_outcomes(place) {
            if attempt == ATTEMPTS || !matches!(error, Error::Storage { .. }) {
                return Err(error);
            }
            attempt += 1;
        }
        Ok(gathering)
    }

    fn create(place: &JobLocation) -> Result<Self> {
        let path = place.state.join(&*FileName::of_own("known-names.sqlite"));
        let remove = || durable::remove_path(&path).map_err(|error| Error::storage("remove", &path, error));
        remove()?;
        let make = || {
            let db = Connection::open(&path)?;
            db.pragma_update(None, "journal_mode", "OFF")?;
            db.pragma_update(None, "synchronous", "OFF")?;
            db.pragma_update(None, "cache_size", -CACHE_KIB)?;
            db.execute_batch("CREATE TABLE known (digest BLOB PRIMARY KEY) WITHOUT ROWID; BEGIN")?;
            Ok(db)
        };
        let db = make().map_err(|error| sqlite_error_of(&path, &error))?;
        // Nothing of it is left behind, however the process ends.
        remove()?;
        Ok(KnownNames { db })
    }

    fn add_outcomes(&mut self, place: &JobLocation) -> Result<()> {
        let snapshot = JournalSnapshot::read(place)?;
        for shard in &snapshot.failures {
            for row in FailureRows::open(&place.failures_path(), shard)? {
                if let Some(name) = row?.name_bytes() {
                    self.add(&name)?;
                }
            }
        }
        for manifest in &snapshot.manifests {
            self.add_rows(ManifestRows::open(
                &place.manifests_path().join(&manifest.path),
                Some(manifest.end),
            )?)?;
        }
        let Some(extension) = Format::from_name(snapshot.part("format")).and_then(Format::extension) else {
            return Ok(());
        };
        let folder = ShardFolder::new(&place.dest, extension, false);
        for open in &snapshot.open_shards {
            let path = folder.open_path().join(&open.manifest.path);
            self.add_rows(ManifestRows::open(&path, Some(open.manifest.end))?)?;
        }
        for shard in &snapshot.shards {
            let (sealed, open) = (folder.manifest_path(shard.number), folder.open_path());
            let path = if sealed.exists() { sealed } else { open.join(&shard.sealed.manifest.path) };
            self.add_rows(ManifestRows::open(&path, None)?)?;
        }
        Ok(())
    }

    fn add_rows(&mut self, mut rows: ManifestRows) -> Result<()> {
        while let Some(frame) = rows.next_frame()? {
            frame.iter().try_for_each(|row| self.add(row.name))?;
        }
        Ok(())
    }

    fn add(&mut self, name: &[u8]) -> Result<()> {
        let mut insert = check(self.db.prepare_cached("INSERT OR IGNORE INTO known VALUES (?)"))?;
        check(insert.execute([digest(name)])).map(drop)
    }

    /// Whether a target has this name.
    pub fn contains(&self, name: &[u8]) -> Result<bool> {
        let mut query = check(self.db.prepare_cached("SELECT 1 FROM known WHERE digest = ?"))?;
        Ok(check(query.query_row([digest(name)], |_| Ok(())).optional())?.is_some())
    }
}

fn check<T>(result: rusqlite::Result<T>) -> Result<T> {
    result.map_err(|error| Error::Internal(format!("the names that are known cannot be kept: {error}")))
}

fn digest(name: &[u8]) -> [u8; 16] {
    xxhash_rust::xxh3::xxh3_128(name).to_le_bytes()
}
