//! Records become entries, and entries pages.

use std::borrow::Cow;
use std::io::Read;

use ::parquet::file::reader::ChunkReader;

use super::columns::Plan;
use super::csv::Csv;
use super::decode::Decoded;
use super::items::{Given, Items, KEY_COLUMN};
use super::json::Json;
use super::lines::{Lines, Progress, unreadable};
use super::parquet::Rows;
use super::records::{Records, Step, Values};
use super::sample::Finder;
use super::text::Text;
use super::{Compression, Filters, ListFormat, ListOptions, ListPosition, ListSource, Listed, Sample};
use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::limits::{LIST_FIRST_PAGE_TARGETS, LIST_PAGE_BYTES, LIST_PAGE_ENTRIES, LIST_PAGE_TARGETS};
use crate::source::{Cursor, ListedPage};
use crate::target::Names;

/// A list that is read.
pub struct ListReader {
    called: String,
    records: Box<dyn Records>,
    plan: Plan,
    filters: Filters,
    sample: Option<Sample>,
    values: Values,
    /// The last entry, and memory to make it in.
    entry: Vec<u8>,
    scratch: Vec<u8>,
    entries: u64,
    page_targets: usize,
    resume: Option<ListPosition>,
    state: State,
}

/// Whether there is more.
enum State {
    Open,
    /// What was read before the error is handed over first.
    Failed(Option<Error>),
    Over,
}

/// What became of a record.
enum Made {
    /// A target; its entry is there.
    Target,
    /// A filter or the sample has left it out.
    Skipped,
    NothingNow,
    End,
}

impl std::fmt::Debug for ListReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ListReader").field("called", &self.called).finish_non_exhaustive()
    }
}

impl ListReader {
    /// A list that is read from its start to its end. `label` is what messages call it; `promised` is how its name
    /// says that it is compressed, and how it is compressed is seen in its first bytes.
    pub fn of_stream(
        label: &str,
        input: Box<dyn Read + Send>,
        (format, promised): (ListFormat, Option<Compression>),
        options: &ListOptions,
    ) -> Result<Self> {
        let plan = Plan::new(options)?;
        if options.header.is_some() && !matches!(format, ListFormat::Csv | ListFormat::Tsv) {
            return Err(Error::Usage(format!(
                "the list {label} is {}, which has no header: leave out --csv-header",
                format.name()
            )));
        }
        let lines = Lines::new(label, Decoded::new(input, promised));
        let records: Box<dyn Records> = match format {
            ListFormat::Text => Box::new(Text::new(lines, &plan)?),
            ListFormat::Csv => Box::new(Csv::new(lines, b',', &plan, options.header)?),
            ListFormat::Tsv => Box::new(Csv::new(lines, b'\t', &plan, options.header)?),
            ListFormat::Jsonl => Box::new(Json::new(lines, &plan)?),
            ListFormat::Parquet => {
                return Err(Error::Usage(format!(
                    "the list {label} is Parquet, which is not read as a stream: store it in a file, not compressed \
                     as a whole"
                )));
            }
        };
        Self::new(format!("the list {label}"), records, plan, options)
    }

    /// A Parquet file: it is read at places, its footer first.
    pub fn of_parquet<F: ChunkReader + 'static>(label: &str, file: F, options: &ListOptions) -> Result<Self> {
        if options.header.is_some() {
            return Err(Error::Usage(format!(
                "the list {label} is parquet, which has no header: leave out --csv-header"
            )));
        }
        let plan = Plan::new(options)?;
        let records = Box::new(Rows::open(label, file, &plan)?);
        Self::new(format!("the list {label}"), records, plan, options)
    }

    /// What a program gives. Its items have a URL and perhaps a key, no columns.
    pub fn of_items(called: &str, items: Box<dyn Items>, options: &ListOptions) -> Result<Self> {
        let asked = [&options.column, &options.key_column];
        if asked.iter().any(|column| column.is_some())
            || !options.keep_columns.is_empty()
            || options.header.is_some()
        {
            return Err(Error::Usage(format!("{called} has no columns: give pairs of a URL and a name")));
        }
        let options = ListOptions { key_column: Some(KEY_COLUMN.to_owned()), ..options.clone() };
        let plan = Plan::new(&options)?;
        if plan.wanted().len() != 2 {
            return Err(Error::Usage(format!("{called} has no columns: its --template can have {{}} only")));
        }
        Self::new(called.to_owned(), Box::new(Given::new(items)), plan, &options)
    }

    fn new(called: String, records: Box<dyn Records>, plan: Plan, options: &ListOptions) -> Result<Self> {
        Ok(ListReader {
            called,
            records,
            plan,
            filters: Filters::new(&options.include, &options.exclude)?,
            sample: None,
            values: Values::default(),
            entry: Vec::new(),
            scratch: Vec::new(),
            entries: 0,
            page_targets: LIST_FIRST_PAGE_TARGETS,
            resume: None,
            state: State::Open,
        })
    }

    /// What messages call it.
    pub fn called(&self) -> &str {
        &self.called
    }

    /// What the kept columns are called, in the order of an entry's kept values.
    pub fn kept_names(&self) -> Vec<String> {
        self.plan.kept_names().collect()
    }

    /// Takes only these targets; all others are left out.
    pub fn set_sample(&mut self, sample: Sample) {
        self.sample = Some(sample);
    }

    /// Reads the whole list for a sample of so many targets; the job needs a reader of its own then. `goes_on` is
    /// asked now and then; none when it says no.
    pub fn find_sample(mut self, count: u64, mut goes_on: impl FnMut() -> bool) -> Result<Option<Sample>> {
        let mut finder = Finder::new(count)?;
        loop {
            match self.make_entry()? {
                Made::Target => finder.offer(self.entries - 1),
                Made::Skipped => {}
                Made::NothingNow if goes_on() => {}
                Made::NothingNow => return Ok(None),
                Made::End => return Ok(Some(finder.sample())),
            }
        }
    }

    /// The next record as an entry.
    fn make_entry(&mut self) -> Result<Made> {
        let bad = match self.records.next(&mut self.values)? {
            Step::Record => match self.plan.url(&self.values) {
                Ok(url) if !self.filters.allows(url.as_bytes()) => {
                    self.entries += 1;
                    return Ok(Made::Skipped);
                }
                Ok(url) => {
                    let written =
                        self.plan.write_entry(&url, &self.values, &mut self.scratch, &mut self.entry);
                    written.err().map(Cow::Borrowed)
                }
                Err(reason) => Some(Cow::Owned(reason)),
            },
            Step::Bad(reason) => Some(Cow::Borrowed(reason)),
            Step::NothingNow => return Ok(Made::NothingNow),
            Step::End => return Ok(Made::End),
        };
        if let Some(reason) = bad {
            self.entry.clear();
            let place = self.records.place();
            let (key, kept) = (Some(place.as_bytes()), Some(reason.as_bytes()));
            Entry { key, kept, ..Entry::default() }.write(&mut self.entry);
        }
        self.entries += 1;
        let is_taken = self.sample.is_none_or(|sample| sample.takes(self.entries - 1));
        Ok(if is_taken { Made::Target } else { Made::Skipped })
    }

    /// Goes behind what an earlier run has read.
    fn catch_up(&mut self) -> Result<Progress> {
        let Some(position) = self.resume else { return Ok(Progress::Done) };
        let progress = self.records.go_to(position)?;
        match progress {
            Progress::Done => {
                self.entries = position.entries;
                self.resume = None;
            }
            Progress::NothingNow => {}
            Progress::End => {
                let (called, unit) = (&self.called, self.records.unit());
                return Err(Error::Usage(format!(
                    "{called} has changed since the job began: it has other {unit} among its first {}; restore it, or \
                     choose another destination",
                    position.offset
                )));
            }
        }
        Ok(progress)
    }

    fn fill_page(&mut self, page: &mut Filling) -> Result<Made> {
        while page.names.len() < self.page_targets
            && page.names.byte_len() < LIST_PAGE_BYTES
            && page.names.len() as u64 + page.skipped < LIST_PAGE_ENTRIES
        {
            match self.make_entry()? {
                Made::Target => page.names.push(&self.entry),
                Made::Skipped => page.skipped += 1,
                other => return Ok(other),
            }
        }
        Ok(Made::Target)
    }

    fn read_page(&mut self) -> Result<Listed> {
        if self.catch_up()? == Progress::NothingNow {
            return Ok(Listed::NothingNow);
        }
        let mut page = Filling::default();
        let is_last = match self.fill_page(&mut page) {
            Ok(Made::NothingNow) if page.is_empty() => return Ok(Listed::NothingNow),
            Ok(Made::End) => true,
            Ok(_) => false,
            Err(error) if page.is_empty() => return Err(error),
            Err(error) => {
                self.state = State::Failed(Some(error));
                false
            }
        };
        if is_last {
            self.state = State::Over;
        }
        self.page_targets = (self.page_targets * 2).min(LIST_PAGE_TARGETS);
        let position = ListPosition { entries: self.entries, ..self.records.position() };
        let cursor = Cursor::List { position, is_last };
        let page = ListedPage { names: page.names, skipped: page.skipped, total: None, cursor };
        Ok(Listed::Page(Box::new(page)))
    }
}

/// A page that is being made.
#[derive(Default)]
struct Filling {
    names: Names,
    skipped: u64,
}

impl Filling {
    fn is_empty(&self) -> bool {
        self.names.is_empty() && self.skipped == 0
    }
}

impl ListSource for ListReader {
    fn next_page(&mut self) -> Result<Listed> {
        match &mut self.state {
            State::Over => Ok(Listed::End),
            State::Failed(error) => Err(error.take().unwrap_or_else(|| {
                unreadable(self.called.trim_start_matches("the list "), &"it failed before")
            })),
            State::Open => self.read_page().inspect_err(|_| self.state = State::Failed(None)),
        }
    }

    fn resume(&mut self, behind: ListPosition) {
        self.resume = (behind != ListPosition::default()).then_some(behind);
    }
}
