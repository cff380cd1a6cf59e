"""Chooses the next range of a worker, and claims it."""

import random
from collections.abc import Callable, Container, Iterable

from fetchmill._shared.heartbeats import Heartbeat, Heartbeats
from fetchmill._shared.job_directory import DEATHS_MAX, Claim, JobDirectory, number_of
from fetchmill._shared.range_kinds import RangeKind
from fetchmill._shared.ranges import Range
from fetchmill._shared.records import CommitRecord, JobRecord, empty_ledger
from fetchmill._shared.store import STORE_ERRORS


class RangeChoice:
    """See the module docstring.

    Args:
        directory: the job directory.
        heartbeats: the heartbeats of all workers.
        worker: the name of this worker.
        kind: the kind of the job's ranges.
        say: called with each message for the user.
    """

    def __init__(
        self,
        directory: JobDirectory,
        heartbeats: Heartbeats,
        worker: str,
        kind: RangeKind,
        say: Callable[[str], None],
    ) -> None:
        # The ids of open ranges without a living worker, as far as this worker knows.
        self._free: set[str] | None = None
        self._directory = directory
        self._heartbeats = heartbeats
        self._worker = worker
        self._kind = kind
        self._say = say

    @property
    def left(self) -> int | None:
        """The number of open ranges without a living worker, or None before this worker's first claim."""
        return None if self._free is None else len(self._free)

    def note_peers(self, peers: Iterable[Heartbeat]) -> None:
        """Record the ranges of the other workers, which may have claimed them at the same time as this worker."""
        if self._free is not None:
            self._free.difference_update(*(peer.ranges for peer in peers))

    def take(self, job: JobRecord, open_ranges: list[Range], mine: Container[str]) -> Claim | None:
        """Claim a stuck range, or one that no living worker holds. Choose at random, so that workers rarely collide.

        Args:
            job: the job.
            open_ranges: the ranges without a commit record.
            mine: the ids of the ranges that this worker holds.
        """
        claims = self._directory.claims()
        try:
            living = {each.worker: each for each in self._heartbeats.read() if each.lives(job.lease)}
        except STORE_ERRORS:
            return None  # the caller retries soon; the heartbeat thread ends the worker if the store keeps failing
        ready = self._kind.ready(job.files, open_ranges)
        random.shuffle(ready)
        owners_of = {
            each.id: [living[owner] for owner in claims.get(each.id, {}).values() if owner in living] for each in ready
        }
        self._free = {name for name, owners in owners_of.items() if not owners}
        for each in ready:
            names, owners = list(claims.get(each.id, {})), owners_of[each.id]
            # Only one additional worker may fetch a stuck range.
            is_free = len(owners) <= self._kind.owners_max and all(each.id in owner.stuck for owner in owners)
            if each.id in mine or not is_free:
                continue
            # If the claim fails, another worker holds the range.
            self._free.discard(each.id)
            if not owners and len(names) >= DEATHS_MAX:
                self._set_aside(job, each)
            elif claim := self._directory.claim(each, self._worker, number_of(names[-1]) + 1 if names else 1):
                # The range may have become final since the ranges were read.
                if each.id not in self._directory.final_attempts():
                    return claim
                self._directory.release(claim)
        return None

    def _set_aside(self, job: JobRecord, range: Range) -> None:
        why = f"{DEATHS_MAX} workers died while processing it"
        record = CommitRecord(
            job=job.id,
            range=range,
            attempt="",
            worker=self._worker,
            ledger=empty_ledger(),
            named={"failures": {}, "failed_statuses": {}, "skipped_by": {}},
            set_aside=why,
        )
        if self._directory.commit(record).set_aside:
            file = job.files[range.file]
            unit = "bytes" if file.rows is None else "rows"
            where = f"{unit} {range.start:,} to {range.end:,} of {file.path}"
            self._say(f"range {range.id} was set aside: {why}; it covers {where}")
