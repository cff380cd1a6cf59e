//! Names from outside the program: their form in requests and their paths on disk. This is the only module that turns
//! bytes from a server into a path.
//!
//! # Rules
//! - A name is a sequence of bytes. It is not decoded, normalised, shortened, hashed or fanned out.
//! - A name is refused or escaped segment by segment. Bytes are never removed, because the bytes around them could then
//!   form `..`.
//! - Escaping is reversible: different names have different paths.
//!
//! # Never
//! Opens or checks a file. The second barrier is the sink, which opens paths only beneath its destination.
//!
//! # Cost
//! One pass without allocation for a name of plain ASCII.

mod text;
pub mod url_name;

use crate::limits::{NAME_PATH_BYTES_MAX, NAME_SEGMENT_BYTES_MAX, NAME_SEGMENTS_MAX};
use crate::outcome::FailureKind;
use crate::text::redacted::hide_secrets;

pub use text::{from_text, to_text};

/// Folder in a destination that contains the state of the job.
pub const STATE_FOLDER: &str = ".fetchmill";
/// Archive member name for an empty name. No escaped byte looks like this.
const EMPTY_MEMBER: &[u8] = b"%empty";
/// File name on disk for an empty last segment. No escaped byte looks like this.
const EMPTY_LAST_SEGMENT: &[u8] = b"%index";
/// Approximate length to which a name in a message is truncated.
const DISPLAY_BYTES_MAX: usize = 200;

/// Reason why a name cannot become a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name is empty.
    #[error("it is empty")]
    Empty,
    /// The name starts with `/`.
    #[error("it starts with a slash")]
    Absolute,
    /// The name has two consecutive slashes.
    #[error("it has an empty segment")]
    EmptySegment,
    /// The name contains a segment `.` or `..`.
    #[error("it has a segment . or ..")]
    DotSegment,
    /// The name contains a NUL.
    #[error("it has a NUL byte")]
    Nul,
    /// The name has too many segments.
    #[error("it has more than {NAME_SEGMENTS_MAX} segments")]
    TooDeep,
    /// A segment of the name is too long for a file system.
    #[error("a segment is longer than {NAME_SEGMENT_BYTES_MAX} bytes on disk")]
    SegmentTooLong,
    /// The name is too long for the operating system.
    #[error("it is longer than {NAME_PATH_BYTES_MAX} bytes on disk")]
    TooLong,
}

impl From<NameError> for FailureKind {
    fn from(_: NameError) -> Self {
        FailureKind::Name
    }
}

/// Appends a name as part of a request's path. All characters except unreserved ones (RFC 3986, 2.3) and `/` are
/// percent-encoded. A segment `.` or `..` is also encoded, so no client resolves it.
pub fn encode(name: &[u8], out: &mut Vec<u8>) {
    if !has_dot_segment(name) {
        return escape(name, &SENT_AS_IS, out);
    }
    for (position, segment) in name.split(|byte| *byte == b'/').enumerate() {
        if position > 0 {
            out.push(b'/');
        }
        match segment {
            b"." => out.extend_from_slice(b"%2E"),
            b".." => out.extend_from_slice(b"%2E%2E"),
            _ => escape(segment, &SENT_AS_IS, out),
        }
    }
}

/// Appends a name as a query value. All characters except unreserved ones are percent-encoded, including `/`.
pub(crate) fn encode_whole(name: &[u8], out: &mut Vec<u8>) {
    escape(name, &UNRESERVED, out);
}

/// Returns whether a name contains half of a UTF-16 surrogate pair, encoded as three bytes that never occur in UTF-8.
/// Such a name comes from JSON that was made from bytes that are not text. The original name is lost, so the object
/// cannot be requested.
pub fn has_surrogate(name: &[u8]) -> bool {
    memchr::memchr_iter(0xed, name).any(|at| name.get(at + 1).is_some_and(|next| *next >= 0xa0))
}

/// Returns whether a name is the name of a folder. Such a name is a mistake in a listing but can occur in a URL.
pub fn is_folder(name: &[u8]) -> bool {
    name.ends_with(b"/")
}

/// Converts a name to a path below the destination and replaces the contents of `path` with it. An empty last segment
/// becomes `%index`, because a file needs a name.
pub fn to_path(name: &[u8], path: &mut Vec<u8>) -> Result<(), NameError> {
    path.clear();
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name[0] == b'/' {
        return Err(NameError::Absolute);
    }
    let end = name.len() - usize::from(is_folder(name));
    let segments_max = NAME_SEGMENTS_MAX - usize::from(is_folder(name));
    for (position, segment) in name[..end].split(|byte| *byte == b'/').enumerate() {
        if position == segments_max {
            return Err(NameError::TooDeep);
        }
        if position > 0 {
            path.push(b'/');
        }
        let start = path.len();
        add_segment(segment, position == 0, path)?;
        if path.len() - start > NAME_SEGMENT_BYTES_MAX {
            return Err(NameError::SegmentTooLong);
        }
    }
    if is_folder(name) {
        path.push(b'/');
        path.extend_from_slice(EMPTY_LAST_SEGMENT);
    }
    if path.len() > NAME_PATH_BYTES_MAX {
        return Err(NameError::TooLong);
    }
    Ok(())
}

fn add_segment(segment: &[u8], first: bool, path: &mut Vec<u8>) -> Result<(), NameError> {
    match segment {
        b"" => Err(NameError::EmptySegment),
        b"." | b".." => Err(NameError::DotSegment),
        // Escaping never shortens a segment, so check the length before copying. A name can be a megabyte long.
        _ if segment.len() > NAME_SEGMENT_BYTES_MAX => Err(NameError::SegmentTooLong),
        _ if memchr::memchr(0, segment).is_some() => Err(NameError::Nul),
        _ => {
            escape_segment(segment, first, path);
            Ok(())
        }
    }
}

/// Escapes control characters, `%`, bytes that are not UTF-8, and a first segment that equals the job's state folder.
fn escape_segment(segment: &[u8], first: bool, path: &mut Vec<u8>) {
    if first && segment == STATE_FOLDER.as_bytes() {
        path.extend_from_slice(&escaped(b'.'));
        path.extend_from_slice(&STATE_FOLDER.as_bytes()[1..]);
        return;
    }
    if segment.iter().all(|byte| STORED_AS_IS[*byte as usize]) {
        path.extend_from_slice(segment);
        return;
    }
    for chunk in segment.utf8_chunks() {
        for character in chunk.valid().chars() {
            let mut buffer = [0; 4];
            let bytes = character.encode_utf8(&mut buffer).as_bytes();
            if character.is_control() || character == '%' {
                for byte in bytes {
                    path.extend_from_slice(&escaped(*byte));
                }
            } else {
                path.extend_from_slice(bytes);
            }
        }
        for byte in chunk.invalid() {
            path.extend_from_slice(&escaped(*byte));
        }
    }
}

/// Decodes the output of [`encode`]. Returns `None` for text that `encode` does not produce.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let name = unescape(text)?;
    let mut again = Vec::with_capacity(text.len());
    encode(&name, &mut again);
    (again == text).then_some(name)
}

/// Converts the output of [`to_path`] back to the name. Returns `None` for a path that `to_path` does not produce.
pub fn from_path(path: &[u8]) -> Option<Vec<u8>> {
    let folder = path.strip_suffix(EMPTY_LAST_SEGMENT).filter(|folder| is_folder(folder));
    let name = unescape(folder.unwrap_or(path))?;
    let mut again = Vec::with_capacity(path.len());
    to_path(&name, &mut again).ok()?;
    (again == path).then_some(name)
}

/// Appends the archive member name for a name. Every result can be unpacked safely beneath a folder. If [`to_path`]
/// accepts the name, and the name is not the name of a folder, the result is the path. Otherwise more bytes are
/// escaped: a segment `.` or `..`, and a `/` at the start, at the end or after another `/`. The empty name becomes
/// `%empty`.
pub fn to_member(name: &[u8], member: &mut Vec<u8>) {
    if name.is_empty() {
        return member.extend_from_slice(EMPTY_MEMBER);
    }
    let mut end = 0;
    for (position, segment) in name.split(|byte| *byte == b'/').enumerate() {
        match segment {
            b"." => member.extend_from_slice(b"%2E"),
            b".." => member.extend_from_slice(b"%2E%2E"),
            _ => escape_segment(segment, position == 0, member),
        }
        // `end` includes the slash after the segment. The last segment has no slash.
        end += segment.len() + 1;
        if segment.is_empty() && end <= name.len() || end == name.len() {
            member.extend_from_slice(&escaped(b'/'));
        } else if end < name.len() {
            member.push(b'/');
        }
    }
}

/// Converts the output of [`to_member`] back to the name. Returns `None` for a member name that `to_member` does not
/// produce.
pub fn from_member(member: &[u8]) -> Option<Vec<u8>> {
    if member == EMPTY_MEMBER {
        return Some(Vec::new());
    }
    let name = unescape(member)?;
    let mut again = Vec::with_capacity(member.len());
    to_member(&name, &mut again);
    (again == member).then_some(name)
}

/// Decodes escaped bytes. Returns `None` if an escape is malformed.
pub fn unescape(path: &[u8]) -> Option<Vec<u8>> {
    let mut name = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&byte, behind)) = rest.split_first() {
        if byte == b'%' {
            let (digits, behind) = behind.split_first_chunk::<2>()?;
            name.push(hex(digits[0])? << 4 | hex(digits[1])?);
            rest = behind;
        } else {
            name.push(byte);
            rest = behind;
        }
    }
    Some(name)
}

/// Returns a name as it is shown in messages on a terminal. Control characters, characters that change the writing
/// direction, and bytes that are not UTF-8 are escaped. A long name is truncated. Signatures and tokens in URLs are
/// redacted.
pub fn for_display(name: &[u8]) -> String {
    printable(name, DISPLAY_BYTES_MAX)
}

/// Returns a text in the form of [`for_display`], truncated to about `bytes_max` bytes.
pub fn printable(text: &[u8], bytes_max: usize) -> String {
    use std::fmt::Write;

    let name = text;
    let mut text = String::new();
    for chunk in name.utf8_chunks() {
        let valid = chunk.valid().chars().map(Ok);
        for part in valid.chain(chunk.invalid().iter().map(Err)) {
            if text.len() >= bytes_max {
                text.push_str("...");
                return hide_secrets(&text).into_owned();
            }
            // Writing to a string cannot fail.
            let _ = match part {
                Ok(character) if is_misleading(character) => write!(text, "{}", character.escape_unicode()),
                Ok(character) => text.write_char(character),
                Err(byte) => write!(text, "\\x{byte:02x}"),
            };
        }
    }
    hide_secrets(&text).into_owned()
}

/// Returns whether a character is a control character or changes how the surrounding text is shown.
fn is_misleading(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Returns a byte as `%XX`.
pub fn escaped(byte: u8) -> [u8; 3] {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    [b'%', DIGITS[(byte >> 4) as usize], DIGITS[(byte & 15) as usize]]
}

/// Returns bytes in hexadecimal, for names that are not text.
pub fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |number: u8| char::from(DIGITS[usize::from(number)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Converts the output of [`to_hex`] back to bytes.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else {
        return None;
    };
    let digit = |digit: u8| char::from(digit).to_digit(16).map(|number| number as u8);
    pairs.iter().map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

/// Returns the value of an upper-case hex digit.
fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// Appends the bytes in `as_is` unchanged, and escapes all others.
fn escape(bytes: &[u8], as_is: &[bool; 256], out: &mut Vec<u8>) {
    let mut rest = bytes;
    while let Some(position) = rest.iter().position(|byte| !as_is[*byte as usize]) {
        out.extend_from_slice(&rest[..position]);
        out.extend_from_slice(&escaped(rest[position]));
        rest = &rest[position + 1..];
    }
    out.extend_from_slice(rest);
}

fn has_dot_segment(name: &[u8]) -> bool {
    memchr::memchr_iter(b'.', name).any(|position| {
        let starts = position == 0 || name[position - 1] == b'/';
        starts && matches!(&name[position + 1..], [] | [b'/', ..] | [b'.'] | [b'.', b'/', ..])
    })
}

/// Unreserved characters (RFC 3986, 2.3).
const UNRESERVED: [bool; 256] = byte_set(b"-._~");
/// Unreserved characters and `/`.
const SENT_AS_IS: [bool; 256] = byte_set(b"-._~/");
/// Printable ASCII except `%`. A segment with other bytes is checked character by character.
const STORED_AS_IS: [bool; 256] = byte_set(b" !\"#$&'()*+,-.:;<=>?@[\\]^_`{|}~");

/// Returns a set of bytes as a table. The set contains letters, digits and `others`.
pub(crate) const fn byte_set(others: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut position = 0;
    while position < others.len() {
        table[others[position] as usize] = true;
        position += 1;
    }
    table
}

#[cfg(test)]
mod tests;
