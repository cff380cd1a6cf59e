"""Targets from the desk to the workers of an engine, and their answers back: what engines in one process share."""

import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from fetchmill.engines.answers import Answer

if TYPE_CHECKING:
    from fetchmill._native import Desk, Target

# How long the desk is asked to wait for targets when nothing is in flight.
PATIENCE_SECONDS = 0.25
# With something in flight the next look at the desk comes at the latest after this.
LOOK_SECONDS = 0.05
# What is in flight when the job is asked to stop may take so long.
DRAIN_SECONDS = 3.0
# Answers that are reported at once.
REPORT_MAX = 1024

# Answers as they come: one or more at a time, or what has ended the workers.
Answers = SimpleQueue[list[Answer] | BaseException]


def read_ahead(limit: int) -> int:
    """Targets that wait for a place while `limit` are fetched: workers need not wait for the desk."""
    return max(8, limit // 4)


def exchange(desk: "Desk", give: Callable[[list["Target"]], None], answers: Answers, most: int) -> None:
    """Gives targets to workers and reports their answers, until there are no more targets.

    Args:
        desk: the job's.
        give: hands targets to the workers; returns at once. Each target comes back as one answer.
        answers: where they come back.
        most: targets with the workers at most: this is the bound of what they hold.

    Raises:
        BaseException: what a worker has put into `answers`.
    """
    outstanding = 0
    while True:
        if outstanding < most:
            batch = desk.next_batch(most - outstanding, 0.0 if outstanding else PATIENCE_SECONDS)
            if batch is None:
                break
            if batch:
                outstanding += len(batch)
                give(batch)
        outstanding -= _report(desk, answers, LOOK_SECONDS if outstanding else 0.0)
    deadline = time.monotonic() + DRAIN_SECONDS
    while outstanding and time.monotonic() < deadline:
        outstanding -= _report(desk, answers, LOOK_SECONDS)


def _report(desk: "Desk", answers: Answers, seconds: float) -> int:
    """Reports what there is, and waits at most so long for the first; gives how many."""
    found: list[Answer] = []
    try:
        while len(found) < REPORT_MAX:
            some = answers.get_nowait() if found or not seconds else answers.get(timeout=seconds)
            if isinstance(some, BaseException):
                raise some
            found += some
    except Empty:
        pass
    if found:
        desk.report(found)
    return len(found)
