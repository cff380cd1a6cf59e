//! Rewrites shards of a destination before a pass changes anything. This removes objects that were fetched again or are
//! gone, and merges small shards.
//!
//! The new shards are written to the folder of open shards. A separate file describes them and the shards that they
//! replace. The separate file is either complete or absent. If it is absent, all rewrites are repeated.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension as _, params};

use super::copies::CopiesWriter;
use super::database;
use super::plan::PlannedAction;
use super::synced_shards::SyncedShards;
use crate::journal::{Shard, sqlite_error_of};
use crate::reader::verify::check_prefix;
use crate::reader::{CopiedRows, ShardReader, copy_shard};
use crate::sink::{Format, ShardFolder, ShardSize, SmallShards};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits;
use fetchmill_model::name::for_display;
use fetchmill_model::outcome::ShardNumber;
use fetchmill_model::target::extra_columns::ExtraColumns;

/// Objects that will be removed from their shards.
const DROPPED: &str = "
CREATE TEMP TABLE dropped (name BLOB PRIMARY KEY, shard INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO temp.dropped SELECT p.name, b.shard FROM plan.planned p JOIN main.objects b ON b.name = p.name
LEFT JOIN outcome.fetched f ON f.name = p.name
WHERE b.shard IS NOT NULL AND (f.name IS NOT NULL OR p.action = ";

/// See the [module documentation](self).
pub(super) struct Rewrites {
    /// The base, with the plan and the outcomes attached.
    db: Connection,
    base: std::path::PathBuf,
    made: CopiesWriter,
    shard_folder: ShardFolder,
    format: Format,
    columns: ExtraColumns,
    groups: VecDeque<RewriteGroup>,
}

/// Shards that are replaced by the same copy.
struct RewriteGroup {
    shards: Vec<Shard>,
    /// Number of objects that the copy must contain.
    objects: u64,
}

/// Files that rewrites use.
pub(super) struct RewritePaths<'p> {
    pub(super) base: &'p Path,
    pub(super) plan: &'p Path,
    pub(super) outcomes: &'p Path,
    /// File that describes the rewritten shards.
    pub(super) copies: &'p Path,
}

impl Rewrites {
    /// Determines which shards to rewrite. Discards the unfinished work of an earlier run.
    pub(super) fn begin(paths: &RewritePaths<'_>, kept: &SyncedShards) -> Result<Self> {
        let shard_folder = kept.shard_folder();
        shard_folder.prepare()?;
        shard_folder.clear_open("")?;
        let db = database::look_at_base(paths.base)?;
        database::attach(&db, paths.plan, "plan")?;
        database::attach(&db, paths.outcomes, "outcome")?;
        let fail = |error: rusqlite::Error| sqlite_error_of(paths.base, &error);
        db.execute_batch(&format!("{DROPPED} {})", PlannedAction::Remove as i64)).map_err(fail)?;
        let dropped = count_dropped(&db).map_err(fail)?;
        let mut rewrites = Rewrites {
            db,
            base: paths.base.to_owned(),
            made: CopiesWriter::create(paths.copies)?,
            shard_folder,
            format: kept.format(),
            columns: kept.columns()?,
            groups: VecDeque::new(),
        };
        rewrites.choose(kept, &dropped)?;
        Ok(rewrites)
    }

    fn choose(&mut self, kept: &SyncedShards, dropped: &BTreeMap<ShardNumber, u64>) -> Result<()> {
        let mut untouched = BTreeMap::new();
        for shard in kept.shards()? {
            let objects = shard.sealed.objects;
            match dropped.get(&shard.number) {
                None => drop(untouched.insert(shard.number, shard)),
                Some(count) if *count == objects => self.made.note_replaced(shard.number, None)?,
                Some(count) => {
                    let objects = objects.checked_sub(*count).ok_or_else(|| contradiction(&self.base))?;
                    self.groups.push_back(RewriteGroup { shards: vec![shard], objects });
                }
            }
        }
        let size = |shard: &Shard| ShardSize {
            number: shard.number,
            bytes: shard.sealed.data.end,
            rows: shard.sealed.objects,
        };
        let sizes = untouched.values().map(size).collect();
        let mut small = SmallShards::new(kept.shard_bytes(), limits::shard_rows_max(1), sizes);
        while let Some(numbers) = small.next_merge(false) {
            let shards: Vec<_> = numbers.iter().filter_map(|number| untouched.remove(number)).collect();
            let objects = shards.iter().map(|shard| shard.sealed.objects).sum();
            self.groups.push_back(RewriteGroup { shards, objects });
        }
        Ok(())
    }

    /// Works for up to `time`. Returns whether everything is done and durable.
    pub(super) fn work(&mut self, time: Duration) -> Result<bool> {
        let started = Instant::now();
        while let Some(group) = self.groups.pop_front() {
            self.copy(&group)?;
            if started.elapsed() >= time && !self.groups.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes the description of the new shards. From then on, they are valid.
    pub(super) fn finish(self) -> Result<()> {
        self.made.finish()
    }

    fn copy(&self, group: &RewriteGroup) -> Result<()> {
        let mut copy = None;
        for shard in &group.shards {
            let reader = ShardReader::open(&self.shard_folder, self.format, shard)?;
            // The checksum of a body does not cover the other fields of its record.
            check_prefix(reader.path(), &shard.sealed.data).map_err(|why| damaged(reader.path(), &why))?;
            let mut wanted = Wanted { db: &self.db, base: &self.base, shard: shard.number, reader: &reader };
            copy = copy_shard(&self.shard_folder, &self.columns, &reader, &mut wanted, copy)?;
        }
        let copy = copy.ok_or_else(|| contradiction(&self.base))?.seal(Vec::new())?;
        // Check this before the copy can cause any removal.
        if copy.objects != group.objects {
            return Err(contradiction(&self.base));
        }
        let id = self.made.note_copy(&copy)?;
        group.shards.iter().try_for_each(|shard| self.made.note_replaced(shard.number, Some(id)))
    }
}

fn contradiction(base: &Path) -> Error {
    Error::Internal(format!(
        "{} does not match the contents of the shards; nothing was changed; check with `fetchmill verify`",
        base.display()
    ))
}

fn damaged(shard: &Path, why: &str) -> Error {
    Error::Journal(format!(
        "{} is damaged: {why}; nothing was changed; see what is lost with `fetchmill verify`, or fetch \
         everything again with --refetch",
        shard.display()
    ))
}

fn count_dropped(db: &Connection) -> rusqlite::Result<BTreeMap<ShardNumber, u64>> {
    let mut query = db.prepare("SELECT shard, count(*) FROM temp.dropped GROUP BY shard")?;
    let rows = query.query_map([], |row| Ok((row.get::<_, i64>(0)? as _, row.get::<_, i64>(1)? as u64)))?;
    rows.collect()
}

/// Decides which objects of a shard to keep.
struct Wanted<'w> {
    db: &'w Connection,
    base: &'w Path,
    shard: ShardNumber,
    reader: &'w ShardReader,
}

impl CopiedRows for Wanted<'_> {
    fn is_left_out(&mut self, _: u64, name: &[u8]) -> Result<bool> {
        let look = || {
            let mut query =
                self.db.prepare_cached("SELECT 1 FROM temp.dropped WHERE name = ? AND shard = ?")?;
            query.query_row(params![name, self.shard as i64], |_| Ok(())).optional()
        };
        look().map(|found| found.is_some()).map_err(|error| sqlite_error_of(self.base, &error))
    }

    fn note_damaged(&mut self, _: u64, name: &[u8], what: String) -> Result<()> {
        Err(damaged(self.reader.path(), &format!("`{}`: {what}", for_display(name))))
    }
}
