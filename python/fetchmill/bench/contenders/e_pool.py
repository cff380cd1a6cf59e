"""E, "8 processes": `Pool.map` over all sites.

The sites are cut into equal pieces beforehand: a process with many dead hosts in its piece is waited for by all others,
and nothing is known before the last one is done. What was answered is told to the parent meanwhile, beside `map`.
"""

from typing import ClassVar

from fetchmill.bench.blocking import classify
from fetchmill.bench.children import FORK, Reports, end_with_parent
from fetchmill.bench.task import Tally, Task

PROCESSES = 8


class _Child:
    """What a process was told at its start."""

    task: ClassVar[Task]
    reports: ClassVar[Reports]


def run(task: Task, tally: Tally) -> None:
    """All sites at once into the pool."""
    reports = Reports(tally.add_site)
    with FORK.Pool(PROCESSES, _start, (task, reports)) as pool, reports:
        pool.map(_classify, task.each_url())


def _start(task: Task, reports: Reports) -> None:
    end_with_parent()
    _Child.task, _Child.reports = task, reports


def _classify(url: str) -> None:
    _Child.reports.put(url, classify(_Child.task, url))
