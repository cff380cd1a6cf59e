//! Lines of the index (CDXJ) of a WARC file. A line contains the key of an object's URL, its time, and the location and
//! contents of its record as JSON. The fields, their order and the spaces between them are the same as those of
//! `cdxj-indexer`.

use memchr::memmem::Finder;

use super::decode::WarcRecord;
use super::member::HEADER;
use super::member_reader::MemberReader;
use super::message::parse_head;
use super::surt::SurtWriter;
use super::{RECORD_END, VERSION};
use crate::pack::Damage;
use crate::pack::number::write_decimal;
use fetchmill_model::text::dates;

/// Number of digits of a timestamp such as `20260131235959`.
const TIMESTAMP_DIGITS: usize = 14;
/// First field of a request record. Request records have no line.
const REQUEST: &[u8] = b"WARC-Type: request\r\n";

/// Makes the index lines for the records of a file. All records share the same buffers.
pub struct CdxjLines {
    members: MemberReader,
    writer: LineWriter,
    header: Finder<'static>,
    /// Positions at which a member of the current record may start.
    starts: Vec<usize>,
}

impl CdxjLines {
    /// Creates the lines for a file with this name.
    pub fn new(file_name: &str) -> Self {
        let mut json_file_name = Vec::new();
        push_text(file_name, &mut json_file_name);
        CdxjLines {
            members: MemberReader::new(),
            header: Finder::new(&HEADER),
            starts: Vec::new(),
            writer: LineWriter {
                json_file_name,
                keys: SurtWriter::default(),
                date: Vec::new(),
                lines: Vec::new(),
                ends: Vec::new(),
            },
        }
    }

    /// Returns the lines, without line endings, of a record that [`super::WarcEncoder`] wrote for a target. Each line
    /// refers to a response, a resource or a revisit. `place` is the offset of the record in the file. The digests are
    /// not verified, because that would take longer than all the other work.
    pub fn of(&mut self, record: &[u8], place: u64) -> Result<impl Iterator<Item = &[u8]>, Damage> {
        self.writer.clear();
        if self.add_without_requests(record, place).is_none() {
            self.writer.clear();
            self.add_all(record, place)?;
        }
        let starts = std::iter::once(0).chain(self.writer.ends.iter().copied());
        Ok(starts.zip(&self.writer.ends).map(|(start, end)| &self.writer.lines[start..*end]))
    }

    /// Adds the lines without decompressing the requests, each of which precedes its response. Returns `None` if the
    /// members do not start where they seem to, because compressed data can look like a header.
    fn add_without_requests(&mut self, record: &[u8], place: u64) -> Option<()> {
        self.starts.clear();
        self.starts.extend(self.header.find_iter(record));
        if self.starts.first() != Some(&0) {
            return None;
        }
        // Only the first member may have no request.
        for number in (1 - self.starts.len() % 2..self.starts.len()).step_by(2) {
            let start = *self.starts.get(number)?;
            let end = self.starts.get(number + 1).copied().unwrap_or(record.len());
            let (member, behind) = self.members.unpack(record.get(start..end)?).ok()?;
            if is_request(member) || !behind.is_empty() {
                return None;
            }
            let indexed = WarcRecord::without_digest(member).ok()?;
            self.writer.add(&indexed, (place + start as u64, end - start)).ok()?;
        }
        Some(())
    }

    /// Adds the lines of all members that are not requests. Verifies the CRC-32 of each member.
    fn add_all(&mut self, record: &[u8], place: u64) -> Result<(), Damage> {
        let mut rest = record;
        while !rest.is_empty() {
            let offset = place + (record.len() - rest.len()) as u64;
            let (member, behind) = self.members.unpack(rest)?;
            if !is_request(member) {
                let indexed = WarcRecord::without_digest(member)?;
                self.writer.add(&indexed, (offset, rest.len() - behind.len()))?;
            }
            rest = behind;
        }
        Ok(())
    }
}

impl std::fmt::Debug for CdxjLines {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("CdxjLines").finish_non_exhaustive()
    }
}

/// Returns whether a record is a request. The checksum of the record has been verified, so comparing its start and its
/// end is enough.
fn is_request(record: &[u8]) -> bool {
    let fields = record.strip_prefix(VERSION).and_then(|fields| fields.strip_prefix(REQUEST));
    fields.is_some_and(|fields| fields.ends_with(RECORD_END))
}

struct LineWriter {
    json_file_name: Vec<u8>,
    keys: SurtWriter,
    date: Vec<u8>,
    /// The lines of one record, one after another.
    lines: Vec<u8>,
    ends: Vec<usize>,
}

impl LineWriter {
    fn clear(&mut self) {
        self.lines.clear();
        self.ends.clear();
    }

    fn add(&mut self, record: &WarcRecord<'_>, (offset, length): (u64, usize)) -> Result<(), Damage> {
        let url = record.target_uri.ok_or(Damage("the record has no URI"))?;
        let digest = record.payload_digest.ok_or(Damage("the record has no payload digest"))?;
        let head = if record.kind == b"resource" { None } else { parse_head(record.block) };
        let kind = match &head {
            Some(_) if record.kind == b"revisit" => Some(&b"warc/revisit"[..]),
            Some((reply, _)) => reply.content_type,
            None => record.content_type,
        };
        let line = &mut self.lines;
        self.keys.write(url, line);
        line.push(b' ');
        self.date.clear();
        dates::write_utc_micros(record.fetched_at, &mut self.date);
        line.extend(self.date.iter().filter(|byte| byte.is_ascii_digit()).take(TIMESTAMP_DIGITS));
        line.push(b' ');
        let mut json = CdxjFields::new(line);
        json.push("url", |line| push_bytes(url, line));
        json.push("mime", |line| push_media_type(kind.unwrap_or_default(), line));
        json.push("status", |line| push_status(head.map(|(reply, _)| reply.status), line));
        json.push("digest", |line| push_bytes(digest, line));
        json.push("length", |line| write_decimal(length as u64, line));
        json.push("offset", |line| write_decimal(offset, line));
        json.push("filename", |line| line.extend_from_slice(&self.json_file_name));
        line.push(b'}');
        self.ends.push(line.len());
        Ok(())
    }
}

/// Writes the fields of a JSON object in ASCII, leaving out those without a value.
struct CdxjFields<'l> {
    line: &'l mut Vec<u8>,
    separator: &'static [u8],
}

impl<'l> CdxjFields<'l> {
    fn new(line: &'l mut Vec<u8>) -> Self {
        CdxjFields { line, separator: b"{\"" }
    }

    #[inline]
    fn push(&mut self, name: &str, write_value: impl FnOnce(&mut Vec<u8>)) {
        let before = self.line.len();
        self.line.extend_from_slice(self.separator);
        self.line.extend_from_slice(name.as_bytes());
        self.line.extend_from_slice(b"\": \"");
        let start = self.line.len();
        write_value(self.line);
        if self.line.len() == start {
            self.line.truncate(before);
            return;
        }
        self.line.push(b'"');
        self.separator = b", \"";
    }
}

/// Appends a status with three digits.
fn push_status(status: Option<u16>, line: &mut Vec<u8>) {
    let Some(status) = status else { return };
    let digits = status.to_string();
    line.extend(std::iter::repeat_n(b'0', 3_usize.saturating_sub(digits.len())));
    line.extend_from_slice(digits.as_bytes());
}

/// Appends the bytes of a field as UTF-8. If they are not UTF-8, each byte becomes one character.
fn push_bytes(bytes: &[u8], line: &mut Vec<u8>) {
    if bytes.iter().fold(true, |all, byte| all & is_plain(*byte)) {
        return line.extend_from_slice(bytes);
    }
    push_text(&text_of(bytes), line);
}

/// Appends the media type without its parameters.
fn push_media_type(value: &[u8], line: &mut Vec<u8>) {
    let is_end = |byte: &u8| matches!(byte, b';' | b' ' | b'\t');
    let value = value.trim_ascii();
    if value.is_ascii() {
        return push_bytes(value.split(is_end).next().unwrap_or_default(), line);
    }
    push_text(text_of(value).split([';', ' ', '\t']).next().unwrap_or_default(), line);
}

fn text_of(bytes: &[u8]) -> String {
    let characters = || bytes.iter().map(|byte| char::from(*byte)).collect();
    std::str::from_utf8(bytes).map_or_else(|_| characters(), str::to_owned)
}

/// Returns whether a character needs no escape in JSON.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\'
}

/// Appends characters of a JSON string.
fn push_text(text: &str, line: &mut Vec<u8>) {
    for character in text.chars() {
        match character {
            '"' | '\\' => line.extend([b'\\', character as u8]),
            ' '..='~' => line.push(character as u8),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    line.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_ascii_and_an_empty_value_is_no_field() {
        let mut line = Vec::new();
        let mut json = CdxjFields::new(&mut line);
        json.push("a", |line| push_text("x\"\\\u{7f}é🙂", line));
        json.push("b", |_| ());
        json.push("c", |line| push_bytes(b"\xff\"", line));
        json.push("d", |line| push_status(Some(7), line));
        line.push(b'}');
        let text = String::from_utf8(line).unwrap();
        assert_eq!(text, r#"{"a": "x\"\\\u007f\u00e9\ud83d\ude42", "c": "\u00ff\"", "d": "007"}"#);
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["a"], "x\"\\\u{7f}é🙂");
    }

    #[test]
    fn a_media_type_has_no_parameters() {
        for (value, expected) in [
            (&b"text/html; charset=utf-8"[..], "text/html"),
            (b" text/html charset", "text/html"),
            (b"; charset=utf-8", ""),
            (b"text/\xe9", "text/\\u00e9"),
            (b"text/\xc3\xa9;\xff", "text/\\u00c3\\u00a9"),
        ] {
            let mut line = Vec::new();
            push_media_type(value, &mut line);
            assert_eq!(String::from_utf8(line).unwrap(), expected);
        }
    }
}
