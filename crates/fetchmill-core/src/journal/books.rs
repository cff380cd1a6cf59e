//! What a journal says of its objects, all at once: for whoever proves it against what is stored.

use rusqlite::Connection;

use super::{Journal, Place, Shard, live, schema, shards, status};
use crate::entry::Traits;
use crate::error::Result;
use crate::outcome::{OpenShard, ShardEnd, Tally};
use crate::target::Sequence;

/// A job's books. They are read while nobody writes them: see [`Place::look`].
#[derive(Debug, Clone)]
pub struct Books {
    /// The parts of its identity.
    pub identity: std::collections::BTreeMap<String, String>,
    /// What the entries of its list were like.
    pub traits: Traits,
    /// The counters.
    pub tally: Tally,
    /// Sequence numbers below this are given.
    pub next_sequence: Sequence,
    /// Folders that gave no listing: they are listed and failed, and have no sequence number.
    pub failed_folders: u64,
    /// Sealed shards by number, those to be removed left out.
    pub shards: Vec<Shard>,
    /// Shards that the last run left open.
    pub open_shards: Vec<OpenShard>,
    /// What `files` has written down of its objects.
    pub manifests: Vec<ShardEnd>,
    /// Failures shards.
    pub failures: Vec<ShardEnd>,
}

impl Books {
    /// Reads them.
    pub fn read(place: &Place) -> Result<Self> {
        let path = place.journal_path();
        let read = || -> rusqlite::Result<Books> {
            let db = schema::open_to_read(&path)?;
            let (tally, next_sequence) = schema::read_tally(&db)?;
            let mut shards = shards::sealed(&db)?;
            shards.retain(|shard| !shard.is_replaced);
            Ok(Books {
                identity: status::identity(&db)?,
                traits: schema::read_traits(&db)?,
                tally,
                next_sequence,
                failed_folders: count(&db, "SELECT count(*) FROM failed_folders")?,
                shards,
                open_shards: shards::open(&db)?,
                manifests: shards::manifests(&db)?,
                failures: status::shards(&db)?,
            })
        };
        read().map_err(|error| Journal::error(&path, &error))
    }

    /// A part of the identity; empty when there is none.
    pub fn part(&self, name: &str) -> &str {
        self.identity.get(name).map_or("", String::as_str)
    }
}

fn count(db: &Connection, query: &str) -> rusqlite::Result<u64> {
    db.query_row(query, [], |row| row.get::<_, i64>(0)).map(|count| count as u64)
}

/// Calls `each` with every target that has no outcome: those in pages, then those that wait.
pub fn for_each_pending(place: &Place, mut each: impl FnMut(Sequence) -> Result<()>) -> Result<()> {
    let path = place.journal_path();
    let check = |error: rusqlite::Error| Journal::error(&path, &error);
    let db = schema::open_to_read(&path).map_err(check)?;
    for (first, page) in live::load(&db).map_err(check)? {
        for position in page.pending().into_iter().flatten() {
            each(first.saturating_add(position as u64))?;
        }
    }
    let mut query = db.prepare("SELECT sequence FROM waiting").map_err(check)?;
    let mut rows = query.query([]).map_err(check)?;
    while let Some(row) = rows.next().map_err(check)? {
        each(row.get::<_, i64>(0).map_err(check)? as Sequence)?;
    }
    Ok(())
}
