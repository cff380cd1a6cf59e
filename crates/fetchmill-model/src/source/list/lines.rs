//! The lines of an input, held in one buffer, with a digest of everything that was consumed.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::atomic::Ordering;

use xxhash_rust::xxh3::Xxh3Default;

use super::decode::{BytesRead, DecodedInput, MAGIC_BYTES};
use super::json_array::JsonInput;
use super::read_share::ReadShare;
use super::{ListFormat, not_a_list};
use crate::error::{Error, Result};
use crate::limits::{LIST_LINE_BYTES_MAX, LIST_STRETCH_BYTES, READ_BYTES};
use crate::source::ListPosition;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Result of a search for a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LineSearch {
    /// Position of the line, counted from the first unconsumed byte. It excludes the newline and a CR before the
    /// newline.
    Line(Range<usize>),
    /// The line is longer than the buffer.
    TooLong,
    /// The input has no data at the moment.
    NothingNow,
    /// There are no more lines.
    End,
}

/// Result of a step that needs bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadStep {
    Done,
    NothingNow,
    /// The input has ended.
    End,
}

/// Source of the lines' bytes.
enum LineInput {
    Plain(DecodedInput),
    /// A JSON array, converted to lines.
    Json(JsonInput<DecodedInput>),
}

impl Read for LineInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            LineInput::Plain(input) => input.read(buffer),
            LineInput::Json(input) => input.read(buffer),
        }
    }
}

/// Reads an input line by line.
pub(super) struct Lines {
    /// Name of the list in messages.
    label: String,
    format: ListFormat,
    input: LineInput,
    read: BytesRead,
    buffer: Vec<u8>,
    /// Bytes of the buffer that have been read but not consumed.
    unread: Range<usize>,
    /// Bytes of the buffer that were consumed last.
    last: Range<usize>,
    /// Position in the buffer up to which the digest covers the consumed bytes.
    digested: usize,
    digest: Xxh3Default,
    offset: u64,
    line: u64,
    is_begun: bool,
    is_over: bool,
    /// Start of the line that is being skipped. Until the line ends, this is the list's position.
    skipping: Option<ListPosition>,
    /// Range that the last search covered without finding a newline.
    searched: (usize, usize),
    stretch: usize,
}

impl Lines {
    pub(super) fn new(label: &str, input: DecodedInput, format: ListFormat) -> Self {
        Lines {
            label: label.to_owned(),
            format,
            read: input.bytes_read(),
            input: match format {
                ListFormat::Jsonl => LineInput::Json(JsonInput::new(input)),
                _ => LineInput::Plain(input),
            },
            buffer: vec![0; READ_BYTES],
            unread: 0..0,
            last: 0..0,
            digested: 0,
            digest: Xxh3Default::new(),
            offset: 0,
            line: 0,
            is_begun: false,
            is_over: false,
            skipping: None,
            searched: (0, 0),
            stretch: 0,
        }
    }

    pub(super) fn label(&self) -> &str {
        &self.label
    }

    /// Returns how much of the input has been read.
    pub(super) fn read_share(&self) -> ReadShare {
        ReadShare::Bytes(self.read.load(Ordering::Relaxed))
    }

    /// Returns whether the lines are the values of a JSON array.
    pub(super) fn is_array(&self) -> bool {
        matches!(&self.input, LineInput::Json(input) if input.is_array())
    }

    /// Returns the number of consumed lines.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// Returns the position at the start of a line. The number of entries is set by the caller.
    pub(super) fn position(&mut self) -> ListPosition {
        self.skipping.unwrap_or_else(|| self.here())
    }

    fn here(&mut self) -> ListPosition {
        self.catch_up();
        let digest = self.digest.digest();
        ListPosition { offset: self.offset, line: self.line, digest, ..ListPosition::default() }
    }

    /// Returns the bytes of a range that was found.
    pub(super) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.buffer[self.unread.start + range.start..self.unread.start + range.end]
    }

    /// Searches for the line that begins `from` bytes after the consumed part. Also returns the start of the next line.
    pub(super) fn find(&mut self, from: usize) -> Result<(LineSearch, usize)> {
        if !self.is_begun && !self.begin()? {
            return Ok((LineSearch::NothingNow, from));
        }
        loop {
            if let Some(newline) = self.newline_behind(from) {
                if newline >= LIST_LINE_BYTES_MAX {
                    return Ok((LineSearch::TooLong, from));
                }
                let start = self.unread.start;
                let has_cr = newline > from && self.buffer[start + newline - 1] == b'\r';
                return Ok((LineSearch::Line(from..newline - usize::from(has_cr)), newline + 1));
            }
            if self.unread.len() >= LIST_LINE_BYTES_MAX {
                return Ok((LineSearch::TooLong, from));
            }
            match self.fill()? {
                ReadStep::Done => {}
                ReadStep::NothingNow => return Ok((LineSearch::NothingNow, from)),
                // The last line can lack a newline.
                ReadStep::End if self.unread.len() > from => {
                    return Ok((LineSearch::Line(from..self.unread.len()), self.unread.len()));
                }
                ReadStep::End => return Ok((LineSearch::End, from)),
            }
        }
    }

    fn newline_behind(&mut self, from: usize) -> Option<usize> {
        let begin = if self.searched.0 == from { self.searched.1.max(from) } else { from };
        let unread = &self.buffer[self.unread.clone()];
        let newline = memchr::memchr(b'\n', unread.get(begin..)?).map(|position| begin + position);
        self.searched = if newline.is_none() { (from, unread.len()) } else { (0, 0) };
        newline
    }

    /// Consumes `bytes` bytes that contain `lines` lines.
    pub(super) fn consume(&mut self, bytes: usize, lines: u64) {
        self.last = self.unread.start..self.unread.start + bytes;
        self.unread.start += bytes;
        self.offset += bytes as u64;
        self.line += lines;
        self.searched = (0, 0);
    }

    /// Returns the bytes that were consumed last, without surrounding white space. After another read, the result is
    /// empty.
    pub(super) fn last(&self) -> &[u8] {
        self.buffer.get(self.last.clone()).unwrap_or_default().trim_ascii()
    }

    /// Returns whether a line that is too long is being skipped.
    pub(super) fn is_skipping(&self) -> bool {
        self.skipping.is_some()
    }

    /// Consumes the line that begins here, regardless of its length. Must be called again until it returns `Done`.
    pub(super) fn skip_line(&mut self) -> Result<ReadStep> {
        if self.skipping.is_none() {
            self.skipping = Some(self.here());
        }
        loop {
            let newline = memchr::memchr(b'\n', &self.buffer[self.unread.clone()]);
            self.consume(
                newline.map_or(self.unread.len(), |newline| newline + 1),
                u64::from(newline.is_some()),
            );
            if newline.is_some() {
                break;
            }
            match self.fill()? {
                ReadStep::Done => {}
                ReadStep::NothingNow => return Ok(ReadStep::NothingNow),
                ReadStep::End => {
                    self.line += 1;
                    break;
                }
            }
        }
        self.skipping = None;
        Ok(ReadStep::Done)
    }

    /// Consumes everything before a position, and checks that it is the same as in the earlier run. Must be called
    /// again until it returns `Done`. `End` means that the input has changed.
    pub(super) fn go_to(&mut self, position: ListPosition) -> Result<ReadStep> {
        self.is_begun |= position.offset > 0;
        while self.offset < position.offset {
            let left = usize::try_from(position.offset - self.offset).unwrap_or(usize::MAX);
            self.consume(self.unread.len().min(left), 0);
            if self.offset < position.offset {
                match self.fill()? {
                    ReadStep::Done => {}
                    other => return Ok(other),
                }
            }
        }
        if self.offset != position.offset || self.here().digest != position.digest {
            return Ok(ReadStep::End);
        }
        self.line = position.line;
        Ok(ReadStep::Done)
    }

    /// Refuses input that is not a list, and skips a byte order mark. Returns whether enough bytes were available.
    fn begin(&mut self) -> Result<bool> {
        // The first read returns only the bytes that determine the compression. The second read returns the other
        // available bytes.
        while self.unread.len() <= MAGIC_BYTES {
            match self.fill()? {
                ReadStep::Done => {}
                ReadStep::NothingNow if self.unread.len() < BYTE_ORDER_MARK.len() => return Ok(false),
                // Do not wait for more: a program may write a single line to a pipe and then wait for its object.
                ReadStep::NothingNow | ReadStep::End => break,
            }
        }
        let unread = &self.buffer[self.unread.clone()];
        if unread.starts_with(b"\xff\xfe") || unread.starts_with(b"\xfe\xff") {
            return Err(Error::Usage(format!(
                "the list {} is UTF-16; convert it with iconv -f UTF-16 -t UTF-8",
                self.label
            )));
        }
        if let Some(kind) = not_a_list::kind_of(unread, self.format) {
            return Err(Error::Usage(format!("the list {} is not a list of URLs, but {kind}", self.label)));
        }
        if unread.starts_with(BYTE_ORDER_MARK) {
            self.consume(BYTE_ORDER_MARK.len(), 0);
        }
        self.is_begun = true;
        Ok(true)
    }

    /// Reads more bytes into the buffer.
    fn fill(&mut self) -> Result<ReadStep> {
        if self.is_over {
            return Ok(ReadStep::End);
        }
        if self.stretch >= LIST_STRETCH_BYTES {
            self.stretch = 0;
            return Ok(ReadStep::NothingNow);
        }
        self.make_room();
        loop {
            match self.input.read(&mut self.buffer[self.unread.end..]) {
                Ok(0) => {
                    self.is_over = true;
                    return Ok(ReadStep::End);
                }
                Ok(count) => {
                    self.unread.end += count;
                    self.stretch += count;
                    return Ok(ReadStep::Done);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(ReadStep::NothingNow),
                // The input is not damaged, but fetchmill cannot read it in this form. The user must convert it.
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                    return Err(Error::Usage(format!("the list {} cannot be read: {error}", self.label)));
                }
                Err(error) => return Err(unreadable(&self.label, &error)),
            }
        }
    }

    fn make_room(&mut self) {
        if self.unread.end < self.buffer.len() {
            return;
        }
        self.catch_up();
        self.last = 0..0;
        self.buffer.copy_within(self.unread.clone(), 0);
        self.unread = 0..self.unread.len();
        self.digested = 0;
        if self.unread.end + READ_BYTES > self.buffer.len() {
            let size = (self.buffer.len() * 2).min(LIST_LINE_BYTES_MAX + READ_BYTES);
            self.buffer.resize(size, 0);
        }
    }

    fn catch_up(&mut self) {
        self.digest.update(&self.buffer[self.digested..self.unread.start]);
        self.digested = self.unread.start;
    }
}

/// Returns the error for a list that cannot be read.
pub(super) fn unreadable(label: &str, error: &dyn std::fmt::Display) -> Error {
    Error::Listing(format!(
        "cannot read all of the list {label}: {error}; repair the list or download it again, then run the same \
         command again to resume"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(bytes: &[u8]) -> Lines {
        Lines::new("x", DecodedInput::new(Box::new(io::Cursor::new(bytes.to_vec())), None), ListFormat::Text)
    }

    fn all(lines: &mut Lines) -> Vec<String> {
        let mut texts = Vec::new();
        loop {
            match lines.find(0).unwrap() {
                (LineSearch::Line(range), next) => {
                    texts.push(String::from_utf8_lossy(lines.bytes(range)).into_owned());
                    lines.consume(next, 1);
                }
                (LineSearch::TooLong, _) => {
                    while lines.skip_line().unwrap() == ReadStep::NothingNow {}
                    texts.push("too long".into());
                }
                (LineSearch::NothingNow, _) => {}
                (LineSearch::End, _) => return texts,
            }
        }
    }

    #[test]
    fn lines_end_as_on_any_system_and_the_last_may_not() {
        let mut lines = lines_of(b"\xef\xbb\xbfa\r\n\nb\r\r\nc");

        assert_eq!(all(&mut lines), ["a", "", "b\r", "c"]);
        assert_eq!(lines.line(), 4);
        assert_eq!(lines.position().offset, 12);
    }

    #[test]
    fn a_line_has_a_bound_and_the_next_one_is_read() {
        let mut bytes = vec![b'x'; LIST_LINE_BYTES_MAX - 1];
        bytes.push(b'\n');
        bytes.extend(vec![b'y'; 3 * LIST_STRETCH_BYTES]);
        bytes.extend(b"\nz\n");
        bytes.extend(vec![b'y'; LIST_LINE_BYTES_MAX + 1]);

        let mut lines = lines_of(&bytes);
        let texts = all(&mut lines);

        assert_eq!(texts[0].len(), LIST_LINE_BYTES_MAX - 1);
        assert_eq!(texts[1..], ["too long", "z", "too long"]);
        assert_eq!(lines.position().offset, bytes.len() as u64);
        assert_eq!(lines.position().digest, xxhash_rust::xxh3::xxh3_64(&bytes));
        assert_eq!(lines.line(), 4);
        assert!(lines.buffer.len() <= LIST_LINE_BYTES_MAX + READ_BYTES);
    }

    #[test]
    fn other_bytes_before_a_position_are_noticed() {
        let mut first = lines_of(b"aa\nbb\ncc\n");
        first.find(0).unwrap();
        first.consume(3, 1);
        let position = first.position();

        assert_eq!(lines_of(b"aa\nxx").go_to(position).unwrap(), ReadStep::Done);
        for other in [&b"ab\nbb\ncc\n"[..], b"aa", b""] {
            assert_eq!(lines_of(other).go_to(position).unwrap(), ReadStep::End);
        }
    }

    #[test]
    fn utf_16_is_told() {
        let error = lines_of(b"\xff\xfeh\0t\0").find(0).unwrap_err();

        assert!(error.to_string().contains("UTF-16"), "{error}");
    }
}
