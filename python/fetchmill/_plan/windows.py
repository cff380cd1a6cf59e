"""Computes a rate and its uncertainty from the counters of a probe (docs/guide/plan.md describes the method).

The probe is divided into windows of one second. The first windows are slower, because connections are being opened and
names resolved. The marginal standard error rule determines how many windows to ignore. A straight line through the
remaining counters gives the rate. The spread of the windows gives the uncertainty.

Replies may be held for up to a second and then arrive together, so the counters rise in steps. Only the edges of these
steps are used.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Self

from fetchmill._job.report import Snapshot

WINDOW_SECONDS = 1.0
# Once `auto` has found a number of requests in flight, the number varies by less than this factor.
SWING = 1.5
# If nothing new arrives for this long, the job is stalled, because replies are never held that long. In that case, the
# last counters are also used.
SILENT_SECONDS = 2.5
# Uncertainty added to the measured spread, because a probe of a few seconds cannot show how a server behaves over an
# hour.
UNSEEN = 0.1
# If the rate grows by more than this share from the second third of the steady part to the last, it is not steady.
GROWING = 0.15
# Student's t for 95 %, by degrees of freedom, starting at 1.
_T = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10)
_T_OF_MANY = 2.0
# With fewer windows the spread is meaningless, and the value may be off by `_UNKNOWN`.
_WINDOWS_MIN = 3
_UNKNOWN = 0.5


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """An estimated value with its range.

    Args:
        value: the most likely value.
        low: the low end of the likely range.
        high: the high end of the likely range.
    """

    value: float
    low: float
    high: float

    @classmethod
    def exactly(cls, value: float) -> Self:
        """Return an estimate for an exactly known value."""
        return cls(value=value, low=value, high=value)

    @classmethod
    def within(cls, value: float, share: float) -> Self:
        """Return an estimate with a relative uncertainty. `low` is computed as a ratio, so it never falls below 0."""
        return cls(value=value, low=value / (1 + share), high=value * (1 + share))

    def times(self, factor: float) -> Self:
        """Return the estimate multiplied by a factor."""
        return type(self)(value=self.value * factor, low=self.low * factor, high=self.high * factor)

    def plus(self, other: "Estimate | float") -> Self:
        """Return the sum. The ranges are added, because both values may be at the same end of their ranges."""
        more = other if isinstance(other, Estimate) else Estimate.exactly(other)
        return type(self)(value=self.value + more.value, low=self.low + more.low, high=self.high + more.high)

    def to_dict(self) -> dict[str, float]:
        """Return a dict for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Window:
    """The counts of one window of the probe.

    Args:
        start: start of the window, in seconds of the run.
        seconds: length of the window in seconds.
        settled: number of finished targets.
        fetched: number of fetched targets.
        bytes: bytes of the fetched bodies.
        index: index of the snapshot at the end of the window.
    """

    start: float
    seconds: float
    settled: int
    fetched: int
    bytes: int
    index: int

    @property
    def rate(self) -> float:
        """Targets finished per second."""
        return self.settled / self.seconds


@dataclass(frozen=True)
class SteadyRate:
    """The steady part of a probe.

    Args:
        objects: targets finished per second.
        body_bytes: mean size of a body in bytes; None if no body was fetched.
        middle: central point of the fitted line, as seconds of the run and targets finished by then.
        first: index of the snapshot at the start of the steady part.
        is_growing: whether the rate was still growing at the end.
        windows: number of windows in the steady part.
    """

    objects: Estimate
    body_bytes: Estimate | None
    middle: tuple[float, float]
    first: int
    is_growing: bool
    windows: int

    def seconds_for(self, count: int) -> Estimate:
        """Estimate the seconds from the start of a job until `count` targets are finished."""
        seconds, settled = self.middle
        rest = count - settled
        if rest <= 0:
            return Estimate.within(seconds * count / settled, UNSEEN)
        return Estimate(
            value=seconds + rest / self.objects.value,
            low=seconds + rest / self.objects.high,
            high=seconds + rest / self.objects.low,
        )


def steady_rate(snapshots: Sequence[Snapshot]) -> SteadyRate | None:
    """Return the steady part of a probe; None if no target was finished in any window.

    Args:
        snapshots: the snapshots of one run, in order.
    """
    edges = _edges(snapshots)
    windows = list(_windows(edges))
    if not any(window.settled for window in windows):
        return None
    # Ignore windows during the search for the number in flight, because their rates differ. Keep at least one window.
    found = snapshots[found_since(snapshots)].seconds
    looked = snapshots[looked_until(snapshots)].seconds
    # During the search, connections were opened and closed. If too few windows follow the search, use all windows
    # whose number in flight was close to the final one.
    is_enough = sum(window.start >= looked for window in windows) >= _WINDOWS_MIN
    since = max(found, looked) if is_enough else found
    sought = min(sum(window.start < since for window in windows), len(windows) - 1)
    skipped = sought + warm_up([window.rate for window in windows[sought:]])
    if not any(window.settled for window in windows[skipped:]):
        skipped = 0
    steady = windows[skipped:]
    first = windows[skipped - 1].index if skipped else 0
    slope, middle = _line([(each.seconds, each.asked_for) for index, each in edges if index >= first])
    share = math.hypot(relative_error([each.rate for each in steady]), UNSEEN)
    return SteadyRate(
        objects=Estimate.within(slope, share),
        body_bytes=mean_body(windows),
        middle=middle,
        first=first,
        is_growing=_is_growing([each.rate for each in steady]),
        windows=len(steady),
    )


def found_since(snapshots: Sequence[Snapshot]) -> int:
    """Return the index of the snapshot after which the number of requests in flight stays close to the final one."""
    last = snapshots[-1].concurrency
    for index in range(len(snapshots) - 1, -1, -1):
        then = snapshots[index].concurrency
        if not last / SWING <= then <= last * SWING:
            return min(index + 1, len(snapshots) - 1)
    return 0


def looked_until(snapshots: Sequence[Snapshot]) -> int:
    """Return the index of the last snapshot in which `auto` was still searching; 0 if there is none."""
    return max((index for index, each in enumerate(snapshots) if each.tries_concurrency), default=0)


def mean_body(windows: Sequence[Window]) -> Estimate | None:
    """Estimate the mean body size. The uncertainty is the spread of the windows' means."""
    with_bodies = [each for each in windows if each.fetched]
    if not with_bodies:
        return None
    mean = sum(each.bytes for each in with_bodies) / sum(each.fetched for each in with_bodies)
    if all(each.bytes == mean * each.fetched for each in with_bodies):
        return Estimate.exactly(mean)
    return Estimate.within(mean, relative_error([each.bytes / each.fetched for each in with_bodies]))


def warm_up(values: Sequence[float]) -> int:
    """Return how many initial values, at most half, the marginal standard error rule ignores (White 1997).

    It ignores the initial values whose removal makes the mean of the remaining values most precise.
    """

    def error(skipped: int) -> float:
        rest = values[skipped:]
        mean = sum(rest) / len(rest)
        return sum((value - mean) ** 2 for value in rest) / len(rest) ** 2

    return min(range(len(values) // 2 + 1), key=error) if len(values) > _WINDOWS_MIN else 0


def relative_error(values: Sequence[float]) -> float:
    """Return half the width of the mean's 95 % interval, as a share of the mean.

    Adjacent values may depend on each other, so the variance is that of Newey and West (1987), with one lag.
    """
    count, mean = len(values), sum(values) / len(values)
    if count < _WINDOWS_MIN or mean <= 0:
        return _UNKNOWN
    apart = [value - mean for value in values]
    neighbours = sum(one * other for one, other in pairwise(apart))
    # The weight of one lag is 1/2, and it counts in both directions.
    variance = max(sum(one * one for one in apart) + neighbours, 0.0) / (count - 1)
    quantile = _T[count - 2] if count - 2 < len(_T) else _T_OF_MANY
    return quantile * math.sqrt(variance / count) / mean


def _line(points: Sequence[tuple[float, float]]) -> tuple[float, tuple[float, float]]:
    """Return the slope and the central point of the least-squares line.

    The least-squares line is more precise than a line from the first to the last point. Each of these two points may be
    off by one step.
    """
    middle = tuple(sum(values) / len(points) for values in zip(*points, strict=True))
    apart = [(seconds - middle[0], settled - middle[1]) for seconds, settled in points]
    slope = sum(seconds * settled for seconds, settled in apart) / sum(seconds * seconds for seconds, _ in apart)
    return slope, (middle[0], middle[1])


def _is_growing(values: Sequence[float]) -> bool:
    """Return whether the rate grows from the first third to the second, and to the last by more than `GROWING`."""
    third = len(values) // 3
    if third < 2:  # noqa: PLR2004 - one window per third is too few
        return False
    means = [sum(part) / third for part in (values[:third], values[third : 2 * third], values[-third:])]
    return means[2] > (1 + GROWING) * means[1] and means[1] > means[0]


def _edges(snapshots: Sequence[Snapshot]) -> list[tuple[int, Snapshot]]:
    """Return the first snapshot, and each snapshot with higher counters than its predecessor, with their indexes."""
    numbered = list(enumerate(snapshots))
    edges = [numbered[0]]
    edges += [after for before, after in pairwise(numbered) if after[1].asked_for > before[1].asked_for]
    if snapshots[-1].seconds - edges[-1][1].seconds > SILENT_SECONDS:
        edges.append(numbered[-1])
    return edges


def _windows(edges: Sequence[tuple[int, Snapshot]]) -> Iterator[Window]:
    """Divide the probe into windows. Drop the last window if it is too short, unless it is the only one."""
    first, is_first = edges[0][1], True
    for index, last in edges:
        is_end = index == edges[-1][0]
        seconds = last.seconds - first.seconds
        if seconds >= WINDOW_SECONDS or (is_first and is_end and seconds > 0):
            yield Window(
                start=first.seconds,
                seconds=seconds,
                settled=last.asked_for - first.asked_for,
                fetched=last.fetched - first.fetched,
                bytes=last.bytes - first.bytes,
                index=index,
            )
            first, is_first = last, False
