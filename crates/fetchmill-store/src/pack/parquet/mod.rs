//! Objects as Parquet: one row per object, in files that pyarrow, `DuckDB` and Polars can read.
//!
//! The footer of a Parquet file comes last, so no prefix of the file is valid. To make a prefix usable, an encoder ends
//! the row group and appends the metadata for a footer. This is called a commit (`commit`). A shard that was truncated
//! to a commit is completed with the footer from [`footer_of`].
//!
//! This module defines the columns ([`schema()`]) and builds rows ([`BatchBuilder`]). It writes rows
//! ([`ParquetEncoder`]), and reads a single row ([`ParquetShard::row`]) or many ([`ParquetShard::batches`]). Callers
//! open the files.

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
