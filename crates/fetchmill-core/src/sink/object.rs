//! An entry of a block as the object that a pack stores and its manifest names.

use std::sync::Arc;

use super::{Block, BlockBody, BlockEntry, Stage};
use crate::error::Result;
use crate::manifest::{ManifestRow, ManifestWriter};
use crate::object::Object;

/// Memory that is kept for the next large body.
const KEPT_BYTES: usize = crate::limits::MIB;

/// The object of a fetched entry. A body that was too large for memory is read back into `large`, one at a time, and
/// leaves the stage: until its receipt is in the journal it would be fetched again anyway.
pub(super) fn read_object<'o>(
    block: &'o Block,
    entry: &BlockEntry,
    stage: &Arc<Stage>,
    large: &'o mut Vec<u8>,
) -> Result<Object<'o>> {
    let body = match entry.body {
        BlockBody::Spilled(_) => {
            let body = read_staged(entry, stage, large)?;
            stage.remove(entry.sequence)?;
            body
        }
        _ => block.body(entry),
    };
    Ok(Object {
        sequence: entry.sequence,
        name: block.name(entry),
        body,
        crc32c: crc32c::crc32c(body),
        facts: block.facts(entry),
    })
}

/// The body of an entry that lies in the stage, as a whole: its bound is `--max-size`.
pub(super) fn read_staged<'l>(entry: &BlockEntry, stage: &Stage, large: &'l mut Vec<u8>) -> Result<&'l [u8]> {
    stage.read(entry.sequence, entry.body.len(), large)?;
    Ok(large)
}

/// Writes down an object in the manifest of its shard.
pub(super) fn note(manifest: &mut ManifestWriter, object: &Object<'_>, place: u64) -> Result<()> {
    manifest.add(&ManifestRow {
        sequence: object.sequence,
        name: object.name,
        length: object.body.len() as u64,
        crc32c: object.crc32c,
        place,
        ..ManifestRow::default()
    })
}

/// Forgets a large body.
pub(super) fn release(large: &mut Vec<u8>) {
    large.clear();
    large.shrink_to(KEPT_BYTES);
}
