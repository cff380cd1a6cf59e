"""Reads status, failures and skipped targets from the journal of a destination. The job may be running."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fetchmill._job.report import OPTED_OUT, Failure, Skipped, Status
from fetchmill._native import Failures, hide_secrets
from fetchmill._native import skipped as listed_skips
from fetchmill._native import status as journal_status
from fetchmill._shared import is_shared_job, reach_named

# Maximum number of names and maximum number of hosts kept for each reason.
_NAMES_MAX = 100
_HOSTS_MAX = 4096


def status(dest: str | os.PathLike[str], *, state: str | os.PathLike[str] | None = None) -> Status:
    """Read the ledger of a destination's job.

    Args:
        dest: the destination, a folder or a bucket.
        state: journal folder, if the job was started with `state`.

    Returns:
        The counters of the last commit, and whether a process is running the job.

    Raises:
        UsageError: there is no job.
        JournalError: the journal cannot be read.
    """
    return Status.from_native(journal_status(os.fspath(dest), None if state is None else os.fspath(state)))


def without_secrets(text: str) -> str:
    """Return `text` with the signatures, tokens and passwords in its URLs redacted, for display."""
    return hide_secrets(text)


def failures(
    dest: str | os.PathLike[str],
    *,
    state: str | os.PathLike[str] | None = None,
    endpoint_url: str | None = None,
    region: str | None = None,
    profile: str | None = None,
) -> Iterator[Failure]:
    """Iterate once over each absent or failed target of a job. Memory use does not depend on the number of targets.

    Args:
        dest: the destination.
        state: journal folder, if the job was started with `state`.
        endpoint_url: URL of the store, if `dest` is a shared job in a bucket. None uses the environment's value.
        region: the region of the bucket.
        profile: the profile that provides the bucket's credentials.

    Yields:
        A `Failure` for each target whose latest outcome is absent or failed.

    Raises:
        UsageError: there is no job.
        JournalError: the journal or the failure records cannot be read.
    """
    return failures_reached(dest, state, reach_named(endpoint_url, region, profile))


def failures_reached(
    dest: str | os.PathLike[str], state: str | os.PathLike[str] | None, reach: Mapping[str, Any]
) -> Iterator[Failure]:
    """Iterate over the absent and failed targets of a job; see `failures`.

    Args:
        dest: the destination.
        state: journal folder, if the job was started with `state`.
        reach: connection options for the bucket of a shared job.
    """
    if state is None and is_shared_job(os.fspath(dest), reach):
        for folder in _folders(dest, reach):
            yield from failures_reached(folder, None, {})
        return
    batches = Failures(os.fspath(dest), None if state is None else os.fspath(state))
    while batch := batches.next_batch():
        for values in batch:
            yield Failure.from_native(values)


def skipped(
    dest: str | os.PathLike[str],
    *,
    state: str | os.PathLike[str] | None = None,
    endpoint_url: str | None = None,
    region: str | None = None,
    profile: str | None = None,
) -> list[Skipped]:
    """Return the targets that a job has skipped, by reason.

    Args:
        dest: the destination.
        state: journal folder, if the job was started with `state`.
        endpoint_url: URL of the store, if `dest` is a shared job in a bucket. None uses the environment's value.
        region: the region of the bucket.
        profile: the profile that provides the bucket's credentials.

    Returns:
        A `Skipped` for each reason.

    Raises:
        UsageError: there is no job.
        JournalError: the journal cannot be read.
    """
    return skipped_reached(dest, state, reach_named(endpoint_url, region, profile))


def skipped_reached(
    dest: str | os.PathLike[str], state: str | os.PathLike[str] | None, reach: Mapping[str, Any]
) -> list[Skipped]:
    """Return the targets that a job has skipped; see `skipped`.

    Args:
        dest: the destination.
        state: journal folder, if the job was started with `state`.
        reach: connection options for the bucket of a shared job.
    """
    if state is None and is_shared_job(os.fspath(dest), reach):
        return _sum_of_skips(skipped(folder) for folder in _folders(dest, reach))
    place = os.fspath(dest), None if state is None else os.fspath(state)
    listed = {reason: names for reason, _, names in listed_skips(*place)}
    found = Status.from_native(journal_status(*place))
    return [
        Skipped(
            reason=reason,
            count=count,
            names=tuple(name.decode(errors="backslashreplace") for name in listed.get(reason, [])),
            rules=found.opted_out_by if reason == OPTED_OUT else {},
            hosts=found.forbidding_hosts if reason == OPTED_OUT else {},
        )
        for reason, count in found.skipped_by.items()
    ]


def _folders(dest: str | os.PathLike[str], reach: Mapping[str, Any]) -> Iterator[str]:
    """Yield the folders with the journals of a shared job. Each folder exists only until the next one is yielded."""
    from fetchmill._shared.folders import AttemptFolders, final_attempts
    from fetchmill._shared.job_directory import JobDirectory

    directory = JobDirectory.at(dest, reach)
    for attempt in final_attempts(directory):
        with AttemptFolders(directory) as folders:
            yield folders.facts(attempt)


def _sum_of_skips(parts: Iterable[list[Skipped]]) -> list[Skipped]:
    """Sum the skipped targets of a shared job's ranges, by reason."""
    sums: dict[str, Skipped] = {}
    for each in (skip for part in parts for skip in part):
        known = sums.get(each.reason, Skipped(reason=each.reason, count=0, names=()))
        sums[each.reason] = Skipped(
            reason=each.reason,
            count=known.count + each.count,
            names=(*known.names, *each.names)[:_NAMES_MAX],
            rules=Counter(known.rules) + Counter(each.rules),
            hosts=dict((Counter(known.hosts) + Counter(each.hosts)).most_common(_HOSTS_MAX)),
        )
    return list(sums.values())
