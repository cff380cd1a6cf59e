//! The `csv` and `tsv` formats: records with fields, quotes and an optional header.

use std::ops::Range;

use csv_core::{ReadRecordResult, ReaderBuilder, Terminator};

use super::columns::{ColumnPlan, ColumnSelector, is_manifest};
use super::dialect::{Dialect, Quotes};
use super::lines::{LineSearch, Lines, ReadStep};
use super::normalise;
use super::read_share::ReadShare;
use super::records::{RecordStep, RecordValues, Records};
use super::text::skip;
use crate::error::{Error, Result};
use crate::limits::{LIST_COLUMNS_MAX, LIST_LINE_BYTES_MAX, LIST_RECORD_LINES_MAX};
use crate::source::ListPosition;

const TOO_WIDE: &str = "it has more than 16,384 columns";
/// Maximum number of lines in a TSV field. For each line that opens a quote, up to this number of lines are read.
const LENIENT_LINES_MAX: u64 = 100;
/// Maximum number of field names that an error shows if a wanted field is missing.
const SHOWN_NAMES: usize = 20;

/// Records of a delimited file.
pub(super) struct Csv {
    fields: FieldSplitter,
    wanted: Vec<ColumnSelector>,
    url: usize,
    header: Option<bool>,
    has_template: bool,
    /// Position of each wanted column among the fields. `None` until the header has been read.
    places: Option<Vec<Option<usize>>>,
    /// Names in the header. `None` if there is no header.
    names: Option<Vec<String>>,
    /// Number of the line on which the last record begins.
    line: u64,
    odd: OddRecords,
}

/// Records that have more or fewer fields than the first record.
#[derive(Default)]
struct OddRecords {
    count: u64,
    /// Line number and number of fields of the first odd record.
    first: (u64, usize),
}

impl OddRecords {
    fn see(&mut self, line: u64, record: &mut FieldSplitter) {
        let fields = record.total;
        if *record.usual.get_or_insert(fields) == fields {
            return;
        }
        if self.count == 0 {
            self.first = (line, fields);
        }
        self.count += 1;
    }

    fn notice(&self, record: &FieldSplitter) -> Option<String> {
        let (line, fields) = self.first;
        let usual = record.usual.filter(|_| self.count > 0)?;
        let records = if self.count == 1 { "1 record has" } else { &format!("{} records have", self.count) };
        Some(format!(
            "{records} a different number of fields than the first record ({usual}), starting with line \
             {line} ({fields}); check --delimiter and --quote"
        ))
    }
}

impl Csv {
    pub(super) fn new(
        lines: Lines,
        dialect: Dialect,
        plan: &ColumnPlan,
        header: Option<bool>,
    ) -> Result<Self> {
        if header == Some(false) && plan.has_names() {
            return Err(Error::Usage(format!(
                "the list {} has no header, so its columns have no names; give column numbers, starting \
                 from 1",
                lines.label()
            )));
        }
        Ok(Csv {
            fields: FieldSplitter::new(lines, dialect),
            wanted: plan.wanted().to_vec(),
            url: plan.url_column(),
            header: header.or(plan.has_names().then_some(true)),
            has_template: plan.has_template(),
            places: None,
            names: None,
            line: 0,
            odd: OddRecords::default(),
        })
    }

    /// Reads the header if there is one. Returns `Done` once the columns are known.
    fn begin(&mut self) -> Result<ReadStep> {
        if self.places.is_some() {
            return Ok(ReadStep::Done);
        }
        if self.fields.dialect.is_detected {
            match self.fields.detect(&self.wanted[self.url])? {
                ReadStep::Done => {}
                other => return Ok(other),
            }
        }
        let next = match self.fields.next(LIST_COLUMNS_MAX)? {
            NextRecord::Record(next) => next,
            NextRecord::NothingNow => return Ok(ReadStep::NothingNow),
            NextRecord::End => return Ok(ReadStep::End),
            // A header that cannot be read becomes a failed target.
            NextRecord::Bad(..) | NextRecord::TooLong => {
                self.places = Some(self.places_without_names()?);
                return Ok(ReadStep::Done);
            }
        };
        if self.header.unwrap_or_else(|| self.looks_like_a_header()) {
            self.places = Some(self.places_by_names()?);
            self.names = Some(self.fields.texts(LIST_COLUMNS_MAX));
            self.odd.see(1, &mut self.fields);
            self.fields.consume(next);
        } else {
            self.places = Some(self.places_without_names()?);
        }
        Ok(ReadStep::Done)
    }

    /// Returns whether the first record is a header, which means that its URL column contains a plain word. A mistyped
    /// URL must not be mistaken for a header.
    fn looks_like_a_header(&self) -> bool {
        let place = match self.wanted[self.url] {
            ColumnSelector::Number(number) => number,
            _ => 0,
        };
        let Some(Ok(value)) = self.fields.get(place).map(std::str::from_utf8) else { return false };
        let is_word = !value.trim().is_empty() && !value.contains([':', '/', '.']);
        !self.has_template && is_word && normalise(value).is_err()
    }

    fn places_without_names(&self) -> Result<Vec<Option<usize>>> {
        let place = |column: &ColumnSelector| match column {
            ColumnSelector::Url => Ok(Some(0)),
            ColumnSelector::Number(number) => self.numbered(*number),
            ColumnSelector::Manifest(_) => Ok(None),
            ColumnSelector::Name(name) | ColumnSelector::Inventory(name) => Err(self.no_column(name)),
        };
        self.wanted.iter().map(place).collect()
    }

    fn places_by_names(&self) -> Result<Vec<Option<usize>>> {
        let is_manifest = is_manifest(|name| self.place_of(|field| field == name.as_bytes()).is_some());
        let place = |column: &ColumnSelector| match column {
            ColumnSelector::Number(number) => self.numbered(*number),
            ColumnSelector::Manifest(name) if is_manifest => {
                Ok(self.place_of(|field| field == name.as_bytes()))
            }
            ColumnSelector::Manifest(_) => Ok(None),
            ColumnSelector::Name(name) | ColumnSelector::Inventory(name) => {
                let place = self.place_of(|field| field == name.as_bytes());
                place.map(Some).ok_or_else(|| self.no_column(name))
            }
            ColumnSelector::Url => {
                let place = self.place_of(|field| field.eq_ignore_ascii_case(b"url"));
                let place = place.or((self.fields.count() == 1).then_some(0));
                place.map(Some).ok_or_else(|| self.no_column("url"))
            }
        };
        self.wanted.iter().map(place).collect()
    }

    /// Returns the position of a column that is selected by number. The first record must have this column.
    fn numbered(&self, number: usize) -> Result<Option<usize>> {
        // If the first record cannot be read, the number of its fields is unknown.
        if self.fields.count() == 0 || number < self.fields.count() {
            return Ok(Some(number));
        }
        Err(self.no_column(&(number + 1).to_string()))
    }

    /// Returns the position of a column. If several columns have the same name, the first one is returned.
    fn place_of(&self, is_it: impl Fn(&[u8]) -> bool) -> Option<usize> {
        (0..self.fields.count())
            .find(|place| self.fields.get(*place).is_some_and(|field| is_it(field.trim_ascii())))
    }

    fn no_column(&self, name: &str) -> Error {
        let names = self.fields.texts(SHOWN_NAMES).join(", ");
        let label = self.fields.lines.label();
        Error::Usage(format!(
            "the list {label} has no column {name} (its first record is {names}); choose the column of URLs \
             with --column NAME or --column NUMBER (starting from 1)"
        ))
    }

    fn consume(&mut self, record: Extent) {
        self.line += record.empty;
        self.fields.consume(record);
    }

    fn give(&self, values: &mut RecordValues) {
        for (column, place) in self.places.iter().flatten().enumerate() {
            if let Some(value) = place.and_then(|place| self.fields.get(place)) {
                values.set(column, value);
            }
        }
    }
}

impl Records for Csv {
    fn read_share(&self) -> Option<ReadShare> {
        Some(self.fields.lines.read_share())
    }

    fn next(&mut self, values: &mut RecordValues) -> Result<RecordStep> {
        values.clear(self.wanted.len());
        match self.begin()? {
            ReadStep::Done => {}
            ReadStep::NothingNow => return Ok(RecordStep::NothingNow),
            ReadStep::End => return Ok(RecordStep::End),
        }
        let last = self.places.iter().flatten().flatten().max().copied().unwrap_or(0);
        let next = self.fields.next(last)?;
        if !self.fields.lines.is_skipping() {
            self.line = self.fields.lines.line() + 1;
        }
        match next {
            NextRecord::Record(next) => {
                self.give(values);
                self.odd.see(self.line + next.empty, &mut self.fields);
                self.consume(next);
                Ok(RecordStep::Record)
            }
            NextRecord::Bad(next, reason) => {
                self.consume(next);
                Ok(RecordStep::Bad(reason))
            }
            NextRecord::TooLong => skip(&mut self.fields.lines),
            NextRecord::NothingNow => Ok(RecordStep::NothingNow),
            NextRecord::End => Ok(RecordStep::End),
        }
    }

    fn place(&self) -> String {
        format!("line {}", self.line)
    }

    fn columns(&mut self) -> Result<Option<Vec<String>>> {
        self.begin()?;
        Ok(self.names.clone())
    }

    fn notice(&self) -> Option<String> {
        self.odd.notice(&self.fields)
    }

    fn text(&self) -> &[u8] {
        self.fields.lines.last()
    }

    fn position(&mut self) -> ListPosition {
        self.fields.lines.position()
    }

    fn go_to(&mut self, position: ListPosition) -> Result<ReadStep> {
        if position.offset > 0 {
            // The journal does not store the header, so the header is read again.
            match self.begin()? {
                ReadStep::Done => {}
                other => return Ok(other),
            }
        }
        self.fields.lines.go_to(position)
    }
}

/// Result of searching for the next record. The record is not consumed yet.
enum NextRecord {
    Record(Extent),
    /// A line that is neither a record nor the start of one.
    Bad(Extent, &'static str),
    TooLong,
    NothingNow,
    End,
}

/// Extent of a record in the input.
#[derive(Clone, Copy, Default)]
struct Extent {
    bytes: usize,
    lines: u64,
    /// Number of empty lines before the record.
    empty: u64,
}

/// Splits records into fields.
struct FieldSplitter {
    lines: Lines,
    dialect: Dialect,
    parser: csv_core::Reader,
    /// A quoted record, after its quotes were removed. A record without quotes stays in the line buffer.
    unquoted: Vec<u8>,
    ends: Vec<usize>,
    /// Positions of the fields, up to the last requested field.
    places: Vec<Range<u32>>,
    /// Total number of fields in the record.
    total: usize,
    /// Number of fields in the first record. `None` until it has been read.
    usual: Option<usize>,
    is_unquoted: bool,
}

impl FieldSplitter {
    fn new(lines: Lines, dialect: Dialect) -> Self {
        FieldSplitter {
            lines,
            parser: parser_of(dialect),
            dialect,
            unquoted: Vec::new(),
            ends: Vec::new(),
            places: Vec::new(),
            total: 0,
            usual: None,
            is_unquoted: false,
        }
    }

    /// Detects the delimiter from the first line that is not empty. Must be called again until it returns `Done`.
    fn detect(&mut self, url: &ColumnSelector) -> Result<ReadStep> {
        let mut from = 0;
        loop {
            match self.lines.find(from)? {
                (LineSearch::Line(place), next) if place.is_empty() => from = next,
                (LineSearch::Line(place), _) => {
                    let delimiter = self.dialect.detect(self.lines.bytes(place), url);
                    self.dialect = Dialect { delimiter, is_detected: false, ..self.dialect };
                    self.parser = parser_of(self.dialect);
                    return Ok(ReadStep::Done);
                }
                (LineSearch::NothingNow, _) => return Ok(ReadStep::NothingNow),
                // The next read reports this problem.
                (LineSearch::TooLong | LineSearch::End, _) => return Ok(ReadStep::Done),
            }
        }
    }

    fn consume(&mut self, extent: Extent) {
        self.lines.consume(extent.bytes, extent.lines);
    }

    fn count(&self) -> usize {
        self.places.len()
    }

    /// Returns up to `max` fields of the last found record, for messages.
    fn texts(&self, max: usize) -> Vec<String> {
        let fields = (0..self.count().min(max)).filter_map(|place| self.get(place));
        fields.map(crate::name::for_display).collect()
    }

    /// Returns a field of the last found record. Must be called before the record is consumed.
    fn get(&self, place: usize) -> Option<&[u8]> {
        let range = self.places.get(place)?;
        let range = range.start as usize..range.end as usize;
        Some(if self.is_unquoted { &self.unquoted[range] } else { self.lines.bytes(range) })
    }

    /// Finds the next record and its fields up to `last`.
    fn next(&mut self, last: usize) -> Result<NextRecord> {
        self.places.clear();
        if self.lines.is_skipping() {
            return Ok(NextRecord::TooLong);
        }
        let mut extent = Extent::default();
        loop {
            let (found, next) = self.lines.find(extent.bytes)?;
            let place = match found {
                LineSearch::Line(place) => place,
                // Only empty lines can come before a line that is too long. They are consumed separately.
                LineSearch::TooLong if extent.bytes > 0 => {
                    self.consume(extent);
                    extent = Extent::default();
                    continue;
                }
                LineSearch::TooLong => return Ok(NextRecord::TooLong),
                LineSearch::NothingNow => return Ok(NextRecord::NothingNow),
                LineSearch::End => return Ok(NextRecord::End),
            };
            extent.lines += 1;
            if place.is_empty() {
                extent = Extent { bytes: next, empty: extent.empty + 1, ..extent };
                continue;
            }
            let has = |quote| memchr::memchr(quote, self.lines.bytes(place.clone())).is_some();
            match self.dialect.quotes {
                Quotes::Strict(quote) if has(quote) => {
                    return self.unquote(extent, next, LIST_RECORD_LINES_MAX as u64);
                }
                Quotes::Lenient(quote) if has(quote) => {
                    return self.unquote_leniently(extent, (place, next), quote);
                }
                _ => self.split(place, last),
            }
            return Ok(NextRecord::Record(Extent { bytes: next, ..extent }));
        }
    }

    fn split(&mut self, line: Range<usize>, last: usize) {
        self.is_unquoted = false;
        let mut start = line.start;
        let bytes = self.lines.bytes(line.clone());
        self.total = memchr::memchr_iter(self.dialect.delimiter, bytes).count() + 1;
        for delimiter in memchr::memchr_iter(self.dialect.delimiter, bytes).take(last.saturating_add(1)) {
            let end = line.start + delimiter;
            self.places.push(start as u32..end as u32);
            start = end + 1;
        }
        self.places.push(start as u32..line.end as u32);
    }

    /// Splits a record in which a quote may be part of its field. If a field opens a quote that its line does not
    /// close, the field can continue on the following lines. It does so only if these lines together have the usual
    /// number of fields and not every line has that number on its own.
    fn unquote_leniently(
        &mut self,
        before: Extent,
        (line, next): (Range<usize>, usize),
        quote: u8,
    ) -> Result<NextRecord> {
        let first_line = Extent { bytes: next, ..before };
        let Some(is_open) = self.unquote_line(line.clone(), quote) else {
            return Ok(NextRecord::Bad(first_line, TOO_WIDE));
        };
        if !is_open || self.usual.is_none() {
            return Ok(NextRecord::Record(first_line));
        }
        self.places.clear();
        match self.unquote(before, next, LENIENT_LINES_MAX)? {
            NextRecord::NothingNow => return Ok(NextRecord::NothingNow),
            NextRecord::Record(extent) if self.is_over_lines(before.bytes..extent.bytes) => {
                return Ok(NextRecord::Record(extent));
            }
            _ => {}
        }
        self.places.clear();
        self.unquote_line(line, quote);
        Ok(NextRecord::Record(first_line))
    }

    /// Returns whether the lines form a single record rather than one record per line.
    fn is_over_lines(&self, lines: Range<usize>) -> bool {
        let bytes = self.lines.bytes(lines);
        let lines = bytes.strip_suffix(b"\n").unwrap_or(bytes).split(|byte| *byte == b'\n');
        let fields = |line| memchr::memchr_iter(self.dialect.delimiter, line).count() + 1;
        Some(self.total) == self.usual && !lines.into_iter().all(|line| Some(fields(line)) == self.usual)
    }

    /// Splits a line in which each field may be quoted as a whole. Returns whether a quote is open at the end of the
    /// line, or `None` if the line has more fields than allowed.
    fn unquote_line(&mut self, line: Range<usize>, quote: u8) -> Option<bool> {
        let FieldSplitter { lines, dialect, unquoted, places, .. } = self;
        unquoted.clear();
        let mut rest = Some(lines.bytes(line));
        let mut is_open = false;
        while let Some(bytes) = rest {
            let start = unquoted.len() as u32;
            rest = match take_quoted(bytes, dialect.delimiter, quote, unquoted) {
                FieldTaken::Quoted(rest) => rest,
                not_quoted => {
                    is_open |= matches!(not_quoted, FieldTaken::Open);
                    take_plain(bytes, dialect.delimiter, unquoted)
                }
            };
            places.push(start..unquoted.len() as u32);
            if places.len() > LIST_COLUMNS_MAX {
                return None;
            }
        }
        (self.total, self.is_unquoted) = (self.places.len(), true);
        Some(is_open)
    }

    /// Splits a record with quotes, which can span many lines. If the record would be too long, only its first line is
    /// invalid, and the next line can begin a new record.
    fn unquote(&mut self, before: Extent, first_end: usize, lines_max: u64) -> Result<NextRecord> {
        let first_line = Extent { bytes: first_end, ..before };
        let unclosed = Ok(NextRecord::Bad(first_line, "a quote is not closed within 1,000 lines and 1 MiB"));
        let mut extent = before;
        let mut parser = QuoteState::start(self);
        let mut end = first_end;
        loop {
            match parser.feed(self, extent.bytes..end) {
                LineFed::Whole => {
                    self.place_unquoted(extent.bytes..end);
                    return Ok(NextRecord::Record(Extent { bytes: end, ..extent }));
                }
                LineFed::TooWide => {
                    return Ok(NextRecord::Bad(first_line, TOO_WIDE));
                }
                LineFed::Open => {}
            }
            extent = Extent { bytes: end, lines: extent.lines + 1, ..extent };
            let is_long = extent.bytes >= LIST_LINE_BYTES_MAX;
            if is_long || extent.lines - before.lines >= lines_max {
                return unclosed;
            }
            match self.lines.find(extent.bytes)? {
                (LineSearch::Line(_), next) => end = next,
                (LineSearch::TooLong | LineSearch::End, _) => return unclosed,
                (LineSearch::NothingNow, _) => return Ok(NextRecord::NothingNow),
            }
        }
    }

    /// Stores the positions of the fields in a record that ends with this line. A CR before the newline is not part of
    /// the last field.
    fn place_unquoted(&mut self, last_line: Range<usize>) {
        self.is_unquoted = true;
        let mut start = 0;
        for end in &self.ends {
            self.places.push(start as u32..*end as u32);
            start = *end;
        }
        self.total = self.places.len();
        let has_cr = self.lines.bytes(last_line).ends_with(b"\r\n");
        if let Some(last) = self.places.last_mut()
            && has_cr
            && self.unquoted[..last.end as usize].ends_with(b"\r")
            && last.end > last.start
        {
            last.end -= 1;
        }
    }
}

fn parser_of(dialect: Dialect) -> csv_core::Reader {
    let mut builder = ReaderBuilder::new();
    builder.delimiter(dialect.delimiter).terminator(Terminator::Any(b'\n'));
    if let Quotes::Strict(quote) | Quotes::Lenient(quote) = dialect.quotes {
        builder.quote(quote);
    }
    builder.build()
}

/// Result of reading a field that may be quoted as a whole.
#[derive(Debug, PartialEq, Eq)]
enum FieldTaken<'b> {
    Quoted(Option<&'b [u8]>),
    /// The field begins with a quote that is not closed.
    Open,
    Plain,
}

/// Appends the first field of `bytes` without its quotes if the whole field is quoted. Otherwise, appends nothing.
fn take_quoted<'b>(bytes: &'b [u8], delimiter: u8, quote: u8, field: &mut Vec<u8>) -> FieldTaken<'b> {
    let start = field.len();
    if bytes.first() != Some(&quote) {
        return FieldTaken::Plain;
    }
    let mut position = 1;
    while let Some(found) = bytes.get(position..).and_then(|rest| memchr::memchr(quote, rest)) {
        field.extend_from_slice(&bytes[position..position + found]);
        position += found + 1;
        match bytes.get(position) {
            None => return FieldTaken::Quoted(None),
            Some(next) if *next == delimiter => return FieldTaken::Quoted(Some(&bytes[position + 1..])),
            Some(next) if *next == quote => field.push(quote),
            Some(_) => {
                field.truncate(start);
                return FieldTaken::Plain;
            }
        }
        position += 1;
    }
    field.truncate(start);
    FieldTaken::Open
}

/// Appends the first field of `bytes` unchanged. Returns the bytes after the field's delimiter, if there is one.
fn take_plain<'b>(bytes: &'b [u8], delimiter: u8, field: &mut Vec<u8>) -> Option<&'b [u8]> {
    let end = memchr::memchr(delimiter, bytes);
    field.extend_from_slice(&bytes[..end.unwrap_or(bytes.len())]);
    end.map(|end| &bytes[end + 1..])
}

/// Progress of splitting a record with quotes.
struct QuoteState {
    bytes: usize,
    fields: usize,
}

/// Result of adding a line.
enum LineFed {
    /// The line ends the record.
    Whole,
    /// A quote is open at the end of the line.
    Open,
    TooWide,
}

impl QuoteState {
    fn start(fields: &mut FieldSplitter) -> Self {
        fields.parser.reset();
        fields.ends.clear();
        QuoteState { bytes: 0, fields: 0 }
    }

    fn feed(&mut self, fields: &mut FieldSplitter, line: Range<usize>) -> LineFed {
        let has_newline = fields.lines.bytes(line.clone()).ends_with(b"\n");
        match self.feed_piece(fields, Some(line)) {
            // The last line of a list can lack a newline.
            LineFed::Open if !has_newline => self.feed_piece(fields, None),
            fed => fed,
        }
    }

    /// Adds a line or, if `line` is `None`, the missing newline.
    fn feed_piece(&mut self, fields: &mut FieldSplitter, line: Option<Range<usize>>) -> LineFed {
        let FieldSplitter { lines, parser, unquoted, ends, .. } = fields;
        let mut input = line.map_or(&b"\n"[..], |line| lines.bytes(line));
        // Removing the quotes never makes a record longer.
        unquoted.resize(unquoted.len().max(self.bytes + input.len() + 1), 0);
        loop {
            if ends.len() == self.fields {
                if ends.len() >= LIST_COLUMNS_MAX {
                    return LineFed::TooWide;
                }
                ends.resize((ends.len() * 2).clamp(16, LIST_COLUMNS_MAX), 0);
            }
            let (result, read, written, ended) =
                parser.read_record(input, &mut unquoted[self.bytes..], &mut ends[self.fields..]);
            self.bytes += written;
            self.fields += ended;
            input = &input[read..];
            match result {
                ReadRecordResult::OutputEndsFull => {}
                ReadRecordResult::OutputFull => {
                    let size = unquoted.len() + input.len() + 1;
                    unquoted.resize(size, 0);
                }
                ReadRecordResult::InputEmpty => return LineFed::Open,
                ReadRecordResult::Record | ReadRecordResult::End => {
                    ends.truncate(self.fields);
                    return LineFed::Whole;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(line: &str) -> Vec<String> {
        let mut rest = Some(line.as_bytes());
        let mut found = Vec::new();
        while let Some(bytes) = rest {
            let mut field = Vec::new();
            rest = match take_quoted(bytes, b'\t', b'"', &mut field) {
                FieldTaken::Quoted(rest) => rest,
                FieldTaken::Open | FieldTaken::Plain => take_plain(bytes, b'\t', &mut field),
            };
            found.push(String::from_utf8(field).unwrap());
        }
        found
    }

    #[test]
    fn a_quote_that_does_not_end_a_field_is_part_of_it() {
        for (line, expected) in [
            ("a\tb", &["a", "b"][..]),
            ("\"a\tb\"\tc", &["a\tb", "c"]),
            ("\"Is it dangerous?\tb", &["\"Is it dangerous?", "b"]),
            ("a\the said \"no\" to me", &["a", "he said \"no\" to me"]),
            ("\"no\" he said\tb", &["\"no\" he said", "b"]),
            ("\"he said \"\"no\"\"\"\tb", &["he said \"no\"", "b"]),
            ("\"\"\t\"\"", &["", ""]),
            ("\"", &["\""]),
            ("\"\"\"", &["\"\"\""]),
            ("\t\"x", &["", "\"x"]),
        ] {
            assert_eq!(fields(line), expected, "{line}");
        }
    }
}
