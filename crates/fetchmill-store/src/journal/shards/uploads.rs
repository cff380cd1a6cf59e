//! Which sealed shards are in the bucket, when the destination is one. A shard without a row is not there; one whose
//! upload has begun may be, as a whole or in parts that nobody sees; one that is uploaded needs no file any more.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};

use super::Shard;
use crate::journal::job::transactions::{Journal, now_text};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::outcome::ShardNumber;

/// The fact that a job's prefix held nothing when it began: what is there is its own.
const CLAIMED: &str = "destination_claimed_at";

/// How far a shard's upload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadState {
    /// The store may know of it.
    Begun,
    /// It is there, and so is its manifest.
    Done,
}

/// Notes how far it is.
pub(in crate::journal) fn note(
    db: &Connection,
    number: ShardNumber,
    upload: UploadState,
) -> rusqlite::Result<()> {
    let uploaded_at = (upload == UploadState::Done).then(now_text);
    db.prepare_cached("REPLACE INTO uploads (number, uploaded_at) VALUES (?, ?)")?
        .execute(params![number as i64 + 1, uploaded_at])
        .map(drop)
}

impl Journal {
    /// Notes how far the upload of a shard is.
    pub fn note_upload(&mut self, number: ShardNumber, upload: UploadState) -> Result<()> {
        self.begin()?;
        self.check(note(&self.db, number, upload))
    }

    /// How far the uploads of shards are, of those where it has begun. Whoever only looks needs not know it.
    pub fn uploads(&self) -> Result<BTreeMap<ShardNumber, UploadState>> {
        let read = || -> rusqlite::Result<BTreeMap<ShardNumber, UploadState>> {
            let mut query = self.db.prepare("SELECT number, uploaded_at FROM uploads")?;
            let rows = query.query_map([], |row| {
                let number = row.get::<_, i64>(0)? as ShardNumber - 1;
                let is_done = row.get::<_, Option<String>>(1)?.is_some();
                Ok((number, if is_done { UploadState::Done } else { UploadState::Begun }))
            })?;
            rows.collect()
        };
        self.check(read())
    }

    /// Whether all below the destination's prefix is this job's.
    pub fn is_destination_claimed(&self) -> Result<bool> {
        Ok(self.get(CLAIMED)?.is_some())
    }

    /// The destination's prefix holds nothing: it is this job's from now on.
    pub fn claim_destination(&self) -> Result<()> {
        self.set(CLAIMED, &now_text())
    }

    /// Every sealed shard must be uploaded before a job is finished.
    pub fn must_be_uploaded(&self) -> Result<()> {
        let uploads = self.uploads()?;
        let is_left =
            |shard: &&Shard| !shard.is_replaced && uploads.get(&shard.number) != Some(&UploadState::Done);
        let left = self.shards()?.iter().filter(is_left).count();
        if left > 0 {
            return Err(Error::Internal(format!("{left} shards are not uploaded")));
        }
        Ok(())
    }
}
