//! Validation for `--store items`. Items do not require requests for objects, so most options of a job do not apply.

use super::job_request::JobRequest;
use super::source_options::Listing;
use super::workers::Workers;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits::KEPT_COLUMNS_MAX;
use fetchmill_model::target::extra_columns::{column_types, is_item_column};
use fetchmill_store::sink::Format;

impl JobRequest {
    /// Rejects options that cannot be combined with items as rows.
    pub(super) fn check_items(&self) -> Result<()> {
        if !self.stores_items() {
            return Ok(());
        }
        let refuse = |problem: String| Err(Error::Usage(format!("--store items: {problem}")));
        if self.listing != Listing::Json {
            return refuse("only JSON pages have items; add --listing json".into());
        }
        if self.pass.is_some() || self.rows.is_some() {
            return refuse("only `fetchmill get` can store items".into());
        }
        if !matches!(self.format, Format::Parquet | Format::Jsonl) {
            let format = self.format.name();
            return refuse(format!("{format} has no rows; choose --format parquet or jsonl"));
        }
        if self.workers != Workers::Native {
            return refuse("items come with the listing, so --engine has no effect; leave it out".into());
        }
        if self.upload.is_some() {
            return refuse(
                "DEST must be a folder, not a bucket; copy the shards once the job is finished".into(),
            );
        }
        match self.options_of_objects().into_iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => {
                refuse(format!("{option} applies to objects, but no objects are fetched; leave it out"))
            }
            None => self.check_item_types(),
        }
    }

    /// Returns the options that affect only objects, and whether each was specified.
    fn options_of_objects(&self) -> [(&'static str, bool); 15] {
        [
            ("--url-field", self.json.url_field.is_some()),
            ("--name-field", self.json.name_field.is_some()),
            ("--size-field", self.json.size_field.is_some()),
            ("--modified-field", self.json.modified_field.is_some()),
            ("--include", !self.list.include.is_empty()),
            ("--exclude", !self.list.exclude.is_empty()),
            ("--strip-prefix", self.strip_prefix.is_some()),
            ("--keep-columns", !self.list.keep_columns.is_empty()),
            ("--hash", self.hash.is_some()),
            ("--keep-failed", self.keep_failed),
            ("--transform", self.transform.is_some()),
            ("--retry-failed", self.retry_failed.is_some()),
            ("--bwlimit", self.bwlimit.is_some()),
            ("--max-bytes", self.max_bytes.is_some()),
            ("--first", self.first.is_some()),
        ]
    }

    fn check_item_types(&self) -> Result<()> {
        let refuse = |problem: String| Err(Error::Usage(format!("--column-types: {problem}")));
        let given = column_types(&self.list.column_types)?;
        if !given.is_empty() && self.format != Format::Parquet {
            return refuse("jsonl stores items unchanged; choose --format parquet, or leave it out".into());
        }
        if given.len() >= KEPT_COLUMNS_MAX {
            return refuse(format!(
                "too many columns ({}); give at most {}",
                given.len(),
                KEPT_COLUMNS_MAX - 1
            ));
        }
        match given.keys().find(|name| !is_item_column(name)) {
            Some(name) => refuse(format!("{name:?} cannot be a column of items; leave it out")),
            None => Ok(()),
        }
    }
}
