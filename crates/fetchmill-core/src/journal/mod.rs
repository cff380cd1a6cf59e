//! The journal: the job's durable record, a database of `SQLite` that one thread owns.
//!
//! It alone gives sequence numbers. A page is a row with its names; a receipt clears targets in their pages, and a
//! page with none left leaves the table, so the journal stays small. A target that must wait moves to a table of its
//! own, which frees its page. All that is done between [`Journal::begin`] and [`Journal::commit`] is one transaction
//! and one sync: about 20 us of work for a page of a thousand names, so far below a microsecond an object.

mod begun;
mod cdxj;
mod column_types;
mod doubtful;
mod fence;
mod folders;
mod identity;
mod live;
mod location;
mod lock;
mod pages;
mod progress;
mod ranges;
mod receipts;
mod repair;
mod rules;
mod samples;
mod schema;
mod shards;
mod skips;
mod snapshot;
mod sqlite_error;
mod state_folder;
mod status;
mod synced;
#[cfg(test)]
mod tests;
mod transactions;
mod unfetched;
mod uploads;
mod version;
mod waiting;
mod wal_index;

pub use cdxj::CdxjFile;
pub use column_types::has_text_columns;
pub use doubtful::{Doubtful, read_doubtful};
pub use folders::folder_listing;
pub use identity::{
    ALL_REPLIES, CDXJ, CHECK, COMPRESSED, DESTINATION, FOLDERS, HASH, INDEX_PAGES, INDEX_PART, Identity,
    KEYS, LIST, NAMES, REPLIES_PART, SIDECAR, SITEMAPS, STRIP_PREFIX, TRANSFORM, must_be_here,
    must_have_objects, transform_columns, transform_text,
};
pub use location::JobLocation;
pub use lock::JobLock;
pub use progress::{ProgressStore, SavedProgress};
pub use receipts::PendingPage;
pub use rules::JobRules;
pub use samples::read_samples;
pub use shards::{Shard, read_manifests, read_shards as read_sealed_shards};
pub use skips::{DROPPED, SkippedOf, UNCHANGED, read_skipped};
pub use snapshot::{JournalSnapshot, for_each_pending, for_each_pending_entry};
pub(crate) use sqlite_error::error_of as sqlite_error_of;
pub use status::{FailedFolder, KeptFailures, Status, Wait, read_failed_folders, read_shards, read_status};
pub use synced::{ShardExchange, has_synced_shards};
pub use transactions::Journal;
pub use uploads::UploadState;
