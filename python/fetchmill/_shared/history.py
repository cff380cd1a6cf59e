"""Reads the history of a shared job, which is the work of all final attempts over time, from their journals."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fetchmill._dashboard.history import History
from fetchmill._native import __version__, hide_secrets
from fetchmill._native import samples as journal_samples
from fetchmill._shared.folders import AttemptFolders, final_attempts
from fetchmill._shared.job_directory import JobDirectory
from fetchmill._shared.status import SharedStatus, shared_status

# Maximum number of samples of a history. A longer job gets longer intervals.
_SAMPLES_MAX = 720
_COUNTS = ("listed", "settled", "fetched", "absent", "failed", "bytes", "attempts")
_LEVELS = ("in_flight", "concurrency", "waiting")
_QUANTILES = ("p50", "p90", "p99")


@dataclass(frozen=True, kw_only=True)
class SharedHistory(History):
    """The history of a shared job, summed over all attempts that became final.

    Args:
        status: the status of the job.
        samples: as for `JobHistory`, with at most 720 samples of equal length. Each quantile of `latency` is the mean
            of the attempts' quantiles, weighted by `settled`.
    """

    status: SharedStatus

    def status_values(self) -> dict[str, Any]:
        """Return the status as a dict for JSON."""
        return self.status.to_dict()

    def snapshot(self) -> dict[str, Any]:
        """Return the values that the dashboard shows next to the samples."""
        found = self.status
        counts = ("listed", "fetched", "absent", "failed", "skipped", "bytes")
        return {
            **{name: found.ledger[name] for name in counts},
            "version": __version__,
            "source": hide_secrets(found.source),
            "dest": hide_secrets(found.dest),
            "phase": "done" if found.finished else "fetching" if found.runs else "stopped",
            "listing_done": found.is_listed,
            "failures": dict(found.failures),
        }


def shared_history(directory: JobDirectory) -> SharedHistory:
    """Read the history of a directory's shared job.

    Raises:
        UsageError: there is no shared job.
        JournalError: a file of the job directory is damaged.
        StorageError, TemporaryError: the store failed.
    """
    merged = _Merged()
    for attempt in final_attempts(directory):
        # Read one journal at a time, because a job has many attempts.
        with AttemptFolders(directory) as folders:
            merged.add(journal_samples(folders.facts(attempt), None))
    return SharedHistory(status=shared_status(directory), samples=merged.samples())


@dataclass
class _Interval:
    """The sum of the samples of all attempts within an interval."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTS, 0))
    levels: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_LEVELS, 0.0))
    failures: dict[str, int] = field(default_factory=dict)
    # Seconds spent with each kind of bottleneck.
    limits: dict[str, float] = field(default_factory=dict)
    # Sums of the quantiles, each weighted by the outcomes of its sample, and the sum of these weights.
    latencies: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_QUANTILES, 0.0))
    weight: float = 0.0
    slowest: float = 0.0

    def add(self, sample: Mapping[str, Any], width: int) -> None:
        """Add a sample of an attempt."""
        for name in _COUNTS:
            self.counts[name] += sample[name]
        seconds = sample["interval"]
        for name in _LEVELS:
            # If an attempt ran for half of the interval, its values count half.
            self.levels[name] += sample[name] * min(seconds / width, 1.0)
        _add_all(self.failures, sample["failures"])
        if sample["limited_by"]:
            _add_all(self.limits, {sample["limited_by"]: seconds})
        latency = sample["latency"]
        if latency:
            weight = max(sample["settled"], 1)
            self.weight += weight
            for name in _QUANTILES:
                self.latencies[name] += latency[name] * weight
            self.slowest = max(self.slowest, latency["max"])

    def join(self, other: "_Interval") -> None:
        """Merge the next interval, which has the same width, into this one."""
        _add_all(self.counts, other.counts)
        for name in _LEVELS:
            self.levels[name] = (self.levels[name] + other.levels[name]) / 2
        _add_all(self.failures, other.failures)
        _add_all(self.limits, other.limits)
        _add_all(self.latencies, other.latencies)
        self.weight += other.weight
        self.slowest = max(self.slowest, other.slowest)

    def to_sample(self, end: int, width: int) -> dict[str, Any]:
        """Return the interval in the form of a sample; see `JobHistory`."""
        latency = {name: total / self.weight for name, total in self.latencies.items()} if self.weight else None
        return {
            "time": float(end),
            "interval": float(width),
            **self.counts,
            **{name: round(level) for name, level in self.levels.items()},
            "failures": dict(self.failures),
            "latency": None if latency is None else {**latency, "max": self.slowest},
            "limited_by": max(self.limits, key=lambda kind: self.limits[kind]) if self.limits else None,
        }


class _Merged:
    """The sums of samples by interval. Memory use is bounded, because the number of intervals is at most 2 * 720."""

    def __init__(self) -> None:
        self._width = 1
        self._intervals: dict[int, _Interval] = {}

    def add(self, samples: Iterable[Mapping[str, Any]]) -> None:
        """Add the samples of an attempt."""
        for sample in samples:
            # The sample belongs to the interval that contains its end.
            number = int(sample["time"]) // self._width
            self._intervals.setdefault(number, _Interval()).add(sample, self._width)
            while len(self._intervals) > 2 * _SAMPLES_MAX:
                self._widen()

    def samples(self) -> list[dict[str, Any]]:
        """Return the intervals in which there was work, in order."""
        while len(self._intervals) > _SAMPLES_MAX:
            self._widen()
        return [
            self._intervals[number].to_sample((number + 1) * self._width, self._width)
            for number in sorted(self._intervals)
        ]

    def _widen(self) -> None:
        before, self._intervals = self._intervals, {}
        self._width *= 2
        for number in sorted(before):
            found = self._intervals.get(number // 2)
            half = before[number]
            if found is None:
                found = self._intervals[number // 2] = _Interval()
                found.join(half)  # the empty half also counts
            else:
                found.levels = {name: 2 * level for name, level in found.levels.items()}
                found.join(half)


def _add_all(to: dict[str, Any], of: Mapping[str, Any]) -> None:
    for name, value in of.items():
        to[name] = to.get(name, 0) + value
