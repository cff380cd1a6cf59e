//! A retry run for failed or absent targets (`--retry-failed`).

use crate::request::retry_failed::RetryFailed;
use crate::writer::recovery;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::target::WaitingTarget;
use fetchmill_model::target::entry::{ListEntry, Naming};
use fetchmill_model::target::source_metadata::{ListedKey, SizedName};
use fetchmill_store::journal::{JobLocation, Journal, KeptFailures};
use fetchmill_store::sink::failures::{FailureRow, FailureRows, FailuresShard, cut_back};

/// Queues the selected failed or absent targets for another attempt. Targets dropped by a transform remain skipped.
pub(crate) fn start(
    place: &JobLocation,
    journal: &mut Journal,
    naming: Naming,
    is_durable: bool,
    meant: &RetryFailed,
) -> Result<()> {
    let shards = journal.failures_shards()?;
    let folder = place.failures_path();
    let mut shard_ends = Vec::new();
    let is_folder_meant = |status| meant.means(Some(FailureKind::Listing.name()), status);
    journal.start_pass(is_folder_meant, |each| {
        let mut shard_of_kept = FailuresShard::new(&folder, recovery::shard_name("kept", 0), is_durable);
        let mut kept = KeptFailures::default();
        for shard in &shards {
            for row in FailureRows::open(&folder, shard)? {
                let row = row?;
                let kind_of = |name: &str| FailureKind::from_name(name).unwrap_or(FailureKind::Status);
                let kind = row.kind.as_deref().map(kind_of);
                if row.is_skipped() || !meant.means(row.kind.as_deref(), row.status) {
                    kept.count(row.is_skipped(), kind, row.status.unwrap_or_default());
                    shard_of_kept.add_row(&row)?;
                    continue;
                }
                let damaged = || Error::Journal(format!("{} is damaged: a row has no name", shard.path));
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
        kept.shard = shard_of_kept.checkpoint()?;
        shard_ends.extend(kept.shard.clone());
        Ok(kept)
    })?;
    cut_back(&folder, &shard_ends)
}

/// Returns the entry of a target as it was in its page, or `None` if the row is damaged.
fn entry_of(row: &FailureRow, naming: Naming) -> Option<Vec<u8>> {
    let name = row.name_bytes()?;
    if naming == Naming::Whole {
        return Some(name);
    }
    let mut entry = Vec::new();
    if naming == Naming::Sized {
        SizedName::prefix(None, None, &mut entry);
        entry.extend_from_slice(&name);
        return Some(entry);
    }
    if naming == Naming::Listed {
        // The listed values were not kept, so any version of the object is accepted.
        ListedKey::named(&name).write(&mut entry);
        return Some(entry);
    }
    if row.kind.as_deref() == Some(FailureKind::Url.name()) {
        let reason = row.detail.as_deref().unwrap_or_default();
        let (kept, values) = (Some(reason.as_bytes()), row.extra_bytes());
        ListEntry { key: Some(&name), kept, request: values.as_deref(), ..ListEntry::default() }
            .write(&mut entry);
        return Some(entry);
    }
    let url = row.url_bytes().unwrap_or_else(|| name.clone());
    let key = naming.key_of(row.sequence, &url, &name);
    // The values that the manifest expects were in the target's page, which no longer exists.
    let (kept, request) = (row.extra_bytes(), row.request_bytes());
    let (kept, request) = (kept.as_deref(), request.as_deref());
    ListEntry { url: &url, key, kept, request, ..ListEntry::default() }.write(&mut entry);
    Some(entry)
}
