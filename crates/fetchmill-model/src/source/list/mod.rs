//! Lists of URLs as a source: text, CSV, TSV, JSON lines, Parquet and bucket inventories. All formats except Parquet
//! and inventories can be compressed.
//!
//! A list is read as a stream, in bounded memory, regardless of the length and content of the list. The first page is
//! returned as soon as it contains any entries. A line without a URL becomes a failed target with its line number, so
//! no line is lost silently. The caller provides the input.
//!
//! # Resuming
//!
//! Each page comes with a [`ListPosition`] for the journal. If the list is opened again on the same input, it resumes
//! after that position. The earlier input is read and digested again to check that it is unchanged, but it is not
//! parsed again.

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
mod parquet_split;
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
pub use parquet_split::ParquetSplit;
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

/// A list as a source of pages.
pub trait ListSource: Send {
    /// Returns the next page, if one is available.
    fn next_page(&mut self) -> Result<ListStep>;

    /// Resumes after a position from an earlier run. Must be called before the first page is requested. The default
    /// position is the start of the list.
    fn resume(&mut self, behind: ListPosition);
}

/// Result of a request for the next page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListStep {
    /// A page, possibly without targets. The page's cursor states whether it is the last page. There is always a last
    /// page.
    Page(Box<ListedPage>),
    /// The input has no data at the moment, or it had no entry for a long time. The caller can now check its stop
    /// signal.
    NothingNow,
    /// The last page has been returned.
    End,
}

/// Whether the first record of a CSV contains the column names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CsvHeader {
    /// The first record contains the names if a column is selected by name. Without a selected name, it contains them
    /// if there is no template and the URL column contains a plain word (without `:`, `/` or `.`).
    #[default]
    Auto,
    /// The first record contains the names.
    Yes,
    /// The first record contains values.
    No,
}

impl CsvHeader {
    /// Returns the user's choice, or `None` for automatic detection.
    fn said(self) -> Option<bool> {
        (self != CsvHeader::Auto).then_some(self == CsvHeader::Yes)
    }
}

words!(CsvHeader);

options! {
    /// Options for reading a list and selecting its targets. They are part of a job's identity.
    #[derive(PartialEq, Eq)]
    pub struct ListOptions {
        /// URL column, given by its name or by its number (starting from 1). The default is `url`, or the first column
        /// of a CSV without names.
        column: Option<String> = None;
        /// URL template. `{}` stands for the value of the URL column, and `{name}` for the value of another column.
        template: Option<String> = None;
        /// Whether the first record contains the column names. See [`CsvHeader`].
        csv_header: CsvHeader = CsvHeader::Auto;
        /// Delimiter of a CSV: a character or `tab`. `None` if it is detected from the first record.
        delimiter: Option<String> = None;
        /// Quote character of a CSV, or `none`.
        quote: Option<String> = None;
        /// Column that contains the targets' names.
        key_column: Option<String> = None;
        /// Columns that are copied to the output.
        keep_columns: Vec<String> = Vec::new();
        /// Types of columns that are kept or that a transform fills. Each type is written as `COLUMN=TYPE`
        /// ([`crate::target::extra_columns::column_types`]).
        column_types: Vec<String> = Vec::new();
        /// Patterns that select the targets to fetch ([`Filters`]). They match the name in a server's listing, or the
        /// URL in a list.
        include: Vec<String> = Vec::new();
        /// Patterns that select the targets to exclude.
        exclude: Vec<String> = Vec::new();
        /// Number of targets to sample from a list ([`ListSample`]).
        sample: Option<u64> = None, Bounds::at_least(1.0, "");
        /// Whether any text is accepted unchanged as a target, even if it is not a URL. The program's own function
        /// handles such targets.
        any_text: bool = false;
        /// Index of the first row of a Parquet list to fetch, counted from 0. In a shared job, this is the start of a
        /// range.
        first_row: u64 = 0;
        /// Number of rows to fetch. `None` for all remaining rows.
        row_count: Option<u64> = None;
        /// `manifest.json` with a single data file, which is the list. Used for a range of a shared job.
        inventory: Option<String> = None;
        /// Whether the list is a range of a shared job. If so, the columns were checked when the job was planned.
        is_range: bool = false;
    } and {
        /// Options for the targets' requests.
        request: RequestOptions,
        /// Template for the names of objects. `None` if objects are named after their keys or URLs.
        name_template: Option<NameTemplate>,
        /// Whether the job was started with the rules of version 0.1.0: delimiters are not detected, and quotes in TSV
        /// have the same meaning as in CSV.
        has_first_rules: bool,
        /// Whether a repeated line becomes a target again, as in jobs that older releases started.
        keeps_duplicates: bool,
    }
}

impl ListOptions {
    /// Returns whether a file that has all manifest columns is read as a manifest. This is the case if no option
    /// selects columns.
    pub(crate) fn may_be_manifest(&self) -> bool {
        self.column.is_none()
            && self.template.is_none()
            && self.key_column.is_none()
            && self.name_template.is_none()
            && self.csv_header != CsvHeader::No
            && !self.any_text
            && self.request.is_bare_get()
    }

    /// Returns the origin with which all URLs begin, if the template determines it.
    pub fn fixed_origin(&self) -> Option<String> {
        let url = template::fixed_origin(self.template.as_deref()?)?;
        let url = normalise(&url).ok()?;
        origin_of(url.as_bytes()).and_then(|origin| std::str::from_utf8(origin).ok()).map(str::to_owned)
    }

    /// Returns whether all targets have the same URL and the same name and differ only in their requests.
    pub fn has_one_url(&self) -> bool {
        if self.request.has_range() {
            return false;
        }
        let pieces = self.template.as_deref().and_then(template::parse_pieces);
        pieces.is_some_and(|pieces| !template::has_columns(&pieces))
    }

    /// Returns the options as a text for the job's identity, each with its name. The text is empty if no option is set.
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
