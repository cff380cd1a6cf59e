"""Metrics in the Prometheus text format 0.0.4."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

OUTCOMES = ("fetched", "absent", "failed", "skipped")
# Bottlenecks. After the first second, exactly one of their metrics is 1.
LIMITS = (
    *("listing", "server", "network", "cpu", "disk", "transform", "rate", "bwlimit", "throttling", "courtesy"),
    *("concurrency", "names", "outage", "last-targets", "mixed"),
)
# Each quantile's name in Prometheus and in the job.
_QUANTILES = (("0.5", "p50"), ("0.9", "p90"), ("0.99", "p99"), ("1", "max"))

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})

# Labels and a value.
Sample = tuple[Mapping[str, str], float]
# Name, type, help text and samples of a metric.
Family = tuple[str, str, str, Iterable[Sample]]


def metrics_text(snapshot: Mapping[str, Any], started: float, version: str) -> str:
    """Return all metrics of a job.

    Args:
        snapshot: the result of `Job.snapshot()`.
        started: start time of the run in seconds since 1970.
        version: fetchmill's version.
    """
    return text_of((*_of_run(started, version), *_of_counts(snapshot), *_of_now(snapshot), *_of_times(snapshot)))


def text_of(families: Iterable[Family]) -> str:
    """Return metrics in the text format."""
    return "".join(line for family in families for line in _lines(*family))


def _of_run(started: float, version: str) -> Iterator[Family]:
    """Yield the version and the run's start time."""
    yield "fetchmill_build_info", "gauge", "The version of fetchmill.", [({"version": version}, 1)]
    yield "fetchmill_start_time_seconds", "gauge", "Start time of this run, in seconds since 1970.", _one(started)


def _of_counts(snapshot: Mapping[str, Any]) -> Iterator[Family]:
    """Yield target, byte and request counts."""
    yield (
        "fetchmill_objects_total",
        "counter",
        "Targets of the whole job with an outcome.",
        [({"outcome": outcome}, snapshot[outcome]) for outcome in OUTCOMES],
    )
    yield (
        "fetchmill_failures_total",
        "counter",
        "Failed targets of the whole job by failure kind.",
        [({"kind": kind}, count) for kind, count in sorted(snapshot["failures"].items())],
    )
    yield "fetchmill_listed_total", "counter", "Targets listed by the source so far.", _one(snapshot["listed"])
    yield (
        "fetchmill_listing_complete",
        "gauge",
        "1 if all targets are listed, else 0.",
        _one(int(snapshot["listing_done"])),
    )
    yield "fetchmill_bytes_total", "counter", "Bytes of fetched bodies.", _one(snapshot["bytes"])
    yield "fetchmill_requests_total", "counter", "Requests for targets in this run.", _one(snapshot["attempts"])


def _of_now(snapshot: Mapping[str, Any]) -> Iterator[Family]:
    """Yield the number of requests in flight, the number of waiting targets, and the bottleneck."""
    yield "fetchmill_in_flight", "gauge", "Number of requests in flight.", _one(snapshot["in_flight"])
    yield (
        "fetchmill_concurrency_limit",
        "gauge",
        "Current limit on requests in flight.",
        _one(snapshot["concurrency"]),
    )
    yield "fetchmill_waiting", "gauge", "Targets waiting to be retried.", _one(snapshot["waiting"])
    limit = (snapshot["limited_by"] or {}).get("kind")
    kinds = LIMITS if limit is None or limit in LIMITS else (*LIMITS, limit)
    yield (
        "fetchmill_limited_by",
        "gauge",
        "What limits the job: 1 for the current limit, 0 for all others.",
        [({"kind": kind}, int(kind == limit)) for kind in kinds],
    )


def _of_times(snapshot: Mapping[str, Any]) -> Iterator[Family]:
    """Yield latencies and rates for the whole job and for each origin."""
    latency = snapshot["latency"] or {}
    yield (
        "fetchmill_latency_seconds",
        "summary",
        "Time from a request to its reply, over the last ten seconds.",
        [({"quantile": quantile}, latency[name]) for quantile, name in _QUANTILES if name in latency],
    )
    yield (
        "fetchmill_origin_latency_seconds",
        "summary",
        "Time from a request to its reply by origin, over the last ten seconds, for up to 64 origins.",
        [
            ({"origin": each["origin"], "quantile": quantile}, each["latency"][name])
            for each in snapshot["origins"]
            for quantile, name in _QUANTILES
        ],
    )
    yield (
        "fetchmill_origin_replies_per_second",
        "gauge",
        "Replies per second by origin, over the last ten seconds, for up to 64 origins.",
        [({"origin": each["origin"]}, each["replies_per_second"]) for each in snapshot["origins"]],
    )


def _one(value: float) -> list[Sample]:
    return [({}, value)]


def _lines(name: str, kind: str, help_text: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP {name} {help_text}\n# TYPE {name} {kind}\n"
    for labels, value in samples:
        pairs = ",".join(f'{label}="{text.translate(_ESCAPES)}"' for label, text in labels.items())
        yield f"{name}{{{pairs}}} {value!r}\n" if pairs else f"{name} {value!r}\n"
