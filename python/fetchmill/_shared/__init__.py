"""Shared jobs, in which any number of processes on any machines fetch one list into one job directory.

docs/internals/shared-jobs.md documents the protocol. A worker claims a range of the list, fetches it as a separate job,
and makes it final with one commit record. Claims are only hints; commit records decide.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Time limit in seconds for finding out whether a bucket contains a shared job.
_PATIENCE_SECONDS = 15.0


def reach_named(endpoint_url: str | None, region: str | None, profile: str | None) -> dict[str, Any]:
    """Return the bucket options that the caller has set."""
    named = {"endpoint_url": endpoint_url, "region": region, "profile": profile}
    return {name: value for name, value in named.items() if value is not None}


def is_shared_job(dest: str, reach: Mapping[str, Any] | None = None) -> bool:
    """Return whether a destination is a job directory.

    If the destination is in a bucket, query the bucket, unless the working folder contains the journal of a job that
    writes to this destination.

    Args:
        dest: the destination.
        reach: connection options for the bucket; see `open_store`.

    Raises:
        UsageError: the bucket refuses the query.
        TemporaryError: the bucket does not answer.
    """
    if not dest.startswith("s3://"):
        has_job = Path(dest, "job.json").is_file() or any(Path(dest, "claims").glob("listing.*"))
        return has_job and not Path(dest, ".fetchmill").exists()
    last = [part for part in dest.removeprefix("s3://").split("/") if part][-1:]
    if not last or Path(f"{last[0]}.fetchmill", "job.sqlite").exists():
        return False
    from fetchmill._shared.store import open_store

    return open_store(dest, reach).with_patience(_PATIENCE_SECONDS).read("job.json") is not None
