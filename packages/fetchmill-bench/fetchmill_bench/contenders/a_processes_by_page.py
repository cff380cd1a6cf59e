"""A, "16 processes": an executor that gets one page at a time and waits for it, with a session per process.

This way uses one process per processor, but at most `limit` processes. Waiting for each page limits the number of
submitted tasks. `executor.map` has no such limit, because it reads all of its input first. However, processes are idle
at the end of each page and while the next one is listed, and each object costs a message in each direction.
"""

from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import ClassVar

import requests

from fetchmill_bench.child_processes import FORK, end_with_parent, processors
from fetchmill_bench.requests_client import download, pages
from fetchmill_bench.task import RequestCounter, Task


class _ChildSession:
    """The open session of a process."""

    session: ClassVar[requests.Session]


def run(task: Task, counter: RequestCounter) -> None:
    """Hands pages to the executor one at a time."""
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
