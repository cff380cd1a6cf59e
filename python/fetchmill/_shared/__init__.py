"""Shared jobs: any number of processes, on any machines, fetch one list into one job directory.

docs/internals/shared-jobs.md has the protocol. A worker claims a range of the list, fetches it as a job of its own, and
makes it final with one commit record. Claims are hints; commit records decide.
"""


def is_shared_job(dest: str) -> bool:
    """Whether a destination is a job directory."""
    from pathlib import Path

    has_job = Path(dest, "job.json").is_file() or any(Path(dest, "claims").glob("listing.*"))
    return has_job and not Path(dest, ".fetchmill").exists()
