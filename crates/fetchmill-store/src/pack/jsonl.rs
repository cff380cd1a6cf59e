//! jsonl: one JSON line per object.
//!
//! # Rules
//! - Unknown values are omitted.
//! - In text that is not UTF-8, U+FFFD replaces invalid bytes. A second field (`name_hex`) contains all bytes in
//!   hexadecimal. A body that is not UTF-8 is stored as `body_base64`. As a result, every object can be restored
//!   exactly.
//! - If every target of a job has a row ([`ExtraColumns::has_outcomes`]), each row contains the target's outcome.
//!   Fields that do not apply are null. In the row of a target without an object, the body and the checksum are null.
//! - A list's kept columns are fields of an object named `columns`, because their names could clash with other fields.
//!   Their values are text, in which U+FFFD replaces bytes that are not UTF-8.
//! - Every reader sees a single line that is safe to display. Control characters are escaped, and so are the characters
//!   that some readers treat as a line ending (U+0085, U+2028, U+2029).

#[cfg(test)]
mod tests;

use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

use super::number::write_decimal;
use super::{Damage, Decoder, Encoder, FileBody};
use fetchmill_model::name;
use fetchmill_model::object::{Object, StoredObject, UnfetchedTarget};
use fetchmill_model::outcome::Outcome;
use fetchmill_model::target::Sequence;
use fetchmill_model::target::extra_columns::{
    ColumnType, ExtraColumns, OUTCOME_COLUMNS, TypedValue, extra_values, write_extra,
};
use fetchmill_model::text::dates;

/// Writes JSON lines.
#[derive(Debug, Default, Clone)]
pub struct JsonlEncoder {
    kept: JsonColumns,
    has_outcomes: bool,
}

/// Kept columns, as a JSON object. A column without a value is null.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct JsonColumns {
    /// Names of the columns in JSON, each followed by a colon, and the types of their values.
    keys: Vec<(Vec<u8>, ColumnType)>,
}

impl JsonColumns {
    pub(super) fn new<'c>(columns: impl Iterator<Item = (&'c str, ColumnType)>) -> Self {
        let key = |(name, kind): (&str, ColumnType)| {
            let mut key = vec![b'"'];
            escape(name, &mut key);
            key.extend_from_slice(b"\":");
            (key, kind)
        };
        JsonColumns { keys: columns.map(key).collect() }
    }

    fn write_fields(&self, kept: Option<&[u8]>, mut start: u8, out: &mut Vec<u8>) {
        let mut values = extra_values(kept.unwrap_or_default());
        for (key, kind) in &self.keys {
            out.push(std::mem::replace(&mut start, b','));
            out.extend_from_slice(key);
            write_typed(*kind, values.next().flatten(), out);
        }
    }

    /// Appends an object that contains only these columns, after the URL.
    pub(super) fn write(&self, url: Option<&[u8]>, kept: Option<&[u8]>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"url\":");
        write_value(url, out);
        self.write_fields(kept, b',', out);
        out.push(b'}');
    }

    /// Parses the output of [`JsonColumns::write`]. The columns may have any names.
    pub(super) fn read(text: &[u8]) -> Option<(Option<Vec<u8>>, Vec<u8>)> {
        let ExtraValues(values) = serde_json::from_slice(text).ok()?;
        let mut values = extra_values(&values);
        let url = values.next()?.map(<[u8]>::to_vec);
        let mut kept = Vec::new();
        write_extra(values, &mut kept);
        Some((url, kept))
    }
}

/// Writes a value with its type. Infinity stays text, because JSON cannot express it. A value that does not have this
/// type also stays text. Such a value occurs only if it made the target fail.
fn write_typed(kind: ColumnType, value: Option<&[u8]>, out: &mut Vec<u8>) {
    match value.and_then(|value| kind.read(value)) {
        Some(TypedValue::Float64(number)) if !number.is_finite() => write_value(value, out),
        Some(TypedValue::String(_)) | None => write_value(value, out),
        Some(typed) => out.extend_from_slice(typed.to_string().as_bytes()),
    }
}

/// Writes a string or null.
fn write_value(value: Option<&[u8]>, out: &mut Vec<u8>) {
    match value {
        Some(value) => {
            out.push(b'"');
            escape(&String::from_utf8_lossy(value), out);
            out.push(b'"');
        }
        None => out.extend_from_slice(b"null"),
    }
}

impl JsonlEncoder {
    /// Creates an encoder for objects with these columns.
    pub fn new(columns: &ExtraColumns) -> Self {
        JsonlEncoder { kept: JsonColumns::new(columns.typed()), has_outcomes: columns.has_outcomes() }
    }

    /// Appends the row of a target without an object.
    pub fn encode_unfetched(&self, target: &UnfetchedTarget<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"sequence\":");
        write_decimal(target.sequence, out);
        write_text("name", target.name, out);
        if let Some(url) = target.url {
            write_text("url", url, out);
        }
        self.write_answer(target, out);
        write_null("crc32c", out);
        write_null("body", out);
        out.extend_from_slice(b"}\n");
    }

    /// Appends a line of the failures file. The line is a target's row without the fields that this file never needs.
    /// All lines have the same fields. An entry that is not a target has no sequence number.
    pub fn encode_failure(
        &self,
        sequence: Option<Sequence>,
        target: &UnfetchedTarget<'_>,
        out: &mut Vec<u8>,
    ) {
        out.extend_from_slice(b"{\"sequence\":");
        match sequence {
            Some(sequence) => write_decimal(sequence, out),
            None => out.extend_from_slice(b"null"),
        }
        write_text("name", target.name, out);
        match target.url {
            Some(url) => write_text("url", url, out),
            None => write_null("url", out),
        }
        self.write_answer(target, out);
        out.extend_from_slice(b"}\n");
    }

    /// Writes the reply that a target without an object received.
    fn write_answer(&self, target: &UnfetchedTarget<'_>, out: &mut Vec<u8>) {
        match target.status {
            0 => write_null("status", out),
            status => write_number("status", u64::from(status), out),
        }
        self.write_extra(target.kept, out);
        write_outcome(target.outcome, target.kind, target.detail, target.attempts, out);
    }

    fn write_extra(&self, kept: Option<&[u8]>, out: &mut Vec<u8>) {
        if !self.kept.keys.is_empty() {
            write_key("columns", out);
            self.kept.write_fields(kept, b'{', out);
            out.push(b'}');
        }
    }
}

impl Encoder for JsonlEncoder {
    fn start(&mut self, _: &mut Vec<u8>) {}

    fn encode(&mut self, object: &Object<'_>, out: &mut Vec<u8>) {
        self.write_facts(object, out);
        write_body(object.body, out);
        out.extend_from_slice(b"}\n");
    }

    fn encode_file(&mut self, object: &Object<'_>, body: &FileBody, out: &mut dyn Write) -> io::Result<()> {
        let mut text = Vec::new();
        self.write_facts(object, &mut text);
        out.write_all(&text)?;
        write_file_body(body, out)?;
        out.write_all(b"}\n")
    }

    fn finish(&mut self, _: &mut Vec<u8>) {}
}

impl JsonlEncoder {
    /// Writes the line of an object up to its body.
    fn write_facts(&self, object: &Object<'_>, out: &mut Vec<u8>) {
        let facts = &object.facts;
        out.extend_from_slice(b"{\"sequence\":");
        write_decimal(object.sequence, out);
        write_text("name", object.name, out);
        if let Some(url) = facts.url {
            write_text("url", url, out);
        }
        if facts.status != 0 {
            write_number("status", u64::from(facts.status), out);
        }
        if let Some(content_type) = facts.content_type {
            write_text("content_type", content_type, out);
        }
        if let Some(content_encoding) = facts.content_encoding {
            write_text("content_encoding", content_encoding, out);
        }
        if let Some(etag) = facts.etag {
            write_text("etag", etag, out);
        }
        if let Some(last_modified) = facts.last_modified {
            open_text("last_modified", out);
            dates::write_utc(last_modified, out);
            out.push(b'"');
        }
        if facts.fetched_at != 0 {
            open_text("fetched_at", out);
            dates::write_utc_micros(facts.fetched_at, out);
            out.push(b'"');
        }
        self.write_extra(facts.kept, out);
        if self.has_outcomes {
            write_outcome(Outcome::Fetched.name(), None, None, facts.attempts, out);
        }
        write_number("crc32c", u64::from(object.crc32c), out);
    }
}

fn write_key(key: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\":");
}

fn open_text(key: &str, out: &mut Vec<u8>) {
    write_key(key, out);
    out.push(b'"');
}

fn write_number(key: &str, number: u64, out: &mut Vec<u8>) {
    write_key(key, out);
    write_decimal(number, out);
}

fn write_null(key: &str, out: &mut Vec<u8>) {
    write_key(key, out);
    out.extend_from_slice(b"null");
}

/// Writes the outcome of a target.
fn write_outcome(outcome: &str, kind: Option<&str>, detail: Option<&str>, attempts: u32, out: &mut Vec<u8>) {
    for (key, text) in OUTCOME_COLUMNS.into_iter().zip([Some(outcome), kind, detail]) {
        match text {
            Some(text) => write_text(key, text.as_bytes(), out),
            None => write_null(key, out),
        }
    }
    write_number("attempts", u64::from(attempts), out);
}

/// Writes bytes that are usually text.
fn write_text(key: &str, bytes: &[u8], out: &mut Vec<u8>) {
    open_text(key, out);
    if let Ok(text) = std::str::from_utf8(bytes) {
        escape(text, out);
        out.push(b'"');
        return;
    }
    escape(&String::from_utf8_lossy(bytes), out);
    out.extend_from_slice(b"\",\"");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"_hex\":\"");
    out.extend_from_slice(name::to_hex(bytes).as_bytes());
    out.push(b'"');
}

fn write_body(body: &[u8], out: &mut Vec<u8>) {
    if let Ok(text) = std::str::from_utf8(body) {
        open_text("body", out);
        escape(text, out);
    } else {
        open_text("body_base64", out);
        // Base64 turns every three bytes into four and pads the last group, so the result fits.
        let start = out.len();
        out.resize(start + body.len().div_ceil(3) * 4, 0);
        let written = STANDARD.encode_slice(body, &mut out[start..]);
        debug_assert!(written.is_ok_and(|written| start + written == out.len()));
    }
    out.push(b'"');
}

/// Writes a body from a file, in pieces. The whole body has to be read first, to find out whether it is text.
fn write_file_body(body: &FileBody, out: &mut dyn Write) -> io::Result<()> {
    let mut text = Vec::new();
    if is_text(body)? {
        open_text("body", &mut text);
        let mut pieces = TextPieces::default();
        body.for_each(|piece| {
            pieces.take(piece, |piece| escape(piece, &mut text));
            out.write_all(&text)?;
            text.clear();
            Ok(())
        })?;
    } else {
        open_text("body_base64", &mut text);
        out.write_all(&text)?;
        // Every piece except the last consists of complete groups of three bytes.
        body.for_each(|piece| out.write_all(STANDARD.encode(piece).as_bytes()))?;
        text.clear();
    }
    text.push(b'"');
    out.write_all(&text)
}

fn is_text(body: &FileBody) -> io::Result<bool> {
    let mut pieces = TextPieces::default();
    let mut is_text = true;
    body.for_each(|piece| {
        is_text = is_text && pieces.take(piece, |_| ());
        Ok(())
    })?;
    Ok(is_text && pieces.cut.is_empty())
}

/// Text in pieces that may end in the middle of a character.
#[derive(Debug, Default)]
struct TextPieces {
    /// Incomplete character at the end of the last piece. It is up to three bytes long.
    cut: Vec<u8>,
    whole: Vec<u8>,
}

impl TextPieces {
    /// Calls `each` with the complete characters. Returns `false` if the bytes are not UTF-8.
    fn take(&mut self, piece: &[u8], each: impl FnOnce(&str)) -> bool {
        self.whole.clear();
        self.whole.append(&mut self.cut);
        self.whole.extend_from_slice(piece);
        let (text, rest, is_text) = match std::str::from_utf8(&self.whole) {
            Ok(text) => (text, &b""[..], true),
            Err(error) => {
                let (text, rest) = self.whole.split_at(error.valid_up_to());
                // The bytes before the error are valid.
                (std::str::from_utf8(text).unwrap_or_default(), rest, error.error_len().is_none())
            }
        };
        each(text);
        if is_text {
            self.cut.extend_from_slice(rest);
        }
        is_text
    }
}

/// Number of bytes that are checked at a time. Plain text is copied in units of this size.
const RUN_BYTES: usize = 32;

/// Appends the content of a string as JSON, without the quotes.
fn escape(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 1);
    let (mut copied, mut position) = (0, 0);
    while position < bytes.len() {
        let run = bytes[position..].chunks_exact(RUN_BYTES).take_while(|run| is_plain(run)).count();
        position += run * RUN_BYTES;
        let stop = bytes.len().min(position + RUN_BYTES);
        while position < stop {
            let length = escaped_length(&bytes[position..]);
            if length > 0 {
                out.extend_from_slice(&bytes[copied..position]);
                write_escaped(&bytes[position..position + length], out);
                copied = position + length;
            }
            position += length.max(1);
        }
    }
    out.extend_from_slice(&bytes[copied..]);
}

/// Returns whether the whole run can be copied. The code has no branches, so that many bytes are checked at a time.
fn is_plain(run: &[u8]) -> bool {
    run.iter().fold(0, |others, byte| others | other_than_plain(*byte)) == 0
}

/// Returns 0 for printable ASCII that a JSON string may contain unescaped.
fn other_than_plain(byte: u8) -> u8 {
    u8::from(byte.wrapping_sub(b' ') > b'~' - b' ') | u8::from(byte == b'"') | u8::from(byte == b'\\')
}

/// Returns the length in bytes of the first character if it must be escaped, or 0 if not.
fn escaped_length(bytes: &[u8]) -> usize {
    match bytes {
        [0..=0x1f | 0x7f | b'"' | b'\\', ..] => 1,
        [0xc2, 0x80..=0x9f, ..] => 2,
        [0xe2, 0x80, 0xa8 | 0xa9, ..] => 3,
        _ => 0,
    }
}

/// Writes a character that must be escaped.
fn write_escaped(character: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    match character {
        b"\n" => out.extend_from_slice(b"\\n"),
        b"\r" => out.extend_from_slice(b"\\r"),
        b"\t" => out.extend_from_slice(b"\\t"),
        [byte @ (b'"' | b'\\')] => out.extend_from_slice(&[b'\\', *byte]),
        [0xe2, _, 0xa8] => out.extend_from_slice(b"\\u2028"),
        [0xe2, ..] => out.extend_from_slice(b"\\u2029"),
        // Below U+00A0, the last byte in UTF-8 equals the code point.
        [.., byte] => {
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
        [] => {}
    }
}

/// Reads the output of [`JsonlEncoder`].
#[derive(Debug, Default, Clone, Copy)]
pub struct JsonlDecoder;

/// A line. An unknown field counts as damage, because it can only be a known field whose name is damaged.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonlRecord {
    #[serde(rename = "sequence")]
    _sequence: Sequence,
    name: String,
    name_hex: Option<String>,
    url: Option<String>,
    url_hex: Option<String>,
    #[serde(default)]
    status: u16,
    content_type: Option<String>,
    content_type_hex: Option<String>,
    content_encoding: Option<String>,
    content_encoding_hex: Option<String>,
    etag: Option<String>,
    etag_hex: Option<String>,
    last_modified: Option<String>,
    fetched_at: Option<String>,
    columns: Option<ExtraValues>,
    outcome: Option<String>,
    #[serde(rename = "kind")]
    _kind: Option<String>,
    #[serde(rename = "detail")]
    _detail: Option<String>,
    #[serde(default)]
    attempts: u32,
    crc32c: u32,
    body: Option<String>,
    body_base64: Option<String>,
}

/// A value of a kept column.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum ExtraValue {
    String(String),
    Int64(i64),
    Float64(f64),
    Bool(bool),
}

impl ExtraValue {
    fn into_text(self) -> String {
        match self {
            ExtraValue::String(text) => text,
            ExtraValue::Int64(number) => TypedValue::Int64(number).to_string(),
            ExtraValue::Float64(number) => TypedValue::Float64(number).to_string(),
            ExtraValue::Bool(value) => TypedValue::Bool(value).to_string(),
        }
    }
}

/// Values of the kept columns, in the order in which they appear in the line.
struct ExtraValues(Vec<u8>);

impl<'de> Deserialize<'de> for ExtraValues {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Values;
        impl<'de> Visitor<'de> for Values {
            type Value = ExtraValues;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("the kept columns")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut columns: A) -> Result<ExtraValues, A::Error> {
                let mut kept = Vec::new();
                while let Some((_, value)) = columns.next_entry::<String, Option<ExtraValue>>()? {
                    let text = value.map(ExtraValue::into_text);
                    write_extra(std::iter::once(text.as_deref().map(str::as_bytes)), &mut kept);
                }
                Ok(ExtraValues(kept))
            }
        }
        from.deserialize_map(Values)
    }
}

impl Decoder for JsonlDecoder {
    fn decode(&self, record: &[u8]) -> Result<StoredObject, Damage> {
        const DATE: Damage = Damage("a date is malformed");
        let line = record.strip_suffix(b"\n").ok_or(Damage("the line end is missing"))?;
        if memchr::memchr(b'\n', line).is_some() {
            return Err(Damage("there is more than one line"));
        }
        let line: JsonlRecord =
            serde_json::from_slice(line).map_err(|_| Damage("the line is not JSON written by fetchmill"))?;
        if line.outcome.is_some_and(|outcome| outcome != Outcome::Fetched.name()) {
            return Err(Damage("the line belongs to a target without an object"));
        }
        let body = match (line.body, line.body_base64) {
            (Some(body), None) => body.into_bytes(),
            (None, Some(body)) => STANDARD.decode(body).map_err(|_| Damage("the body is not base64"))?,
            _ => return Err(Damage("the line must have exactly one body")),
        };
        if crc32c::crc32c(&body) != line.crc32c {
            return Err(Damage("the body's checksum is wrong"));
        }
        let last_modified = line.last_modified.map(|text| dates::parse_utc(text.as_bytes()).ok_or(DATE));
        let fetched_at = line.fetched_at.map(|text| dates::parse_utc_micros(text.as_bytes()).ok_or(DATE));
        Ok(StoredObject {
            name: bytes_of(Some(line.name), line.name_hex)?.unwrap_or_default(),
            body,
            status: line.status,
            attempts: line.attempts,
            fetched_at: fetched_at.transpose()?.unwrap_or_default(),
            content_type: bytes_of(line.content_type, line.content_type_hex)?,
            content_encoding: bytes_of(line.content_encoding, line.content_encoding_hex)?,
            etag: bytes_of(line.etag, line.etag_hex)?,
            last_modified: last_modified.transpose()?,
            head: None,
            url: bytes_of(line.url, line.url_hex)?,
            kept: line.columns.map(|kept| kept.0),
        })
    }
}

/// Returns the bytes of a string and its hexadecimal form. The two must agree.
fn bytes_of(text: Option<String>, hex: Option<String>) -> Result<Option<Vec<u8>>, Damage> {
    const DAMAGE: Damage = Damage("a text differs from its hexadecimal form");
    match (text, hex) {
        (text, None) => Ok(text.map(String::into_bytes)),
        (Some(text), Some(hex)) => {
            let bytes = name::from_hex(&hex).ok_or(DAMAGE)?;
            let is_same = String::from_utf8_lossy(&bytes) == text;
            if is_same { Ok(Some(bytes)) } else { Err(DAMAGE) }
        }
        (None, Some(_)) => Err(DAMAGE),
    }
}
