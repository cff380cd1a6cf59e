"""The input of an export of a shared job: the folders of its final ranges."""

from fetchmill._shared.folders import final_attempts
from fetchmill._shared.job_directory import JobDirectory
from fetchmill._shared.store import is_bucket
from fetchmill.errors import UsageError


def source_and_ranges(dest: str) -> tuple[str, list[str]]:
    """Return the source of a shared job, and the destinations of its ranges in the order of the list.

    Raises:
        UsageError: the job is not finished, or its directory is in a bucket.
    """
    if is_bucket(dest):
        raise UsageError(
            f"{dest} is in a bucket, but export reads only folders; copy the prefix to a "
            "folder and export that, or read the shards directly"
        )
    directory = JobDirectory.at(dest)
    job = directory.job()
    if not directory.is_complete(job):
        open_ranges = len(directory.open_ranges(job))
        why = f"open ranges: {open_ranges:,}" if job.is_listed else "its source is not listed to the end"
        raise UsageError(
            f"the shared job of {dest} is not finished ({why}); export it after its workers have finished, or continue "
            f"it with fetchmill resume {dest}"
        )
    return job.source, [directory.store.destination(attempt) for attempt in final_attempts(directory)]
