"""From the counters of a probe to a rate and its uncertainty (docs/guide/plan.md has the method).

The probe is cut into windows of a second. Those of its start are slower, while connections are opened and names looked
up: how many of them do not count is found by the marginal standard error rule. A straight line through the counters of
what is left gives the rate and, from the spread of the windows, how uncertain that is. Replies may be held for up to a
second and then come all at once, so that the counters are a staircase: only the edges of its steps are looked at.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Self

from fetchmill._job.report import Snapshot

WINDOW_SECONDS = 1.0
# A number of requests in flight that is being found swings by less than this factor once it is.
SWING = 1.5
# Without anything new for longer than replies are held, the last counters are looked at as well: nothing comes.
SILENT_SECONDS = 2.5
# What a probe of seconds cannot show: how a server does in an hour. It comes on top of the spread that was seen.
UNSEEN = 0.1
# A rate that was still growing by so much from one third of the steady part to the next has not been found.
GROWING = 0.15
# Student's t for 95 %, by degrees of freedom from 1.
_T = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10)
_T_OF_MANY = 2.0
# Fewer windows have no spread that says anything: the value may be off by half.
_WINDOWS_MIN = 3
_UNKNOWN = 0.5


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A value that is not certain.

    Args:
        value: the most likely value.
        low: it is hardly less.
        high: it is hardly more.
    """

    value: float
    low: float
    high: float

    @classmethod
    def exactly(cls, value: float) -> Self:
        """A value that is certain."""
        return cls(value=value, low=value, high=value)

    @classmethod
    def within(cls, value: float, share: float) -> Self:
        """A value that may be off by a share of it; the high end as a ratio, so that it never ends below 0."""
        return cls(value=value, low=value / (1 + share), high=value * (1 + share))

    def times(self, factor: float) -> Self:
        """So many times it."""
        return type(self)(value=self.value * factor, low=self.low * factor, high=self.high * factor)

    def plus(self, other: "Estimate | float") -> Self:
        """The sum: both may be at their ends at once."""
        more = other if isinstance(other, Estimate) else Estimate.exactly(other)
        return type(self)(value=self.value + more.value, low=self.low + more.low, high=self.high + more.high)

    def to_dict(self) -> dict[str, float]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Window:
    """What came of a part of the probe.

    Args:
        start: seconds of the run at its start.
        seconds: its length.
        settled: targets that got an outcome.
        fetched: those that were fetched.
        bytes: of their bodies.
        index: the number of the snapshot at its end.
    """

    start: float
    seconds: float
    settled: int
    fetched: int
    bytes: int
    index: int

    @property
    def rate(self) -> float:
        """Targets settled a second."""
        return self.settled / self.seconds


@dataclass(frozen=True)
class SteadyRate:
    """The steady part of a probe.

    Args:
        objects: targets settled a second.
        body_bytes: bytes of a body, its mean; None when none was fetched.
        middle: a point of the line: seconds of the run, and targets settled by then.
        first: the number of the snapshot at its start.
        is_growing: whether the rate was still growing at its end.
        windows: how many windows it has.
    """

    objects: Estimate
    body_bytes: Estimate | None
    middle: tuple[float, float]
    first: int
    is_growing: bool
    windows: int

    def seconds_for(self, count: int) -> Estimate:
        """Seconds from the start of a job until it has so many targets settled."""
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
    """The steady part of a probe; None when nothing was settled in any of its windows.

    Args:
        snapshots: of one run, in their order.
    """
    edges = _edges(snapshots)
    windows = list(_windows(edges))
    if not any(window.settled for window in windows):
        return None
    # While the number in flight was still being looked for, the rate was another; one window stays in any case.
    found = snapshots[found_since(snapshots)].seconds
    looked = snapshots[looked_until(snapshots)].seconds
    # As long as it was still tried, connections were opened and closed; without enough behind that, all near it counts.
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
    """The number of the snapshot since which the number of requests in flight is about what it is at the end."""
    last = snapshots[-1].concurrency
    for index in range(len(snapshots) - 1, -1, -1):
        then = snapshots[index].concurrency
        if not last / SWING <= then <= last * SWING:
            return min(index + 1, len(snapshots) - 1)
    return 0


def looked_until(snapshots: Sequence[Snapshot]) -> int:
    """The number of the last snapshot in which the job still looked for how many requests to make; 0 without one."""
    return max((index for index, each in enumerate(snapshots) if each.tries_concurrency), default=0)


def mean_body(windows: Sequence[Window]) -> Estimate | None:
    """The mean of bodies' bytes, with the spread of the windows' means."""
    with_bodies = [each for each in windows if each.fetched]
    if not with_bodies:
        return None
    mean = sum(each.bytes for each in with_bodies) / sum(each.fetched for each in with_bodies)
    if all(each.bytes == mean * each.fetched for each in with_bodies):
        return Estimate.exactly(mean)
    return Estimate.within(mean, relative_error([each.bytes / each.fetched for each in with_bodies]))


def warm_up(values: Sequence[float]) -> int:
    """How many of the first values do not count: the marginal standard error rule (White 1997), at most half.

    It takes those away without which the mean of the rest is the most certain.
    """

    def error(skipped: int) -> float:
        rest = values[skipped:]
        mean = sum(rest) / len(rest)
        return sum((value - mean) ** 2 for value in rest) / len(rest) ** 2

    return min(range(len(values) // 2 + 1), key=error) if len(values) > _WINDOWS_MIN else 0


def relative_error(values: Sequence[float]) -> float:
    """Half the width of the 95 % interval of a mean, as a share of it.

    A value and the next one need not be independent: the variance is that of Newey and West (1987), with one lag.
    """
    count, mean = len(values), sum(values) / len(values)
    if count < _WINDOWS_MIN or mean <= 0:
        return _UNKNOWN
    apart = [value - mean for value in values]
    neighbours = sum(one * other for one, other in pairwise(apart))
    # The weight of one lag is a half, and it counts to both sides.
    variance = max(sum(one * one for one in apart) + neighbours, 0.0) / (count - 1)
    quantile = _T[count - 2] if count - 2 < len(_T) else _T_OF_MANY
    return quantile * math.sqrt(variance / count) / mean


def _line(points: Sequence[tuple[float, float]]) -> tuple[float, tuple[float, float]]:
    """The straight line with the least squares: its slope, and the point in the middle that it goes through.

    It says more than the line from the first point to the last, which are one step more or less.
    """
    middle = tuple(sum(values) / len(points) for values in zip(*points, strict=True))
    apart = [(seconds - middle[0], settled - middle[1]) for seconds, settled in points]
    slope = sum(seconds * settled for seconds, settled in apart) / sum(seconds * seconds for seconds, _ in apart)
    return slope, (middle[0], middle[1])


def _is_growing(values: Sequence[float]) -> bool:
    """Whether the last third is faster than the one before it, and that one than the first."""
    third = len(values) // 3
    if third < 2:  # noqa: PLR2004 - a third of one window is chance
        return False
    means = [sum(part) / third for part in (values[:third], values[third : 2 * third], values[-third:])]
    return means[2] > (1 + GROWING) * means[1] and means[1] > means[0]


def _edges(snapshots: Sequence[Snapshot]) -> list[tuple[int, Snapshot]]:
    """The snapshots that have more than the one before, with their numbers; the first, too."""
    numbered = list(enumerate(snapshots))
    edges = [numbered[0]]
    edges += [after for before, after in pairwise(numbered) if after[1].asked_for > before[1].asked_for]
    if snapshots[-1].seconds - edges[-1][1].seconds > SILENT_SECONDS:
        edges.append(numbered[-1])
    return edges


def _windows(edges: Sequence[tuple[int, Snapshot]]) -> Iterator[Window]:
    """The probe in windows; what is left at the end is too short for one, unless there is no other."""
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
