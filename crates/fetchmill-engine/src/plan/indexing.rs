//! Decides whether the shards of a job get indexes.

use crate::request::job_request::JobRequest;
use fetchmill_model::error::Result;
use fetchmill_store::journal::{INDEX_PART, JobLocation, stored_identity};
use fetchmill_store::sink::Format;

/// Returns whether each shard gets an index. If the user did not choose, an existing job continues as it was started,
/// and a new WARC job in a folder gets indexes. A sync gets none, because its shards change. A bucket cannot have
/// indexes.
pub(super) fn is_indexed(request: &JobRequest, place: &JobLocation) -> Result<bool> {
    let can_have = request.format == Format::Warc && request.rows.is_none();
    if !can_have || request.upload.is_some() || request.pass.is_some() {
        return Ok(false);
    }
    if let Some(asked) = request.cdxj {
        return Ok(asked);
    }
    let stored = stored_identity(place)?;
    let of_warc =
        stored.filter(|parts| parts.get("format").is_some_and(|format| format == Format::Warc.name()));
    Ok(of_warc.is_none_or(|parts| parts.contains_key(INDEX_PART)))
}
