//! HTML, XML and formats based on them, which are recognised by the first element.

use super::text::after_mark_and_blanks;

/// Elements that can begin an HTML page: those in MIME Sniffing, 7.1, and others that servers send.
const HTML_ELEMENTS: [&[u8]; 33] = [
    b"html",
    b"head",
    b"body",
    b"title",
    b"meta",
    b"link",
    b"base",
    b"style",
    b"script",
    b"noscript",
    b"iframe",
    b"frameset",
    b"h1",
    b"h2",
    b"h3",
    b"h4",
    b"div",
    b"font",
    b"table",
    b"center",
    b"form",
    b"span",
    b"img",
    b"main",
    b"section",
    b"article",
    b"header",
    b"nav",
    b"a",
    b"b",
    b"br",
    b"p",
    b"ul",
];

/// Format of a markup document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Markup {
    Html,
    Xhtml,
    Svg,
    Xml,
}

impl Markup {
    /// Returns the format of a document, based on the start of its body, or `None` if the body is not markup.
    pub(super) fn of(start: &[u8]) -> Option<Self> {
        let mut rest = after_mark_and_blanks(start);
        let mut is_xml = false;
        let mut is_page = false;
        loop {
            if let Some(after) = after_prefix(rest, b"<?") {
                is_xml |= after_prefix(after, b"xml").is_some();
                let Some(next) = after_end(after, b"?>") else { break };
                rest = next;
            } else if let Some(after) = rest.strip_prefix(b"<!--") {
                is_page = true;
                let Some(next) = after_end(after, b"-->") else { break };
                rest = next;
            } else if let Some(after) = after_prefix(rest, b"<!doctype") {
                return Some(
                    Self::of_element(name_of(after.trim_ascii_start()), is_xml).unwrap_or(Markup::Xml),
                );
            } else {
                return Self::of_root(rest, is_xml).or_else(|| is_xml.then_some(Markup::Xml));
            }
            rest = rest.trim_ascii_start();
        }
        // The available bytes end before the first element begins.
        is_xml.then_some(Markup::Xml).or_else(|| is_page.then_some(Markup::Html))
    }

    /// Returns the format that the first tag shows. `rest` begins with the `<` of this tag.
    fn of_root(rest: &[u8], is_xml: bool) -> Option<Self> {
        let after = rest.strip_prefix(b"<")?;
        let name = name_of(after);
        let ends =
            after.get(name.len()).is_some_and(|next| next.is_ascii_whitespace() || b"/>".contains(next));
        if !ends || !name.first().is_some_and(u8::is_ascii_alphabetic) {
            return None;
        }
        Some(Self::of_element(name, is_xml).unwrap_or(Markup::Xml))
    }

    fn of_element(name: &[u8], is_xml: bool) -> Option<Self> {
        let local = name.iter().position(|byte| *byte == b':').map_or(name, |colon| &name[colon + 1..]);
        if local.eq_ignore_ascii_case(b"svg") {
            return Some(Markup::Svg);
        }
        if is_xml {
            return local.eq_ignore_ascii_case(b"html").then_some(Markup::Xhtml);
        }
        HTML_ELEMENTS.iter().any(|element| name.eq_ignore_ascii_case(element)).then_some(Markup::Html)
    }
}

fn after_prefix<'b>(bytes: &'b [u8], prefix: &[u8]) -> Option<&'b [u8]> {
    let start = bytes.get(..prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then(|| &bytes[prefix.len()..])
}

fn after_end<'b>(bytes: &'b [u8], end: &[u8]) -> Option<&'b [u8]> {
    memchr::memmem::find(bytes, end).map(|at| &bytes[at + end.len()..])
}

fn name_of(bytes: &[u8]) -> &[u8] {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b":_-.".contains(byte) || *byte >= 0x80;
    let end = bytes.iter().position(|byte| !is_name(byte)).unwrap_or(bytes.len());
    &bytes[..end]
}
