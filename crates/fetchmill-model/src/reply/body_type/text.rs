//! Text without a magic number: JSON and plain text.

const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";
const UTF16_MARKS: [&[u8]; 2] = [b"\xfe\xff", b"\xff\xfe"];

/// Returns the bytes after a UTF-8 byte order mark and white space.
pub(super) fn after_mark_and_blanks(start: &[u8]) -> &[u8] {
    start.strip_prefix(UTF8_MARK).unwrap_or(start).trim_ascii_start()
}

/// Returns whether UTF-8 text begins like a JSON object or array. Scalars cannot be distinguished from other text.
pub(super) fn is_json(start: &[u8]) -> bool {
    let text = after_mark_and_blanks(start);
    let Some((open, rest)) = text.split_first() else { return false };
    let next = rest.trim_ascii_start().first();
    let fits = match (open, next) {
        (b'{', Some(b'"' | b'}')) => true,
        (b'[', Some(next)) => b"{[]\"-tfn".contains(next) || next.is_ascii_digit(),
        _ => false,
    };
    fits && is_utf8(text)
}

/// Returns whether the bytes are text in any encoding, without control bytes (MIME Sniffing, 7.2). UTF-16 with a byte
/// order mark also counts as text.
pub(super) fn is_plain_text(start: &[u8]) -> bool {
    let is_control = |byte: &u8| matches!(byte, 0..=8 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f);
    UTF16_MARKS.iter().any(|mark| start.starts_with(mark))
        || !(start.is_empty() || start.iter().any(is_control))
}

/// Returns whether the bytes are UTF-8. The last character can be incomplete.
fn is_utf8(bytes: &[u8]) -> bool {
    match std::str::from_utf8(bytes) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    }
}
