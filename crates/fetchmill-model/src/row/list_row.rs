//! A row of a written list: the facts that the source states about a target, and how to request the target again.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::values::{ColumnKind, Value, of_number, of_text};
use crate::object::Seconds;

/// Columns of a written list, in order. They are followed by the kept columns of the source list. A file that contains
/// all of these columns is a manifest: it states the names of its targets and facts about their objects.
pub const LISTED_COLUMNS: [(&str, ColumnKind); 5] = [
    ("name", ColumnKind::Text),
    ("url", ColumnKind::Text),
    ("size", ColumnKind::Number),
    ("etag", ColumnKind::Text),
    ("last_modified", ColumnKind::Time),
];

/// A single target. Fields that do not apply or are unknown are `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ListRow<'a> {
    /// Text of the name ([`crate::name::to_text`]). `None` if the URL is the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Cow<'a, str>>,
    /// URL. `None` if the target has no URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<Cow<'a, str>>,
    /// Size of the object in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// ETag of the object, without quotes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<Cow<'a, str>>,
    /// Time when the object was last written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<Seconds>,
    /// Values of the kept columns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<Option<Cow<'a, str>>>,
}

impl<'a> ListRow<'a> {
    /// Appends the row as JSON, without a line ending.
    pub fn write_line(&self, out: &mut Vec<u8>) {
        // Writing text and numbers to memory cannot fail.
        let _ = serde_json::to_writer(out, self);
    }

    /// Reads the output of [`ListRow::write_line`]. Returns `None` for a line that `write_line` does not produce.
    pub fn read_line(line: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }

    /// Returns the values in the order of [`LISTED_COLUMNS`].
    pub fn values(&self) -> [Value<'_>; LISTED_COLUMNS.len()] {
        [
            of_text(self.name.as_deref()),
            of_text(self.url.as_deref()),
            of_number(self.size),
            of_text(self.etag.as_deref()),
            self.last_modified
                .and_then(|seconds| seconds.checked_mul(1_000_000))
                .map_or(Value::Null, Value::Time),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_one_line_and_comes_back_as_it_was() {
        let row = ListRow {
            name: Some("two\nlines \"quoted\" \u{e9}".into()),
            url: Some("s3://b/two%0Alines".into()),
            size: Some(u64::MAX),
            etag: Some("0f-2".into()),
            last_modified: Some(1_795_000_000),
            kept: vec![Some("1".into()), None],
        };
        let mut line = Vec::new();

        row.write_line(&mut line);

        assert_eq!(memchr::memchr(b'\n', &line), None);
        assert_eq!(ListRow::read_line(&line), Some(row));
        assert_eq!(ListRow::read_line(&line[1..]), None);
    }

    #[test]
    fn a_value_is_what_its_column_holds() {
        let row = ListRow {
            name: Some("n".into()),
            url: Some("u".into()),
            size: Some(1),
            etag: Some("e".into()),
            last_modified: Some(2),
            kept: Vec::new(),
        };

        let expected =
            [Value::Text("n"), Value::Text("u"), Value::Number(1), Value::Text("e"), Value::Time(2_000_000)];
        assert_eq!(row.values(), expected);
        assert_eq!(ListRow::default().values(), [Value::Null; 5]);
    }
}
