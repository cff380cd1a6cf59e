//! `--template`: a URL that is built from column values. A value cannot break out of its placeholder. Characters with a
//! special meaning in URLs are percent-encoded, and a value that is used as a host must be a valid host.

use std::fmt::Write as _;

use crate::error::{Error, Result};
use crate::name::for_display;

/// A piece of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// Literal text.
    Text(String),
    /// The value of a column. If `name` is `None`, the column is the URL column. A raw value is not escaped.
    Column { name: Option<String>, is_raw: bool },
}

/// Suffix that asks for the unescaped value of a column: `{name!r}`.
const RAW: &str = "!r";

/// Parses a template such as `https://www.{}/{name}`. `{{` and `}}` stand for literal braces. If `needs_column` is set,
/// a text without placeholders is invalid.
pub(super) fn parse(template: &str, needs_column: bool) -> Result<Vec<Piece>> {
    let pieces = parse_pieces(template).ok_or_else(|| unpaired(&format!("--template {template}")))?;
    if needs_column && !has_columns(&pieces) {
        return Err(Error::Usage(format!(
            "--template {template} has no {{}}, so every target would have the same URL; write {{}} where \
             the value belongs"
        )));
    }
    Ok(pieces)
}

/// Returns whether any of the pieces is the value of a column.
pub(super) fn has_columns(pieces: &[Piece]) -> bool {
    pieces.iter().any(|piece| matches!(piece, Piece::Column { .. }))
}

/// Returns the start of the template up to the slash after the host, if this part contains no column. All URLs then
/// begin with this part.
pub(super) fn fixed_origin(template: &str) -> Option<String> {
    let pieces = parse_pieces(template)?;
    let Some(Piece::Text(text)) = pieces.first() else { return None };
    let host = text.find("://")? + 3;
    let end = text[host..].find(['/', '?', '#', '\\']).map(|end| host + end);
    // If there is no slash after the host, the text must be the whole template.
    let end = end.or((pieces.len() == 1).then_some(text.len()))?;
    Some(format!("{}/", &text[..end]))
}

/// Parses the pieces of a text with placeholders. Returns `None` if a brace is unpaired.
pub(super) fn parse_pieces(template: &str) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut rest = template;
    while let Some(position) = rest.find(['{', '}']) {
        text.push_str(&rest[..position]);
        let behind = &rest[position + 1..];
        let brace = &rest[position..=position];
        if let Some(behind) = behind.strip_prefix(brace) {
            text.push_str(brace);
            rest = behind;
            continue;
        }
        let end = behind.find('}').filter(|_| brace == "{");
        let name = &behind[..end?];
        if name.contains('{') {
            return None;
        }
        let end = name.len();
        pieces.push(Piece::Text(std::mem::take(&mut text)));
        pieces.push(column(name));
        rest = &behind[end + 1..];
    }
    text.push_str(rest);
    pieces.push(Piece::Text(text));
    pieces.retain(|piece| *piece != Piece::Text(String::new()));
    Some(pieces)
}

/// Parses the text between braces.
pub(super) fn column(inside: &str) -> Piece {
    let (name, is_raw) = inside.strip_suffix(RAW).map_or((inside, false), |name| (name, true));
    Piece::Column { name: (!name.is_empty()).then(|| name.to_owned()), is_raw }
}

/// Appends a percent-encoded value. Only letters, digits and `-._~` are left unchanged.
pub(super) fn push_encoded(text: &mut String, value: &str) {
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
}

/// Appends a value to the start of a URL, encoded as its position requires. The error explains why the value is not
/// allowed at this position. A value before `://` is appended unchanged, because its role in the URL is not known yet.
pub(super) fn push_value(url: &mut String, value: &str) -> std::result::Result<(), String> {
    let Some(scheme) = url.find("://") else {
        url.push_str(value);
        return Ok(());
    };
    if url[scheme + 3..].contains(['/', '?', '#', '\\']) {
        push_encoded(url, value);
        return Ok(());
    }
    if !is_host(value) {
        return Err(format!(
            "--template uses the value as a host, but the value is not a host ({{name!r}} inserts a value \
             unchanged): {}",
            for_display(value.as_bytes())
        ));
    }
    url.push_str(value);
    Ok(())
}

/// Returns whether a value is part of a path segment `.` or `..`. Such a value would change the path outside its
/// placeholder. `url` must be complete, and `start` is the position of the value in it.
pub(super) fn leads_elsewhere(url: &str, start: usize) -> bool {
    let path = url.find(['?', '#']).map_or(url, |end| &url[..end]);
    let Some(head) = path.get(..start) else { return false };
    let begin = head.rfind('/').map_or(0, |slash| slash + 1);
    let end = path[start..].find('/').map_or(path.len(), |slash| start + slash);
    let segment = path[begin..end].to_ascii_lowercase().replace("%2e", ".");
    segment == "." || segment == ".."
}

/// Returns whether a value consists of characters that are valid in a host. The URL parser decides whether the value
/// really is a host. The parser converts non-ASCII text to punycode, which contains no character that ends a host.
fn is_host(value: &str) -> bool {
    let address = value.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_plain = |text: &str, more: &str| {
        text.chars().all(|c| !c.is_ascii() || c.is_ascii_alphanumeric() || more.contains(c))
    };
    address.map_or_else(|| is_plain(value, "-._"), |address| is_plain(address, ":."))
}

/// Returns the error for an unpaired brace. `of` is the option, including its value unless the value is a secret.
pub(super) fn unpaired(of: &str) -> Error {
    Error::Usage(format!("{of} has an unpaired brace; write {{{{ or }}}} for a literal brace"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Piece {
        Piece::Text(text.into())
    }

    fn column(name: &str) -> Piece {
        Piece::Column { name: (!name.is_empty()).then(|| name.into()), is_raw: false }
    }

    #[test]
    fn a_template_has_places_for_values() {
        assert_eq!(parse("https://www.{}", true).unwrap(), [text("https://www."), column("")]);
        assert_eq!(
            parse("http://{host}/{{x}}/{}/y", true).unwrap(),
            [text("http://"), column("host"), text("/{x}/"), column(""), text("/y")]
        );
        assert_eq!(parse("{{{}}}", true).unwrap(), [text("{"), column(""), text("}")]);
        let raw = |name: Option<&str>| Piece::Column { name: name.map(str::to_owned), is_raw: true };
        assert_eq!(parse("{!r}{a!r}{a!x}", true).unwrap(), [raw(None), raw(Some("a")), column("a!x")]);
    }

    #[test]
    fn a_value_stays_in_its_place() {
        for (before, value, after) in [
            ("http://a/", "b", "http://a/b"),
            ("http://a/", "../b?c#d/e%2f \r\n\u{e4}", "http://a/..%2Fb%3Fc%23d%2Fe%252f%20%0D%0A%C3%A4"),
            ("http://a/?q=", "1&r=2+3", "http://a/?q=1%26r%3D2%2B3"),
            ("http://a?q=", "x/y", "http://a?q=x%2Fy"),
            ("http://www.", "b\u{fc}cher.example", "http://www.b\u{fc}cher.example"),
            ("http://", "[::1]", "http://[::1]"),
            ("http://a:", "8080", "http://a:8080"),
            ("", "http://a/b?c", "http://a/b?c"),
            ("item ", "a/b", "item a/b"),
        ] {
            let mut url = before.to_owned();
            push_value(&mut url, value).unwrap();
            assert_eq!(url, after);
        }
        for value in ["a/b", "a@b", "a:80", "a?b", "a#b", "a\\b", "a%2fb", "a b", "[::1", "[::1]/x]", "a\tb"]
        {
            assert!(push_value(&mut "http://www.".to_owned(), value).is_err(), "{value}");
        }
    }

    #[test]
    fn a_template_may_fix_the_origin() {
        for (template, origin) in [
            ("https://a.test/{}", Some("https://a.test/")),
            ("https://a.test?q={}", Some("https://a.test/")),
            ("https://a.test", Some("https://a.test/")),
            ("https://a.test{}", None),
            ("https://{}/x", None),
            ("{}/x", None),
            ("/x/{}", None),
        ] {
            assert_eq!(fixed_origin(template).as_deref(), origin, "{template}");
        }
    }

    #[test]
    fn a_segment_of_dots_leads_elsewhere() {
        for (url, start) in
            [("http://a/b/../c", 11), ("http://a/.", 9), ("http://a/%2E./c", 12), ("http://a/..?b", 10)]
        {
            assert!(leads_elsewhere(url, start), "{url}");
        }
        for (url, start) in [("http://a/b../c", 10), ("http://a/b?c=..", 13), ("http://a/.../c", 9)] {
            assert!(!leads_elsewhere(url, start), "{url}");
        }
    }

    #[test]
    fn a_template_that_makes_no_sense_is_refused() {
        for template in ["", "http://a/", "http://a/{{}}", "{", "}", "a{b", "a}{}", "{a{b}}"] {
            assert_eq!(parse(template, true).unwrap_err().exit_code(), 2, "{template}");
        }
    }
}
