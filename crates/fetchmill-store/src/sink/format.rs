//! The formats in which objects are stored, with their names in options.

use serde::{Deserialize, Serialize};

use super::{Properties, StoredParts};
use fetchmill_model::options::words;
use fetchmill_model::target::extra_columns::ExtraColumns;

/// Format in which objects are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// One file per object.
    Files,
    /// tar files with many objects.
    Tar,
    /// Tables with one row per object.
    Parquet,
    /// Web archives with the requests and responses of many objects.
    Warc,
    /// Files with one JSON line per object.
    Jsonl,
    /// No storage: objects are counted and discarded.
    Null,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 6] =
        [Format::Files, Format::Tar, Format::Parquet, Format::Warc, Format::Jsonl, Format::Null];

    /// Returns the name of the format in options.
    pub fn name(self) -> &'static str {
        match self {
            Format::Files => "files",
            Format::Tar => "tar",
            Format::Parquet => "parquet",
            Format::Warc => "warc",
            Format::Jsonl => "jsonl",
            Format::Null => "null",
        }
    }

    /// Parses the name of a format.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Returns the file extension of shards. `None` for formats that have no shards.
    pub fn extension(self) -> Option<&'static str> {
        match self {
            Format::Tar => Some("tar"),
            Format::Parquet => Some("parquet"),
            Format::Warc => Some("warc.gz"),
            Format::Jsonl => Some("jsonl"),
            Format::Files | Format::Null => None,
        }
    }

    /// Returns the default size of a shard in bytes. Parquet shards are smaller, because they become durable only as a
    /// whole (docs/reference/formats.md).
    pub fn shard_bytes(self) -> u64 {
        match self {
            Format::Parquet => fetchmill_model::limits::PARQUET_SHARD_BYTES,
            _ => fetchmill_model::limits::SHARD_BYTES,
        }
    }

    /// Returns the columns that the format stores.
    #[must_use]
    pub fn columns(self, columns: &ExtraColumns) -> ExtraColumns {
        match self {
            Format::Parquet | Format::Jsonl => columns.clone(),
            Format::Warc => columns.without_extra(),
            Format::Files | Format::Tar | Format::Null => ExtraColumns::default(),
        }
    }

    /// Returns the properties of the sink that engines need.
    pub fn properties(self) -> Properties {
        let keeps = match self {
            Format::Null => StoredParts::Outcomes,
            Format::Files => StoredParts::Bodies,
            Format::Tar | Format::Parquet | Format::Jsonl => StoredParts::Facts,
            Format::Warc => StoredParts::Heads,
        };
        Properties { keeps, names_are_paths: self == Format::Files }
    }
}

words!(Format);
