"""Chooses the process that creates the list of a shared job before the job exists.

The chosen process lists the job's source, or divides its list by host. All other processes wait for the job. If the
chosen process dies, another process takes over.

claims/listing.N      the process that creates the list
list/TOKEN.FORMAT     a part of the list; if no record names it, its process died
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from fetchmill._shared.heartbeats import BEATS_IN_A_LEASE, Heartbeat, Heartbeats
from fetchmill._shared.job_directory import LISTING, JobDirectory, number_of
from fetchmill._shared.store import STORE_ERRORS

# Poll interval while another process creates the list.
_LOOK_SECONDS = 0.5
# A process that joins waits for this many leases after the last heartbeat, so that other processes can take over first.
_LOST_LEASES = 3


class ListClaim:
    """See the module docstring.

    Args:
        directory: the job directory.
        worker: the name of this process.
        lease: seconds after which a process without a heartbeat counts as dead.
        say: called with each message for the user.
    """

    def __init__(self, directory: JobDirectory, worker: str, lease: float, say: Callable[[str], None]) -> None:
        self._directory = directory
        self._worker = worker
        self._lease = lease
        self._say = say
        self._heartbeats = Heartbeats(directory, worker)
        self._has_beaten = False

    def take(self, waiting: str) -> str | None:
        """Claim the list, or wait until another process has created the job.

        Args:
            waiting: message for the user if this process waits.

        Returns:
            The file of the claim; None if the job exists.

        Raises:
            UsageError: the directory contains unrelated files.
        """
        try:
            return self._take(waiting)
        except BaseException:
            self.leave()
            raise

    def _take(self, waiting: str) -> str | None:
        is_waiting = False
        while not self._directory.exists():
            self._directory.refuse_foreign()
            # Read the claims before the heartbeats. A process writes its heartbeat before its claim, because other
            # processes would otherwise consider it dead.
            claims = self._directory.claims().get(LISTING, {})
            living = {each.worker for each in self._heartbeats.look() if each.lives(self._lease)}
            if living.isdisjoint(claims.values()):
                self._beat("listing")
                if claim := self._directory.claim_listing(self._worker, _next_number(claims)):
                    if not self._directory.exists():
                        return claim
                    # Another process has just created the job and removed its claim.
                    self._directory.store.remove(claim)
                    return None
            if not is_waiting:
                self._say(waiting)
            is_waiting = True
            time.sleep(_LOOK_SECONDS)
        return None

    def leave(self) -> None:
        """Write a final heartbeat with the state `ended`, so that this process's claim is no longer valid."""
        if self._has_beaten:
            with suppress(*STORE_ERRORS):
                self._beat("ended")

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Write heartbeats in another thread."""
        is_over = threading.Event()

        def beat() -> None:
            while not is_over.wait(self._lease / BEATS_IN_A_LEASE):
                # If heartbeats fail for a lease, another process takes over. The first process to create the job
                # continues.
                with suppress(*STORE_ERRORS):
                    self._beat("listing")

        thread = threading.Thread(target=beat, name="fetchmill-heartbeat", daemon=True)
        try:
            thread.start()
            yield
        finally:
            is_over.set()
            with suppress(RuntimeError):  # a signal arrived before the thread ran
                thread.join()

    def _beat(self, state: str) -> None:
        self._has_beaten = True
        self._heartbeats.write({"state": state, "listed": 0, "lease": self._lease})


def lister_of(directory: JobDirectory, heartbeats: list[Heartbeat], lease: float) -> str | None:
    """Return the living process that creates a job's list; None if there is none."""
    living = {each.worker for each in heartbeats if each.lives(lease)}
    claims = directory.claims().get(LISTING, {})
    return next((worker for worker in claims.values() if worker in living), None)


def claim_listing(directory: JobDirectory, worker: str) -> str | None:
    """Claim the list for a process. Return the file of the claim; None if another process was faster."""
    return directory.claim_listing(worker, _next_number(directory.claims().get(LISTING, {})))


def _next_number(claims: Iterable[str]) -> int:
    """Return the number of the next claim after these."""
    return 1 + max(map(number_of, claims), default=0)


def await_job(directory: JobDirectory, say: Callable[[str], None]) -> None:
    """Wait while another process creates the list of a job that does not exist yet."""
    heartbeats = Heartbeats(directory, "")
    is_waiting = False
    while not directory.exists() and directory.claims().get(LISTING):
        listers = heartbeats.look()
        # The lease is only in the heartbeats, because there is no job yet.
        if not any(each.state == "listing" and each.age < _LOST_LEASES * (each.lease or 0.0) for each in listers):
            return
        if not is_waiting:
            say("waits for the first part of the job's list")
        is_waiting = True
        time.sleep(_LOOK_SECONDS)
