"""How workers take the ranges of a job: parts of a list of rows, or all rows of some hosts.

If a list is divided by host, only one worker at a time works on a range, so that each worker has the whole limit for
each of its hosts (docs/internals/decisions/0089).
"""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from fetchmill._shared.ranges import ListFile, Range, divide
from fetchmill._shared.records import JobRecord
from fetchmill._shared.shares import HostShares, Shares

# An attempt ends after this time. The rest of its range is divided into new ranges of this duration.
RANGE_SECONDS = 30.0
# While few ranges are left, or a worker waits for work, workers end their ranges after this time. They leave the rest
# in pieces of this duration or less.
SHARE_SECONDS = 1.5


class EndableAttempt(Protocol):
    """An attempt."""

    def stop(self) -> None:
        """End the job. Its objects are discarded."""

    def abort(self) -> None:
        """End the job and close its connections."""

    def wait_aborted(self) -> None:
        """Wait a moment for the end of the aborted job."""


class RangeKind(Protocol):
    """See the module."""

    # Maximum number of workers that already have a stuck range when another one claims it.
    owners_max: int

    def shares(self, worker: str, options: Mapping[str, Any], rate: float | None) -> Shares:
        """Return a worker's part of the limits; see `Shares`."""

    def seconds(self, *, is_shared: bool) -> float:
        """Return the maximum duration of an attempt, and of the ranges into which it divides its rest, in seconds.

        Args:
            is_shared: whether a worker waits for work, or soon will.
        """

    def rest(self, file: ListFile, rest: Range, size: int) -> list[Range]:
        """Return the ranges for the rest of an attempt's range, each of about `size` bytes or rows.

        Raises:
            UsageError: the list has changed.
        """

    def prepare_release(self, attempts: Iterable[EndableAttempt]) -> None:
        """Prepare attempts for the release of their ranges, which other workers may take at once."""

    def end_lost(self, attempts: Iterable[EndableAttempt]) -> None:
        """End attempts whose ranges other workers may have taken, after this process was frozen."""


class RowRanges:
    """Ranges of rows. Two workers may have the same range, and only lose time."""

    owners_max = 1

    def shares(self, worker: str, options: Mapping[str, Any], rate: float | None) -> Shares:
        """See `RangeKind`."""
        return Shares(worker, options, rate)

    def seconds(self, *, is_shared: bool) -> float:
        """See `RangeKind`."""
        return SHARE_SECONDS if is_shared else RANGE_SECONDS

    def rest(self, file: ListFile, rest: Range, size: int) -> list[Range]:
        """See `RangeKind`."""
        with file.open() as opened:
            return list(divide(opened, file, rest, size))

    def prepare_release(self, attempts: Iterable[EndableAttempt]) -> None:
        """See `RangeKind`."""

    def end_lost(self, attempts: Iterable[EndableAttempt]) -> None:
        """See `RangeKind`."""


class HostRanges:
    """Ranges with all rows of some hosts. A host must not get requests from two workers."""

    owners_max = 0

    def shares(self, worker: str, options: Mapping[str, Any], rate: float | None) -> Shares:
        """See `RangeKind`."""
        return HostShares(worker, options, rate)

    def seconds(self, *, is_shared: bool) -> float:
        """See `RangeKind`. The rest is one range. Another worker would take it, and this one would wait instead."""
        del is_shared
        return RANGE_SECONDS

    def rest(self, file: ListFile, rest: Range, size: int) -> list[Range]:
        """See `RangeKind`."""
        del file, size
        return [rest]

    def prepare_release(self, attempts: Iterable[EndableAttempt]) -> None:
        """See `RangeKind`. Close all connections, because another worker will request from the same hosts."""
        ended = list(attempts)
        for attempt in ended:
            attempt.abort()
        for attempt in ended:
            attempt.wait_aborted()

    def end_lost(self, attempts: Iterable[EndableAttempt]) -> None:
        """See `RangeKind`."""
        for attempt in attempts:
            attempt.stop()


def kind_of_ranges(job: JobRecord) -> RangeKind:
    """Return the kind of a job's ranges."""
    return HostRanges() if job.is_by_host else RowRanges()
