"""A worker of a shared job, which claims and fetches ranges until every range has a commit record."""

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from fetchmill._quick_dataclass import dataclass
from fetchmill._shared.attempt import Attempt
from fetchmill._shared.attempts import RunningAttempts
from fetchmill._shared.conclusion import conclude
from fetchmill._shared.heartbeats import BEATS_IN_A_LEASE, Heartbeats
from fetchmill._shared.job_directory import Claim, JobDirectory
from fetchmill._shared.list_claim import lister_of
from fetchmill._shared.listing import Listing
from fetchmill._shared.local_lists import LocalLists
from fetchmill._shared.local_state import check_room, make_folder, remove_folder
from fetchmill._shared.range_choice import RangeChoice
from fetchmill._shared.range_kinds import kind_of_ranges
from fetchmill._shared.records import JobRecord
from fetchmill._shared.source_lister import LISTING_END_SECONDS
from fetchmill._shared.store import STORE_ERRORS, Store
from fetchmill.errors import FetchmillError

# Poll interval of an idle worker, as a fraction of its waiting time so far, within the bounds below.
_IDLE_SHARE = 0.125
_IDLE_SECONDS_MIN = 0.2
IDLE_SECONDS = 1.0
# Interval at which a worker reads the heartbeats of other workers, and the maximum number of heartbeats read per
# second.
_LOOK_SECONDS = 0.5
_READS_PER_SECOND = 20
# Poll interval of a worker that cannot start another range yet.
_READY_SECONDS = 0.1
# A worker ends if its heartbeats fail for this many leases.
_DEAF_LEASES = 6
# Time limit for finishing targets already fed, after a worker was asked to end. Kubernetes kills the worker after 30 s.
DRAIN_SECONDS = 20.0
# Maximum number of lists from a bucket that a worker keeps locally. A part of a source's list has at most 64 MiB; a
# part of a list divided by host has no maximum.
_COPIES_MAX = 8
# Maximum number of attempts that wait for their last targets while the next range is fetched.
_FINISHING_MAX = 3


@dataclass(frozen=True, kw_only=True)
class WorkerEnd:
    """The end of a worker.

    Args:
        reason: `finished` if every range has a commit record; `stopped` after `fetchmill stop`; `asked` after a signal.
        ranges: number of ranges that this worker made final.
        counts: sum of the ledgers of these ranges.
    """

    reason: str
    ranges: int
    counts: Mapping[str, int]


class RangeWorker:
    """See the module docstring.

    Args:
        directory: the job directory.
        job: the job.
        name: the name of this worker, from `process_name`.
        options: the job's options, including this worker's secrets.
        local: a local folder for journals. The worker creates it, and removes it at the end.
        listing: this worker's part in listing the source of the job.
        say: called with each message for the user.
    """

    def __init__(
        self,
        directory: JobDirectory,
        job: JobRecord,
        name: str,
        options: Mapping[str, Any],
        local: Path,
        listing: Listing,
        say: Callable[[str], None],
    ) -> None:
        self.name = name
        self._directory = directory
        self._job = job
        self._options = options
        self._local = local
        self._listing = listing
        self._lists = LocalLists(directory.store, local)
        self._say = say
        # The heartbeat thread must not wait any longer, because a later heartbeat would be useless.
        self._beating = directory.with_patience(job.lease / BEATS_IN_A_LEASE)
        self._heartbeats = Heartbeats(self._beating, self.name)
        self._kind = kind_of_ranges(job)
        self._choice = RangeChoice(directory, self._heartbeats, name, self._kind, say)
        self._attempts = RunningAttempts(directory, say, self._set_rates)
        self._shares = self._kind.shares(name, options, directory.rate(job))
        self._may_start = threading.Event()
        self._has_idle_peers = False
        # Whether so few ranges are left that some worker will soon have none.
        self._is_near_end = False
        self._is_waiting = False
        self._waiting_since = 0.0
        # The stuck ranges in the last heartbeat.
        self._shown_stuck: list[str] = []
        # Whether the user has been notified that no worker can list the source.
        self._has_said = False
        self._asked = threading.Event()
        self._asked_at = 0.0
        self._stopped: str | None = None
        self._stopped_at = 0.0
        self._ended = threading.Event()

    @property
    def store(self) -> Store:
        """The files of the job directory."""
        return self._directory.store

    @property
    def source(self) -> str | None:
        """The source of the job with its secrets; None if this worker does not know it."""
        return self._listing.source

    def stop(self) -> None:
        """Ask the worker to end. It still fetches and commits targets already fed. Other workers fetch the rest."""
        self._asked_at = self._asked_at or time.monotonic()
        self._asked.set()

    def abort(self) -> None:
        """End the attempts immediately and release their ranges."""
        self.stop()
        self._listing.stop()
        attempts = self._attempts.current()
        self._kind.prepare_release(attempts)
        for attempt in attempts:
            # Release claims first. The process may be killed at any moment, and a remaining claim counts as a death.
            with suppress(FetchmillError):
                self._attempts.release(attempt, self._beating)
            attempt.stop()

    def run(self) -> WorkerEnd:
        """Work until the job is finished or stopped, or this worker is asked to end.

        Raises:
            StorageError: this machine has no room for the journals.
            FetchmillError: an attempt failed for a reason that would also affect other workers. Its range is released.
        """
        self._local = make_folder(self._local, self.name)
        check_room(self._local)
        self._lists = LocalLists(self.store, self._local)
        beating = threading.Thread(target=self._beat, name="fetchmill-heartbeat", daemon=True)
        # If this fails, the heartbeat thread tries again. No range is claimed before a heartbeat has succeeded.
        with suppress(*STORE_ERRORS):
            self._write_heartbeat()
        beating.start()
        try:
            reason = self._work()
            self._listing.stop()
            if reason == "finished":
                # Attempts that are still running have lost their ranges.
                for attempt in self._attempts.current():
                    attempt.stop()
            self._join_finishing()
            if self._attempts.failure is not None:
                raise self._attempts.failure
            if reason == "finished":
                conclude(self.store, self._job)
            return WorkerEnd(reason=reason, ranges=self._attempts.ranges, counts=dict(self._attempts.counts))
        finally:
            for attempt in self._attempts.current():
                attempt.stop()
            self.leave_listing()
            self._join_finishing()
            self._ended.set()
            beating.join(IDLE_SECONDS)
            with suppress(FetchmillError):
                self._write_heartbeat()
            remove_folder(self._local)

    def leave_listing(self) -> None:
        """Leave the rest of the source's list to other workers."""
        self._listing.stop()
        self._listing.join(LISTING_END_SECONDS)

    # Claiming work.

    def _work(self) -> str:
        while self._attempts.failure is None:
            if self._asked.is_set():
                return "asked"
            if self._stopped is not None:
                return "stopped"
            finishing = self._attempts.count_finishing()
            self._job = self._directory.job()
            open_ranges = self._directory.open_ranges(self._job)
            if not open_ranges and self._job.is_listed:
                return "finished"
            self._take_listing(is_done=not open_ranges)
            is_ready = self._is_ready()
            mine = {attempt.claim.range.id for attempt in self._attempts.current()}
            claim = self._choice.take(self._job, open_ranges, mine) if is_ready else None
            self._note_waiting(is_ready and claim is None)
            if claim is None:
                self._pause(self._poll_seconds(), finishing)
            else:
                self._attempt(claim)
        return "failed"

    def _poll_seconds(self) -> float:
        """Return how long to pause before looking for work again. The longer the wait so far, the longer the pause."""
        if self._is_waiting:
            waited = time.monotonic() - self._waiting_since
            return min(max(waited * _IDLE_SHARE, _IDLE_SECONDS_MIN), IDLE_SECONDS)
        return _READY_SECONDS if self._job.is_listed else IDLE_SECONDS

    def _pause(self, seconds: float, finishing: int) -> None:
        """Wait up to `seconds`, or until the worker is asked to end or fewer attempts wait for their last targets."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0.0 and self._attempts.count_finishing() >= finishing:
            if self._asked.wait(min(left, _READY_SECONDS)):
                return

    def _take_listing(self, *, is_done: bool) -> None:
        """Start to list the source, unless the list is complete or another worker is listing it.

        If every range is final, no worker is listing, and this worker has failed to list, it ends with that failure.

        Args:
            is_done: whether every range so far is final.
        """
        if self._listing.has_failed():
            self._say(f"cannot list {self._job.source}: {self._listing.failure}")
        if self._job.is_listed or not self._may_start.is_set():
            return
        if self._shares.has_host_limits and (self._attempts.current() or self._shares.is_standby):
            return  # an attempt is using this worker's part of the per-host limits
        with suppress(*STORE_ERRORS):  # the caller retries soon
            heartbeats = self._heartbeats.read()
            if self._listing.take_over(self._job, heartbeats, self._shares):
                self._say(f"continues to list {self._job.source}")
                self._set_rates()
            elif is_done and not self._listing.is_possible:
                self._note_unlisted(lister_of(self._directory, heartbeats, self._job.lease))

    def _note_unlisted(self, lister: str | None) -> None:
        """Unless another worker is listing, record why this worker failed to list, or say that it cannot list."""
        if lister in (None, self.name) and self._listing.failure is not None:
            self._attempts.note_failure(self._listing.failure)
        elif lister is None and not self._has_said:
            self._has_said = True
            self._say(
                f"waits for a worker that can list {self._job.source}: the URL contains a secret, so start one with "
                "fetchmill get"
            )

    def _note_waiting(self, is_waiting: bool) -> None:
        """Notify the other workers immediately when this worker starts to wait, so that they share their work."""
        begins = is_waiting and not self._is_waiting
        self._is_waiting = is_waiting
        if begins:
            self._waiting_since = time.monotonic()
            with suppress(*STORE_ERRORS):  # the heartbeat thread tries again
                self._write_heartbeat()

    def _is_ready(self) -> bool:
        """Return whether this worker can start another range.

        The other workers must know this worker, and the number of finishing attempts must be below its maximum.
        """
        if self._has_idle_peers and any(attempt.is_stuck() for attempt in self._attempts.current()):
            return False  # another range would also get stuck
        if self._shares.has_host_limits and self._listing.is_running:
            return False  # the listing is using this worker's part of the per-host limits
        # Two attempts would each use this worker's whole part of the per-host limits.
        finishing_max = 1 if self._shares.has_host_limits else _FINISHING_MAX
        has_room = self._attempts.count_finishing() < finishing_max
        return has_room and self._may_start.is_set() and not self._shares.is_standby

    # Fetching.

    def _attempt(self, claim: Claim) -> None:
        """Feed a range. A separate thread waits for the attempt to end."""
        options = {**self._options, "rate": self._shares.rate_of_one(self._requesters() + 1)}
        try:
            listed = self._job.files[claim.range.file]
            in_use = {self._job.files[each.claim.range.file].path for each in self._attempts.current()}
            self._lists.keep({*in_use, listed.path}, _COPIES_MAX)
            file = self._lists.local(listed)
            attempt = Attempt(self._directory, self._job, self.name, claim, file, options, self._shares, self._local)
        except BaseException:
            self._directory.release(claim)
            raise
        self._attempts.begin(attempt)
        failure = None
        try:
            attempt.feed(self._is_to_end, self._is_ended)
        except BaseException as error:  # noqa: BLE001 - re-raised when the attempt has ended
            failure = error
            attempt.stop()
        self._attempts.finish(attempt, failure, self._how_to_divide)

    def _how_to_divide(self) -> tuple[int, float]:
        """Return the minimum number and the maximum duration of the ranges made from an attempt's unfetched rest."""
        return self._shares.sharers if self._has_idle_peers else 1, self._kind.seconds(is_shared=self._is_shared())

    def _is_to_end(self, attempt: Attempt) -> bool:
        """Return whether an attempt must end before it reaches the end of its range."""
        attempt.note_progress()
        seconds = time.monotonic() - attempt.started
        if self._is_ended():
            return True
        if attempt.has_rate != (self._shares.rate is not None):
            return True  # a job that began without a rate cannot get one later
        if self._shares.is_outdated(attempt.known):
            return True
        return self._kind.is_over(seconds, is_shared=self._is_shared(), is_awaited=self._has_idle_peers)

    def _is_shared(self) -> bool:
        return self._has_idle_peers or self._is_near_end

    def _is_ended(self) -> bool:
        """Return whether this worker must not claim more ranges."""
        return self._asked.is_set() or self._stopped is not None or self._attempts.failure is not None

    def _join_finishing(self) -> None:
        """Wait for all attempts, but only for a limited time if the worker was asked to end."""

        def is_to_stop(attempt: Attempt) -> bool:
            if self._stopped == "now" or self._drained_too_long(self._asked_at):
                return True
            return self._drained_too_long(self._stopped_at) and attempt.is_stuck()

        self._attempts.join(is_to_stop)

    def _drained_too_long(self, since: float) -> bool:
        return since > 0.0 and time.monotonic() - since > DRAIN_SECONDS

    # Heartbeats.

    def _beat(self) -> None:
        last = time.monotonic()
        # Write the first heartbeat immediately, to find out whether other workers must make room for this worker.
        due, pause = last, 0.0
        while not self._ended.wait(pause):
            pause = self._look_seconds()
            try:
                began = time.monotonic()
                if began - last > self._job.lease:
                    self._note_frozen()
                if began >= due or self._attempts.stuck() != self._shown_stuck:
                    self._beat_once()
                    last, due = began, began + self._beat_seconds()
                else:
                    self._look_at_peers()
            except STORE_ERRORS as error:
                # After a lease, other workers may fetch this worker's ranges. If the job has limits, this worker must
                # stop before that.
                leases = 0.7 if self._shares.is_exclusive else _DEAF_LEASES
                if time.monotonic() - last > self._job.lease * leases:
                    self._fail(error)
            except BaseException as error:  # noqa: BLE001 - re-raised when the worker ends
                self._fail(error)

    def _beat_once(self) -> None:
        self._beating.job()
        self._write_heartbeat()
        self._look_at_peers()
        self._attempts.end_stuck(self._shares.is_outdated)
        self._stopped = self._beating.is_stopped()
        self._stopped_at = (self._stopped_at or time.monotonic()) if self._stopped else 0.0
        self._take_rate(self._beating.rate(self._job))

    def _beat_seconds(self) -> float:
        period = self._job.lease / BEATS_IN_A_LEASE
        return period if self._may_start.is_set() else min(period, _LOOK_SECONDS)

    def _look_seconds(self) -> float:
        """Return the interval at which to check the other workers, of which the heartbeat interval is a multiple."""
        period = self._beat_seconds()
        return period / max(int(period / max(_LOOK_SECONDS, self._shares.sharers / _READS_PER_SECOND)), 1)

    def _note_frozen(self) -> None:
        """End work that other workers may have taken over while this process was frozen."""
        self._listing.stop()
        self._kind.end_lost(self._attempts.current())

    def _fail(self, error: BaseException) -> None:
        self._attempts.note_failure(error)
        self.abort()

    def _write_heartbeat(self) -> None:
        # Collect this before `known`. An attempt that starts in between may know fewer workers, so `known` must include
        # it.
        of_attempts = self._attempts.as_heartbeat()
        known = [attempt.known for attempt in self._attempts.current()]
        listing_known = [self._listing.known] if self._listing.is_running else []
        self._shown_stuck = of_attempts["stuck"]
        self._heartbeats.write(
            {
                "state": self._state(),
                **self._shares.as_heartbeat(known + listing_known),
                **of_attempts,
                "left": self._choice.left,
                "listed": self._listing.listed,
            }
        )

    def _state(self) -> str:
        if self._ended.is_set():
            return "ended"
        if self._asked.is_set() or self._stopped is not None:
            return "draining"
        if self._shares.is_standby:
            return "standby"
        return "waiting" if self._is_waiting else "working"

    def _look_at_peers(self) -> None:
        """Divide the limits among the living workers. A new worker starts after all other workers have done this."""
        peers = [each for each in self._heartbeats.read() if each.worker != self.name and each.lives(self._job.lease)]
        before = self._shares.sharers
        if self._shares.observe(peers):
            self._attempts.note_peers(before, self._shares.sharers, peers)
            self._set_rates()
            self._write_heartbeat()
        self._has_idle_peers = any(each.state == "waiting" for each in peers)
        self._choice.note_peers(peers)
        left = [each for each in (self._choice.left, *(peer.left for peer in peers)) if each is not None]
        self._is_near_end = bool(left) and min(left) < len(peers)
        if self._shares.may_start(peers):
            self._may_start.set()

    def _take_rate(self, rate: float | None) -> None:
        if rate != self._shares.rate:
            self._shares.rate = rate
            self._set_rates()

    def _set_rates(self) -> None:
        """Divide this worker's pace, and its part of the rate, among its attempts."""
        self._attempts.divide_pace()
        share = self._shares.rate_of_one(self._requesters())
        if share is not None:
            self._listing.set_rate(share)
            for attempt in self._attempts.current():
                attempt.set_rate(share)

    def _requesters(self) -> int:
        """Return the number of this worker's jobs that make requests."""
        return len(self._attempts.current()) + self._listing.is_running
