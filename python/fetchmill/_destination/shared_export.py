"""Provides the input for exporting a shared job: the folders of its final ranges."""

from collections.abc import Mapping
from typing import Any

from fetchmill._quick_dataclass import dataclass
from fetchmill._shared.bucket_store import BucketStore
from fetchmill._shared.folders import RangeCopies, final_attempts
from fetchmill._shared.job_directory import JobDirectory
from fetchmill.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class SharedInput:
    """The input for an export.

    Args:
        source: the source of the job.
        ranges: the destinations of the ranges, in list order; for a job in a bucket, the names of the ranges.
        copies: copies the ranges to this machine; None if the ranges are already local folders.
    """

    source: str
    ranges: list[str]
    copies: RangeCopies | None


def shared_input(dest: str, reach: Mapping[str, Any]) -> SharedInput:
    """Return the input for exporting a shared job.

    Args:
        dest: the job directory.
        reach: connection options for its bucket; see `open_store`.

    Raises:
        UsageError: the job is not finished.
    """
    directory = JobDirectory.at(dest, reach)
    job = directory.job()
    if not directory.is_complete(job):
        open_ranges = len(directory.open_ranges(job))
        why = f"open ranges: {open_ranges:,}" if job.is_listed else "its listing is not complete"
        raise UsageError(
            f"the shared job of {dest} is not finished ({why}); export it after its workers have finished, or continue "
            f"it with fetchmill resume {dest}"
        )
    store, attempts = directory.store, final_attempts(directory)
    if isinstance(store, BucketStore):
        return SharedInput(source=job.source, ranges=attempts, copies=RangeCopies(store))
    return SharedInput(source=job.source, ranges=list(map(store.destination, attempts)), copies=None)
