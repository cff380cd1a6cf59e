//! The rules in a server's robots.txt for a program that follows links (RFC 9309).
//!
//! The group that names the program applies. If there is no such group, the group for all programs (`*`) applies. The
//! longest rule that matches a path decides. If two such rules have the same length, `allow` wins. In a rule, `*`
//! matches any text, and `$` at the end matches the end of the path. Paths are compared in decoded form.

use super::percent;
use crate::limits::ROBOTS_BYTES_MAX;

/// The name of this program in robots.txt, `X-Robots-Tag` and `meta`.
pub const PRODUCT_TOKEN: &str = "fetchmill";

/// The rules for this program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Robots {
    rules: Vec<Rule>,
}

/// A rule, which is one line of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    is_allowed: bool,
    /// The decoded parts between the stars.
    parts: Vec<Vec<u8>>,
    is_to_the_end: bool,
    /// Length of the rule in bytes. The longest rule decides.
    length: usize,
    /// Total size of the parts in bytes. A shorter path cannot match, so the length of the path bounds the cost of a
    /// rule with many stars.
    least: usize,
}

impl Robots {
    /// Parses the rules for the program with this product token. Reads only the first [`ROBOTS_BYTES_MAX`] bytes. Any
    /// bytes are accepted.
    pub fn parse(text: &[u8], token: &str) -> Self {
        let (mut own, mut of_all) = (None, Vec::new());
        let mut group = Group::default();
        let text = whole_lines(text);
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        for line in text.split(|byte| matches!(byte, b'\n' | b'\r')) {
            let line = &line[..memchr::memchr(b'#', line).unwrap_or(line.len())];
            let Some(colon) = memchr::memchr(b':', line) else { continue };
            let (key, value) = (line[..colon].trim_ascii(), line[colon + 1..].trim_ascii());
            if key.eq_ignore_ascii_case(b"user-agent") {
                group.add_agent(value, token);
                if group.is_own {
                    own.get_or_insert_with(Vec::new);
                }
                continue;
            }
            let is_allowed = key.eq_ignore_ascii_case(b"allow");
            if !is_allowed && !key.eq_ignore_ascii_case(b"disallow") {
                continue;
            }
            group.has_rules = true;
            let Some(rule) = Rule::parse(value, is_allowed) else { continue };
            if let Some(own) = own.as_mut().filter(|_| group.is_own) {
                own.push(rule.clone());
            }
            if group.is_of_all {
                of_all.push(rule);
            }
        }
        let mut rules = own.unwrap_or(of_all);
        // The first rule that matches decides.
        rules.sort_by_key(|rule| std::cmp::Reverse((rule.length, rule.is_allowed)));
        Robots { rules }
    }

    /// Returns whether a path may be requested. `path` must be decoded and must begin with a slash.
    pub fn allows(&self, path: &[u8]) -> bool {
        self.rules.iter().find(|rule| rule.fits(path)).is_none_or(|rule| rule.is_allowed)
    }

    /// Returns the decoded rule that forbids a path, or `None` if the path may be requested.
    pub fn forbidding(&self, path: &[u8]) -> Option<String> {
        self.rules.iter().find(|rule| rule.fits(path)).filter(|rule| !rule.is_allowed).map(Rule::text)
    }

    /// Returns the memory that the rules occupy, in bytes.
    pub fn bytes(&self) -> usize {
        let of_rule = |rule: &Rule| {
            size_of::<Rule>()
                + rule.parts.iter().map(|part| size_of::<Vec<u8>>() + part.capacity()).sum::<usize>()
        };
        self.rules.iter().map(of_rule).sum()
    }

    /// Returns whether nothing is forbidden.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}

/// The programs to which the following lines apply.
#[derive(Default)]
struct Group {
    is_own: bool,
    is_of_all: bool,
    /// Whether the group contains rules. If it does, the next line that names a program begins another group.
    has_rules: bool,
}

impl Group {
    fn add_agent(&mut self, agent: &[u8], token: &str) {
        if self.has_rules {
            *self = Group::default();
        }
        self.is_of_all |= agent == b"*";
        // The name `fetchmill/0.1` also means this program, but `fetchmillion` does not.
        let end = agent.iter().position(|byte| !(byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_')));
        self.is_own |= agent[..end.unwrap_or(agent.len())].eq_ignore_ascii_case(token.as_bytes());
    }
}

impl Rule {
    /// Parses a rule. Returns `None` if the rule has no path, because such a rule has no effect.
    fn parse(path: &[u8], is_allowed: bool) -> Option<Self> {
        if path.is_empty() {
            return None;
        }
        let (pattern, is_to_the_end) = match path.strip_suffix(b"$") {
            Some(pattern) => (pattern, true),
            None => (path, false),
        };
        let mut parts: Vec<_> = pattern.split(|byte| *byte == b'*').map(decoded).collect();
        // Several consecutive stars count as one.
        let last = parts.len() - 1;
        let mut position = 0;
        parts.retain(|part| {
            position += 1;
            !part.is_empty() || position == 1 || position == last + 1
        });
        let least = parts.iter().map(Vec::len).sum();
        Some(Rule { is_allowed, parts, is_to_the_end, length: path.len(), least })
    }

    /// Returns the decoded text of the rule.
    fn text(&self) -> String {
        let parts: Vec<_> = self.parts.iter().map(|part| String::from_utf8_lossy(part)).collect();
        parts.join("*") + if self.is_to_the_end { "$" } else { "" }
    }

    fn fits(&self, path: &[u8]) -> bool {
        if path.len() < self.least {
            return false;
        }
        let Some((first, others)) = self.parts.split_first() else { return false };
        let Some(mut rest) = path.strip_prefix(first.as_slice()) else { return false };
        let Some((last, between)) = others.split_last() else {
            return !self.is_to_the_end || rest.is_empty();
        };
        for part in between {
            let Some(at) = memchr::memmem::find(rest, part) else { return false };
            rest = &rest[at + part.len()..];
        }
        if self.is_to_the_end { rest.ends_with(last) } else { memchr::memmem::find(rest, last).is_some() }
    }
}

/// Returns the part of the text that is read, without an incomplete last line.
fn whole_lines(text: &[u8]) -> &[u8] {
    let Some(start) = text.get(..ROBOTS_BYTES_MAX) else { return text };
    &start[..memchr::memrchr2(b'\n', b'\r', start).unwrap_or(0)]
}

/// Decodes a path. A path with an invalid encoding is returned unchanged.
fn decoded(text: &[u8]) -> Vec<u8> {
    percent::decode(text).unwrap_or_else(|| text.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(robots: &str, path: &str) -> bool {
        Robots::parse(robots.as_bytes(), "fetchmill").allows(path.as_bytes())
    }

    #[test]
    fn the_longest_rule_decides() {
        let robots = "User-agent: *\nDisallow: /a/\nAllow: /a/b\nDisallow: /a/b/c$\n";

        for (path, is_allowed) in
            [("/", true), ("/a", true), ("/a/", false), ("/a/x", false), ("/a/bx", true), ("/a/b/c", false)]
        {
            assert_eq!(allows(robots, path), is_allowed, "{path}");
        }
        assert!(allows(robots, "/a/b/c/d"));
        assert!(allows("User-agent: *\nDisallow: /x\nAllow: /x\n", "/x"));
    }

    #[test]
    fn stars_are_any_text() {
        let robots = "User-agent: *\nDisallow: /*.gif$\nDisallow: /p*q*r\nDisallow: *secret\nDisallow: /%2A%24\nDisallow: /u***v**\n";

        for (path, is_allowed) in [
            ("/a.gif", false),
            ("/a.gif.gif", false),
            ("/a.gifs", true),
            ("/pqr", false),
            ("/p-q-r-s", false),
            ("/prq", true),
            ("/x/secret/y", false),
            ("/*$", false),
            ("/x$", true),
            ("/u-v", false),
            ("/w", true),
        ] {
            assert_eq!(allows(robots, path), is_allowed, "{path}");
        }
    }

    #[test]
    fn the_group_that_names_the_program_counts() {
        let robots = "User-agent: *\nDisallow: /\n\nuser-agent: other\nUSER-AGENT: FetchMill/2.0\n\
                      Disallow: /x # why\n\nUser-agent: fetchmill\nDisallow: /y\n";

        for (path, is_allowed) in [("/", true), ("/x", false), ("/y", false), ("/z", true)] {
            assert_eq!(allows(robots, path), is_allowed, "{path}");
        }
        assert!(!allows("User-agent: fetchmillion\nAllow: /\nUser-agent: *\nDisallow: /", "/"));
        // A group that names the program applies even if it forbids nothing.
        assert!(allows("User-agent: fetchmill\nDisallow:\nUser-agent: *\nDisallow: /", "/"));
    }

    #[test]
    fn rules_without_a_group_and_other_lines_say_nothing() {
        for robots in [
            "",
            "Disallow: /",
            "User-agent: *\nDisallow:\n",
            "User-agent: *\nCrawl-delay: 5\n",
            "<html>\0: /",
        ] {
            let rules = Robots::parse(robots.as_bytes(), "fetchmill");
            assert!(rules.is_empty() && rules.allows(b"/"), "{robots}");
        }
        assert!(!allows("\u{feff}User-agent: *\r\nSitemap: /s\r\nDisallow: /x", "/x"));
        assert!(!allows("User-agent: *\rDisallow: /x", "/x"));
    }

    #[test]
    fn paths_are_compared_decoded() {
        let robots = "User-agent: *\nDisallow: /caf%C3%A9\nDisallow: /a b\nDisallow: /100%\n";

        for path in ["/caf\u{e9}/x", "/a b", "/100%"] {
            assert!(!allows(robots, path), "{path}");
        }
    }
}
