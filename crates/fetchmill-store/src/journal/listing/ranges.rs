//! The cursor of a bucket's listing: either the key ranges that are not completely listed, or the token of the next
//! page.

use rusqlite::{Connection, params};

use super::MARKER;
use crate::journal::job::open_journal::Journal;
use fetchmill_model::error::Result;
use fetchmill_model::source::{BucketCursor, KeyRange};

/// Key that exists for jobs that list folders or keys. Its value marks buckets whose keys do not ascend.
const WALK: &str = "walk";
const BY_TOKENS: &str = "tokens";

impl Journal {
    /// Returns the position of a bucket's listing. The first run starts with a single range of all keys, or with the
    /// first page if the keys are known not to ascend.
    pub fn start_bucket(&mut self, ascends: bool) -> Result<BucketCursor> {
        match self.get(WALK)?.as_deref() {
            Some(BY_TOKENS) => return Ok(BucketCursor::Token(self.get(MARKER)?)),
            Some(_) => {}
            None if ascends => {
                self.begin()?;
                self.add_whole_range()?;
                self.set(WALK, "started")?;
                self.commit()?;
            }
            None => {
                self.follow_tokens(None)?;
                self.commit()?;
                return Ok(BucketCursor::Token(None));
            }
        }
        Ok(BucketCursor::Ranges(self.ranges()?))
    }

    fn ranges(&self) -> Result<Vec<KeyRange>> {
        let mut query = self.check(self.db.prepare("SELECT id, after, until FROM key_ranges ORDER BY id"))?;
        let rows = query.query_map([], |row| {
            Ok(KeyRange { id: row.get::<_, i64>(0)? as u64, after: row.get(1)?, until: row.get(2)? })
        });
        self.check(self.check(rows)?.collect())
    }

    fn add_whole_range(&self) -> Result<()> {
        let all = "INSERT INTO key_ranges (id, after, until) VALUES (0, x'', NULL)";
        self.check(self.db.execute(all, [])).map(drop)
    }

    /// Switches the listing to the store's tokens. Token `from` leads to the next page.
    pub fn follow_tokens(&mut self, from: Option<&str>) -> Result<()> {
        self.begin()?;
        self.check(self.db.execute("DELETE FROM key_ranges", []))?;
        // Older releases do not support tokens, and would consider a listing without ranges complete.
        self.add_whole_range()?;
        self.set(WALK, BY_TOKENS)?;
        match from {
            Some(token) => self.set(MARKER, token),
            None => self.forget(MARKER),
        }
    }

    /// Splits a range at `at`. The keys after `at` become a range of their own.
    pub fn split_range(&mut self, range: u64, at: &[u8], behind: u64) -> Result<()> {
        self.begin()?;
        let insert =
            "INSERT INTO key_ranges (id, after, until) SELECT ?, ?, until FROM key_ranges WHERE id = ?";
        self.check(self.db.execute(insert, params![behind as i64, at, range as i64]))?;
        let update = "UPDATE key_ranges SET until = ? WHERE id = ?";
        self.check(self.db.execute(update, params![at, range as i64]))?;
        Ok(())
    }
}

/// Stores how far a range was listed. Returns whether this completes the listing because no other range is left.
pub(in crate::journal) fn keep(
    db: &Connection,
    range: u64,
    after: &[u8],
    is_last: bool,
) -> rusqlite::Result<bool> {
    if !is_last {
        let mut update = db.prepare_cached("UPDATE key_ranges SET after = ? WHERE id = ?")?;
        update.execute(params![after, range as i64])?;
        return Ok(false);
    }
    db.execute("DELETE FROM key_ranges WHERE id = ?", [range as i64])?;
    db.query_row("SELECT NOT EXISTS (SELECT 1 FROM key_ranges)", [], |row| row.get(0))
}
