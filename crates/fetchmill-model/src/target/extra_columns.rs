//! Values that a list contains for its targets in addition to their URLs, and the names of the columns that contain
//! these values. A row stores the values as one sequence of bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

use crate::error::{Error, Result};
use crate::limits::KEPT_COLUMNS_MAX;

/// Part of a job's identity that contains the names of the kept columns.
pub const COLUMNS_PART: &str = "columns";
/// Part of a job's identity that contains the types of kept columns that are not text.
pub const TYPES_PART: &str = "column types";
/// Part of a job's identity that states which targets have rows. It is absent if only objects have rows.
pub const ROWS_PART: &str = "rows";
/// Value of [`ROWS_PART`] if every target has a row.
pub const ALL_ROWS: &str = "all";
/// Value of [`ROWS_PART`] if rows are items of an API.
pub const ITEM_ROWS: &str = "items";
/// Column that fetchmill adds to items. It contains the sequence number.
pub const ITEM_SEQUENCE_COLUMN: &str = "_sequence";
/// Column that fetchmill adds to items. It contains the item itself.
pub const ITEM_COLUMN: &str = "_item";
/// Column that fetchmill adds to items. It contains the names of fields whose values do not fit their columns.
pub const UNFIT_COLUMN: &str = "_unfit";
/// Maximum length of the name of an item column, in bytes.
const ITEM_COLUMN_NAME_MAX: usize = 256;
/// Part of a job's identity that states where the encoding of bodies is stored. Jobs of fetchmill 0.1.0 do not have it.
pub const ENCODINGS_PART: &str = "encodings";
/// Value of [`ENCODINGS_PART`] if rows contain the encoding.
pub const ENCODINGS_IN_COLUMN: &str = "column";
/// Column that contains the encoding of a body.
pub const ENCODING_COLUMN: &str = "content_encoding";
/// Column that contains the URL of an object.
pub const URL_COLUMN: &str = "url";
/// Columns that every row has.
const STANDARD: [&str; 11] = [
    "sequence",
    "name",
    "name_raw",
    "status",
    "content_type",
    "etag",
    "last_modified",
    "fetched_at",
    "crc32c",
    "body",
    URL_COLUMN,
];

/// Columns that contain the outcome of a target. They exist in jobs in which every target has a row.
pub const OUTCOME_COLUMNS: [&str; 4] = ["outcome", "kind", "detail", "attempts"];

/// Type of the values in a kept column. Inside fetchmill, all values are text. The text is parsed when values are
/// written to a format that supports numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ColumnType {
    /// Text.
    #[default]
    String,
    /// A signed 64-bit integer.
    Int64,
    /// A 64-bit floating-point number.
    Float64,
    /// `true` or `false`.
    Bool,
}

/// A value of a kept column with its type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TypedValue<'v> {
    /// Text.
    String(&'v [u8]),
    /// A signed 64-bit integer.
    Int64(i64),
    /// A 64-bit floating-point number.
    Float64(f64),
    /// `true` or `false`.
    Bool(bool),
}

impl ColumnType {
    /// Returns the name as users write it.
    pub fn name(self) -> &'static str {
        match self {
            ColumnType::String => "string",
            ColumnType::Int64 => "int64",
            ColumnType::Float64 => "float64",
            ColumnType::Bool => "bool",
        }
    }

    /// Parses the output of [`ColumnType::name`].
    pub fn parse(name: &str) -> Option<Self> {
        let all = [ColumnType::String, ColumnType::Int64, ColumnType::Float64, ColumnType::Bool];
        all.into_iter().find(|kind| kind.name() == name)
    }

    /// Parses text as a value of this type. Returns `None` if the text is not such a value.
    pub fn read(self, text: &[u8]) -> Option<TypedValue<'_>> {
        if self == ColumnType::String {
            return Some(TypedValue::String(text));
        }
        let text = str::from_utf8(text).ok()?.trim();
        match self {
            ColumnType::String => None,
            ColumnType::Int64 => text.parse().ok().map(TypedValue::Int64),
            ColumnType::Float64 => text.parse().ok().map(TypedValue::Float64),
            ColumnType::Bool => BOOLS
                .iter()
                .find(|(word, _)| text.eq_ignore_ascii_case(word))
                .map(|(_, value)| TypedValue::Bool(*value)),
        }
    }
}

/// Formats a value as text that parses to the same value. A float never looks like an integer.
impl fmt::Display for TypedValue<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TypedValue::String(text) => formatter.write_str(&String::from_utf8_lossy(text)),
            TypedValue::Int64(number) => number.fmt(formatter),
            TypedValue::Float64(number) => write!(formatter, "{number:?}"),
            TypedValue::Bool(value) => value.fmt(formatter),
        }
    }
}

/// JSON has no infinity, so floats that are not finite are written as text.
impl Serialize for TypedValue<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            TypedValue::Int64(number) => to.serialize_i64(*number),
            TypedValue::Float64(number) if number.is_finite() => to.serialize_f64(*number),
            TypedValue::String(_) | TypedValue::Float64(_) => to.collect_str(self),
            TypedValue::Bool(value) => to.serialize_bool(*value),
        }
    }
}

/// Types of columns, indexed by column name.
pub type TypesByName = BTreeMap<String, ColumnType>;

/// Parses the values of `--column-types`, each as `COLUMN=TYPE`.
pub fn column_types(texts: &[String]) -> Result<TypesByName> {
    let read = |text: &String| {
        let (name, kind) = text.rsplit_once('=')?;
        Some((name.to_owned(), ColumnType::parse(kind)?)).filter(|_| !name.is_empty())
    };
    texts
        .iter()
        .map(|text| {
            read(text).ok_or_else(|| {
                Error::Usage(format!(
                    "--column-types: {text:?} is not COLUMN=TYPE; the types are string, int64, float64 and \
                     bool"
                ))
            })
        })
        .collect()
}

const BOOLS: [(&str, bool); 2] = [("true", true), ("false", false)];

/// Columns that a job's rows have in addition to the standard ones: the URL, the kept columns of the list, and the
/// outcomes of targets.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ExtraColumns {
    /// Kept columns, which follow the URL column. `None` if there is no URL column either.
    kept: Option<Arc<[String]>>,
    /// Types of the kept columns that are not text, by name.
    types: Arc<TypesByName>,
    has_outcomes: bool,
    has_encodings: bool,
    /// Whether rows are items of an API. If so, the kept columns are the columns of the items, and there are no
    /// standard columns.
    has_items: bool,
}

/// Returns whether a field of an item can become a column with this name.
pub fn is_item_column(name: &str) -> bool {
    let is_own = [ITEM_SEQUENCE_COLUMN, ITEM_COLUMN, UNFIT_COLUMN].contains(&name);
    !is_own && !name.is_empty() && name.len() <= ITEM_COLUMN_NAME_MAX && !name.contains(char::is_control)
}

impl ExtraColumns {
    /// Creates the columns for items of an API.
    pub fn of_items(columns: impl IntoIterator<Item = (String, ColumnType)>) -> Self {
        let columns: Vec<_> = columns.into_iter().collect();
        let types = columns.iter().cloned().collect();
        let kept: Vec<String> = columns.into_iter().map(|(name, _)| name).collect();
        Self::found(Some(kept), false).with_types(&types).with_items(true)
    }

    /// Sets whether rows are items of an API.
    #[must_use]
    pub fn with_items(self, has_items: bool) -> Self {
        ExtraColumns { has_items, ..self }
    }

    /// Returns whether rows are items of an API.
    pub fn has_items(&self) -> bool {
        self.has_items
    }

    /// Creates the columns for a list of URLs. `kept` is the value of `--keep-columns`.
    pub fn of_list(kept: impl IntoIterator<Item = String>) -> Result<Self> {
        Self::of_option("--keep-columns", kept.into_iter().collect())
    }

    /// Adds a last column, which contains the hash of the body.
    pub fn with_hash(self, name: &str) -> Result<Self> {
        let all = self.kept().iter().cloned().chain([name.to_owned()]);
        Ok(Self::of_option("--hash", all.collect())?.with_types(&self.types))
    }

    fn of_option(option: &str, kept: Arc<[String]>) -> Result<Self> {
        let refuse = |message: String| Err(Error::Usage(format!("{option}: {message}")));
        if kept.len() > KEPT_COLUMNS_MAX {
            return refuse(format!("too many columns ({}); keep at most {KEPT_COLUMNS_MAX}", kept.len()));
        }
        let mut seen = BTreeSet::new();
        for name in kept.iter() {
            if STANDARD.contains(&name.as_str()) {
                return refuse(format!(
                    "rows already have a column {name:?}; rename your column, or leave it out"
                ));
            }
            if name.is_empty() || !seen.insert(name) {
                return refuse(format!("the column {name:?} is empty or given twice; give each name once"));
            }
        }
        Ok(ExtraColumns { kept: Some(kept), ..ExtraColumns::default() })
    }

    /// Sets the types of the kept columns. Types for other columns are ignored.
    #[must_use]
    pub fn with_types(self, types: &TypesByName) -> Self {
        let is_told = |(name, kind): &(&String, &ColumnType)| {
            **kind != ColumnType::String && self.kept().iter().any(|kept| kept == *name)
        };
        let told = types.iter().filter(is_told).map(|(name, kind)| (name.clone(), *kind)).collect();
        ExtraColumns { types: Arc::new(told), ..self }
    }

    /// Adds the columns for outcomes. Used for a job in which every target has a row.
    pub fn with_outcomes(self) -> Result<Self> {
        match self.kept().iter().find(|name| OUTCOME_COLUMNS.contains(&name.as_str())) {
            Some(name) => Err(Error::Usage(format!(
                "--keep-failed adds a column {name:?}; rename your column, or leave it out of --keep-columns"
            ))),
            None => Ok(ExtraColumns { has_outcomes: true, ..self }),
        }
    }

    /// Sets whether rows contain the encodings of bodies. If a kept column has the same name, which fetchmill 0.1.0
    /// allowed, it replaces the encoding column.
    #[must_use]
    pub fn with_encodings(self, has_encodings: bool) -> Self {
        let is_free = self.kept().iter().all(|name| name != ENCODING_COLUMN);
        ExtraColumns { has_encodings: has_encodings && is_free, ..self }
    }

    /// Removes the columns for outcomes. Used if only objects have rows.
    #[must_use]
    pub fn without_outcomes(self) -> Self {
        ExtraColumns { has_outcomes: false, ..self }
    }

    /// Adds the columns that a transform fills, after the kept columns of a list. The types of columns are dropped.
    pub fn with_transformed(self, names: &[String]) -> Result<Self> {
        if names.is_empty() {
            return Ok(self);
        }
        let all = self.kept().iter().chain(names).cloned();
        Self::of_option("--transform-columns", all.collect())
    }

    /// Creates the columns that were found in a shard. They are not checked, because a file can contain anything.
    pub fn found(kept: Option<Vec<String>>, has_outcomes: bool) -> Self {
        ExtraColumns { kept: kept.map(Into::into), has_outcomes, ..ExtraColumns::default() }
    }

    /// Creates the columns that the identity of a job describes.
    pub fn of_identity(identity: &BTreeMap<String, String>) -> Self {
        let names = identity.get(COLUMNS_PART).and_then(|text| serde_json::from_str(text).ok());
        let types = identity.get(TYPES_PART).and_then(|text| serde_json::from_str(text).ok());
        let has_outcomes = identity.get(ROWS_PART).is_some_and(|rows| rows == ALL_ROWS);
        let has_encodings = identity.get(ENCODINGS_PART).is_some_and(|place| place == ENCODINGS_IN_COLUMN);
        let columns = Self::found(names, has_outcomes).with_encodings(has_encodings);
        let has_items = identity.get(ROWS_PART).is_some_and(|rows| rows == ITEM_ROWS);
        columns.with_types(&types.unwrap_or_default()).with_items(has_items)
    }

    /// Returns the names as part of a job's identity, if there are kept columns.
    pub fn to_text(&self) -> Option<String> {
        self.kept.as_ref().map(|names| serde_json::json!(**names).to_string())
    }

    /// Returns the types as part of a job's identity, if not all columns are text.
    pub fn types_to_text(&self) -> Option<String> {
        (!self.types.is_empty()).then(|| serde_json::json!(*self.types).to_string())
    }

    /// Returns whether objects can have a URL that differs from their name.
    pub fn has_url(&self) -> bool {
        self.kept.is_some() && !self.has_items
    }

    /// Returns whether rows contain the outcomes of targets.
    pub fn has_outcomes(&self) -> bool {
        self.has_outcomes
    }

    /// Returns whether rows contain the encoding of bodies.
    pub fn has_encodings(&self) -> bool {
        self.has_encodings
    }

    /// Returns the names of the kept columns.
    pub fn kept(&self) -> &[String] {
        self.kept.as_deref().unwrap_or_default()
    }

    /// Iterates over the names and types of the kept columns, in order.
    pub fn typed(&self) -> impl Iterator<Item = (&str, ColumnType)> {
        self.kept().iter().map(|name| (name.as_str(), self.types.get(name).copied().unwrap_or_default()))
    }

    /// Returns the columns for a format that stores no values other than URLs.
    #[must_use]
    pub fn without_extra(&self) -> Self {
        let kept = self.kept.as_ref().map(|_| Arc::default());
        ExtraColumns { kept, has_encodings: self.has_encodings, ..ExtraColumns::default() }
    }
}

/// Appends values in the order of their columns. Each value is written as its length plus one in LEB128, followed by
/// its bytes. A length of 0 means that there is no value.
pub fn write_extra<'v>(values: impl Iterator<Item = Option<&'v [u8]>>, out: &mut Vec<u8>) {
    for value in values {
        let mut number = value.map_or(0, |value| value.len() as u64 + 1);
        while number >= 0x80 {
            out.push(number as u8 | 0x80);
            number >>= 7;
        }
        out.push(number as u8);
        out.extend_from_slice(value.unwrap_or_default());
    }
}

/// Reads the output of [`write_extra`]. The iterator ends at bytes that `write_extra` does not produce.
pub fn extra_values(kept: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    let mut rest = kept;
    std::iter::from_fn(move || {
        let (number, behind) = read_number(rest)?;
        let Some(length) = number.checked_sub(1) else {
            rest = behind;
            return Some(None);
        };
        let (value, behind) = behind.split_at_checked(usize::try_from(length).ok()?)?;
        rest = behind;
        Some(Some(value))
    })
}

fn read_number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0_u64;
    for (position, byte) in bytes.iter().enumerate().take(9) {
        number |= u64::from(byte & 0x7f) << (7 * position);
        if byte & 0x80 == 0 {
            return Some((number, &bytes[position + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn columns(names: &[&str]) -> Result<ExtraColumns> {
        ExtraColumns::of_list(names.iter().map(|name| (*name).to_owned()))
    }

    #[test]
    fn columns_survive_the_journal() {
        let list = columns(&["rank", "two words \u{e9}"]).unwrap();
        let of_all = ExtraColumns::default().with_outcomes().unwrap();
        for columns in [ExtraColumns::default(), list.without_extra(), list, of_all] {
            let part = columns.to_text().map(|text| (COLUMNS_PART.to_owned(), text));
            let rows = columns.has_outcomes().then(|| (ROWS_PART.to_owned(), ALL_ROWS.to_owned()));
            assert_eq!(ExtraColumns::of_identity(&part.into_iter().chain(rows).collect()), columns);
        }
        let damaged = [(COLUMNS_PART.to_owned(), "[1".to_owned())];
        assert_eq!(ExtraColumns::of_identity(&damaged.into()), ExtraColumns::default());
    }

    #[test]
    fn a_column_that_could_not_be_told_from_another_is_refused() {
        for names in [&["body"][..], &["rank", "url"], &["rank", "rank"], &[""], &["a"; 65]] {
            let error = columns(names).unwrap_err();
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().starts_with("--keep-columns: "), "{error}");
        }
        for name in OUTCOME_COLUMNS {
            assert!(columns(&[name]).unwrap().with_outcomes().is_err(), "{name}");
        }
        let most: Vec<String> = (0..KEPT_COLUMNS_MAX).map(|number| format!("c{number}")).collect();
        assert_eq!(ExtraColumns::of_list(most.clone()).unwrap().kept(), most);
    }

    #[test]
    fn a_kept_column_takes_the_place_of_the_encodings() {
        assert!(columns(&["rank"]).unwrap().with_encodings(true).has_encodings());
        assert!(!columns(&[ENCODING_COLUMN]).unwrap().with_encodings(true).has_encodings());
    }

    #[test]
    fn types_survive_the_journal() {
        let types = column_types(&["rank=int64".into(), "a=b=bool".into(), "country=string".into()]).unwrap();
        let columns =
            columns(&["rank", "country", "a=b"]).unwrap().with_types(&types).with_hash("sha256").unwrap();
        let parts =
            [(COLUMNS_PART, columns.to_text().unwrap()), (TYPES_PART, columns.types_to_text().unwrap())];
        let identity = parts.map(|(part, text)| (part.to_owned(), text)).into();

        assert_eq!(ExtraColumns::of_identity(&identity), columns);
        let kinds: Vec<_> = columns.typed().map(|(_, kind)| kind).collect();
        assert_eq!(kinds, [ColumnType::Int64, ColumnType::String, ColumnType::Bool, ColumnType::String]);
        for text in ["rank", "=int64", "rank=int", "rank="] {
            assert_eq!(column_types(&[text.into()]).unwrap_err().exit_code(), 2, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_typed_value_comes_back_from_its_text(number: i64, float: f64, value: bool) {
            let typed = [TypedValue::Int64(number), TypedValue::Float64(float), TypedValue::Bool(value)];
            for (kind, typed) in [ColumnType::Int64, ColumnType::Float64, ColumnType::Bool].into_iter().zip(typed) {
                for text in [typed.to_string(), serde_json::to_string(&typed).unwrap()] {
                    prop_assert_eq!(kind.read(text.as_bytes()), Some(typed));
                }
            }
        }

        #[test]
        fn any_text_is_a_value_or_none(text: Vec<u8>) {
            prop_assert_eq!(ColumnType::String.read(&text), Some(TypedValue::String(&text)));
            for kind in [ColumnType::Int64, ColumnType::Float64, ColumnType::Bool] {
                let _ = kind.read(&text);
            }
        }
    }

    #[test]
    fn no_value_is_not_an_empty_one() {
        let mut kept = Vec::new();
        write_extra([None, Some(&b""[..]), Some(b"a"), None].into_iter(), &mut kept);

        assert_eq!(extra_values(&kept).collect::<Vec<_>>(), [None, Some(&b""[..]), Some(b"a"), None]);
    }

    proptest! {
        #[test]
        fn any_values_come_back(values in prop::collection::vec(prop::option::of(prop::collection::vec(any::<u8>(), 0..300)), 0..10)) {
            let mut kept = Vec::new();
            write_extra(values.iter().map(Option::as_deref), &mut kept);

            prop_assert_eq!(extra_values(&kept).map(|value| value.map(<[u8]>::to_vec)).collect::<Vec<_>>(), values);
        }

        #[test]
        fn any_bytes_have_an_end(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert!(extra_values(&bytes).count() <= bytes.len());
        }
    }
}
