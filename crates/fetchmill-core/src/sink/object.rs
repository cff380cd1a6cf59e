//! An entry of a block as the object that a pack stores and its manifest names.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};

use super::{Block, BlockBody, BlockEntry, Stage};
use crate::error::Result;
use crate::extra_columns::{ExtraColumns, extra_values, write_extra};
use crate::manifest::{ManifestRow, ManifestWriter};
use crate::name::to_hex;
use crate::object::{Facts, Object};

/// Where shards have the `ETag` and the `Last-Modified` of their objects.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Validators {
    /// In the records, as far as the format has a place for them.
    #[default]
    InRecords,
    /// In the manifests, too: a sync reads them there.
    InManifests,
}

/// Memory that is kept for the next large body.
const KEPT_BYTES: usize = crate::limits::MIB;

/// Writes the hash of an object's body behind its other extra columns, for `--hash`.
#[derive(Debug, Clone)]
pub struct HashColumn {
    /// How many columns stand before it.
    before: usize,
    /// The values of one object, with its hash.
    values: Vec<u8>,
}

impl HashColumn {
    /// What a job calls it.
    pub const NAME: &str = "sha256";

    /// The last of these columns.
    pub fn last_of(columns: &ExtraColumns) -> Self {
        HashColumn { before: columns.kept().len().saturating_sub(1), values: Vec::new() }
    }

    fn fill<'c>(&'c mut self, facts: Facts<'c>, body: &[u8]) -> Facts<'c> {
        let hash = to_hex(digest(&SHA256, body).as_ref());
        let known = extra_values(facts.kept.unwrap_or_default()).chain(std::iter::repeat(None));
        self.values.clear();
        write_extra(known.take(self.before).chain([Some(hash.as_bytes())]), &mut self.values);
        Facts { kept: Some(&self.values), ..facts }
    }
}

/// The object of a fetched entry. A body that was too large for memory is read back into `large`, one at a time, and
/// leaves the stage: until its receipt is in the journal it would be fetched again anyway.
pub(super) fn read_object<'o>(
    block: &'o Block,
    entry: &BlockEntry,
    stage: &Arc<Stage>,
    large: &'o mut Vec<u8>,
    hash: Option<&'o mut HashColumn>,
) -> Result<Object<'o>> {
    let body = match entry.body {
        BlockBody::Spilled(_) => {
            let body = read_staged(entry, stage, large)?;
            stage.remove(entry.sequence)?;
            body
        }
        _ => block.body(entry),
    };
    let facts = block.facts(entry);
    let facts = match hash {
        Some(hash) => hash.fill(facts, body),
        None => facts,
    };
    Ok(Object {
        sequence: entry.sequence,
        name: block.name(entry),
        body,
        crc32c: crc32c::crc32c(body),
        facts,
    })
}

/// The body of an entry that lies in the stage, as a whole: its bound is `--max-size`.
pub(super) fn read_staged<'l>(entry: &BlockEntry, stage: &Stage, large: &'l mut Vec<u8>) -> Result<&'l [u8]> {
    stage.read(entry.sequence, entry.body.len(), large)?;
    Ok(large)
}

/// Writes down an object in the manifest of its shard.
pub(super) fn note(
    manifest: &mut ManifestWriter,
    object: &Object<'_>,
    place: u64,
    validators: Validators,
) -> Result<()> {
    let (etag, last_modified) = match validators {
        Validators::InRecords => (None, None),
        Validators::InManifests => (object.facts.etag, object.facts.last_modified),
    };
    manifest.add(&ManifestRow {
        sequence: object.sequence,
        name: object.name,
        length: object.body.len() as u64,
        crc32c: object.crc32c,
        place,
        etag: etag.unwrap_or_default(),
        last_modified,
    })
}

/// Forgets a large body.
pub(super) fn release(large: &mut Vec<u8>) {
    large.clear();
    large.shrink_to(KEPT_BYTES);
}
