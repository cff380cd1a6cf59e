//! The journal: the durable record of a job, an `SQLite` database that one thread owns.
//!
//! Only the journal assigns sequence numbers. A page is a row with the names of its targets. Commit records clear
//! targets in their pages. Once all targets of a page are cleared, the page is deleted, so the journal stays small. A
//! target that must wait moves to a separate table, so that its page can be deleted.
//!
//! Everything between [`Journal::begin`] and [`Journal::commit`] is one transaction and one sync. A page of a thousand
//! names takes about 20 us, which is much less than 1 us per object.

mod database;
mod job;
mod listing;
mod location;
mod progress;
mod shards;
mod status;
mod targets;
#[cfg(test)]
mod tests;

pub(crate) use database::file_name::read_file_name;
pub(crate) use database::sqlite_error::error_of as sqlite_error_of;
pub use job::command::read_command;
pub use job::identity::{
    ALL_REPLIES, CDXJ, CHECK, COMPRESSED, DESTINATION, FOLDERS, HASH, IMAGES, INDEX_PAGES, INDEX_PART,
    Identity, KEYS, LINK_PAGES, LIST, NAMES, ONE_OBJECT, OPT_OUT, REPLIES_PART, REQUEST_PART, ROBOTS,
    SIDECAR, SITEMAPS, STRIP_PREFIX, TRANSFORM, must_be_here, must_have_objects, transform_columns,
    transform_text,
};
pub use job::open_journal::Journal;
pub use job::peek::{is_restarting, stored_identity};
pub use job::rules::JobRules;
pub use listing::folders::folder_listing;
pub use listing::skips::{SkippedOf, read_skipped};
pub use location::JobLocation;
pub use location::lock::JobLock;
pub use progress::{ProgressStore, SavedProgress};
pub use shards::cdxj::{CdxjFile, has_indexes_by_default};
pub use shards::uploads::UploadState;
pub use shards::{Shard, read_manifests, read_shards as read_sealed_shards};
pub use status::column_types::{has_text_columns, item_columns};
pub use status::samples::read_samples;
pub use status::snapshot::{JournalSnapshot, for_each_pending, for_each_pending_entry};
pub use status::synced::{ShardSwap, has_synced_shards};
pub use status::{FailedFolder, KeptFailures, Status, Wait, read_failed_folders, read_shards, read_status};
pub use targets::doubtful::{Doubtful, read_doubtful};
pub use targets::receipts::PendingPage;
