//! The journal of a sharded destination that a sync maintains. It records shards but no targets.
//!
//! All changes that a pass makes are a single transaction, which contains the new shards and the shards that they
//! replace. Sequence numbers of removed objects are not reused.

use crate::journal::database::schema;
use crate::journal::job::identity::Identity;
use crate::journal::job::open_journal::Journal;
use crate::journal::job::opening::{FORGET_TARGETS, PASS, is_synced};
use crate::journal::location::JobLocation;
use crate::journal::shards;
use fetchmill_model::error::Result;
use fetchmill_model::outcome::{SealedShard, ShardNumber, Tally, UnfetchedFile};
use fetchmill_model::target::Sequence;

/// Changes that a pass makes to the shards.
#[derive(Debug, Default)]
pub struct ShardSwap {
    /// Number of the pass.
    pub pass: u64,
    /// New shards. Some of them replace existing ones.
    pub sealed: Vec<SealedShard>,
    /// Shards to remove.
    pub emptied: Vec<ShardNumber>,
    /// Files with the replies that arrived in place of objects. They replace those of the previous pass.
    pub unfetched: Vec<UnfetchedFile>,
    /// Next sequence number after these changes.
    pub next_sequence: Sequence,
}

/// Returns whether a sync maintains the shards of a destination.
pub fn has_synced_shards(place: &JobLocation) -> Result<bool> {
    let db = schema::open_to_read(&place.journal_path())?;
    is_synced(&db)
        .map_err(|error| crate::journal::database::sqlite_error::error_of(&place.journal_path(), &error))
}

impl Journal {
    /// Returns the last pass that the journal records. `None` if no sync maintains the destination.
    pub fn last_pass(&self) -> Result<Option<u64>> {
        Ok(self.get(PASS)?.and_then(|pass| pass.parse().ok()))
    }

    /// Hands the destination over to a sync. Discards the targets that have no object.
    pub fn keep_for_passes(&mut self, identity: &Identity) -> Result<()> {
        self.begin()?;
        self.check(self.db.execute_batch(FORGET_TARGETS))?;
        self.change_identity(identity)?;
        self.set(PASS, "0")?;
        self.count_shards()?;
        self.finish()?;
        self.commit()
    }

    /// Applies the changes that a pass makes to the shards.
    pub fn swap_shards(&mut self, swap: &ShardSwap) -> Result<()> {
        self.begin()?;
        for sealed in &swap.sealed {
            self.check(shards::seal(&self.db, sealed))?;
        }
        for number in &swap.emptied {
            self.replace_shard(*number, None)?;
        }
        self.next_sequence = self.next_sequence.max(swap.next_sequence);
        self.set(PASS, &swap.pass.to_string())?;
        self.set_unfetched(&swap.unfetched)?;
        self.count_shards()?;
        self.commit()
    }

    /// Sets the counts to the contents of the shards.
    fn count_shards(&mut self) -> Result<()> {
        let query =
            "SELECT coalesce(sum(objects), 0), coalesce(sum(bytes), 0) FROM shards WHERE replaced_by IS NULL";
        let counted = self.db.query_row(query, [], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)));
        let (objects, bytes) = self.check(counted)?;
        self.tally = Tally {
            listed: objects as u64,
            fetched: objects as u64,
            bytes: bytes as u64,
            ..Tally::default()
        };
        Ok(())
    }
}
