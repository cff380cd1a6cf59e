//! What a repair changes: objects that are lost wait for another attempt, and what held them is forgotten. All of it
//! stands in the transaction that the caller has begun, so a crash leaves either state.

use rusqlite::params;

use crate::journal::job::transactions::Journal;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::outcome::{FailureKind, SealedShard, ShardNumber};
use fetchmill_model::target::{Sequence, WaitingTarget};

impl Journal {
    /// A fetched object is lost: its target waits as it stood in its page, due at once, and is no longer counted.
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
            // It says why a target waits; that its object was cut off is what is nearest.
            kind: FailureKind::Truncated,
            not_before: 0,
            throttled_since: 0,
        })?;
        (self.tally.fetched, self.tally.bytes) = (fetched, bytes);
        self.reopen()
    }

    /// Another shard takes the place of a sealed one, or none does; its file is removed behind the transaction.
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

    /// A shard that was left open does not count any more.
    pub fn forget_open_shard(&mut self, path: &str) -> Result<()> {
        self.begin()?;
        let done = self.db.execute("DELETE FROM open_shards WHERE path = ?", [path]);
        self.check(done).map(drop)
    }
}
