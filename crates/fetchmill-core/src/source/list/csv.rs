//! `csv` and `tsv`: records with fields, quotes and perhaps a header.

use std::ops::Range;

use csv_core::{ReadRecordResult, ReaderBuilder, Terminator};

use super::columns::{ColumnPlan, ColumnSelector, is_manifest};
use super::lines::{LineSearch, Lines, ReadStep};
use super::normalise;
use super::records::{RecordStep, RecordValues, Records};
use super::text::skip;
use crate::error::{Error, Result};
use crate::limits::{LIST_COLUMNS_MAX, LIST_LINE_BYTES_MAX, LIST_RECORD_LINES_MAX};
use crate::source::ListPosition;

/// Field names that are shown when one is missing.
const SHOWN_NAMES: usize = 20;

/// Records of a file with a delimiter.
pub(super) struct Csv {
    fields: FieldSplitter,
    wanted: Vec<ColumnSelector>,
    url: usize,
    header: Option<bool>,
    has_template: bool,
    /// Which field each wanted column is; none before the header is read.
    places: Option<Vec<Option<usize>>>,
    /// Where the last record began.
    line: u64,
}

impl Csv {
    pub(super) fn new(lines: Lines, delimiter: u8, plan: &ColumnPlan, header: Option<bool>) -> Result<Self> {
        if header == Some(false) && plan.has_names() {
            return Err(Error::Usage(format!(
                "the list {} has no header, so its columns have no names: give their numbers, from 1",
                lines.label()
            )));
        }
        Ok(Csv {
            fields: FieldSplitter::new(lines, delimiter),
            wanted: plan.wanted().to_vec(),
            url: plan.url_column(),
            header: header.or(plan.has_names().then_some(true)),
            has_template: plan.has_template(),
            places: None,
            line: 0,
        })
    }

    /// Reads the header, if there is one. Whether it is known now.
    fn begin(&mut self) -> Result<ReadStep> {
        if self.places.is_some() {
            return Ok(ReadStep::Done);
        }
        let next = match self.fields.next(LIST_COLUMNS_MAX)? {
            NextRecord::Record(next) => next,
            NextRecord::NothingNow => return Ok(ReadStep::NothingNow),
            NextRecord::End => return Ok(ReadStep::End),
            // A header that cannot be read is none: it will be a failed target.
            NextRecord::Bad(..) | NextRecord::TooLong => {
                self.places = Some(self.places_without_names()?);
                return Ok(ReadStep::Done);
            }
        };
        if self.header.unwrap_or_else(|| self.looks_like_a_header()) {
            self.places = Some(self.places_by_names()?);
            self.fields.consume(next);
        } else {
            self.places = Some(self.places_without_names()?);
        }
        Ok(ReadStep::Done)
    }

    /// Only a plain word where the URL should be: a mistyped URL in the first record must not be taken for a header.
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
            ColumnSelector::Number(number) => Ok(Some(*number)),
            ColumnSelector::Manifest(_) => Ok(None),
            ColumnSelector::Name(name) | ColumnSelector::Inventory(name) => Err(self.no_column(name)),
        };
        self.wanted.iter().map(place).collect()
    }

    fn places_by_names(&self) -> Result<Vec<Option<usize>>> {
        let is_manifest = is_manifest(|name| self.place_of(|field| field == name.as_bytes()).is_some());
        let place = |column: &ColumnSelector| match column {
            ColumnSelector::Number(number) => Ok(Some(*number)),
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

    /// Of two columns with one name the first.
    fn place_of(&self, is_it: impl Fn(&[u8]) -> bool) -> Option<usize> {
        (0..self.fields.count())
            .find(|place| self.fields.get(*place).is_some_and(|field| is_it(field.trim_ascii())))
    }

    fn no_column(&self, name: &str) -> Error {
        let shown = (0..self.fields.count().min(SHOWN_NAMES)).filter_map(|place| self.fields.get(place));
        let names = shown.map(crate::name::for_display).collect::<Vec<_>>().join(", ");
        let label = self.fields.lines.label();
        Error::Usage(format!(
            "the list {label} has no column {name}; its first record is {names}: name the column of the URLs with \
             --column NAME, or its number from 1"
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

    fn position(&mut self) -> ListPosition {
        self.fields.lines.position()
    }

    fn go_to(&mut self, position: ListPosition) -> Result<ReadStep> {
        if position.offset > 0 {
            // A header is not in the journal: it is read again.
            match self.begin()? {
                ReadStep::Done => {}
                other => return Ok(other),
            }
        }
        self.fields.lines.go_to(position)
    }
}

/// What was found, and is not consumed.
enum NextRecord {
    Record(Extent),
    /// A line that is no record by itself and begins none.
    Bad(Extent, &'static str),
    TooLong,
    NothingNow,
    End,
}

/// What a record takes of the input.
#[derive(Clone, Copy, Default)]
struct Extent {
    bytes: usize,
    lines: u64,
    /// Lines before it that are empty.
    empty: u64,
}

/// Splits records into fields.
struct FieldSplitter {
    lines: Lines,
    delimiter: u8,
    parser: csv_core::Reader,
    /// A record with quotes, without them. One without quotes stays where it is.
    unquoted: Vec<u8>,
    ends: Vec<usize>,
    /// Where the fields are, as far as they were asked for.
    places: Vec<Range<u32>>,
    is_unquoted: bool,
}

impl FieldSplitter {
    fn new(lines: Lines, delimiter: u8) -> Self {
        let parser = ReaderBuilder::new().delimiter(delimiter).terminator(Terminator::Any(b'\n')).build();
        FieldSplitter {
            lines,
            delimiter,
            parser,
            unquoted: Vec::new(),
            ends: Vec::new(),
            places: Vec::new(),
            is_unquoted: false,
        }
    }

    fn consume(&mut self, extent: Extent) {
        self.lines.consume(extent.bytes, extent.lines);
    }

    fn count(&self) -> usize {
        self.places.len()
    }

    /// A field of the record that was found last, until that is consumed.
    fn get(&self, place: usize) -> Option<&[u8]> {
        let range = self.places.get(place)?;
        let range = range.start as usize..range.end as usize;
        Some(if self.is_unquoted { &self.unquoted[range] } else { self.lines.bytes(range) })
    }

    /// Finds the next record, and its fields up to that one.
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
                // What is before it is empty lines: these are consumed for themselves.
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
            if memchr::memchr(b'"', self.lines.bytes(place.clone())).is_none() {
                self.split(place, last);
                return Ok(NextRecord::Record(Extent { bytes: next, ..extent }));
            }
            return self.unquote(extent, next);
        }
    }

    fn split(&mut self, line: Range<usize>, last: usize) {
        self.is_unquoted = false;
        let mut start = line.start;
        let bytes = self.lines.bytes(line.clone());
        for delimiter in memchr::memchr_iter(self.delimiter, bytes).take(last.saturating_add(1)) {
            let end = line.start + delimiter;
            self.places.push(start as u32..end as u32);
            start = end + 1;
        }
        self.places.push(start as u32..line.end as u32);
    }

    /// A record with quotes may go over many lines. One that would be too long is none: its first line is bad, and
    /// the next line may be a record again.
    fn unquote(&mut self, before: Extent, first_end: usize) -> Result<NextRecord> {
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
                    return Ok(NextRecord::Bad(first_line, "it has more than 16,384 columns"));
                }
                LineFed::Open => {}
            }
            extent = Extent { bytes: end, lines: extent.lines + 1, ..extent };
            let is_long = extent.bytes >= LIST_LINE_BYTES_MAX;
            if is_long || extent.lines - before.lines >= LIST_RECORD_LINES_MAX as u64 {
                return unclosed;
            }
            match self.lines.find(extent.bytes)? {
                (LineSearch::Line(_), next) => end = next,
                (LineSearch::TooLong | LineSearch::End, _) => return unclosed,
                (LineSearch::NothingNow, _) => return Ok(NextRecord::NothingNow),
            }
        }
    }

    /// The fields of a record whose last line this is. The CR of its newline is no part of the last one.
    fn place_unquoted(&mut self, last_line: Range<usize>) {
        self.is_unquoted = true;
        let mut start = 0;
        for end in &self.ends {
            self.places.push(start as u32..*end as u32);
            start = *end;
        }
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

/// How far a record with quotes is taken apart.
struct QuoteState {
    bytes: usize,
    fields: usize,
}

/// What became of a line.
enum LineFed {
    /// It ends the record.
    Whole,
    /// A quote is open at its end.
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
            // The last line of a list may have none.
            LineFed::Open if !has_newline => self.feed_piece(fields, None),
            fed => fed,
        }
    }

    /// A line, or the newline that is missing.
    fn feed_piece(&mut self, fields: &mut FieldSplitter, line: Option<Range<usize>>) -> LineFed {
        let FieldSplitter { lines, parser, unquoted, ends, .. } = fields;
        let mut input = line.map_or(&b"\n"[..], |line| lines.bytes(line));
        // Taking quotes away makes nothing longer.
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
