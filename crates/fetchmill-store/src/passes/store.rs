//! The contents of a synced destination, the plan of the current pass, and the lock that keeps other syncs out.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::params;

use super::adopt::{Adoption, adopt, preview};
use super::apply::{Application, ApplyPaths};
use super::conclude::{SyncLedger, conclude};
use super::database::{self, fact};
use super::listing::ListedNames;
use super::placed_files::PlacedFiles;
use super::plan::{self, PlanCounts, PlanOptions, PlanPlace, PlannedAction};
use super::rewrites::{RewritePaths, Rewrites};
use super::synced_shards::{NextNumbers, SyncedShards, no_numbers};
use super::{outcomes, requests};
use crate::durable;
use crate::journal::{JobLocation, JobLock, has_synced_shards, sqlite_error_of};
use crate::sink::Format;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::name::STATE_FOLDER;

/// Summary of the base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseSummary {
    /// Number of the last pass. 0 if the destination was taken over from a job.
    pub pass: u64,
    /// Source of the targets.
    pub source: String,
    /// Filters that select the targets.
    pub filters: String,
    /// Number of objects in the destination.
    pub objects: u64,
    /// Results of the last pass, as JSON.
    pub ledger: Option<String>,
}

/// An object that the last pass could not update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassFailure {
    /// Name of the object.
    pub name: Vec<u8>,
    /// `absent`, `failed` or `not_removed`.
    pub outcome: String,
    /// The failure kind.
    pub kind: Option<String>,
    /// Description of the problem.
    pub detail: Option<String>,
}

/// Destination of a sync, and the format of its objects.
#[derive(Debug, Clone)]
pub struct SyncDestination {
    /// The folder.
    pub path: PathBuf,
    /// Format of the objects: files or shards.
    pub format: Format,
    /// Shard size in bytes. `None` means the default of the format.
    pub shard_bytes: Option<u64>,
    /// Whether the folder may contain files that neither a job nor a sync wrote.
    pub accepts_foreign: bool,
}

/// See the [module documentation](self).
pub struct SyncStore {
    dest: PathBuf,
    format: Format,
    /// `None` if objects are stored as files, or in a dry run.
    shards: Option<SyncedShards>,
    /// State folder below the destination.
    folder: PathBuf,
    /// Folder that contains the plan: the state folder, or `scratch`.
    plan_folder: PathBuf,
    is_scratch: bool,
    rewrites: Option<Rewrites>,
    application: Option<Application>,
    /// `None` in a dry run.
    lock: Option<JobLock>,
}

impl std::fmt::Debug for SyncStore {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SyncStore").field("dest", &self.dest).finish_non_exhaustive()
    }
}

impl SyncStore {
    /// Opens the destination of a sync, creating it if it is missing. With `scratch`, nothing in the destination
    /// changes, and plans are written to that folder.
    pub fn open(destination: &SyncDestination, scratch: Option<&Path>) -> Result<Self> {
        let SyncDestination { path: dest, format, shard_bytes, accepts_foreign } = destination;
        let folder = dest.join(STATE_FOLDER).join("sync");
        let lock = match scratch {
            None => Some(JobLocation::prepare_synced(dest, &folder, *accepts_foreign)?),
            Some(_) => None,
        };
        let has_shards = format.extension().is_some() && scratch.is_none();
        let take = || Ok(SyncedShards::new(JobLocation::take_for_sync(dest)?, *format, *shard_bytes));
        Ok(SyncStore {
            dest: dest.clone(),
            format: *format,
            shards: has_shards.then(take).transpose()?,
            plan_folder: scratch.map_or_else(|| folder.clone(), Path::to_owned),
            folder,
            is_scratch: scratch.is_some(),
            rewrites: None,
            application: None,
            lock,
        })
    }

    /// Returns the path of the base. In a dry run, the scratch folder contains the base of a job that would be taken
    /// over.
    fn base_path(&self) -> PathBuf {
        let preview = self.plan_folder.join("base.sqlite");
        if self.is_scratch && preview.exists() { preview } else { self.folder.join("base.sqlite") }
    }

    fn plan_path(&self) -> PathBuf {
        self.plan_folder.join("pass.sqlite")
    }

    fn outcomes_path(&self) -> PathBuf {
        self.plan_folder.join("outcomes.sqlite")
    }

    fn copies_path(&self) -> PathBuf {
        self.plan_folder.join("copies.sqlite")
    }

    fn must_change(&self) -> Result<()> {
        if self.is_scratch {
            return Err(Error::Internal("a dry run changes nothing".into()));
        }
        self.must_be_ours()
    }

    /// Fails with exit code 9 if another sync has taken over the destination.
    fn must_be_ours(&self) -> Result<()> {
        self.lock.as_ref().map_or(Ok(()), JobLock::must_be_ours)
    }

    /// Returns the summary of the base. `None` before the first pass.
    pub fn base(&self) -> Result<Option<BaseSummary>> {
        let path = self.base_path();
        let db = database::look_at_base(&path)?;
        let read = || -> rusqlite::Result<Option<BaseSummary>> {
            let Some(pass) = fact(&db, "pass")? else { return Ok(None) };
            let objects = db.query_row("SELECT count(*) FROM objects", [], |row| row.get::<_, i64>(0))?;
            Ok(Some(BaseSummary {
                pass: pass.parse().unwrap_or_default(),
                source: fact(&db, "source")?.unwrap_or_default(),
                filters: fact(&db, "filters")?.unwrap_or_default(),
                objects: objects as u64,
                ledger: fact(&db, "ledger")?,
            }))
        };
        read().map_err(|error| sqlite_error_of(&path, &error))
    }

    /// Returns whether the destination belongs to a `get` job.
    pub fn has_job(&self) -> Result<bool> {
        if !self.dest.join(STATE_FOLDER).join("job.sqlite").exists() {
            return Ok(false);
        }
        Ok(!has_synced_shards(&JobLocation::find(&self.dest, None)?)?)
    }

    /// Takes over the objects that the `get` job stored, and returns their number. With `scratch`, the job stays
    /// unchanged.
    pub fn adopt(&self, source: &str, filters: &str) -> Result<u64> {
        if self.is_scratch {
            let place = JobLocation::look(&self.dest, None)?;
            let base = self.plan_folder.join("base.sqlite");
            return preview(&Adoption { place: &place, format: self.format, base: &base, source, filters });
        }
        self.must_change()?;
        let base = self.base_path();
        let adopt = |place: &JobLocation| {
            adopt(&Adoption { place, format: self.format, base: &base, source, filters })
        };
        match &self.shards {
            Some(shards) => adopt(shards.place()),
            None => adopt(&JobLocation::take_for_sync(&self.dest)?),
        }
    }

    /// Returns the numbers with which the job of the next pass starts. `None` if objects are stored as files.
    pub fn next_numbers(&self) -> Result<Option<NextNumbers>> {
        self.shards.as_ref().map(SyncedShards::next_numbers).transpose()
    }

    /// Returns whether an unfinished pass has left a plan.
    pub fn has_plan(&self) -> Result<bool> {
        if !self.plan_path().exists() {
            return Ok(false);
        }
        let last = self.base()?.map_or(0, |base| base.pass);
        Ok(plan::describe(&self.plan_path())?.0.number > last)
    }

    /// Compares a listing with the base.
    pub fn plan(&mut self, listing: &Path, options: &PlanOptions) -> Result<PlanCounts> {
        self.must_be_ours()?;
        self.application = None;
        let base = database::look_at_base(&self.base_path())?;
        let path = self.plan_path();
        let fail = |error: rusqlite::Error| sqlite_error_of(&self.base_path(), &error);
        let of_bytes = database::has_byte_names(&base).map_err(fail)?;
        let are_decoded = of_bytes && database::has_decoded_names(&base).map_err(fail)?;
        let names = ListedNames { of_urls: self.format != Format::Files, are_decoded, of_bytes };
        let options = PlanOptions { byte_names: of_bytes, decoded_names: are_decoded, ..options.clone() };
        let is_dry_of_files = self.is_scratch && self.format == Format::Files;
        let place = PlanPlace { path: &path, dest: &self.dest, names, is_dry_of_files };
        plan::make(&place, &base, listing, &options)
    }

    /// Returns the counts of the current plan.
    pub fn planned(&self) -> Result<PlanCounts> {
        Ok(plan::describe(&self.plan_path())?.1)
    }

    /// Returns up to `count` names for which this action is planned, in order, starting after `after`.
    pub fn names(&self, action: PlannedAction, after: Option<&[u8]>, count: usize) -> Result<Vec<Vec<u8>>> {
        plan::names(&self.plan_path(), action, after, count)
    }

    /// Writes the list of requests and returns the number of rows.
    pub fn write_requests(&self, path: &Path) -> Result<u64> {
        requests::write(&self.plan_path(), path)
    }

    /// Prepares the changes for up to `time`. Returns whether all of them are prepared. The destination stays
    /// unchanged.
    pub fn prepare(&mut self, fetched: Option<&Path>, time: Duration) -> Result<bool> {
        self.must_change()?;
        let outcomes = self.outcomes_path();
        if !outcomes.exists() {
            outcomes::gather(fetched, &outcomes)?;
        }
        let begun = self.rewrites.take();
        let Some(shards) = self.shards.as_ref().filter(|_| !self.copies_path().exists()) else {
            return Ok(true);
        };
        let mut making = begun.map_or_else(|| self.begin_rewrites(shards), Ok)?;
        if making.work(time)? {
            making.finish()?;
            return Ok(true);
        }
        self.rewrites = Some(making);
        Ok(false)
    }

    fn begin_rewrites(&self, shards: &SyncedShards) -> Result<Rewrites> {
        let (base, plan) = (self.base_path(), self.plan_path());
        let (outcomes, copies) = (self.outcomes_path(), self.copies_path());
        let paths = RewritePaths { base: &base, plan: &plan, outcomes: &outcomes, copies: &copies };
        Rewrites::begin(&paths, shards)
    }

    /// Applies the objects of the finished job in `fetched`, for up to `time`. Returns whether all of them are applied.
    pub fn apply(&mut self, fetched: Option<&Path>, overwrites_local: bool, time: Duration) -> Result<bool> {
        self.must_change()?;
        let mut application = match self.application.take() {
            Some(application) => application,
            None => self.begin_application(fetched, overwrites_local)?,
        };
        let is_done = application.work(time)?;
        self.application = Some(application);
        Ok(is_done)
    }

    fn begin_application(&self, fetched: Option<&Path>, overwrites_local: bool) -> Result<Application> {
        let (base, plan, outcomes) = (self.base_path(), self.plan_path(), self.outcomes_path());
        let copies = self.copies_path();
        let files = match &self.shards {
            None => Some(PlacedFiles::open(&self.dest, fetched, overwrites_local)?),
            Some(shards) => {
                let (options, _) = plan::describe(&plan)?;
                shards.swap(&options, fetched, &copies)?;
                None
            }
        };
        let paths = ApplyPaths { base: &base, plan: &plan, outcomes: &outcomes };
        let application = Application::begin(&paths, files)?;
        match &self.shards {
            None => no_numbers(&application.db).map_err(|error| sqlite_error_of(&base, &error))?,
            Some(shards) => shards.tell_numbers(&application.db, fetched, &copies)?,
        }
        Ok(application)
    }

    /// Returns how many planned objects have been applied, and how many there are in total.
    pub fn progress(&self) -> Result<(u64, u64)> {
        let counts = self.planned()?;
        let total = counts.fetch + counts.ask + counts.remove + counts.local + counts.without_url;
        Ok((self.application.as_ref().map_or(0, Application::done), total))
    }

    /// Ends the pass.
    pub fn conclude(&mut self) -> Result<SyncLedger> {
        self.must_change()?;
        let Some(application) = self.application.take() else {
            return Err(Error::Internal("the pass was concluded before it was applied".into()));
        };
        let (options, counts) = plan::describe(&self.plan_path())?;
        let ledger = conclude(&application.db, &self.base_path(), &options, &counts)?;
        drop(application);
        self.discard()?;
        Ok(ledger)
    }

    /// Returns the objects that the last pass could not update, starting after `after`.
    pub fn failures(&self, after: Option<&[u8]>, count: usize) -> Result<Vec<PassFailure>> {
        let path = self.base_path();
        let db = database::look_at_base(&path)?;
        let read = || -> rusqlite::Result<Vec<PassFailure>> {
            let mut query = db.prepare(
                "SELECT name, outcome, kind, detail FROM failures
                 WHERE ?1 IS NULL OR name > ?1 ORDER BY name LIMIT ?2",
            )?;
            let rows = query.query_map(params![after, count as i64], |row| {
                Ok(PassFailure {
                    name: row.get(0)?,
                    outcome: row.get(1)?,
                    kind: row.get(2)?,
                    detail: row.get(3)?,
                })
            })?;
            rows.collect()
        };
        read().map_err(|error| sqlite_error_of(&path, &error))
    }

    /// Discards the plan.
    pub fn discard(&mut self) -> Result<()> {
        self.must_be_ours()?;
        (self.rewrites, self.application) = (None, None);
        for path in [self.plan_path(), self.outcomes_path(), self.copies_path()] {
            durable::remove_path(&path).map_err(|error| Error::storage("remove", path, error))?;
        }
        Ok(())
    }
}
