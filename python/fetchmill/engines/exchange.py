"""Moves targets from the dispatcher to an engine's workers and answers back: shared by all engines in one process."""

import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

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


def read_ahead(limit: int) -> int:
    """Targets that wait for a place while `limit` are fetched: workers need not wait for the dispatcher."""
    return max(8, limit // 4)


def exchange(
    dispatcher: "Dispatcher",
    add_targets: Callable[[list["Target"]], None],
    answers: AnswerQueue,
    most: Callable[[], int],
    on_reported: Callable[[list[Answer]], None] | None = None,
) -> None:
    """Gives targets to workers and reports their answers, until there are no more targets.

    Args:
        dispatcher: the job's.
        add_targets: gives targets to the workers; returns at once. Each target comes back as one answer.
        answers: where they come back; an empty list says that the workers may have more.
        most: targets with the workers at most, now: this is the bound of what they hold.
        on_reported: told of answers that the dispatcher has taken.

    Raises:
        BaseException: what a worker has put into `answers`.
    """
    outstanding = 0
    while True:
        if (wanted := most() - outstanding) > 0:
            batch = dispatcher.next_batch(wanted, 0.0 if outstanding else IDLE_WAIT_SECONDS)
            if batch is None:
                break
            if batch:
                outstanding += len(batch)
                add_targets(batch)
        outstanding -= _report(dispatcher, answers, POLL_SECONDS if outstanding else 0.0, on_reported)
    deadline = time.monotonic() + DRAIN_SECONDS
    while outstanding and time.monotonic() < deadline:
        outstanding -= _report(dispatcher, answers, POLL_SECONDS, on_reported)


def _report(
    dispatcher: "Dispatcher",
    answers: AnswerQueue,
    seconds: float,
    on_reported: Callable[[list[Answer]], None] | None,
) -> int:
    """Reports what there is, and waits at most so long for the first; gives how many."""
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
    if found and on_reported is not None:
        on_reported(found)
    return len(found)
