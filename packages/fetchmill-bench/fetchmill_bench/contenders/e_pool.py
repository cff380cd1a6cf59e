"""E, "8 processes": `Pool.map` over all sites.

The sites are divided into equal chunks in advance. If a chunk has many dead hosts, all other processes wait for its
process, and there is no result before the last one is done. Answers are reported to the parent meanwhile, separately
from `map`.
"""

from typing import ClassVar

from fetchmill_bench.child_processes import FORK, Reports, end_with_parent
from fetchmill_bench.requests_client import classify
from fetchmill_bench.task import RequestCounter, Task

PROCESSES = 8


class _ChildTask:
    """Task and reports that a process gets at its start."""

    task: ClassVar[Task]
    reports: ClassVar[Reports]


def run(task: Task, counter: RequestCounter) -> None:
    """Passes all sites to the pool at once."""
    reports = Reports(counter.add_site)
    with FORK.Pool(PROCESSES, _start, (task, reports)) as pool, reports:
        pool.map(_classify, task.each_url())


def _start(task: Task, reports: Reports) -> None:
    end_with_parent()
    _ChildTask.task, _ChildTask.reports = task, reports


def _classify(url: str) -> None:
    _ChildTask.reports.put(url, classify(_ChildTask.task, url))
