"""A worker's part in listing the source of its job. The worker lists if no other living worker does."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from fetchmill._shared.heartbeats import Heartbeat
from fetchmill._shared.job_directory import JobDirectory
from fetchmill._shared.list_claim import claim_listing, lister_of
from fetchmill._shared.records import JobRecord
from fetchmill._shared.shares import Shares
from fetchmill._shared.source_lister import OpenJob, SourceLister, lists_folder
from fetchmill._shared.store import STORE_ERRORS
from fetchmill._shared.stored_options import list_options

# A worker whose listing ended because another process had added a part waits this long before it takes over again.
_AGAIN_SECONDS = 2.0


class Listing:
    """See the module docstring.

    Args:
        directory: the job directory.
        worker: the name of the worker.
        source: the source, with its secrets; None if this worker does not know the secrets, so that it cannot list.
        options: the options of the job together with those of this process.
        state: the folder for journals on this machine, if the user named one.
        lister: the lister, if this process has created the job.
    """

    def __init__(
        self,
        directory: JobDirectory,
        worker: str,
        source: str | None,
        options: Mapping[str, Any],
        state: object,
        lister: SourceLister | None,
    ) -> None:
        self.source = source
        # The reason why this worker cannot list the source. The worker does not retry, because a retry could take just
        # as long.
        self.failure: BaseException | None = None
        # The workers among which the lister divides the per-host limits.
        self.known = frozenset((worker,))
        self._directory = directory
        self._worker = worker
        self._options = options
        self._parent = lists_folder(state)
        self._lister = lister
        self._ended_at = 0.0

    @property
    def is_possible(self) -> bool:
        """Whether this worker knows the source with its secrets, and has not failed to list it."""
        return self.source is not None and self.failure is None

    @property
    def is_running(self) -> bool:
        """Whether this worker lists the source."""
        lister = self._lister
        return lister is not None and lister.is_running

    @property
    def listed(self) -> int | None:
        """Number of rows that this worker has added to the list; None if this worker does not list."""
        lister = self._lister
        return lister.listed if lister is not None and lister.is_running else None

    def has_failed(self) -> bool:
        """Record the end of this worker's listing. Return whether it has failed since the last call."""
        lister = self._lister
        if lister is None or lister.is_running:
            return False
        self._lister, self._ended_at, self.failure = None, time.monotonic(), lister.failure
        return self.failure is not None

    def take_over(self, job: JobRecord, heartbeats: Sequence[Heartbeat], shares: Shares) -> bool:
        """Start to list the source if the list is incomplete and no other living worker is listing it.

        Args:
            job: the job.
            heartbeats: the last heartbeats of all workers.
            shares: this worker's part of the limits.

        Returns:
            Whether the listing has started.
        """
        is_recent = self._ended_at > 0.0 and time.monotonic() - self._ended_at < _AGAIN_SECONDS
        if job.is_listed or self._lister is not None or not self.is_possible or is_recent:
            return False
        # This worker may still have a claim from an earlier listing.
        if lister_of(self._directory, list(heartbeats), job.lease) not in (None, self._worker):
            return False
        claim = claim_listing(self._directory, self._worker)
        if claim is None:
            return False
        try:
            self._lister = self._make_lister(job, claim, shares)
        except BaseException:
            with suppress(*STORE_ERRORS):
                self._directory.store.remove(claim)
            raise
        self._lister.start()
        return True

    def _make_lister(self, job: JobRecord, claim: str, shares: Shares) -> SourceLister:
        rate = shares.rate_of_one(1)
        listing = {**(job.listing or {}), **({} if rate is None else {"rate": rate})}
        options = list_options(str(self.source), listing, self._options)
        self.known = shares.workers
        sharing = {"host_sharers": shares.host_sharers, "host_sharer": shares.rank}
        # The list may have grown since `job` was read.
        to = OpenJob(self._directory, self._directory.job())
        return SourceLister(self._directory, self._worker, options, to, claim, self._parent, sharing)

    def set_rate(self, per_second: float) -> None:
        """Limit the listing's requests per second from now on.

        A listing that began without a rate cannot be given one later. Such a listing ends, and a worker starts it again
        with the rate.
        """
        lister = self._lister
        if lister is not None and lister.has_rate:
            lister.set_rate(per_second)
        elif lister is not None:
            lister.stop()

    def stop(self) -> None:
        """Ask the listing to end. Another worker may then list."""
        lister = self._lister
        if lister is not None:
            lister.stop()

    def join(self, seconds: float) -> None:
        """Wait up to `seconds` for the listing to end."""
        lister = self._lister
        if lister is not None:
            lister.join(seconds)
