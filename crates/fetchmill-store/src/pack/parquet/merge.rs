//! Merges small shards into one.

use super::error::ShardError;
use super::reader::ParquetShard;
use super::rows::{BatchRows, check_body};
use super::writer::ParquetEncoder;
use fetchmill_model::object::Object;
use std::io::Write;

/// Decodes all rows of some shards and encodes them into another shard. Calls `each` with each row and its new number.
/// Verifies the checksums, because the source shards will be deleted.
pub fn merge<W: Write + Send>(
    from: &[ParquetShard],
    to: &mut ParquetEncoder<W>,
    each: &mut dyn FnMut(&Object<'_>, u64) -> Result<(), ShardError>,
) -> Result<(), ShardError> {
    let mut kept = Vec::new();
    for shard in from {
        // Match kept values by column position, because shards from an older release have no encoding column.
        let theirs = shard.columns().clone();
        if theirs.with_encodings(to.columns().has_encodings()) != *to.columns() {
            return Err(ShardError::Foreign("its kept columns differ from those of the job".into()));
        }
        for batch in shard.batches(0..shard.rows(), None)? {
            let batch = batch?;
            let rows = BatchRows::of(&batch)?;
            for row in 0..rows.len() {
                let Some(object) = rows.get(row, &mut kept) else { continue };
                check_body(&object)?;
                each(&object, to.rows())?;
                to.push(&object)?;
            }
        }
    }
    Ok(())
}
