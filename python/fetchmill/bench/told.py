"""What a contender has told of itself, read from what it wrote and how it ended."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Literal

from fetchmill.bench.measuring import Measured
from fetchmill.bench.plan import Run
from fetchmill.bench.scenarios import RAMP_SECONDS
from fetchmill.bench.task import STEP_SECONDS

Status = Literal["ok", "stopped", "failed"]
# A point of time and how many requests were completed by then.
Point = tuple[float, float]

# A steady rate over less than this would be chance.
_STEADY_SECONDS_MIN = 1.0
_REASON_MAX = 300
# Exit codes of a `get` that has come to its end: all fetched, or some not.
_FINISHED = (0, 3)


@dataclass(frozen=True, kw_only=True)
class Told:
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

    status: Status
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


def told_by(run: Run, requests: int, measured: Measured, served: int | None) -> Told:
    """What became of a run.

    Args:
        run: the run.
        requests: how many objects or sites there were.
        measured: how its process ended.
        served: objects that the server was asked for meanwhile; None: it does not tell.
    """
    if run.contestant.kind in ("own", "program"):
        return _by_own(run, requests, measured, served)
    if measured.killed:
        return Told(status="failed", reason="it did not end when its time was over, and was killed")
    if run.contestant.kind == "contender":
        return _by_contender(run, requests, measured)
    return _by_command(measured, is_check=run.contestant.kind == "check")


def _by_own(run: Run, requests: int, measured: Measured, served: int | None) -> Told:
    """A program that ends well has done what it was told; of one that was stopped only the server can tell."""
    if not measured.asked:
        if measured.code != 0:
            return Told(status="failed", reason=_why(measured), seconds=measured.seconds)
        return Told(status="ok", done=requests, seconds=measured.seconds)
    if served is None:
        reason = f"not done in {run.seconds:g} s: give it a smaller --count, or more --seconds"
        return Told(status="failed", reason=reason, seconds=measured.seconds)
    if served == 0:
        reason = f"no request in {run.seconds:g} s"
        return Told(status="failed", reason=reason, seconds=measured.seconds)
    return Told(status="stopped", done=served, seconds=measured.seconds)


def _by_contender(run: Run, requests: int, measured: Measured) -> Told:
    """Its one line."""
    said = _last_object(measured.output, "done")
    if said is None:
        return Told(status="failed", reason=_why(measured))
    done, seconds = said["done"], said["seconds"]
    status, reason = _status_of(said, run, requests)
    counts = accumulate(said["steps"], initial=0)
    points = [(number * STEP_SECONDS, float(count)) for number, count in enumerate(counts)]
    return Told(
        status=status,
        reason=reason,
        done=done,
        failures=said["failed"],
        seconds=seconds,
        points=points,
        set_up=said["set_up"],
    )


def _status_of(said: dict[str, Any], run: Run, requests: int) -> tuple[Status, str | None]:
    if said["error"]:
        return "failed", _short(said["error"])
    if said["done"] >= requests:
        return "ok", None
    if said["seconds"] >= run.seconds:
        return "stopped", None
    return "failed", f"it ended after {said['done']} of {requests} requests"


def _by_command(measured: Measured, *, is_check: bool) -> Told:
    """The events of `fetchmill get` or `fetchmill check`."""
    events = list(_objects(measured.output))
    progress = [event for event in events if event.get("event") == "progress"]
    points = [(0.0, 0.0), *((event["seconds"], float(sum(_settled(event)))) for event in progress)]
    report = next((event for event in reversed(events) if event.get("event") == "report"), None)
    if report is None and measured.asked and progress:
        # Where the disk is too slow to drain in time, the job is given up without a report.
        seconds, done = points[-1]
        return Told(status="stopped", done=int(done), seconds=seconds, points=points)
    if report is None:
        message = next((event["message"] for event in events if event.get("event") == "error"), None)
        return Told(status="failed", reason=_short(message) if message else _why(measured))
    done, failures = _counts(report, is_check=is_check)
    if not report["interrupted"] and measured.code not in _FINISHED:
        return Told(status="failed", reason=_why(measured), done=done, failures=failures)
    return Told(
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
    fetched, absent, failed = _settled(report)
    return fetched + absent + failed, absent + failed


def _settled(values: dict[str, Any]) -> tuple[int, int, int]:
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


def _why(measured: Measured) -> str:
    """How it ended, and the last line of what it said of that."""
    how = f"signal {-measured.code}" if measured.code < 0 else f"exit code {measured.code}"
    line = next((line.strip() for line in reversed(measured.errors.splitlines()) if line.strip()), "")
    if measured.code == 0:
        how = "it wrote no result"
    return _short(f"{how}: {line}" if line else how)


def _short(text: str) -> str:
    """A line that fits."""
    line = " ".join(str(text).split())
    return line if len(line) <= _REASON_MAX else line[: _REASON_MAX - 3] + "..."
