//! Converts a row of an inventory to the values that a manifest contains for an object.

use super::super::columns::{ColumnPlan, ColumnSelector, ETAG, MODIFIED, NAME, SIZE};
use super::super::records::{RecordStep, RecordValues};
use super::description::{DataFormat, Inventory};
use crate::error::{Error, Result};
use crate::http1::byte_range::number;
use crate::limits::S3_KEY_BYTES_MAX;
use crate::name::{self, for_display};
use crate::source::percent;

/// Conversion of rows to records.
pub(super) struct RowPlan {
    /// `s3://BUCKET/`, with which every URL begins.
    before: String,
    bucket: String,
    has_encoded_keys: bool,
    /// Columns that are read from the data files.
    columns: Vec<ColumnSelector>,
    /// Positions of the needed columns in `columns`.
    places: RowColumns,
    /// Where each value of a record comes from.
    values: Vec<RowValue>,
}

/// Positions of the needed columns among the columns that are read.
struct RowColumns {
    bucket: Option<usize>,
    key: usize,
    is_latest: Option<usize>,
    is_delete_marker: Option<usize>,
    size: Option<usize>,
    modified: Option<usize>,
    etag: Option<usize>,
}

#[derive(Debug, Clone, Copy)]
enum RowValue {
    Url,
    Name,
    Size,
    Etag,
    Modified,
    /// The unchanged value of a column in the data file.
    Kept(usize),
}

impl RowPlan {
    pub(super) fn new(label: &str, inventory: &Inventory, plan: &ColumnPlan) -> Result<Self> {
        let mut columns = Columns { inventory, read: Vec::new() };
        let places = RowColumns {
            bucket: columns.place_of("bucket"),
            key: columns.place_of("key").ok_or_else(|| columns.missing(label, "key"))?,
            is_latest: columns.place_of("is_latest"),
            is_delete_marker: columns.place_of("is_delete_marker"),
            size: columns.place_of("size"),
            modified: columns.place_of("last_modified_date"),
            etag: columns.place_of("e_tag"),
        };
        if places.is_latest.is_none() && columns.find("version_id").is_some() {
            return Err(Error::Usage(format!(
                "the inventory {label} lists versions of objects, but has no column IsLatest to show which \
                 version is the latest"
            )));
        }
        let mut value_of = |wanted: &ColumnSelector| {
            Ok(match wanted {
                ColumnSelector::Url => RowValue::Url,
                ColumnSelector::Manifest(NAME) => RowValue::Name,
                ColumnSelector::Manifest(SIZE) => RowValue::Size,
                ColumnSelector::Manifest(ETAG) => RowValue::Etag,
                ColumnSelector::Manifest(MODIFIED) => RowValue::Modified,
                kept => {
                    let place = columns.place_of(&kept.text());
                    RowValue::Kept(place.ok_or_else(|| columns.missing(label, &kept.text()))?)
                }
            })
        };
        let values = plan.wanted().iter().map(&mut value_of).collect::<Result<_>>()?;
        Ok(RowPlan {
            before: format!("s3://{}/", inventory.bucket),
            bucket: inventory.bucket.clone(),
            has_encoded_keys: inventory.format == DataFormat::Csv,
            columns: columns.selectors(),
            places,
            values,
        })
    }

    /// Returns the columns to read from the data files.
    pub(super) fn columns(&self) -> &[ColumnSelector] {
        &self.columns
    }

    /// Converts the values of a row to the values of a record.
    pub(super) fn give(&self, row: &RecordValues, values: &mut RecordValues) -> RecordStep {
        values.clear(self.values.len());
        match self.try_give(row, values) {
            Ok(true) => RecordStep::Record,
            Ok(false) => RecordStep::LeftOut,
            Err(reason) => RecordStep::Bad(reason),
        }
    }

    /// Returns whether the row describes an object to fetch. The error explains why this cannot be determined.
    fn try_give(
        &self,
        row: &RecordValues,
        values: &mut RecordValues,
    ) -> std::result::Result<bool, &'static str> {
        let places = &self.places;
        let value =
            |place: Option<usize>| place.and_then(|place| row.get(place)).filter(|value| !value.is_empty());
        let is_latest = flag(value(places.is_latest), "its IsLatest is neither true nor false")?;
        let is_deleted =
            flag(value(places.is_delete_marker), "its IsDeleteMarker is neither true nor false")?;
        if is_latest == Some(false) || is_deleted == Some(true) {
            return Ok(false);
        }
        let size = value(places.size);
        if size.is_some_and(|size| number(size).is_none()) {
            return Err("its size is not a number");
        }
        if value(places.bucket).is_some_and(|bucket| bucket != self.bucket.as_bytes()) {
            return Err("its bucket is not the bucket of the inventory");
        }
        let key = self.key_of(value(Some(places.key)).ok_or("it has no key")?)?;
        let is_folder_marker = key.ends_with(b"/") && size.and_then(number) == Some(0);
        if is_folder_marker {
            return Ok(false);
        }
        for (place, wanted) in self.values.iter().enumerate() {
            let found = match *wanted {
                RowValue::Url => {
                    let mut url = self.before.clone().into_bytes();
                    name::encode(&key, &mut url);
                    values.set(place, &url);
                    continue;
                }
                RowValue::Modified => {
                    if let Some(time) = value(places.modified) {
                        values.set(place, &in_utc(time));
                    }
                    continue;
                }
                RowValue::Name => Some(&key[..]),
                RowValue::Size => size,
                RowValue::Etag => value(places.etag).map(without_quotes),
                RowValue::Kept(column) => row.get(column),
            };
            if let Some(found) = found {
                values.set(place, found);
            }
        }
        Ok(true)
    }

    /// Returns the key of a row. In CSV files, keys are form-encoded.
    fn key_of(&self, written: &[u8]) -> std::result::Result<Vec<u8>, &'static str> {
        let key = if self.has_encoded_keys {
            let spaced: Vec<u8> =
                written.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
            percent::decode(&spaced)
                .ok_or("its key has a % that is not followed by two hexadecimal digits")?
        } else {
            written.to_vec()
        };
        if key.len() > S3_KEY_BYTES_MAX {
            return Err("its key is longer than 1,024 bytes");
        }
        if std::str::from_utf8(&key).is_err() {
            return Err("its key is not UTF-8");
        }
        Ok(key)
    }
}

/// All columns of an inventory, and the columns that are read.
struct Columns<'i> {
    inventory: &'i Inventory,
    read: Vec<usize>,
}

impl Columns<'_> {
    fn find(&self, name: &str) -> Option<usize> {
        let name = plain(name);
        self.inventory.columns.iter().position(|column| plain(column) == name)
    }

    /// Returns the position of a column among the columns that are read. If the column is not read yet, it is added.
    fn place_of(&mut self, name: &str) -> Option<usize> {
        let column = self.find(name)?;
        Some(self.read.iter().position(|read| *read == column).unwrap_or_else(|| {
            self.read.push(column);
            self.read.len() - 1
        }))
    }

    fn selectors(&self) -> Vec<ColumnSelector> {
        let selector = |column: &usize| match self.inventory.format {
            DataFormat::Csv => ColumnSelector::Number(*column),
            DataFormat::Parquet | DataFormat::Orc => {
                ColumnSelector::Inventory(self.inventory.columns[*column].clone())
            }
        };
        self.read.iter().map(selector).collect()
    }

    fn missing(&self, label: &str, name: &str) -> Error {
        let names = for_display(self.inventory.columns.join(", ").as_bytes());
        let name = for_display(name.as_bytes());
        Error::Usage(format!("the inventory {label} has no column {name}; it has {names}"))
    }
}

/// Normalises a column name: `LastModifiedDate` in CSV is `last_modified_date` in Parquet.
fn plain(name: &str) -> String {
    name.chars()
        .filter(|character| *character != '_')
        .map(|character| character.to_ascii_lowercase())
        .collect()
}

/// Parses a flag. Returns `None` if it is missing, and the error `reason` if the value is neither true nor false.
fn flag(value: Option<&[u8]>, reason: &'static str) -> std::result::Result<Option<bool>, &'static str> {
    match value {
        None => Ok(None),
        Some(value) if value.eq_ignore_ascii_case(b"true") => Ok(Some(true)),
        Some(value) if value.eq_ignore_ascii_case(b"false") => Ok(Some(false)),
        Some(_) => Err(reason),
    }
}

/// Marks a time as UTC. All times of an inventory are in UTC, even if the type of a Parquet column does not say so.
fn in_utc(time: &[u8]) -> Vec<u8> {
    let mut time = time.to_vec();
    if !time.ends_with(b"Z") {
        time.push(b'Z');
    }
    time
}

/// Removes the quotes that some S3-compatible stores add.
fn without_quotes(etag: &[u8]) -> &[u8] {
    etag.strip_prefix(b"\"").and_then(|etag| etag.strip_suffix(b"\"")).unwrap_or(etag)
}

#[cfg(test)]
mod tests {
    use super::super::super::ListOptions;
    use super::*;

    const COLUMNS: &str = "Bucket,Key,VersionId,IsLatest,IsDeleteMarker,Size,LastModifiedDate,ETag";

    fn inventory(columns: &str) -> Inventory {
        let document = serde_json::json!({
            "sourceBucket": "b", "fileFormat": "CSV", "fileSchema": columns, "files": [],
        });
        Inventory::read("m", document.to_string().as_bytes()).unwrap()
    }

    fn plan(columns: &str, keep: &[&str]) -> Result<RowPlan> {
        let keep_columns = keep.iter().map(ToString::to_string).collect();
        let options = ListOptions { keep_columns, ..ListOptions::default() };
        RowPlan::new("m", &inventory(columns), &ColumnPlan::new(&options)?.with_times())
    }

    /// Returns the URL, kept columns, name, size, ETag and time of a row. Any other result is returned as the error.
    fn given(columns: &str, keep: &[&str], row: &[&str]) -> std::result::Result<Vec<String>, RecordStep> {
        let plan = plan(columns, keep).unwrap();
        let mut read = RecordValues::default();
        read.clear(plan.columns().len());
        for (place, column) in plan.columns().iter().enumerate() {
            let ColumnSelector::Number(number) = column else { panic!("no number: {column:?}") };
            if let Some(value) = row.get(*number) {
                read.set(place, value.as_bytes());
            }
        }
        let mut values = RecordValues::default();
        match plan.give(&read, &mut values) {
            RecordStep::Record => Ok((0..plan.values.len())
                .map(|place| {
                    let value = values.get(place).unwrap_or(b"-");
                    String::from_utf8(value.to_vec()).unwrap()
                })
                .collect()),
            other => Err(other),
        }
    }

    fn of_key(key: &str) -> std::result::Result<Vec<String>, RecordStep> {
        given("Bucket, Key", &[], &["b", key])
    }

    #[test]
    fn a_row_is_what_a_manifest_says_of_an_object() {
        let row = ["b", "a+b%2Bc%25", "v1", "true", "false", "7", "2026-01-01T10:00:00.000Z", "abc-2"];

        assert_eq!(
            given(COLUMNS, &["VersionId", "size"], &row).unwrap(),
            ["s3://b/a%20b%2Bc%25", "v1", "7", "a b+c%", "7", "abc-2", "2026-01-01T10:00:00.000Z"]
        );
    }

    #[test]
    fn what_is_not_told_is_none() {
        assert_eq!(of_key("k").unwrap(), ["s3://b/k", "k", "-", "-", "-"]);
        assert_eq!(given("Key", &[], &["k"]).unwrap()[0], "s3://b/k");
        assert_eq!(
            given(COLUMNS, &[], &["", "k", "", "", "", "", "", ""]).unwrap()[1..],
            ["k", "-", "-", "-"]
        );
    }

    #[test]
    fn what_is_no_object_that_is_there_is_left_out() {
        for row in [
            ["b", "k", "v", "false", "false", "7"],
            ["b", "k", "v", "true", "true", ""],
            ["b", "k", "v", "FALSE", "true", ""],
            ["b", "folder/", "v", "true", "false", "0"],
        ] {
            assert_eq!(given(COLUMNS, &[], &row), Err(RecordStep::LeftOut), "{row:?}");
        }
        assert!(given(COLUMNS, &[], &["b", "folder/", "", "true", "", "1"]).is_ok());
    }

    #[test]
    fn a_row_that_makes_no_sense_is_bad() {
        for (row, why) in [
            (["b", "k", "", "yes", "", "1"], "IsLatest"),
            (["b", "k", "", "", "1", "1"], "IsDeleteMarker"),
            (["b", "k", "", "", "", "1e3"], "not a number"),
            (["b", "k", "", "", "", "-1"], "not a number"),
            (["b", "k", "", "", "", "99999999999999999999"], "not a number"),
            (["other", "k", "", "", "", "1"], "not the bucket of the inventory"),
            (["b", "", "", "", "", "1"], "no key"),
            (["b", "100%", "", "", "", "1"], "not followed by two"),
            (["b", "%zz", "", "", "", "1"], "not followed by two"),
            (["b", "%ff", "", "", "", "1"], "not UTF-8"),
            (["b", &"k".repeat(1025), "", "", "", "1"], "1,024"),
        ] {
            let Err(RecordStep::Bad(reason)) = given(COLUMNS, &[], &row) else { panic!("{row:?}") };
            assert!(reason.contains(why), "{reason}");
        }
        assert_eq!(given(COLUMNS, &[], &["b"]), Err(RecordStep::Bad("it has no key")));
    }

    #[test]
    fn columns_that_are_needed_are_missed() {
        for (columns, keep, why) in [
            ("Bucket, Size", &[][..], "has no column key; it has Bucket, Size"),
            ("Bucket, Key", &["StorageClass"], "has no column StorageClass"),
            ("Key, VersionId", &[], "which version is the latest"),
        ] {
            let error = plan(columns, keep).map(|_| ()).unwrap_err();
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().contains(why), "{error}");
        }
    }
}
