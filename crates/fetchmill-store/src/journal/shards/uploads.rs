//! Records which of the sealed shards are in the destination bucket. A shard without a row is not in the bucket. A
//! shard whose upload has begun may be there, either complete or as invisible parts. Once a shard is uploaded, its
//! local file is no longer needed.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};

use super::Shard;
use crate::journal::job::open_journal::{Journal, now_text};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::outcome::ShardNumber;

/// Key that records that the job's prefix was empty when the job began. Everything below the prefix therefore belongs
/// to the job.
const CLAIMED: &str = "destination_claimed_at";

/// Progress of a shard's upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadState {
    /// The upload has begun, so the store may already have the shard.
    Begun,
    /// The shard and its manifest are in the store.
    Done,
}

/// Records the progress of an upload.
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
    /// Records the progress of a shard's upload.
    pub fn note_upload(&mut self, number: ShardNumber, upload: UploadState) -> Result<()> {
        self.begin()?;
        self.check(note(&self.db, number, upload))
    }

    /// Returns the progress of all uploads that have begun. The status does not need this.
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

    /// Returns whether everything below the destination's prefix belongs to this job.
    pub fn is_destination_claimed(&self) -> Result<bool> {
        Ok(self.get(CLAIMED)?.is_some())
    }

    /// Records that the destination's prefix is empty. From then on, everything below it belongs to this job.
    pub fn claim_destination(&self) -> Result<()> {
        self.set(CLAIMED, &now_text())
    }

    /// Fails if any sealed shard is not uploaded. A job must not finish before that.
    pub fn must_be_uploaded(&self) -> Result<()> {
        let uploads = self.uploads()?;
        let is_left =
            |shard: &&Shard| !shard.is_replaced && uploads.get(&shard.number) != Some(&UploadState::Done);
        let left = self.shards()?.iter().filter(is_left).count();
        if left > 0 {
            return Err(Error::Internal(format!("{left} shards are not uploaded yet")));
        }
        Ok(())
    }
}
