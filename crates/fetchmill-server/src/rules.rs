//! Converts the rules in the options to checked rules. Each action accepts only its own parameters.

use std::time::{Duration, Instant};

use crate::error::Error;
use crate::options::{ActionName, RetryAfter, Rule, RuleScope, refuse, seconds};
use crate::token_bucket::TokenBucket;

/// Default maximum delay of a stray reply in seconds. Clients are guaranteed to detect stray replies up to this delay.
const STRAY_SECONDS: f64 = 0.05;
/// Default number of replies at the start of a connection. The stray reply follows one of them.
const STRAY_REQUESTS: u32 = 100;

/// Names of all actions in the options, each with its parameters, in the order of [`ActionName`].
pub(crate) const ACTIONS: [(&str, &[&str]); 12] = [
    ("status", &["status", "retry_after", "above"]),
    ("reset", &["after_bytes"]),
    ("truncate", &["after_bytes"]),
    ("wrong-length", &["delta"]),
    ("stall", &["after_bytes", "seconds"]),
    ("trickle", &["after_bytes", "seconds"]),
    ("repeat-marker", &["period"]),
    ("unsolicited", &["seconds"]),
    ("close", &[]),
    ("chunked", &[]),
    ("eof", &[]),
    ("stray", &["seconds", "requests"]),
];

/// An action with its parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Action {
    Status {
        status: u16,
        retry_after: Option<[u64; 2]>,
    },
    Reset {
        after: u64,
    },
    /// `None` means the middle of the body.
    Truncate {
        after: Option<u64>,
    },
    WrongLength {
        delta: i64,
    },
    Stall {
        after: u64,
        time: Duration,
    },
    Trickle {
        after: u64,
        time: Duration,
    },
    RepeatMarker {
        period: u32,
    },
    Unsolicited {
        time: Duration,
    },
    Close,
    Chunked,
    Eof,
    /// Follows one of the first `requests` replies of a connection, at most `time` later.
    Stray {
        time: Duration,
        requests: u32,
    },
}

/// A fault that hits a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) action: Action,
    /// Name for the counters.
    pub(crate) name: ActionName,
}

/// A rule that has been checked.
#[derive(Debug)]
pub(crate) struct CompiledRule {
    pub(crate) fault: Fault,
    on: RuleScope,
    pattern: Option<Pattern>,
    pub(crate) rate: f64,
    pub(crate) times: Option<u32>,
    pub(crate) above: Option<TokenBucket>,
}

#[derive(Debug)]
enum Pattern {
    Exact(String),
    Start(String),
}

impl CompiledRule {
    /// Returns whether the rule applies to a request with this scope and name, regardless of its rate.
    pub(crate) fn is_for(&self, on: RuleScope, name: &str) -> bool {
        (self.on == RuleScope::Any || self.on == on)
            && match &self.pattern {
                None => true,
                Some(Pattern::Exact(text)) => name == text,
                Some(Pattern::Start(text)) => name.starts_with(text.as_str()),
            }
    }
}

pub(crate) fn compile(rule: &Rule) -> Result<CompiledRule, Error> {
    if !(0.0..=1.0).contains(&rule.rate) {
        return refuse(format!("rate must be 0 to 1, not {}", rule.rate));
    }
    let action = action(rule)?;
    let only_list = matches!(action, Action::RepeatMarker { .. });
    let on = rule.on.unwrap_or(if only_list { RuleScope::List } else { RuleScope::Get });
    if only_list && on != RuleScope::List {
        return refuse("repeat-marker applies to list only".to_owned());
    }
    Ok(CompiledRule {
        fault: Fault { action, name: rule.action },
        on,
        pattern: rule.pattern.as_deref().map(pattern).transpose()?,
        rate: rule.rate,
        times: rule.times,
        above: rule.above.map(above).transpose()?,
    })
}

fn above(per_second: f64) -> Result<TokenBucket, Error> {
    if per_second > 0.0 && per_second.is_finite() {
        Ok(TokenBucket::new(per_second, Instant::now()))
    } else {
        refuse(format!("above must be more than 0, not {per_second}"))
    }
}

fn pattern(text: &str) -> Result<Pattern, Error> {
    match text.find('*') {
        None => Ok(Pattern::Exact(text.to_owned())),
        Some(star) if star + 1 == text.len() => Ok(Pattern::Start(text[..star].to_owned())),
        Some(_) => refuse(format!("match may have a * only at its end, not {text:?}")),
    }
}

fn action(rule: &Rule) -> Result<Action, Error> {
    let (name, allowed) = ACTIONS[rule.action as usize];
    for (parameter, given) in [
        ("status", rule.status.is_some()),
        ("retry_after", rule.retry_after.is_some()),
        ("above", rule.above.is_some()),
        ("after_bytes", rule.after_bytes.is_some()),
        ("delta", rule.delta.is_some()),
        ("seconds", rule.seconds.is_some()),
        ("requests", rule.requests.is_some()),
        ("period", rule.period.is_some()),
    ] {
        if given && !allowed.contains(&parameter) {
            return refuse(format!("{name} does not accept {parameter}"));
        }
    }
    let after = rule.after_bytes.unwrap_or(0);
    let time = || match rule.seconds {
        Some(number) => seconds("seconds", number),
        None => refuse(format!("{name} needs seconds")),
    };
    Ok(match rule.action {
        ActionName::Status => status(rule)?,
        ActionName::Reset => Action::Reset { after },
        ActionName::Truncate => Action::Truncate { after: rule.after_bytes },
        ActionName::WrongLength => match rule.delta.unwrap_or(1) {
            0 => return refuse("delta must not be 0".to_owned()),
            delta => Action::WrongLength { delta },
        },
        ActionName::Stall => Action::Stall { after, time: time()? },
        ActionName::Trickle => Action::Trickle { after, time: time()? },
        ActionName::RepeatMarker => match rule.period.unwrap_or(1) {
            0 => return refuse("period must be at least 1".to_owned()),
            period => Action::RepeatMarker { period },
        },
        ActionName::Unsolicited => {
            Action::Unsolicited { time: seconds("seconds", rule.seconds.unwrap_or(0.0))? }
        }
        ActionName::Close => Action::Close,
        ActionName::Chunked => Action::Chunked,
        ActionName::Eof => Action::Eof,
        ActionName::Stray => match rule.requests.unwrap_or(STRAY_REQUESTS) {
            0 => return refuse("requests must be at least 1".to_owned()),
            requests => {
                Action::Stray { time: seconds("seconds", rule.seconds.unwrap_or(STRAY_SECONDS))?, requests }
            }
        },
    })
}

fn status(rule: &Rule) -> Result<Action, Error> {
    let Some(status) = rule.status else {
        return refuse("the fault `status` needs a status".to_owned());
    };
    if !(200..=599).contains(&status) {
        return refuse(format!("status must be 200 to 599, not {status}"));
    }
    let retry_after = match rule.retry_after {
        None => None,
        Some(RetryAfter::Seconds(seconds)) => Some([seconds, seconds]),
        Some(RetryAfter::Range([min, max])) if min <= max => Some([min, max]),
        Some(RetryAfter::Range([min, max])) => {
            return refuse(format!("retry_after must be [min, max], not [{min}, {max}]"));
        }
    };
    Ok(Action::Status { status, retry_after })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_has_its_name() {
        for (position, (name, _)) in ACTIONS.iter().enumerate() {
            let action: ActionName = serde_json::from_str(&format!("\"{name}\"")).expect("known");
            assert_eq!(action as usize, position);
        }
    }

    #[test]
    fn nonsense_is_refused_in_one_line() {
        for (rule, message) in [
            (r#"{"action": "status"}"#, "the fault `status` needs a status"),
            (r#"{"action": "status", "status": 99}"#, "status must be 200 to 599, not 99"),
            (r#"{"action": "stall"}"#, "stall needs seconds"),
            (r#"{"action": "stall", "seconds": -1}"#, "seconds must be 0 to 86400 seconds, not -1"),
            (r#"{"action": "status", "status": 503, "above": 0}"#, "above must be more than 0, not 0"),
            (r#"{"action": "stray", "requests": 0}"#, "requests must be at least 1"),
            (r#"{"action": "close", "above": 9}"#, "close does not accept above"),
            (r#"{"action": "close", "delta": 1}"#, "close does not accept delta"),
            (r#"{"action": "close", "rate": 2}"#, "rate must be 0 to 1, not 2"),
            (r#"{"action": "wrong-length", "delta": 0}"#, "delta must not be 0"),
            (r#"{"action": "repeat-marker", "on": "get"}"#, "repeat-marker applies to list only"),
            (r#"{"action": "eof", "match": "a*b"}"#, "match may have a * only at its end, not \"a*b\""),
        ] {
            let rule: Rule = serde_json::from_str(rule).expect("well-formed");
            assert_eq!(compile(&rule).expect_err("refused").to_string(), message);
        }
    }
}
