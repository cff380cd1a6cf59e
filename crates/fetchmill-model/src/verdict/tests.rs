//! A table of facts and the verdicts that result from them, and properties that hold for all verdicts.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::limits;
use crate::outcome::{FailureClass, FailureKind, Outcome};
use crate::planner::origin::Millis;
use crate::target::source_metadata::ListedKey;

const NOW: Millis = 1_000_000;
const SLOW: &[u8] = b"<?xml version=\"1.0\"?><Error><Code>SlowDown</Code><Message>m</Message></Error>";
const INTERNAL: &[u8] = b"<Error><Code>InternalError</Code><Message>m</Message></Error>";
const SKEWED: &[u8] = b"<Error><Code>RequestTimeTooSkewed</Code><Message>m</Message></Error>";
const SKEWED_BY: &[u8] =
    b"<Error><Code>RequestTimeTooSkewed</Code><ServerTime>2026-11-20T21:08:00Z</ServerTime></Error>";
const DATE: &[u8] = b"Fri, 20 Nov 2026 21:08:00 GMT";
const STORE_TIME: u64 = 1_795_208_880;
const EXPIRED: &[u8] = b"<Error><Code>ExpiredToken</Code><Message>m</Message></Error>";
const DENIED: &[u8] = b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>";
const FROZEN: &[u8] = b"<Error><Code>InvalidObjectState</Code><Message>in the archive</Message></Error>";
const WRONG_KEY: &[u8] = b"<Error><Code>SignatureDoesNotMatch</Code><Message>m</Message></Error>";
const ELSEWHERE: &[u8] = b"<Error><Code>PermanentRedirect</Code><Message>m</Message></Error>";

/// Returns a verdict as text that is short enough for a table.
fn text(verdict: Verdict) -> String {
    match verdict {
        Verdict::Store => "store".into(),
        Verdict::Settle(Outcome::Failed(kind), None) => format!("failed {}", kind.name()),
        Verdict::Settle(Outcome::Failed(kind), Some(said)) => format!("failed {}: {said}", kind.name()),
        Verdict::Settle(outcome, _) => format!("{outcome:?}").to_lowercase(),
        Verdict::Retry(kind) => format!("retry {}", kind.name()),
        Verdict::Again => "again".into(),
        Verdict::SecondLook(kind) => format!("second look {}", kind.name()),
        Verdict::Redirect => "redirect".into(),
        Verdict::Correct(Correction::Clock(time)) => format!("clock {time}"),
        Verdict::Correct(Correction::Region(region)) => format!("region {region}"),
        Verdict::Correct(Correction::Credentials) => "credentials".into(),
        Verdict::Stop(_) => "stop".into(),
    }
}

fn job() -> Rules {
    Rules { attempts_max: 5, is_patient: true, ..Rules::default() }
}

fn reply(status: u16) -> ReplyFacts<'static> {
    ReplyFacts { status, is_verified: true, length: 3, ..ReplyFacts::default() }
}

#[expect(clippy::unnecessary_wraps, reason = "the facts contain an option")]
fn listed(size: u64, etag: &'static [u8]) -> Option<ListedKey<'static>> {
    Some(ListedKey { key: b"k", size: Some(size), etag, modified: 0 })
}

/// Returns a store's reply with this body.
fn of_store(status: u16, start: &'static [u8]) -> ReplyFacts<'static> {
    let store = Some(StoreReply { start, ..StoreReply::default() });
    ReplyFacts { length: start.len() as u64, store, ..reply(status) }
}

fn first(facts: &ReplyFacts<'_>, rules: &Rules) -> String {
    text(AttemptState::default().after_reply(facts, rules, NOW))
}

#[test]
fn a_status_says_what_became_of_a_target() {
    let follows = Rules { redirects_max: 5, ..job() };
    for (status, rules, expected) in [
        (200, job(), "store"),
        (204, job(), "store"),
        (301, job(), "failed redirect"),
        (301, follows, "redirect"),
        (304, follows, "failed redirect"),
        (400, job(), "failed status"),
        (404, job(), "absent"),
        (410, job(), "absent"),
        (408, job(), "retry server-error"),
        (425, job(), "retry server-error"),
        (429, job(), "retry throttled"),
        (500, job(), "retry server-error"),
        (503, job(), "retry throttled"),
        (500, Rules { attempts_max: 1, ..job() }, "failed server-error"),
        (500, Rules { may_repeat: false, ..job() }, "failed server-error"),
    ] {
        assert_eq!(first(&reply(status), &rules), expected, "{status} {rules:?}");
    }
}

#[test]
fn what_has_not_changed_is_skipped_only_where_that_was_asked() {
    let asked = |status| ReplyFacts { is_conditional: true, ..reply(status) };
    let follows = Rules { redirects_max: 5, ..job() };
    for (status, expected) in
        [(304, "skipped(unchanged)"), (200, "store"), (404, "absent"), (301, "redirect")]
    {
        assert_eq!(first(&asked(status), &follows), expected, "{status}");
    }
    assert_eq!(first(&reply(304), &follows), "failed redirect");
}

#[test]
fn a_body_must_be_whole_and_not_too_long() {
    let whole = reply(200);
    let uncertain = ReplyFacts { is_verified: false, ..whole };
    for (facts, rules, expected) in [
        (uncertain, job(), "failed unverified-length"),
        (uncertain, Rules { allow_eof_bodies: true, ..job() }, "store"),
        (ReplyFacts { status: 404, ..uncertain }, job(), "absent"),
        (
            ReplyFacts { status: 404, ..uncertain },
            Rules { gives_every_reply: true, ..job() },
            "failed unverified-length",
        ),
        (whole, Rules { body_max: 2, ..job() }, "failed body-too-large"),
        (whole, Rules { body_max: 3, ..job() }, "store"),
    ] {
        assert_eq!(first(&facts, &rules), expected, "{facts:?} {rules:?}");
    }
}

#[test]
fn what_came_is_compared_with_what_was_listed() {
    let came = |etag, listed| ReplyFacts { etag, listed, ..reply(200) };
    let encoded = |listed| ReplyFacts { is_encoded: true, ..came(Some(&b"\"e\""[..]), listed) };
    let in_place = |start, listed| ReplyFacts { listed, ..of_store(200, start) };
    let gzipped_at_store = ReplyFacts { is_encoded: true, ..in_place(b"abc", listed(4, b"")) };
    let etag_changed =
        "failed changed: ETag \"f\" instead of e in the listing: the object was replaced in the meantime";
    let encoded_changed =
        "failed changed: ETag \"e\" instead of f in the listing: the object was replaced in the meantime";
    let size_changed =
        "failed changed: 3 bytes instead of 4 in the listing: the object was replaced in the meantime";
    for (facts, expected) in [
        (came(Some(b"\"e\""), listed(3, b"e")), "store"),
        (came(Some(b"W/\"e\""), listed(3, b"e")), "store"),
        (came(None, listed(3, b"e")), "store"),
        (came(Some(b"\"e\""), listed(3, b"")), "store"),
        (came(Some(b"\"f\""), listed(3, b"e")), etag_changed),
        (came(Some(b"\"e\""), listed(4, b"e")), size_changed),
        (came(None, Some(ListedKey::named(b"k"))), "store"),
        (ReplyFacts { status: 404, ..came(None, listed(4, b"e")) }, "absent"),
        (encoded(listed(4, b"e")), "store"),
        (encoded(listed(4, b"f")), encoded_changed),
        (gzipped_at_store, size_changed),
        (in_place(SLOW, listed(3, b"e")), "retry throttled"),
        (in_place(INTERNAL, listed(3, b"e")), "retry server-error"),
        (in_place(INTERNAL, listed(INTERNAL.len() as u64, b"")), "store"),
        (in_place(INTERNAL, None), "store"),
    ] {
        assert_eq!(first(&facts, &job()), expected, "{facts:?}");
    }
}

#[test]
fn a_store_says_what_is_wrong() {
    let with = |start, status, region, date| {
        let store = StoreReply { start, region, date, ..StoreReply::default() };
        ReplyFacts { store: Some(store), ..of_store(status, start) }
    };
    let follows = Rules { redirects_max: 5, ..job() };
    for (facts, rules, expected) in [
        (with(SKEWED_BY, 403, None, None), job(), format!("clock {STORE_TIME}")),
        (with(SKEWED, 403, None, Some(DATE)), job(), format!("clock {STORE_TIME}")),
        (with(SKEWED, 403, None, None), job(), "failed status: RequestTimeTooSkewed: m".into()),
        (with(EXPIRED, 400, None, None), job(), "credentials".into()),
        (with(ELSEWHERE, 301, Some(b"eu-west-1"), None), follows, "region eu-west-1".into()),
        (with(ELSEWHERE, 301, None, None), job(), "failed redirect: PermanentRedirect: m".into()),
        (with(b"", 301, Some(b"eu-west-1"), None), job(), "region eu-west-1".into()),
        (with(b"", 301, None, None), follows, "redirect".into()),
        // The region of an object's bucket is known before the object is requested.
        (with(DENIED, 403, Some(b"eu-west-1"), None), job(), "failed status: AccessDenied: no".into()),
        (with(FROZEN, 403, None, None), job(), "failed status: InvalidObjectState: in the archive".into()),
        (with(WRONG_KEY, 403, None, None), job(), "again".into()),
        (with(WRONG_KEY, 403, None, None), Rules { may_repeat: false, ..job() }, "stop".into()),
        (
            with(WRONG_KEY, 403, None, None),
            Rules { gives_every_reply: true, ..job() },
            "failed status: SignatureDoesNotMatch: m".into(),
        ),
        (with(SLOW, 400, None, None), job(), "retry throttled".into()),
        (with(INTERNAL, 400, None, None), job(), "retry server-error".into()),
        (with(b"<html>", 503, None, None), job(), "retry throttled".into()),
        (with(b"", 404, None, None), job(), "absent".into()),
    ] {
        assert_eq!(first(&facts, &rules), expected, "{facts:?}");
    }
}

#[test]
fn a_bucket_says_what_is_wrong() {
    let with =
        |start, region| StoreReply { start, region, signed_for: Some("us-east-1"), ..StoreReply::default() };
    for (store, status, may_hide_error, expected) in [
        (with(b"<List", None), 200, true, "store"),
        (with(SLOW, None), 200, true, "retry throttled"),
        (with(b"<Error><Code>Odd</Code></Error>", None), 200, true, "retry server-error"),
        // An object can look like an error document.
        (with(SLOW, None), 206, false, "store"),
        (with(DENIED, Some(&b"eu-west-1"[..])), 403, true, "region eu-west-1"),
        (with(DENIED, Some(b"us-east-1")), 403, true, "failed status"),
        (with(b"", Some(b"eu-west-1")), 400, true, "region eu-west-1"),
        (with(b"", None), 404, true, "failed status"),
        (with(b"", None), 409, true, "retry server-error"),
        (with(b"", None), 501, true, "failed status"),
        (with(b"", None), 500, true, "retry server-error"),
        (with(WRONG_KEY, None), 403, true, "failed status"),
    ] {
        let mut state = AttemptState::default();
        let verdict = state.after_bucket_reply(&store, status, may_hide_error, &Rules::default(), NOW);
        assert_eq!(text(verdict), expected, "{status} {store:?}");
    }
}

#[test]
fn named_statuses_are_retried_and_mean_their_own_when_no_attempt_is_left() {
    let retried = RetriedStatuses::try_from(vec![403, 404, 500]).unwrap();
    let named = Rules { retried, ..job() };
    let waits = |status| ReplyFacts { asks_to_wait: true, ..reply(status) };
    let rest = |status| ReplyFacts { is_no_rest: true, ..reply(status) };
    for (facts, rules, first_time, last_time) in [
        (reply(403), named, "retry throttled", "failed status"),
        (reply(404), named, "retry throttled", "absent"),
        (reply(500), named, "retry throttled", "failed server-error"),
        (reply(410), named, "absent", "absent"),
        // As with 429, refusals that state a time do not count at first.
        (waits(403), named, "retry throttled", "retry throttled"),
        (waits(403), job(), "retry throttled", "retry throttled"),
        (waits(403), Rules { is_patient: false, ..job() }, "retry throttled", "failed status"),
        (waits(403), Rules { may_repeat: false, ..job() }, "failed status", "failed status"),
        (reply(403), job(), "failed status", "failed status"),
        (waits(401), job(), "failed status", "failed status"),
        (waits(404), job(), "absent", "absent"),
    ] {
        assert_eq!(first(&facts, &rules), first_time, "{facts:?}");
        let mut last = AttemptState { attempts: 4, ..AttemptState::default() };
        assert_eq!(text(last.after_reply(&facts, &rules, NOW)), last_time, "{facts:?}");
    }
    assert_eq!(first(&rest(403), &named), "retry throttled");
    let page = |asks_to_wait, rules| {
        let store = StoreReply { start: DENIED, asks_to_wait, ..StoreReply::default() };
        text(AttemptState::default().after_bucket_reply(&store, 403, true, &rules, NOW))
    };
    assert_eq!((page(true, job()), page(false, named)), ("retry throttled".into(), "retry throttled".into()));
    assert_eq!(page(false, job()), "failed status");
}

#[test]
fn each_request_made_again_at_once_is_repeated() {
    let none = AttemptState::default();

    assert!(!none.is_repeated());
    for state in [
        AttemptState { forgiven: 1, ..none },
        AttemptState { corrections: 1, ..none },
        AttemptState { refusals: 1, ..none },
        AttemptState { abandoned: 1, ..none },
        AttemptState { is_resumed: true, ..none },
    ] {
        assert!(state.is_repeated(), "{state:?}");
    }
}

#[test]
fn a_used_connection_is_forgiven() {
    use FailureKind::{Framing, NotHttp, Reset, Truncated};
    let broken = |kind, was_used, is_unanswered| BrokenFacts {
        kind,
        was_used,
        is_unanswered,
        is_shared: false,
        needs_http1: false,
    };
    let once = AttemptState { forgiven: 1, ..AttemptState::default() };
    let often = AttemptState { forgiven: limits::FORGIVEN_SHARED_MAX, ..AttemptState::default() };
    let required = BrokenFacts { needs_http1: true, is_shared: true, ..broken(Reset, false, false) };
    let shared = BrokenFacts { is_shared: true, ..broken(Reset, true, true) };
    let not_twice = Rules { may_repeat: false, ..job() };
    for (state, facts, rules, expected) in [
        (AttemptState::default(), broken(Reset, true, true), job(), "again"),
        (AttemptState::default(), broken(Reset, false, true), job(), "retry reset"),
        (AttemptState::default(), broken(Reset, true, false), job(), "retry reset"),
        (AttemptState::default(), broken(Reset, true, true), not_twice, "failed reset"),
        (once, broken(Reset, true, true), job(), "retry reset"),
        (once, shared, job(), "again"),
        (AttemptState::default(), required, job(), "again"),
        (AttemptState::default(), required, not_twice, "failed reset"),
        (often, required, job(), "retry reset"),
        (AttemptState::default(), broken(Framing, true, false), job(), "again"),
        (AttemptState::default(), broken(NotHttp, false, false), job(), "failed not-http"),
        (AttemptState::default(), broken(Truncated, true, false), job(), "retry truncated"),
    ] {
        let mut state = state;
        assert_eq!(text(state.after_broken(facts, &rules, NOW)), expected, "{facts:?} {rules:?}");
    }
}

#[test]
fn a_large_body_that_broke_off_goes_on_while_it_brings_something() {
    let large = limits::RESUMED_BYTES_MIN;
    let broken = |kind| BrokenFacts {
        kind,
        was_used: false,
        is_unanswered: false,
        is_shared: false,
        needs_http1: false,
    };
    let cut = broken(FailureKind::Truncated);
    let used = BrokenFacts { was_used: true, ..cut };
    let shared = BrokenFacts { is_shared: true, ..used };
    let of = |attempts_max, may_repeat| Rules { attempts_max, may_repeat, ..job() };
    let (rest, whole) = (Some(BreakOff::Rest), Some(BreakOff::Whole));
    let resumed = AttemptState { is_resumed: true, ..AttemptState::default() };
    for (state, facts, brought, rules, expected) in [
        (AttemptState::default(), cut, large, job(), rest),
        (AttemptState::default(), cut, large - 1, job(), None),
        (AttemptState::default(), cut, large, of(1, true), None),
        (AttemptState::default(), cut, large, of(5, false), None),
        (AttemptState::default(), broken(FailureKind::IdleTimeout), large, job(), rest),
        (AttemptState::default(), broken(FailureKind::BodyTooLarge), large, job(), None),
        (AttemptState::default(), broken(FailureKind::Throttled), large, job(), None),
        (AttemptState::default(), shared, large, job(), rest),
        (AttemptState::default(), used, large, job(), whole),
        (AttemptState { forgiven: 1, ..AttemptState::default() }, used, large, job(), None),
        (resumed, used, 0, job(), None),
        (resumed, cut, 0, job(), rest),
        (AttemptState { in_vain: limits::RESUMED_IN_VAIN_MAX, ..resumed }, cut, large - 1, job(), None),
        (AttemptState { in_vain: limits::RESUMED_IN_VAIN_MAX, ..resumed }, cut, large, job(), rest),
    ] {
        let mut after = state;
        assert_eq!(after.after_break_off(facts, brought, &rules), expected, "{state:?} {facts:?} {brought}");
        assert_eq!(after.attempts, state.attempts);
    }
}

#[test]
fn what_brings_nothing_of_a_rest_waits_for_longer_each_time_and_then_counts() {
    let cut = BrokenFacts {
        kind: FailureKind::Refused,
        was_used: false,
        is_unanswered: true,
        is_shared: false,
        needs_http1: false,
    };
    let mut state = AttemptState { is_resumed: true, ..AttemptState::default() };
    assert_eq!(state.resumed_wait(), Duration::ZERO);
    for number in 0..limits::RESUMED_IN_VAIN_MAX {
        assert_eq!(state.after_break_off(cut, 0, &job()), Some(BreakOff::Rest));
        assert_eq!(state.resumed_wait(), limits::RESUMED_WAIT * 2u32.pow(number));
    }
    assert_eq!(state.after_break_off(cut, 0, &job()), None);
    assert_eq!(text(state.after_broken(cut, &job(), NOW)), "retry refused");
    assert_eq!(state, AttemptState { attempts: 1, ..AttemptState::default() });
}

#[test]
fn nothing_but_trouble_is_concluded_from_what_is_no_rest() {
    let said = |status| {
        format!(
            "failed truncated: the body broke off, and the request for the rest got a different reply \
             ({status})"
        )
    };
    for (status, first_time, last_time) in [
        (200, "retry truncated", said(200)),
        (206, "retry truncated", said(206)),
        (302, "retry truncated", said(302)),
        (304, "retry truncated", said(304)),
        (403, "retry truncated", said(403)),
        (404, "retry truncated", said(404)),
        (416, "retry truncated", said(416)),
        (500, "retry server-error", said(500).replace("truncated", "server-error")),
        (503, "retry throttled", said(503).replace("truncated", "throttled")),
    ] {
        let rules = Rules { redirects_max: 5, is_patient: false, ..job() };
        let facts = ReplyFacts { is_no_rest: true, is_conditional: true, ..reply(status) };
        assert_eq!(first(&facts, &rules), first_time);
        let mut last = AttemptState { attempts: 4, ..AttemptState::default() };
        assert_eq!(text(last.after_reply(&facts, &rules, NOW)), last_time);
    }
}

#[test]
fn throttling_counts_only_after_ten_minutes() {
    let throttled = |throttled_since, rules: &Rules, now| {
        let mut state = AttemptState { attempts: 4, throttled_since, ..AttemptState::default() };
        let verdict = text(state.after_failure(FailureKind::Throttled, rules, now));
        (verdict, state.attempts, state.throttled_since)
    };

    assert_eq!(throttled(0, &job(), 1000), ("retry throttled".into(), 4, 1000));
    assert_eq!(throttled(1000, &job(), 601_000), ("retry throttled".into(), 4, 1000));
    assert_eq!(throttled(1000, &job(), 601_001).0, "failed throttled");
    assert_eq!(throttled(0, &Rules { is_patient: false, ..job() }, 1000).0, "failed throttled");
}

#[test]
fn what_seems_dead_is_looked_at_twice() {
    let rules = Rules { attempts_max: 2, is_patient: false, has_second_look: true, ..job() };
    let mut state = AttemptState::default();

    let mut next = || text(state.after_failure(FailureKind::Reset, &rules, NOW));
    assert_eq!((next(), next()), ("retry reset".into(), "second look reset".into()));

    // The caller records the time at which the recheck is due.
    state.throttled_since = NOW;
    assert_eq!(text(state.after_failure(FailureKind::Reset, &rules, NOW)), "failed reset");
    let final_at_once = AttemptState::default().after_failure(FailureKind::Framing, &rules, NOW);
    assert_eq!(text(final_at_once), "failed framing");
}

#[test]
fn a_store_that_always_corrects_ends_in_a_failure_that_says_so() {
    for start in [SKEWED_BY, EXPIRED] {
        let mut state = AttemptState::default();
        let facts = of_store(403, start);
        let corrections = (0..100)
            .find(|_| !matches!(state.after_reply(&facts, &job(), NOW), Verdict::Correct(_)))
            .unwrap_or_default();
        assert_eq!(corrections, limits::CORRECTIONS_MAX);
        let said = text(state.after_reply(&facts, &job(), NOW));
        assert!(said.starts_with("failed status: ") && said.contains("after 4 requests"), "{said}");
    }
}

#[test]
fn wrong_credentials_stop_a_job_when_two_replies_say_so_and_the_second_is_certain() {
    let uncertain = of_store(403, WRONG_KEY);
    let certain = ReplyFacts { is_certain: true, ..uncertain };
    for (replies, expected) in [
        (&[certain, certain][..], "again stop"),
        (&[uncertain, certain], "again stop"),
        (&[certain, uncertain, certain], "again again stop"),
        (&[certain, reply(200)], "again store"),
        (&[uncertain; 5], "again again again again failed status: SignatureDoesNotMatch: m"),
    ] {
        let mut state = AttemptState::default();
        let verdicts: Vec<_> =
            replies.iter().map(|facts| text(state.after_reply(facts, &job(), NOW))).collect();
        assert_eq!(verdicts.join(" "), expected);
    }
}

/// An arbitrary result of an attempt.
#[derive(Debug, Clone)]
enum Any {
    Reply(u16, [bool; 2], usize, Option<u64>),
    Broken(usize, bool, bool, bool),
}

fn any_attempt() -> impl Strategy<Value = Any> {
    let replied = (100..600_u16, any::<[bool; 2]>(), 0..10_usize, prop::option::of(0..5_u64));
    let broken = (0..FailureKind::ALL.len(), any::<bool>(), any::<bool>(), any::<bool>());
    prop_oneof![
        replied.prop_map(|(status, flags, start, size)| Any::Reply(status, flags, start, size)),
        broken.prop_map(|(kind, used, unanswered, shared)| Any::Broken(kind, used, unanswered, shared)),
    ]
}

fn next(state: &mut AttemptState, attempt: &Any, rules: &Rules, now: Millis) -> Verdict {
    let starts =
        [&b""[..], SLOW, INTERNAL, SKEWED, SKEWED_BY, EXPIRED, DENIED, WRONG_KEY, ELSEWHERE, b"<Error"];
    match *attempt {
        Any::Reply(status, [is_verified, is_certain], start, size) => {
            let region = Some(&b"eu-west-1"[..]);
            let store =
                StoreReply { start: starts[start], region, date: Some(DATE), ..StoreReply::default() };
            let listed = size.map(|size| ListedKey { size: Some(size), ..ListedKey::default() });
            // Replies whose body is not inspected come from servers that are not stores.
            let store = (start > 0).then_some(store);
            let facts = ReplyFacts {
                status,
                is_certain,
                is_verified,
                length: 3,
                listed,
                store,
                ..ReplyFacts::default()
            };
            state.after_reply(&facts, rules, now)
        }
        Any::Broken(kind, was_used, is_unanswered, is_shared) => {
            let facts = BrokenFacts {
                kind: FailureKind::ALL[kind],
                was_used,
                is_unanswered,
                is_shared,
                needs_http1: false,
            };
            state.after_broken(facts, rules, now)
        }
    }
}

proptest! {
    #[test]
    fn budgets_are_never_exceeded(
        attempts in prop::collection::vec(any_attempt(), 1..300),
        attempts_max in 1..8_u32,
        flags in any::<[bool; 5]>(),
    ) {
        let [is_patient, may_repeat, allow_eof_bodies, gives_every_reply, has_second_look] = flags;
        let rules = Rules {
            attempts_max, is_patient, may_repeat, allow_eof_bodies, gives_every_reply, has_second_look,
            ..Rules::default()
        };
        let mut state = AttemptState::default();
        let (mut corrections, mut forgiven, mut counted) = (0, 0, 0);
        for (made, attempt) in attempts.iter().enumerate() {
            let before = state;
            let verdict = next(&mut state, attempt, &rules, NOW + made as u64 * 1000);
            prop_assert!(state.attempts <= attempts_max, "{state:?}");
            match verdict {
                Verdict::Correct(_) => corrections += 1,
                Verdict::Again => {
                    prop_assert!(may_repeat);
                    forgiven += 1;
                }
                Verdict::Retry(kind) => {
                    prop_assert!(kind.is_retryable() && may_repeat);
                    let is_free = is_patient && kind.class() == FailureClass::Throttle;
                    prop_assert!(state.attempts > before.attempts || is_free, "{kind:?} {state:?}");
                    counted += state.attempts - before.attempts;
                    (corrections, forgiven) = (0, 0);
                }
                Verdict::SecondLook(_) => {
                    prop_assert!(has_second_look && before.throttled_since == 0);
                    break;
                }
                Verdict::Settle(Outcome::Failed(kind), _) => {
                    let is_spent = state.attempts + 1 >= attempts_max || !may_repeat;
                    prop_assert!(!kind.is_retryable() || is_spent, "{kind:?} {state:?}");
                    prop_assert_eq!(state.attempts, before.attempts);
                    break;
                }
                Verdict::Settle(outcome, _) => {
                    prop_assert_eq!(outcome, Outcome::Absent);
                    break;
                }
                Verdict::Stop(_) => {
                    prop_assert!(!gives_every_reply);
                    break;
                }
                Verdict::Store => {
                    prop_assert!(matches!(attempt, Any::Reply(200..=299, ..)));
                    break;
                }
                Verdict::Redirect => prop_assert!(false, "no redirect may be followed"),
            }
            prop_assert!(corrections <= limits::CORRECTIONS_MAX);
            prop_assert!(forgiven <= limits::FORGIVEN_SHARED_MAX + limits::REFUSALS_MAX);
            prop_assert!(counted < attempts_max);
        }
    }

    #[test]
    fn any_head_can_be_searched(head in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = field_in(&head, b"date:");
    }
}
