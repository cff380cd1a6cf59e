"""The running attempts of a worker. One is being fed, and the others are waiting for their last targets."""

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from fetchmill._shared.attempt import Attempt
from fetchmill._shared.heartbeats import Heartbeat
from fetchmill._shared.job_directory import JobDirectory
from fetchmill._shared.origin_pace import OriginPace
from fetchmill._shared.progress import AttemptProgress
from fetchmill._shared.records import OUTCOMES, CommitRecord, empty_ledger
from fetchmill.errors import FetchmillError


class RunningAttempts:
    """See the module docstring.

    Only the feeding thread calls `begin`, `finish`, `count_finishing` and `join`. Any thread may call the other
    methods.

    Args:
        directory: the job directory.
        say: called with each message for the user.
        set_rates: divides the worker's part of the rate among its attempts, after the number of attempts has changed.
    """

    def __init__(self, directory: JobDirectory, say: Callable[[str], None], set_rates: Callable[[], None]) -> None:
        # Number of ranges that became final, and the sum of their ledgers.
        self.ranges = 0
        self.counts = empty_ledger()
        # An attempt's error that ends the worker.
        self.failure: BaseException | None = None
        self._directory = directory
        self._say = say
        self._set_rates = set_rates
        # Reentrant, because a signal handler may acquire it while this thread holds it.
        self._lock = threading.RLock()
        self._attempts: list[Attempt] = []
        self._finishing: list[threading.Thread] = []
        # Number of outcomes in attempts that did not become final.
        self._discarded = 0
        self._pace = OriginPace()
        # The outcomes of the attempt that ended last.
        self._ended = AttemptProgress()

    def current(self) -> list[Attempt]:
        """Return the attempts."""
        with self._lock:
            return list(self._attempts)

    def count_finishing(self) -> int:
        """Return the number of attempts that wait for their last targets."""
        self._finishing = [thread for thread in self._finishing if thread.is_alive()]
        return len(self._finishing)

    def note_failure(self, failure: BaseException | None) -> None:
        """Keep the first error that ends the worker."""
        with self._lock:
            self.failure = self.failure or failure

    def begin(self, attempt: Attempt) -> None:
        """Add an attempt. Its range is fed next."""
        with self._lock:
            self._pace.note(self._attempts)
            attempt.progress = self._next_progress()
            self._attempts.append(attempt)
            self._set_rates()

    def _next_progress(self) -> AttemptProgress:
        if not self._attempts:
            return self._ended.following(is_waiting=False)
        last = self._attempts[-1]
        return last.progress.following(is_waiting=last.note_progress() > 0)

    def finish(
        self, attempt: Attempt, failure: BaseException | None, how_to_divide: Callable[[], tuple[int, float]]
    ) -> None:
        """Start a thread that waits for an attempt to end, and then makes its range final or releases it.

        Args:
            attempt: the attempt, which is no longer fed.
            failure: the error that ended its feed, if any.
            how_to_divide: returns the arguments for `Attempt.finish`.
        """
        thread = threading.Thread(
            target=self._finish, args=(attempt, failure, how_to_divide), name="fetchmill-finish", daemon=True
        )
        self._finishing.append(thread)
        thread.start()

    def _finish(
        self, attempt: Attempt, failure: BaseException | None, how_to_divide: Callable[[], tuple[int, float]]
    ) -> None:
        is_final = False
        try:
            if failure is not None:
                attempt.abandon()
            else:
                record = attempt.finish(*how_to_divide())
                if record is not None and record.attempt == attempt.id:
                    self._count(record)
                    is_final = True
        except BaseException as error:  # noqa: BLE001 - re-raised when the worker ends
            # When a shared job is finished, other workers remove the files of late attempts. The jobs of these attempts
            # then fail.
            failure = failure or (None if has_lost(attempt) else error)
        finally:
            with self._lock:
                self._pace.note(self._attempts)
                self._attempts.remove(attempt)
                self._ended = attempt.progress
                if not is_final:
                    self._discarded += attempt.settled()
                self.note_failure(failure)
                self._set_rates()
            try:
                attempt.discard()
                self.release(attempt, self._directory)
            except FetchmillError as error:
                self.note_failure(error)

    def release(self, attempt: Attempt, directory: JobDirectory) -> None:
        """Remove an attempt's claim, but only once, because another worker may later reuse its name."""
        if not attempt.is_released:
            directory.release(attempt.claim)
            attempt.is_released = True

    def _count(self, record: CommitRecord) -> None:
        with self._lock:
            self.ranges += 1
            for name, count in record.ledger.items():
                self.counts[name] += count
        fetched, listed = record.ledger["fetched"], record.ledger["listed"]
        self._say(f"range {record.range.id}: {fetched:,} of {listed:,} fetched in {record.seconds:.1f} s")

    def join(self, is_to_stop: Callable[[Attempt], bool]) -> None:
        """Wait until all attempts have ended.

        Args:
            is_to_stop: returns whether an attempt must end now and discard its objects.
        """
        while any(thread.is_alive() for thread in self._finishing):
            for thread in self._finishing:
                thread.join(0.1)
            for attempt in self.current():
                if is_to_stop(attempt):
                    attempt.stop()

    def note_peers(self, before: int, after: int, peers: Iterable[Heartbeat]) -> None:
        """Adapt the pace to a new number of workers."""
        with self._lock:
            self._pace.scale(before, after)
            self._pace.take_over(peers)

    def divide_pace(self) -> None:
        """Divide the pace among the attempts."""
        with self._lock:
            self._pace.divide(self._attempts)

    def end_stuck(self, is_outdated: Callable[[frozenset[str]], bool]) -> None:
        """End stuck attempts that have lost their range, or that keep a new worker from using its part of the limits.

        Args:
            is_outdated: returns whether an attempt that knows only these workers must end.
        """
        for attempt in self.current():
            is_stuck = attempt.is_stuck()
            attempt.was_stuck = attempt.was_stuck or is_stuck
            is_in_the_way = is_stuck and is_outdated(attempt.known)
            if is_in_the_way or (attempt.was_stuck and has_lost(attempt)):
                attempt.stop()

    def stuck(self) -> list[str]:
        """Return the ids of the stuck ranges. Another worker may also fetch these."""
        return [attempt.claim.range.id for attempt in self.current() if attempt.is_stuck()]

    def as_heartbeat(self) -> dict[str, Any]:
        """Return the values for a heartbeat."""
        with self._lock:
            attempts = list(self._attempts)
            if self._pace.note(attempts):
                self._pace.divide(attempts)
        counts, rate = empty_ledger(), 0.0
        for attempt in attempts:
            for name, count in attempt.counts().items():
                counts[name] += count
        if attempts:
            settled = sum(counts[name] for name in OUTCOMES)
            rate = settled / max(time.monotonic() - min(each.started for each in attempts), 0.1)
        return {
            "ranges": [attempt.claim.range.id for attempt in attempts],
            "stuck": self.stuck(),
            "counts": counts,
            "objects_per_second": round(rate, 1),
            "pace": self._pace.per_second,
            "discarded": self._discarded,
            "settled": {attempt.claim.range.id: attempt.settled() for attempt in attempts},
        }


def has_lost(attempt: Attempt) -> bool:
    """Return whether another attempt is known to have made the range final."""
    try:
        return attempt.has_lost()
    except FetchmillError:
        return False
