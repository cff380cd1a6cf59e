//! File names made from URLs. The URLs are decoded so that people can read the names.
//!
//! # Rules
//! - The same recoding works in both directions. Bytes that are never bare in a URL are decoded if they are encoded,
//!   and encoded if they are bare. Every URL therefore has its own name, whatever bytes it contains, and every name can
//!   be converted back to its URL.
//! - These stay encoded: `/`, `\`, `?`, `#` and NUL; letters, digits and `-._~`, and therefore dot segments; escapes
//!   with lower-case digits.
//! - If a segment contains a byte that is always encoded, `:` and similar characters in it are usually also encoded, as
//!   with `encodeURIComponent`. In other segments and in queries, these characters are usually bare.
//! - Unless two digits follow, `%25` becomes `%`, and a bare `%` becomes `%25`. If two digits follow, `%25` stays
//!   unchanged.

use std::borrow::Cow;

use super::{byte_set, escaped};

/// Returns the file name for a URL without its scheme.
pub fn of_url(url: &[u8]) -> Cow<'_, [u8]> {
    recoded(url)
}

/// Converts the output of [`of_url`] back to the URL.
pub fn to_url(name: &[u8]) -> Cow<'_, [u8]> {
    recoded(name)
}

/// Returns the name of the object at a URL without a query: the decoded last segment. Returns `None` if that segment is
/// empty.
pub fn object_name(url: &[u8]) -> Option<Cow<'_, [u8]>> {
    let last = &url[memchr::memrchr(b'/', url)? + 1..];
    (!last.is_empty()).then(|| of_url(last))
}

/// Converts a prefix of URLs or of names, as given by a user, to a prefix of names.
pub fn beginning(given: &[u8]) -> Cow<'_, [u8]> {
    let is_of_name = given.iter().any(|byte| ALWAYS_ENCODED[*byte as usize]);
    if is_of_name { Cow::Borrowed(given) } else { of_url(given) }
}

fn recoded(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.iter().any(|byte| *byte == b'%' || ALWAYS_ENCODED[*byte as usize]) {
        return Cow::Borrowed(text);
    }
    let (path, rest) = text.split_at(memchr::memchr2(b'?', b'#', text).unwrap_or(text.len()));
    let mut out = Vec::with_capacity(text.len());
    for (position, segment) in path.split(|byte| *byte == b'/').enumerate() {
        if position > 0 {
            out.push(b'/');
        }
        let table = if is_encoded(segment) { &ENCODED_IN_COMPONENTS } else { &ALWAYS_ENCODED };
        recode(segment, table, &mut out);
    }
    recode(rest, &ALWAYS_ENCODED, &mut out);
    Cow::Owned(out)
}

/// A piece of a text.
enum EscapePiece<'t> {
    /// `%XX` with upper-case digits.
    Encoded(u8),
    /// `%XX` with lower-case digits.
    OtherCase(&'t [u8]),
    /// Any other byte.
    Bare(u8),
}

/// Splits off the first piece of a text.
fn split_piece(text: &[u8]) -> Option<(EscapePiece<'_>, &[u8])> {
    let (&first, rest) = text.split_first()?;
    let Some((digits, after)) = rest.split_first_chunk::<2>().filter(|(digits, _)| are_digits(*digits))
    else {
        return Some((EscapePiece::Bare(first), rest));
    };
    if first != b'%' {
        return Some((EscapePiece::Bare(first), rest));
    }
    let [high, low] = digits.map(super::hex);
    let piece = match (high, low) {
        (Some(high), Some(low)) => EscapePiece::Encoded(high << 4 | low),
        _ => EscapePiece::OtherCase(&text[..3]),
    };
    Some((piece, after))
}

fn are_digits(digits: &[u8]) -> bool {
    digits.iter().all(u8::is_ascii_hexdigit)
}

/// Returns whether a segment contains a byte that URLs must percent-encode. The byte can be encoded or bare here.
fn is_encoded(mut segment: &[u8]) -> bool {
    while let Some((piece, rest)) = split_piece(segment) {
        segment = rest;
        if let EscapePiece::Encoded(byte) | EscapePiece::Bare(byte) = piece
            && ALWAYS_ENCODED[byte as usize]
            && !byte.is_ascii_control()
        {
            return true;
        }
    }
    false
}

/// Appends a text after swapping the bytes of a set: bare bytes are encoded, and encoded bytes are decoded.
fn recode(mut text: &[u8], set: &[bool; 256], out: &mut Vec<u8>) {
    while let Some((piece, rest)) = split_piece(text) {
        text = rest;
        match piece {
            EscapePiece::Encoded(b'%') if rest.get(..2).is_none_or(|next| !are_digits(next)) => {
                out.push(b'%');
            }
            EscapePiece::Encoded(byte) if set[byte as usize] => out.push(byte),
            EscapePiece::Encoded(byte) => out.extend_from_slice(&escaped(byte)),
            EscapePiece::OtherCase(encoded) => out.extend_from_slice(encoded),
            EscapePiece::Bare(byte) if byte == b'%' || set[byte as usize] => {
                out.extend_from_slice(&escaped(byte));
            }
            EscapePiece::Bare(byte) => out.push(byte),
        }
    }
}

/// Bytes that are never bare in a normalised URL: control characters, space, `"`, `<`, `>`, and non-ASCII bytes. NUL is
/// excluded because no name contains it.
const ALWAYS_ENCODED: [bool; 256] = never_bare([false; 256]);
/// The bytes in [`ALWAYS_ENCODED`], and the bytes that can be bare in a path but are encoded by `encodeURIComponent`.
const ENCODED_IN_COMPONENTS: [bool; 256] = never_bare(without_alphanumeric(byte_set(b":;@&=+$,[]{}|^`")));

const fn never_bare(mut table: [bool; 256]) -> [bool; 256] {
    let mut byte = 1;
    while byte < 256 {
        if byte <= 0x20 || byte >= 0x7f || matches!(byte as u8, b'"' | b'<' | b'>') {
            table[byte] = true;
        }
        byte += 1;
    }
    table
}

const fn without_alphanumeric(mut table: [bool; 256]) -> [bool; 256] {
    let mut byte = 0;
    while byte < 256 {
        if (byte as u8).is_ascii_alphanumeric() {
            table[byte] = false;
        }
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::name::{from_path, to_path};

    fn name_of(url: &str) -> String {
        String::from_utf8_lossy(&of_url(url.as_bytes())).into_owned()
    }

    fn path_of(url: &[u8]) -> Option<Vec<u8>> {
        let mut path = Vec::new();
        to_path(&of_url(url), &mut path).ok().map(|()| path)
    }

    #[test]
    fn a_name_is_read_as_it_was_meant() {
        for (url, name) in [
            ("h:80/%C3%BC%20b.txt", "h:80/\u{fc} b.txt"),
            ("h/%E6%9D%B1%E4%BA%AC(1).pdf", "h/\u{6771}\u{4eac}(1).pdf"),
            ("h/%D0%9A%3A%D0%9D_1", "h/\u{41a}:\u{41d}_1"),
            ("h/a:b/%C3%BC", "h/a:b/\u{fc}"),
            ("h/a?q=%E6%9D%B1&u=a%3Ab:c+d", "h/a?q=\u{6771}&u=a%3Ab:c+d"),
            ("h/100%25.txt", "h/100%.txt"),
            ("h/%C3%BC?v=1#bytes=7-9", "h/\u{fc}?v=1#bytes=7-9"),
        ] {
            assert_eq!(name_of(url), name);
            assert_eq!(to_url(name.as_bytes()), url.as_bytes());
        }
    }

    #[test]
    fn a_name_keeps_what_it_must_not_decode() {
        for url in [
            "h/a%2Fb", "h/a%5Cb", "h/a%3Fb", "h/a%23b", "h/%2E%2E", "h/%2e", "h/a%00", "h/%41", "h/%2541",
            "h/a:b", "h/a%3Ab", "h/%c3%bc", "h/a%3ab",
        ] {
            assert_eq!(name_of(url), url);
        }
        // This URL gets the other form because another URL already has the usual name.
        assert_eq!(name_of("h/%C3%BC:b"), "h/\u{fc}%3Ab");
        assert_eq!(name_of("h/100%"), "h/100%25");
    }

    #[test]
    fn spellings_of_one_url_have_files_of_their_own() {
        let mut seen = HashMap::new();
        // The last URL is empty.
        let urls = "a%3Ab a:b a%3ab %41 A %2541 %252541 % %25 %2525 %25%25 %%25 %2F %252F %5C %255C %2E %2e \
                    %252E %01 %2501 %7F %C2%80 %25C2%2580 %FF %ff %25FF %C3%BC %c3%bc %C3%bc %25C3%25BC \
                    u%CC%88 %C3%BC%3A %C3%BC: %C3%BC%3a %C3%BC%253A a%20 a a%2520 a+ a. a%2E %00 %2500 \
                    %index %25index .fetchmill %2Efetchmill a? a%3F a%253F ?%C3%BC: ?%C3%BC%3A %C3%BC%3F: \
                    %C3%BC?: ";
        for url in urls.split(' ') {
            let before = seen.insert(path_of(format!("h/{url}").as_bytes()).unwrap(), url);
            assert_eq!(before, None, "{url} has the same file as another URL");
        }
    }

    #[test]
    fn names_of_long_texts_fit() {
        let url = format!("h/{}.pdf", "%E6%9D%B1".repeat(80));

        assert_eq!(path_of(url.as_bytes()).unwrap().len(), "h/.pdf".len() + 3 * 80);
        assert_eq!(path_of(format!("h/{}", "%E6%9D%B1".repeat(86)).as_bytes()), None);
    }

    #[test]
    fn an_object_has_the_name_of_its_last_segment() {
        for (url, name) in [
            ("http://a/b/c%20d.bin", Some("c d.bin")),
            ("http://a/%C3%BC", Some("\u{fc}")),
            ("http://a/x%2Fy", Some("x%2Fy")),
            ("http://a/b/", None),
        ] {
            assert_eq!(object_name(url.as_bytes()).as_deref(), name.map(str::as_bytes), "{url}");
        }
    }

    #[test]
    fn a_prefix_is_given_as_a_url_or_as_a_name() {
        for (given, meant) in [
            ("h/%C3%BC/", "h/\u{fc}/"),
            ("h/\u{fc}/", "h/\u{fc}/"),
            ("h/\u{fc}/100%/", "h/\u{fc}/100%/"),
            ("h/a%2Fb/", "h/a%2Fb/"),
        ] {
            assert_eq!(beginning(given.as_bytes()), meant.as_bytes());
        }
    }

    /// Generates text in which bytes with special meanings are frequent and often adjacent.
    fn any_text() -> impl Strategy<Value = Vec<u8>> {
        let pieces = [
            "%", "%2", "25", "%25", "%3A", ":", "%3a", "%2F", "/", "%5C", "\\", "%C3", "%BC", "%c3",
            "\u{fc}", "%20", " ", "%41", "A", "?", "%3F", "#", "%23", "%00", "%01", "\u{1}", "(", "%28", ".",
            "%2E", "index", "\u{80}",
        ];
        let piece = prop_oneof![
            4 => prop::sample::select(pieces.to_vec()).prop_map(|piece| piece.as_bytes().to_vec()),
            1 => any::<u8>().prop_map(|byte| vec![byte]),
        ];
        prop::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn any_name_leads_back(text in any_text()) {
            let (name, url) = (of_url(&text), to_url(&text));
            let (name_back, url_back) = (to_url(&name), of_url(&url));
            prop_assert_eq!((&*name_back, &*url_back), (text.as_slice(), text.as_slice()));
        }

        #[test]
        fn any_file_leads_back_to_its_url(text in any_text()) {
            let name = of_url(&text).into_owned();
            if let Some(path) = path_of(&text) {
                let found = from_path(&path);
                prop_assert_eq!(found, Some(name));
                prop_assert!(std::str::from_utf8(&path).is_ok());
                prop_assert!(path.split(|byte| *byte == b'/').all(|segment| !matches!(segment, b"" | b"." | b"..")));
            }
        }

        #[test]
        fn two_urls_have_two_files(one in any_text(), other in any_text()) {
            let (one_path, other_path) = (path_of(&one), path_of(&other));
            prop_assert!(one == other || one_path.is_none() || one_path != other_path);
        }
    }
}
