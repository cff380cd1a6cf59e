//! Results of a check, or of a list that is written out: a file with one row per target. It is created from the shards
//! once every target has its row. This module also compares two such files, and writes the files that describe targets
//! without an object.

mod answers;
mod columns;
mod conclusion;
mod csv;
mod diff;
mod file;
mod format;
mod jsonl;
mod parquet;
mod summary;
mod unfetched;

pub use conclusion::{
    ResultsTarget, conclude, read_summary, refuse_foreign, refuse_unfit, remove_shards, summarize,
};
pub use diff::{Change, Difference, EachChange, diff};
pub(crate) use file::ResultsFile;
pub use format::{ResultsFormat, TableFormat};
pub use jsonl::write_manifest_line;
pub use summary::Summary;
pub use unfetched::{take_back_unfetched, write_unfetched};
