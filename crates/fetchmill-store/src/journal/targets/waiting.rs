//! The table of targets that wait for a retry for longer than a commit window.

use rusqlite::{OptionalExtension as _, Row, params};

use crate::journal::job::open_journal::Journal;
use fetchmill_model::error::Result;
use fetchmill_model::outcome::{FailureKind, Runs};
use fetchmill_model::planner::origin::Millis;
use fetchmill_model::planner::waiting::DueKey;
use fetchmill_model::target::{Sequence, WaitingTarget};

impl Journal {
    /// Moves targets from their pages to the table, or updates their rows.
    pub fn add_waiting(&mut self, targets: &[WaitingTarget]) -> Result<()> {
        self.begin()?;
        for target in targets {
            self.insert_waiting(target)?;
        }
        let mut sequences: Vec<Sequence> = targets.iter().map(|target| target.sequence).collect();
        self.leave_pages(&Runs::from_unsorted(&mut sequences))
    }

    /// Clears only the bits of the targets, because their rows were just written.
    fn leave_pages(&mut self, sequences: &Runs) -> Result<()> {
        for sequence in sequences.numbers() {
            let Some((&first, page)) = self.live.range_mut(..=sequence).next_back() else { continue };
            if page.holds(first, sequence) && page.clear((sequence - first) as usize) {
                self.store_page(first)?;
            }
        }
        Ok(())
    }

    pub(in crate::journal) fn insert_waiting(&self, target: &WaitingTarget) -> Result<()> {
        let statement = "REPLACE INTO waiting (sequence, name, attempts, kind, not_before, throttled_since)
                         VALUES (?, ?, ?, ?, ?, ?)";
        let mut insert = self.check(self.db.prepare_cached(statement))?;
        self.check(insert.execute(params![
            target.sequence as i64,
            &*target.name,
            target.attempts,
            target.kind.name(),
            target.not_before as i64,
            target.throttled_since as i64
        ]))
        .map(drop)
    }

    /// Returns up to `max` rows in order, starting at a key, and whether these are the last rows.
    pub fn load_waiting(&self, from: DueKey, max: usize) -> Result<(Vec<WaitingTarget>, bool)> {
        let statement = "SELECT sequence, name, attempts, kind, not_before, throttled_since FROM waiting
                         WHERE (not_before, sequence) >= (?, ?) ORDER BY not_before, sequence LIMIT ?";
        let mut query = self.check(self.db.prepare_cached(statement))?;
        let rows = query.query_map(params![from.0 as i64, from.1 as i64, max as i64 + 1], read_row);
        let rows: rusqlite::Result<Vec<WaitingTarget>> = self.check(rows)?.collect();
        let mut rows = self.check(rows)?;
        let complete = rows.len() <= max;
        rows.truncate(max);
        Ok((rows, complete))
    }

    /// Calls `each` with the sequence number of each row.
    pub fn for_each_waiting(&self, mut each: impl FnMut(Sequence)) -> Result<()> {
        let mut query = self.check(self.db.prepare("SELECT sequence FROM waiting"))?;
        let mut rows = self.check(query.query([]))?;
        while let Some(row) = self.check(rows.next())? {
            each(self.check(row.get::<_, i64>(0))? as Sequence);
        }
        Ok(())
    }

    /// Limits the wait of all targets to `longest`, counted from `now`. Both are in milliseconds. Without this limit,
    /// targets would wait longer if the clock is set back.
    pub fn clamp_waiting(&mut self, now: Millis, longest: Millis) -> Result<()> {
        let latest = now.saturating_add(longest) as i64;
        let mut query =
            self.check(self.db.prepare_cached("SELECT 1 FROM waiting WHERE not_before > ? LIMIT 1"))?;
        // Usually, no target waits for that long, and nothing is written or synced.
        if !self.check(query.exists([latest]))? {
            return Ok(());
        }
        drop(query);
        self.begin()?;
        let clamp = "UPDATE waiting SET not_before = ?1, throttled_since = min(throttled_since, ?2) WHERE not_before > ?1";
        self.check(self.db.execute(clamp, [latest, now as i64]))?;
        self.commit()
    }

    /// Returns whether any target waits in the table.
    pub fn has_waiting(&self) -> Result<bool> {
        let row = self.db.query_row("SELECT 1 FROM waiting LIMIT 1", [], |_| Ok(()));
        Ok(self.check(row.optional())?.is_some())
    }
}

fn read_row(row: &Row<'_>) -> rusqlite::Result<WaitingTarget> {
    let kind: String = row.get(3)?;
    Ok(WaitingTarget {
        sequence: row.get::<_, i64>(0)? as Sequence,
        name: row.get::<_, Vec<u8>>(1)?.into_boxed_slice(),
        attempts: row.get(2)?,
        // An unknown kind comes from a newer release. Only the fact that the target waits matters here.
        kind: FailureKind::from_name(&kind).unwrap_or(FailureKind::ServerError),
        not_before: row.get::<_, i64>(4)? as u64,
        throttled_since: row.get::<_, i64>(5)? as u64,
    })
}
