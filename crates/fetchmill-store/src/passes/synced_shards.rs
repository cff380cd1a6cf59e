//! The shards of a synced destination. A pass replaces them in a single journal transaction.

use std::collections::BTreeMap;
use std::os::fd::AsFd as _;
use std::path::Path;

use rusqlite::{Connection, params};

use super::copies::Copies;
use super::plan::PlanOptions;
use crate::durable;
use crate::journal::{Identity, JobLocation, Journal, JournalSnapshot, Shard, ShardSwap, sqlite_error_of};
use crate::reader::verify::tidy;
use crate::results::take_back_unfetched;
use crate::sink::{Format, ShardFolder, UnfetchedFiles};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::outcome::{SealedShard, ShardNumber};
use fetchmill_model::target::Sequence;
use fetchmill_model::target::extra_columns::ExtraColumns;
use fetchmill_model::text::file_name::FileName;

/// `arrived` maps the number that a fetched shard has in its job to its number in the destination. `moved` maps the
/// number of a replaced shard to the number of the rewritten one.
const NUMBERS: &str = "
CREATE TEMP TABLE arrived (staged INTEGER PRIMARY KEY, number INTEGER NOT NULL);
CREATE TEMP TABLE moved (old INTEGER PRIMARY KEY, number INTEGER NOT NULL)";

/// Numbers with which the job of a pass starts, if objects are in shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextNumbers {
    /// First sequence number of the job.
    pub first_sequence: Sequence,
    /// Whether rows have URLs.
    pub has_url: bool,
}

/// See the [module documentation](self).
#[derive(Debug)]
pub(super) struct SyncedShards {
    /// Holds the journal's lock. The lock tells concurrent readers that shards may vanish.
    place: JobLocation,
    format: Format,
    shard_bytes: u64,
}

impl SyncedShards {
    /// Creates the value for a destination with shards of about `shard_bytes`.
    pub(super) fn new(place: JobLocation, format: Format, shard_bytes: Option<u64>) -> Self {
        SyncedShards { place, format, shard_bytes: shard_bytes.unwrap_or_else(|| format.shard_bytes()) }
    }

    pub(super) fn place(&self) -> &JobLocation {
        &self.place
    }

    pub(super) fn shard_folder(&self) -> ShardFolder {
        ShardFolder::new(&self.place.dest, self.format.extension().unwrap_or_default(), true)
    }

    pub(super) fn format(&self) -> Format {
        self.format
    }

    pub(super) fn shard_bytes(&self) -> u64 {
        self.shard_bytes
    }

    /// Returns the contents of the journal. `None` until a pass has added something to it.
    fn snapshot(&self) -> Result<Option<JournalSnapshot>> {
        if self.place.journal_path().exists() {
            JournalSnapshot::read(&self.place).map(Some)
        } else {
            Ok(None)
        }
    }

    pub(super) fn shards(&self) -> Result<Vec<Shard>> {
        Ok(self.snapshot()?.map(|snapshot| snapshot.shards).unwrap_or_default())
    }

    /// Returns the columns that objects have besides the standard ones.
    pub(super) fn columns(&self) -> Result<ExtraColumns> {
        let snapshot = self.snapshot()?;
        Ok(snapshot.map(|snapshot| ExtraColumns::of_identity(&snapshot.identity)).unwrap_or_default())
    }

    /// Returns the numbers with which the job of the next pass starts.
    pub(super) fn next_numbers(&self) -> Result<NextNumbers> {
        let Some(snapshot) = self.snapshot()? else {
            return Ok(NextNumbers { first_sequence: 0, has_url: true });
        };
        let has_url = ExtraColumns::of_identity(&snapshot.identity).has_url();
        Ok(NextNumbers { first_sequence: snapshot.next_sequence, has_url })
    }

    /// Adds the shards of the finished job in `fetched`, and replaces shards with their rewritten copies. This may be
    /// repeated after a kill.
    pub(super) fn swap(&self, options: &PlanOptions, fetched: Option<&Path>, copies: &Path) -> Result<()> {
        let pass = options.number;
        let staged = fetched.map(StagedShards::open).transpose()?;
        if staged.is_none() && !self.place.journal_path().exists() {
            return Ok(());
        }
        let mut journal = self.open_journal(staged.as_ref(), &options.source)?;
        if journal.last_pass()? < Some(pass) {
            let Copies { sealed, emptied } = Copies::read(copies)?;
            let mut swap = ShardSwap { pass, sealed, emptied, ..ShardSwap::default() };
            // Replies that the previous pass recorded do not belong to this pass.
            take_back_unfetched(&journal, &self.shard_folder(), UnfetchedFiles::Replies)?;
            if let Some(staged) = &staged {
                self.take(staged)?;
                swap.unfetched.clone_from(&staged.snapshot.unfetched);
                swap.next_sequence = staged.snapshot.next_sequence;
                swap.sealed.extend(staged.snapshot.shards.iter().map(|shard| shard.sealed.clone()));
            }
            journal.swap_shards(&swap)?;
        }
        drop(journal);
        tidy(&self.place)
    }

    /// Opens the journal, creating it if it is missing.
    fn open_journal(&self, staged: Option<&StagedShards>, source: &str) -> Result<Journal> {
        let mut journal = Journal::open_any(&self.place, true)?;
        if journal.last_pass()?.is_none() {
            let mut parts = staged.map(|staged| staged.snapshot.identity.clone()).unwrap_or_default();
            parts.insert("source".to_owned(), source.to_owned());
            journal.keep_for_passes(&Identity::of_parts(parts))?;
        }
        Ok(journal)
    }

    /// Moves fetched shards to the folder of open shards.
    fn take(&self, staged: &StagedShards) -> Result<()> {
        let folder = self.shard_folder();
        folder.prepare()?;
        for Shard { number, sealed, .. } in &staged.snapshot.shards {
            let open = folder.open_path();
            move_into(&staged.folder.manifest_path(*number), &open, &sealed.manifest.path)?;
            move_into(&staged.folder.shard_path(*number), &open, &sealed.data.path)?;
        }
        for (number, file) in staged.snapshot.unfetched.iter().enumerate() {
            let path = UnfetchedFiles::Replies.path(&staged.folder, file, number);
            move_into(&path, &folder.open_path(), &file.data.path)?;
        }
        // The job that fetched these shards may not have made them durable.
        let opened = durable::open_folder(&self.place.dest);
        opened
            .and_then(|opened| durable::sync_file_system(opened.as_fd()))
            .map_err(|error| Error::storage("sync the file system of", &self.place.dest, error))
    }

    /// Writes the new numbers of the shards to a database.
    pub(super) fn tell_numbers(&self, db: &Connection, fetched: Option<&Path>, copies: &Path) -> Result<()> {
        let by_path: BTreeMap<FileName, ShardNumber> =
            self.shards()?.into_iter().map(|shard| (shard.sealed.data.path, shard.number)).collect();
        let staged = fetched.map(StagedShards::open).transpose()?;
        let staged = staged.map(|staged| staged.snapshot.shards).unwrap_or_default();
        let copies = Copies::read(copies)?.sealed;
        let number_of = |sealed: &SealedShard| by_path.get(&sealed.data.path).map(|number| *number as i64);
        let tell = || -> rusqlite::Result<()> {
            db.execute_batch(NUMBERS)?;
            let mut arrived = db.prepare("INSERT INTO temp.arrived VALUES (?, ?)")?;
            for shard in staged {
                arrived.execute(params![shard.number as i64, number_of(&shard.sealed)])?;
            }
            let mut moved = db.prepare("INSERT INTO temp.moved VALUES (?, ?)")?;
            for copy in copies {
                for old in &copy.replaces {
                    moved.execute(params![*old as i64, number_of(&copy)])?;
                }
            }
            Ok(())
        };
        tell().map_err(|error| sqlite_error_of(&self.place.journal_path(), &error))
    }
}

/// Creates the same tables, which stay empty, for a destination without shards.
pub(super) fn no_numbers(db: &Connection) -> rusqlite::Result<()> {
    db.execute_batch(NUMBERS)
}

/// Shards of the job that fetched objects for a pass.
struct StagedShards {
    folder: ShardFolder,
    snapshot: JournalSnapshot,
}

impl StagedShards {
    fn open(dest: &Path) -> Result<Self> {
        let place = JobLocation::find(dest, None)?;
        let snapshot = JournalSnapshot::read(&place)?;
        let format = Format::from_name(snapshot.part("format"));
        let extension = format.and_then(Format::extension).unwrap_or_default();
        Ok(StagedShards { folder: ShardFolder::new(dest, extension, true), snapshot })
    }
}

/// Moves a file. If the file is missing, it was already moved before the process was killed.
fn move_into(from: &Path, folder: &Path, name: &str) -> Result<()> {
    let to = folder.join(name);
    if !from.exists() && to.exists() {
        return Ok(());
    }
    let fail = |error: rustix::io::Errno| Error::storage("move", from, error);
    let parent = from.parent().unwrap_or(Path::new("."));
    let source = durable::open_folder(parent).map_err(fail)?;
    let target = durable::open_folder(folder).map_err(fail)?;
    let leaf = from.file_name().unwrap_or_default().as_encoded_bytes();
    durable::rename_new(source.as_fd(), leaf, target.as_fd(), name.as_bytes()).map_err(fail)
}
