//! Whether the columns of a job have types.

use crate::journal::{Identity, JobLocation, Journal};
use fetchmill_model::error::Result;
use fetchmill_model::extra_columns::{COLUMNS_PART, TYPES_PART};

/// Whether a job has begun that has columns of a list, all of them text.
pub fn has_text_columns(place: &JobLocation) -> Result<bool> {
    if !place.journal_path().exists() {
        return Ok(false);
    }
    let identity = Journal::open_any(place, false)?.get("identity")?;
    let parts = identity.map(|stored| Identity::from_json(&stored)).unwrap_or_default();
    Ok(parts.contains_key(COLUMNS_PART) && !parts.contains_key(TYPES_PART))
}
