//! Lists of URLs as a source: text, CSV, TSV, JSON lines and Parquet, the first four also compressed. Also inventories
//! of buckets.
//!
//! A list is read as a stream. Its memory is limited for any length and contents, and the first page comes as soon as
//! it has entries. A line without a URL is a target that fails, with its line number, so nothing in a list is lost
//! silently. The caller provides the input.
//!
//! # Resuming
//!
//! After each page there is a [`ListPosition`] for the journal. A list that is opened again at the start of the same
//! input resumes after that position. The earlier input is read and digested again, but not parsed again, and must be
//! the same.

mod columns;
mod csv;
mod decode;
mod dialect;
mod filters;
mod format;
mod inventory;
mod items;
mod json;
mod json_array;
mod json_template;
mod lines;
mod name_template;
mod not_a_list;
mod page_codec;
mod page_header;
mod parquet;
mod parquet_pages;
mod parts;
mod read_share;
mod reader;
mod records;
mod request;
mod sample;
mod seen_lines;
mod table;
mod template;
mod text;
mod url_text;
mod value;
mod zip_member;

#[cfg(test)]
mod tests;

pub use decode::{compression_of, decoded};
pub use filters::Filters;
pub use format::{Compression, ListFormat, format_of};
pub use inventory::{DataFile, DataFiles, Inventory};
pub use items::{ITEMS_READ_MAX, ItemBatch, Items};
pub use json::FieldCheck;
pub use name_template::NameTemplate;
pub use parquet::parquet_rows;
pub use parts::ListParts;
pub use reader::ListReader;
pub use records::ListRecords;
pub use request::{RequestOptions, RowHeader};
pub use sample::ListSample;
pub use table::TableReader;
pub use url_text::{is_plain_at, normalise, origin_of};
pub use zip_member::{ZipMember, is_zip, open_only_member};

use serde::{Deserialize, Serialize};

use super::ListedPage;
use crate::error::Result;
use crate::options::{Bounds, options, words};
use crate::source::ListPosition;

/// Where a list hands over its pages.
pub trait ListSource: Send {
    /// What comes next.
    fn next_page(&mut self) -> Result<ListStep>;

    /// Goes on behind a position of an earlier run, from the next page on; to be called before the first one. The
    /// default one is the list's start.
    fn resume(&mut self, behind: ListPosition);
}

/// What a list has to give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListStep {
    /// A page. Its cursor says whether it is the last one, and that comes always; it may have no targets.
    Page(Box<ListedPage>),
    /// The input has nothing at the moment, or a long stretch of it had no entry: a moment to look at a stop signal.
    NothingNow,
    /// The last page has been given.
    End,
}

/// Whether a CSV's first record has the columns' names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CsvHeader {
    /// Yes when a column is given by name; else when the URL's column has a plain word there (no `:`, `/` or `.`) and
    /// there is no template.
    #[default]
    Auto,
    /// It has.
    Yes,
    /// It has not.
    No,
}

impl CsvHeader {
    /// What somebody has said.
    fn said(self) -> Option<bool> {
        (self != CsvHeader::Auto).then_some(self == CsvHeader::Yes)
    }
}

words!(CsvHeader);

options! {
    /// Which targets are taken, and how a list is understood: part of what makes two runs the same job.
    #[derive(PartialEq, Eq)]
    pub struct ListOptions {
        /// Which column has the URL, by its name or its number from 1; else `url`, or the first of a CSV without names.
        column: Option<String> = None;
        /// The URL with `{}` for the column's value and `{name}` for another column's.
        template: Option<String> = None;
        /// See [`CsvHeader`].
        csv_header: CsvHeader = CsvHeader::Auto;
        /// What separates the fields of a CSV: a character or `tab`; none: the first record shows it.
        delimiter: Option<String> = None;
        /// What fields of a CSV may be quoted with: a character, or `none`.
        quote: Option<String> = None;
        /// Which column has the targets' names.
        key_column: Option<String> = None;
        /// Columns that are carried into the output.
        keep_columns: Vec<String> = Vec::new();
        /// What the values of columns are that are kept or that a transform fills, each as `COLUMN=TYPE`
        /// ([`crate::target::extra_columns::column_types`]).
        column_types: Vec<String> = Vec::new();
        /// What is taken ([`Filters`]): matched with the name that a server lists, or with the URL of a list.
        include: Vec<String> = Vec::new();
        /// What is left out.
        exclude: Vec<String> = Vec::new();
        /// How many targets of a list are taken ([`ListSample`]).
        sample: Option<u64> = None, Bounds::at_least(1.0, "");
        /// Whether what is no URL is a target all the same, as it stands: a function of the program makes something of it.
        any_text: bool = false;
        /// The first row of a Parquet list that is a target, from 0: a range of a shared job.
        first_row: u64 = 0;
        /// How many rows are targets; none: all that follow.
        row_count: Option<u64> = None;
        /// Whether it is a range of a shared job. Its columns were checked when the job was planned.
        is_range: bool = false;
    } and {
        /// What targets are asked with.
        request: RequestOptions,
        /// What objects are called; none: by their keys or URLs.
        name_template: Option<NameTemplate>,
        /// Whether the job began with the rules of 0.1.0: delimiters are not detected, and quotes in TSV mean the same as in
        /// CSV.
        has_first_rules: bool,
        /// Whether a line that repeats an earlier one is a target: jobs of older releases.
        keeps_duplicates: bool,
    }
}

impl ListOptions {
    /// Whether a file that has the columns of a manifest is read as one: nobody says which columns are meant.
    pub(crate) fn may_be_manifest(&self) -> bool {
        self.column.is_none()
            && self.template.is_none()
            && self.key_column.is_none()
            && self.name_template.is_none()
            && self.csv_header != CsvHeader::No
            && !self.any_text
            && self.request.is_bare_get()
    }

    /// The origin of all URLs, as they begin with it, when the template says it.
    pub fn fixed_origin(&self) -> Option<String> {
        let url = template::fixed_origin(self.template.as_deref()?)?;
        let url = normalise(&url).ok()?;
        origin_of(url.as_bytes()).and_then(|origin| std::str::from_utf8(origin).ok()).map(str::to_owned)
    }

    /// Whether all targets have one URL, and so one name, and only what they are asked with differs.
    pub fn has_one_url(&self) -> bool {
        if self.request.has_range() {
            return false;
        }
        let pieces = self.template.as_deref().and_then(template::parse_pieces);
        pieces.is_some_and(|pieces| !template::has_columns(&pieces))
    }

    /// For the job's identity: what is set, each with its option's name; empty when nothing is.
    pub fn text(&self) -> String {
        let one = |name: &str, value: &Option<String>| {
            value.iter().map(|value| format!("{name}={value:?}")).collect()
        };
        let many =
            |name: &str, values: &[String]| values.iter().map(|value| format!("{name}={value:?}")).collect();
        let parts: [Vec<String>; 11] = [
            one("column", &self.column),
            one("template", &self.template),
            one("header", &self.csv_header.said().map(|header| header.to_string())),
            one("delimiter", &self.delimiter),
            one("quote", &self.quote),
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
