"""Moves targets from the dispatcher to an engine's workers and answers back: shared by all engines in one process."""

import time
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Protocol

from fetchmill.engines.answers import Answer

if TYPE_CHECKING:
    from fetchmill._native import Dispatcher, Target

# How long the dispatcher is asked to wait for targets when nothing is in flight.
IDLE_WAIT_SECONDS = 0.25
# With something in flight the next look at the dispatcher comes at the latest after this.
POLL_SECONDS = 0.05
# What is in flight when the job is asked to stop may take so long.
DRAIN_SECONDS = 3.0
# Answers that are reported at once.
REPORT_MAX = 1024
# Replies that wait until they are certain: of a second, and more than Python asks for in that time.
HELD_MAX = 4096

# Answers as they come: one or more at a time, or what has ended the workers.
AnswerQueue = SimpleQueue[list[Answer] | BaseException]


class Workers(Protocol):
    """What makes requests: threads, or an event loop. The dispatcher's thread calls it.

    Args:
        answers: where answers come; an empty list says that there is room for more targets.
        held: replies that have come and are not certain yet.
    """

    answers: AnswerQueue

    @property
    def held(self) -> int: ...  # noqa: D102 - see the class

    def add_targets(self, batch: list["Target"]) -> None:
        """Gives them targets; returns at once. Each target comes back as one answer."""

    def resize(self, limit: int) -> None:
        """At most so many requests are out from now on. Those that are out already are not given up."""

    def running(self) -> tuple[int, int]:
        """Requests that are out, and targets that wait for a place."""

    def on_reported(self, answers: list[Answer]) -> None:
        """The dispatcher has taken these."""


def targets_max(limit: int, held: int) -> int:
    """Targets that workers have at most while `limit` requests may be out, and so many replies are held.

    Some wait for a place: workers need not wait for the dispatcher.
    """
    return limit + max(8, limit // 4) + held if limit else held


def exchange(dispatcher: "Dispatcher", workers: Workers, held_max: int) -> None:
    """Gives targets to workers and reports their answers, until there are no more targets.

    How many requests may be out is the dispatcher's to say, and may change.

    Args:
        dispatcher: the job's.
        workers: what makes the requests.
        held_max: replies that are held at most while more targets are given.

    Raises:
        BaseException: what a worker has put into its answers.
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
    """Reports what there is, and waits at most so long for the first; gives how many."""
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
    # Also without any: what replies that are held say of the origin is told.
    dispatcher.report(found)
    if found:
        workers.on_reported(found)
    return len(found)
