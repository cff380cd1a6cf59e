//! Scripted faults: which request is hit by which action.
//!
//! Whether a rule hits a name is decided by a hash of the seed, the rule's position and the name, so two runs with
//! the same seed see the same faults whatever the order of their requests. How a fault is carried out is the
//! business of `scripted`; nothing here does I/O.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::error::Error;
use crate::hash;
use crate::options::{ActionName, On, RetryAfter, Rule, refuse, seconds};

/// Names that `times` remembers, in two halves: when the younger is full, the older is forgotten.
const REMEMBERED_MAX: usize = 1 << 20;
/// Steps of a listing that `period` remembers.
const STEPS_MAX: usize = 4096;

/// The names of all actions, as in the options, by their position in [`ActionName`].
pub(crate) const ACTIONS: [(&str, &[&str]); 11] = [
    ("status", &["status", "retry_after"]),
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
    /// Without a number: in the middle of the body.
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
}

/// A fault that hits a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) action: Action,
    /// For the counters.
    pub(crate) name: ActionName,
}

/// The rules, compiled.
#[derive(Debug)]
pub(crate) struct Faults {
    rules: Vec<Compiled>,
    seed: u64,
    hits: Mutex<Hits>,
    steps: Mutex<HashMap<String, String>>,
}

#[derive(Debug)]
struct Compiled {
    fault: Fault,
    on: On,
    pattern: Option<Pattern>,
    rate: f64,
    times: Option<u32>,
}

#[derive(Debug)]
enum Pattern {
    Exact(String),
    Start(String),
}

impl Pattern {
    fn matches(&self, name: &str) -> bool {
        match self {
            Pattern::Exact(text) => name == text,
            Pattern::Start(text) => name.starts_with(text.as_str()),
        }
    }
}

impl Faults {
    pub(crate) fn new(rules: &[Rule], seed: u64) -> Result<Self, Error> {
        let rules = rules.iter().enumerate().map(|(position, rule)| {
            compile(rule).map_err(|error| Error::Option(format!("fault {}: {error}", position + 1)))
        });
        Ok(Faults {
            rules: rules.collect::<Result<_, _>>()?,
            seed,
            hits: Mutex::default(),
            steps: Mutex::default(),
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The fault of a request, if any. `on` is `Get` with a name or `List` with a marker.
    pub(crate) fn pick(&self, on: On, name: &str) -> Option<Fault> {
        self.rules
            .iter()
            .enumerate()
            .find(|(position, rule)| {
                (rule.on == On::Any || rule.on == on)
                    && rule.pattern.as_ref().is_none_or(|pattern| pattern.matches(name))
                    && self.is_hit(*position, rule, name)
            })
            .map(|(_, rule)| rule.fault)
    }

    fn is_hit(&self, position: usize, rule: &Compiled, name: &str) -> bool {
        let hash = hash::of_bytes(
            hash::mix(self.seed.wrapping_add(position as u64 + 1)),
            name.as_bytes(),
        );
        if hash::unit(hash) >= rule.rate {
            return false;
        }
        let Some(times) = rule.times else { return true };
        self.hits
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .hit(hash, times)
    }

    /// Notes that the page of `marker` led to `next`, when a rule needs to know.
    pub(crate) fn note_step(&self, marker: Option<&str>, next: Option<&str>) {
        let (Some(marker), Some(next)) = (marker, next) else {
            return;
        };
        let wanted = |rule: &Compiled| matches!(rule.fault.action, Action::RepeatMarker { period: 2.. });
        if self.rules.iter().any(wanted) {
            let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
            if steps.len() >= STEPS_MAX {
                steps.clear();
            }
            steps.insert(next.to_owned(), marker.to_owned());
        }
    }

    /// The marker that closes a circle of `period` pages at the page of `marker`; `None` before so many were seen.
    pub(crate) fn earlier(&self, marker: Option<&str>, period: u32) -> Option<String> {
        let steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        (1..period)
            .try_fold(marker?, |marker, _| steps.get(marker).map(String::as_str))
            .map(str::to_owned)
    }
}

/// How often names were hit.
#[derive(Debug, Default)]
struct Hits {
    young: HashMap<u64, u32>,
    old: HashMap<u64, u32>,
}

impl Hits {
    fn hit(&mut self, hash: u64, times: u32) -> bool {
        let before = self
            .young
            .get(&hash)
            .or_else(|| self.old.get(&hash))
            .copied()
            .unwrap_or(0);
        if before >= times {
            return false;
        }
        if self.young.len() >= REMEMBERED_MAX / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(hash, before + 1);
        true
    }
}

fn compile(rule: &Rule) -> Result<Compiled, Error> {
    if !(0.0..=1.0).contains(&rule.rate) {
        return refuse(format!("rate must be 0 to 1, not {}", rule.rate));
    }
    let action = action(rule)?;
    let only_list = matches!(action, Action::RepeatMarker { .. });
    let on = rule.on.unwrap_or(if only_list { On::List } else { On::Get });
    if only_list && on != On::List {
        return refuse("repeat-marker is for list only".to_owned());
    }
    Ok(Compiled {
        fault: Fault {
            action,
            name: rule.action,
        },
        on,
        pattern: rule.pattern.as_deref().map(pattern).transpose()?,
        rate: rule.rate,
        times: rule.times,
    })
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
        ("after_bytes", rule.after_bytes.is_some()),
        ("delta", rule.delta.is_some()),
        ("seconds", rule.seconds.is_some()),
        ("period", rule.period.is_some()),
    ] {
        if given && !allowed.contains(&parameter) {
            return refuse(format!("{name} takes no {parameter}"));
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
        ActionName::Truncate => Action::Truncate {
            after: rule.after_bytes,
        },
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
        ActionName::Unsolicited => Action::Unsolicited {
            time: seconds("seconds", rule.seconds.unwrap_or(0.0))?,
        },
        ActionName::Close => Action::Close,
        ActionName::Chunked => Action::Chunked,
        ActionName::Eof => Action::Eof,
    })
}

fn status(rule: &Rule) -> Result<Action, Error> {
    let Some(status) = rule.status else {
        return refuse("status needs a status".to_owned());
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

    fn faults(json: &str, seed: u64) -> Result<Faults, Error> {
        Faults::new(
            &serde_json::from_str::<Vec<Rule>>(json).expect("well-formed"),
            seed,
        )
    }

    fn hits(faults: &Faults) -> Vec<usize> {
        (0..10_000)
            .filter(|index| faults.pick(On::Get, &format!("name-{index}")).is_some())
            .collect()
    }

    #[test]
    fn the_same_seed_hits_the_same_names() {
        let json = r#"[{"action": "close", "rate": 0.1}]"#;
        let first = hits(&faults(json, 7).expect("valid"));

        assert_eq!(hits(&faults(json, 7).expect("valid")), first);
        assert_ne!(hits(&faults(json, 8).expect("valid")), first);
        assert!((800..1200).contains(&first.len()), "{} of 10,000", first.len());
    }

    #[test]
    fn rate_bounds_are_all_and_none() {
        assert_eq!(
            hits(&faults(r#"[{"action": "close"}]"#, 1).expect("valid")).len(),
            10_000
        );
        assert_eq!(
            hits(&faults(r#"[{"action": "close", "rate": 0}]"#, 1).expect("valid")).len(),
            0
        );
    }

    #[test]
    fn times_counts_each_name_and_each_rule() {
        let faults = faults(
            r#"[{"action": "close", "times": 2}, {"action": "eof", "times": 1}]"#,
            0,
        )
        .expect("valid");
        let actions = |name: &str| -> Vec<_> {
            (0..4)
                .map(|_| faults.pick(On::Get, name).map(|fault| fault.action))
                .collect()
        };
        let expected = vec![Some(Action::Close), Some(Action::Close), Some(Action::Eof), None];

        assert_eq!(actions("a"), expected);
        assert_eq!(actions("b"), expected);
    }

    #[test]
    fn the_oldest_names_are_forgotten() {
        let mut hits = Hits::default();
        for hash in 0..2_000_000 {
            assert!(hits.hit(hash, 1));
        }

        assert!(hits.young.len() + hits.old.len() <= REMEMBERED_MAX);
        assert!(!hits.hit(1_999_999, 1));
        assert!(hits.hit(0, 1));
    }

    #[test]
    fn match_and_on_select() {
        let faults = faults(
            r#"[{"action": "close", "match": "a/*", "on": "any"}, {"action": "eof", "match": "b"}]"#,
            0,
        )
        .expect("valid");
        let action = |on, name| faults.pick(on, name).map(|fault| fault.action);

        assert_eq!(action(On::Get, "a/x"), Some(Action::Close));
        assert_eq!(action(On::List, "a/"), Some(Action::Close));
        assert_eq!(action(On::Get, "a"), None);
        assert_eq!(action(On::Get, "b"), Some(Action::Eof));
        assert_eq!(action(On::List, "b"), None);
        assert_eq!(action(On::Get, "bb"), None);
    }

    #[test]
    fn circles_need_their_steps() {
        let faults = faults(r#"[{"action": "repeat-marker", "period": 2}]"#, 0).expect("valid");
        faults.note_step(None, Some("a"));
        faults.note_step(Some("a"), Some("b"));

        assert_eq!(faults.earlier(Some("b"), 2).as_deref(), Some("a"));
        assert_eq!(faults.earlier(Some("a"), 2), None);
        assert_eq!(faults.earlier(Some("a"), 1).as_deref(), Some("a"));
        assert_eq!(faults.earlier(None, 1), None);
    }

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
            (r#"{"action": "status"}"#, "fault 1: status needs a status"),
            (
                r#"{"action": "status", "status": 99}"#,
                "fault 1: status must be 200 to 599, not 99",
            ),
            (r#"{"action": "stall"}"#, "fault 1: stall needs seconds"),
            (
                r#"{"action": "stall", "seconds": -1}"#,
                "fault 1: seconds must be 0 to 86400 seconds, not -1",
            ),
            (
                r#"{"action": "close", "delta": 1}"#,
                "fault 1: close takes no delta",
            ),
            (
                r#"{"action": "close", "rate": 2}"#,
                "fault 1: rate must be 0 to 1, not 2",
            ),
            (
                r#"{"action": "wrong-length", "delta": 0}"#,
                "fault 1: delta must not be 0",
            ),
            (
                r#"{"action": "repeat-marker", "on": "get"}"#,
                "fault 1: repeat-marker is for list only",
            ),
            (
                r#"{"action": "eof", "match": "a*b"}"#,
                "fault 1: match may have a * only at its end, not \"a*b\"",
            ),
        ] {
            assert_eq!(
                faults(&format!("[{rule}]"), 0).expect_err("refused").to_string(),
                message
            );
        }
    }
}
