//! Converts records to entries and collects the entries in pages.

use std::borrow::Cow;
use std::io::Read;

use ::parquet::file::reader::ChunkReader;

use super::columns::ColumnPlan;
use super::csv::Csv;
use super::decode::DecodedInput;
use super::dialect::Dialect;
use super::inventory::{DataFiles, Inventory, InventoryRecords};
use super::items::{ItemRecords, Items, KEY_COLUMN};
use super::json::{FieldCheck, JsonRecords};
use super::lines::{Lines, ReadStep, unreadable};
use super::parquet::ParquetRecords;
use super::parts::{ListParts, PartRecords};
use super::records::{ListRecords, RecordStep, RecordValues, Records};
use super::sample::SampleFinder;
use super::seen_lines::SeenLines;
use super::text::TextRecords;
use super::{Compression, Filters, ListFormat, ListOptions, ListSample, ListSource, ListStep};
use crate::error::{Error, Result};
use crate::limits::{LIST_FIRST_PAGE_TARGETS, LIST_PAGE_BYTES, LIST_PAGE_ENTRIES, LIST_PAGE_TARGETS};
use crate::outcome::skips::{SkipReason, Skips};
use crate::source::ListPosition;
use crate::source::{ListedPage, PageCursor};
use crate::target::Names;
use crate::target::entry::ListEntry;
use crate::target::extra_columns::ColumnType;

/// A list that serves as a source.
pub struct ListReader {
    called: String,
    records: Box<dyn Records>,
    plan: ColumnPlan,
    filters: Filters,
    sample: Option<ListSample>,
    values: RecordValues,
    /// The last entry. It is kept so that its memory can be reused.
    entry: Vec<u8>,
    scratch: Vec<u8>,
    entries: u64,
    page_targets: usize,
    seen: SeenLines,
    resume: Option<ListPosition>,
    state: ReaderState,
    /// Size of the input in bytes. `None` if unknown.
    length: Option<u64>,
}

/// State of the reader.
enum ReaderState {
    Open,
    /// A read error, which is returned after the entries that precede it.
    Failed(Option<Error>),
    Over,
}

/// Result of converting a record.
enum RecordResult {
    /// The record is a target, and its entry is complete.
    Target,
    /// The record is skipped. An incomplete entry identifies it.
    Skipped(SkipReason),
    NothingNow,
    End,
}

impl std::fmt::Debug for ListReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ListReader").field("called", &self.called).finish_non_exhaustive()
    }
}

impl ListReader {
    /// Reads a list from start to end. `label` is the name of the list in messages. `promised` is the compression that
    /// the file name implies, while the first bytes of the list determine the actual compression. `check` applies only
    /// to JSON.
    pub fn of_stream(
        label: &str,
        (input, check): (Box<dyn Read + Send>, FieldCheck),
        (format, promised): (ListFormat, Option<Compression>),
        options: &ListOptions,
    ) -> Result<Self> {
        let plan = ColumnPlan::new(options)?;
        let dialect = Dialect::of(label, format, options)?.unwrap_or(Dialect::OURS);
        let lines = Lines::new(label, DecodedInput::new(input, promised), format);
        let records: Box<dyn Records> = match format {
            ListFormat::Text => Box::new(TextRecords::new(lines, &plan)?),
            ListFormat::Csv | ListFormat::Tsv => {
                Box::new(Csv::new(lines, dialect, &plan, options.csv_header.said())?)
            }
            ListFormat::Jsonl => Box::new(JsonRecords::new(lines, &plan)?.checked(check)),
            ListFormat::Inventory => {
                return Err(Error::Usage(format!(
                    "the inventory {label} cannot be read as a stream, because its data files are separate; \
                     give the path of its manifest.json"
                )));
            }
            ListFormat::Parquet => {
                return Err(Error::Usage(format!(
                    "the list {label} is Parquet, which cannot be read as a stream; store the list in a \
                     file that is not compressed as a whole"
                )));
            }
        };
        Self::new(format!("the list {label}"), records, plan, options)
    }

    /// Reads a Parquet file. The file must support random access, because its footer is read first.
    pub fn of_parquet<F: ChunkReader + 'static>(label: &str, file: F, options: &ListOptions) -> Result<Self> {
        Dialect::of(label, ListFormat::Parquet, options)?;
        let plan = ColumnPlan::new(options)?;
        let records =
            Box::new(ParquetRecords::open(label, file, &plan, (options.first_row, options.row_count))?);
        Self::new(format!("the list {label}"), records, plan, options)
    }

    /// Reads a bucket inventory from its `manifest.json`. The data files are opened one at a time.
    pub fn of_inventory<D: DataFiles + 'static>(
        label: &str,
        inventory: Inventory,
        files: D,
        options: &ListOptions,
    ) -> Result<Self> {
        Dialect::of(label, ListFormat::Inventory, options)?;
        let has_own = options.request.has_hash();
        if !options.may_be_manifest() || has_own {
            return Err(Error::Usage(format!(
                "the inventory {label} defines its own columns, and its objects are fetched with plain GET \
                 requests; leave out options for columns and requests"
            )));
        }
        let plan = ColumnPlan::new(options)?.with_times();
        let records = Box::new(InventoryRecords::new(
            label,
            inventory,
            files,
            &plan,
            (options.first_row, options.row_count),
        )?);
        let reader = Self::new(format!("the inventory {label}"), records, plan, options)?;
        // Repeated lines are not detected, because an inventory names each key once, and a resumed run does not read
        // earlier files again.
        Ok(ListReader { seen: SeenLines::off(), ..reader })
    }

    /// Reads a list that consists of several files, one after another.
    pub fn of_parts(label: &str, parts: impl ListParts + 'static, options: &ListOptions) -> Result<Self> {
        let plan = ColumnPlan::new(options)?;
        let records = Box::new(PartRecords::new(label, Box::new(parts), plan.wanted().len())?);
        Self::new(format!("the list {label}"), records, plan, options)
    }

    /// Reads items that a program supplies. An item consists of a URL and an optional key, and it has no columns.
    pub fn of_items(called: &str, items: Box<dyn Items>, options: &ListOptions) -> Result<Self> {
        let asked = [&options.column, &options.key_column];
        if asked.iter().any(|column| column.is_some())
            || !options.keep_columns.is_empty()
            || options.csv_header.said().is_some()
            || options.delimiter.is_some()
            || options.quote.is_some()
            || options.request.has_range()
            || options.request.has_hash()
        {
            return Err(Error::Usage(format!("{called} has no columns; give pairs of a URL and a name")));
        }
        let options = ListOptions { key_column: Some(KEY_COLUMN.to_owned()), ..options.clone() };
        let plan = ColumnPlan::new(&options)?;
        if plan.wanted().len() != 2 {
            return Err(Error::Usage(format!(
                "{called} has no columns; use only {{}} in --template, --data, --data-json and --header, and \
                 only {{}}, {{name}} and {{index}} in --names"
            )));
        }
        let plan = plan.with_own_requests();
        Self::new(called.to_owned(), Box::new(ItemRecords::new(items)), plan, &options)
    }

    fn new(
        called: String,
        records: Box<dyn Records>,
        plan: ColumnPlan,
        options: &ListOptions,
    ) -> Result<Self> {
        Ok(ListReader {
            called,
            records,
            plan,
            filters: Filters::new(&options.include, &options.exclude)?,
            sample: None,
            values: RecordValues::default(),
            entry: Vec::new(),
            scratch: Vec::new(),
            entries: 0,
            page_targets: LIST_FIRST_PAGE_TARGETS,
            seen: if options.keeps_duplicates { SeenLines::off() } else { SeenLines::new() },
            resume: None,
            state: ReaderState::Open,
            length: None,
        })
    }

    /// Returns only the records. They become part of a list that consists of several files.
    pub fn into_records(self) -> ListRecords {
        ListRecords(self.records)
    }

    /// Sets the size of the input in bytes, if it is known.
    #[must_use]
    pub fn with_length(self, length: Option<u64>) -> Self {
        ListReader { length, ..self }
    }

    /// Returns the fraction of the list that has been read, from 0 to 1, or `None` if it is unknown.
    pub fn share_read(&self) -> Option<f64> {
        self.records.read_share()?.of(self.length)
    }

    /// Returns the name of the list in messages.
    pub fn called(&self) -> &str {
        &self.called
    }

    /// Returns a warning about records that may have been misread.
    pub fn notice(&self) -> Option<String> {
        self.records.notice().map(|notice| format!("{}: {notice}", self.called))
    }

    /// Returns the names and types of the kept columns, in the order of the kept values in an entry.
    pub fn kept_columns(&self) -> Vec<(String, ColumnType)> {
        self.plan.kept_columns(&*self.records)
    }

    /// Restricts the list to the targets of this sample. All other targets are skipped.
    pub fn set_sample(&mut self, sample: ListSample) {
        self.sample = Some(sample);
    }

    /// Reads the whole list to choose a sample of `count` targets. After that, the job needs a new reader. `goes_on` is
    /// called regularly. Returns `None` if `goes_on` returns `false`.
    pub fn find_sample(
        mut self,
        count: u64,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<Option<ListSample>> {
        let mut finder = SampleFinder::new(count)?;
        loop {
            match self.make_entry()? {
                RecordResult::Target => finder.offer(self.entries - 1),
                RecordResult::Skipped(_) => {}
                RecordResult::NothingNow if goes_on() => {}
                RecordResult::NothingNow => return Ok(None),
                RecordResult::End => return Ok(Some(finder.sample())),
            }
        }
    }

    /// Converts the next record to an entry.
    fn make_entry(&mut self) -> Result<RecordResult> {
        let step = self.records.next(&mut self.values)?;
        let is_record = matches!(step, RecordStep::Record);
        let bad = match step {
            RecordStep::Record => match self.plan.url(&self.values) {
                Ok(url) if !self.filters.allows(url.as_bytes()) => {
                    self.entries += 1;
                    self.entry.clear();
                    self.entry.extend_from_slice(url.as_bytes());
                    return Ok(RecordResult::Skipped(SkipReason::Filter));
                }
                Ok(url) => {
                    let (plan, values) = (&self.plan, &self.values);
                    let made = plan
                        .request(&url, values)
                        .and_then(|request| Ok((plan.name(self.entries, values)?, request)));
                    match made {
                        Ok((name, request)) => {
                            let made = (name.as_deref(), request.as_deref());
                            let written =
                                plan.write_entry(&url, made, values, &mut self.scratch, &mut self.entry);
                            written.err().map(Cow::Borrowed)
                        }
                        Err(reason) => Some(Cow::Owned(reason)),
                    }
                }
                Err(reason) => Some(Cow::Owned(reason)),
            },
            RecordStep::Bad(reason) => Some(Cow::Borrowed(reason)),
            RecordStep::LeftOut => {
                self.entries += 1;
                self.entry = self.records.place().into_bytes();
                return Ok(RecordResult::Skipped(SkipReason::NoObject));
            }
            RecordStep::NothingNow => return Ok(RecordResult::NothingNow),
            RecordStep::End => return Ok(RecordResult::End),
        };
        if let Some(reason) = bad {
            self.entry.clear();
            let place = self.records.place();
            let (key, kept) = (Some(place.as_bytes()), Some(reason.as_bytes()));
            // Kept columns that are too long are omitted, because they are the reason for the failure. A line that is
            // not a record has no columns.
            let values = self.plan.kept_values(&self.values, &mut self.scratch).ok().flatten();
            let values = values.filter(|_| is_record);
            ListEntry { key, kept, request: values, ..ListEntry::default() }.write(&mut self.entry);
        }
        self.entries += 1;
        if self.seen.is_repeated(self.records.text(), &self.entry) {
            self.entry.truncate(ListEntry::read(&self.entry).url.len());
            return Ok(RecordResult::Skipped(SkipReason::Duplicate));
        }
        let is_taken = self.sample.is_none_or(|sample| sample.takes(self.entries - 1));
        Ok(if is_taken { RecordResult::Target } else { RecordResult::Skipped(SkipReason::Filter) })
    }

    /// Reads the lines of an earlier run again, so that later lines can be compared with them. Reads up to one page per
    /// call.
    fn remember_again(&mut self, position: ListPosition) -> Result<ReadStep> {
        let end = position.entries.min(self.entries + LIST_PAGE_ENTRIES);
        while self.entries < end && !self.seen.is_full() {
            match self.make_entry()? {
                RecordResult::Target | RecordResult::Skipped(_) => {}
                RecordResult::NothingNow => return Ok(ReadStep::NothingNow),
                RecordResult::End => return Ok(ReadStep::Done),
            }
        }
        let is_done = self.entries >= position.entries || self.seen.is_full();
        Ok(if is_done { ReadStep::Done } else { ReadStep::NothingNow })
    }

    /// Continues reading up to the position that an earlier run reached.
    fn catch_up(&mut self) -> Result<ReadStep> {
        let Some(position) = self.resume else { return Ok(ReadStep::Done) };
        if self.remember_again(position)? == ReadStep::NothingNow {
            return Ok(ReadStep::NothingNow);
        }
        let progress = self.records.go_to(position)?;
        match progress {
            ReadStep::Done => {
                self.entries = position.entries;
                self.resume = None;
            }
            ReadStep::NothingNow => {}
            ReadStep::End => {
                let (called, unit) = (&self.called, self.records.unit());
                return Err(Error::Usage(format!(
                    "{called} has changed since the job started (its first {} {unit} differ); restore the \
                     original, or choose another destination",
                    position.offset
                )));
            }
        }
        Ok(progress)
    }

    fn fill_page(&mut self, page: &mut PageBuilder) -> Result<RecordResult> {
        while page.names.len() < self.page_targets
            && page.names.byte_len() < LIST_PAGE_BYTES
            && page.names.len() as u64 + page.skipped.total() < LIST_PAGE_ENTRIES
        {
            match self.make_entry()? {
                RecordResult::Target => page.names.push(&self.entry),
                RecordResult::Skipped(reason) => page.skipped.add(reason, &self.entry),
                other => return Ok(other),
            }
        }
        Ok(RecordResult::Target)
    }

    fn read_page(&mut self) -> Result<ListStep> {
        if self.catch_up()? == ReadStep::NothingNow {
            return Ok(ListStep::NothingNow);
        }
        let mut page = PageBuilder::default();
        let is_last = match self.fill_page(&mut page) {
            Ok(RecordResult::NothingNow) if page.is_empty() => return Ok(ListStep::NothingNow),
            Ok(RecordResult::End) => true,
            Ok(_) => false,
            Err(error) if page.is_empty() => return Err(error),
            Err(error) => {
                self.state = ReaderState::Failed(Some(error));
                false
            }
        };
        if is_last {
            self.state = ReaderState::Over;
        }
        self.page_targets = (self.page_targets * 2).min(LIST_PAGE_TARGETS);
        let position = ListPosition { entries: self.entries, ..self.records.position() };
        let cursor = PageCursor::List { position, is_last };
        let page = ListedPage { names: page.names, skipped: page.skipped, total: None, cursor };
        Ok(ListStep::Page(Box::new(page)))
    }
}

/// A page that is being built.
#[derive(Default)]
struct PageBuilder {
    names: Names,
    skipped: Skips,
}

impl PageBuilder {
    fn is_empty(&self) -> bool {
        self.names.is_empty() && self.skipped.total() == 0
    }
}

impl ListSource for ListReader {
    fn next_page(&mut self) -> Result<ListStep> {
        match &mut self.state {
            ReaderState::Over => Ok(ListStep::End),
            ReaderState::Failed(error) => Err(error.take().unwrap_or_else(|| {
                unreadable(self.called.trim_start_matches("the list "), &"it failed before")
            })),
            ReaderState::Open => self.read_page().inspect_err(|_| self.state = ReaderState::Failed(None)),
        }
    }

    fn resume(&mut self, behind: ListPosition) {
        self.resume = (behind != ListPosition::default()).then_some(behind);
    }
}
