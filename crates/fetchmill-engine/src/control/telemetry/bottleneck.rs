//! Finds the bottleneck of a job from measurements of the last seconds. The functions use no clock and do no I/O.
//!
//! A job's capacity is the maximum number of requests in flight. The use of this capacity ([`super::capacity`]) gives
//! the first hint. Empty slots wait for targets, the sink or hosts. Slots that wait for a rate limit are counted
//! separately. If all slots are busy, the limit is the server, the network, this machine's processors, or the number of
//! slots itself. To tell these apart, reply times are compared with reply times under low load, and connect times with
//! the shortest connect time seen. A cause is reported if it accounts for at least 60 % of the capacity. If no cause
//! does, the result is `mixed` (docs/internals/decisions/0031).

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::capacity::{CapacityUse, OF_HOSTS, Shares};
use super::machine::Processors;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::planner::origin::Millis;
use fetchmill_model::text::dates::utc;

/// A cause is reported if it accounts for at least this share of the capacity.
const DOMINANT: f64 = 0.6;
/// A rate limits the job if at least this share of the rate is used. For a throttling origin, a lower threshold
/// applies, because its pace fluctuates.
const RATE_USED: f64 = 0.9;
const PACE_USED: f64 = 0.75;
/// Processors are saturated if they are busy for at least this share of the time.
const BUSY: f64 = 0.92;
/// Processors limit the job if its fetching threads run or could run for at least this share of the time.
const WANTED: f64 = 0.75;
/// Replies are queued if they take at least this many times as long as they do under low load.
const QUEUED: f64 = 1.5;
/// The queue is in the network if connect times exceed the shortest one by at least this share of the queueing time,
/// and by at least `ON_THE_WAY_MIN` seconds. If the excess reaches this share of the whole reply time, the cause is the
/// network even if the first replies were slow. Under low load, the first replies are slow because they wait for the
/// first bytes of all other connections.
const ON_THE_WAY: f64 = 0.3;
const ON_THE_WAY_MIN: f64 = 0.002;

/// Causes that can limit a job. Their names appear in output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitKind {
    /// The source does not list targets fast enough.
    Listing,
    /// The server becomes slower as the number of requests grows.
    Server,
    /// The network path to the server is saturated.
    Network,
    /// This machine's processors are saturated.
    Cpu,
    /// Storing objects takes too long.
    Disk,
    /// The user's function takes too long.
    Transform,
    /// `--rate` is used up.
    Rate,
    /// `--bwlimit` is used up.
    Bwlimit,
    /// The server refuses requests above a certain rate.
    Throttling,
    /// A limit that protects the server or a host.
    Courtesy,
    /// The maximum number of requests in flight.
    Concurrency,
    /// Lookups at the name server.
    Names,
    /// No replies arrive at all.
    Outage,
    /// Only a few targets are left.
    LastTargets,
    /// No single cause.
    Mixed,
}

impl LimitKind {
    /// Returns the cause's name as shown in output.
    pub fn name(self) -> &'static str {
        match self {
            LimitKind::Listing => "listing",
            LimitKind::Server => "server",
            LimitKind::Network => "network",
            LimitKind::Cpu => "cpu",
            LimitKind::Disk => "disk",
            LimitKind::Transform => "transform",
            LimitKind::Rate => "rate",
            LimitKind::Bwlimit => "bwlimit",
            LimitKind::Throttling => "throttling",
            LimitKind::Courtesy => "courtesy",
            LimitKind::Concurrency => "concurrency",
            LimitKind::Names => "names",
            LimitKind::Outage => "outage",
            LimitKind::LastTargets => "last-targets",
            LimitKind::Mixed => "mixed",
        }
    }
}

/// Cause that limits a job, with a measurement that supports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitedBy {
    /// Kind of the cause.
    pub kind: LimitKind,
    /// One line for the user.
    pub text: String,
}

/// How the concurrency limit was chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Search {
    /// The user set the limit.
    #[default]
    Given,
    /// The only host has this limit.
    OfHost { most: usize },
    /// The search is still running.
    Trying,
    /// The search ended because a higher concurrency did not help.
    Found,
    /// The search reached this limit. It protects `whom`, or is the limit of this machine.
    AtMost { most: usize, whom: Option<&'static str> },
}

/// Rate limits of a job, per second.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pacing {
    /// Requests of the whole job.
    pub(crate) rate: Option<f64>,
    /// Requests to the only host. `None` if the job has many hosts.
    pub(crate) rate_per_host: Option<f64>,
    /// Body bytes of the whole job.
    pub(crate) bwlimit: Option<f64>,
    /// Request rate that a throttling origin accepts, and its host.
    pub(crate) throttled: Option<(f64, String)>,
}

impl Pacing {
    /// Returns the lowest request rate, and the option that sets it.
    fn request_rate(&self) -> Option<(f64, &'static str)> {
        let of_job = self.rate.map(|rate| (rate, "--rate"));
        let of_host = self.rate_per_host.map(|rate| (rate, "--rate-per-host"));
        of_job.into_iter().chain(of_host).min_by(|one, other| one.0.total_cmp(&other.0))
    }
}

/// Limits per host, in a job with many hosts.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HostBounds {
    /// Maximum number of requests in flight.
    pub(crate) connections: u32,
    /// Requests per second. `None` means no limit.
    pub(crate) rate: Option<f64>,
}

/// Attempts and retries that the last targets are waiting for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LastTargets {
    /// Latest time at which a running attempt times out, if known.
    pub(crate) attempts_until: Option<Millis>,
    /// Time of the next retry, and the kind of failure that caused it. `None` if no target waits.
    pub(crate) next: Option<(Millis, FailureKind)>,
}

/// Shares of the writers' time, by activity.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WriterShares {
    pub(crate) transforming: f64,
    pub(crate) storing: f64,
}

/// Connect times in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PathTimes {
    pub(crate) now: f64,
    pub(crate) least: f64,
}

/// Measurements of the last seconds.
#[derive(Debug, Clone, Default)]
pub(crate) struct LimitFacts {
    /// Length of the measurement in seconds.
    pub(crate) seconds: f64,
    pub(crate) shares: Shares,
    /// Rates per second: listed targets, finished targets, requests, received body bytes.
    pub(crate) listed: f64,
    pub(crate) settled: f64,
    pub(crate) requests: f64,
    pub(crate) bytes: f64,
    pub(crate) pacing: Pacing,
    pub(crate) processors: Processors,
    /// Number of fetching threads.
    pub(crate) threads: usize,
    /// Whether the engine runs in this process's Python interpreter and therefore uses one processor at a time.
    pub(crate) is_python: bool,
    pub(crate) writers: WriterShares,
    pub(crate) in_flight: u64,
    pub(crate) concurrency: u64,
    pub(crate) search: Search,
    /// Reply times in seconds: current, and under low load.
    pub(crate) latency: Option<f64>,
    pub(crate) unloaded: Option<f64>,
    pub(crate) path: Option<PathTimes>,
    /// Outage that the job is waiting out, and its start time.
    pub(crate) outage: Option<String>,
    pub(crate) is_listing_done: bool,
    /// Number of targets waiting for a retry.
    pub(crate) waiting: u64,
    pub(crate) last_targets: LastTargets,
    pub(crate) per_host: HostBounds,
}

/// A possible cause, with its share of the capacity.
struct Cause {
    kind: LimitKind,
    share: f64,
    text: String,
    /// Largest of the shares that were merged into `share`. `text` describes that share's cause.
    of_text: f64,
}

impl Cause {
    /// Adds another cause of the same kind and keeps the text of the larger cause.
    fn merge(&mut self, share: f64, text: String) {
        self.share += share;
        if share > self.of_text {
            (self.text, self.of_text) = (text, share);
        }
    }
}

/// Returns the job's bottleneck, or `None` before the first measurement.
pub(crate) fn bottleneck(facts: &LimitFacts) -> Option<LimitedBy> {
    if let Some(text) = &facts.outage {
        return Some(LimitedBy { kind: LimitKind::Outage, text: text.clone() });
    }
    if facts.shares.are_unknown() {
        return None;
    }
    if let Some(binding) = facts.binding_rate() {
        return Some(binding);
    }
    let mut causes = facts.causes();
    causes.sort_by(|one, other| other.share.total_cmp(&one.share));
    let first = causes.first()?;
    if first.share >= DOMINANT {
        return Some(LimitedBy { kind: first.kind, text: first.text.clone() });
    }
    let mut text = String::new();
    for cause in causes.iter().take(2) {
        let separator = if text.is_empty() { "" } else { "; " };
        let _ = write!(text, "{separator}{:.0} % {}", cause.share * 100.0, cause.text);
    }
    Some(LimitedBy { kind: LimitKind::Mixed, text })
}

impl LimitFacts {
    /// Returns the rate limit that is fully used, if any.
    fn binding_rate(&self) -> Option<LimitedBy> {
        let Pacing { bwlimit, throttled, .. } = &self.pacing;
        let found = |kind, text| Some(LimitedBy { kind, text });
        if let Some((pace, host)) = throttled
            && self.requests >= PACE_USED * pace
        {
            return found(LimitKind::Throttling, format!("throttled by {host} to {}/s", count(*pace)));
        }
        if let Some((rate, option)) = self.pacing.request_rate()
            && self.requests >= RATE_USED * rate
        {
            return found(LimitKind::Rate, of_rate(rate, option));
        }
        if let Some(bwlimit) = bwlimit
            && self.bytes >= RATE_USED * bwlimit
        {
            return found(LimitKind::Bwlimit, format!("--bwlimit: {}/s", bytes(*bwlimit)));
        }
        None
    }

    fn causes(&self) -> Vec<Cause> {
        let mut causes: Vec<Cause> = Vec::new();
        let mut add = |share: f64, (kind, text): (LimitKind, String)| match causes
            .iter_mut()
            .find(|known| known.kind == kind)
        {
            _ if share <= 0.0 => {}
            Some(known) => known.merge(share, text),
            None => causes.push(Cause { kind, share, text, of_text: share }),
        };
        let share = |of| self.shares.of(of);
        add(share(CapacityUse::Exchanging) + share(CapacityUse::Preparing), self.of_exchanges());
        add(share(CapacityUse::Paced), self.of_pace());
        add(share(CapacityUse::Sink), self.of_sink());
        // A worker that has no targets for its own hosts is waiting for the hosts of other workers.
        let hosts = OF_HOSTS.into_iter().max_by(|one, other| share(*one).total_cmp(&share(*other)));
        let hosts = hosts.filter(|of| share(*of) > 0.0);
        add(
            share(CapacityUse::NoTargets),
            hosts.map_or_else(|| self.of_targets(), |hosts| self.of_hosts(hosts)),
        );
        add(
            share(CapacityUse::Held),
            (LimitKind::Outage, "an outage: requests are on hold until the server recovers".to_owned()),
        );
        for hosts in OF_HOSTS {
            add(share(hosts), self.of_hosts(hosts));
        }
        add(
            share(CapacityUse::Names),
            (LimitKind::Names, "the name server: host names are waiting for DNS lookups".to_owned()),
        );
        causes
    }

    /// Describes targets that wait although their rate is not used up. They arrive in bursts, or the rate has just
    /// changed.
    fn of_pace(&self) -> (LimitKind, String) {
        let Pacing { throttled, bwlimit, .. } = &self.pacing;
        if let Some((pace, host)) = throttled {
            return (LimitKind::Throttling, format!("throttled by {host} to {}/s", count(*pace)));
        }
        match (self.pacing.request_rate(), bwlimit) {
            (Some((rate, option)), _) => (LimitKind::Rate, of_rate(rate, option)),
            (None, bwlimit) => {
                (LimitKind::Bwlimit, format!("--bwlimit: {}/s", bytes(bwlimit.unwrap_or_default())))
            }
        }
    }

    fn of_sink(&self) -> (LimitKind, String) {
        let WriterShares { transforming, storing } = self.writers;
        if transforming > storing {
            let part = transforming * 100.0;
            return (
                LimitKind::Transform,
                format!("the transform: its function runs {part:.0} % of the time"),
            );
        }
        if let Some(used_up) = self.used_up_processors() {
            return used_up;
        }
        (LimitKind::Disk, format!("the disk: storing takes {:.0} % of the time", storing * 100.0))
    }

    fn of_targets(&self) -> (LimitKind, String) {
        if self.is_listing_done {
            return (LimitKind::LastTargets, format!("the last targets: {}", self.what_is_left()));
        }
        let used = (1.0 - self.shares.of(CapacityUse::NoTargets)).max(0.01);
        let text = format!(
            "the listing: it delivers {} names/s, but about {}/s could be fetched",
            count(self.listed),
            count(self.settled / used)
        );
        (LimitKind::Listing, text)
    }

    /// Describes what the last targets wait for and when that wait ends.
    fn what_is_left(&self) -> String {
        let LastTargets { attempts_until, next } = self.last_targets;
        let mut parts = Vec::new();
        if self.in_flight > 0 {
            let until = attempts_until.map(second_of);
            let until = until.map_or_else(String::new, |until| format!(" (until {until} at the latest)"));
            parts.push(format!("{} in flight{until}", whole(self.in_flight)));
        }
        if let Some((at, kind)) = next {
            parts.push(format!(
                "{} waiting to be retried, the next at {} ({})",
                whole(self.waiting),
                second_of(at),
                kind.name()
            ));
        }
        if parts.is_empty() {
            parts.push("their replies are being stored".to_owned());
        }
        parts.join(", ")
    }

    /// Describes targets that wait for their hosts.
    fn of_hosts(&self, why: CapacityUse) -> (LimitKind, String) {
        let HostBounds { connections, rate } = self.per_host;
        match (why, rate) {
            (CapacityUse::HostRates, Some(rate)) => {
                let rate = count(rate);
                let text = format!("courtesy: at most {rate} requests/s per host (--rate-per-host)");
                (LimitKind::Courtesy, text)
            }
            (CapacityUse::HostRests, _) => {
                let text = "paused hosts: they asked for fewer requests, or did not answer";
                (LimitKind::Throttling, text.to_owned())
            }
            (CapacityUse::HostPlaces, _) => {
                let text = format!(
                    "--concurrency: {} in flight, with slow hosts limited in favor of fast ones",
                    whole(self.in_flight)
                );
                (LimitKind::Concurrency, text)
            }
            _ => {
                let text = format!(
                    "courtesy: at most {} concurrent requests per host (--limit-per-host)",
                    whole(connections.into())
                );
                (LimitKind::Courtesy, text)
            }
        }
    }

    fn used_up_processors(&self) -> Option<(LimitKind, String)> {
        let Processors { allowed, busy, own, wanted } = self.processors;
        if self.is_python && wanted >= WANTED && own < 1.5 {
            return Some((
                LimitKind::Cpu,
                "Python: it can use only one processor, which is fully busy".to_owned(),
            ));
        }
        let is_used_up = allowed > 0.0 && (busy >= BUSY * allowed || own >= BUSY * allowed);
        // Load from other programs matters only if the job needs the processors.
        let is_wanted = wanted >= WANTED * allowed.min(self.threads as f64);
        (is_used_up && is_wanted).then(|| {
            let text = format!(
                "this machine's processors: {busy:.1} of {allowed:.1} are busy, {own:.1} of them because of \
                 this job"
            );
            (LimitKind::Cpu, text)
        })
    }

    /// Describes a job in which the maximum number of requests is always in flight.
    fn of_exchanges(&self) -> (LimitKind, String) {
        if let Some(used_up) = self.used_up_processors() {
            return used_up;
        }
        let in_flight = whole(self.in_flight);
        match self.search {
            Search::Trying => {
                let text = format!(
                    "--concurrency auto: still searching for the best number, {in_flight} in flight so far"
                );
                return (LimitKind::Concurrency, text);
            }
            Search::OfHost { most } => {
                let text = format!("--limit-per-host: at most {} in flight", whole(most as u64));
                return (LimitKind::Concurrency, text);
            }
            Search::AtMost { most, whom: Some(whom) } => {
                let most = whole(most as u64);
                let text = format!(
                    "courtesy: at most {most} concurrent requests to {whom} by default \
                             (--concurrency-max)"
                );
                return (LimitKind::Courtesy, text);
            }
            Search::Given | Search::Found | Search::AtMost { whom: None, .. } => {}
        }
        let (Some(latency), Some(unloaded)) = (self.latency, self.unloaded) else {
            return self.of_exchanges_without_times();
        };
        let is_queued = latency >= unloaded * QUEUED || self.longer_way(latency).is_some();
        if self.search != Search::Found && !is_queued {
            let text = format!(
                "--concurrency: {} in flight, and replies take {}, no longer than with few in flight: a \
                 higher number might be faster",
                whole(self.concurrency),
                duration(latency)
            );
            return (LimitKind::Concurrency, text);
        }
        self.of_queue(latency, unloaded)
    }

    /// Describes a job in which the maximum number of requests is always in flight, but reply times are unknown. Either
    /// the engine does not report them, or there were no recent replies.
    fn of_exchanges_without_times(&self) -> (LimitKind, String) {
        let in_flight = whole(self.in_flight);
        // Attempts without a reply count as requests.
        let ended = self.requests.max(self.settled);
        if ended <= 0.0 {
            let text = format!(
                "the server: no reply for {}, with {in_flight} requests in flight",
                duration(self.seconds)
            );
            return (LimitKind::Server, text);
        }
        let most = whole(self.concurrency);
        let took = duration(self.in_flight as f64 / ended);
        if self.search == Search::Found {
            let text =
                format!("the server: a concurrency above {most} would not be faster, replies take {took}");
            return (LimitKind::Server, text);
        }
        (LimitKind::Concurrency, format!("--concurrency: {most} in flight, and replies take {took}"))
    }

    /// Returns the connect times if packets that queue in the network account for a large share of `waited` seconds.
    fn longer_way(&self, waited: f64) -> Option<PathTimes> {
        self.path.filter(|path| path.now - path.least >= ON_THE_WAY_MIN.max(ON_THE_WAY * waited))
    }

    /// Describes replies that queue at the server or in the network.
    fn of_queue(&self, latency: f64, unloaded: f64) -> (LimitKind, String) {
        if let Some(PathTimes { now, least }) = self.longer_way(latency - unloaded) {
            let text = format!(
                "the network: bodies arrive at {}/s, and connecting takes {} instead of {}",
                bytes(self.bytes),
                duration(now),
                duration(least)
            );
            return (LimitKind::Network, text);
        }
        let text = format!(
            "the server: replies take {} with {} in flight, but only {} with few in flight",
            duration(latency),
            whole(self.in_flight),
            duration(unloaded)
        );
        (LimitKind::Server, text)
    }
}

fn of_rate(rate: f64, option: &str) -> String {
    format!("{option}: {} requests/s", count(rate))
}

/// Formats a time as `2026-07-01T12:00:05Z`, rounded up to the second.
fn second_of(time: Millis) -> String {
    utc(time.div_ceil(1000))
}

/// Formats a number with separators (`9,800`), or with one decimal place (`0.5`).
fn count(number: f64) -> String {
    if number < 10.0 && number.fract() > 0.05 { format!("{number:.1}") } else { whole(number.round() as u64) }
}

fn whole(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn bytes(number: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut number, mut unit) = (number, 0);
    while number >= 1024.0 && unit + 1 < UNITS.len() {
        (number, unit) = (number / 1024.0, unit + 1);
    }
    if unit == 0 { format!("{number:.0} B") } else { format!("{number:.1} {}", UNITS[unit]) }
}

fn duration(seconds: f64) -> String {
    match seconds {
        s if s >= 1.0 => format!("{s:.1} s"),
        s if s >= 0.01 => format!("{:.0} ms", s * 1e3),
        s => format!("{:.1} ms", s * 1e3),
    }
}

#[cfg(test)]
mod tests;
