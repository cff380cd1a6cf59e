//! Changes that a repair makes: lost objects wait for a retry, and damaged shards are removed from the journal. All
//! changes are part of the caller's transaction, so that a crash leaves either all of them or none.

use rusqlite::params;

use crate::journal::job::open_journal::Journal;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::outcome::{FailureKind, SealedShard, ShardNumber};
use fetchmill_model::target::{Sequence, WaitingTarget};

impl Journal {
    /// Makes a target wait again, due immediately, because its object was fetched but is lost. The object is no longer
    /// counted. `entry` is the target's original entry in its page.
    pub fn plan_again(&mut self, sequence: Sequence, entry: &[u8], length: u64) -> Result<()> {
        self.begin()?;
        let contradiction =
            || Error::Journal(format!("the journal {} counts too few objects", self.path.display()));
        let fetched = self.tally.fetched.checked_sub(1).ok_or_else(contradiction)?;
        let bytes = self.tally.bytes.checked_sub(length).ok_or_else(contradiction)?;
        self.insert_waiting(&WaitingTarget {
            sequence,
            name: entry.into(),
            attempts: 0,
            // The failure kind says why a target waits. Lost objects have no kind of their own, and `truncated` comes
            // closest.
            kind: FailureKind::Truncated,
            not_before: 0,
            throttled_since: 0,
        })?;
        (self.tally.fetched, self.tally.bytes) = (fetched, bytes);
        self.reopen()
    }

    /// Replaces a sealed shard with another one, or just removes it. The old file is removed after the transaction.
    pub fn replace_shard(
        &mut self,
        number: ShardNumber,
        by: Option<&SealedShard>,
    ) -> Result<Option<ShardNumber>> {
        self.begin()?;
        let new = by.map(|sealed| crate::journal::shards::seal(&self.db, sealed)).transpose();
        let new = self.check(new)?;
        let values = params![new.unwrap_or(number) as i64 + 1, number as i64 + 1];
        let done = self.db.execute("UPDATE shards SET replaced_by = ? WHERE number = ?", values);
        self.check(done)?;
        Ok(new)
    }

    /// Discards a shard that was left open.
    pub fn forget_open_shard(&mut self, path: &str) -> Result<()> {
        self.begin()?;
        let done = self.db.execute("DELETE FROM open_shards WHERE path = ?", [path]);
        self.check(done).map(drop)
    }
}
