//! Replies that reserve their content (`--opt-out`) with `X-Robots-Tag`, `TDM-Reservation`, or the equivalent `meta` in
//! HTML.
//!
//! `X-Robots-Tag` and `meta name="robots"` are described at
//! <https://developers.google.com/search/docs/crawling-indexing/robots-meta-tag>. `noai` and `noimageai` are in wide
//! use. `TDM-Reservation` is defined in sections 6.1 and 6.3 of the TDM Reservation Protocol by a W3C community group.

pub mod robots;

use html5gum::{DefaultEmitter, Token, Tokenizer};

use crate::limits::{OPT_OUT_EVIDENCE_BYTES_MAX, OPT_OUT_HTML_BYTES_MAX};
use crate::outcome::opt_out_rule::OptOutRule;
use crate::source::robots::PRODUCT_TOKEN;
use crate::verdict::fields_in;

/// Directives that reserve an object, each with one rule for the header field and one for `meta`. `none` means
/// `noindex` and `nofollow`.
const RESERVING: [(&[u8], OptOutRule, OptOutRule); 5] = [
    (b"noai", OptOutRule::FieldNoAi, OptOutRule::MetaNoAi),
    (b"noimageai", OptOutRule::FieldNoImageAi, OptOutRule::MetaNoImageAi),
    (b"noindex", OptOutRule::FieldNoIndex, OptOutRule::MetaNoIndex),
    (b"noimageindex", OptOutRule::FieldNoImageIndex, OptOutRule::MetaNoImageIndex),
    (b"none", OptOutRule::FieldNone, OptOutRule::MetaNone),
];
/// A directive that is followed by a colon and a value. A colon can also follow the name of a program.
const DATED: &[u8] = b"unavailable_after";
const TDM: &str = "tdm-reservation";

/// A reservation of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptOut {
    /// The rule.
    pub rule: OptOutRule,
    /// The header field, the `meta` or the robots.txt line that reserves the object, as text for people.
    pub evidence: String,
}

impl OptOut {
    /// Reads a complete reply. `body` must be decoded.
    pub fn of_reply(head: &[u8], body: &[u8]) -> Option<Self> {
        let mut reader = OptOutReader::default();
        reader.head(head);
        reader.piece(body);
        reader.found()
    }
}

/// Searches a reply for a reservation. Each body in transit needs [`OPT_OUT_HTML_BYTES_MAX`] bytes of memory.
#[derive(Debug, Default)]
pub struct OptOutReader {
    found: Option<OptOut>,
    is_html: bool,
    html: Vec<u8>,
}

impl OptOutReader {
    /// Resets the reader for another reply.
    pub fn start(&mut self) {
        self.found = None;
        self.is_html = false;
        self.html = Vec::new();
    }

    /// Reads a head. If an object arrives in two replies, the fields of both heads count.
    pub fn head(&mut self, head: &[u8]) {
        self.is_html |= fields_in(head, b"content-type:").any(is_html);
        if self.found.is_none() {
            self.found = reserving_field(head);
        }
    }

    /// Adds a piece of the decoded body.
    pub fn piece(&mut self, bytes: &[u8]) {
        if self.is_html && self.found.is_none() {
            let room = OPT_OUT_HTML_BYTES_MAX - self.html.len();
            self.html.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    /// Returns the header field or `meta` that reserves the object, if there is one. Must be called after the body is
    /// complete.
    pub fn found(&mut self) -> Option<OptOut> {
        let html = std::mem::take(&mut self.html);
        self.found.take().or_else(|| reserving_meta(&html))
    }
}

fn is_html(content_type: &[u8]) -> bool {
    let media_type = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    [b"text/html".as_slice(), b"application/xhtml+xml"]
        .iter()
        .any(|html| media_type.eq_ignore_ascii_case(html))
}

fn reserving_field(head: &[u8]) -> Option<OptOut> {
    let robots = fields_in(head, b"x-robots-tag:").find_map(|value| {
        let rule = rule_of_robots_tag(value)?;
        Some(OptOut { rule, evidence: format!("X-Robots-Tag: {}", shown(value)) })
    });
    robots.or_else(|| {
        let mut reservations = fields_in(head, b"tdm-reservation:");
        let evidence = || "TDM-Reservation: 1".to_owned();
        reservations
            .any(|value| value == b"1")
            .then(|| OptOut { rule: OptOutRule::FieldTdm, evidence: evidence() })
    })
}

/// Returns the rule of the first directive in an `X-Robots-Tag` value that applies to this program and reserves the
/// object. A value of the form `name: directive, directive` applies only to the named program.
fn rule_of_robots_tag(value: &[u8]) -> Option<OptOutRule> {
    let mut is_for_us = true;
    value.split(|byte| *byte == b',').find_map(|directive| {
        let mut directive = directive.trim_ascii();
        if let Some(colon) = memchr::memchr(b':', directive) {
            let name = directive[..colon].trim_ascii();
            if name.eq_ignore_ascii_case(DATED) {
                return None;
            }
            is_for_us = name == b"*" || name.eq_ignore_ascii_case(PRODUCT_TOKEN.as_bytes());
            directive = directive[colon + 1..].trim_ascii();
        }
        is_for_us.then(|| rules_of(directive)).flatten().map(|(of_field, _)| of_field)
    })
}

/// Returns the two rules of a directive that reserves an object: one for the header field and one for `meta`.
fn rules_of(directive: &[u8]) -> Option<(OptOutRule, OptOutRule)> {
    let known = RESERVING.iter().find(|(name, ..)| directive.eq_ignore_ascii_case(name));
    known.map(|(_, of_field, of_meta)| (*of_field, *of_meta))
}

/// Returns the first `meta` that reserves an HTML page, if it is among the bytes that are read.
fn reserving_meta(html: &[u8]) -> Option<OptOut> {
    if html.is_empty() {
        return None;
    }
    let mut emitter = DefaultEmitter::default();
    // Text inside scripts must not be parsed as tags.
    emitter.naively_switch_states(true);
    Tokenizer::new_with_emitter(html, emitter).find_map(|token| {
        let Ok(Token::StartTag(tag)) = token else { return None };
        if !tag.name.eq_ignore_ascii_case(b"meta") {
            return None;
        }
        let value_of = |name: &[u8]| tag.attributes.get(name).map(|value| value.trim_ascii());
        let (name, content) = (value_of(b"name")?, value_of(b"content")?);
        let is_robots =
            name.eq_ignore_ascii_case(b"robots") || name.eq_ignore_ascii_case(PRODUCT_TOKEN.as_bytes());
        let rule = if is_robots {
            let mut directives = content.split(|byte| *byte == b',');
            directives.find_map(|directive| rules_of(directive.trim_ascii())).map(|(_, of_meta)| of_meta)
        } else {
            (name.eq_ignore_ascii_case(TDM.as_bytes()) && content == b"1").then_some(OptOutRule::MetaTdm)
        };
        let evidence = || format!("<meta name=\"{}\" content=\"{}\">", shown(name), shown(content));
        rule.map(|rule| OptOut { rule, evidence: evidence() })
    })
}

/// Returns a value in displayable form, shortened to one line.
fn shown(value: &[u8]) -> String {
    let start = &value[..value.len().min(OPT_OUT_EVIDENCE_BYTES_MAX)];
    String::from_utf8_lossy(start)
        .chars()
        .map(|shown| if shown.is_control() { '\u{fffd}' } else { shown })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(head: &str, body: &[u8]) -> Option<String> {
        let mut reader = OptOutReader::default();
        reader.head(format!("HTTP/1.1 200 OK\r\n{head}\r\n").as_bytes());
        body.chunks(7).for_each(|piece| reader.piece(piece));
        reader.found().map(|found| found.evidence)
    }

    #[test]
    fn the_first_directive_is_the_rule() {
        let rule = |head: &str, body: &[u8]| {
            let mut reader = OptOutReader::default();
            reader.head(format!("HTTP/1.1 200 OK\r\n{head}\r\n").as_bytes());
            reader.piece(body);
            reader.found().map(|found| found.rule)
        };
        assert_eq!(rule("X-Robots-Tag: nofollow, NOINDEX, noai\r\n", b""), Some(OptOutRule::FieldNoIndex));
        assert_eq!(rule("TDM-Reservation: 1\r\n", b""), Some(OptOutRule::FieldTdm));
        let html = "Content-Type: text/html\r\n";
        assert_eq!(rule(html, b"<meta name=robots content=none>"), Some(OptOutRule::MetaNone));
        assert_eq!(rule(html, b"<meta name=tdm-reservation content=1>"), Some(OptOutRule::MetaTdm));
    }

    #[test]
    fn fields_reserve_an_object() {
        for (field, reserves) in [
            ("X-Robots-Tag: noai", true),
            ("x-robots-tag:noimageai, nofollow", true),
            ("X-Robots-Tag: NoIndex", true),
            ("X-Robots-Tag: none", true),
            ("X-Robots-Tag: nofollow, noarchive", false),
            ("X-Robots-Tag: noaim", false),
            ("X-Robots-Tag: googlebot: noindex", false),
            ("X-Robots-Tag: googlebot: nofollow, noindex", false),
            ("X-Robots-Tag: fetchmill: noai", true),
            ("X-Robots-Tag: googlebot: noindex, fetchmill: noai", true),
            ("X-Robots-Tag: *: noai", true),
            ("X-Robots-Tag: unavailable_after: 25 Jun 2030 15:00:00 PST, noai", true),
            ("X-Robots-Tag: nofollow\r\nX-Robots-Tag: noai", true),
            ("TDM-Reservation: 1", true),
            ("tdm-reservation: 0", false),
            ("TDM-Policy: https://a.test/", false),
        ] {
            assert_eq!(evidence(&format!("{field}\r\n"), b"").is_some(), reserves, "{field}");
        }
        assert_eq!(evidence("X-Robots-Tag: noai\r\n", b"").as_deref(), Some("X-Robots-Tag: noai"));
    }

    #[test]
    fn meta_of_html_reserves_it() {
        for (meta, reserves) in [
            ("<meta name=robots content=noai>", true),
            ("<META CONTENT=' noindex , nofollow ' NAME='Robots'/>", true),
            ("<meta name=\"fetchmill\" content=\"noimageai\">", true),
            ("<meta name=tdm-reservation content=1>", true),
            ("<meta name=tdm-reservation content=0>", false),
            ("<meta name=googlebot content=noindex>", false),
            ("<meta property=robots content=noai>", false),
            ("<!-- <meta name=robots content=noai> -->", false),
            ("<script>'<meta name=robots content=noai>'</script>", false),
        ] {
            let html = format!("<!doctype html><html><head>{meta}</head><p>text");
            let of =
                |content_type: &str| evidence(&format!("Content-Type: {content_type}\r\n"), html.as_bytes());
            assert_eq!(of("text/html; charset=utf-8").is_some(), reserves, "{meta}");
            assert_eq!(of("text/plain"), None, "{meta}");
        }
    }

    #[test]
    fn what_is_read_and_shown_is_bounded() {
        let mut page = vec![b' '; 2 * OPT_OUT_HTML_BYTES_MAX];
        page.extend_from_slice(b"<meta name=robots content=noai>");
        assert_eq!(evidence("Content-Type: text/html\r\n", &page), None);

        let long = evidence(&format!("X-Robots-Tag: noai, {}\r\n", "x".repeat(60_000)), b"").unwrap();
        assert!(long.len() < 2 * OPT_OUT_EVIDENCE_BYTES_MAX, "{}", long.len());
    }
}
