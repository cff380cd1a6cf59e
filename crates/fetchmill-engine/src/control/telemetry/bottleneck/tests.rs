//! Tests of the bottleneck that is reported for given measurements.

use super::*;

/// Returns the measurements of a job on an idle machine, with all slots in use. Replies take no longer than with few
/// requests in flight.
fn facts() -> LimitFacts {
    LimitFacts {
        shares: Shares::only(CapacityUse::Exchanging),
        listed: 5_000.0,
        settled: 1_000.0,
        requests: 1_000.0,
        bytes: 100_000.0,
        processors: Processors { allowed: 2.0, busy: 0.4, own: 0.3, wanted: 0.3 },
        threads: 2,
        in_flight: 64,
        concurrency: 64,
        latency: Some(0.1),
        unloaded: Some(0.1),
        path: Some(PathTimes { now: 0.001, least: 0.001 }),
        seconds: 3.0,
        per_host: HostBounds { connections: 8, rate: Some(50.0) },
        ..LimitFacts::default()
    }
}

fn with(of: CapacityUse) -> LimitFacts {
    LimitFacts { shares: Shares::only(of), ..facts() }
}

fn queued() -> LimitFacts {
    LimitFacts { latency: Some(0.4), ..facts() }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a list")]
fn each_cause_is_named_with_its_figure() {
    let throttled = Pacing { throttled: Some((1_050.0, "files.test".into())), ..Pacing::default() };
    let rate = Pacing { rate: Some(1_100.0), ..Pacing::default() };
    let of_host = Pacing { rate: Some(9_000.0), rate_per_host: Some(1_000.0), ..Pacing::default() };
    let bwlimit = Pacing { bwlimit: Some(102_400.0), ..Pacing::default() };
    let storing = WriterShares { storing: 0.97, transforming: 0.0 };
    let transforming = WriterShares { storing: 0.1, transforming: 0.9 };
    let full = Processors { allowed: 2.0, busy: 1.95, own: 1.2, wanted: 1.9 };
    for (facts, kind, text) in [
        (LimitFacts { listed: 980.0, ..with(CapacityUse::NoTargets) }, LimitKind::Listing, "980 names/s"),
        (
            queued(),
            LimitKind::Server,
            "replies take 400 ms with 64 in flight, but only 100 ms with few in flight",
        ),
        (
            LimitFacts { path: Some(PathTimes { now: 0.25, least: 0.001 }), ..queued() },
            LimitKind::Network,
            "bodies arrive at 97.7 KiB/s, and connecting takes 250 ms instead of 1.0 ms",
        ),
        (LimitFacts { processors: full, ..queued() }, LimitKind::Cpu, "1.9 of 2.0 are busy, 1.2 of them"),
        (LimitFacts { writers: storing, ..with(CapacityUse::Sink) }, LimitKind::Disk, "97 % of the time"),
        (
            LimitFacts { writers: storing, processors: full, ..with(CapacityUse::Sink) },
            LimitKind::Cpu,
            "1.9 of 2.0",
        ),
        (LimitFacts { writers: transforming, ..with(CapacityUse::Sink) }, LimitKind::Transform, "90 %"),
        (LimitFacts { pacing: rate, ..facts() }, LimitKind::Rate, "1,100 requests/s"),
        (LimitFacts { pacing: bwlimit, ..facts() }, LimitKind::Bwlimit, "100.0 KiB/s"),
        (LimitFacts { pacing: throttled, ..facts() }, LimitKind::Throttling, "files.test to 1,050/s"),
        (
            LimitFacts {
                search: Search::AtMost { most: 64, whom: Some("a public address") },
                in_flight: 17,
                ..facts()
            },
            LimitKind::Courtesy,
            "at most 64 concurrent requests to a public address",
        ),
        (
            with(CapacityUse::HostTurns),
            LimitKind::Courtesy,
            "at most 8 concurrent requests per host \
                                                             (--limit-per-host)",
        ),
        (
            with(CapacityUse::HostRates),
            LimitKind::Courtesy,
            "at most 50 requests/s per host (--rate-per-host)",
        ),
        (with(CapacityUse::HostRests), LimitKind::Throttling, "paused hosts"),
        (with(CapacityUse::HostPlaces), LimitKind::Concurrency, "slow hosts limited"),
        (
            LimitFacts { pacing: of_host.clone(), ..facts() },
            LimitKind::Rate,
            "--rate-per-host: 1,000 requests/s",
        ),
        (
            LimitFacts { pacing: of_host, requests: 100.0, ..with(CapacityUse::Paced) },
            LimitKind::Rate,
            "--rate-per-host: 1,000 requests/s",
        ),
        (
            facts(),
            LimitKind::Concurrency,
            "64 in flight, and replies take 100 ms, no longer than with few in flight",
        ),
        (
            LimitFacts { search: Search::OfHost { most: 3 }, ..facts() },
            LimitKind::Concurrency,
            "--limit-per-host: at most 3 in flight",
        ),
        (LimitFacts { search: Search::Trying, ..facts() }, LimitKind::Concurrency, "still searching"),
        (LimitFacts { search: Search::Found, ..queued() }, LimitKind::Server, "400 ms"),
        (
            LimitFacts { search: Search::Found, latency: None, in_flight: 3, ..facts() },
            LimitKind::Server,
            "a concurrency above 64 would not be faster",
        ),
        (
            LimitFacts { latency: None, settled: 10.0, ..facts() },
            LimitKind::Concurrency,
            "64 in flight, and replies take 64 ms",
        ),
        (
            LimitFacts { latency: None, settled: 0.0, requests: 0.0, ..facts() },
            LimitKind::Server,
            "the server: no reply for 3.0 s, with 64 requests in flight",
        ),
        (with(CapacityUse::Names), LimitKind::Names, "DNS lookups"),
        (
            LimitFacts {
                is_listing_done: true,
                waiting: 1_234,
                in_flight: 3,
                last_targets: LastTargets {
                    attempts_until: Some(1_500),
                    next: Some((61_000, FailureKind::Throttled)),
                },
                ..with(CapacityUse::NoTargets)
            },
            LimitKind::LastTargets,
            "3 in flight (until 1970-01-01T00:00:02Z at the latest), 1,234 waiting to be retried, the next \
             at 1970-01-01T00:01:01Z (throttled)",
        ),
        (
            LimitFacts { is_listing_done: true, in_flight: 0, ..with(CapacityUse::NoTargets) },
            LimitKind::LastTargets,
            "the last targets: their replies are being stored",
        ),
        (
            LimitFacts { outage: Some("no valid reply since 12:00:01 UTC".into()), ..facts() },
            LimitKind::Outage,
            "since 12:00:01",
        ),
    ] {
        let found = bottleneck(&facts).unwrap();

        assert_eq!(found.kind, kind, "{found:?}");
        assert!(found.text.contains(text), "{found:?}");
    }
}

#[test]
fn no_single_cause_is_mixed_and_has_the_two_largest() {
    let shares = Shares::default()
        .with(CapacityUse::NoTargets, 0.35)
        .with(CapacityUse::Sink, 0.5)
        .with(CapacityUse::Exchanging, 0.15);
    let writers = WriterShares { storing: 0.6, transforming: 0.0 };

    let found = bottleneck(&LimitFacts { shares, writers, ..facts() }).unwrap();

    assert_eq!(found.kind, LimitKind::Mixed);
    assert!(
        found.text.starts_with(
            "50 % the disk: storing takes 60 % of the time; 35 % the listing: it \
                                delivers"
        ),
        "{found:?}"
    );
}

#[test]
fn a_worker_without_hosts_waits_for_those_of_others() {
    let shares = Shares::default().with(CapacityUse::NoTargets, 0.5).with(CapacityUse::HostRates, 0.5);

    let found = bottleneck(&LimitFacts { shares, ..facts() }).unwrap();

    assert_eq!(found.kind, LimitKind::Courtesy);
    assert!(found.text.contains("--rate-per-host"), "{found:?}");
}

#[test]
fn the_larger_one_of_two_bounds_of_hosts_is_named() {
    let shares = Shares::default().with(CapacityUse::HostTurns, 0.3).with(CapacityUse::HostRates, 0.7);

    let found = bottleneck(&LimitFacts { shares, ..facts() }).unwrap();

    assert!(found.kind == LimitKind::Courtesy && found.text.contains("--rate-per-host"), "{found:?}");
}

#[test]
fn a_queue_on_the_way_is_named_where_the_first_replies_waited_in_it_too() {
    let path = Some(PathTimes { now: 0.1, least: 0.01 });
    let facts = LimitFacts { latency: Some(0.24), unloaded: Some(0.2), path, ..facts() };

    assert_eq!(bottleneck(&facts).unwrap().kind, LimitKind::Network);
    let slow = LimitFacts { latency: Some(2.4), unloaded: Some(2.0), ..facts };
    assert_eq!(bottleneck(&slow).unwrap().kind, LimitKind::Concurrency);
}

#[test]
fn a_rate_that_is_not_used_up_is_no_answer() {
    let pacing = Pacing { rate: Some(2_000.0), bwlimit: Some(1e9), ..Pacing::default() };

    assert_eq!(bottleneck(&LimitFacts { pacing, ..facts() }).unwrap().kind, LimitKind::Concurrency);
}

#[test]
fn processors_that_others_keep_busy_hold_back_only_who_waits_for_them() {
    let others = Processors { allowed: 2.0, busy: 2.0, own: 0.1, wanted: 0.2 };
    assert_eq!(
        bottleneck(&LimitFacts { processors: others, ..facts() }).unwrap().kind,
        LimitKind::Concurrency
    );

    let waits = Processors { wanted: 1.8, ..others };
    assert_eq!(bottleneck(&LimitFacts { processors: waits, ..facts() }).unwrap().kind, LimitKind::Cpu);
}

#[test]
fn pythons_lock_is_named() {
    let processors = Processors { allowed: 2.0, busy: 1.1, own: 0.98, wanted: 1.0 };

    let found = bottleneck(&LimitFacts { is_python: true, processors, latency: None, ..facts() }).unwrap();

    assert_eq!(found.kind, LimitKind::Cpu);
    assert!(found.text.contains("one processor"), "{found:?}");
    let idle = LimitFacts { is_python: true, latency: None, ..facts() };
    assert_eq!(bottleneck(&idle).unwrap().kind, LimitKind::Concurrency);
}

#[test]
fn before_anything_is_measured_there_is_no_answer() {
    assert_eq!(bottleneck(&LimitFacts::default()), None);
}

#[test]
fn numbers_are_written_for_people() {
    assert_eq!(
        [count(9_800.4), count(0.5), count(1_234_567.0), count(0.0)],
        ["9,800", "0.5", "1,234,567", "0"]
    );
    assert_eq!([bytes(512.0), bytes(1536.0), bytes(3e9)], ["512 B", "1.5 KiB", "2.8 GiB"]);
    assert_eq!([duration(0.0004), duration(0.1), duration(2.25)], ["0.4 ms", "100 ms", "2.2 s"]);
}
