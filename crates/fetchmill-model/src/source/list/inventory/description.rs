//! The contents of a `manifest.json`: the bucket, the columns and the data files. The document is untrusted.

use std::collections::HashSet;
use std::io::{BufReader, Read};

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3Default;

use super::super::normalise;
use crate::error::{Error, Result};
use crate::limits::{INVENTORY_MANIFEST_BYTES_MAX, S3_KEY_BYTES_MAX};
use crate::name::{for_display, to_hex};

/// An inventory, as its `manifest.json` describes it.
#[derive(Debug)]
pub struct Inventory {
    /// The bucket whose objects the inventory lists.
    pub(super) bucket: String,
    pub(super) format: DataFormat,
    /// Names of the data files' columns, in the order of the columns.
    pub(super) columns: Vec<String>,
    /// The columns as the `manifest.json` describes them.
    schema: String,
    /// The data files, in the order of the `manifest.json`.
    pub files: Vec<DataFile>,
}

/// Format of the data files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub(super) enum DataFormat {
    #[serde(rename = "CSV")]
    Csv,
    Parquet,
    #[serde(rename = "ORC")]
    Orc,
}

/// A data file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct DataFile {
    /// Key of the file in the bucket to which the inventory is written.
    key: String,
    /// Size of the file in bytes.
    pub size: u64,
    #[serde(rename = "MD5checksum", deserialize_with = "md5_of_hexadecimal")]
    pub(super) md5: [u8; 16],
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    source_bucket: String,
    file_format: DataFormat,
    file_schema: String,
    files: Vec<DataFile>,
}

impl DataFile {
    /// Returns the folders and the name of the file. None of them is empty, `.` or `..`.
    pub fn path(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.key.split('/').filter(|name| !name.is_empty())
    }

    /// Returns the MD5 of the file in hexadecimal digits.
    pub fn md5_text(&self) -> String {
        to_hex(&self.md5)
    }

    /// Returns the key as shown in messages.
    pub fn text(&self) -> String {
        for_display(self.key.as_bytes())
    }

    /// Returns whether the key stays inside the folder against which it is resolved.
    fn is_below(&self) -> bool {
        let is_plain = |name: &str| name != "." && name != ".." && !name.contains('\0');
        let has_name = !self.key.is_empty() && !self.key.ends_with('/');
        has_name && self.key.len() <= S3_KEY_BYTES_MAX && self.path().all(is_plain)
    }
}

impl Inventory {
    /// Reads a `manifest.json`. `label` is the name of the document in messages.
    pub fn read(label: &str, input: impl Read) -> Result<Self> {
        // If one byte more than the maximum can be read, the document is too large.
        let input = BufReader::new(input.take(INVENTORY_MANIFEST_BYTES_MAX + 1));
        let document: Document = serde_json::from_reader(input).map_err(|error| {
            let why = for_display(error.to_string().as_bytes());
            Error::Usage(format!(
                "{label} is not a manifest.json of an S3 Inventory (up to {} MiB): {why}; for any other \
                 list, give --list-format",
                INVENTORY_MANIFEST_BYTES_MAX >> 20
            ))
        })?;
        let refused = |why: String| Error::Usage(format!("the inventory {label} cannot be read: {why}"));
        let bucket = &document.source_bucket;
        if bucket.contains('/') || normalise(&format!("s3://{bucket}/x")).is_err() {
            let bucket = for_display(bucket.as_bytes());
            return Err(refused(format!("its sourceBucket {bucket} is not a valid bucket name")));
        }
        let columns = match document.file_format {
            DataFormat::Csv => document.file_schema.split(',').map(|name| name.trim().to_owned()).collect(),
            DataFormat::Parquet => columns_of_message(&document.file_schema),
            DataFormat::Orc => {
                return Err(refused(
                    "its data files are ORC, which fetchmill cannot read; configure the inventory to write \
                     Parquet or CSV, or convert the rows to a list of URLs"
                        .to_owned(),
                ));
            }
        };
        let mut keys = HashSet::new();
        for file in &document.files {
            if !file.is_below() {
                return Err(refused(format!(
                    "its data file {} has a name that could point outside the folder",
                    file.text()
                )));
            }
            if !keys.insert(&file.key) {
                return Err(refused(format!("it names the data file {} twice", file.text())));
            }
        }
        drop(keys);
        let Document { source_bucket: bucket, file_format: format, file_schema: schema, files } = document;
        Ok(Inventory { bucket, format, columns, schema, files })
    }

    /// Returns the text of the `manifest.json` without its data files.
    pub fn head(&self) -> String {
        serde_json::json!({
            "sourceBucket": self.bucket, "fileFormat": self.format, "fileSchema": self.schema,
        })
        .to_string()
    }

    /// Returns whether the data files can be read starting at any row.
    pub fn has_rows(&self) -> bool {
        self.format == DataFormat::Parquet
    }

    /// Returns a digest of everything that affects the rows.
    pub(super) fn digest(&self) -> u64 {
        let mut digest = Xxh3Default::new();
        let mut add = |text: &[u8]| {
            digest.update(&(text.len() as u64).to_le_bytes());
            digest.update(text);
        };
        add(self.bucket.as_bytes());
        add(&[u8::from(self.format == DataFormat::Csv)]);
        add(self.columns.join(",").as_bytes());
        for file in &self.files {
            add(file.key.as_bytes());
            add(&file.size.to_le_bytes());
            add(&file.md5);
        }
        digest.digest()
    }
}

/// Returns the column names in a schema such as `message s3.inventory { required binary bucket (UTF8); optional int64
/// size; }`.
fn columns_of_message(schema: &str) -> Vec<String> {
    let fields = schema.split_once('{').map_or("", |(_, fields)| fields);
    let names = fields.split(';').filter_map(|field| {
        let name = field.split_ascii_whitespace().nth(2)?;
        Some(name.split('(').next().unwrap_or_default().to_owned())
    });
    names.collect()
}

fn md5_of_hexadecimal<'de, D: Deserializer<'de>>(input: D) -> std::result::Result<[u8; 16], D::Error> {
    let text = String::deserialize(input)?;
    let mut md5 = [0; 16];
    let mut digits = text.chars().map(|digit| digit.to_digit(16));
    for byte in &mut md5 {
        let (Some(Some(high)), Some(Some(low))) = (digits.next(), digits.next()) else {
            return Err(D::Error::custom("an MD5checksum must have 32 hexadecimal digits"));
        };
        *byte = (high * 16 + low) as u8;
    }
    if digits.next().is_some() {
        return Err(D::Error::custom("an MD5checksum must have 32 hexadecimal digits"));
    }
    Ok(md5)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: &str = "Bucket, Key, Size";

    fn text(bucket: &str, format: &str, schema: &str, keys: &[&str]) -> String {
        let files = keys.iter().map(|key| {
            serde_json::json!({"key": key, "size": 1, "MD5checksum": "00112233445566778899AAbbccddeeff"})
        });
        serde_json::json!({
            "sourceBucket": bucket, "destinationBucket": "arn:aws:s3:::other", "version": "2016-11-30",
            "fileFormat": format, "fileSchema": schema, "files": files.collect::<Vec<_>>(),
        })
        .to_string()
    }

    fn refusal(text: &str) -> String {
        let error = Inventory::read("m", text.as_bytes()).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert_eq!(error.to_string().lines().count(), 1);
        error.to_string()
    }

    #[test]
    fn columns_and_files_are_those_of_the_document() {
        let csv = Inventory::read("m", text("b", "CSV", CSV, &["a//b/c"]).as_bytes()).unwrap();
        let message = "message s3.inventory {  required binary bucket (UTF8);  required binary key(STRING); \
                       optional int64 last_modified_date (TIMESTAMP(MILLIS,true)); }";
        let parquet = Inventory::read("m", text("b", "Parquet", message, &[]).as_bytes()).unwrap();

        assert_eq!(csv.columns, ["Bucket", "Key", "Size"]);
        assert_eq!(csv.files[0].path().collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(csv.files[0].md5[..3], [0, 0x11, 0x22]);
        assert_eq!(parquet.columns, ["bucket", "key", "last_modified_date"]);
        assert_ne!(csv.digest(), parquet.digest());
    }

    #[test]
    fn the_head_and_a_data_file_are_an_inventory_again() {
        let whole = Inventory::read("m", text("b", "CSV", CSV, &["a/b", "a/c"]).as_bytes()).unwrap();
        let mut document: serde_json::Value = serde_json::from_str(&whole.head()).unwrap();
        let file = &whole.files[1];
        document["files"] =
            serde_json::json!([{"key": "c", "size": file.size, "MD5checksum": file.md5_text()}]);

        let part = Inventory::read("m", document.to_string().as_bytes()).unwrap();

        assert_eq!((&part.bucket, part.format, &part.columns), (&whole.bucket, whole.format, &whole.columns));
        assert_eq!((part.files.len(), part.files[0].md5), (1, file.md5));
    }

    #[test]
    fn a_data_file_is_never_elsewhere_or_twice() {
        for key in ["../x", "a/../x", "..", ".", "a/./b", "a\0b", "a/", "", &"k".repeat(1025)] {
            let refused = refusal(&text("b", "CSV", CSV, &[key]));
            assert!(refused.contains("could point outside"), "{key}: {refused}");
        }
        assert!(refusal(&text("b", "CSV", CSV, &["a", "b", "a"])).contains("a twice"));
    }

    #[test]
    fn what_is_no_inventory_is_told_in_one_line() {
        for bucket in ["", "..", "a/b", "a@b", "a b", "a?"] {
            assert!(
                refusal(&text(bucket, "CSV", CSV, &[])).contains("is not a valid bucket name"),
                "{bucket}"
            );
        }
        assert!(refusal(&text("b", "ORC", "struct<>", &[])).contains("Parquet or CSV"));
        for text in [
            "",
            "[]",
            "http://a/\n",
            "{\"sourceBucket\": 1}",
            &text("b", "XML", CSV, &[]),
            &text("b", "CSV", CSV, &["a"]).replace("ff\"", "f\""),
            &text("b", "CSV", CSV, &["a"]).replace("ff\"", "fff\""),
            &text("b", "CSV", CSV, &["a"]).replace("ff\"", "f-\""),
            &text("b", "CSV", CSV, &["a"]).replace(":1", ":-1"),
            &format!("{{\"x\": {}", "[".repeat(100_000)),
            &format!("{{\"sourceBucket\": \"{}", "x".repeat(INVENTORY_MANIFEST_BYTES_MAX as usize)),
        ] {
            assert!(refusal(text).contains("is not a manifest.json of an S3 Inventory"), "{}", refusal(text));
        }
    }
}
