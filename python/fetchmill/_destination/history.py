"""Reads the history of all runs of a job from its journal. The job may be running."""

import os
from dataclasses import dataclass
from typing import Any

from fetchmill._dashboard.history import History
from fetchmill._destination.status import status
from fetchmill._job.report import Status
from fetchmill._native import __version__, hide_secrets
from fetchmill._native import samples as journal_samples


@dataclass(frozen=True, kw_only=True)
class JobHistory(History):
    """The history of all runs of a job.

    Args:
        status: the ledger of the job.
        samples: at most 720 samples, one per second. If the job ran for more than twelve minutes, samples cover longer
            intervals. The list is empty if an older release started the job. Each sample contains:

            - `time`: end of the interval, in seconds since 1970 UTC; `interval`: its length in seconds.
            - Counts within the interval: `listed`, `settled`, `fetched`, `absent`, `failed`, `bytes`, `attempts`, and
              `failures` by kind.
            - Values at the end of the interval: `in_flight`, `concurrency` and `waiting`.
            - `latency` in seconds (`p50`, `p90`, `p99`, `max`), or None.
            - `limited_by`: the kind of bottleneck, or None.
    """

    status: Status

    def status_values(self) -> dict[str, Any]:
        """Return the status as a dict for JSON."""
        return self.status.to_dict()

    def snapshot(self) -> dict[str, Any]:
        """Return the values that the dashboard shows next to the samples."""
        found = self.status
        counts = ("listed", "fetched", "absent", "failed", "skipped", "bytes")
        return {
            **{name: getattr(found, name) for name in counts},
            "version": __version__,
            "source": hide_secrets(found.source),
            "dest": hide_secrets(found.dest),
            "phase": "done" if found.finished else "fetching" if found.running else "stopped",
            "listing_done": found.listed_at is not None,
            "failures": dict(found.failures),
        }


def history(dest: str | os.PathLike[str], *, state: str | os.PathLike[str] | None = None) -> JobHistory:
    """Read the history of a destination's job.

    Args:
        dest: the destination, a folder or a bucket.
        state: journal folder, if the job was started with `state`.

    Raises:
        UsageError: there is no job, or it is a shared job; see `shared_jobs.history`.
        JournalError: the journal cannot be read.
    """
    found = journal_samples(os.fspath(dest), None if state is None else os.fspath(state))
    return JobHistory(status=status(dest, state=state), samples=found)
