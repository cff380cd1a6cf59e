"""Passes targets from the dispatcher to an engine's workers and answers back to it, for engines in one process."""

import time
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Protocol

from fetchmill.engines.answers import Answer

if TYPE_CHECKING:
    from fetchmill._native import Dispatcher, Target

# Maximum time to wait for the dispatcher's targets when nothing is in flight.
IDLE_WAIT_SECONDS = 0.25
# Maximum time between two polls of the dispatcher while requests are in flight.
POLL_SECONDS = 0.05
# Time limit for requests that are in flight when the job is stopped.
DRAIN_SECONDS = 3.0
# Maximum number of answers in a report.
REPORT_MAX = 1024
# Maximum number of replies held until they are certain. They are held for a second, and Python cannot make this many
# requests in a second.
HELD_MAX = 4096

# Queue whose entries are lists of answers in order of arrival, or the error that ended the workers.
AnswerQueue = SimpleQueue[list[Answer] | BaseException]


class Workers(Protocol):
    """The workers that make requests: threads or an event loop. The dispatcher's thread calls these methods.

    Args:
        answers: the queue of answers. An empty list means that the workers have room for more targets.
        held: number of replies that have arrived but are not yet certain.
    """

    answers: AnswerQueue

    @property
    def held(self) -> int: ...  # noqa: D102 - see the class

    def add_targets(self, batch: list["Target"]) -> None:
        """Add targets without waiting. Each target results in one answer."""

    def resize(self, limit: int) -> None:
        """Limit the number of requests in flight from now on. Requests that are already in flight continue."""

    def running(self) -> tuple[int, int]:
        """Return the numbers of requests in flight and of targets waiting to be requested."""

    def on_reported(self, answers: list[Answer]) -> None:
        """Record that the dispatcher has taken these answers."""


def targets_max(limit: int, held: int) -> int:
    """Return the maximum number of targets for workers, given `limit` requests in flight and `held` replies.

    Some of these targets are waiting to be requested, so that workers do not have to wait for the dispatcher.
    """
    return limit + max(8, limit // 4) + held if limit else held


def exchange(dispatcher: "Dispatcher", workers: Workers, held_max: int) -> None:
    """Hand targets to workers and report their answers, until no targets are left.

    The dispatcher sets the maximum number of requests in flight, and can change it at any time.

    Args:
        dispatcher: the dispatcher of the job.
        workers: the workers that make requests.
        held_max: maximum number of additional targets, one of which is handed out for each held reply.

    Raises:
        BaseException: an error that a worker has put into `answers`.
    """
    outstanding = 0
    while True:
        limit = dispatcher.concurrency
        workers.resize(limit)
        dispatcher.note_running(*workers.running())
        wanted = max(0, targets_max(limit, min(workers.held, held_max)) - outstanding)
        if wanted or not outstanding:
            batch = dispatcher.next_batch(wanted, 0.0 if outstanding else IDLE_WAIT_SECONDS)
            if batch is None:
                break
            if batch:
                outstanding += len(batch)
                workers.add_targets(batch)
        outstanding -= _report(dispatcher, workers, POLL_SECONDS if outstanding or not wanted else 0.0)
    deadline = time.monotonic() + DRAIN_SECONDS
    while outstanding and time.monotonic() < deadline:
        outstanding -= _report(dispatcher, workers, POLL_SECONDS)


def _report(dispatcher: "Dispatcher", workers: Workers, seconds: float) -> int:
    """Wait up to `seconds` for an answer, report all available answers, and return their number."""
    answers = workers.answers
    found: list[Answer] = []
    try:
        while len(found) < REPORT_MAX:
            some = answers.get_nowait() if found or not seconds else answers.get(timeout=seconds)
            if isinstance(some, BaseException):
                raise some
            found += some
            if not some:
                break
    except Empty:
        pass
    # Report even without answers, because a report also passes on statistics about held replies.
    dispatcher.report(found)
    if found:
        workers.on_reported(found)
    return len(found)
