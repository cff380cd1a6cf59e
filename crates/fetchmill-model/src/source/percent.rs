//! Decodes percent-encoded text from a server.

/// Decodes percent-encoded text. Returns `None` if a `%` is not followed by two hexadecimal digits of either case.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'%', rest) {
        let &[high, low] = rest.get(at + 1..at + 3)? else { return None };
        decoded.extend_from_slice(&rest[..at]);
        decoded.push(digit(high)? << 4 | digit(low)?);
        rest = &rest[at + 3..];
    }
    decoded.extend_from_slice(rest);
    Some(decoded)
}
