"""Starts the listing of a shared job's source before the job exists, and creates the job with the list's first part.

One process lists, and the others wait for the job. If the listing process dies, another one takes its place.

claims/listing.N      the process that lists
list/TOKEN.jsonl      a part of the list; if no record names it, its process died
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fetchmill._options.list import ListOptions
from fetchmill._shared.heartbeats import BEATS_IN_A_LEASE, Heartbeat, Heartbeats
from fetchmill._shared.job_directory import LISTING, JobDirectory, number_of
from fetchmill._shared.records import JobRecord
from fetchmill._shared.source_lister import LISTING_END_SECONDS, NewJob, Part, SourceLister
from fetchmill._shared.store import STORE_ERRORS

# Poll interval while another process lists.
_LOOK_SECONDS = 0.5
_STEP_SECONDS = 0.05
# Maximum time between two heartbeats of a process that lists: the longest lease is 3,600 s.
_LOST_SECONDS = 3600.0 / BEATS_IN_A_LEASE


class FirstPart:
    """See the module.

    Args:
        directory: the job directory.
        worker: the name of this process.
        source: the source, without secrets.
        options: options for listing it.
        parent: the folder for listing processes on this machine.
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
        self._lease = lease
        self._say = say
        self._heartbeats = Heartbeats(directory, worker)

    def create(self, plan: Callable[[Part], JobRecord]) -> SourceLister | None:
        """Create the job, or wait until another process has created it.

        Args:
            plan: makes the record of the job from the first part of its list.

        Returns:
            The lister, if this process lists the source. The listing continues.

        Raises:
            UsageError: the source has no objects, or the directory has foreign files.
            FetchmillError: the source cannot be listed.
        """
        is_waiting = False
        while not self._directory.exists():
            self._directory.refuse_foreign()
            found = self._heartbeats.look()
            if lister_of(self._directory, found, self._lease) is None:
                # Write a heartbeat before the claim, or other processes consider this one dead.
                self._beat("listing")
                if claim := claim_listing(self._directory, self._worker):
                    return self._list(plan, claim)
            if not is_waiting:
                self._say(f"waits until another process has begun to list {self._source}")
            is_waiting = True
            time.sleep(_LOOK_SECONDS)
        return None

    def _list(self, plan: Callable[[Part], JobRecord], claim: str) -> SourceLister:
        job = NewJob(self._directory, plan, self._source)
        lister = SourceLister(self._directory, self._worker, self._options, job, claim, self._parent, {})
        self._say(f"lists {self._source}")
        try:
            with self._beating():
                lister.start()
                while not job.is_created.wait(_STEP_SECONDS) and lister.is_running:
                    pass
            if not job.is_created.is_set():
                lister.raise_failure()
        except BaseException:
            lister.stop()
            lister.join(LISTING_END_SECONDS)
            with suppress(*STORE_ERRORS):
                self._beat("ended")
            raise
        return lister

    @contextmanager
    def _beating(self) -> Iterator[None]:
        """Write heartbeats in another thread."""
        is_over = threading.Event()

        def beat() -> None:
            while not is_over.wait(self._lease / BEATS_IN_A_LEASE):
                # Others take over if heartbeats fail for a lease. Then the first one to create the job continues.
                with suppress(*STORE_ERRORS):
                    self._beat("listing")

        thread = threading.Thread(target=beat, name="fetchmill-heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def _beat(self, state: str) -> None:
        self._heartbeats.write({"state": state, "listed": 0})


def lister_of(directory: JobDirectory, heartbeats: list[Heartbeat], lease: float) -> str | None:
    """Return the living process that lists the source of a job; None if there is none."""
    living = {each.worker for each in heartbeats if each.lives(lease)}
    claims = directory.claims().get(LISTING, {})
    return next((worker for worker in claims.values() if worker in living), None)


def claim_listing(directory: JobDirectory, worker: str) -> str | None:
    """Claim the listing for a process. Returns the file of the claim; None if another process was faster."""
    claims = directory.claims().get(LISTING, {})
    return directory.claim_listing(worker, 1 + max(map(number_of, claims), default=0))


def await_job(directory: JobDirectory, say: Callable[[str], None]) -> None:
    """Wait while another process lists the source of a job that does not exist yet."""
    heartbeats = Heartbeats(directory, "")
    is_waiting = False
    while not directory.exists() and directory.claims().get(LISTING):
        if not any(each.state == "listing" and each.age < _LOST_SECONDS for each in heartbeats.look()):
            return
        if not is_waiting:
            say("waits for the first part of the source's list")
        is_waiting = True
        time.sleep(_LOOK_SECONDS)
