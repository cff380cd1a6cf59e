"""Formats a job's snapshot as text for people, and as an event for programs.

Rates cover the last few seconds, measured by the job's own clock, which is part of each snapshot.
"""

from collections import deque
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fetchmill._options.units import format_bytes, format_count, format_seconds
from fetchmill._quick_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fetchmill._job.report import LimitedBy, Snapshot, Wait

# Period over which a rate is averaged: long enough to be steady, short enough to show changes.
RATE_SECONDS = 10.0
# Maximum number of failure kinds named in a line. All other kinds are counted together.
KINDS_SHOWN_MAX = 4


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Finished objects and fetched bytes per second, over the last few seconds."""

    objects: float
    bytes: float


class Meter:
    """Converts snapshots to rates. Keeps only the snapshots of the last few seconds."""

    def __init__(self, seconds: float = RATE_SECONDS) -> None:
        self._seconds = seconds
        self._points: deque[tuple[float, int, int]] = deque()

    def add(self, snapshot: "Snapshot") -> Rates:
        """Add a snapshot and return the rates up to it."""
        settled = snapshot.settled
        if self._points and snapshot.seconds < self._points[-1][0]:
            self._points.clear()  # this is another job: a sync first lists, then fetches
        if not self._points and snapshot.seconds > 0:
            # The number of targets finished by earlier runs is known, but the number of bytes is not. In a resumed run,
            # the byte rate therefore starts with this snapshot.
            self._points.append((0.0, snapshot.start_settled, 0 if not snapshot.resumed else snapshot.bytes))
        self._points.append((snapshot.seconds, settled, snapshot.bytes))
        while len(self._points) > 2 and self._points[1][0] <= snapshot.seconds - self._seconds:  # noqa: PLR2004 - both ends
            self._points.popleft()
        first, last = self._points[0], self._points[-1]
        seconds = last[0] - first[0]
        if seconds <= 0:
            return Rates(objects=0.0, bytes=0.0)
        return Rates(objects=(last[1] - first[1]) / seconds, bytes=(last[2] - first[2]) / seconds)


def remaining_seconds(snapshot: "Snapshot", rates: Rates) -> float | None:
    """Return the remaining seconds; None while the total is unknown or there is no progress."""
    if snapshot.expected is None or rates.objects <= 0:
        return None
    return (snapshot.expected - snapshot.settled) / rates.objects


def describe_eta(snapshot: "Snapshot", rates: Rates) -> str:
    """Return `ETA 12 s`, or `ETA at least 12 s` if more may be listed. Empty if there is no progress."""
    remaining = remaining_seconds(snapshot, rates)
    if remaining is not None:
        return f"ETA {format_seconds(remaining)}"
    if rates.objects <= 0:
        return ""
    return f"ETA at least {format_seconds((snapshot.listed - snapshot.settled) / rates.objects)}"


def describe_done(snapshot: "Snapshot") -> str:
    """Return `412 of 1,000 (41 %)` if the total is known, otherwise `412 of at least 1,000`."""
    settled, expected = format_count(snapshot.settled), snapshot.expected
    if expected is None:
        return f"{settled} of at least {format_count(snapshot.listed)}"
    share = 100 * snapshot.settled // expected if expected else 100
    return f"{settled} of {format_count(expected)} ({share} %)"


def describe_failures(failures: "Mapping[str, int]", shown_max: int | None = KINDS_SHOWN_MAX) -> str:
    """Return `truncated 12, dns 3`, most frequent first. Empty if nothing failed."""
    ordered = sorted(failures.items(), key=lambda pair: (-pair[1], pair[0]))
    parts = [f"{kind} {format_count(count)}" for kind, count in ordered[:shown_max]]
    rest = sum(count for _, count in ordered[len(parts) :])
    return ", ".join(parts + ([f"others {format_count(rest)}"] if rest else []))


def describe(snapshot: "Snapshot", rates: Rates) -> list[str]:
    """Describe a snapshot in one line, plus one line if anything failed and one for each current outage."""
    line = [
        describe_done(snapshot),
        f"{format_count(rates.objects)} objects/s",
        f"{format_bytes(rates.bytes)}/s",
        f"{format_count(snapshot.in_flight)} in flight",
    ]
    eta = describe_eta(snapshot, rates)
    if snapshot.phase == "draining":
        line.append("draining")
    elif eta:
        line.append(eta)
    second = []
    if snapshot.absent:
        second.append(f"absent {format_count(snapshot.absent)}")
    if snapshot.failed:
        second.append(f"failed {format_count(snapshot.failed)} ({describe_failures(snapshot.failures)})")
    if snapshot.waiting:
        second.append(f"waiting to be retried {format_count(snapshot.waiting)}")
    waits = [describe_wait(wait, with_dates=False) for wait in snapshot.waits]
    # If the job is waiting out an outage, only the outage is shown, not the bottleneck.
    limits = [describe_limit(snapshot.limited_by)] if snapshot.limited_by and not waits else []
    return [", ".join(line), *([", ".join(second)] if second else []), *waits, *limits]


def describe_limit(limited_by: "LimitedBy") -> str:
    """Return `limited by the disk: storing takes 97 % of the time`.

    In a report, the share of the run follows in parentheses.
    """
    share = "" if limited_by.share is None else f" ({limited_by.share * 100:.0f} % of the run)"
    text = limited_by.text if limited_by.kind == "throttling" else f"limited by {limited_by.text}"
    return f"{text}{share}"


def describe_wait(wait: "Wait", *, with_dates: bool) -> str:
    """Return `waiting: the server returns no valid reply (reset) since 12:00:01 UTC, gives up at 12:15:01 UTC`."""
    form = "%Y-%m-%d %H:%M:%S" if with_dates else "%H:%M:%S"
    return f"waiting: {wait.what} since {wait.since:{form}} UTC, gives up at {wait.until:{form}} UTC"


def progress_event(snapshot: "Snapshot", rates: Rates) -> dict[str, Any]:
    """Return a snapshot as a JSON event."""
    remaining = remaining_seconds(snapshot, rates)
    # Omit the origins, which would make up most of each line. The dashboard and the metrics show them.
    shown = {name: value for name, value in vars(snapshot).items() if name != "origins"}
    event = {**shown, "failures": dict(snapshot.failures)}
    event["waits"] = [wait.to_dict() for wait in snapshot.waits]
    event["limited_by"] = asdict(snapshot.limited_by) if snapshot.limited_by else None
    event["latency"] = asdict(snapshot.latency) if snapshot.latency else None
    return event | {
        "objects_per_second": round(rates.objects, 1),
        "bytes_per_second": round(rates.bytes, 1),
        "remaining_seconds": None if remaining is None else round(remaining, 1),
    }
