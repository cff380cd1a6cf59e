//! Objects as Parquet: one row for each, in files that pyarrow, `DuckDB` and Polars read as they are.
//!
//! A Parquet file has no valid prefix: its footer comes last. So an encoder can be asked to commit: it ends its row group
//! and writes down behind it what the footer will say of it (`commit`), and a shard that is cut back to the end of a
//! commit is completed by the footer that [`footer_of`] makes. Here are the columns ([`schema()`]), how rows are made ([`BatchBuilder`]) and
//! written ([`ParquetEncoder`]), and how they are read back, one ([`ParquetShard::row`]) or many
//! ([`ParquetShard::batches`]). The files are those that the caller opens.

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
