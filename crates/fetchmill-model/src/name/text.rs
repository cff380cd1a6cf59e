//! Names in text files, such as the column `name` of a manifest. Names are bytes, but a text column can contain only
//! UTF-8.

use std::borrow::Cow;

use super::{encode_whole, unescape};

/// Prefix for a name that is not UTF-8. The percent-encoded name follows it.
const BYTES: &str = "%bytes:";

/// Returns the text of a name: the name itself if it is UTF-8, and otherwise `%bytes:` and the percent-encoded name. A
/// name that begins with `%bytes:` is also encoded, so that no two names have the same text.
pub fn to_text(name: &[u8]) -> Cow<'_, str> {
    if let Some(text) = std::str::from_utf8(name).ok().filter(|text| !text.starts_with(BYTES)) {
        return Cow::Borrowed(text);
    }
    let mut text = BYTES.as_bytes().to_vec();
    encode_whole(name, &mut text);
    // Percent-encoding leaves only ASCII.
    Cow::Owned(String::from_utf8_lossy(&text).into_owned())
}

/// Converts the output of [`to_text`] back to the name. A text that `to_text` does not produce is returned unchanged.
pub fn from_text(text: &[u8]) -> Cow<'_, [u8]> {
    let name = text.strip_prefix(BYTES.as_bytes()).and_then(unescape);
    match name.filter(|name| to_text(name).as_bytes() == text) {
        Some(name) => Cow::Owned(name),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_name_leads_back_to_it() {
        for (name, text) in [
            (&b"plain"[..], "plain"),
            (b"", ""),
            ("caf\u{e9}/100%".as_bytes(), "caf\u{e9}/100%"),
            (b"caf\xe9", "%bytes:caf%E9"),
            (b"a/b \xff", "%bytes:a%2Fb%20%FF"),
            (b"%bytes:x", "%bytes:%25bytes%3Ax"),
            (b"%bytes:caf%E9", "%bytes:%25bytes%3Acaf%25E9"),
        ] {
            assert_eq!(to_text(name), text);
            assert_eq!(from_text(text.as_bytes()), name);
        }
    }

    #[test]
    fn text_that_no_name_has_is_a_name_unchanged() {
        for text in ["%bytes:", "%bytes:plain", "%bytes:caf%e9", "%bytes:%", "%BYTES:caf%E9", "x%bytes:%FF"] {
            assert_eq!(from_text(text.as_bytes()), text.as_bytes());
        }
    }
}
