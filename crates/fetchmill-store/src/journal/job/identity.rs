//! The identity of a job: the options that determine whether two runs belong to the same job.

use std::collections::BTreeMap;
use std::path::Path;

use crate::journal::location::JobLocation;
use fetchmill_model::error::{Error, Result};

/// Format of a check, which writes rows but no objects.
pub const CHECK: &str = "check";
/// Format of a list that is written out.
pub const LIST: &str = "list";

/// Listing of a bucket.
pub const KEYS: &str = "keys";

/// Listing of a web server whose folders are served as JSON.
pub const FOLDERS: &str = "autoindex";

/// Listing of a web server whose folders are served as index pages.
pub const INDEX_PAGES: &str = "html";

/// Listing of a web server whose folders are served as pages with links.
pub const LINK_PAGES: &str = "links";

/// Listing of a sitemap. Its targets are like those of a list.
pub const SITEMAPS: &str = "list sitemap";

/// Listing of a source that is itself the only object.
pub const ONE_OBJECT: &str = "list object";

/// Part for a function that transforms objects.
pub const TRANSFORM: &str = "transform";

const TRANSFORM_COLUMNS: &str = "a function with the columns ";

/// Returns the value of the transform part. It does not depend on the function itself, so a corrected function can
/// continue the job.
pub fn transform_text(columns: &[String]) -> String {
    match columns {
        [] => "a function".to_owned(),
        columns => format!("{TRANSFORM_COLUMNS}{}", serde_json::json!(columns)),
    }
}

/// Parses the names of the columns that the function may fill.
pub fn transform_columns(text: &str) -> Vec<String> {
    let names = text.strip_prefix(TRANSFORM_COLUMNS).and_then(|names| serde_json::from_str(names).ok());
    names.unwrap_or_default()
}

/// Part for image processing.
pub const IMAGES: &str = "images";

/// Part for the names of a list's objects, if they are not the names in the list.
pub const NAMES: &str = "names";

/// Part for the files stored next to each object.
pub const SIDECAR: &str = "sidecar";

/// Part for the path prefix that is removed from all names.
pub const STRIP_PREFIX: &str = "strip-prefix";

/// Part for a hash of each body in the rows.
pub const HASH: &str = "hash";

/// Part for the index of each shard.
pub const INDEX_PART: &str = "index";

/// Value of the index part. It is both the format and the file extension of the indexes.
pub const CDXJ: &str = "cdxj";

/// Part for WARC files that contain other replies in addition to the objects.
pub const REPLIES_PART: &str = "replies";

/// Value of the replies part if all replies are stored.
pub const ALL_REPLIES: &str = "all";

/// Part for encoded replies that are stored decoded.
pub const COMPRESSED: &str = "compressed";

/// Part for skipping objects that opt out. It belongs to the identity so that a later run cannot silently fetch them.
pub const OPT_OUT: &str = "opt-out";

/// Part for skipping targets that the robots.txt of their host forbids.
pub const ROBOTS: &str = "robots";

/// Part for the request made for each target.
pub const REQUEST_PART: &str = "request";

/// Rejects a job that writes rows. Used by commands that need objects or lists of failures.
pub fn must_have_objects(identity: &BTreeMap<String, String>, dest: &Path) -> Result<()> {
    match identity.get("format").map(String::as_str) {
        Some(kind @ (CHECK | LIST)) => Err(Error::Usage(format!(
            "{} holds the results of `fetchmill {kind}` (one row per target), not objects; read the results \
             file",
            dest.display()
        ))),
        _ => Ok(()),
    }
}

/// Part with the name of the bucket that receives the shards.
pub const DESTINATION: &str = "destination";

/// Rejects a job whose shards were uploaded to a bucket, unless they were copied back to the journal's folder. For
/// readers of objects.
pub fn must_be_here(identity: &BTreeMap<String, String>, place: &JobLocation) -> Result<()> {
    let destination = identity.get(DESTINATION).filter(|_| !place.has_own_journal());
    let Some(destination) = destination else { return Ok(()) };
    Err(Error::Usage(format!(
        "the objects of this job are in {destination}; download the shards and read the local copies (see \
         `fetchmill help s3`)"
    )))
}

/// The identity of a job: its source, listing, format and names. All other options may change between runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity(BTreeMap<String, String>);

impl Identity {
    /// Creates an identity from named parts. Error messages contain these names.
    pub fn new(parts: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        Identity(parts.into_iter().map(|(part, value)| (part.to_owned(), value)).collect())
    }

    /// Creates an identity from the parts of another job.
    pub fn of_parts(parts: BTreeMap<String, String>) -> Self {
        Identity(parts)
    }

    pub(in crate::journal) fn to_json(&self) -> String {
        serde_json::to_value(&self.0).map_or_else(|_| String::new(), |value| value.to_string())
    }

    /// Parses the parts stored in a journal.
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
                "{} belongs to another job: its {part} is {value}, but this command sets none; choose \
                 another destination",
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
