//! Rules for how long to wait for a reply before the request is repeated on another connection.
//!
//! Options limit the time of an attempt, for example to 30 s for a head. If replies take a millisecond and one request
//! in 2,000 hangs, the hanging requests could occupy all request slots within that time. A request that takes far
//! longer than its origin's other replies is therefore abandoned if later requests have been answered in the meantime.
//! It is then repeated on a new connection. Few requests are repeated, and none while the origin refuses requests
//! ([docs/internals/decisions/0064](../../../../docs/internals/decisions/0064-slow-requests-are-made-again.md)).
//!
//! This module does no I/O and has no clock.

use crate::planner::origin::Millis;
use crate::reply::certainty::MonotonicMicros;

/// Shortest wait for a reply in milliseconds, until a request has been abandoned.
const FIRST: Millis = 100;
/// Lower bound of the shortest wait, which is reached if repeated requests are answered immediately.
const LEAST: Millis = 50;
/// Upper bound of the shortest wait, which is reached if the replies to repeated requests are also slow.
const MOST: Millis = 1_000;
/// Lower and upper bound for the wait for a reply, as multiples of the origin's mean reply time. Between these bounds,
/// the wait is the mean plus a multiple of the mean deviation. The wait is therefore shorter for an origin with even
/// reply times than for an origin whose reply times vary.
const MEANS: f64 = 4.0;
const MEANS_MAX: f64 = 8.0;
const DEVIATIONS: f64 = 9.0;
/// Weight of one reply in the mean and in the mean deviation.
const WEIGHT: f64 = 1.0 / 16.0;
/// A reply time is capped at this multiple of the mean. Otherwise, the few replies that are far slower would prolong
/// the wait.
const OUTLIER: f64 = 4.0;
/// Number of replies, or of listing pages, after which the mean is well known.
const KNOWN_REPLIES: u64 = 64;
const KNOWN_PAGES: u64 = 4;
/// Number of replies, or of listing pages, after which the mean is approximately known. Until it is well known, the
/// wait is at least [`MOST`].
const KNOWN_A_LITTLE: u64 = 4;
const KNOWN_A_LITTLE_PAGES: u64 = 1;
/// A reply to a repeated request is fast if it takes at most the shortest wait divided by this number. It is slow if it
/// takes more than [`SLOW`] times the mean.
const FAST: Millis = 8;
const SLOW: f64 = 2.0;
/// Each further wait for the same target is longer by this factor.
const LONGER: Millis = 4;
/// Maximum number of abandoned requests for one target.
const TIMES_MAX: u32 = 3;
/// Number of extra requests that each reply allows. A listing page allows more, because there are few pages and all
/// objects wait if one of them hangs. For the same reason, a page that has waited for [`MOST`] is repeated even if no
/// extra request is left.
const EXTRA: f64 = 0.02;
const EXTRA_PAGES: f64 = 1.0 / 3.0;
/// Number of extra requests that are allowed before any reply, so that the first extra request is possible after a few
/// replies. Listing pages start on several connections, some of which may never reply.
const EXTRA_FIRST: f64 = 1.0;
const EXTRA_FIRST_PAGES: f64 = 4.0;
/// Maximum number of extra requests that can accumulate.
const EXTRA_MAX: f64 = 200.0;
/// Number of later requests that must have been answered. If fewer were answered, the origin or this machine may only
/// be pausing, which delays all replies.
const OVERTAKEN_BY: u64 = 64;
/// With up to this number of requests in flight, no later reply is needed, because no request follows the last requests
/// of a job. With more requests in flight and too few later replies, the wait is multiplied by [`LONGER`].
const LAST: usize = 4;
/// Milliseconds after a refusal during which no request is repeated.
const REFUSED: Millis = 10_000;

/// Reply times of one origin, as measured by one thread. See the module.
#[derive(Debug, Clone)]
pub struct Patience {
    /// The shortest wait for a reply.
    least: Millis,
    /// Mean reply time in microseconds.
    mean: f64,
    /// Mean difference between a reply time and the mean, in microseconds.
    deviation: f64,
    replies: u64,
    /// Number of requests in flight that can be abandoned.
    out: usize,
    /// Number of extra requests that may be made now.
    extra: f64,
    /// Number of extra requests that each reply adds.
    extra_each: f64,
    /// Wait after which a request may be repeated even if no extra request is left.
    always_after: Millis,
    /// Number of replies after which the mean is approximately known.
    known_a_little: u64,
    /// Number of replies after which the mean is well known.
    known: u64,
    /// Time before which no request is repeated.
    refused_until: Millis,
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            least: FIRST,
            mean: 0.0,
            deviation: 0.0,
            replies: 0,
            out: 0,
            extra: EXTRA_FIRST,
            extra_each: EXTRA,
            always_after: Millis::MAX,
            known_a_little: KNOWN_A_LITTLE,
            known: KNOWN_REPLIES,
            refused_until: 0,
        }
    }
}

impl Patience {
    /// Creates the state for listing pages.
    pub fn of_pages() -> Self {
        Patience {
            extra: EXTRA_FIRST_PAGES,
            extra_each: EXTRA_PAGES,
            always_after: MOST,
            known_a_little: KNOWN_A_LITTLE_PAGES,
            known: KNOWN_PAGES,
            ..Patience::default()
        }
    }

    /// Records `count` replies to requests that were sent together. All replies arrived within `took`.
    pub fn note_replies(&mut self, count: u32, took: MonotonicMicros) {
        let each = took as f64 / f64::from(count.max(1));
        if self.replies == 0 {
            self.mean = each;
        } else {
            let difference = each.min(self.mean * OUTLIER) - self.mean;
            self.mean += difference * WEIGHT;
            self.deviation += (difference.abs() - self.deviation) * WEIGHT;
        }
        self.replies += u64::from(count);
        self.extra = (self.extra + f64::from(count) * self.extra_each).min(EXTRA_MAX);
    }

    /// Records that the origin refused a request because it received too many.
    pub fn note_refused(&mut self, now: Millis) {
        self.refused_until = now + REFUSED;
    }

    /// Records how long the reply to a repeated request took. A fast reply shows that the wait was too long. A slow one
    /// shows that it was too short.
    pub fn note_made_again(&mut self, took: MonotonicMicros) {
        if took / 1000 * FAST <= self.least {
            self.least = (self.least / 2).max(LEAST);
        } else if took as f64 > self.mean * SLOW {
            self.least = (self.least * 2).min(MOST);
        }
    }

    /// Records a new request in flight that can be abandoned. Returns the number of replies so far.
    pub fn begin(&mut self) -> u64 {
        self.out += 1;
        self.replies
    }

    /// Records that a request recorded by [`Patience::begin`] has ended.
    pub fn end(&mut self) {
        self.out -= 1;
    }

    /// Decides whether to abandon a request that has received nothing since `since`. `times` is the number of earlier
    /// abandoned requests for the same target. `before` is the number of replies received before the request was sent.
    /// If the request is abandoned, one extra request is used up.
    pub fn abandons(&mut self, since: Millis, times: u32, before: u64, now: Millis) -> bool {
        let is_overtaken = self.replies.saturating_sub(before) >= OVERTAKEN_BY || self.out <= LAST;
        let wait = self.wait(if is_overtaken { times } else { times + 1 });
        let waited = now.saturating_sub(since);
        let abandons = self.replies >= self.known_a_little
            && waited >= wait
            && (self.extra >= 1.0 || waited >= self.always_after)
            && now >= self.refused_until;
        if abandons {
            self.extra = (self.extra - 1.0).max(0.0);
        }
        abandons
    }

    /// Returns whether another request for a target may be abandoned after `times` abandoned requests.
    pub fn may_abandon(times: u32) -> bool {
        times < TIMES_MAX
    }

    /// Returns whether a request should use a connection that has replied before, after `times` abandoned requests for
    /// the same target. New connections may never reply, for example if one of the server's processes hangs. Used
    /// connections can also be dead, for example because a firewall has forgotten them. Repeated requests therefore try
    /// both kinds.
    pub fn prefers_used(times: u32) -> bool {
        times == 2
    }

    /// Returns how long to wait for a reply in milliseconds after `times` abandoned requests.
    fn wait(&self, times: u32) -> Millis {
        let least = if self.replies < self.known { MOST } else { self.least };
        let usual = (self.mean + self.deviation * DEVIATIONS).clamp(self.mean * MEANS, self.mean * MEANS_MAX);
        least.max((usual / 1000.0) as Millis).saturating_mul(LONGER.pow(times))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A time longer than any wait, in milliseconds.
    const LONG: Millis = 1_000_000;

    fn after(replies: u32, took: MonotonicMicros) -> Patience {
        let mut patience = Patience::default();
        (0..replies).for_each(|_| patience.note_replies(1, took));
        patience
    }

    #[test]
    fn a_reply_is_waited_for_a_tenth_of_a_second_at_first_or_four_means() {
        assert_eq!(after(100, 500).wait(0), 100);
        assert_eq!(after(100, 500_000).wait(0), 2_000);
    }

    #[test]
    fn replies_that_vary_are_waited_for_longer_up_to_eight_means() {
        let mut patience = Patience::default();
        (0..1_000).for_each(|n| patience.note_replies(1, if n % 4 == 3 { 2_000_000 } else { 100_000 }));

        let means = patience.wait(0) as f64 / (patience.mean / 1000.0);

        assert!((7.9..=8.0).contains(&means), "{means}");
    }

    #[test]
    fn one_reply_in_a_hundred_that_is_far_slower_changes_the_wait_by_little() {
        let mut patience = Patience::default();
        (0..1_000).for_each(|n| {
            patience.note_replies(1, if n % 100 == 50 { 2_500_000 } else { 50_000 });
            assert!(n == 0 || patience.wait(0) <= 1_000, "{n}");
        });

        assert!((200..=220).contains(&patience.wait(0)), "{}", patience.wait(0));
    }

    #[test]
    fn an_origin_that_becomes_slower_is_waited_for_longer() {
        let mut patience = after(1_000, 50_000);

        (0..64).for_each(|_| patience.note_replies(1, 2_500_000));

        assert!(patience.wait(0) >= 8_000, "{}", patience.wait(0));
    }

    #[test]
    fn each_wait_for_a_target_is_longer_and_the_fourth_is_the_options() {
        let patience = after(100, 500);

        assert_eq!([0, 1, 2].map(|times| patience.wait(times)), [100, 400, 1_600]);
        assert_eq!([2, 3].map(Patience::may_abandon), [true, false]);
        assert_eq!([1, 2, 3].map(Patience::prefers_used), [false, true, false]);
    }

    #[test]
    fn fast_replies_to_requests_made_again_make_waits_shorter_and_slow_ones_longer() {
        let mut patience = after(100, 500);

        (0..9).for_each(|_| patience.note_made_again(2_000));
        assert_eq!(patience.wait(0), 50);

        patience.note_made_again(40_000);
        assert_eq!(patience.wait(0), 100);
        (0..9).for_each(|_| patience.note_made_again(900_000));
        assert_eq!(patience.wait(0), 1_000);
    }

    #[test]
    fn repeated_requests_that_are_as_fast_as_others_leave_waits_as_they_are() {
        let mut patience = after(100, 50_000);

        (0..9).for_each(|_| patience.note_made_again(60_000));

        assert_eq!((patience.wait(0), patience.least), (200, FIRST));
    }

    #[test]
    fn a_request_is_abandoned_when_its_wait_is_over_and_later_ones_have_replies() {
        let mut patience = after(1_000, 500);
        let before = (0..5).map(|_| patience.begin()).max().unwrap_or_default();

        (0..63).for_each(|_| patience.note_replies(1, 500));
        assert!(!patience.abandons(100, 0, before, 499));
        patience.note_replies(1, 500);
        assert!(!patience.abandons(100, 0, before, 199));
        assert!(patience.abandons(100, 0, before, 200));
    }

    #[test]
    fn without_later_replies_all_but_the_last_four_are_abandoned_after_four_waits() {
        let mut patience = after(1_000, 500);
        let before = (0..5).map(|_| patience.begin()).max().unwrap_or_default();
        assert!(!patience.abandons(0, 0, before, 399));
        assert!(patience.abandons(0, 0, before, 400));

        patience.end();

        assert!(patience.abandons(0, 0, before, 100));
    }

    #[test]
    fn nothing_is_abandoned_before_the_mean_is_known_and_after_few_replies_the_wait_is_a_second() {
        assert!(!after(3, 500).abandons(0, 0, 0, LONG));
        assert!(!after(4, 500).abandons(0, 0, 0, 999));
        assert!(after(4, 500).abandons(0, 0, 0, 1_000));
        assert!(!after(63, 500).abandons(0, 0, 0, 999));
        assert!(after(64, 500).abandons(0, 0, 0, 100));
    }

    #[test]
    fn pages_are_known_sooner_and_one_in_three_is_asked_for_again() {
        let mut pages = Patience::of_pages();
        let abandoned = (0..25).filter(|_| {
            pages.note_replies(1, 500);
            pages.abandons(0, 0, 0, 999)
        });

        // At the start, four more are allowed.
        assert_eq!(abandoned.count(), 12);
    }

    #[test]
    fn a_page_is_asked_for_again_after_a_second_although_none_is_left() {
        let mut pages = Patience::of_pages();
        (0..5).for_each(|_| pages.note_replies(1, 500));
        while pages.abandons(0, 0, 0, 999) {}

        assert!(pages.abandons(0, 0, 0, 1_000));
        assert!(pages.abandons(0, 0, 0, 1_000));
    }

    #[test]
    fn two_in_a_hundred_are_made_again_and_a_bounded_number_at_once() {
        let abandoned = |replies| {
            let mut patience = after(replies, 500);
            (0..1_000).filter(|_| patience.abandons(0, 0, 0, LONG)).count()
        };

        assert_eq!([abandoned(100), abandoned(1_000_000)], [3, 200]);
    }

    #[test]
    fn none_is_made_again_for_ten_seconds_after_a_refusal() {
        let mut patience = after(1_000, 500);

        patience.note_refused(5_000);

        assert!(!patience.abandons(0, 0, 0, 14_999));
        assert!(patience.abandons(0, 0, 0, 15_000));
    }
}
