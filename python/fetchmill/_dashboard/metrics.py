"""A job's figures as Prometheus reads them: the text format 0.0.4."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

OUTCOMES = ("fetched", "absent", "failed", "skipped")
# What can hold a job back: exactly one of them is 1 once the first second is over.
LIMITS = (
    *("listing", "server", "network", "cpu", "disk", "transform", "rate", "bwlimit", "throttling", "courtesy"),
    *("concurrency", "names", "outage", "last-targets", "mixed"),
)
# Prometheus' quantiles, and what the job calls them.
_QUANTILES = (("0.5", "p50"), ("0.9", "p90"), ("0.99", "p99"), ("1", "max"))

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})

# Labels and a value.
Sample = tuple[Mapping[str, str], float]


def metrics_text(snapshot: Mapping[str, Any], started: float, version: str) -> str:
    """All metrics.

    Args:
        snapshot: what `Job.snapshot()` gives.
        started: when the run began, seconds since 1970.
        version: of fetchmill.
    """
    return "".join(line for family in _families(snapshot, started, version) for line in _lines(*family))


def _families(
    snapshot: Mapping[str, Any], started: float, version: str
) -> Iterator[tuple[str, str, str, Iterable[Sample]]]:
    """Name, type, help and samples of each."""

    def one(value: float) -> list[Sample]:
        return [({}, value)]

    yield "fetchmill_build_info", "gauge", "The version of fetchmill.", [({"version": version}, 1)]
    yield "fetchmill_start_time_seconds", "gauge", "When this run began, seconds since 1970.", one(started)
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
    yield "fetchmill_listed_total", "counter", "Targets that the source has handed over.", one(snapshot["listed"])
    yield "fetchmill_listing_complete", "gauge", "Whether all are listed.", one(int(snapshot["listing_done"]))
    yield "fetchmill_bytes_total", "counter", "Bytes of fetched bodies.", one(snapshot["bytes"])
    yield "fetchmill_requests_total", "counter", "Requests for targets in this run.", one(snapshot["attempts"])
    yield "fetchmill_in_flight", "gauge", "Requests without a reply yet.", one(snapshot["in_flight"])
    yield (
        "fetchmill_concurrency_limit",
        "gauge",
        "Requests in flight at most, now.",
        one(snapshot["concurrency"]),
    )
    yield "fetchmill_waiting", "gauge", "Targets that wait to be tried again.", one(snapshot["waiting"])
    latency = snapshot["latency"] or {}
    yield (
        "fetchmill_latency_seconds",
        "summary",
        "Time from a request to its reply, of those of the last ten seconds.",
        [({"quantile": quantile}, latency[name]) for quantile, name in _QUANTILES if name in latency],
    )
    yield (
        "fetchmill_origin_latency_seconds",
        "summary",
        "The same by origin, of a job over many: at most 64 of them.",
        [
            ({"origin": each["origin"], "quantile": quantile}, each["latency"][name])
            for each in snapshot["origins"]
            for quantile, name in _QUANTILES
        ],
    )
    yield (
        "fetchmill_origin_replies_per_second",
        "gauge",
        "Replies of the last ten seconds by origin, of a job over many: at most 64 of them.",
        [({"origin": each["origin"]}, each["replies_per_second"]) for each in snapshot["origins"]],
    )
    limit = (snapshot["limited_by"] or {}).get("kind")
    kinds = LIMITS if limit is None or limit in LIMITS else (*LIMITS, limit)
    yield (
        "fetchmill_limited_by",
        "gauge",
        "What holds the job back: 1 for that, 0 for all else.",
        [({"kind": kind}, int(kind == limit)) for kind in kinds],
    )


def _lines(name: str, kind: str, told: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP {name} {told}\n# TYPE {name} {kind}\n"
    for labels, value in samples:
        pairs = ",".join(f'{label}="{text.translate(_ESCAPES)}"' for label, text in labels.items())
        yield f"{name}{{{pairs}}} {value!r}\n" if pairs else f"{name} {value!r}\n"
