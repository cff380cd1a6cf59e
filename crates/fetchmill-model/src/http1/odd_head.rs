//! Heads with lines that violate RFC 9112 but that other clients accept: folded values, lines that are not fields,
//! control bytes in a value or in the reason of the status line, and blanks before a colon.
//!
//! Such a line is dropped or read as intended. This must never change where a reply ends or to which request it
//! belongs. A head is therefore refused if an odd line
//! - names one of the fields in [`GUARDED_FIELDS`], in any spelling, or continues such a field,
//! - begins with `HTTP/`, because another reply may begin there,
//! - contains a NUL or a CR that does not end the line (also forbidden in a reason), or
//! - contains only blanks, because some parsers consider it the end of the head.

use std::borrow::Cow;

use super::malformed::MalformedReply;
use crate::http1::header_field::is_token;

/// Names, reduced to letters, of the fields that define where a body ends, which part of the object it is, and how it
/// is encoded.
const GUARDED_FIELDS: &[&str] =
    &["contentlength", "transferencoding", "connection", "contentrange", "contentencoding"];

/// A field of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldLine<'h> {
    /// Name of the field, a token.
    pub name: &'h [u8],
    /// Value without surrounding blanks. It can contain folds and control bytes.
    pub value: &'h [u8],
}

impl<'h> FieldLine<'h> {
    /// Returns whether the field has this name, ignoring case.
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }

    /// Returns the value with each fold replaced by a blank (RFC 9112, 5.2).
    pub fn unfolded(&self) -> Cow<'h, [u8]> {
        if memchr::memchr(b'\n', self.value).is_none() {
            return Cow::Borrowed(self.value);
        }
        let mut joined = Vec::with_capacity(self.value.len());
        for line in self.value.split(|byte| *byte == b'\n') {
            if !joined.is_empty() {
                joined.push(b' ');
            }
            joined.extend_from_slice(line.trim_ascii());
        }
        Cow::Owned(joined)
    }
}

/// Returns a value if it can be kept, or `None` if it contains control bytes or spans several lines.
pub fn kept_value(value: &[u8]) -> Option<&[u8]> {
    value.iter().all(|byte| is_text(*byte)).then_some(value)
}

/// Returns the fields of a head in order. A [`ReplyReader`](super::ReplyReader) must have accepted the head. Lines that
/// are not fields are skipped.
pub fn field_lines(head: &[u8]) -> FieldLines<'_> {
    let mut lines = FieldLines { rest: head };
    // The status line.
    let _ = lines.next_line();
    lines
}

/// See [`field_lines`].
#[derive(Debug, Clone)]
pub struct FieldLines<'h> {
    rest: &'h [u8],
}

impl<'h> FieldLines<'h> {
    /// Returns the next line without its end, or `None` at the end of the head.
    fn next_line(&mut self) -> Option<&'h [u8]> {
        let end = memchr::memchr(b'\n', self.rest)?;
        let (line, behind) = self.rest.split_at(end);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            self.rest = &[];
            return None;
        }
        self.rest = &behind[1..];
        Some(line)
    }
}

impl<'h> Iterator for FieldLines<'h> {
    type Item = FieldLine<'h>;

    fn next(&mut self) -> Option<FieldLine<'h>> {
        loop {
            let start = self.rest;
            let line = self.next_line()?;
            let mut length = line.len();
            while self.rest.first().is_some_and(|byte| is_blank(*byte)) {
                let before = start.len() - self.rest.len();
                match self.next_line() {
                    Some(fold) => length = before + fold.len(),
                    None => break,
                }
            }
            let Some(colon) = memchr::memchr(b':', line) else { continue };
            let name = line[..colon].trim_ascii_end();
            if is_name(name) {
                return Some(FieldLine { name, value: start[colon + 1..length].trim_ascii() });
            }
        }
    }
}

/// Refuses a complete head if it contains a line that must not be dropped.
pub(super) fn check(head: &[u8]) -> Result<(), MalformedReply> {
    let mut lines = FieldLines { rest: head };
    let _ = lines.next_line();
    let mut continues_guarded = false;
    while let Some(line) = lines.next_line() {
        if memchr::memchr2(b'\0', b'\r', line).is_some() {
            return Err(MalformedReply::framing("a line of the head contains a NUL or a CR without LF"));
        }
        let is_fold = is_blank(line[0]);
        if is_fold && (continues_guarded || line.trim_ascii().is_empty()) {
            return Err(MalformedReply::framing("a header field that must not be folded is folded"));
        }
        let colon = memchr::memchr(b':', line);
        let before_colon = &line[..colon.unwrap_or(line.len())];
        let name = before_colon.trim_ascii_end();
        let is_exact = colon.is_some() && is_name(name);
        let names_guarded = is_guarded(name, is_exact);
        let is_odd = !is_exact
            || name.len() < before_colon.len()
            || !line[name.len() + 1..].iter().all(|byte| is_text(*byte));
        if is_odd && names_guarded {
            return Err(MalformedReply::framing(
                "a header field that determines the body's end is malformed",
            ));
        }
        if is_odd && is_status_line(line) {
            return Err(MalformedReply::framing("a status line appears among the header fields"));
        }
        if !is_fold {
            continues_guarded = names_guarded;
        }
    }
    Ok(())
}

/// Returns whether the letters of a name spell a guarded field. If the name is not a token, only its start is compared.
fn is_guarded(name: &[u8], is_exact: bool) -> bool {
    GUARDED_FIELDS.iter().any(|guarded| {
        let mut letters = name.iter().filter(|byte| byte.is_ascii_alphanumeric());
        let is_start = guarded
            .bytes()
            .all(|letter| letters.next().is_some_and(|byte| byte.to_ascii_lowercase() == letter));
        is_start && (!is_exact || letters.next().is_none())
    })
}

/// Returns whether a line begins like a status line once leading punctuation and blanks are skipped.
fn is_status_line(line: &[u8]) -> bool {
    let start = line.iter().position(u8::is_ascii_alphanumeric).unwrap_or(line.len());
    line[start..].get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"HTTP/"))
}

fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| is_token(*byte))
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Returns whether a byte is allowed in the value of a field (RFC 9110, 5.5).
pub(super) fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}
