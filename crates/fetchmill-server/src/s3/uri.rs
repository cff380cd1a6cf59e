//! Queries, and percent escapes in the forms that signatures and listings use.

/// Decodes percent escapes once. If `plus` is set, a `+` is a space, as in queries. Returns `false` if an escape is
/// malformed.
pub(crate) fn decode(text: &[u8], plus: bool, out: &mut Vec<u8>) -> bool {
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        out.push(match byte {
            b'%' => {
                let [high, low, ..] = rest else { return false };
                let (Some(high), Some(low)) = (digit(*high), digit(*low)) else { return false };
                rest = &rest[2..];
                high << 4 | low
            }
            b'+' if plus => b' ',
            _ => byte,
        });
    }
    true
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

const HEX: &[u8; 16] = b"0123456789ABCDEF";

fn escape(byte: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
}

const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Encodes text for signatures. Escapes everything except letters, digits, `-._~` and, in a path, `/`.
pub(crate) fn encode(text: &[u8], path: bool, out: &mut Vec<u8>) {
    out.reserve(text.len());
    for &byte in text {
        if is_unreserved(byte) || (path && byte == b'/') {
            out.push(byte);
        } else {
            escape(byte, out);
        }
    }
}

/// Encodes a key for `encoding-type=url`. A space becomes `+`, and `/` and `*` stay unchanged.
pub(crate) fn encode_key(text: &[u8], out: &mut Vec<u8>) {
    out.reserve(text.len());
    for &byte in text {
        match byte {
            b' ' => out.push(b'+'),
            b'/' | b'*' => out.push(byte),
            _ if byte != b'~' && is_unreserved(byte) => out.push(byte),
            _ => escape(byte, out),
        }
    }
}

/// The decoded parameters of a query.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(Vec<u8>, Vec<u8>)>);

impl Query {
    /// Parses the text after the `?`. `None` if an escape is malformed.
    pub(crate) fn parse(text: &[u8]) -> Option<Query> {
        let mut parameters = Vec::new();
        for parameter in text.split(|byte| *byte == b'&').filter(|parameter| !parameter.is_empty()) {
            let end = parameter.iter().position(|byte| *byte == b'=').unwrap_or(parameter.len());
            let (mut name, mut value) = (Vec::new(), Vec::new());
            let value_text = parameter.get(end + 1..).unwrap_or_default();
            if !decode(&parameter[..end], true, &mut name) || !decode(value_text, true, &mut value) {
                return None;
            }
            parameters.push((name, value));
        }
        Some(Query(parameters))
    }

    /// Returns the first value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|(other, _)| other == name.as_bytes()).map(|(_, value)| value.as_slice())
    }

    /// Returns whether the parameter exists, with or without a value.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Appends the query in the form that signatures use, encoded and sorted.
    pub(crate) fn canonical(&self, out: &mut Vec<u8>) {
        let encoded = |text: &[u8]| {
            let mut encoded = Vec::with_capacity(text.len());
            encode(text, false, &mut encoded);
            encoded
        };
        let mut parameters: Vec<_> =
            self.0.iter().map(|(name, value)| (encoded(name), encoded(value))).collect();
        parameters.sort();
        for (position, (name, value)) in parameters.iter().enumerate() {
            if position > 0 {
                out.push(b'&');
            }
            out.extend_from_slice(name);
            out.push(b'=');
            out.extend_from_slice(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(fill: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        fill(&mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn escapes_are_decoded_once() {
        assert_eq!(made(|out| assert!(decode(b"a%2Fb%2541+%2b", false, out))), "a/b%41++");
        assert_eq!(made(|out| assert!(decode(b"a+%2B", true, out))), "a +");
        for broken in ["%", "%4", "%4g"] {
            assert!(!decode(broken.as_bytes(), false, &mut Vec::new()), "{broken}");
        }
    }

    #[test]
    fn a_path_keeps_its_slashes_only() {
        assert_eq!(made(|out| encode("a b/+ü~*".as_bytes(), true, out)), "a%20b/%2B%C3%BC~%2A");
        assert_eq!(made(|out| encode(b"a/b", false, out)), "a%2Fb");
    }

    #[test]
    fn a_listed_key_has_plus_for_space() {
        assert_eq!(made(|out| encode_key("a b/+%ü(3).png".as_bytes(), out)), "a+b/%2B%25%C3%BC%283%29.png");
    }

    #[test]
    fn a_query_is_sorted_by_what_is_sent() {
        let query = Query::parse(b"prefix=a%2Bb&list-type=2&a&b=x+y").expect("whole");

        assert_eq!(query.get("prefix"), Some(b"a+b".as_slice()));
        assert!(query.has("a") && !query.has("c"));
        assert_eq!(made(|out| query.canonical(out)), "a=&b=x%20y&list-type=2&prefix=a%2Bb");
    }
}
