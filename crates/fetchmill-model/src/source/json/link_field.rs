//! The `Link` header field of a reply (RFC 8288), which contains the link to the next page.
//!
//! The field is parsed strictly: a malformed field is an error. If it counted as missing, the listing would end too
//! early, and later pages would never be fetched.

use crate::http1::header_field::is_token;

/// Returns the target of the link with `rel="next"`, or `None` if there is no such link. Links about another resource
/// (`anchor`) are ignored.
pub(super) fn next_link<'h>(values: impl Iterator<Item = &'h [u8]>) -> Result<Option<String>, &'static str> {
    let mut next: Option<String> = None;
    for value in values {
        let mut rest = std::str::from_utf8(value).map_err(|_| "it is not UTF-8")?;
        loop {
            // Lists can have empty elements.
            rest = rest.trim_start_matches([' ', '\t', ',']);
            if rest.is_empty() {
                break;
            }
            let link;
            (link, rest) = Link::read(rest)?;
            if !link.is_next() {
                continue;
            }
            if next.as_deref().is_some_and(|known| known != link.target) {
                return Err("it has two links to a next page");
            }
            next = Some(link.target.to_owned());
        }
    }
    Ok(next)
}

/// A link and its relevant parameters.
#[derive(Default)]
struct Link<'t> {
    target: &'t str,
    /// The first `rel`. Any others are ignored.
    rel: Option<String>,
    has_anchor: bool,
}

impl<'t> Link<'t> {
    /// Reads the first link in a text. Returns the link and the remaining text.
    fn read(text: &'t str) -> Result<(Self, &'t str), &'static str> {
        let inside = text.strip_prefix('<').ok_or("a link does not begin with <")?;
        let (target, mut rest) = inside.split_once('>').ok_or("a link has no > after its URL")?;
        let mut link = Link { target, ..Link::default() };
        loop {
            rest = skip_space(rest);
            let Some(behind) = rest.strip_prefix(';') else { break };
            rest = skip_space(behind);
            // A semicolon need not be followed by a parameter.
            if rest.is_empty() || rest.starts_with([';', ',']) {
                continue;
            }
            let (name, value);
            (name, value, rest) = read_parameter(rest)?;
            if name.eq_ignore_ascii_case("rel") {
                link.rel.get_or_insert(value);
            }
            link.has_anchor |= name.eq_ignore_ascii_case("anchor");
        }
        if rest.is_empty() || rest.starts_with(',') {
            Ok((link, rest))
        } else {
            Err("a link is not followed by a comma")
        }
    }

    fn is_next(&self) -> bool {
        let types = self.rel.as_deref().unwrap_or_default();
        !self.has_anchor && types.split([' ', '\t']).any(|rel| rel.eq_ignore_ascii_case("next"))
    }
}

/// Reads a parameter. Returns its name, its value and the remaining text.
fn read_parameter(text: &str) -> Result<(&str, String, &str), &'static str> {
    let (name, rest) = read_token(text).ok_or("a parameter of a link has no name")?;
    let Some(value) = skip_space(rest).strip_prefix('=') else { return Ok((name, String::new(), rest)) };
    let value = skip_space(value);
    if let Some(quoted) = value.strip_prefix('"') {
        let (value, rest) = read_quoted(quoted)?;
        return Ok((name, value, rest));
    }
    let (value, rest) = read_token(value).ok_or("a parameter of a link has no value")?;
    Ok((name, value.to_owned(), rest))
}

/// Reads the text up to the closing quote. Returns this text and the text after the quote.
fn read_quoted(text: &str) -> Result<(String, &str), &'static str> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Ok((value, &text[at + 1..])),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            other => value.push(other),
        }
    }
    Err("a parameter of a link has no closing quote")
}

/// Reads a token (RFC 9110). Returns the token and the remaining text, or `None` if the text does not begin with a
/// token.
fn read_token(text: &str) -> Option<(&str, &str)> {
    let end = text.bytes().position(|byte| !is_token(byte)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

fn skip_space(text: &str) -> &str {
    text.trim_start_matches([' ', '\t'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(values: &[&str]) -> Result<Option<String>, &'static str> {
        next_link(values.iter().map(|value| value.as_bytes()))
    }

    #[test]
    fn the_link_to_the_next_page_is_found() {
        let github =
            "<https://api.example/r?page=2>; rel=\"next\", <https://api.example/r?page=9>; rel=\"last\"";
        for (values, found) in [
            (&[github][..], Some("https://api.example/r?page=2")),
            (
                &["</a>; rel=prev, </b?x=1,2;3>; title=\"a, b; rel=next\" ; REL = \"last Next\""],
                Some("/b?x=1,2;3"),
            ),
            (&["</a>; rel=first", "", ", ,</b>;rel=next,"], Some("/b")),
            (&["</a>;rel=\"ne\\xt\""], Some("/a")),
            (&["<>;rel=next"], Some("")),
            (&["</a>;;rel=next;"], Some("/a")),
            (&["</a>; crossorigin; rel=next"], Some("/a")),
            (&["</a>; rel=next, </a>; rel=next"], Some("/a")),
            (&["</a>; rel=nextish, </b>; rel=\"prev\"; rel=next, </c>; title=next, </d>"], None),
            (&["</a>; rel=next; anchor=\"/other\""], None),
            (&[], None),
        ] {
            assert_eq!(next(values), Ok(found.map(str::to_owned)), "{values:?}");
        }
    }

    #[test]
    fn what_is_no_link_is_told() {
        for value in [
            "/a; rel=next",
            "</a; rel=next",
            "</a>; rel=\"next",
            "</a> rel=next",
            "</a>; =next",
            "</a>; rel=",
            "</a>; rel=next </b>; rel=prev",
            "</a>; rel=next, </b>; rel=next",
        ] {
            assert!(next(&[value]).is_err(), "{value}");
        }
        assert!(next_link(std::iter::once(&b"</\xff>; rel=next"[..])).is_err());
    }
}
