"""C and D, "as_completed with a limit, polling": scans a list of running tasks, with `sleep(0)` in between.

Tasks are created when slots become free, so memory use is constant for any input. But the loop never sleeps. It checks
up to `limit` tasks over and over until one is done, and uses a whole processor even if nothing arrives.
"""

import asyncio
from collections.abc import Coroutine, Iterator
from itertools import islice
from typing import Any

from fetchmill_bench.aiohttp_client import fetch, open_session
from fetchmill_bench.task import RequestCounter, Task

Work = Coroutine[Any, Any, None]


def run(task: Task, counter: RequestCounter) -> None:
    """Makes all requests in one loop."""
    asyncio.run(_fetch_all(task, counter))


async def _fetch_all(task: Task, counter: RequestCounter) -> None:
    async with open_session(task) as session:
        for finished in _limited_as_completed((fetch(session, url, counter) for url in task.each_url()), task.limit):
            await finished


def _limited_as_completed(coroutines: Iterator[Work], limit: int) -> Iterator[Work]:
    running = [asyncio.ensure_future(each) for each in islice(coroutines, limit)]
    while running:
        yield _first_to_finish(running, coroutines)


async def _first_to_finish(running: list[asyncio.Task[None]], coroutines: Iterator[Work]) -> None:
    while True:
        await asyncio.sleep(0)
        for task in running:
            if task.done():
                running.remove(task)
                running.extend(asyncio.ensure_future(following) for following in islice(coroutines, 1))
                return task.result()
