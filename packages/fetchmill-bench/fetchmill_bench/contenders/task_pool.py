"""C, "TaskPool": a semaphore that is acquired before a task is created, and released by the task's done callback.

It limits the number of tasks, not just the number of requests. `fetchmill.bounded.TaskPool` works in the same way, but
does not lose errors.
"""

import asyncio

from fetchmill.bounded import TaskPool
from fetchmill_bench.aiohttp_client import fetch, open_session
from fetchmill_bench.task import RequestCounter, Task


def run(task: Task, counter: RequestCounter) -> None:
    """Makes all requests in one loop."""
    asyncio.run(_fetch_all(task, counter))


async def _fetch_all(task: Task, counter: RequestCounter) -> None:
    async with open_session(task) as session, TaskPool(task.limit) as pool:
        for url in task.each_url():
            await pool.put(fetch(session, url, counter))
