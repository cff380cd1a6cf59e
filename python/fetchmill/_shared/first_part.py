"""Starts the listing of a shared job's source before the job exists, and creates the job with the list's first part.

`list_claim` chooses the process that lists.
"""

from collections.abc import Callable
from pathlib import Path

from fetchmill._options.list import ListOptions
from fetchmill._shared.job_directory import JobDirectory
from fetchmill._shared.list_claim import ListClaim
from fetchmill._shared.records import JobRecord
from fetchmill._shared.source_lister import LISTING_END_SECONDS, NewJob, Part, SourceLister

_STEP_SECONDS = 0.05


class FirstPart:
    """See the module docstring.

    Args:
        directory: the job directory.
        worker: the name of this process.
        source: the source, without secrets.
        options: options for listing the source.
        parent: the folder in which listing processes on this machine create their own folders.
        lease: seconds after which a process without a heartbeat counts as dead.
        say: called with each message for the user.
    """

    def __init__(
        self,
        directory: JobDirectory,
        worker: str,
        source: str,
        options: ListOptions,
        parent: Path,
        lease: float,
        say: Callable[[str], None],
    ) -> None:
        self._directory = directory
        self._worker = worker
        self._source = source
        self._options = options
        self._parent = parent
        self._say = say
        self._claims = ListClaim(directory, worker, lease, say)

    def create(self, plan: Callable[[Part], JobRecord]) -> SourceLister | None:
        """Create the job, or wait until another process has created it.

        Args:
            plan: creates the job's record from the first part of its list.

        Returns:
            The running lister if this process lists the source; otherwise None.

        Raises:
            UsageError: the source has no objects, or the directory contains unrelated files.
            FetchmillError: the source cannot be listed.
        """
        claim = self._claims.take(f"waits until another process has begun to list {self._source}")
        return None if claim is None else self._list(plan, claim)

    def _list(self, plan: Callable[[Part], JobRecord], claim: str) -> SourceLister:
        job = NewJob(self._directory, plan, self._source)
        lister = SourceLister(self._directory, self._worker, self._options, job, claim, self._parent, {})
        self._say(f"lists {self._source}")
        try:
            with self._claims.beating():
                lister.start()
                while not job.is_created.wait(_STEP_SECONDS) and lister.is_running:
                    pass
            if not job.is_created.is_set():
                lister.raise_failure()
        except BaseException:
            lister.stop()
            lister.join(LISTING_END_SECONDS)
            self._claims.leave()
            raise
        return lister
