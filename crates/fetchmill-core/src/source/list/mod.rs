//! Lists of URLs as a source: text, CSV, TSV, JSON lines and Parquet, the first four also compressed.
//!
//! A list is read as a stream: memory has a bound whatever its length and whatever is in it, and the first page comes
//! as soon as there are entries for it. A line that gives no URL is a target too, one that fails, with its line's
//! number: nothing that stands in a list is lost without a word. What is read is handed over by the caller.
//!
//! # Going on
//! Behind each page there is a [`ListPosition`] for the journal. A list that is made again from the start of the same
//! input goes on behind it: what was read before is read and digested again, not understood again, and must be the
//! same.

mod columns;
mod csv;
mod decode;
mod filters;
mod format;
mod items;
mod json;
mod lines;
mod parquet;
mod reader;
mod records;
mod sample;
mod table;
mod template;
mod text;
mod url_text;
mod value;

#[cfg(test)]
mod tests;

pub use decode::decoded;
pub use filters::Filters;
pub use format::{Compression, ListFormat, format_of};
pub use items::{ITEMS_READ_MAX, ItemBatch, Items};
pub use reader::ListReader;
pub use sample::Sample;
pub use table::TableReader;
pub use url_text::{is_plain_at, normalise, origin_of};

use super::ListedPage;
use crate::error::Result;

/// Where a list hands over its pages.
pub trait ListSource: Send {
    /// What comes next.
    fn next_page(&mut self) -> Result<Listed>;

    /// Goes on behind a position of an earlier run, from the next page on; to be called before the first one. The default
    /// one is the list's start.
    fn resume(&mut self, behind: ListPosition);
}

/// What a list has to give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listed {
    /// A page. Its cursor says whether it is the last one, and that comes always; it may have no targets.
    Page(Box<ListedPage>),
    /// The input has nothing at the moment, or a long stretch of it had no entry: a moment to look at a stop signal.
    NothingNow,
    /// The last page has been given.
    End,
}

/// How far a list was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ListPosition {
    /// Entries so far: targets, and those that a filter left out.
    pub entries: u64,
    /// Bytes so far, decompressed, up to a line's start; for Parquet rows.
    pub offset: u64,
    /// Lines so far.
    pub line: u64,
    /// A digest of all of that.
    pub digest: u64,
}

impl ListPosition {
    /// For the journal.
    pub fn to_text(&self) -> String {
        format!("{} {} {} {:016x}", self.entries, self.offset, self.line, self.digest)
    }

    /// The reverse of [`ListPosition::to_text`]; `None` for what is none.
    pub fn from_text(text: &str) -> Option<Self> {
        let mut parts = text.split(' ');
        let mut number = || parts.next()?.parse().ok();
        let (entries, offset, line) = (number()?, number()?, number()?);
        let digest = u64::from_str_radix(parts.next()?, 16).ok()?;
        parts.next().is_none().then_some(ListPosition { entries, offset, line, digest })
    }
}

/// How a list is understood: part of what makes two runs the same job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListOptions {
    /// Which column has the URL, by its name or its number from 1; else `url`, or the first of a CSV without names.
    pub column: Option<String>,
    /// The URL with `{}` for the column's value and `{name}` for another column's.
    pub template: Option<String>,
    /// Whether a CSV's first record has the columns' names. If nobody says so: yes when a column is given by name;
    /// else when the URL's column has a plain word there (no `:`, `/` or `.`) and there is no template.
    pub header: Option<bool>,
    /// Which column has the targets' names.
    pub key_column: Option<String>,
    /// Columns that are carried into the output.
    pub keep_columns: Vec<String>,
    /// What is fetched ([`Filters`]); matched with the URL.
    pub include: Vec<String>,
    /// What is left out.
    pub exclude: Vec<String>,
    /// How many targets are taken ([`Sample`]).
    pub sample: Option<u64>,
    /// Whether what is no URL is a target all the same, as it stands: a function of the program makes something of it.
    pub any_text: bool,
}

impl ListOptions {
    /// Whether a file that has the columns of a manifest is read as one: nobody says which columns are meant.
    pub(crate) fn may_be_manifest(&self) -> bool {
        self.column.is_none()
            && self.template.is_none()
            && self.key_column.is_none()
            && self.header != Some(false)
            && !self.any_text
    }

    /// For the job's identity: what is set, each with its option's name; empty when nothing is.
    pub fn text(&self) -> String {
        let one = |name: &str, value: &Option<String>| {
            value.iter().map(|value| format!("{name}={value:?}")).collect()
        };
        let many =
            |name: &str, values: &[String]| values.iter().map(|value| format!("{name}={value:?}")).collect();
        let parts: [Vec<String>; 9] = [
            one("column", &self.column),
            one("template", &self.template),
            one("header", &self.header.map(|header| header.to_string())),
            one("key-column", &self.key_column),
            many("keep-columns", &self.keep_columns),
            many("include", &self.include),
            many("exclude", &self.exclude),
            one("sample", &self.sample.map(|sample| sample.to_string())),
            one("any-text", &self.any_text.then(|| "yes".to_owned())),
        ];
        parts.concat().join(" ")
    }
}
