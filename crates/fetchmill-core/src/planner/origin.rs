//! The state of one origin: what is allowed in flight, not before when, and its retry tokens.
//!
//! Clock-free: time is an argument, milliseconds on the job's clock. Everything that is to be limited by origin
//! belongs here.
//!
//! A failure takes tokens and a success gives some back. An origin without tokens rests: nothing is sent to it.
//! After the rest one request at a time asks whether it is well; the first success ends that, a failure means a
//! longer rest. So an outage costs a few requests, not an attempt of every target (docs/decisions/0002).
//!
//! Refusals of an origin that gives something meanwhile are no outage: they set its pace ([`super::congestion`]).

use serde::{Deserialize, Serialize};

use super::congestion::Congestion;
use crate::limits;

/// Milliseconds on the job's clock: 1970 UTC at the start, monotonic from there.
pub type Millis = u64;

/// What workers saw of an origin since they last said so.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    /// Complete replies that are not a sign of trouble; 404 is none.
    pub successes: u32,
    /// Transient failures.
    pub transient: u32,
    /// Throttling replies.
    pub throttled: u32,
    /// The longest `Retry-After` among them, milliseconds.
    pub retry_after: Millis,
    /// Replies that nobody asked for.
    pub unsolicited: u32,
}

/// Whether requests may go to an origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// At most this many in flight.
    Open(usize),
    /// None before this.
    Resting(Millis),
}

/// The state of one origin.
#[derive(Debug, Clone)]
pub struct Origin {
    limit: usize,
    tokens: u32,
    not_before: Millis,
    rests: u32,
    last_success: Millis,
    give_up_after: Millis,
    is_suspicious: bool,
    congestion: Congestion,
    refusals: Refusals,
}

/// Throttling replies that asked for no rest, since the last success.
#[derive(Debug, Clone, Copy, Default)]
struct Refusals {
    count: u32,
    since: Millis,
}

impl Refusals {
    fn note(&mut self, seen: Observed, now: Millis) {
        if seen.successes > 0 {
            *self = Refusals::default();
        } else if seen.throttled > 0 {
            if self.count == 0 {
                self.since = now;
            }
            self.count = self.count.saturating_add(seen.throttled);
        }
    }

    /// Whether they are an outage: as many as take all tokens and nothing else for a while, or nothing else for long.
    fn are_outage(&self, now: Millis) -> bool {
        let millis = now.saturating_sub(self.since);
        let takes_all = self.count.saturating_mul(limits::RETRY_COST_THROTTLE) >= limits::RETRY_TOKENS_MAX;
        let is_long = millis >= limits::REST_BASE.as_millis() as Millis;
        let is_a_while = millis >= limits::REFUSED_ONLY.as_millis() as Millis;
        self.count > 0 && (is_long || is_a_while && takes_all)
    }
}

impl Origin {
    /// With at most `limit` requests in flight.
    pub fn new(limit: usize, give_up_after: Millis, now: Millis) -> Self {
        Origin {
            limit,
            tokens: limits::RETRY_TOKENS_MAX,
            not_before: 0,
            rests: 0,
            last_success: now,
            give_up_after,
            is_suspicious: false,
            congestion: Congestion::default(),
            refusals: Refusals::default(),
        }
    }

    /// Requests a second that it gets, while it throttles.
    pub fn rate(&self) -> Option<f64> {
        self.congestion.rate()
    }

    /// Whether requests may go out.
    pub fn gate(&self, now: Millis) -> Gate {
        if now < self.not_before {
            Gate::Resting(self.not_before)
        } else if self.rests > 0 {
            Gate::Open(1)
        } else {
            Gate::Open(self.limit)
        }
    }

    /// Whether it has sent a reply that nobody asked for: it will do so again, while a request is out.
    pub fn is_suspicious(&self) -> bool {
        self.is_suspicious
    }

    /// Takes note of what was seen.
    pub fn observe(&mut self, seen: Observed, now: Millis) {
        self.is_suspicious |= seen.unsolicited > 0;
        if seen.successes > 0 {
            self.last_success = now;
            self.rests = 0;
        }
        // Who asks for a rest of so many seconds gets it, however much was given before.
        let asked = if seen.retry_after > 0 { seen.throttled } else { 0 };
        let refund = seen.successes.saturating_mul(limits::RETRY_REFUND);
        let cost = seen
            .transient
            .saturating_mul(limits::RETRY_COST_TRANSIENT)
            .saturating_add(asked.saturating_mul(limits::RETRY_COST_THROTTLE));
        self.tokens = self.tokens.saturating_add(refund).saturating_sub(cost).min(limits::RETRY_TOKENS_MAX);
        self.refusals.note(seen, now);
        let has_failed = seen.transient > 0 || seen.throttled > 0;
        let is_probe = self.rests > 0;
        let is_out = is_probe || self.tokens == 0 && cost > 0 || self.refusals.are_outage(now);
        if has_failed && is_out && now >= self.not_before {
            self.rest(seen.retry_after, now);
        } else {
            self.congestion.observe(seen.successes, seen.throttled, now);
        }
    }

    fn rest(&mut self, retry_after: Millis, now: Millis) {
        let base = limits::REST_BASE.as_millis() as Millis;
        let cap = limits::REST_CAP.as_millis() as Millis;
        let rest = base.saturating_mul(1 << self.rests.min(16)).min(cap).max(retry_after);
        self.not_before = now + rest;
        self.rests += 1;
        self.refusals = Refusals::default();
        self.congestion.forget(self.not_before);
    }

    /// Whether it had no success for so long that the job ends.
    pub fn is_given_up(&self, now: Millis) -> bool {
        self.rests > 0 && now.saturating_sub(self.last_success) > self.give_up_after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failures(transient: u32) -> Observed {
        Observed { transient, ..Observed::default() }
    }

    fn successes(successes: u32) -> Observed {
        Observed { successes, ..Observed::default() }
    }

    #[test]
    fn an_outage_closes_the_gate_after_a_few_failures() {
        let mut origin = Origin::new(64, 900_000, 0);

        origin.observe(failures(35), 10);
        assert_eq!(origin.gate(10), Gate::Open(64));
        origin.observe(failures(1), 20);

        assert_eq!(origin.gate(20), Gate::Resting(5_020));
        assert_eq!(origin.gate(5_020), Gate::Open(1));
    }

    #[test]
    fn rests_grow_and_one_success_ends_them() {
        let mut origin = Origin::new(64, 900_000, 0);
        origin.observe(failures(40), 0);
        origin.observe(failures(1), 5_000);
        assert_eq!(origin.gate(5_000), Gate::Resting(15_000));

        origin.observe(successes(1), 15_000);

        assert_eq!(origin.gate(15_000), Gate::Open(64));
    }

    #[test]
    fn failures_of_requests_sent_before_a_rest_do_not_lengthen_it() {
        let mut origin = Origin::new(64, 900_000, 0);
        origin.observe(failures(40), 0);

        origin.observe(failures(24), 100);

        assert_eq!(origin.gate(100), Gate::Resting(5_000));
    }

    #[test]
    fn half_the_replies_may_fail_for_ever() {
        let mut origin = Origin::new(64, 900_000, 0);

        for now in 0..10_000 {
            origin.observe(Observed { successes: 1, transient: 1, ..Observed::default() }, now);
            assert_eq!(origin.gate(now), Gate::Open(64));
        }
    }

    #[test]
    fn it_is_given_up_after_a_long_time_without_success() {
        let mut origin = Origin::new(64, 900_000, 0);
        origin.observe(failures(40), 0);

        assert!(!origin.is_given_up(900_000));
        assert!(origin.is_given_up(900_001));
    }

    #[test]
    fn a_throttled_origin_rests_as_long_as_it_asks() {
        let mut origin = Origin::new(64, 900_000, 0);

        origin.observe(Observed { throttled: 100, retry_after: 30_000, ..Observed::default() }, 0);

        assert_eq!(origin.gate(0), Gate::Resting(30_000));
    }

    #[test]
    fn refusals_beside_successes_set_a_pace_and_no_rest() {
        let mut origin = Origin::new(64, 900_000, 0);

        for now in (0..2000).step_by(50) {
            origin.observe(Observed { successes: 1, throttled: 200, ..Observed::default() }, now);
            assert_eq!(origin.gate(now), Gate::Open(64));
        }

        assert!(origin.rate().is_some_and(|rate| rate < 500.0), "{:?}", origin.rate());
    }

    #[test]
    fn refusals_and_nothing_else_are_an_outage_after_a_second() {
        let mut origin = Origin::new(64, 900_000, 0);
        let refusals = Observed { throttled: 50, ..Observed::default() };

        for now in [0, 500, 999] {
            origin.observe(refusals, now);
            assert_eq!(origin.gate(now), Gate::Open(64));
        }
        origin.observe(refusals, 1000);

        assert_eq!(origin.gate(1000), Gate::Resting(6_000));
        origin.observe(Observed { throttled: 1, ..Observed::default() }, 6_000);
        assert_eq!(origin.gate(6_000), Gate::Resting(16_000));
    }

    #[test]
    fn a_few_refusals_for_long_are_an_outage_as_well() {
        let mut origin = Origin::new(64, 900_000, 0);
        let refusal = Observed { throttled: 1, ..Observed::default() };

        for now in (0..5000).step_by(1000) {
            origin.observe(refusal, now);
            assert_eq!(origin.gate(now), Gate::Open(64));
        }
        origin.observe(refusal, 5000);

        assert_eq!(origin.gate(5000), Gate::Resting(10_000));
    }

    #[test]
    fn a_reply_that_nobody_asked_for_is_remembered() {
        let mut origin = Origin::new(64, 900_000, 0);
        assert!(!origin.is_suspicious());

        origin.observe(Observed { unsolicited: 1, ..Observed::default() }, 0);
        origin.observe(successes(1), 1);

        assert!(origin.is_suspicious());
        assert_eq!(origin.gate(1), Gate::Open(64));
    }
}
