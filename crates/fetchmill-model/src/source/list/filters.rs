//! The filters `--include` and `--exclude`, which select the targets of a source.

use globset::GlobBuilder;
use regex::bytes::{RegexSet, RegexSetBuilder};

use crate::error::{Error, Result};

/// Prefix of a pattern that is a regular expression.
const REGEX_PREFIX: &str = "re:";

/// Patterns that select the names and URLs to fetch. Without patterns, everything is fetched.
///
/// A pattern is a glob that must match the whole text. `*` matches anything, including slashes, as in wget and s5cmd.
/// `?` matches any one character, `[ab]` matches `a` or `b`, and `{a,b}` matches either alternative. A pattern with the
/// prefix `re:` is a regular expression that can match anywhere in the text. All patterns are matched in one pass,
/// which takes time proportional to the length of the text.
#[derive(Debug, Clone, Default)]
pub struct Filters {
    include: Option<RegexSet>,
    exclude: Option<RegexSet>,
}

impl Filters {
    /// Parses patterns as the user typed them.
    pub fn new(include: &[String], exclude: &[String]) -> Result<Self> {
        Ok(Filters { include: set_of("--include", include)?, exclude: set_of("--exclude", exclude)? })
    }

    /// Returns whether everything is fetched.
    pub fn is_empty(&self) -> bool {
        self.include.is_none() && self.exclude.is_none()
    }

    /// Returns whether a name or URL is fetched. It is fetched if an `include` pattern matches or there is none, and if
    /// no `exclude` pattern matches.
    pub fn allows(&self, text: &[u8]) -> bool {
        self.include.as_ref().is_none_or(|include| include.is_match(text))
            && !self.exclude.as_ref().is_some_and(|exclude| exclude.is_match(text))
    }
}

fn set_of(option: &str, patterns: &[String]) -> Result<Option<RegexSet>> {
    if patterns.is_empty() {
        return Ok(None);
    }
    let expressions =
        patterns.iter().map(|pattern| expression_of(option, pattern)).collect::<Result<Vec<_>>>()?;
    let set = RegexSetBuilder::new(&expressions).build();
    set.map(Some).map_err(|error| no_pattern(option, &patterns.join(" "), &error))
}

fn expression_of(option: &str, pattern: &str) -> Result<String> {
    if let Some(expression) = pattern.strip_prefix(REGEX_PREFIX) {
        // Each pattern is first compiled alone, because an error from the set would not name the pattern.
        regex::bytes::Regex::new(expression).map_err(|error| no_pattern(option, pattern, &error))?;
        return Ok(expression.to_owned());
    }
    let glob = GlobBuilder::new(pattern).literal_separator(false).build();
    // In a glob, `?` and `*` also match a newline.
    glob.map(|glob| format!("(?s){}", glob.regex())).map_err(|error| no_pattern(option, pattern, &error))
}

fn no_pattern(option: &str, pattern: &str, error: &dyn std::fmt::Display) -> Error {
    let error = error.to_string();
    // The error texts of both crates include a diagram of the mistake. The last line describes the mistake.
    let what = error.lines().last().unwrap_or_default().trim();
    Error::Usage(format!(
        "{option} {pattern} is not valid: {what}; give a glob such as '*.jpg' or a regular expression such \
         as re:..."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(include: &[&str], exclude: &[&str], text: impl AsRef<[u8]>) -> bool {
        let owned = |patterns: &[&str]| patterns.iter().map(ToString::to_string).collect::<Vec<_>>();
        Filters::new(&owned(include), &owned(exclude)).unwrap().allows(text.as_ref())
    }

    #[test]
    fn without_patterns_everything_is_fetched() {
        assert!(allows(&[], &[], b"\xff"));
    }

    #[test]
    fn a_glob_is_for_the_whole_text_and_slashes_too() {
        assert!(allows(&["*.jpg"], &[], "http://a/b/c.jpg"));
        assert!(!allows(&["*.jpg"], &[], "http://a/b/c.jpg?x"));
        assert!(!allows(&["a"], &[], "http://a/"));
        assert!(allows(&["http://a/?/{b,c}/[x-z]"], &[], "http://a/1/c/y"));
        assert!(allows(&["*"], &[], b"\xff\n/"));
    }

    #[test]
    fn an_expression_may_match_anywhere() {
        assert!(allows(&["re:/b[0-9]+/"], &[], "http://a/b12/c"));
        assert!(!allows(&["re:^b"], &[], "http://a/b12/c"));
    }

    #[test]
    fn what_is_excluded_is_not_fetched_even_if_included() {
        assert!(allows(&["*.jpg", "*.png"], &["*thumb*"], "a/b.png"));
        assert!(!allows(&["*.jpg", "*.png"], &["*thumb*"], "a/thumb.png"));
        assert!(!allows(&[], &["re:x", "re:b"], "abc"));
    }

    #[test]
    fn a_pattern_that_is_none_is_told_in_one_line() {
        for pattern in ["re:(", "re:a{99999999}", "[", "{a", "re:\\"] {
            let error = Filters::new(&[pattern.to_owned()], &[]).unwrap_err();
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().contains(pattern), "{error}");
            assert_eq!(error.to_string().lines().count(), 1, "{error}");
        }
    }
}
