//! The format of a list, which is determined by the file name. The compression is detected from the first bytes. If the
//! name implies a compression, the bytes must match it. Otherwise an empty or truncated file would count as an empty
//! list.

use serde::{Deserialize, Serialize};

use crate::options::words;

/// Format of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ListFormat {
    /// One URL per line. Empty lines and lines that start with `#` are not targets.
    #[serde(rename = "txt")]
    Text,
    /// Comma-separated records.
    Csv,
    /// Tab-separated records.
    Tsv,
    /// One JSON object or string per line, or a single array of objects and strings.
    Jsonl,
    /// Rows of a Parquet file.
    Parquet,
    /// The `manifest.json` of a bucket's inventory, which lists the inventory's data files.
    Inventory,
}

impl ListFormat {
    /// Returns the name of the format, as used in options.
    pub fn name(self) -> &'static str {
        match self {
            ListFormat::Text => "txt",
            ListFormat::Csv => "csv",
            ListFormat::Tsv => "tsv",
            ListFormat::Jsonl => "jsonl",
            ListFormat::Parquet => "parquet",
            ListFormat::Inventory => "inventory",
        }
    }

    /// Returns the format with this name. `ndjson` and `json` also stand for `jsonl`.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "txt" => ListFormat::Text,
            "csv" => ListFormat::Csv,
            "tsv" => ListFormat::Tsv,
            "jsonl" | "ndjson" | "json" => ListFormat::Jsonl,
            "parquet" => ListFormat::Parquet,
            "inventory" => ListFormat::Inventory,
            _ => return None,
        })
    }
}

words!(ListFormat);

/// Name of the first file of an S3 Inventory.
const INVENTORY: &str = "manifest.json";

/// Compression of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// One or more gzip members.
    Gzip,
    /// One or more zstd frames.
    Zstd,
    /// One or more xz streams.
    Xz,
    /// One or more bzip2 streams.
    Bzip2,
    /// A zip archive with one file.
    Zip,
}

const SUFFIXES: [(&str, Compression); 5] = [
    (".gz", Compression::Gzip),
    (".zst", Compression::Zstd),
    (".xz", Compression::Xz),
    (".bz2", Compression::Bzip2),
    (".zip", Compression::Zip),
];

/// Returns the format and the compression that a file name implies.
pub fn format_of(path: &str) -> (Option<ListFormat>, Option<Compression>) {
    let name = path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    if name == INVENTORY {
        return (Some(ListFormat::Inventory), None);
    }
    let of_suffix = |(suffix, compression)| Some((name.strip_suffix(suffix)?, Some(compression)));
    let (stem, compression) = SUFFIXES.into_iter().find_map(of_suffix).unwrap_or((name.as_str(), None));
    let extension = stem.rsplit_once('.').map(|(_, extension)| extension);
    (extension.and_then(ListFormat::from_name), compression)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_a_list_is() {
        for (path, format, compression) in [
            ("a/b.txt", Some(ListFormat::Text), None),
            ("B.CSV.GZ", Some(ListFormat::Csv), Some(Compression::Gzip)),
            ("a.tsv.zst", Some(ListFormat::Tsv), Some(Compression::Zstd)),
            ("top-1m.csv.zip", Some(ListFormat::Csv), Some(Compression::Zip)),
            ("a.txt.xz", Some(ListFormat::Text), Some(Compression::Xz)),
            ("a.bz2", None, Some(Compression::Bzip2)),
            ("a.ndjson", Some(ListFormat::Jsonl), None),
            ("a.jsonl", Some(ListFormat::Jsonl), None),
            ("a.parquet", Some(ListFormat::Parquet), None),
            ("a/manifest.json", Some(ListFormat::Inventory), None),
            ("a.manifest.json", Some(ListFormat::Jsonl), None),
            ("a.JSON.gz", Some(ListFormat::Jsonl), Some(Compression::Gzip)),
            ("a.csv/urls", None, None),
            ("urls.gz", None, Some(Compression::Gzip)),
            ("-", None, None),
            ("", None, None),
        ] {
            assert_eq!(format_of(path), (format, compression), "{path}");
            if let Some(format) = format {
                assert_eq!(ListFormat::from_name(format.name()), Some(format));
            }
        }
    }
}
