//! Errors that occur when an object is read, and the checks that detect them.

use crate::manifest::ManifestRow;
use crate::pack::Damage;
use crate::pack::parquet::ShardError;
use fetchmill_model::error::Error;
use fetchmill_model::object::StoredObject;

/// Reason why an object cannot be returned.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// The record differs from what was written. The string describes the difference.
    #[error("{0}")]
    Damaged(String),
    /// The shard or its manifest cannot be read at all.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl From<Damage> for ObjectError {
    fn from(damage: Damage) -> Self {
        ObjectError::Damaged(damage.to_string())
    }
}

/// Checks that an object matches its manifest row.
pub(super) fn check(row: &ManifestRow<'_>, object: &StoredObject) -> std::result::Result<(), ObjectError> {
    let what = if object.name != row.name {
        "the record has a different name"
    } else if object.body.len() as u64 != row.length {
        "the body has a different length"
    } else if crc32c::crc32c(&object.body) != row.crc32c {
        "the body's checksum is wrong"
    } else {
        return Ok(());
    };
    Err(ObjectError::Damaged(what.to_owned()))
}

/// Adds the encoding from the manifest row to the object, unless the record already contained one.
pub(super) fn note_encoding(row: &ManifestRow<'_>, object: &mut StoredObject) {
    if !row.content_encoding.is_empty() && object.content_encoding.is_none() {
        object.content_encoding = Some(row.content_encoding.to_vec());
    }
}

/// Converts an error in a Parquet row.
#[expect(clippy::needless_pass_by_value, reason = "it is passed to map_err")]
pub(super) fn of_row(error: ShardError) -> ObjectError {
    ObjectError::Damaged(error.to_string())
}
