"""Where the objects of a shared job are: the folders that its commit records name."""

import os
from pathlib import Path

from fetchmill._shared.job_directory import JobDirectory


def final_folders(dest: str | os.PathLike[str]) -> list[str]:
    """The folders with the objects of a shared job, in the order of its list: each is a destination.

    Raises:
        UsageError: there is no job.
        JournalError: a file of the job directory is damaged.
    """
    directory = JobDirectory(Path(os.path.abspath(os.fspath(dest))))  # noqa: PTH100 - a link stays one
    directory.job()
    final = sorted(directory.final_attempts().items())
    return [str(directory.path / "data" / f"{range_id}-{attempt}") for range_id, attempt in final if attempt]
