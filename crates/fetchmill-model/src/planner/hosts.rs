//! The hosts of a multi-host job: how many requests each host may receive now, and which hosts are dead.
//!
//! The module has no clock: time is an argument. Each host belongs to one worker ([`HostId::worker`]), so a table has
//! one owner and needs no lock. A host consists of a scheme, a name and a port, like an [origin](super::origin).
//!
//! - Limits: requests in flight, and requests per second (the generic cell rate algorithm, ITU-T I.371).
//! - Throttling: after a 429 or 503, the host gets no requests until the time that it named. If it named no time, it
//!   rests, and each rest is twice as long as the one before it.
//! - Places: prompt hosts always get a place. While there are targets on prompt hosts, all other hosts share the
//!   remaining places, so slow hosts cannot take every place.
//! - Breaker: a host rests after several consecutive failures to reach it, if these are at least half of its latest
//!   results. After each rest, one target tests the host. If the number of failed tests reaches the number of attempts
//!   that a target may have, the host is dead. Its targets then fail without a request, with the failure kind that
//!   opened the breaker.

use std::collections::HashMap;

use super::origin::Millis;
use crate::limits;
use crate::outcome::{FailureClass, FailureKind};

/// Burst that a host may receive after a quiet time: as many requests as the rate allows in this time.
const BURST_MICROS: u64 = 100_000;
/// Number of results that are remembered for a host, one bit each.
const HISTORY: u32 = 20;

/// A host, identified by the hash of its origin. Two hosts with the same hash share their limits, which is harmless.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostId(u64);

impl HostId {
    /// Returns the host of a normalised URL.
    pub fn of_url(url: &[u8]) -> Self {
        HostId(xxhash_rust::xxh3::xxh3_64(origin_text(url)))
    }

    /// Returns the index of the worker that owns the host, out of `workers` workers.
    pub fn worker(self, workers: usize) -> usize {
        // Use the upper bits, because the lower bits determine the position in the tables.
        ((self.0 >> 32) % workers.max(1) as u64) as usize
    }

    /// Returns the host as a number that other code can store.
    pub fn number(self) -> u64 {
        self.0
    }

    /// Restores a host from [`HostId::number`].
    pub fn from_number(number: u64) -> Self {
        HostId(number)
    }
}

/// Returns `scheme://authority` of a normalised URL.
fn origin_text(url: &[u8]) -> &[u8] {
    let behind = memchr::memmem::find(url, b"://").map_or(0, |at| at + 3);
    let end = memchr::memchr(b'/', &url[behind..]).map_or(url.len(), |at| behind + at);
    &url[..end]
}

/// Limits that apply to every host.
#[derive(Debug, Clone, Copy)]
pub struct HostRules {
    /// Maximum number of requests in flight to a host. 0 means no limit.
    pub connections: u32,
    /// Maximum number of requests/s to a host. `None` means no limit.
    pub rate: Option<f64>,
    /// Number of tests of an unreachable host before it counts as dead.
    pub probes: u32,
    /// Time for which a dead host is not tested again.
    pub dead_for: Millis,
    /// Maximum number of hosts whose state is kept.
    pub held_max: usize,
    /// Maximum number of requests in flight to all hosts together. 0 means no limit.
    pub places: usize,
}

/// Whether a target of a host may start now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// The target may start. It counts as in flight until [`HostTable::left`].
    Go,
    /// The target may start after another target of the host has left.
    Full,
    /// The target may start after a target on another host has left, if that host is not known to be prompt
    /// ([`HostTable::has_room`]).
    Crowded,
    /// The target may start at this time, because the host's rate does not allow it earlier.
    Later(Millis),
    /// The target may start at this time, which is far in the future, because the host requested a pause or is resting.
    Resting(Millis),
    /// The target can never start, because the host is dead. Contains the failure kind.
    Closed(FailureKind),
}

/// Result of a request, as far as it concerns the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestOutcome {
    /// Nothing is known: there was no request, or its result says nothing about the host.
    Nothing,
    /// The host answered.
    Answer,
    /// The host throttles requests. Contains the time that the host named, if any.
    Throttled(Option<Millis>),
    /// There was no complete reply.
    Failure(FailureKind),
}

#[derive(Debug, Clone, Copy)]
struct HostState {
    /// Time at which the rate allows the next request, in microseconds.
    due: u64,
    not_before: Millis,
    /// Results of the latest requests, one bit per request. A set bit is a failure, and the lowest bit is the latest
    /// request. `seen` is the number of these requests, at most [`HISTORY`].
    history: u32,
    seen: u8,
    /// Number of consecutive failures to reach the host.
    failures: u8,
    /// Number of consecutive rests without an answer.
    rests: u8,
    kind: Option<FailureKind>,
    /// Whether the host is dead, which means that it is not tested for a long time.
    is_dead: bool,
    /// Start of the last rest.
    rested_at: Millis,
    /// Whether a target is currently testing the host.
    is_probed: bool,
    /// Whether the last reply was prompt.
    is_prompt: bool,
    in_flight: u32,
}

/// The hosts of a worker. See the module.
#[derive(Debug)]
pub struct HostTable {
    rules: HostRules,
    /// Time between two requests to a host, in microseconds. 0 means that there is no rate.
    interval: u64,
    known: HashMap<HostId, HostState>,
    /// Number of requests in flight to prompt hosts. `others` is the number for all other hosts.
    prompt: usize,
    others: usize,
    /// Time at which a target on a prompt host last asked to start.
    prompt_wanted_at: Option<Millis>,
}

impl HostState {
    fn new() -> Self {
        HostState {
            due: 0,
            not_before: 0,
            history: 0,
            seen: 0,
            failures: 0,
            rests: 0,
            kind: None,
            is_dead: false,
            rested_at: 0,
            is_probed: false,
            is_prompt: false,
            in_flight: 0,
        }
    }

    /// Returns whether the state of the host can be forgotten without any effect.
    fn is_plain(&self, now: Millis) -> bool {
        self.in_flight == 0
            && self.rests == 0
            && self.not_before <= now
            && self.due <= now.saturating_mul(1000)
    }

    fn remember(&mut self, has_failed: bool) {
        self.history = ((self.history << 1) | u32::from(has_failed)) & ((1 << HISTORY) - 1);
        self.seen = (self.seen + 1).min(HISTORY as u8);
    }

    /// Returns whether the breaker must open.
    fn cannot_be_reached(&self) -> bool {
        u32::from(self.failures) >= limits::HOST_FAILURES_MAX
            && self.history.count_ones() * 2 >= u32::from(self.seen)
    }
}

impl HostTable {
    /// Creates an empty table.
    pub fn new(rules: HostRules) -> Self {
        let interval = rules.rate.map_or(0, |rate| (1e6 / rate).clamp(1.0, 1e12) as u64);
        HostTable { rules, interval, known: HashMap::new(), prompt: 0, others: 0, prompt_wanted_at: None }
    }

    /// Returns why no target of a host may start now, or `None` if the host neither rests nor is dead. Unlike
    /// [`Self::admit`], this does not count a target as in flight.
    pub fn refusal(&self, id: HostId, now: Millis) -> Option<Admission> {
        let host = self.known.get(&id).filter(|host| now < host.not_before)?;
        Some(match host.kind {
            Some(kind) if host.is_dead => Admission::Closed(kind),
            _ => Admission::Resting(host.not_before),
        })
    }

    /// Allows a target to test a dead host again if the host's last rest began before the target was due.
    pub fn doubt(&mut self, id: HostId, due: Millis, now: Millis) {
        if let Some(host) = self.known.get_mut(&id).filter(|host| host.is_dead && host.rested_at < due) {
            host.not_before = host.not_before.min(now);
        }
    }

    /// Decides whether a target of a host may start now. If so, the target counts as in flight.
    pub fn admit(&mut self, id: HostId, now: Millis) -> Admission {
        if let Some(refusal) = self.refusal(id, now) {
            return refusal;
        }
        self.make_room(now);
        let has_room = self.has_room(now);
        let host = self.known.entry(id).or_insert_with(HostState::new);
        if host.is_prompt {
            self.prompt_wanted_at = Some(now);
        } else if !has_room {
            return Admission::Crowded;
        }
        if host.rests > 0 && host.kind.is_some() {
            if host.is_probed {
                return Admission::Full;
            }
            host.is_probed = true;
        } else if self.rules.connections > 0 && host.in_flight >= self.rules.connections {
            return Admission::Full;
        }
        let micros = now.saturating_mul(1000);
        if host.due > micros {
            host.is_probed = false;
            return Admission::Later(host.due.div_ceil(1000));
        }
        if self.interval > 0 {
            host.due = host.due.max(micros.saturating_sub(BURST_MICROS)) + self.interval;
        }
        host.in_flight += 1;
        *(if host.is_prompt { &mut self.prompt } else { &mut self.others }) += 1;
        Admission::Go
    }

    /// Returns whether a host that is not known to be prompt may have one more request in flight. While targets on
    /// prompt hosts keep arriving, prompt hosts get one more place than they use, up to a quarter of all places.
    pub fn has_room(&self, now: Millis) -> bool {
        let lately = limits::PROMPT_WITHIN.as_millis() as Millis;
        let is_wanted = self.prompt_wanted_at.is_some_and(|at| now.saturating_sub(at) < lately);
        let kept = (self.prompt + 1).min(self.rules.places / 4);
        self.rules.places == 0 || !is_wanted || self.others < self.rules.places - kept
    }

    /// Returns whether the last reply of a host was prompt.
    pub fn is_prompt(&self, id: HostId) -> bool {
        self.known.get(&id).is_some_and(|host| host.is_prompt)
    }

    /// Records that a target has left after being in flight for `took`.
    pub fn left_after(&mut self, id: HostId, seen: RequestOutcome, took: Millis, now: Millis) {
        let is_prompt = match seen {
            RequestOutcome::Nothing => None,
            RequestOutcome::Answer | RequestOutcome::Throttled(_) => {
                Some(took < limits::PROMPT_WITHIN.as_millis() as Millis)
            }
            RequestOutcome::Failure(_) => Some(false),
        };
        if let Some(host) = self.known.get_mut(&id)
            && let Some(is_prompt) = is_prompt.filter(|is_prompt| *is_prompt != host.is_prompt)
        {
            host.is_prompt = is_prompt;
            let count = host.in_flight as usize;
            let (from, to) = if is_prompt {
                (&mut self.others, &mut self.prompt)
            } else {
                (&mut self.prompt, &mut self.others)
            };
            *from -= count;
            *to += count;
        }
        self.left(id, seen, now);
    }

    /// Records that a target is no longer in flight.
    pub fn left(&mut self, id: HostId, seen: RequestOutcome, now: Millis) {
        let Some(host) = self.known.get_mut(&id) else { return };
        if host.in_flight > 0 {
            host.in_flight -= 1;
            *(if host.is_prompt { &mut self.prompt } else { &mut self.others }) -= 1;
        }
        self.note(id, seen, now);
    }

    /// Records a result for a host that has no target in flight, such as a failed name lookup.
    pub fn note(&mut self, id: HostId, seen: RequestOutcome, now: Millis) {
        let rules = self.rules;
        if matches!(seen, RequestOutcome::Failure(kind) if tells_of_host(kind))
            && !self.known.contains_key(&id)
        {
            self.make_room(now);
            self.known.insert(id, HostState::new());
        }
        let Some(host) = self.known.get_mut(&id) else { return };
        match seen {
            RequestOutcome::Nothing => host.is_probed = false,
            RequestOutcome::Answer => {
                host.remember(false);
                (host.failures, host.rests, host.kind, host.is_probed) = (0, 0, None, false);
            }
            RequestOutcome::Throttled(until) => {
                host.remember(false);
                (host.failures, host.is_probed) = (0, false);
                if host.kind.take().is_some() {
                    host.rests = 0;
                }
                if now >= host.not_before || until.is_some_and(|until| until > host.not_before) {
                    let rest = doubled(limits::THROTTLE_BASE, host.rests, limits::THROTTLE_CAP);
                    host.not_before = until.unwrap_or(now + rest).max(now + 1);
                    host.rests = host.rests.saturating_add(1);
                }
            }
            RequestOutcome::Failure(kind) if !tells_of_host(kind) => {
                host.remember(true);
                host.is_probed = false;
            }
            RequestOutcome::Failure(kind) => {
                host.remember(true);
                host.failures = host.failures.saturating_add(1);
                host.is_probed = false;
                // Requests sent before a rest may fail during the rest. Such failures show nothing new.
                if host.cannot_be_reached() && now >= host.not_before {
                    // If another attempt cannot help, a rest cannot help either.
                    let probes = if kind.is_retryable() { rules.probes } else { 0 };
                    host.rest(kind, probes, rules.dead_for, now);
                }
            }
        }
    }

    /// Returns the time between two requests to a host, in microseconds. 0 means that there is no rate.
    pub fn interval(&self) -> u64 {
        self.interval
    }

    /// Returns the earliest time at which a target that arrives now can start if `ahead` targets of the same host start
    /// before it. Used by callers that defer the target.
    pub fn outlook(&self, id: HostId, ahead: usize, now: Millis) -> Millis {
        let Some(host) = self.known.get(&id) else { return now };
        let by_rate =
            host.due.max(now.saturating_mul(1000)).saturating_add(self.interval.saturating_mul(ahead as u64));
        host.not_before.max(by_rate / 1000)
    }

    /// Forgets hosts whose state no longer matters. If too many hosts remain, forgets all hosts without requests in
    /// flight.
    fn make_room(&mut self, now: Millis) {
        if self.known.len() < self.rules.held_max {
            return;
        }
        self.known.retain(|_, host| !host.is_plain(now));
        if self.known.len() * 8 >= self.rules.held_max * 7 {
            self.known.retain(|_, host| host.in_flight > 0);
        }
    }
}

impl HostState {
    fn rest(&mut self, kind: FailureKind, probes: u32, dead_for: Millis, now: Millis) {
        self.kind.get_or_insert(kind);
        self.rests = self.rests.saturating_add(1);
        self.is_dead = u32::from(self.rests) > probes;
        self.rested_at = now;
        self.not_before = if self.is_dead {
            now + dead_for
        } else {
            now + doubled(limits::HOST_REST_BASE, self.rests - 1, limits::REST_CAP)
        };
    }
}

fn doubled(base: std::time::Duration, times: u8, cap: std::time::Duration) -> Millis {
    (base.as_millis() as Millis).saturating_mul(1 << times.min(16)).min(cap.as_millis() as Millis)
}

/// Returns whether a failure means that no request can reach the host. A lookup of a name that does not exist is
/// excluded. It fails immediately and costs nothing, so it needs no breaker.
fn tells_of_host(kind: FailureKind) -> bool {
    use FailureKind::{
        ConnectTimeout, Dns, DnsServfail, DnsTimeout, NotHttp, Refused, Tls, TlsTimeout, Unreachable,
    };
    matches!(
        kind,
        ConnectTimeout | Dns | DnsServfail | DnsTimeout | NotHttp | Refused | Tls | TlsTimeout | Unreachable
    ) || kind.is_untrusted()
}

/// Returns whether this failure suggests that the target is dead. The target may also be unreachable only temporarily,
/// or only from this machine.
pub fn may_be_dead(kind: FailureKind) -> bool {
    use FailureKind::{DnsEmpty, DnsNotFound, HeadTimeout, IdleTimeout, Reset, TotalTimeout, Truncated};
    let is_silent = matches!(kind, HeadTimeout | IdleTimeout | Reset | TotalTimeout | Truncated);
    tells_of_host(kind) || is_silent || matches!(kind, DnsEmpty | DnsNotFound)
}

/// Returns what a failed attempt says about its host. `until` is the end of the pause that the host requested.
pub fn seen(kind: FailureKind, until: Option<Millis>) -> RequestOutcome {
    match (kind, kind.class()) {
        (_, FailureClass::Throttle) => RequestOutcome::Throttled(until),
        // A complete reply with a status shows that the host is alive.
        (FailureKind::Status | FailureKind::Redirect | FailureKind::ServerError, _) => RequestOutcome::Answer,
        _ => RequestOutcome::Failure(kind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSED: RequestOutcome = RequestOutcome::Failure(FailureKind::Refused);

    fn rules() -> HostRules {
        let dead_for = limits::HOST_DEAD_FOR.as_millis() as Millis;
        HostRules { connections: 2, rate: None, probes: 2, dead_for, held_max: 1000, places: 0 }
    }

    fn id(number: u64) -> HostId {
        HostId(number)
    }

    /// Sends a request and reports its outcome.
    fn ask(hosts: &mut HostTable, host: HostId, seen: RequestOutcome, now: Millis) -> Admission {
        let admission = hosts.admit(host, now);
        if admission == Admission::Go {
            hosts.left(host, seen, now);
        }
        admission
    }

    #[test]
    fn a_host_is_scheme_name_and_port() {
        let same =
            |one: &str, other: &str| HostId::of_url(one.as_bytes()) == HostId::of_url(other.as_bytes());

        assert!(same("https://a.test/x", "https://a.test/y?http://b/"));
        assert!(!same("https://a.test/x", "http://a.test/x"));
        assert!(!same("https://a.test/", "https://a.test:444/"));
        let workers: Vec<usize> = (0..1000)
            .map(|number| HostId::of_url(format!("https://h{number}/").as_bytes()).worker(2))
            .collect();
        assert!((400..600).contains(&workers.iter().sum::<usize>()));
    }

    #[test]
    fn slow_hosts_leave_places_to_prompt_ones_while_those_are_wanted() {
        let mut hosts = HostTable::new(HostRules { places: 16, ..rules() });
        let slow = |number: u64| id(100 + number);
        for number in 0..8 {
            assert_eq!([hosts.admit(slow(number), 0), hosts.admit(slow(number), 0)], [Admission::Go; 2]);
        }
        assert_eq!(hosts.admit(slow(9), 0), Admission::Go, "no prompt host is known");
        assert_eq!(hosts.admit(id(1), 0), Admission::Go);
        hosts.left_after(id(1), RequestOutcome::Answer, 5, 5);

        // From now on, one more place is reserved for the host than it uses.
        assert_eq!(hosts.admit(id(1), 5), Admission::Go);
        for number in 0..4 {
            hosts.left_after(slow(number), RequestOutcome::Failure(FailureKind::HeadTimeout), 4000, 10);
            let admission = hosts.admit(slow(20 + number), 10);
            assert_eq!(admission == Admission::Go, number >= 3, "{number}: 17 in use, 14 allowed");
        }
        assert_eq!(hosts.admit(id(1), 10), Admission::Go);
        assert_eq!(hosts.admit(slow(30), 10), Admission::Crowded);

        // If no target on a prompt host has asked to start for one second, no place is reserved.
        assert!(!hosts.has_room(1_009));
        assert!(hosts.has_room(1_010));
        assert_eq!(hosts.admit(slow(30), 1_010), Admission::Go);
    }

    #[test]
    fn a_host_is_prompt_as_long_as_its_replies_are() {
        let mut hosts = HostTable::new(HostRules { places: 8, connections: 0, ..rules() });
        for _ in 0..6 {
            assert_eq!(hosts.admit(id(1), 0), Admission::Go);
        }
        hosts.left_after(id(1), RequestOutcome::Answer, 999, 0);
        assert_eq!((hosts.prompt, hosts.others), (5, 0));
        hosts.left_after(id(1), RequestOutcome::Nothing, 0, 0);
        assert!(hosts.is_prompt(id(1)));
        hosts.left_after(id(1), RequestOutcome::Answer, 1000, 1);
        assert_eq!((hosts.prompt, hosts.others), (0, 3));
        hosts.left_after(id(1), RequestOutcome::Answer, 0, 2);
        hosts.left_after(id(1), RequestOutcome::Failure(FailureKind::Reset), 0, 3);
        hosts.left_after(id(1), RequestOutcome::Answer, 0, 4);

        assert_eq!((hosts.prompt, hosts.others), (0, 0));
    }

    #[test]
    fn no_more_are_in_flight_than_allowed_and_one_that_leaves_makes_place() {
        let mut hosts = HostTable::new(rules());

        assert_eq!(
            [1, 1, 1].map(|host| hosts.admit(id(host), 5)),
            [Admission::Go, Admission::Go, Admission::Full]
        );
        assert_eq!(hosts.admit(id(2), 5), Admission::Go);
        hosts.left(id(1), RequestOutcome::Answer, 6);

        assert_eq!(hosts.admit(id(1), 6), Admission::Go);
    }

    #[test]
    fn the_rate_of_each_host_is_kept() {
        let mut hosts = HostTable::new(HostRules { rate: Some(50.0), ..rules() });
        let mut sent = 0;

        for now in 10_000..20_000 {
            sent += usize::from(ask(&mut hosts, id(1), RequestOutcome::Answer, now) == Admission::Go);
        }

        assert!((495..=510).contains(&sent), "{sent}");
        while ask(&mut hosts, id(1), RequestOutcome::Answer, 20_000) == Admission::Go {}
        let Admission::Later(then) = hosts.admit(id(1), 20_000) else { panic!() };
        assert!((20_001..=20_020).contains(&then), "{then}");
        assert_eq!(hosts.admit(id(2), 20_000), Admission::Go);
    }

    #[test]
    fn a_host_that_asks_for_patience_is_left_alone_for_that_long_and_no_other() {
        let mut hosts = HostTable::new(rules());
        ask(&mut hosts, id(1), RequestOutcome::Throttled(Some(30_000)), 1_000);

        assert_eq!(hosts.admit(id(1), 29_999), Admission::Resting(30_000));
        assert_eq!(hosts.admit(id(2), 2_000), Admission::Go);
        assert_eq!(ask(&mut hosts, id(1), RequestOutcome::Throttled(None), 30_000), Admission::Go);
        assert_eq!(hosts.admit(id(1), 30_001), Admission::Resting(32_000));
        ask(&mut hosts, id(1), RequestOutcome::Answer, 32_000);
        assert_eq!(hosts.admit(id(1), 32_001), Admission::Go);
    }

    #[test]
    fn a_dead_host_is_asked_a_few_times_and_then_its_targets_are_closed() {
        let mut hosts = HostTable::new(rules());
        for _ in 0..limits::HOST_FAILURES_MAX {
            assert_eq!(ask(&mut hosts, id(1), REFUSED, 1_000), Admission::Go);
        }

        assert_eq!(hosts.admit(id(1), 5_999), Admission::Resting(6_000));
        assert_eq!(hosts.admit(id(1), 6_000), Admission::Go);
        assert_eq!(hosts.admit(id(1), 6_000), Admission::Full);
        hosts.left(id(1), RequestOutcome::Failure(FailureKind::ConnectTimeout), 7_000);
        assert_eq!(hosts.admit(id(1), 16_999), Admission::Resting(17_000));
        assert_eq!(ask(&mut hosts, id(1), REFUSED, 17_000), Admission::Go);

        assert_eq!(hosts.admit(id(1), 17_001), Admission::Closed(FailureKind::Refused));
        let much_later = 17_000 + limits::HOST_DEAD_FOR.as_millis() as Millis;
        assert_eq!(ask(&mut hosts, id(1), RequestOutcome::Answer, much_later), Admission::Go);
        assert_eq!(hosts.admit(id(1), much_later), Admission::Go);
    }

    #[test]
    fn a_second_look_asks_again_whatever_was_seen_before_it_was_due() {
        let mut hosts = HostTable::new(HostRules { probes: 0, ..rules() });
        for _ in 0..limits::HOST_FAILURES_MAX {
            ask(&mut hosts, id(1), REFUSED, 1_000);
        }
        let closed = Admission::Closed(FailureKind::Refused);

        hosts.doubt(id(1), 1_000, 20_998);
        assert_eq!(hosts.admit(id(1), 20_998), closed);
        // The caller's clock can be one tick behind the clock of the thread that set the time.
        hosts.doubt(id(1), 21_003, 20_999);
        assert_eq!(hosts.admit(id(1), 20_999), Admission::Go);
        assert_eq!(hosts.admit(id(1), 20_999), Admission::Full);
        hosts.left(id(1), REFUSED, 21_000);

        hosts.doubt(id(1), 20_999, 21_001);
        assert_eq!(hosts.admit(id(1), 21_001), closed);
    }

    #[test]
    fn a_host_that_cannot_be_trusted_is_not_waited_for() {
        let mut hosts = HostTable::new(rules());
        for _ in 0..limits::HOST_FAILURES_MAX {
            ask(&mut hosts, id(1), RequestOutcome::Failure(FailureKind::TlsExpired), 1_000);
        }

        assert_eq!(hosts.admit(id(1), 1_001), Admission::Closed(FailureKind::TlsExpired));
    }

    #[test]
    fn without_a_second_attempt_the_first_rest_is_the_end() {
        let mut hosts = HostTable::new(HostRules { probes: 0, ..rules() });
        for _ in 0..limits::HOST_FAILURES_MAX {
            ask(&mut hosts, id(1), REFUSED, 1_000);
        }

        assert_eq!(hosts.admit(id(1), 1_001), Admission::Closed(FailureKind::Refused));
    }

    #[test]
    fn a_host_of_which_most_requests_succeed_stays() {
        let mut hosts = HostTable::new(rules());
        for now in 0..30 {
            ask(&mut hosts, id(1), RequestOutcome::Answer, now);
        }
        for now in 30..30 + Millis::from(limits::HOST_FAILURES_MAX) {
            ask(&mut hosts, id(1), REFUSED, now);
        }

        assert_eq!(hosts.admit(id(1), 100), Admission::Go);
    }

    #[test]
    fn failures_that_say_nothing_of_the_way_to_it_open_no_breaker() {
        let mut hosts = HostTable::new(rules());
        for now in 0..100 {
            assert_eq!(
                ask(&mut hosts, id(1), RequestOutcome::Failure(FailureKind::Truncated), now),
                Admission::Go
            );
        }
        assert_eq!(seen(FailureKind::ServerError, None), RequestOutcome::Answer);
        assert_eq!(seen(FailureKind::Throttled, Some(5)), RequestOutcome::Throttled(Some(5)));
    }

    #[test]
    fn what_is_known_is_bounded_and_the_dead_are_remembered_longest() {
        let mut hosts = HostTable::new(HostRules { probes: 0, ..rules() });
        for _ in 0..limits::HOST_FAILURES_MAX {
            ask(&mut hosts, id(7), REFUSED, 1);
        }

        for number in 100..10_000 {
            ask(&mut hosts, id(number), RequestOutcome::Answer, 2);
            assert!(hosts.known.len() <= 1000);
        }

        assert_eq!(hosts.admit(id(7), 3), Admission::Closed(FailureKind::Refused));
    }
}
