//! The formats that objects are stored in, by the names that users write.

use serde::{Deserialize, Serialize};

use super::{Properties, StoredParts};
use fetchmill_model::options::words;
use fetchmill_model::target::extra_columns::ExtraColumns;

/// How objects are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// An object a file.
    Files,
    /// Many objects a file that `tar` unpacks.
    Tar,
    /// Many objects a table.
    Parquet,
    /// Many exchanges a web archive.
    Warc,
    /// Many objects a file, a line of JSON each.
    Jsonl,
    /// Counted and forgotten.
    Null,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 6] =
        [Format::Files, Format::Tar, Format::Parquet, Format::Warc, Format::Jsonl, Format::Null];

    /// As users write it.
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

    /// The reverse of [`Format::name`].
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// How a shard's file name ends; none for formats without shards.
    pub fn extension(self) -> Option<&'static str> {
        match self {
            Format::Tar => Some("tar"),
            Format::Parquet => Some("parquet"),
            Format::Warc => Some("warc.gz"),
            Format::Jsonl => Some("jsonl"),
            Format::Files | Format::Null => None,
        }
    }

    /// Bytes of a shard unless `--shard-size` says otherwise. A Parquet file is durable only as a whole, so it is
    /// smaller (docs/reference/formats.md).
    pub fn shard_bytes(self) -> u64 {
        match self {
            Format::Parquet => fetchmill_model::limits::PARQUET_SHARD_BYTES,
            _ => fetchmill_model::limits::SHARD_BYTES,
        }
    }

    /// What of these columns is stored.
    #[must_use]
    pub fn columns(self, columns: &ExtraColumns) -> ExtraColumns {
        match self {
            Format::Parquet | Format::Jsonl => columns.clone(),
            Format::Warc => columns.without_extra(),
            Format::Files | Format::Tar | Format::Null => ExtraColumns::default(),
        }
    }

    /// What an engine must know of its sink.
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
