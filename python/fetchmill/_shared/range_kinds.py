"""The two kinds of ranges that a job can have: ranges of any rows of a list, and ranges of all rows of some hosts.

If a list is divided by host, only one worker at a time works on a range. Each worker can therefore use the full limit
for each of its hosts (docs/internals/decisions/0089).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from fetchmill._shared.ranges import GROUPS, ListFile, Range, divide
from fetchmill._shared.records import JobRecord
from fetchmill._shared.shares import HostShares, Shares

# An attempt ends after this time. The rest of its range is divided into new ranges of this duration.
RANGE_SECONDS = 30.0
# While few ranges are left or a worker waits for work, workers end their ranges after this time. They divide the rest
# into ranges of at most this duration.
SHARE_SECONDS = 1.5
# While a worker waits for work, other workers end their ranges after this time. The waiting worker gets a part of the
# rest once the targets already fed have been fetched.
HAND_OVER_SECONDS = 0.5


class EndableAttempt(Protocol):
    """An attempt that can be ended."""

    def stop(self) -> None:
        """End the job. Its objects are discarded."""

    def abort(self) -> None:
        """End the job and close its connections."""

    def wait_aborted(self) -> None:
        """Wait briefly for the aborted job to end."""


class RangeKind(Protocol):
    """See the module docstring."""

    # Maximum number of workers that already hold a stuck range when another worker claims it.
    owners_max: int

    def shares(self, worker: str, options: Mapping[str, Any], rate: float | None) -> Shares:
        """Return a worker's part of the limits; see `Shares`."""

    def ready(self, files: Sequence[ListFile], open_ranges: Iterable[Range]) -> list[Range]:
        """Return the ranges that a worker may claim now.

        Args:
            files: the files of the job.
            open_ranges: all ranges without a commit record.
        """

    def seconds(self, *, is_shared: bool) -> float:
        """Return the maximum duration in seconds of an attempt, and of each range that is made from its unfetched rest.

        Args:
            is_shared: whether a worker waits for work, or soon will.
        """

    def is_over(self, seconds: float, *, is_shared: bool, is_awaited: bool) -> bool:
        """Return whether an attempt that began `seconds` ago must end before the end of its range.

        Args:
            seconds: the duration of the attempt so far.
            is_shared: whether a worker waits for work, or soon will.
            is_awaited: whether a worker waits for work.
        """

    def rest(self, file: ListFile, rest: Range, size: int) -> list[Range]:
        """Divide the rest of an attempt's range into ranges of about `size` bytes or rows each.

        Raises:
            UsageError: the list has changed.
        """

    def prepare_release(self, attempts: Iterable[EndableAttempt]) -> None:
        """Prepare attempts for the release of their ranges, which other workers may claim immediately."""

    def end_lost(self, attempts: Iterable[EndableAttempt]) -> None:
        """End attempts whose ranges other workers may have claimed while this process was frozen."""


class RowRanges:
    """Ranges of rows. If two workers fetch the same range, only time is lost."""

    owners_max = 1

    def shares(self, worker: str, options: Mapping[str, Any], rate: float | None) -> Shares:
        """See `RangeKind`."""
        return Shares(worker, options, rate)

    def ready(self, files: Sequence[ListFile], open_ranges: Iterable[Range]) -> list[Range]:
        """See `RangeKind`."""
        del files
        return list(open_ranges)

    def seconds(self, *, is_shared: bool) -> float:
        """See `RangeKind`."""
        return SHARE_SECONDS if is_shared else RANGE_SECONDS

    def is_over(self, seconds: float, *, is_shared: bool, is_awaited: bool) -> bool:
        """See `RangeKind`."""
        return seconds > (HAND_OVER_SECONDS if is_awaited else self.seconds(is_shared=is_shared))

    def rest(self, file: ListFile, rest: Range, size: int) -> list[Range]:
        """See `RangeKind`."""
        with file.open() as opened:
            return list(divide(opened, file, rest, size))

    def prepare_release(self, attempts: Iterable[EndableAttempt]) -> None:
        """See `RangeKind`."""

    def end_lost(self, attempts: Iterable[EndableAttempt]) -> None:
        """See `RangeKind`."""


class HostRanges:
    """Ranges with all rows of some hosts. Two workers must never make requests to the same host."""

    owners_max = 0

    def shares(self, worker: str, options: Mapping[str, Any], rate: float | None) -> Shares:
        """See `RangeKind`."""
        return HostShares(worker, options, rate)

    def ready(self, files: Sequence[ListFile], open_ranges: Iterable[Range]) -> list[Range]:
        """See `RangeKind`. A part of an added list may have the same hosts as parts of earlier lists.

        Such a part must wait until the earlier parts are final. The commit record that makes a range final also names
        the rest of that range as new open ranges. A range that is ready therefore stays ready.
        """
        found: list[Range] = []
        busy: set[int] = set()
        for each in sorted(open_ranges, key=lambda each: each.file):
            part = files[each.file].part
            groups = range(GROUPS) if part is None else part.groups
            if busy.isdisjoint(groups):
                found.append(each)
            busy.update(groups)
        return found

    def seconds(self, *, is_shared: bool) -> float:
        """See `RangeKind`. Ending early gains nothing, because the remaining targets would go to another worker."""
        del is_shared
        return RANGE_SECONDS

    def is_over(self, seconds: float, *, is_shared: bool, is_awaited: bool) -> bool:
        """See `RangeKind`."""
        del is_awaited
        return seconds > self.seconds(is_shared=is_shared)

    def rest(self, file: ListFile, rest: Range, size: int) -> list[Range]:
        """See `RangeKind`."""
        del file, size
        return [rest]

    def prepare_release(self, attempts: Iterable[EndableAttempt]) -> None:
        """See `RangeKind`. Close all connections, because another worker will connect to the same hosts."""
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
