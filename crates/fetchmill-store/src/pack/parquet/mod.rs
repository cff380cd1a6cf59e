//! Objects as Parquet: one row for each object, in files that pyarrow, `DuckDB` and Polars read directly.
//!
//! A Parquet file has no valid prefix, because its footer comes last. So an encoder can commit: it ends its row group
//! and appends the metadata for a footer (`commit`). A shard that is truncated to the end of a commit is completed with
//! the footer of [`footer_of`].
//!
//! This module has the columns ([`schema()`]) and makes rows ([`BatchBuilder`]). It writes them ([`ParquetEncoder`]),
//! and reads one ([`ParquetShard::row`]) or many ([`ParquetShard::batches`]). The caller opens the files.

mod builder;
mod commit;
mod error;
mod items;
mod kept_columns;
mod large;
mod merge;
mod reader;
mod rows;
mod schema;
mod source;
mod writer;

#[cfg(test)]
mod tests;

pub use builder::BatchBuilder;
pub use commit::footer_of;
pub use error::ShardError;
pub use kept_columns::KeptBuilder;
pub use merge::merge;
pub use reader::{ParquetShard, RowBatches};
pub use rows::{BatchRows, object_at};
pub use schema::{Column, kept_fields, schema};
pub use writer::{MakeScratch, ParquetEncoder};
