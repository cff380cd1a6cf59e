//! Applies commit records: marks their targets as finished and removes them from their pages.

use std::ops::Range;

use rusqlite::{OptionalExtension as _, params};

use crate::journal::database::schema;
use crate::journal::job::live;
use crate::journal::job::open_journal::Journal;
use crate::journal::shards;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::outcome::{Receipt, Runs, ShardEnd, ShardNumber};
use fetchmill_model::target::{Names, Sequence};

/// A page with unfinished targets: the sequence number of its first target, all its names, and the positions of the
/// unfinished targets.
pub type PendingPage = (Sequence, Names, Vec<Range<usize>>);

impl Journal {
    /// Applies a commit record, which finishes targets. Returns the number of the shard that it seals.
    pub fn settle(&mut self, receipt: &Receipt) -> Result<Option<ShardNumber>> {
        self.begin()?;
        if self.clear(&receipt.settled)? != receipt.settled.count() {
            return Err(Error::Internal("a target got two outcomes".into()));
        }
        self.settle_requests(&receipt.settled)?;
        self.tally.fetched += receipt.tally.fetched;
        self.tally.absent += receipt.tally.absent;
        self.tally.failed += receipt.tally.failed;
        self.tally.skipped += receipt.tally.skipped;
        self.tally.bytes += receipt.tally.bytes;
        self.check(schema::add_kinds(&self.db, &receipt.kinds))?;
        self.note_skips(&receipt.skips)?;
        self.note_opt_outs(&receipt.skips)?;
        self.check(schema::add_statuses(&self.db, &receipt.statuses))?;
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

    pub(in crate::journal) fn keep_failures(&self, shard: &ShardEnd) -> Result<()> {
        let values = params![&*shard.path, shard.end as i64, i64::from(shard.crc32c)];
        let done = self.db.execute("REPLACE INTO failures (path, end, crc32c) VALUES (?, ?, ?)", values);
        self.check(done).map(drop)
    }

    /// Clears targets in their pages, or removes them from the table of waiting targets. Returns the number of these
    /// targets.
    fn clear(&mut self, sequences: &Runs) -> Result<u64> {
        let mut cleared = 0;
        for (start, length) in sequences.iter() {
            let (mut at, end) = (start, start + length);
            while at < end {
                let (next, elsewhere) = self.clear_in_page(at, end)?;
                cleared += next - at - elsewhere.len() as u64;
                for sequence in elsewhere {
                    cleared += self.check(schema::remove_waiting(&self.db, sequence))?;
                }
                at = next;
            }
        }
        Ok(cleared)
    }

    /// Clears targets within one page, starting at a sequence number. Returns the number after the last target of the
    /// page, and the targets that were not pending in it.
    pub(in crate::journal) fn clear_in_page(
        &mut self,
        at: Sequence,
        end: Sequence,
    ) -> Result<(Sequence, Vec<Sequence>)> {
        let home = self.live.range_mut(..=at).next_back().filter(|(first, page)| page.holds(**first, at));
        let Some((&first, page)) = home else { return Ok((at + 1, vec![at])) };
        let end = end.min(first + page.count() as u64);
        let elsewhere = (at..end).filter(|sequence| !page.clear((sequence - first) as usize)).collect();
        self.store_page(first)?;
        Ok((end, elsewhere))
    }

    /// Stores which targets of a page are finished. Deletes a finished page.
    pub(in crate::journal) fn store_page(&mut self, first: Sequence) -> Result<()> {
        let Some(page) = self.live.get(&first) else { return Ok(()) };
        self.check(live::store(&self.db, first, page))?;
        if page.is_settled() {
            self.live.remove(&first);
        }
        Ok(())
    }

    /// Returns the next page with unfinished targets, starting at a sequence number, and the positions of these
    /// targets.
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
            "the journal {} is damaged: the names of page {first} are missing",
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

    /// Returns the windows that were staged at the end of the last run, by worker. Their objects still have to be moved
    /// into place.
    pub fn staged(&self) -> Result<Vec<(u32, Runs)>> {
        let mut query = self.check(self.db.prepare("SELECT worker, sequences FROM staged"))?;
        let rows = query.query_map([], |row| Ok((row.get::<_, u32>(0)?, row.get::<_, Vec<u8>>(1)?)));
        let rows: rusqlite::Result<Vec<_>> = self.check(rows)?.collect();
        self.check(rows)?
            .into_iter()
            .map(|(worker, blob)| {
                let damaged =
                    || Error::Journal("the journal is damaged: a staged commit window cannot be read".into());
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
                    if let Some(name) = self.check(schema::waiting_name(&self.db, sequence))? {
                        each(sequence, &name)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Discards the shards that contain the rows of a check.
    pub fn forget_rows(&mut self) -> Result<()> {
        self.begin()?;
        let done = self.db.execute("DELETE FROM failures", []);
        self.check(done).map(drop)
    }

    /// Returns the failures shards with their ends.
    pub fn failures_shards(&self) -> Result<Vec<ShardEnd>> {
        self.check(shards::failures(&self.db))
    }
}
