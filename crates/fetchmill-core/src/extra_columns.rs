//! What a list says of its targets besides their URLs, and what becomes of it in rows: values in one run of bytes, and
//! the names of the columns that they are for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::limits::KEPT_COLUMNS_MAX;

/// The part of a job's identity that has the names, for jobs whose objects have such columns.
pub const COLUMNS_PART: &str = "columns";
/// The part of a job's identity that says that every target has a row,
pub const ROWS_PART: &str = "rows";
/// and how it says so.
pub const ALL_ROWS: &str = "all";
/// The column of an object's URL.
pub const URL_COLUMN: &str = "url";
/// Columns that a row has anyway.
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

/// What became of a target, in a job where every target has a row.
pub const OUTCOME_COLUMNS: [&str; 4] = ["outcome", "kind", "detail", "attempts"];

/// Columns that the rows of a job have besides the standard ones: that of their URL and those that were kept of the list
/// they come from, and what became of their targets.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ExtraColumns {
    /// Those of a list, behind the URL's; none: there is no URL either.
    kept: Option<Arc<[String]>>,
    has_outcomes: bool,
}

impl ExtraColumns {
    /// Those of a list of URLs: `kept` is what `--keep-columns` says.
    pub fn of_list(kept: impl IntoIterator<Item = String>) -> Result<Self> {
        Self::of_option("--keep-columns", kept.into_iter().collect())
    }

    /// The same with that of their bodies' hash, behind all others.
    pub fn with_hash(self, name: &str) -> Result<Self> {
        let all = self.kept().iter().cloned().chain([name.to_owned()]);
        Self::of_option("--hash", all.collect())
    }

    fn of_option(option: &str, kept: Arc<[String]>) -> Result<Self> {
        let refuse = |message: String| Err(Error::Usage(format!("{option}: {message}")));
        if kept.len() > KEPT_COLUMNS_MAX {
            return refuse(format!("{} columns are too many: keep {KEPT_COLUMNS_MAX} at most", kept.len()));
        }
        let mut seen = BTreeSet::new();
        for name in kept.iter() {
            if STANDARD.contains(&name.as_str()) {
                return refuse(format!(
                    "rows have a column {name:?} of their own; give yours another name, or leave it out"
                ));
            }
            if name.is_empty() || !seen.insert(name) {
                return refuse(format!("the column {name:?} is empty or given twice; give each name once"));
            }
        }
        Ok(ExtraColumns { kept: Some(kept), has_outcomes: false })
    }

    /// The same in a job where every target has a row.
    pub fn with_outcomes(self) -> Result<Self> {
        match self.kept().iter().find(|name| OUTCOME_COLUMNS.contains(&name.as_str())) {
            Some(name) => Err(Error::Usage(format!(
                "--all-rows: rows have a column {name:?} of their own then; give yours another name, or leave it out"
            ))),
            None => Ok(ExtraColumns { has_outcomes: true, ..self }),
        }
    }

    /// The same where only objects have rows.
    #[must_use]
    pub fn without_outcomes(self) -> Self {
        ExtraColumns { has_outcomes: false, ..self }
    }

    /// The same with those that a transform fills, behind the ones that are kept of a list.
    pub fn with_transformed(self, names: &[String]) -> Result<Self> {
        if names.is_empty() {
            return Ok(self);
        }
        let all = self.kept().iter().chain(names).cloned();
        Self::of_option("--transform-columns", all.collect())
    }

    /// Of a shard that has these: what is in a file may be anything.
    pub fn found(kept: Option<Vec<String>>, has_outcomes: bool) -> Self {
        ExtraColumns { kept: kept.map(Into::into), has_outcomes }
    }

    /// Those of a job, by its identity.
    pub fn of_identity(identity: &BTreeMap<String, String>) -> Self {
        let names = identity.get(COLUMNS_PART).and_then(|text| serde_json::from_str(text).ok());
        let has_outcomes = identity.get(ROWS_PART).is_some_and(|rows| rows == ALL_ROWS);
        Self::found(names, has_outcomes)
    }

    /// As a part of a job's identity, if it has one.
    pub fn to_text(&self) -> Option<String> {
        self.kept.as_ref().map(|names| serde_json::json!(**names).to_string())
    }

    /// Whether objects may have a URL that is not their name.
    pub fn has_url(&self) -> bool {
        self.kept.is_some()
    }

    /// Whether rows say what became of their targets.
    pub fn has_outcomes(&self) -> bool {
        self.has_outcomes
    }

    /// Names of the kept columns.
    pub fn kept(&self) -> &[String] {
        self.kept.as_deref().unwrap_or_default()
    }

    /// The same for a format that keeps URLs only.
    #[must_use]
    pub fn without_extra(&self) -> Self {
        ExtraColumns { kept: self.kept.as_ref().map(|_| Arc::default()), has_outcomes: false }
    }
}

/// Appends values in the order of their columns: for each its length and one as LEB128 and its bytes, 0 for none.
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

/// The reverse of [`write_extra`]; it ends where the bytes are not what that writes.
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
