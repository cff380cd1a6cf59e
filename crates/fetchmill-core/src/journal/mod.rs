//! The journal: the job's durable record, a database of `SQLite` that one thread owns.
//!
//! It alone gives sequence numbers. A page is a row with its names; a receipt clears targets in their pages, and a
//! page with none left leaves the table, so the journal stays small. A target that must wait moves to a table of its
//! own, which frees its page. All that is done between [`Journal::begin`] and [`Journal::commit`] is one transaction
//! and one sync: about 20 us of work for a page of a thousand names, so far below a microsecond an object.

mod books;
mod folders;
mod identity;
mod live;
mod place;
mod progress;
mod ranges;
mod repair;
mod schema;
mod shards;
mod status;
mod uploads;
mod waiting;

pub use books::{Books, for_each_pending};
pub use identity::{
    CHECK, DESTINATION, Identity, KEYS, LIST, TRANSFORM, must_be_here, must_have_objects, transform_columns,
    transform_text,
};
pub use place::Place;
pub use progress::{Progress, Saved};
pub use shards::{Shard, read_manifests, read_shards as read_sealed_shards};
pub use status::{FailedFolder, Status, read_failed_folders, read_shards, read_status};

pub use uploads::Upload;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::entry::Traits;
use crate::error::{Error, Result};
use crate::outcome::{KindCounts, Receipt, Runs, ShardEnd, ShardNumber, Tally};
use crate::source::list::ListPosition;
use crate::source::{Cursor, ListedPage};
use crate::target::{Names, Sequence};
use live::LivePage;

/// A page with targets that are not settled: its first sequence number, its names, and which positions.
pub type PendingPage = (Sequence, Names, Vec<Range<usize>>);

/// Where the position of a list stands.
const LIST_POSITION: &str = "list_position";

/// See the module.
#[derive(Debug)]
pub struct Journal {
    db: Connection,
    path: PathBuf,
    /// Pages with targets that are not settled: the window of targets not yet fetched, two commit windows a worker,
    /// a bit a target. 1 million targets are 125 kB.
    live: BTreeMap<Sequence, LivePage>,
    tally: Tally,
    total: Option<u64>,
    next_sequence: Sequence,
    in_transaction: bool,
}

impl Journal {
    /// Opens the journal at a place, or makes one. The place's lock is held by the caller.
    pub fn open(place: &Place, identity: &Identity, is_durable: bool) -> Result<Self> {
        let journal = Self::open_any(place, is_durable)?;
        match journal.get("identity")? {
            None => journal.found(identity)?,
            Some(stored) if identity.equals(&stored) => {}
            Some(_) if !journal.is_begun()? => journal.found_anew(identity)?,
            Some(stored) => identity.must_equal(&stored, &place.dest)?,
        }
        Ok(journal)
    }

    /// Opens the journal at a place, whichever job's it is.
    pub fn open_any(place: &Place, is_durable: bool) -> Result<Self> {
        let path = place.journal_path();
        let check = |error: rusqlite::Error| Self::error(&path, &error);
        let db = schema::open(&path, is_durable).map_err(check)?;
        let version = schema::version(&db).map_err(check)?;
        if version > schema::VERSION {
            return Err(Error::Journal(format!(
                "the journal {} was written by a newer fetchmill (its version is {version}, known here is {}); upgrade",
                path.display(),
                schema::VERSION
            )));
        }
        schema::make_tables(&db).map_err(check)?;
        let (tally, next_sequence) = schema::read_tally(&db).map_err(check)?;
        let live = live::load(&db).map_err(check)?;
        let mut journal =
            Journal { db, path, live, tally, total: None, next_sequence, in_transaction: false };
        journal.total = journal.get("total")?.and_then(|total| total.parse().ok());
        Ok(journal)
    }

    /// Whether anything was listed: the destination belongs to this job from then on.
    pub fn is_begun(&self) -> Result<bool> {
        let is_begun =
            self.tally.listed > 0 || self.get("marker")?.is_some() || self.get("listed_at")?.is_some();
        Ok(is_begun || self.next_sequence > 0)
    }

    /// Makes another job of one that was stopped before anything was listed.
    fn found_anew(&self, identity: &Identity) -> Result<()> {
        let forget = "BEGIN IMMEDIATE; DELETE FROM folders; DELETE FROM job; COMMIT";
        self.check(self.db.execute_batch(forget))?;
        self.found(identity)
    }

    fn found(&self, identity: &Identity) -> Result<()> {
        self.set("started_at", &now_text())?;
        self.set("identity", &identity.to_json())
    }

    fn error(path: &Path, error: &rusqlite::Error) -> Error {
        use rusqlite::ffi;
        let Some(code) = error.sqlite_error().map(|error| error.extended_code) else {
            return Error::Journal(format!("the journal {} cannot be read: {error}", path.display()));
        };
        // SQLite keeps the number only of some failures: a disk without inodes and a process without descriptors are
        // both "cannot open".
        let find = || crate::durable::find_trouble(path.parent()?).map(rustix::io::Errno::raw_os_error);
        let number = match code & 0xff {
            ffi::SQLITE_FULL => libc::ENOSPC,
            ffi::SQLITE_IOERR | ffi::SQLITE_CANTOPEN => find().unwrap_or(libc::EIO),
            ffi::SQLITE_READONLY | ffi::SQLITE_PERM => libc::EROFS,
            _ => {
                let path = path.display();
                return Error::Journal(format!("the journal {path} is damaged or not one: {error}"));
            }
        };
        Error::storage("write the journal", path, std::io::Error::from_raw_os_error(number))
    }

    fn check<T>(&self, result: rusqlite::Result<T>) -> Result<T> {
        result.map_err(|error| Self::error(&self.path, &error))
    }

    /// A fact of the job.
    pub fn get(&self, key: &str) -> Result<Option<String>> {
        let row = self.db.query_row("SELECT value FROM job WHERE key = ?", [key], |row| row.get(0));
        self.check(row.optional())
    }

    /// Sets a fact of the job.
    pub fn set(&self, key: &str, value: &str) -> Result<()> {
        let done = self.db.execute("REPLACE INTO job (key, value) VALUES (?, ?)", [key, value]);
        self.check(done).map(drop)
    }

    /// Sequence numbers below this are given.
    pub fn next_sequence(&self) -> Sequence {
        self.next_sequence
    }

    /// The counters as they are durable, and what is in the open transaction.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// How many objects the listing said that it has.
    pub fn total(&self) -> Option<u64> {
        self.total
    }

    /// Failed targets by kind.
    pub fn kinds(&self) -> Result<KindCounts> {
        self.check(schema::read_kinds(&self.db))
    }

    /// Starts a transaction unless one is open.
    pub fn begin(&mut self) -> Result<()> {
        if !self.in_transaction {
            self.check(self.db.execute_batch("BEGIN IMMEDIATE"))?;
            self.in_transaction = true;
        }
        Ok(())
    }

    /// Makes everything since [`Journal::begin`] durable.
    pub fn commit(&mut self) -> Result<()> {
        if self.in_transaction {
            self.check(schema::write_tally(&self.db, self.tally, self.next_sequence))?;
            self.check(self.db.execute_batch("COMMIT"))?;
            self.in_transaction = false;
        }
        Ok(())
    }

    /// Takes back everything since [`Journal::begin`].
    pub fn roll_back(&mut self) -> Result<()> {
        if self.in_transaction {
            self.check(self.db.execute_batch("ROLLBACK"))?;
            self.in_transaction = false;
            (self.tally, self.next_sequence) = self.check(schema::read_tally(&self.db))?;
            self.live = self.check(live::load(&self.db))?;
        }
        Ok(())
    }

    /// Adds a page and returns its first sequence number.
    pub fn add_page(&mut self, page: &ListedPage) -> Result<Sequence> {
        self.begin()?;
        self.keep_cursor(&page.cursor)?;
        self.keep_total(page.total)?;
        if matches!(page.cursor, Cursor::List { .. }) {
            self.keep_traits(&page.names)?;
        }
        let first = self.next_sequence;
        let count = page.names.len();
        if count > 0 {
            let blob = schema::pack(&page.names.to_blob());
            let blob = blob.map_err(|error| Error::Internal(format!("zstd: {error}")))?;
            let mut insert = self
                .check(self.db.prepare_cached("INSERT INTO pages (first, count, names) VALUES (?, ?, ?)"))?;
            self.check(insert.execute(params![first as i64, count as i64, blob]))?;
            drop(insert);
            self.live.insert(first, LivePage::new(count));
        }
        self.next_sequence += count as u64;
        self.tally.listed += count as u64 + page.skipped;
        self.tally.skipped += page.skipped;
        Ok(first)
    }

    fn keep_total(&mut self, total: Option<u64>) -> Result<()> {
        if let Some(number) = total.filter(|_| total != self.total) {
            self.set("total", &number.to_string())?;
            self.total = total;
        }
        Ok(())
    }

    fn keep_cursor(&mut self, cursor: &Cursor) -> Result<()> {
        match cursor {
            Cursor::Marker { from, next } => {
                if let Some(from) = from {
                    self.check(
                        self.db.execute("REPLACE INTO markers (digest) VALUES (?)", [marker_digest(from)]),
                    )?;
                }
                if let Some(next) = next {
                    let known = self.check(
                        self.db
                            .query_row(
                                "SELECT 1 FROM markers WHERE digest = ?",
                                [marker_digest(next)],
                                |_| Ok(()),
                            )
                            .optional(),
                    )?;
                    if known.is_some() {
                        return Err(Error::Listing(format!(
                            "the listing never ends: the marker {} came before; the server must give each page's \
                             marker once",
                            crate::name::for_display(next.as_bytes())
                        )));
                    }
                    self.set("marker", next)?;
                } else {
                    self.end_listing()?;
                }
                Ok(())
            }
            Cursor::Folder { path, found, refused, read, digest, is_last } => {
                self.check(folders::keep(&self.db, path, found, (*read, *digest), *is_last))?;
                self.refuse_folders(refused)
            }
            Cursor::Keys { range, after, is_last } => {
                let is_complete = self.check(ranges::keep(&self.db, *range, after, *is_last))?;
                if is_complete { self.end_listing() } else { Ok(()) }
            }
            Cursor::List { position, is_last } => {
                self.set(LIST_POSITION, &position.to_text())?;
                if *is_last { self.end_listing() } else { Ok(()) }
            }
        }
    }

    fn keep_traits(&self, entries: &Names) -> Result<()> {
        let known = self.check(schema::read_traits(&self.db))?;
        let traits = entries.iter().fold(known, Traits::and);
        if traits == known { Ok(()) } else { self.set(schema::TRAITS, &traits.to_text()) }
    }

    /// How far a list was read; none before its first page.
    pub fn list_position(&self) -> Result<Option<ListPosition>> {
        let Some(text) = self.get(LIST_POSITION)? else { return Ok(None) };
        let position = ListPosition::from_text(&text);
        position
            .map(Some)
            .ok_or_else(|| Error::Journal(format!("the journal has no position of a list but {text}")))
    }

    /// The listing is complete.
    pub fn end_listing(&self) -> Result<()> {
        if self.get("listed_at")?.is_none() {
            self.set("listed_at", &now_text())?;
        }
        Ok(())
    }

    /// Applies a receipt: its targets are done. A shard that it seals gets its number.
    pub fn settle(&mut self, receipt: &Receipt) -> Result<Option<ShardNumber>> {
        self.begin()?;
        if self.clear(&receipt.settled)? != receipt.settled.count() {
            return Err(Error::Internal("a target was settled twice".into()));
        }
        self.tally.fetched += receipt.tally.fetched;
        self.tally.absent += receipt.tally.absent;
        self.tally.failed += receipt.tally.failed;
        self.tally.skipped += receipt.tally.skipped;
        self.tally.bytes += receipt.tally.bytes;
        self.check(schema::add_kinds(&self.db, &receipt.kinds))?;
        let worker = i64::from(receipt.worker);
        let staged = if receipt.staged.is_empty() {
            self.db.execute("DELETE FROM staged WHERE worker = ?", [worker])
        } else {
            let blob = receipt.staged.to_blob();
            self.db.execute("REPLACE INTO staged (worker, sequences) VALUES (?, ?)", params![worker, blob])
        };
        self.check(staged)?;
        if let Some(shard) = &receipt.failures {
            self.keep_failures(shard)?;
        }
        self.check(shards::apply(&self.db, receipt))
    }

    fn keep_failures(&self, shard: &ShardEnd) -> Result<()> {
        let values = params![shard.path, shard.end as i64, i64::from(shard.crc32c)];
        let done = self.db.execute("REPLACE INTO failures (path, end, crc32c) VALUES (?, ?, ?)", values);
        self.check(done).map(drop)
    }

    /// Clears targets in their pages; those that are pending in none wait in the table. Returns how many were cleared.
    fn clear(&mut self, sequences: &Runs) -> Result<u64> {
        let mut cleared = 0;
        for (start, length) in sequences.iter() {
            let (mut at, end) = (start, start + length);
            while at < end {
                let (next, elsewhere) = self.clear_in_page(at, end)?;
                cleared += next - at - elsewhere.len() as u64;
                for sequence in elsewhere {
                    cleared += self.check(waiting::remove(&self.db, sequence))?;
                }
                at = next;
            }
        }
        Ok(cleared)
    }

    /// Clears targets from a number on, within one page. Returns behind which it stopped and those that were not
    /// pending there.
    fn clear_in_page(&mut self, at: Sequence, end: Sequence) -> Result<(Sequence, Vec<Sequence>)> {
        let home = self.live.range_mut(..=at).next_back().filter(|(first, page)| page.holds(**first, at));
        let Some((&first, page)) = home else { return Ok((at + 1, vec![at])) };
        let end = end.min(first + page.count() as u64);
        let elsewhere = (at..end).filter(|sequence| !page.clear((sequence - first) as usize)).collect();
        self.store_page(first)?;
        Ok((end, elsewhere))
    }

    /// Stores which targets of a page are settled; one that is settled as a whole is forgotten.
    fn store_page(&mut self, first: Sequence) -> Result<()> {
        let Some(page) = self.live.get(&first) else { return Ok(()) };
        self.check(live::store(&self.db, first, page))?;
        if page.is_settled() {
            self.live.remove(&first);
        }
        Ok(())
    }

    /// The next page with targets that are not settled, behind a sequence number: its names and which positions.
    pub fn next_live_page(&self, from: Sequence) -> Result<Option<PendingPage>> {
        let Some((&first, page)) = self.live.range(from..).next() else {
            return Ok(None);
        };
        let names = self.names_of_page(first)?;
        if names.len() != page.count() {
            return Err(self.damaged(first));
        }
        Ok(Some((first, names, page.pending())))
    }

    fn damaged(&self, first: Sequence) -> Error {
        Error::Journal(format!(
            "the journal {} is damaged: page {first} has lost its names",
            self.path.display()
        ))
    }

    fn names_of_page(&self, first: Sequence) -> Result<Names> {
        let row = self.db.query_row("SELECT names FROM pages WHERE first = ?", [first as i64], |row| {
            row.get::<_, Option<Vec<u8>>>(0)
        });
        let blob = self.check(row.optional())?.flatten().ok_or_else(|| self.damaged(first))?;
        let unpacked = schema::unpack(&blob).map_err(|_| self.damaged(first))?;
        Names::from_blob(&unpacked).ok_or_else(|| self.damaged(first))
    }

    /// What was staged when the last run ended: a worker's windows whose objects are to be put in place.
    pub fn staged(&self) -> Result<Vec<(u32, Runs)>> {
        let mut query = self.check(self.db.prepare("SELECT worker, sequences FROM staged"))?;
        let rows = query.query_map([], |row| Ok((row.get::<_, u32>(0)?, row.get::<_, Vec<u8>>(1)?)));
        let rows: rusqlite::Result<Vec<_>> = self.check(rows)?.collect();
        self.check(rows)?
            .into_iter()
            .map(|(worker, blob)| {
                let damaged =
                    || Error::Journal("the journal is damaged: a staged window cannot be read".into());
                Ok((worker, Runs::from_blob(&blob).ok_or_else(damaged)?))
            })
            .collect()
    }

    /// Calls `each` with the name of each of these targets.
    pub fn for_each_name(
        &self,
        sequences: &Runs,
        mut each: impl FnMut(Sequence, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut page: Option<(Sequence, Names)> = None;
        for sequence in sequences.numbers() {
            let home = self.live.range(..=sequence).next_back();
            let home = home.filter(|(first, page)| page.holds(**first, sequence)).map(|(first, _)| *first);
            let in_page = home.is_some_and(|first| {
                self.live.get(&first).is_some_and(|page| page.is_pending((sequence - first) as usize))
            });
            match home.filter(|_| in_page) {
                Some(first) => {
                    if page.as_ref().is_none_or(|(loaded, _)| *loaded != first) {
                        page = Some((first, self.names_of_page(first)?));
                    }
                    if let Some((first, names)) = &page {
                        each(sequence, names.get((sequence - first) as usize))?;
                    }
                }
                None => {
                    if let Some(name) = self.check(waiting::name(&self.db, sequence))? {
                        each(sequence, &name)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Forgets the shards that hold the rows of a check.
    pub fn forget_rows(&mut self) -> Result<()> {
        self.begin()?;
        let done = self.db.execute("DELETE FROM failures", []);
        self.check(done).map(drop)
    }

    /// Failures shards and where they end.
    pub fn failures_shards(&self) -> Result<Vec<ShardEnd>> {
        self.check(status::shards(&self.db))
    }
}

fn marker_digest(marker: &str) -> [u8; 16] {
    xxhash_rust::xxh3::xxh3_128(marker.as_bytes()).to_le_bytes()
}

/// Now, as ISO 8601 in UTC.
fn now_text() -> String {
    let seconds =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    crate::time_text::utc(seconds)
}

#[cfg(test)]
mod tests;
