//! The names that a job already knows, regardless of the outcomes of their targets. A restarted listing leaves them
//! out.

use rusqlite::{Connection, params};

use crate::durable;
use crate::journal::{JobLocation, JournalSnapshot, for_each_pending_entry, sqlite_error_of};
use crate::manifest::ManifestRows;
use crate::sink::failures::FailureRows;
use crate::sink::{Format, ShardFolder};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::outcome::Sequence;
use fetchmill_model::target::entry::Naming;

/// Cache size of the database in KiB.
const CACHE_KIB: i64 = 8 * 1024;
/// Maximum number of attempts to read the shards of a running job, which may merge shards in the meantime.
const ATTEMPTS: u32 = 5;
/// Targets by number. A target must count only once, even if it has a row both in a manifest and in the journal.
const TARGETS: &str = "CREATE TABLE targets (sequence INTEGER PRIMARY KEY, digest BLOB NOT NULL); BEGIN";
/// Number of targets per name.
const COUNTS: &str = "
CREATE TABLE known (digest BLOB PRIMARY KEY, targets INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO known SELECT digest, count(*) FROM targets GROUP BY digest;
DROP TABLE targets;
";

/// The names that a job already knows. A 16-byte digest of each name is stored in an unlinked file in the job's state
/// folder. This takes about 60 bytes of disk space per target, and [`CACHE_KIB`] of memory.
#[derive(Debug)]
pub struct KnownNames {
    db: Connection,
}

impl KnownNames {
    /// Collects the names, even while the job runs. Names listed in the meantime may be missing. Names are compared in
    /// the form in which they were listed.
    pub fn gather(place: &JobLocation, naming: Naming) -> Result<Self> {
        let gathering = Self::create(place)?;
        let mut out = Vec::new();
        // Read the pending names before the stored ones, because a target stops being pending once its outcome is
        // durable.
        for_each_pending_entry(place, |sequence, entry| {
            gathering.add(sequence, naming.name_of(sequence, entry, &mut out))
        })?;
        let mut attempt = 1;
        while let Err(error) = gathering.add_outcomes(place) {
            if attempt == ATTEMPTS || !matches!(error, Error::Storage { .. }) {
                return Err(error);
            }
            attempt += 1;
        }
        check(gathering.db.execute_batch(COUNTS))?;
        Ok(gathering)
    }

    fn create(place: &JobLocation) -> Result<Self> {
        let path = place.state.join("known-names.sqlite");
        let remove = || durable::remove_path(&path).map_err(|error| Error::storage("remove", &path, error));
        remove()?;
        let make = || {
            let db = Connection::open(&path)?;
            db.pragma_update(None, "journal_mode", "OFF")?;
            db.pragma_update(None, "synchronous", "OFF")?;
            db.pragma_update(None, "cache_size", -CACHE_KIB)?;
            db.execute_batch(TARGETS)?;
            Ok(db)
        };
        let db = make().map_err(|error| sqlite_error_of(&path, &error))?;
        // Remove the file now, so that it does not stay on disk, however the process ends.
        remove()?;
        Ok(KnownNames { db })
    }

    fn add_outcomes(&self, place: &JobLocation) -> Result<()> {
        let snapshot = JournalSnapshot::read(place)?;
        for shard in &snapshot.failures {
            for row in FailureRows::open(&place.failures_path(), shard)? {
                let row = row?;
                if let Some(name) = row.name_bytes() {
                    self.add(row.sequence, &name)?;
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

    fn add_rows(&self, mut rows: ManifestRows) -> Result<()> {
        while let Some(frame) = rows.next_frame()? {
            frame.iter().try_for_each(|row| self.add(row.sequence, row.name))?;
        }
        Ok(())
    }

    fn add(&self, sequence: Sequence, name: &[u8]) -> Result<()> {
        let mut insert = check(self.db.prepare_cached("INSERT OR IGNORE INTO targets VALUES (?, ?)"))?;
        check(insert.execute(params![sequence as i64, digest(name)])).map(drop)
    }

    /// Removes one target with this name. Returns `false` if there is none. A name that was listed twice belongs to two
    /// targets.
    pub fn take(&self, name: &[u8]) -> Result<bool> {
        let take = "UPDATE known SET targets = targets - 1 WHERE digest = ? AND targets > 0";
        Ok(check(check(self.db.prepare_cached(take))?.execute([digest(name)]))? > 0)
    }
}

fn check<T>(result: rusqlite::Result<T>) -> Result<T> {
    result.map_err(|error| Error::Internal(format!("cannot keep the known names: {error}")))
}

fn digest(name: &[u8]) -> [u8; 16] {
    xxhash_rust::xxh3::xxh3_128(name).to_le_bytes()
}
