//! Converts the entry of a block to an object that a pack stores and a manifest describes.

use aws_lc_rs::digest::{Context, Digest, SHA256, digest};

use super::{Block, BlockBody, BlockEntry, Stage};
use crate::manifest::{ManifestRow, ManifestWriter};
use crate::pack::FileBody;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::name::to_hex;
use fetchmill_model::object::{Facts, Object};
use fetchmill_model::target::extra_columns::{ExtraColumns, extra_values, write_extra};

/// The place where shards store the `ETag` and `Last-Modified` of objects.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Validators {
    /// Stored in the records, if the format has fields for them.
    #[default]
    InRecords,
    /// Also stored in the manifests, where a sync reads them.
    InManifests,
}

/// Appends the hash of an object's body to its extra columns, for `--hash`.
#[derive(Debug, Clone)]
pub struct HashColumn {
    /// Number of columns before the hash.
    before: usize,
    /// Values of an object, including the hash.
    values: Vec<u8>,
}

impl HashColumn {
    /// Name of the column.
    pub const NAME: &str = "sha256";

    /// Returns the hash column. It is the last one of `columns`.
    pub fn last_of(columns: &ExtraColumns) -> Self {
        HashColumn { before: columns.kept().len().saturating_sub(1), values: Vec::new() }
    }

    fn fill<'c>(&'c mut self, facts: Facts<'c>, hash: Digest) -> Facts<'c> {
        let hash = to_hex(hash.as_ref());
        let known = extra_values(facts.kept.unwrap_or_default()).chain(std::iter::repeat(None));
        self.values.clear();
        write_extra(known.take(self.before).chain([Some(hash.as_bytes())]), &mut self.values);
        Facts { kept: Some(&self.values), ..facts }
    }
}

/// Object of a fetched entry.
#[derive(Debug)]
pub(super) struct SinkObject<'o> {
    pub(super) object: Object<'o>,
    /// Body, if it is too large for memory. In this case, `object` has no body.
    pub(super) body: Option<FileBody>,
}

impl<'o> SinkObject<'o> {
    /// Creates the object of an entry. If its body is staged, the name of the staged file is removed. This is safe:
    /// until its commit record is in the journal, the object would be fetched again in any case.
    pub(super) fn of(
        block: &'o Block,
        entry: &BlockEntry,
        stage: &Stage,
        hash: Option<&'o mut HashColumn>,
    ) -> Result<Self> {
        let body = match entry.body {
            BlockBody::Spilled(length) => Some(stage.take_out_body(entry.sequence, length)?),
            _ => None,
        };
        let bytes = block.body(entry);
        let fail = |error| Error::storage("read a body in", stage.path(), error);
        let crc32c = match &body {
            Some(body) => body.crc32c().map_err(fail)?,
            None => crc32c::crc32c(bytes),
        };
        let facts = block.facts(entry);
        let facts = match (hash, &body) {
            (None, _) => facts,
            (Some(hash), None) => hash.fill(facts, digest(&SHA256, bytes)),
            (Some(hash), Some(body)) => hash.fill(facts, digest_file(body).map_err(fail)?),
        };
        let object = Object { sequence: entry.sequence, name: block.name(entry), body: bytes, crc32c, facts };
        Ok(SinkObject { object, body })
    }

    /// Returns the size of the body in bytes.
    pub(super) fn length(&self) -> u64 {
        self.body.as_ref().map_or(self.object.body.len() as u64, FileBody::length)
    }
}

fn digest_file(body: &FileBody) -> std::io::Result<Digest> {
    let mut context = Context::new(&SHA256);
    body.for_each(|piece| {
        context.update(piece);
        Ok(())
    })?;
    Ok(context.finish())
}

/// Adds an object's row to the manifest of its shard.
pub(super) fn note(
    manifest: &mut ManifestWriter,
    object: &Object<'_>,
    length: u64,
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
        length,
        crc32c: object.crc32c,
        place,
        etag: etag.unwrap_or_default(),
        last_modified,
        content_encoding: object.facts.content_encoding.unwrap_or_default(),
    })
}
