"""C, "TaskPool": a semaphore taken before the task is created, released by its done callback.

It limits the creation of tasks, not only requests. `fetchmill.bounded.TaskPool` is the same idea, and loses no error.
"""

import asyncio

from fetchmill.bench.awaiting import fetch, open_session
from fetchmill.bench.task import Tally, Task
from fetchmill.bounded import TaskPool


def run(task: Task, tally: Tally) -> None:
    """One loop."""
    asyncio.run(_fetch_all(task, tally))


async def _fetch_all(task: Task, tally: Tally) -> None:
    async with open_session(task) as session, TaskPool(task.limit) as pool:
        for url in task.each_url():
            await pool.put(fetch(session, url, tally))
