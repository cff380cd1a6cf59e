"""A, "16 processes": an executor; a page at a time is submitted and waited for; a session a process.

As many processes as processors, at most `limit`. Waiting for a page bounds what is submitted, which `executor.map` does
not do: it takes all of its input first. But at the end of each page, and while the next one is listed, processes have
nothing to do; and each object is a message there and a message back.
"""

from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import ClassVar

import requests

from fetchmill_bench.child_processes import FORK, end_with_parent, processors
from fetchmill_bench.requests_client import download, pages
from fetchmill_bench.task import RequestCounter, Task


class _ChildSession:
    """What a process keeps open."""

    session: ClassVar[requests.Session]


def run(task: Task, counter: RequestCounter) -> None:
    """Pages, one after the other."""
    processes = min(processors(), task.limit)
    with ProcessPoolExecutor(processes, mp_context=FORK, initializer=_start) as executor:
        for page in pages(task):
            futures = [executor.submit(_download, task, name) for name in page]
            for future in as_completed(futures):
                counter.add(failed=int(not future.result()))


def _start() -> None:
    end_with_parent()
    _ChildSession.session = requests.Session()


def _download(task: Task, name: str) -> bool:
    return download(task, name, _ChildSession.session.get)
