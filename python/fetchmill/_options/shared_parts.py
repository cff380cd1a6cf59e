"""Refuses destinations inside a shared job, because only the job itself can change its objects."""

import os
import re
import shlex

from fetchmill._options.sources import is_bucket
from fetchmill.errors import UsageError

# The data folder of a job directory, and the pattern of the names in that folder, which consist of a range and an
# attempt.
DATA = "data"
ATTEMPT = re.compile(r"[0-9]{5}-[0-9]{14}-[0-9a-f]{16}")


def refuse_part_of_shared_job(dest: str | os.PathLike[str]) -> None:
    """Refuse a destination inside the data of a shared job.

    Each range looks like the destination of an ordinary job, but changing or removing it would damage the shared job.

    Raises:
        UsageError: the destination is a range of a shared job, or a folder below one.
    """
    text = os.fspath(dest)
    job = _job_with_prefix(text) if is_bucket(text) else _job_with_folder(text)
    if job is not None:
        raise UsageError(
            f"{text} is part of the shared job in {job}, which other commands must not change",
            hint=f"choose another destination, or join the shared job: fetchmill join {shlex.quote(job)}",
        )


def _job_with_folder(dest: str) -> str | None:
    """Return the job directory whose data contains a folder, or None."""
    # Imported here because help does not need it.
    from pathlib import Path

    path = Path(dest).resolve()
    for folder in (path, *path.parents):
        if ATTEMPT.fullmatch(folder.name) and folder.parent.name == DATA:
            job = folder.parent.parent
            return str(job) if (job / "job.json").is_file() else None
    return None


def _job_with_prefix(dest: str) -> str | None:
    """Return the job directory whose data contains a prefix. The prefix's name is sufficient; no request is sent."""
    parts = dest.split("/")
    for number, part in enumerate(parts):
        if ATTEMPT.fullmatch(part) and parts[number - 1] == DATA:
            return "/".join(parts[: number - 1])
    return None
