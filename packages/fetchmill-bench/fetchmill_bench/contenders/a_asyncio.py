"""A, "asyncio": one task per file, created during the listing. A semaphore limits requests, and a queue limits tasks.

A worker drains the bounded queue in the order in which tasks were created. The event loop is uvloop. Files are written
synchronously, which blocks the loop. This way shows that two limits are needed: with the semaphore alone, the listing
would create a billion tasks. One thread does everything, so only one processor is used.
"""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import uvloop

from fetchmill_bench.aiohttp_client import download, open_session
from fetchmill_bench.task import RequestCounter, Task

TASKS_MAX = 1000
Tasks = asyncio.Queue[asyncio.Task[bool] | None]


def run(task: Task, counter: RequestCounter) -> None:
    """Makes all requests in one loop."""
    uvloop.run(_download_all(task, counter))


async def _download_all(task: Task, counter: RequestCounter) -> None:
    semaphore = asyncio.Semaphore(task.limit)
    tasks: Tasks = asyncio.Queue(TASKS_MAX)
    drained = asyncio.create_task(_drain(tasks, counter))
    async with open_session(task) as session:
        async for name in _names(task, session):
            await tasks.put(asyncio.create_task(_download(task, session, semaphore, name)))
        await tasks.put(None)
        await drained


async def _names(task: Task, session: aiohttp.ClientSession) -> AsyncIterator[str]:
    left = task.count
    query: dict[str, str] = {}
    while left > 0:
        async with session.get(f"{task.url}/list", params=query, allow_redirects=False, raise_for_status=True) as reply:
            page = await reply.json(content_type=None)
        for name in page["FileNames"][:left]:
            yield name
        left -= len(page["FileNames"])
        if not page.get("NextMarker"):
            return
        query = {"next-marker": page["NextMarker"]}


async def _download(task: Task, session: aiohttp.ClientSession, semaphore: asyncio.Semaphore, name: str) -> bool:
    async with semaphore:
        return await download(task, session, name)


async def _drain(tasks: Tasks, counter: RequestCounter) -> None:
    while (task := await tasks.get()) is not None:
        is_fetched = await task
        counter.add(failed=int(not is_fetched))
