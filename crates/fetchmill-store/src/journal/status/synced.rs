//! The journal of a destination of shards that a sync keeps: it has the shards, and no targets of its own.
//!
//! What a pass changes is one transaction: shards that come, and shards that they replace. Sequence numbers of objects that
//! were removed are not given again.

use crate::journal::database::schema;
use crate::journal::job::identity::Identity;
use crate::journal::job::opening::{FORGET_TARGETS, PASS, is_synced};
use crate::journal::job::transactions::Journal;
use crate::journal::location::JobLocation;
use crate::journal::shards;
use fetchmill_model::error::Result;
use fetchmill_model::outcome::{SealedShard, ShardNumber, Tally, UnfetchedFile};
use fetchmill_model::target::Sequence;

/// What a pass brings and what it takes.
#[derive(Debug, Default)]
pub struct ShardSwap {
    /// Which pass.
    pub pass: u64,
    /// Shards that come, some of them in the place of others.
    pub sealed: Vec<SealedShard>,
    /// Shards that go.
    pub emptied: Vec<ShardNumber>,
    /// Files of what came in place of objects; those of the pass before have gone.
    pub unfetched: Vec<UnfetchedFile>,
    /// Sequence numbers below this are given then.
    pub next_sequence: Sequence,
}

/// Whether a sync keeps the shards of a destination.
pub fn has_synced_shards(place: &JobLocation) -> Result<bool> {
    let db = schema::open_to_read(&place.journal_path())?;
    is_synced(&db)
        .map_err(|error| crate::journal::database::sqlite_error::error_of(&place.journal_path(), &error))
}

impl Journal {
    /// The last pass that is in it; none when no sync keeps it.
    pub fn last_pass(&self) -> Result<Option<u64>> {
        Ok(self.get(PASS)?.and_then(|pass| pass.parse().ok()))
    }

    /// From now on a sync keeps it: targets without an object are forgotten.
    pub fn keep_for_passes(&mut self, identity: &Identity) -> Result<()> {
        self.begin()?;
        self.check(self.db.execute_batch(FORGET_TARGETS))?;
        self.change_identity(identity)?;
        self.set(PASS, "0")?;
        self.count_shards()?;
        self.finish()?;
        self.commit()
    }

    /// Swaps shards.
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

    /// The tally is what is in the shards.
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
