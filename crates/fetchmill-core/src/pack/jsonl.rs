//! jsonl: a line of JSON for each object.
//!
//! # Rules
//! - What is not known is left out.
//! - A text that is not UTF-8 has U+FFFD for the bad bytes, and all its bytes in hexadecimal in a second field
//!   (`name_hex`); a body that is not UTF-8 is `body_base64` instead. So every object comes back as it was.
//! - A line is one for every reader, and safe to show: all control characters are escaped, and what some take for a
//!   line end (U+0085, U+2028, U+2029).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::number::write_decimal;
use super::{Damage, Decoder, Encoder};
use crate::name;
use crate::object::{Object, StoredObject};
use crate::target::Sequence;
use crate::time_text;

/// Writes lines of JSON.
#[derive(Debug, Default, Clone, Copy)]
pub struct JsonlEncoder;

impl Encoder for JsonlEncoder {
    fn start(&mut self, _: &mut Vec<u8>) {}

    fn encode(&mut self, object: &Object<'_>, out: &mut Vec<u8>) {
        let facts = &object.facts;
        out.extend_from_slice(b"{\"sequence\":");
        write_decimal(object.sequence, out);
        write_text("name", object.name, out);
        if facts.status != 0 {
            write_number("status", u64::from(facts.status), out);
        }
        if let Some(content_type) = facts.content_type {
            write_text("content_type", content_type, out);
        }
        if let Some(etag) = facts.etag {
            write_text("etag", etag, out);
        }
        if let Some(last_modified) = facts.last_modified {
            open_text("last_modified", out);
            time_text::write_utc(last_modified, out);
            out.push(b'"');
        }
        if facts.fetched_at != 0 {
            open_text("fetched_at", out);
            time_text::write_utc_micros(facts.fetched_at, out);
            out.push(b'"');
        }
        write_number("crc32c", u64::from(object.crc32c), out);
        write_body(object.body, out);
        out.extend_from_slice(b"}\n");
    }

    fn finish(&mut self, _: &mut Vec<u8>) {}
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

/// Bytes that are text most of the time.
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
        // Four bytes for each three, and the last ones are padded: so it fits.
        let start = out.len();
        out.resize(start + body.len().div_ceil(3) * 4, 0);
        let written = STANDARD.encode_slice(body, &mut out[start..]);
        debug_assert!(written.is_ok_and(|written| start + written == out.len()));
    }
    out.push(b'"');
}

/// How much is looked at in one go: runs of plain text are copied by so many bytes.
const RUN_BYTES: usize = 32;

/// Appends text as the inside of a JSON string.
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

/// Whether all of it is copied: without a branch, so that many bytes are looked at in one go.
fn is_plain(run: &[u8]) -> bool {
    run.iter().fold(0, |others, byte| others | other_than_plain(*byte)) == 0
}

/// 0 for printable ASCII that a string may hold as it is.
fn other_than_plain(byte: u8) -> u8 {
    u8::from(byte.wrapping_sub(b' ') > b'~' - b' ') | u8::from(byte == b'"') | u8::from(byte == b'\\')
}

/// Bytes of the character at the start that must be escaped; 0: it is copied.
fn escaped_length(bytes: &[u8]) -> usize {
    match bytes {
        [0..=0x1f | 0x7f | b'"' | b'\\', ..] => 1,
        [0xc2, 0x80..=0x9f, ..] => 2,
        [0xe2, 0x80, 0xa8 | 0xa9, ..] => 3,
        _ => 0,
    }
}

/// A character that must be escaped.
fn write_escaped(character: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    match character {
        b"\n" => out.extend_from_slice(b"\\n"),
        b"\r" => out.extend_from_slice(b"\\r"),
        b"\t" => out.extend_from_slice(b"\\t"),
        [byte @ (b'"' | b'\\')] => out.extend_from_slice(&[b'\\', *byte]),
        [0xe2, _, 0xa8] => out.extend_from_slice(b"\\u2028"),
        [0xe2, ..] => out.extend_from_slice(b"\\u2029"),
        // Below U+00A0: in UTF-8 the last byte is the character's number.
        [.., byte] => {
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
        [] => {}
    }
}

/// Reads what [`JsonlEncoder`] wrote. Fields that it does not know are passed over.
#[derive(Debug, Default, Clone, Copy)]
pub struct JsonlDecoder;

/// A line. A field that is not known is a known one that is damaged.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(rename = "sequence")]
    _sequence: Sequence,
    name: String,
    name_hex: Option<String>,
    #[serde(default)]
    status: u16,
    content_type: Option<String>,
    content_type_hex: Option<String>,
    etag: Option<String>,
    etag_hex: Option<String>,
    last_modified: Option<String>,
    fetched_at: Option<String>,
    crc32c: u32,
    body: Option<String>,
    body_base64: Option<String>,
}

impl Decoder for JsonlDecoder {
    fn decode(&self, record: &[u8]) -> Result<StoredObject, Damage> {
        const DATE: Damage = Damage("a date is malformed");
        let line = record.strip_suffix(b"\n").ok_or(Damage("the line has no end"))?;
        if memchr::memchr(b'\n', line).is_some() {
            return Err(Damage("there is more than one line"));
        }
        let line: Line = serde_json::from_slice(line).map_err(|_| Damage("the line is not JSON of ours"))?;
        let body = match (line.body, line.body_base64) {
            (Some(body), None) => body.into_bytes(),
            (None, Some(body)) => STANDARD.decode(body).map_err(|_| Damage("the body is not base64"))?,
            _ => return Err(Damage("the line has no body or two")),
        };
        if crc32c::crc32c(&body) != line.crc32c {
            return Err(Damage("the body's checksum is wrong"));
        }
        let last_modified = line.last_modified.map(|text| time_text::parse_utc(text.as_bytes()).ok_or(DATE));
        let fetched_at = line.fetched_at.map(|text| time_text::parse_utc_micros(text.as_bytes()).ok_or(DATE));
        Ok(StoredObject {
            name: bytes_of(Some(line.name), line.name_hex)?.unwrap_or_default(),
            body,
            status: line.status,
            fetched_at: fetched_at.transpose()?.unwrap_or_default(),
            content_type: bytes_of(line.content_type, line.content_type_hex)?,
            etag: bytes_of(line.etag, line.etag_hex)?,
            last_modified: last_modified.transpose()?,
            head: None,
        })
    }
}

/// The bytes behind a text and its hexadecimal form, which must be of the same bytes.
fn bytes_of(text: Option<String>, hex: Option<String>) -> Result<Option<Vec<u8>>, Damage> {
    const DAMAGE: Damage = Damage("a text is not the one in hexadecimal");
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(object: &Object<'_>) -> String {
        let mut out = Vec::new();
        JsonlEncoder.encode(object, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn stored(name: &[u8], body: &[u8]) -> StoredObject {
        StoredObject { name: name.to_vec(), body: body.to_vec(), ..StoredObject::default() }
    }

    #[test]
    fn a_line_has_what_is_known() {
        let object = StoredObject {
            status: 200,
            fetched_at: 1_795_208_880_123_456,
            content_type: Some(b"text/plain".to_vec()),
            etag: Some(b"\"x\"".to_vec()),
            last_modified: Some(1_795_208_880),
            ..stored(b"a/b", b"hi\n")
        };
        let crc = crc32c::crc32c(b"hi\n");
        assert_eq!(
            line(&object.as_object(12)),
            format!(
                r#"{{"sequence":12,"name":"a/b","status":200,"content_type":"text/plain","etag":"\"x\"","last_modified":"2026-11-20T21:08:00Z","fetched_at":"2026-11-20T21:08:00.123456Z","crc32c":{crc},"body":"hi\n"}}"#
            ) + "\n"
        );
        assert_eq!(
            line(&stored(b"", b"").as_object(0)),
            "{\"sequence\":0,\"name\":\"\",\"crc32c\":0,\"body\":\"\"}\n"
        );
    }

    #[test]
    fn bytes_that_are_no_text_are_told_another_way() {
        let text = line(&stored(b"a\xff", b"\xff\0").as_object(1));
        assert!(text.contains("\"name\":\"a\u{fffd}\",\"name_hex\":\"61ff\","), "{text}");
        assert!(text.ends_with("\"body_base64\":\"/wA=\"}\n"), "{text}");
    }

    #[test]
    fn nothing_in_a_line_ends_it() {
        let all: String = (0..=0xff_u8)
            .map(char::from)
            .chain("\u{2027}\u{2028}\u{2029}\u{202a}\u{1f600}".chars())
            .collect();
        let text = line(&stored(all.as_bytes(), all.as_bytes()).as_object(1));
        let inside = text.strip_suffix('\n').unwrap();
        assert!(
            !inside.contains(|c: char| c.is_control() || ['\u{2028}', '\u{2029}'].contains(&c)),
            "{inside}"
        );
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["name"], all);
        assert_eq!(value["body"], all);
    }

    #[test]
    fn other_lines_are_damage() {
        let good = "{\"sequence\":0,\"name\":\"a\",\"crc32c\":0,\"body\":\"\"}\n";
        assert_eq!(JsonlDecoder.decode(good.as_bytes()), Ok(stored(b"a", b"")));
        for (old, new) in [
            ("}\n", "}"),
            ("}\n", "}\n\n"),
            (",", ",\n"),
            ("\"body\":\"\"", "\"body\":\"\",\"body_base64\":\"\""),
            ("\"body\":\"\"", "\"body_base64\":\"A\""),
            (",\"body\":\"\"", ""),
            ("\"crc32c\":0", "\"crc32c\":1"),
            ("\"crc32c\":0", "\"crc32c\":4294967296"),
            ("\"name\":\"a\"", "\"name\":\"a\",\"name\":\"b\""),
            ("\"name\":\"a\"", "\"name\":\"a\",\"name_hex\":\"62\""),
            ("\"name\":\"a\"", "\"name\":\"a\",\"name_hex\":\"6\""),
            ("\"name\":\"a\"", "\"name_hex\":\"61\""),
            ("\"name\":\"a\"", "\"name\":\"a\",\"etag_hex\":\"61\""),
            ("\"name\":\"a\"", "\"name\":\"a\",\"fetched_at\":\"yesterday\""),
            ("\"name\":\"a\"", "\"name\":\"a\",\"last_modified\":\"2026-02-30T00:00:00Z\""),
        ] {
            let bad = good.replacen(old, new, 1);
            assert!(JsonlDecoder.decode(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            "[ -~]{0,200}".prop_map(String::into_bytes),
            any::<String>().prop_map(String::into_bytes),
            "[a\"\\\\\n\u{7f}-\u{90}\u{2020}-\u{2030}]{0,100}".prop_map(String::into_bytes),
        ]
    }

    prop_compose! {
        fn objects()(name in bytes(), body in bytes(), status: u16, content_type in prop::option::of(bytes()),
                     etag in prop::option::of(bytes()),
                     last_modified in prop::option::of(0..=time_text::SECONDS_MAX),
                     fetched_at in 0..=time_text::SECONDS_MAX * 1_000_000) -> StoredObject {
            StoredObject { name, body, status, fetched_at, content_type, etag, last_modified, head: None }
        }
    }

    proptest! {
        #[test]
        fn any_object_comes_back(object in objects(), sequence: u64) {
            let line = line(&object.as_object(sequence));
            prop_assert_eq!(JsonlDecoder.decode(line.as_bytes()), Ok(object));
            let value: serde_json::Value = serde_json::from_str(&line).unwrap();
            prop_assert_eq!(value["sequence"].as_u64(), Some(sequence));
        }

        #[test]
        fn a_line_that_changed_is_no_panic_and_no_other_body(
            object in objects(), position: prop::sample::Index, byte: u8,
        ) {
            let mut line = line(&object.as_object(1)).into_bytes();
            prop_assert!(JsonlDecoder.decode(&line[..line.len() - 1]).is_err());
            let position = position.index(line.len());
            line[position] = byte;
            if let Ok(stored) = JsonlDecoder.decode(&line) {
                prop_assert_eq!(stored.body, object.body);
            }
        }

        #[test]
        fn any_bytes_are_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(JsonlDecoder.decode(&bytes).is_err());
        }
    }
}
