"""A, "16 processes": an executor; a page at a time is submitted and waited for; a session a process.

As many processes as processors, at most `limit`. Waiting for a page bounds what is submitted, which `executor.map` does
not do: it takes all of its input first. But at the end of each page, and while the next one is listed, processes have
nothing to do; and each object is a message there and a message back.
"""

from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import ClassVar

import requests

from fetchmill.bench.blocking import download, pages
from fetchmill.bench.children import FORK, end_with_parent, processors
from fetchmill.bench.task import Tally, Task


class _Child:
    """What a process keeps open."""

    session: ClassVar[requests.Session]


def run(task: Task, tally: Tally) -> None:
    """Pages, one after the other."""
    processes = min(processors(), task.limit)
    with ProcessPoolExecutor(processes, mp_context=FORK, initializer=_start) as executor:
        for page in pages(task):
            futures = [executor.submit(_download, task, name) for name in page]
            for future in as_completed(futures):
                tally.add(failed=int(not future.result()))


def _start() -> None:
    end_with_parent()
    _Child.session = requests.Session()


def _download(task: Task, name: str) -> bool:
    return download(task, name, _Child.session.get)
