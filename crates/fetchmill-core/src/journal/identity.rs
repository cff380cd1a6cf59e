//! What makes two runs the same job.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::{Error, Result};

/// What stands for the format in the identity of a check: it has no objects, only rows.
pub const CHECK: &str = "check";

/// The part of a job's identity that says that a function transforms its objects.
pub const TRANSFORM: &str = "transform";

const TRANSFORM_COLUMNS: &str = "a function with the columns ";

/// As it stands there. The function itself does not: one that was mended goes on with the same job.
pub fn transform_text(columns: &[String]) -> String {
    match columns {
        [] => "a function".to_owned(),
        columns => format!("{TRANSFORM_COLUMNS}{}", serde_json::json!(columns)),
    }
}

/// The columns that it says a function may fill.
pub fn transform_columns(text: &str) -> Vec<String> {
    let names = text.strip_prefix(TRANSFORM_COLUMNS).and_then(|names| serde_json::from_str(names).ok());
    names.unwrap_or_default()
}

/// Refuses a check where objects, or lists of failures, are asked for.
pub fn must_have_objects(identity: &BTreeMap<String, String>, dest: &Path) -> Result<()> {
    if identity.get("format").is_none_or(|format| format != CHECK) {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "{} is a check: it has a row for each target in its results, and no objects",
        dest.display()
    )))
}

/// Source, listing, format and names identify a job; all other options may change between runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity(BTreeMap<String, String>);

impl Identity {
    /// From its parts: what the part is called in a message, and its value.
    pub fn new(parts: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        Identity(parts.into_iter().map(|(part, value)| (part.to_owned(), value)).collect())
    }

    pub(super) fn to_json(&self) -> String {
        serde_json::to_value(&self.0).map_or_else(|_| String::new(), |value| value.to_string())
    }

    /// The parts that a journal stores.
    pub fn from_json(stored: &str) -> BTreeMap<String, String> {
        serde_json::from_str(stored).unwrap_or_default()
    }

    pub(super) fn equals(&self, stored: &str) -> bool {
        Self::from_json(stored) == self.0
    }

    pub(super) fn must_equal(&self, stored: &str, dest: &Path) -> Result<()> {
        let stored = Self::from_json(stored);
        let differs = self.0.iter().find(|(part, value)| stored.get(*part) != Some(value));
        let more = || stored.iter().find(|(part, _)| !self.0.contains_key(*part));
        match differs.or_else(more) {
            None => Ok(()),
            Some((part, value)) if !self.0.contains_key(part) => Err(Error::Usage(format!(
                "{} belongs to another job: its {part} is {value}, and here there is none; choose another destination",
                dest.display()
            ))),
            Some((part, value)) => Err(Error::Usage(format!(
                "{} belongs to another job: its {part} is {}, not {value}; choose another destination",
                dest.display(),
                stored.get(part).map_or("not set", String::as_str)
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_of_a_transform_come_back() {
        for columns in [vec![], vec!["title".to_owned(), "two \"words\"".to_owned()]] {
            assert_eq!(transform_columns(&transform_text(&columns)), columns);
        }
        assert_eq!(transform_columns(""), Vec::<String>::new());
    }
}
