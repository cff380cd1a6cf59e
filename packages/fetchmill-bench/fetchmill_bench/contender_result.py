"""What a contender has told of itself, read from what it wrote and how it ended."""

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
# A point of time and how many requests were completed by then.
Point = tuple[float, float]

# A steady rate over less than this would be chance.
_STEADY_SECONDS_MIN = 1.0
_REASON_MAX = 300
# Exit codes of a `get` that has come to its end: all fetched, or some not.
_FINISHED = (0, 3)


@dataclass(frozen=True, kw_only=True)
class ContenderResult:
    """What became of a run.

    Args:
        status: `ok`: all was done; `stopped`: its time was over first; `failed`: it broke.
        reason: why it failed.
        done: completed requests, failed ones included.
        failures: those without a complete 2xx; of sites, those that gave no status.
        seconds: the time that this took, as the contender itself measures it.
        points: how the number of completed requests grew.
        set_up: seconds until its clients were made, of a way that tells.
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
        """Requests a second; 0 when nothing was done."""
        return self.done / self.seconds if self.seconds > 0 else 0.0

    def steady_rate(self, run: Run) -> float | None:
        """Requests a second without the first and last seconds of a scenario that waits; None of a run too short."""
        if run.scenario.name != "slow" or len(self.points) < 2:  # noqa: PLR2004 - a rate is between two points
            return None
        ends = min(self.seconds, run.seconds)
        first, last = RAMP_SECONDS, ends - RAMP_SECONDS
        if last - first < _STEADY_SECONDS_MIN:
            return None
        return (_at(self.points, last) - _at(self.points, first)) / (last - first)


def read_result(run: Run, requests: int, measurement: Measurement, served: int | None) -> ContenderResult:
    """What became of a run.

    Args:
        run: the run.
        requests: how many objects or sites there were.
        measurement: how its process ended.
        served: objects that the server was asked for meanwhile; None: it does not tell.
    """
    if run.contender.kind in ("own", "program"):
        return _from_exit(run, requests, measurement, served)
    if measurement.killed:
        return ContenderResult(status="failed", reason="it did not end when its time was over, and was killed")
    if run.contender.kind == "module":
        return _from_line(run, requests, measurement)
    return _from_events(measurement, is_check=run.contender.kind == "check")


def _from_exit(run: Run, requests: int, measurement: Measurement, served: int | None) -> ContenderResult:
    """A program that ends well has done what it was told; of one that was stopped only the server can tell."""
    if not measurement.stopped:
        if measurement.code != 0:
            return ContenderResult(status="failed", reason=_failure_reason(measurement), seconds=measurement.seconds)
        return ContenderResult(status="ok", done=requests, seconds=measurement.seconds)
    if served is None:
        reason = f"not done in {run.seconds:g} s: give it a smaller --count, or more --seconds"
        return ContenderResult(status="failed", reason=reason, seconds=measurement.seconds)
    if served == 0:
        reason = f"no request in {run.seconds:g} s"
        return ContenderResult(status="failed", reason=reason, seconds=measurement.seconds)
    return ContenderResult(status="stopped", done=served, seconds=measurement.seconds)


def _from_line(run: Run, requests: int, measurement: Measurement) -> ContenderResult:
    """Its one line."""
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
    """The events of `fetchmill get` or `fetchmill check`."""
    events = list(_objects(measurement.output))
    progress = [event for event in events if event.get("event") == "progress"]
    points = [(0.0, 0.0), *((event["seconds"], float(sum(_settled_counts(event)))) for event in progress)]
    report = next((event for event in reversed(events) if event.get("event") == "report"), None)
    if report is None and measurement.stopped and progress:
        # Where the disk is too slow to drain in time, the job is given up without a report.
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
    """Completed requests, and those of them that failed."""
    if is_check:
        statuses = sum(count for answer, count in report["counts"].items() if answer.isdecimal())
        return report["rows"], report["rows"] - statuses if report["counts"] else 0
    fetched, absent, failed = _settled_counts(report)
    return fetched + absent + failed, absent + failed


def _settled_counts(values: dict[str, Any]) -> tuple[int, int, int]:
    return values["fetched"], values["absent"], values["failed"]


def _at(points: Sequence[Point], seconds: float) -> float:
    """How many were completed by then, in a straight line between two points."""
    for (before, low), (after, high) in pairwise(points):
        if before <= seconds <= after and after > before:
            return low + (high - low) * (seconds - before) / (after - before)
    return points[-1][1]


def _objects(text: str) -> Iterable[dict[str, Any]]:
    """The lines that are JSON objects; of a contender that writes other things too, those are passed over."""
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
    """How it ended, and the last line of what it said of that."""
    how = f"signal {-measurement.code}" if measurement.code < 0 else f"exit code {measurement.code}"
    line = next((line.strip() for line in reversed(measurement.errors.splitlines()) if line.strip()), "")
    if measurement.code == 0:
        how = "it wrote no result"
    return _short(f"{how}: {line}" if line else how)


def _short(text: str) -> str:
    """A line that fits."""
    line = " ".join(str(text).split())
    return line if len(line) <= _REASON_MAX else line[: _REASON_MAX - 3] + "..."
