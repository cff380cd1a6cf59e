//! Decides when a reply can safely be matched to its request.
//!
//! HTTP/1.1 replies are not numbered: a reply answers the oldest request that has no reply yet. If a server sends one
//! reply too many, all later replies on the connection shift by one. Each object then gets the bytes of its neighbour.
//! The client notices the extra reply only at the end, when a reply arrives although no request is in flight. Replies
//! are therefore held until their connection has been silent for a while
//! ([docs/internals/decisions/0023](../../../../docs/internals/decisions/0023-replies-are-held-until-they-are-certain.md)).
//!
//! This module does no I/O and has no clock. All times are microseconds on one monotonic clock.

use crate::limits::RESTING_SHARE;

/// Microseconds on a monotonic clock.
pub type MonotonicMicros = u64;

/// Minimum silence. An unsolicited reply is noticed if it arrives within this time after the previous reply.
pub const SILENCE_MIN: MonotonicMicros = 50_000;
/// Maximum rest of a connection. If a longer rest would be needed, the server is asked to close the connection instead.
pub const REST_MAX: MonotonicMicros = 1_000_000;
/// Maximum time for which replies are collected before the connection rests.
pub const WINDOW_MAX: MonotonicMicros = 1_000_000;
/// The first window of a connection is shortened at random, but not below this fraction of a window.
const FIRST_WINDOW: f64 = 0.25;
/// Multiplier that scrambles a number, so that the upper half of the product looks random. It is 2^64 divided by the
/// golden ratio (Knuth, The Art of Computer Programming, volume 3, 6.4).
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
/// Number of consecutive connections that a server must leave open before it counts as ignoring requests to close them.
const LEFT_OPEN_MIN: u32 = 4;
/// Number of replies after which a connection ends if its origin has sent an unsolicited reply.
pub const SUSPECT_REPLIES_MAX: u32 = 100;
/// Cost of a new connection in requests. Over loopback, a new connection costs as much CPU time as 4.5 requests. Over a
/// network, it costs as much time as one or two requests.
const CONNECTION_COST: f64 = 3.0;
/// Maximum number of replies in a short window. With short windows, connections rest so often that more of them are
/// allowed to rest at the same time.
const SHORT_WINDOW: u32 = 64;
/// Cost of a resting connection as a fraction of the cost of a working one. It is low because other connections work in
/// the meantime.
const IDLE_COST: f64 = 0.25;
/// Number of replies after which an origin counts as known. The first replies to arrive are the fastest ones.
const KNOWN_REPLIES: f64 = 64.0;
/// Length of a period in microseconds. The slowest reply of an origin is remembered for one to two periods.
const SLOWEST_KEPT: MonotonicMicros = 30_000_000;
/// If the number of requests in flight falls to this fraction, replies may arrive sooner than before.
const FAR_FEWER: f64 = 0.75;
/// Weight of one reply in the mean reply time of an origin.
const MEAN_WEIGHT: f64 = 1.0 / 16.0;
/// Number of replies after which half of the observed breaks are forgotten.
const BREAKS_KEPT: f64 = 4096.0;

/// Statistics of an origin's replies, as observed by one thread.
#[derive(Debug, Clone, Default)]
pub struct OriginReplies {
    mean: f64,
    slowest: MonotonicMicros,
    slowest_before: MonotonicMicros,
    slowest_since: MonotonicMicros,
    /// Number of replies that show how slow replies can be: those whose requests were sent after conditions last
    /// changed.
    known: f64,
    known_since: MonotonicMicros,
    /// Number of replies that are not forgotten yet. `breaks` counts breaks in the same way.
    replies: f64,
    breaks: f64,
    has_surplus: bool,
    /// Number of connections in a row that the server has left open although it was asked to close them.
    left_open: u32,
}

/// Replies on a connection since the last moment at which no other reply could be on its way.
#[derive(Debug, Clone, Copy, Default)]
pub struct ConnectionReplies {
    /// Number of replies since that moment.
    replies: u32,
    /// Number of replies since the connection was opened.
    total: u32,
    slowest: MonotonicMicros,
    /// Whether the connection has rested after several replies.
    has_collected: bool,
    /// Time at which the first request since that moment was sent.
    started: MonotonicMicros,
    /// Whether the last request asks the server to close the connection.
    is_ending: bool,
    /// Duration of the silence in the connection's last rest.
    rested_for: MonotonicMicros,
    /// Duration of the silence that the connection needs now.
    rests_for: MonotonicMicros,
}

/// Next step of a connection after a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextStep {
    /// The connection sends the next request.
    GoOn,
    /// The connection sends the next request as its last one, which asks the server to close the connection.
    LastRequest,
    /// The connection sends no request until it has been silent for this time.
    Rest(MonotonicMicros),
}

impl OriginReplies {
    /// Records a reply. `took` is the time from the first byte of the request to the last byte of the reply.
    pub fn note(&mut self, took: MonotonicMicros, now: MonotonicMicros) {
        self.note_batch(1, took, now);
    }

    /// Records a batch of `count` replies to requests that were sent together. In the mean, each reply is counted at
    /// its share of the total time. For the slowest reply, the total time is used, because any reply could have taken
    /// nearly all of it.
    pub fn note_batch(&mut self, count: u32, took: MonotonicMicros, now: MonotonicMicros) {
        self.replies += f64::from(count);
        if self.replies > BREAKS_KEPT {
            (self.replies, self.breaks) = (self.replies / 2.0, self.breaks / 2.0);
        }
        if now.saturating_sub(took) < self.known_since {
            return;
        }
        self.known += f64::from(count);
        let each = took as f64 / f64::from(count.max(1));
        self.mean += (each - self.mean) * if self.mean == 0.0 { 1.0 } else { MEAN_WEIGHT };
        if now.saturating_sub(self.slowest_since) > SLOWEST_KEPT {
            (self.slowest_before, self.slowest, self.slowest_since) = (self.slowest, 0, now);
        }
        self.slowest = self.slowest.max(took);
    }

    /// Records that the reply to an abandoned request did not begin before this time had passed.
    pub fn note_late(&mut self, took: MonotonicMicros) {
        self.slowest = self.slowest.max(took);
    }

    /// Records that the number of requests in flight changes from `before` to `requests`. If the number becomes far
    /// smaller, earlier replies were slow because of the other requests. The time of the slowest possible reply is then
    /// as unknown as it was at the start. A connection's own observations still count for that connection.
    pub fn note_fewer(&mut self, before: usize, requests: usize, now: MonotonicMicros) {
        if requests as f64 > before as f64 * FAR_FEWER {
            return;
        }
        (self.slowest, self.slowest_before, self.slowest_since) = (0, 0, now);
        (self.known, self.known_since) = (0.0, now);
    }

    /// Returns how many requests may be sent together on a connection that has received its first reply. This is the
    /// number of replies that the connection can still receive before it rests or ends.
    pub fn batch_max(&self, of: &ConnectionReplies) -> u32 {
        if of.is_ending {
            return 1;
        }
        let until_end =
            if self.has_surplus { SUSPECT_REPLIES_MAX.saturating_sub(of.total + 1) } else { u32::MAX };
        until_end.min(self.window_replies().saturating_sub(of.replies)).max(1)
    }

    /// Records that a connection broke or received an unsolicited reply, so that its held replies were lost.
    pub fn note_break(&mut self) {
        self.breaks += 1.0;
    }

    /// Records an unsolicited reply.
    pub fn note_surplus(&mut self) {
        self.has_surplus = true;
        self.note_break();
    }

    /// Records whether the server closed a connection soon after it was asked to do so.
    pub fn note_end(&mut self, is_closed: bool) {
        self.left_open = if is_closed { 0 } else { self.left_open.saturating_add(1) };
    }

    /// Returns whether the server ignores requests to close connections. A single connection that stays open may simply
    /// be closed late.
    fn keeps_open(&self) -> bool {
        self.left_open >= LEFT_OPEN_MIN
    }

    /// Returns whether connections break so often that windows are short.
    pub fn breaks_often(&self) -> bool {
        self.window_replies() <= SHORT_WINDOW
    }

    /// Returns whether the origin has ever sent an unsolicited reply.
    pub fn has_surplus(&self) -> bool {
        self.has_surplus
    }

    fn slowest(&self) -> MonotonicMicros {
        self.slowest.max(self.slowest_before)
    }

    /// Returns the number of replies in a window if connections break. With n replies per connection, each reply costs
    /// `CONNECTION_COST` / n requests for the connection, plus n / 2 x (breaks per reply) repeated requests. The total
    /// time is minimal at the square root of twice the quotient `CONNECTION_COST` / (breaks per reply). The square root
    /// of the quotient itself costs 6 % more time but repeats 29 % fewer requests, which reduces the load on the
    /// server.
    fn window_replies(&self) -> u32 {
        if self.breaks == 0.0 {
            return u32::MAX;
        }
        (CONNECTION_COST * self.replies.max(1.0) / self.breaks).sqrt().max(1.0) as u32
    }

    /// Returns how long replies are collected. Connections that were opened together would normally also rest together
    /// every second, and other connections would be opened in their place. The first window of each connection is
    /// therefore shortened at random, but not below the length of its rest.
    fn window(&self, of: &ConnectionReplies) -> MonotonicMicros {
        if of.has_collected {
            return WINDOW_MAX;
        }
        let chance = (of.started.wrapping_mul(GOLDEN) >> 32) as f64 / f64::from(u32::MAX);
        let first = WINDOW_MAX as f64 * (FIRST_WINDOW + (1.0 - FIRST_WINDOW) * chance);
        (first as MonotonicMicros).max(self.silence_of_many()).min(WINDOW_MAX)
    }

    /// Returns whether a short rest after each reply costs less time than a long rest after many replies. After a
    /// single reply, a short rest is enough, because the reply cannot belong to another request.
    fn rests_after_each(&self) -> bool {
        if self.rests_too_much() {
            return false;
        }
        let long = self.silence_of_many().min(REST_MAX) as f64 + self.lost_in_window() / IDLE_COST;
        self.mean * long >= SILENCE_MIN as f64 * WINDOW_MAX as f64
    }

    /// Returns whether more connections would have to rest than are allowed to, even with the cheaper kind of rest.
    /// Requests would then wait for these connections, so connections end instead. If breaks make windows short, more
    /// connections are allowed to rest.
    fn rests_too_much(&self) -> bool {
        if self.keeps_open() || self.known < KNOWN_REPLIES || self.breaks_often() {
            return false;
        }
        let (after_each, after_window) =
            (SILENCE_MIN as f64 / self.mean, self.silence_of_many() as f64 / WINDOW_MAX as f64);
        after_each.min(after_window) * RESTING_SHARE as f64 > 1.0
    }

    /// Returns whether a connection with one reply rests immediately because little is known about the origin. Later
    /// replies may be slower, and several held replies could then need a longer silence than a drain allows. A
    /// connection with several replies must continue, because the necessary silence is not known yet.
    fn is_new(&self, of: &ConnectionReplies) -> bool {
        self.known < KNOWN_REPLIES && self.slowest() >= SILENCE_MIN && of.replies <= 1
    }

    /// Returns the cost of breaks per window: the repeated requests, and a new connection if breaks shorten the window.
    /// The cost is 0 for an origin that is not known yet. After several replies, a connection must not rest until the
    /// time of the slowest possible reply is known.
    fn lost_in_window(&self) -> f64 {
        if self.breaks == 0.0 || self.known < KNOWN_REPLIES {
            return 0.0;
        }
        let (in_time, replies) = (WINDOW_MAX as f64 / self.mean, f64::from(self.window_replies()));
        let connection = if replies < in_time { CONNECTION_COST / replies } else { 0.0 };
        let again = replies.min(in_time) / 2.0 * self.breaks / self.replies.max(1.0);
        (connection + again) * WINDOW_MAX as f64
    }

    /// Returns how long a connection must stay silent after several replies. If replies were shifted, one more reply is
    /// still to come, and it arrives within the usual time of a reply.
    fn silence_of_many(&self) -> MonotonicMicros {
        (2 * self.slowest()).max(SILENCE_MIN)
    }

    /// Returns how long a connection without requests in flight must stay silent before its replies are certain. A few
    /// replies do not show how slow replies can be, because a missing reply can be the slowest one.
    pub fn silence(&self, of: &ConnectionReplies) -> MonotonicMicros {
        self.silence_while(of, 0)
    }

    /// Returns how long a connection must stay silent if a request to the origin on another connection has already been
    /// waiting for `waiting`. If there are only a few replies so far, a missing reply can be as slow as that request.
    pub fn silence_while(&self, of: &ConnectionReplies, waiting: MonotonicMicros) -> MonotonicMicros {
        if of.replies <= 1 {
            return SILENCE_MIN;
        }
        let is_known = self.known >= KNOWN_REPLIES;
        let may_be_slow = !is_known && self.slowest() >= SILENCE_MIN;
        let least = if may_be_slow { REST_MAX } else { 0 };
        let waiting = if is_known { 0 } else { 2 * waiting };
        self.silence_of_many().max(2 * of.slowest).max(waiting).max(least)
    }

    /// Returns how long a connection must stay silent after its server was asked to close it. Normally the server
    /// closes the connection soon, which makes the replies certain. If the server leaves it open, only silence makes
    /// them certain. Until `KNOWN_REPLIES` replies have arrived, the time of the slowest possible reply is unknown.
    pub fn silence_of_end(&self, of: &ConnectionReplies) -> MonotonicMicros {
        let least = if self.known < KNOWN_REPLIES && of.replies > 1 { REST_MAX } else { 0 };
        self.silence(of).max(least)
    }

    /// Returns whether the replies become certain sooner after a last request than after a rest. The last request asks
    /// the server to close the connection.
    pub fn ends_sooner(&self, of: &ConnectionReplies) -> bool {
        !self.keeps_open() && self.silence(of) > REST_MAX
    }

    /// Returns the next step of a connection after a reply. `is_full` states whether the connection holds the maximum
    /// number of bytes.
    pub fn next_step(&self, of: &ConnectionReplies, is_full: bool, now: MonotonicMicros) -> NextStep {
        let is_used_up = self.has_surplus && of.total + 1 >= SUSPECT_REPLIES_MAX;
        let is_due = is_full
            || is_used_up
            || now.saturating_sub(of.started) >= self.window(of)
            || of.replies >= self.window_replies()
            || self.is_new(of)
            || self.rests_after_each();
        if !is_due {
            return NextStep::GoOn;
        }
        let silence = self.silence(of);
        // If the window was shorter than the rest would be, opening a new connection costs less time, unless the server
        // keeps the old connection open.
        let is_slower =
            self.rests_too_much() || !self.keeps_open() && self.mean * f64::from(of.replies) < silence as f64;
        let may_end = is_used_up || of.replies > 1 && (is_slower || self.has_surplus);
        // A full connection should receive no more replies. It receives one more only if its rest would be too long.
        if silence > REST_MAX || may_end && !is_full {
            NextStep::LastRequest
        } else {
            NextStep::Rest(silence)
        }
    }
}

impl ConnectionReplies {
    /// Records that a request is being sent.
    pub fn start(&mut self, now: MonotonicMicros) {
        if self.replies == 0 {
            self.started = now;
        }
    }

    /// Records a complete reply.
    pub fn note(&mut self, took: MonotonicMicros) {
        self.note_batch(1, took);
    }

    /// Records a batch of `count` complete replies.
    pub fn note_batch(&mut self, count: u32, took: MonotonicMicros) {
        self.replies += count;
        self.total += count;
        self.slowest = self.slowest.max(took);
    }

    /// Records how long the connection must be silent now.
    pub fn rest_for(&mut self, silence: MonotonicMicros) {
        self.rests_for = silence;
    }

    /// Records that the connection was silent for long enough that no other reply can be on its way.
    pub fn rested(&mut self) {
        self.rested_for = self.rests_for;
        self.has_collected |= self.replies > 1;
        (self.replies, self.slowest) = (0, 0);
    }

    /// Returns whether the last rest was too short, because a later reply was slower than the rest allowed for.
    pub fn outlasts_rest(&self) -> bool {
        self.rested_for > 0 && 2 * self.slowest > self.rested_for
    }

    /// Records that the next request is the last one on this connection.
    pub fn end_with_next(&mut self) {
        self.is_ending = true;
    }

    /// Returns whether the next request will ask the server to close the connection, or whether the last request has
    /// already asked for this.
    pub fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// Returns the number of replies since the last rest.
    pub fn replies(&self) -> u32 {
        self.replies
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planner::retry::Jitter;

    const MILLI: MonotonicMicros = 1000;

    fn origin(took: MonotonicMicros, replies: u64) -> OriginReplies {
        let mut origin = OriginReplies::default();
        (0..replies).for_each(|number| origin.note(took, number * took));
        origin
    }

    fn connection(took: MonotonicMicros, replies: u32) -> ConnectionReplies {
        let mut connection = ConnectionReplies::default();
        for _ in 0..replies {
            connection.start(0);
            connection.note(took);
        }
        connection
    }

    #[test]
    fn fast_replies_are_collected_for_a_second() {
        let origin = origin(300, 1000);
        let mut collected = connection(300, 1000);
        collected.rested();
        collected.start(0);
        collected.note(300);

        assert_eq!(origin.next_step(&collected, false, 999 * MILLI), NextStep::GoOn);
        assert_eq!(origin.next_step(&collected, false, 1000 * MILLI), NextStep::Rest(SILENCE_MIN));
        assert_eq!(origin.next_step(&collected, true, MILLI), NextStep::Rest(SILENCE_MIN));
    }

    #[test]
    fn connections_that_begin_together_rest_one_after_the_other() {
        let origin = origin(300, 1000);
        let first_rest = |started| {
            let mut connection = ConnectionReplies::default();
            connection.start(started);
            connection.note(300);
            (0..=1000)
                .find(|milli| origin.next_step(&connection, false, started + milli * MILLI) != NextStep::GoOn)
        };
        let mut in_tenths = [0; 11];
        for number in 0..1000 {
            let rest = first_rest(7_000_000 + 30 * number).expect("a rest within a second");
            in_tenths[rest as usize / 100] += 1;
        }

        // No connection rests in the first quarter of a second. After that, the same number of connections rests in
        // each tenth of a second.
        assert_eq!(in_tenths[..2], [0, 0]);
        assert!(in_tenths[3..10].iter().all(|count| (100..170).contains(count)), "{in_tenths:?}");
    }

    #[test]
    fn a_first_window_is_no_shorter_than_its_rest() {
        let origin = origin(400 * MILLI, 1000);

        assert_eq!(origin.window(&connection(400 * MILLI, 2)), 800 * MILLI);
    }

    #[test]
    fn a_rest_is_twice_the_slowest_reply() {
        let origin = origin(100 * MILLI, 64);

        assert_eq!(
            origin.next_step(&connection(100 * MILLI, 10), false, 1000 * MILLI),
            NextStep::Rest(200 * MILLI)
        );
    }

    #[test]
    fn few_replies_do_not_tell_how_slow_the_missing_one_may_be() {
        let several = connection(60 * MILLI, 2);

        assert_eq!(origin(60 * MILLI, 3).silence(&several), REST_MAX);
        assert_eq!(
            origin(60 * MILLI, 3).silence(&connection(60 * MILLI, 1)),
            SILENCE_MIN,
            "it is no other's"
        );
        assert_eq!(origin(60 * MILLI, 64).silence(&several), 120 * MILLI);
        assert_eq!(origin(MILLI, 3).silence(&connection(MILLI, 2)), SILENCE_MIN);
    }

    #[test]
    fn while_few_replies_are_known_those_that_are_waited_for_count() {
        let several = connection(20 * MILLI, 2);

        assert_eq!(origin(20 * MILLI, 2).silence_while(&several, 0), SILENCE_MIN);
        assert_eq!(origin(20 * MILLI, 2).silence_while(&several, 95 * MILLI), 190 * MILLI);
        assert_eq!(origin(20 * MILLI, 2).silence_while(&connection(20 * MILLI, 1), 95 * MILLI), SILENCE_MIN);
        assert_eq!(origin(20 * MILLI, 64).silence_while(&several, 95 * MILLI), SILENCE_MIN);
    }

    #[test]
    fn slow_replies_rest_one_by_one_and_shortly() {
        let origin = origin(200 * MILLI, 10);

        assert_eq!(
            origin.next_step(&connection(200 * MILLI, 1), false, 200 * MILLI),
            NextStep::Rest(SILENCE_MIN)
        );
    }

    #[test]
    fn the_first_replies_rest_one_by_one_where_slower_ones_may_follow() {
        let one = connection(60 * MILLI, 1);

        assert_eq!(origin(60 * MILLI, 1).next_step(&one, false, 0), NextStep::Rest(SILENCE_MIN));
        assert_eq!(origin(60 * MILLI, 64).next_step(&one, false, 0), NextStep::GoOn);
        assert_eq!(origin(MILLI, 1).next_step(&one, false, 0), NextStep::GoOn);
        let several = connection(60 * MILLI, 2);
        assert_eq!(
            origin(60 * MILLI, 2).next_step(&several, false, 0),
            NextStep::GoOn,
            "slower replies may follow"
        );
    }

    #[test]
    fn a_rest_that_would_be_too_long_is_an_end_instead() {
        let mut origin = origin(MILLI, 1000);
        origin.note(2000 * MILLI, 1_000_000);

        assert_eq!(origin.next_step(&connection(MILLI, 900), false, 1000 * MILLI), NextStep::LastRequest);
        assert!(origin.ends_sooner(&connection(MILLI, 900)) && !origin.ends_sooner(&connection(MILLI, 1)));
        // The slowest reply is forgotten after a minute.
        origin.note(MILLI, 40_000 * MILLI);
        origin.note(MILLI, 80_000 * MILLI);
        assert_eq!(
            origin.next_step(&connection(MILLI, 900), false, 1000 * MILLI),
            NextStep::Rest(SILENCE_MIN)
        );
    }

    #[test]
    fn connections_end_if_too_many_would_have_to_rest() {
        let steps = |took, keeps_open: bool| {
            let mut origin = origin(took, 1000);
            origin.note(2500 * MILLI, 1_000_000);
            (0..100).for_each(|_| origin.note(took, 1_000_000));
            (0..LEFT_OPEN_MIN).for_each(|_| origin.note_end(!keeps_open));
            [(1, 200), (10, 1000)]
                .map(|(replies, milli)| origin.next_step(&connection(took, replies), false, milli * MILLI))
        };

        assert_eq!(steps(60 * MILLI, false), [NextStep::GoOn, NextStep::LastRequest]);
        // With a rest after each reply, one connection rests for every two working ones, which is allowed.
        assert_eq!(steps(110 * MILLI, false)[0], NextStep::Rest(SILENCE_MIN));
        assert_eq!(steps(60 * MILLI, true)[0], NextStep::Rest(SILENCE_MIN));
    }

    #[test]
    fn what_was_slow_because_of_too_many_requests_is_forgotten() {
        let mut origin = origin(50 * MILLI, 1000);
        origin.note(2000 * MILLI, 50_000 * MILLI);
        let several = connection(50 * MILLI, 10);
        assert_eq!(origin.silence(&several), 4000 * MILLI);

        origin.note_fewer(1000, 900, 51_000 * MILLI);
        assert_eq!(origin.silence(&several), 4000 * MILLI, "the number is hardly smaller");
        origin.note_fewer(1000, 700, 51_000 * MILLI);
        // This reply answers an earlier request.
        origin.note(1500 * MILLI, 51_500 * MILLI);
        assert_eq!(origin.silence_of_end(&several), REST_MAX, "little is known");
        for number in 0..64 {
            origin.note(50 * MILLI, (51_600 + number) * MILLI);
        }
        assert_eq!(origin.silence(&several), 100 * MILLI);
        assert_eq!(
            origin.silence(&connection(1500 * MILLI, 2)),
            3000 * MILLI,
            "this connection has seen slow replies"
        );
    }

    #[test]
    fn a_full_connection_rests_unless_that_would_take_too_long() {
        let mut origin = origin(MILLI, 1000);
        let full = connection(MILLI, 10);
        assert_eq!(origin.next_step(&full, true, 10 * MILLI), NextStep::Rest(SILENCE_MIN));

        origin.note(400 * MILLI, 1000 * MILLI);
        assert_eq!(origin.next_step(&full, true, 1000 * MILLI), NextStep::Rest(800 * MILLI));

        origin.note(600 * MILLI, 1000 * MILLI);
        assert_eq!(origin.next_step(&full, true, 1000 * MILLI), NextStep::LastRequest);
        assert_eq!(
            origin.next_step(&connection(600 * MILLI, 1), true, 1000 * MILLI),
            NextStep::Rest(SILENCE_MIN),
            "a single reply is certain soon"
        );
    }

    #[test]
    fn a_connection_that_does_not_end_is_listened_to_for_longer_while_little_is_known() {
        let several = connection(MILLI, 3);

        assert_eq!(origin(MILLI, 3).silence_of_end(&several), REST_MAX);
        assert_eq!(origin(MILLI, 3).silence_of_end(&connection(MILLI, 1)), SILENCE_MIN);
        assert_eq!(origin(MILLI, 64).silence_of_end(&several), SILENCE_MIN);
        assert_eq!(origin(3000 * MILLI, 3).silence_of_end(&several), 6000 * MILLI);
    }

    #[test]
    fn after_a_surplus_connections_end_after_a_hundred_replies() {
        let mut origin = origin(300, 1_000_000);
        origin.note_surplus();
        // By then, the break is forgotten, but the unsolicited reply is not.
        (0..40_000).for_each(|number| origin.note(300, 300_000_000 + number));

        assert_eq!(origin.next_step(&connection(300, 98), false, MILLI), NextStep::GoOn);
        assert_eq!(origin.next_step(&connection(300, 99), false, MILLI), NextStep::LastRequest);
    }

    #[test]
    fn breaks_make_windows_short() {
        let mut origin = OriginReplies::default();
        for number in 0..20_000_u64 {
            origin.note(MILLI, number);
            if number % 200 == 0 {
                origin.note_break();
            }
        }

        let replies = origin.window_replies();
        assert!((21..=28).contains(&replies), "{replies}");
        // The replies took less time than a rest would, so a new connection costs less.
        assert_eq!(origin.next_step(&connection(MILLI, replies), false, MILLI), NextStep::LastRequest);
        assert!(origin.breaks_often() && !OriginReplies::default().breaks_often());
    }

    #[test]
    fn a_server_that_keeps_connections_open_is_not_asked_to_close_them() {
        let mut origin = origin(MILLI, 1000);
        (0..5).for_each(|_| origin.note_break());
        let full = connection(MILLI, origin.window_replies());

        (1..LEFT_OPEN_MIN).for_each(|_| origin.note_end(false));
        assert_eq!(origin.next_step(&full, false, MILLI), NextStep::LastRequest, "the server may be slow");
        origin.note_end(false);
        assert_eq!(origin.next_step(&full, false, MILLI), NextStep::Rest(SILENCE_MIN));

        origin.note_end(true);
        assert_eq!(origin.next_step(&full, false, MILLI), NextStep::LastRequest);
    }

    #[test]
    fn slow_replies_rest_one_by_one_where_connections_break() {
        let mut origin = origin(100 * MILLI, 1000);
        let connection = connection(100 * MILLI, 1);
        assert_eq!(origin.next_step(&connection, false, 0), NextStep::GoOn);

        (0..30).for_each(|_| origin.note_break());

        assert_eq!(origin.next_step(&connection, false, 0), NextStep::Rest(SILENCE_MIN));
    }

    #[test]
    fn an_early_break_lets_no_reply_rest_behind_others_before_the_slowest_is_known() {
        let mut origin = origin(50 * MILLI, 20);
        origin.note_break();

        assert_eq!(origin.next_step(&connection(50 * MILLI, 2), false, 0), NextStep::GoOn);
    }

    /// Simulates one connection in virtual time. Requests are sent one by one, or in batches of `at_once`. An
    /// unsolicited reply arrives `late` microseconds after one of the replies. Returns whether each reply that was
    /// declared certain belongs to its request.
    fn is_right(
        service: &mut dyn FnMut() -> MonotonicMicros,
        stray_after: u32,
        late: MonotonicMicros,
        at_once: u32,
    ) -> bool {
        let mut origin = OriginReplies::default();
        let mut connection = ConnectionReplies::default();
        let (mut now, mut sent) = (0, 0_u32);
        // Replies on their way, each with its arrival time and the request that it answers.
        let mut coming: std::collections::VecDeque<(MonotonicMicros, Option<u32>)> =
            std::collections::VecDeque::new();
        let mut held: Vec<bool> = Vec::new();
        for _ in 0..2000 {
            let count = if sent == 0 { 1 } else { at_once.min(origin.batch_max(&connection)) };
            let (first, began) = (sent + 1, now);
            connection.start(now);
            for _ in 0..count {
                sent += 1;
                let after = coming.back().map_or(now, |(at, _)| *at).max(now) + service();
                coming.push_back((after, Some(sent)));
                if sent == stray_after {
                    coming.push_back((after + late, None));
                }
            }
            for asked in first..=sent {
                let Some((at, answers)) = coming.pop_front() else { return true };
                now = now.max(at);
                held.push(answers == Some(asked));
            }
            // After a batch, check which replies have arrived.
            if at_once > 1 && coming.front().is_some_and(|(at, _)| *at <= now) {
                return true;
            }
            connection.note_batch(count, now - began);
            origin.note_batch(count, now - began, now);
            match origin.next_step(&connection, false, now) {
                NextStep::GoOn => {}
                NextStep::LastRequest => return true,
                NextStep::Rest(silence) => {
                    if coming.front().is_some_and(|(at, _)| *at <= now + silence) {
                        return true;
                    }
                    if held.drain(..).any(|own| !own) {
                        return false;
                    }
                    now += silence;
                    connection.rested();
                }
            }
        }
        true
    }

    #[test]
    fn no_reply_of_another_request_is_called_certain_while_the_rule_holds() {
        let mut random = Jitter::new(7);
        for case in 0..3000 {
            let late = random.draw() % SILENCE_MIN;
            let stray_after = 1 + (random.draw() % 300) as u32;
            let base = [300, 20 * MILLI, 200 * MILLI][case % 3];
            for at_once in [1, 2 + (random.draw() % 31) as u32] {
                assert!(
                    is_right(&mut || base, stray_after, late, at_once),
                    "case {case}: {base}, {stray_after}, {late}, {at_once} at once"
                );
                let mut uniform = Jitter::new(random.draw());
                assert!(
                    is_right(&mut || uniform.draw() % (300 * MILLI), stray_after, late, at_once),
                    "case {case}: 0 to 300 ms, {stray_after}, {late}, {at_once} at once"
                );
            }
        }
    }
}
