//! The columns of a job, and their types.

use std::collections::BTreeMap;

use crate::journal::{Identity, JobLocation, Journal};
use fetchmill_model::error::Result;
use fetchmill_model::target::extra_columns::{COLUMNS_PART, ExtraColumns, TYPES_PART};

/// Returns whether the list columns of an existing job are all text.
pub fn has_text_columns(place: &JobLocation) -> Result<bool> {
    let parts = identity_of(place)?;
    Ok(parts.contains_key(COLUMNS_PART) && !parts.contains_key(TYPES_PART))
}

/// Returns the columns of a job whose rows are API items. `None` until they are known.
pub fn item_columns(place: &JobLocation) -> Result<Option<ExtraColumns>> {
    let columns = ExtraColumns::of_identity(&identity_of(place)?);
    Ok(Some(columns).filter(|columns| columns.has_items() && !columns.kept().is_empty()))
}

fn identity_of(place: &JobLocation) -> Result<BTreeMap<String, String>> {
    if !place.journal_path().exists() {
        return Ok(BTreeMap::new());
    }
    let identity = Journal::open_any(place, false)?.get("identity")?;
    Ok(identity.map(|stored| Identity::from_json(&stored)).unwrap_or_default())
}
