//! Lines of an archive's index (CDXJ) for the record of an object: the key of its URL, its time, and its location and
//! contents as JSON. Fields, their order and their spaces match `cdxj-indexer`.

use std::fmt::Write as _;

use super::decode::{WarcRecord, unpack};
use super::message::parse_head;
use super::surt::write_surt;
use crate::pack::Damage;
use fetchmill_model::text::dates;

/// `20260131235959`.
const TIMESTAMP_DIGITS: usize = 14;

/// Returns the index lines, without line ends, of a record that [`super::WarcEncoder`] wrote for a target. Each line
/// refers to a response, a resource or a revisit. `place` is the offset of the record in the file `file_name`.
pub fn cdxj_lines(record: &[u8], place: u64, file_name: &str) -> Result<Vec<Vec<u8>>, Damage> {
    let mut lines = Vec::with_capacity(1);
    let mut rest = record;
    while !rest.is_empty() {
        let offset = place + (record.len() - rest.len()) as u64;
        let (member, behind) = unpack(rest)?;
        let indexed = WarcRecord::of(&member)?;
        if indexed.kind != b"request" {
            lines.push(line(&indexed, (offset, rest.len() - behind.len()), file_name)?);
        }
        rest = behind;
    }
    Ok(lines)
}

fn line(record: &WarcRecord<'_>, (offset, length): (u64, usize), file_name: &str) -> Result<Vec<u8>, Damage> {
    let url = record.target_uri.ok_or(Damage("the record has no URI"))?;
    let mut line = Vec::with_capacity(url.len() * 2 + 256);
    write_surt(url, &mut line);
    line.push(b' ');
    let mut date = Vec::new();
    dates::write_utc_micros(record.fetched_at, &mut date);
    line.extend(date.iter().filter(|byte| byte.is_ascii_digit()).take(TIMESTAMP_DIGITS));
    line.push(b' ');
    let head = if record.kind == b"resource" { None } else { parse_head(record.block) };
    let kind = match &head {
        Some(_) if record.kind == b"revisit" => Some(&b"warc/revisit"[..]),
        Some((reply, _)) => reply.content_type,
        None => record.content_type,
    };
    let status = head.as_ref().map(|(reply, _)| format!("{:03}", reply.status));
    let digest = record.payload_digest.ok_or(Damage("the record has no payload digest"))?;
    let mut json = CdxjFields::default();
    json.push("url", &text_of(url));
    json.push("mime", kind.map(media_type).as_deref().unwrap_or_default());
    json.push("status", status.as_deref().unwrap_or_default());
    json.push("digest", &text_of(digest));
    json.push("length", &length.to_string());
    json.push("offset", &offset.to_string());
    json.push("filename", file_name);
    line.extend_from_slice(json.finish().as_bytes());
    Ok(line)
}

/// Returns the bytes of a field as UTF-8, or as one character for each byte if they are not UTF-8.
fn text_of(bytes: &[u8]) -> String {
    let characters = || bytes.iter().map(|byte| char::from(*byte)).collect();
    std::str::from_utf8(bytes).map_or_else(|_| characters(), str::to_owned)
}

/// Returns the media type without its parameters.
fn media_type(value: &[u8]) -> String {
    let text = text_of(value.trim_ascii());
    text.split([';', ' ', '\t']).next().unwrap_or_default().to_owned()
}

/// A JSON object in ASCII. Fields without a value are left out.
#[derive(Default)]
struct CdxjFields(String);

impl CdxjFields {
    fn push(&mut self, name: &str, value: &str) {
        if value.is_empty() {
            return;
        }
        self.0.push_str(if self.0.is_empty() { "{\"" } else { ", \"" });
        self.0.push_str(name);
        self.0.push_str("\": \"");
        for character in value.chars() {
            self.push_character(character);
        }
        self.0.push('"');
    }

    fn push_character(&mut self, character: char) {
        match character {
            '"' | '\\' => self.0.extend(['\\', character]),
            ' '..='~' => self.0.push(character),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    // Writing to a string cannot fail.
                    let _ = write!(self.0, "\\u{unit:04x}");
                }
            }
        }
    }

    fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_ascii_and_an_empty_value_is_no_field() {
        let mut json = CdxjFields::default();
        json.push("a", "x\"\\\u{7f}é🙂");
        json.push("b", "");
        json.push("c", "1");
        let text = json.finish();
        assert_eq!(text, r#"{"a": "x\"\\\u007f\u00e9\ud83d\ude42", "c": "1"}"#);
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["a"], "x\"\\\u{7f}é🙂");
    }

    #[test]
    fn a_media_type_has_no_parameters() {
        for (value, expected) in [
            (&b"text/html; charset=utf-8"[..], "text/html"),
            (b" text/html charset", "text/html"),
            (b"; charset=utf-8", ""),
            (b"text/\xe9", "text/\u{e9}"),
        ] {
            assert_eq!(media_type(value), expected);
        }
    }
}
