"""A, "combined": pages go to processes, in which a thread reads the queue and an event loop downloads.

The parent only lists. This way uses one process per processor, but at most `limit` processes, which share the limit.
One message carries a page of a thousand objects, so the cost of a message is paid only once per page. The loop never
waits for the end of a page, because the thread has already read the next page. This is the best way in its table. It
needs processes, threads and a loop, with a limit on each queue between them.
"""

import asyncio
import threading
from typing import Any

import aiohttp
import uvloop

from fetchmill_bench.aiohttp_client import download, open_session
from fetchmill_bench.child_processes import FORK, Reports, end_with_parent, processors
from fetchmill_bench.requests_client import pages
from fetchmill_bench.task import RequestCounter, Task

# Pages per process: the current one, and one that is read ahead.
PAGES_MAX = 2
# Interval between a process's reports.
REPORT_SECONDS = 0.1


def run(task: Task, counter: RequestCounter) -> None:
    """Lists the objects, and waits for the processes."""
    processes = min(processors(), task.limit)
    queue: Any = FORK.Queue(PAGES_MAX * processes)
    reports = Reports(counter.add)
    shares = [len(range(number, task.limit, processes)) for number in range(processes)]
    children = [FORK.Process(target=_work, args=(task, share, queue, reports), daemon=True) for share in shares]
    for child in children:
        child.start()
    with reports:
        for page in pages(task):
            queue.put(page)
        for _ in children:
            queue.put(None)
        for child in children:
            child.join()
    if any(child.exitcode for child in children):
        raise RuntimeError("a process has died")


def _work(task: Task, limit: int, queue: Any, reports: Reports) -> None:  # noqa: ANN401 - no public type
    end_with_parent()
    uvloop.run(_Downloader(task, limit, reports).run(queue))


class _Downloader:
    """The event loop of a process."""

    def __init__(self, task: Task, limit: int, reports: Reports) -> None:
        self._task = task
        self._semaphore = asyncio.Semaphore(limit)
        self._reports = reports
        self._done = self._failed = 0

    async def run(self, queue: Any) -> None:  # noqa: ANN401
        """Downloads pages until there are no more."""
        names: asyncio.Queue[list[str] | None] = asyncio.Queue(1)
        reader = threading.Thread(target=_read, args=(queue, names, asyncio.get_running_loop()), daemon=True)
        reader.start()
        reporting = asyncio.create_task(self._report_often())
        async with open_session(self._task) as session, asyncio.TaskGroup() as tasks:
            while (page := await names.get()) is not None:
                for name in page:
                    await self._semaphore.acquire()
                    tasks.create_task(self._download(session, name))
        reporting.cancel()
        self._report()

    async def _download(self, session: aiohttp.ClientSession, name: str) -> None:
        is_fetched = await download(self._task, session, name)
        self._semaphore.release()
        self._done += 1
        self._failed += not is_fetched

    async def _report_often(self) -> None:
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            self._report()

    def _report(self) -> None:
        self._reports.put(self._done, self._failed)
        self._done = self._failed = 0


def _read(queue: Any, names: asyncio.Queue[list[str] | None], loop: asyncio.AbstractEventLoop) -> None:  # noqa: ANN401
    """Hands pages to the loop when it has room for them."""
    page: list[str] | None = []
    while page is not None:
        page = queue.get()
        asyncio.run_coroutine_threadsafe(names.put(page), loop).result()
