"""A worker's part in listing the source of its job: it lists if no other living worker does."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from fetchmill._shared.first_part import claim_listing, lister_of
from fetchmill._shared.heartbeats import Heartbeat
from fetchmill._shared.job_directory import JobDirectory
from fetchmill._shared.records import JobRecord
from fetchmill._shared.shares import Shares
from fetchmill._shared.source_lister import OpenJob, SourceLister
from fetchmill._shared.stored_options import list_options

# Pause before a worker takes the listing again after another process has added a part.
_AGAIN_SECONDS = 2.0


class Listing:
    """See the module.

    Args:
        directory: the job directory.
        worker: the name of the worker.
        source: the source, with its secrets; None if this worker does not know them. It then lists nothing.
        options: the options of the job together with those of this process.
        lister: the lister, if this process has created the job.
    """

    def __init__(
        self,
        directory: JobDirectory,
        worker: str,
        source: str | None,
        options: Mapping[str, Any],
        lister: SourceLister | None,
    ) -> None:
        # The workers among which the lister divides the limits for each host.
        self.known = frozenset((worker,))
        self._directory = directory
        self._worker = worker
        self._source = source
        self._options = options
        self._lister = lister
        self._ended_at = 0.0

    @property
    def is_running(self) -> bool:
        """Whether this worker lists the source."""
        return self._lister is not None and self._lister.is_running

    @property
    def listed(self) -> int | None:
        """Number of rows that this worker has added to the list; None if it does not list."""
        return self._lister.listed if self._lister is not None and self._lister.is_running else None

    def check(self) -> None:
        """Note the end of this worker's listing.

        Raises:
            FetchmillError: the listing has failed.
        """
        if self._lister is not None and not self._lister.is_running:
            failure, self._lister, self._ended_at = self._lister.failure, None, time.monotonic()
            if failure is not None:
                raise failure

    def take_over(self, job: JobRecord, heartbeats: Sequence[Heartbeat], shares: Shares) -> bool:
        """Begin to list the source if the list is not complete and no living worker lists. Returns whether it begins.

        Args:
            job: the job.
            heartbeats: the last heartbeats of all workers.
            shares: this worker's part of the limits.
        """
        is_recent = self._ended_at > 0.0 and time.monotonic() - self._ended_at < _AGAIN_SECONDS
        if job.is_listed or self._lister is not None or self._source is None or is_recent:
            return False
        if lister_of(self._directory, list(heartbeats), job.lease) is not None:
            return False
        claim = claim_listing(self._directory, self._worker)
        if claim is None:
            return False
        rate = shares.rate_of_one(1)
        listing = {**(job.listing or {}), **({} if rate is None else {"rate": rate})}
        options = list_options(self._source, listing, self._options)
        self.known = shares.workers
        sharing = {"host_sharers": shares.host_sharers, "host_sharer": shares.rank}
        # The list may have grown since `job` was read.
        to = OpenJob(self._directory, self._directory.job())
        self._lister = SourceLister(self._directory, self._worker, options, to, claim, sharing)
        self._lister.start()
        return True

    def set_rate(self, per_second: float) -> None:
        """Limit the listing's requests per second from now on."""
        if self._lister is not None:
            self._lister.set_rate(per_second)

    def stop(self) -> None:
        """Request the end of the listing. Another worker may then list."""
        if self._lister is not None:
            self._lister.stop()

    def join(self, seconds: float) -> None:
        """Wait for the end of the listing, at most this long."""
        if self._lister is not None:
            self._lister.join(seconds)
