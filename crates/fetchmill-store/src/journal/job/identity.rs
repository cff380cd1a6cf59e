//! What makes two runs the same job.

use std::collections::BTreeMap;
use std::path::Path;

use crate::journal::location::JobLocation;
use fetchmill_model::error::{Error, Result};

/// What stands for the format in the identity of a check: it has no objects, only rows.
pub const CHECK: &str = "check";
/// The same in that of a list that is written out.
pub const LIST: &str = "list";

/// What stands for the listing in the identity of a job whose source is a bucket.
pub const KEYS: &str = "keys";

/// The same where the source is a web server's folders, listed in JSON,
pub const FOLDERS: &str = "autoindex";

/// as index pages,
pub const INDEX_PAGES: &str = "html";

/// and as any pages with links.
pub const LINK_PAGES: &str = "links";

/// The same where it is a sitemap: its targets are those of a list.
pub const SITEMAPS: &str = "list sitemap";

/// The same where it is itself an object.
pub const ONE_OBJECT: &str = "list object";

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

/// The part of a job's identity that says what becomes of its images.
pub const IMAGES: &str = "images";

/// The part of a job's identity that says what objects of a list are called, when that is not what the list says;
pub const NAMES: &str = "names";

/// the one that says what stands beside each object;
pub const SIDECAR: &str = "sidecar";

/// and the one that says which leading path all names have lost.
pub const STRIP_PREFIX: &str = "strip-prefix";

/// The part of a job's identity that says that rows have a hash of each body.
pub const HASH: &str = "hash";

/// The part of a job's identity that says that each shard has an index,
pub const INDEX_PART: &str = "index";

/// and in which form: it is the end of their names, too.
pub const CDXJ: &str = "cdxj";

/// The part of a job's identity that says that WARC has more replies than those that are objects:
pub const REPLIES_PART: &str = "replies";

/// all of them.
pub const ALL_REPLIES: &str = "all";

/// The part of a job's identity that says that encoded replies are stored decoded.
pub const COMPRESSED: &str = "compressed";

/// The part of a job's identity that says that reserved objects are skipped: a later run must not fetch them unnoticed.
pub const OPT_OUT: &str = "opt-out";

/// The same of targets that the robots.txt of their hosts forbids.
pub const ROBOTS: &str = "robots";

/// The part of a job's identity that says what its targets are asked with.
pub const REQUEST_PART: &str = "request";

/// Refuses a job of rows where objects, or lists of failures, are asked for.
pub fn must_have_objects(identity: &BTreeMap<String, String>, dest: &Path) -> Result<()> {
    match identity.get("format").map(String::as_str) {
        Some(kind @ (CHECK | LIST)) => Err(Error::Usage(format!(
            "{} is a {kind}: it has a row for each target in its results, and no objects",
            dest.display()
        ))),
        _ => Ok(()),
    }
}

/// The part of an identity that names the bucket which shards go to.
pub const DESTINATION: &str = "destination";

/// A job whose shards went to a bucket has none here, unless they were copied to its journal: what reads objects refuses it.
pub fn must_be_here(identity: &BTreeMap<String, String>, place: &JobLocation) -> Result<()> {
    let destination = identity.get(DESTINATION).filter(|_| !place.has_own_journal());
    let Some(destination) = destination else { return Ok(()) };
    Err(Error::Usage(format!(
        "the objects of this job are in {destination}: fetch its shards first, and read those (see `fetchmill help s3`)"
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

    /// From those of another job.
    pub fn of_parts(parts: BTreeMap<String, String>) -> Self {
        Identity(parts)
    }

    pub(in crate::journal) fn to_json(&self) -> String {
        serde_json::to_value(&self.0).map_or_else(|_| String::new(), |value| value.to_string())
    }

    /// The parts that a journal stores.
    pub fn from_json(stored: &str) -> BTreeMap<String, String> {
        serde_json::from_str(stored).unwrap_or_default()
    }

    pub(in crate::journal) fn equals(&self, stored: &str) -> bool {
        Self::from_json(stored) == self.0
    }

    pub(in crate::journal) fn must_equal(&self, stored: &str, dest: &Path) -> Result<()> {
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
