"""Formats the status of a shared job as metrics."""

from collections.abc import Iterator

from fetchmill._dashboard.metrics import OUTCOMES, Family, Sample, text_of
from fetchmill._native import __version__
from fetchmill._shared.heartbeats import FETCHING
from fetchmill._shared.status import SharedStatus

_STATES = (*FETCHING, "ended", "lost")
# Metrics of a worker, each with its name, type and help text, and the field of the worker's status.
_OF_WORKER = (
    ("objects_per_second", "gauge", "Outcomes per second in the current attempts of a worker.", "objects_per_second"),
    ("heartbeat_age_seconds", "gauge", "Seconds since the last heartbeat of a worker.", "age"),
    ("fetched_total", "counter", "Fetched targets in the final ranges of a worker.", "fetched"),
    ("failed_total", "counter", "Failed targets in the final ranges of a worker.", "failed"),
)


def metrics_of(status: SharedStatus) -> str:
    """Return the metrics of a shared job in the Prometheus text format. Counters count final ranges."""
    return text_of((*_of_job(status), *_of_workers(status)))


def _of_job(status: SharedStatus) -> Iterator[Family]:
    def one(value: float) -> list[Sample]:
        return [({}, value)]

    def each(label: str, values: dict[str, int]) -> list[Sample]:
        return [({label: name}, value) for name, value in values.items()]

    ledger = status.ledger
    outcomes = {outcome: ledger[outcome] for outcome in OUTCOMES}
    ranges = {"final": status.ranges_done, "open": status.ranges_open, "set_aside": len(status.set_aside)}
    discarded = "Outcomes in attempts that did not become final."
    states = "Number of ranges by state. Final ranges include those that are set aside."
    yield "fetchmill_build_info", "gauge", "Version of fetchmill.", [({"version": __version__}, 1)]
    yield "fetchmill_objects_total", "counter", "Targets with an outcome.", each("outcome", outcomes)
    yield "fetchmill_failures_total", "counter", "Failed targets by failure kind.", each("kind", dict(status.failures))
    yield "fetchmill_bytes_total", "counter", "Bytes of fetched bodies.", one(ledger["bytes"])
    yield "fetchmill_requests_total", "counter", "Number of requests.", one(ledger["attempts"])
    yield "fetchmill_discarded", "gauge", discarded, one(status.discarded)
    yield "fetchmill_listing_complete", "gauge", "1 if all targets are listed.", one(int(status.is_listed))
    yield "fetchmill_finished", "gauge", "1 if the job is finished.", one(int(status.finished))
    yield "fetchmill_ranges", "gauge", states, each("state", ranges)


def _of_workers(status: SharedStatus) -> Iterator[Family]:
    """Yield the number of workers by state, and the metrics of those that have not ended."""
    counts: list[Sample] = [
        ({"state": state}, sum(worker.state == state for worker in status.workers)) for state in _STATES
    ]
    yield "fetchmill_workers", "gauge", "Number of workers by state.", counts
    shown = [worker for worker in status.workers if worker.state != "ended"]
    for name, kind, help_text, field in _OF_WORKER:
        samples: list[Sample] = [({"worker": worker.name}, getattr(worker, field)) for worker in shown]
        yield f"fetchmill_worker_{name}", kind, help_text, samples
