"""E, "8 processes": `Pool.map` over all sites.

The sites are divided into equal chunks in advance. If one chunk has many dead hosts, all other processes wait for the
process that works on it, and `map` returns no result until it is done. The processes therefore report answers to the
parent separately.
"""

from typing import ClassVar

from fetchmill_bench.child_processes import FORK, Reports, end_with_parent
from fetchmill_bench.requests_client import classify
from fetchmill_bench.task import RequestCounter, Task

PROCESSES = 8


class _ChildTask:
    """The task and the reports that a process gets when it starts."""

    task: ClassVar[Task]
    reports: ClassVar[Reports]


def run(task: Task, counter: RequestCounter) -> None:
    """Passes all sites to the pool in a single call."""
    reports = Reports(counter.add_site)
    with FORK.Pool(PROCESSES, _start, (task, reports)) as pool, reports:
        pool.map(_classify, task.each_url())


def _start(task: Task, reports: Reports) -> None:
    end_with_parent()
    _ChildTask.task, _ChildTask.reports = task, reports


def _classify(url: str) -> None:
    _ChildTask.reports.put(url, classify(_ChildTask.task, url))
