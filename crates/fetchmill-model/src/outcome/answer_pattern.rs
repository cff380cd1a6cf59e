//! Patterns that select answers for `--fail-on` and `--retry-failed`: failure kinds, statuses, status classes, globs
//! for kinds, and `any`.

use globset::{Glob, GlobMatcher};

use crate::error::{Error, Result};
use crate::outcome::FailureKind;

/// Lowest status that counts as a failure.
const FIRST_FAILURE: u16 = 400;

/// A pattern that selects answers. See the module.
#[derive(Debug, Clone)]
pub struct AnswerPattern(Meaning);

#[derive(Debug, Clone)]
enum Meaning {
    /// All failures.
    Any,
    Status(u16),
    /// All statuses with this first digit.
    Class(u16),
    Kinds(GlobMatcher),
}

impl AnswerPattern {
    /// Parses a pattern such as `404`, `5xx`, `reset`, `dns*` or `any`.
    pub fn parse(text: &str) -> Result<Self> {
        if text == "any" {
            return Ok(AnswerPattern(Meaning::Any));
        }
        let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
        let meaning = match text.strip_suffix("xx").unwrap_or(text) {
            class if class.len() == 1 && is_number(class) && text.len() == 3 => {
                class.parse().ok().filter(|class| (1..=9).contains(class)).map(Meaning::Class)
            }
            status if text.len() == 3 && is_number(status) => {
                status.parse().ok().filter(|status| (100..=999).contains(status)).map(Meaning::Status)
            }
            _ => Glob::new(text).ok().map(|glob| Meaning::Kinds(glob.compile_matcher())),
        };
        let means_some = |meaning: &Meaning| match meaning {
            Meaning::Kinds(glob) => FailureKind::ALL.iter().any(|kind| glob.is_match(kind.name())),
            _ => true,
        };
        meaning.filter(means_some).map(AnswerPattern).ok_or_else(|| {
            Error::Usage(format!(
                "'{}' is not a failure kind or status; give a kind (see `fetchmill help exit-codes`), a \
                 status such as 404, a pattern such as 5xx or dns*, or any",
                text.escape_debug()
            ))
        })
    }

    /// Returns whether the pattern matches an answer with this failure kind, this status, or both.
    pub fn matches(&self, kind: Option<&str>, status: Option<u16>) -> bool {
        match &self.0 {
            Meaning::Any => kind.is_some() || status.is_some_and(|status| status >= FIRST_FAILURE),
            Meaning::Status(meant) => status == Some(*meant),
            Meaning::Class(class) => status.is_some_and(|status| status / 100 == *class),
            Meaning::Kinds(glob) => kind.is_some_and(|kind| glob.is_match(kind)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, kind: Option<&str>, status: Option<u16>) -> bool {
        AnswerPattern::parse(pattern).unwrap().matches(kind, status)
    }

    #[test]
    fn a_pattern_means_kinds_statuses_or_all_that_failed() {
        assert!(matches("dns*", Some("dns-timeout"), None) && !matches("dns*", Some("reset"), None));
        assert!(matches("reset", Some("reset"), None) && !matches("reset", None, Some(404)));
        assert!(matches("404", None, Some(404)) && !matches("404", None, Some(410)));
        assert!(matches("5xx", Some("server-error"), Some(503)) && !matches("5xx", Some("reset"), None));
        assert!(matches("any", Some("reset"), None) && matches("any", None, Some(404)));
        assert!(!matches("any", None, Some(200)) && !matches("*", None, Some(404)));
    }

    #[test]
    fn what_means_no_answer_is_refused() {
        for text in ["", "nothing", "0xx", "099", "40", "xx", "404xx", "x*", "[", "404 "] {
            let refused = AnswerPattern::parse(text).unwrap_err().to_string();
            assert!(refused.contains("is not a failure kind or status; give a kind"), "{refused}");
        }
    }
}
