//! A second pass over what failed or was absent: `--retry-failed`.

use super::recovery;
use crate::entry::{ListEntry, Naming};
use crate::error::{Error, Result};
use crate::journal::{JobLocation, Journal};
use crate::outcome::FailureKind;
use crate::sink::failures::{FailureRow, FailureRows, FailuresShard, cut_back};
use crate::source_metadata::{ListedKey, SizedName};
use crate::target::WaitingTarget;

/// Everything that failed or was absent waits for another attempt. What a transform has dropped stays skipped.
pub(super) fn start(
    place: &JobLocation,
    journal: &mut Journal,
    naming: Naming,
    is_durable: bool,
) -> Result<()> {
    let shards = journal.failures_shards()?;
    let folder = place.failures_path();
    let mut kept = Vec::new();
    journal.start_pass(|each| {
        let mut skipped = FailuresShard::new(&folder, recovery::shard_name("skipped", 0), is_durable);
        for shard in &shards {
            for row in FailureRows::open(&folder, shard)? {
                let row = row?;
                if row.is_skipped() {
                    skipped.add_row(&row)?;
                    continue;
                }
                let damaged = || Error::Journal(format!("{} is damaged: a row has no name", shard.path));
                let kind = row.kind.as_deref().and_then(FailureKind::from_name);
                each(WaitingTarget {
                    sequence: row.sequence,
                    name: entry_of(&row, naming).ok_or_else(damaged)?.into_boxed_slice(),
                    attempts: 0,
                    kind: kind.unwrap_or(FailureKind::Status),
                    not_before: 0,
                    throttled_since: 0,
                })?;
            }
        }
        let end = skipped.checkpoint()?;
        kept.extend(end.clone());
        Ok(end)
    })?;
    cut_back(&folder, &kept)
}

/// A target as it stood in its page; `None` when the row is damaged.
fn entry_of(row: &FailureRow, naming: Naming) -> Option<Vec<u8>> {
    let name = row.name_bytes()?;
    if naming == Naming::Whole {
        return Some(name);
    }
    let mut entry = Vec::new();
    if naming == Naming::Sized {
        SizedName::prefix(None, &mut entry);
        entry.extend_from_slice(&name);
        return Some(entry);
    }
    if naming == Naming::Listed {
        // What the listing said of it is not kept: it is taken as it is now.
        ListedKey::named(&name).write(&mut entry);
        return Some(entry);
    }
    if row.kind.as_deref() == Some(FailureKind::Url.name()) {
        let reason = row.detail.as_deref().unwrap_or_default();
        ListEntry { key: Some(&name), kept: Some(reason.as_bytes()), ..ListEntry::default() }
            .write(&mut entry);
        return Some(entry);
    }
    let url = row.url_bytes().unwrap_or_else(|| name.clone());
    let mut without_key = Vec::new();
    naming.write_name(row.sequence, &url, &mut without_key);
    let key = (naming != Naming::Number && without_key != name).then_some(name.as_slice());
    // What a manifest expects stands in its page, which is gone.
    ListEntry { url: &url, key, kept: row.extra_bytes().as_deref(), ..ListEntry::default() }
        .write(&mut entry);
    Some(entry)
}
