//! The state of one origin: how many requests may be in flight, when the next one may start, and how many retry tokens
//! are left.
//!
//! This module has no clock: time is an argument, in milliseconds on the job's clock. All limits for an origin belong
//! here.
//!
//! The first failure of a target uses up tokens, and a success returns some of them. If an origin has no tokens left,
//! it seems to be down. From then on, only probes are sent to find out ([`super::probing`]). If the origin is down, it
//! rests and is then tested again. The rests become longer each time, until the first success. An outage therefore
//! costs only a few requests instead of an attempt for every target. A target that fails again uses no tokens, because
//! the target itself may be broken. However, if no request has succeeded for a moment, such a failure causes a probe
//! (docs/internals/decisions/0025).
//!
//! If an origin refuses some requests while others succeed, this is not an outage. The refusals then set the origin's
//! pace ([`super::congestion`]).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::congestion::Congestion;
use crate::limits;
use crate::outcome::{FailureClass, FailureKind};

pub use super::millis::Millis;

/// Results of requests to an origin since the workers last reported.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observations {
    /// Complete replies that show no sign of trouble. A 404 counts as a success.
    pub successes: u32,
    /// Transient failures of targets that had not failed before.
    pub transient: u32,
    /// Transient failures of targets that had failed before. These targets may be broken.
    pub repeated: u32,
    /// Throttling replies.
    pub throttled: u32,
    /// The longest `Retry-After` of the throttling replies, in milliseconds.
    pub retry_after: Millis,
    /// Probes that have ended.
    pub probes: u32,
    /// Failure kind of the last failed attempt.
    pub last_failure: Option<FailureKind>,
}

impl Observations {
    /// Adds a failed attempt for a target after `attempts` counted attempts. A `Retry-After` is capped at its
    /// maximum.
    pub fn note_failure(&mut self, kind: FailureKind, attempts: u32, retry_after: Option<Millis>) {
        if kind.is_retryable() {
            self.last_failure = Some(kind);
        }
        match kind.class() {
            FailureClass::Transient if attempts > 0 => self.repeated += 1,
            FailureClass::Transient => self.transient += 1,
            FailureClass::Throttle => {
                self.throttled += 1;
                let asked = retry_after.unwrap_or(0).min(limits::RETRY_AFTER_MAX.as_millis() as Millis);
                self.retry_after = self.retry_after.max(asked);
            }
            FailureClass::Final => {}
        }
    }

    /// Adds the results of another worker.
    pub fn add(&mut self, other: Observations) {
        self.successes = self.successes.saturating_add(other.successes);
        self.transient = self.transient.saturating_add(other.transient);
        self.repeated = self.repeated.saturating_add(other.repeated);
        self.throttled = self.throttled.saturating_add(other.throttled);
        self.retry_after = self.retry_after.max(other.retry_after);
        self.probes = self.probes.saturating_add(other.probes);
        self.last_failure = other.last_failure.or(self.last_failure);
    }
}

/// Whether requests may go to an origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// Up to this number of requests may be in flight.
    Open(usize),
    /// No requests may be sent before this time.
    Resting(Millis),
    /// Only a probe may be sent.
    Asking,
}

/// Trouble of an origin that makes the job wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OriginTrouble {
    /// Start of the trouble.
    pub since: Millis,
    /// Time at which the job abandons the origin.
    pub until: Millis,
    /// Reason why the last attempt failed.
    pub kind: Option<FailureKind>,
}

/// The state of one origin.
#[derive(Debug, Clone)]
pub struct OriginState {
    limit: usize,
    tokens: u32,
    not_before: Millis,
    /// Whether only probes are sent until something succeeds.
    is_closed: bool,
    /// Number of rests since the origin was last healthy.
    rests: u32,
    /// Start of the current trouble.
    trouble_since: Option<Millis>,
    /// Time of the last failure. `last_failure` is its kind.
    failed_at: Millis,
    last_failure: Option<FailureKind>,
    /// Time of the last sign that the origin is healthy. A listing page or a health check also counts.
    healthy_at: Option<Millis>,
    give_up_after: Millis,
    congestion: Congestion,
    refusals: Refusals,
}

/// Throttling replies since the last success.
#[derive(Debug, Clone, Copy, Default)]
struct Refusals {
    count: u32,
    since: Millis,
    /// The longest `Retry-After` of the throttling replies.
    asked: Millis,
}

impl Refusals {
    fn note(&mut self, seen: Observations, now: Millis) {
        if seen.successes > 0 {
            *self = Refusals::default();
        } else if seen.throttled > 0 {
            if self.count == 0 {
                self.since = now;
            }
            self.count = self.count.saturating_add(seen.throttled);
            self.asked = self.asked.max(seen.retry_after);
        }
    }

    /// Returns whether the refusals amount to an outage: there was no success for a while and the refusals used up all
    /// tokens, or there was no success for a long time.
    fn are_outage(&self, now: Millis) -> bool {
        let millis = now.saturating_sub(self.since);
        let takes_all = self.count.saturating_mul(limits::RETRY_COST_THROTTLE) >= limits::RETRY_TOKENS_MAX;
        let is_long = millis >= limits::REFUSED_ONLY_BY_FEW.as_millis() as Millis;
        let a_while = if self.asked > 0 { limits::ASKED_TO_WAIT_ONLY } else { limits::REFUSED_ONLY };
        let is_a_while = millis >= a_while.as_millis() as Millis;
        self.count > 0 && (is_long || is_a_while && takes_all)
    }
}

impl OriginState {
    /// Creates the state of an origin with at most `limit` requests in flight.
    pub fn new(limit: usize, give_up_after: Millis) -> Self {
        OriginState {
            limit,
            tokens: limits::RETRY_TOKENS_MAX,
            not_before: 0,
            is_closed: false,
            rests: 0,
            trouble_since: None,
            failed_at: 0,
            last_failure: None,
            healthy_at: None,
            give_up_after,
            congestion: Congestion::default(),
            refusals: Refusals::default(),
        }
    }

    /// Returns the pace in requests/s, or `None` if the origin does not throttle.
    pub fn rate(&self) -> Option<f64> {
        self.congestion.rate()
    }

    /// Sets the initial pace to the pace of an earlier run.
    pub fn resume_rate(&mut self, rate: f64) {
        self.congestion.resume(rate);
    }

    /// Returns whether requests may be sent.
    pub fn gate(&self, now: Millis) -> Gate {
        if now < self.not_before {
            Gate::Resting(self.not_before)
        } else if self.is_closed {
            Gate::Asking
        } else {
            Gate::Open(self.limit)
        }
    }

    /// Records observations. `can_be_asked` states whether there is anything with which to probe the origin.
    pub fn observe(&mut self, seen: Observations, can_be_asked: bool, now: Millis) {
        // Successes that are reported together with failures may date from before the origin went down.
        let is_stale = self.is_closed && seen.probes == 0 && (seen.transient > 0 || seen.repeated > 0);
        if seen.successes > 0 && !is_stale {
            self.succeed(now);
        }
        if seen.last_failure.is_some() {
            (self.failed_at, self.last_failure) = (now, seen.last_failure);
        }
        let refund = seen.successes.saturating_mul(limits::RETRY_REFUND);
        let cost = seen.transient.saturating_mul(limits::RETRY_COST_TRANSIENT);
        self.tokens = self.tokens.saturating_add(refund).saturating_sub(cost).min(limits::RETRY_TOKENS_MAX);
        self.refusals.note(seen, now);
        if self.is_closed || now < self.not_before {
            // Requests that were sent earlier may still fail now. Such failures show nothing new.
            return;
        }
        let is_drained = self.tokens == 0 && cost > 0;
        if seen.throttled > 0 && self.refusals.are_outage(now) {
            self.rest(self.refusals.asked, now);
        } else if is_drained || seen.repeated > 0 && can_be_asked && !self.was_healthy_lately(now) {
            self.close(now);
        } else {
            self.congestion.observe(seen.successes, seen.throttled, now);
        }
    }

    fn was_healthy_lately(&self, now: Millis) -> bool {
        let lately = limits::HEALTHY_FOR.as_millis() as Millis;
        self.healthy_at.is_some_and(|healthy_at| now.saturating_sub(healthy_at) < lately)
    }

    fn succeed(&mut self, now: Millis) {
        self.healthy_at = Some(now);
        self.trouble_since = None;
        if self.is_closed || self.rests > 0 {
            self.open();
        }
    }

    fn open(&mut self) {
        (self.is_closed, self.rests) = (false, 0);
        self.tokens = limits::RETRY_TOKENS_MAX;
        self.refusals = Refusals::default();
    }

    /// Lets only probes through because the origin seems to be down.
    fn close(&mut self, now: Millis) {
        self.is_closed = true;
        self.trouble_since.get_or_insert(now);
    }

    /// Starts a rest because the origin is down or requested a rest.
    pub fn rest(&mut self, retry_after: Millis, now: Millis) {
        self.close(now);
        self.failed_at = now;
        let cap = limits::REST_CAP.as_millis() as Millis;
        let rest = self
            .rest_from(limits::REST_BASE)
            .saturating_mul(1 << self.rests.min(16))
            .min(cap)
            .max(retry_after);
        self.not_before = now + rest;
        self.rests += 1;
        self.refusals = Refusals::default();
        self.congestion.forget(self.not_before);
    }

    /// Returns `base` in milliseconds, shortened if necessary so that the origin is probed a few times before the job
    /// ends.
    fn rest_from(&self, base: Duration) -> Millis {
        (base.as_millis() as Millis).min(self.give_up_after / 4).max(1)
    }

    /// Records a page of the listing as a sign that the origin is healthy.
    pub fn note_page(&mut self, now: Millis) {
        self.healthy_at = Some(now);
    }

    /// Opens the origin again. The origin is healthy, so the targets that failed more than once are broken.
    pub fn is_healthy(&mut self, now: Millis) {
        self.healthy_at = Some(now);
        if self.rests == 0 {
            self.trouble_since = None;
        }
        self.open();
    }

    /// Opens the origin after a rest, because a health check succeeded but a target that had never failed before
    /// failed. Either many targets are broken, or the origin serves only objects that it has served before. After the
    /// rest, as many targets are tried as the tokens allow.
    pub fn is_partly_healthy(&mut self, now: Millis) {
        self.open();
        self.rests = 1;
        self.not_before = now + self.rest_from(limits::PARTLY_HEALTHY_REST);
        // Counting from the end of the rest prevents a failure right after the rest from immediately causing another
        // rest.
        self.healthy_at = Some(self.not_before);
        self.congestion.forget(self.not_before);
    }

    /// Returns the trouble of the origin, including the time until which the job waits.
    pub fn trouble(&self) -> Option<OriginTrouble> {
        let since = self.trouble_since.filter(|_| self.rests > 0)?;
        Some(OriginTrouble { since, until: since + self.give_up_after, kind: self.last_failure })
    }

    /// Returns whether the origin has had no success for `give_up_after`. If so, the job ends.
    pub fn is_given_up(&self, now: Millis) -> bool {
        // While targets are being tried, time counts only up to the last failure.
        let now = if self.is_closed { now } else { self.failed_at };
        self.trouble_since.is_some_and(|since| now.saturating_sub(since) > self.give_up_after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failures(transient: u32) -> Observations {
        Observations { transient, ..Observations::default() }
    }

    fn successes(successes: u32) -> Observations {
        Observations { successes, ..Observations::default() }
    }

    #[test]
    fn an_origin_without_tokens_is_asked_and_rests_when_it_is_down() {
        let mut origin = OriginState::new(64, 900_000);

        origin.observe(failures(35), true, 10);
        assert_eq!(origin.gate(10), Gate::Open(64));
        origin.observe(failures(1), true, 20);
        assert_eq!(origin.gate(20), Gate::Asking);
        assert_eq!(origin.trouble(), None, "the failures may mean nothing");
        origin.rest(0, 30);

        assert_eq!(origin.gate(30), Gate::Resting(1_030));
        assert_eq!(origin.gate(1_030), Gate::Asking);
        assert_eq!(origin.trouble().map(|trouble| (trouble.since, trouble.until)), Some((20, 900_020)));
    }

    #[test]
    fn rests_grow_and_one_success_ends_them() {
        let mut origin = OriginState::new(64, 900_000);
        origin.observe(failures(40), true, 0);
        origin.rest(0, 0);
        origin.rest(0, 1_000);
        assert_eq!(origin.gate(1_000), Gate::Resting(3_000));

        origin.observe(successes(1), true, 3_000);

        assert_eq!(origin.gate(3_000), Gate::Open(64));
        assert_eq!(origin.trouble(), None);
    }

    #[test]
    fn failures_of_requests_sent_before_a_rest_do_not_lengthen_it() {
        let mut origin = OriginState::new(64, 900_000);
        origin.observe(failures(40), true, 0);
        origin.rest(0, 0);

        origin.observe(failures(24), true, 100);

        assert_eq!(origin.gate(100), Gate::Resting(1_000));
    }

    #[test]
    fn successes_from_before_an_outage_do_not_end_it() {
        let mut origin = OriginState::new(64, 900_000);
        origin.observe(failures(40), true, 10);

        origin.observe(Observations { successes: 30, ..failures(10) }, true, 60);
        assert_eq!(origin.gate(60), Gate::Asking);
        origin.observe(Observations { successes: 1, probes: 1, ..failures(1) }, true, 70);

        assert_eq!(origin.gate(70), Gate::Open(64));
    }

    #[test]
    fn half_the_replies_may_fail_for_ever() {
        let mut origin = OriginState::new(64, 900_000);

        for now in 0..10_000 {
            origin.observe(Observations { successes: 1, transient: 1, ..Observations::default() }, true, now);
            assert_eq!(origin.gate(now), Gate::Open(64));
        }
    }

    #[test]
    fn targets_that_fail_again_take_no_tokens_while_others_succeed() {
        let mut origin = OriginState::new(64, 900_000);

        for now in 0..10_000 {
            origin.observe(Observations { successes: 1, repeated: 50, ..Observations::default() }, true, now);
            assert_eq!(origin.gate(now), Gate::Open(64));
        }
    }

    #[test]
    fn targets_that_fail_again_and_nothing_else_are_a_reason_to_ask() {
        let again = Observations { repeated: 1, ..Observations::default() };
        let mut origin = OriginState::new(64, 900_000);
        origin.observe(successes(1), true, 1_000);

        origin.observe(again, true, 1_099);
        assert_eq!(origin.gate(1_099), Gate::Open(64));
        origin.observe(again, false, 5_000);
        assert_eq!(origin.gate(5_000), Gate::Open(64), "nothing can be used as a probe");
        origin.observe(again, true, 5_000);
        assert_eq!(origin.gate(5_000), Gate::Asking);
        origin.is_healthy(5_001);

        assert_eq!(origin.gate(5_001), Gate::Open(64));
        assert!(!origin.is_given_up(10_000_000), "the origin was not in trouble");
        origin.observe(again, true, 5_100);
        assert_eq!(origin.gate(5_100), Gate::Open(64), "the origin was healthy a moment ago");
    }

    #[test]
    fn while_only_what_was_given_before_is_given_others_are_tried_a_few_at_a_time() {
        let mut origin = OriginState::new(64, 900_000);
        for start in [0, 5_000, 10_000] {
            origin.observe(failures(36), true, start);
            assert_eq!(origin.gate(start), Gate::Asking);

            origin.is_partly_healthy(start);

            assert_eq!(origin.gate(start), Gate::Resting(start + 5_000));
            assert_eq!(origin.gate(start + 5_000), Gate::Open(64));
        }
        assert!(!origin.is_given_up(10_000_000), "nothing has failed since");
        let seen = Observations { last_failure: Some(FailureKind::Reset), ..failures(1) };
        origin.observe(seen, true, 900_001);
        assert!(origin.is_given_up(900_001));
    }

    #[test]
    fn it_is_given_up_after_a_long_time_without_success() {
        let mut origin = OriginState::new(64, 900_000);
        origin.observe(failures(40), true, 0);

        assert!(!origin.is_given_up(900_000));
        assert!(origin.is_given_up(900_001));
    }

    #[test]
    fn an_origin_is_asked_some_times_before_it_is_given_up() {
        let mut origin = OriginState::new(64, 1_000);
        origin.observe(failures(40), true, 0);

        origin.rest(0, 0);

        assert_eq!(origin.gate(0), Gate::Resting(250));
    }

    #[test]
    fn an_origin_that_only_refuses_rests_as_long_as_it_asks() {
        let mut origin = OriginState::new(64, 900_000);
        let refusals = Observations { throttled: 60, retry_after: 30_000, ..Observations::default() };

        for now in [0, 299] {
            origin.observe(refusals, true, now);
            assert_eq!(origin.gate(now), Gate::Open(64));
        }
        origin.observe(Observations { retry_after: 1_000, ..refusals }, true, 300);

        assert_eq!(origin.gate(300), Gate::Resting(30_300));
    }

    #[test]
    fn refusals_beside_successes_set_a_pace_and_no_rest() {
        let mut origin = OriginState::new(64, 900_000);

        for now in (0..2000).step_by(50) {
            origin.observe(
                Observations { successes: 1, throttled: 200, retry_after: 30_000, ..Observations::default() },
                true,
                now,
            );
            assert_eq!(origin.gate(now), Gate::Open(64));
        }

        assert!(origin.rate().is_some_and(|rate| rate < 500.0), "{:?}", origin.rate());
    }

    #[test]
    fn refusals_and_nothing_else_are_an_outage_after_a_second() {
        let mut origin = OriginState::new(64, 900_000);
        let refusals = Observations { throttled: 50, ..Observations::default() };

        for now in [0, 500, 999] {
            origin.observe(refusals, true, now);
            assert_eq!(origin.gate(now), Gate::Open(64));
        }
        origin.observe(refusals, true, 1000);

        assert_eq!(origin.gate(1000), Gate::Resting(2_000));
        origin.rest(0, 2_000);
        assert_eq!(origin.gate(2_000), Gate::Resting(4_000));
    }

    #[test]
    fn a_few_refusals_for_long_are_an_outage_as_well() {
        let mut origin = OriginState::new(64, 900_000);
        let refusal = Observations { throttled: 1, ..Observations::default() };

        for now in (0..5000).step_by(1000) {
            origin.observe(refusal, true, now);
            assert_eq!(origin.gate(now), Gate::Open(64));
        }
        origin.observe(refusal, true, 5000);

        assert_eq!(origin.gate(5000), Gate::Resting(6_000));
    }
}
