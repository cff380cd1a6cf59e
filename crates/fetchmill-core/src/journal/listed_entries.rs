//! Entries of targets whose page is in the journal, whatever has come of them.

use super::sqlite_error::error_of;
use super::{JobLocation, schema};
use crate::error::{Error, Result};
use crate::target::{Names, Sequence};

/// Calls `each` with each target in pages that are not settled as a whole, and with those that wait. Targets of settled
/// pages have their names in manifests and failures files only.
pub fn for_each_listed_entry(
    place: &JobLocation,
    mut each: impl FnMut(Sequence, &[u8]) -> Result<()>,
) -> Result<()> {
    let path = place.journal_path();
    let check = |error: rusqlite::Error| error_of(&path, &error);
    let db = schema::open_to_read(&path)?;
    // Both tables as they are at one moment: a target moves from one to the other.
    db.execute_batch("BEGIN").map_err(check)?;
    let mut query = db.prepare("SELECT first, names FROM pages WHERE names IS NOT NULL").map_err(check)?;
    let mut rows = query.query([]).map_err(check)?;
    while let Some(row) = rows.next().map_err(check)? {
        let (first, blob) =
            (row.get::<_, i64>(0).map_err(check)? as Sequence, row.get::<_, Vec<u8>>(1).map_err(check)?);
        let names = schema::unpack(&blob).ok().and_then(|unpacked| Names::from_blob(&unpacked));
        let Some(names) = names else {
            return Err(Error::Journal(format!(
                "the journal {} is damaged: page {first} has lost its names",
                path.display()
            )));
        };
        for (position, entry) in names.iter().enumerate() {
            each(first.saturating_add(position as u64), entry)?;
        }
    }
    let mut query = db.prepare("SELECT sequence, name FROM waiting").map_err(check)?;
    let mut rows = query.query([]).map_err(check)?;
    while let Some(row) = rows.next().map_err(check)? {
        let entry: Vec<u8> = row.get(1).map_err(check)?;
        each(row.get::<_, i64>(0).map_err(check)? as Sequence, &entry)?;
    }
    Ok(())
}
