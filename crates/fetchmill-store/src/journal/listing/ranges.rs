//! The table of ranges of keys that are not listed to their end: the cursor of a bucket's listing.

use rusqlite::{Connection, params};

use crate::journal::job::transactions::Journal;
use fetchmill_model::error::Result;
use fetchmill_model::source::KeyRange;

impl Journal {
    /// The first run begins with all keys as one range; a later one goes on with what is left.
    pub fn start_ranges(&mut self) -> Result<Vec<KeyRange>> {
        if self.get("walk")?.is_none() {
            self.begin()?;
            let all = "INSERT INTO key_ranges (id, after, until) VALUES (0, x'', NULL)";
            self.check(self.db.execute(all, []))?;
            self.set("walk", "started")?;
            self.commit()?;
        }
        let mut query = self.check(self.db.prepare("SELECT id, after, until FROM key_ranges ORDER BY id"))?;
        let rows = query.query_map([], |row| {
            Ok(KeyRange { id: row.get::<_, i64>(0)? as u64, after: row.get(1)?, until: row.get(2)? })
        });
        self.check(self.check(rows)?.collect())
    }

    /// What is behind `at` in a range becomes one of its own.
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

/// Stores how far a range is listed. Behind the last one the listing is complete, which is returned.
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
