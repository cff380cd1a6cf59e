"""Determines a contender's result from its output and its exit code."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Literal

from fetchmill_bench.measurement import Measurement
from fetchmill_bench.plan import Run
from fetchmill_bench.scenarios import RAMP_SECONDS
from fetchmill_bench.task import STEP_SECONDS

RunStatus = Literal["ok", "stopped", "failed"]
# A point in time, and the number of requests completed by then.
Point = tuple[float, float]

# Minimum duration of a steady rate. A rate over a shorter time would depend on chance.
_STEADY_SECONDS_MIN = 1.0
_REASON_MAX = 300
# Exit codes of a `get` that finished: all objects were fetched, or some were not.
_FINISHED = (0, 3)


@dataclass(frozen=True, kw_only=True)
class ContenderResult:
    """The result of a run.

    Args:
        status: `ok` if all requests were completed, `stopped` if the time was up before that, or `failed` if the way
            failed.
        reason: why the way failed.
        done: number of completed requests, including failed ones.
        failures: number of requests without a complete 2xx reply; for sites, without a status.
        seconds: duration, as measured by the contender itself.
        points: the number of completed requests over time.
        set_up: seconds that the way took to create its clients, if it reports them.
    """

    status: RunStatus
    reason: str | None = None
    done: int = 0
    failures: int = 0
    seconds: float = 0.0
    points: Sequence[Point] = ()
    set_up: float | None = None

    @property
    def rate(self) -> float:
        """Requests per second; 0 if none was completed."""
        return self.done / self.seconds if self.seconds > 0 else 0.0

    def steady_rate(self, run: Run) -> float | None:
        """Returns requests per second without the first and last seconds of `slow`; None if the run was too short."""
        if run.scenario.name != "slow" or len(self.points) < 2:  # noqa: PLR2004 - a rate is between two points
            return None
        ends = min(self.seconds, run.seconds)
        first, last = RAMP_SECONDS, ends - RAMP_SECONDS
        if last - first < _STEADY_SECONDS_MIN:
            return None
        return (_at(self.points, last) - _at(self.points, first)) / (last - first)


def read_result(run: Run, requests: int, measurement: Measurement, served: int | None) -> ContenderResult:
    """Returns the result of a run.

    Args:
        run: the run.
        requests: number of objects or sites.
        measurement: the measurement of the contender's process.
        served: number of objects requested from the server during the run; None if the server does not report it.
    """
    if run.contender.kind in ("own", "program"):
        return _from_exit(run, requests, measurement, served)
    if measurement.killed:
        return ContenderResult(status="failed", reason="killed, because it did not end when its time was up")
    if run.contender.kind == "module":
        return _from_line(run, requests, measurement)
    return _from_events(measurement, is_check=run.contender.kind == "check")


def _from_exit(run: Run, requests: int, measurement: Measurement, served: int | None) -> ContenderResult:
    """Returns the result of a program. If it was stopped, the server's count is used; otherwise, all requests count."""
    if not measurement.stopped:
        if measurement.code != 0:
            return ContenderResult(status="failed", reason=_failure_reason(measurement), seconds=measurement.seconds)
        return ContenderResult(status="ok", done=requests, seconds=measurement.seconds)
    if served is None:
        reason = f"not finished within {run.seconds:g} s; use a smaller --count or more --seconds"
        return ContenderResult(status="failed", reason=reason, seconds=measurement.seconds)
    if served == 0:
        reason = f"no request in {run.seconds:g} s"
        return ContenderResult(status="failed", reason=reason, seconds=measurement.seconds)
    return ContenderResult(status="stopped", done=served, seconds=measurement.seconds)


def _from_line(run: Run, requests: int, measurement: Measurement) -> ContenderResult:
    """Returns the result from the contender's line of JSON."""
    summary = _last_object(measurement.output, "done")
    if summary is None:
        return ContenderResult(status="failed", reason=_failure_reason(measurement))
    done, seconds = summary["done"], summary["seconds"]
    status, reason = _status_of(summary, run, requests)
    counts = accumulate(summary["steps"], initial=0)
    points = [(number * STEP_SECONDS, float(count)) for number, count in enumerate(counts)]
    return ContenderResult(
        status=status,
        reason=reason,
        done=done,
        failures=summary["failed"],
        seconds=seconds,
        points=points,
        set_up=summary["set_up"],
    )


def _status_of(summary: dict[str, Any], run: Run, requests: int) -> tuple[RunStatus, str | None]:
    if summary["error"]:
        return "failed", _short(summary["error"])
    if summary["done"] >= requests:
        return "ok", None
    if summary["seconds"] >= run.seconds:
        return "stopped", None
    return "failed", f"it ended after {summary['done']} of {requests} requests"


def _from_events(measurement: Measurement, *, is_check: bool) -> ContenderResult:
    """Returns the result from the events of `fetchmill get` or `fetchmill check`."""
    events = list(_objects(measurement.output))
    progress = [event for event in events if event.get("event") == "progress"]
    points = [(0.0, 0.0), *((event["seconds"], float(sum(_settled_counts(event)))) for event in progress)]
    report = next((event for event in reversed(events) if event.get("event") == "report"), None)
    if report is None and measurement.stopped and progress:
        # If the disk is too slow for the job to drain in time, the job is aborted without a report.
        seconds, done = points[-1]
        return ContenderResult(status="stopped", done=int(done), seconds=seconds, points=points)
    if report is None:
        message = next((event["message"] for event in events if event.get("event") == "error"), None)
        return ContenderResult(status="failed", reason=_short(message) if message else _failure_reason(measurement))
    done, failures = _counts(report, is_check=is_check)
    if not report["interrupted"] and measurement.code not in _FINISHED:
        return ContenderResult(status="failed", reason=_failure_reason(measurement), done=done, failures=failures)
    return ContenderResult(
        status="stopped" if report["interrupted"] else "ok",
        done=done,
        failures=failures,
        seconds=report["seconds"],
        points=[*points, (report["seconds"], float(done))],
    )


def _counts(report: dict[str, Any], *, is_check: bool) -> tuple[int, int]:
    """Returns the number of completed requests, and how many of them failed."""
    if is_check:
        statuses = sum(count for answer, count in report["counts"].items() if answer.isdecimal())
        return report["rows"], report["rows"] - statuses if report["counts"] else 0
    fetched, absent, failed = _settled_counts(report)
    return fetched + absent + failed, absent + failed


def _settled_counts(values: dict[str, Any]) -> tuple[int, int, int]:
    return values["fetched"], values["absent"], values["failed"]


def _at(points: Sequence[Point], seconds: float) -> float:
    """Returns the number of requests completed by this time, interpolated linearly between two points."""
    for (before, low), (after, high) in pairwise(points):
        if before <= seconds <= after and after > before:
            return low + (high - low) * (seconds - before) / (after - before)
    return points[-1][1]


def _objects(text: str) -> Iterable[dict[str, Any]]:
    """Yields the lines that are JSON objects. Other lines are skipped."""
    for line in text.splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            yield value


def _last_object(text: str, key: str) -> dict[str, Any] | None:
    return next((value for value in reversed(list(_objects(text))) if key in value), None)


def _failure_reason(measurement: Measurement) -> str:
    """Returns how the process ended, and the last line of its standard error."""
    how = f"signal {-measurement.code}" if measurement.code < 0 else f"exit code {measurement.code}"
    line = next((line.strip() for line in reversed(measurement.errors.splitlines()) if line.strip()), "")
    if measurement.code == 0:
        how = "it wrote no result"
    return _short(f"{how}: {line}" if line else how)


def _short(text: str) -> str:
    """Returns a text as one line of limited length."""
    line = " ".join(str(text).split())
    return line if len(line) <= _REASON_MAX else line[: _REASON_MAX - 3] + "..."
