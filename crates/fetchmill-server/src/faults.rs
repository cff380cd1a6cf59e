//! Scripted faults. Decides which actions affect which requests.
//!
//! A hash of the seed, the rule's index and the name decides whether a rule affects a name. Therefore, two runs with
//! the same seed have the same faults, regardless of the order of their requests. Only `above` uses the clock.
//! `scripted_reply` carries out the faults. This module does no I/O.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::error::Error;
use crate::hash;
use crate::options::{Rule, RuleScope};
use crate::rules::{self, Action, CompiledRule, Fault};
use crate::stray::StrayPlan;

/// Number of names that are remembered for `times`, in two halves. When the younger half is full, the older one is
/// discarded.
const REMEMBERED_MAX: usize = 1 << 20;
/// A stray reply is scheduled within this share of its rule's time, because timers may be late.
const LATENESS_USED: f64 = 0.92;
/// A stray reply that is sent after this share of its rule's time counts as late, because it may arrive after the time
/// has passed.
const LATENESS_MAX: f64 = 0.98;
/// Number of steps of a listing that are remembered for `period`.
const STEPS_MAX: usize = 4096;

/// The compiled rules.
#[derive(Debug)]
pub(crate) struct Faults {
    rules: Vec<CompiledRule>,
    seed: u64,
    hits: Mutex<HitCounts>,
    steps: Mutex<HashMap<String, String>>,
}

impl Faults {
    pub(crate) fn new(rules: &[Rule], seed: u64) -> Result<Self, Error> {
        let rules = rules.iter().enumerate().map(|(position, rule)| {
            rules::compile(rule).map_err(|error| Error::Option(format!("fault {}: {error}", position + 1)))
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

    /// Returns the fault of a request, if any. `on` is `Get` with a name, or `List` with a marker.
    pub(crate) fn pick(&self, on: RuleScope, name: &str) -> Option<Fault> {
        self.rules
            .iter()
            .enumerate()
            .filter(|(_, rule)| !matches!(rule.fault.action, Action::Stray { .. }))
            .find(|(position, rule)| rule.is_for(on, name) && self.is_hit(*position, rule, name))
            .map(|(_, rule)| rule.fault)
    }

    fn is_hit(&self, position: usize, rule: &CompiledRule, name: &str) -> bool {
        let hash = hash::of_bytes(hash::mix(self.seed.wrapping_add(position as u64 + 1)), name.as_bytes());
        if hash::unit(hash) >= rule.rate {
            return false;
        }
        if rule.above.as_ref().is_some_and(|bucket| bucket.take(Instant::now())) {
            return false;
        }
        let Some(times) = rule.times else { return true };
        self.hits.lock().unwrap_or_else(PoisonError::into_inner).hit(hash, times)
    }

    /// Returns the plan of the first rule for stray replies that affects the connection with this number.
    pub(crate) fn stray(&self, connection: u64) -> Option<StrayPlan> {
        self.rules.iter().enumerate().find_map(|(position, rule)| {
            let Action::Stray { time, requests } = rule.fault.action else { return None };
            let word = hash::mix(self.seed.wrapping_add(position as u64 + 1)) ^ hash::mix(connection + 1);
            let word = |number: u64| hash::mix(word.wrapping_add(number.wrapping_mul(hash::GOLDEN)));
            (hash::unit(word(0)) < rule.rate).then(|| StrayPlan {
                rule: position,
                left: 1 + u32::try_from(hash::below(word(1), u64::from(requests))).unwrap_or(0),
                after: time.mul_f64(hash::unit(word(2)) * LATENESS_USED),
                at_most: time.mul_f64(LATENESS_MAX),
                random: word(3),
            })
        })
    }

    /// Returns whether the rule of a plan applies to this request.
    pub(crate) fn stray_counts(&self, plan: &StrayPlan, on: RuleScope, name: &str) -> bool {
        self.rules[plan.rule].is_for(on, name)
    }

    /// Uses up one of the hits that a plan's rule allows (`times`).
    pub(crate) fn take_stray(&self, plan: &StrayPlan) -> bool {
        let Some(times) = self.rules[plan.rule].times else { return true };
        let rule = hash::mix(plan.rule as u64);
        self.hits.lock().unwrap_or_else(PoisonError::into_inner).hit(rule, times)
    }

    /// Records that the page of `marker` led to `next`, if any rule needs this fact.
    pub(crate) fn note_step(&self, marker: Option<&str>, next: Option<&str>) {
        let (Some(marker), Some(next)) = (marker, next) else {
            return;
        };
        let wanted = |rule: &CompiledRule| matches!(rule.fault.action, Action::RepeatMarker { period: 2.. });
        if self.rules.iter().any(wanted) {
            let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
            if steps.len() >= STEPS_MAX {
                steps.clear();
            }
            steps.insert(next.to_owned(), marker.to_owned());
        }
    }

    /// Returns the marker that closes a cycle of `period` pages after the page of `marker`. `None` if too few pages
    /// have been seen.
    pub(crate) fn earlier(&self, marker: Option<&str>, period: u32) -> Option<String> {
        let steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        (1..period).try_fold(marker?, |marker, _| steps.get(marker).map(String::as_str)).map(str::to_owned)
    }
}

/// Number of hits for each name.
#[derive(Debug, Default)]
struct HitCounts {
    young: HashMap<u64, u32>,
    old: HashMap<u64, u32>,
}

impl HitCounts {
    fn hit(&mut self, hash: u64, times: u32) -> bool {
        let before = self.young.get(&hash).or_else(|| self.old.get(&hash)).copied().unwrap_or(0);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(json: &str, seed: u64) -> Result<Faults, Error> {
        Faults::new(&serde_json::from_str::<Vec<Rule>>(json).expect("well-formed"), seed)
    }

    fn hits(faults: &Faults) -> Vec<usize> {
        (0..10_000).filter(|index| faults.pick(RuleScope::Get, &format!("name-{index}")).is_some()).collect()
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
        assert_eq!(hits(&faults(r#"[{"action": "close"}]"#, 1).expect("valid")).len(), 10_000);
        assert_eq!(hits(&faults(r#"[{"action": "close", "rate": 0}]"#, 1).expect("valid")).len(), 0);
    }

    #[test]
    fn times_counts_each_name_and_each_rule() {
        let faults =
            faults(r#"[{"action": "close", "times": 2}, {"action": "eof", "times": 1}]"#, 0).expect("valid");
        let actions = |name: &str| -> Vec<_> {
            (0..4).map(|_| faults.pick(RuleScope::Get, name).map(|fault| fault.action)).collect()
        };
        let expected = vec![Some(Action::Close), Some(Action::Close), Some(Action::Eof), None];

        assert_eq!(actions("a"), expected);
        assert_eq!(actions("b"), expected);
    }

    #[test]
    fn the_oldest_names_are_forgotten() {
        let mut hits = HitCounts::default();
        for hash in 0..2_000_000 {
            assert!(hits.hit(hash, 1));
        }

        assert!(hits.young.len() + hits.old.len() <= REMEMBERED_MAX);
        assert!(!hits.hit(1_999_999, 1));
        assert!(hits.hit(0, 1));
    }

    #[test]
    fn what_is_above_a_rate_is_hit() {
        let json = r#"[{"action": "status", "status": 503, "above": 1000}, {"action": "close"}]"#;
        let faults = faults(json, 0).expect("valid");
        let actions: Vec<_> =
            (0..10_000).map(|_| faults.pick(RuleScope::Get, "a").map(|fault| fault.action)).collect();

        // The next rule applies to the requests within the rate. These are the first hundred, and those for which
        // tokens arrive in the meantime.
        assert!(actions[..100].iter().all(|action| *action == Some(Action::Close)));
        assert!(actions.contains(&Some(Action::Status { status: 503, retry_after: None })));
    }

    #[test]
    fn match_and_on_select() {
        let faults = faults(
            r#"[{"action": "close", "match": "a/*", "on": "any"}, {"action": "eof", "match": "b"}]"#,
            0,
        )
        .expect("valid");
        let action = |on, name| faults.pick(on, name).map(|fault| fault.action);

        assert_eq!(action(RuleScope::Get, "a/x"), Some(Action::Close));
        assert_eq!(action(RuleScope::List, "a/"), Some(Action::Close));
        assert_eq!(action(RuleScope::Get, "a"), None);
        assert_eq!(action(RuleScope::Get, "b"), Some(Action::Eof));
        assert_eq!(action(RuleScope::List, "b"), None);
        assert_eq!(action(RuleScope::Get, "bb"), None);
    }

    #[test]
    fn stray_replies_follow_from_the_seed_and_the_connection() {
        let json = r#"[{"action": "stray", "rate": 0.5, "requests": 10, "times": 3}, {"action": "close"}]"#;
        let plans = |seed| {
            let faults = faults(json, seed).expect("valid");
            (0..1000)
                .map(|connection| faults.stray(connection).map(|plan| (plan.left, plan.after)))
                .collect::<Vec<_>>()
        };
        let first = plans(7);
        let hit: Vec<_> = first.iter().flatten().collect();

        assert_eq!(plans(7), first);
        assert_ne!(plans(8), first);
        assert!((400..600).contains(&hit.len()), "{} of 1,000", hit.len());
        assert!((1..=10).all(|left| hit.iter().any(|plan| plan.0 == left)));
        assert!(hit.iter().all(|plan| plan.1 < std::time::Duration::from_millis(50)));

        let faults = faults(json, 7).expect("valid");
        let plan = (0..).find_map(|connection| faults.stray(connection)).expect("hit");
        assert_eq!([(); 4].map(|()| faults.take_stray(&plan)), [true, true, true, false]);
        assert_eq!(faults.pick(RuleScope::Get, "a").map(|fault| fault.action), Some(Action::Close));
    }

    #[test]
    fn an_error_says_which_rule() {
        let error = faults(r#"[{"action": "close"}, {"action": "stall"}]"#, 0).expect_err("refused");

        assert_eq!(error.to_string(), "fault 2: stall needs seconds");
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
}
