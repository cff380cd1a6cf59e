//! Names from outside: how they are asked for, and where they lie on disk. The one place where the bytes of a server
//! become a path.
//!
//! # Rules
//! - A name is bytes. Nothing is decoded, normalised, shortened, hashed or fanned out.
//! - A name is refused or escaped segment by segment; nothing is cut out of it, so nothing can come together to `..`.
//! - Escaping is reversible: different names have different paths.
//!
//! # Never
//! Opens or looks at a file: the sink opens paths beneath its destination only, as the second wall.
//!
//! # Cost
//! One pass without allocation for a name of plain ASCII.

use crate::limits::{NAME_PATH_BYTES_MAX, NAME_SEGMENT_BYTES_MAX, NAME_SEGMENTS_MAX};
use crate::outcome::FailureKind;

/// What a job keeps for itself in a destination.
pub const STATE_FOLDER: &str = ".fetchmill";
/// What an empty name is called as a member: no escaping of bytes looks like it.
const EMPTY_MEMBER: &[u8] = b"%empty";
/// What an empty last segment is called on disk: no escaping of bytes looks like it.
const EMPTY_LAST_SEGMENT: &[u8] = b"%index";
/// A name in a message is cut at about this length.
const DISPLAY_BYTES_MAX: usize = 200;

/// Why a name cannot be a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It is empty.
    #[error("it is empty")]
    Empty,
    /// It starts with `/`.
    #[error("it starts with a slash")]
    Absolute,
    /// It has nothing between two slashes.
    #[error("it has an empty segment")]
    EmptySegment,
    /// It has a segment `.` or `..`.
    #[error("it has a segment . or ..")]
    DotSegment,
    /// It has a NUL.
    #[error("it has a NUL byte")]
    Nul,
    /// It is nested too deep.
    #[error("it has more than {NAME_SEGMENTS_MAX} segments")]
    TooDeep,
    /// A segment is too long for a file system.
    #[error("a segment is longer than {NAME_SEGMENT_BYTES_MAX} bytes on disk")]
    SegmentTooLong,
    /// It is too long for the system.
    #[error("it is longer than {NAME_PATH_BYTES_MAX} bytes on disk")]
    TooLong,
}

impl From<NameError> for FailureKind {
    fn from(_: NameError) -> Self {
        FailureKind::Name
    }
}

/// Appends a name as part of a request's path: all but unreserved characters (RFC 3986, 2.3) and `/` is
/// percent-encoded, and so is a segment `.` or `..`, that a client must not resolve.
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

/// Appends a name as a value in a query: all but unreserved characters is percent-encoded, `/` too.
pub(crate) fn encode_whole(name: &[u8], out: &mut Vec<u8>) {
    escape(name, &UNRESERVED, out);
}

/// Whether a name is that of a folder. Among the names of a listing it is a mistake; the name of a URL may well be.
pub fn is_folder(name: &[u8]) -> bool {
    name.ends_with(b"/")
}

/// A name as a path below the destination: `path` is cleared, then holds it. An empty last segment is `%index`: a file
/// has a name.
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
        // Escaping never makes it shorter: a name of a megabyte is not copied first.
        _ if segment.len() > NAME_SEGMENT_BYTES_MAX => Err(NameError::SegmentTooLong),
        _ if memchr::memchr(0, segment).is_some() => Err(NameError::Nul),
        _ => {
            escape_segment(segment, first, path);
            Ok(())
        }
    }
}

/// Control bytes, `%`, bytes that are not UTF-8, and a first segment that is the job's own.
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

/// The reverse of [`encode`]; `None` for what it would not produce.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let name = unescape(text)?;
    let mut again = Vec::with_capacity(text.len());
    encode(&name, &mut again);
    (again == text).then_some(name)
}

/// The reverse of [`to_path`]; `None` for what it would not produce.
pub fn from_path(path: &[u8]) -> Option<Vec<u8>> {
    let folder = path.strip_suffix(EMPTY_LAST_SEGMENT).filter(|folder| is_folder(folder));
    let name = unescape(folder.unwrap_or(path))?;
    let mut again = Vec::with_capacity(path.len());
    to_path(&name, &mut again).ok()?;
    (again == path).then_some(name)
}

/// Appends a name as that of an archive's member: whatever the name, it is one that can be unpacked beneath a folder.
/// As [`to_path`] where that has a path and the name is no folder's; else more is escaped: a segment `.` or `..`, and
/// a `/` at the start, at the end or behind another. The empty name is `%empty`.
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
        // With the slash behind it, that the last segment does not have.
        end += segment.len() + 1;
        if segment.is_empty() && end <= name.len() || end == name.len() {
            member.extend_from_slice(&escaped(b'/'));
        } else if end < name.len() {
            member.push(b'/');
        }
    }
}

/// The reverse of [`to_member`]; `None` for what it would not produce.
pub fn from_member(member: &[u8]) -> Option<Vec<u8>> {
    if member == EMPTY_MEMBER {
        return Some(Vec::new());
    }
    let name = unescape(member)?;
    let mut again = Vec::with_capacity(member.len());
    to_member(&name, &mut again);
    (again == member).then_some(name)
}

/// Undoes the escaping of bytes.
pub(crate) fn unescape(path: &[u8]) -> Option<Vec<u8>> {
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

/// A name for a message on a terminal: control characters, characters that turn the direction of writing, and bytes
/// that are not UTF-8 are escaped; a long name is cut.
pub fn for_display(name: &[u8]) -> String {
    use std::fmt::Write;

    let mut text = String::new();
    for chunk in name.utf8_chunks() {
        let valid = chunk.valid().chars().map(Ok);
        for part in valid.chain(chunk.invalid().iter().map(Err)) {
            if text.len() >= DISPLAY_BYTES_MAX {
                text.push_str("...");
                return text;
            }
            // Writing to a string cannot fail.
            let _ = match part {
                Ok(character) if is_misleading(character) => write!(text, "{}", character.escape_unicode()),
                Ok(character) => text.write_char(character),
                Err(byte) => write!(text, "\\x{byte:02x}"),
            };
        }
    }
    text
}

/// Control characters, and those that change how the text around them is shown.
fn is_misleading(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// A byte as `%XX`.
pub(crate) fn escaped(byte: u8) -> [u8; 3] {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    [b'%', DIGITS[(byte >> 4) as usize], DIGITS[(byte & 15) as usize]]
}

/// Bytes in hexadecimal, for names that are no text.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |number: u8| char::from(DIGITS[usize::from(number)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The reverse of [`to_hex`].
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else {
        return None;
    };
    let digit = |digit: u8| char::from(digit).to_digit(16).map(|number| number as u8);
    pairs.iter().map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

/// Of an upper-case hex digit.
fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// Copies runs of what stays as it is, and escapes the bytes between them.
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
const UNRESERVED: [bool; 256] = table(b"-._~");
/// Unreserved characters and `/`.
const SENT_AS_IS: [bool; 256] = table(b"-._~/");
/// Printable ASCII other than `%`; a segment with anything else is looked at character by character.
const STORED_AS_IS: [bool; 256] = table(b" !\"#$&'()*+,-.:;<=>?@[\\]^_`{|}~");

/// Letters and digits are in it, and `others`.
const fn table(others: &[u8]) -> [bool; 256] {
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path_of(name: impl AsRef<[u8]>) -> Result<String, NameError> {
        let mut path = b"left over".to_vec();
        to_path(name.as_ref(), &mut path).map(|()| String::from_utf8(path).expect("a path is UTF-8"))
    }

    fn encoded(name: impl AsRef<[u8]>) -> String {
        let mut out = Vec::new();
        encode(name.as_ref(), &mut out);
        String::from_utf8(out).expect("an encoded name is ASCII")
    }

    #[test]
    fn a_plain_name_is_its_own_path() {
        for name in [
            "a",
            "a/b/c.bin",
            "...",
            "..a",
            "a..",
            ".hidden",
            "-rf",
            "~",
            " ",
            "a b",
            "C:\\x",
            "..\\x",
            "CON",
            "a.",
            "caf\u{e9}",
            "cafe\u{301}",
            "\u{ff0e}\u{ff0e}",
            "\u{1f600}/\u{202e}",
            "x/.fetchmill",
            ".fetchmills",
            ".Fetchmill",
            "fetchmill",
        ] {
            assert_eq!(path_of(name).as_deref(), Ok(name));
            assert_eq!(from_path(name.as_bytes()).as_deref(), Some(name.as_bytes()));
        }
    }

    #[test]
    fn what_is_no_plain_text_is_escaped() {
        let cases: &[(&[u8], &str)] = &[
            (b"100%", "100%25"),
            (b"%2e%2e/x", "%252e%252e/x"),
            (b"%2E%2E%2Fx", "%252E%252E%252Fx"),
            (b"a\nb\tc", "a%0Ab%09c"),
            (b"\x1b]0;owned\x07", "%1B]0;owned%07"),
            (b"\x7f", "%7F"),
            (b"\xc2\x80/\xc2\x9f/\xc2\xa0", "%C2%80/%C2%9F/\u{a0}"),
            (b"\xff", "%FF"),
            (b"a\xc3/\xa9", "a%C3/%A9"),
            (b"\xc0\xae\xc0\xae", "%C0%AE%C0%AE"),
            (b"\xc0\xaf", "%C0%AF"),
            (b"\xed\xa0\x80", "%ED%A0%80"),
            (b"\xf4\x90\x80\x80", "%F4%90%80%80"),
            (b"\xe2\x82\xac\xe2\x82", "\u{20ac}%E2%82"),
            (b".fetchmill", "%2Efetchmill"),
            (b".fetchmill/journal", "%2Efetchmill/journal"),
            (b"%2Efetchmill", "%252Efetchmill"),
        ];
        for (name, path) in cases {
            assert_eq!(path_of(name).as_deref(), Ok(*path), "{}", name.escape_ascii());
            assert_eq!(from_path(path.as_bytes()).as_deref(), Some(*name), "{path}");
        }
    }

    #[test]
    fn what_cannot_be_a_path_is_refused() {
        let deep = |segments: usize| vec!["a"; segments].join("/");
        let cases: &[(Vec<u8>, NameError)] = &[
            (b"".to_vec(), NameError::Empty),
            (b"/".to_vec(), NameError::Absolute),
            (b"/a".to_vec(), NameError::Absolute),
            (b"//a".to_vec(), NameError::Absolute),
            (b"a//".to_vec(), NameError::EmptySegment),
            ((deep(NAME_SEGMENTS_MAX) + "/").into_bytes(), NameError::TooDeep),
            (b"a//b".to_vec(), NameError::EmptySegment),
            (b".".to_vec(), NameError::DotSegment),
            (b"..".to_vec(), NameError::DotSegment),
            (b"a/.".to_vec(), NameError::DotSegment),
            (b"a/./b".to_vec(), NameError::DotSegment),
            (b"a\0".to_vec(), NameError::Nul),
            (b"\xff\0".to_vec(), NameError::Nul),
            (deep(NAME_SEGMENTS_MAX + 1).into_bytes(), NameError::TooDeep),
            (vec![b'a'; 256], NameError::SegmentTooLong),
            (vec![b'a'; 1 << 20], NameError::SegmentTooLong),
            (vec![b'%'; 86], NameError::SegmentTooLong),
            ("\u{e9}".repeat(128).into_bytes(), NameError::SegmentTooLong),
            (vec!["a".repeat(255); 17].join("/").into_bytes(), NameError::TooLong),
        ];
        for (name, error) in cases {
            assert_eq!(path_of(name), Err(*error), "{}", for_display(name));
        }
    }

    #[test]
    fn names_up_to_the_bounds_are_kept() {
        let longest = vec!["a".repeat(255); 16].join("/");
        assert_eq!(longest.len(), NAME_PATH_BYTES_MAX);
        for name in [
            vec!["a"; NAME_SEGMENTS_MAX].join("/"),
            "a".repeat(255),
            "%".repeat(85),
            "\u{e9}".repeat(127),
            longest,
        ] {
            assert!(path_of(&name).is_ok(), "{}", for_display(name.as_bytes()));
        }
    }

    /// More than 200 ways to write a path that leads out of a folder.
    fn traversals() -> Vec<Vec<u8>> {
        let dots: &[&[u8]] = &[
            b"..",
            b".",
            b"...",
            b"....",
            b"%2e%2e",
            b"%2E%2E",
            b".%2e",
            b"%2e.",
            b"%252e%252e",
            b"%c0%ae%c0%ae",
            b"\xc0\xae\xc0\xae",
            b"\xe0\x80\xae\xe0\x80\xae",
            b"\xef\xbc\x8e\xef\xbc\x8e",
            b"..\0",
            b".. ",
            b" ..",
            b"..\t",
            b"..;",
            b"..%00",
            b"%u002e%u002e",
        ];
        let slashes: &[&[u8]] = &[
            b"/",
            b"//",
            b"\\",
            b"/\\",
            b"%2f",
            b"%2F",
            b"%5c",
            b"%252f",
            b"\xc0\xaf",
            b"%c0%af",
            b"\xef\xbc\x8f",
            b"/./",
        ];
        let mut names = Vec::new();
        for dot in dots {
            for slash in slashes {
                names.push([*dot, slash, dot, slash, b"etc/passwd"].concat());
                names.push([b"a", *slash, dot, slash, dot, slash, b"x"].concat());
                names.push([*slash, dot, slash, b"x"].concat());
                names.push([b"a", *slash, dot].concat());
            }
        }
        for name in [
            "/etc/passwd",
            "//etc/passwd",
            "/../x",
            "....//....//x",
            "..././x",
            "C:\\x",
            "C:/x",
            "\\\\srv\\x",
            "//srv/x",
            "\\\\?\\C:\\x",
            "file:///etc/passwd",
            "~/x",
            "~root/x",
            "$HOME/x",
            "a/b/../../../x",
            ".fetchmill/../../x",
        ] {
            names.push(name.into());
        }
        names
    }

    #[test]
    fn a_folders_name_is_a_file_in_it() {
        for (name, path) in [
            ("a/", "a/%index"),
            ("a/b?c=d/", "a/b?c=d/%index"),
            ("%index", "%25index"),
            ("a/%index", "a/%25index"),
            ("a/%index/", "a/%25index/%index"),
            (".fetchmill/", "%2Efetchmill/%index"),
        ] {
            assert_eq!(path_of(name).as_deref(), Ok(path));
            assert_eq!(from_path(path.as_bytes()).as_deref(), Some(name.as_bytes()));
        }
        for path in
            ["%index", "/%index", "a/%index/", "a/x%index", "%index/a", "a//%index", "a/%index/%index"]
        {
            assert_eq!(from_path(path.as_bytes()), None, "{path}");
        }
        assert!(is_folder(b"a/") && !is_folder(b"a/b"));
    }

    #[test]
    fn no_spelling_leads_out() {
        let names = traversals();
        assert!(names.len() > 200);
        for name in names {
            assert_beneath(&name);
        }
        for name in ["../x", "a/../x", "a/..", "/../x", "....//../x", "a/b/../../../x", ".fetchmill/../../x"]
        {
            assert!(path_of(name).is_err(), "{name}");
        }
    }

    fn assert_beneath(name: &[u8]) {
        let Ok(path) = path_of(name) else {
            return;
        };
        assert!(!path.is_empty() && path.len() <= NAME_PATH_BYTES_MAX);
        assert!(!path.contains(char::is_control), "{path:?}");
        let segments: Vec<_> = path.split('/').collect();
        assert!(segments.len() <= NAME_SEGMENTS_MAX);
        for segment in &segments {
            assert!(!["", ".", ".."].contains(segment), "{path:?}");
            assert!(segment.len() <= NAME_SEGMENT_BYTES_MAX, "{path:?}");
        }
        assert_ne!(segments[0], ".fetchmill");
        assert_eq!(from_path(path.as_bytes()).as_deref(), Some(name), "{path:?}");
    }

    #[test]
    fn only_paths_of_ours_have_a_name() {
        for path in [
            "",
            "/",
            "/a",
            "a/",
            "a//b",
            ".",
            "..",
            "a/../b",
            "%",
            "%2",
            "a%2",
            "%zz",
            "%61",
            "%2e",
            "%2E%2E",
            "%0a",
            "%2F",
            "a%2Fb",
            "%00",
            "\n",
            "\u{85}",
            ".fetchmill",
            ".fetchmill/x",
            "%C3%A9",
            "x/%2Efetchmill",
        ] {
            assert_eq!(from_path(path.as_bytes()), None, "{path:?}");
        }
        assert_eq!(from_path(b"\xff"), None);
    }

    #[test]
    fn a_name_is_sent_as_it_is() {
        let cases: &[(&[u8], &str)] = &[
            (b"a/b-c_d.e~f", "a/b-c_d.e~f"),
            (b"a b?c#d%2f+&=", "a%20b%3Fc%23d%252f%2B%26%3D"),
            (b"caf\xc3\xa9\xff\0\r\n", "caf%C3%A9%FF%00%0D%0A"),
            (b"", ""),
            (b"//a//", "//a//"),
            (b".", "%2E"),
            (b"..", "%2E%2E"),
            (b"../..", "%2E%2E/%2E%2E"),
            (b"a/./b/../c/", "a/%2E/b/%2E%2E/c/"),
            (b"/.", "/%2E"),
            (b"a/..b/.../.c/d.", "a/..b/.../.c/d."),
            (b"a b/..", "a%20b/%2E%2E"),
        ];
        for (name, expected) in cases {
            assert_eq!(encoded(name), *expected);
        }
    }

    fn member_of(name: impl AsRef<[u8]>) -> String {
        let mut out = Vec::new();
        to_member(name.as_ref(), &mut out);
        String::from_utf8(out).expect("a member's name is UTF-8")
    }

    #[test]
    fn a_member_can_have_any_name() {
        let cases: &[(&[u8], &str)] = &[
            (b"", "%empty"),
            (b"%empty", "%25empty"),
            (b"a/b c.bin", "a/b c.bin"),
            (b"caf\xc3\xa9/\xff", "caf\u{e9}/%FF"),
            (b"a\0\n%", "a%00%0A%25"),
            (b".", "%2E"),
            (b"..", "%2E%2E"),
            (b"../../etc/passwd", "%2E%2E/%2E%2E/etc/passwd"),
            (b"/etc", "%2Fetc"),
            (b"/../x", "%2F%2E%2E/x"),
            (b"/", "%2F"),
            (b"//", "%2F%2F"),
            (b"//a", "%2F%2Fa"),
            (b"a/", "a%2F"),
            (b"a//", "a/%2F"),
            (b"a//b", "a/%2Fb"),
            (b"a///b/", "a/%2F%2Fb%2F"),
            (b"a/./", "a/%2E%2F"),
            (b".fetchmill/x", "%2Efetchmill/x"),
            (b"x/.fetchmill", "x/.fetchmill"),
        ];
        for (name, member) in cases {
            assert_eq!(member_of(name), *member, "{}", name.escape_ascii());
            assert_eq!(from_member(member.as_bytes()).as_deref(), Some(*name), "{member}");
        }
        for member in ["", "/a", "a/", "a//b", "..", "a/.", "%2e", "%61", "%", "a%2Fb", ".fetchmill", "\n"] {
            assert_eq!(from_member(member.as_bytes()), None, "{member:?}");
        }
    }

    #[test]
    fn a_member_is_called_as_its_path_where_there_is_one() {
        for name in traversals() {
            if let Ok(path) = path_of(&name)
                && !is_folder(&name)
            {
                assert_eq!(member_of(&name), path);
            }
        }
    }

    #[test]
    fn only_digits_are_hexadecimal() {
        assert_eq!(to_hex(b"\x00\xfa"), "00fa");
        assert_eq!(from_hex("00fA"), Some(vec![0, 0xfa]));
        for text in ["0", "+f", "0x", " 1", "\u{e9}"] {
            assert_eq!(from_hex(text), None, "{text}");
        }
    }

    #[test]
    fn a_message_shows_no_control_characters() {
        assert_eq!(for_display("caf\u{e9} 100%".as_bytes()), "caf\u{e9} 100%");
        assert_eq!(for_display(b"\x1b]0;owned\x07\n\xff\xc2\x9b"), "\\u{1b}]0;owned\\u{7}\\u{a}\\xff\\u{9b}");
        assert_eq!(for_display("a\u{202e}b\u{feff}".as_bytes()), "a\\u{202e}b\\u{feff}");
        assert_eq!(for_display(&[b'a'; 200]), "a".repeat(200));
        assert_eq!(for_display(&[b'a'; 201]), "a".repeat(200) + "...");
    }

    /// Bytes of which many matter here.
    fn any_name() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![any::<u8>(), prop::sample::select(b"./%\\a2E\0\n \xc2\x85".to_vec())];
        prop::collection::vec(byte, 0..40)
    }

    /// Undoes percent-encoding the way a server does.
    fn decoded(text: &str) -> Vec<u8> {
        let mut parts = text.split('%');
        let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
        for part in parts {
            bytes.push(u8::from_str_radix(&part[..2], 16).expect("two hex digits"));
            bytes.extend(&part.as_bytes()[2..]);
        }
        bytes
    }

    proptest! {
        #[test]
        fn any_name_stays_beneath_and_comes_back(name in any_name()) {
            assert_beneath(&name);
        }

        #[test]
        fn any_path_with_a_name_is_its_path(path in any_name()) {
            if let Some(name) = from_path(&path) {
                prop_assert_eq!(path_of(&name).map(String::into_bytes), Ok(path));
            }
        }

        #[test]
        fn any_name_reaches_the_server(name in any_name()) {
            let text = encoded(&name);
            prop_assert!(text.bytes().all(|byte| SENT_AS_IS[byte as usize] || byte == b'%'));
            prop_assert!(!text.split('/').any(|segment| [".", ".."].contains(&segment)));
            prop_assert_eq!(decode(text.as_bytes()), Some(name.clone()));
            prop_assert_eq!(decoded(&text), name);
        }

        #[test]
        fn any_member_lies_beneath_and_its_name_comes_back(name in any_name()) {
            let member = member_of(&name);
            prop_assert!(!member.contains(char::is_control));
            for segment in member.split('/') {
                prop_assert!(!["", ".", ".."].contains(&segment), "{}", member);
            }
            prop_assert!(member != ".fetchmill" && !member.starts_with(".fetchmill/"));
            prop_assert_eq!(from_member(member.as_bytes()), Some(name));
        }

        #[test]
        fn any_text_with_a_name_is_its_text(text in any_name()) {
            if let Some(name) = from_member(&text) {
                prop_assert_eq!(member_of(&name).into_bytes(), text.clone());
            }
            if let Some(name) = decode(&text) {
                prop_assert_eq!(encoded(&name).into_bytes(), text);
            }
        }

        #[test]
        fn any_name_can_be_shown(name in prop::collection::vec(any::<u8>(), 0..400)) {
            let text = for_display(&name);
            prop_assert!(!text.contains(char::is_control));
            prop_assert!(text.len() <= DISPLAY_BYTES_MAX + 10 + 3);
        }
    }
}
